"""Asks a node which boot it is in, and has it restart: one program a node, over the usual transport."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from healthcheck.collector import joined
from healthcheck.collector.loader import LOADER, payload
from inventory.model import Node
from inventory.text import clean
from inventory.transport import answer
from inventory.transport.base import Limits, Program, Reply, Stage, Transport
from inventory.transport.deadline import bounded
from provisioning.agent import onnode as agent
from provisioning.base import onnode as base

_PARTS = (Path(agent.__file__).with_name("files.py"), Path(base.__file__).with_name("answer.py"),
          Path(__file__).with_name("onnode") / "bootreading.py")
_MOST = 2 << 20
_NODE_S = 60.0
# Nothing of ours has run there. Of others from which nothing came back, it is not known.
_NOT_BEGUN = (Stage.RESOLVE, Stage.CONNECT, Stage.HOST_KEY, Stage.AUTH, Stage.LOGIN, Stage.BECOME,
              Stage.PYTHON, Stage.TURN)


@dataclass(frozen=True)
class BootReading:
    """What a node says of its boot: its id ("" where it was not reached, and `message` says why), for how
    many seconds it is up, memory in kB, processors, and by PCI address class, ids, link width and speed.
    `stage` is where its answer was lost, None where it has said itself why there is none."""

    boot: str = ""
    uptime: float = 0.0
    memory: int | None = None
    cpus: int | None = None
    pci: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    message: str = ""
    stage: Stage | None = None


def look(node: Node, transport: Transport) -> BootReading:
    """How its boot stands."""
    return _read(_sent(node, transport, ""))


def restart(node: Node, transport: Transport, boot: str) -> tuple[bool | None, str]:
    """Restarts it if this is its boot: whether it was asked to, None where unknown; and what was said."""
    reply = _sent(node, transport, boot)
    if reply.failure is not None:
        begun = reply.failure.stage not in _NOT_BEGUN
        return None if begun else False, clean(f"{reply.failure.stage.value}: {reply.failure.reason}", 300)
    found = _read(reply)
    if found.stage is not None:     # it may have gone down while it answered
        return None, found.message
    return found.message == "", found.message or "it restarts"


def _sent(node: Node, transport: Transport, boot: str) -> Reply:
    program = Program(secrets.token_hex(8), LOADER, payload(
        joined.joined(_PARTS).encode(), json.dumps({"restart": boot}).encode()))
    limits = bounded([node], Limits(node_s=_NODE_S, reply_bytes=_MOST, fanout=1, twice=False), None)
    (reply,) = transport.run([node], program, limits)
    return reply


def _read(reply: Reply) -> BootReading:
    if reply.failure is not None:
        return BootReading(message=clean(f"{reply.failure.stage.value}: {reply.failure.reason}", 300),
                        stage=reply.failure.stage)
    try:
        report = answer.document(reply.body, _MOST)
        if report["ok"] is not True:
            return BootReading(message=clean(report["message"], 300) or "it says no reason")
        uptime, boot = float(report["uptime"]), clean(report["boot"], 64)
        if not math.isfinite(uptime) or uptime < 0 or not boot:
            raise ValueError
        pci = {clean(at, 20): tuple(clean(one, 40) for one in values[:5])
               for at, values in report["pci"].items()}
        return BootReading(boot, uptime, _whole(report["memory"]), _whole(report["cpus"]), pci)
    except answer.UNREADABLE:
        return BootReading(message="its answer cannot be read", stage=Stage.REPLY)


def _whole(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None
