"""Step burnin: a burn-in since the step began, passed; all machines there are burnt in together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from healthcheck.burnin.document import Burnin, kept
from healthcheck.burnin.documentread import load
from healthcheck.burnin.judgement import BurnInOutcome
from healthcheck.burnin.merged import node_of
from healthcheck.burnin.model import Accusation, Object
from healthcheck.burnin.ports import presumed
from healthcheck.burnin.stages import planned
from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.errors import MusterError, StoreError, UsageError
from inventory.model import Node
from inventory.nodeset import fold
from inventory.text import clean
from inventory.transport.base import Limits
from provisioning.actions.base import ActionError
from provisioning.actions.choose import Options, backend
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepEffect,
    StepState,
)
from provisioning.bringup.steps.certificate import ENDED, RUN
from provisioning.bringup.steps.context import StepContext
from provisioning.burnin import run as running
from provisioning.burnin.consequences import carry_out
from provisioning.burnin.progress import ProgressReport
from provisioning.burnin.record import BurnInRecord
from provisioning.burnin.request import request
from provisioning.lease.check import leased, manager

_KEY = "burnin"
_AGAIN_S = 300.0
_REFUSED = "it cannot be burnt in: "
# The lease outlasts the longest task by so much, however the head ends.
_MARGIN_S = 600.0


class BurnInStep:
    """Looks at the documents that are kept; makes one burn-in of all machines that were found to need one."""

    def __init__(self, step: BringupStep, context: StepContext, length: str, stages: str | None) -> None:
        self.step = step
        self._context, self._length, self._stages = context, length, stages
        self._read: dict[Path, Burnin] = {}

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """See `Executor.observe`. A burn-in that was ended before this step was begun does not mention it."""
        newest = self._newest(machines)
        for machine in machines:
            found = newest.get(machine.name)
            yield machine.name, self._of(machine, found) if found is not None else self._none(machine)

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """One machine alone."""
        return self.make_together([machine])[machine.name]

    def make_together(self, machines: Sequence[Machine]) -> Mapping[str, OperationResult]:
        """One burn-in of them all, under a lease. What it found is for the next look."""
        try:
            burnt, notes = self._burn([machine.node for machine in machines])
        except MusterError as error:
            # A scheduler may answer the next time, and a store be free; a setting that cannot be does not
            # come true by waiting.
            passing = isinstance(error, (ActionError, StoreError))
            return {
                machine.name: OperationResult(False, clean(("" if passing else _REFUSED) + str(error), 300))
                for machine in machines}
        refused = {
            one.node: one.why[0] for one in burnt.judgement.outcomes
            if one.outcome is BurnInOutcome.UNKNOWN and one.why}
        ran = "; ".join((f"burn-in {burnt.run}", *notes))
        return {
            machine.name: OperationResult(True, clean(refused.get(machine.name, ran), 300))
            for machine in machines}

    def _none(self, machine: Machine) -> Observation:
        """There is none of it yet: one is to be made, unless the newest try says that it cannot be."""
        before = machine.did(_KEY)
        if before is None or before.done is not False:
            return Observation(
                StepState.NOT_SO, f"no burn-in since it entered this step; {self._length} is required",
                operation=self._operation())
        if before.message.startswith(_REFUSED):
            return Observation(StepState.TROUBLE, before.message, troubles=(Trouble(
                before.message, Owner.OPERATOR, f"repair that, then: muster bringup retry {machine.name}"),))
        late = Trouble(f"no burn-in could be begun: {before.message}", Owner.OPERATOR,
                       f"repair that, then: muster bringup retry {machine.name}")
        return Observation(
            StepState.NOT_SO, late.what, operation=self._operation(), troubles=(late,), again_s=_AGAIN_S)

    def _operation(self) -> Operation:
        what = f"burn in, length {self._length}" + (
            f", stages {self._stages}" if self._stages is not None else "")
        return Operation("burn in", _KEY, (what,), StepEffect.DISRUPTIVE, settle_s=0.0)

    def _of(self, machine: Machine, burnt: Burnin) -> Observation:
        (one,) = (one for one in burnt.judgement.outcomes if one.node == machine.name)
        if one.outcome is BurnInOutcome.PASS:
            return Observation(StepState.SO, f"passed {burnt.length}, burn-in {burnt.run}",
                               keep={RUN: burnt.run, ENDED: str(int(burnt.ended))})
        if one.outcome is BurnInOutcome.UNKNOWN:
            why = clean(one.why[0] if one.why else "not all was measured", 300)
            return Observation(
                StepState.TROUBLE, why,
                troubles=(Trouble(f"burn-in {burnt.run} could not tell: {why}", Owner.OPERATOR,
                                  f"muster burnin show {burnt.run}; remove the cause, then: muster bringup "
                                  f"retry {machine.name}", "node"),))
        why = clean("; ".join(one.why[:3]) or "it failed", 300)
        blamed = [cause for cause in burnt.judgement.accusations if node_of(cause) == machine.name]
        troubles = tuple(_trouble(machine, burnt.run, cause) for cause in blamed[:8])
        return Observation(StepState.TROUBLE, why, troubles=troubles or (Trouble(
            f"burn-in {burnt.run}: {why}", Owner.OPERATOR, f"muster burnin show {burnt.run}", "node"),))

    def _newest(self, machines: Sequence[Machine]) -> dict[str, Burnin]:
        """By machine its newest burn-in since it is at this step, without unreadable and others' ones."""
        since = {machine.name: machine.began for machine in machines}
        found: dict[str, Burnin] = {}
        for path in kept(self._context.folder, screenings=False):       # the newest first
            if not since.keys() - found.keys() or path.stat().st_mtime < min(since.values()):
                break
            try:
                one = self._read.setdefault(path, load(path))
            except MusterError:
                continue        # a file that cannot be read is no burn-in
            for outcome in one.judgement.outcomes:
                if (outcome.node in since and one.ended >= since[outcome.node]
                        and one.options.get("finished") is not False):
                    found.setdefault(outcome.node, one)
        return found

    def _burn(self, nodes: Sequence[Node]) -> tuple[Burnin, list[str]]:
        """The burn-in, and what became of what it found."""
        notes: list[str] = []
        context = self._context
        desired = request(nodes, context.inventory, context.ruleset, context.rules, self._length,
                          self._stages, context.default_sku)
        if context.inventory.burnin.head is not None:
            desired = replace(desired, hosts=(context.inventory.burnin.head,))
        made = manager(None, backend(context.inventory, Options()), context.who)
        places = running.places_of(desired)
        steps = planned(places, replace(desired.work, ports=presumed(places)), desired.stages)
        longest = max((task.seconds for step in steps for task in step.tasks), default=0.0) + _MARGIN_S
        bounds = Limits(sweep_s=longest, node_s=longest, fanout=context.fanout)
        record = BurnInRecord(context.folder, self._length,
                              {"nodes": fold(node.name for node in nodes), "by": "muster bringup"})
        transport = context.transport()
        burnt, _ = running.run(
            desired,
            lambda: leased(running.as_plan(desired), transport, bounds, context.folder, made,
                           why="muster bringup: burn-in"), record, lambda steps: ProgressReport(),
            lambda burnin,
            withheld: notes.extend(
                carry_out(context.folder, burnin, withheld, context.who, time.time(), given_back=False)))
        if record.trouble:
            raise UsageError(f"the burn-in could not be kept: {record.trouble}")
        return burnt, notes


def _trouble(machine: Machine, run: str, cause: Accusation) -> Trouble:
    gpu = f"GPU {clean(cause.name.rpartition(':')[2], 20)}" if cause.object is Object.GPU else ""
    return Trouble(f"burn-in {run}: {cause.object.value} {clean(cause.name, 80)}: {clean(cause.fault, 80)}: "
                   f"{clean(cause.why, 200)}", Owner.VENDOR,
                   f"muster burnin show {run}; exchange it (muster rma open {machine.name}), then: muster "
                   f"bringup retry {machine.name}", "gpu" if gpu else "node", gpu)
