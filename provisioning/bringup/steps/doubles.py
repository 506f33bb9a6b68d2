"""Machines that say they are each other: the same serial number, UUID or host name on two, and places where another was delivered.

A machine waits a while for those that are about to tell who they are, so that of two alike both are told, whoever comes first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from healthcheck.outcome import Owner
from inventory.text import clean
from provisioning.bringup.model import Trouble

_TOLD = {"serial": "serial number", "uuid": "UUID", "name": "host name"}
# The store is read once for all machines of a moment.
_FRESH_S = 1.0


@dataclass(frozen=True)
class Other:
    """What was kept of a machine on its way; `coming` says that it has not told yet who it is, and is about to."""

    kept: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    coming: bool = False


Others: TypeAlias = Callable[[], Mapping[str, Other]]


@dataclass(frozen=True)
class Alike:
    """What is wrong with what a machine says of itself, and how many others are about to tell who they are."""

    troubles: tuple[Trouble, ...]
    coming: int


class Doubles:
    """Who has said what: in this process, and by `others` in the store, for machines of the inventory.

    `delivered` is by serial number the machine that it is for, "" where the list does not say; None without a list.
    """

    def __init__(self, others: Others, delivered: Mapping[str, str] | None = None) -> None:
        self._others = others
        self._delivered = delivered
        self._told: dict[str, Mapping[str, str]] = {}
        self._read: tuple[float, Mapping[str, Other]] = (float("-inf"), {})
        self._lock = threading.Lock()

    def of(self, machine: str, said: Mapping[str, str]) -> Alike:
        """Compares what a machine says of itself with the others and with the list."""
        with self._lock:
            self._told[machine] = said
            now = time.monotonic()
            if now - self._read[0] > _FRESH_S:
                self._read = (now, self._others())
            others = {name: other for name, other in self._read[1].items() if name != machine}
            told = {name: other.kept for name, other in others.items()} | {
                name: kept for name, kept in self._told.items() if name != machine}
            coming = sum(other.coming and name not in self._told for name, other in others.items())
        found = [trouble for key in _TOLD if (value := said.get(key)) and (trouble := _double(key, value, told)) is not None]
        return Alike((*found, *self._place(machine, said.get("serial", ""))), coming)

    def _place(self, machine: str, serial: str) -> list[Trouble]:
        """By the delivery list."""
        if self._delivered is None:
            return []
        if not serial:
            return [Trouble("its controller does not tell its serial number, for the delivery list", Owner.OPERATOR,
                            f"compare the number on its label with the list, then: muster bringup skip {machine}", "node")]
        shown = clean(serial, 60)
        owner = self._delivered.get(serial)
        if owner is None:
            return [Trouble(f"serial number {shown} is not on the delivery list", Owner.OPERATOR,
                            "ask the vendor whether it was delivered, and correct the list", "node", "", shown)]
        if owner not in ("", machine):
            return [Trouble(f"serial number {shown} was delivered for {clean(owner, 60)}", Owner.DATACENTRE,
                            f"exchange the places, or the BMC cables, of {machine} and {clean(owner, 60)}", "node", "", shown)]
        return []


def _double(key: str, value: str, told: Mapping[str, Mapping[str, str]]) -> Trouble | None:
    twins = sorted(name for name, kept in told.items() if kept.get(key, "").casefold() == value.casefold())
    if not twins:
        return None
    them = ", ".join(clean(name, 60) for name in twins[:4])
    hand = ("give one of them another name" if key == "name" else
            "compare the numbers on their labels: either two entries of the inventory have one BMC's address, or a board was exchanged and "
            "its number has to be written again by the vendor")
    return Trouble(f"{_TOLD[key]} {clean(value, 60)} is that of {them}, too", Owner.OPERATOR, hand, "node", "",
                   clean(value, 60) if key == "serial" else "")
