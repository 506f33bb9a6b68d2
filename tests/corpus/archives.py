"""The recorded fleets: archives in `fleets/`, each a saved sweep with what was planted on its nodes."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

FLEETS = Path(__file__).with_name("fleets")
NAMES = sorted(path.name.partition(".")[0] for path in FLEETS.iterdir())
Unpacked: TypeAlias = Callable[[str], Path]


def unpack(name: str, folder: Path) -> None:
    """The fleet's saved sweep is in this folder."""
    with tarfile.open(FLEETS / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
