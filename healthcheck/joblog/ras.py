"""What NCCL's RAS subsystem says of a running job: who does not answer, and how many collectives each
rank has launched in each communicator (`healthcheck.joblog.rasread` reads it).

A count is of collectives that the host has launched. Ranks of a job that moves differ by one or two all the
time, so it tells something of a hang alone. Source: github.com/NVIDIA/nccl
docs/userguide/source/troubleshooting/ras.rst.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from healthcheck.joblog.absent import AbsentRank

_BEHIND = 0.25      # of a communicator: where more are behind, it is not they whom the others wait for


@dataclass(frozen=True)
class RasRank:
    """A rank of one communicator: its process and GPU (NVML's number), how many collectives of each type it
    has launched, and whether it answered. `host` is an address, empty where it is not known. `dead`: RAS has
    given its process up."""

    rank: int
    host: str = ""
    pid: int = -1
    gpu: int = -1
    counts: Mapping[str, int] = field(default_factory=dict)
    answered: bool = True
    dead: bool = False

    @property
    def process(self) -> tuple[str, int, int]:
        """By which it is known in other communicators."""
        return self.host, self.pid, self.gpu


@dataclass(frozen=True)
class RasComm:
    """A communicator of `size` ranks. `ranks` are those that the report lists: all in JSON, in text only who
    stands out. `most` gives the highest count of each type of collective, and how many ranks have it."""

    hash: str
    size: int
    ranks: tuple[RasRank, ...]
    most: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class RasReport:
    """All that one answer says. `size` is how many ranks the job has, None where it does not say; `gone` are
    processes that do not answer: address, number, and whether they are given up."""

    comms: tuple[RasComm, ...]
    size: int | None = None
    gone: tuple[tuple[str, int, bool], ...] = ()


def missing(report: RasReport) -> list[AbsentRank]:
    """Who did not come, in a job that hangs: processes that do not answer, else the few ranks that launched
    fewer collectives than the others and that no one else's count shows to be waiting. Empty where it is not
    known. Ranks are those of the job, None where no communicator has all of them."""
    world = _World(report)
    return list(_gone(report, world)) or list(_behind(report, world))


class _World:
    """The communicator that has all ranks of the job, where there is one: its numbers are those of ranks."""

    def __init__(self, report: RasReport) -> None:
        whole = max(report.comms, key=lambda one: one.size, default=None)
        everyone = {one.process for comm in report.comms for one in comm.ranks if one.host}
        known = (whole is not None and (len(everyone) <= whole.size if report.size is None
                                        else whole.size >= report.size))
        self._comm = whole if known else None
        self._ranks = ({one.process: one.rank for one in self._comm.ranks if one.host}
                       if self._comm is not None else {})

    def rank(self, comm: RasComm, one: RasRank) -> int | None:
        """The rank in the job."""
        return one.rank if comm is self._comm else self._ranks.get(one.process) if one.host else None


def _gone(report: RasReport, world: _World) -> Iterator[AbsentRank]:
    given_up = {(host, pid): dead for host, pid, dead in report.gone}
    said: set[object] = set()
    for comm in sorted(report.comms, key=lambda one: -one.size):
        for one in comm.ranks:
            rank = world.rank(comm, one)
            keys = {one.process if one.host else (comm.hash, one.rank), *(() if rank is None else (rank,))}
            if one.answered or keys & said:
                continue
            said |= keys
            # The short form names ranks and processes apart.
            dead = one.dead or (given_up.get((one.host, one.pid), False) if one.host
                                else bool(given_up) and all(given_up.values()))
            yield _absent(comm, one, rank, comm.size - sum(not other.answered for other in comm.ranks),
                          "is given up by NCCL's RAS: its process cannot be reached" if dead
                          else "does not answer NCCL's RAS", sure=dead)
    if not said:
        for (host, pid), dead in given_up.items():
            what = "is given up by" if dead else "does not answer"
            yield AbsentRank(None, host, report.size or 0, None, f"process {pid} on {host} {what} NCCL's RAS",
                             sure=dead)


def _behind(report: RasReport, world: _World) -> Iterator[AbsentRank]:
    behind: dict[object, tuple[RasComm, RasRank, str]] = {}
    ahead: set[object] = set()
    for comm in sorted(report.comms, key=lambda one: -one.size):
        late = {one.rank: (one, op) for op, (top, _) in comm.most.items() for one in comm.ranks
                if one.answered and one.counts.get(op, top) < top}
        if len(late) <= max(1, _BEHIND * comm.size):
            for one, op in late.values():
                behind.setdefault(one.process if one.host else (comm.hash, one.rank), (comm, one, op))
        if late:
            # Who launched what others of the communicator did not waits for those.
            ahead |= {one.process for one in comm.ranks if one.rank not in late and one.host}
    for key, (comm, one, op) in behind.items():
        if key not in ahead:
            top, count = comm.most[op]
            yield _absent(comm, one, world.rank(comm, one), count,
                          f"had launched {one.counts[op]} {op} of NCCL while {count} "
                          f"rank{'s' * (count != 1)} had launched {top}", sure=False, op=op,
                          last=one.counts[op])


def _absent(comm: RasComm, one: RasRank, rank: int | None, waited: int, why: str, *, sure: bool, op: str = "",
            last: int | None = None) -> AbsentRank:
    who = f"rank {rank}" if rank is not None else f"rank {one.rank} of communicator {comm.hash}"
    where = f" (process {one.pid} on {one.host})" if one.host else ""
    # An address is a node's name only where nothing better is known.
    return AbsentRank(rank, one.host if rank is None else "", waited, None, f"{who}{where} {why}", comm.hash,
                      None, op, last, sure)
