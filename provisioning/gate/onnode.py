"""What runs on a node: it trusts the keys that came over the transport, keeps where to fetch from, and
keeps the snapshot. Python 3.8."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import zlib
from typing import BinaryIO

from healthcheck.certify.pair import replace_synced
from healthcheck.gate.fetch import SOURCE, keep
from healthcheck.gate.snapshot import FOLDER, SEEN, TRUSTED, SnapshotRefused


def do_push(request: dict[str, str | None]) -> str:
    """Does it, and says in words what became of it; raises Refused, OSError."""
    root = request["root"] or ""
    message = []
    os.makedirs(root + os.path.dirname(TRUSTED), 0o755, exist_ok=True)
    # That we may write here as root is what a node's trust in a key rests on.
    for path, text in ((TRUSTED, request["keys"]), (SOURCE, request["source"])):
        if text:
            replace_synced(root + path, text.encode(), 0o644)
            message.append(path)
    if request["keys"] and os.path.exists(seen := os.path.join(root + FOLDER, SEEN)):
        # Whoever says whom to trust says which cluster this is. What a trusted key has signed and is kept
        # here is no older still.
        os.unlink(seen)
    if request["data"] is not None and request["signature"] is not None:
        message.append(
            keep(request["data"].encode(), request["signature"].encode(), root + FOLDER, root + TRUSTED))
    return ", ".join(message) or "nothing to do"


def main(nonce: str, request: bytes, source: BinaryIO) -> None:
    """Does what is asked, and answers in one frame."""
    os.umask(0o022)
    try:
        document = json.loads(request)
        if os.geteuid() and not document["root"]:
            raise SnapshotRefused("this needs root here: log in as root, or go through sudo with --become or "
                                  "`privilege: become` in the inventory")
        ok, message = True, do_push(document)
    except (SnapshotRefused, OSError) as error:
        ok, message = False, str(error)
    body = zlib.compress(json.dumps({"ok": ok, "message": message}).encode())
    sys.stdout.write(f"muster:{nonce}:frame {len(body)} {hashlib.sha256(body).hexdigest()}\n")
    sys.stdout.flush()
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
