"""`muster history --serial`: where one part sits and has sat, and its returns to the vendor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from healthcheck.cli.wrapping import echo
from healthcheck.store.history import whereabouts
from healthcheck.store.rmas import rmas
from inventory.errors import UsageError
from inventory.text import clean, short
from inventory.times import minute

if TYPE_CHECKING:
    from healthcheck.store.file import Store
    from healthcheck.store.history import ComponentLocation
    from healthcheck.store.rmas import Rma


def print_part(store: Store, serial: str, fmt: str) -> None:
    """Prints it, in the order of time; raises UsageError for a number that the store does not know."""
    seats = whereabouts(store, serial)
    found = [rma for rma in rmas(store) if serial and serial.lower() in (rma.serial.lower(), rma.new.lower())]
    if not seats and not found:
        raise UsageError(f"no sweep, controller or RMA that the store knows has named {short(serial)}")
    if fmt == "jsonl":
        for seat in seats:
            click.echo(json.dumps({"schema": "muster.seat/1", **vars(seat)}))
        for rma in found:
            click.echo(json.dumps({"schema": "muster.rma/1", **vars(rma), "state": rma.state.value}))
        return
    events = [event for seat in seats for event in _seated(seat)]
    events += [event for rma in found for event in _went(rma, serial)]
    for kind in dict.fromkeys(seat.kind for seat in seats) or dict.fromkeys(rma.kind for rma in found):
        echo(f"{kind} {clean(serial, 64)}")
    for _, line in sorted(events, key=lambda event: event[0]):
        echo(f"  {line}")


def _seated(seat: ComponentLocation) -> Iterator[tuple[float, str]]:
    until = minute(seat.ended) if seat.ended is not None else f"now, last seen {minute(seat.seen)}"
    yield seat.began, f"{minute(seat.began)} .. {until}  {seat.node}  {seat.slot}"


def _went(rma: Rma, serial: str) -> Iterator[tuple[float, str]]:
    """What became of its returns; where it is what came for another part, that."""
    name = f"RMA {rma.id} of {rma.node}"
    if rma.serial.lower() != serial.lower():
        if rma.returned is not None:
            yield rma.returned, f"{minute(rma.returned)}  came for {rma.part}: {name}"
        return
    yield rma.opened, f"{minute(rma.opened)}  {name} opened: {clean(rma.why, 200)}"
    if rma.shipped is not None:
        yield rma.shipped, f"{minute(rma.shipped)}  {name} shipped"
    if rma.returned is not None and rma.repaired:
        yield rma.returned, f"{minute(rma.returned)}  {name} returned ({rma.outcome})"
    if rma.closed is not None:
        yield rma.closed, f"{minute(rma.closed)}  {name} closed: {clean(rma.closed_why, 200)}"
