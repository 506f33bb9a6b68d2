"""The mark of a cordon: what a back end shows of it, by which its store finds it again.

    muster:7f3a#12      cordon 12 of the store 7f3a
    muster#12           as versions before 0.2 wrote it; which store's it is only the store that made it knows

Two heads count their cordons from 1 each, so a number alone would let one release what the other holds.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

_MARK = re.compile(r"muster(?::([0-9a-f]{4,16}))?#([1-9][0-9]{0,11}):(?: |$)")


@dataclass(frozen=True, order=True)
class CordonMark:
    """The mark of one cordon; `store` is empty for one of the older form."""

    store: str
    number: int

    def __str__(self) -> str:
        return f"muster{f':{self.store}' if self.store else ''}#{self.number}"


def ended_by(mark: CordonMark) -> str:
    """The command that ends exactly this mark, as a shell takes it."""
    return f"muster uncordon --mark {shlex.quote(str(mark))} --reason TEXT"


def mark_of(reason: str) -> CordonMark | None:
    """The mark with which a reason begins; None where it begins with none."""
    match = _MARK.match(reason.strip())
    return CordonMark(match[1] or "", int(match[2])) if match is not None else None


def typed_mark(text: str) -> CordonMark | None:
    """The mark that a person typed or copied, with or without the colon behind it; None for anything else."""
    return mark_of(f"{text.strip().removesuffix(':')}: ")
