"""What every back end can do: say who holds a node, keep new jobs away from it in our name, and give it back.

A cordon is owned. Its mark, "muster#12", stands at the beginning of the reason that the back end shows, where no cut can lose it; the
number is that of the cordon in the store. A back end never touches what carries another mark or none: that is a person's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from inventory.errors import UsageError
from inventory.text import clean

# What Slurm shows of a reason in its widest tables; the mark and the first words must be in it.
REASON_LENGTH = 200
_MARK = re.compile(r"muster#([1-9][0-9]{0,11}):(?: |$)")


class Holder(Enum):
    """Who keeps jobs away from a node."""

    NOBODY = "nobody"
    US = "us"
    OTHERS = "others"       # a person, the scheduler itself, or another program
    ABSENT = "absent"       # the back end does not know the node


@dataclass(frozen=True)
class Held:
    """Who holds a node, and with what words. `number` is that of our cordon, which may hold it beside others where a back end keeps both.

    `busy` says that a job runs on it, where that is known.
    """

    holder: Holder
    reason: str = ""
    number: int | None = None
    busy: bool | None = None


class ActionError(UsageError):
    """The back end could not be asked, or did not do what it was told; nothing is known to have changed."""


class Backend(Protocol):
    """One way to keep jobs away from nodes. Each method raises ActionError, one line with the next step."""

    name: str

    def held(self, nodes: Collection[str]) -> Mapping[str, Held]:
        """Who holds each of these nodes now."""

    def isolate(self, node: str, reason: str) -> None:
        """No new job starts on a node that nobody holds; what runs goes on. `reason` begins with the mark."""

    def release(self, node: str) -> None:
        """Gives back a node that we hold."""


@dataclass(frozen=True)
class Boot:
    """How far the reboot of a node is: since when it is up, in seconds since 1970, as far as that is known, and whether a reboot that
    was asked for is still to come."""

    booted: float | None
    under_way: bool = False


@runtime_checkable
class Reboots(Protocol):
    """What a back end can do beside, which has nodes restarted: as soon as their jobs have ended, and held by us before and after."""

    def reboot(self, nodes: Collection[str], reason: str) -> None:
        """Asks for it. The nodes are held by us, and stay so; the reason of that stays, too. Raises ActionError."""

    def boots(self, nodes: Collection[str]) -> Mapping[str, Boot]:
        """How far each of these nodes is; what the back end does not know is left out. Raises ActionError."""


@runtime_checkable
class Runs(Protocol):
    """What a back end can do beside, which knows what runs where other than by `Held.busy`."""

    def running(self, nodes: Collection[str]) -> Mapping[str, str]:
        """By node what runs on it; a node that is not in it has nothing. Raises ActionError."""


@runtime_checkable
class Startup(Protocol):
    """What a back end can do beside, in which new nodes are kept from jobs from their first moment until they have proven themselves."""

    def unproven(self, nodes: Collection[str]) -> frozenset[str]:
        """Those of these nodes that are. Raises ActionError."""

    def prove(self, node: str) -> None:
        """Ends it; who holds the node otherwise still does. Raises ActionError."""


@dataclass(frozen=True)
class Condition:
    """How a node is by muster: `status` True (fit for jobs), False or Unknown; why in a word, and in a line."""

    status: str
    reason: str
    message: str


@runtime_checkable
class Tells(Protocol):
    """What a back end can do beside, which shows people how nodes are."""

    def tell(self, conditions: Mapping[str, Condition]) -> None:
        """Has each node show its condition. Raises ActionError."""


def marked(number: int, why: str) -> str:
    """The reason of a cordon as back ends keep it: one line that begins with its mark."""
    return clean(f"muster#{number}: {why}", REASON_LENGTH)


def number_of(reason: str) -> int | None:
    """The number of the cordon that a reason is of, or None where it is none of ours."""
    match = _MARK.match(reason.strip())
    return int(match[1]) if match is not None else None
