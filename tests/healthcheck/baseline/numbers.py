"""Lines that differ from a given one in the numbers alone that masks hide: what is known of one has to be
known of the other."""

from __future__ import annotations

import re
from random import Random

from healthcheck.kernellog.masking import template

# The numbers of a line that vary from one to another: those that stand alone and those of devices, not the
# digits of a name (JBD2, e1000e).
_NUMBER = re.compile(
    r"(?<![0-9A-Za-z_])(?!0x)[0-9]+(?![A-Za-z])|(?<=nvme)[0-9]+|(?<=CPU)[0-9]+|(?<=MC)[0-9]+|(?<=ens)[0-9]+"
    r"|(?<=mlx5_)[0-9]+")
_DIGIT = re.compile("[0-9]")


def others(line: str, chance: Random, count: int = 10) -> list[str]:
    """So many lines of the same template, with other digits in the same places; 8 and 9 are left out, which
    no PCI function has.

    Process 1 stays itself: systemd's others are marked as users' when a record is read.
    """
    made = template(line)
    kept = "systemd[1]" if line.startswith("systemd[1]") else ""

    def other(number: re.Match[str]) -> str:
        return _DIGIT.sub(lambda _: str(chance.randrange(8)), number[0])

    found = (kept + _NUMBER.sub(other, line[len(kept):]) for _ in range(count * 4))
    return [text for text in dict.fromkeys(found) if template(text) == made][:count]
