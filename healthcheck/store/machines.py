"""Which nodes another machine stands for than before, by the serial numbers of their parts, and which two
have changed places."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from healthcheck.store.file import Store

# What one look cannot read the next ones do: parts that changed within this time changed at once.
_AT_ONCE_S = 86400.0
_LEAST = 2
# One of these alone is the machine itself, where nothing that is known of the node stayed.
_WHOLE = ("chassis", "board")
# Of the seats that are taken now those whose part took the place of one that has left the node, since when
# it has it, however often it was out, and in which other node it sat last. What the first sweep of all met
# took no one's place.
_TAKEN = (
    "SELECT node, kind, (SELECT min(own.began) FROM seat AS own WHERE own.node = taken.node "
    "AND own.slot = taken.slot AND own.component = taken.component AND own.id > old), "
    "(SELECT min(own.id) FROM seat AS own WHERE own.node = taken.node AND own.slot = taken.slot "
    "AND own.component = taken.component AND own.id > old), came FROM ("
    "SELECT seat.node AS node, seat.slot AS slot, kind, component, "
    "(SELECT old.id FROM seat AS old WHERE old.node = seat.node AND old.slot = seat.slot "
    "AND old.id < seat.id AND old.component != seat.component ORDER BY old.id DESC LIMIT 1) AS old, "
    "(SELECT old.node FROM seat AS old WHERE old.component = seat.component AND old.id < seat.id "
    "AND old.node != seat.node ORDER BY old.id DESC LIMIT 1) AS came "
    "FROM seat JOIN component ON component.id = seat.component "
    "WHERE ended IS NULL AND began > (SELECT min(started) FROM sweep)) AS taken "
    "WHERE old IS NOT NULL AND NOT EXISTS (SELECT 1 FROM seat JOIN seat AS out ON out.id = old "
    "WHERE seat.component = out.component AND seat.node = taken.node AND seat.ended IS NULL)")
# Another model may call its slots otherwise: a part whose slot is new takes the place of one of its kind that
# left within a day, unless both came to the node together.
_TAKEN_ELSEWHERE = (
    "SELECT seat.node, component.kind, seat.began, seat.id, (SELECT last.node FROM seat AS last "
    "WHERE last.component = seat.component AND last.id < seat.id AND last.node != seat.node "
    "ORDER BY last.id DESC LIMIT 1) FROM seat AS old "
    "CROSS JOIN seat ON seat.node = old.node AND seat.id > old.id AND seat.ended IS NULL "
    "AND seat.component != old.component AND seat.began > old.began "
    "AND seat.began BETWEEN old.ended - 86400 AND old.ended + 86400 "
    "CROSS JOIN component ON component.id = seat.component JOIN component AS was ON was.id = old.component "
    "AND was.kind = component.kind WHERE old.ended IS NOT NULL "
    "AND seat.began > (SELECT min(started) FROM sweep) AND NOT EXISTS (SELECT 1 FROM seat AS before "
    "WHERE before.node = seat.node AND before.slot = seat.slot AND before.id < seat.id "
    "AND before.component != seat.component) AND NOT EXISTS (SELECT 1 FROM seat AS here "
    "WHERE here.component = old.component AND here.node = old.node AND here.ended IS NULL) GROUP BY seat.id")


@dataclass(frozen=True)
class AnotherMachine:
    """A node of which most kinds of parts are others since `at`, in epoch seconds: `others` of `parts` with a
    serial number. `origin` is the node where most of them sat before, "" where no sweep has met them;
    `swapped`: that node has the parts of this one."""

    node: str
    at: float
    others: int
    parts: int
    origin: str = ""
    swapped: bool = False


@dataclass(frozen=True)
class _Taken:
    """`seat` is its number: a later seat has a higher one, whatever the clock did."""

    kind: str
    began: float
    seat: int
    came: int | None


def another_machines(store: Store) -> dict[str, AnotherMachine]:
    """By node the last time that another machine took its name; one part, or all of one kind beside others
    that stayed, is no other machine. Raises StoreError."""
    taken: dict[int, list[_Taken]] = defaultdict(list)
    for node, kind, began, seat, came in [*store.rows(_TAKEN), *store.rows(_TAKEN_ELSEWHERE)]:
        taken[node].append(_Taken(kind, began, seat, came))
    found: dict[str, AnotherMachine] = {}
    for number, parts in taken.items():
        if len(parts) < _LEAST and parts[0].kind not in _WHOLE:
            continue
        names = {row[0]: row[1] for row in store.rows(
            f"SELECT id, name FROM node WHERE id IN ({', '.join('?' * len({number, *_came(parts)}))})",  # noqa: S608  (marks alone)
            *sorted({number, *_came(parts)}))}
        seats = [(row[0], row[1], row[2]) for row in store.rows(
            "SELECT kind, seat.id, seen FROM seat JOIN component ON component.id = seat.component "
            "WHERE node = ? AND ended IS NULL", number)]
        one = _judged(names[number], parts, seats, names)
        if one is not None:
            found[one.node] = one
    return {name: replace(one, swapped=(other := found.get(one.origin)) is not None and other.origin == name)
            for name, one in found.items()}


# Parts that have left a node, of kinds of which a later one sits there now.
_LEFT = (
    "SELECT component.kind, max(old.seen) FROM seat AS old JOIN component ON component.id = old.component "
    "WHERE old.node = (SELECT id FROM node WHERE name = ?) AND old.ended IS NOT NULL AND NOT EXISTS "
    "(SELECT 1 FROM seat AS here WHERE here.node = old.node AND here.component = old.component "
    "AND here.ended IS NULL) AND EXISTS (SELECT 1 FROM seat AS new JOIN component AS part "
    "ON part.id = new.component WHERE new.node = old.node AND new.ended IS NULL AND new.id > old.id "
    "AND part.kind = component.kind) GROUP BY component.kind")


def exchanged(store: Store, node: str) -> dict[str, float]:
    """By kind of part when one that has left this node for another one was last seen in it (epoch seconds):
    what was done until then was not done to all that is there now. Raises StoreError."""
    return {row[0]: row[1] for row in store.rows(_LEFT, node)}


def _came(parts: Sequence[_Taken]) -> set[int]:
    return {part.came for part in parts if part.came is not None}


def _judged(
    node: str, taken: Sequence[_Taken], seats: Sequence[tuple[str, int, float]], names: Mapping[int, str],
) -> AnotherMachine | None:
    """The last time at which most kinds of the node's parts were others; `seats` are those that are taken
    now: kind, number, and when last seen."""
    times = sorted({part.began for part in taken}, reverse=True)
    last = next((at for at in times if _another(taken, seats, at) is not None), None)
    if last is None:
        return None
    at = min(time for time in times if last - _AT_ONCE_S <= time <= last
             and _another(taken, seats, time) is not None)
    new, kept = _another(taken, seats, at) or ((), 0)
    came = Counter(part.came for part in new if part.came is not None).most_common(1)
    origin = names[came[0][0]] if came and 2 * came[0][1] > len(new) else ""
    return AnotherMachine(node, at, len(new), len(new) + kept, origin if origin != node else "")


def _another(
    taken: Sequence[_Taken], seats: Sequence[tuple[str, int, float]], at: float,
) -> tuple[Sequence[_Taken], int] | None:
    """The parts that took others' places within a day from then, and how many stayed, where that makes
    another machine."""
    new = [part for part in taken if at <= part.began <= at + _AT_ONCE_S]
    first = min((part.seat for part in new), default=0)
    kept = Counter(kind for kind, seat, seen in seats if seat < first and at <= seen)
    others = Counter(part.kind for part in new)
    kinds = {*others, *kept}
    most = sum(others[kind] > kept[kind] for kind in kinds)
    # What is not read just now may have stayed; a chassis that another node had before has not.
    whole = [part for part in new if part.kind in _WHOLE]
    alone = whole and not kept and (len(seats) == len(new) or any(part.came is not None for part in whole))
    return (new, kept.total()) if (len(new) >= _LEAST or alone) and 2 * most > len(kinds) else None
