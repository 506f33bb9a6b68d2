"""Reads `xid.yaml` and `sxid.yaml` of the rules folders into one table; RulesError names the place.

A later folder overrides an earlier one by number (`repeats` by id), key by key: other keys stay, but another
action drops the earlier remedy and end. Of the decode tables the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from healthcheck.config.documentmap import DocumentMap
from healthcheck.kernellog.ending import EXPECTED, Ending, ending
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
from inventory.located import LocatedMap, load_yaml

NAMES = ("xid.yaml", "sxid.yaml")
_MOST = 99_999
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


class _TableMap(DocumentMap):
    """A map of a table's file."""

    def numbers(self, key: str, most: int = _MOST) -> frozenset[int]:
        """Numbers as one, a list, or text such as `70-72, 85`."""
        value = self.item.get(key)
        parts = (value if isinstance(value, list) else str(value).split(",") if isinstance(value, (int, str))
                 else [])
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
        if (not isinstance(value, list) or not value
            or not all(isinstance(word, str) and word for word in value)):
            raise self.fail(key, "a list of words")
        return tuple(value)


# Keys of an entry with their readers. `xid` and `sxid` name it.
_Reader = Callable[[_TableMap, str], Any]
_TEXT: _Reader = _TableMap.text
def _ending(map_: _TableMap, key: str) -> Ending:
    try:
        return ending(map_.text(key))
    except ValueError:
        raise map_.fail(key, EXPECTED) from None


_SHARED: Mapping[str, _Reader] = {
    "ends": _ending,
    "meaning": _TEXT, "gpud": _TEXT, "remedy": _TEXT, "why": _TEXT,
    "action": lambda map_, key: map_.member(key, Action), "owner": lambda map_, key: map_.member(key, Owner),
}
_XID: Mapping[str, _Reader] = {**_SHARED, "mnemonic": _TEXT, "dcgm": _TEXT, "nvidia": _TableMap.words}
_SXID: Mapping[str, _Reader] = {**_SHARED, "kind": lambda map_, key: map_.member(key, SxidReach)}
_TOP = ("dated", "sources", "remedies", "endings", "xids", "repeats", "registers", "nvlink5", "recoveries")
_SWITCH_TOP = ("dated", "sources", "sxids")


class _Draft:
    """The table while files are merged."""

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
    """The table of all folders, or None if none of them has one; raises RulesError."""
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
        XID_TABLE, draft.dated,
        MappingProxyType({number: _entry(number, draft.xids[number]) for number in sorted(draft.xids)}),
        MappingProxyType({number: _switch_entry(number, draft.sxids[number])
                          for number in sorted(draft.sxids)}), draft.sxids_dated,
        MappingProxyType(draft.remedies), MappingProxyType(draft.endings), MappingProxyType(draft.sources),
        MappingProxyType({name: _repeat(values) for name, values in draft.repeats.items()}), draft.registers,
        draft.words, MappingProxyType(draft.recoveries), frozenset(draft.files),
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
                draft.endings[Action(key)] = _ending(
                    _TableMap(top.item[name], top.item[name], name, top.mark(name)), key)
    for item, mark in _items(top, "xids"):
        _lay(draft.xids, item, mark, "xid", {**_XID, "architectures": _architectures})
    for item, mark in _items(top, "repeats"):
        _lay_repeat(draft.repeats, item, mark)
    if "registers" in top:
        draft.registers = frozenset(_bits(item, mark) for item, mark in _items(top, "registers"))
    if "nvlink5" in top:
        draft.words = frozenset(_word(item, mark) for item, mark in _items(top, "nvlink5"))
    if "recoveries" in top:
        draft.recoveries = {recovery.code: recovery
                            for recovery in (_recovery(item, mark)
                                             for item, mark in _items(top, "recoveries"))}


def _read_sxids(draft: _Draft, path: Path) -> None:
    top = _top(path, _SWITCH_TOP)
    draft.sxids_dated = _dated(top, draft.sxids_dated)
    draft.sources.update(_texts(top, "sources"))
    for item, mark in _items(top, "sxids"):
        _lay(draft.sxids, item, mark, "sxid", _SXID)


def _top(path: Path, known: Collection[str]) -> _TableMap:
    return _TableMap(load_yaml(path, error=RulesError), known, path.name, Mark(str(path), 1, 1))


def _dated(top: _TableMap, earlier: str) -> str:
    if "dated" not in top and earlier:
        return earlier
    if not _DATE.fullmatch(text := top.text("dated")):
        raise top.fail("dated", "a date such as 2025-10-29")
    return max(text, earlier)


def _texts(top: _TableMap, key: str) -> dict[str, str]:
    if key not in top:
        return {}
    found = top.item[key]
    if not isinstance(found, LocatedMap):
        raise top.fail(key, "a map of text")
    inner = _TableMap(found, found, key, found.mark)
    return {name: inner.text(name) for name in found}


def _items(top: _TableMap, key: str) -> list[tuple[object, Mark]]:
    if key not in top:
        return []
    found = top.items(key)
    return [(item, found.value_marks[at]) for at, item in enumerate(found)]


def _lay(
    entries: dict[int, dict[str, Any]], item: object, mark: Mark, identity: str,
    readers: Mapping[str, _Reader],
) -> None:
    """Merges one entry, which may be for several numbers, into those of earlier files."""
    map_ = _TableMap(item, (identity, *readers), identity, mark)
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
    """Earlier files' values overridden by these, with their source; an action brings its own remedy."""
    other = values.get("action", old.get("action")) is not old.get("action")
    kept = {key: value for key, value in old.items() if key not in ("remedy", "ends")} if other else old
    overridden = (*old["overridden"], old["file"]) if old else ()
    return {**kept, **values, "file": mark.file, "line": mark.line, "overridden": overridden}


def _architectures(map_: _TableMap, key: str) -> dict[str, dict[str, Any]]:
    outer = _TableMap(map_.item[key], ARCHITECTURES, f"{map_.what}: {key}", map_.mark(key))
    found = {}
    for name in outer.item:
        inner = _TableMap(outer.item[name], _XID, f"{map_.what}: {name}", outer.mark(name))
        found[name] = {field: read(inner, field) for field, read in _XID.items() if field in inner}
    return found


def _entry(number: int, values: Mapping[str, Any]) -> XidEntry:
    plain = {key: value for key, value in values.items() if key != "architectures"}
    special = {
        # Another action needs another remedy than the one for all architectures.
        name: _plain(number, {**plain, **({"remedy": "", "ends": None} if "action" in changes else {}),
                              **changes})
        for name, changes in values.get("architectures", {}).items()
    }
    return _plain(number, {**plain, "architectures": MappingProxyType(special)})


def _plain(number: int, values: Mapping[str, Any]) -> XidEntry:
    owner = values.get("owner") or OWNERS.get(values["action"], Owner.OPERATOR)
    return XidEntry(number=number, **{"mnemonic": "", **values, "owner": owner})


def _switch_entry(number: int, values: Mapping[str, Any]) -> SwitchEntry:
    owner = values.get("owner") or OWNERS.get(values["action"], Owner.OPERATOR)
    return SwitchEntry(number=number, **{**values, "owner": owner})


def _place(map_: _TableMap, key: str) -> str:
    if (same := map_.text(key)) not in ("gpu", "tpc"):
        raise map_.fail(key, "gpu or tpc")
    return same


def _seconds(map_: _TableMap, key: str) -> float:
    return map_.number(key, 0, 31 * 86400)


_REPEAT: Mapping[str, _Reader] = {
    "action": _SHARED["action"], "owner": _SHARED["owner"], "why": _TEXT, "remedy": _TEXT, "same": _place,
    "enabled": _TableMap.flag, "count": lambda map_, key: map_.whole(key, 2, 10_000),
    "hours": lambda map_, key: map_.number(key, 0.01, 24 * 366),
    "jobs": lambda map_, key: map_.whole(key, 1, 1000), "xids": _TableMap.numbers, "but": _TableMap.numbers,
    "sticky": _TableMap.numbers, "gap_seconds": _seconds, "alone_seconds": _seconds,
    "apart_seconds": _seconds, "sticky_hours": _seconds,
}
_NEEDED = ("count", "hours", "action", "why")


def _lay_repeat(repeats: dict[str, dict[str, Any]], item: object, mark: Mark) -> None:
    """Merges one rule of repeats into that of earlier files."""
    map_ = _TableMap(item, ("id", *_REPEAT), "repeats", mark)
    name = map_.text("id")
    map_.what = f"repeats: {name}"
    old = repeats.get(name, {})
    if old and old["file"] == mark.file:
        raise RulesError(f"repeats: {name} is given twice; the first is at line {old['line']}", mark)
    values = {key: read(map_, key) for key, read in _REPEAT.items() if key in map_}
    for key in _NEEDED:
        if key not in values and key not in old:
            _REPEAT[key](map_, key)    # raises the error for a missing key
    repeats[name] = {"id": name, **_over(old, values, mark)}


def _repeat(values: Mapping[str, Any]) -> XidRepeat:
    return XidRepeat(
        **{**values, "owner": values.get("owner") or OWNERS.get(values["action"], Owner.OPERATOR)})


def _bits(item: object, mark: Mark) -> Bits:
    map_ = _TableMap(item, ("register", "bits", "action", "meaning", "count", "alone"), "registers", mark)
    return Bits(
        map_.whole("register", 0, 6), map_.numbers("bits", 31), map_.member("action", Action),
        map_.text("meaning"), map_.whole("count", 1, 1000) if "count" in map_ else 1,
        map_.flag("alone") if "alone" in map_ else False,
    )


def _word(item: object, mark: Mark) -> XidDecodeLine:
    map_ = _TableMap(item, ("xid", "units", "action", "meaning", "status", "subcode", "fatal", "owner"),
                     "nvlink5", mark)
    return XidDecodeLine(
        map_.whole("xid", 0, _MOST), frozenset(map_.words("units")), map_.member("action", Action),
        map_.text("meaning"), _values(map_, "status", 0xFFFFFFFF), _values(map_, "subcode", 0x3F),
        map_.member("fatal", Action) if "fatal" in map_ else None,
        map_.member("owner", Owner) if "owner" in map_ else None,
    )


def _values(map_: _TableMap, key: str, most: int) -> frozenset[int]:
    if key not in map_:
        return frozenset()
    value = map_.item[key]
    found = value if isinstance(value, list) else [value]
    if not found or any(type(one) is not int or not 0 <= one <= most for one in found):
        raise map_.fail(key, f"whole numbers from 0 to 0x{most:x}")
    return frozenset(found)


def _recovery(item: object, mark: Mark) -> Recovery:
    map_ = _TableMap(item, ("code", "says", "action", "remedy"), "recoveries", mark)
    return Recovery(map_.whole("code", 0, 255), map_.text("says"), map_.member("action", Action),
                    map_.text("remedy"))
