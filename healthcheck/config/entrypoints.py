"""Which plug-ins are installed. importlib.metadata is asked only where there may be one: to import it takes
longer than reading the rules."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "muster.checks"


def entries() -> Sequence[EntryPoint]:
    """The entry points of the group `muster.checks`."""
    if not _may_be_there():
        return ()
    from importlib import metadata

    return tuple(metadata.entry_points(group=GROUP))


def _may_be_there() -> bool:
    """Whether a package names the group, or lies where only importlib.metadata finds it."""
    return (any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder)
            or any(map(_may_hold, map(Path, sys.path))))


def _may_hold(place: Path) -> bool:
    if place.suffix.lower() == ".egg":
        return True
    try:
        names = os.listdir(place)  # noqa: PTH208  (an iterator of paths takes thrice the time)
    except NotADirectoryError:
        return True         # an archive
    except OSError:
        return False
    return any(_names_it(place / name / "entry_points.txt") for name in names
               if name.lower().endswith((".dist-info", ".egg-info")))


def _names_it(file: Path) -> bool:
    try:
        return GROUP.encode() in file.read_bytes()
    except OSError:
        return False
