"""Step agent: this muster's agent and rules are installed, a timer starts it, and it has checked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from healthcheck.ruleset.ruleset import Ruleset
from inventory.model import Node, Privilege
from inventory.text import clean
from inventory.transport.base import Transport
from provisioning.agent import bundle
from provisioning.agent.install import AgentAction, AgentRequest, AgentResult, act, bounds
from provisioning.agent.layout import PERIOD_S
from provisioning.agent.status import status
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepEffect,
    StepState,
)

KEPT = "agent"      # under which a machine keeps which version was seen in use
# What the node itself said; an operation that was never begun is begun again.
_REFUSED = "the agent could not be installed: "


class AgentStep:
    """Looks by the agent's status, makes by installing it."""

    def __init__(
        self, step: BringupStep, transport: Callable[[], Transport], ruleset: Ruleset, *,
        period: float = PERIOD_S, profile: str = "timer", default_sku: str | None = None, fanout: int = 64,
        root: str = "",
    ) -> None:
        self.step = step
        self._transport, self._ruleset, self._fanout = transport, ruleset, fanout
        self._desired = AgentRequest(
            AgentAction.INSTALL, period=period, occasion=profile, default_sku=default_sku, root=root)
        self._bundle: bundle.Bundle | None = None
        self._building = threading.Lock()

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """See `Executor.observe`."""
        of = {machine.name: machine for machine in machines}
        nodes = [machine.node for machine in machines]
        for done in act(nodes, self._transport(), AgentRequest(AgentAction.STATUS, root=self._desired.root),
                        bounds(nodes, None, self._fanout)):
            machine = of[done.node]
            yield done.node, seen(machine, done, self._wanted(machine.node), self._desired.period)

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """See `Executor.make`."""
        (done,) = self.install([machine.node])
        # A node that did not answer may have gone on: what it was sent installs itself, and doing it again
        # does nothing.
        if not done.ok and done.report:
            return OperationResult(False, clean(_REFUSED + done.message))
        return OperationResult(True if done.ok else None, clean(done.message))

    def install(self, nodes: Sequence[Node]) -> Iterator[AgentResult]:
        """Installs it on all of these, or brings it up to date."""
        helped = [node for node in nodes if node.privilege is Privilege.HELPER]
        return act(nodes, self._transport(), self._desired, bounds(nodes, None, self._fanout),
                   self._made(), helped)

    def _made(self) -> bundle.Bundle:
        with self._building:
            if self._bundle is None:
                self._bundle = bundle.build(self._ruleset)
            return self._bundle

    def _wanted(self, node: Node) -> str:
        desired = self._desired
        return self._made().of(
            node, default_sku=desired.default_sku, period=desired.period, occasion=desired.occasion).folder


def seen(machine: Machine, done: AgentResult, wanted: str, period: float) -> Observation:
    """What a node's status means for its way; `wanted` is the version that is to be in use."""
    if not done.ok:
        return Observation(StepState.UNKNOWN, clean(done.message))
    now = status(done)
    whole = done.report.get("whole") is True and now.timer in ("active, enabled", "cron")
    if now.installed != wanted or not whole:
        return _install(machine, now.installed, wanted)
    made = _bundle_of(done.report)
    if made == wanted and now.age is not None and -60 <= now.age <= 2 * period:
        return Observation(
            StepState.SO, f"agent {wanted}, its newest check is {now.age:.0f} s old", keep={KEPT: wanted})
    began = max([past.ended for past in machine.operations if past.ended is not None], default=machine.began)
    if now.age is not None and now.age < -60 and made == wanted:
        return _stuck(machine, f"its newest check is {-now.age:.0f} s in the future: its clock was set back")
    if machine.now - began > 2 * period:
        return _stuck(
            machine, f"agent {wanted} is installed, and has made no check in two periods of {period:g} s")
    return Observation(
        StepState.WAIT, f"agent {wanted} is installed, and has not run yet", again_s=min(15.0, period / 5))


def _install(machine: Machine, now: str | None, wanted: str) -> Observation:
    key = f"agent:{wanted}"
    before = machine.did(key)
    if before is not None and before.done is False and before.message.startswith(_REFUSED):
        return _stuck(machine, before.message)
    change = (f"- {now or 'no agent'}",
              f"+ {wanted}" if now != wanted else f"+ {wanted}, its files and timer mended")
    return Observation(StepState.NOT_SO, f"agent {now} is in use" if now else "no agent is installed",
                       Operation("install the agent", key, change, StepEffect.PASSIVE, settle_s=5.0))


def _bundle_of(report: Mapping[str, Any]) -> str | None:
    """The version that made the newest result."""
    result = report.get("result")
    found = result.get("bundle") if isinstance(result, dict) else None
    return found if isinstance(found, str) else None


def _stuck(machine: Machine, what: str) -> Observation:
    advice = (f"muster agent status {machine.name}; on it: journalctl -u muster-agent; then: muster bringup "
              f"retry {machine.name}")
    return Observation(
        StepState.TROUBLE, clean(what), troubles=(Trouble(clean(what), Owner.OPERATOR, advice),))
