"""GPU facts: what NVML says of each GPU, and how many the PCI bus holds.

NVML semantics (what NOT_SUPPORTED, GPU_IS_LOST and the volatile counters mean) are those of NVIDIA's nvml.h.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from healthcheck.facts import smi
from healthcheck.facts.base import UNSUPPORTED, Captures, Fact, Files, Partial, Unmeasured, Unread, fact, made, part, why
from healthcheck.facts.smi import SMI
from healthcheck.probes import MIB, Kind, Probe
from healthcheck.recording import Outcome

NVML = Probe("gpu.nvml", Kind.NVML, seconds=15.0, limit=1 * MIB)
PCI = Probe("gpu.pci", Kind.FILES, paths=("/sys/bus/pci/devices/*/uevent",), limit=1 * MIB)

Line = dict[str, Any]

NVIDIA_VENDOR = "10DE"
DISPLAY_CLASSES = ("30000", "30200")  # VGA and 3D controllers (PCI code and ID assignment specification, class 03h)


@dataclass(frozen=True)
class Gpu(Fact):
    """One GPU that the driver lists. `answers` is False, with NVML's word in `trouble`, when NVML says that it is lost or wants a
    reset, and True when it answered at least one question; anything else is no measurement.

    What each reading means is nvml.h's to say; units are in the names, and where they are not: counts. `ecc_corrected` and
    `ecc_uncorrected` are the volatile totals (since the driver was loaded), `_lifetime` the aggregate ones (of the board's life).
    Of `clock_reasons` each bit is an nvmlClocksEventReason; the `_ns` counters say for how long such a reason held since the driver
    was loaded. `fabric_state` and `recovery_action` are nvml.h's names in lower case (`completed`, `drain_and_reset`), `fabric_status`
    is an nvmlReturn_t. `memory_used_bytes` leaves out what the driver reserves. `caveat` says where nvidia-smi told it in NVML's place.
    """

    name: str
    index: int
    answers: bool
    trouble: str
    # what it is
    pci: str
    uuid: str
    serial: str
    model: str
    architecture: str
    minor: int
    part_number: str
    vbios: str
    inforom: str
    gsp_firmware: str
    # how it is set
    recovery_action: str
    persistence: bool
    mig: bool
    mig_pending: bool
    compute_mode: str
    # its memory
    memory_bytes: int
    memory_used_bytes: int
    ecc_enabled: bool
    ecc_pending: bool
    ecc_corrected: int
    ecc_uncorrected: int
    ecc_corrected_lifetime: int
    ecc_uncorrected_lifetime: int
    sram_uncorrected_lifetime: int
    sram_threshold_exceeded: bool
    rows_corrected: int
    rows_uncorrected: int
    rows_pending: bool
    rows_failed: bool
    banks_max: int
    banks_high: int
    banks_partial: int
    banks_low: int
    banks_none: int
    pages_retired_corrected: int
    pages_retired_uncorrected: int
    pages_pending: bool
    # its PCI Express link
    pcie_generation: int
    pcie_generation_max: int
    pcie_width: int
    pcie_width_max: int
    pcie_replays: int
    # heat, power, clocks
    temperature_c: int
    temperature_memory_c: int
    temperature_slowdown_c: int
    temperature_shutdown_c: int
    temperature_memory_max_c: int
    temperature_gpu_max_c: int
    temperature_margin_c: int
    power_watts: float
    power_limit_watts: float
    power_limit_default_watts: float
    clock_sm_mhz: int
    clock_sm_max_mhz: int
    clock_memory_mhz: int
    clock_memory_max_mhz: int
    clock_reasons: int
    slowdown_power_ns: int
    slowdown_thermal_ns: int
    slowdown_hw_thermal_ns: int
    slowdown_hw_power_brake_ns: int
    slowdown_sw_thermal_ns: int
    utilization_percent: int
    # its place in an NVSwitch or multi-node NVLink fabric
    fabric_state: str
    fabric_status: int
    fabric_clique: int
    fabric_cluster: str
    fabric_health: int
    caveat: str = ""


@dataclass(frozen=True)
class GpuPresence(Fact):
    """How many GPUs the driver lists, and how many the PCI bus holds."""

    name: str
    listed: int
    on_pci: int


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


def pci_gpus(files: Files) -> list[str]:
    """The PCI addresses of NVIDIA display controllers, from the uevent files of the bus; raises Unread if any cannot be read."""
    found = []
    for path in files:
        fields = dict(line.partition("=")[::2] for line in files.text(path).splitlines())
        vendor = fields.get("PCI_ID", "").partition(":")[0]
        if vendor.upper() == NVIDIA_VENDOR and fields.get("PCI_CLASS", "").lstrip("0") in DISPLAY_CLASSES:
            found.append(fields.get("PCI_SLOT_NAME", path.split("/")[-2]).lower())
    return found


class Piece(NamedTuple):
    """A part of a line that several GPUs may have alike: its members, what fields of a Gpu they make, and the text of its rows if any."""

    members: tuple[tuple[str, Any], ...]
    fields: tuple[tuple[str, Any], ...]
    rows: str | None


class Sent(Line):
    """One line of the reader. `pieces` make it up, and `well` says that there is no error in any of them.

    `texts` are those of its rows (links, pairs) by their keys, so that rows that say the same are known at sight.
    """

    __slots__ = ("pieces", "texts", "well")

    def __init__(self, pieces: Sequence[Piece], texts: Mapping[str, str], *, well: bool) -> None:
        super().__init__(chain.from_iterable([piece.members for piece in pieces]))
        self.pieces = pieces
        self.texts = texts
        self.well = well


_PIECES: dict[str, Piece] = {}
_MOST_PIECES, _SHORT, _LONG = 8192, 256, 8192
_ROWS = ('nvlinks": {"ok": ', 'p2p": {"ok": ')


def sent(text: str) -> Any:
    """A line of the reader, parsed: equal to what json.loads makes of it, at a third of the cost, for most of it was met before.

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
    line = Sent(pieces, texts, well='"error"' not in text and "\\" not in text)
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
    fields = tuple((_FIELD_OF[key], _read(_FIELD_OF[key], {key: value})) for key, value in members if key in _FIELD_OF)
    return Piece(members, fields, number if text.startswith(_ROWS) and _is_rows(number, members) else None)


def _is_rows(text: str, members: tuple[tuple[str, Any], ...]) -> bool:
    """Whether the text is all that the piece says."""
    try:
        return len(members) == 1 and {"ok": json.loads(text)} == members[0][1]
    except ValueError:
        return False


@lru_cache(maxsize=2)
def _lines(text: str) -> list[Line]:
    """The reader's lines, parsed once for all the facts of one node."""
    lines = [sent(line) for line in text.splitlines()]
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise Unread("the NVML reader's answer is empty or not of our form")
    return lines


def _nvml(captures: Captures) -> list[Line]:
    """The reader's lines; raises Unread with NVML's own word when the library did not come up."""
    lines = _lines(captures.text(NVML))
    error = lines[0].get("error")
    if error is not None:
        raise Unread(f"NVML: {str(error[1])[:100] if isinstance(error, list) and len(error) == 2 else 'it failed to start'}")
    return lines


@part(PCI)
def on_pci(captures: Captures) -> Any:
    """How many NVIDIA GPUs are on the PCI bus; Unmeasured where it was not wholly read."""
    try:
        files = captures.files(PCI)
        count = len(pci_gpus(files))
    except Unread as error:
        return Unmeasured(str(error))
    capture = captures.capture(PCI)
    if files.unseen() or not list(files) or capture is None or capture.outcome is not Outcome.DONE:
        return Unmeasured(files.unseen() or "the PCI bus was not wholly read")
    return count


def _no_gpu_on_pci(captures: Captures) -> bool:
    """Whether the PCI bus was wholly read and holds no NVIDIA GPU: then 'none' is a measurement and not a failure to look."""
    return bool(captures.once(on_pci) == 0)


def _second(captures: Captures, reason: str) -> smi.SmiLog:
    """nvidia-smi's log, which the collector fetches where NVML has no answer; raises Unread with both reasons."""
    try:
        return smi.log(captures)
    except Unread as error:
        capture = captures.capture(SMI)
        asked = capture is not None and capture.outcome is not Outcome.MISSING
        raise Unread(f"{reason}; {error}" if asked else reason) from None


def _counted(head: Line, found: tuple[Any, ...], lines: int, source: str = "NVML") -> Any:
    """What was made of the lines of as many GPUs as the source itself says that there are."""
    count = reading(head, "count", int, source)
    if isinstance(count, Unmeasured) or count is UNSUPPORTED:
        raise Unread(f"{source}: the number of GPUs was not read")
    if lines != count:
        return Partial(found, f"{source} lists {count} GPUs, but {lines} were read")
    return found


def each(captures: Captures, facts_of: Callable[[Line], Iterable[Any]]) -> Any:
    """What `facts_of` makes of the NVML reader's line of each GPU, in one tuple; raises Unread where NVML has no answer.

    Empty where it lists none, or where no driver is and the PCI bus was read and holds none; Partial where lines are missing.
    """
    capture = captures.capture(NVML)
    if capture is not None and capture.outcome in (Outcome.TIMEOUT, Outcome.TRUNCATED) and "\n" in capture.text:
        whole = capture.text[: capture.text.rfind("\n")]
        return Partial(tuple(made for line in _lines(whole)[1:] for made in facts_of(line)), why(NVML, capture))
    try:
        head, *rest = _nvml(captures)
    except Unread:
        if capture is not None and capture.outcome is Outcome.MISSING and _no_gpu_on_pci(captures):
            return ()
        raise
    return _counted(head, tuple(made for line in rest for made in facts_of(line)), len(rest))


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


def _by_smi(captures: Captures, reason: str) -> Any:
    log = _second(captures, reason)
    caveat = f"read by nvidia-smi ({reason})"
    found = tuple(replace(_gpu(line, "nvidia-smi"), caveat=caveat) for line in log.gpus)
    return Partial(found, log.cut) if log.cut else _counted(log.head, found, len(found), "nvidia-smi")


@fact("gpus", NVML, SMI, PCI)
def gpus(captures: Captures) -> Any:
    """Every GPU that the driver lists; empty where it lists none, or where no driver is and the PCI bus was read and holds none."""
    try:
        return each(captures, lambda line: (_gpu(line),))
    except Unread as error:
        return _by_smi(captures, str(error))


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


def _read(field: str, line: Line, source: str = "NVML") -> Any:
    """One field of a Gpu, of the reading that the reader sends for it."""
    key, kind, convert = READINGS[field]
    value = reading(line, key, kind, source)
    return convert(value) if type(value) is kind else value


def _gpu(line: Line, source: str = "NVML") -> Gpu:
    index = index_of(line)
    unread = gone(line, source)
    answers: Any
    if unread is not None:
        code, words = line["error"]
        answers = False if code in _GONE else unread
        nothing: dict[str, Any] = dict.fromkeys(READINGS, unread)
        return Gpu(name=f"GPU {index}", index=index, answers=answers, trouble=str(words)[:100], **nothing)
    values: dict[str, Any] = {}
    if type(line) is Sent:
        values.update(chain.from_iterable([piece.fields for piece in line.pieces]))
    if len(values) < len(READINGS):
        values.update((field, _read(field, line, source)) for field in READINGS if field not in values)
    values["name"], values["index"], values["caveat"] = f"GPU {index}", index, ""
    if values["temperature_margin_c"] is UNSUPPORTED:
        # GPUs that give the threshold instead: what is left to it is the same distance.
        slowdown, now = values["temperature_slowdown_c"], values["temperature_c"]
        if type(slowdown) is int and type(now) is int:
            values["temperature_margin_c"] = slowdown - now
    lost = _lost(line)
    if lost is not None:
        answers = False
    elif any(isinstance(value, dict) and "ok" in value for key, value in line.items() if key != "p2p"):    # which has an answer per pair
        answers = True
    else:
        answers = Unmeasured(f"{source}: not one of its readings was had")
    values["answers"], values["trouble"] = answers, lost or ""
    return made(Gpu, values)


# NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED and NVML_ERROR_GPU_NOT_FOUND (nvml.h): the GPU itself does not answer.
_GONE = (15, 16, 28)


def _lost(line: Line) -> str | None:
    if type(line) is Sent and line.well:
        return None
    for error in [value["error"] for value in line.values() if type(value) is dict and "error" in value]:
        if isinstance(error, list) and len(error) == 2 and error[0] in _GONE:
            return str(error[1])[:100]
    return None


@fact("gpu_presence", NVML, SMI, PCI)
def gpu_presence(captures: Captures) -> GpuPresence:
    """Counts of GPUs by the driver and by the PCI bus, each measured on its own."""
    listed: Any
    try:
        listed = reading(_nvml(captures)[0], "count", int)
    except Unread as error:
        listed = Unmeasured(str(error))
        capture = captures.capture(NVML)
        none = capture is not None and capture.outcome is Outcome.MISSING and _no_gpu_on_pci(captures)
        if none or (smi.trouble(captures) or (0, ""))[0] == smi.NO_DEVICES:
            listed = 0
        else:
            try:
                listed = reading(_second(captures, str(error)).head, "count", int, "nvidia-smi")
            except Unread as both:
                listed = Unmeasured(str(both))
    return GpuPresence(name="GPUs", listed=listed, on_pci=captures.once(on_pci))
