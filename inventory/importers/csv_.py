"""A table of nodes, as spreadsheets and asset databases save it: one row a node,
one column a key of the inventory.

The first row names the columns. A name that is a key of the inventory, in whatever case and with spaces or
hyphens for underscores, is mapped by itself; others need a mapping to a key, to `labels.NAME`, `bmc.user`,
`lifecycle.owner` and the like, or to `-`, which skips the column. An empty cell is ignored.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inventory.errors import InventoryError, Mark, UsageError
from inventory.importers.base import Collected, Imported, check_size
from inventory.nodeset import did_you_mean
from inventory.text import short

NAME = "name"
GROUPS = "groups"
_NAMES = ("name", "node", "hostname", "host")
_PLAIN = ("address", "port", "user", "transport", "privilege", "become", "identity_file", "known_hosts_file",
          "proxy_jump", "python", "sku", "lifecycle", "rack", "leaf", "nvlink_domain", "power", "bmc",
          "profile", "unread", "boot_mac")
_NESTED = ("bmc.address", "bmc.port", "bmc.user", "bmc.protocol", "bmc.tls", "bmc.system",
           "lifecycle.state", "lifecycle.owner", "lifecycle.until")
KEYS = (NAME, GROUPS, *_PLAIN, *_NESTED)
_LABEL = re.compile(r"labels\.[A-Za-z0-9_][A-Za-z0-9_./-]{0,252}")
_DELIMITERS = ",;\t"
_COLUMNS = 1000
_CELL = 64 * 1024
_BOOLEAN = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse(text: str, source: str, mapping: Mapping[str, str] | None = None) -> Imported:
    """The nodes of a table; `mapping` says for a column's name which key it is. `leaf`, `unread`, `boot_mac`
    and `groups` may hold several names. Comma, semicolon or tab delimit: what the first row has most of.
    Raises InventoryError with file, line and column for a bad table, UsageError for a bad mapping."""
    check_size(text, source)
    text = text.removeprefix("\ufeff")
    rows = _rows(text, source)
    line, header = next(rows, (1, []))
    if not any(cell.strip() for cell in header):
        raise InventoryError(f"{source}: is empty, expected a first row that names the columns")
    columns = _columns(header, mapping or {}, Mark(source, line, 1))
    collected = Collected(source)
    for line, cells in rows:
        _row(collected, columns, cells, source, line)
    return collected.done()


def _rows(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with the line on which each begins."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            raise InventoryError(f"not valid CSV: {problem}", Mark(source, line, 1)) from None
        if any(cell.strip() for cell in row):
            yield line, row


def _delimiter(text: str) -> str:
    """The most frequent delimiter outside quotes in the first line that is not blank."""
    first = next((line for line in re.split(r"[\r\n]+", text[: _CELL]) if line.strip(" ,;\t")), "")
    bare = re.sub(r'"[^"]*"', "", first)
    return max(_DELIMITERS, key=bare.count)


def _columns(header: Sequence[str], mapping: Mapping[str, str], mark: Mark) -> list[str | None]:
    """The key of each column, None for a skipped one."""
    if len(header) > _COLUMNS:
        raise InventoryError(f"has over {_COLUMNS} columns", mark)
    wanted = {_simple(name): key for name, key in mapping.items()}
    for name, key in mapping.items():
        if key != "-" and key not in KEYS and not _LABEL.fullmatch(key):
            hint = did_you_mean(key, KEYS) or f"; known: {', '.join(KEYS)}, labels.NAME, or - for none"
            raise UsageError(f"--map {short(name)}: {short(key)} is not a key of a node{hint}")
    there = {_simple(cell) for cell in header}
    for name in mapping:
        if _simple(name) not in there:
            raise UsageError(f"--map {short(name)}: the table has no such "
                             f"column{did_you_mean(name, [cell.strip() for cell in header])}")
    keys: list[str | None] = []
    held: dict[str, str] = {}
    for at, cell in enumerate(header, 1):
        place = mark._replace(column=at)
        simple = _simple(cell)
        if simple in wanted:
            key = wanted.pop(simple)
        elif not simple:
            key = "-"       # the empty column after a last delimiter; a value in it is refused with its row
        else:
            key = _key(cell.strip(), simple, place)
        if key != "-" and key in held:
            raise InventoryError(
                f"the columns {short(held[key])} and {short(cell)} are both {key}: skip one with "
                f"--map {short(cell.strip())}=-", place)
        held[key] = cell
        keys.append(key if key != "-" else None if simple else "")
    if NAME not in keys:
        raise InventoryError("no column names the nodes: expected one called name, node, hostname or host, "
                             "or --map COLUMN=name", mark)
    for nested in _NESTED:
        plain = nested.partition(".")[0]
        if plain in held and nested in held:
            raise InventoryError(
                f"the columns {short(held[plain])} and {short(held[nested])} are {plain} and {nested}: "
                f"map {short(held[plain])} to "
                f"{plain}.{'state' if plain == 'lifecycle' else 'address'}", mark)
    return keys


def _key(cell: str, simple: str, mark: Mark) -> str:
    if simple in _NAMES:
        return NAME
    if simple in KEYS:
        return simple
    if _LABEL.fullmatch(cell):
        return cell
    hint = did_you_mean(simple, KEYS)
    raise InventoryError(
        f"the column {short(cell)} is not a key of a node{hint}; map it with --map {short(cell)}=KEY, "
        "=labels.NAME, or =- to skip it", mark)


def _simple(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip().lower()).strip("_")


def _row(
    collected: Collected, columns: Sequence[str | None], cells: Sequence[str], source: str, line: int,
) -> None:
    for at, cell in enumerate(cells, 1):
        if cell.strip() and (at > len(columns) or columns[at - 1] == ""):
            raise InventoryError(f"{short(cell)} is in a column without a name: is a delimiter left "
                                 "unquoted?", Mark(source, line, at))
    values: dict[str, Any] = {}
    marks: dict[str, Mark] = {}
    name, groups = "", ""
    for at, (key, cell) in enumerate(zip(columns, cells), 1):  # noqa: B905  (a short row has empty cells at its end)
        text = cell.strip()
        if not key or not text:
            continue
        mark = Mark(source, line, at)
        if key == NAME:
            name = text
        elif key == GROUPS:
            groups = text
        else:
            marks[key] = mark
            outer, _, inner = key.partition(".")
            if inner:
                values.setdefault(outer, {})[inner] = _value(inner, text)
            else:
                values[key] = _value(key, text)
    place = Mark(source, line, columns.index(NAME) + 1)
    if not name:
        raise InventoryError("the row has no node name", place)
    collected.node(name, values, place, marks)
    for group in groups.split():
        collected.member(group, name)


def _value(key: str, text: str) -> Any:
    """A cell as the inventory's reader expects it; a bad value stays text, which the reader refuses."""
    if key == "port" and re.fullmatch(r"[0-9]{1,9}", text):
        return int(text)
    if key == "become":
        return _BOOLEAN.get(text.lower(), text)
    if key in ("leaf", "unread", "boot_mac") and len(names := text.split()) > 1:
        return names
    return text
