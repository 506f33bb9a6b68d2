"""A text file that people and muster edit: read within bounds, changed under a lock, written whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from healthcheck.config.files import write_whole
from inventory.errors import InventoryError
from inventory.lock import locked
from inventory.nodeset import expand
from provisioning.actions.base import ActionError

_LARGEST = 16 * 1024 * 1024


def read_lines(path: Path, *, must: bool) -> list[str]:
    """Its lines without ends; none without the file, unless there `must` be one. Raises ActionError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if not must:
            return []
        raise ActionError(f"{path}: no such file; write the nodes that jobs may use into it, a node or a set "
                          "a line") from None
    except OSError as error:
        raise ActionError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise ActionError(f"{path}: is over {_LARGEST} bytes, which is no file of hosts")
    # Not splitlines, which also takes a form feed in someone's reason for the end of a line.
    return data.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n") if data else []


def change_lines(path: Path, edit: Callable[[Sequence[str]], Sequence[str]], *, must: bool) -> None:
    """`edit` makes new lines of the old; no writer undoes what another has done. Raises ActionError."""
    try:
        # Whoever shares the file may have made the name a link, and let a group write.
        real = Path(os.path.realpath(path))
        if must and not real.exists():
            read_lines(path, must=True)
        with locked(real, make=not must) as status:
            before = read_lines(path, must=must)
            after = edit(before)
            if after != before:
                text = "".join(f"{line}\n" for line in after)
                write_whole(real, text.encode("utf-8", "surrogateescape"), status.st_mode & 0o777)
    except OSError as error:
        raise ActionError(f"{path}: cannot be written: {error.strerror}") from None


def names_of(text: str, path: Path) -> tuple[str, ...]:
    """The nodes that stand before the # of a line. Raises ActionError for what is no node set."""
    names = text.partition("#")[0].split()
    if not names:
        return ()
    try:
        return expand(",".join(names))
    except InventoryError as error:
        raise ActionError(f"{path}: {error}") from None
