"""What a job's own logs say, as evidence of nodes: the charges of `healthcheck.joblog.charges`, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from healthcheck.blame.evidence import Evidence, JobWindow, Weight
from healthcheck.blame.rank import worth
from healthcheck.joblog.charges import Charge, charges
from healthcheck.joblog.kinds import ABSENT, of_kind
from healthcheck.joblog.meaning import Culprit, FaultDomain, Sure
from healthcheck.joblog.model import JobEvent, JobEventKind, JobLog
from healthcheck.joblog.names import JobParty, NodeNames
from healthcheck.model.outcome import Owner

_WEIGHTS = {FaultDomain.GPU: Weight.DEVICE, FaultDomain.NETWORK: Weight.NETWORK,
            FaultDomain.HOST: Weight.HOST, FaultDomain.NODE: Weight.LOST,
            FaultDomain.PROGRAM: Weight.USER, FaultDomain.ORDER: Weight.ORDERED,
            FaultDomain.STOP: Weight.STOPPED, FaultDomain.END: Weight.LEAD,
            FaultDomain.SPEED: Weight.ODD}
_MOST = 400         # pieces of evidence that one log gives
_OF_JOB = (JobEventKind.TIME_LIMIT, JobEventKind.CANCELLED, JobEventKind.PREEMPTED, JobEventKind.REQUEUED,
           JobEventKind.STEP_CANCELLED)
_OWN = (JobEventKind.GPU, JobEventKind.GPU_MEMORY, JobEventKind.CUDA, JobEventKind.EXCEPTION)
_BY_MESSAGE = (JobEventKind.NETWORK, JobEventKind.NCCL, JobEventKind.PEER, JobEventKind.SETUP,
              JobEventKind.EXCEPTION, JobEventKind.CUDA)
_GROUPS = {JobEventKind.NODE_FAIL: "lost", JobEventKind.OOM: "oom"}
_OFF = 3600.0       # seconds by which times of a log may lie outside the job's and still be of it


def fitting(log: JobLog, window: JobWindow) -> JobLog:
    """The log, without times where none is of the job's time: of another zone, or another job's log."""
    times = [event.time for event in log.events if event.time is not None]
    if (not window.known or not times
        or any(window.start - _OFF <= time <= window.end + _OFF for time in times)):
        return log
    name = next(event.file for event in log.events if event.time is not None)
    return replace(log, events=tuple(replace(event, time=None) for event in log.events),
                   caveats=(*log.caveats, f"{name}: when it happened: none of its times is of the job's "
                                          "time; another zone, another job?"))


def evidence(
    log: JobLog, window: JobWindow, addresses: Mapping[str, str] = {}, *, ordered: bool = False,
) -> Iterator[Evidence]:
    """What the logs accuse. `addresses` are further names and addresses of nodes; `ordered`: the scheduler's
    record says that it ended the job itself."""
    nodes = window.nodes if window.whole else ()
    names = NodeNames(log, nodes, addresses)
    ended = {event.rank: event.time for event in log.events if event.kind is JobEventKind.EXIT
             and event.rank is not None}
    made = 0
    least = (float("inf"), Weight.ORDERED, True)
    for place, charge in enumerate(charges(log, nodes, addresses, ordered=ordered), 1):
        found = list(_symptoms(charge, names) if charge.symptom or not charge.wrong
                     else (_evidence(charge, ended),))
        for one in found:
            if one.weight is not Weight.SYMPTOM:
                # What logs say of one cause weighs no more than what they say of a likelier one.
                if worth(one) > least[0]:
                    one = replace(one, weight=least[1], sure=least[2])
                least = (worth(one), one.weight, one.sure)
            made += 1
            if made <= _MOST:
                yield replace(one, place=place)


def failed(log: JobLog) -> float | None:
    """The first moment at which a rank ended or an error was said, None where no line of one has a time."""
    wrong = [charge for charge in charges(log)
             if charge.wrong and charge.meaning.fault is not FaultDomain.SPEED]
    return min((charge.time for charge in wrong if charge.time is not None), default=None)


def _evidence(charge: Charge, ended: Mapping[int, float | None]) -> Evidence:
    event = charge.events[0] if charge.events else JobEvent(charge.kind, charge.why)
    meaning = charge.meaning
    node = "" if charge.kind in _OF_JOB else charge.who.node
    sure = charge.sure is not Sure.GUESS
    # An error without a time was said before its rank ended.
    time = (charge.time if charge.time is not None or charge.kind not in _OWN or event.rank is None
            else ended.get(event.rank))
    weight = _WEIGHTS[meaning.fault]
    group = _GROUPS.get(charge.kind, meaning.id)
    if meaning is ABSENT:
        return _absent(charge, node)
    if charge.kind is JobEventKind.EXIT:
        who = f"rank {charge.who.rank}" if charge.who.rank is not None else "a task"
        return Evidence(node, weight, f"{who} {charge.words}", _at(event), time, time, event.text,
                        meaning.owner,
                        f"Look at what it said last, and at the node: muster check {node or 'NODE'}.", sure,
                        "first", charge.who.rank)
    if (meaning.accuses is Culprit.PEER and charge.kind is not JobEventKind.PEER
        and (charge.who.address or not charge.who.label)):
        # The other end, or anything between, is as likely as this one;
        # an address that leads to no node says less.
        weight, sure, node = Weight.LEAD, sure and bool(node), node or charge.who.address
    if charge.kind is JobEventKind.PEER and not charge.symptom:
        by = charge.by[0].node if charge.by else ""
        node = node or charge.who.address
        return Evidence(node, Weight.LEAD, f"its peer{f' on {by}' if by else ''} lost the connection to it "
                                           "first", _at(event), time, time, event.text, Owner.OPERATOR,
                                           f"Look at the node: muster check {node}.", False, "peer")
    return Evidence(node, weight, _what(charge), _at(event), time, time, event.text, meaning.owner,
                    meaning.remedy.replace("NODE", node or "NODE"), sure, group, charge.who.rank)


def _absent(charge: Charge, node: str) -> Evidence:
    rank = charge.who.rank
    who = f"rank {rank} " if rank is not None else ""
    advice = "Which node it ran on, NCCL_DEBUG=INFO tells."
    if node:
        advice = f"Look at the node: muster check {node}"
        advice += (f"; if it is well, look at what rank {rank} did: py-spy dump, its own log."
                   if rank is not None else ".")
    return Evidence(node, Weight.LEAD, f"{who}{charge.words}", "logs", charge.time, charge.time, charge.why,
                    ABSENT.owner if node else Owner.USER, advice, charge.sure is not Sure.GUESS,
                    "absent", rank)


def _what(charge: Charge) -> str:
    """The text after a node's name."""
    meaning = charge.meaning
    named = meaning.accuses is not Culprit.PEER or bool(charge.who.label)
    usual = of_kind(charge.kind)
    # Where a known message says more than the kind of event, its own words.
    usually = "" if usual is None or charge.kind in _BY_MESSAGE else usual.brief
    brief = (meaning.brief if named else "") or usually
    rank = f"rank {charge.who.rank}: " if charge.who.rank is not None else ""
    where = charge.who.part
    words = f" ({charge.words})" if charge.words and charge.kind is not JobEventKind.EXCEPTION else ""
    return f"{rank}{f'{where}: ' if where else ''}{brief or meaning.meaning.partition(';')[0]}{words}"


def _symptoms(charge: Charge, names: NodeNames) -> Iterator[Evidence]:
    """For effects and information, only the first line of each node and rank."""
    if charge.kind is JobEventKind.EXIT or not charge.wrong:
        return
    seen: set[tuple[str, int | None]] = set()
    for event in charge.events:
        who = names.of(event) if event.kind not in _OF_JOB else JobParty()
        if (who.node, who.rank) not in seen:
            seen.add((who.node, who.rank))
            usual = of_kind(charge.kind)
            brief = (charge.meaning.brief or (usual.brief if usual is not None else "")
                     or charge.meaning.meaning.partition(";")[0])
            rank = f"rank {who.rank}: " if who.rank is not None else ""
            yield Evidence(who.node, Weight.SYMPTOM, f"{rank}{brief}", _at(event), event.time, event.time,
                           event.text, charge.meaning.owner, charge.meaning.remedy,
                           charge.sure is not Sure.GUESS, charge.kind.value, who.rank)


def _at(event: JobEvent) -> str:
    return f"{event.file}, line {event.line}" if event.line else event.file
