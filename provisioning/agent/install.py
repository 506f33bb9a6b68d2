"""Installs, rolls back and removes the agent on nodes, and asks for its status: one exec a node. What is the
same on all nodes is sent once asked for, so a node that has it already gets a few kilobytes; what is meant
for one node is named on its command line, as `Node.words` are."""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Any

from healthcheck.collector import joined
from healthcheck.collector.loader import LOADER, payload
from healthcheck.model.agentfault import NOTE
from healthcheck.model.places import METRICS, RESULT, STATE, TEXTFILE_FOLDERS
from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import Limits, Program, Transport
from inventory.transport.deadline import bounded
from provisioning.agent import units
from provisioning.agent.bundle import Bundle
from provisioning.agent.layout import BASE, CODE, FILES, NODE, PERIOD_S, RULES, command, exporter

_FOLDER = Path(__file__).with_name("onnode")
_PARTS = tuple(_FOLDER / f"{name}.py" for name in ("files", "machine", "starts", "operations"))
_MOST = 4 << 20
_NODE_S = 120.0


class AgentAction(Enum):
    """What is asked of nodes."""

    INSTALL = "install"
    UPGRADE = "upgrade"
    ROLLBACK = "rollback"
    UNINSTALL = "uninstall"
    STATUS = "status"


@dataclass(frozen=True)
class AgentRequest:
    """What is asked, and how. `textfile` None: node_exporter's folder if there; empty: none. `exporter` is
    where the node's own listens, None for none. `root` is another root, for tests. With `hurry` a status has
    systemd run an agent without a result of the version in use."""

    do: AgentAction
    dry: bool = False
    period: float = PERIOD_S
    occasion: str = "timer"
    textfile: str | None = None
    keep_state: bool = False
    default_sku: str | None = None
    root: str = ""
    exporter: str | None = None
    hurry: bool = False


@dataclass(frozen=True)
class AgentResult:
    """What became of it on one node, in a line, all that it said, and what it `changed`."""

    node: str
    ok: bool
    message: str
    changed: tuple[str, ...] = ()
    report: Mapping[str, Any] = field(default_factory=dict)


def act(
    nodes: Sequence[Node], transport: Transport, desired: AgentRequest, limits: Limits,
    bundle: Bundle | None = None, helped: Sequence[Node] = (),
) -> Iterator[AgentResult]:
    """Does it on every node, and yields what became of it, as it is known. Installs and upgrades need the
    bundle; the nodes of `helped` get the root-owned helper. Closing the iterator drops the connections; a
    node that has all it needs goes on."""
    document: dict[str, Any] = {
        "do": desired.do.value, "dry": desired.dry, "root": desired.root, "base": BASE, "state": STATE,
        "names": FILES, "result": RESULT, "metrics": METRICS, "note": NOTE, "textfile": desired.textfile,
        "textfiles": TEXTFILE_FOLDERS, "keep_state": desired.keep_state, "hurry": desired.hurry,
        "units": units.units(desired.period),
        "cron": (units.CRON, units.cron(desired.period)), "command": command()[1:], "shared": {},
        "helper": None, "exporting": exporter()[1:],
        "exporter": (units.EXPORTER, None if desired.exporter is None else units.exporter(desired.exporter))}
    extras: dict[str, bytes] = {}
    if bundle is not None:
        for name, data in ((CODE, bundle.code), (RULES, bundle.rules)):
            document["shared"][name] = (name, sha256(data).hexdigest())
            extras[name] = zlib.compress(data, 9)
        if helped:
            path, text = _helper()
            document["helper"] = (path, sha256(text).hexdigest())
            extras["helper"] = zlib.compress(text, 9)
    each = {}
    for node in nodes:
        late = str(units.delay(node.name, desired.period))
        words = ("-", "-", late)
        if bundle is not None:
            files = bundle.of(node, default_sku=desired.default_sku, period=desired.period,
                              occasion=desired.occasion, textfile=desired.textfile, exporter=desired.exporter)
            own = files.files[NODE]
            name = f"node.{sha256(own).hexdigest()[:32]}"
            extras[name] = zlib.compress(own)
            words = (files.digest, name, late)
        each[node.name] = words
    sent = payload(joined.joined(_PARTS).encode(), json.dumps(document).encode())
    for reply in transport.run(nodes, Program(secrets.token_hex(8), LOADER, sent, extras, each), limits):
        if reply.failure is not None:
            yield AgentResult(reply.node, False, f"{reply.failure.stage.value}: {reply.failure.reason}")
        else:
            yield _done(reply.node, reply.body or b"")


def bounds(nodes: Sequence[Node], timeout: float | None, fanout: int) -> Limits:
    """The transport's limits: two minutes for a node beyond its own limits, and as many turns as needed."""
    node = _NODE_S if timeout is None else min(_NODE_S, timeout)
    return bounded(nodes, Limits(node_s=node, reply_bytes=_MOST, fanout=fanout), timeout)


def _done(node: str, body: bytes) -> AgentResult:
    """What a node answered, which may be anything."""
    try:
        machine = zlib.decompressobj()
        report = json.loads(machine.decompress(body, _MOST))
        return AgentResult(node, report["ok"] is True, clean(report["message"]),
                           tuple(clean(one, 80) for one in report["changed"][:20]), report)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, zlib.error):
        return AgentResult(node, False, "its answer cannot be read")


def _helper() -> tuple[str, bytes]:
    from healthcheck.collector import helper
    from healthcheck.sweep.rootprobes import root_probes

    return helper.path(), helper.program(root_probes()).encode()
