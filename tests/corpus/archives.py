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
        # Since 3.11.4; Debian 12 has 3.11.2. Python 3.14 does so by itself.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(folder)      # noqa: S202  (our own)
