"""Step checks: all rules of the bring-up profile pass, so many times in a row; the kernel log is next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepState,
)
from provisioning.bringup.steps.context import StepContext
from provisioning.bringup.steps.sweeps import judged, swept

KERNEL = "kernel-*"
_WELL = "checks.well"


class Checks:
    """Takes a snapshot of all machines that are there, by a sweep; repairs nothing."""

    def __init__(
        self, step: BringupStep, context: StepContext, profile: str, snapshots: int, between_s: float,
    ) -> None:
        self.step = step
        self._context, self._profile = context, profile
        self._snapshots, self._between_s = snapshots, between_s

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """See `Executor.observe`."""
        reports, found = swept(self._context, machines, (self._profile,), skip=(KERNEL,))
        well = {machine.name: int(machine.kept.get(_WELL, "0")) for machine in machines}
        for report in reports:
            seen = judged(report, found.get(report.node))
            if seen.stand is StepState.SO:
                number = well[report.node] + 1
                seen = replace(seen, keep={_WELL: str(number)}, again_s=self._between_s,
                               stand=StepState.SO if number >= self._snapshots else StepState.WAIT,
                               message=seen.message if self._snapshots == 1
                                   else f"{seen.message}, snapshot {number} of {self._snapshots}")
            else:
                seen = replace(seen, keep={_WELL: "0"})
            yield report.node, seen

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """No snapshot asks for anything."""
        return OperationResult(False, "nothing is to be made here")
