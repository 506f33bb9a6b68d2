"""Difference in differences of figures: what the canary lost beyond what the controls lost. Pure.

A subject (a GPU, a node, a pair) is compared with itself, as the logarithm of after over before; GPUs of one
node are one sample. The effect of a change is the mean of the canary's samples less that of the controls':
what moved all nodes, such as a warmer room, is no effect. Its noise is how samples of one group differ among
each other; pairs that share nodes count only as so many samples as there are disjoint pairs. Where too few
subjects are left (all nodes together are one), the noise is how repeated runs of one subject differ.

An effect is `worse` where it lies below nought by more than Student's t allows at the share of false
accusations that `healthcheck.change.chance` states, and is at least `LEAST`. A figure counts as unharmed
only where a loss of `TOLERATED` can be excluded with the confidence `EXCLUDED`, figure by figure, as a pass
needs all of them: noise that could hide it is no pass.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from healthcheck.burnin.stats import slow
from healthcheck.change.chance import SHARES, t_bound
from healthcheck.change.model import FIGURES, Compared, FigureSeries, Grade

# A smaller effect is called no change, as in `healthcheck.burnin.compare`; a larger loss must be excluded.
LEAST, TOLERATED, EXCLUDED = 0.01, 0.03, 0.99
# With fewer degrees of freedom t needs so large an effect that nothing of use would be found.
_LEAST_FREE = 3


@dataclass(frozen=True)
class _Unit:
    """A sample: the nodes that it was measured on, and the logarithms of the values of its runs."""

    nodes: tuple[str, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def change(self) -> float:
        return fmean(self.after) - fmean(self.before)


@dataclass(frozen=True)
class _Effect:
    """An effect as a logarithm, with its standard error and degrees of freedom."""

    size: float
    error: float
    free: int


def compared(
    canary: frozenset[str], controls: frozenset[str], before: Iterable[FigureSeries],
    after: Iterable[FigureSeries], tolerated: float = TOLERATED,
) -> list[Compared]:
    """Each figure that was measured before; one that is not measured after is not known."""
    first, second = _by_figure(before), _by_figure(after)
    names = [name for name, series in sorted(first.items())
             if any(set(nodes) <= canary for _, nodes in series)]
    beyond = SHARES[FIGURES] / max(1, len(names))
    return [one for name in names
            for one in _one(name, first[name], second.get(name, {}), canary, controls, beyond, tolerated)]


def lacking(
    series: Iterable[FigureSeries], canary: frozenset[str],
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Figures that tell nothing of a part of the canary: name, why, and that part. Of one measured node by
    node each node counts; one of several nodes may leave a node without a partner, but not all of them."""
    for name, subjects in sorted(_by_figure(series).items()):
        theirs = {node for _, nodes in subjects for node in nodes} & canary
        inside = {node for _, nodes in subjects if set(nodes) <= canary for node in nodes}
        if theirs and not inside:
            yield name, "was measured only together with others than the canary", tuple(sorted(theirs))
        elif inside and canary - inside and all(len(nodes) == 1 for _, nodes in subjects):
            yield name, "was not measured there", tuple(sorted(canary - inside))


# A subject's name and nodes -> the values of its runs.
_Subject = tuple[str, tuple[str, ...]]
_Series = Mapping[_Subject, tuple[float, ...]]


def _by_figure(series: Iterable[FigureSeries]) -> dict[str, dict[_Subject, tuple[float, ...]]]:
    found: dict[str, dict[_Subject, tuple[float, ...]]] = defaultdict(dict)
    for one in series:
        values = tuple(value for value in one.values if math.isfinite(value) and value > 0)
        if values:
            found[one.figure][one.subject, tuple(sorted(one.nodes))] = values
    return found


def _one(
    name: str, before: _Series, after: _Series, canary: frozenset[str], controls: frozenset[str],
    beyond: float, tolerated: float,
) -> Iterator[Compared]:
    key = f"{FIGURES}/{name}"
    lost = sorted({node for _, nodes in before.keys() - after.keys() if set(nodes) <= canary
                   for node in nodes})
    if lost:
        yield Compared(FIGURES, key, Grade.UNCLEAR, f"{name}: measured before and not since", tuple(lost))
    ours, theirs = (_units(before, after, group) for group in (canary, controls))
    if not ours:
        return
    if not theirs:
        yield Compared(FIGURES, key, Grade.UNCLEAR, f"{name}: no control was measured before and since",
                         _nodes(ours))
        return
    effect = _among_subjects(ours, theirs) or _among_runs(ours, theirs)
    if effect is None:
        runs = "too few nodes, and too few runs, to know its noise: repeat the burn-in"
        yield Compared(FIGURES, key, Grade.UNCLEAR, f"{name}: {_shares(ours, theirs)}; {runs}",
                         _nodes(ours))
        return
    margin = t_bound(beyond, effect.free) * effect.error
    low, high = math.expm1(effect.size - margin), math.expm1(effect.size + margin)
    size = math.expm1(effect.size)
    words = (f"{name}: {size:+.1%} ({low:+.1%} to {high:+.1%}) beyond the controls; {_shares(ours, theirs)}")
    if high < 0 and size <= -LEAST:
        yield Compared(FIGURES, key, Grade.WORSE, words, _nodes(ours))
    elif math.expm1(effect.size - t_bound(1 - EXCLUDED, effect.free) * effect.error) < -tolerated:
        yield Compared(FIGURES, key, Grade.UNCLEAR,
                         f"{words}; its noise could hide a loss of {tolerated:.0%}", _nodes(ours))
    else:
        yield Compared(FIGURES, key, Grade.SAME, words, _nodes(ours))
    yield from _alone(key, name, ours, theirs)


def _units(before: _Series, after: _Series, group: frozenset[str]) -> list[_Unit]:
    """The samples of a group; what several subjects of the same nodes have is their median."""
    of: dict[tuple[str, ...], list[tuple[tuple[float, ...], tuple[float, ...]]]] = defaultdict(list)
    for subject in sorted(before.keys() & after.keys()):
        if set(subject[1]) <= group:
            of[subject[1]].append((before[subject], after[subject]))
    return [_Unit(nodes, *(_merged([pair[side] for pair in pairs]) for side in (0, 1)))
            for nodes, pairs in sorted(of.items())]


def _merged(values: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """Run by run the median of the logarithms of several subjects, as far as all have runs."""
    return tuple(median(math.log(each[at]) for each in values) for at in range(min(map(len, values))))


def _samples(units: Sequence[_Unit]) -> int:
    """How many of them can be independent of each other: so many as there are disjoint ones."""
    nodes = {node for unit in units for node in unit.nodes}
    return max(1, min(len(units), len(nodes) // max(len(unit.nodes) for unit in units)))


def _among_subjects(ours: Sequence[_Unit], theirs: Sequence[_Unit]) -> _Effect | None:
    counts = [_samples(ours), _samples(theirs)]
    free = sum(counts) - 2
    if free < _LEAST_FREE or max(counts) < 3:
        return None
    squares = 0.0
    for units in (ours, theirs):
        middle = fmean(unit.change for unit in units)
        squares += sum((unit.change - middle)**2 for unit in units)
    spread = squares / (len(ours) + len(theirs) - 2)
    return _Effect(_between(ours, theirs), math.sqrt(spread * sum(1 / count for count in counts)), free)


def _among_runs(ours: Sequence[_Unit], theirs: Sequence[_Unit]) -> _Effect | None:
    squares, free, error = 0.0, 0, 0.0
    for units in (ours, theirs):
        for unit in units:
            for values in (unit.before, unit.after):
                middle = fmean(values)
                squares += sum((value - middle)**2 for value in values)
                free += len(values) - 1
                error += 1 / len(values) / _samples(units)**2
    if free < _LEAST_FREE:
        return None
    return _Effect(_between(ours, theirs), math.sqrt(squares / free * error), free)


def _between(ours: Sequence[_Unit], theirs: Sequence[_Unit]) -> float:
    return fmean(unit.change for unit in ours) - fmean(unit.change for unit in theirs)


def _shares(ours: Sequence[_Unit], theirs: Sequence[_Unit]) -> str:
    canary, controls = (math.expm1(fmean(unit.change for unit in units)) for units in (ours, theirs))
    return f"canary {canary:+.1%} of {len(ours)}, controls {controls:+.1%} of {len(theirs)}"


def _nodes(units: Iterable[_Unit]) -> tuple[str, ...]:
    return tuple(sorted({node for unit in units for node in unit.nodes}))


def _alone(key: str, name: str, ours: Sequence[_Unit], theirs: Sequence[_Unit]) -> Iterator[Compared]:
    """Subjects of the canary that lost more than sound equals do: each may be by itself, or by the change."""
    units = {"-".join(unit.nodes): unit for unit in (*ours, *theirs)}
    mine = {"-".join(unit.nodes) for unit in ours}
    for which, one in slow({which: math.exp(unit.change) for which, unit in units.items()}).items():
        if one.off and which in mine:
            yield Compared(FIGURES, key, Grade.UNCLEAR,
                             f"{name}: {math.expm1(units[which].change):+.1%} here alone, which may be by "
                             "itself or by the change", units[which].nodes)
