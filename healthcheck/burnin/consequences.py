"""What a finished burn-in means for its nodes: whom it accuses, how surely, and who passed. Pure.

An accusation is certain, and so critical, where nothing else explains the failure as well:

    wrong data of a GPU      always: what is explained as well by another is not put down to it
    tried with a proven one  always (`confirmed`)
    its own work, alone      in tasks without any other node, where most others did the same work well
    counted errors           of a GPU or a node

A screening accuses as a burn-in does. It is short, so that it ends nothing: what it found ends as what the
quick length found does.

Everything else is likely, and a warning: late, lost and absent ranks, for the network and the head may be
why; a rail, for its cable and its switch may be; and whatever is of a pair, of a leaf or of no one, which
accuses no node by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from healthcheck.burnin import faults
from healthcheck.burnin.document import Burnin
from healthcheck.burnin.judgement import BurnInOutcome
from healthcheck.burnin.merged import node_of, sharing, task_of
from healthcheck.burnin.model import Accusation, BurnInStage, Object, Participant, Task
from healthcheck.model.outcome import Owner, Repair, Severity
from healthcheck.store import accused
from healthcheck.store.accused import BurnInAccusation, FinishedBurnIn
from inventory.text import clean

_RULE = {
    faults.WRONG_DATA: accused.WRONG_DATA, faults.SLOW: accused.SLOW, faults.SLOW_COMPUTE: accused.SLOW,
    faults.JITTER: accused.SLOW,
    faults.SLOW_STORAGE: accused.SLOW, faults.LATE: accused.SLOW, faults.SLOW_LINK: accused.LINK,
    faults.COUNTED: accused.ERRORS,
}       # all others: a rank that stopped
_EXPECTED = {
    accused.WRONG_DATA: "the exact result", accused.SLOW: "as fast as its equals",
    accused.LINK: "as fast as its equals",
    accused.DEAD: "work completed", accused.ERRORS: "no more than the rules allow",
    accused.SHARED: "no failure",
}
_NEVER_SURE = (faults.LATE, faults.LOST, faults.ABSENT, faults.JITTER)
# The stage to pass in place of one that only suspects run.
_AS = {BurnInStage.LEAF_CONFIRM: BurnInStage.LEAF_PAIRS, BurnInStage.RAIL_CONFIRM: BurnInStage.LEAF_PAIRS,
       BurnInStage.BISECT: BurnInStage.ALL}
# An accusation of more nodes than a pair says nothing about any of them.
_MOST_SHARING = 2


def consequences(burnin: Burnin, doubted: Collection[str] = ()) -> FinishedBurnIn:
    """What a finished burn-in means for its nodes; for `doubted` nodes it means nothing."""
    passed = {} if burnin.length not in accused.LENGTHS else {
        one.node: tuple(stage.stage.value for stage in one.stages) for one in burnin.judgement.outcomes
        if one.outcome is BurnInOutcome.PASS and one.node not in doubted and one.stages
        and all(stage.done for stage in one.stages)}
    return FinishedBurnIn(burnin.run, _length(burnin), burnin.ended, tuple(_accused(burnin, doubted)), passed)


def _length(burnin: Burnin) -> str:
    """The length that a burn-in must have to end what this one found."""
    return burnin.length if burnin.length in accused.LENGTHS else accused.LENGTHS[0]


def _accused(burnin: Burnin, doubted: Collection[str]) -> Iterator[BurnInAccusation]:
    places = {place.node: place for place in burnin.burnt.places}
    tasks = {result.task.id: result.task for result in burnin.burnt.results}
    took_part = {node for task in tasks.values() for node in task.nodes}
    sick = _counts(burnin, places)
    failed = {one.node for one in burnin.judgement.outcomes if one.outcome is BurnInOutcome.FAIL}
    for one in burnin.judgement.accusations:
        node = node_of(one)
        if node is not None:
            if node in failed and node in places and node not in doubted:
                yield _of_one(burnin, one, places[node], tasks, sick)
            continue
        sharing = _sharing(one, places, tasks) & took_part
        if not sharing & frozenset(doubted):
            for name in sorted(sharing):
                yield BurnInAccusation(name, accused.SHARED, clean(one.name, 120), Severity.WARNING,
                                       Owner.NETWORK, _observed(one), _EXPECTED[accused.SHARED],
                                       f"muster burnin show {burnin.run}", _stages(burnin, one, tasks), None,
                                       0, (), one.tests_for, one.tests_against)


def _of_one(burnin: Burnin, one: Accusation, place: Participant, tasks: Mapping[str, Task],
            sick: Mapping[str, float]) -> BurnInAccusation:
    rule = accused.LINK if one.object is Object.RAIL else _RULE.get(one.fault, accused.DEAD)
    gpu = int(one.name.rpartition(":")[2]) if one.object is Object.GPU else None
    severity = Severity.CRITICAL if _certain(one, place, tasks, sick) else Severity.WARNING
    owner = (Owner.NETWORK if rule == accused.LINK
             else Owner.VENDOR if rule == accused.WRONG_DATA else Owner.OPERATOR)
    subject = f"GPU {gpu}" if gpu is not None else _port(one.name, place) if one.object is Object.RAIL else ""
    condemned = rule == accused.WRONG_DATA and severity is Severity.CRITICAL
    what = (f"Drain the node; {'the GPU' if gpu is not None else 'what computes wrongly'} goes to the vendor "
            f"(muster burnin show {burnin.run}). With another in its place"
            if condemned else f"muster burnin show {burnin.run}; repair it, then")
    again = f"{what} run: muster burnin run {place.node} --length {_length(burnin)}"
    return BurnInAccusation(
        place.node, rule, subject, severity, owner, _observed(one), _EXPECTED[rule], again,
        _stages(burnin, one, tasks), gpu, place.gpus,
        _serials(burnin, one.name) if gpu is not None else (), one.tests_for, one.tests_against,
        Repair.REPLACE if condemned else Repair.INSPECT if rule == accused.WRONG_DATA else None)


def _certain(one: Accusation, place: Participant, tasks: Mapping[str, Task],
             sick: Mapping[str, float]) -> bool:
    if one.object not in (Object.GPU, Object.NODE):
        return False
    if (one.confirmed or one.fault == faults.COUNTED
            or (one.fault == faults.WRONG_DATA and one.object is Object.GPU)):
        return True
    own = [tasks[name] for name in map(task_of, one.tests_for) if name in tasks]
    alone = bool(own) and all(task.nodes == (place.node,) for task in own)
    # What most nodes have is common to them: software, a wrong floor, the room.
    return alone and one.fault not in _NEVER_SURE and sick[one.fault] <= 0.5


def _counts(burnin: Burnin, places: Mapping[str, Participant]) -> Mapping[str, float]:
    """By fault the share of all GPUs that are accused of it, themselves or with their node."""
    whole = sum(place.gpus for place in places.values())
    seats: dict[str, set[str]] = defaultdict(set)
    for one in burnin.judgement.accusations:
        if one.object is Object.GPU:
            seats[one.fault].add(one.name)
        elif one.object is Object.NODE and one.name in places:
            seats[one.fault].update(f"{one.name}:{gpu}" for gpu in range(places[one.name].gpus))
    return {fault: len(found) / whole for fault, found in seats.items()}


def _sharing(one: Accusation, places: Mapping[str, Participant], tasks: Mapping[str, Task]) -> frozenset[str]:
    """The nodes of an accused pair or behind an accused leaf; of unexplained failures those of a pair."""
    found = frozenset(one.nodes) or sharing(one.name, places)
    if one.object is Object.UNEXPLAINED and not found:
        found = frozenset(node for test in (one.name, *map(task_of, one.tests_for)) if test in tasks
                          for node in tasks[test].nodes)
    return (found if one.object is Object.LEAF or one.object is Object.PAIR
            or len(found) <= _MOST_SHARING else frozenset())


def _stages(burnin: Burnin, one: Accusation, tasks: Mapping[str, Task]) -> tuple[str, ...]:
    """The stages in which it failed; all planned ones where no task's name is given."""
    found = ({tasks[name].stage for name in map(task_of, one.tests_for) if name in tasks}
             or {stage for stage, _ in burnin.burnt.asked})
    return tuple(dict.fromkeys(_AS.get(stage, stage).value for stage in BurnInStage if stage in found))


def _serials(burnin: Burnin, seat: str) -> tuple[str, ...]:
    """The serial numbers and UUIDs that the GPU's rank reported."""
    return tuple(dict.fromkeys(clean(value, 64) for result in burnin.burnt.results
                               for report in result.reports if str(report.seat) == seat
                               for key in ("serial", "uuid") if (value := report.facts.get(key))))


def _port(name: str, place: Participant) -> str:
    number = name.rpartition("/rail")[2]
    return next((f"port at PCI {clean(rail.address, 20)}, rail {rail.number}" for rail in place.rails
                 if str(rail.number) == number), clean(name.rpartition("/")[2], 40))


def _observed(one: Accusation) -> str:
    return clean(f"{one.fault}: {one.why}", 300)
