"""What a job's own logs say, as evidence of nodes.

Of ranks that ended, the first is a lead: a signal beats an exception, and what torchrun ended itself (SIGTERM) says nothing; each agent
prints a 'root cause' of its own. Where ranks waited in a collective, those are leads that did not come. The first peer that another lost
is one, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from healthcheck.blame.evidence import Evidence, Weight, Window
from healthcheck.joblog.absent import absent
from healthcheck.joblog.model import JobEvent, JobLog, Kind
from healthcheck.outcome import Owner

_TERMINATED = -15
_MOST = 400         # events of a kind that are made evidence of
_MEM = "Ask for more with --mem, or use less: fewer data loader workers, no copy in each."


@dataclass(frozen=True)
class _As:
    weight: Weight
    what: str
    owner: Owner | None = None
    advice: str = ""
    sure: bool = True


_OF = {
    Kind.GPU: _As(Weight.DEVICE, "CUDA says that the GPU failed", Owner.OPERATOR, "Look at the Xids of the node: muster check NODE."),
    Kind.GPU_MEMORY: _As(Weight.USER, "ran out of GPU memory", Owner.USER, "Use less: a smaller batch, shards, check-pointed activations."),
    Kind.CUDA: _As(Weight.USER, "an error of a CUDA call", Owner.USER,
                   "Run it with CUDA_LAUNCH_BLOCKING=1; if it comes on this node only, it is the node: muster check NODE.", sure=False),
    Kind.NETWORK: _As(Weight.NETWORK, "NCCL lost the network", Owner.NETWORK, "Look at the ports of both ends: muster check NODE."),
    Kind.SETUP: _As(Weight.HOST, "NCCL could not begin", Owner.USER,
                    "Look at NCCL_SOCKET_IFNAME, NCCL_IB_HCA and the versions in all ranks."),
    Kind.OOM: _As(Weight.USER, "a process of the job was killed for want of host memory", Owner.USER, _MEM),
    Kind.EXCEPTION: _As(Weight.USER, "the program raised an error", Owner.USER, "See the traceback above that line."),
    Kind.NODE_FAIL: _As(Weight.LOST, "Slurm lost the node", Owner.OPERATOR, "Look at its console and its BMC's event log."),
    Kind.LAUNCH: _As(Weight.LOST, "Slurm could not start the job there", Owner.OPERATOR, "Look at slurmd's log on the node."),
    Kind.MEMORY_ERROR: _As(Weight.DEVICE, "an uncorrectable memory error", Owner.OPERATOR, "Look at the node's BMC and EDAC counters."),
    Kind.TIME_LIMIT: _As(Weight.STOPPED, "the job reached its time limit: nobody's fault", Owner.USER, "Ask for more time."),
    Kind.CANCELLED: _As(Weight.STOPPED, "the job was cancelled: nobody's fault", Owner.USER),
    Kind.PREEMPTED: _As(Weight.ORDERED, "the scheduler preempted the job: nobody's fault", Owner.USER, "Submit it again."),
    Kind.REQUEUED: _As(Weight.ORDERED, "the job was requeued: nobody's fault", Owner.USER),
    Kind.STEP_CANCELLED: _As(Weight.SYMPTOM, "a step was cancelled"),
    Kind.PEER: _As(Weight.SYMPTOM, "lost a peer"),
    Kind.NCCL: _As(Weight.SYMPTOM, "NCCL warns"),
    Kind.TIMEOUT: _As(Weight.SYMPTOM, "waited in a collective until its time was up"),
}
_OF_JOB = (Kind.TIME_LIMIT, Kind.CANCELLED, Kind.PREEMPTED, Kind.REQUEUED, Kind.STEP_CANCELLED)
_ENDS_ALL = (Kind.TIME_LIMIT, Kind.CANCELLED, Kind.PREEMPTED, Kind.REQUEUED, Kind.NODE_FAIL, Kind.OOM)
_OWN = (Kind.GPU, Kind.GPU_MEMORY, Kind.CUDA, Kind.EXCEPTION)
_GROUPS = {Kind.NODE_FAIL: "lost", Kind.OOM: "oom"}
# An RDMA operation that had no answer: the other end, or anything between, is as likely as this one.
_UNANSWERED = re.compile(r"Got completion|with error|timed ?out|No route|unreachable|refused")
_OFF = 3600.0       # seconds by which times of a log may lie outside the job's and still be of it


def fitting(log: JobLog, window: Window) -> JobLog:
    """The log, without its times where none of them is of the job's time: they are of another zone, or the log of another job."""
    times = [event.time for event in log.events if event.time is not None]
    if not times or any(window.start - _OFF <= time <= window.end + _OFF for time in times):
        return log
    name = next(event.file for event in log.events if event.time is not None)
    return replace(log, events=tuple(replace(event, time=None) for event in log.events),
                   caveats=(*log.caveats, f"{name}: when it happened: none of its times is of the job's time; another zone, another job?"))


def evidence(log: JobLog, window: Window, *, ordered: bool = False) -> Iterator[Evidence]:
    """What the logs accuse; of each rank and kind the first word. `ordered`: the scheduler's record says that it ended the job itself."""
    names = _Names(log, window)
    ordered = ordered or any(event.kind in _ENDS_ALL for event in log.events)
    exits = [event for event in log.events if event.kind is Kind.EXIT and event.rank is not None]
    ended: dict[int | None, float | None] = {event.rank: event.time for event in exits}
    seen: Counter[tuple[Kind, str, int | None]] = Counter()
    for event in log.events:
        if event.kind in (Kind.ENTERED, Kind.EXIT):
            continue
        node = "" if event.kind in _OF_JOB else names.of(event)
        key = (event.kind, node, event.rank)
        seen[key] += 1
        if seen[key] > 1 or len(seen) > _MOST:
            continue
        how = _OF[event.kind]
        weight, sure = how.weight, how.sure
        if event.kind is Kind.NETWORK and _UNANSWERED.search(event.text) is not None:
            weight, sure = Weight.LEAD, False
        elif event.kind is Kind.NODE_FAIL and not node:
            weight = Weight.ODD
        # An error without a time was said before its rank ended.
        time = ended.get(event.rank) if event.time is None and event.kind in _OWN else event.time
        rank = f"rank {event.rank}: " if event.rank is not None else ""
        yield Evidence(node, weight, f"{rank}{how.what}", _at(event), time, time, event.text, how.owner,
                       how.advice.replace("NODE", node or "NODE"), sure, _GROUPS.get(event.kind, event.kind.value), event.rank)
    yield from _first(log, names, ordered=ordered)
    yield from _lost(log, names)
    for one in absent(log):
        node = names.rank(one.rank)
        yield Evidence(node, Weight.LEAD, f"rank {one.rank} did not come to a collective that {one.waited} ranks waited in", "logs",
                       one.time, one.time, one.why, Owner.OPERATOR if node else Owner.USER,
                       f"Look at the node: muster check {node}; if it is well, look at what rank {one.rank} did: py-spy dump, its own log."
                       if node else "Which node it ran on, NCCL_DEBUG=INFO tells.", True, "absent", one.rank)


def failed(log: JobLog) -> float | None:
    """The first moment at which a rank ended or an error was said, None where no line of one has a time."""
    times = [event.time for event in log.events if event.time is not None and event.kind not in (Kind.ENTERED, *_OF_JOB)]
    return min(times, default=None)


def _first(log: JobLog, names: _Names, *, ordered: bool) -> Iterator[Evidence]:
    """The ranks that ended first; what came after, by torchrun's or Slurm's hand, is left."""
    exits = [event for event in log.events if event.kind is Kind.EXIT and event.code not in (0, None, _TERMINATED)]
    if ordered:
        exits = [event for event in exits if event.code != -9]      # what the scheduler ended, it ends by SIGTERM and SIGKILL
    if not exits:
        return
    waited = {event.rank for event in log.events if event.kind in (Kind.TIMEOUT, Kind.PEER) and event.rank is not None}
    said = {event.rank for event in log.events if event.kind in _OWN}
    own = [event for event in exits if event.rank is None or event.rank not in waited] or exits
    own = [event for event in own if event.rank is None or event.rank not in said]      # its own error says more
    if not own:
        return
    signalled = [event for event in own if event.code is not None and event.code < 0]
    best = min(signalled or own, key=lambda event: (event.time is None, event.time or 0.0, not event.first, event.line))
    nodes = {names.of(event) for event in (signalled or own)}
    alike = [event for event in (signalled or own) if event.time is not None and event.time == best.time]
    alone = len(nodes) == 1 or best.time is not None
    node = names.of(best)
    how = f"was ended by signal {-best.code}" if best.code is not None and best.code < 0 else f"ended with exit code {best.code}"
    rank = f"rank {best.rank}" if best.rank is not None else "a task"
    more = f", the first of {len(exits)}" if len(exits) > 1 else ""
    owner = Owner.OPERATOR if signalled else Owner.USER
    yield Evidence(node, Weight.LEAD, f"{rank} {how}{more}", _at(best), best.time, best.time, best.text, owner,
                   f"Look at what it said last, and at the node: muster check {node or 'NODE'}.", alone and len(alike) <= 1, "first",
                   best.rank)


def _lost(log: JobLog, names: _Names) -> Iterator[Evidence]:
    """The first node of the job that another rank lost its connection to."""
    for event in log.events:
        node, by = names.known(event.peer), names.of(event)
        if event.kind is Kind.PEER and node and node != by:
            yield Evidence(node, Weight.LEAD, f"its peer{f' on {by}' if by else ''} lost the connection to it first", _at(event),
                           event.time, event.time, event.text, Owner.OPERATOR, f"Look at the node: muster check {node}.", False, "peer")
            return


class _Names:
    """Finds the node of the inventory that an event is of: hosts in logs may be long names, and ranks have hosts."""

    def __init__(self, log: JobLog, window: Window) -> None:
        self._hosts: Mapping[int, str] = log.hosts
        self._known = {_short(node): node for node in window.nodes}
        self._nodes: Sequence[str] = window.nodes

    def of(self, event: JobEvent) -> str:
        if event.node:
            return self._named(event.node)
        return self.rank(event.rank) if event.rank is not None else ""

    def rank(self, rank: int) -> str:
        host = self._hosts.get(rank, "")
        return self._named(host) if host else self._nodes[0] if len(self._nodes) == 1 else ""

    def known(self, host: str) -> str:
        return self._known.get(_short(host), "")

    def _named(self, host: str) -> str:
        if host == "localhost" and len(self._nodes) == 1:
            return self._nodes[0]
        return self._known.get(_short(host), host)


def _short(host: str) -> str:
    return host.partition(".")[0].lower()


def _at(event: JobEvent) -> str:
    return f"{event.file}, line {event.line}" if event.line else event.file
