"""Explains a job's output: the charges of `healthcheck.joblog.charges` as causes with quotes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from healthcheck.explain.model import LONGEST_QUOTE, MOST_QUOTES, Cause, Quote
from healthcheck.explain.quoting import LineIndex
from healthcheck.joblog.charges import Charge, charges
from healthcheck.joblog.kinds import ABSENT
from healthcheck.joblog.meaning import Culprit
from healthcheck.joblog.model import JobEventKind, JobLog
from inventory.text import clean

LOOKED_FOR = (
    "NCCL's warnings (adapters, peers, versions, memory) and the network that it chose", "CUDA errors",
    "watchdog timeouts, and ranks that did not come", "torchrun's failures and exceptions of programs",
    "Slurm's words of nodes, memory, time and signals",
)
CANNOT_SHOW = (
    "what the nodes' kernels and drivers said at that time (give a dmesg)",
    "lines of ranks whose output is not in this file",
    "NCCL's reasons, where the job ran without NCCL_DEBUG=WARN or INFO",
)
FLIGHT_LOOKED_FOR = ("how far this rank had come in each process group", "collectives that it waited in")
FLIGHT_CANNOT_SHOW = ("the other ranks: give muster blame the dumps of all, and it names who is missing",)

_MOST_SUBJECTS = 4
_NAMED = 6              # of many subjects so many are named


def explain(log: JobLog, lines: LineIndex) -> list[Cause]:
    """The causes in a job's log, which `healthcheck.joblog.read` has read from the text of these lines."""
    return [_cause(charge, lines) for charge in _folded(charges(log))]


def _folded(found: Sequence[Charge]) -> Iterator[Charge | _Many]:
    """The charges, many of the same meaning as one."""
    groups: dict[tuple[str, bool, bool], list[Charge]] = {}
    for charge in found:
        worded = charge.kind in (JobEventKind.EXCEPTION, JobEventKind.TIMEOUT) and bool(charge.words)
        groups.setdefault((charge.meaning.id, charge.symptom, worded), []).append(charge)
    for (_, _, worded), of in groups.items():
        if of[0].meaning.accuses is Culprit.PEER or worded:
            yield from of[:_MOST_SUBJECTS]
        elif len(of) <= _MOST_SUBJECTS:
            yield from of
        else:
            yield _Many(of)


class _Many:
    """Several subjects of one meaning."""

    def __init__(self, of: Sequence[Charge]) -> None:
        events = sorted((event for charge in of for event in charge.events), key=lambda event: event.line)
        self.charge = replace(of[0], events=tuple(events), count=sum(charge.count for charge in of), words="")
        names = [charge.who.label for charge in of]
        more = ", ..." if len(names) > _NAMED else ""
        self.subject = f"{len(names)} of them ({', '.join(filter(None, names[:_NAMED]))}{more})"


def _cause(given: Charge | _Many, lines: LineIndex) -> Cause:
    charge = given.charge if isinstance(given, _Many) else given
    meaning = charge.meaning
    subject = given.subject if isinstance(given, _Many) else charge.who.label
    words = meaning.meaning
    if charge.why:
        words += f": {charge.why}"
    elif (charge.kind in (JobEventKind.EXCEPTION, JobEventKind.TIMEOUT) and charge.words
          and meaning is not ABSENT):
        words, subject = f"{words}: {charge.words}", _some(charge)
    elif charge.words:
        words += f" ({charge.words})"
    places = sorted({event.line: event for event in charge.events}.items())
    quotes = tuple(lines.line(number) if number else Quote(0, clean(event.text.strip(), LONGEST_QUOTE))
                   for number, event in places[:MOST_QUOTES])
    return Cause(subject=clean(subject, 200), meaning=clean(words, 400), sure=charge.sure,
                 severity=charge.severity, owner=meaning.owner, remedy=meaning.remedy, by=meaning.by,
                 quotes=quotes, count=charge.count, symptom=charge.symptom, job=charge.job)


def _some(charge: Charge) -> str:
    known = sorted(who.label for who in charge.by)
    return ("; ".join(known) if len(known) < _MOST_SUBJECTS
            else f"{len(known)} ranks ({'; '.join(known[:_NAMED])}, ...)")
