"""Sets ports with ibportstate on a node that sees the fabric, over the usual transport; reads back with
iblinkinfo, which goes by directed routes, too, and so sees past tables that lead to a port that is off."""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from healthcheck.collector import joined
from healthcheck.collector.loader import LOADER, payload
from healthcheck.subnet.model import FabricEnd, Subnet
from healthcheck.subnet.routes import direct_route
from healthcheck.sweep import fabricoutput
from inventory.errors import UsageError
from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import Limits, Program, Reply, Stage, Transport
from inventory.transport.deadline import bounded
from provisioning.fabric.route import PortAnswer, PortTarget

_PARTS = (Path(__file__).with_name("onnode") / "operations.py",)
_MOST = 1 << 20
_NODE_S = 165.0     # connecting, and six tools that are killed after 20 s each
# Nothing of ours has run there.
_NOT_BEGUN = (Stage.RESOLVE, Stage.CONNECT, Stage.HOST_KEY, Stage.AUTH, Stage.LOGIN, Stage.BECOME,
              Stage.PYTHON, Stage.TURN)


@dataclass(frozen=True)
class NodePorts:
    """A `PortRoute` by a node and its RDMA devices, one for each plane ("" for the tools' choice).
    `environment` is more of one for the tools, in tests."""

    node: Node
    transport: Transport
    devices: Sequence[str] = ("",)
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def name(self) -> str:
        """See `PortRoute.name`."""
        return f"ibportstate on {self.node.name}"

    def look(self) -> tuple[Subnet, ...]:
        """See `PortRoute.look`. Raises UsageError where the node is not reached."""
        return tuple(output.subnet() for output in fabricoutput.ask(
            self.node, self.transport, self.devices, fabricoutput.LINKS))

    def set(self, target: PortTarget, *, enable: bool, seen: Subnet) -> PortAnswer:
        """See `PortRoute.set`."""
        said = self._asked({"do": "who", "device": target.plane})
        own = _own(said)
        if own is None:
            return PortAnswer(False, _words(said, "its own port in this subnet was not read"))
        route = direct_route(seen, own, target.end.guid, target.end)
        if route is None:
            return PortAnswer(False, f"no way from {self.node.name} to 0x{target.end.guid} was seen beside "
                              "the link itself")
        request = {"do": "set", "device": target.plane, "route": ",".join(map(str, route)),
                   "guid": target.end.guid, "port": target.end.number,
                   "peer": [target.peer.guid, target.peer.number],
                   "operation": "enable" if enable else "disable"}
        found = self._asked(request)
        done = found.get("ok")
        return PortAnswer(done if isinstance(done, bool) else None, _words(found, ""))

    def _asked(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The node's answer, or that it gave none: `ok` is False where our program certainly did not run."""
        document = {**request, "environment": dict(self.environment)}
        program = Program(secrets.token_hex(8), LOADER,
                          payload(joined.joined(_PARTS).encode(), json.dumps(document).encode()))
        # One try: who is to set a port once is not asked twice, even where the first seems not to have begun.
        limits = bounded([self.node], Limits(node_s=_NODE_S, reply_bytes=_MOST, fanout=1, twice=False), None)
        (reply,) = self.transport.run([self.node], program, limits)
        if reply.failure is None:
            return _document(reply)
        # One that got stuck on the way never ran our program.
        never = reply.failure.stage in _NOT_BEGUN or reply.failure.stuck is not None
        return {"ok": False if never else None,
                "message": f"{self.node.name}: {reply.failure.stage.value}: {reply.failure.reason}"}


def one_node(nodes: Sequence[Node], asked: str) -> Node:
    """The node by which ports are set. Raises UsageError where it is not one."""
    if len(nodes) != 1:
        raise UsageError(f"--by {clean(asked, 60)}: names {len(nodes)} nodes, expected one that sees the "
                         "fabric")
    return nodes[0]


def _document(reply: Reply) -> Mapping[str, Any]:
    """What a node answered, which may be anything."""
    try:
        found = json.loads(zlib.decompressobj().decompress(reply.body or b"", _MOST))
    except (ValueError, RecursionError, zlib.error):
        return {}
    return found if isinstance(found, dict) else {}


def _own(found: Mapping[str, Any]) -> FabricEnd | None:
    guid, number = found.get("guid"), found.get("number")
    if found.get("ok") is not True or not isinstance(guid, str) or type(number) is not int:
        return None
    return FabricEnd(guid, number)


def _words(found: Mapping[str, Any], otherwise: str) -> str:
    message = found.get("message")
    return clean(message, 300) if isinstance(message, str) and message else otherwise
