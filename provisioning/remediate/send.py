"""Sends one step to nodes as one program; and asks what became of one that another began."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from healthcheck.collector import joined
from healthcheck.collector.loader import LOADER, payload
from healthcheck.triage.remediation import RemediationStep
from inventory.model import Node
from inventory.text import clean
from inventory.transport import answer
from inventory.transport.base import Limits, Program, Stage, Transport
from inventory.transport.deadline import bounded
from provisioning.remediate.steps import SPECS

_PARTS = tuple(Path(__file__).with_name("onnode") / f"{name}.py" for name in ("table", "operations"))
_MOST = 1 << 20
_WAY_S = 45.0           # for connecting, logging in and coming back
_WAIT_S = 5.0           # for another step on that node to end
SETTLE_S = 60.0
# Nothing of ours has run there. A lease may also be lost while a step is at work.
_NOT_BEGUN = (Stage.RESOLVE, Stage.CONNECT, Stage.HOST_KEY, Stage.AUTH, Stage.LOGIN, Stage.BECOME,
              Stage.PYTHON, Stage.TURN)


@dataclass(frozen=True)
class StepReport:
    """What a node said of a step; `ok` None: unknown end. `touched`: something may be changed there."""

    node: str
    ok: bool | None
    touched: bool
    message: str


@dataclass(frozen=True)
class _Addressed(Node):
    """A node whose program has its own line's name on its command line."""

    own: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        return self.own


def send(
    nodes: Mapping[str, Node], step: RemediationStep | None, transport: Transport, fanout: int,
) -> Iterator[StepReport]:
    """Takes the step on these nodes, by their lines in the ledger; without one, asks what became of it."""
    limit = _WAY_S + (SPECS[step].seconds + _WAIT_S if step is not None else SETTLE_S)
    # One try: who is to be rebooted once is not asked twice, even where the first seems not to have begun.
    bounds = bounded(tuple(nodes.values()),
                     Limits(node_s=limit, reply_bytes=_MOST, fanout=fanout, twice=False), None)
    asked = {
        "step": step.value if step is not None else "", "wait": _WAIT_S if step is not None else SETTLE_S}
    sent = payload(joined.joined(_PARTS).encode(), json.dumps(asked).encode())
    addressed = [_Addressed(**{one.name: getattr(node, one.name) for one in fields(Node)}, own=(name,))
                 for name, node in nodes.items()]
    for reply in transport.run(addressed, Program(secrets.token_hex(8), LOADER, sent), bounds):
        if reply.failure is not None:
            stage = reply.failure.stage
            # One that got stuck on the way never ran our program.
            yield StepReport(reply.node, None, stage not in _NOT_BEGUN and reply.failure.stuck is None,
                             clean(f"{stage.value}: {reply.failure.reason}", 300))
        else:
            yield _step_report(reply.node, reply.body)


def _step_report(node: str, body: bytes | None) -> StepReport:
    """What a node answered, which may be anything."""
    try:
        on_result = answer.document(body, _MOST)
        ok = on_result["ok"]
        return StepReport(node, ok if isinstance(ok, bool) else None, on_result["touched"] is not False,
                          clean(str(on_result["message"]), 300))
    except answer.UNREADABLE:
        return StepReport(node, None, True, "its answer cannot be read")
