"""Where the inventory file and the state folder are found: option, environment, then the customary places."""

from __future__ import annotations

import os
from pathlib import Path

from inventory.errors import UsageError

FILE_NAME = "muster.yaml"


def find_inventory(option: str | None) -> Path | None:
    """The inventory to read: `option`, else MUSTER_INVENTORY, else the first of the customary places that exists, else None.

    A file that was named (by option or environment) is returned whether it exists or not, so that reading it says what is wrong.
    Raises UsageError when a name is empty.
    """
    named = _named("--inventory", option, "MUSTER_INVENTORY")
    if named is not None:
        return named
    return next((place for place in customary_places() if _there(place)), None)


def customary_places() -> tuple[Path, ...]:
    """Where an inventory is looked for when none is named, in this order."""
    config = _base_folder("XDG_CONFIG_HOME", ".config")
    user = () if config is None else (config / "muster" / FILE_NAME,)
    return (Path(FILE_NAME), *user, Path("/etc/muster") / FILE_NAME)


def state_dir(option: str | None) -> Path:
    """The folder that keeps what lasts between runs: `option`, else MUSTER_STATE, else the customary one; it may not exist yet.

    Customary is /var/lib/muster for root, and $XDG_STATE_HOME/muster or ~/.local/state/muster for others.
    Raises UsageError when a name is empty, or when there is no home folder to be found.
    """
    named = _named("--state", option, "MUSTER_STATE")
    if named is not None:
        return named
    if os.geteuid() == 0:
        return Path("/var/lib/muster")
    state = _base_folder("XDG_STATE_HOME", ".local/state")
    if state is None:
        raise UsageError("no home folder is known to keep state in: name a folder with --state or MUSTER_STATE")
    return state / "muster"


def _named(what: str, option: str | None, variable: str) -> Path | None:
    if option is not None:
        if not option:
            raise UsageError(f"{what} is empty, expected a path")
        return _expanded(option)
    value = os.environ.get(variable, "")     # set but empty counts as unset, as is the custom for the XDG variables
    return Path(value) if value else None


def _expanded(option: str) -> Path:
    try:
        return Path(option).expanduser()     # a shell leaves the ~ of --inventory=~/x alone
    except RuntimeError:
        return Path(option)


def _base_folder(variable: str, below_home: str) -> Path | None:
    value = os.environ.get(variable, "")
    if value.startswith("/"):                # the XDG specification: a relative path is to be ignored
        return Path(value)
    try:
        return Path.home() / below_home
    except RuntimeError:
        return None


def _there(place: Path) -> bool:
    """Whether something stands there; what may not be seen counts, so that the error names it rather than passing it over."""
    try:
        return place.exists()
    except OSError:
        return True
