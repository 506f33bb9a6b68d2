"""Words and evidence of a finding about Xids or SXids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from healthcheck.checks.base import LONGEST_QUOTE
from healthcheck.facts.kernel import as_dmesg, moment
from healthcheck.facts.xid import SXid, Xid
from healthcheck.kernellog.carried import representative
from healthcheck.kernellog.ending import Ending
from healthcheck.kernellog.model import MOST_DISTINCT
from healthcheck.model.outcome import Finding, LogEvidence, Owner
from healthcheck.xid.xidtable import REPAIRS, Action


@dataclass(frozen=True)
class EventContext:
    """The context of a finding: the emitter of its messages, how they end, the uptime of the snapshot, and
    the numbers of records without which it would mean something else."""

    emitter: str
    ends: Ending
    now: float
    beside: tuple[int, ...] = ()

    def evidence(self, group: Sequence[Xid] | Sequence[SXid]) -> LogEvidence:
        """What the finding about these events rests on."""
        times = [event.seconds for event in group]
        records = representative([number for event in group for number in event.records])
        return LogEvidence(self.emitter, str(self.ends), len(times), min(times), max(times),
                           (*records, *self.beside))


def finding(
    about: str, group: Sequence[Xid], meaning: str, remedy: str, owner: Owner | None, action: Action,
    context: EventContext,
) -> Finding:
    """A finding about these events."""
    return Finding(observation(group, context.now), "no such Xid", about, sentences(meaning, remedy), owner,
                   REPAIRS.get(action), lines(group), context.evidence(group))


def observation(group: Sequence[Xid] | Sequence[SXid], now: float, *, count: bool = True) -> str:
    """The first line, which is nearest to the cause, and how many there are; `now` is the uptime, 0 where it
    is not known."""
    first = group[0]
    more = f"{len(group)} lines, the first " if count and len(group) > 1 else "" if count else "the first "
    return f"{more}{moment(first.seconds, now)}: {first.text[:LONGEST_QUOTE]}"


def lines(group: Sequence[Xid] | Sequence[SXid]) -> tuple[str, ...]:
    """The reports themselves, the first that differ."""
    return tuple(dict.fromkeys(as_dmesg(event.seconds, event.text) for event in group))[:MOST_DISTINCT]


def sentences(*parts: str) -> str:
    """The parts, each a sentence."""
    return " ".join(f"{part[0].upper()}{part[1:].rstrip('.')}." for part in parts if part)


def subject_of(event: Xid) -> str:
    """What an event is about."""
    return f"GPU at PCI {event.pci}, Xid {event.number}"


def named(event: Xid | SXid) -> str:
    """An event in a list."""
    return f"{'SXid' if isinstance(event, SXid) else 'Xid'} {event.number} at PCI {event.pci}"
