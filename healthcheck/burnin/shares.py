"""How each node did in each stage beside what it had to reach: its worst share of the floor, or of the median
of its equals where there is no floor. Worst nodes first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from healthcheck.burnin.document import Burnin
from healthcheck.burnin.judgement import JudgedFigure
from healthcheck.burnin.matrix import SLOW, SLOWER
from healthcheck.burnin.merged import node_of
from healthcheck.burnin.model import Accusation, BurnInStage, Object
from healthcheck.burnin.published import Setting
from healthcheck.burnin.setting import Measure, measures
from inventory.nodeset import natural

_LEAST_EQUALS = 3       # of one or two nodes the median is their own figure


class ShareState(Enum):
    """How a node did in a stage, worst first, as the mark that is printed without colour."""

    FAILED = "X"
    SLOW = "S"
    SLOWER = "s"
    GOOD = " "
    UNTESTED = "."


_STATES = tuple(ShareState)


class ShareOf(NamedTuple):
    """One figure beside what it had to reach; `place` is that of its state, and puts the worst first: below a
    floor is worse than far below a median that no floor asks for."""

    place: int
    share: float
    words: str


@dataclass(frozen=True)
class StageShare:
    """One node in one stage: the worst of its figures. `share` is None where nothing was measured, or it had
    neither floor nor enough equals; `words` say of what, with figure and unit."""

    state: ShareState
    share: float | None = None
    words: str = ""


@dataclass(frozen=True)
class NodeShares:
    """One node: its stages in order, the worst share of them, and what it is accused of."""

    node: str
    leaf: str
    stages: tuple[StageShare, ...]
    worst: float | None
    accused: str = ""


@dataclass(frozen=True)
class Shares:
    """All nodes of a burn-in, the worst first; `stages` are the columns."""

    stages: tuple[BurnInStage, ...]
    nodes: tuple[NodeShares, ...]


def shares(burnin: Burnin) -> Shares:
    """The picture's rows and columns."""
    places = {place.node: place for place in burnin.burnt.places}
    held = {one.setting: one for one in burnin.judgement.held}
    found: dict[tuple[str, str], list[ShareOf]] = defaultdict(list)
    for one in measures(burnin.burnt.results, places, burnin.burnt.hardware):
        if (compared := _compared(one, held)) is not None:
            for node in one.nodes:
                found[node, one.setting.stage].append(compared)
    ran = {stage.stage for outcome in burnin.judgement.outcomes for stage in outcome.stages}
    stages = tuple(stage for stage in BurnInStage if stage in ran)
    accused: dict[str, str] = {}
    for accusation in burnin.judgement.accusations:
        for name in _nodes(accusation):
            accused.setdefault(name, f"{accusation.name}: {accusation.fault.replace('_', ' ')}")
    rows = []
    for outcome in burnin.judgement.outcomes:
        done = {stage.stage: stage for stage in outcome.stages}
        cells = tuple(_cell(found.get((outcome.node, stage.value), ()), done.get(stage) is not None,
                            done[stage].why if stage in done and not done[stage].done else "")
                      for stage in stages)
        measured = [cell.share for cell in cells if cell.share is not None]
        place = places.get(outcome.node)
        rows.append(NodeShares(outcome.node, (place.leaf or "") if place is not None else "", cells,
                               min(measured, default=None), accused.get(outcome.node, "")))
    return Shares(stages, tuple(sorted(rows, key=_order)))


def _nodes(accusation: Accusation) -> tuple[str, ...]:
    """The nodes whose rows an accusation marks: both of a pair, and who may share in what is unexplained."""
    if accusation.nodes:
        return accusation.nodes
    if accusation.object is Object.PAIR:
        return tuple(accusation.name.split(" - "))
    node = node_of(accusation)
    return (node,) if node is not None else ()


def _order(row: NodeShares) -> tuple[bool, float, object]:
    failed = any(cell.state is ShareState.FAILED for cell in row.stages)
    return not failed, row.worst if row.worst is not None else 2.0, natural(row.node)


def _compared(one: Measure, held: Mapping[Setting, JudgedFigure]) -> ShareOf | None:
    """The share of what it had to reach; None where there is neither a floor nor enough equals."""
    judged = held.get(one.setting)
    if judged is None:
        return None
    if judged.floor is not None and judged.floor.least > 0:
        reference, of = judged.floor.least, "the floor"
        slow = slower = 1.0
    elif judged.n >= _LEAST_EQUALS and judged.median > 0:
        reference, of = judged.median, f"the median of {judged.n} equals"
        slow, slower = SLOW, SLOWER
    else:
        return None
    share = one.value / reference
    state = ShareState.SLOW if share < slow else ShareState.SLOWER if share < slower else ShareState.GOOD
    return ShareOf(_STATES.index(state), share,
                   f"{one.setting.figure} of {one.name}: {one.value:.4g}, {of} is {reference:.4g}")


def _cell(found: Sequence[ShareOf], asked: bool, why: str) -> StageShare:
    worst = min(found, default=None)
    if why:
        return StageShare(ShareState.FAILED, worst.share if worst is not None else None, why)
    if worst is None:
        return StageShare(ShareState.UNTESTED, None, "done; nothing to compare it with" if asked else "")
    return StageShare(_STATES[worst.place], worst.share, worst.words)
