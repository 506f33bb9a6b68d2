"""What the logs of a job say, put together: who is accused of what, by whom, and what only follows from
something else. `muster blame` and `muster explain` both go by this.

Each line is identified by a known message (rules/joblog), else by the event that the parsers make of it. Who
says that a peer is gone is no culprit: its peer is accused, and of several the one whom most nodes name; but
where one node says so of several peers, and no other node says anything, it is that node. A program's own
exception is a cause only where no error of NCCL or CUDA came before it. Of processes that ended the first is
a lead, where nothing else says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from healthcheck.joblog.absent import AbsentRank, absent
from healthcheck.joblog.kinds import ABSENT, meaning
from healthcheck.joblog.meaning import Culprit, FaultDomain, Meaning, Sure
from healthcheck.joblog.model import JobEvent, JobEventKind, JobLog
from healthcheck.joblog.names import JobParty, NodeNames
from healthcheck.model.outcome import Owner, Severity

_MOST_EVENTS = 1000     # of one charge that are kept; all are counted
_MOST_ABSENT = 4
_TERMINATED = -15
# seconds by which an error comes at most before the exception that it causes: the longest usual watchdog
_NEAR = 35 * 60.0
_OWN = (JobEventKind.GPU, JobEventKind.GPU_MEMORY, JobEventKind.CUDA, JobEventKind.EXCEPTION)
_ENDS_ALL = (JobEventKind.TIME_LIMIT, JobEventKind.CANCELLED, JobEventKind.PREEMPTED, JobEventKind.REQUEUED,
             JobEventKind.NODE_FAIL, JobEventKind.OOM)
_WORST = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
_SURE = tuple(Sure)


@dataclass(frozen=True)
class Charge:
    """One thing that the logs say: of whom, what it means, and in which lines. `sure`, `severity`, `symptom`
    and `job` are those of the meaning, as the rest of the logs leaves it; `words` adds to it; `why` is what
    an absent rank did. `events` are at most 1000, the first one first, of `count`; `by` are those who say
    so."""

    meaning: Meaning
    who: JobParty
    events: tuple[JobEvent, ...]
    count: int
    sure: Sure
    severity: Severity
    symptom: bool
    job: bool
    by: tuple[JobParty, ...] = ()
    words: str = ""
    why: str = ""
    kind: JobEventKind = JobEventKind.SAID
    time: float | None = None

    @property
    def wrong(self) -> bool:
        """Whether something went wrong by it."""
        return self.severity is not Severity.INFO or self.job

    @property
    def cause(self) -> bool:
        """Whether it may be why the job ended."""
        return self.wrong and not self.symptom and self.meaning.fault is not FaultDomain.SPEED

    @property
    def line(self) -> int:
        """The first such line."""
        return self.events[0].line if self.events else 0


@dataclass
class _Group:
    meaning: Meaning
    who: JobParty
    words: str = ""
    events: list[JobEvent] = field(default_factory=list)
    count: int = 0
    by: dict[JobParty, None] = field(default_factory=dict)

    def add(self, event: JobEvent, reporter: JobParty) -> None:
        self.count += 1
        if len(self.events) < _MOST_EVENTS:
            self.events.append(event)
        if reporter.label:
            self.by[reporter] = None

    def join(self, other: _Group) -> None:
        self.events += other.events
        self.count += other.count
        self.by |= other.by

    @property
    def nodes(self) -> set[str]:
        """The nodes that say so; of one whose node is not known, the rank."""
        return {who.node or who.label for who in self.by}


def charges(
    log: JobLog, nodes: Collection[str] = (), addresses: Mapping[str, str] = {}, *, ordered: bool = False,
) -> list[Charge]:
    """All that the logs say, the likeliest cause first, what follows from others last. `nodes` are the job's,
    `addresses` the nodes of names and addresses (an inventory's). `ordered`: the scheduler says that it ended
    the job itself."""
    names = NodeNames(log, nodes, addresses)
    groups: dict[tuple[str, object], _Group] = {}
    for event in log.events:
        meant = meaning(event)
        if (meant is None or event.kind is JobEventKind.EXIT
            or (event.kind is JobEventKind.NCCL and event.message is None and "HINT" in event.text)):
            continue
        reporter = names.of(event)
        words = _words(event) if event.message is None else ""
        who = JobParty() if words else _accused(event, meant, reporter, names)
        # A node that several addresses lead to is one.
        key = words or (who.node, who.rank, who.part, "" if who.node else who.address)
        groups.setdefault((meant.id, key), _Group(meant, who, words)).add(event, reporter)
    made = [charge for group in _by_meaning(groups) for charge in _of_meaning(group, names)]
    made = _caused(made, log)
    exits = list(_exits(log, names, ordered=ordered))
    late = [_late(one, names, log) for one in absent(log, nodes)[:_MOST_ABSENT]]
    return _ranked(_mark_symptoms([*made, *late], exits),
                   several=len({event.file for event in log.events}) > 1)


def _words(event: JobEvent) -> str:
    """The key that merges events of all ranks: the exception, or the operation waited in."""
    if event.kind is JobEventKind.EXCEPTION:
        return event.text[:120]
    return f"{event.op} {event.work}" if event.kind is JobEventKind.TIMEOUT and event.work is not None else ""


def _accused(event: JobEvent, meant: Meaning, reporter: JobParty, names: NodeNames) -> JobParty:
    if meant.accuses is Culprit.PEER and event.peer:
        return JobParty(names.peer(event.peer), None, "", event.peer)
    if meant.accuses is Culprit.PEER and not meant.symptom:
        return JobParty()        # some peer, and not who says so
    if meant.accuses is Culprit.ADAPTER and event.part:
        return JobParty(reporter.node, None, event.part)
    # An exception is of the rank that raised it, whatever it is about.
    if meant.accuses is Culprit.NONE and event.kind is not JobEventKind.EXCEPTION:
        return JobParty()
    return reporter


def _by_meaning(groups: Mapping[tuple[str, object], _Group]) -> Iterator[list[_Group]]:
    same: dict[str, list[_Group]] = defaultdict(list)
    for (name, _), group in groups.items():
        same[name].append(group)
    for found in same.values():
        unnamed = [group for group in found if not group.who.label and not group.words]
        named = [group for group in found if group not in unnamed]
        # A line that names no one is about the party that another line names.
        if unnamed and named and not named[0].words:
            for group in unnamed:
                named[0].join(group)
            unnamed = []
        yield [*named, *unnamed]


def _of_meaning(groups: list[_Group], names: NodeNames) -> Iterator[Charge]:
    meant = groups[0].meaning
    if meant.accuses is not Culprit.PEER:
        yield from (_charge(group) for group in groups)
        return
    groups.sort(key=lambda group: (-len(group.nodes), group.events[0].line))
    reporters = set[str]().union(*(group.nodes for group in groups))
    if len(reporters) == 1 and len(groups) > 1 and not meant.symptom:
        whole = _Group(meant, next(iter(groups[0].by)))
        for group in groups:
            whole.join(group)
        whole.who = JobParty(whole.who.node,
                             None if len({who.rank for who in whole.by}) > 1 else whole.who.rank)
        words = (f"it says so of {len(groups)} peers, and no other node says anything: its own port is as "
                 "likely")
        yield replace(_charge(whole), words=words)
        return
    most = len(groups[0].nodes)
    clear = most > 1 and 2 * sum(len(group.nodes) == most for group in groups) <= len(groups) + 1
    for group in groups:
        said = [who for who in group.by if who.label != group.who.label]
        words = ("" if not said else f"so says {said[0].label}" if len(said) == 1
                 else f"so say {len(said)} ranks")
        if not group.who.node and most > 1 and group is groups[0]:
            left = names.left(group.nodes)
            if len(left) == 1:
                group.who = replace(group.who, node=left[0])
                words += "; the only node of the job that does not say so"
        charge = replace(_charge(group), words=words)
        alone = not meant.symptom and len(group.nodes) < 2 and meant.sure is Sure.LIKELY
        yield replace(charge, symptom=charge.symptom or (clear and len(group.nodes) < most),
                      sure=Sure.GUESS if alone else charge.sure)


def _charge(group: _Group) -> Charge:
    meant = group.meaning
    few = group.count < meant.least
    time = min((event.time for event in group.events if event.time is not None), default=None)
    who = group.who
    if group.words and group.events:        # said by many: the first of them stands for it
        who = next(iter(group.by), JobParty())
    return Charge(meant, who, tuple(group.events), group.count, meant.sure,
                  Severity.INFO if few else meant.severity, meant.symptom, meant.job and not few,
                  tuple(group.by), group.words, kind=group.events[0].kind, time=time)


def _caused(made: list[Charge], log: JobLog) -> list[Charge]:
    """The charges, exceptions that came after an error of NCCL or CUDA as what follows from it."""
    ended: dict[int | None, float | None] = {event.rank: event.time for event in log.events
                                             if event.kind is JobEventKind.EXIT and event.rank is not None}
    errors = [event for charge in made if charge.kind is not JobEventKind.EXCEPTION and _of_machine(charge)
              for event in charge.events[:1]]

    def time(event: JobEvent) -> float | None:
        return event.time if event.time is not None else ended.get(event.rank)

    def before(error: JobEvent, event: JobEvent) -> bool:
        early, late = time(error), time(event)
        if early is not None and late is not None and early != late:
            return late - _NEAR <= early < late
        return error.file == event.file and 0 < error.line < event.line

    def follows(charge: Charge) -> bool:
        own = charge.kind is JobEventKind.EXCEPTION and charge.meaning.fault is FaultDomain.PROGRAM
        return own and any(before(error, charge.events[0]) for error in errors)

    return [replace(charge, symptom=True) if follows(charge) else charge for charge in made]


def _of_machine(charge: Charge) -> bool:
    """Whether it is an error of NCCL or CUDA: of the network, a GPU, or a collective that did not end."""
    known = (charge.meaning.fault in (FaultDomain.GPU, FaultDomain.NETWORK)
             or charge.kind in (JobEventKind.TIMEOUT, JobEventKind.CUDA))
    return charge.severity is not Severity.INFO and (known or charge.meaning.id.startswith("nccl-error"))


def _late(one: AbsentRank, names: NodeNames, log: JobLog) -> Charge:
    timeouts = (event for event in log.events if event.kind is JobEventKind.TIMEOUT
                and (one.work is None or event.work == one.work))
    waits = tuple(islice(timeouts, _MOST_EVENTS))
    node = names.named(one.node) if one.node else names.rank(one.rank)
    words = f"did not come to a collective that {one.waited} ranks waited in" if one.work is not None else \
        f"did not come: {one.waited} waited for it"
    sure = ABSENT.sure if one.sure else Sure.GUESS
    return Charge(ABSENT, JobParty(node, one.rank), waits, 1, sure, ABSENT.severity, False, False, (), words,
                  one.why, JobEventKind.TIMEOUT, one.time)


def _exits(log: JobLog, names: NodeNames, *, ordered: bool) -> Iterator[Charge]:
    """The processes that ended, the one that leads to the cause first; what came after, by a launcher's or
    Slurm's hand, is a symptom, as is the end of a rank that waited for others, or lost one."""
    exits = [event for event in log.events if event.kind is JobEventKind.EXIT and event.code not in (0, None)]
    ordered = ordered or any(event.kind in _ENDS_ALL for event in log.events)
    # What the scheduler ended, it ends by SIGTERM and SIGKILL.
    free = [event for event in exits if event.code != _TERMINATED and not (ordered and event.code == -9)]
    waited = {event.rank for event in log.events if event.kind in (JobEventKind.TIMEOUT, JobEventKind.PEER)
              and event.rank is not None}
    own = [event for event in free if event.rank is None or event.rank not in waited]
    signalled = [event for event in own if event.code is not None and event.code < 0]
    lead = min(signalled or own, key=_order, default=None)
    said = {event.rank for event in log.events if event.kind in _OWN}
    if lead is not None and lead.rank is not None and lead.rank in said:
        lead = None         # its own error says more
    groups: dict[tuple[str, JobParty], _Group] = {}
    for event in exits:
        meant = meaning(event)
        if meant is not None and event is not lead:
            groups.setdefault((meant.id, names.of(event)), _Group(meant, names.of(event))).add(
                event, names.of(event))
    if lead is not None and (meant := meaning(lead)) is not None:
        first = _Group(meant, names.of(lead))
        first.add(lead, names.of(lead))
        nodes = {names.of(event).node for event in (signalled or own)}
        at_once = sum(event.time is not None and event.time == lead.time for event in (signalled or own))
        alone = (len(nodes) == 1 or lead.time is not None) and at_once <= 1
        how = (f"was ended by signal {-lead.code}" if lead.code is not None and lead.code < 0
               else f"ended with exit code {lead.code}")
        more = f", the first of {len(free)}" if len(free) > 1 else ""
        yield replace(_charge(first), symptom=False, words=f"{how}{more}",
                      sure=Sure.LIKELY if alone else Sure.GUESS, kind=JobEventKind.EXIT)
    yield from (replace(_charge(group), symptom=True, kind=JobEventKind.EXIT) for group in groups.values())


def _order(event: JobEvent) -> tuple[bool, float, bool, int]:
    return event.time is None, event.time or 0.0, not event.first, event.line


def _mark_symptoms(made: list[Charge], exits: list[Charge]) -> list[Charge]:
    """The charges, those marked as symptoms that another one explains: a peer stops answering when its
    process ends for whatever reason, and a process that was killed was mostly killed for one."""
    known = {event.rank for charge in made if charge.cause and charge.meaning is not ABSENT
             for event in charge.events}
    lead = next((charge for charge in exits if not charge.symptom), None)

    def explained(charge: Charge) -> bool:
        """Whether it is known why a rank did not come: its own error, or its end before others gave up."""
        ended = (lead is not None and lead.who.rank == charge.who.rank
                 and None not in (lead.time, charge.time) and (lead.time or 0.0) < (charge.time or 0.0))
        return charge.who.rank is not None and (charge.who.rank in known or ended)

    made = [replace(charge, symptom=True) if charge.meaning is ABSENT and explained(charge) else charge
            for charge in made]
    certain = any(charge.cause and charge.sure is Sure.CERTAIN
                  and charge.meaning.fault is not FaultDomain.STOP for charge in made)
    own: dict[str, int] = {}
    for charge in made:
        if (charge.cause and charge.meaning.accuses is not Culprit.PEER and charge.meaning is not ABSENT
            and charge.line):
            file = charge.events[0].file
            own[file] = min(own.get(file, charge.line), charge.line)

    def follows(charge: Charge) -> bool:
        if charge.meaning.accuses is Culprit.PEER:
            return (certain
                    or (bool(charge.events) and own.get(charge.events[0].file, charge.line) < charge.line))
        return (charge.kind is JobEventKind.ABORT
                and any(other.cause and other.kind is not JobEventKind.ABORT for other in made))

    made = [replace(charge, symptom=True) if follows(charge) else charge for charge in made]
    if any(charge.cause for charge in made):
        exits = [replace(charge, symptom=True) for charge in exits]
    whole = [*made, *exits]
    if not any(charge.cause for charge in whole):
        whole = _first_lost(whole)
    if any(charge.cause for charge in whole):
        whole = [replace(charge, severity=Severity.INFO) if charge.meaning.fault is FaultDomain.SPEED
                 else charge for charge in whole]
    return whole


def _first_lost(made: list[Charge]) -> list[Charge]:
    """Where nothing else is known: the first lost peer is a lead, as it went before those who say so."""
    lost = [charge for charge in made if charge.kind is JobEventKind.PEER
            and (charge.who.node or charge.who.address) and charge.events
            and (charge.who.node or charge.who.address) not in {who.node for who in charge.by}]
    first = min(lost, key=lambda charge: (charge.time is None, charge.time or 0.0, charge.line), default=None)
    return [replace(charge, symptom=False, sure=Sure.GUESS) if charge is first else charge for charge in made]


def _ranked(made: Iterable[Charge], *, several: bool) -> list[Charge]:
    """Causes before symptoms, wrong before informative, then the worst, the surest, and the first."""
    return sorted(made, key=lambda charge: (not charge.wrong, charge.symptom, _WORST.index(charge.severity),
                                            _SURE.index(charge.sure),
                                            charge.meaning.owner is not Owner.VENDOR, not charge.who.label,
                                            (charge.time is None, charge.time or 0.0)
                                            if several else (False, 0.0), charge.line))
