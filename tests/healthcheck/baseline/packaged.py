"""The catalogue of known faults that muster comes with."""

from __future__ import annotations

import shutil
from pathlib import Path

from healthcheck.baseline.catalogue import Catalogue
from healthcheck.config.rulesfolder import packaged
from tests import packagedrules


def catalogue() -> Catalogue:
    assert packagedrules.RULES.kernel is not None
    return packagedrules.RULES.kernel.catalogue


def part(folder: Path, *more: str) -> Path:
    """The folder with a part of what ships: one group of entries, all emitters, and these files."""
    shutil.copytree(packaged() / "emitter", folder / "emitter")
    for name in ("kernel/nvme.yaml", *more):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(packaged() / name, folder / name)
    return folder
