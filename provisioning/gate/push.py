"""Sends nodes the trusted keys, the source to fetch from, and the snapshot: one exec a node. They verify it
as if they had fetched it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import healthcheck
from healthcheck.collector import joined
from healthcheck.collector.loader import LOADER, payload
from inventory.model import Node
from inventory.text import clean
from inventory.transport import answer
from inventory.transport.base import Limits, Program, Transport

_OURS = Path(healthcheck.__file__).parent
# Each after those that it needs.
_PARTS = (_OURS / "config" / "synced.py",
          *(_OURS / "certify" / f"{name}.py" for name in ("ed25519", "sshsig", "pair")),
          *(_OURS / "gate" / f"{name}.py" for name in ("reading", "snapshot", "fetch")),
          Path(__file__).with_name("onnode.py"))
_MOST = 64 * 1024


@dataclass(frozen=True)
class Pushed:
    """What became of it on one node, in a line."""

    node: str
    ok: bool
    message: str


def push(
    nodes: Sequence[Node], transport: Transport, limits: Limits, *, keys: str | None = None,
    source: str | None = None, snapshot: tuple[bytes, bytes] | None = None, root: str = "",
) -> Iterator[Pushed]:
    """Does it on every node, and yields what became of it, each as soon as it is known. `keys` are lines of
    allowed_signers, `source` a line for /etc/muster/gate.from, `snapshot` the document and its signature.
    `root` is another root folder on the nodes, for tests."""
    data, signature = snapshot if snapshot is not None else (None, None)
    request = {
        "root": root, "keys": keys, "source": source, "data": data.decode() if data is not None else None,
        "signature": signature.decode() if signature is not None else None}
    sent = payload(joined.joined(_PARTS).encode(), json.dumps(request).encode())
    for reply in transport.run(nodes, Program(secrets.token_hex(8), LOADER, sent), limits):
        if reply.failure is not None:
            yield Pushed(reply.node, False, f"{reply.failure.stage.value}: {reply.failure.reason}")
        else:
            yield answered(reply.node, reply.body or b"")


def answered(node: str, body: bytes) -> Pushed:
    """What a node answered, which may be anything."""
    try:
        reply = answer.document(body, _MOST)
        return Pushed(node, reply["ok"] is True, clean(reply["message"]))
    except answer.UNREADABLE:
        return Pushed(node, False, "its answer cannot be read")
