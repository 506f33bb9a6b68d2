"""Keeps changes in the state folder, one document each, written whole: STATE/changes/NAME.json."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from healthcheck.change.document import document
from healthcheck.change.documentread import load
from healthcheck.change.model import SiteChange
from healthcheck.config.files import make_folder, write_whole
from inventory.errors import ConfigError, UsageError
from inventory.text import short

FOLDER = "changes"
_SUFFIX = ".json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", re.ASCII)


def checked(name: str) -> str:
    """The name, if a change may have it; raises UsageError."""
    if _NAME.fullmatch(name) is None or name.endswith(_SUFFIX):
        raise UsageError(f"{short(name)} cannot be a change's name: expected letters, digits, dots, dashes "
                         "and underscores, at most 80, and a letter or a digit first, such as driver-575")
    return name


def write(state: Path, change: SiteChange) -> Path:
    """Afterwards the change is stored, whole; raises OSError and UsageError, and then all is as before."""
    folder = state / FOLDER
    make_folder(folder, "the state folder (--state, MUSTER_STATE)")
    path = folder / f"{checked(change.name)}{_SUFFIX}"
    write_whole(path, json.dumps(document(change), ensure_ascii=False, indent=1).encode() + b"\n")
    return path


def exists(state: Path, name: str) -> bool:
    """Whether there is a change of that name."""
    return os.path.lexists(state / FOLDER / f"{checked(name)}{_SUFFIX}")


def named(state: Path, name: str) -> SiteChange:
    """The change of that name; raises UsageError where there is none, ConfigError for a damaged one."""
    path = state / FOLDER / f"{checked(name)}{_SUFFIX}"
    if not path.is_file():
        raise UsageError(f"{name}: no such change; see: muster change list")
    found = load(path)
    if found.name != name:
        raise ConfigError(f"{path}: name: expected {name}, got {short(found.name)}")
    return found


def names(state: Path) -> tuple[str, ...]:
    """The names of all changes, sorted; other files are passed over."""
    try:
        found = [entry.name for entry in os.scandir(state / FOLDER) if entry.is_file()]
    except OSError:
        return ()
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)
                        and _NAME.fullmatch(name.removesuffix(_SUFFIX)) is not None))


def every(state: Path) -> Iterator[SiteChange | ConfigError]:
    """Each stored change by name; in the place of one that cannot be read, why."""
    for name in names(state):
        try:
            yield named(state, name)
        except ConfigError as error:
            yield error
        except UsageError:
            continue        # removed meanwhile
