"""Assesses one sweep: judges each recording as it comes, and at the end what needs all of them.

Fleet rules need every node of a cohort. Where no SKU is named, rules that need a SKU's numbers wait for the provisional SKU,
which is what most nodes show. Of each node only the facts that are still needed are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from healthcheck import peers
from healthcheck import sku as skus
from healthcheck.baseline.book import KERNEL_BASELINE, KERNEL_CATALOGUE, KernelBaseline, KernelCatalogue, judged_by
from healthcheck.baseline.model import Scope
from healthcheck.checks.base import PREVIOUS
from healthcheck.coverage import Coverage, coverage
from healthcheck.facts.base import FACTS, Partial, Unmeasured
from healthcheck.facts.boot import EARLIER_BOOT, earlier_boot
from healthcheck.facts.kernel_event import KernelEvents
from healthcheck.facts.pci import PCI_BUS
from healthcheck.facts.site import PORT_PLANS, PortPlans
from healthcheck.fleetjudge import judge_fleet
from healthcheck.guard import Guards
from healthcheck.judge import Facts, judge
from healthcheck.judge import result as result_of
from healthcheck.lease import NEEDED
from healthcheck.leftout import LeftOut, addresses, left_out, noted
from healthcheck.outcome import NodeReport, NodeState, Origin, Result, Severity, Status, state_of
from healthcheck.probes import Effect, Needs, Probe
from healthcheck.recording import Recording
from healthcheck.rule import Rule
from healthcheck.ruleset import Ruleset
from healthcheck.shared import Shared
from healthcheck.sku import Sku
from healthcheck.xidtable import XID_TABLE
from inventory.model import Node, PortPlan
from inventory.text import clean


@dataclass
class _Waiting:
    """A reached node whose judging is not over: results so far by rule id, and the facts that are still needed."""

    node: Node
    sku: Sku | None
    results: dict[str, Result] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)
    previous: Facts | None = None
    machine: tuple[str, str] = ("", "")
    shows: Mapping[str, Any] = field(default_factory=dict)
    empty: Mapping[str, bool] = field(default_factory=dict)
    probes: Coverage | None = None
    left_out: LeftOut = field(default_factory=dict)


@dataclass(frozen=True)
class _View:
    """The rules for nodes of one profile, and what those that are judged need."""

    rules: tuple[Rule, ...]
    judged: tuple[Rule, ...]
    simple: tuple[Rule, ...]        # of those judged the ones that wait for nothing on a node of a known SKU
    others: tuple[Rule, ...]
    left_out: Mapping[str, Result]
    facts: frozenset[str]
    undisturbed: frozenset[str]     # those of the facts that are left where no disruptive probe was captured
    disruptive: frozenset[str]
    previous: frozenset[str]
    boots: bool
    learned: frozenset[str]
    probes: tuple[Probe, ...]

    @classmethod
    def of(cls, rules: tuple[Rule, ...]) -> _View:
        judged = tuple(rule for rule in rules if not rule.left_out)
        facts = {name for rule in judged for name in rule.fact_names if name in FACTS}
        passive = {name for rule in judged if not rule.disruptive for name in rule.fact_names if name in FACTS}
        # What GPUs there are is asked of the bus as well, whose probe comes with them.
        facts, passive = (names | {PCI_BUS} if "gpus" in facts else names for names in (facts, passive))
        simple = tuple(rule for rule in judged if not rule.disruptive and not rule.checked.fleet)
        return cls(
            rules, judged, simple, tuple(rule for rule in judged if rule.disruptive or rule.checked.fleet),
            {rule.id: result_of(rule, Status.SKIPPED, reason=rule.left_out) for rule in rules if rule.left_out},
            frozenset(facts), frozenset(passive), frozenset(probe.id for rule in judged for probe in rule.disruptive),
            frozenset(name.removeprefix(PREVIOUS) for rule in judged for name in rule.checked.facts if name.startswith(PREVIOUS)),
            any(EARLIER_BOOT in rule.fact_names for rule in judged),
            frozenset(fact for rule in judged for number in rule.numbers for fact in skus.LEARNED_FROM.get(number, ())),
            tuple({probe.id: probe for rule in judged for probe in rule.probes if probe.effect is Effect.PASSIVE}.values()),
        )


@dataclass(frozen=True)
class Assessed:
    """A whole sweep judged: reports in the nodes' order, and where nodes named no SKU, the provisional one.

    `looks_like` names a known SKU, where nothing could be learned but all such nodes look like it.
    """

    reports: tuple[NodeReport, ...]
    provisional: Sku | None = None
    looks_like: str | None = None


class Assessment:
    """Takes recordings in any order; `finish` gives the reports. Equal recordings give equal reports, whatever their order."""

    def __init__(
        self, nodes: Sequence[Node], ruleset: Ruleset, default_sku: str | None = None, asked: Collection[str] = (),
        profiles: Sequence[str] = (),
    ) -> None:
        """`asked` are the ids of the probes that were sent: what is disruptive is judged where it was sent, or was recorded.

        `profiles` are those of the occasion; each node's own holds beside them.
        """
        self._nodes = nodes
        self._by_name = {node.name: node for node in nodes}
        self._ruleset = ruleset
        self._asked = frozenset(asked)
        self._default_sku = default_sku
        self._waiting: dict[str, _Waiting] = {}
        self._unreached: dict[str, NodeReport] = {}
        self._shared = Shared()
        self._xids = self._shared.given(ruleset.xids or Unmeasured("no rules folder holds an xid.yaml", Origin.MUSTER))
        self._kernel = ruleset.kernel
        self._catalogue = self._shared.given(
            KernelCatalogue("catalogue", self._kernel.catalogue) if self._kernel is not None
            else Unmeasured("no rules folder holds a catalogue of kernel lines", Origin.MUSTER))
        self._baselines: dict[Scope, KernelBaseline] = {}
        self._views = {name: _View.of(ruleset.under(name, *profiles)) for name in {node.profile for node in nodes}}

    @property
    def previous_facts(self) -> bool:
        """Whether any rule that is judged compares with an earlier look."""
        return any(view.previous or view.boots for view in self._views.values())

    def add(self, recording: Recording, previous: Recording | None = None) -> None:
        """Judges what can be judged of one node now. `previous` is its earlier look, of whatever boot."""
        node = self._by_name[recording.node]
        if recording.host is None or recording.failure is not None:
            self._unreached[node.name] = _unreached(node, recording)
            return
        try:
            self._judge(node, recording, previous)
        except Exception as error:  # noqa: BLE001  (a defect that one node's answer brings to light must not cost the sweep)
            reason = clean(f"muster: judging this node failed: {type(error).__name__}: {error}", 300)
            self._unreached[node.name] = NodeReport(node.name, NodeState.UNKNOWN, reason, (), node.in_service)

    def _judge(self, node: Node, recording: Recording, previous: Recording | None) -> None:
        sku = self._sku_of(node)
        left = left_out(recording.captures)
        view = self._views[node.profile]
        captured = self._asked.union(recording.captures)
        needed = view.undisturbed if captured.isdisjoint(view.disruptive) else view.facts
        names = needed | view.learned if sku is None else needed
        same = previous if previous is not None and _same_boot(recording, previous) else None
        facts, earlier = self._facts(recording, names, same, view.previous)
        why = skus.contradiction(sku, facts) if sku is not None else None
        if sku is not None and why is not None:
            sku = sku.contradicted(why)
        facts[PORT_PLANS] = self._shared.given(_port_plans(node, sku, addresses(left)))
        facts[EARLIER_BOOT] = earlier_boot(recording, previous, node.lifecycle.state)
        facts[XID_TABLE] = self._xids
        facts[KERNEL_CATALOGUE] = self._catalogue
        facts[KERNEL_BASELINE] = self._baseline(facts.get("kernel_events"), sku)
        waiting = _Waiting(node, sku, previous=earlier, machine=_machine(recording), probes=coverage(recording, view.probes), left_out=left)
        kept: set[str] = set()
        judged = self._shared.judging(facts, earlier, sku)
        results = waiting.results
        results.update(view.left_out)
        for rule in view.simple if sku is not None else ():
            results[rule.id] = judged(rule)
        for rule in view.others if sku is not None else view.judged:
            if rule.disruptive and captured.isdisjoint(probe.id for probe in rule.disruptive):
                results[rule.id] = result_of(rule, Status.SKIPPED, reason=NEEDED)
            elif self._must_wait(rule, sku):
                kept.update(rule.fact_names)
            else:
                results[rule.id] = judged(rule)
        if sku is None:
            waiting.shows = skus.learn(facts)
            waiting.empty = skus.emptiness(facts)
        waiting.facts = {name: facts[name] for name in kept if name in facts}
        self._waiting[node.name] = waiting

    def _baseline(self, found: Any, sku: Sku | None) -> Any:
        """The kernel log's baseline for a node of this SKU whose log says which kernel and driver it has."""
        events = found.value if isinstance(found, Partial) else found
        if not isinstance(events, KernelEvents) or self._kernel is None:
            return Unmeasured("the kernel's log was not read")
        scope = replace(events.digest.scope, sku=sku.name if sku is not None else "")
        known = self._baselines.get(scope)
        if known is None:
            known = self._baselines[scope] = self._shared.given(judged_by(self._kernel, scope))
        return known

    def _facts(
        self, recording: Recording, names: Iterable[str], previous: Recording | None, before: Iterable[str],
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """The facts of a look, and of the earlier one if there is one: without those that it did not look for, being for other rules."""
        if previous is None:
            return self._shared.facts([(recording, names)])[0], None
        held = previous.captures
        looked = [name for name in before if all(p.id in held for p in FACTS[name].probes if p.needs is not Needs.NVIDIA_UNANSWERED)]
        facts, earlier = self._shared.facts([(recording, names), (previous, looked)])
        return facts, earlier

    def finish(self, unfinished: str = "not finished", withheld: Mapping[str, str] = MappingProxyType({})) -> Assessed:
        """The reports of all nodes; one that was never added is unknown, with `unfinished` as its reason.

        Nodes in `withheld` had no lease, or lost it, for the reason that stands there: what is disruptive is unknown of them.
        """
        self._part_twins()
        learned: Sku | None = None
        strangers = [waiting for waiting in self._waiting.values() if waiting.sku is None]
        if strangers:
            learned = skus.provisional([w.shows for w in strangers], [w.empty for w in strangers])
        for waiting in strangers:
            guards = Guards()
            for rule in self._judged():
                if rule.id not in waiting.results and not rule.checked.fleet:
                    waiting.results[rule.id] = judge(rule, waiting.facts, waiting.previous, learned, guards)
        self._judge_fleets(learned)
        self._tell_peers()
        for name, why in withheld.items():
            if (lost := self._waiting.get(name)) is not None:
                self._withhold(lost, why)
        reports = tuple(self._report(node, unfinished) for node in self._nodes)
        similar = {skus.alike(waiting.shows, self._ruleset.skus) for waiting in strangers}
        looks_like = similar.pop() if len(similar) == 1 and learned is not None and not learned.numbers else None
        return Assessed(reports, learned, looks_like)

    def _tell_peers(self) -> None:
        for rule in self._judged():
            if rule.checked.peers:
                held = {node.name: self._waiting[node.name].results for node in self._nodes if node.name in self._waiting}
                for name, result in peers.told({name: results[rule.id] for name, results in held.items() if rule.id in results}).items():
                    held[name][rule.id] = result

    def _withhold(self, waiting: _Waiting, why: str) -> None:
        """Whatever was measured beside somebody's job says nothing of the node."""
        for rule in self._views[waiting.node.profile].judged:
            if rule.disruptive and rule.id in waiting.results:
                reason = clean(f"{NEEDED}: {why}")
                waiting.results[rule.id] = result_of(rule, Status.UNKNOWN, reason=reason, origin=Origin.MUSTER)

    def _part_twins(self) -> None:
        """Two names that lead to one machine: the node that was meant was not measured, and its twin's health is not its own."""
        machines: dict[tuple[str, str], list[_Waiting]] = {}
        for node in self._nodes:
            waiting = self._waiting.get(node.name)
            if waiting is not None and all(waiting.machine):
                machines.setdefault(waiting.machine, []).append(waiting)
        for (hostname, _), twins in machines.items():
            for waiting in twins if len(twins) > 1 else ():
                name = waiting.node.name
                if name.partition(".")[0] != hostname.partition(".")[0]:
                    others = ", ".join(twin.node.name for twin in twins if twin is not waiting)
                    reason = clean(f"the machine that answered calls itself {hostname}, and answers as {others} too: wrong address?", 1000)
                    self._unreached[name] = NodeReport(name, NodeState.UNKNOWN, reason, (), waiting.node.in_service)
                    del self._waiting[name]

    def _must_wait(self, rule: Rule, sku: Sku | None) -> bool:
        if rule.checked.fleet:
            return True
        return sku is None and bool(rule.numbers or set(rule.fact_names) & {*skus.EMPTY_FACTS, *skus.OF_GPUS, *skus.OF_PORTS})

    def _sku_of(self, node: Node) -> Sku | None:
        name = node.sku or self._default_sku
        return self._ruleset.skus[name] if name is not None else None

    def _judged(self) -> tuple[Rule, ...]:
        """The rules that are judged for some node; a profile may have left them out for others, or enabled them."""
        return tuple({rule.id: rule for view in self._views.values() for rule in view.rules if not rule.left_out}.values())

    def _judge_fleets(self, learned: Sku | None) -> None:
        cohorts: dict[tuple[str, ...], list[_Waiting]] = {}
        for node in self._nodes:
            if node.name in self._waiting:
                waiting = self._waiting[node.name]
                # One that is plainly no machine of its SKU is no peer of those that are.
                key = (waiting.sku.name, *sorted(set(waiting.sku.why_unknown.values()))) if waiting.sku else ()
                cohorts.setdefault(key, []).append(waiting)
        guards = {key: Guards() for key in cohorts}
        for rule in self._judged():
            if not rule.checked.fleet:
                continue
            for key, members in cohorts.items():
                # A profile may have left the rule out for some.
                asked = {w.node.name: _asked(rule, w) for w in members if rule.id not in w.results}
                for node_name, result in judge_fleet(rule, asked, members[0].sku or learned, guards[key]).items():
                    self._waiting[node_name].results[rule.id] = result

    def _report(self, node: Node, unfinished: str) -> NodeReport:
        if node.name in self._unreached:
            return self._unreached[node.name]
        if node.name not in self._waiting:
            return NodeReport(node.name, NodeState.UNKNOWN, unfinished, (), node.in_service)
        waiting = self._waiting[node.name]
        results = tuple(noted(waiting.results[rule.id], rule, waiting.left_out) for rule in self._ruleset.rules)
        state = state_of(results)
        named = waiting.sku.name if waiting.sku else None
        return NodeReport(node.name, state, _reason(state, results), results, node.in_service, probes=waiting.probes, sku=named)


def _asked(rule: Rule, waiting: _Waiting) -> Facts:
    """What a fleet rule asks of one node, by the names that its check uses; facts of an earlier look are there if there was one."""
    earlier = {PREVIOUS + name: value for name, value in (waiting.previous or {}).items()}
    return {name: value for name, value in (*waiting.facts.items(), *earlier.items()) if name in rule.checked.facts}


def _same_boot(now: Recording, before: Recording | None) -> bool:
    return before is not None and before.host is not None and now.host is not None \
        and bool(now.host.boot_id) and now.host.boot_id == before.host.boot_id


def _machine(recording: Recording) -> tuple[str, str]:
    """What tells machines apart: the host's name and its boot. (Containers of one machine share the boot, not the name.)"""
    return (recording.host.hostname, recording.host.boot_id) if recording.host else ("", "")


def _port_plans(node: Node, sku: Sku | None, unread: frozenset[str]) -> PortPlans:
    plans = dict(sku.ports if sku is not None else {})
    for pci, said in node.ports.items():
        below = plans.get(pci, PortPlan("compute"))
        role = said.role or below.role
        rail = below.rail if said.rail is None and role == below.role else said.rail
        plans[pci] = PortPlan(role, rail, expect=said.expect)
    compute = {pci: plan.rail for pci, plan in plans.items() if plan.role == "compute"}
    down = frozenset(pci for pci in compute if plans[pci].expect == "down")
    others = frozenset(plans.keys() - compute.keys())
    return PortPlans(PORT_PLANS, compute=MappingProxyType(compute), others=others, down=down, unread=unread)


def _unreached(node: Node, recording: Recording) -> NodeReport:
    assert recording.failure is not None  # noqa: S101  (a recording has a host or a failure; the caller looked)
    stage = recording.failure.stage.value
    reason = clean(f"{stage}: {recording.failure.reason}", 1000)
    return NodeReport(node.name, NodeState.UNKNOWN, reason, (), node.in_service, stage)


_DECISIVE: Mapping[NodeState, tuple[Status, tuple[Severity, ...]]] = {
    NodeState.UNHEALTHY: (Status.FAIL, (Severity.CRITICAL,)),
    NodeState.UNKNOWN: (Status.UNKNOWN, (Severity.CRITICAL, Severity.WARNING)),
    NodeState.DEGRADED: (Status.FAIL, (Severity.WARNING,)),
}


def _reason(state: NodeState, results: Sequence[Result]) -> str:
    """The rules that made the node what it is, each with its first word."""
    if state is NodeState.HEALTHY:
        return ""
    status, severities = _DECISIVE[state]
    said = []
    for result in results:
        if result.status is status and result.severity in severities:
            first = result.findings[0] if result.findings else None
            said.append(f"{result.rule}: " + (f"{first.subject}: {first.observed}, expected {first.expected}" if first else result.reason))
    return clean("; ".join(said), 1000) if said else "nothing was measured: every rule was skipped"
