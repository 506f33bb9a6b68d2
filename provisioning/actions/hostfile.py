"""A file of hosts that launch scripts leave out: a node a line, and a reason behind #.

    gpu007  # muster#12: gpu-ecc-uncorrected: GPU 3
    gpu031  # fan, Tuesday

Lines that carry no mark of ours are a person's and stay as they are, to the byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from healthcheck.files import write_whole
from inventory.errors import InventoryError
from inventory.lock import locked
from inventory.nodeset import expand
from provisioning.actions.base import ActionError, Held, Holder, number_of

_LARGEST = 16 * 1024 * 1024

Edit = Callable[[list[str]], list[str]]


class HostFile:
    """The file at `path`, which need not exist yet."""

    name = "hostfile"

    def __init__(self, path: Path) -> None:
        self.path = path

    def held(self, nodes: Collection[str]) -> Mapping[str, Held]:
        """Who wrote each node into the file; that nobody did is all that a file can say of the others."""
        found = {node: Held(Holder.NOBODY) for node in nodes}
        for names, reason in map(self._line, self._lines()):
            number = number_of(reason)
            for name in names:
                before = found.get(name)
                if before is None:
                    continue
                if number is None:
                    found[name] = Held(Holder.OTHERS, reason, before.number)
                else:
                    found[name] = replace(before, number=number) if before.holder is Holder.OTHERS else Held(Holder.US, reason, number)
        return found

    def isolate(self, node: str, reason: str) -> None:
        """Adds a line."""
        self._change(lambda lines: [*lines, f"{node}  # {reason}"])

    def release(self, node: str) -> None:
        """Takes our lines of this node out."""
        self._change(lambda lines: [line for line in lines if not self._ours(line, node)])

    def _ours(self, line: str, node: str) -> bool:
        names, reason = self._line(line)
        return names == (node,) and number_of(reason) is not None

    def _change(self, edit: Edit) -> None:
        try:
            # Whoever shares the file may have made the name a link, and let a group write.
            path = Path(os.path.realpath(self.path))
            with locked(path, make=True) as status:
                lines = edit(list(self._lines()))
                write_whole(path, "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"), status.st_mode & 0o777)
        except OSError as error:
            raise ActionError(f"{self.path}: cannot be written: {error.strerror}") from None

    def _lines(self) -> Iterator[str]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ActionError(f"{self.path}: cannot be read: {error.strerror}") from None
        if len(data) > _LARGEST:
            raise ActionError(f"{self.path}: is over {_LARGEST} bytes, which is no file of hosts")
        # Not splitlines, which also takes a form feed in somebody's reason for the end of a line.
        yield from data.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n") if data else ()

    def _line(self, line: str) -> tuple[tuple[str, ...], str]:
        """The nodes of a line, and what stands behind the #."""
        names, _, reason = line.partition("#")
        if not names.strip():
            return (), ""
        try:
            return expand(names.strip().replace(" ", ",")), reason.strip()
        except InventoryError as error:
            raise ActionError(f"{self.path}: {error}") from None
