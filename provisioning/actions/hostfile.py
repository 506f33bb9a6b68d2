"""A file of hosts that launch scripts leave out: a node a line, and a reason behind #.

    gpu007  # muster#12: gpu-ecc-uncorrected: GPU 3
    gpu031  # fan, Tuesday

Lines that carry no mark of ours are a person's and stay as they are, to the byte.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from provisioning.actions.base import Held, Holder, number_of
from provisioning.actions.lines import change_lines, names_of, read_lines


class HostFile:
    """The file at `path`, which need not exist yet."""

    name = "hostfile"

    def __init__(self, path: Path) -> None:
        self.path = path

    def held(self, nodes: Collection[str]) -> Mapping[str, Held]:
        """Who wrote each node into the file; that nobody did is all that a file can say of the others."""
        found = {node: Held(Holder.NOBODY) for node in nodes}
        for line in read_lines(self.path, must=False):
            reason = _reason(line)
            number = number_of(reason)
            for name in names_of(line, self.path):
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
        change_lines(self.path, lambda lines: [*lines, f"{node}  # {reason}"], must=False)

    def release(self, node: str) -> None:
        """Takes our lines of this node out."""
        change_lines(self.path, lambda lines: [line for line in lines if not self._ours(line, node)], must=False)

    def _ours(self, line: str, node: str) -> bool:
        return number_of(_reason(line)) is not None and names_of(line, self.path) == (node,)


def _reason(line: str) -> str:
    return line.partition("#")[2].strip()
