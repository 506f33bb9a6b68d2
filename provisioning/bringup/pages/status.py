"""How a bring-up stands, for people: how many machines are in each step, then who waits or is in trouble, alike ones on one line. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from healthcheck.report.nodes import Fold, Paint
from healthcheck.report.plan import ago
from healthcheck.store.bringupnotes import DONE, LEFT, QUEUED, TROUBLE, WAITING
from healthcheck.triage.ticket import utc
from inventory.text import clean
from provisioning.bringup.pages.masked import masked, named
from provisioning.bringup.pages.standing import BringupStatus, Count, Spot

COUNTED = ("STEP", "THROUGH", "SKIPPED", "QUEUED", "WAITING", "TROUBLE", "LONGEST IN IT")
STUCK = ("NODES", "STEP", "STAND", "SINCE", "FOR", "OWNER", "WHAT")
_WHAT = 150


@dataclass(frozen=True)
class MachineGroup:
    """Machines of which the same is to be told, in natural order; `since` is that of the one that has been there longest."""

    nodes: tuple[str, ...]
    step: str
    stand: str
    since: float
    owner: str
    what: str
    hand: str


def lines(standing: BringupStatus, fold: Fold, paint: Paint) -> Iterator[str]:
    """The whole page."""
    yield summary(standing)
    if not standing.spots:
        return
    yield ""
    rows = [counted(one, standing.now) for one in standing.counts]
    for number, row in enumerate(_padded([COUNTED, *rows], right=range(1, 6))):
        worst = TROUBLE if number and rows[number - 1][5] != "-" else ""
        yield paint(row, "head" if not number else worst)
    groups = alike(standing.stuck, fold)
    if not groups:
        return
    yield ""
    cells = [(fold(one.nodes), one.step, one.stand, utc(one.since), ago(standing.now - one.since), one.owner or "-", clean(one.what, _WHAT))
             for one in groups]
    for number, row in enumerate(_padded([STUCK, *cells])):
        yield paint(row, groups[number - 1].stand if number else "head")
        if number and groups[number - 1].hand:
            yield f"    next: {groups[number - 1].hand}"


def summary(standing: BringupStatus) -> str:
    """All of it in one line, and what to type where nobody is at work on what is left."""
    if not standing.spots:
        return "no machine was begun: muster bringup run NODES"
    through, trouble, left = standing.number(DONE), standing.number(TROUBLE), standing.number(LEFT)
    parts = [f"{through} through", f"{trouble} in trouble", f"{standing.number(WAITING)} waiting", f"{standing.number(QUEUED)} queued",
             *([f"{left} taken off"] if left else ())]
    text = f"{_count(len(standing.spots), 'machine')}: {', '.join(parts)}"
    if through + left == len(standing.spots) or standing.running is None:
        return text
    if standing.running:
        return f"{text}; muster is at work on them"
    if trouble + through + left == len(standing.spots):
        return f"{text}; when that is mended: muster bringup resume"
    return f"{text}; nobody is at work on them: muster bringup resume"


def alike(spots: Iterable[Spot], fold: Fold) -> list[MachineGroup]:
    """One entry for each thing that is to be told, in the order in which machines come with it; all troubles of a machine are."""
    found: dict[tuple[str, ...], list[_Telling]] = {}
    for spot in spots:
        for one in _tellings(spot):
            found.setdefault((one.step, spot.stand, one.owner, masked(one.what, spot.node), masked(one.hand, spot.node)), []).append(one)
    told = []
    for (step, stand, owner, what, hand), who in found.items():
        nodes, since = tuple(one.node for one in who), min(one.since for one in who)
        if len(who) == 1:
            told.append(MachineGroup(nodes, step, stand, since, owner, who[0].what, who[0].hand))
        else:
            told.append(MachineGroup(nodes, step, stand, since, owner, what, named(hand, nodes, fold)))
    return told


def counted(one: Count, now: float) -> tuple[str, ...]:
    """A step's line of the first table."""
    numbers = (one.through, one.skipped, one.here.get(QUEUED, 0), one.here.get(WAITING, 0), one.here.get(TROUBLE, 0))
    longest = f"{one.oldest.node}, {ago(now - one.oldest.since)}" if one.oldest is not None else "-"
    return (one.step, *(str(number) if number else "-" for number in numbers), longest)


class _Telling(NamedTuple):
    node: str
    step: str
    since: float
    owner: str
    what: str
    hand: str


def _tellings(spot: Spot) -> Iterator[_Telling]:
    for told in spot.troubles:
        yield _Telling(spot.node, told.step, spot.since, told.trouble.owner.value, told.trouble.what, told.trouble.hand)
    if not spot.troubles:
        yield _Telling(spot.node, spot.step, spot.since, spot.owner.value if spot.owner is not None else "", spot.said, "")


def _padded(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> Iterator[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    to_the_right = set(right)
    for row in rows:
        cells = (cell.rjust(widths[at]) if at in to_the_right else cell.ljust(widths[at]) for at, cell in enumerate(row))
        yield "  ".join(cells).rstrip()


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
