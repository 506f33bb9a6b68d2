"""Runs steps on nodes: each batch under cordons of ours and a lease, with a ledger entry first, and a check
before and after.

A failure domain is begun when all of the one before passed. A step that made a node worse, or after which it
does not answer, ends the run: the cordon on that node stays until a person has looked. Other nodes come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import Store
from healthcheck.sweep.sweep import limits
from healthcheck.triage.remediation import Remediation, RemediationStep
from inventory.model import Node
from inventory.transport.base import Transport
from provisioning.actions.base import ActionError, Backend, SupportsReboot
from provisioning.actions.cordon import Clock, CordonResult, cordon, uncordon
from provisioning.actions.reboot import reboot, resolve_reboots
from provisioning.lease.check import MARGIN_S, MakeManager
from provisioning.lease.idle import IdleReport, idle
from provisioning.lease.jobs import jobs
from provisioning.lease.take import LeaseGrant, give_back, take, without
from provisioning.lease.watch import LeaseWatch
from provisioning.remediate import record
from provisioning.remediate.choose import PlannedStep
from provisioning.remediate.judge import is_restored, judge
from provisioning.remediate.record import RemediationOutcome, StartedStep
from provisioning.remediate.send import StepReport, send
from provisioning.remediate.steps import SPECS, IdleProof, rootless
from provisioning.remediate.verify import NodeHealth, VerifyContext, await_, look, passes

MARK = "remediate "


@dataclass
class RemediationContext:
    """What steps need: store, back end, lease managers, transport, the policy's numbers, person and clock.
    `on_result` hears of each node as soon as it is known."""

    store: Store
    backend: Backend
    manager: MakeManager
    site: VerifyContext
    policy: Remediation
    who: str
    clock: Clock
    nodes: Mapping[str, Node]
    on_result: Callable[[CordonResult], None]


def execute(context: RemediationContext, works: Sequence[PlannedStep]) -> list[CordonResult]:
    """Does the work, and says of each node what became of it. Raises ActionError, StoreError; the next run
    settles what was begun."""
    done: list[CordonResult] = []
    stopped = ""
    for domain, of_domain in groupby(works, key=lambda work: work.domain):
        well = True
        for batch in _batches(list(of_domain), context.policy.at_once):
            if stopped:
                found = [CordonResult(work.node, f"not started: {stopped}", held=False, failed=True)
                         for work in batch]
                for one in found:
                    context.on_result(one)
            else:
                found, stopped = _Batch(context, batch).run()
            well = well and not any(one.failed for one in found)
            done += found
        if not well and not stopped:
            stopped = f"not all nodes of {domain} passed, so no other domain is started"
    return done


def _batches(works: Sequence[PlannedStep], most: int) -> Iterator[list[PlannedStep]]:
    """At most so many at a time, of one step."""
    for step in dict.fromkeys(work.step for work in works):
        of_step = [work for work in works if work.step is step]
        for at in range(0, len(of_step), most):
            yield of_step[at:at + most]


class _Batch:
    """Some nodes of one domain, on which one step is taken at once."""

    def __init__(self, context: RemediationContext, works: Sequence[PlannedStep]) -> None:
        self.context = context
        self.works = {work.node: work for work in works}
        self.step = works[0].step
        self.done: dict[str, CordonResult] = {}
        self.stopped = ""

    def run(self) -> tuple[list[CordonResult], str]:
        """What became of each, and why nothing else is to be begun, if so."""
        context = self.context
        for name in self.works:
            if why := rootless(context.nodes[name]):
                self._not_done(name, why)
        before = look(context.site, self._nodes()) if self._nodes() else {}
        for name, seen in before.items():
            if not seen.reached:
                self._not_done(name, f"it is not reached: {seen.message}")
            elif passes(seen, self.works[name].rules):
                self._end(name,
                          CordonResult(name, f"nothing to do: {', '.join(self.works[name].rules)} passes now",
                                       held=False))
        for name, why in jobs(context.backend, self._names()).busy.items():
            self._not_done(name, why)
        if not self._names():
            return self._all()
        try:
            for name in self._names():
                why = f"{MARK}{self.step.value}: {self.works[name].fault}"
                for one in cordon(context.store, context.backend, [name], why, context.who, context.clock):
                    if not one.held:
                        self._not_done(name, one.message)
            self._leased(before)
        finally:
            self._give_back_nodes()
        return self._all()

    def _leased(self, before: Mapping[str, NodeHealth]) -> None:
        """Holds a lease, has the step taken under it, and looks."""
        context, names = self.context, self._names()
        if not names:
            return
        manager = context.manager(context.store)
        spec = SPECS[self.step]
        term = spec.seconds + self._patience() + 4 * MARGIN_S
        taken = take(manager, names, term, f"muster remediate {self.step.value}")
        try:
            for name, why in taken.refused.items():
                self._not_done(name, f"no lease: {why}")
            taken = without(manager, taken, self._unproven(taken))
            if taken.entry is None:
                return
            with LeaseWatch(
                context.site.folder, context.manager, taken.entry, context.site.transport) as watch:
                begun = [record.begin(context.store, self.works[name], before[name], context.who,
                                      context.clock()) for name in taken.nodes]
                self._judge(begun, self._run_step(begun, watch))
        finally:
            if taken.entry is not None and (trouble := give_back(manager, taken.entry, "the step was taken")):
                message = f"the lease was NOT given back: {trouble}; see: muster lease list"
                context.on_result(CordonResult(", ".join(taken.nodes), message, held=True, failed=True))

    def _run_step(self, begun: Sequence[StartedStep], transport: Transport) -> dict[str, StepReport]:
        """What each node, or who restarts it, said of the step."""
        context, names = self.context, [one.node for one in begun]
        if self.step is RemediationStep.REBOOT and _reboots(context.backend, names):
            asked = reboot(
                context.store, context.backend, names, MARK + self.step.value, context.who, context.clock)
            return {one.node: StepReport(one.node, None, not one.failed, one.message) for one in asked}
        nodes = {one.name: context.nodes[one.node] for one in begun}
        return {one.node: one for one in send(nodes, self.step, transport, context.policy.at_once)}

    def _unproven(self, taken: LeaseGrant) -> dict[str, str]:
        """Nodes of the lease on which something may compute, as far as this step minds."""
        context = self.context
        nodes = [context.nodes[name] for name in taken.nodes]
        if not nodes:
            return {}
        looked = idle(nodes, context.site.transport, context.site.ruleset.skus, None,
                      limits(None, context.policy.at_once))
        found = {
            name: why for name in taken.nodes
                if (why := unproven(name, SPECS[self.step].proof, looked, taken.unknown))}
        for name, why in found.items():
            self._not_done(name, f"no lease: {why}")
        return found

    def _judge(self, begun: Sequence[StartedStep], did: Mapping[str, StepReport]) -> None:
        """Looks until all is well or the time is over, and writes down how each ended."""
        context = self.context
        of = {one.node: one.before for one in begun}
        touched = [context.nodes[one.node] for one in begun if did[one.node].touched]
        seen = (await_(context.site, touched, lambda one: is_restored(of[one.node], one), self._patience())
                if touched else {})
        if self.step is RemediationStep.REBOOT and isinstance(context.backend, SupportsReboot):
            resolve_reboots(context.store, context.backend, context.clock)
        for one in begun:
            how, message = judge(one.before, did[one.node], seen.get(one.node, NodeHealth(one.node, True)))
            record.end(context.store, one, how, message, context.clock())
            self._end(one.node, ended(one, how, message))
            if how.stops:
                self.stopped = f"{self.step.value} on {one.node} ended {how.value}"

    def _patience(self) -> float:
        back = self.context.policy.back_minutes * 60 if self.step is RemediationStep.REBOOT else 0.0
        return back + self.context.policy.settle_seconds

    def _give_back_nodes(self) -> None:
        try:
            done = give_back_nodes(
                self.context.store, self.context.backend, self.works, self.context.who, self.context.clock)
        except ActionError as error:
            done = [CordonResult(", ".join(self.works), f"whether they were given back is not known: {error}",
                                 held=True, failed=True)]
        for one in done:
            if one.failed:
                self.context.on_result(one)

    def _not_done(self, name: str, why: str) -> None:
        self._end(name, CordonResult(name, f"NOT done: {why}", held=False, failed=True))

    def _end(self, name: str, done: CordonResult) -> None:
        if name not in self.done:
            self.done[name] = done
            self.context.on_result(done)

    def _names(self) -> list[str]:
        return [name for name in self.works if name not in self.done]

    def _nodes(self) -> list[Node]:
        return [self.context.nodes[name] for name in self._names()]

    def _all(self) -> tuple[list[CordonResult], str]:
        return [self.done[name] for name in self.works], self.stopped


def ended(one: StartedStep, how: RemediationOutcome, message: str) -> CordonResult:
    """The message to a person about a step that has ended."""
    more = (f"; it stays cordoned until a person has checked it: muster uncordon {one.node}" if how.stops
            else "")
    return CordonResult(one.node, f"{one.before.step.value}: {how.value}: {message}{more}", held=how.stops,
                        failed=how is not RemediationOutcome.DONE)


def _reboots(backend: Backend, names: Sequence[str]) -> bool:
    """Whether the back end is to restart these: a scheduler takes a node for broken that restarts itself."""
    if not isinstance(backend, SupportsReboot):
        return False
    boots = backend.boots(names)
    return all(name in boots and boots[name].booted is not None for name in names)


def unproven(name: str, proof: IdleProof, looked: IdleReport, unknown: frozenset[str]) -> str:
    """Why a step that asks for this proof is not taken; or "". `unknown`: no scheduler tells of jobs."""
    why = looked.refused.get(name, "")
    if name in unknown:
        return (why or ("it has no GPU, and its scheduler cannot say whether a job is on it"
                        if name in looked.without else ""))
    if proof is IdleProof.GPUS:
        return why
    # Of the reasons this one alone is a process that was seen.
    return why if proof is IdleProof.EITHER and why.startswith("process ") else ""


def give_back_nodes(
    store: Store, backend: Backend, names: Mapping[str, object] | None, who: str, clock: Clock,
) -> list[CordonResult]:
    """Ends the cordons that were made for steps alone, but for nodes that a step made worse."""
    ours = [one for one in open_cordons(store, names, backend.name)
            if one.verdict is None and one.why.startswith(MARK)]
    free = [one.node for one in ours if not record.kept(store, one.node, one.began)]
    return uncordon(store, backend, free, "the step is over", who, clock) if free else []
