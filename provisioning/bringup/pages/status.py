"""The status page of a bring-up: how many are in each step, which wait or are in trouble. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from healthcheck.store.bringupnotes import DONE, LEFT, QUEUED, TROUBLE, WAITING
from inventory.text import clean, many
from inventory.times import ago, minute
from provisioning.bringup.pages.masked import masked, named
from provisioning.bringup.pages.progress import BringupStatus, Count, Spot

if TYPE_CHECKING:
    from healthcheck.report.findings import Fold
    from healthcheck.report.nodes import Paint

COUNTED = ("STEP", "THROUGH", "SKIPPED", "QUEUED", "WAITING", "TROUBLE", "LONGEST IN IT")
STUCK = ("NODES", "STEP", "STAND", "SINCE", "FOR", "OWNER", "WHAT")
_WHAT = 150


@dataclass(frozen=True)
class MachineGroup:
    """Machines of one and the same line, in natural order; `since` is that of the oldest there."""

    nodes: tuple[str, ...]
    step: str
    stand: str
    since: float
    owner: str
    what: str
    hand: str


def lines(progress: BringupStatus, fold: Fold, paint: Paint) -> Iterator[str]:
    """The whole page."""
    yield summary(progress)
    if not progress.spots:
        return
    yield ""
    rows = [counted(one, progress.now) for one in progress.counts]
    for number, row in enumerate(_padded([COUNTED, *rows], right=range(1, 6))):
        worst = TROUBLE if number and rows[number - 1][5] != "-" else ""
        yield paint(row, "head" if not number else worst)
    stuck = groups(progress.stuck, fold)
    if not stuck:
        return
    yield ""
    cells = [(fold(one.nodes), one.step, one.stand, minute(one.since), ago(progress.now - one.since),
              one.owner or "-", clean(one.what, _WHAT)) for one in stuck]
    for number, row in enumerate(_padded([STUCK, *cells])):
        yield paint(row, stuck[number - 1].stand if number else "head")
        if number and stuck[number - 1].hand:
            yield f"    next: {stuck[number - 1].hand}"
        if number:
            yield from _console(stuck[number - 1], progress)


def summary(progress: BringupStatus) -> str:
    """All of it in one line, and what to type where no one is at work on what is left."""
    if not progress.spots:
        return "no machine was started: muster bringup run NODES"
    through, trouble, left = progress.number(DONE), progress.number(TROUBLE), progress.number(LEFT)
    parts = [f"{through} through", f"{trouble} in trouble", f"{progress.number(WAITING)} waiting",
             f"{progress.number(QUEUED)} queued", *([f"{left} taken off"] if left else ())]
    text = f"{many(len(progress.spots), 'machine')}: {', '.join(parts)}"
    if through + left == len(progress.spots) or progress.running is None:
        return text
    if progress.running:
        return f"{text}; a run is active"
    if trouble + through + left == len(progress.spots):
        return f"{text}; once that is repaired: muster bringup resume"
    return f"{text}; no run is active: muster bringup resume"


def groups(spots: Iterable[Spot], fold: Fold) -> list[MachineGroup]:
    """One entry for each thing to be shown, in the order of machines; all troubles of a machine are."""
    found: dict[tuple[str, ...], list[_Group]] = {}
    for spot in spots:
        for one in _groups(spot):
            found.setdefault((one.step, spot.stand, one.owner, masked(one.what, spot.node),
                              masked(one.hand, spot.node)), []).append(one)
    report = []
    for (step, stand, owner, what, hand), who in found.items():
        nodes, since = tuple(one.node for one in who), min(one.since for one in who)
        if len(who) == 1:
            report.append(MachineGroup(nodes, step, stand, since, owner, who[0].what, who[0].hand))
        else:
            report.append(MachineGroup(nodes, step, stand, since, owner, what, named(hand, nodes, fold)))
    return report


def counted(one: Count, now: float) -> tuple[str, ...]:
    """A step's line of the first table."""
    numbers = (
        one.through, one.skipped, one.here.get(QUEUED, 0), one.here.get(WAITING, 0), one.here.get(TROUBLE, 0))
    longest = f"{one.oldest.node}, {ago(now - one.oldest.since)}" if one.oldest is not None else "-"
    return (one.step, *(str(number) if number else "-" for number in numbers), longest)


def _console(group: MachineGroup, progress: BringupStatus) -> Iterator[str]:
    """What the first of these machines wrote, for the others have the same trouble."""
    name = next((node for node in group.nodes if node in progress.consoles), None)
    if name is None:
        return
    of = f"{name} " if len(group.nodes) > 1 else ""
    for line in progress.consoles[name].lines():
        yield f"    {line if line.startswith(' ') else of + line}"


class _Group(NamedTuple):
    node: str
    step: str
    since: float
    owner: str
    what: str
    hand: str


def _groups(spot: Spot) -> Iterator[_Group]:
    for report in spot.troubles:
        yield _Group(spot.node, report.step, spot.since, report.trouble.owner.value, report.trouble.what,
                     report.trouble.hand)
    if not spot.troubles:
        yield _Group(spot.node, spot.step, spot.since, spot.owner.value if spot.owner is not None else "",
                     spot.message, "")


def _padded(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> Iterator[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    to_the_right = set(right)
    for row in rows:
        cells = (cell.rjust(widths[at]) if at in to_the_right else cell.ljust(widths[at])
                 for at, cell in enumerate(row))
        yield "  ".join(cells).rstrip()
