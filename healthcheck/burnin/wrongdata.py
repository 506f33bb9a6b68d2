"""Whose fault wrong data is, by who saw it and whose elements they were: a table, and no test more. Pure.

    who saw it in an iteration   owners of the elements   accused
    any, own input wrong too     any                      that rank's GPU: what it sent was wrong before it was sent
    all ranks                    one                      the owner's GPU
    one rank of several          any                      that rank's GPU: what it received was wrong in its memory
    otherwise                    any                      nobody: on the way, or in a reducer; pairs tell

A task whose ranks work each for itself accuses the GPU that was wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from healthcheck.burnin.faults import WRONG_DATA
from healthcheck.burnin.model import Accusation, End, Kind, Object, Report, Task, Wrong

_ALONE = "gave a wrong result by itself"
_SENT = "its own input was wrong before it was sent"
_OWNED = "every rank found its elements wrong, and nobody else's"
_RECEIVED = "it alone found wrong elements, and every other rank the right ones"
# In the words of an accusation that another explanation is left for.
ONCE = "; or once where its part was summed up"


def wrong_data(task: Task, reports: Sequence[Report]) -> tuple[Accusation, ...]:
    """Who is accused of wrong data, GPUs first, then what is unexplained. `reports` are in the order of ranks, as many as there are."""
    seen = {rank: _seen(report) for rank, report in enumerate(reports) if report.wrong or report.wrong_total}
    if not seen:
        return ()
    blamed: dict[tuple[int, str], set[int]] = {}
    unexplained: set[int] = set()
    if task.kind is not Kind.ALLREDUCE:
        blamed = {(rank, _ALONE): {each.iteration for each in wrongs} for rank, wrongs in seen.items()}
    else:
        # Ranks that ended early have not verified what the others have.
        verified = {rank for rank, report in enumerate(reports) if report.end is End.DONE} | seen.keys()
        for iteration in sorted({each.iteration for wrongs in seen.values() for each in wrongs}):
            here = {rank: each for rank, wrongs in seen.items() for each in wrongs if each.iteration == iteration}
            cut = {rank for rank, wrongs in seen.items() if rank not in here and _cut(reports[rank], wrongs, iteration)}
            named = list(_named(here, verified - cut, len(task.seats)))
            for rank, why in named:
                blamed.setdefault((rank, why), set()).add(iteration)
            if not named:
                unexplained.add(iteration)
    found = [_gpu(task, rank, why, iterations) for (rank, why), iterations in sorted(_strongest(blamed))]
    return (*found, *_unexplained(task, unexplained, seen, verified=len(reports)))


def _named(here: dict[int, Wrong], verified: set[int], world: int) -> Iterator[tuple[int, str]]:
    """The table, for one iteration: ranks, and why."""
    own = [rank for rank, each in here.items() if each.own_input]
    if own:
        yield from ((rank, _SENT) for rank in own)
        return
    owners = {owner for each in here.values() for owner in each.owners}
    if world == 1:
        yield from ((rank, _ALONE) for rank in here)
    elif len(here) > 1 and here.keys() >= verified and len(owners) == 1 and owners <= set(range(world)):
        yield owners.pop(), _OWNED
    elif len(here) == 1 and len(verified) == world:
        yield next(iter(here)), _RECEIVED


def _seen(report: Report) -> tuple[Wrong, ...]:
    # What was too much to be reported one by one was wrong all the same.
    return report.wrong or (Wrong(iteration=-1, count=report.wrong_total),)


def _cut(report: Report, wrongs: Iterable[Wrong], iteration: int) -> bool:
    """Whether this rank may have seen it too, and had no room left to say so."""
    last = max(each.iteration for each in wrongs)
    return iteration > last and sum(each.count for each in wrongs) < report.wrong_total


def _strongest(blamed: dict[tuple[int, str], set[int]]) -> Iterator[tuple[tuple[int, str], set[int]]]:
    """Each rank once, with the reason that held most often."""
    for rank in {rank for rank, _ in blamed}:
        yield max((item for item in blamed.items() if item[0][0] == rank), key=lambda item: (len(item[1]), item[0][1]))


def _gpu(task: Task, rank: int, why: str, iterations: set[int]) -> Accusation:
    # Once, it may have been the one that made the sum: the owner's turn to be tried again all the same.
    doubt = ONCE if why == _OWNED and len(iterations) == 1 else ""
    return Accusation(Object.GPU, str(task.seats[rank]), WRONG_DATA, f"{why}, in {_times(iterations)}{doubt}", tests_for=(task.id,))


def _unexplained(task: Task, iterations: set[int], seen: dict[int, tuple[Wrong, ...]], verified: int) -> Iterator[Accusation]:
    if not iterations:
        return
    owners = Counter(owner for wrongs in seen.values() for each in wrongs if each.iteration in iterations for owner in each.owners)
    ranks = sum(any(each.iteration in iterations for each in wrongs) for wrongs in seen.values())
    why = (f"{ranks} of {verified} ranks found elements of {len(owners)} owners wrong, in {_times(iterations)}, and what each had sent was "
           "right: on the way, or where sums are made; pairs tell")
    yield Accusation(Object.UNEXPLAINED, task.id, WRONG_DATA, why, tests_for=(task.id,))


def _times(iterations: set[int]) -> str:
    first = min(iterations)
    if len(iterations) == 1:
        return f"iteration {first}" if first >= 0 else "one iteration"
    return f"{len(iterations)} iterations, the first of them {first}"
