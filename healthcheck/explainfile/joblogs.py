"""Explains what a job wrote: lines of NCCL, torchrun, CUDA, Slurm and programs, and PyTorch's flight recorder.

A line is known by a saying (rules/joblog), and else by the kind of event that `healthcheck.joblog` makes of it. The earliest cause that is
no symptom comes first. Who says that a peer is gone is no culprit: its peer is accused, and of several the one whom most name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from healthcheck.explainfile.jobkinds import Meaning, meaning
from healthcheck.explainfile.model import LONGEST_QUOTE, MOST_QUOTES, Cause, Quote, Sure
from healthcheck.explainfile.quoting import Lines
from healthcheck.explainfile.sayings import Accused, Found, Saying, find
from healthcheck.joblog.absent import absent
from healthcheck.joblog.model import JobEvent, JobLog, Kind
from healthcheck.outcome import Owner, Severity
from inventory.text import clean

LOOKED_FOR = (
    "NCCL's warnings (adapters, peers, versions, memory) and the network that it chose", "CUDA errors",
    "watchdog timeouts, and ranks that did not come", "torchrun's failures and exceptions of programs",
    "Slurm's words of nodes, memory, time and signals",
)
CANNOT_SHOW = (
    "what the nodes' kernels and drivers said at that time (give a dmesg)", "lines of ranks whose output is not in this file",
    "NCCL's reasons, where the job ran without NCCL_DEBUG=WARN or INFO",
)
FLIGHT_LOOKED_FOR = ("how far this rank had come in each process group", "collectives that it waited in")
FLIGHT_CANNOT_SHOW = ("the other ranks: give muster blame the dumps of all, and it names who is missing",)

_MOST_SUBJECTS = 4
_MOST_PLACES = 1000     # of one cause that are kept; all are counted
# Meanings of which the same words are one cause, whoever said them.
_BY_WORDS = ("job-exception", "job-timeout")
# Ends of processes that mean something only where nothing else does.
_ENDS = ("exit-killed", "exit-bus")
_NAMED = 6              # of many subjects so many are named
# host:pid:tid [device] NCCL ... (NCCL src/debug.cc), and the rank that PyTorch puts before its own lines.
_HOST = re.compile(r"(?<![\w.-])([A-Za-z0-9][\w.-]{0,252}):\d{1,10}:\d{1,10} \[-?\d{1,3}\] ")
_RANK = re.compile(r"\[rank(\d{1,7})\]|\[Rank (\d{1,7})\]")
_ADAPTER = re.compile(r"\bhca '?([\w.:-]{1,40})|NET/IB : (\w{1,40}:\d{1,3})\b|\bdev (\w{1,40}:\d{1,3})\b|for HCA \d{1,3} '([\w.:-]{1,40})'")
_PEER = re.compile(r"\b(?:peer|from|to) \[?([\w.:%-]{1,80}?)(?:\]:\d{1,5}|<\d{1,5}>)")
# Bootstrap: Using eth0:10.0.0.17<0>; NET/Socket : Using [0]eth0:10.0.0.17<0>; NET/IB : Using ...; OOB eth0:10.0.0.17<0>.
_ADDRESS = re.compile(r"(?:Using|OOB) [^\n]{0,400}?\b[\w.-]{1,20}:([0-9a-fA-F.:]{3,40})<\d{1,5}>")


@dataclass
class _Group:
    """What was said by one saying of one subject: the lines' numbers, and their texts where they are at hand."""

    told: Saying | Meaning
    places: list[tuple[int, str]] = field(default_factory=list)
    count: int = 0
    by: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)


def explain(log: JobLog, lines: Lines, sayings: Sequence[Saying]) -> list[Cause]:
    """The causes in a job's log, which `healthcheck.joblog.read` has read from the text of these lines."""
    at = {event.line: event for event in log.events}
    hosts = _addresses(lines.text)
    groups: dict[tuple[str, str], _Group] = {}
    taken: set[int] = set()
    for found in find(lines.text, sayings):
        number = lines.number(found.place)
        taken.add(number)
        event = at.get(number)
        reporter = _reporter(found.text, event, log)
        group = groups.setdefault((found.saying.id, _accused(found, reporter, event, hosts)), _Group(found.saying))
        _add(group, number, found.text, reporter, event)
    for event in log.events:
        told = meaning(event)
        if told is not None and event.line not in taken and not (event.kind is Kind.NCCL and "HINT" in event.text):
            reporter = _reporter("", event, log)
            group = groups.setdefault((told.id, _words(event) or reporter), _Group(told))
            _add(group, event.line, "" if event.line else event.text, reporter, event)
    causes = [cause for told in _by_told(groups, lines) for cause in told]
    explained = {rank for group in groups.values() if not group.told.symptom for rank in group.ranks}
    peers = {f"joblog {saying.id}" for saying in sayings if saying.accuses is Accused.PEER}
    return _after([*causes, *_late(log, causes, explained)], peers)


def _words(event: JobEvent) -> str:
    """What makes events one cause, whoever said them: the exception, or what was waited in."""
    if event.kind is Kind.EXCEPTION:
        return event.text[:120]
    return f"{event.op} {event.work}" if event.kind is Kind.TIMEOUT else ""


def _late(log: JobLog, causes: Sequence[Cause], explained: set[int]) -> Iterator[Cause]:
    """The ranks that did not come to a collective; no lead where something else is known of the rank."""
    waits = next((cause.quotes for cause in causes if cause.by == "job-timeout"), ())
    for one in absent(log)[:_MOST_SUBJECTS]:
        yield Cause(
            subject=clean(", ".join(filter(None, (one.node, f"rank {one.rank}"))), 200),
            meaning=clean(f"It did not come to a collective that others waited in until their time was up: {one.why}", 400),
            sure=Sure.LIKELY, severity=Severity.CRITICAL, owner=Owner.OPERATOR, by="absent", quotes=waits,
            remedy="Look at that rank's own log, at its GPU (Xids in the node's kernel log) and whether its process hung; "
                   "py-spy dump of a process that still hangs tells where.",
            symptom=one.rank in explained,
        )


def _after(causes: list[Cause], peers: set[str]) -> list[Cause]:
    """The causes, those marked as symptoms that another one explains.

    A peer stops answering when its process ends for whatever reason, and a process that was killed was mostly killed for one.
    """
    certain = any(not cause.symptom and cause.wrong and cause.sure is Sure.CERTAIN for cause in causes)
    own = [cause.quotes[0].line for cause in causes if not cause.symptom and cause.wrong and cause.by not in peers and cause.quotes]
    first = min(own, default=0)

    def follows(cause: Cause) -> bool:
        earlier = bool(own) and bool(cause.quotes) and first < cause.quotes[0].line
        return (cause.by in _ENDS and certain) or (cause.by in peers and (certain or earlier))

    return [replace(cause, symptom=True) if follows(cause) else cause for cause in causes]


def _add(group: _Group, number: int, text: str, reporter: str, event: JobEvent | None) -> None:
    group.count += 1
    if len(group.places) < _MOST_PLACES:
        group.places.append((number, text))
    if reporter:
        group.by.add(reporter)
    if event is not None and event.rank is not None:
        group.ranks.add(event.rank)


def _addresses(text: str) -> dict[str, str]:
    """Which host has which address, as far as NCCL's INFO lines tell."""
    found: dict[str, str] = {}
    at = text.find("NCCL INFO ")
    while at >= 0:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        if text.find("Using ", at, min(end, at + 60)) >= 0:
            start = max(text.rfind("\n", 0, at) + 1, at - 400)
            host, address = _HOST.search(text[start:at]), _ADDRESS.search(text[at:min(end, at + 2000)])
            if host is not None and address is not None:
                found.setdefault(address[1], host[1])
        at = text.find("NCCL INFO ", end)
    return found


def _reporter(text: str, event: JobEvent | None, log: JobLog) -> str:
    """Who said a line: node and rank, as far as they can be told."""
    host = _HOST.search(text[:600])
    ranked = _RANK.search(text[:600])
    rank = event.rank if event is not None and event.rank is not None else int(ranked[1] or ranked[2]) if ranked is not None else None
    node = (event.node if event is not None else "") or (host[1] if host is not None else "")
    node = node or ("" if rank is None else log.hosts.get(rank, ""))
    return ", ".join(filter(None, (node, f"rank {rank}" if rank is not None else "")))


def _accused(found: Found, reporter: str, event: JobEvent | None, hosts: dict[str, str]) -> str:
    accuses = found.saying.accuses
    if accuses is Accused.PEER:
        match = _PEER.search(found.text)
        peer = (event.peer if event is not None else "") or (match[1] if match is not None else "")
        host = hosts.get(peer, "")
        return f"{host} ({peer})" if host else peer or reporter
    if accuses is Accused.ADAPTER and (match := _ADAPTER.search(found.text)) is not None:
        node = reporter.partition(", rank")[0]
        return f"{node} {next(filter(None, match.groups()))}".strip()
    return reporter


def _by_told(groups: dict[tuple[str, str], _Group], lines: Lines) -> Iterator[list[Cause]]:
    """The causes of each saying or meaning: one for each subject, or one for all where they are many."""
    alike: dict[str, dict[str, _Group]] = {}
    for (name, subject), group in groups.items():
        alike.setdefault(name, {})[subject] = group
    for subjects in alike.values():
        told = next(iter(subjects.values())).told
        # A line that names nobody speaks of who is named by another.
        if "" in subjects and len(subjects) > 1:
            nobody = subjects.pop("")
            _join(next(iter(subjects.values())), nobody)
        names = list(subjects)
        peers = isinstance(told, Saying) and told.accuses is Accused.PEER
        if peers:
            names.sort(key=lambda name: (-len(subjects[name].by), subjects[name].places[0][0]))
            most = len(subjects[names[0]].by)
            clear = most > 1 and 2 * sum(len(subjects[name].by) == most for name in names) <= len(names) + 1
            yield [_cause(name, subjects[name], lines, follows=clear and len(subjects[name].by) < most) for name in names[:_MOST_SUBJECTS]]
        elif len(names) <= _MOST_SUBJECTS:
            yield [_cause(name, group, lines) for name, group in subjects.items()]
        else:
            whole = _Group(told)
            for group in subjects.values():
                _join(whole, group)
            named = ", ".join(name for name in names[:_NAMED] if name)
            yield [_cause(f"{len(names)} of them ({named}{', ...' if len(names) > _NAMED else ''})", whole, lines)]


def _join(group: _Group, other: _Group) -> None:
    group.places += other.places
    group.count += other.count
    group.by |= other.by


def _folded(names: Iterable[str]) -> str:
    known = sorted(filter(None, names))
    return "; ".join(known) if len(known) < _MOST_SUBJECTS else f"{len(known)} ranks ({'; '.join(known[:_NAMED])}, ...)"


def _cause(subject: str, group: _Group, lines: Lines, *, follows: bool = False) -> Cause:
    told = group.told
    places = sorted(set(group.places))
    said = group.by - {subject}
    words = told.meaning
    if isinstance(told, Saying) and told.accuses is Accused.PEER and said:
        words += f" (so says {next(iter(said))})" if len(said) == 1 else f" (so say {len(said)} ranks)"
    elif isinstance(told, Meaning) and told.id in _BY_WORDS:
        words, subject = f"{words}: {subject}", _folded(group.by)
    return Cause(
        subject=clean(subject, 200), meaning=clean(words, 400), sure=told.sure, severity=told.severity, owner=told.owner,
        remedy=told.remedy, by=told.id if isinstance(told, Meaning) else f"joblog {told.id}",
        quotes=tuple(Quote(number, clean(text.strip(), LONGEST_QUOTE)) if text else lines.line(number)
                     for number, text in places[:MOST_QUOTES]), count=group.count,
        symptom=told.symptom or follows, job=told.job,
    )
