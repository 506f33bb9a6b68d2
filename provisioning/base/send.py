"""Has nodes check or apply their base configuration, or report identity: one program a node."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from healthcheck.collector import joined
from healthcheck.collector.loader import LOADER, payload
from inventory.model import Node
from inventory.transport.base import Limits, Program, Transport
from inventory.transport.deadline import bounded
from provisioning.agent import onnode
from provisioning.base.desired import BaseSettings
from provisioning.base.identity import NodeIdentity, who
from provisioning.base.report import MOST, BaseReport, read

_HERE = Path(__file__).with_name("onnode")
_FILES, _ANSWER = Path(onnode.__file__).with_name("files.py"), _HERE / "answer.py"
_CHECK_PARTS = (_FILES, _ANSWER,
         *(_HERE / f"{name}.py" for name in ("item", "system", "settings", "devices", "operations")))
_WHO = (_FILES, _ANSWER, _HERE / "whoami.py")
_CHECK_S, _MAKE_S, _WHO_S = 60.0, 240.0, 45.0


def look(
    nodes: Sequence[Node], transport: Transport, desired: BaseSettings, *, fanout: int = 64,
    seconds: float | None = None, root: str = "", fixed: Collection[str] = (),
) -> Iterator[BaseReport]:
    """How each node's base configuration stands; changes nothing. The host name of `fixed` nodes is not to be
    changed; `root` is another root folder, for tests."""
    return _sent(nodes, transport, desired, False, _limits(nodes, _CHECK_S, fanout, seconds), root, fixed)


def make(
    nodes: Sequence[Node], transport: Transport, desired: BaseSettings, *, fanout: int = 64,
    seconds: float | None = None, root: str = "", fixed: Collection[str] = (),
) -> Iterator[BaseReport]:
    """Makes so what differs, and tells how it stands then. Who is cut off leaves whole files."""
    return _sent(nodes, transport, desired, True, _limits(nodes, _MAKE_S, fanout, seconds), root, fixed)


def identify(nodes: Sequence[Node], transport: Transport, *, fanout: int = 64) -> Iterator[NodeIdentity]:
    """Which machine answers by each of these names."""
    program = Program(secrets.token_hex(8), LOADER, payload(joined.joined(_WHO).encode(), b"{}"))
    for reply in transport.run(nodes, program, _limits(nodes, _WHO_S, fanout, None)):
        yield who(reply)


def _sent(
    nodes: Sequence[Node], transport: Transport, desired: BaseSettings, making: bool, limits: Limits,
    root: str, fixed: Collection[str],
) -> Iterator[BaseReport]:
    request = {"make": making, "root": root, "desired": desired.document}
    words: Mapping[str, tuple[str, ...]] = {
        node.name: ("fixed" if node.name in fixed else "free", node.name) for node in nodes}
    program = Program(
        secrets.token_hex(8), LOADER,
        payload(joined.joined(_CHECK_PARTS).encode(), json.dumps(request).encode()), words=words)
    for reply in transport.run(nodes, program, limits):
        yield read(reply, desired.clock_seconds)


def _limits(nodes: Sequence[Node], node_s: float, fanout: int, seconds: float | None) -> Limits:
    return bounded(nodes, Limits(node_s=min(node_s, seconds or node_s), reply_bytes=MOST, fanout=fanout),
                   seconds)
