"""Records of a kernel log that outlive the kernel's buffer: those on which findings rest, handed from one snapshot of a boot to the next.

They stand, raw, in front of what the buffer holds, so that a check goes on judging them until it has seen how they end. With them stands
from which record on none was lost between snapshots, and what people said was repaired. One text, in a capture of the recording itself:
so an agent, a saved sweep and a replay judge the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

MOST = 40 << 10             # characters of records that are carried: within what a capture may be longer than its probe's limit
_MOST_RULES, _MOST_OF_RULE, _MOST_NUMBERS, _MOST_WORDS = 64, 1000, 1500, 200
_FIRST = "muster "          # how the text begins
_HEAD = re.compile(r"^\d{1,6},(\d{1,20}),(\d{1,20}),", re.MULTILINE)
# Root's lines of resets: kept for the whole boot, for they prove an end of what another snapshot may have carried.
_RESET = re.compile(r"^\d{1,6},\d{1,20},\d{1,20},[^;\n]{0,200};muster: (GPU [0-9a-fA-F:.]{7,16} was|all GPUs were) reset\s?$", re.MULTILINE)
_LARGEST = 2 ** 63          # no number of a record is as large; the store keeps it in so many bits


@dataclass(frozen=True)
class RepairStatement:
    """A person's word, in one boot, that something was repaired: by rule and subject the number of the newest record that it is of."""

    boot: str
    subjects: Mapping[tuple[str, str], int]
    said: str = ""

    def covers(self, rule: str, subject: str, newest: int) -> bool:
        """Whether a finding whose newest record is this one was reported before the word."""
        return newest <= self.subjects.get((rule, subject), -1)


@dataclass(frozen=True)
class Carried:
    """What earlier snapshots of one boot hand on.

    `records` are the raw records, oldest first; `rests` says by rule on which of them, by number, its findings rest. `newest` is the last
    record that was seen. From the record `since` on, at `seconds` since boot, none was lost. `words` are people's.
    """

    records: str = ""
    rests: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    newest: int = -1
    since: int = 0
    seconds: float = 0.0
    words: tuple[RepairStatement, ...] = ()

    @property
    def numbers(self) -> frozenset[int]:
        """Those of the records."""
        return frozenset(int(found[1]) for found in _HEAD.finditer(self.records))


NOTHING = Carried()


def written(carried: Carried) -> str:
    """As text, which `read` reads; equal ones give equal text."""
    head = {"newest": carried.newest, "since": carried.since, "seconds": carried.seconds,
            "rests": {rule: list(numbers) for rule, numbers in sorted(carried.rests.items())},
            "words": [[word.boot, word.said, [[*key, number] for key, number in sorted(word.subjects.items())]] for word in carried.words]}
    return f"{_FIRST}{json.dumps(head, separators=(',', ':'))}\n{carried.records}"


def read(text: str) -> Carried:
    """What a text of `written` says; nothing where it is damaged, or of another form."""
    head, _, records = text.partition("\n")
    if not head.startswith(_FIRST):
        return NOTHING
    try:
        document: Any = json.loads(head.removeprefix(_FIRST))
        rests = {str(rule): tuple(map(_number, numbers[:_MOST_OF_RULE]))
                 for rule, numbers in list(document["rests"].items())[:_MOST_RULES]}
        words = tuple(RepairStatement(str(boot), {(str(rule), str(subject)): _number(number) for rule, subject, number in subjects},
                                      str(said))
                      for boot, said, subjects in document["words"][:_MOST_WORDS])
        seconds = float(document["seconds"])
        newest = document["newest"]
        if not 0 <= seconds < 1e12 or type(newest) is not int or not -1 <= newest < _LARGEST:
            return NOTHING
        return Carried(records[:MOST], rests, newest, _number(document["since"]), seconds, words)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return NOTHING


def before(carried: Carried, log: str, *, torn: bool = False) -> Carried:
    """What to judge in front of this log of the same boot: the carried records that it no longer holds. `torn`: some were lost in reading.

    Where there is a gap between what was seen and where the log begins, or in the log, none lost is counted from there on.
    """
    bounds = _bounds(log)
    if bounds is None:
        return carried
    (first, seconds), (newest, last) = bounds
    found = replace(carried, records="".join(record for number, record in _records(carried.records) if number < first), newest=newest)
    if torn:
        return replace(found, since=newest, seconds=last)
    if carried.newest < 0 or not first <= carried.newest + 1 <= newest + 1:
        return replace(found, since=first, seconds=seconds if first else 0.0)
    return found


def after(carried: Carried, log: str, rests: Mapping[str, Collection[int] | None]) -> Carried:
    """What to hand on to the next snapshot, of what stood in front of the log and of the log itself.

    `rests` are, by rule, the records on which its findings rest now, each finding's most telling first; None for a rule that was not
    wholly judged, whose earlier ones stay.
    """
    kept = {rule: tuple(numbers) if numbers is not None else carried.rests.get(rule, ()) for rule, numbers in rests.items()}
    kept |= {rule: numbers for rule, numbers in carried.rests.items() if rule not in rests}
    kept = {rule: numbers[:_MOST_OF_RULE] for rule, numbers in sorted(kept.items()) if numbers}
    texts = {**dict(_records(carried.records)), **dict(_records(log))} if kept or "muster: " in log or carried.records else {}
    resets = _resets(texts.items())
    room, chosen = MOST, {}
    for number in dict.fromkeys([*resets, *in_turn(list(kept.values()))]):
        record = texts.get(number)
        if record is not None and len(record) <= room:
            chosen[number] = record
            room -= len(record)
    each = _MOST_NUMBERS // max(len(kept), 1)
    rests_on = {rule: held for rule, numbers in list(kept.items())[:_MOST_RULES]
                if (held := tuple(number for number in numbers if number in chosen)[:each])}
    return replace(carried, records="".join(chosen[number] for number in sorted(chosen)), rests=rests_on, words=())


def telling(numbers: Sequence[int], most: int = 32) -> tuple[int, ...]:
    """So many of the records of like reports, oldest first, as carry the finding on: the first, the last, then those between that are
    nearest to either."""
    if len(numbers) > most:
        numbers = (*numbers[:most // 2], *numbers[-(most - most // 2):])
    return tuple(dict.fromkeys((*numbers[:1], *numbers[-1:], *numbers)))


def in_turn(lists: Sequence[Sequence[int]]) -> Iterator[int]:
    """The first of each, then the second of each ...: where there is not room for all, each rule keeps what tells most."""
    for place in range(max(map(len, lists), default=0)):
        for numbers in lists:
            if place < len(numbers):
                yield numbers[place]


def _resets(records: Iterable[tuple[int, str]]) -> list[int]:
    """The newest record of each GPU's reset, and of that of all."""
    newest: dict[str, int] = {}
    for number, record in records:
        if "muster: " in record and (found := _RESET.match(record)):
            newest[found[1].lower()] = max(number, newest.get(found[1].lower(), 0))
    return sorted(newest.values())


def _records(log: str) -> Iterator[tuple[int, str]]:
    """Each record with its number, as it stands there: with the lines below that belong to it, and its line end."""
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
