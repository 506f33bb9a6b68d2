"""The inventory's key `cordon`: what keeps jobs away from the nodes of this site.

    cordon: slurm                                   # scontrol
    cordon: {hostfile: /shared/bad-hosts}           # a file of the nodes that launch scripts leave out
    cordon: {golden: /shared/good-hosts}            # a file of the nodes that they may use
    cordon: {command: [/opt/site/cordon, --now], seconds: 30}

It stands here and in no rule: a command of this file is run, and whoever may edit a rule must not run anything.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from inventory.entry import check_keys, described
from inventory.errors import InventoryError, Mark
from inventory.located import LocatedList, LocatedMap
from inventory.model import By, CordonBy

_EXPECTED = "expected slurm, {hostfile: FILE}, {golden: FILE} or {command: [PROGRAM, ...], seconds: 30}"
_LONGEST_S = 600
_MOST_WORDS = 64
_MOST = 4096        # characters of a path (Linux' PATH_MAX) or a word


def read_cordon(document: LocatedMap, folder: Path) -> CordonBy | None:
    """What the key says, None where it is not there; relative paths are taken from `folder`. Raises InventoryError with the place."""
    if "cordon" not in document:
        return None
    found, mark = document["cordon"], document.value_marks["cordon"]
    if found == By.SLURM.value:
        return CordonBy(By.SLURM)
    if not isinstance(found, LocatedMap):
        raise InventoryError(f"cordon is {described(found)}, {_EXPECTED}", mark)
    check_keys(found, ("hostfile", "golden", "command", "seconds"), "cordon")
    ways = [way for way in (By.HOSTFILE, By.GOLDEN, By.COMMAND) if way.value in found]
    if len(ways) != 1:
        raise InventoryError(f"cordon names {len(ways)} ways to keep jobs away, {_EXPECTED}", mark)
    way = ways[0]
    value, place = found[way.value], found.value_marks[way.value]
    if way is not By.COMMAND:
        if "seconds" in found:
            raise InventoryError("cordon.seconds goes with a command only", found.key_marks["seconds"])
        return CordonBy(way, path=_file(_word(value, place, f"cordon.{way.value}", "a file name"), folder))
    return CordonBy(way, argv=_argv(value, place, folder), seconds=_seconds(found))


def _argv(value: Any, place: Mark, folder: Path) -> tuple[str, ...]:
    expected = "a list of a program and its words, such as [/opt/site/cordon, --now]"
    if not isinstance(value, LocatedList) or not 0 < len(value) <= _MOST_WORDS:
        raise InventoryError(f"cordon.command is {described(value)}, expected {expected}, of at most {_MOST_WORDS}", place)
    # A number is a word as it was spelt.
    words = [_word(value.written.get(at, word), value.value_marks[at], "cordon.command", expected) for at, word in enumerate(value)]
    # A bare name is looked up in PATH.
    return (_file(words[0], folder) if "/" in words[0] else words[0], *words[1:])


def _seconds(found: LocatedMap) -> float:
    value = found.get("seconds", 30)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _LONGEST_S:
        raise InventoryError(f"cordon.seconds is {described(value)}, expected a number above 0, at most {_LONGEST_S}",
                             found.value_marks["seconds"])
    return float(value)


def _word(value: Any, place: Mark, key: str, expected: str) -> str:
    if not isinstance(value, str) or not value or len(value) > _MOST or not value.isprintable():
        raise InventoryError(f"{key} is {described(value)}, expected {expected}", place)
    return value


def _file(text: str, folder: Path) -> str:
    return str(folder / os.path.expanduser(text))  # noqa: PTH111  (knows ~user, never raises)
