"""How a fault that a log reported ends: by a new boot, a reset, quiet hours, or a confirmed repair.

    boot         with the next boot
    reset        with a reset of the device, or the next boot
    quiet 24h    after so many hours without another report, or with the next boot
    repair       only when a person reports the repair: neither a boot nor silence mends a broken part

A log that lost a line proves nothing. PROOFS lists what proves an end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class EndKind(Enum):
    """What ends it."""

    BOOT = "boot"
    RESET = "reset"
    QUIET = "quiet"
    REPAIR = "repair"


class EndProof(Enum):
    """What is accepted as evidence that it has ended; documents and messages use the value."""

    BOOT = "a new boot"
    DRIVER = "the driver wants no recovery any more, after a reset"
    ROOT = "root's line in the kernel log: muster: GPU ... was reset"
    HOURS = "so many hours without another report, in a log that lost no record of them"
    PERSON = "a person's word that it was repaired (muster repaired)"


# The cheapest first: they are tried in this order.
PROOFS = {
    EndKind.BOOT: (EndProof.BOOT, EndProof.PERSON),
    EndKind.RESET: (EndProof.BOOT, EndProof.DRIVER, EndProof.ROOT, EndProof.PERSON),
    EndKind.QUIET: (EndProof.HOURS, EndProof.BOOT, EndProof.PERSON),
    EndKind.REPAIR: (EndProof.PERSON,),
}
EXPECTED = "boot, reset, repair, or quiet with hours or days, as in quiet 24h"
_TEXT = re.compile(r"(boot|reset|repair)|quiet ([1-9][0-9]{0,3})([hd])")
_HOURS = {"h": 1, "d": 24}


@dataclass(frozen=True)
class Ending:
    """One fault's end; `hours` belong to QUIET and are 0 otherwise."""

    ends: EndKind
    hours: float = 0

    @property
    def proofs(self) -> tuple[EndProof, ...]:
        """The accepted evidence."""
        return PROOFS[self.ends]

    def over(self, age_hours: float) -> bool:
        """Whether time alone has ended it, so many hours after it was last reported."""
        return self.ends is EndKind.QUIET and age_hours > self.hours

    def __str__(self) -> str:
        return f"quiet {self.hours:g}h" if self.ends is EndKind.QUIET else self.ends.value


def ending(text: str) -> Ending:
    """The ending that a rules file names; raises ValueError for an unknown one."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f"expected {EXPECTED}")
    return Ending(EndKind(found[1])) if found[1] else Ending(EndKind.QUIET, int(found[2]) * _HOURS[found[3]])


DAY = Ending(EndKind.QUIET, 24)
