"""Step kernel: the kernel's log by the catalogue and a baseline; without one it is not measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from healthcheck.model.outcome import NodeReport, Owner, Status
from healthcheck.model.trouble import Trouble
from healthcheck.store.readings import NodeReadings
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepState,
)
from provisioning.bringup.steps.checks import KERNEL
from provisioning.bringup.steps.context import StepContext
from provisioning.bringup.steps.sweeps import judged, swept

_NOVEL = "kernel-novel"
_ADVICE = ("learn one from sound nodes (muster baseline learn, review, approve), then: muster bringup retry "
           "{node}; or leave the step out (`without:` in the site's bringup.yaml)")


class Kernel:
    """Sweeps all machines that are there by the rules of the kernel's log; repairs nothing."""

    def __init__(self, step: BringupStep, context: StepContext, profile: str) -> None:
        self.step = step
        self._context, self._profile = context, profile

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """See `Executor.observe`."""
        reports, found = swept(self._context, machines, (self._profile,), only=(KERNEL,))
        for report in reports:
            yield report.node, of_log(report, found.get(report.node))

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """No look asks for anything."""
        return OperationResult(False, "nothing is to be made here")


def of_log(report: NodeReport, known: NodeReadings | None) -> Observation:
    """What a sweep by these rules says of one machine. What is merely new in its log keeps no one
    (healthcheck/help/baseline.md); that nothing was held against a baseline does."""
    seen = judged(report, known)
    why = _without(report)
    if seen.stand is not StepState.SO or not why:
        return seen
    return Observation(StepState.TROUBLE, why,
                       troubles=(Trouble(f"the kernel's log was held against no baseline: {why}",
                                         Owner.OPERATOR, _ADVICE.format(node=report.node)),))


def _without(report: NodeReport) -> str:
    """Why no baseline was held against the log; "" where one was."""
    novel = next((one for one in report.results if one.rule == _NOVEL), None)
    if novel is not None and novel.status in (Status.PASS, Status.FAIL):
        return ""
    return novel.reason if novel is not None and novel.reason else "the rule kernel-novel was not judged"
