"""What somebody has to mend at a machine that is brought up, as a line of a punch list."""

from __future__ import annotations

from dataclasses import dataclass

from healthcheck.model.outcome import Owner


@dataclass(frozen=True)
class Trouble:
    """One thing that somebody has to mend: what is wrong, who, and the next hand to lend, in words that can
    be put on a punch list.

    `part` is a kind of hardware or "" (gpu, dimm, drive, psu, nic, port, cable, node), `slot` where it sits,
    `serial` its number if known.
    """

    what: str
    owner: Owner
    hand: str
    part: str = ""
    slot: str = ""
    serial: str = ""
