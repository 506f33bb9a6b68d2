"""Learns floors from stored burn-ins: what sound machines of a site reach. A proposal only.

What is sick must not become the norm: tasks not whole, and accused nodes, are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from healthcheck.burnin.document import Burnin
from healthcheck.burnin.floors import FloorProposal, LearnedFloor, refused, rounded
from healthcheck.burnin.judgement import BurnInOutcome
from healthcheck.burnin.model import BurnInStage
from healthcheck.burnin.published import BY_SIZE, BurninRules, Setting
from healthcheck.burnin.setting import Measure, measures
from healthcheck.burnin.stats import best_quarter, known_sound, mad, median, normal, sound
from inventory.errors import UsageError
from inventory.text import many
from inventory.times import millisecond

MOST_JUDGED = 8 * 4096      # figures judged by one floor in one burn-in
# The least standard deviation of a sweep's figures, as a share of the median: at small sizes launches and
# round trips vary from day to day by more than `stats.NOISE`. Presumed, not measured on GPUs. It puts the
# floor at two thirds of the median or below.
NOISE_BY_SIZE = 0.05
# One run gives one such figure (or one a ring order), for any number of nodes.
_BY_RUN = (BurnInStage.ALL.value,)


@dataclass(frozen=True)
class Learning:
    """The proposal, what was left out (and why), and floors that are low beside published figures."""

    proposal: FloorProposal
    left_out: tuple[str, ...]
    warnings: tuple[str, ...]


def learn(runs: Sequence[Burnin], rules: BurninRules, now: float) -> Learning:
    """Proposes a floor for each setting that enough nodes or runs measured; raises UsageError without any."""
    if not runs:
        raise UsageError("no burn-in is stored: type `muster burnin run NODES` first")
    seen: dict[Setting, list[tuple[str, Measure]]] = defaultdict(list)
    for burnin in runs:
        sick = {one.node for one in burnin.judgement.outcomes if one.outcome is BurnInOutcome.FAIL}
        places = {place.node: place for place in burnin.burnt.places}
        for one in measures(burnin.burnt.results, places, burnin.burnt.hardware):
            if not sick & set(one.nodes):
                seen[one.setting.learned_from].append((burnin.run, one))
    floors, left_out = [], []
    for setting in sorted(seen):
        short = _too_few(setting, seen[setting], rules)
        made = _floor(setting, [one.value for _, one in seen[setting]], rules)
        if why := short or refused(made, rules):
            left_out.append(f"{setting}: {why}")
        else:
            floors.append(made)
    if not floors:
        first = left_out[0] if left_out else "none of their tasks was whole"
        raise UsageError(f"nothing can be learned from {many(len(runs), 'burn-in')} yet: {first}")
    warnings = tuple(f"{one.setting}: {one.warning}" for one in floors if one.warning)
    proposal = FloorProposal(millisecond(now), tuple(dict.fromkeys(one.run for one in runs)), tuple(floors))
    return Learning(proposal, tuple(left_out), warnings)


def least(figure: str, values: Iterable[float]) -> float:
    """The floor that all sound ones reach, at the rate of wrong accusations of `stats`."""
    known = list(values)
    floor = sound(known, MOST_JUDGED)
    return (min(floor, median(known) * (1 - normal(MOST_JUDGED) * NOISE_BY_SIZE))
            if figure == BY_SIZE else floor)


def _too_few(setting: Setting, seen: Sequence[tuple[str, Measure]], rules: BurninRules) -> str:
    """Why nothing can be learned of a setting yet; "" where enough have shown it."""
    if setting.stage in _BY_RUN:
        runs = len({run for run, _ in seen})
        return (f"{many(runs, 'run')} of all nodes, wanted {rules.learn_runs}"
                if runs < rules.learn_runs else "")
    nodes = len({node for _, one in seen for node in one.nodes})
    return (f"shown by {many(nodes, 'node')}, wanted {rules.learn_nodes}"
            if nodes < rules.learn_nodes else "")


def _floor(setting: Setting, values: Iterable[float], rules: BurninRules) -> LearnedFloor:
    known = list(values)
    middle, deviation, floor = median(known), mad(known), rounded(least(setting.figure, known))
    made = LearnedFloor(replace(setting), (setting.nodes, setting.nodes), rounded(middle), rounded(deviation),
                        len(known), floor)
    found = rules.value(setting)
    if found is None:
        if setting.figure == BY_SIZE or floor >= known_sound(known):
            return made
        return replace(made, warning=f"{floor:.4g} is far below the {best_quarter(known):.4g} or more that a "
                       "quarter of them reach: check whether the others are slow")
    published, entry = found
    # No warning where even sound machines need not reach the published figure.
    if floor >= min(rules.warn_share, entry.share or 1) * published:
        return made
    return replace(made, warning=f"{floor / published:.0%} of the {published:g} that {entry.id} gives "
                   f"({entry.source}): check this site's machines")
