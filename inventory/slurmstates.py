"""What each state of a Slurm node means for its lifecycle. The words are those of slurm.h and sinfo(1), up to
Slurm 25; the signs are those that follow a state there."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from inventory.model import LifecycleState

# Behind a state in the output of sinfo and, of older releases, scontrol (sinfo(1), NODE STATE CODES).
SIGNS: Mapping[str, str] = {
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN",
    "$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED",
}
_NOT_THERE: Mapping[str, str] = {
    "FUTURE": "it is configured, but not there yet",
    "POWERED_DOWN": "it is powered down to save power, and a cloud's machine does not exist",
    "POWERING_DOWN": "it is being powered down",
    "POWER_DOWN": "it is to be powered down as soon as its jobs have ended",
    "POWER_DRAIN": "it is to be powered down as soon as its jobs have ended",
    "POWERING_UP": "it is being powered up, and not there yet",
    "POWER_UP": "it is to be powered up, and not there yet",
}
_THERE: Mapping[str, tuple[str, ...]] = {
    "it is there and takes jobs": (
        "ALLOCATED", "ALLOC", "COMPLETING", "COMP", "IDLE", "MIXED", "MIX", "PLANNED", "PLND", "RESERVED",
        "RESV", "RES", "CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "EXTERNAL", "PERFCTRS", "NPC", "RESUME",
        "UNDRAIN", "BLOCKED",
    ),
    "it is only kept from jobs, which Slurm itself keeps and shows, and which may end at any time": (
        "DRAIN", "DRAINED", "DRNG", "DRAINING", "FAIL", "FAILING", "FAILG", "MAINT", "MAINTENANCE",
    ),
    "it should be there, and a sweep says what is wrong": (
        "DOWN", "ERROR", "ERR", "INVAL", "INVALID", "INVALID_REG", "NO_RESPOND", "NOT_RESPONDING", "UNKNOWN",
        "UNK",
    ),
    "it comes back by itself": (
        "REBOOT", "REBOOT_CANCELED", "REBOOT_ISSUED", "REBOOT_REQUESTED",
    ),
}
# Short words of sinfo and words of other releases.
_SAME = {"FUTR": "FUTURE", "POW_DN": "POWERING_DOWN", "POW_UP": "POWERING_UP", "POWER": "POWERED_DOWN",
         "POWERED_OFF": "POWERED_DOWN", "POWERING_OFF": "POWERING_DOWN"}


@dataclass(frozen=True)
class SlurmMeaning:
    """The lifecycle that a state stands for, and why."""

    lifecycle: LifecycleState
    why: str


MEANINGS: Mapping[str, SlurmMeaning] = {
    **{word: SlurmMeaning(LifecycleState.PLANNED, why) for word, why in _NOT_THERE.items()},
    **{word: SlurmMeaning(LifecycleState.SERVICE, why) for why, words in _THERE.items() for word in words},
}


def states_in(text: str) -> frozenset[str]:
    """The states of a text such as "IDLE+CLOUD+POWERED_DOWN" or "idle~", in capitals."""
    found = {word.upper() for word in re.split(r"[^A-Za-z_]+", text) if word}
    found |= {SIGNS[sign] for sign in text if sign in SIGNS}
    return frozenset(found)


def meaning(states: Collection[str]) -> tuple[str, SlurmMeaning] | None:
    """The state by which a machine is not there, with its meaning; None where it is in service."""
    for word in sorted(states):
        plain = _SAME.get(word, word)
        if plain in _NOT_THERE:
            return word, MEANINGS[plain]
    return None


def unknown(states: Collection[str]) -> list[str]:
    """The words that are not known here, in order."""
    return sorted(word for word in states if word and _SAME.get(word, word) not in MEANINGS)
