"""Step leased: rules that run nothing but under a lease pass, such as those of a container that is given all
GPUs; all machines that are there are leased together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from healthcheck.model.outcome import NodeReport, Owner, Status
from healthcheck.model.trouble import Trouble
from inventory.errors import MusterError, StoreError
from inventory.text import clean
from provisioning.actions.base import ActionError
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepEffect,
    StepState,
)
from provisioning.bringup.steps.context import StepContext
from provisioning.bringup.steps.sweeps import judged, under_lease

_KEY = "leased"
_AGAIN_S = 300.0
_REFUSED = "it cannot be leased: "
_ADVICE = ("repair that, then: muster bringup retry {node}; or leave the step out (`without:` in the site's "
           "bringup.yaml)")


class Leased:
    """Looks at what its last sweep under a lease found, else makes one of all machines without. A killed run
    makes another: it takes minutes, and nothing else keeps the whole."""

    def __init__(
        self, step: BringupStep, context: StepContext, profile: str, rules: tuple[str, ...],
    ) -> None:
        self.step = step
        self._context, self._profile, self._rules = context, profile, rules
        self._found: dict[str, tuple[float, Observation]] = {}      # with when the machine came to the step

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """See `Executor.observe`."""
        for machine in machines:
            began, seen = self._found.get(machine.name, (0.0, None))
            yield machine.name, seen if seen is not None and began == machine.began else self._none(machine)

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """One machine alone."""
        return self.make_together([machine])[machine.name]

    def make_together(self, machines: Sequence[Machine]) -> Mapping[str, OperationResult]:
        """One sweep of them all under a lease. What it found is for the next look; a machine without a lease,
        or that was not reached, is asked again."""
        names = [machine.name for machine in machines]
        try:
            reports, found, refused = under_lease(self._context, machines, (self._profile,), self._rules,
                                                  f"muster bringup: {self.step.title}")
        except MusterError as error:
            # A scheduler may answer the next time, and a store be free; a setting does not come true by
            # waiting.
            passing = isinstance(error, (ActionError, StoreError))
            why = clean(("" if passing else _REFUSED) + str(error), 300)
            return dict.fromkeys(names, OperationResult(False, why))
        results: dict[str, OperationResult] = {}
        for machine, report in zip(machines, reports, strict=True):
            why = refused.get(machine.name, "")
            if not report.results:
                why = why or report.reason or report.stage or "not checked"
            if why:
                results[machine.name] = OperationResult(False, clean(why, 300))
                continue
            seen = _of(report, judged(report, found.get(report.node)))
            self._found[machine.name] = machine.began, seen
            results[machine.name] = OperationResult(True, "they ran")
        return results

    def _none(self, machine: Machine) -> Observation:
        """There is none of it yet: one is to be made, unless the newest try says that it cannot be."""
        rules = ", ".join(self._rules)
        operation = Operation("check under a lease", _KEY, (f"check under a lease: {rules}",),
                              StepEffect.DISRUPTIVE, settle_s=0.0)
        before = machine.did(_KEY)
        if before is None or before.done is not False:
            return Observation(StepState.NOT_SO, "not checked under a lease since it entered this step",
                               operation=operation)
        trouble = Trouble(before.message, Owner.OPERATOR, _ADVICE.format(node=machine.name))
        if before.message.startswith(_REFUSED):
            return Observation(StepState.TROUBLE, before.message, troubles=(trouble,))
        late = replace(trouble, what=f"no lease could be had: {before.message}")
        return Observation(StepState.NOT_SO, late.what, operation=operation, troubles=(late,),
                           again_s=_AGAIN_S)


def _of(report: NodeReport, seen: Observation) -> Observation:
    """Skipped does not concern the machine; unmeasured is for a person: another run would show the same."""
    if all(one.status is Status.SKIPPED for one in report.results):
        why = "; ".join(f"{one.rule}: {one.reason}" for one in report.results)
        return Observation(StepState.SO, clean(f"nothing to check here: {why}", 300))
    if seen.stand is not StepState.UNKNOWN:
        return seen
    return Observation(StepState.TROUBLE, seen.message, troubles=(
        Trouble(seen.message, Owner.OPERATOR, _ADVICE.format(node=report.node)),))
