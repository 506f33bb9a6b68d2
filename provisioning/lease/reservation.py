"""A lease by a Slurm reservation: no job starts on its nodes, and Slurm ends it in time. scontrol(1), "create
reservation" (22.05): IGNORE_JOBS lets it begin while a job still runs, which another look must exclude. Not
MAINT, which may overlap with others: so Slurm says which of two has a node."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.store.leases import LeaseRecord
from inventory.discover import Run, output
from inventory.errors import InventoryError, MusterError
from inventory.nodeset import expand, fold
from inventory.text import clean, short
from provisioning.actions.base import ActionError, Backend
from provisioning.actions.slurm import SlurmBackend

SHOW = ("scontrol", "--all", "--oneliner", "show", "reservation")
_FIELD = re.compile(r"(?:^|\s)(ReservationName|StartTime|Nodes|State)=(\S*)")


@dataclass(frozen=True)
class SlurmReservation:
    """A reservation's nodes, whether it holds them, and from when on (None: Slurm's word is no time)."""

    name: str
    nodes: frozenset[str]
    active: bool
    start: float | None


class Reservation:
    """Reservations of the cluster that this machine belongs to."""

    kind = "reservation"

    def __init__(self, clock: Callable[[], float], run: Run | None = None) -> None:
        self.base: Backend = SlurmBackend(run)
        self._clock = clock
        self._run = run

    def hold(self, entry: LeaseRecord) -> None:
        """Makes the reservation."""
        self._ask("create", "reservation", f"ReservationName={entry.name}", "StartTime=now",
                  self._end(entry.until), f"Nodes={fold(entry.nodes)}", "Users=root", "Flags=IGNORE_JOBS")

    def gone(self, entry: LeaseRecord) -> Mapping[str, str]:
        """Nodes that are not in it, or all where there is none."""
        standing = [one for one in _shown(self._run) if one.name == entry.name]
        held = standing[0].nodes if standing and standing[0].active else frozenset()
        return {node: f"reservation {entry.name} {'does not hold it' if standing else 'is not there'}"
                for node in entry.nodes if node not in held}

    def keep(self, entry: LeaseRecord, nodes: Sequence[str]) -> None:
        """Takes the others out of it."""
        self._ask("update", "reservation", f"ReservationName={entry.name}", f"Nodes={fold(nodes)}")

    def extend(self, entry: LeaseRecord, until: float) -> None:
        """Moves its end."""
        self._ask("update", "reservation", f"ReservationName={entry.name}", self._end(until))

    def free(self, entry: LeaseRecord) -> None:
        """Deletes it, by its name."""
        if self.left(entry):
            self._ask("delete", f"ReservationName={entry.name}")

    def left(self, entry: LeaseRecord) -> bool:
        """Whether it is there, be it over or not."""
        return any(one.name == entry.name for one in _shown(self._run))

    def _end(self, until: float) -> str:
        # Relative, so that no time zone and no format of times comes into it.
        return f"EndTime=now+{max(1, math.ceil(until - self._clock()))}seconds"

    def _ask(self, *words: str) -> None:
        try:
            output(("scontrol", *words), self._run)
        except MusterError as error:
            raise ActionError(str(error)) from None


def reserved(nodes: Collection[str], until: float, run: Run | None = None) -> dict[str, str]:
    """By node, the reservation that has it, or will have it before then; raises ActionError."""
    wanted = set(nodes)
    return {
        node: f"reservation {short(one.name)} has it{'' if one.active else ' soon'}" for one in _shown(run)
            if one.active or one.start is None or one.start < until for node in sorted(one.nodes & wanted)}


def _shown(run: Run | None) -> list[SlurmReservation]:
    try:
        return list(
            map(parse, filter(_is_one, output(SHOW, run).decode("utf-8", "backslashreplace").split("\n"))))
    except MusterError as error:
        raise ActionError(str(error)) from None


def _is_one(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("No reservations")


def parse(line: str) -> SlurmReservation:
    """What a line of `scontrol --oneliner show reservation` says; raises ActionError for what is none."""
    fields: dict[str, str] = {}
    for key, value in _FIELD.findall(line):
        fields.setdefault(key, value)       # a comment, which may say anything, comes last
    if not line.startswith("ReservationName=") or not {"Nodes", "State", "StartTime"} <= fields.keys():
        raise ActionError(f"scontrol show reservation printed {clean(line, 100)!r}, which is no reservation")
    named = fields["Nodes"]
    try:
        nodes = frozenset(() if named in ("", "(null)") else expand(named))
    except InventoryError as error:
        raise ActionError(f"scontrol show reservation: {error}") from None
    return SlurmReservation(
        fields["ReservationName"], nodes, fields["State"].upper() == "ACTIVE", _time(fields["StartTime"]))


def _time(text: str) -> float | None:
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
