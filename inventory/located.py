"""YAML as plain data that keeps the place of each key and value, read safely and with one clear error.

What a document may hold is less than YAML allows, so that no spelling surprises:

- Scalars follow the YAML 1.2 core schema: `true`/`false` are the only booleans (`yes`, `no`, `on` and `off`
  are text), `1:30` and dates are text. A number with a leading zero (`007`) is text too, since in a cluster
  it is part of a name; so is one of over 18 digits.
- Keys are always text, as written (`12:` and `"12":` are the same key), and each may stand once in its map.
- No control characters, not as escapes ("\\e") either, so that no text of a document can act on a terminal.
- One document, in UTF-8; standard tags only; no merge keys (`<<`); aliases as long as they stay small.

The events of the YAML parser are read in a loop, never recursively,
so that no document can exhaust the stack.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from inventory.errors import ConfigError, Mark
from inventory.text import short

MAX_BYTES = 16 * 1024 * 1024
MAX_VALUES = 1_000_000
MAX_DEPTH = 64

ErrorType: TypeAlias = Callable[[str, "Mark | None"], ConfigError]

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_OCTAL = re.compile(r"0o[0-7]{1,20}")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_CONSTANTS: dict[str, Any] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    ".nan": float("nan"), ".NaN": float("nan"), ".NAN": float("nan"),
} | {sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")}
_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (float, int), "bool": (bool,), "null": (type(None),),
}


class LocatedMap(dict[str, Any]):
    """A map that knows its place, and each key's and value's; `written`: values but text, as spelt."""

    __slots__ = ("key_marks", "mark", "value_marks", "written")

    def __init__(self, mark: Mark) -> None:
        super().__init__()
        self.mark = mark
        self.key_marks: dict[str, Mark] = {}
        self.value_marks: dict[str, Mark] = {}
        self.written: dict[str, str] = {}


class LocatedList(list[Any]):
    """A sequence that knows the place of itself and its items; `written`: items other than text, as spelt."""

    __slots__ = ("mark", "value_marks", "written")

    def __init__(self, mark: Mark) -> None:
        super().__init__()
        self.mark = mark
        self.value_marks: dict[int, Mark] = {}
        self.written: dict[int, str] = {}


def load_yaml(
    path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES, error: ErrorType = ConfigError,
) -> Any:
    """Reads one document: maps are `LocatedMap`, sequences `LocatedList`, the rest plain values. Raises
    `error` (one line with the place) when the file is missing, a directory, unreadable, over `max_bytes`, not
    UTF-8, empty, or not a document as this module's docstring describes it."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            data = file.read(max_bytes + 1) if size <= max_bytes else b""
    except FileNotFoundError:
        raise error(f"{name}: no such file", None) from None
    except IsADirectoryError:
        raise error(f"{name}: is a directory, expected a YAML file", None) from None
    except PermissionError:
        raise error(f"{name}: permission denied", None) from None
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        raise error(f"{ascii(name)[1:-1]}: cannot be read: {reason}", None) from None
    if max(size, len(data)) > max_bytes:
        raise error(f"{name}: is over the size limit of {max_bytes} bytes", None)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        before = data[: problem.start].decode("utf-8-sig", "replace")
        raise error(f"is not UTF-8 text: byte 0x{data[problem.start]:02x}", _place(name, before)) from None
    return parse_yaml(text, name, error=error)


def parse_yaml(text: str, filename: str, *, error: ErrorType = ConfigError) -> Any:
    """Reads one document from text, as `load_yaml` does; `filename` is what errors and marks call it."""
    if bad := _UNPRINTABLE.search(text):
        raise error(f"contains the control character U+{ord(bad[0]):04X}",
                    _place(filename, text[: bad.start()]))
    return _Builder(filename, error).document(_events(text, filename, error))


def _events(text: str, filename: str, error: ErrorType) -> Iterator[Any]:
    try:
        yield from yaml.parse(text, Loader=_Loader)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        what = _yaml_problem(problem.problem or problem.context or "not valid YAML")
        raise error(what, _mark(filename, mark) if mark else None) from None
    except yaml.YAMLError as problem:
        raise error(f"{filename}: not valid YAML: {_yaml_problem(str(problem))}", None) from None


def _yaml_problem(problem: str) -> str:
    line = " ".join(problem.split())
    if "maximum nesting depth" in line:         # libyaml's own limit, which newer ones meet before ours
        return f"nested deeper than {MAX_DEPTH} levels"
    if "cannot start any token" in line:
        return f"{line}: quote text that begins with @, %, ` or a tab, as in \"@group\""
    if "mapping values are not allowed" in line:
        return f"{line}; check for a missing quote, comma or indentation"
    return line


def _place(filename: str, before: str) -> Mark:
    ends = list(_LINE_END.finditer(before))
    return Mark(filename, len(ends) + 1, len(before) - (ends[-1].end() if ends else 0) + 1)


def _mark(filename: str, mark: Any) -> Mark:
    return Mark(filename, mark.line + 1, mark.column + 1)


@dataclass
class _Open:
    """A map or sequence whose end has not been read yet."""

    into: LocatedMap | LocatedList
    anchor: str | None
    key: str | None = None
    size: int = 1


@dataclass
class _Builder:
    """Turns parser events into data; `size` counts values as they would be without aliases."""

    filename: str
    error: ErrorType
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int] | None] = field(default_factory=dict)
    root: Any = None

    def document(self, events: Iterator[Any]) -> Any:
        documents = 0
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                self._start(event)
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                self._end(event)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self.error("a second document starts here, expected one",
                                     _mark(self.filename, event.start_mark))
        if self.root is None:
            raise self.error(f"{self.filename}: is empty", None)
        return self.root

    def _scalar(self, event: Any) -> None:
        mark = _mark(self.filename, event.start_mark)
        if bad := _UNPRINTABLE.search(event.value):
            raise self.error(f"contains the control character U+{ord(bad[0]):04X}, as an escape", mark)
        if self._wants_key():
            self._key(event.value, mark)
            if event.tag not in (None, "!", _TAG + "str"):
                raise self.error(f"unknown tag {short(event.tag)} on a key", mark)
            self._remember(event.anchor, event.value, 1)
            return
        value = self._resolve(event, mark)
        self._remember(event.anchor, value, 1)
        self._add(value, mark, 1, None if isinstance(value, str) else event.value)

    def _resolve(self, event: Any, mark: Mark) -> Any:
        if event.tag is None:
            return _plain(event.value) if event.implicit[0] else event.value
        if event.tag in ("!", _TAG + "str"):
            return event.value
        kinds = _SCALAR_TAGS.get(event.tag.removeprefix(_TAG), ()) if event.tag.startswith(_TAG) else ()
        if not kinds:
            raise self.error(f"unknown tag {short(event.tag)}", mark)
        value = _plain(event.value)
        if type(value) not in kinds:
            raise self.error(f"{short(event.value)} does not fit its tag {short(event.tag)}", mark)
        return value

    def _start(self, event: Any) -> None:
        mark = _mark(self.filename, event.start_mark)
        is_map = isinstance(event, yaml.MappingStartEvent)
        if self._wants_key():
            raise self.error("a key must be text, not a map or a list: quote a key that begins with [ or {",
                             mark)
        if event.tag not in (None, "!", _TAG + ("map" if is_map else "seq")):
            raise self.error(f"unknown tag {short(event.tag)}", mark)
        if len(self.stack) >= MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH} levels", mark)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.stack.append(_Open(LocatedMap(mark) if is_map else LocatedList(mark), event.anchor))

    def _end(self, event: Any) -> None:
        done = self.stack.pop()
        self._remember(done.anchor, done.into, done.size)
        self._add(done.into, done.into.mark, done.size, None)

    def _alias(self, event: Any) -> None:
        mark = _mark(self.filename, event.start_mark)
        name = event.anchor
        if name not in self.anchors:
            raise self.error(f"there is no anchor &{short(name)} before this", mark)
        held = self.anchors[name]
        if held is None:
            raise self.error(f"the alias *{short(name)} is inside its own anchor", mark)
        value, size = held
        if self._wants_key():
            if not isinstance(value, str):
                raise self.error("a key must be text", mark)
            self._key(value, mark)
            return
        self._add(value, mark, size, None)

    def _wants_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].into, LocatedMap) and self.stack[-1].key is None

    def _key(self, key: str, mark: Mark) -> None:
        held = self.stack[-1]
        assert isinstance(held.into, LocatedMap)  # noqa: S101  (narrowing; _wants_key() checked it)
        if not key:
            raise self.error("a key is empty", mark)
        if key == "<<":
            raise self.error("merge keys (<<) are not supported", mark)
        if key in held.into.key_marks:
            raise self.error(f"duplicate key {short(key)}: it is already at {held.into.key_marks[key]}", mark)
        held.into.key_marks[key] = mark
        held.key = key

    def _remember(self, anchor: str | None, value: Any, size: int) -> None:
        if anchor is not None:
            self.anchors[anchor] = (value, size)

    def _add(self, value: Any, mark: Mark, size: int, written: str | None) -> None:
        if not self.stack:
            self.root = value
            return
        held = self.stack[-1]
        held.size += size
        if held.size > MAX_VALUES:
            raise self.error(f"holds over {MAX_VALUES} values with its aliases written out", mark)
        if isinstance(held.into, LocatedMap):
            assert held.key is not None  # noqa: S101  (narrowing; a value follows its key)
            held.into[held.key] = value
            held.into.value_marks[held.key] = mark
            if written is not None:
                held.into.written[held.key] = written
            held.key = None
        else:
            at = len(held.into)
            held.into.append(value)
            held.into.value_marks[at] = mark
            if written is not None:
                held.into.written[at] = written


def _plain(text: str) -> Any:
    """A scalar without quotes in the YAML 1.2 core schema, but for leading zeros and very long numbers."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    if _FLOAT.fullmatch(text) and not text.lstrip("+-").isdigit():
        return float(text)
    return text
