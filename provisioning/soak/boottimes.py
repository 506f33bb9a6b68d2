"""Which boots took longer than they should: against the machine's own others, and against machines of its
SKU; cold starts (which train memory) and warm ones apart. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from provisioning.soak.record import SoakRecord

LEAST_OWN, LEAST_OTHERS = 2, 3      # boots, machines: one alone is no median


def times(record: SoakRecord, kind: str) -> list[float]:
    """How long each of its boots of this kind took, where that was measured."""
    return [one.seconds for one in record.boots if one.kind == kind and one.seconds is not None]


def slow(
    record: SoakRecord, cohort: Sequence[SoakRecord], factor: float, least_s: float, hand: str,
) -> Iterator[Trouble]:
    """The boots that took `factor` times the median and `least_s` more, each named with its number."""
    for kind in dict.fromkeys(record.kinds):
        numbered = [(number, one) for number, one in enumerate(record.boots) if one.kind == kind]
        for number, one in numbered:
            rest = [each.seconds for at, each in numbered if at != number and each.seconds is not None]
            if one.seconds is not None and len(rest) >= LEAST_OWN and _slow(
                    one.seconds, median(rest), factor, least_s):
                yield Trouble(f"restart {number} ({kind}) took {one.seconds:.0f} s to answer, and its other "
                              f"{kind} ones {median(rest):.0f} s", Owner.VENDOR, hand, "node")
        own, theirs = times(record, kind), [median(found) for one in cohort if (found := times(one, kind))]
        if own and len(theirs) >= LEAST_OTHERS and _slow(median(own), median(theirs), factor, least_s):
            yield Trouble(f"{kind} restarts take {median(own):.0f} s until it answers, and "
                          f"{median(theirs):.0f} s on {len(theirs)} others of its SKU", Owner.VENDOR, hand,
                          "node")


def words(record: SoakRecord) -> str:
    """How long boots took, and of which that is not known."""
    parts = []
    for kind in dict.fromkeys(record.kinds):
        found = times(record, kind)
        missing = record.kinds.count(kind) - len(found)
        parts.append((f"{kind} {min(found):.0f} to {max(found):.0f} s" if found else f"{kind} not measured")
                     + (f" ({missing} not measured)" if found and missing else ""))
    return f"boots took {', '.join(parts)}"


def _slow(seconds: float, usual: float, factor: float, least_s: float) -> bool:
    return seconds > usual * factor and seconds > usual + least_s

