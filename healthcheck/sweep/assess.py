"""Assesses one sweep: judges each recording as it arrives, and at the end what needs all of them.

Fleet rules need every node of a cohort. Where no SKU is named, rules that need a SKU's numbers wait for the
provisional SKU, which is what most nodes show. Only the facts of a node that are still needed are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from healthcheck.baseline.kernelrules import (
    KERNEL_BASELINE,
    KERNEL_CATALOGUE,
    KernelBaseline,
    KernelCatalogue,
    baseline_for,
)
from healthcheck.checks.xid_events import resets as proven_resets
from healthcheck.facts.base import Captures
from healthcheck.facts.boot import EARLIER_BOOT, earlier_boot
from healthcheck.facts.cache import FactCache
from healthcheck.facts.gpusigns import gpu_signs, shown_before
from healthcheck.facts.kernel import KernelLog
from healthcheck.facts.kernel_event import KernelEvents
from healthcheck.facts.nvlink_place import NVLINK_PLACE, place_of, whereabouts
from healthcheck.facts.seen_before import SEEN_BEFORE, seen_before, unusual
from healthcheck.facts.site import PORT_PLANS, plans_of
from healthcheck.facts.unanswered import UNANSWERED, unanswered
from healthcheck.facts.values import Partial, Refusal, Unmeasured, refusals
from healthcheck.facts.xid import Xids
from healthcheck.judge.gpuless import GpuHistory
from healthcheck.judge.headclock import HeadClock
from healthcheck.judge.judge import BoundRule, judge
from healthcheck.judge.judge import result as result_of
from healthcheck.judge.leftout import addresses, left_out, with_left_out
from healthcheck.judge.nodefacts import Facts, NodeFacts
from healthcheck.judge.nodereport import reason_of, unreached
from healthcheck.judge.samplejudge import FleetSample
from healthcheck.judge.switchblame import blame_switch
from healthcheck.judge.view import ProfileRules
from healthcheck.judge.whereabouts import with_whereabouts
from healthcheck.kernellog.carried import NO_RECORDS
from healthcheck.kernellog.logresults import finding_records, without_repaired
from healthcheck.kernellog.model import Scope
from healthcheck.model.cause import with_causes
from healthcheck.model.coverage import coverage
from healthcheck.model.lease import NEEDED
from healthcheck.model.outcome import (
    OUTCOME,
    LogView,
    NodeReport,
    Origin,
    Status,
    state_by,
)
from healthcheck.model.recording import Host, Recording
from healthcheck.ruleset import sku as skus
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.ruleset.sku import Sku
from healthcheck.sweep import together
from healthcheck.sweep.judgednode import (
    JudgedNode,
    facts_of,
    lacking_probes,
    machine_of,
    narrowed_for_fleet,
    same_boot,
    unknown,
)
from healthcheck.sweep.sharing import SharedResults
from healthcheck.xid.xidtable import XID_TABLE, XidTable
from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import Stage

GPULESS = "cpu-only"        # the SKU of machines without GPUs


@dataclass(frozen=True)
class Assessed:
    """A whole sweep judged: reports in the nodes' order, and where nodes name no SKU, the provisional one.

    `looks_like` names the known SKU that all such nodes resemble, where nothing could be learned. `head` says
    that the clock of the head is wrong, and not those of its nodes.
    """

    reports: tuple[NodeReport, ...]
    provisional: Sku | None = None
    looks_like: str | None = None
    head: HeadClock | None = None


class Assessment:
    """Takes recordings in any order; `finish` gives the reports, which do not depend on that order."""

    def __init__(self, nodes: Sequence[Node], ruleset: Ruleset, default_sku: str | None = None,
                 sent: Collection[str] = (), profiles: Sequence[str] = (), *, cached: bool = True,
                 samples: Mapping[str, FleetSample] = MappingProxyType({}),
                 gpu_history: GpuHistory | None = None) -> None:
        """`sent` are the ids of the probes that were sent: a disruptive rule is judged where its probe was
        sent or was recorded.

        `profiles` are those of the occasion, beside each node's own. Without `cached` every fact is made from
        its own captures, which changes no result. `samples` are the cohorts, by SKU, of which the sweep left
        nodes out.

        With `gpu_history` a node without SKU that is proven to be no GPU node is judged as one without GPUs
        (`healthcheck.judge.gpuless`). Only the head gives it: an agent or a gate has neither history nor
        equals, and would call a node healthy whose GPUs have all left it. There a SKU has to be named.
        """
        without = ruleset.skus.get(GPULESS)     # a site may have made it anything
        self._gpu_history = gpu_history if default_sku is None and any(node.sku is None for node in nodes) \
            and without is not None and "gpus" in skus.must_lack(without) else None
        self._samples = samples
        self._cache = FactCache() if cached else None
        self._shared = SharedResults()
        self._nodes = nodes
        self._by_name = {node.name: node for node in nodes}
        self._ruleset = ruleset
        self._sent = frozenset(sent)
        self._default_sku = default_sku
        self._answering = frozenset(rule.id for rule in ruleset.rules if rule.checked.answers)
        self._judged: dict[str, JudgedNode] = {}
        self._unreached: dict[str, NodeReport] = {}
        self._xids: Any = ruleset.xids or Unmeasured("no rules folder holds an xid.yaml", Origin.MUSTER)
        self._kernel = ruleset.kernel
        self._catalogue: Any = (
            KernelCatalogue("catalogue", self._kernel.catalogue) if self._kernel is not None
            else Unmeasured("no rules folder holds a catalogue of kernel lines", Origin.MUSTER))
        self._baselines: dict[tuple[Scope, str], KernelBaseline] = {}
        self._bound: dict[tuple[str | None, str], tuple[BoundRule, ...]] = {}
        self._views = {name: ProfileRules.of(ruleset.under(name, *profiles))
                       for name in {node.profile for node in nodes}}

    @property
    def uses_previous(self) -> bool:
        """Whether any rule that is judged compares with an earlier snapshot."""
        return any(view.previous or view.keeps_history for view in self._views.values())

    def add(self, recording: Recording, previous: Recording | None = None) -> None:
        """Judges what can be judged of one node now. `previous` is its earlier snapshot, of any boot."""
        self.add_judged(self.judged(recording, previous))

    def judged(self, recording: Recording, previous: Recording | None = None) -> JudgedNode:
        """One node judged by itself. It changes nothing here, so other processes can run it."""
        node = self._by_name[recording.node]
        if recording.host is None or recording.failure is not None:
            return JudgedNode(node, unreached=unreached(node, recording))
        try:
            return self._judge(node, recording, previous)
        except Exception as error:  # noqa: BLE001  (a defect costs this node only)
            return self.failed(node.name, f"{type(error).__name__}: {error}")

    def failed(self, name: str, why: str) -> JudgedNode:
        """A node that could not be judged, through our own fault."""
        node = self._by_name[name]
        reason = clean(f"muster: judging this node failed: {why}", 300)
        # The stage says to store, triage and gate that it is no doing of the node's.
        return JudgedNode(node, unreached=replace(unknown(node, reason), stage=Stage.HEAD.value))

    def add_judged(self, judged: JudgedNode) -> None:
        """Adds what `judged` returned; a node's newest counts."""
        name = judged.node.name
        self._judged.pop(name, None)
        self._unreached.pop(name, None)
        if judged.unreached is not None:
            self._unreached[name] = judged.unreached
        else:
            shared = self._shared.once(judged.results.values())
            judged.results = dict(zip(judged.results, shared, strict=True))
            self._judged[name] = judged

    def _judge(self, node: Node, recording: Recording, previous: Recording | None) -> JudgedNode:
        sku = self._sku_of(node)
        left = left_out(recording.captures)
        view = self._views[node.profile]
        disruptive = {name for name in view.disruptive_probes if name in self._sent
                      or name in recording.captures}
        needed = view.facts if disruptive else view.passive_facts
        facts = facts_of(recording, needed | view.learned if sku is None else needed, self._cache)
        earlier = None
        if previous is not None and same_boot(recording, previous):
            # Without the facts that it did not capture, having served other rules.
            captured = [name for name, probes in view.previous_probes.items()
                        if all(map(previous.captures.__contains__, probes))]
            earlier = facts_of(previous, captured, self._cache)
        if sku is not None and (why := skus.contradiction(sku, facts)) is not None:
            sku = sku.contradicted(why)
        facts[PORT_PLANS] = plans_of(node, sku.ports if sku is not None else {}, addresses(left))
        facts[NVLINK_PLACE] = place_of(node, facts.get("gpus"))
        facts[EARLIER_BOOT] = earlier_boot(recording, previous, node.lifecycle.state)
        facts[SEEN_BEFORE] = seen_before(previous)
        facts[UNANSWERED] = unanswered(recording, previous)
        facts[XID_TABLE] = self._xids
        facts[KERNEL_CATALOGUE] = self._catalogue
        facts[KERNEL_BASELINE] = self._baseline(facts.get("kernel_events"), sku)
        snapshot = NodeFacts(facts, earlier)
        results = dict(view.left_out)
        kept = set(view.fleet_facts)
        refused: list[Refusal] = []
        with refusals(refused):
            for bound in self._bound_rules(node, sku):
                rule = bound.rule
                if rule.disruptive and disruptive.isdisjoint(probe.id for probe in rule.disruptive):
                    results[rule.id] = view.unleased[rule.id]
                elif sku is None and _needs_sku(rule):
                    kept.update(rule.fact_names)
                else:
                    results[rule.id] = bound.judge(snapshot, refused)
        judged = JudgedNode(node, None, sku, snapshot, results, machine_of(recording),
                            probes=coverage(recording, view.requested), left_out=left,
                            lacking=lacking_probes(recording))
        if sku is None:
            judged.learned = skus.learn(facts)
            judged.empty = skus.emptiness(facts)
        if self._gpu_history is not None:
            judged.signs = gpu_signs(Captures(recording, self._cache))
            judged.had_gpus = shown_before(previous)
        judged.whereabouts = whereabouts(node, facts.get("gpus"))
        if recording.host is not None:
            judged.ahead = recording.host.time - recording.received
        judged.log = self._read_log(judged, facts, view, recording.host)
        if earlier is not None:
            earlier = {name: earlier[name] for name in view.previous if name in earlier and name in kept}
        held = {name: facts[name] for name in kept if name in facts}
        if sku is not None:     # else rules of single nodes wait for what most nodes show
            held = narrowed_for_fleet(held, view)
            earlier = None if earlier is None else narrowed_for_fleet(earlier, view)
        judged.facts = NodeFacts(held, earlier)
        return judged

    def _bound_rules(self, node: Node, sku: Sku | None) -> tuple[BoundRule, ...]:
        """The rules that need one node only, with the values of this SKU."""
        single = self._views[node.profile].single
        if sku is not self._sku_of(node):   # the node contradicts it, so that it has no numbers
            return tuple([BoundRule(rule, sku) for rule in single])
        key = node.profile, sku.name if sku is not None else ""
        if key not in self._bound:
            self._bound[key] = tuple([BoundRule(rule, sku) for rule in single])
        return self._bound[key]

    def _read_log(self, judged: JudgedNode, facts: Facts, view: ProfileRules,
                  host: Host | None) -> LogView | None:
        """What of the log was judged; sets `rests` and drops findings that a person reported as repaired."""
        log, part = _unwrapped(facts.get("kernel_log"))
        if not isinstance(log, KernelLog) or host is None:
            return None
        results = {rule.id: judged.results[rule.id] for rule in view.log_rules if rule.id in judged.results}
        if log.carried.repairs:
            for rule in view.log_rules:
                if rule.id in results and results[rule.id].status is Status.FAIL:
                    unread = part or any(_unwrapped(facts.get(name))[1] for name in rule.fact_names)
                    results[rule.id] = without_repaired(results[rule.id], log.carried.repairs, unread=unread)
            judged.results.update(results)
        judged.rests = finding_records(results.values(), log.carried.records_by_rule, whole=not part)
        xids, _ = _unwrapped(facts.get("xids"))
        known = isinstance(xids, Xids) and isinstance(self._xids, XidTable)
        resets = proven_resets(xids, self._xids) if known else ()
        since = log.carried.seconds if log.carried != NO_RECORDS else log.oldest
        return LogView(host.boot_id, log.first, log.carried.numbers, since, log.newest, resets, log.whole)

    def unusual(self, name: str) -> tuple[str, ...]:
        """Fingerprints of unusual lines in this node's kernel log, for its next snapshot to compare."""
        judged = self._judged.get(name)
        return unusual(judged.results) if judged is not None else ()

    def rests(self, name: str) -> Mapping[str, Collection[int] | None]:
        """By rule the numbers of the kernel records on which its findings on this node rest."""
        judged = self._judged.get(name)
        return judged.rests if judged is not None else {}

    def _baseline(self, found: Any, sku: Sku | None) -> Any:
        """The kernel log's baseline for a node of this SKU, whose log names its kernel and driver."""
        events, _ = _unwrapped(found)
        if not isinstance(events, KernelEvents) or self._kernel is None:
            return Unmeasured("the kernel's log was not read")
        key = events.digest.scope, sku.name if sku is not None else ""
        known = self._baselines.get(key)
        if known is None:
            known = self._baselines[key] = baseline_for(self._kernel, replace(key[0], sku=key[1]))
        return known

    def finish(self, unfinished: str = "not finished",
               withheld: Mapping[str, str] = MappingProxyType({})) -> Assessed:
        """The reports of all nodes; one that was never added is unknown, with `unfinished` as its reason.

        `withheld` gives by node why it had no lease or lost it: the disruptive rules are unknown there.
        """
        for duplicate, why in together.one_machine(self._in_order()):
            self._unreached[duplicate.node.name] = unknown(duplicate.node, why)
            del self._judged[duplicate.node.name]
        rules, learned = self._judged_rules(), None
        if self._gpu_history is not None:
            together.take_gpuless(self._nodes, self._judged, self._sku_of, rules,
                                  self._ruleset.skus[GPULESS], self._gpu_history)
        without_sku = [node for node in self._judged.values() if node.sku is None]
        if without_sku:
            shown = [skus.of_gpus_there(node.learned, node.empty) for node in without_sku]
            learned = skus.provisional([numbers for numbers, _ in shown], [empty for _, empty in shown])
        for node in without_sku:
            for rule in rules:
                if rule.id not in node.results and not rule.checked.fleet:
                    node.results[rule.id] = judge(rule, node.facts, learned)
        nodes = self._in_order()
        together.judge_fleets(nodes, rules, self._samples, learned)
        for judged in self._judged.values():
            found = {rule: result for rule, result in judged.results.items() if result.findings}
            if found:
                found.update(with_whereabouts(found, judged.whereabouts))
                judged.results.update({**found, **blame_switch(found, judged.facts)})
        head = together.clear_of_head_clock(nodes, rules)
        together.count_peers(nodes, rules)
        for name, why in withheld.items():
            if (lost := self._judged.get(name)) is not None:
                self._withhold(lost, why)
        for judged in self._judged.values():
            if judged.lacking:
                self._blame_version(judged)
            judged.facts = NodeFacts({})        # no one asks for them any more, and reports need their room
        reports = tuple(self._report(node, unfinished) for node in self._nodes)
        similar = {skus.closest(node.learned, self._ruleset.skus) for node in without_sku}
        nothing_learned = learned is not None and not learned.numbers
        looks_like = similar.pop() if len(similar) == 1 and nothing_learned else None
        if looks_like == GPULESS and any(node.sku_basis for node in without_sku):
            looks_like = None       # something says that it only looks so
        return Assessed(reports, learned, looks_like, head)

    def _in_order(self) -> list[JudgedNode]:
        """The nodes that were judged, in the inventory's order."""
        return [self._judged[node.name] for node in self._nodes if node.name in self._judged]

    def _withhold(self, judged: JudgedNode, why: str) -> None:
        """Marks disruptive results as unknown: what was measured beside someone's job is not reliable."""
        for rule in self._views[judged.node.profile].judged:
            if rule.disruptive and rule.id in judged.results:
                reason = clean(f"{NEEDED}: {why}")
                judged.results[rule.id] = result_of(rule, Status.UNKNOWN, reason=reason, origin=Origin.MUSTER)

    def _blame_version(self, judged: JudgedNode) -> None:
        """Makes UNKNOWN results muster's own whose probes the agent's version lacks."""
        for rule in self._views[judged.node.profile].judged:
            result = judged.results.get(rule.id)
            if (result is not None and result.status is Status.UNKNOWN
                    and not judged.lacking.isdisjoint(probe.id for probe in rule.probes)):
                judged.results[rule.id] = replace(result, origin=Origin.MUSTER)

    def _sku_of(self, node: Node) -> Sku | None:
        name = node.sku or self._default_sku
        return self._ruleset.skus[name] if name is not None else None

    def _judged_rules(self) -> tuple[Rule, ...]:
        """The rules that are judged for some node; profiles may leave them out for others."""
        return tuple({rule.id: rule for view in self._views.values() for rule in view.rules
                      if not rule.left_out}.values())

    def _report(self, node: Node, unfinished: str) -> NodeReport:
        if node.name in self._unreached:
            return self._unreached[node.name]
        if node.name not in self._judged:
            return unknown(node, unfinished)
        judged = self._judged[node.name]
        results = tuple([judged.results[rule.id] for rule in self._ruleset.rules])
        state = state_by(set(map(OUTCOME, results)))
        if any(result.unjudged for result in results):
            results = with_causes(results, self._answering)
        if judged.left_out:
            results = tuple(with_left_out(result, rule, judged.left_out)
                            for rule, result in zip(self._ruleset.rules, results, strict=True))
        results = tuple(self._shared.once(results))
        return NodeReport(node.name, state, reason_of(state, results), results, node.in_service,
                          probes=judged.probes, sku=judged.sku.name if judged.sku else None, log=judged.log,
                          sku_basis=clean(judged.sku_basis, 1000))


def _unwrapped(value: Any) -> tuple[Any, bool]:
    """A fact, and whether a part of it was not read."""
    return (value.value, True) if isinstance(value, Partial) else (value, False)


def _needs_sku(rule: Rule) -> bool:
    """Whether a rule waits for the provisional SKU on a node that names none."""
    return bool(rule.numbers) or not _SKU_FACTS.isdisjoint(rule.fact_names)


_SKU_FACTS = frozenset((*skus.EMPTY_FACTS, *skus.OF_GPUS, *skus.OF_PORTS))

