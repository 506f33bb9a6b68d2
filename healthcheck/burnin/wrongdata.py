"""Whose fault wrong data is, by who saw it, where, and whose elements they were. Pure.

In one iteration of a collective, each wrong element by itself, so that two faults at once are two:

    what a rank was about to send was wrong     that rank's GPU: it looked right before, or right after; that
                                                explains wrong results in the same places
    all-reduce, one rank alone sees it          that rank's GPU: the sum was right everywhere else
    all-reduce, all ranks see it                evidence against its owner (below), where it has one
    reduce-scatter                              the same, and against who got it (below): no other has it
    all-gather, broadcast, one of several does  that rank's GPU: the others had the same elements right
    all-to-all, send-receive, and two ranks     either of the two (below)
    some ranks see it, and some do not          no one: on the way

An owner is named where failures follow it. Ownership of each place changes by chance with every iteration, so
what does not hang on the owner meets all owners alike; that so many failures were in one owner's elements,
and those places right as others', must have a chance of at most 1 in 1,000 (`_chance`): five iterations among
eight ranks, eleven among two. Once is no evidence: a rank that alters what it does not own, and one that adds
wrongly, look alike. Who got a part of a reduce-scatter out of place is named by the same rule, whosever the
elements were, where all-reduces were right: what all ranks sent was looked at afterwards, and was right. Of
two who exchange, one is named that failed with three or more, two of whom failed with no one else.

What is left may be explained as well by one who is named (`_explained`). Where not, it has several
explanations: where all of them lie in one node it is that node, else it is unexplained, with the candidates.
A task whose ranks work each for itself accuses who was wrong; of a training `training` says whose fault it
is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb

from healthcheck.burnin.faults import WRONG_DATA
from healthcheck.burnin.messages import MOST_PLACES
from healthcheck.burnin.model import Accusation, Object, RankEnd, RankReport, Task, TaskKind, WrongData
from healthcheck.burnin.storagejudge import wrong_of_nodes
from healthcheck.burnin.training import unequal

CHANCE = 1 / 1000
# Iterations for which one is named, and how often as many it may explain besides.
LEAST_TIMES, MOST_AS_WELL = 3, 3
MOST_NAMED = 16
_ALONE = "gave a wrong result by itself"
_SENT = "what it was about to send was wrong in its own memory"
_OWN = "its own part came to it wrong"
_OWNED = "elements were wrong where they were its own, and right in the same places where they were others'"
_RECEIVED = "it alone found wrong elements, and every other rank the right ones"
_GOT = "its part of sums was wrong, whosever elements, and what was sent and the other parts were right"
_EXCHANGED = "what it exchanged with several was wrong, and not what they exchanged with others"
_Here = Mapping[int, WrongData]     # what each rank saw in one iteration
_GATHERED = ("all-gather", "broadcast")
_SWAPPED = ("all-to-all", "send-receive")
_SCATTERED, _OUT_OF_PLACE = "reduce-scatter", "out of place"
_ALL = -1           # who got a sum that all ranks get
_ANYWHERE, _EVERYWHERE = -1, 1 << 62     # where no place was reported; beyond all places


@dataclass
class _Evidence:
    """What all iterations say: who is named for what and when, and what is left to be weighed.

    Who got a sum is _ALL, or one rank.
    """

    named: dict[tuple[int, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    owned: set[tuple[int, int, int]] = field(default_factory=set)       # iteration, owner, who got it
    unowned: set[tuple[int, int]] = field(default_factory=set)          # iteration, who got it
    got: set[tuple[int, int]] = field(default_factory=set)    # the same, of reduce-scatters out of place
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
    """Who is accused of wrong data: GPUs first, then nodes and what is unexplained.

    `reports` are in the order of ranks, one of each.
    """
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
    # Ranks that ended early have not verified what the others have.
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
    """Adds what one iteration says."""
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
    # Who could not list all its places explains the rest as well.
    anything = any(len(here[rank].inputs) in (0, MOST_PLACES) for rank in senders)
    owner_of: dict[int, int] = {}
    saw: dict[int, set[int]] = defaultdict(set)
    for rank, each in here.items():
        for place, owner in each.places or (() if each.own_input else [(_ANYWHERE, _only(each.owners))]):
            owner_of[place] = owner if owner < world else -1
            saw[place].add(rank)
    # Of a scattered sum each rank has a part of its own, which no other could have listed.
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
            explained = inputs is not None and (place in inputs or len(inputs) in (0, MOST_PLACES))
            if sender >= world:
                evidence.unowned.add((iteration, _ALL))
            elif sender == rank and not explained:
                # It comes to it from its own memory.
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
    """Names owners and receivers whom failures follow, the surest first; what is left belongs to no one."""
    for rank, why in tuple(evidence.named):
        if why == _RECEIVED:
            evidence.received(rank)
    while True:
        owned = {event[:2] for event in evidence.owned}
        # Where all-reduces were wrong, too, sums are made wrongly, and who gets them is another matter.
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
    """How likely so many of all failures fall under one rank, whichever, where they hang on none."""
    share = 1 / world
    return world * sum(comb(of, n) * share**n * (1 - share) ** (of - n) for n in range(times, of + 1))


def _explained(evidence: _Evidence) -> None:
    """Takes off what one that is named for several iterations explains as well: two are far less likely.

    Of an owner that is what is wrong in sums, where an element has no owner; of who altered what it was about
    to send, all. If it was another after all, it shows when the task is run again without the one that is
    named.
    """
    for reason, left in ((_SENT, (*evidence.owned, *evidence.unowned)), (_OWNED, tuple(evidence.unowned))):
        times = max((len(when) for (_, why), when in evidence.named.items() if why == reason), default=0)
        if times >= LEAST_TIMES and len({event[0] for event in left}) <= MOST_AS_WELL * times:
            evidence.owned -= set(left)
            evidence.unowned -= set(left)


def _partners(evidence: _Evidence) -> None:
    """Names of those who exchange whoever is in all that several others failed in.

    What one took part in who is named for what it received, or for several iterations, is explained.
    """
    partners: dict[int, set[int]] = defaultdict(set)
    for _, sender, receiver in evidence.exchanged:
        partners[sender].add(receiver)
        partners[receiver].add(sender)
    for rank, others in partners.items():
        # Two at once may be the doing of both the others.
        if len(others) > 2 and sum(partners[other] == {rank} for other in others) > 1:
            when = {event[0] for event in evidence.exchanged if rank in event[1:]}
            evidence.name_all(rank, _EXCHANGED, when)
    known = {rank for (rank, why), when in evidence.named.items()
             if why in (_EXCHANGED, _RECEIVED) or len(when) >= LEAST_TIMES}
    evidence.exchanged = {event for event in evidence.exchanged if known.isdisjoint(event[1:])}


def _seen(report: RankReport) -> tuple[WrongData, ...]:
    # What was too much to be reported one by one was wrong all the same.
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
        said = f"{why}, in {_times(when)}"
        yield Accusation(Object.GPU, str(task.seats[rank]), WRONG_DATA, said, tests_for=(task.id,))


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
        how = (f"wrong elements in {_times(iterations)}, and what each rank was about to send was right: "
               "altered on the way or where sums are made")
        if len(nodes) == 1:
            why = f"{how}; one of its {_named(task, candidates)}"
            yield Accusation(Object.NODE, nodes.pop(), WRONG_DATA, why, tests_for=(task.id,))
        else:
            why = f"{how}; candidates: {_named(task, candidates)}; pairs tell"
            # Beside somebody who is named it is not theirs, and stays open whoever is named for the task.
            name = f"{task.id}, the rest" if evidence.ranks else task.id
            yield Accusation(Object.UNEXPLAINED, name, WRONG_DATA, why, tests_for=(task.id,))


def _named(task: Task, candidates: Collection[int]) -> str:
    seats = [str(task.seats[rank]) for rank in sorted(candidates)]
    more = f" and {len(seats) - MOST_NAMED} more" if len(seats) > MOST_NAMED else ""
    return ", ".join(seats[:MOST_NAMED]) + more


def _times(iterations: set[int]) -> str:
    first = min(iterations)
    if len(iterations) == 1:
        return f"iteration {first}" if first >= 0 else "one iteration"
    return f"{len(iterations)} iterations, the first of them {first}"
