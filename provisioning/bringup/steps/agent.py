"""Step agent: the agent is installed, of this muster and its rules, is started by a timer, and has made a look of its own."""

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
from provisioning.bringup.engine.model import BringupStep, Machine, Made, Observation, Operation, StepEffect, StepState

KEPT = "agent"      # under which a machine keeps which version was seen in use
# What the node itself said; a deed that was never begun is begun again.
_REFUSED = "the agent could not be installed: "


class AgentStep:
    """Looks by the agent's status, makes by installing it."""

    def __init__(
        self, step: BringupStep, transport: Callable[[], Transport], ruleset: Ruleset, *, period: float = PERIOD_S, profile: str = "timer",
        default_sku: str | None = None, fanout: int = 64, root: str = "",
    ) -> None:
        self.step = step
        self._transport, self._ruleset, self._fanout = transport, ruleset, fanout
        self._wish = AgentRequest(AgentAction.INSTALL, period=period, occasion=profile, default_sku=default_sku, root=root)
        self._bundle: bundle.Bundle | None = None
        self._building = threading.Lock()

    def look(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """See `Executor.look`."""
        of = {machine.name: machine for machine in machines}
        nodes = [machine.node for machine in machines]
        for done in act(nodes, self._transport(), AgentRequest(AgentAction.STATUS, root=self._wish.root),
                        bounds(len(nodes), None, self._fanout)):
            machine = of[done.node]
            yield done.node, seen(machine, done, self._wanted(machine.node), self._wish.period)

    def make(self, machine: Machine, deed: Operation) -> Made:
        """See `Executor.make`."""
        (done,) = self.install([machine.node])
        # A node that did not answer may have gone on: what it was sent installs itself, and doing it again does nothing.
        if not done.ok and done.told:
            return Made(False, clean(_REFUSED + done.said))
        return Made(True if done.ok else None, clean(done.said))

    def install(self, nodes: Sequence[Node]) -> Iterator[AgentResult]:
        """Installs it on all of these, or brings it up to date."""
        helped = [node for node in nodes if node.privilege is Privilege.HELPER]
        return act(nodes, self._transport(), self._wish, bounds(len(nodes), None, self._fanout), self._made(), helped)

    def _made(self) -> bundle.Bundle:
        with self._building:
            if self._bundle is None:
                self._bundle = bundle.build(self._ruleset)
            return self._bundle

    def _wanted(self, node: Node) -> str:
        wish = self._wish
        return self._made().of(node, default_sku=wish.default_sku, period=wish.period, occasion=wish.occasion).folder


def seen(machine: Machine, done: AgentResult, wanted: str, period: float) -> Observation:
    """What a node's status means for its way; `wanted` is the version that is to be in use."""
    if not done.ok:
        return Observation(StepState.UNKNOWN, clean(done.said))
    now = status(done)
    whole = done.told.get("whole") is True and now.timer in ("active, enabled", "cron")
    if now.installed != wanted or not whole:
        return _install(machine, now.installed, wanted)
    made = _bundle_of(done.told)
    if made == wanted and now.age is not None and -60 <= now.age <= 2 * period:
        return Observation(StepState.SO, f"agent {wanted}, its newest look is {now.age:.0f} s old", keep={KEPT: wanted})
    began = max([past.ended for past in machine.deeds if past.ended is not None], default=machine.began)
    if now.age is not None and now.age < -60 and made == wanted:
        return _stuck(machine, f"its newest look is {-now.age:.0f} s in the future: its clock was set back")
    if machine.now - began > 2 * period:
        return _stuck(machine, f"agent {wanted} is installed, and has made no look in two periods of {period:g} s")
    return Observation(StepState.WAIT, f"agent {wanted} is installed, and has not looked yet", again_s=min(15.0, period / 5))


def _install(machine: Machine, now: str | None, wanted: str) -> Observation:
    key = f"agent:{wanted}"
    before = machine.did(key)
    if before is not None and before.done is False and before.said.startswith(_REFUSED):
        return _stuck(machine, before.said)
    change = (f"- {now or 'no agent'}", f"+ {wanted}" if now != wanted else f"+ {wanted}, its files and timer mended")
    return Observation(StepState.NOT_SO, f"agent {now} is in use" if now else "no agent is installed",
                       Operation("install the agent", key, change, StepEffect.PASSIVE, settle_s=5.0))


def _bundle_of(told: Mapping[str, Any]) -> str | None:
    """The version that made the newest result."""
    result = told.get("result")
    found = result.get("bundle") if isinstance(result, dict) else None
    return found if isinstance(found, str) else None


def _stuck(machine: Machine, what: str) -> Observation:
    hand = f"muster agent status {machine.name}; on it: journalctl -u muster-agent; then: muster bringup retry {machine.name}"
    return Observation(StepState.TROUBLE, clean(what), troubles=(Trouble(clean(what), Owner.OPERATOR, hand),))
