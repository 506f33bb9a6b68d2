"""Proposes a SKU from snapshots: what most nodes agree on, how sure that is, and how known SKUs differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from healthcheck.checks import catalogue  # noqa: F401  (registers all facts)
from healthcheck.facts.base import FACTS
from healthcheck.facts.port import most_common_kind
from healthcheck.facts.product import is_model
from healthcheck.facts.values import reading
from healthcheck.judge.nodereport import first_reason
from healthcheck.model.outcome import NodeReport, Severity, Status
from healthcheck.model.recording import Recording
from healthcheck.ruleset import sku as skus
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.ruleset.sku import Sku
from healthcheck.sweep.assess import Assessment
from healthcheck.sweep.judgednode import facts_of
from inventory.errors import UsageError
from inventory.model import Node
from inventory.reasons import fold_reasons
from inventory.text import clean

# A quantity within this much of a known SKU's matches it: a SKU's numbers are the least that healthy machines
# show.
_TOLERANCE_PERCENT = 3
_QUANTITIES = ("memory_gib", "gpu_memory_gib", "nvlink_gigabytes")


@dataclass(frozen=True)
class LearnedNumber:
    """One number: its value (None: not judged), how many nodes show it, in words, and whether any did."""

    value: Any
    how: str
    measured: bool = True


@dataclass(frozen=True)
class SkuProposal:
    """A proposed SKU: the nodes it was learned from, those left out and why, and the nearest known SKU."""

    nodes: tuple[str, ...]
    left_out: Mapping[str, str]
    numbers: Mapping[str, LearnedNumber]
    empty: frozenset[str]
    ports: tuple[str, ...]
    ports_how: str
    parent: Sku | None

    @property
    def differs(self) -> Mapping[str, LearnedNumber]:
        """The measured numbers that differ from the parent's; all where there is no parent."""
        if self.parent is None:
            return self.numbers
        return {name: number for name, number in self.numbers.items() if number.measured
                and name not in self._without_gpus and not _matches(name, number.value, self.parent)}

    @property
    def inherited(self) -> tuple[str, ...]:
        """The parent's numbers that no node was measured for; they stay."""
        if self.parent is None:
            return ()
        return tuple(name for name, number in self.numbers.items() if not number.measured
                     and name not in self._without_gpus and self.parent.numbers.get(name) is not None)

    @property
    def _without_gpus(self) -> frozenset[str]:
        """The numbers that only GPUs show, where the machine has none."""
        absent = {"gpus", *skus.OF_GPUS} if "gpus" in self.empty else set()
        return frozenset(name for name, facts in skus.LEARNED_FROM.items() if absent & set(facts))

    @property
    def new_ports(self) -> tuple[str, ...]:
        """The compute ports, unless they are the parent's."""
        known = _compute(self.parent) if self.parent is not None else frozenset()
        return () if known == frozenset(self.ports) else self.ports


def propose(recordings: Sequence[Recording], ruleset: Ruleset) -> SkuProposal:
    """Learns from nodes of one kind; raises UsageError where none is healthy: no fault becomes the norm."""
    left_out = {report.node: why for report in _reports(recordings, ruleset) if (why := _problem(report))}
    healthy = [recording for recording in recordings if recording.node not in left_out]
    if not healthy:
        whys = [f"{each.names}: {clean(each.text, 300)}" for each in fold_reasons(left_out.items())]
        more = [f"and {len(whys) - 3} reasons more"] if len(whys) > 3 else []
        raise UsageError("no node is fit to learn from, and a fault must not become what is expected: "
                         f"{'; '.join(whys[:3] + more) or 'there is none'}")
    facts = {recording.node: _facts(recording) for recording in healthy}
    spanning = skus.spanning(facts)
    learned = {node: {**values, "imex": True} if values["imex"] is None and node in spanning else values
               for node, values in ((node, skus.learn(found)) for node, found in facts.items())}
    numbers = {name: _agree(name, {node: values[name] for node, values in learned.items()})
               for name in skus.LEARNERS}
    empty = frozenset(name for name in skus.EMPTY_FACTS
                      if all(skus.emptiness(found)[name] for found in facts.values()))
    ports, how = _ports(facts.values())
    parent = _nearest(numbers, empty, ports, ruleset.skus.values())
    return SkuProposal(tuple(facts), left_out, numbers, empty, ports, how, parent)


def as_yaml(proposal: SkuProposal, name: str, source: str) -> str:
    """The proposal as a file for a rules folder's `sku/`; comments say how sure each number is."""
    parent = proposal.parent
    lines = ["# Proposed by `muster sku learn`. Read it before you rely on it: what most nodes share may "
             "be a fault.", f"sku: {name}"]
    if parent is not None:
        lines.append(f"inherit: {parent.name}")
    shown = {key: number.value for key, number in proposal.numbers.items()}
    lines.append(f"title: {json.dumps(_title(shown))}")
    if proposal.empty - (parent.empty if parent is not None else frozenset()):
        lines.append(f"empty: [{', '.join(sorted(proposal.empty))}]")
    numbers = {key: (_yaml(number.value), number.how) for key, number in proposal.differs.items()}
    if numbers:
        width = max(len(f"{key}: {value}") for key, (value, _) in numbers.items())
        lines.append("numbers:")
        lines += [f"  {f'{key}: {value}':<{width}}  # {how}" for key, (value, how) in numbers.items()]
    if proposal.new_ports:
        lines.append(f"ports:  # {proposal.ports_how}; rails in the order of PCI addresses: compare them "
                     "with the cabling")
        lines += [f'  "{pci}": {{role: compute, rail: {rail}}}'
                  for rail, pci in enumerate(proposal.new_ports)]
    lines.append(f"source: {json.dumps(clean(source, 300))}")
    return "\n".join(lines) + "\n"


def differences(proposal: SkuProposal) -> list[str]:
    """One line for each number that differs from the nearest SKU's."""
    if proposal.parent is None:
        return []
    given = proposal.parent.numbers
    lines = [f"{key}: {_yaml(number.value)}, there {_yaml(given.get(key))} ({number.how})"
             for key, number in proposal.differs.items()]
    if proposal.new_ports:
        there = len(_compute(proposal.parent)) or "none"
        lines.append(f"ports: {len(proposal.new_ports)} by PCI address, there {there} ({proposal.ports_how})")
    return lines


def _reports(recordings: Sequence[Recording], ruleset: Ruleset) -> tuple[NodeReport, ...]:
    """The nodes judged by what most of them show, whatever SKU the inventory gives them."""
    assessment = Assessment([Node(name=recording.node) for recording in recordings], ruleset)
    for recording in recordings:
        assessment.add(recording)
    return assessment.finish().reports


def _problem(report: NodeReport) -> str:
    """Why nothing can be learned from a node: it was not reached, or a critical rule failed."""
    if not report.results:
        return report.reason
    return "; ".join(f"{result.rule}: {first_reason(result)}" for result in report.results
                     if result.status is Status.FAIL and result.severity is Severity.CRITICAL)


def _facts(recording: Recording) -> dict[str, Any]:
    names = {name for names in skus.LEARNED_FROM.values() for name in names} | set(skus.EMPTY_FACTS)
    return facts_of(recording, [name for name in names if name in FACTS])


def _agree(name: str, by_node: Mapping[str, Any]) -> LearnedNumber:
    """What most nodes show of one number."""
    values = [value for value in by_node.values() if value is not None]
    unread = f", {len(by_node) - len(values)} not measured" if len(values) < len(by_node) else ""
    if not values:
        return LearnedNumber(None, "not measured, so not judged", measured=False)
    if name in skus.MEASURED and min(values) != max(values):
        return LearnedNumber(
            median_low(values),
            f"the median of {len(values)} nodes, {_yaml(min(values))} to {_yaml(max(values))}{unread}")
    value, number = Counter(values).most_common(1)[0]
    if number == len(values):
        return LearnedNumber(value, _all(number) + unread)
    others = sorted({_yaml(other) for other in values if other != value})
    if 2 * number <= len(values):
        return LearnedNumber(None, f"no majority of {len(values)} nodes, so not judged: "
                             f"{', '.join([_yaml(value), *others][:4])}{unread}")
    odd = [node for node, other in by_node.items() if other is not None and other != value]
    return LearnedNumber(
        value, f"{number} of {len(values)} nodes, not {', '.join(odd[:3])} ({', '.join(others[:3])}){unread}")


def _all(nodes: int) -> str:
    return f"all {nodes} nodes" if nodes > 1 else "the one node"


def _ports(facts: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, ...], str]:
    """The PCI addresses of the compute ports on more than half of the nodes, and how many nodes that is."""
    seen = []
    for found in facts:
        ports = found.get("ports")
        if isinstance(ports, tuple) and all(isinstance(reading(port, "pci"), str) for port in ports):
            seen.append(tuple(sorted({port.pci for port in most_common_kind(ports)})))
    where, number = Counter(seen).most_common(1)[0] if seen else ((), 0)
    if 2 * number <= len(seen):
        return (), ""
    return where, f"{number} of {len(seen)} nodes" if number < len(seen) else _all(number)


def _nearest(numbers: Mapping[str, LearnedNumber], empty: frozenset[str], ports: tuple[str, ...],
             known: Iterable[Sku]) -> Sku | None:
    """The SKU with as many GPUs of no other model and most in common; of equals the one with fewest ports."""

    def similarity(sku: Sku) -> int:
        judged = [name for name, value in sku.numbers.items() if value is not None and name in numbers]
        agreed = sum(1 if _matches(name, numbers[name].value, sku) else -1 for name in judged)
        return agreed + (len(ports) if _compute(sku) == frozenset(ports) else -len(_compute(sku)))

    fits = [
        sku for sku in known if skus.takes(sku, numbers["gpu_model"].value, numbers["gpu_count"].value)
        and skus.must_lack(sku) <= empty]
    return max(fits, key=lambda sku: (similarity(sku), -len(sku.ports), sku.name), default=None)


def _compute(sku: Sku) -> frozenset[str]:
    return frozenset(pci for pci, plan in sku.ports.items() if plan.role == "compute")


def _matches(name: str, value: Any, sku: Sku) -> bool:
    """Whether a learned value is the SKU's."""
    given = sku.numbers.get(name)
    if name not in sku.numbers or value is None or given is None:
        return name in sku.numbers and value is given
    if isinstance(given, str) and name == "gpu_model":
        return is_model(str(value), given)
    if name in _QUANTITIES:
        return bool(abs(value - given) * 100 <= _TOLERANCE_PERCENT * given)
    return bool(value == given)


def _yaml(value: Any) -> str:
    """The value in YAML. Text is quoted, because it may come from a node."""
    if isinstance(value, str):
        return json.dumps(clean(value, 80))
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _title(numbers: Mapping[str, Any]) -> str:
    model, count, ports, rate = (numbers.get(name)
                                 for name in ("gpu_model", "gpu_count", "port_count", "port_rate_gbps"))
    gpus = f"{count} x {clean(model or 'GPU', 80)}" if count else "no GPU"
    return gpus + (f", {ports} ports of {rate:g} Gb/s" if ports and rate else "")
