"""Turns a run of nccl-tests into a burn-in's task result: a report of every seat, and accusations.

The test sums wrong values over all ranks, and stops all at a timeout: of many GPUs it names none.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from healthcheck.burnin.faults import HUNG, RAISED, WRONG_DATA
from healthcheck.burnin.model import Accusation, Object, RankEnd, RankReport, Task, TaskResult, WrongData
from healthcheck.burnin.nccltests.check import problems, wrong
from healthcheck.burnin.nccltests.model import NcclRun

_TIMEOUT = "Test timeout"
_CUDA = "Test CUDA failure"


def result(task: Task, run: NcclRun | None, code: int | None, began: float, ended: float) -> TaskResult:
    """The task's result; `run` None: unreadable output; `code` None: muster ended it at its time limit. Only
    a run that counts has figures; an impossible rate does not."""
    read = run if run is not None else NcclRun()
    untrue = problems(read, len(task.seats))
    error = ("it did not end within its time limit" if code is None else untrue[0] if untrue
             else f"it ended with exit code {code}" if code else "")
    end = (RankEnd.CALLED_OFF if code is None else RankEnd.SIGNAL if code < 0
           else RankEnd.RAISED if error and not wrong(read) else RankEnd.DONE)
    counts = not untrue and code == 0
    seen = wrong(read)
    reports = tuple(RankReport(
        seat, end, figures(read, len(task.seats)) if counts else {}, {},
        (WrongData(0, seen),) if seen else (), seen, _facts(read),
        -code if code is not None and code < 0 else code, error,
    ) for seat in task.seats)
    return TaskResult(task, reports, _accusations(task, read, code), began, ended)


def figures(run: NcclRun, ranks: int) -> Mapping[str, float]:
    """The figures of its largest size, by the names of `healthcheck.burnin.figures`, as far as measured."""
    size = max((row.size for row in run.rows), default=0)
    halves = [half for row in run.rows if row.size == size for half in row.halves]
    if not halves:
        return {}
    found = {"size_bytes": float(size), "algbw_gb_s": median(half.algbw for half in halves),
             "busbw_gb_s": median(half.busbw for half in halves) if ranks > 1 else 0.0,
             "iterations": float(run.config.get("iterations", 0) * len(halves)),
             "verified": float(run.config.get("validation", 0) * len(halves))}
    times = sorted(time for half in halves for time in half.times_us)
    if times:
        found["seconds_p50"] = median(times) / 1e6
    spreads = [half.spread for half in halves if half.spread is not None]
    if spreads:
        found["seconds_p99"] = max(spread.p99_us for spread in spreads) / 1e6
        found["seconds_max"] = max(spread.max_us for spread in spreads) / 1e6
    return found


def _facts(run: NcclRun) -> dict[str, str]:
    facts = {"engine": f"nccl-tests {run.version}".strip()}
    if run.library is not None:
        facts["nccl"] = str(run.library)
    names = {device.name for device in run.devices}
    if len(names) == 1:
        facts["device"] = names.pop()
    return facts


def _accusations(task: Task, run: NcclRun, code: int | None) -> tuple[Accusation, ...]:
    made = []
    timeouts = [failure for failure in run.failures if _TIMEOUT in failure.text]
    if timeouts:
        made.append((HUNG,
                     f"nccl-tests timed out; {len(timeouts)} hosts report it, and none names the late rank"))
    elif code is None:
        made.append((HUNG, "nccl-tests exceeded its time limit and was ended"))
    accusations = [*_wrong(task, wrong(run)), *(_of_all(task, fault, why) for fault, why in made)]
    # A host whose CUDA failed reports it; the others only lose their peer. Its name may follow half a row
    # without a space.
    for failure in run.failures:
        host = failure.text.partition(f": {_CUDA}")[0] if _CUDA in failure.text else ""
        named = max((node for node in task.nodes if host.endswith(node)), key=len, default=None)
        if named is not None:
            accusations.append(Accusation(Object.NODE, named, RAISED, f"{named}{failure.text[len(host):]}",
                                          (task.id,)))
    return tuple(dict.fromkeys(accusations))


def _wrong(task: Task, seen: int) -> list[Accusation]:
    """Only a rank that ran alone is accused of wrong values: the test sums them over all ranks."""
    if not seen:
        return []
    alone = len(task.seats) == 1
    why = (f"nccl-tests counted {seen} wrong elements, summed over all "
           f"ranks{'' if alone else ', so their origin is unknown: pair tests can tell'}")
    return [Accusation(Object.GPU if alone else Object.UNEXPLAINED, str(task.seats[0]) if alone else task.id,
                       WRONG_DATA, why, (task.id,))]


def _of_all(task: Task, fault: str, why: str) -> Accusation:
    nodes = task.nodes
    if len(task.seats) == 1:
        return Accusation(Object.GPU, str(task.seats[0]), fault, why, (task.id,))
    if len(nodes) == 1:
        return Accusation(Object.NODE, nodes[0], fault, why, (task.id,))
    if len(nodes) == 2:
        return Accusation(Object.PAIR, f"{nodes[0]} - {nodes[1]}", fault, why, (task.id,))
    return Accusation(Object.UNEXPLAINED, task.id, fault, why, (task.id,))
