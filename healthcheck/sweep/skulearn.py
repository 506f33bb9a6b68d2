"""Proposes a SKU from looks at nodes: what all or most agree on, what differs from the nearest known SKU, and how sure that is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.port import most_common_kind
from healthcheck.facts.values import reading
from healthcheck.model.outcome import NodeReport, Severity, Status
from healthcheck.model.recording import Recording
from healthcheck.ruleset import sku as skus
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.ruleset.sku import Sku
from healthcheck.sweep.assess import Assessment
from inventory.errors import UsageError
from inventory.model import Node
from inventory.text import clean

# Within so many per cent a quantity is what the known SKU says: its numbers are the least that sound machines show.
_ALIKE_PERCENT = 3
_QUANTITIES = ("memory_gib", "gpu_memory_gib", "nvlink_gigabytes")


@dataclass(frozen=True)
class LearnedNumber:
    """One number: its value (None: not to be judged), and in words how many nodes say so. Without `measured` none of them says anything."""

    value: Any
    how: str
    measured: bool = True


@dataclass(frozen=True)
class SkuProposal:
    """A SKU in the making. `nodes` were learned from; `left_out` says why others were not; `parent` is the nearest known SKU."""

    nodes: tuple[str, ...]
    left_out: Mapping[str, str]
    numbers: Mapping[str, LearnedNumber]
    empty: frozenset[str]
    ports: tuple[str, ...]
    ports_how: str
    parent: Sku | None

    @property
    def differs(self) -> Mapping[str, LearnedNumber]:
        """The numbers that were measured and are not as the parent has them; all where there is none."""
        if self.parent is None:
            return self.numbers
        parent, gone = self.parent, self._gone
        return {
            name: said for name, said in self.numbers.items() if said.measured and name not in gone and not _alike(name, said.value, parent)
        }

    @property
    def inherited(self) -> tuple[str, ...]:
        """What no node was measured for and the parent gives: it stays as it is there, for a silent look is no reason to judge less."""
        if self.parent is None:
            return ()
        given, gone = self.parent.numbers, self._gone
        return tuple(name for name, said in self.numbers.items() if not said.measured and name not in gone and given.get(name) is not None)

    @property
    def _gone(self) -> frozenset[str]:
        """What GPUs would show: no machine without them lacks it."""
        absent = {"gpus", *skus.OF_GPUS} if "gpus" in self.empty else set()
        return frozenset(name for name, facts in skus.LEARNED_FROM.items() if absent & set(facts))

    @property
    def new_ports(self) -> tuple[str, ...]:
        """The compute ports, unless the parent has them so already."""
        known = _compute(self.parent) if self.parent is not None else frozenset()
        return () if known == frozenset(self.ports) else self.ports


def propose(looks: Sequence[Recording], ruleset: Ruleset) -> SkuProposal:
    """Learns from looks at nodes of one kind; raises UsageError where none of them is sound: what is sick must not become the norm."""
    reports = _reports(looks, ruleset)
    left_out = {node: why for node, report in reports.items() if (why := _trouble(report))}
    sound = [look for look in looks if look.node not in left_out]
    if not sound:
        first, why = next(iter(left_out.items()), ("", "there is none"))
        raise UsageError(f"no node is fit to learn from, and what is sick must not become what is expected: {first}: {clean(why, 300)}")
    facts = {look.node: _facts(look) for look in sound}
    shows = {node: skus.learn(found) for node, found in facts.items()}
    numbers = {name: _agree(name, {node: values[name] for node, values in shows.items()}) for name in skus.LEARNERS}
    empty = frozenset(name for name in skus.EMPTY_FACTS if all(skus.emptiness(found)[name] for found in facts.values()))
    ports, how = _ports(facts.values())
    parent = _nearest(numbers, empty, ports, ruleset.skus.values())
    return SkuProposal(tuple(facts), left_out, numbers, empty, ports, how, parent)


def as_yaml(proposal: SkuProposal, name: str, source: str) -> str:
    """The proposal as a file for a rules folder's `sku/`; how sure each number is stands beside it, for whoever is to approve it."""
    parent = proposal.parent
    lines = ["# Proposed by `muster sku learn`. Read it before you rely on it: what most nodes share may be a fault.", f"sku: {name}"]
    if parent is not None:
        lines.append(f"inherit: {parent.name}")
    shown = {key: said.value for key, said in proposal.numbers.items()}
    lines.append(f"title: {json.dumps(_title(shown))}")
    if proposal.empty - (parent.empty if parent is not None else frozenset()):
        lines.append(f"empty: [{', '.join(sorted(proposal.empty))}]")
    numbers = {key: (_plain(said.value), said.how) for key, said in proposal.differs.items()}
    if numbers:
        width = max(len(f"{key}: {value}") for key, (value, _) in numbers.items())
        lines.append("numbers:")
        lines += [f"  {f'{key}: {value}':<{width}}  # {how}" for key, (value, how) in numbers.items()]
    if proposal.new_ports:
        lines.append(f"ports:  # {proposal.ports_how}; rails in the order of PCI addresses: compare them with the cabling")
        lines += [f'  "{pci}": {{role: compute, rail: {rail}}}' for rail, pci in enumerate(proposal.new_ports)]
    lines.append(f"source: {json.dumps(clean(source, 300))}")
    return "\n".join(lines) + "\n"


def differences(proposal: SkuProposal) -> list[str]:
    """One line for each number that is not as the nearest SKU has it."""
    if proposal.parent is None:
        return []
    given = proposal.parent.numbers
    lines = [f"{key}: {_plain(said.value)}, there {_plain(given.get(key))} ({said.how})" for key, said in proposal.differs.items()]
    if proposal.new_ports:
        there = len(_compute(proposal.parent)) or "none"
        lines.append(f"ports: {len(proposal.new_ports)} by PCI address, there {there} ({proposal.ports_how})")
    return lines


def _reports(looks: Sequence[Recording], ruleset: Ruleset) -> dict[str, NodeReport]:
    """The looks judged by what their majority shows, whatever SKU the nodes were to be."""
    assessment = Assessment([Node(name=look.node) for look in looks], ruleset)
    for look in looks:
        assessment.add(look)
    return {report.node: report for report in assessment.finish().reports}


def _trouble(report: NodeReport) -> str:
    """Why nothing can be learned from a node: it was not reached, or something is plainly wrong with it."""
    if not report.results:
        return report.reason
    said = []
    for result in report.results:
        if result.status is Status.FAIL and result.severity is Severity.CRITICAL:
            first = result.findings[0]
            said.append(f"{result.rule}: {first.subject}: {first.observed}, expected {first.expected}")
    return "; ".join(said)


def _facts(look: Recording) -> dict[str, Any]:
    captures = Captures(look)
    names = {name for names in skus.LEARNED_FROM.values() for name in names} | set(skus.EMPTY_FACTS)
    return {name: build_fact(FACTS[name], captures) for name in names if name in FACTS}


def _agree(name: str, said: Mapping[str, Any]) -> LearnedNumber:
    values = [value for value in said.values() if value is not None]
    unread = f", {len(said) - len(values)} not measured" if len(values) < len(said) else ""
    if not values:
        return LearnedNumber(None, "not measured, so not judged", measured=False)
    if name in skus.MEASURED and min(values) != max(values):
        return LearnedNumber(median_low(values),
                             f"the median of {len(values)} nodes, {_plain(min(values))} to {_plain(max(values))}{unread}")
    value, number = Counter(values).most_common(1)[0]
    if number == len(values):
        return LearnedNumber(value, (f"all {number} nodes" if number > 1 else "the one node") + unread)
    others = sorted({_plain(other) for other in values if other != value})
    if 2 * number <= len(values):
        return LearnedNumber(None, f"no majority of {len(values)} nodes, so not judged: {', '.join([_plain(value), *others][:4])}{unread}")
    odd = [node for node, other in said.items() if other is not None and other != value]
    return LearnedNumber(value, f"{number} of {len(values)} nodes, not {', '.join(odd[:3])} ({', '.join(others[:3])}){unread}")


def _ports(facts: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, ...], str]:
    """The PCI addresses of the compute ports, as more than half of the nodes have them."""
    seen = []
    for found in facts:
        ports = found.get("ports")
        if isinstance(ports, tuple) and all(isinstance(reading(port, "pci"), str) for port in ports):
            seen.append(tuple(sorted({port.pci for port in most_common_kind(ports)})))
    where, number = Counter(seen).most_common(1)[0] if seen else ((), 0)
    if 2 * number <= len(seen):
        return (), ""
    return where, f"{number} of {len(seen)} nodes" if number < len(seen) else f"all {number} nodes" if number > 1 else "the one node"


def _nearest(numbers: Mapping[str, LearnedNumber], empty: frozenset[str], ports: tuple[str, ...], known: Iterable[Sku]) -> Sku | None:
    """The SKU with as many GPUs, and no other model of them, that has most in common; of equals the one that says least."""

    def likeness(sku: Sku) -> int:
        judged = [name for name, value in sku.numbers.items() if value is not None and name in numbers]
        agreed = sum(1 if _alike(name, numbers[name].value, sku) else -1 for name in judged)
        return agreed + (len(ports) if _compute(sku) == frozenset(ports) else -len(_compute(sku)))

    fits = [
        sku for sku in known
        if _alike("gpu_count", numbers["gpu_count"].value, sku) and sku.empty & frozenset(skus.EMPTY_FACTS) <= empty
        and (sku.numbers.get("gpu_model") is None or _alike("gpu_model", numbers["gpu_model"].value, sku))
    ]
    return max(fits, key=lambda sku: (likeness(sku), -len(sku.ports), sku.name), default=None)


def _compute(sku: Sku) -> frozenset[str]:
    return frozenset(pci for pci, plan in sku.ports.items() if plan.role == "compute")


def _alike(name: str, value: Any, sku: Sku) -> bool:
    """Whether what was learned is what the SKU gives."""
    given = sku.numbers.get(name)
    if name not in sku.numbers or value is None or given is None:
        return name in sku.numbers and value is given
    if isinstance(given, str) and name == "gpu_model":
        return skus.is_model(str(value), given)
    if name in _QUANTITIES:
        return bool(abs(value - given) * 100 <= _ALIKE_PERCENT * given)
    return bool(value == given)


def _plain(value: Any) -> str:
    """As YAML has it. Text is quoted: it may be a node's own words."""
    if isinstance(value, str):
        return json.dumps(clean(value, 80))
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _title(numbers: Mapping[str, Any]) -> str:
    model, count, ports, rate = (numbers.get(name) for name in ("gpu_model", "gpu_count", "port_count", "port_rate_gbps"))
    gpus = f"{count} x {clean(model or 'GPU', 80)}" if count else "no GPU"
    return gpus + (f", {ports} ports of {rate:g} Gb/s" if ports and rate else "")
