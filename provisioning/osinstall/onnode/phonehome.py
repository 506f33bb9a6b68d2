"""Reports that this system is installed, with its host keys, until accepted; then removes itself. Python 3.8,
standard library only. The message is the same each time it is sent, so one whose answer was lost is known."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import shutil
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

FOLDER = "/etc/muster-firstboot"
UNIT = "/etc/systemd/system/muster-firstboot.service"
WANTED = "/etc/systemd/system/multi-user.target.wants/muster-firstboot.service"
FIRST_S, MOST_S = 2.0, 60.0
# Accepted; or the token is spent or over, and will not be accepted ever.
ENDS = (200, 410)


def text(path: Path) -> str:
    """A small file's text; empty where there is none."""
    try:
        with path.open() as file:
            return file.read(65536).strip()
    except (OSError, ValueError):
        return ""


def macs(root: str) -> list[str]:
    """Hardware addresses of all ports; a port of a bond shows the bond's, and its own in another file."""
    found: set[str] = set()
    for port in Path(root, "sys/class/net").glob("*"):
        found.add(text(port / "bonding_slave/perm_hwaddr") or text(port / "address"))
    return sorted(found - {"", "00:00:00:00:00:00"})


def host_keys(root: str) -> list[str]:
    """The public host keys, without their comments."""
    lines = (text(path).split()[:2] for path in Path(root, "etc/ssh").glob("ssh_host_*_key.pub"))
    return sorted(" ".join(words) for words in lines if len(words) == 2)


def message(settings: dict[str, Any], root: str) -> bytes:
    """The body: what of it changes nothing is sorted, so that it is the same each time."""
    return json.dumps({
        "schema": "muster.phonehome/1", "node": settings["node"], "number": settings["number"],
        "image": settings["image"], "macs": macs(root), "host_keys": host_keys(root)},
        sort_keys=True).encode()


def sent(settings: dict[str, Any], body: bytes) -> tuple[int, str]:
    """The status of the answer, and its text."""
    signature = hmac.new(bytes.fromhex(settings["token"]), body, hashlib.sha256).hexdigest()
    request = urllib.request.Request(settings["address"], body, {  # noqa: S310  (it is the head's)
        "Content-Type": "application/json", "Muster-Signature": signature})
    context = None
    if settings["address"].startswith("https:"):
        context = ssl.create_default_context(cadata=settings["authority"] or None)
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=30) as answer:
            return answer.status, answer.read(500).decode("ascii", "replace")
    except urllib.error.HTTPError as problem:
        return problem.code, problem.read(500).decode("ascii", "replace")
    except (OSError, ValueError) as problem:
        return 0, str(problem)


def removed(root: str) -> None:
    """The token goes first: whatever ends this in between, it is used no more."""
    for path in (FOLDER + "/settings.json", WANTED, UNIT):
        with contextlib.suppress(FileNotFoundError):
            Path(root + path).unlink()
    shutil.rmtree(root + FOLDER, ignore_errors=True)


def main(root: str = "") -> int:
    """Sends until it is answered for good; the exit code."""
    with Path(root + FOLDER + "/settings.json").open() as file:
        settings = json.load(file)
    pause = FIRST_S
    while True:
        if not host_keys(root):
            status, answer = 0, "there are no SSH host keys yet"
        else:
            status, answer = sent(settings, message(settings, root))
        print(f"muster-firstboot: {status} {answer.strip()[:200]}", flush=True)  # noqa: T201  (the journal)
        if status in ENDS:
            removed(root)
            return 0
        time.sleep(pause)
        pause = min(MOST_S, pause * 1.5)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
