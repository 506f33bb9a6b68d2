"""How a bring-up stands, by the store: each machine's step, since when, who acts next; and counts. Pure. The
same as one JSON document is muster.bringup/1, whose times are epoch seconds but for its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from healthcheck.store.bringupnotes import DONE, LEFT, QUEUED, SKIPPED, SO, TROUBLE, WAITING
from inventory.nodeset import natural
from inventory.text import clean
from inventory.times import iso
from provisioning.bringup.engine.model import ORDER

if TYPE_CHECKING:
    from healthcheck.store.bringups import MachineProgress, SkipLine, StepLine, TroubleLine
    from provisioning.console.view import ConsoleView

STANDS = (QUEUED, WAITING, TROUBLE, DONE, LEFT)
SERIAL = "serial"       # what a look keeps of the whole machine
_MOST = 400


@dataclass(frozen=True)
class OpenTrouble:
    """One open trouble, in which step, since when; its texts are clean."""

    step: str
    since: float
    trouble: Trouble


@dataclass(frozen=True)
class Skipped:
    """One step that someone had a machine skip."""

    step: str
    who: str
    why: str
    time: float


@dataclass(frozen=True)
class Spot:
    """One machine; `owner` has to act, or is waited for. Epoch seconds; clean texts."""

    node: str
    step: str
    stand: str
    since: float
    message: str
    owner: Owner | None
    began: float
    who: str
    looked: float | None
    again: float | None
    ended: float | None
    serial: str
    troubles: tuple[OpenTrouble, ...]
    skipped: tuple[Skipped, ...]

    @property
    def what(self) -> str:
        """What is the matter: the first trouble, else what the last look said."""
        return self.troubles[0].trouble.what if self.troubles else self.message

    @property
    def hand(self) -> str:
        """The next action, empty where none is asked for."""
        return self.troubles[0].trouble.hand if self.troubles else ""


@dataclass(frozen=True)
class Count:
    """How many are through a step, skipped it, or stand in it how; `oldest` has been there longest."""

    step: str
    through: int
    skipped: int
    here: Mapping[str, int]
    oldest: Spot | None


@dataclass(frozen=True)
class BringupStatus:
    """All machines in natural order. `running` says whether a muster is at work on them now, None where no
    one can tell. `consoles` are those of machines that are stuck in a step that starts them."""

    now: float
    spots: tuple[Spot, ...]
    counts: tuple[Count, ...]
    running: bool | None = None
    consoles: Mapping[str, ConsoleView] = field(default_factory=lambda: MappingProxyType({}))

    def number(self, stand: str) -> int:
        """How many machines stand so."""
        return sum(spot.stand == stand for spot in self.spots)

    @property
    def stuck(self) -> list[Spot]:
        """Machines in trouble, then those that wait, each by how long they have been there."""
        rank = {TROUBLE: 0, WAITING: 1}
        return sorted((spot for spot in self.spots if spot.stand in rank),
                      key=lambda spot: (rank[spot.stand], spot.since, natural(spot.node)))


def progress(
    progress: Sequence[MachineProgress], troubles: Iterable[TroubleLine], skips: Iterable[SkipLine],
    steps: Iterable[StepLine], now: float, *, owners: Mapping[str, Owner], running: bool | None = None,
) -> BringupStatus:
    """What the store's lines come to; `owners` are those of the steps. Only machines in `progress` count."""
    report: dict[str, list[OpenTrouble]] = {}
    for one in troubles:
        report.setdefault(one.node, []).append(OpenTrouble(clean(one.step, 40), one.began, trouble_of(one)))
    passed_over: dict[str, list[Skipped]] = {}
    for each in skips:
        passed_over.setdefault(each.node, []).append(
            Skipped(clean(each.step, 40), clean(each.who, 80), clean(each.why, _MOST), each.time))
    spots = tuple(_spot(one, report.get(one.node, ()), passed_over.get(one.node, ()), owners)
                  for one in sorted(progress, key=lambda one: natural(one.node)))
    return BringupStatus(now, spots, counts(spots, steps), running)


def counts(spots: Sequence[Spot], steps: Iterable[StepLine] = ()) -> tuple[Count, ...]:
    """A line for each step. Who was through on an earlier way to service is not yet through on this one."""
    began = {spot.node: spot.began for spot in spots}
    outcomes = {
        (line.step, line.node): line.outcome for line in steps
        if line.began >= began.get(line.node, float("inf"))}
    ended: dict[tuple[str, str | None], int] = {}
    for (step, _), outcome in outcomes.items():
        ended[step, outcome] = ended.get((step, outcome), 0) + 1
    here: dict[str, dict[str, int]] = {step: {} for step in ORDER}
    oldest: dict[str, Spot] = {}
    for spot in spots:
        if spot.stand in (DONE, LEFT) or spot.step not in here:
            continue
        here[spot.step][spot.stand] = here[spot.step].get(spot.stand, 0) + 1
        if spot.step not in oldest or spot.since < oldest[spot.step].since:
            oldest[spot.step] = spot
    return tuple(Count(step, ended.get((step, SO), 0), ended.get((step, SKIPPED), 0), here[step],
                       oldest.get(step)) for step in ORDER)


def trouble_of(one: TroubleLine) -> Trouble:
    """A line of the store as the value that a look gave, its texts clean."""
    owner = Owner(one.owner) if one.owner in {each.value for each in Owner} else Owner.OPERATOR
    return Trouble(clean(one.what, _MOST), owner, clean(one.hand, _MOST), clean(one.part, 80),
                   clean(one.slot, 80), clean(one.serial, 80))


def _spot(
    one: MachineProgress, report: Sequence[OpenTrouble], passed_over: Sequence[Skipped],
    owners: Mapping[str, Owner],
) -> Spot:
    owner = report[0].trouble.owner if report else owners.get(
        one.step) if one.stand in (WAITING, TROUBLE) else None
    return Spot(one.node, clean(one.step, 40), one.stand, one.since, clean(one.message, _MOST), owner,
                one.began, clean(one.who, 80), one.looked, one.again, one.ended,
                clean(one.kept.get(SERIAL, ""), 80), tuple(report), tuple(passed_over))


def document(progress: BringupStatus) -> dict[str, Any]:
    """All machines, whatever is to be shown of them, and how many are in each step."""
    return {
        "schema": "muster.bringup/1",
        "time": iso(progress.now),
        "running": progress.running, "machines_by_stand": {stand: progress.number(stand) for stand in STANDS},
        "steps": [{
            "step": one.step, "through": one.through, "skipped": one.skipped,
            "here": {stand: one.here.get(stand, 0) for stand in (QUEUED, WAITING, TROUBLE)},
            "oldest": {"node": one.oldest.node, "since": one.oldest.since} if one.oldest is not None
                else None} for one in progress.counts],
        "machines": [_machine(spot, progress.consoles.get(spot.node)) for spot in progress.spots]}


def code(progress: BringupStatus) -> int:
    """The exit code: 0 all are through, 1 some are in trouble, 3 some are on the way, or there is no one."""
    if progress.number(TROUBLE):
        return 1
    return 0 if progress.spots and all(spot.stand in (DONE, LEFT) for spot in progress.spots) else 3


def past(spot: Spot, until: str | None) -> bool:
    """Whether a machine is through this step, or through all."""
    return spot.stand == DONE or (
        until is not None and spot.step in ORDER and ORDER.index(spot.step) > ORDER.index(until))


def _machine(spot: Spot, console: ConsoleView | None) -> dict[str, Any]:
    return {
        "node": spot.node, "step": spot.step, "stand": spot.stand, "since": spot.since, "said": spot.message,
        "owner": spot.owner.value if spot.owner is not None else None, "hand": spot.hand, "began": spot.began,
        "who": spot.who, "looked": spot.looked, "again": spot.again, "ended": spot.ended,
        "serial": spot.serial, "console": console.document() if console is not None else None,
        "troubles": [
            {"step": one.step, "since": one.since, **vars(one.trouble), "owner": one.trouble.owner.value}
            for one in spot.troubles], "skipped": [vars(one) for one in spot.skipped]}
