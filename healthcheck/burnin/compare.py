"""Compares two burn-ins of the same nodes: what a change made slower or faster, and on which nodes.

Each GPU, node, rail or pair is compared with itself. The change of a figure is the median change of nodes (or
pairs): GPUs of a node are no separate samples, as they share its air and its power. A change is larger than
noise when a 99 % confidence interval of that median excludes "no change", and when it is at least `least`: a
warmer room moves all nodes together, which no number of them averages away.

The interval is of order statistics (Conover, Practical Nonparametric Statistics, section 3.2), which assume
no distribution; fewer than eight nodes have none at 99 %. The sizes of one sweep share the remaining 1 %, and
so need more nodes: eleven for eleven sizes. A subject that lost more than the others is named, by the rule
for equals (`healthcheck.burnin.stats`).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from healthcheck.burnin import sizes
from healthcheck.burnin.document import Burnin
from healthcheck.burnin.judgement import BurnInOutcome
from healthcheck.burnin.model import Object
from healthcheck.burnin.published import BY_SIZE, Setting, bytes_of
from healthcheck.burnin.setting import measures
from healthcheck.burnin.stats import median, slow

CONFIDENCE = 0.99
LEAST = 0.01
# Facts of ranks that a change may alter; others (serial numbers, covered bytes) differ without meaning.
VERSIONS = ("device", "capability", "driver", "kernel", "cuda", "nccl", "torch", "backend", "power_limit_w",
            "environment", "nccl_conf")


class FigureChange(Enum):
    """What became of a figure."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"           # no change larger than noise
    TOO_FEW = "too few"     # too few nodes or pairs to tell a change from noise


class _Subject(NamedTuple):
    """Whose figure it is, and the nodes that took part."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class ComparedFigure:
    """One figure under one setting, before and after: medians over the same `n` subjects (nodes or pairs), in
    the figure's unit. `share` is the change of the median one (-0.05: five per cent less); `low` and `high`
    are its interval, None for too few; `fell` are subjects that lost more than others, with their change."""

    setting: Setting
    change: FigureChange
    n: int
    before: float
    after: float
    share: float
    low: float | None
    high: float | None
    fell: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Difference:
    """A version, option or variable in which the runs differ, and on which `nodes` (none: the whole run)."""

    name: str
    before: str
    after: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class OutcomeChange:
    """A node whose outcome differs between the runs; None: it took no part."""

    node: str
    before: BurnInOutcome | None
    after: BurnInOutcome | None


@dataclass(frozen=True)
class Comparison:
    """Two runs beside each other; `only` are settings that one of them alone measured, with its id."""

    before: str
    after: str
    figures: tuple[ComparedFigure, ...]
    differences: tuple[Difference, ...]
    verdicts: tuple[OutcomeChange, ...]
    only: tuple[tuple[str, Setting], ...]

    @property
    def slower(self) -> bool:
        """Whether a figure or a subject got slower by more than noise, or a node that passed fails now."""
        return any(one.change is FigureChange.SLOWER or one.fell for one in self.figures) or any(
            one.after is BurnInOutcome.FAIL and one.before is BurnInOutcome.PASS for one in self.verdicts)

    @property
    def comparable(self) -> bool:
        """Whether any figure could be compared at all."""
        return any(one.change is not FigureChange.TOO_FEW for one in self.figures)


def compare(before: Burnin, after: Burnin, least: float = LEAST) -> Comparison:
    """Both runs beside each other; `least` is the smallest change that counts, as a share."""
    first, second = _by_subject(before), _by_subject(after)
    figures, only = [], []
    swept = Counter(_sweep(setting) for setting in first.keys() & second.keys() if setting.figure == BY_SIZE)
    for setting in sorted(first.keys() | second.keys()):
        here, there = first.get(setting, {}), second.get(setting, {})
        both = here.keys() & there.keys()
        if both:
            confidence = 1 - (1 - CONFIDENCE) / max(1, swept[_sweep(setting)])
            figures.append(_compared(setting, {one: (here[one], there[one]) for one in sorted(both)}, least,
                                     confidence))
        else:
            only.append((before.run if here else after.run, setting))
    return Comparison(before.run, after.run, tuple(figures), tuple(_differences(before, after)),
                      tuple(_verdicts(before, after)), tuple(only))


def interval(values: Iterable[float], confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """An interval that holds the median with at least this confidence; None where values are too few. From
    the k-th smallest to the k-th largest, with the largest k for which a fair coin shows fewer than k heads
    among n in at most half of the remaining cases."""
    known = sorted(values)
    n = len(known)
    below, k = 0.0, 0
    while k < n // 2 and below + math.comb(n, k) * 0.5**n <= (1 - confidence) / 2:
        below += math.comb(n, k) * 0.5**n
        k += 1
    return (known[k - 1], known[n - k]) if k else None


def _sweep(setting: Setting) -> Setting:
    """What the sizes of one sweep have in common."""
    return replace(setting, size=0)


def _compared(setting: Setting, values: Mapping[_Subject, tuple[float, float]], least: float,
              confidence: float) -> ComparedFigure:
    ratios = {subject: after / before for subject, (before, after) in values.items()}
    units: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for subject, ratio in ratios.items():
        units[subject.nodes].append(ratio)
    samples = [median(of_unit) for of_unit in units.values()]
    middle, bounds = median(samples), interval(samples, confidence)
    if bounds is None:
        change = FigureChange.TOO_FEW
    elif abs(middle - 1) < least or bounds[0] <= 1 <= bounds[1]:
        change = FigureChange.SAME
    else:
        change = FigureChange.SLOWER if middle < 1 else FigureChange.FASTER
    named = {subject.name: ratio for subject, ratio in ratios.items()}
    fell = tuple((name, named[name] - 1) for name, one in slow(named).items() if one.off
                 and named[name] < 1 - least)
    low, high = (None, None) if bounds is None else (bounds[0] - 1, bounds[1] - 1)
    return ComparedFigure(setting, change, len(samples), median(before for before, _ in values.values()),
                          median(after for _, after in values.values()), middle - 1, low, high, fell)


def _by_subject(burnin: Burnin) -> dict[Setting, dict[_Subject, float]]:
    """By setting and subject the median figure. The power limit is a difference between the runs and splits
    no figure; ring orders of a stage of all nodes are samples of the same nodes."""
    places = {place.node: place for place in burnin.burnt.places}
    found: dict[Setting, dict[_Subject, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in measures(burnin.burnt.results, places, burnin.burnt.hardware):
        nodes = tuple(sorted(one.nodes))
        name = f"{len(nodes)} nodes" if one.object is Object.UNEXPLAINED else one.name
        found[replace(one.setting.learned_from, watts=0)][_Subject(name, nodes)].append(one.value)
    return {setting: {subject: median(values) for subject, values in subjects.items()}
            for setting, subjects in found.items()}


def _differences(before: Burnin, after: Burnin) -> Iterable[Difference]:
    whole = (("muster", before.muster, after.muster), ("length", before.length, after.length),
             ("floors", before.floors, after.floors))
    for name, one, other in whole:
        if one != other:
            yield Difference(name, one, other)
    for name, one_of, other_of in (("option", before.options, after.options),
                                   ("environment", before.environment, after.environment)):
        for key in sorted(one_of.keys() | other_of.keys()):
            values = [str(of.get(key, "not set")) for of in (one_of, other_of)]
            if values[0] != values[1]:
                yield Difference(f"{name} {key}", values[0], values[1])
    first, second = ({key: " | ".join(sorted(values)) for key, values in versions_of(one).items()}
                     for one in (before, after))
    changed: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for (node, name) in sorted(first.keys() & second.keys()):
        if first[node, name] != second[node, name]:
            changed[name, first[node, name], second[node, name]].append(node)
    for (name, one, other), nodes in sorted(changed.items()):
        yield Difference(name, one, other, tuple(nodes))
    chose, chooses = _chosen(before), _chosen(after)
    for (stage, algo, size) in sorted(chose.keys() & chooses.keys()):
        one, other = chose[stage, algo, size], chooses[stage, algo, size]
        if one != other:
            yield Difference(f"NCCL's choice at {bytes_of(size)} in {stage}, {algo}", one, other)


def _chosen(burnin: Burnin) -> dict[tuple[str, str, int], str]:
    """By stage, what was asked for and size what NCCL chose in sweeps; several choices in one text."""
    found: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for result in burnin.burnt.results:
        for size, choice in sizes.choices(result).items():
            found[result.task.stage.value, sizes.asked_for(result.task), size].add(choice)
    return {key: " | ".join(sorted(values)) for key, values in found.items()}


def versions_of(burnin: Burnin) -> dict[tuple[str, str], set[str]]:
    """By node and name the versions that its ranks reported."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for result in burnin.burnt.results:
        for report in result.reports:
            for name in VERSIONS:
                if value := report.facts.get(name):
                    found[report.seat.node, name].add(value)
    return dict(found)


def _verdicts(before: Burnin, after: Burnin) -> Iterable[OutcomeChange]:
    first, second = ({one.node: one.outcome for one in run.judgement.outcomes} for run in (before, after))
    for node in sorted(first.keys() | second.keys()):
        if first.get(node) is not second.get(node):
            yield OutcomeChange(node, first.get(node), second.get(node))
