"""Reads files that a job left behind, of any known form, into one JobLog, for `muster blame` and `muster
explain`: launchers' prefixes are taken off, the parsers make events of lines, and a known message of
rules/joblog gives its meaning. Bounded, and never raising for content."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from healthcheck.joblog import flight
from healthcheck.joblog.blocks import blocks
from healthcheck.joblog.messages import KnownMessage, find
from healthcheck.joblog.model import LONGEST_LINE, JobEvent, JobEventKind, JobLog, LogClock
from healthcheck.joblog.mpi import Mpi
from healthcheck.joblog.nccl import Nccl, far_end
from healthcheck.joblog.prefix import Prefix, Prefixes, stamp
from healthcheck.joblog.slurm import SlurmMessages
from healthcheck.joblog.torchrun import Torchrun

MOST_BYTES = 256 << 20      # of one file
MOST_EVENTS = 50_000        # of one file

_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
# Who says a line, where no parser made an event of it: host:pid:tid [device] (NCCL),
# [host:pid:0:tid] (UCX), and PyTorch's rank.
_HOST = re.compile(r"(?<![\w.-])([A-Za-z0-9][\w.-]{0,252}):\d{1,10}:\d{1,10} \[(-?\d{1,3})\] "
                   r"|\[([A-Za-z0-9][\w.-]{0,252}):\d{1,10} {0,2}:\d{1,5}"
                   r"(?::\d{1,10})?\]")
_RANK = re.compile(r"\[rank(\d{1,7})\]|\[Rank (\d{1,7})\]|^Rank (\d{1,7}), node ([\w.-]{1,253}), device")
_SECONDS = re.compile(r"^\[(\d{9,11}\.\d{3,6})\] \[")      # UCX
_PART = re.compile(r"\bon ((?:mlx|bnxt_re|irdma|ionic|rdma|hfi1_|efa_)[\w.-]{1,30}:\d{1,3})/"
                   r"|\bhca '?([\w.:-]{1,40})|\bdev (\w{1,40}:\d{1,3})\b")
# The other end that a line names: PyTorch's store, Open MPI's TCP,
# and behind UCX's line the address to which it sent.
_TO = re.compile(r"trying to connect to [(\[]?\[?([\w.:-]{1,80}?)[\]:,]{1,2} ?\d{1,5}|connect\(\) to "
                 r"([\w.:-]{4,80}):\d{1,5} failed")
_SENT_TO = re.compile(r"\b(?:rlid|dlid)[ =](\d{1,6})|\bdgid[ =]([0-9a-fA-F:.]{3,45})")
# Of the whole job: the process that prints them says nothing of its node.
_OF_JOB = (JobEventKind.TIME_LIMIT, JobEventKind.CANCELLED, JobEventKind.PREEMPTED, JobEventKind.REQUEUED,
           JobEventKind.STEP_CANCELLED, JobEventKind.NODE_FAIL, JobEventKind.DAEMON,
           JobEventKind.DAEMON_START, JobEventKind.LAUNCH)
_SEARCHED = 20_000          # lines from each end in which a time is looked for


def read(
    files: Iterable[tuple[str, bytes]], clock: LogClock, messages: Sequence[KnownMessage] = (),
    nodes: Collection[str] = (),
) -> JobLog:
    """What the files, each a name and its content, say together; `caveats` say what could not be read, and of
    which. A name of the job's `nodes` that stands before a line is known as one."""
    return merged(read_one(name, data, clock, messages, nodes) for name, data in files)


def read_one(
    name: str, data: bytes, clock: LogClock, messages: Sequence[KnownMessage] = (),
    nodes: Collection[str] = (),
) -> JobLog:
    """The log of one file."""
    log = _flight(name, data) if flight.looks_like(data) else _text(name, data, clock, messages, nodes)
    return replace(log, events=tuple(replace(event, file=name) for event in log.events))


def merged(logs: Iterable[JobLog]) -> JobLog:
    """Merges several logs; the first node given for a rank counts."""
    whole = JobLog()
    for one in logs:
        spans = [span for span in (whole.span, one.span) if span is not None]
        whole = JobLog(
            (*whole.events, *one.events), {**one.hosts, **whole.hosts},
            max((size for size in (whole.world, one.world) if size is not None), default=None),
            {**one.addresses, **whole.addresses}, whole.heard | one.heard,
            (min(span[0] for span in spans), max(span[1] for span in spans)) if spans else None,
            tuple(dict.fromkeys((*whole.forms, *one.forms))), (*whole.caveats, *one.caveats),
            whole.unread | one.unread)
    return whole


def of_node(log: JobLog, node: str) -> JobLog:
    """The log, whose lines are of this node where they name none; as it is where `node` is empty."""
    if not node:
        return log
    ranks = {event.rank: node for event in log.events if event.rank is not None and not event.node
             and event.kind not in _OF_JOB}
    events = tuple(event if event.node or event.kind in _OF_JOB else replace(event, node=node)
                   for event in log.events)
    return replace(log, events=events, hosts={**ranks, **log.hosts}, heard=log.heard | {node})


def _flight(name: str, data: bytes) -> JobLog:
    try:
        found, known = flight.events(data, name), flight.ranks(data)
    except flight.NoDump as error:
        rank = flight.rank_of(name)
        return JobLog(caveats=(f"{name}: a flight recorder's dump, {error}",),
                      unread=frozenset() if rank is None else frozenset((rank,)))
    caveats = (() if not found or found[0].rank is not None
               else (f"{name}: whose dump it is, the file's name does not say",))
    return JobLog(tuple(found), world=max(known) + 1 if known else None, forms=("flight recorder",),
                  caveats=caveats)


def _text(
    name: str, data: bytes, clock: LogClock, messages: Sequence[KnownMessage], nodes: Collection[str],
) -> JobLog:
    caveats = []
    if len(data) > MOST_BYTES:
        # What ended a job stands at its log's end, and who is who at its beginning.
        data = data[:MOST_BYTES // 4] + b"\n" + data[-(MOST_BYTES - MOST_BYTES // 4):]
        head = MOST_BYTES >> 22
        caveats.append(f"{name}: only its first {head} MiB and its last {(MOST_BYTES >> 20) - head} MiB were "
                       "read; numbers of lines after the gap count from there")
    rows = [_plain(line) for line in data.decode("utf-8", "replace").split("\n")]
    prefixes, block = Prefixes(rows, clock, nodes), blocks(rows, nodes)
    of: dict[int, Prefix] = {}
    lines = []
    for number, row in enumerate(rows, 1):
        line, prefix = prefixes.split(row)
        lines.append(line)
        if number in block and not (prefix is not None and prefix.node):
            prefix = replace(prefix or Prefix(), node=block[number])
        if prefix is not None:
            of[number] = prefix
    nccl, torchrun, slurm, mpi = Nccl(), Torchrun(), SlurmMessages(), Mpi()
    found: list[JobEvent] = []
    for parser in (nccl, torchrun, slurm, mpi):
        for event in parser.events(lines, clock):
            if len(found) >= MOST_EVENTS:
                caveats.append(f"{name}: more than {MOST_EVENTS} lines say something; the rest was left")
                break
            found.append(event)
    said = _message_events(lines, messages, found, nccl, clock)
    if len(said) > MOST_EVENTS:
        caveats.append(f"{name}: more than {MOST_EVENTS} lines say something; the rest was left")
        said = sorted(said, key=lambda event: event.line)[:MOST_EVENTS]
    forms = tuple(parser.form for parser in (nccl, torchrun, slurm, mpi) if parser.seen)
    if not forms and not said:
        caveats.append(f"{name}: holds nothing of NCCL, torchrun, Slurm or a flight recorder")
    who = _Who(said, of, prefixes, {**mpi.hosts, **slurm.hosts, **torchrun.hosts, **nccl.hosts}, nccl.ranks)
    events = tuple(sorted((who.named(event) for event in said), key=lambda event: event.line))
    heard = {prefix.node for prefix in of.values() if prefix.node} | nccl.heard | set(who.hosts.values())
    return JobLog(events, who.hosts, nccl.world, nccl.addresses, frozenset(heard),
                  _span(rows, of, prefixes, clock), forms, tuple(dict.fromkeys(caveats)))


def _message_events(
    lines: Sequence[str], messages: Sequence[KnownMessage], events: Sequence[JobEvent], nccl: Nccl,
    clock: LogClock,
) -> list[JobEvent]:
    """The events, each with the known message of its line, and one for each other line of such a message."""
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    known = {bisect_right(starts, found.place): found.message for found in find("\n".join(lines), messages)}
    made = [replace(event, message=known.get(event.line)) if event.line in known
            and event.kind is not JobEventKind.ENTERED else event for event in events]
    taken = {event.line for event in events if event.kind is not JobEventKind.ENTERED}
    return [*made, *(_other(lines, number, message, nccl, clock) for number, message in known.items()
                     if number not in taken)]


def _other(lines: Sequence[str], number: int, message: KnownMessage, nccl: Nccl, clock: LogClock) -> JobEvent:
    line, after = lines[number - 1], lines[number] if number < len(lines) else ""
    host, ranked, seconds, part = (_HOST.search(line, 0, 600), _RANK.search(line, 0, 600),
                                   _SECONDS.match(line), _PART.search(line, 0, 600))
    node = (host[1] or host[3] or "") if host is not None else ""
    to, sent = (_TO.search(line), _SENT_TO.search(after) if seconds is not None or "ib_mlx5_log" in line
                else None)
    peer = next(filter(None, to.groups())) if to is not None else far_end(line)
    if sent is not None and node in after:
        peer = f"LID {sent[1]}" if sent[1] else sent[2]
    rank = None
    if ranked is not None:
        rank, node = int(ranked[1] or ranked[2] or ranked[3]), node or ranked[4] or ""
    elif host is not None and host[2]:
        rank = nccl.ranks.get((node, int(host[2])))
    return JobEvent(JobEventKind.SAID, line.strip(), number, node, rank,
                    float(seconds[1]) if seconds is not None else stamp(line, clock), peer=peer,
                    part=next(filter(None, part.groups())) if part is not None else "", message=message)


class _Who:
    """Says of whom a line is by what stood before it, where its own words do not."""

    def __init__(
        self, events: Sequence[JobEvent], of: Mapping[int, Prefix], prefixes: Prefixes,
        hosts: Mapping[int, str], ranks: Mapping[tuple[str, int], int],
    ) -> None:
        self._of, self._prefixes, self._ranks = of, prefixes, ranks
        tagged = [(prefix, event) for event in events if (prefix := of.get(event.line)) is not None
                  and prefix.task is not None]
        # srun numbers tasks, and a task may be torchrun with ranks of its own.
        self._are_ranks = all(event.rank in (None, prefix.task) for prefix, event in tagged)
        nodes: dict[int, str] = {prefix.task: prefix.node for prefix in of.values() if prefix.task is not None
                                 and prefix.node}
        self._nodes = {**{prefix.task: event.node for prefix, event in tagged if event.node
                          and prefix.task is not None}, **nodes}
        named = {event.rank: prefix.node for event in events if event.rank is not None
                 and event.kind not in (JobEventKind.EXIT, *_OF_JOB)
                 and (prefix := of.get(event.line)) is not None and prefix.node}
        self.hosts: dict[int, str] = {**(self._nodes if self._are_ranks else {}), **named, **hosts}
        self._one = len({*self.hosts.values(), *self._nodes.values()}) <= 1

    def named(self, event: JobEvent) -> JobEvent:
        """The event with node, rank and time, as far as they are known."""
        prefix = self._of.get(event.line)
        if prefix is None or not event.line:
            known = event.node or event.rank is None or event.kind in _OF_JOB
            return (event if known or event.rank is None
                    else replace(event, node=self.hosts.get(event.rank, "")))
        time = event.time if event.time is not None else self._prefixes.time(prefix)
        if event.kind in _OF_JOB:
            return replace(event, time=time)
        node, rank = event.node, event.rank
        node = node or prefix.node or ("" if prefix.task is None else self._nodes.get(prefix.task, ""))
        if rank is None and event.kind is not JobEventKind.EXIT:
            if prefix.local is not None:
                rank = self._ranks.get((node, prefix.local), prefix.local if self._one else None)
            elif self._are_ranks:
                rank = prefix.task
        node = node or ("" if rank is None else self.hosts.get(rank, ""))
        device = event.device if event.device is not None else prefix.local
        return replace(event, node=node, rank=rank, device=device, time=time)


def _span(
    rows: Sequence[str], of: Mapping[int, Prefix], prefixes: Prefixes, clock: LogClock,
) -> tuple[float, float] | None:
    numbers = range(1, len(rows) + 1)
    first = next(_times(numbers[:_SEARCHED], rows, of, prefixes, clock), None)
    last = next(_times(reversed(numbers[-_SEARCHED:]), rows, of, prefixes, clock), None)
    return (min(first, last), max(first, last)) if first is not None and last is not None else None


def _times(
    numbers: Iterable[int], rows: Sequence[str], of: Mapping[int, Prefix], prefixes: Prefixes,
    clock: LogClock,
) -> Iterator[float]:
    for number in numbers:
        time = prefixes.time(of[number]) if number in of else None
        if time is not None or (time := stamp(rows[number - 1], clock)) is not None:
            yield time


def _plain(line: str) -> str:
    line = line.rstrip("\r")
    if len(line) > LONGEST_LINE:
        # Of a progress bar that was drawn over and over only the last is of interest.
        line = line[line.rfind("\r", 0, len(line) - 1) + 1:][:LONGEST_LINE]
    return _ESCAPE.sub("", line) if "\x1b" in line else line
