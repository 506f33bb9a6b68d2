"""Reads `xid.yaml` and `sxid.yaml` of the rules folders into one table; every mistake is one line with file, line and column.

A later folder overrides an earlier one by number (`repeats` by id), key by key: what it does not give stays, except that its remedy and
its end go with its action. Of the decode tables the last one given counts.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from healthcheck.kernellog.ending import FORM, Ending, ending
from healthcheck.model.outcome import Owner
from healthcheck.xid.xidtable import (
    ARCHITECTURES,
    OWNERS,
    XID_TABLE,
    Action,
    Bits,
    Recovery,
    SwitchEntry,
    SxidReach,
    XidDecodeLine,
    XidEntry,
    XidRepeat,
    XidTable,
)
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, LocatedMap, load_yaml

NAMES = ("xid.yaml", "sxid.yaml")
_MOST = 99_999
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


class _Map:
    """A map of the document whose keys are asked for by type; a key that nobody may ask for is an error."""

    def __init__(self, item: Any, mark: Mark, what: str, known: Iterable[str]) -> None:
        if not isinstance(item, LocatedMap):
            raise RulesError(f"{what}: expected a map, got {_kind(item)}", mark)
        self.item, self.what = item, what
        for key in item:
            if key not in known:
                close = difflib.get_close_matches(key, list(known), n=1)
                raise RulesError(f"{what}: unknown key {key!r}" + (f"; did you mean {close[0]!r}?" if close else ""), item.key_marks[key])

    def __contains__(self, key: str) -> bool:
        return key in self.item

    def mark(self, key: str) -> Mark:
        return self.item.value_marks.get(key, self.item.mark)

    def fail(self, key: str, expected: str) -> RulesError:
        if key not in self.item:
            return RulesError(f"{self.what}: {key} is missing: expected {expected}", self.item.mark)
        return RulesError(f"{self.what}: {key}: expected {expected}, got {_kind(self.item[key])}", self.mark(key))

    def text(self, key: str) -> str:
        value = self.item.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.fail(key, "text")
        return " ".join(value.split())

    def number(self, key: str, least: float, most: float) -> float:
        value = self.item.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise self.fail(key, f"a number from {least:g} to {most:g}")
        return value

    def whole(self, key: str, least: int, most: int) -> int:
        value = self.item.get(key)
        if type(value) is not int or not least <= value <= most:
            raise self.fail(key, f"a whole number from {least} to {most}")
        return value

    def flag(self, key: str) -> bool:
        value = self.item.get(key)
        if not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def numbers(self, key: str, most: int = _MOST) -> frozenset[int]:
        """Numbers as one, a list, or text such as `70-72, 85`."""
        value = self.item.get(key)
        parts = value if isinstance(value, list) else str(value).split(",") if isinstance(value, (int, str)) else []
        found: set[int] = set()
        for part in parts:
            match = _RANGE.fullmatch(str(part).strip()) if type(part) in (int, str) else None
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if not 0 <= first <= last <= most:
                found.clear()
                break
            found.update(range(first, last + 1))
        if not found:
            raise self.fail(key, f"numbers up to {most}, such as 48 or '70-72, 85'")
        return frozenset(found)

    def words(self, key: str) -> tuple[str, ...]:
        value = self.item.get(key)
        if not isinstance(value, list) or not value or not all(isinstance(word, str) and word for word in value):
            raise self.fail(key, "a list of words")
        return tuple(value)


M = TypeVar("M", bound=Enum)


def _member(map_: _Map, key: str, kind: type[M]) -> M:
    value = map_.item.get(key)
    known = [str(member.value) for member in kind]
    if value not in known:
        close = difflib.get_close_matches(str(value), known, n=1)
        raise map_.fail(key, f"one of {', '.join(known)}" + (f" (did you mean {close[0]!r}?)" if close and key in map_ else ""))
    return kind(value)


# Keys of an entry, with what reads them. `xid` and `sxid` name it.
_Reader = Callable[[_Map, str], Any]
_TEXT: _Reader = _Map.text
def _ending(map_: _Map, key: str) -> Ending:
    try:
        return ending(map_.text(key))
    except ValueError:
        raise map_.fail(key, FORM) from None


_SHARED: Mapping[str, _Reader] = {
    "ends": _ending,
    "meaning": _TEXT, "gpud": _TEXT, "remedy": _TEXT, "why": _TEXT,
    "action": lambda map_, key: _member(map_, key, Action), "owner": lambda map_, key: _member(map_, key, Owner),
}
_XID: Mapping[str, _Reader] = {**_SHARED, "mnemonic": _TEXT, "dcgm": _TEXT, "nvidia": _Map.words}
_SXID: Mapping[str, _Reader] = {**_SHARED, "kind": lambda map_, key: _member(map_, key, SxidReach)}
_TOP = ("dated", "sources", "remedies", "endings", "xids", "repeats", "registers", "nvlink5", "recoveries")
_SWITCH_TOP = ("dated", "sources", "sxids")


class _Draft:
    """The table while files are laid over each other."""

    def __init__(self) -> None:
        self.dated = self.sxids_dated = ""
        self.sources: dict[str, str] = {}
        self.remedies: dict[Action, str] = {}
        self.endings: dict[Action, Ending] = {}
        self.xids: dict[int, dict[str, Any]] = {}
        self.sxids: dict[int, dict[str, Any]] = {}
        self.repeats: dict[str, dict[str, Any]] = {}
        self.registers: frozenset[Bits] = frozenset()
        self.words: frozenset[XidDecodeLine] = frozenset()
        self.recoveries: dict[int, Recovery] = {}
        self.files: list[str] = []


def load_xid_table(folders: Iterable[Path]) -> XidTable | None:
    """The table of all folders, or None where none of them has one; raises RulesError."""
    draft = _Draft()
    for folder in folders:
        for name, read in zip(NAMES, (_read_xids, _read_sxids), strict=True):
            path = folder / name
            if path.is_file():
                draft.files.append(str(path))
                read(draft, path)
    if not draft.xids:
        return None
    return XidTable(
        XID_TABLE, draft.dated, MappingProxyType({number: _entry(number, draft.xids[number]) for number in sorted(draft.xids)}),
        MappingProxyType({number: _switch_entry(number, draft.sxids[number]) for number in sorted(draft.sxids)}), draft.sxids_dated,
        MappingProxyType(draft.remedies), MappingProxyType(draft.endings), MappingProxyType(draft.sources),
        MappingProxyType({name: _repeat(values) for name, values in draft.repeats.items()}), draft.registers, draft.words,
        MappingProxyType(draft.recoveries), frozenset(draft.files),
    )


def _read_xids(draft: _Draft, path: Path) -> None:
    top = _top(path, _TOP)
    draft.dated = _dated(top, draft.dated)
    draft.sources.update(_texts(top, "sources"))
    for name in ("remedies", "endings"):
        for key, text in _texts(top, name).items():
            if key not in [action.value for action in Action]:
                raise RulesError(f"{name}: no such action: {key!r}", top.item[name].key_marks[key])
            if name == "remedies":
                draft.remedies[Action(key)] = text
            else:
                draft.endings[Action(key)] = _ending(_Map(top.item[name], top.mark(name), name, top.item[name]), key)
    for item, mark in _items(top, "xids"):
        _lay(draft.xids, item, mark, "xid", {**_XID, "architectures": _architectures})
    for item, mark in _items(top, "repeats"):
        _lay_repeat(draft.repeats, item, mark)
    if "registers" in top:
        draft.registers = frozenset(_bits(item, mark) for item, mark in _items(top, "registers"))
    if "nvlink5" in top:
        draft.words = frozenset(_word(item, mark) for item, mark in _items(top, "nvlink5"))
    if "recoveries" in top:
        draft.recoveries = {recovery.code: recovery for recovery in (_recovery(item, mark) for item, mark in _items(top, "recoveries"))}


def _read_sxids(draft: _Draft, path: Path) -> None:
    top = _top(path, _SWITCH_TOP)
    draft.sxids_dated = _dated(top, draft.sxids_dated)
    draft.sources.update(_texts(top, "sources"))
    for item, mark in _items(top, "sxids"):
        _lay(draft.sxids, item, mark, "sxid", _SXID)


def _top(path: Path, known: Iterable[str]) -> _Map:
    return _Map(load_yaml(path, error=RulesError), Mark(str(path), 1, 1), path.name, known)


def _dated(top: _Map, earlier: str) -> str:
    if "dated" not in top and earlier:
        return earlier
    if not _DATE.fullmatch(text := top.text("dated")):
        raise top.fail("dated", "a date such as 2025-10-29")
    return max(text, earlier)


def _texts(top: _Map, key: str) -> dict[str, str]:
    if key not in top:
        return {}
    found = top.item[key]
    if not isinstance(found, LocatedMap):
        raise top.fail(key, "a map of text")
    inner = _Map(found, found.mark, key, list(found))
    return {name: inner.text(name) for name in found}


def _items(top: _Map, key: str) -> list[tuple[Any, Mark]]:
    if key not in top:
        return []
    found = top.item[key]
    if not isinstance(found, LocatedList):
        raise top.fail(key, "a list")
    return [(item, found.value_marks[at]) for at, item in enumerate(found)]


def _lay(entries: dict[int, dict[str, Any]], item: Any, mark: Mark, identity: str, readers: Mapping[str, _Reader]) -> None:
    """Lays one entry, which may be for several numbers, over what earlier files say of them."""
    map_ = _Map(item, mark, identity, (identity, *readers))
    numbers = map_.numbers(identity)
    map_.what = f"{identity} {map_.item[identity]}"
    values = {key: read(map_, key) for key, read in readers.items() if key in map_}
    for number in numbers:
        old = entries.get(number, {})
        if old and old["file"] == mark.file:
            raise RulesError(f"{identity} {number} is given twice; the first is at line {old['line']}", mark)
        for key in ("meaning", "action"):
            if key not in values and key not in old:
                raise map_.fail(key, "it for a number that no earlier file gives")
        if identity == "sxid" and "kind" not in values and "kind" not in old:
            raise map_.fail("kind", f"one of {', '.join(kind.value for kind in SxidReach)}")
        nested = {**old.get("architectures", {}), **values.get("architectures", {})}
        entries[number] = _over(old, values, mark)
        if nested:
            entries[number]["architectures"] = nested


def _over(old: Mapping[str, Any], values: Mapping[str, Any], mark: Mark) -> dict[str, Any]:
    """What earlier files say with these values over it, and where that is from. Another action wants another remedy."""
    other = values.get("action", old.get("action")) is not old.get("action")
    kept = {key: value for key, value in old.items() if key not in ("remedy", "ends")} if other else old
    overridden = (*old["overridden"], old["file"]) if old else ()
    return {**kept, **values, "file": mark.file, "line": mark.line, "overridden": overridden}


def _architectures(map_: _Map, key: str) -> dict[str, dict[str, Any]]:
    outer = _Map(map_.item[key], map_.mark(key), f"{map_.what}: {key}", ARCHITECTURES)
    found = {}
    for name in outer.item:
        inner = _Map(outer.item[name], outer.mark(name), f"{map_.what}: {name}", _XID)
        found[name] = {field: read(inner, field) for field, read in _XID.items() if field in inner}
    return found


def _entry(number: int, values: Mapping[str, Any]) -> XidEntry:
    plain = {key: value for key, value in values.items() if key != "architectures"}
    special = {
        # Another action wants another remedy than the one for all architectures.
        name: _plain(number, {**plain, **({"remedy": "", "ends": None} if "action" in changes else {}), **changes})
        for name, changes in values.get("architectures", {}).items()
    }
    return _plain(number, {**plain, "architectures": MappingProxyType(special)})


def _plain(number: int, values: Mapping[str, Any]) -> XidEntry:
    owner = values.get("owner") or OWNERS.get(values["action"], Owner.OPERATOR)
    return XidEntry(number=number, **{"mnemonic": "", **values, "owner": owner})


def _switch_entry(number: int, values: Mapping[str, Any]) -> SwitchEntry:
    owner = values.get("owner") or OWNERS.get(values["action"], Owner.OPERATOR)
    return SwitchEntry(number=number, **{**values, "owner": owner})


def _place(map_: _Map, key: str) -> str:
    if (same := map_.text(key)) not in ("gpu", "tpc"):
        raise map_.fail(key, "gpu or tpc")
    return same


def _seconds(map_: _Map, key: str) -> float:
    return map_.number(key, 0, 31 * 86400)


_REPEAT: Mapping[str, _Reader] = {
    "action": _SHARED["action"], "owner": _SHARED["owner"], "why": _TEXT, "remedy": _TEXT, "same": _place, "enabled": _Map.flag,
    "count": lambda map_, key: map_.whole(key, 2, 10_000), "hours": lambda map_, key: map_.number(key, 0.01, 24 * 366),
    "jobs": lambda map_, key: map_.whole(key, 1, 1000), "xids": _Map.numbers, "but": _Map.numbers, "sticky": _Map.numbers,
    "gap_seconds": _seconds, "alone_seconds": _seconds, "apart_seconds": _seconds, "sticky_hours": _seconds,
}
_NEEDED = ("count", "hours", "action", "why")


def _lay_repeat(repeats: dict[str, dict[str, Any]], item: Any, mark: Mark) -> None:
    """Lays one rule of repeats over what earlier files say of it."""
    map_ = _Map(item, mark, "repeats", ("id", *_REPEAT))
    name = map_.text("id")
    map_.what = f"repeats: {name}"
    old = repeats.get(name, {})
    if old and old["file"] == mark.file:
        raise RulesError(f"repeats: {name} is given twice; the first is at line {old['line']}", mark)
    values = {key: read(map_, key) for key, read in _REPEAT.items() if key in map_}
    for key in _NEEDED:
        if key not in values and key not in old:
            _REPEAT[key](map_, key)    # raises that it is missing, and what it should be
    repeats[name] = {"id": name, **_over(old, values, mark)}


def _repeat(values: Mapping[str, Any]) -> XidRepeat:
    return XidRepeat(**{**values, "owner": values.get("owner") or OWNERS.get(values["action"], Owner.OPERATOR)})


def _bits(item: Any, mark: Mark) -> Bits:
    map_ = _Map(item, mark, "registers", ("register", "bits", "action", "meaning", "count", "alone"))
    return Bits(
        map_.whole("register", 0, 6), map_.numbers("bits", 31), _member(map_, "action", Action), map_.text("meaning"),
        map_.whole("count", 1, 1000) if "count" in map_ else 1, map_.flag("alone") if "alone" in map_ else False,
    )


def _word(item: Any, mark: Mark) -> XidDecodeLine:
    map_ = _Map(item, mark, "nvlink5", ("xid", "units", "action", "meaning", "status", "subcode", "fatal", "owner"))
    return XidDecodeLine(
        map_.whole("xid", 0, _MOST), frozenset(map_.words("units")), _member(map_, "action", Action), map_.text("meaning"),
        _values(map_, "status", 0xFFFFFFFF), _values(map_, "subcode", 0x3F), _member(map_, "fatal", Action) if "fatal" in map_ else None,
        _member(map_, "owner", Owner) if "owner" in map_ else None,
    )


def _values(map_: _Map, key: str, most: int) -> frozenset[int]:
    if key not in map_:
        return frozenset()
    value = map_.item[key]
    found = value if isinstance(value, list) else [value]
    if not found or any(type(one) is not int or not 0 <= one <= most for one in found):
        raise map_.fail(key, f"whole numbers from 0 to 0x{most:x}")
    return frozenset(found)


def _recovery(item: Any, mark: Mark) -> Recovery:
    map_ = _Map(item, mark, "recoveries", ("code", "says", "action", "remedy"))
    return Recovery(map_.whole("code", 0, 255), map_.text("says"), _member(map_, "action", Action), map_.text("remedy"))


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a map"
    return "a list" if isinstance(value, list) else repr(value)[:60]
