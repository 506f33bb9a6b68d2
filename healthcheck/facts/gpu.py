"""GPU facts: NVML's readings of each GPU, and how many the PCI bus holds.

NVML semantics (what NOT_SUPPORTED, GPU_IS_LOST and the volatile counters mean) are those of NVIDIA's nvml.h.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard, TypeVar

from healthcheck.facts import smi
from healthcheck.facts.base import Captures, fact, why
from healthcheck.facts.divided import undivided
from healthcheck.facts.gpu_answers import GpuAnswer, GpuReadings, answers, none_answers, readings_of
from healthcheck.facts.gpureadings import READINGS, gpu_fields
from healthcheck.facts.gpureadings import Gpu as Gpu
from healthcheck.facts.nvml_output import (
    DRIVER,
    OUR_OWN,
    Line,
    NvmlAnswer,
    error_of,
    handle_error,
    index_of,
    read,
    reading,
)
from healthcheck.facts.smi import SMI
from healthcheck.facts.values import UNSUPPORTED, Fact, Partial, Unmeasured, Unread, parted, partial_if
from healthcheck.model.probes import MIB, Probe, ProbeKind
from healthcheck.model.recording import Capture, Outcome

NVML = Probe("gpu.nvml", ProbeKind.NVML, seconds=40.0, limit=1 * MIB)
PCI = Probe("gpu.pci", ProbeKind.FILES, paths=("/sys/bus/pci/devices/*/uevent",), limit=1 * MIB)

NVIDIA_VENDOR = "10DE"
# VGA and 3D controllers (PCI code and ID assignment specification, class 03h)
DISPLAY_CLASSES = ("30000", "30200")


Made = TypeVar("Made")


class GpuPresence(Fact):
    """How many GPUs the driver lists, and how many the PCI bus holds."""

    name: str
    listed: int
    on_pci: int


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
    return read(capture.text[: capture.text.rfind("\n")] if _is_cut(capture) else captures.text(NVML))


def _is_cut(capture: Capture | None) -> TypeGuard[Capture]:
    return (capture is not None and capture.outcome in (Outcome.TIMEOUT, Outcome.TRUNCATED)
            and "\n" in capture.text)


def _nvml(captures: Captures) -> NvmlAnswer:
    """The lines of a reader that ended; raises Unread with NVML's message when the library did not come
    up."""
    answer = captures.once(_lines)
    if answer.head.get("error") is not None:
        code, words = error_of(answer.head) or (-1, "it failed to start")
        raise Unread(f"NVML: {words}", () if code in OUR_OWN else (DRIVER,))
    return answer


def on_pci(captures: Captures) -> Any:
    """How many NVIDIA GPUs are on the PCI bus; Unmeasured unless all of it was read."""
    try:
        files = captures.files(PCI)
        texts = [files.text(path) for path in files]
    except Unread as error:
        return Unmeasured(str(error))
    if files.unreadable() or not texts or captures.outcome(PCI) is not Outcome.DONE:
        return Unmeasured(files.unreadable() or "the PCI bus was not wholly read")
    # Most devices are not NVIDIA's.
    return sum(is_gpu(uevent(text)) for text in texts if NVIDIA_VENDOR in text.upper())


def _no_gpu_on_pci(captures: Captures) -> bool:
    """Whether all of the PCI bus was read and holds no NVIDIA GPU: then 'none' is a measurement."""
    return bool(captures.once(on_pci) == 0)


def _smi_log(captures: Captures, refused: Unread) -> smi.SmiLog:
    """nvidia-smi's log, which the collector reads where NVML fails; raises Unread with both reasons.
    `refused` is NVML's."""
    try:
        return captures.once(smi.log)
    except Unread as error:
        ran = captures.outcome(SMI) not in (None, Outcome.MISSING)
        raise Unread(f"{refused}; {error}" if ran else str(refused), refused.asked) from None


def _counted(head: Line, found: Made, lines: int, source: str = "NVML") -> Made | Partial:
    """`found`, as Partial unless there are as many lines as the source counts GPUs."""
    count = reading(head, "count", int, source)
    if isinstance(count, Unmeasured) or count is UNSUPPORTED:
        return Partial(found, f"{source}: the number of GPUs was not read")
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
        if captures.outcome(NVML) is Outcome.MISSING and _no_gpu_on_pci(captures):
            return make(())
        raise
    return _counted(answer.head, make(answer.gpus), len(answer.gpus))


class _Sourced(NamedTuple):
    """The readings of one GPU, who gave them, and what a PASS over them does not cover."""

    line: Line
    source: str = "NVML"
    caveat: str = ""


def _by_smi(line: Line, reason: str) -> _Sourced:
    return _Sourced(line, "nvidia-smi", f"read by nvidia-smi ({reason})")


def _sourced(captures: Captures) -> tuple[_Sourced, ...] | Partial:
    """Every GPU's readings: NVML's, and nvidia-smi's of a GPU for which NVML has none, or of all where NVML
    failed. Raises Unread where both did."""
    try:
        found = each(captures, lambda lines: tuple([_Sourced(line) for line in lines]))
    except Unread as error:
        log = _smi_log(captures, error)
        by_smi = tuple([_by_smi(line, str(error)) for line in log.gpus])
        return Partial(by_smi, log.cut) if log.cut else _counted(log.head, by_smi, len(by_smi), "nvidia-smi")
    lines, lacking = parted(found)
    try:
        count = reading(captures.once(_lines).head, "count", int)
        return _filled(lines, lacking, count, captures.once(smi.log))
    except Unread:
        return found


# GPU_IS_LOST and RESET_REQUIRED (nvml.h): NVML's own answer, which no other source can better.
_DEFINITE = (15, 16)
_OURS = -1


def _code(line: Line) -> Any:
    error = error_of(line)
    return error[0] if error is not None else None


def _has_readings(line: Line) -> bool:
    """Whether anything was read of a GPU; its pairs have an answer each, whatever it is."""
    return any(isinstance(value, dict) and "ok" in value for key, value in line.items() if key != "p2p")


def _filled(
    lines: Sequence[_Sourced], lacking: str, count: Any, log: smi.SmiLog,
) -> tuple[_Sourced, ...] | Partial:
    """NVML's lines, with nvidia-smi's where NVML has no reading of a GPU.

    Both list GPUs in one order, but nvidia-smi may leave out a lost one, and NVML gives no address of a GPU
    that it did not open: what nvidia-smi lists besides the GPUs that NVML read is in their place if there are
    as many. Its word that a GPU is lost or unknown is one, too, where NVML has only our own limit.
    """
    held = {index_of(each.line): each for each in lines}
    listed = range(count) if type(count) is int else ()
    open_ = [index for index in sorted({*held, *listed})
             if index not in held or (not _has_readings(held[index].line)
                                      and _code(held[index].line) not in _DEFINITE)]
    known = {reading(each.line, "pci", str) for index, each in held.items() if index not in open_}
    spare = [line for line in log.gpus if reading(line, "pci", str) not in known]
    if len(spare) == len(open_):
        for index, line in zip(open_, spare, strict=True):
            first = handle_error(held[index].line) if index in held else Unmeasured(lacking)
            why = first or Unmeasured("NVML: none of its readings could be read")
            if index not in held or _code(held[index].line) == _OURS or "error" not in line:
                held[index] = _by_smi({**line, "index": index}, why.reason)
    found = tuple([held[index] for index in sorted(held)])
    return Partial(found, lacking) if lacking and len(found) != count else found


@fact("gpus", NVML, SMI, PCI, each="gpu")
def gpus(captures: Captures) -> Any:
    """Every GPU that the driver lists; empty where it lists none, or where there is no driver and no GPU on
    the PCI bus."""
    lines, lacking = parted(captures.once(_sourced))
    return partial_if(_gpus_of(lines), lacking)


def _gpus_of(lines: Sequence[_Sourced]) -> tuple[Gpu, ...]:
    given = [each.line for each in lines]
    read = list(map(readings_of, given))
    answered = answers(given, [each.source for each in lines], read)
    return tuple([_gpu(each, of, answer) for each, of, answer in zip(lines, read, answered, strict=True)])


def silence(captures: Captures) -> str:
    """The driver's words where it lists GPUs, all of them were asked, and none answers; else empty."""
    try:
        found, lacking = parted(captures.once(_sourced))
    except Unread:
        return ""
    return "" if lacking else none_answers([each.line for each in found])


def _gpu(sourced: _Sourced, read: GpuReadings, answer: GpuAnswer) -> Gpu:
    line, source, caveat = sourced
    index = index_of(line)
    unread = handle_error(line, source)
    fields: dict[str, Any] = (dict.fromkeys(READINGS, unread) if unread is not None
                              else gpu_fields(line, read.held, source))
    fields.update(name=f"GPU {index}", index=index, answers=answer.answers, trouble=answer.trouble,
                  caveat="; ".join(filter(None, (caveat, line.get("note")))))
    fields["temperature_below_slowdown_c"] = _below_slowdown(fields)
    return Gpu(**undivided(fields))


def _below_slowdown(values: Mapping[str, Any]) -> Any:
    """The slowdown temperature less the temperature, of a GPU that gives no T.Limit margin."""
    if type(values["temperature_margin_c"]) is int:
        return UNSUPPORTED
    slowdown, now = values["temperature_slowdown_c"], values["temperature_c"]
    absent = [value for value in (slowdown, now) if type(value) is not int]
    return next((value for value in absent if value is UNSUPPORTED), absent[0]) if absent else slowdown - now


def recovery_actions(captures: Captures) -> tuple[tuple[str, str], ...]:
    """The recovery action that the driver asks for, by PCI address of each GPU that was read: "" where it has
    no such reading."""
    try:
        found, _ = parted(_sourced(captures))
    except (Unread, ValueError, RecursionError):
        return ()
    read = [(reading(each.line, "pci", str), reading(each.line, "recovery_action", str)) for each in found]
    return tuple([(pci, "" if action is UNSUPPORTED else action) for pci, action in read
                  if type(pci) is str and not isinstance(action, Unmeasured)])


@fact("gpu_presence", NVML, SMI, PCI)
def gpu_presence(captures: Captures) -> GpuPresence:
    """Counts of GPUs by the driver and by the PCI bus, each measured on its own."""
    listed: Any
    capture = captures.capture(NVML)
    try:
        head = captures.once(_lines).head if _is_cut(capture) else _nvml(captures).head
        listed = reading(head, "count", int)
    except Unread as error:
        listed = Unmeasured(str(error), asked=error.asked)
        none = captures.outcome(NVML) is Outcome.MISSING and _no_gpu_on_pci(captures)
        refusal = smi.trouble(captures)
        if none or (refusal is not None and refusal[0] == smi.NO_DEVICES):
            listed = 0
        else:
            try:
                listed = reading(_smi_log(captures, error).head, "count", int, "nvidia-smi")
            except Unread as both:
                listed = Unmeasured(str(both), asked=both.asked)
    return GpuPresence(name="GPUs", listed=listed, on_pci=captures.once(on_pci))
