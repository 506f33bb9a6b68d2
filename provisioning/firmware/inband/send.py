"""Sends the program to nodes: to look with their tools, to have a payload written, and to learn what became
of that; over the usual transport, one program a node."""

from __future__ import annotations

import json
import math
import secrets
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
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
from provisioning.bringup.policy.model import UpdateRoute
from provisioning.firmware.inband import fwupd, mlxfwmanager
from provisioning.firmware.inband.device import MOST_DEVICES, BandDevice, ToolOutputError

_PARTS = (Path(__file__).parents[1] / "onnode" / "operations.py",)
_MOST = 32 << 20
_WAY_S = 45.0       # for connecting, logging in and coming back
_LOOK_S = 120.0     # beside others; a tool that hangs is killed there after 60 s
_SETTLE_S = 20.0
# Nothing of ours has run there.
_NOT_BEGUN = (Stage.RESOLVE, Stage.CONNECT, Stage.HOST_KEY, Stage.AUTH, Stage.LOGIN, Stage.BECOME,
              Stage.PYTHON, Stage.TURN, Stage.LEASE)
# Nor where this machine or one on the way failed before the program had begun.
_ON_THE_WAY = (Stage.HEAD, Stage.JUMP)


@dataclass(frozen=True)
class BandPlace:
    """Where the program works: another root folder and more of an environment, for tests."""

    root: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


ALL_OF_IT = BandPlace()


@dataclass(frozen=True)
class NodeReading:
    """What the tools of one node reported. `devices` is by tool; in `lost` is why others reported none. `up`
    is the machine's seconds since boot; None, and `failure`, where it did not answer."""

    node: str
    devices: Mapping[UpdateRoute, tuple[BandDevice, ...]]
    lost: Mapping[UpdateRoute, str]
    up: float | None
    failure: str = ""


@dataclass(frozen=True)
class BandAnswer:
    """What became of an update on a node: `done` is None where that is not known, `running` while the tool
    is at work there. `never`: it was not begun there, and will not be."""

    done: bool | None
    message: str
    running: bool = False
    never: bool = False


@dataclass(frozen=True)
class BandOrder:
    """What a node is to have written: by which tool, to which devices, the payload and its SHA-256. `key`
    is its name there, which is never used for another."""

    key: str
    tool: UpdateRoute
    devices: tuple[str, ...]
    name: str
    data: bytes
    sha256: str


def look(
    nodes: Sequence[Node], tools: Collection[UpdateRoute], transport: Transport, fanout: int,
    place: BandPlace = ALL_OF_IT,
) -> Iterator[NodeReading]:
    """Asks the tools of these nodes what runs. Changes nothing."""
    request = {"do": "read", "tools": [one.value for one in tools]}
    limits = _limits(nodes, _LOOK_S, fanout, twice=True)
    for reply in transport.run(nodes, _program(request, place), limits):
        yield _looked(reply, tools)


def install(
    node: Node, order: BandOrder, transport: Transport, seconds: float, place: BandPlace = ALL_OF_IT,
) -> BandAnswer:
    """Has one node write it, and waits for that for so long."""
    request = {"do": "install", "key": order.key, "tool": order.tool.value, "devices": order.devices,
               "name": order.name, "sha256": order.sha256, "limit": seconds}
    program = _program(request, place, {"payload": zlib.compress(order.data, 1)})
    # One try: who is to write once is not asked twice, even where the first seems not to have begun.
    (reply,) = transport.run([node], program, _limits([node], seconds + _SETTLE_S, 1, twice=False))
    return answered(reply)


def settle(node: Node, key: str, transport: Transport, place: BandPlace = ALL_OF_IT) -> BandAnswer:
    """What became of an order; one that has not begun by now never will."""
    (reply,) = transport.run([node], _program({"do": "settle", "key": key}, place),
                             _limits([node], _SETTLE_S, 1, twice=False))
    found = answered(reply)
    # That this question did not arrive says nothing of the order.
    return found if reply.failure is None else BandAnswer(None, found.message)


def _program(
    request: Mapping[str, Any], place: BandPlace, extras: Mapping[str, bytes] | None = None,
) -> Program:
    document = {**request, "root": place.root, "environment": dict(place.environment)}
    return Program(secrets.token_hex(8), LOADER,
                   payload(joined.joined(_PARTS).encode(), json.dumps(document).encode()),
                   extras=extras or {})


def _limits(nodes: Sequence[Node], work_s: float, fanout: int, *, twice: bool) -> Limits:
    return bounded(nodes, Limits(node_s=_WAY_S + work_s, reply_bytes=_MOST, fanout=fanout, twice=twice), None)


def answered(reply: Reply) -> BandAnswer:
    """What a node answered of an order, which may be anything."""
    if reply.failure is not None:
        # One that got stuck on the way never ran our program.
        stage = reply.failure.stage
        never = (stage in _NOT_BEGUN or reply.failure.stuck is not None
                 or (stage in _ON_THE_WAY and reply.python is None))
        return BandAnswer(False if never else None,
                          clean(f"{reply.failure.stage.value}: {reply.failure.reason}", 300), never=never)
    found = _document(reply)
    done = found.get("ok")
    return BandAnswer(done if isinstance(done, bool) else None,
                      _why(found.get("message")),
                      found.get("running") is True, found.get("never") is True and done is False)


def _looked(reply: Reply, tools: Collection[UpdateRoute]) -> NodeReading:
    if reply.failure is not None:
        return NodeReading(reply.node, {}, {}, None,
                        clean(f"{reply.failure.stage.value}: {reply.failure.reason}", 300))
    found = _document(reply)
    up, said = found.get("up"), found.get("tools")
    if not isinstance(up, float) or not 0 <= up < math.inf or not isinstance(said, dict):
        return NodeReading(reply.node, {}, {}, None, _why(found.get("message")))
    devices: dict[UpdateRoute, tuple[BandDevice, ...]] = {}
    lost: dict[UpdateRoute, str] = {}
    for tool in tools:
        try:
            devices[tool] = _devices(tool, said.get(tool.value))
        except ToolOutputError as error:
            lost[tool] = clean(str(error), 300)
    return NodeReading(reply.node, devices, lost, up)


def _why(said: Any) -> str:
    return clean(said, 300) if isinstance(said, str) and said.strip() else "its answer cannot be read"


def _devices(tool: UpdateRoute, said: Any) -> tuple[BandDevice, ...]:
    """Raises ToolOutputError with why the tool reported nothing."""
    if not isinstance(said, dict):
        raise ToolOutputError("its answer cannot be read")
    if isinstance(missing := said.get("missing"), str):
        raise ToolOutputError(missing)
    outputs = said.get("outputs")
    if not isinstance(outputs, dict):
        raise ToolOutputError("its answer cannot be read")
    if tool is UpdateRoute.FWUPD:
        text, why = _text(outputs.get(""))
        if not text:
            raise ToolOutputError(f"fwupdmgr: {why}")
        try:
            return fwupd.devices(text)
        except ToolOutputError as error:
            raise ToolOutputError(f"fwupdmgr: {error}") from None
    return tuple(_adapter(pci, output) for pci, output in islice(outputs.items(), MOST_DEVICES))


def _adapter(pci: str, output: Any) -> BandDevice:
    """One adapter; that it cannot be read keeps no other from being read."""
    text, why = _text(output)
    try:
        if not text:
            raise ToolOutputError(f"mlxfwmanager: {why}")
        return mlxfwmanager.device(pci, text)
    except ToolOutputError as error:
        return BandDevice(pci, f"hca {clean(pci.lower(), 40)}", "hca", None, clean(str(error), 120))


def _text(output: Any) -> tuple[str, str]:
    """What a tool printed, "" for nothing, and why that may be."""
    found = output if isinstance(output, dict) else {}
    text, why = found.get("text"), found.get("why")
    return (text if isinstance(text, str) else "",
            clean(why, 200) if isinstance(why, str) and why else "it said nothing")


def _document(reply: Reply) -> dict[str, Any]:
    try:
        found = answer.document(reply.body, _MOST)
    except answer.UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}
