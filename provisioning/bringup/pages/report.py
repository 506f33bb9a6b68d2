"""The punch list of a bring-up: what someone has to repair, by who and where, as text, as CSV and as JSON
(muster.punch-list/1). Pure.

A cell of the CSV that a spreadsheet would take for a formula has an apostrophe in front, by which it is text:
OWASP's Application Security Verification Standard 5, requirement 1.2.10, names = + - @, tab and NUL as the
first characters that do it; the full-width forms of the first four do it in some languages of Excel, and
blanks in front may be trimmed away. Quoting is RFC 4180's.
"""

from __future__ import annotations

import csv as csvs
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.model import Node
from inventory.nodeset import natural
from inventory.text import clean, many
from inventory.times import ago, minute

# Who comes first is who has to walk.
OWNERS = (Owner.DATACENTRE, Owner.VENDOR, Owner.NETWORK, Owner.OPERATOR, Owner.USER)
PEOPLE: Mapping[Owner, str] = {
    Owner.DATACENTRE: "the data centre", Owner.VENDOR: "the vendor", Owner.NETWORK: "the network team",
    Owner.OPERATOR: "us", Owner.USER: "the job's user"}
COLUMNS = ("owner", "rack", "unit", "node", "machine_serial", "part", "slot", "serial", "step", "since",
           "what", "next_hand")
UNIT = "unit"       # the label that says where in its rack a machine is
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "'", "\t", "\r", "\n", "\0")
_SHORT, _LONG = 80, 400     # characters of a cell


@dataclass(frozen=True)
class PunchListItem:
    """One thing to repair. Texts are empty where it is not known; all are clean. `since` is epoch seconds."""

    owner: Owner
    rack: str
    unit: str
    node: str
    machine_serial: str
    part: str
    slot: str
    serial: str
    step: str
    since: float
    what: str
    hand: str

    @property
    def cells(self) -> tuple[str, ...]:
        """As it stands in a table, by `COLUMNS`."""
        return (self.owner.value, self.rack, self.unit, self.node, self.machine_serial, self.part, self.slot,
                self.serial, self.step, minute(self.since), self.what, self.hand)


@dataclass(frozen=True)
class PunchListSummary:
    """What the list is of: how many machines, how many through and in trouble, and whose lines."""

    now: float
    machines: int
    through: int
    trouble: int
    owner: Owner | None = None

    @property
    def counts(self) -> str:
        """The machines in words: what is not through is not fine, whether or not it has a line."""
        coming = self.machines - self.through - self.trouble
        return (f"{many(self.machines, 'machine')}: {self.through} through, {self.trouble} in trouble, "
                f"{coming} on the way")


def line(
    step: str, node: str, since: float, trouble: Trouble, place: Node | None, machine_serial: str = "",
) -> PunchListItem:
    """One trouble as a line; `place` is the machine's inventory entry, if there is one."""
    rack = place.rack or "" if place is not None else ""
    unit = place.labels.get(UNIT, "") if place is not None else ""
    return PunchListItem(trouble.owner, _short(rack), _short(unit), _short(node), _short(machine_serial),
                         _short(trouble.part), _short(trouble.slot), _short(trouble.serial), _short(step),
                         since, clean(trouble.what, _LONG), clean(trouble.hand, _LONG))


def ordered(lines: Iterable[PunchListItem]) -> list[PunchListItem]:
    """By owner, then as one walks: rack, place in it, machine, slot."""
    return sorted(
        lines,
        key=lambda one: (OWNERS.index(one.owner), natural(one.rack), natural(one.unit), natural(one.node),
                         natural(one.part), natural(one.slot), natural(one.what)))


def owned(lines: Sequence[PunchListItem]) -> Iterator[tuple[Owner, list[PunchListItem]]]:
    """The lines of each owner who has any, in the order of `OWNERS`; `lines` are ordered."""
    for owner, mine in groupby(lines, key=lambda one: one.owner):
        yield owner, list(mine)


def title(owner: Owner, lines: Sequence[PunchListItem]) -> str:
    """Whose these lines are, and how many."""
    return (f"For {PEOPLE[owner]}: {many(len(lines), 'thing')} on "
            f"{many(len({one.node for one in lines}), 'machine')}")


def empty(head: PunchListSummary) -> str:
    """What stands where there is no line."""
    whom = f" for {PEOPLE[head.owner]}" if head.owner is not None else ""
    return ("No machine was started: muster bringup run NODES" if not head.machines
            else f"Nothing to repair{whom}.")


def where(one: PunchListItem) -> str:
    """Where one has to go."""
    return " ".join(text for text in (one.rack and f"rack {one.rack}", one.unit) if text) or "rack not known"


def which(one: PunchListItem) -> str:
    """The part in words: its kind, slot and serial number, and the machine's where the vendor asks for it."""
    part = " ".join(text for text in (one.part, one.slot) if text)
    numbers = (one.serial and f"serial {one.serial}", one.machine_serial and f"machine {one.machine_serial}")
    return ", ".join(text for text in (part, *numbers) if text)


def text(lines: Sequence[PunchListItem], head: PunchListSummary) -> Iterator[str]:
    """The list for a terminal or a mail; `lines` are ordered."""
    yield f"Punch list, {minute(head.now)}. {head.counts}."
    if not lines:
        yield empty(head)
    for owner, mine in owned(lines):
        yield ""
        yield title(owner, mine)
        for one in mine:
            about = which(one)
            yield (f"  [ ] {where(one)}  {one.node}{f'  {about}' if about else ''}  (step {one.step}, since "
                   f"{minute(one.since)}, {ago(head.now - one.since)})")
            yield f"      {one.what}"
            yield f"      next: {one.hand}"


def document(lines: Sequence[PunchListItem], head: PunchListSummary) -> dict[str, Any]:
    """The list as muster.punch-list/1; `lines` are ordered."""
    return {"schema": "muster.punch-list/1", "time": minute(head.now), "machines": head.machines,
            "through": head.through, "trouble": head.trouble,
            "owner": head.owner.value if head.owner is not None else None,
            "lines": [dict(zip(COLUMNS, one.cells, strict=True)) for one in lines]}


def csv(lines: Sequence[PunchListItem]) -> str:
    """The list as a table with a head, one thing a row, lines end in CR LF; `lines` are ordered."""
    out = io.StringIO()
    writer = csvs.writer(out, quoting=csvs.QUOTE_MINIMAL, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    writer.writerows([harmless(cell) for cell in one.cells] for one in lines)
    return out.getvalue()


def harmless(cell: str) -> str:
    """The cell so that no spreadsheet computes it: an apostrophe before what looks like a formula."""
    return f"'{cell}" if cell.lstrip(" \u00a0").startswith(_FORMULA) else cell


def _short(text: str) -> str:
    return clean(text, _SHORT)
