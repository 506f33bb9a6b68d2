"""The snapshot's byte layout, which lets a gate parse only what it needs.

It is JSON with sorted keys and no spaces, but with each node's entry on its own line,

    {"cluster":"alpha","keys":[],"made":1795000000,"nodes":{
    "gpu001":{...},
    "gpu002":{...}
    },"policy":{...},"schema":"muster.gate/1","serial":7}

JSON strings contain no bare line feed, so a line that begins with a quote is an entry, and the others need
not be parsed: of 4,096 nodes a prolog parses one. Any other layout is parsed as a whole. The caller has
verified the signature.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

SCHEMA = "muster.gate/1"
MAX_BYTES = 64 * 1024 * 1024        # 100,000 nodes of 650 bytes each
_LOOKED = re.compile(rb'"looked":([0-9]{1,12})')


class SnapshotError(ValueError):
    """These bytes are not a readable snapshot."""


class GateSnapshot:
    """A snapshot whose nodes are parsed on demand."""

    def __init__(
        self, top: Mapping[str, Any], lines: dict[str, bytes] | None, entries: dict[str, Any], data: bytes,
    ) -> None:
        self.serial = _whole(top, "serial")
        self.made = _whole(top, "made")
        self.cluster = str(top.get("cluster"))
        self.policy: Any = top.get("policy")
        self.keys: Any = top.get("keys")
        self._lines, self._entries, self._data = lines, entries, data

    def entry(self, name: str) -> Any:
        """A node's entry as plain JSON data; None without one."""
        if self._lines is None:
            return self._entries.get(name)
        line = self._lines.get(name)
        if line is None:
            return None
        try:
            return json.loads(b"{" + line.rstrip(b",") + b"}")[name]
        except (ValueError, KeyError, RecursionError):
            raise SnapshotError(f"the entry of {name} is not valid JSON") from None

    def names(self) -> list[str]:
        """All nodes, in the snapshot's order."""
        return list(self._entries if self._lines is None else self._lines)

    def groups(self) -> dict[str, list[str]]:
        """The nodes of each group. Parses every entry; an unreadable one is in no group."""
        found: dict[str, list[str]] = {}
        for name in self.names():
            try:
                entry = self.entry(name)
            except SnapshotError:
                continue
            groups = entry.get("groups") if isinstance(entry, dict) else None
            for group in groups if isinstance(groups, list) else ():
                if isinstance(group, str):
                    found.setdefault(group, []).append(name)
        return found

    def newest_snapshot(self) -> int:
        """When any node was last checked, in unix seconds; 0 if never."""
        if self._lines is None:
            looked = [entry.get("looked") for entry in self._entries.values() if isinstance(entry, dict)]
            return max((found for found in looked if type(found) is int), default=0)
        return max((int(found) for found in _LOOKED.findall(self._data)), default=0)


def snapshot_of(data: bytes) -> GateSnapshot:
    """The snapshot in these bytes; raises SnapshotError. Does not parse nodes yet."""
    if len(data) > MAX_BYTES:
        raise SnapshotError(f"over {MAX_BYTES >> 20} MiB")
    lines = _lines(data)
    try:
        whole = json.loads(data if lines is None
                           else data[: data.index(b"\n")] + data[data.rindex(b"\n", 0, -1):])
    except (ValueError, RecursionError):
        raise SnapshotError("no JSON") from None
    if not isinstance(whole, dict) or whole.get("schema") != SCHEMA:
        raise SnapshotError(f"not of schema {SCHEMA}")
    entries = whole.get("nodes")
    if not isinstance(entries, dict):
        raise SnapshotError("nodes: expected a map")
    return GateSnapshot(whole, lines, entries, data)


def bytes_of(document: Mapping[str, Any]) -> bytes:
    """The document laid out as above; `snapshot_of` reads it, and every reader of JSON."""
    before = {key: document[key] for key in document if key < "nodes"}
    after = {key: document[key] for key in document if key > "nodes"}
    nodes = ",\n".join(f"{_json(name)}:{_json(document['nodes'][name])}"
                       for name in sorted(document["nodes"]))
    start = f"{_json(before)[:-1]}{',' if before else ''}"
    return f'{start}"nodes":{{\n{nodes}\n}}{"," if after else ""}{_json(after)[1:]}\n'.encode()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _lines(data: bytes) -> dict[str, bytes] | None:
    """The line of each node by name; None if the nodes are not on their own lines."""
    rows = data.split(b"\n")
    if len(rows) < 4 or rows[-1] or not rows[0].endswith(b'"nodes":{') or not rows[-2].startswith(b"}"):
        return None
    found: dict[str, bytes] = {}
    for row in rows[1:-2]:
        name, quote, rest = row[1:].partition(b'"')
        if not row.startswith(b'"') or not quote or not rest.startswith(b":") or b"\\" in name:
            return None
        found[name.decode(errors="replace")] = row
    return found if len(found) == len(rows) - 3 else None


def _whole(top: Mapping[str, Any], key: str) -> int:
    found = top.get(key)
    if type(found) is not int or not 0 <= found < 1 << 53:
        raise SnapshotError(f"{key}: expected a whole number")
    return found
