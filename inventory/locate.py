"""Where the inventory file and our state are found, by option, environment and custom, in that order."""

from __future__ import annotations

import os
from pathlib import Path

from inventory.errors import InventoryError, UsageError


def find_inventory(option: str | None = None) -> Path | None:
    """The inventory file: the option, MUSTER_INVENTORY, ./muster.yaml, ~/.config/muster/muster.yaml, /etc/muster/muster.yaml.

    None when there is none. What was named (by option or variable) must exist and is never passed over: InventoryError.
    """
    for given, what in ((option, "--inventory"), (os.environ.get("MUSTER_INVENTORY"), "MUSTER_INVENTORY")):
        if given:
            path = Path(given).expanduser()
            if not os.path.lexists(path):
                raise InventoryError(f"{given}: no such file (named by {what})")
            return path
    for path in (Path("muster.yaml"), _user_folder("XDG_CONFIG_HOME", ".config") / "muster.yaml", Path("/etc/muster/muster.yaml")):
        if os.path.lexists(path):
            return path
    return None


def state_dir(option: str | None = None) -> Path:
    """Where our state is kept: the option, MUSTER_STATE, else /var/lib/muster for root, else $XDG_STATE_HOME/muster.

    The folder need not exist; it is the caller's to make. Raises UsageError when what was named is not a folder.
    """
    for given, what in ((option, "--state"), (os.environ.get("MUSTER_STATE"), "MUSTER_STATE")):
        if given:
            path = Path(given).expanduser()
            if path.exists() and not path.is_dir():
                raise UsageError(f"{given}: is not a folder (named by {what})")
            return path
    return Path("/var/lib/muster") if os.geteuid() == 0 else _user_folder("XDG_STATE_HOME", ".local/state")


def _user_folder(variable: str, below_home: str) -> Path:
    """A folder of the XDG base directory specification, which says that a relative path is to be ignored."""
    given = os.environ.get(variable, "")
    base = Path(given) if given.startswith("/") else Path(os.path.expanduser("~"), below_home)  # noqa: PTH111  (never raises)
    return base / "muster"
