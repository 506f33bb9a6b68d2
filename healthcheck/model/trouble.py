"""What someone must fix on a machine that is being brought up, as a line of a punch list."""

from __future__ import annotations

from dataclasses import dataclass

from healthcheck.model.outcome import Owner


@dataclass(frozen=True)
class Trouble:
    """One thing to fix: what is wrong, who fixes it, and the next step (`hand`), in words for a punch list.

    `part` is a kind of hardware or "" (gpu, dimm, drive, psu, nic, port, cable, node), `slot` where it sits,
    `serial` its number if known.
    """

    what: str
    owner: Owner
    hand: str
    part: str = ""
    slot: str = ""
    serial: str = ""
