"""A golden set: a file of the nodes that jobs may use, a node or a node set a line, and comments.

    gpu[001-006,008-512]  # rows 1 to 8
    # muster#12: gpu-ecc-uncorrected: GPU 3  gpu007 of gpu[001-512]
    # muster#13: slow link  spare4  # was in row 9

A node that we take out leaves a comment beneath its line, or in its place where it stood there alone. Behind
the reason and two blanks the comment keeps what stood there, so that the file is as it was once the node is
back. A node that is missing and has no such comment was taken out by a person, or never was there, and is not
put in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from healthcheck.store.marks import mark_of
from inventory.nodeset import fold
from provisioning.actions.base import ActionError, Holder, NodeHold
from provisioning.actions.lines import change_lines, names_of, read_lines

_MARK = re.compile(r"# (muster(?::[0-9a-f]{4,16})?#[1-9][0-9]{0,11}:(?: \S.*?)?)  (.+)", re.DOTALL)
_PART = re.compile(r"(\S+) of (.*)", re.DOTALL)     # one node of a set that others of are still there
_LINE = re.compile(r"([^#]*?)(\s*(?:#.*)?)", re.DOTALL)
_TOKEN = re.compile(r"([\s,]*)((?:[^\s,\[\]]|\[[^\]]*\])+)")
_OPERATORS = frozenset("!&^")


@dataclass(frozen=True)
class _Out:
    """A node that we took out: why, and what stood there: the whole line, or the names of the line above."""

    node: str
    reason: str
    line: str | None = None
    names: str = ""


class GoldenSet:
    """The file at `path`. One that is not there is no empty set, but an error."""

    name = "golden"

    def __init__(self, path: Path) -> None:
        self.path = path

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
        """No one holds what is in the set; of the rest, we hold what has our comment, others all else."""
        return self._held(read_lines(self.path, must=True), nodes)

    def marked(self, names: Collection[str]) -> Mapping[str, NodeHold]:
        """All nodes that a comment of ours took out."""
        lines = read_lines(self.path, must=True)
        ours = dict.fromkeys(out.node for line in lines if (out := self._out(line)) is not None)
        return {node: held for node, held in self._held(lines, ours).items() if held.mark is not None}

    def _held(self, lines: Sequence[str], nodes: Collection[str]) -> Mapping[str, NodeHold]:
        inside = {name for line in lines for name in names_of(line, self.path)}
        ours = {out.node: out.reason for line in lines if (out := self._out(line)) is not None}
        return {node: NodeHold(Holder.NO_ONE) if node in inside
                else NodeHold(Holder.US, ours[node], mark_of(ours[node])) if node in ours
                else NodeHold(Holder.OTHERS, f"it is not in {self.path.name}") for node in nodes}

    def isolate(self, node: str, reason: str) -> None:
        """Takes the node out of each line, and nothing else."""
        def edit(lines: Sequence[str]) -> Sequence[str]:
            if (now := self._held(lines, [node])[node]).holder is not Holder.NO_ONE:
                raise ActionError(f"others hold it now: {now.reason}")
            return list(self._without(self._forget(lines, node), node, _one_blank(reason)))

        change_lines(self.path, edit, must=True)

    def release(self, node: str, shown: str = "") -> None:
        """Puts the node back where we took it from, unless a person has removed that line since."""
        def edit(lines: Sequence[str]) -> Sequence[str]:
            self._check_unchanged(lines, node, shown)
            return self._with(lines, node)

        change_lines(self.path, edit, must=True)

    def rewrite(self, node: str, shown: str, reason: str) -> None:
        """Writes other words into our comment."""
        def edit(lines: Sequence[str]) -> Sequence[str]:
            self._check_unchanged(lines, node, shown)
            outs = [(line, self._out(line)) for line in lines]
            return [line.replace(out.reason, _one_blank(reason), 1) if out is not None and out.node == node
                    else line for line, out in outs]

        change_lines(self.path, edit, must=True)

    def also(self, old: str, new: str, shown: str) -> None:
        """Adds a comment of ours with the new name, which comes into the file when it is given back; where it
        is in the file already, it is taken out."""
        def edit(lines: Sequence[str]) -> Sequence[str]:
            self._check_unchanged(lines, old, shown)
            if self._held(lines, [new])[new].holder is Holder.NO_ONE:
                return list(self._without(self._forget(lines, new), new, _one_blank(shown)))
            at = max(at for at, line in enumerate(lines)
                     if (out := self._out(line)) is not None and out.node == old)
            return [*lines[:at + 1], f"# {_one_blank(shown)}  {new}", *lines[at + 1:]]

        change_lines(self.path, edit, must=True)

    def left(self, old: str, shown: str) -> None:
        """Takes our comments of the old name out, and that name out of what others would be put back to."""
        def edit(lines: Sequence[str]) -> Sequence[str]:
            self._check_unchanged(lines, old, shown)
            return [line if (out := self._out(line)) is None or out.line is not None
                    or old not in names_of(out.names, self.path)
                    else f"# {out.reason}  {out.node} of {self._rewritten(out.names, {old})}"
                    for line in self._forget(lines, old)]

        change_lines(self.path, edit, must=True)

    def _check_unchanged(self, lines: Sequence[str], node: str, shown: str) -> None:
        now = self._held(lines, [node])[node]
        if shown and now.reason != shown:
            raise ActionError("someone has given it back" if now.holder is Holder.NO_ONE
                              else f"others hold it now: {now.reason}")

    def _forget(self, lines: Sequence[str], node: str) -> list[str]:
        """Without comments of ours of a node that someone has put back in meanwhile."""
        return [line for line in lines if (out := self._out(line)) is None or out.node != node]

    def _without(self, lines: Sequence[str], node: str, reason: str) -> Iterator[str]:
        for at, line in enumerate(lines):
            names = names_of(line, self.path)
            if node not in names:
                yield line
            elif names == (node,) and not any(True for _ in self._outs_below(lines, at)):
                yield f"# {reason}  {line}"
            else:
                text, behind = _parts(line)
                yield f"{self._rewritten(text, {node})}{behind}"
                yield f"# {reason}  {node} of {self._whole(lines, at, text)}"

    def _with(self, lines: Sequence[str], node: str) -> list[str]:
        done = list(lines)
        gone: set[int] = set()
        for at, line in enumerate(lines):
            out = self._out(line)
            if out is None or out.node != node:
                continue
            if out.line is not None:
                done[at] = out.line
                continue
            gone.add(at)
            above = next((above for above in range(at - 1, -1, -1) if self._belongs(lines, above, out)), None)
            if above is not None:
                done[above] = self._put_back(done[above], out, self._missing(lines, above, out.names))
        return [line for at, line in enumerate(done) if at not in gone]

    def _belongs(self, lines: Sequence[str], at: int, out: _Out) -> bool:
        """Whether a line above is where a node was taken from; a person may add comments in between."""
        line = lines[at]
        return self._out(line) is None and (
            bool(names_of(line, self.path))
            or _parts(line)[0] == self._rewritten(out.names, self._missing(lines, at, out.names)))

    def _whole(self, lines: Sequence[str], at: int, text: str) -> str:
        """The names of a line before we took the first node out, unless a person has edited it since."""
        names = next((out.names for out in self._outs_below(lines, at)), text)
        return names if text == self._rewritten(names, self._missing(lines, at, names)) else text

    def _missing(self, lines: Sequence[str], at: int, names: str) -> set[str]:
        return {out.node for out in self._outs_below(lines, at) if out.names == names}

    def _put_back(self, line: str, out: _Out, missing: set[str]) -> str:
        text, behind = _parts(line)
        if text == self._rewritten(out.names, missing):
            return f"{self._rewritten(out.names, missing - {out.node})}{behind}"
        # A person has edited the line since: the node comes to what is left of its set, or stays out where
        # nothing is.
        now = names_of(text, self.path)
        if out.node in now or not set(now) & set(names_of(out.names, self.path)):
            return line
        return f"{text},{out.node}{behind}"

    def _outs_below(self, lines: Sequence[str], at: int) -> Iterator[_Out]:
        """The comments of ours that may belong to a line: all that follow it, up to the next with nodes."""
        for line in lines[at + 1:]:
            out = self._out(line)
            if out is not None and out.line is None:
                yield out
            elif out is None and names_of(line, self.path):
                return

    def _out(self, line: str) -> _Out | None:
        mark = _MARK.fullmatch(line)
        if mark is None:
            return None
        part = _PART.fullmatch(mark[2])
        if part is not None:
            return _Out(part[1], mark[1], names=part[2])
        try:
            names = names_of(mark[2], self.path)
        except ActionError:     # it only looks like ours
            return None
        return _Out(names[0], mark[1], line=mark[2]) if len(names) == 1 else None

    def _rewritten(self, text: str, gone: Collection[str]) -> str:
        """Node sets without some nodes; what names none of these stays as it is written."""
        if _OPERATORS & set(text):
            raise ActionError(f"{self.path}: a set with !, & or ^ cannot be edited; write names and ranges, "
                              "with commas between them")
        kept = ""
        for between, token in _TOKEN.findall(text):
            names = names_of(token, self.path)
            left = token if not set(gone) & set(names) else fold(name for name in names if name not in gone)
            kept += f"{between}{left}" if kept and left else left
        # What a line begins with is kept with its names, and comes back with them.
        return f"{text[: len(text) - len(text.lstrip())]}{kept}" if kept else ""


def _one_blank(reason: str) -> str:
    """Two blanks end the reason in the file."""
    return " ".join(reason.split())


def _parts(line: str) -> tuple[str, str]:
    """The names of a line, and what stands behind them."""
    match = _LINE.fullmatch(line)
    assert match is not None  # noqa: S101  (it takes every text)
    return match[1], match[2]
