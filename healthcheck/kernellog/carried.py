"""Kernel-log records that outlive the kernel's buffer: findings rest on them, so each snapshot carries them.

They stand, raw, in front of what the buffer holds, so that a check goes on judging them until it has seen how
they end. Beside them stands from which record on none was lost between snapshots, and which repairs people
reported. All of it is one text in a capture of the recording: an agent, a saved sweep and a replay judge the
same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

MOST = 40 << 10             # characters of carried records: a capture may exceed its probe's limit by more
_MOST_RULES, _MOST_OF_RULE, _MOST_NUMBERS, _MOST_REPAIRS = 64, 1000, 1500, 200
_FIRST = "muster "          # how the text begins
_HEAD = re.compile(r"^\d{1,6},(\d{1,20}),(\d{1,20}),", re.MULTILINE)
# Root's lines about resets are kept for the whole boot: they end what another snapshot may have carried.
_RESET = re.compile(
    r"^\d{1,6},\d{1,20},\d{1,20},[^;\n]{0,200};muster: (GPU [0-9a-fA-F:.]{7,16} was|all GPUs were) reset\s?$",
    re.MULTILINE)
_LARGEST = 2 ** 63          # the store keeps a record's number in so many bits


@dataclass(frozen=True)
class RepairStatement:
    """A person reported, in one boot, that something was repaired: by rule and subject the number of the
    newest record that the report covers."""

    boot: str
    subjects: Mapping[tuple[str, str], int]
    reason: str = ""

    def covers(self, rule: str, subject: str, newest: int) -> bool:
        """Whether a finding whose newest record is this one is older than the repair."""
        return newest <= self.subjects.get((rule, subject), -1)


@dataclass(frozen=True)
class CarriedRecords:
    """What earlier snapshots of one boot hand on: the raw `records`, oldest first, and the numbers of those
    on which each rule's findings rest. `newest` is the last record that was seen; from `since` on, at
    `seconds` since boot, none was lost. `repairs` are what people reported."""

    records: str = ""
    records_by_rule: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    newest: int = -1
    since: int = 0
    seconds: float = 0.0
    repairs: tuple[RepairStatement, ...] = ()

    @property
    def numbers(self) -> frozenset[int]:
        """Those of the records."""
        return frozenset(int(found[1]) for found in _HEAD.finditer(self.records))


NO_RECORDS = CarriedRecords()


def to_text(carried: CarriedRecords) -> str:
    """The text that `from_text` reads; equal values give equal text."""
    head = {"newest": carried.newest, "since": carried.since, "seconds": carried.seconds,
            "rests": {rule: list(numbers) for rule, numbers in sorted(carried.records_by_rule.items())},
            "words": [[one.boot, one.reason, [[*key, number] for key, number in sorted(one.subjects.items())]]
                      for one in carried.repairs]}
    return f"{_FIRST}{json.dumps(head, separators=(',', ':'))}\n{carried.records}"


def from_text(text: str) -> CarriedRecords:
    """The value that `to_text` wrote; nothing if the text is damaged or of another format."""
    head, _, records = text.partition("\n")
    if not head.startswith(_FIRST):
        return NO_RECORDS
    try:
        document: Any = json.loads(head.removeprefix(_FIRST))
        by_rule = {str(rule): tuple(map(_number, numbers[:_MOST_OF_RULE]))
                   for rule, numbers in list(document["rests"].items())[:_MOST_RULES]}
        repairs = tuple(_repair(*one) for one in document["words"][:_MOST_REPAIRS])
        seconds = float(document["seconds"])
        newest = document["newest"]
        if not 0 <= seconds < 1e12 or type(newest) is not int or not -1 <= newest < _LARGEST:
            return NO_RECORDS
        return CarriedRecords(records[:MOST], by_rule, newest, _number(document["since"]), seconds, repairs)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return NO_RECORDS


def _repair(
    boot: object, reason: object, subjects: Iterable[tuple[object, object, object]],
) -> RepairStatement:
    numbers = {(str(rule), str(subject)): _number(number) for rule, subject, number in subjects}
    return RepairStatement(str(boot), numbers, str(reason))


def before_log(carried: CarriedRecords, log: str, *, torn: bool = False) -> CarriedRecords:
    """What to judge in front of this log of the same boot: the carried records that the log no longer holds.
    After a gap, in the log (`torn`: some records were lost while it was read) or before its first record,
    `since` counts from there on."""
    bounds = _bounds(log)
    if bounds is None:
        return carried
    (first, seconds), (newest, last) = bounds
    gone = "".join(record for number, record in _records(carried.records) if number < first)
    found = replace(carried, records=gone, newest=newest)
    if torn:
        return replace(found, since=newest, seconds=last)
    if carried.newest < 0 or not first <= carried.newest + 1 <= newest + 1:
        return replace(found, since=first, seconds=seconds if first else 0.0)
    return found


def carry_over(
    carried: CarriedRecords, log: str, records_by_rule: Mapping[str, Collection[int] | None],
) -> CarriedRecords:
    """What to hand on to the next snapshot, of what stood in front of the log and of the log itself.
    `records_by_rule` are the records on which each rule's findings rest now, the most important of each
    finding first; None: the rule was not wholly judged, and its earlier ones stay."""
    earlier = carried.records_by_rule
    now = {rule: tuple(numbers) for rule, numbers in records_by_rule.items() if numbers is not None}
    kept = {rule: numbers[:_MOST_OF_RULE] for rule, numbers in sorted({**earlier, **now}.items()) if numbers}
    needed = kept or carried.records or "muster: " in log
    texts = {**dict(_records(carried.records)), **dict(_records(log))} if needed else {}
    resets = _resets(texts.items())
    room, chosen = MOST, {}
    for number in dict.fromkeys([*resets, *interleaved(list(kept.values()))]):
        record = texts.get(number)
        if record is not None and len(record) <= room:
            chosen[number] = record
            room -= len(record)
    each = _MOST_NUMBERS // max(len(kept), 1)
    rests_on = {rule: held for rule, numbers in list(kept.items())[:_MOST_RULES]
                if (held := tuple(number for number in numbers if number in chosen)[:each])}
    return replace(carried, records="".join(chosen[number] for number in sorted(chosen)),
                   records_by_rule=rests_on, repairs=())


def representative(numbers: Sequence[int], most: int = 32) -> tuple[int, ...]:
    """At most so many records that stand for similar reports: first, last, then those nearest to either."""
    if len(numbers) > most:
        numbers = (*numbers[:most // 2], *numbers[-(most - most // 2):])
    return tuple(dict.fromkeys((*numbers[:1], *numbers[-1:], *numbers)))


def interleaved(lists: Sequence[Sequence[int]]) -> Iterator[int]:
    """The first of each, then the second of each ...: if room is short, each rule keeps its best ones."""
    for place in range(max(map(len, lists), default=0)):
        for numbers in lists:
            if place < len(numbers):
                yield numbers[place]


def _resets(records: Iterable[tuple[int, str]]) -> list[int]:
    """The newest record of each GPU's reset, and of a reset of all GPUs."""
    newest: dict[str, int] = {}
    for number, record in records:
        if "muster: " in record and (found := _RESET.match(record)):
            newest[found[1].lower()] = max(number, newest.get(found[1].lower(), 0))
    return sorted(newest.values())


def _records(log: str) -> Iterator[tuple[int, str]]:
    """Each record with its number: its text with the lines below that belong to it, and its line end."""
    heads = list(_HEAD.finditer(log))
    for place, found in enumerate(heads):
        end = heads[place + 1].start() if place + 1 < len(heads) else len(log)
        record = log[found.start():end]
        yield int(found[1]), record if record.endswith("\n") else f"{record}\n"


def _bounds(log: str) -> tuple[tuple[int, float], tuple[int, float]] | None:
    """Number and seconds of the first and of the last record."""
    first = _HEAD.search(log)
    if first is None:
        return None
    last, end = first, len(log)
    while end > 0:
        start = log.rfind("\n", 0, end) + 1
        if found := _HEAD.match(log, start):
            last = found
            break
        end = start - 1
    return (int(first[1]), int(first[2]) / 1e6), (int(last[1]), int(last[2]) / 1e6)


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError
    return value
