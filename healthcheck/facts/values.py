"""What every fact is made of: readings that may be unmeasured.

A fact is a frozen dataclass that derives from `Fact`. Each field is a value, `UNSUPPORTED` (the device has no such thing) or
`Unmeasured(reason)`. Fields are annotated with the value's type alone, because a check only ever meets values: the judge
turns the reading of anything else into UNKNOWN before the check can see it (`healthcheck.judge.judge`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from healthcheck.model.outcome import Origin


@dataclass(frozen=True)
class Unmeasured:
    """A value that is not known, and why, in one line."""

    reason: str
    origin: Origin = Origin.NODE


class Unsupported(Enum):
    """The type of `UNSUPPORTED`: the device says that it has no such thing."""

    UNSUPPORTED = "unsupported"
    # There is one, and facts are hashed that hold hundreds of it; an enum's own is written in Python.
    __hash__ = object.__hash__


UNSUPPORTED = Unsupported.UNSUPPORTED


@dataclass(frozen=True)
class Partial:
    """A fact of which only a part was measured: a check may find faults in the part, but cannot pass."""

    value: Any
    reason: str


class Fact:
    """Base of all facts. Each has a `name` that is always measured: the subject as findings call it.

    `caveat` says what a PASS over this fact does not cover, and is shown beside it; mostly empty.
    """

    name: str
    caveat: str = ""


class Unread(Exception):
    """Inside a fact builder: what it needs was not captured; its text is the reason."""


