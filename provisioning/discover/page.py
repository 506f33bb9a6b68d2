"""What discovery says, for people and as JSON (muster.discovered/1), and how the command ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inventory.model import Node
from provisioning.discover.compare import DeliveryComparison, DeliveryState
from provisioning.discover.duplicates import Duplicate
from provisioning.discover.model import DhcpLease, FoundController

SCHEMA = "muster.discovered/1"
_BAD = (DeliveryState.SWAPPED, DeliveryState.DOUBLED, DeliveryState.MISSING)
_MOST = 24      # letters of a column


@dataclass(frozen=True)
class Discovered:
    """What a run has come to know. `delivery` is the list's name; `login`: controllers were logged in to."""

    asked: int
    found: tuple[FoundController, ...]
    at: Mapping[str, Node]
    leases: tuple[DhcpLease, ...]
    compared: DeliveryComparison | None
    delivery: str
    duplicated: tuple[Duplicate, ...]
    differs: tuple[str, ...]
    login: bool

    @property
    def exit_code(self) -> int:
        """1 something does not fit, else 3 something could not be read, else 0."""
        compared = self.compared
        wrong = compared is not None and (
            compared.extra or any(line.state in _BAD for line in compared.lines))
        if self.duplicated or self.differs or wrong:
            return 1
        unread = any(not one.speaks or (self.login and one.login != "read") for one in self.found)
        if unread or (
            compared is not None
            and (compared.unread or any(line.state is DeliveryState.UNREAD for line in compared.lines))):
            return 3
        return 0


def text(known: Discovered) -> Iterator[str]:
    """The page, a line at a time."""
    if known.asked:
        yield f"{known.asked} addresses asked, {len(known.found)} answer"
    if known.found:
        yield ""
        yield from _table(("address", "node", "speaks", "vendor", "model", "serial", "certificate", ""),
                          [(one.address, _name(known.at, one), "+".join(one.speaks) or "?", one.vendor,
                            one.model or one.product, one.serial, one.fingerprint[:16],
                            "; ".join(filter(None, (one.said, one.login if one.login != "read" else ""))))
                           for one in known.found])
    if known.leases:
        yield ""
        yield from _table(("leased", "MAC", "name", ""),
                          [(lease.address, lease.mac, lease.name,
                            "" if lease.held else "expired or given back") for lease in known.leases])
    if known.compared is not None:
        yield ""
        yield from _delivery(known.compared, known.delivery, known.at, known.login)
    for what, lines in (
        ("Doubled",
         [f"{one.kind} {one.value}: " + "; ".join(f"{claim.who} ({claim.where})" for claim in one.claims[:6])
          + (f"; and {len(one.claims) - 6} more" if len(one.claims) > 6 else "")
          for one in known.duplicated]), ("Different from the inventory", list(known.differs))):
        if lines:
            yield ""
            yield f"{what}:"
            yield from (f"  {line}" for line in lines)


def document(known: Discovered) -> dict[str, Any]:
    """The same, as JSON has it."""
    compared = known.compared
    return {
        "schema": SCHEMA, "asked": known.asked, "exit": known.exit_code,
        "found": [{"node": _name(known.at, one) or None, **asdict(one)} for one in known.found],
        "leases": [asdict(lease) for lease in known.leases],
        "delivery": None if compared is None else {
            "source": known.delivery,
            "rows": [{**asdict(line.row), "state": line.state.value, "at": line.at, "why": list(line.why)}
                     for line in compared.lines], "extra": [one.address for one in compared.extra],
            "older": [one.address for one in compared.older],
            "unread": [one.address for one in compared.unread]},
        "doubled": [asdict(one) for one in known.duplicated], "differs": list(known.differs)}


def _delivery(
    compared: DeliveryComparison, source: str, at: Mapping[str, Node], login: bool,
) -> Iterator[str]:
    counts = [f"{sum(line.state is state for line in compared.lines)} {state.value}"
              for state in DeliveryState if any(line.state is state for line in compared.lines)]
    extra = [f"{len(compared.extra)} extra"] if compared.extra else []
    yield f"{source}: {len(compared.lines)} delivered: {', '.join((*counts, *extra))}"
    rows = [(line.state.value, line.row.serial, line.row.name, line.row.rack, line.at, "; ".join(line.why))
            for line in compared.lines if line.state is not DeliveryState.LISTED]
    rows += [
        ("extra", one.serial, _name(at, one), "", one.address, "not on the list") for one in compared.extra]
    if rows:
        yield from _table(("", "serial", "name", "rack", "at", ""), rows)
    if compared.unread:
        yield (f"{len(compared.unread)} that answer reported no serial "
               f"number{'' if login else ': --login reads it'}")
    if compared.older:
        yield f"{len(compared.older)} more are nodes that are past bring-up"


def _name(at: Mapping[str, Node], one: FoundController) -> str:
    return at[one.address].name if one.address in at else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns of which only the last may be long; one without any text is left out."""
    shown = [at for at in range(len(head)) if any(row[at] for row in rows)]
    cut = [[_cut(row[at]) if at < len(head) - 1 else row[at] for at in shown] for row in (head, *rows)]
    widths = [max(len(row[at]) for row in cut) for at in range(len(shown))]
    for row in cut:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cut(cell: str) -> str:
    return cell if len(cell) <= _MOST or ":" in cell else cell[: _MOST - 1] + "…"
