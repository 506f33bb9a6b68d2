"""GPU facts: what NVML says of each GPU, and how many the PCI bus holds.

NVML semantics (what NOT_SUPPORTED, GPU_IS_LOST and the volatile counters mean) are those of NVIDIA's nvml.h.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import UNSUPPORTED, Captures, Fact, Files, Partial, Unmeasured, Unread, fact, why
from healthcheck.probes import MIB, Kind, Probe
from healthcheck.recording import Outcome

NVML = Probe("gpu.nvml", Kind.NVML, seconds=15.0, limit=1 * MIB)
PCI = Probe("gpu.pci", Kind.FILES, paths=("/sys/bus/pci/devices/*/uevent",), limit=1 * MIB)

NVIDIA_VENDOR = "10DE"
DISPLAY_CLASSES = ("30000", "30200")  # VGA and 3D controllers (PCI code and ID assignment specification, class 03h)


@dataclass(frozen=True)
class Gpu(Fact):
    """One GPU that the driver lists. `answers` is False, with NVML's word in `trouble`, when NVML says that it is lost or wants a
    reset, and True when it answered at least one question; anything else is no measurement.

    `pci` is the address in full form; `memory_bytes` the frame buffer; the error counts are the volatile totals (since the
    driver was loaded).
    """

    name: str
    index: int
    answers: bool
    trouble: str
    pci: str
    uuid: str
    serial: str
    model: str
    memory_bytes: int
    ecc_enabled: bool
    ecc_uncorrected: int
    ecc_corrected: int


@dataclass(frozen=True)
class GpuPresence(Fact):
    """How many GPUs the driver lists, and how many the PCI bus holds."""

    name: str
    listed: int
    on_pci: int


def reading(document: dict[str, Any], key: str, kind: type) -> Any:
    """One reading of the NVML reader: {"ok": value}, {"na": true} or {"error": [code, message]}."""
    value = document.get(key)
    if not isinstance(value, dict):
        return Unmeasured(f"NVML: {key} was not read")
    if value.get("na") is True:
        return UNSUPPORTED
    if "ok" in value and type(value["ok"]) is kind:
        return value["ok"]
    error = value.get("error")
    if isinstance(error, list) and len(error) == 2:
        return Unmeasured(f"NVML: {key}: {str(error[1])[:100]} (error {error[0]})")
    return Unmeasured(f"NVML: {key} has the value {str(value.get('ok'))[:40]!r}, expected {kind.__name__}")


def pci_gpus(files: Files) -> list[str]:
    """The PCI addresses of NVIDIA display controllers, from the uevent files of the bus; raises Unread if any cannot be read."""
    found = []
    for path in files:
        fields = dict(line.partition("=")[::2] for line in files.text(path).splitlines())
        vendor = fields.get("PCI_ID", "").partition(":")[0]
        if vendor.upper() == NVIDIA_VENDOR and fields.get("PCI_CLASS", "").lstrip("0") in DISPLAY_CLASSES:
            found.append(fields.get("PCI_SLOT_NAME", path.split("/")[-2]).lower())
    return found


def _lines(text: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines()]
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise Unread("the NVML reader's answer is empty or not of our form")
    return lines


def _nvml(captures: Captures) -> list[dict[str, Any]]:
    """The reader's lines; raises Unread with NVML's own word when the library did not come up."""
    lines = _lines(captures.text(NVML))
    error = lines[0].get("error")
    if error is not None:
        raise Unread(f"NVML: {str(error[1])[:100] if isinstance(error, list) and len(error) == 2 else 'it failed to start'}")
    return lines


def _no_gpu_on_pci(captures: Captures) -> bool:
    """Whether the PCI bus was wholly read and holds no NVIDIA GPU: then 'none' is a measurement and not a failure to look."""
    try:
        files = captures.files(PCI)
        capture = captures.capture(PCI)
        found = pci_gpus(files)
    except Unread:
        return False
    return not found and files.unseen() is None and bool(list(files)) and capture is not None \
        and capture.outcome is Outcome.DONE


@fact("gpus", NVML, PCI)
def gpus(captures: Captures) -> Any:
    """Every GPU that the driver lists; empty where it lists none, or where no driver is and the PCI bus was read and holds none."""
    capture = captures.capture(NVML)
    if capture is not None and capture.outcome in (Outcome.TIMEOUT, Outcome.TRUNCATED) and "\n" in capture.text:
        whole = capture.text[: capture.text.rfind("\n")]
        return Partial(tuple(_gpu(line) for line in _lines(whole)[1:]), why(NVML, capture))
    try:
        head, *rest = _nvml(captures)
    except Unread:
        if capture is not None and capture.outcome is Outcome.MISSING and _no_gpu_on_pci(captures):
            return ()
        raise
    found = tuple(_gpu(line) for line in rest)
    count = reading(head, "count", int)
    if isinstance(count, Unmeasured) or count is UNSUPPORTED:
        raise Unread("NVML: the number of GPUs was not read")
    if len(found) != count:
        return Partial(found, f"NVML lists {count} GPUs, but {len(found)} were read")
    return found


def _gpu(line: dict[str, Any]) -> Gpu:
    index = line.get("index")
    if type(index) is not int:
        raise Unread("the NVML reader's answer holds a GPU without an index")
    error = line.get("error")
    values: dict[str, Any]
    fields = {"pci": str, "uuid": str, "serial": str, "memory_bytes": int, "ecc_uncorrected": int, "ecc_corrected": int}
    if isinstance(error, list) and len(error) == 2:
        gone = Unmeasured(f"NVML: {str(error[1])[:100]} (error {error[0]})")
        values = dict.fromkeys([*fields, "model", "ecc_enabled"], gone)
        answers: Any = False if error[0] in _GONE else gone
        return Gpu(name=f"GPU {index}", index=index, answers=answers, trouble=str(error[1])[:100], **values)
    values = {key: reading(line, key, kind) for key, kind in fields.items()}
    mode = reading(line, "ecc_mode", int)
    lost = _lost(line)
    if lost is not None:
        answers = False
    elif any(isinstance(value, dict) and "ok" in value for value in line.values()):
        answers = True
    else:
        answers = Unmeasured("NVML: not one of its readings was had")
    return Gpu(
        name=f"GPU {index}", index=index, answers=answers, trouble=lost or "", model=reading(line, "name", str),
        ecc_enabled=bool(mode) if isinstance(mode, int) else mode, **values,
    )


# NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED and NVML_ERROR_GPU_NOT_FOUND (nvml.h): the GPU itself does not answer.
_GONE = (15, 16, 28)


def _lost(line: dict[str, Any]) -> str | None:
    for value in line.values():
        error = value.get("error") if isinstance(value, dict) else None
        if isinstance(error, list) and len(error) == 2 and error[0] in _GONE:
            return str(error[1])[:100]
    return None


@fact("gpu_presence", NVML, PCI)
def gpu_presence(captures: Captures) -> GpuPresence:
    """Counts of GPUs by the driver and by the PCI bus, each measured on its own."""
    listed: Any
    on_pci: Any
    try:
        listed = reading(_nvml(captures)[0], "count", int)
    except Unread as error:
        listed = Unmeasured(str(error))
        capture = captures.capture(NVML)
        if capture is not None and capture.outcome is Outcome.MISSING and _no_gpu_on_pci(captures):
            listed = 0
    try:
        files = captures.files(PCI)
        on_pci = len(pci_gpus(files))
        capture = captures.capture(PCI)
        if files.unseen() or not list(files) or capture is None or capture.outcome is not Outcome.DONE:
            on_pci = Unmeasured(files.unseen() or "the PCI bus was not wholly read")
    except Unread as error:
        on_pci = Unmeasured(str(error))
    return GpuPresence(name="GPUs", listed=listed, on_pci=on_pci)
