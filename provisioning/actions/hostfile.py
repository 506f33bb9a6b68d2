"""A file of hosts that launch scripts leave out: a node a line, and a reason behind #.

    gpu007  # muster#12: gpu-ecc-uncorrected: GPU 3
    gpu031  # fan, Tuesday

Lines that carry no mark of ours are a person's and stay as they are, to the byte.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from healthcheck.store.marks import mark_of
from provisioning.actions.base import ActionError, Holder, NodeHold
from provisioning.actions.lines import change_lines, names_of, read_lines


class HostFile:
    """The file at `path`, which need not exist yet."""

    name = "hostfile"

    def __init__(self, path: Path) -> None:
        self.path = path

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
        """Who wrote each node into the file; that no one did is all that a file can say of the others."""
        return self._held(read_lines(self.path, must=False), nodes)

    def marked(self, names: Collection[str]) -> Mapping[str, NodeHold]:
        """All names on lines with a mark, also where a person wrote a line of their own."""
        lines = read_lines(self.path, must=False)
        ours = dict.fromkeys(name for line in lines if mark_of(_reason(line)) is not None
                             for name in names_of(line, self.path))
        return {node: held for node, held in self._held(lines, ours).items() if held.mark is not None}

    def _held(self, lines: Sequence[str], nodes: Collection[str]) -> Mapping[str, NodeHold]:
        found = {node: NodeHold(Holder.NO_ONE) for node in nodes}
        for line in lines:
            reason = _reason(line)
            mark = mark_of(reason)
            for name in names_of(line, self.path):
                before = found.get(name)
                if before is None:
                    continue
                if mark is None:
                    found[name] = NodeHold(Holder.OTHERS, reason, before.mark)
                else:
                    found[name] = replace(before, mark=mark) if before.holder is Holder.OTHERS else NodeHold(
                        Holder.US, reason, mark)
        return found

    def isolate(self, node: str, reason: str) -> None:
        """Adds a line, unless by now one is there."""
        def edit(lines: Sequence[str]) -> Sequence[str]:
            if (now := self._held(lines, [node])[node]).holder is not Holder.NO_ONE:
                raise ActionError(f"others hold it now: {now.reason}")
            return [*lines, f"{node}  # {reason}"]

        change_lines(self.path, edit, must=False)

    def release(self, node: str, shown: str = "") -> None:
        """Takes our lines of this node out."""
        change_lines(
            self.path, lambda lines: [line for line, ours in self._marked(lines, node, shown) if not ours],
            must=False)

    def rewrite(self, node: str, shown: str, reason: str) -> None:
        """Writes other words into our line."""
        change_lines(self.path,
                     lambda lines: [f"{node}  # {reason}" if ours else line
                                    for line, ours in self._marked(lines, node, shown)], must=False)

    def also(self, old: str, new: str, shown: str) -> None:
        """Adds a line of the new name."""
        self.isolate(new, shown)

    def left(self, old: str, shown: str) -> None:
        """Takes our line of the old name out."""
        self.release(old, shown)

    def _marked(self, lines: Sequence[str], node: str, shown: str) -> list[tuple[str, bool]]:
        """Each line, and whether it is ours of this node; raises ActionError where ours was edited."""
        found = [(line, self._ours(line, node)) for line in lines]
        if shown and not any(ours for _, ours in found):
            raise ActionError(f"{self.path}: no line of its own bears our mark; edit it by hand")
        if shown and any(ours and _reason(line) != shown for line, ours in found):
            raise ActionError("others hold it now: " + next(
                _reason(line) for line, ours in found if ours and _reason(line) != shown))
        return found

    def _ours(self, line: str, node: str) -> bool:
        return mark_of(_reason(line)) is not None and names_of(line, self.path) == (node,)


def _reason(line: str) -> str:
    return line.partition("#")[2].strip()
