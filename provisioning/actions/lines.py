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
_BYTE_ORDER_MARK = "\ufeff"      # some editors write one; it stays where it is


def read_lines(path: Path, *, must: bool) -> list[str]:
    """Its lines without ends; none without the file, unless there `must` be one. Raises ActionError, also for
    a line that names no nodes."""
    return _lines(_read(path, must=must), path)


def _read(path: Path, *, must: bool) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if not must:
            return ""
        raise ActionError(f"{path}: no such file; write the nodes that jobs may use into it, a node or a set "
                          "a line") from None
    except OSError as error:
        raise ActionError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise ActionError(f"{path}: is over {_LARGEST} bytes, which is no file of hosts")
    return data.decode("utf-8", "surrogateescape")


def _lines(text: str, path: Path) -> list[str]:
    text = text.removeprefix(_BYTE_ORDER_MARK)
    # Not splitlines, which also takes a form feed in someone's reason for the end of a line.
    lines = text.removesuffix("\n").split("\n") if text else []
    for number, line in enumerate(lines, 1):
        names_of(line, f"{path}:{number}")
    return lines


def change_lines(path: Path, edit: Callable[[Sequence[str]], Sequence[str]], *, must: bool) -> None:
    """`edit` makes new lines of the old; no writer undoes what another has done. Raises ActionError."""
    try:
        # Whoever shares the file may have made the name a link, and let a group write.
        real = Path(os.path.realpath(path))
        if must and not real.exists():
            read_lines(path, must=True)
        with locked(real, make=not must) as status:
            text = _read(path, must=must)
            before = _lines(text, path)
            after = edit(before)
            if after != before:
                begin = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
                made = begin + "".join(f"{line}\n" for line in after)
                write_whole(real, made.encode("utf-8", "surrogateescape"), status.st_mode & 0o777)
    except OSError as error:
        raise ActionError(f"{path}: cannot be written: {error.strerror}") from None


def names_of(text: str, where: Path | str) -> tuple[str, ...]:
    """The nodes that stand before the # of a line. Raises ActionError for what is no node set."""
    names = text.partition("#")[0].split()
    if not names:
        return ()
    try:
        return expand(",".join(names))
    except InventoryError as error:
        raise ActionError(f"{where}: {error}") from None
