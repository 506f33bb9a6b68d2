"""Folds what is said of many nodes: equal reasons once, with the nodes as one node set."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from inventory.nodeset import fold
from inventory.transport.base import Stage

_OF_A_HOP = f"{Stage.JUMP.value}: "
_INSIDE, _WORD = re.compile(r"[\w.]"), re.compile(r"[\w-]")      # a name that goes on is another name
_LONGEST = 80       # characters of what stands for many addresses
# A word of our own commands: what follows in the sentence is typed into a shell.
_COMMAND = re.compile(r"(?:^|[\s`(])(?:muster|ssh|ssh-keygen)\s[^;,`]*$")
_OWN = re.compile(
    r"(?P<print>SHA256:[A-Za-z0-9+/]{43})"
    r"|(?P<address>\[[0-9A-Za-z.:%_-]+\](?::\d+)?|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.]))"
    r"|(?P<number>(?<=within )[\d.]+(?= s)|(?<=after )[\d.]+(?= s)|(?<=for )[\d.]+(?= s)"
    r"|(?<=tried )\d+(?= times)|(?<=:)\d+(?= (?:holds|expects|marks)\b))")


@dataclass(frozen=True)
class FoldedReason:
    """One reason of several nodes, in the order of the first of each; `names` is their node set."""

    nodes: tuple[str, ...]
    text: str

    @property
    def names(self) -> str:
        """The node set."""
        return fold(self.nodes)


_Template = tuple[tuple[str, str], ...]


class _Member(NamedTuple):
    """One node's reason: its place in the order, and the words taken out of it."""

    at: int
    node: str
    reason: str
    values: tuple[str, ...]


def fold_reasons(reasons: Iterable[tuple[str, str]]) -> list[FoldedReason]:
    """The pairs of node and reason, equal ones folded, in the order of their first nodes. Equal are reasons
    that differ only in the node's own name, address, fingerprint or waited time; of a jump host only the
    last. The text then names the node set, quoted where it stands in a command to type."""
    groups: dict[_Template, list[_Member]] = {}
    for at, (node, reason) in enumerate(reasons):
        template, values = _template(node, reason)
        groups.setdefault(template, []).append(_Member(at, node, reason, values))
    found = [each for template, members in groups.items() for each in _parted(template, members)]
    return [folded for _, folded in sorted(found, key=lambda each: each[0])]


def _template(node: str, reason: str) -> tuple[_Template, tuple[str, ...]]:
    """The reason in pieces, each of a kind ("" for text, which all share), and the words taken out."""
    pieces: list[tuple[str, str]] = []
    values: list[str] = []
    at = 0
    kinds = ("number",) if reason.startswith(_OF_A_HOP) else ("name", "print", "address", "number")
    for start, end, kind in sorted(_own_words(node, reason)):
        if start >= at and kind in kinds:
            pieces += [("", reason[at:start]), (kind, "")]
            values.append(reason[start:end])
            at = end
    pieces.append(("", reason[at:]))
    return tuple(pieces), tuple(values)


def _own_words(node: str, reason: str) -> Iterator[tuple[int, int, str]]:
    """Where the words stand that may be the node's own, and of which kind they are."""
    start = reason.find(node)
    while start >= 0:
        end = start + len(node)
        if not _INSIDE.match(reason[max(0, start - 1):start]) and not _WORD.match(reason[end:end + 1]):
            yield start, end, "name"
        start = reason.find(node, end)
    for match in _OWN.finditer(reason):
        yield match.start(), match.end(), match.lastgroup or ""


def _parted(template: _Template, members: Sequence[_Member]) -> Iterator[tuple[int, FoldedReason]]:
    """The members as one, or by the addresses that many share; each with the place of its first."""
    kinds = [kind for kind, _ in template if kind]
    shared = [at for at, kind in enumerate(kinds) if kind == "address"
              and len({member.values[at] for member in members}) * 2 <= len(members)]
    parts: dict[tuple[str, ...], list[_Member]] = {}
    for member in members:
        parts.setdefault(tuple(member.values[at] for at in shared), []).append(member)
    for part in parts.values():
        nodes = tuple(dict.fromkeys(member.node for member in part))
        text = part[0].reason if len(nodes) == 1 else _text(template, nodes, part)
        yield part[0].at, FoldedReason(nodes, text)


def _text(template: _Template, nodes: Sequence[str], part: Sequence[_Member]) -> str:
    text, at = "", 0
    for kind, piece in template:
        if not kind:
            text += piece
            continue
        values = list(dict.fromkeys(member.values[at] for member in part))
        at += 1
        if kind == "name":
            names = fold(nodes)
            text += shlex.quote(names) if _COMMAND.search(text) else names
        else:
            text += values[0] if len(values) == 1 else _several(kind, values)
    return text


def _several(kind: str, values: list[str]) -> str:
    if kind == "print":
        return "SHA256:(each its own)"
    if kind == "number":
        numbers = sorted(values, key=float)
        return f"{numbers[0]} to {numbers[-1]}"
    ends = {value.rpartition(":")[2] if ":" in value.rpartition("]")[2] or value.count(":") == 1 else ""
            for value in values}
    if len(ends) == 1:
        end = ends.pop()
        suffix = f":{end}" if end else ""
        folded = fold(value.removesuffix(suffix) for value in values) + suffix
        if len(folded) <= _LONGEST:
            return folded
    return f"each of their addresses ({values[0]} and {len(values) - 1} more)"
