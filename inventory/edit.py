"""Edits the text of an inventory in as few places as possible: comments, order, spacing and quotes stay.

That is why no library writes it: ruamel.yaml keeps comments and quotes, and puts every line into its own
spacing (of the 19 files of nodes and rules that come with muster, 15 differ after reading and writing).

`rewrite` takes the text and the document that it should hold afterwards, and splices the difference in at the
places that the YAML parser names. The result is read back until it equals that document. What cannot be
edited so (an alias, an anchor or a tag in the way) is an error that asks the user to edit by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from inventory.errors import InventoryError, Mark
from inventory.located import LocatedList, LocatedMap, parse_yaml
from inventory.yamltext import flow, key_text, section, value_text

Document = dict[str, Any]

_ROUNDS = 100       # of reading again; one is enough but where several keys leave one map in braces
_COLON = re.compile(r"\s*:")
_COMMA = re.compile(r"\s*,")
_COMMENT = re.compile(r"#[^\r\n\x85\u2028\u2029]*")
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


def plain(value: Any) -> Any:
    """A located document as dicts and lists of its own, to be changed and handed to `rewrite`."""
    if isinstance(value, LocatedMap):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, LocatedList) else value


def read_document(text: str, source: str) -> Document:
    """The document that an inventory's text holds, as plain data. Raises InventoryError."""
    found = plain(parse_yaml(text, source, error=InventoryError))
    if not isinstance(found, dict):
        raise InventoryError("expected a map with the keys version and nodes", Mark(source, 1, 1))
    return found


def rewrite(text: str, wanted: Document, source: str) -> str:
    """The text, changed in as few places as possible so that it holds `wanted`; new keys stand last in their
    map, `groups` before `nodes`. All comments stay. Raises InventoryError with the line to edit by hand."""
    original = text
    for _ in range(_ROUNDS):
        try:
            have = read_document(text, source)
        except InventoryError:
            if text is original:
                raise
            break
        if equal(have, wanted):
            return text
        text = _Round(text, source).towards(have, wanted)
    raise InventoryError(f"{source}: this change would touch other values too; edit it by hand")


def equal(one: Any, other: Any) -> bool:
    """Whether two plain documents are equal; 1, 1.0 and true differ, and NaN equals itself."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and repr(one) == repr(other)




@dataclass
class _Item:
    """One value or key as the parser met it, with its place as character offsets."""

    kind: str       # scalar, map, list, alias
    start: int
    end: int
    mark: Mark
    marked: bool = False        # carries an anchor or a tag
    flow: bool = False          # in braces or brackets
    block_text: bool = False    # a scalar after | or >
    text: str | None = None
    children: list[_Item] = field(default_factory=list)      # a map's: key, value, key, value

    def pairs(self) -> Iterator[tuple[_Item, _Item]]:
        return zip(self.children[::2], self.children[1::2], strict=True)

    def all(self) -> Iterator[_Item]:
        yield self
        for child in self.children:
            yield from child.all()


def _tree(text: str, source: str) -> _Item:
    """The document's items; the text has been read without error, so that it is neither deep nor broken."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    anchors: dict[Any, Any] = {}
    stack: list[_Item] = []
    root: _Item | None = None
    events: Iterator[Any] = yaml.parse(text, Loader=loader)
    for event in events:
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            end: Any = event.end_mark
            stack.pop().end = end.index
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        item = _item(event, source, anchors)
        if stack:
            into = stack[-1]
            if into.kind == "map" and len(into.children) % 2 and item.start == item.end:
                # libyaml puts an empty value at the next token
                item.start = item.end = _after_colon(text, into.children[-1])
            into.children.append(item)
        else:
            root = item
        if item.kind in ("map", "list"):
            stack.append(item)
    assert root is not None  # noqa: S101  (narrowing; an empty document does not load)
    return root


def _item(event: Any, source: str, anchors: dict[Any, Any]) -> _Item:
    import yaml

    start, end = event.start_mark, event.end_mark
    mark = Mark(source, start.line + 1, start.column + 1)
    if isinstance(event, yaml.AliasEvent):
        return _Item("alias", start.index, end.index, mark, text=anchors.get(event.anchor))
    marked = event.anchor is not None or event.tag is not None
    if isinstance(event, yaml.ScalarEvent):
        if event.anchor is not None:
            anchors[event.anchor] = event.value
        block_text = event.style in ("|", ">")
        return _Item("scalar", start.index, end.index, mark, marked, block_text=block_text, text=event.value)
    kind = "map" if isinstance(event, yaml.MappingStartEvent) else "list"
    return _Item(kind, start.index, end.index, mark, marked, flow=bool(event.flow_style))


def _after_colon(text: str, key: _Item) -> int:
    colon = _COLON.match(text, key.end)
    return colon.end() if colon else key.end


# one round of changes

class _Splice(NamedTuple):
    """Replace text[start:end]; of insertions at one place the deeper comes first.
    Splices of one group go together."""

    start: int
    end: int
    text: str
    depth: int
    group: int


class _Round:
    """What to change in a text, as far as it can be changed at once."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.splices: list[_Splice] = []
        self.group = 0
        found = _LINE_END.search(text)
        self.line_end = found[0] if found and found[0] in ("\r\n", "\r") else "\n"

    def towards(self, have: Document, wanted: Document) -> str:
        """The text with all changes made that do not touch each other; the others are for a next round."""
        self._map(None, _tree(self.text, self.source), have, wanted, 0)
        done = self._compatible()
        pieces: list[str] = []
        at = 0
        for splice in done:
            pieces += (self.text[at: splice.start], splice.text)
            at = splice.end
        return "".join(pieces) + self.text[at:]

    def _compatible(self) -> list[_Splice]:
        ordered = sorted(self.splices, key=lambda splice: (splice.start, splice.end, -splice.depth))
        later: set[int] = set()
        end = 0
        for splice in ordered:
            if splice.group in later:
                continue
            if splice.start < end:
                later.add(splice.group)
            end = max(end, splice.end)
        kept = [splice for splice in ordered if splice.group not in later]
        return kept or [splice for splice in ordered if splice.group == ordered[0].group]

    def _by_hand(self, item: _Item, why: str) -> InventoryError:
        return InventoryError(f"{why}; edit it by hand", item.mark)

    def _map(self, key: _Item | None, item: _Item, have: Document, wanted: Document, depth: int) -> None:
        """Changes within one map, whose own key is `key`."""
        if item.kind != "map" or item.marked:
            what = "there is an alias here" if item.kind == "alias" else "there is an anchor or a tag here"
            raise self._by_hand(item, f"{what}, so a change would affect other values")
        pairs = {str(pair[0].text): pair for pair in item.pairs()}
        gone = [name for name in have if name not in wanted]
        new = [name for name in wanted if name not in have]
        for before, after in zip(list(have), list(wanted), strict=False):
            if before in gone and after in new and equal(have[before], wanted[after]):
                self._rename(item, pairs[before][0], after, depth)
                gone.remove(before)
                new.remove(after)
        for name, value in have.items():
            if name not in wanted or equal(value, wanted[name]):
                continue
            if value and isinstance(value, dict) and isinstance(wanted[name], dict):
                self._map(pairs[name][0], pairs[name][1], value, wanted[name], depth + 1)
            else:
                self._replace(item, *pairs[name], wanted[name], depth)
        self.group += 1
        if gone and item.flow:
            self._drop_from_flow(item, list(pairs).index(gone[0]), depth)
        elif gone:
            self._drop_from_block(key, item, [pairs[name] for name in gone], depth)
        elif new:
            added = {name: wanted[name] for name in new}
            (self._add_to_flow if item.flow else self._add_to_block)(item, added, depth)

    def _splice(self, start: int, end: int, text: str, depth: int) -> None:
        self.splices.append(_Splice(start, end, text, depth, self.group))

    def _rename(self, item: _Item, key: _Item, name: str, depth: int) -> None:
        if key.kind != "scalar" or key.marked:
            raise self._by_hand(key, "there is an anchor, an alias or a tag here")
        self.group += 1
        self._splice(key.start, key.end, key_text(name, in_flow=item.flow), depth)

    def _replace(self, item: _Item, key: _Item, value: _Item, wanted: Any, depth: int) -> None:
        if any(part.marked for part in value.all()):
            raise self._by_hand(value, "there is an anchor or a tag here")
        self.group += 1
        text = value_text(wanted, in_flow=item.flow)
        end = self._end(value)
        if value.start == value.end or value.block_text or (value.children and not value.flow):
            start = _after_colon(self.text, key)
            text = f" {text}" if start > key.end else f": {text}"
        else:
            start = value.start
        if self._comments(value, start, end):
            raise self._by_hand(value, "there is a comment inside the value to be replaced")
        if text[-1:] not in " ,}]" and self.text[end: end + 1] == ":":
            text += " "
        self._splice(start, end, text, depth)

    def _add_to_block(self, item: _Item, added: Document, depth: int) -> None:
        pairs = list(item.pairs())
        indent = self._indent(pairs[0][0])
        names = [str(key.text) for key, _ in pairs]
        last = pairs[-1]
        if depth == 0 and "nodes" in names[1:] and set(added) <= {"defaults", "groups"}:
            last = pairs[names.index("nodes") - 1]
        lines = [
            section(name, value, self.line_end) if depth == 0
            else f"{indent}{key_text(name, in_flow=False)}: {value_text(value, in_flow=False)}"
            for name, value in added.items()
        ]
        at = self._line_end(max(self._end(last[1]), last[0].end))
        self._splice(at, at, "".join(self.line_end + line for line in lines), depth)

    def _add_to_flow(self, item: _Item, added: Document, depth: int) -> None:
        pairs = list(item.pairs())
        words = [f"{key_text(name, in_flow=True)}: {flow(value)}" for name, value in added.items()]
        if not pairs:
            self._splice(item.start + 1, item.start + 1, ", ".join(words), depth)
            return
        key, value = pairs[-1]
        at = max(self._end(value), key.end)
        before = self.text[self._line_start(key.start): key.start]
        separator = (f",{self.line_end}{before}" if not before.strip()
                     and self._line_start(key.start) > item.start else ", ")
        self._splice(at, at, "".join(separator + word for word in words), depth)

    def _drop_from_block(
        self, parent: _Item | None, item: _Item, pairs: Sequence[tuple[_Item, _Item]], depth: int,
    ) -> None:
        for key, value in pairs:
            if any(part.marked for part in (*key.all(), *value.all())):
                raise self._by_hand(key, "there is an anchor or a tag in what would be removed")
            indent = self._indent(key)
            last = self._line_end(max(self._end(value), key.end))
            comments = self._comments(value, key.end, last)
            line_end = _LINE_END.match(self.text, last)
            kept = "".join(f"{indent}{comment}{self.line_end}" for comment in comments)
            self._splice(self._line_start(key.start), line_end.end() if line_end else last, kept, depth)
        if 2 * len(pairs) == len(item.children):
            if parent is None:
                raise self._by_hand(item, "nothing would be left")
            at = _after_colon(self.text, parent)
            self._splice(at, at, " {}", depth)

    def _drop_from_flow(self, item: _Item, at: int, depth: int) -> None:
        pairs = list(item.pairs())
        key, value = pairs[at]
        start, end = key.start, max(self._end(value), key.end)
        if any(part.marked for part in (*key.all(), *value.all())):
            raise self._by_hand(key, "there is an anchor or a tag in what would be removed")
        if self._comments(value, key.end, end):
            raise self._by_hand(key, "there is a comment in what would be removed")
        comma = _COMMA.match(self.text, end)      # not the blanks after it, which a comment there needs
        if at + 1 < len(pairs):
            following = pairs[at + 1][0].start
            has_comment = "#" in self.text[end: following]
            end = comma.end() if has_comment and comma else end if has_comment else following
            if has_comment and comma is None:
                raise self._by_hand(key, "there is a comment before the comma")
        elif at and "#" not in self.text[
                (before := max(self._end(pairs[at - 1][1]), pairs[at - 1][0].end)): start]:
            start = before
        elif not at:
            inner = self.text[end: item.end - 1]
            start = item.start + 1 if not self.text[item.start + 1: start].strip() else start
            end = item.end - 1 if not inner.strip(" \t\r\n,") else comma.end() if comma else end
        self._splice(start, end, "", depth)

    def _end(self, item: _Item) -> int:
        """Where an item's own text ends: the parser counts comments and empty lines after a block to it."""
        if item.block_text:
            return item.start + len(self.text[item.start: item.end].rstrip())
        if item.children and not item.flow:
            return max(self._end(child) for child in item.children[-2:])
        return item.end

    def _comments(self, item: _Item, start: int, end: int) -> list[str]:
        """The comments in text that holds no scalars but the item's; a # in a scalar begins none."""
        found: list[str] = []
        at = start
        leaves = [part for part in item.all() if not part.children and start <= part.start
                  and part.end <= end]
        for stop, after in [*((part.start, part.end) for part in leaves if part.kind in ("scalar", "alias")),
                            (end, end)]:
            found += _COMMENT.findall(self.text[at: stop])
            at = max(at, after)
        return found

    def _indent(self, key: _Item) -> str:
        before = self.text[self._line_start(key.start): key.start]
        if before.strip(" "):
            raise self._by_hand(key, "this style of map cannot be extended")
        return before

    def _line_start(self, at: int) -> int:
        return max(self.text.rfind(char, 0, at) for char in "\n\r\x85\u2028\u2029") + 1

    def _line_end(self, at: int) -> int:
        found = _LINE_END.search(self.text, at)
        return found.start() if found else len(self.text)
