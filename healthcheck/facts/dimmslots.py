"""Which slot of the board a DIMM of EDAC's is in, by EDAC's labels and dmidecode's list together.

EDAC labels a DIMM with the board's own name of the slot where a table of boards (edac-ctl) or the firmware
(ghes_edac) gave it one. Intel's drivers label by place instead, "CPU_SrcID#0_MC#1_Chan#0_DIMM#0"
(drivers/edac/skx_common.c; "_Ha#0_" for "_MC#0_" in sb_edac.c), and dmidecode has a place beside each slot's
name, as "NODE 0 CHANNEL 2 DIMM 0" or "P0_Node1_Channel0_Dimm0" (SMBIOS type 17, Bank Locator: free text). A
slot is named by its place only where the places of all DIMMs of the node are the same in both lists.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from healthcheck.facts.firmware import Dimm

_LABEL = re.compile(r"CPU_SrcID#([0-9]{1,2})_(?:MC|Ha)#([0-9]{1,2})_Chan#([0-9]{1,2})_DIMM#([0-9]{1,2})")
_BANK = re.compile(r"(?:P|CPU|NODE|SOCKET)[ _]?([0-9]{1,2})[ _](?:(?:Node|MC)[ _]?([0-9]{1,2})[ _])?"
                   r"CHANNEL[ _]?([0-9]{1,2})[ _]DIMM[ _]?([0-9]{1,2})", re.IGNORECASE)
_NOT_ITS_NAME = re.compile(r"[^a-z0-9]+")


class Slots:
    """The labels of a node's DIMMs by EDAC's places ("mc0/dimm0"), and the slot of each."""

    def __init__(self, labels: Mapping[str, str], modules: Iterable[Dimm]) -> None:
        self.labels = labels
        modules = tuple(modules)
        often = Counter(module.slot for module in modules)
        # Some boards call a slot of each socket "DIMM A1", and only the bank tells them apart.
        slots = [(module, module.slot if often[module.slot] == 1 else f"{module.bank} {module.slot}".strip())
                 for module in modules]
        self._named = _unique((key, slot) for module, slot in slots
                              for key in {_plain(module.slot), _plain(f"{module.bank} {module.slot}")})
        self._placed = _by_place(labels, [(slot, module.bank) for module, slot in slots])

    def of(self, place: str) -> tuple[str, bool]:
        """The slot, "" where it is not certain, and whether the label itself names it."""
        label = self.labels.get(place, "")
        named = self._named.get(_plain(label), "")
        return (named, True) if named else (self._placed.get(label, ""), False)


def _plain(name: str) -> str:
    return _NOT_ITS_NAME.sub(" ", name.casefold()).strip()


def _unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The pairs whose key stands for one slot only and is not empty."""
    held = [(key, slot) for key, slot in pairs if key]
    often = Counter(key for key, _ in held)
    return {key: slot for key, slot in held if often[key] == 1}


def _by_place(labels: Mapping[str, str], slots: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Slots by label, where both lists have the same places; else none. `slots` are names with banks."""
    ours = {label: tuple(map(int, match.groups())) for label in labels.values()
            if (match := _LABEL.fullmatch(label))}
    theirs = {tuple(-1 if part is None else int(part) for part in match.groups()): slot
              for slot, bank in slots if (match := _BANK.fullmatch(bank))}
    if not ours or len(theirs) != len(slots):
        return {}
    # A list without controllers numbers the channels of a socket through.
    if -1 in {place[1] for place in theirs}:
        each = 1 + max(place[2] for place in ours.values())
        ours = {label: (socket, -1, controller * each + channel, dimm)
                for label, (socket, controller, channel, dimm) in ours.items()}
    if theirs.keys() != set(ours.values()):
        return {}
    return {label: theirs[place] for label, place in ours.items()}
