"""Machines that say they are each other: a serial number or UUID on two, another's host name or place. A
machine waits a while for those that are about to tell who they are, so that of two that are equal both are
reported, whoever comes first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.errors import ConfigError
from inventory.text import clean
from provisioning.bringup.steps.bmcstep import skip
from provisioning.discover.model import number

_LABELS = {"serial": "serial number", "uuid": "UUID"}


@dataclass(frozen=True)
class Other:
    """What was kept of a machine on its way; `coming`: it is about to report who it is."""

    kept: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    coming: bool = False


Others: TypeAlias = Callable[[], Mapping[str, Other]]


@dataclass(frozen=True)
class IdentityConflicts:
    """What is wrong with what a machine says it is, and how many others are about to tell."""

    troubles: tuple[Trouble, ...]
    coming: int


class Duplicates:
    """Who has said what: here, and by `others` in the store, read once for all machines of `fresh_s`.
    `delivered` is what `delivered_by` read; `names` are the inventory's."""

    def __init__(
        self, others: Others, delivered: Mapping[str, str] | None = None, names: Collection[str] = (), *,
        fresh_s: float = 1.0,
    ) -> None:
        self._others = others
        self._delivered = delivered
        self._fresh_s = fresh_s
        self._names = {name.split(".")[0].casefold(): name for name in names}
        self._reported: dict[str, Mapping[str, str]] = {}
        self._read: tuple[float, Mapping[str, Mapping[str, str]], Set[str]] = (float("-inf"), {}, frozenset())
        self._lock = threading.Lock()

    def of(self, machine: str, message: Mapping[str, str]) -> IdentityConflicts:
        """Compares what a machine says of itself with the others and with the list."""
        mine = _numbers(message)
        with self._lock:
            self._reported[machine] = mine
            now = time.monotonic()
            if now - self._read[0] >= self._fresh_s:
                others = self._others()
                self._read = (now, {name: _numbers(other.kept) for name, other in others.items()},
                              {name for name, other in others.items() if other.coming})
            _, stored, coming = self._read
            report = {**stored, **self._reported}
            waits = len(coming - self._reported.keys())
        del report[machine]
        found = [_duplicate(key, value, twins) for key, value in mine.items()
                 if value and (twins := sorted(name for name, kept in report.items() if kept[key] == value))]
        return IdentityConflicts((*found, *self._called(machine, message.get("name", "")),
                                  *self._place(machine, mine["serial"])), waits)

    def _called(self, machine: str, name: str) -> list[Trouble]:
        """A factory gives all one name; but what is called as another of ours was installed as that."""
        other = self._names.get(name.split(".")[0].casefold())
        if other is None or other == machine:
            return []
        return [Trouble(f"its operating system calls itself {clean(name, 60)}, which is another machine's "
                        "name", Owner.OPERATOR,
                        f"see whether the BMC addresses of {machine} and {clean(other, 60)} are exchanged in "
                        f"the inventory; else rename it, then: muster bringup retry {machine}", "node")]

    def _place(self, machine: str, serial: str) -> list[Trouble]:
        """By the delivery list."""
        if self._delivered is None:
            return []
        if not serial:
            return [Trouble("its controller does not tell its serial number, for the delivery list",
                            Owner.OPERATOR,
                            "compare the number on its label with the list, then: "
                            f"{skip(machine, 'hardware')}", "node")]
        shown = clean(serial, 60)
        owner = self._delivered.get(serial)
        if owner is None:
            return [
                Trouble(f"serial number {shown} is not on the delivery list", Owner.OPERATOR,
                        "ask the vendor whether it was delivered, and correct the list", "node", "", shown)]
        if owner not in ("", machine):
            return [Trouble(f"serial number {shown} was delivered for {clean(owner, 60)}", Owner.DATACENTRE,
                            f"exchange the places, or the BMC cables, of {machine} and {clean(owner, 60)}",
                            "node", "", shown)]
        return []


def delivered_by(path: Path | None, names: Collection[str]) -> Mapping[str, str] | None:
    """By serial number the machine that it was delivered for, "" where the list does not say; None without a
    list. Raises ConfigError."""
    if path is None:
        return None
    from provisioning.discover.deliverylist import parse

    try:
        text = path.read_text("utf-8-sig", "replace")
    except OSError as error:
        raise ConfigError(f"delivery list {path}: {error.strerror}; it is named in bringup.yaml, delivery: "
                          f"{{file: ...}}") from None
    return {row.serial: row.name if row.name in names else "" for row in parse(text, str(path))}


def _numbers(message: Mapping[str, str]) -> Mapping[str, str]:
    return {key: number(message.get(key)) for key in _LABELS}


def _duplicate(key: str, value: str, twins: Sequence[str]) -> Trouble:
    what = (f"{_LABELS[key]} {clean(value, 60)} is that of "
            f"{', '.join(clean(name, 60) for name in twins[:4])}, too")
    advice = ("compare the numbers on their labels: either two entries of the inventory have one BMC's "
              "address, or a board was exchanged and its number has to be written again by the vendor")
    return Trouble(what, Owner.OPERATOR, advice, "node", "", clean(value, 60) if key == "serial" else "")
