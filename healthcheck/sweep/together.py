"""What needs all nodes of a sweep: their clocks, names and equals, and nodes without GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from healthcheck.judge import peers
from healthcheck.judge.fleetjudge import judge_fleet
from healthcheck.judge.gpuless import NOT_TAKEN, TAKEN, GpuHistory, SeenNode, basis, not_gpuless
from healthcheck.judge.headclock import HeadClock, head_clock
from healthcheck.judge.judge import judge
from healthcheck.judge.judge import result as result_of
from healthcheck.judge.samplejudge import FleetSample, judge_by_sample
from healthcheck.model.outcome import Finding, Status
from healthcheck.ruleset import sku as skus
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import Sku
from healthcheck.sweep.judgednode import JudgedNode
from inventory.model import Node
from inventory.nodeset import fold
from inventory.text import clean

_CLOCK_OFFSET = "host.clock_offset"


def one_machine(nodes: Sequence[JudgedNode]) -> Iterator[tuple[JudgedNode, str]]:
    """The nodes that are other names of a machine, with why: only its own hostname was measured."""
    machines: dict[tuple[str, str], list[JudgedNode]] = {}
    for judged in nodes:
        if all(judged.machine):
            machines.setdefault(judged.machine, []).append(judged)
    for (hostname, _), same in machines.items():
        if len(same) == 1:
            continue
        # The same words for all of them, so that they are one line.
        reason = clean(f"one machine, which calls itself {hostname}, answers as "
                       f"{fold(judged.node.name for judged in same)}: wrong address?", 1000)
        for judged in same:
            if judged.node.name.partition(".")[0] != hostname.partition(".")[0]:
                yield judged, reason


def take_gpuless(
    nodes: Sequence[Node], judged_nodes: Mapping[str, JudgedNode], named: Callable[[Node], Sku | None],
    rules: Sequence[Rule], gpuless: Sku, history: GpuHistory,
) -> None:
    """Judges nodes without SKU that are proven to have no GPUs as such, and says of those that show none
    why they are not taken for such. `named` gives the SKU that a node names."""
    seen = {node.name: _seen(node, judged_nodes.get(node.name), named(node)) for node in nodes}
    why_not = not_gpuless(seen, history)
    taken: dict[str, list[JudgedNode]] = {}
    for name, why in why_not.items():
        judged = judged_nodes[name]
        signs = seen[name].signs
        if signs is None or (signs.gpus and judged.learned.get("gpu_count") != 0):
            continue        # it has NVIDIA's, and needs no word of why it is none without
        if why:
            judged.sku_basis = f"{NOT_TAKEN}{why}"
        else:
            judged.sku_basis = f"{TAKEN}{basis(signs)}"
            taken.setdefault(signs.machine, []).append(judged)
    for equals in taken.values():
        sku = skus.with_ports_of(gpuless, [one.learned for one in equals],
                                 [one.empty for one in equals])
        for judged in equals:
            judged.sku = sku
            for rule in rules:
                if rule.id not in judged.results and not rule.checked.fleet:
                    judged.results[rule.id] = judge(rule, judged.facts, sku)


def _seen(node: Node, judged: JudgedNode | None, named: Sku | None) -> SeenNode:
    place = (f"the inventory gives it a place in NVLink domain {node.nvlink_domain}"
             if node.nvlink_domain is not None else
             "the inventory gives its ports rails" if any(
                 plan.rail is not None for plan in node.ports.values()) else "")
    return SeenNode(judged.signs if judged is not None else None,
                    judged.had_gpus if judged is not None else "",
                    None if named is None else "gpus" not in skus.must_lack(named), place)


def judge_fleets(
    nodes: Sequence[JudgedNode], rules: Sequence[Rule], samples: Mapping[str, FleetSample],
    learned: Sku | None,
) -> None:
    """Judges the fleet rules for each cohort. `learned` stands for the SKU of nodes that name none."""
    cohorts: dict[tuple[str, ...], dict[str, JudgedNode]] = {}
    for judged in nodes:
        # A node that contradicts its SKU is no peer of the others.
        # Neither is one for which no one named the SKU a peer of those that were declared.
        key = () if judged.sku is None else (
            judged.sku.name, *sorted(set(judged.sku.why_unknown.values())),
            *((judged.sku_basis,) if judged.sku_basis else ()))
        cohorts.setdefault(key, {})[judged.node.name] = judged
    for rule in rules:
        if not rule.checked.fleet:
            continue
        for key, members in cohorts.items():
            # A profile may have left the rule out for some.
            cohort = {name: judged.facts for name, judged in members.items()
                      if rule.id not in judged.results}
            sku = next(iter(members.values())).sku or learned
            # What contradicts its SKU is no peer of the nodes that were left out.
            sample = samples.get(key[0]) if len(key) == 1 else None
            found = (judge_fleet(rule, cohort, sku) if sample is None
                     else judge_by_sample(rule, cohort, sample, sku))
            for name, result in found.items():
                members[name].results[rule.id] = result


def clear_of_head_clock(nodes: Sequence[JudgedNode], rules: Sequence[Rule]) -> HeadClock | None:
    """Judges clocks against those of the other nodes where the head's is wrong; says how wrong it is."""
    found: HeadClock | None = None
    by_name = {judged.node.name: judged for judged in nodes}
    for rule in rules:
        most = rule.parameters.get("most_seconds")
        if rule.check != _CLOCK_OFFSET or not isinstance(most, (int, float)):
            continue
        offsets = {judged.node.name: judged.ahead for judged in nodes
                   if rule.id in judged.results
                   and judged.results[rule.id].status in (Status.PASS, Status.FAIL)}
        found = head_clock(offsets, float(most))
        if found is None:
            continue
        for name, off in offsets.items():
            against = off + found.ahead
            way = "ahead of" if against > 0 else "behind"
            by_name[name].results[rule.id] = (
                result_of(rule, Status.PASS) if abs(against) <= most else
                result_of(rule, Status.FAIL, (Finding(f"{abs(against):.0f} s {way} most others'",
                                                      f"at most {most:g} s apart", "clock"),)))
    return found


def count_peers(nodes: Sequence[JudgedNode], rules: Sequence[Rule]) -> None:
    """Adds to findings how many nodes have them, for rules that ask for it."""
    by_name = {judged.node.name: judged for judged in nodes}
    for rule in rules:
        if rule.checked.peers:
            results = {judged.node.name: judged.results[rule.id] for judged in nodes
                       if rule.id in judged.results}
            for name, result in peers.with_node_counts(results).items():
                by_name[name].results[rule.id] = result
