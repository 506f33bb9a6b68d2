"""Where the inventory file and our state are found: by option, environment, then the usual places."""

from __future__ import annotations

import os
from pathlib import Path

from inventory.errors import InventoryError, UsageError


def find_inventory(option: str | None = None) -> Path | None:
    """The inventory: the option, MUSTER_INVENTORY, ./muster.yaml, ~/.config/muster/muster.yaml,
    /etc/muster/muster.yaml, or None. InventoryError for a missing one that was named."""
    if (named := _named(option, "--inventory", "MUSTER_INVENTORY")) is not None:
        path, what = named
        if not os.path.lexists(path):
            raise InventoryError(f"{path}: no such file (named by {what})")
        return path
    for path in (Path("muster.yaml"), _user_folder("XDG_CONFIG_HOME", ".config") / "muster.yaml",
                 Path("/etc/muster/muster.yaml")):
        if os.path.lexists(path):
            if not path.is_absolute():
                _trusted(path)
            return path
    return None


def needed_inventory(option: str | None, why: str) -> Path:
    """The same; raises UsageError, which says why one is needed, where there is none."""
    path = find_inventory(option)
    if path is None:
        raise UsageError(why)
    return path


def _trusted(path: Path) -> None:
    """An inventory decides what runs where and as whom: one found in this folder must be ours or root's."""
    for place in (path, path.absolute().parent):
        try:
            found = place.stat()
        except OSError:
            return  # whoever reads it says why it cannot be read
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o002:
            raise InventoryError(
                f"{path}: {place} is writable by others; if you trust it, name it: --inventory {path}")


def state_dir(option: str | None = None) -> Path:
    """Where our state is kept: the option, MUSTER_STATE, else /var/lib/muster for root, else
    $XDG_STATE_HOME/muster. It need not exist. Raises UsageError when the named path is no folder."""
    if (named := _named(option, "--state", "MUSTER_STATE")) is not None:
        path, what = named
        if os.path.lexists(path) and not os.path.isdir(path):  # noqa: PTH112  (False, not an error, where we may not look)
            raise UsageError(f"{path}: not a folder (named by {what})")
        return path
    return Path("/var/lib/muster") if os.geteuid() == 0 else _user_folder("XDG_STATE_HOME", ".local/state")


def _named(option: str | None, what: str, variable: str) -> tuple[Path, str] | None:
    """What the option names, else the variable; an empty option is an error, an empty variable unset."""
    if option is not None:
        if not option:
            raise UsageError(f"{what} is empty, expected a path")
        return _at_home(option), what
    given = os.environ.get(variable, "")
    return (_at_home(given), variable) if given else None


def _at_home(path: str) -> Path:
    return Path(os.path.expanduser(path))  # noqa: PTH111  (never raises)


def _user_folder(variable: str, below_home: str) -> Path:
    """A folder of the XDG base directory specification, which says that a relative path is to be ignored."""
    given = os.environ.get(variable, "")
    base = Path(given) if given.startswith("/") else _at_home("~") / below_home
    return base / "muster"
