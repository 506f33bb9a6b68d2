"""Assesses one sweep: judges each recording as it comes, and at the end what needs all of them.

Fleet rules need every node of a cohort. Where no SKU is named, rules that need a SKU's numbers wait for the provisional SKU,
which is what most nodes show. Of each node only the facts that are still needed are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from healthcheck.baseline.kernelrules import KERNEL_BASELINE, KERNEL_CATALOGUE, KernelBaseline, KernelCatalogue, baseline_for
from healthcheck.checks.xid import resets as proven_resets
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.boot import EARLIER_BOOT, earlier_boot
from healthcheck.facts.cache import FactCache
from healthcheck.facts.kernel import KernelLog
from healthcheck.facts.kernel_event import KernelEvents
from healthcheck.facts.seen_before import SEEN_BEFORE, seen_before, unusual
from healthcheck.facts.site import PORT_PLANS, plans_of
from healthcheck.facts.values import Partial, Unmeasured
from healthcheck.facts.xid import Xids
from healthcheck.judge import peers
from healthcheck.judge.fleetjudge import judge_fleet
from healthcheck.judge.judge import judge
from healthcheck.judge.judge import result as result_of
from healthcheck.judge.leftout import LeftOut, addresses, left_out, noted
from healthcheck.judge.nodefacts import Facts, NodeFacts
from healthcheck.judge.nodereport import reason_of, unreached
from healthcheck.judge.view import ProfileRules
from healthcheck.kernellog.carried import NO_RECORDS
from healthcheck.kernellog.logresults import finding_records, without_repaired
from healthcheck.kernellog.model import Scope
from healthcheck.model.coverage import Coverage, coverage
from healthcheck.model.lease import NEEDED
from healthcheck.model.outcome import OUTCOME, LogView, NodeReport, NodeState, Origin, Result, Status, state_by
from healthcheck.model.recording import Host, Recording
from healthcheck.ruleset import sku as skus
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.ruleset.sku import Sku
from healthcheck.xid.xidtable import XID_TABLE, XidTable
from inventory.model import Node
from inventory.text import clean


@dataclass
class JudgedNode:
    """What was said of one node by itself: results so far by rule id, and the facts that are needed once all nodes are there.

    `unreached` is the report of a node that was not reached,
    or could not be judged; then there is nothing else.
    """

    node: Node
    unreached: NodeReport | None = None
    sku: Sku | None = None
    facts: NodeFacts = field(default_factory=lambda: NodeFacts({}))
    results: dict[str, Result] = field(default_factory=dict)
    machine: tuple[str, str] = ("", "")
    shows: Mapping[str, Any] = field(default_factory=dict)
    empty: Mapping[str, bool] = field(default_factory=dict)
    probes: Coverage | None = None
    left_out: LeftOut = field(default_factory=dict)
    log: LogView | None = None
    rests: Mapping[str, Collection[int] | None] = field(default_factory=dict)


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
        profiles: Sequence[str] = (), *, cached: bool = True,
    ) -> None:
        """`asked` are the ids of the probes that were sent: what is disruptive is judged where it was sent, or was recorded.

        `profiles` are those of the occasion; each node's own holds beside them. Not `cached`, every fact is made of its own captures,
        which changes no result.
        """
        self._cache = FactCache() if cached else None
        self._nodes = nodes
        self._by_name = {node.name: node for node in nodes}
        self._ruleset = ruleset
        self._asked = frozenset(asked)
        self._default_sku = default_sku
        self._waiting: dict[str, JudgedNode] = {}
        self._unreached: dict[str, NodeReport] = {}
        self._xids: Any = ruleset.xids or Unmeasured("no rules folder holds an xid.yaml", Origin.MUSTER)
        self._kernel = ruleset.kernel
        self._catalogue: Any = (
            KernelCatalogue("catalogue", self._kernel.catalogue) if self._kernel is not None
            else Unmeasured("no rules folder holds a catalogue of kernel lines", Origin.MUSTER))
        self._baselines: dict[tuple[Scope, str], KernelBaseline] = {}       # which are found among all in the rules' folders
        self._views = {name: ProfileRules.of(ruleset.under(name, *profiles)) for name in {node.profile for node in nodes}}

    @property
    def previous_facts(self) -> bool:
        """Whether any rule that is judged compares with an earlier look."""
        return any(view.previous or view.kept for view in self._views.values())

    def add(self, recording: Recording, previous: Recording | None = None) -> None:
        """Judges what can be judged of one node now. `previous` is its earlier snapshot, of whatever boot."""
        self.take(self.judged(recording, previous))

    def judged(self, recording: Recording, previous: Recording | None = None) -> JudgedNode:
        """What can be said of one node by itself. It changes nothing here, so that other processes can do it; `take` takes it."""
        node = self._by_name[recording.node]
        if recording.host is None or recording.failure is not None:
            return JudgedNode(node, unreached=unreached(node, recording))
        try:
            return self._judge(node, recording, previous)
        except Exception as error:  # noqa: BLE001  (a defect that one node's answer brings to light must not cost the sweep)
            return self.failed(node.name, f"{type(error).__name__}: {error}")

    def failed(self, name: str, why: str) -> JudgedNode:
        """A node that could not be judged, by our own fault."""
        node = self._by_name[name]
        reason = clean(f"muster: judging this node failed: {why}", 300)
        return JudgedNode(node, unreached=NodeReport(node.name, NodeState.UNKNOWN, reason, (), node.in_service))

    def take(self, judged: JudgedNode) -> None:
        """Takes what `judged` said of a node; the newest counts."""
        name = judged.node.name
        self._waiting.pop(name, None)
        self._unreached.pop(name, None)
        if judged.unreached is not None:
            self._unreached[name] = judged.unreached
        else:
            self._waiting[name] = judged

    def _judge(self, node: Node, recording: Recording, previous: Recording | None) -> JudgedNode:
        sku = self._sku_of(node)
        left = left_out(recording.captures)
        view = self._views[node.profile]
        disturbed = {name for name in view.disruptive_probes if name in self._asked or name in recording.captures}
        needed = view.facts if disturbed else view.undisturbed
        facts = facts_of(recording, needed | view.learned if sku is None else needed, self._cache)
        earlier = None
        if previous is not None and _same_boot(recording, previous):
            held = previous.captures        # without the facts that it did not look for, being for other rules
            earlier = facts_of(previous, [name for name, probes in view.looked if all(map(held.__contains__, probes))], self._cache)
        if sku is not None and (why := skus.contradiction(sku, facts)) is not None:
            sku = sku.contradicted(why)
        facts[PORT_PLANS] = plans_of(node, sku.ports if sku is not None else {}, addresses(left))
        facts[EARLIER_BOOT] = earlier_boot(recording, previous, node.lifecycle.state)
        facts[SEEN_BEFORE] = seen_before(previous)
        facts[XID_TABLE] = self._xids
        facts[KERNEL_CATALOGUE] = self._catalogue
        facts[KERNEL_BASELINE] = self._baseline(facts.get("kernel_events"), sku)
        snapshot = NodeFacts(facts, earlier)
        results = dict(view.left_out)
        kept = set(view.fleet_facts)
        for rule in view.alone:
            if rule.disruptive and disturbed.isdisjoint(probe.id for probe in rule.disruptive):
                results[rule.id] = view.unasked[rule.id]
            elif sku is None and _needs_sku(rule):
                kept.update(rule.fact_names)
            else:
                results[rule.id] = judge(rule, snapshot, sku)
        waiting = JudgedNode(node, None, sku, snapshot, results, _machine(recording), probes=coverage(recording, view.asked), left_out=left)
        if sku is None:
            waiting.shows = skus.learn(facts)
            waiting.empty = skus.emptiness(facts)
        waiting.log = self._read_log(waiting, facts, view, recording.host)
        before = None if earlier is None else {name: earlier[name] for name in view.previous if name in earlier and name in kept}
        waiting.facts = NodeFacts({name: facts[name] for name in kept if name in facts}, before)
        return waiting

    def _read_log(self, waiting: JudgedNode, facts: Facts, view: ProfileRules, host: Host | None) -> LogView | None:
        """What the log's findings rest on, and what of the log was judged; what a person said was repaired is no finding any more."""
        log, part = _of(facts.get("kernel_log"))
        if not isinstance(log, KernelLog) or host is None:
            return None
        said = {rule.id: waiting.results[rule.id] for rule in view.of_log if rule.id in waiting.results}
        if log.carried.repairs:
            for rule in view.of_log:
                if rule.id in said and said[rule.id].status is Status.FAIL:
                    unread = part or any(_of(facts.get(name))[1] for name in rule.fact_names)
                    waiting.results[rule.id] = said[rule.id] = without_repaired(said[rule.id], log.carried.repairs, unread=unread)
        waiting.rests = finding_records(said.values(), log.carried.records_by_rule, whole=not part)
        xids = _of(facts.get("xids"))[0]
        resets = proven_resets(xids, self._xids) if isinstance(xids, Xids) and isinstance(self._xids, XidTable) else ()
        since = log.carried.seconds if log.carried != NO_RECORDS else log.oldest
        return LogView(host.boot_id, log.first, log.carried.numbers, since, log.newest, resets, log.whole)

    def unusual(self, name: str) -> tuple[str, ...]:
        """Fingerprints of what this node's kernel log had that is unusual, for its next snapshot to be compared with."""
        waiting = self._waiting.get(name)
        return unusual(waiting.results) if waiting is not None else ()

    def rests(self, name: str) -> Mapping[str, Collection[int] | None]:
        """By rule the numbers of the kernel's records on which its findings of this node rest, as `healthcheck.sweep.looks` keeps them."""
        waiting = self._waiting.get(name)
        return waiting.rests if waiting is not None else {}

    def _baseline(self, found: Any, sku: Sku | None) -> Any:
        """The kernel log's baseline for a node of this SKU whose log says which kernel and driver it has."""
        events = found.value if isinstance(found, Partial) else found
        if not isinstance(events, KernelEvents) or self._kernel is None:
            return Unmeasured("the kernel's log was not read")
        key = events.digest.scope, sku.name if sku is not None else ""
        known = self._baselines.get(key)
        if known is None:
            known = self._baselines[key] = baseline_for(self._kernel, replace(key[0], sku=key[1]))
        return known

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
            for rule in self._judged():
                if rule.id not in waiting.results and not rule.checked.fleet:
                    waiting.results[rule.id] = judge(rule, waiting.facts, learned)
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
                held = {node.name: self._waiting[node.name].results.get(rule.id) for node in self._nodes if node.name in self._waiting}
                for name, result in peers.told({name: said for name, said in held.items() if said is not None}).items():
                    self._waiting[name].results[rule.id] = result

    def _withhold(self, waiting: JudgedNode, why: str) -> None:
        """Whatever was measured beside somebody's job says nothing of the node."""
        for rule in self._views[waiting.node.profile].judged:
            if rule.disruptive and rule.id in waiting.results:
                reason = clean(f"{NEEDED}: {why}")
                waiting.results[rule.id] = result_of(rule, Status.UNKNOWN, reason=reason, origin=Origin.MUSTER)

    def _part_twins(self) -> None:
        """Two names that lead to one machine: the node that was meant was not measured, and its twin's health is not its own."""
        machines: dict[tuple[str, str], list[JudgedNode]] = {}
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

    def _sku_of(self, node: Node) -> Sku | None:
        name = node.sku or self._default_sku
        return self._ruleset.skus[name] if name is not None else None

    def _judged(self) -> tuple[Rule, ...]:
        """The rules that are judged for some node; a profile may have left them out for others, or enabled them."""
        return tuple({rule.id: rule for view in self._views.values() for rule in view.rules if not rule.left_out}.values())

    def _judge_fleets(self, learned: Sku | None) -> None:
        cohorts: dict[tuple[str, ...], dict[str, JudgedNode]] = {}
        for node in self._nodes:
            if node.name in self._waiting:
                waiting = self._waiting[node.name]
                # One that is plainly no machine of its SKU is no peer of those that are.
                key = (waiting.sku.name, *sorted(set(waiting.sku.why_unknown.values()))) if waiting.sku else ()
                cohorts.setdefault(key, {})[node.name] = waiting
        for rule in self._judged():
            if not rule.checked.fleet:
                continue
            for members in cohorts.values():
                # A profile may have left the rule out for some.
                asked = {name: waiting.facts for name, waiting in members.items() if rule.id not in waiting.results}
                sku = next(iter(members.values())).sku or learned
                for name, result in judge_fleet(rule, asked, sku).items():
                    members[name].results[rule.id] = result

    def _report(self, node: Node, unfinished: str) -> NodeReport:
        if node.name in self._unreached:
            return self._unreached[node.name]
        if node.name not in self._waiting:
            return NodeReport(node.name, NodeState.UNKNOWN, unfinished, (), node.in_service)
        waiting = self._waiting[node.name]
        results = tuple([waiting.results[rule.id] for rule in self._ruleset.rules])
        state = state_by(set(map(OUTCOME, results)))
        if waiting.left_out:
            results = tuple(noted(result, rule, waiting.left_out) for rule, result in zip(self._ruleset.rules, results, strict=True))
        named = waiting.sku.name if waiting.sku else None
        return NodeReport(node.name, state, reason_of(state, results), results, node.in_service, probes=waiting.probes, sku=named,
                          log=waiting.log)


def _of(value: Any) -> tuple[Any, bool]:
    """A fact, and whether a part of it was not read."""
    return (value.value, True) if isinstance(value, Partial) else (value, False)


def _needs_sku(rule: Rule) -> bool:
    """Whether a rule waits, on a node that names no SKU, for what most nodes show."""
    return bool(rule.numbers) or not _SKU_FACTS.isdisjoint(rule.fact_names)


_SKU_FACTS = frozenset((*skus.EMPTY_FACTS, *skus.OF_GPUS, *skus.OF_PORTS))


def facts_of(recording: Recording, names: Iterable[str], cache: FactCache | None = None) -> dict[str, Any]:
    """The facts of these names that a reached node's recording holds."""
    captures = Captures(recording, cache)
    return {name: build_fact(FACTS[name], captures) for name in names}


def _same_boot(now: Recording, before: Recording | None) -> bool:
    return before is not None and before.host is not None and now.host is not None \
        and bool(now.host.boot_id) and now.host.boot_id == before.host.boot_id


def _machine(recording: Recording) -> tuple[str, str]:
    """What tells machines apart: the host's name and its boot. (Containers of one machine share the boot, not the name.)"""
    return (recording.host.hostname, recording.host.boot_id) if recording.host else ("", "")
