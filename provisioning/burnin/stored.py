"""Finds a stored burn-in by a run's id or a file, or the newest."""

from __future__ import annotations

from pathlib import Path

from healthcheck.burnin.document import FOLDER, SUFFIX, kept
from inventory.errors import UsageError


def chosen(which: str | None, folder: Path) -> Path:
    """The document of a run that the state folder keeps, the file of that name, or the newest run; raises
    UsageError."""
    if which is not None and ("/" in which or Path(which).is_file()):
        return Path(which)
    if which is not None:
        path = folder / FOLDER / f"{which}{SUFFIX}"
        if not path.is_file():
            raise UsageError(f"{which}: no such burn-in is stored; see: muster burnin show --list")
        return path
    found = kept(folder)
    if not found:
        raise UsageError(f"no burn-in is stored in {folder}: run `muster burnin run NODES` first")
    return found[0]
