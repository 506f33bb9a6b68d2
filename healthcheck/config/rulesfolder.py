"""Finds the packaged rules, in a checkout or in an installed wheel, and a site's own."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from inventory.errors import UsageError

# Data files beside the rules that have readers of their own.
NOT_RULES = ("policy.yaml", "gate.yaml", "certificate.yaml", "xid.yaml", "sxid.yaml", "burnin.yaml",
             "burnin-floors.yaml", "bringup.yaml", "pxe.yaml", "images.yaml")


@cache
def packaged() -> Path:
    """The folder of the rules that ship with muster."""
    here = Path(__file__).resolve().parents[1]
    for folder in (here / "_rules", here.parent / "rules"):
        if (folder / "sku").is_dir():
            return folder
    raise UsageError("the packaged rules are missing: reinstall cluster-muster")


def display_name(file: str) -> str:
    """A rules file's name in documents; a packaged one's folder differs between heads."""
    path = Path(file)
    return f"the packaged {path.name}" if packaged() in path.parents else file


def folders(option: str | None) -> list[Path]:
    """The folders of rules; a later one overrides an earlier one by id.

    Packaged, then /etc/muster/rules, then the user's configuration folder, then --rules, which must exist.
    """
    user = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "muster" / "rules"
    found = [packaged(), *(folder for folder in (Path("/etc/muster/rules"), user) if folder.is_dir())]
    if option is not None:
        folder = Path(option)
        if not folder.is_dir():
            raise UsageError(f"--rules {option}: no such folder")
        found.append(folder)
    return found
