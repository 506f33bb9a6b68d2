"""Whether a sweep has proven that a fault which a kernel log reported has ended:
never by a log that merely no longer shows it."""

from __future__ import annotations

from dataclasses import dataclass

from healthcheck.kernellog.ending import EndKind, ending
from healthcheck.model.outcome import LogView

_MOST = 2 ** 63 - 1     # that SQLite holds


@dataclass(frozen=True)
class Reported:
    """An open problem that was read from a log: on what, how it ends,
    and the boot and the number of its newest report.

    The boot is empty where the node did not say, the number None where the log gave none.
    """

    subject: str
    ends: str
    boot: str = ""
    sequence: int | None = None


def number(sequence: int | None) -> int | None:
    """A record's number as the store can hold it; None for one that no kernel writes."""
    return sequence if sequence is not None and 0 <= sequence <= _MOST else None


def proven(reported: Reported, view: LogView) -> bool:
    """Whether a log that was judged, and in which it was not found, proves its end.

    It does in another boot; where the very record of its newest report was judged again, and its check took
    it for over; where a reset was seen since; and where for as many hours as it takes no record was lost. A
    boot that was not read is not another one. What ends by a repair ends by a person's word alone.
    """
    try:
        how = ending(reported.ends)
    except ValueError:      # of another version: a person looks at it
        return False
    if how.ends is EndKind.REPAIR:
        return False
    if reported.boot and view.boot and reported.boot != view.boot:
        return True
    if not view.whole:
        return False
    if reported.sequence is not None:
        if view.covers(reported.sequence):
            return True
        if (how.ends is EndKind.RESET
            and any(at > reported.sequence and (pci or "NVSwitch") in reported.subject
                    for pci, at in view.resets)):
            return True
    return how.over((view.now - view.since) / 3600)
