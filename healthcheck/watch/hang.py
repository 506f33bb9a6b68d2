"""A job that makes no steps any more: who did not come, by dumps of the flight recorder or by progress."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from healthcheck.joblog import ras
from healthcheck.joblog.absent import absent
from healthcheck.joblog.model import JobEventKind, JobLog
from healthcheck.joblog.ras import RasReport

FACTOR = 10.0       # times the usual step without any line
LEAST_S = 30.0
PAUSES = 2.0        # times what the job pauses for, as for a checkpoint or an evaluation
# Of a few ranks behind one says who; of many, that their lines are late.
_SHARE = 0.25
_MOST_MUTE = 8      # that are named


@dataclass(frozen=True)
class HangSources:
    """What there is to know of a hang: the job's logs with dumps of the flight recorder, what NCCL's RAS
    answered in it and when that was (epoch seconds), and what stacks say, in words."""

    log: JobLog | None = None
    ras: RasReport | None = None
    stacks: tuple[str, ...] = ()
    answered: float = 0.0

    @property
    def timeouts(self) -> tuple[float | None, ...]:
        """When ranks gave up on a collective (epoch seconds, None where a line has no time); empty of a job
        of which nothing says that it hung."""
        events = self.log.events if self.log is not None else ()
        return tuple(one.time for one in events if one.kind is JobEventKind.TIMEOUT)


@dataclass(frozen=True)
class HangVerdict:
    """Whom the others wait for; `ranks` is empty where it is not known."""

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    sure: bool
    evidence: tuple[str, ...]


def hangs(quiet_s: float, usual_s: float, line_s: float = 0.0, pause_s: float = 0.0) -> bool:
    """Whether it is longer quiet than steps take; `line_s` is the time that the lines of a rank are apart,
    `pause_s` how long the job pauses now and then."""
    return quiet_s > max(FACTOR * usual_s, LEAST_S, PAUSES * pause_s) + 2 * line_s


def mute(progress: Mapping[int, int], reach: int) -> dict[int, int]:
    """The ranks whose newest step is more than `reach` behind the newest of all, with that step. Synchronous
    training lets no rank be so far behind: they have stopped reporting, and nothing is known of them."""
    newest = max(progress.values(), default=0)
    return {rank: step for rank, step in progress.items() if reach and step < newest - reach}


def mute_words(ranks: Mapping[int, int], hosts: Mapping[int, str], newest: int) -> tuple[str, ...]:
    """A line of each of these ranks, up to some."""
    found = [f"rank {rank}{f' on {hosts[rank]}' if hosts.get(rank) else ''} has reported nothing since "
             f"step {step}, the others are at step {newest}"
             for rank, step in sorted(ranks.items())[:_MOST_MUTE]]
    more = len(ranks) - len(found)
    return (*found, *((f"{more} more ranks have reported nothing for as long",) if more else ()))


def who(progress: Mapping[int, int], hosts: Mapping[int, str], sources: HangSources,
        nodes: Collection[str] = (), reach: int = 0) -> HangVerdict:
    """Who did not come, of ranks whose newest step is given. The flight recorder knows best: it has when each
    rank entered what; then NCCL's RAS; then how far steps came, of ranks that are at most `reach` steps
    behind (0: of all)."""
    # The ranks that report steps are the job's, also where no line of its logs is of one.
    world = max(progress, default=-1) + 1
    missing = absent(replace(sources.log, world=max(world, sources.log.world or 0)), nodes) \
        if sources.log is not None else []
    missing = missing or (ras.missing(sources.ras) if sources.ras is not None else [])
    if missing:
        ranks = tuple(one.rank for one in missing if one.rank is not None)
        named = tuple(dict.fromkeys(one.node or hosts.get(one.rank if one.rank is not None else -1, "")
                                    for one in missing))
        words = tuple(one.why + (f" ({one.op} {one.work} of group {one.group})" if one.work else "")
                      for one in missing[:8])
        words += (f"and {len(missing) - 8} more",) if len(missing) > 8 else ()
        return HangVerdict(ranks, tuple(filter(None, named)), all(one.sure for one in missing),
                           (*words, *sources.stacks))
    newest = max(progress.values(), default=0)
    silent = mute(progress, reach)
    unheard = mute_words(silent, hosts, newest)
    progress = {rank: step for rank, step in progress.items() if rank not in silent}
    behind = sorted(rank for rank, step in progress.items() if step < newest)
    if behind and len(behind) <= max(1, _SHARE * len(progress)) and len(progress) > 2:
        words = tuple(f"rank {rank} reported step {progress[rank]} last, {len(progress) - len(behind)} ranks "
                      f"step {newest}" for rank in behind[:8])
        return HangVerdict(tuple(behind), tuple(dict.fromkeys(filter(None, map(hosts.get, behind)))), False,
                           (*words, *unheard, *sources.stacks))
    if sources.timeouts:
        words = _mismatches(sources.log) or (
            f"{len(sources.timeouts)} ranks gave up waiting, and what is there does not tell for whom",)
        return HangVerdict((), (), False, (*words, *unheard, *sources.stacks))
    return HangVerdict((), (), False, (
        f"all {len(progress)} ranks that report are at step {newest}; dumps of the flight recorder "
        "(TORCH_NCCL_DUMP_ON_TIMEOUT=1) in the log folder would tell who did not come",
        *unheard, *sources.stacks))


def _mismatches(log: JobLog | None) -> tuple[str, ...]:
    """Ranks that wait in different collectives of one number and group: their programs differ."""
    waits: dict[tuple[str, int], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for one in log.events if log is not None else ():
        if one.kind is JobEventKind.TIMEOUT and one.rank is not None and one.work is not None and one.op:
            waits[one.group, one.work][one.op].append(one.rank)
    return tuple(f"group {group}, collective {work}: " + ", ".join(
        f"{'rank' if len(ranks) == 1 else f'{len(ranks)} ranks, such as'} {min(ranks)} in {op}"
        for op, ranks in sorted(by_op.items(), key=lambda item: len(item[1]))) + ": they do not match"
        for (group, work), by_op in sorted(waits.items()) if len(by_op) > 1)[:4]
