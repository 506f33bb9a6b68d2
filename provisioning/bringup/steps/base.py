"""Step base: the base configuration is as the policy says, in one operation with the whole diff."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.text import clean
from inventory.transport.base import Stage, Transport
from provisioning.base import send
from provisioning.base.desired import BaseSettings
from provisioning.base.report import BaseReport, ItemReport, ItemState
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepEffect,
    StepState,
)

# Nothing of ours has run there. Of others from which nothing came back, it is not known.
_NOT_BEGUN = (Stage.RESOLVE, Stage.CONNECT, Stage.HOST_KEY, Stage.AUTH, Stage.LOGIN, Stage.BECOME,
              Stage.PYTHON, Stage.TURN)
_MOST = 6
# What the node itself said; an operation that was never begun is begun again.
_REFUSED = "it could not be applied: "


class Base:
    """Looks and makes by one program a node."""

    def __init__(
        self, step: BringupStep, transport: Callable[[], Transport], desired: BaseSettings, *,
        fanout: int = 64,
    ) -> None:
        self.step = step
        self._transport, self._desired, self._fanout = transport, desired, fanout

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """See `Executor.observe`."""
        of = {machine.name: machine for machine in machines}
        for report in send.look(
            [machine.node for machine in machines], self._transport(), self._desired, fanout=self._fanout):
            yield report.node, seen(of[report.node], report)

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """See `Executor.make`."""
        (report,) = send.make([machine.node], self._transport(), self._desired)
        if not report.answered:
            return OperationResult(
                False if report.stage in _NOT_BEGUN else None,
                clean(f"{report.stage.value if report.stage else 'reply'}: {report.message}"))
        if report.failed or not report.ok:
            return OperationResult(
                False,
                clean(_REFUSED + ("; ".join(f"{name}: {why}" for name, why in report.failed.items())
                                  or report.message)))
        return OperationResult(
            True, f"applied: {', '.join(report.changed)}" if report.changed else "nothing to do")


def seen(machine: Machine, report: BaseReport) -> Observation:
    """What a node's items mean for its way."""
    if not report.answered:
        return Observation(
            StepState.UNKNOWN, clean(f"{report.stage.value if report.stage else 'reply'}: {report.message}"))
    # Others' files and services first: what differs besides is made so anyway, and the trouble is still there
    # afterwards.
    if report.of(ItemState.DIFFERS):
        return _differs(machine, report)
    # What is not seen, or on its way, is trouble when the step's time is over.
    for how, stand in ((ItemState.TROUBLE, StepState.TROUBLE), (ItemState.UNSEEN, StepState.UNKNOWN),
                       (ItemState.WAIT, StepState.WAIT)):
        if found := report.of(how):
            return Observation(
                stand, _all(found), troubles=tuple(_trouble(machine, item) for item in found[:_MOST]))
    return Observation(StepState.SO, _sound(report))


def _differs(machine: Machine, report: BaseReport) -> Observation:
    names = ", ".join(item.name for item in report.of(ItemState.DIFFERS))
    key = "base:" + hashlib.sha256("\n".join(report.change).encode()).hexdigest()[:16]
    renamed = any(item.name == "host_name" for item in report.of(ItemState.DIFFERS))
    operation = Operation(f"apply: {names}", key, report.change,
                          StepEffect.DISRUPTIVE if renamed else StepEffect.PASSIVE, settle_s=5.0)
    before = machine.did(key)
    if before is not None and before.done is False and before.message.startswith(_REFUSED):
        return _stuck(machine, before.message)
    if before is not None and before.done:
        return _stuck(machine, f"it was applied, and does not stay: {names}; something else there writes it")
    return Observation(StepState.NOT_SO, f"differs: {names}", operation)


def _stuck(machine: Machine, what: str) -> Observation:
    return Observation(
        StepState.TROUBLE, clean(what), troubles=(Trouble(clean(what), Owner.OPERATOR, _advice(machine)),))


def _trouble(machine: Machine, item: ItemReport) -> Trouble:
    return Trouble(f"base: {item.name}: {item.message}", Owner.OPERATOR, _advice(machine))


def _advice(machine: Machine) -> str:
    return f"see: muster bringup base {machine.name}; repair it, then: muster bringup retry {machine.name}"


def _all(items: Sequence[ItemReport]) -> str:
    return clean("; ".join(f"{item.name}: {item.message}" for item in items))


def _sound(report: BaseReport) -> str:
    """What is so, and what is not there to be so, or was left out."""
    parts = [f"so: {', '.join(item.name for item in report.of(ItemState.SO))}"]
    parts += [f"{how.value}: {', '.join(item.name for item in report.of(how))}"
              for how in (ItemState.ABSENT, ItemState.OUT) if report.of(how)]
    return "; ".join(parts)
