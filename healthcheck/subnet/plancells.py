"""One row of a cabling plan's table: its cells by column, each as the value that it is to be."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from healthcheck.subnet.cabling import Tier
from inventory.errors import InventoryError, Mark
from inventory.text import short

SPEEDS = ("SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR")
WIDTHS = (1, 2, 4, 8, 12)
_NAME = re.compile(r"[^\x00-\x20\x7f][^\x00-\x1f\x7f]{0,126}")
_GUID = re.compile(r"(?:0x)?([0-9a-fA-F]{16})")


class PlanRow:
    """The cells of the row on `line`. A value that is not there is None; for a wrong one each method raises
    InventoryError with file, line and column."""

    def __init__(self, source: str, line: int, columns: Sequence[str], cells: Sequence[str]) -> None:
        self.line = line
        self._source = source
        self._columns = columns
        self._values: dict[str, str] = {}
        for at, cell in enumerate(cells, 1):
            if not (held := cell.strip()):
                continue
            if at > len(columns):
                raise InventoryError(f"{short(cell)} is in a column without a name: is a delimiter left "
                                     "unquoted?", Mark(source, line, at))
            self._values[columns[at - 1]] = held.removeprefix("'")

    def wrong(self, key: str, what: str) -> InventoryError:
        """The error for a column of this row."""
        at = self._columns.index(key) + 1 if key in self._columns else 1
        return InventoryError(what, Mark(self._source, self.line, at))

    def text(self, key: str) -> str | None:
        """A name or a number of a part."""
        text = self._values.get(key)
        if text is not None and not _NAME.fullmatch(text):
            raise self.wrong(key, f"{short(text)}: expected at most 127 printable characters")
        return text

    def needed(self, key: str) -> str:
        """A text that has to be there."""
        text = self.text(key)
        if text is None:
            raise self.wrong(key, f"the row has no {key}")
        return text

    def tier(self, key: str) -> Tier | None:
        """A tier by its name."""
        if (text := self._values.get(key)) is None:
            return None
        try:
            return Tier(text.lower())
        except ValueError:
            raise self.wrong(key, f"{short(text)}: expected {', '.join(one.value for one in Tier)}") from None

    def speed(self) -> str | None:
        """The rate of a lane, which may be given for each end."""
        found: dict[str, str] = {}
        for key in ("speed", "speed_a", "speed_b"):
            if (text := self._values.get(key)) is None:
                continue
            if text.upper() not in SPEEDS:
                raise self.wrong(key, f"{short(text)} is no speed of a lane: expected one of "
                                 f"{', '.join(SPEEDS)}; give Ethernet's rate as gigabits")
            found[key] = text.upper()
        if len(set(found.values())) > 1:
            raise self.wrong(list(found)[-1], f"the ends differ in speed: {' and '.join(found.values())}")
        return next(iter(found.values()), None)

    def width(self) -> int | None:
        """Lanes: 4 or 4x."""
        if (text := self._values.get("width")) is None:
            return None
        found = re.fullmatch(r"(\d{1,2})[xX]?", text, re.ASCII)
        if found is None or int(found[1]) not in WIDTHS:
            raise self.wrong("width", f"{short(text)}: expected lanes, one of {', '.join(map(str, WIDTHS))}")
        return int(found[1])

    def number(self, key: str, most: float) -> float | None:
        """A number over 0; a decimal comma is one, and metres may have their unit."""
        if (text := self._values.get(key)) is None:
            return None
        plain = text.removesuffix("m").rstrip() if key == "metres" else text
        try:
            number = float(plain.replace(",", ".")) if len(text) < 20 else math.nan
        except ValueError:
            number = math.nan
        if not 0 < number <= most:
            raise self.wrong(key, f"{short(text)}: expected a number over 0, at most {most:g}")
        return number

    def unit(self, key: str) -> int | None:
        """A height unit: 17 or U17."""
        if (text := self._values.get(key)) is None:
            return None
        found = re.fullmatch(r"[uU]?(\d{1,3})", text, re.ASCII)
        if found is None:
            raise self.wrong(key, f"{short(text)}: expected a height unit such as 17 or U17")
        return int(found[1])

    def guid(self, key: str) -> str | None:
        """A GUID as 16 digits in lower case."""
        if (text := self._values.get(key)) is None:
            return None
        found = _GUID.fullmatch(text.replace(":", ""))
        if found is None:
            raise self.wrong(key, f"{short(text)}: expected a node GUID of 16 hexadecimal digits")
        return found[1].lower()
