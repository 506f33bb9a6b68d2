"""The containerd facts, for nodes that run containers without Docker: whether it answers, and whether it is
ready for a kubelet.

Both clients are given the node's own socket. `ctr version` prints the server's version below "Server:"
(containerd, cmd/ctr/commands/ version); `crictl info` prints the runtime's StatusResponse of the CRI
(kubernetes-sigs/cri-tools, docs/crictl.md; cri-api RuntimeCondition: RuntimeReady and NetworkReady).
"""

from __future__ import annotations

import json
import re
from typing import Any

from healthcheck.facts.base import Captures, fact, why
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Outcome
from inventory.text import clean

SOCKET = "/run/containerd/containerd.sock"
VERSION = Probe(
    "containerd.version", ProbeKind.COMMAND,
    argv=("ctr", "--address", SOCKET, "--connect-timeout", "5s", "--timeout", "5s", "version"),
    seconds=10.0, root=True)
CRI = Probe(
    "containerd.cri", ProbeKind.COMMAND,
    argv=("crictl", "--runtime-endpoint", f"unix://{SOCKET}", "--timeout", "5s", "info"), seconds=10.0,
    root=True)


class Containerd(Fact):
    """The containerd daemon. `answers` is False, with the client's message in `trouble`, when it could not be
    reached."""

    name: str
    answers: bool
    trouble: str
    version: str


class CriReady(Fact):
    """What the runtime reports to a kubelet: whether it and its network are ready, and its messages where
    not."""

    name: str
    runtime: bool
    network: bool
    words: tuple[str, ...]


_SERVER = re.compile(r"(?m)^Server:\n(?:[ \t]+.*\n)*?[ \t]+Version:[ \t]+(\S{1,100})[ \t]*$")


@fact("containerd", VERSION)
def containerd(captures: Captures) -> Containerd:
    """What containerd's client reports of the daemon; UNSUPPORTED where the client is not installed."""
    capture = captures.capture(VERSION)
    gone: Any = UNSUPPORTED
    if capture is not None and capture.outcome is Outcome.MISSING:
        return Containerd("containerd", answers=gone, trouble="", version=gone)
    if capture is None or capture.outcome is not Outcome.DONE:
        raise Unread(why(VERSION, capture))
    error = next((line for line in reversed(capture.stderr.splitlines()) if line.strip()), "")
    if capture.exit != 0:
        if "permission denied" in error.lower() or not error:
            raise Unread("ctr: permission denied on containerd's socket (needs root)"
                         if error else why(VERSION, capture))
        return Containerd("containerd", False, clean(error.removeprefix("ctr: "), 300), version=gone)
    match = _SERVER.search(capture.text)
    if match is None:
        raise Unread("ctr version names no server, so no daemon is known to have answered")
    return Containerd("containerd", True, "", clean(match[1], 100))


@fact("cri_ready", CRI)
def cri_ready(captures: Captures) -> CriReady:
    """The two conditions that a kubelet asks for; UNSUPPORTED where crictl is not installed."""
    capture = captures.capture(CRI)
    gone: Any = UNSUPPORTED
    if capture is not None and capture.outcome is Outcome.MISSING:
        return CriReady("CRI", gone, gone, ())
    if capture is not None and capture.outcome is Outcome.DONE and capture.exit not in (0, None):
        raise Unread(why(CRI, capture), ("containerd",))
    try:
        document = json.loads(captures.text(CRI))
    except RecursionError:
        document = None
    status = document.get("status") if isinstance(document, dict) else None
    conditions = status.get("conditions") if isinstance(status, dict) else None
    if not isinstance(conditions, list):
        raise Unread("crictl info holds no status.conditions")
    found = {str(each.get("type")): each for each in conditions if isinstance(each, dict)}
    words = tuple(clean(f"{kind}: {each.get('reason') or ''} {each.get('message') or ''}", 200)
                  for kind, each in found.items() if each.get("status") is not True)
    return CriReady("CRI", _condition(found, "RuntimeReady"), _condition(found, "NetworkReady"), words[:4])


def _condition(found: dict[str, Any], kind: str) -> Any:
    value = found.get(kind, {}).get("status")
    return value if isinstance(value, bool) else Unmeasured(f"crictl info does not say {kind}")
