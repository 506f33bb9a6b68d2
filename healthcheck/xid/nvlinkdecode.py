"""Decodes the details of NVLink Xids by the tables in `xid.yaml`; reports what these lack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from healthcheck.facts.xid import NvLinkWords, Xid
from healthcheck.model.outcome import Owner
from healthcheck.xid.xidtable import Action, Bits, XidDecodeLine, XidTable, unlisted, worst

_DECODED = "hopper"                # the only generation whose register bits are published
_REGISTERS_IN_USE = (0, 2, 3, 4)   # the catalogue: the others hold nothing to analyse
_RANK = list(Action)


@dataclass(frozen=True)
class Decoded:
    """The worst action for the lines about one link, and why."""

    action: Action
    meaning: str
    owner: Owner | None = None


def decode(number: int, events: Sequence[Xid], table: XidTable, *, alone: bool) -> Decoded:
    """The diagnosis of a link's reports of one number. `alone`: the GPU has no other reports."""
    if number == 74:
        return _registers(events, table, alone)
    return max((_word(event, table) for event in events), key=lambda decoded: _RANK.index(decoded.action))


def _registers(events: Sequence[Xid], table: XidTable, alone: bool) -> Decoded:
    """Xid 74. Without a decoded excuse it needs a reset."""
    generation = events[-1].architecture
    if generation != _DECODED:
        known = (f"published for {_DECODED.capitalize()} only" if generation
                 else "the GPU's generation is not known")
        return Decoded(Action.RESET, f"NVLink error; its registers were not decoded: {known}")
    read = [event.registers for event in events]
    sets = [
        frozenset((register, bit) for register in _REGISTERS_IN_USE for bit in range(32)
                  if found[1][register] >> bit & 1)
        for found in read if found is not None
    ]
    if not sets or not any(sets):
        why = "no bit is set" if sets else "the line holds no registers"
        return Decoded(Action.RESET, f"NVLink error; there is nothing to decode: {why}")
    meanings: dict[str, Action] = {}
    for register, bit in sorted(frozenset().union(*sets)):
        entry = next((bits for bits in table.registers if bits.register == register and bit in bits.bits),
                     None)
        action, meaning = _bit(entry, sets, alone)
        meanings[f"bit {bit} of register {register}: {meaning}"] = action
    if None in read:
        meanings["a line holds no registers"] = Action.RESET
    top = worst(*meanings.values())
    return Decoded(top, "; ".join(meaning for meaning, action in meanings.items() if action is top))


def _bit(entry: Bits | None, sets: Sequence[frozenset[tuple[int, int]]], alone: bool) -> tuple[Action, str]:
    if entry is None:
        return Action.SUPPORT, "not in the table"
    ours = {(entry.register, bit) for bit in entry.bits}
    if entry.alone and not (alone and any(found <= ours for found in sets)):
        return Action.IGNORE, "follows from what is beside it"
    seen = sum(bool(found & ours) for found in sets)
    if seen < entry.count:
        return (Action.RESET,
                f"{entry.meaning} (seen {seen} of {entry.count} times, then: {entry.action.value})")
    return entry.action, entry.meaning


def _word(event: Xid, table: XidTable) -> Decoded:
    """Xids 144 to 150."""
    rows = [word for word in table.words if word.xid == event.number]
    said = event.nvlink5
    if said is None:
        plain = {(row.action, row.meaning) for row in rows if not row.status and not row.subcode}
        if len(plain) == len(rows) == 1:    # the table has one answer for every line
            return Decoded(*plain.pop())
        return Decoded(Action.SUPPORT,
                       "NVLink error; the line is not of the documented form, so it was not decoded")
    names = {said.unit, *said.unit.split("/")}
    rows = [row for row in rows if row.units & names and (not row.subcode or said.subcode in row.subcode)]
    found = _by_status(rows, said)
    if not found:
        status = "none" if said.status is None else f"0x{said.status:08x}"
        where = f"unit {said.unit}, error status {status}, subcode 0x{said.subcode:02x}"
        word = "fatal" if said.fatal else "non-fatal"
        return Decoded(unlisted(said.fatal), f"NVLink error, {word} by the driver's word; {where} is not in "
                                             f"the table of {table.dated}, so it was not decoded")
    actions = {row: (row.fatal if said.fatal and row.fatal else row.action) for row in found}
    top = worst(*actions.values())
    row = next(row for row in found if actions[row] is top)
    return Decoded(top, f"{said.unit}: {row.meaning}", row.owner)


def _by_status(rows: Sequence[XidDecodeLine], said: NvLinkWords) -> list[XidDecodeLine]:
    exact = [row for row in rows if not row.status or said.status in row.status]
    if exact or not said.status or any(row.xid == 149 for row in rows):
        return exact
    # One bit for each error: of several the worst counts, if all are known.
    bits = [1 << bit for bit in range(32) if said.status >> bit & 1]
    several = [next((row for row in rows if bit in row.status), None) for bit in bits]
    return [row for row in several if row is not None] if None not in several else []
