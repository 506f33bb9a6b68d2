"""The rates that pairs of a link burn reached: reads them from a table, and judges them against the plan.

The table has a heading with at least round, a, b and gigabits; seconds is how long the pair sent. Gigabits
are those of each way, the lower one where they differ. Rows of one round ran at the same time.
"""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from healthcheck.subnet.burnplan import BurnPair
from healthcheck.subnet.burnplanes import BurnPlane
from healthcheck.subnet.burnverdict import BurnTest, BurnVerdict, LinkSuspects, carried
from healthcheck.subnet.burnways import BurnPort
from healthcheck.subnet.model import FabricEnd, FabricLink, PortCounters
from inventory.errors import UsageError
from inventory.text import clean

_NEEDED = ("round", "a", "b", "gigabits")
_MOST_ROWS = 1_000_000
# Of what a link is to have sent, what its counter may lack: headers and samples' times do not agree exactly.
_COUNTED = 0.95
# Octets are counted in units of four (InfiniBand Architecture Specification, volume 1, PortXmitData).
_BITS = 32
_DATA = "PortXmitData"
_ODD = 1e-6


@dataclass(frozen=True)
class MeasuredPair:
    """A row: `line` is its number in the file; `seconds` is None where the table does not say. `test` is what
    the pair is called in a verdict, "" for its round."""

    line: int
    round: int
    a: str
    b: str
    gbps: float
    seconds: float | None
    test: str = ""


@dataclass(frozen=True)
class BurnResult:
    """What the rates of one subnet's pairs say. `unmeasured` are planned pairs without a row, `unjudged`
    slow ones of a round that asked a link for more than it carries; `unproven` are links of which nothing
    proves that they carried the share, and why; `confirm` are pairs that would tell suspects apart."""

    plane: BurnPlane
    verdict: BurnVerdict
    unmeasured: tuple[str, ...]
    unjudged: tuple[str, ...]
    unproven: tuple[tuple[FabricLink, str], ...]
    confirm: tuple[BurnPair, ...]

    @property
    def code(self) -> int:
        """1 where a link is named as slow, 3 where anything is not known, else 0."""
        if self.verdict.named:
            return 1
        return 3 if (self.verdict.unclear or self.verdict.hidden or self.unmeasured or self.unjudged
                     or self.unproven) else 0


def read(text: str, source: str) -> tuple[MeasuredPair, ...]:
    """The rows of a table. Raises UsageError with file, line and column for what is none."""
    reader = csv.reader(io.StringIO(text.lstrip("\ufeff")))
    found: list[MeasuredPair] = []
    try:
        heading = [cell.strip() for cell in next(reader, [])]
        missing = [name for name in _NEEDED if heading.count(name) != 1]
        if missing:
            raise UsageError(f"{source}:1: expected one column {', '.join(missing)} in the heading")
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(found) >= _MOST_ROWS:
                raise UsageError(f"{source}: more than {_MOST_ROWS} rows")
            found.append(_row(dict(zip(heading, row, strict=False)), source, reader.line_num))
    except csv.Error as error:
        raise UsageError(f"{source}:{reader.line_num}: {error}") from None
    return tuple(found)


def _row(cells: Mapping[str, str], source: str, line: int) -> MeasuredPair:
    number = cells.get("round", "").strip()
    if not (number.isascii() and number.isdigit() and len(number) < 7 and int(number)):
        raise UsageError(f"{source}:{line}: round: {clean(number, 40)!r}, expected a number from 1")
    rate = _number(cells.get("gigabits", ""), "gigabits", source, line)
    if rate is None:
        raise UsageError(f"{source}:{line}: gigabits: empty; leave the row out where nothing was measured")
    return MeasuredPair(line, int(number), cells.get("a", "").strip(), cells.get("b", "").strip(), rate,
                        _number(cells.get("seconds", ""), "seconds", source, line))


def _number(text: str, column: str, source: str, line: int) -> float | None:
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f"{source}:{line}: {column}: {clean(text, 40)!r}, expected a number from 0")
    return value


def judge(planes: Sequence[BurnPlane], rows: Sequence[MeasuredPair], source: str,
          after: Mapping[str, PortCounters | None] | None = None,
          hint: str = ": give --since") -> tuple[BurnResult, ...]:
    """What the rates say of each subnet. `after` are its counters after the burn, where those that the plan's
    outputs hold are from before; `hint` says how they would come. UsageError, with the line, for a pair that
    cannot be one."""
    ports = {name.text: (plane, port) for plane in planes for port, name in plane.names.items()}
    rated: dict[int, list[tuple[MeasuredPair, BurnPort, BurnPort]]] = defaultdict(list)
    seen: set[tuple[int, str]] = set()
    for row in rows:
        for name in (row.a, row.b):
            if name not in ports:
                raise UsageError(f"{source}:{row.line}: {clean(name, 60)!r} is no port that takes part")
            if (row.round, name) in seen:
                raise UsageError(f"{source}:{row.line}: {clean(name, 60)} is in two pairs of round "
                                 f"{row.round}")
            seen.add((row.round, name))
        (plane, a), (other, b) = ports[row.a], ports[row.b]
        if plane is not other or not plane.ways.possible(a, b):
            raise UsageError(f"{source}:{row.line}: no way leads from {clean(row.a)} to {clean(row.b)} and "
                             "back")
        rated[planes.index(plane)].append((row, a, b))
    last = max((row.round for row in rows), default=0)
    return tuple(_judged(plane, rated[at], last, None if after is None else after.get(plane.subnet.name),
                         after is not None, hint) for at, plane in enumerate(planes))


def _judged(plane: BurnPlane, rows: Sequence[tuple[MeasuredPair, BurnPort, BurnPort]], last: int,
            after: PortCounters | None, compared: bool, hint: str) -> BurnResult:
    ways, share = plane.ways, plane.plan.share
    over = _over(plane, rows)
    tests, unjudged = [], []
    for row, a, b in rows:
        slow: bool | None = row.gbps < share * ways.pair_rate(a, b) * (1 - _ODD)
        words = f"{row.test or f'round {row.round}'}: {row.a} {row.b}"
        if slow and row.round in over:
            slow = None
            unjudged.append(words)
        tests.append(BurnTest(f"{words} {row.gbps:g} of {ways.pair_rate(a, b):g} Gb/s", a, b, slow))
    done = {(row.round, frozenset((a, b))) for row, a, b in rows}
    unmeasured = [f"round {number}: {plane.names[pair.a].text} {plane.names[pair.b].text}"
                  for number, pairs in enumerate(plane.plan.rounds, plane.first) for pair in pairs
                  if (number, frozenset((pair.a, pair.b))) not in done]
    suspects = LinkSuspects(ways, tests)
    return BurnResult(plane, suspects.verdict(), tuple(unmeasured), tuple(unjudged),
                      tuple(_unproven(plane, rows, after, compared, hint)), suspects.next_round(last))


def _over(plane: BurnPlane, rows: Sequence[tuple[MeasuredPair, BurnPort, BurnPort]]) -> set[int]:
    """The rounds that asked a channel for more than it carries: their slow pairs accuse nothing."""
    found = set()
    for number, those in _rounds(rows).items():
        asked = carried(plane.ways, [(a, b, plane.ways.pair_rate(a, b)) for _, a, b in those])
        if any(load > plane.ways.rate_of(end) * (1 + _ODD) for end, load in asked.items()):
            found.add(number)
    return found


def _rounds(
    rows: Sequence[tuple[MeasuredPair, BurnPort, BurnPort]],
) -> Mapping[int, list[tuple[MeasuredPair, BurnPort, BurnPort]]]:
    found: dict[int, list[tuple[MeasuredPair, BurnPort, BurnPort]]] = defaultdict(list)
    for row in rows:
        found[row[0].round].append(row)
    return found


def _unproven(plane: BurnPlane, rows: Sequence[tuple[MeasuredPair, BurnPort, BurnPort]],
              after: PortCounters | None, compared: bool, hint: str) -> list[tuple[FabricLink, str]]:
    """The links that are not proven to have carried the share each way, and why. By tables, the measured
    rates say what each channel carried at its best round; counters may contradict. With a model only counters
    say it: what was sent, over all rounds that use the channel: not all of them can have been below that."""
    best: dict[FabricEnd, float] = {}
    bits: dict[FabricEnd, float] = defaultdict(float)
    spans: dict[FabricEnd, float] = defaultdict(float)
    timed = all(row.seconds for row, _, _ in rows)
    for those in _rounds(rows).values():
        for end, load in carried(plane.ways, [(a, b, row.gbps) for row, a, b in those]).items():
            best[end] = max(best.get(end, 0.0), load)
            spans[end] += max(row.seconds or 0.0 for row, _, _ in those)
        for end, sent in carried(plane.ways, [(a, b, row.gbps * (row.seconds or 0.0) * 1e9)
                                              for row, a, b in those]).items():
            bits[end] += sent
    found = []
    for link in sorted(plane.ways.links):
        for end in (link.a, link.b):
            why = _lacking(plane, end, best, "")
            if not why and compared:
                counted = _counted(plane.subnet.counters, after, end)
                if not timed:
                    why = "the table has no seconds to compare counters with"
                elif counted is None:
                    why = f"{_DATA} of {plane.ways.name(end)} was not read before and after"
                elif plane.plan.modelled:
                    why = _lacking(plane, end, {end: counted / spans[end] / 1e9}, "by its counter ")
                elif counted < _COUNTED * bits[end]:
                    why = (f"{plane.ways.name(end)} counted {counted / bits[end]:.0%} of what the tables say "
                           "it sent")
            elif not why and plane.plan.modelled:
                why = f"only counters prove what adaptive routing did{hint}"
            if why:
                found.append((link, why))
                break
    return found


def _lacking(plane: BurnPlane, end: FabricEnd, loads: Mapping[FabricEnd, float], by: str) -> str:
    """Why a load is not the share; "" where it is."""
    rate = plane.ways.rate_of(end)
    load = loads.get(end, 0.0)
    if rate > 0 and load >= plane.plan.share * rate * (1 - _ODD):
        return ""
    reached = f"{load / rate:.0%}" if rate > 0 else "0%"
    return f"{plane.ways.name(end)} was loaded {by}to {reached}"


def _counted(before: PortCounters | None, after: PortCounters | None, end: FabricEnd) -> float | None:
    """Bits that a port counted between two samples; None where that is not known."""
    values = []
    for sample in (before, after):
        value = sample.count(end, _DATA) if sample is not None else None
        if sample is None or value is None or _DATA in sample.full.get(end, frozenset()):
            return None
        values.append(value)
    return float(values[1] - values[0]) * _BITS if values[1] >= values[0] else None
