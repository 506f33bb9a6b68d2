"""A line of the NVML reader, which is what it says of one GPU (healthcheck.collector.onnode.nvml), and the readings in it.

Most of a line was met before: of each reading of its own the text is known, or all of it but what differs between GPUs of one kind and
between looks (`healthcheck.facts.forms`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple

from healthcheck.facts.forms import Cut, Forms
from healthcheck.facts.values import UNSUPPORTED, Unmeasured, Unread

Line = Mapping[str, Any]


def reading(document: Line, key: str, kind: type, source: str = "NVML") -> Any:
    """One reading of the NVML reader: {"ok": value}, {"na": true} or {"error": [code, message]}."""
    value = document.get(key)
    if not isinstance(value, dict):
        return Unmeasured(f"{source}: {key} was not read")
    if value.get("na") is True:
        return UNSUPPORTED
    if "ok" in value and type(value["ok"]) is kind:
        return value["ok"]
    error = value.get("error")
    if isinstance(error, list) and len(error) == 2:
        return Unmeasured(f"{source}: {key}: {str(error[1])[:100]} (error {error[0]})")
    return Unmeasured(f"{source}: {key} has the value {str(value.get('ok'))[:40]!r}, expected {kind.__name__}")


# The reader's key of each reading, with the type that it sends and what is made of it. A reading that a device lacks stays UNSUPPORTED.
READINGS: Mapping[str, tuple[str, type, Callable[[Any], Any]]] = {
    **{name: (name, str, str) for name in (
        "pci", "uuid", "serial", "architecture", "part_number", "vbios", "inforom", "gsp_firmware", "recovery_action", "compute_mode",
        "fabric_cluster",
    )},
    # nvml.h's state 0 and a mask without one set part say that there is no such thing.
    "fabric_state": ("fabric_state", str, lambda value: UNSUPPORTED if value == "not_supported" else value),
    "fabric_health": ("fabric_health", int, lambda value: value or UNSUPPORTED),
    "model": ("name", str, str),
    **{name: (name, int, int) for name in (
        "minor", "memory_bytes", "memory_used_bytes", "ecc_corrected", "ecc_uncorrected", "ecc_corrected_lifetime",
        "ecc_uncorrected_lifetime", "sram_uncorrected_lifetime", "rows_corrected", "rows_uncorrected", "banks_max", "banks_high",
        "banks_partial", "banks_low", "banks_none", "pages_retired_corrected", "pages_retired_uncorrected", "pcie_generation",
        "pcie_generation_max", "pcie_width", "pcie_width_max", "pcie_replays", "temperature_c", "temperature_memory_c",
        "temperature_slowdown_c", "temperature_shutdown_c", "temperature_memory_max_c", "temperature_gpu_max_c", "temperature_margin_c",
        "clock_sm_mhz", "clock_sm_max_mhz", "clock_memory_mhz", "clock_memory_max_mhz", "clock_reasons", "slowdown_power_ns",
        "slowdown_thermal_ns", "slowdown_hw_thermal_ns", "slowdown_hw_power_brake_ns", "slowdown_sw_thermal_ns", "utilization_percent",
        "fabric_status", "fabric_clique",
    )},
    "ecc_enabled": ("ecc_mode", int, bool),
    **{name: (name, int, bool) for name in (
        "persistence", "mig", "mig_pending", "ecc_pending", "sram_threshold_exceeded", "rows_pending", "rows_failed", "pages_pending",
    )},
    "power_watts": ("power_mw", int, lambda value: value / 1000),
    "power_limit_watts": ("power_limit_mw", int, lambda value: value / 1000),
    "power_limit_default_watts": ("power_limit_default_mw", int, lambda value: value / 1000),
}


_FIELD_OF = {key: field for field, (key, _, _) in READINGS.items()}
_MOST_DIGITS = 1000


def read_field(field: str, line: Line, source: str = "NVML") -> Any:
    """One field of a Gpu, of the reading that the reader sends for it."""
    key, kind, convert = READINGS[field]
    value = reading(line, key, kind, source)
    return convert(value) if type(value) is kind else value


class Piece(NamedTuple):
    """A part of a line that several GPUs may have alike: its members, what fields of a Gpu they make, and the text of its rows if any."""

    members: tuple[tuple[str, Any], ...]
    fields: tuple[tuple[str, Any], ...]
    rows: str | None


class Known(NamedTuple):
    """What is known of a line's form: the line, all of its readings, whether the GPU answers and its trouble, and the texts of its rows.

    `cut` is its text without the readings that lines of this form may have differently. `differ` are these: key, the field it makes if
    any, its type and conversion; `places` says by the key where each is among them. `gpu` are all fields of the Gpu of such a line, with
    what differs as it was met.
    """

    cut: Cut
    line: Mapping[str, Any]
    fields: Mapping[str, Any]
    gpu: dict[str, Any]
    answers: Any
    lost: str | None
    texts: Mapping[str, str]
    differ: tuple[tuple[str, str, type, Callable[[Any], Any]], ...]
    places: Mapping[str, int]


class Sent(Mapping[str, Any]):
    """One line of the reader of no known form.

    `fields` are readings by the field that they make, so far as they are known. `well` says that there is no error in it. `texts` are
    those of its rows (links, pairs) by their keys, so that rows that say the same are known at sight.
    """

    __slots__ = ("_members", "fields", "texts", "well")

    def __init__(self, members: Line, fields: Mapping[str, Any], texts: Mapping[str, str], *, well: bool) -> None:
        self._members, self.fields, self.texts, self.well = members, fields, texts, well

    def __getitem__(self, key: str) -> Any:
        return self._members[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self._members.get(key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def text(self, key: str) -> str | None:
        """The text of its rows, where that is kept."""
        return self.texts.get(key)


class Formed(Mapping[str, Any]):
    """One line of the reader of a known form: what lines of it have alike is the form's, and is not copied for each GPU.

    Of all values that differ in the answer, as text and as JSON has them, the line's own begin at `start`.
    """

    __slots__ = ("_said", "_start", "_values", "known")

    def __init__(self, known: Known, said: Sequence[str], values: Sequence[Any], start: int = 0) -> None:
        self.known, self._said, self._values, self._start = known, said, values, start

    def __getitem__(self, key: str) -> Any:
        place = self.known.places.get(key)
        return self.known.line[key] if place is None else {"ok": self._values[self._start + place]}

    def get(self, key: str, default: Any = None) -> Any:
        place = self.known.places.get(key)
        return self.known.line.get(key, default) if place is None else {"ok": self._values[self._start + place]}

    def __iter__(self) -> Iterator[str]:
        return iter(self.known.line)        # which has all keys of a line of its form

    def __len__(self) -> int:
        return len(self.known.line)

    def text(self, key: str) -> str | None:
        """The text of its rows, where that is kept."""
        place = self.known.places.get(key)
        return self.known.texts.get(key) if place is None or key not in self.known.texts else self._said[self._start + place]

    def with_own(self, fields: dict[str, Any]) -> dict[str, Any]:
        """These fields, with those of the readings that differ as this line has them."""
        values, start = self._values, self._start
        for place, (key, field, kind, convert) in enumerate(self.known.differ, start):
            if field:
                value = values[place]
                fields[field] = convert(value) if type(value) is kind else read_field(field, {key: {"ok": value}})
        return fields


_PIECES: dict[str, Piece] = {}
_MOST_PIECES, _SHORT, _LONG = 8192, 256, 8192
_ROWS = ('nvlinks": {"ok": ', 'p2p": {"ok": ')


def sent(text: str) -> Any:
    """A line of the reader, parsed: equal to what json.loads makes of it, at a fraction of the cost, for most of it was met before."""
    place = text[:16].partition(",")[0]
    found = _FORMS.find(place, text)
    if found is not None:
        return Formed(*found)
    line = in_pieces(text)
    if type(line) is Sent and type(line.get("index")) is int and gone(line) is None:
        _FORMS.learn(place, text, partial(_known, line))
    return line


_FORMS: Forms[Known] = Forms(lambda path: len(path) == 2 and path[1] == "ok")


def _known(line: Sent, cut: Cut) -> Known | None:
    """What is known of lines that differ from this one in the values at which it is cut."""
    keys = [key for key, _ in cut.paths]
    if any(len(line[key]) != 1 for key in keys):
        return None
    differ = tuple((key, field, *READINGS[field][1:]) if (field := _FIELD_OF.get(key, "")) else (key, "", str, str) for key in keys)
    (answers, lost), fields = standing(line, "NVML"), all_fields(line, "NVML")
    gpu = {"name": f"GPU {line['index']}", "index": line["index"], "answers": answers, "trouble": lost or "", **fields, "caveat": ""}
    return Known(cut, dict(line), fields, gpu, answers, lost, line.texts, differ, {key: at for at, key in enumerate(keys)})


def in_pieces(text: str) -> Any:
    """A line of no known form, reading by reading.

    It is cut where one reading ends and the next begins. If each piece is a list of members by itself, so that in braces it is an
    object, then the line is the object of all of them in their order, wherever it was cut.
    """
    if text[:2] != '{"' or text[-2:] != "}}":
        return json.loads(text)
    cut = text[2:-2].split('}, "')
    pieces: list[Any] = list(map(_PIECES.get, cut))
    texts: dict[str, str] = {}
    try:
        for at in [at for at, piece in enumerate(pieces) if piece is None]:
            pieces[at] = _piece(cut[at])
    except (ValueError, TypeError):
        return json.loads(text)
    line = Sent(
        dict(chain.from_iterable([piece.members for piece in pieces])),
        dict(chain.from_iterable([piece.fields for piece in pieces])), texts,
        well='"error"' not in text and "\\" not in text)
    for at in range(max(0, len(cut) - 3), len(cut)):
        if cut[at].startswith(_ROWS):
            (key, value), rows = pieces[at].members[0], pieces[at].rows
            if rows is not None and line[key] is value:
                texts[key] = rows
    return line


def _piece(text: str) -> Piece:
    """Raises ValueError for what is no list of members."""
    if len(text) > _SHORT:
        return _long_piece(text) if len(text) <= _LONG else _parsed(text)
    if len(_PIECES) >= _MOST_PIECES:
        _PIECES.clear()
    return _PIECES.setdefault(text, _parsed(text))


@lru_cache(maxsize=512)
def _long_piece(text: str) -> Piece:
    return _parsed(text)


def _parsed(text: str) -> Piece:
    key, _, number = text.partition('": {"ok": ')
    if key in _FIELD_OF and number.isdigit() and number.isascii() and (number[0] != "0" or number == "0") and len(number) < _MOST_DIGITS:
        members: tuple[tuple[str, Any], ...] = ((key, {"ok": int(number)}),)      # as most of those that were not met before
    else:
        members = tuple(json.loads(f'{{"{text}}}}}').items())
    fields = tuple((_FIELD_OF[key], read_field(_FIELD_OF[key], {key: value})) for key, value in members if key in _FIELD_OF)
    return Piece(members, fields, number if text.startswith(_ROWS) and _is_rows(number, members) else None)


def _is_rows(text: str, members: tuple[tuple[str, Any], ...]) -> bool:
    """Whether the text is all that the piece says."""
    try:
        return len(members) == 1 and {"ok": json.loads(text)} == members[0][1]
    except ValueError:
        return False


def all_fields(line: Line, source: str) -> dict[str, Any]:
    """Every reading of a line by the field of a Gpu that it makes."""
    if type(line) is Formed:
        return line.with_own(dict(line.known.fields))
    values: dict[str, Any] = dict(line.fields) if type(line) is Sent else {}
    if len(values) < len(READINGS):
        values.update((field, read_field(field, line, source)) for field in READINGS if field not in values)
    return values


def standing(line: Line, source: str) -> tuple[Any, str | None]:
    """Whether the GPU answers, and NVML's word where it is lost."""
    if type(line) is Formed:
        return line.known.answers, line.known.lost
    lost = _lost(line)
    if lost is not None:
        return False, lost
    if any(isinstance(value, dict) and "ok" in value for key, value in line.items() if key != "p2p"):    # which has an answer per pair
        return True, None
    return Unmeasured(f"{source}: not one of its readings was had"), None


# NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED and NVML_ERROR_GPU_NOT_FOUND (nvml.h): the GPU itself does not answer.
GONE = (15, 16, 28)


def _lost(line: Line) -> str | None:
    if type(line) is Sent and line.well:
        return None
    for error in [value["error"] for value in line.values() if type(value) is dict and "error" in value]:
        if isinstance(error, list) and len(error) == 2 and error[0] in GONE:
            return str(error[1])[:100]
    return None


def index_of(line: Line) -> int:
    """The GPU's number in NVML's order."""
    index = line.get("index")
    if type(index) is not int:
        raise Unread("the NVML reader's answer holds a GPU without an index")
    return index


def gone(line: Line, source: str = "NVML") -> Unmeasured | None:
    """Why nothing was read of this GPU, if it gave no handle."""
    error = line.get("error")
    return Unmeasured(f"{source}: {str(error[1])[:100]} (error {error[0]})") if isinstance(error, list) and len(error) == 2 else None
