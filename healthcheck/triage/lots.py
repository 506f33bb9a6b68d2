"""Finds the delivery lot that faulty cables, optics, adapters or switches share; pure.

A lot is what a maker made together: maker, part number and date code (SFF-8636, bytes 212 to 219, and CMIS,
bytes 182 to 189: year, month, day and the maker's lot code). A lot is named where it has at least `at_least`
faulty parts, where its rate of faults is at least `TIMES` that of all other lots together, and where chance
puts so many into one lot less than once in `likelihood` times: Fisher's exact test, one-sided
(`healthcheck.triage.likelihood.hypergeometric`), corrected for the lots and symptoms that were tried
(Bonferroni). A lot explains and isolates no node: its owner is the vendor.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from healthcheck.model.outcome import Owner
from healthcheck.model.problem import Problem
from healthcheck.triage.likelihood import hypergeometric, odds
from inventory.nodeset import natural

# Many parts make a small difference certain; one that is worth a vendor's attention is larger.
TIMES = 3.0
CABLE, ADAPTER = "cable", "adapter"
_WORD = re.compile(r"[\w.:-]+")


@dataclass(frozen=True, order=True)
class PartLot:
    """Maker, part number and date code; "" for what is not known. A lot without a date code is the part."""

    vendor: str
    part: str
    date: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.vendor, self.part, f"of {self.date}" if self.date else "")))


@dataclass(frozen=True)
class FleetPart:
    """A part in a node whose lot is known: its `kind` (CABLE, ADAPTER), and the adapter by display name and
    PCI address ("" where it is not known). `key` is the same for both ends of one cable."""

    kind: str
    device: str
    pci: str
    key: str
    lot: PartLot

    def is_of(self, problem: Problem) -> bool:
        """Whether a problem's subject names its adapter."""
        return any(word in (self.device, self.pci) for word in map(str.lower, _WORD.findall(problem.subject)))


@dataclass(frozen=True)
class LotIncident:
    """Faulty parts of one lot: `subjects` of `inside` that there are of it, of `had` faulty ones and `known`
    parts in all whose lot is known; `likelihood`: chance does this once in so many. `unknown` faulty parts
    state no lot, and speak neither way."""

    lot: PartLot
    subjects: tuple[str, ...]
    inside: int
    had: int
    known: int
    likelihood: float
    unknown: int = 0
    owner: Owner = Owner.VENDOR


def faulty_lots(
    lots: Mapping[str, PartLot], faulty: Collection[str], at_least: int = 3, likelihood: float = 1000.0,
    symptoms: int = 1,
) -> tuple[LotIncident, ...]:
    """The lots that chance does not explain, the least likely first; each explains parts that none before
    it does.

    `lots` has the lot of each part whose lot is known, by its subject (a port, a serial number); `faulty` are
    the subjects with one symptom, of so many `symptoms` that are looked at. Both a lot and its part number
    alone are tried.
    """
    bad = {subject for subject in faulty if subject in lots}
    unknown = len(set(faulty)) - len(bad)
    members: dict[PartLot, set[str]] = defaultdict(set)
    for subject, lot in lots.items():
        members[lot].add(subject)
        members[PartLot(lot.vendor, lot.part)].add(subject)
    left, pool, found = set(bad), set(lots), []
    tried = len(members) * symptoms
    while len(left) >= at_least:
        best: tuple[float, int, PartLot] | None = None
        for lot, every in members.items():
            parts = every & pool
            hits = len(parts & left)
            # A part that all of them are explains nothing.
            if hits < at_least or len(parts) == len(pool):
                continue
            others = (len(left) - hits) / (len(pool) - len(parts))
            if hits / len(parts) < TIMES * others:
                continue
            once_in = odds(hypergeometric(len(pool), len(left), len(parts), hits), tried)
            # Of two that are as unlikely the narrower is named.
            if once_in >= likelihood and (best is None or (once_in, -len(parts)) > (best[0], best[1])):
                best = (once_in, -len(parts), lot)
        if best is None:
            break
        inside = members[best[2]] & pool
        found.append(LotIncident(best[2], tuple(sorted(inside & left, key=natural)), len(inside), len(bad),
                                 len(lots), best[0], unknown))
        # The next is held against the rest: in this one, so many faults are explained now.
        left -= inside
        pool -= inside
    return tuple(found)
