"""Node sets in ClusterShell's syntax, expanded and folded with our own groups only, within bounds.

    gpu[001-032]    a range; [1-9/2] with a step; [1,3,7-9] a list
    rack[1-2]-gpu[1-4]      several brackets multiply
    @train          a group; @rack[1-3] several; @all (or @*) every node
    gpu0*           every known node whose name matches (* and ?)
    A,B  A!B  A&B  A^B      union, difference, intersection, symmetric difference, from left to right

The machine's own ClusterShell configuration is never read.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from inventory.errors import InventoryError, Mark
from inventory.text import short

MAX_NODES = 100_000
# nodes named by all entries and groups of one inventory together, each time counted
MAX_MENTIONS = 1_000_000
MAX_NAME = 253      # the longest host name in DNS, RFC 1035
MAX_TEXT = 1_000_000

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_OPERAND = re.compile(r"@?(?:[A-Za-z0-9_.*?-]+|\[[^\[\]]*\])+|@")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"\s*([0-9]{1,18})\s*(?:-\s*([0-9]{1,18})\s*(?:/\s*([0-9]{1,9})\s*)?)?")
_DIGITS = re.compile(r"([0-9]+)")
_EVERYTHING = frozenset({"*", "all"})


def natural(name: str) -> tuple[tuple[str, int, int], ...]:
    """A sort key by which gpu2 stands before gpu10; numbers of equal value are ordered by their padding."""
    parts = _DIGITS.split(name)
    return tuple(
        (parts[at], int(digits) if (digits := parts[at + 1] if at + 1 < len(parts) else "") else -1,
         len(digits))
        for at in range(0, len(parts), 2)
    )


def expand(
    text: str,
    groups: Mapping[str, Sequence[str]] | None = None,
    everything: Collection[str] | None = None,
    mark: Mark | None = None,
) -> tuple[str, ...]:
    """The names that a node set stands for, each once, in natural order. `everything` is what `@all` and
    wildcards choose from (None: not allowed). Raises InventoryError, with `mark` where given, for bad syntax,
    an unknown group, or over 100,000 names."""
    known = groups or {}

    def members(name: str) -> Iterable[str]:
        if name not in known:
            raise _unknown_group(name, known, mark)
        return known[name]

    return tuple(sorted(_Evaluation(text, members, everything, mark).names(), key=natural))


def fold(names: Iterable[str]) -> str:
    """The shortest common spelling of node names, such as gpu[001-061]; `expand` gives them back."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException  # type: ignore[import-untyped]

    names = set(names)
    if (simple := _folded(names)) is not None:
        return simple
    ordered = sorted(names, key=natural)
    if len(ordered) < 2 or not all(map(NAME.fullmatch, ordered)):
        return ",".join(ordered)
    try:
        return str(NodeSet.fromlist(ordered, resolver=RESOLVER_NOGROUP))
    except NodeSetException:     # a number that ClusterShell cannot handle
        return ",".join(ordered)


def _folded(names: Collection[str]) -> str | None:
    """As `fold`, of one word with numbers of one width, else None: ClusterShell takes 0.12 s for 10,000."""
    first = next(iter(names), "")
    word = first.rstrip("0123456789")
    width, cut = len(first), len(word)
    if len(names) < 2 or not 0 < width - cut <= 15 or not NAME.fullmatch(first) or _DIGITS.search(word):
        return None
    numbers: list[int] = []
    for name in names:
        digits = name[cut:]
        if len(name) != width or not name.startswith(word) or not (digits.isascii() and digits.isdigit()):
            return None
        numbers.append(int(digits))
    numbers.sort()
    ranges: list[str] = []
    begin = end = numbers[0]
    for number in (*numbers[1:], None):
        if number is not None and number == end + 1:
            end = number
            continue
        ranges.append(f"{begin:0{width - cut}}" + (f"-{end:0{width - cut}}" if end > begin else ""))
        if number is not None:
            begin = end = number
    return f"{word}[{','.join(ranges)}]"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that a misspelt one most likely means, or None; padding of numbers comes first."""
    pool = list(known)
    plain = _unpadded(word)
    for name in pool:
        if _unpadded(name) == plain:
            return name
    close = difflib.get_close_matches(word, pool[:10_000], n=1, cutoff=0.6)
    return close[0] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error line that names the nearest known word, or ""."""
    guess = nearest(word, known)
    return f"; did you mean {guess}?" if guess is not None else ""


@dataclass
class Groups:
    """Groups as written (name -> texts with marks), expanded on demand; members may be groups. `everything`
    is None while nodes are being named; `@all` and wildcards are then errors."""

    written: Mapping[str, Sequence[tuple[str, Mark]]]
    everything: Collection[str] | None = None
    _done: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)
    _left: int = MAX_MENTIONS

    def expand(self, text: str, mark: Mark | None) -> tuple[str, ...]:
        """As the function `expand`, with these groups; a group that contains itself
        is an error that names the whole cycle."""
        names = self._names(text, mark)
        return tuple(sorted(names, key=natural)) if len(names) > 1 else tuple(names)

    def _names(self, text: str, mark: Mark | None) -> set[str]:
        names = _Evaluation(text, lambda name: self.members(name, mark), self.everything, mark).names()
        self._left -= len(names)
        if self._left < 0:
            raise InventoryError(f"entries and groups name over {MAX_MENTIONS} nodes in all", mark)
        return names

    def members(self, name: str, mark: Mark | None = None) -> tuple[str, ...]:
        """The nodes of one group, in natural order; raises InventoryError."""
        if name in self._done:
            return self._done[name]
        if name not in self.written:
            raise _unknown_group(name, self.written, mark)
        if name in self._open:
            circle = [*self._open[self._open.index(name):], name]
            raise InventoryError(
                f"groups contain each other in a cycle: {' > '.join('@' + each for each in circle)}", mark)
        if len(self._open) >= 50:
            raise InventoryError("groups within groups more than 50 deep", mark)
        self._open.append(name)
        found: set[str] = set()
        try:
            for text, place in self.written[name]:
                found |= self._names(text, place)
        finally:
            self._open.pop()
        self._done[name] = tuple(sorted(found, key=natural))
        return self._done[name]


@dataclass
class _Evaluation:
    """One reading of one node set; `left` is how many more names it may come to see."""

    text: str
    members: Callable[[str], Iterable[str]]
    everything: Collection[str] | None
    mark: Mark | None
    left: int = MAX_NODES

    def names(self) -> set[str]:
        if NAME.fullmatch(self.text):       # by far the commonest case
            return {self.text}
        if len(self.text) > MAX_TEXT:
            raise self.error(f"is over {MAX_TEXT} characters long")
        result: set[str] = set()
        for operator, operand in list(self._terms()):     # all of it is read before any group is looked up
            found = self._operand(operand)
            if operator == ",":
                result |= found
            elif operator == "!":
                result -= found
            elif operator == "&":
                result &= found
            else:
                result ^= found
        return result

    def error(self, what: str) -> InventoryError:
        return InventoryError(f"node set {short(self.text)}: {what}", self.mark)

    def _terms(self) -> Iterator[tuple[str, str]]:
        operator, at, text = ",", 0, self.text.strip()
        while True:
            while text[at: at + 1].isspace():
                at += 1
            operand = _OPERAND.match(text, at)
            if operand is None:
                raise self.error(self._trouble(text, at))
            yield operator, operand[0]
            at = operand.end()
            while text[at: at + 1].isspace():
                at += 1
            if at >= len(text):
                return
            operator = text[at]
            if operator not in ",!&^":
                raise self.error(self._trouble(text, at))
            at += 1

    def _trouble(self, text: str, at: int) -> str:
        if at >= len(text):
            return "a name is missing at its end" if text else "is empty"
        if text[at] == "[":
            return "a bracket is not closed"
        if text[at] == "]":
            return "a closing bracket without an opening one"
        if text[at] == ":" and "@" in text:
            return "groups come from this inventory only; leave out what is before ':'"
        return (f"unexpected {text[at]!a} at character {at + 1}; expected names, ranges or @groups joined by "
                ", ! & ^")

    def _operand(self, operand: str) -> set[str]:
        if operand.startswith("@"):
            found: set[str] = set()
            for name in [operand[1:]] if operand == "@*" else self._pattern(operand[1:]):
                found.update(self._everything("@" + name) if name in _EVERYTHING else self.members(name))
            self._count(len(found))
            return found
        names = self._pattern(operand)
        if "*" not in operand and "?" not in operand:
            for name in names:
                if not NAME.fullmatch(name):
                    raise self.error(
                        f"{short(name)} is not a node name: expected letters, digits, '.', '-', '_', "
                        f"not '.' or '-' first, at most {MAX_NAME} characters")
            return set(names)
        pool = self._everything(operand)
        if len(names) > 100:
            raise self.error("a wildcard beside a range of over 100")
        return {name for mask in names for name in fnmatch.filter(pool, mask)}

    def _everything(self, asked_by: str) -> Collection[str]:
        if self.everything is None:
            raise self.error(f"{asked_by} cannot be used here, where nodes are defined")
        return self.everything

    def _count(self, number: int) -> None:
        self.left -= number
        if self.left < 0:
            raise self.error(f"names over {MAX_NODES} nodes")

    def _pattern(self, pattern: str) -> list[str]:
        if not pattern:
            raise self.error("a group name is missing after @")
        if "[" not in pattern:
            self._count(1)
            return [pattern]
        pieces: list[list[str]] = []
        total = 1
        before = ""
        for ranges, plain in _PIECE.findall(pattern):
            if plain:
                pieces.append([plain])
            else:
                total *= self._size(ranges, before)
                if total > self.left:
                    raise self.error(f"names over {MAX_NODES} nodes")
                pieces.append(self._range(ranges))
            before = plain
        self._count(total)
        return ["".join(parts) for parts in product(*pieces)]

    def _size(self, ranges: str, before: str) -> int:
        total = 0
        for part in ranges.split(","):
            match = _RANGE.fullmatch(part)
            if match is None:
                raise self.error(f"{short(part.strip())} is not a range: expected 7, 1-9 or 1-9/2")
            first, last, step = match[1], match[2] or match[1], int(match[3] or 1)
            if int(first) > int(last):
                raise self.error(f"the range {part.strip()} runs backwards")
            if step < 1:
                raise self.error(f"the range {part.strip()} has a step of 0")
            if len(first) != len(last) and before[-1:].isdigit():
                # ClusterShell reads gpu1[8-12] as gpu[18-112], Slurm as gpu18, gpu19, gpu110...:
                # neither is a safe guess.
                raise self.error(
                    f"a digit comes before [{ranges}], whose ends differ in length; write two ranges")
            total += (int(last) - int(first)) // step + 1
        return total

    def _range(self, ranges: str) -> list[str]:
        from ClusterShell.RangeSet import RangeSet, RangeSetException  # type: ignore[import-untyped]

        try:
            return list(RangeSet(ranges).striter())
        except RangeSetException as problem:
            raise self.error(" ".join(str(problem).split())) from None


def _unknown_group(name: str, known: Iterable[str], mark: Mark | None) -> InventoryError:
    guess = nearest(name, known)
    return InventoryError(f"no group @{name}" + (f"; did you mean @{guess}?" if guess is not None else ""),
                          mark)


def _unpadded(name: str) -> str:
    return _DIGITS.sub(lambda match: match[0].lstrip("0") or "0", name.lower())
