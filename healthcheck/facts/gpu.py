"""GPU facts: NVML's readings of each GPU, and how many the PCI bus holds.

NVML semantics (what NOT_SUPPORTED, GPU_IS_LOST and the volatile counters mean) are those of NVIDIA's nvml.h.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from healthcheck.facts import smi
from healthcheck.facts.base import Captures, fact, why
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.gpu_answers import GpuAnswer, answers, none_answers
from healthcheck.facts.nvml_output import (
    DRIVER,
    OUR_OWN,
    READINGS,
    Line,
    NvmlAnswer,
    error_of,
    gpu_fields,
    handle_error,
    index_of,
    read,
    reading,
)
from healthcheck.facts.smi import SMI
from healthcheck.facts.values import UNSUPPORTED, Fact, Partial, Unmeasured, Unread
from healthcheck.model.probes import MIB, Probe, ProbeKind
from healthcheck.model.recording import Capture, Outcome

NVML = Probe("gpu.nvml", ProbeKind.NVML, seconds=15.0, limit=1 * MIB)
PCI = Probe("gpu.pci", ProbeKind.FILES, paths=("/sys/bus/pci/devices/*/uevent",), limit=1 * MIB)

NVIDIA_VENDOR = "10DE"
# VGA and 3D controllers (PCI code and ID assignment specification, class 03h)
DISPLAY_CLASSES = ("30000", "30200")


Made = TypeVar("Made")


class Gpu(Fact):
    """One GPU that the driver lists. `answers` is False, with the driver's words in `trouble`, where it does
    not answer (`healthcheck.facts.gpu_answers`), and unmeasured where that is not known.

    nvml.h defines the readings; units are in the names, and readings without one are counts. `ecc_corrected`
    and `ecc_uncorrected` are the volatile totals (since the driver was loaded), `_lifetime` the aggregate
    ones (of the board's life). Each bit of `clock_reasons` is an nvmlClocksEventReason; the `_ns` counters
    say for how long such a reason held since the driver was loaded. `fabric_state` and `recovery_action` are
    nvml.h's names in lower case (`completed`, `drain_and_reset`), `fabric_status` is an nvmlReturn_t.
    `memory_used_bytes` excludes what the driver reserves. `caveat` says where nvidia-smi replaced NVML.
    """

    IDENTITY = ("pci",)

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
    caveat: str


class GpuPresence(Fact):
    """How many GPUs the driver lists, and how many the PCI bus holds."""

    name: str
    listed: int
    on_pci: int


def pci_gpus(files: CapturedFiles) -> list[str]:
    """The PCI addresses of NVIDIA display controllers, from the uevent files of the bus; raises Unread if any
    cannot be read."""
    return [found.get("PCI_SLOT_NAME", path.split("/")[-2]).lower() for path in files
            if is_gpu(found := uevent(files.text(path)))]


def uevent(text: str) -> dict[str, str]:
    """The fields of a PCI device's uevent file."""
    return dict([line.partition("=")[::2] for line in text.splitlines()])


def is_gpu(fields: Mapping[str, str]) -> bool:
    """Whether these are the fields of an NVIDIA display controller."""
    vendor = fields.get("PCI_ID", "").partition(":")[0]
    return vendor.upper() == NVIDIA_VENDOR and fields.get("PCI_CLASS", "").lstrip("0") in DISPLAY_CLASSES


def _lines(captures: Captures) -> NvmlAnswer:
    """The reader's lines, parsed once; only complete lines where it did not end."""
    capture = captures.capture(NVML)
    if _is_cut(capture) and capture is not None:
        return read(capture.text[: capture.text.rfind("\n")])
    return read(captures.text(NVML))


def _is_cut(capture: Capture | None) -> bool:
    return (capture is not None and capture.outcome in (Outcome.TIMEOUT, Outcome.TRUNCATED)
            and "\n" in capture.text)


def _nvml(captures: Captures) -> NvmlAnswer:
    """The lines of a reader that ended; raises Unread with NVML's message when the library did not come
    up."""
    captures.text(NVML)
    answer = captures.once(_lines)
    if answer.head.get("error") is not None:
        code, words = error_of(answer.head) or (-1, "it failed to start")
        raise Unread(f"NVML: {words}", () if code in OUR_OWN else (DRIVER,))
    return answer


def on_pci(captures: Captures) -> Any:
    """How many NVIDIA GPUs are on the PCI bus; Unmeasured unless all of it was read."""
    try:
        files = captures.files(PCI)
        count = len(pci_gpus(files))
    except Unread as error:
        return Unmeasured(str(error))
    capture = captures.capture(PCI)
    if files.unreadable() or not list(files) or capture is None or capture.outcome is not Outcome.DONE:
        return Unmeasured(files.unreadable() or "the PCI bus was not wholly read")
    return count


def _no_gpu_on_pci(captures: Captures) -> bool:
    """Whether all of the PCI bus was read and holds no NVIDIA GPU: then 'none' is a measurement."""
    return bool(captures.once(on_pci) == 0)


def _smi_log(captures: Captures, refused: Unread) -> smi.SmiLog:
    """nvidia-smi's log, which the collector reads where NVML fails; raises Unread with both reasons.
    `refused` is NVML's."""
    try:
        return captures.once(smi.log)
    except Unread as error:
        capture = captures.capture(SMI)
        ran = capture is not None and capture.outcome is not Outcome.MISSING
        raise Unread(f"{refused}; {error}" if ran else str(refused), refused.asked) from None


def _counted(head: Line, found: Made, lines: int, source: str = "NVML") -> Made | Partial:
    """`found`, as Partial unless there are as many lines as the source counts GPUs."""
    count = reading(head, "count", int, source)
    if isinstance(count, Unmeasured) or count is UNSUPPORTED:
        raise Unread(f"{source}: the number of GPUs was not read")
    if lines != count:
        return Partial(found, f"{source} lists {count} GPUs, but {lines} were read")
    return found


def each(captures: Captures, make: Callable[[Sequence[Line]], Made]) -> Made | Partial:
    """`make` of the NVML reader's lines, one for each GPU; raises Unread where NVML failed.

    There are no lines where NVML lists none, or where there is no driver and no GPU on the PCI bus. Partial
    where lines are missing.
    """
    capture = captures.capture(NVML)
    if _is_cut(capture):
        return Partial(make(captures.once(_lines).gpus), why(NVML, capture))
    try:
        answer = _nvml(captures)
    except Unread:
        if capture is not None and capture.outcome is Outcome.MISSING and _no_gpu_on_pci(captures):
            return make(())
        raise
    return _counted(answer.head, make(answer.gpus), len(answer.gpus))


def _by_smi(captures: Captures, refused: Unread) -> Any:
    log = _smi_log(captures, refused)
    caveat = f"read by nvidia-smi ({refused})"
    found = _gpus_of(log.gpus, "nvidia-smi", caveat)
    return Partial(found, log.cut) if log.cut else _counted(log.head, found, len(found), "nvidia-smi")


@fact("gpus", NVML, SMI, PCI, each="gpu")
def gpus(captures: Captures) -> Any:
    """Every GPU that the driver lists; empty where it lists none, or where there is no driver and no GPU on
    the PCI bus."""
    try:
        return each(captures, _gpus_of)
    except Unread as error:
        return _by_smi(captures, error)


def _gpus_of(lines: Sequence[Line], source: str = "NVML", caveat: str = "") -> tuple[Gpu, ...]:
    return tuple([_gpu(line, answer, source, caveat)
                  for line, answer in zip(lines, answers(lines, source), strict=True)])


def silence(captures: Captures) -> str:
    """The driver's words where it lists GPUs, all of them were asked, and none answers; else empty."""
    try:
        answer = _nvml(captures)
        head, lines = answer.head, answer.gpus
    except Unread as error:
        try:
            log = _smi_log(captures, error)
        except Unread:
            return ""
        if log.cut:
            return ""
        head, lines = log.head, log.gpus
    return none_answers(lines) if reading(head, "count", int) == len(lines) else ""


def _gpu(line: Line, answer: GpuAnswer, source: str, caveat: str) -> Gpu:
    index = index_of(line)
    unread = handle_error(line, source)
    fields: dict[str, Any] = (dict.fromkeys(READINGS, unread) if unread is not None
                              else gpu_fields(line, source))
    values: dict[str, Any] = {"name": f"GPU {index}", "index": index, "answers": answer.answers,
                              "trouble": answer.trouble, "caveat": caveat, **fields}
    # A GPU that reports the threshold instead has the same margin by subtraction.
    if values["temperature_margin_c"] is UNSUPPORTED:
        slowdown, now = values["temperature_slowdown_c"], values["temperature_c"]
        if type(slowdown) is int and type(now) is int:
            values["temperature_margin_c"] = slowdown - now
    return Gpu(**values)


def recovery_actions(captures: Captures) -> tuple[tuple[str, str], ...]:
    """The recovery action that the driver asks for, by PCI address of each GPU that was read: "" where it has
    no such reading."""
    try:
        found = each(captures, _actions)
        return found.value if isinstance(found, Partial) else found
    except Unread as error:
        refused = error
    except (ValueError, RecursionError):
        return ()
    try:
        return _actions(_smi_log(captures, refused).gpus)
    except Unread:
        return ()


def _actions(lines: Sequence[Line]) -> tuple[tuple[str, str], ...]:
    read = [(reading(line, "pci", str), reading(line, "recovery_action", str)) for line in lines]
    return tuple([(pci, "" if action is UNSUPPORTED else action) for pci, action in read
                  if type(pci) is str and not isinstance(action, Unmeasured)])


@fact("gpu_presence", NVML, SMI, PCI)
def gpu_presence(captures: Captures) -> GpuPresence:
    """Counts of GPUs by the driver and by the PCI bus, each measured on its own."""
    listed: Any
    try:
        listed = reading(_nvml(captures).head, "count", int)
    except Unread as error:
        listed = Unmeasured(str(error), asked=error.asked)
        capture = captures.capture(NVML)
        none = capture is not None and capture.outcome is Outcome.MISSING and _no_gpu_on_pci(captures)
        if none or (smi.trouble(captures) or (0, ""))[0] == smi.NO_DEVICES:
            listed = 0
        else:
            try:
                listed = reading(_smi_log(captures, error).head, "count", int, "nvidia-smi")
            except Unread as both:
                listed = Unmeasured(str(both), asked=both.asked)
    return GpuPresence(name="GPUs", listed=listed, on_pci=captures.once(on_pci))
