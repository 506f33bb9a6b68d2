"""Who is at fault for wrong data: by which ranks saw it, where, and who owns the elements. Pure.

Each wrong element of an iteration is judged by itself, so that two faults at once are two:

    wrong input of a rank                       that rank's GPU, by a check right before or right after; it
                                                explains wrong results in the same places
    all-reduce, only one rank sees it           that rank's GPU: the sum was right everywhere else
    all-reduce, all ranks see it                evidence against the element's owner (below), if it has one
    reduce-scatter                              the same, and against its receiver (below): no other has it
    all-gather, broadcast, one of several       that rank's GPU: the others had the same elements right
    all-to-all, send-receive, and two ranks     either of the two (below)
    several ranks see it, and others do not     no one: on the way

An owner is accused where failures follow it. Each place changes its owner at random with every iteration, so
failures that do not depend on the owner meet all owners equally. The chance of so many failures in one
owner's elements, with the same places right for others, must be at most 1 in 1,000 (`_chance`): five
iterations among eight ranks, eleven among two. Once proves nothing: a rank that alters the data of others and
one that adds wrongly look the same. The receiver of a part of an out-of-place reduce-scatter is accused by
the same rule, for elements of any owner, if all-reduces were right: all inputs were checked afterwards and
were right. Of two ranks that exchange data, the one is accused that failed with three or more, if two of
those failed with no one else.

An accused rank may explain other failures too (`_explained`). The rest has several explanations: a node if
all of them are in one node, else it is unexplained, with the candidates. Where ranks work alone, each is
accused of its own wrong results; `training` judges trainings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb

from healthcheck.burnin import limits
from healthcheck.burnin.faults import WRONG_DATA
from healthcheck.burnin.model import Accusation, Object, RankEnd, RankReport, Task, TaskKind, WrongData
from healthcheck.burnin.storagejudge import wrong_of_nodes
from healthcheck.burnin.training import unequal
from inventory.text import listed

CHANCE = 1 / 1000
# Least iterations of an accusation, and how many times as many it may also explain.
LEAST_TIMES, MOST_AS_WELL = 3, 3
_ALONE = "gave a wrong result by itself"
_SENT = "its own input was wrong before it was sent"
_OWN = "it received its own part wrong"
_OWNED = "its own elements were wrong, and those of others right in the same places"
_RECEIVED = "it alone found wrong elements, and every other rank found the right ones"
_GOT = "its part of sums was wrong whoever owned the elements, and all inputs and other parts were right"
_EXCHANGED = "its exchanges with several were wrong, and theirs with others right"
_Here = Mapping[int, WrongData]     # what each rank saw in one iteration
_GATHERED = ("all-gather", "broadcast")
_SWAPPED = ("all-to-all", "send-receive")
_SCATTERED, _OUT_OF_PLACE = "reduce-scatter", "out of place"
_ALL = -1           # the receiver of a sum that all ranks get
_ANYWHERE, _EVERYWHERE = -1, 1 << 62     # no reported place; beyond all places


@dataclass
class _Evidence:
    """The evidence of all iterations: who is accused, why and when, and what is still to be weighed. The
    receiver of a sum is _ALL, or one rank."""

    named: dict[tuple[int, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    owned: set[tuple[int, int, int]] = field(default_factory=set)       # iteration, owner, receiver
    unowned: set[tuple[int, int]] = field(default_factory=set)          # iteration, receiver
    got: set[tuple[int, int]] = field(default_factory=set)    # the same, for reduce-scatters out of place
    exchanged: set[tuple[int, int, int]] = field(default_factory=set)   # iteration, sender, receiver

    def name(self, ranks: Iterable[int], why: str, iteration: int) -> None:
        for rank in ranks:
            self.named[rank, why].add(iteration)

    def name_all(self, rank: int, why: str, iterations: set[int]) -> None:
        self.named[rank, why] |= iterations

    def received(self, rank: int) -> None:
        """What this rank alone got wrong is explained."""
        self.owned = {event for event in self.owned if event[2] != rank}
        self.unowned = {event for event in self.unowned if event[1] != rank}
        self.got = {event for event in self.got if event[1] != rank}

    @property
    def ranks(self) -> set[int]:
        return {rank for rank, _ in self.named}


def wrong_data(task: Task, reports: Sequence[RankReport]) -> tuple[Accusation, ...]:
    """Accusations of wrong data: GPUs first, then nodes and what is unexplained; `reports` by rank."""
    if task.kind is TaskKind.TRAIN:
        return unequal(task, reports)
    seen = {rank: _seen(report) for rank, report in enumerate(reports) if report.wrong or report.wrong_total}
    if not seen:
        return ()
    if task.kind.of_node:
        return tuple(wrong_of_nodes(task, reports))
    evidence = _Evidence()
    if not task.kind.together:
        for rank, wrongs in seen.items():
            evidence.named[rank, _ALONE] = {each.iteration for each in wrongs}
        return tuple(_gpus(task, evidence))
    # Ranks that ended early have verified less than the others.
    verified = {rank for rank, report in enumerate(reports) if report.end is RankEnd.DONE} | seen.keys()
    for iteration in sorted({each.iteration for wrongs in seen.values() for each in wrongs}):
        here = {rank: each for rank, wrongs in seen.items() for each in wrongs if each.iteration == iteration}
        cut = {rank for rank, wrongs in seen.items() if _cut(reports[rank], wrongs, iteration)} - here.keys()
        _weigh(evidence, iteration, here, verified - cut, len(task.seats))
    _followed(evidence, len(task.seats))
    _explained(evidence)
    _partners(evidence)
    return (*_gpus(task, evidence), *_left(task, evidence))


def _weigh(evidence: _Evidence, iteration: int, here: _Here, verified: set[int], world: int) -> None:
    """Adds the evidence of one iteration."""
    check = next(iter(here.values())).check.partition(" ")[0]
    if world == 1:
        evidence.name(here, _ALONE, iteration)
    elif check in (*_GATHERED, *_SWAPPED):
        _weigh_moved(evidence, iteration, here, verified, world, shared=check in _GATHERED)
    else:
        _weigh_added(evidence, iteration, here, verified, world, scattered=check == _SCATTERED)


def _weigh_added(
    evidence: _Evidence, iteration: int, here: _Here, verified: set[int], world: int, *, scattered: bool,
) -> None:
    senders = {rank for rank, each in here.items() if each.own_input}
    evidence.name(senders, _SENT, iteration)
    out_of_place = next(iter(here.values())).check.endswith(_OUT_OF_PLACE)
    explained = {place for rank in senders for place in here[rank].inputs}
    # A rank that could not list all its places explains the rest too.
    anything = any(len(here[rank].inputs) in (0, limits.REPORT_PLACES) for rank in senders)
    owner_of: dict[int, int] = {}
    saw: dict[int, set[int]] = defaultdict(set)
    for rank, each in here.items():
        for place, owner in each.places or (() if each.own_input else [(_ANYWHERE, _only(each.owners))]):
            owner_of[place] = owner if owner < world else -1
            saw[place].add(rank)
    # Each rank has its own part of a scattered sum, which no other rank could list.
    known = _EVERYWHERE if scattered else _complete(here)
    beyond = max(explained, default=_ANYWHERE) if anything else _EVERYWHERE
    for place, ranks in saw.items():
        if place in explained or place >= beyond or (place > known and len(ranks) < len(here)):
            continue
        if scattered or (len(ranks) > 1 and ranks >= verified):
            receiver = min(ranks) if scattered else _ALL
            if scattered and out_of_place:
                evidence.got.add((iteration, receiver))
            if owner_of[place] < 0:
                evidence.unowned.add((iteration, receiver))
            else:
                evidence.owned.add((iteration, owner_of[place], receiver))
        elif len(ranks) == 1 and len(verified) == world:
            evidence.name(ranks, _RECEIVED, iteration)
        else:
            evidence.unowned.add((iteration, _ALL))


def _weigh_moved(
    evidence: _Evidence, iteration: int, here: _Here, verified: set[int], world: int, *, shared: bool,
) -> None:
    senders = {rank for rank, each in here.items() if each.own_input}
    evidence.name(senders, _SENT, iteration)
    known = _complete(here) if shared else _EVERYWHERE
    saw: dict[tuple[int, int], set[int]] = defaultdict(set)
    for rank, each in here.items():
        places = [pair for pair in each.places if pair[1] >= 0]
        places = places or [(_ANYWHERE, owner) for owner in each.owners]
        if not places and not each.own_input:
            evidence.unowned.add((iteration, _ALL))
        for place, sender in places:
            inputs = here[sender].inputs if sender in senders else None
            explained = inputs is not None and (place in inputs or len(inputs) in (0, limits.REPORT_PLACES))
            if sender >= world:
                evidence.unowned.add((iteration, _ALL))
            elif sender == rank and not explained:
                # It comes from its own memory.
                evidence.name([rank], _OWN, iteration)
            elif not explained:
                saw[place, sender].add(rank)
    for (place, sender), receivers in saw.items():
        if place > known and len(receivers) < world - 1:
            continue
        if not shared or world == 2:
            evidence.exchanged |= {(iteration, sender, receiver) for receiver in receivers}
        elif len(receivers) == 1 and len(verified) == world:
            evidence.name(receivers, _RECEIVED, iteration)
        else:
            evidence.unowned.add((iteration, _ALL))


def _followed(evidence: _Evidence, world: int) -> None:
    """Accuses owners and receivers that failures follow, the surest first; the rest has no owner."""
    for rank, why in tuple(evidence.named):
        if why == _RECEIVED:
            evidence.received(rank)
    while True:
        owned = {event[:2] for event in evidence.owned}
        # Where all-reduces were wrong too, sums are computed wrongly, and the receiver does not matter.
        elsewhere = any(event[-1] == _ALL for event in (*evidence.owned, *evidence.unowned))
        found = [(_chance(times, len(events), world), why, rank, {at for at, each in events if each == rank})
                 for why, events in ((_OWNED, owned), (_GOT, set() if elsewhere else evidence.got))
                 for rank, times in Counter(rank for _, rank in events).items() if times > 1]
        if not found or (best := min(found, key=lambda each: each[:3]))[0] > CHANCE:
            return
        _, why, rank, iterations = best
        evidence.name_all(rank, why, iterations)
        if why == _GOT:
            evidence.received(rank)
            continue
        evidence.owned = {event for event in evidence.owned if event[1] != rank}


def _chance(times: int, of: int, world: int) -> float:
    """The chance that so many of all failures hit one rank, any rank, if they depend on none."""
    share = 1 / world
    return world * sum(comb(of, n) * share**n * (1 - share) ** (of - n) for n in range(times, of + 1))


def _explained(evidence: _Evidence) -> None:
    """Removes failures that a rank accused in several iterations explains: two faults are far less likely.
    For an owner these are wrong sums whose elements have no owner; for wrong input all failures. If another
    rank caused them, it shows when the task runs again without the accused."""
    for reason, left in ((_SENT, (*evidence.owned, *evidence.unowned)), (_OWNED, tuple(evidence.unowned))):
        times = max((len(when) for (_, why), when in evidence.named.items() if why == reason), default=0)
        if times >= LEAST_TIMES and len({event[0] for event in left}) <= MOST_AS_WELL * times:
            evidence.owned -= set(left)
            evidence.unowned -= set(left)


def _partners(evidence: _Evidence) -> None:
    """Accuses a rank of exchanges that takes part in all failures of several others; explained failures are
    those of a rank accused of what it received, or in several iterations."""
    partners: dict[int, set[int]] = defaultdict(set)
    for _, sender, receiver in evidence.exchanged:
        partners[sender].add(receiver)
        partners[receiver].add(sender)
    for rank, others in partners.items():
        # Two failures at once may be caused by both the others.
        if len(others) > 2 and sum(partners[other] == {rank} for other in others) > 1:
            when = {event[0] for event in evidence.exchanged if rank in event[1:]}
            evidence.name_all(rank, _EXCHANGED, when)
    known = {rank for (rank, why), when in evidence.named.items()
             if why in (_EXCHANGED, _RECEIVED) or len(when) >= LEAST_TIMES}
    evidence.exchanged = {event for event in evidence.exchanged if known.isdisjoint(event[1:])}


def _seen(report: RankReport) -> tuple[WrongData, ...]:
    # Errors beyond the reported ones were wrong as well.
    return report.wrong or (WrongData(iteration=-1, count=report.wrong_total),)


def _only(owners: Sequence[int]) -> int:
    return owners[0] if len(owners) == 1 else -1


def _complete(here: _Here) -> int:
    """Up to which place every rank has listed what it saw: who had too many has listed the first ones."""
    cut = [each.places[-1][0] for each in here.values() if len(each.places) < each.count and each.places]
    return min(cut, default=_EVERYWHERE)


def _cut(report: RankReport, wrongs: Iterable[WrongData], iteration: int) -> bool:
    """Whether this rank may have seen it too, and had no room left to say so."""
    last = max(each.iteration for each in wrongs)
    return iteration > last and sum(each.count for each in wrongs) < report.wrong_total


def _gpus(task: Task, evidence: _Evidence) -> Iterator[Accusation]:
    """Each rank that is named once, with the reason that held most often."""
    for rank in sorted(evidence.ranks):
        reasons = [(len(when), why, when) for (each, why), when in evidence.named.items() if each == rank]
        _, why, when = max(reasons, key=lambda reason: reason[:2])
        reason_text = f"{why}, in {_times(when)}"
        yield Accusation(Object.GPU, str(task.seats[rank]), WRONG_DATA, reason_text, tests_for=(task.id,))


def _left(task: Task, evidence: _Evidence) -> Iterator[Accusation]:
    """What has several explanations: an accusation for each set of candidates."""
    everyone = frozenset(range(len(task.seats)))
    sets: dict[frozenset[int], set[int]] = defaultdict(set)
    for iteration, sender, receiver in evidence.exchanged:
        sets[frozenset((sender, receiver))].add(iteration)
    if whole := {event[0] for event in (*evidence.unowned, *evidence.owned)}:
        sets[everyone] |= whole
    for candidates, iterations in sorted(sets.items(), key=lambda item: sorted(item[0])):
        nodes = {task.seats[rank].node for rank in candidates}
        how = (f"wrong elements in {_times(iterations)}, though the input of each rank was right: altered on "
               "the way or in the addition")
        if len(nodes) == 1:
            why = f"{how}; one of its {_named(task, candidates)}"
            yield Accusation(Object.NODE, nodes.pop(), WRONG_DATA, why, tests_for=(task.id,))
        else:
            why = f"{how}; candidates: {_named(task, candidates)}; pair tests can tell"
            # Beside an accused rank it is another failure, and stays open.
            name = f"{task.id}, the rest" if evidence.ranks else task.id
            yield Accusation(Object.UNEXPLAINED, name, WRONG_DATA, why, tests_for=(task.id,))


def _named(task: Task, candidates: Collection[int]) -> str:
    seats = [str(task.seats[rank]) for rank in sorted(candidates)]
    return listed(seats, limits.CANDIDATES)


def _times(iterations: set[int]) -> str:
    first = min(iterations)
    if len(iterations) == 1:
        return f"iteration {first}" if first >= 0 else "one iteration"
    return f"{len(iterations)} iterations, the first of them {first}"
