"""The NVML reader: runs in a child of the collector with the module `pynvml` at hand, and prints a line of JSON for each GPU.

A reading is {"ok": value}, {"na": true} where NVML says NOT_SUPPORTED, or {"error": [code, message]}. The first line holds the
driver's readings; each GPU's line is printed as soon as it is read, so that what was read before a hang is kept.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pynvml as nvml

if TYPE_CHECKING:
    from typing import Any, Callable, Dict

NOT_SUPPORTED = 3  # nvml.h: NVML_ERROR_NOT_SUPPORTED


def plain(value: "Any") -> "Any":
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def failure(error: "Any") -> "list[Any]":
    return [getattr(error, "value", -1), str(error)[:200]]


def reading(call: "Callable[[], Any]") -> "Dict[str, Any]":
    """One reading; a function that the library lacks is an error like any other."""
    try:
        return {"ok": plain(call())}
    except nvml.NVMLError as error:
        return {"na": True} if getattr(error, "value", -1) == NOT_SUPPORTED else {"error": failure(error)}


def pci(handle: "Any") -> str:
    """The address as sysfs writes it: four digits of domain, lower case. NVML gives eight digits."""
    domain, _, rest = str(plain(nvml.nvmlDeviceGetPciInfo(handle).busId)).lower().partition(":")
    return "%04x:%s" % (int(domain, 16), rest)


UNCORRECTED, CORRECTED, VOLATILE = 1, 0, 0  # nvml.h: nvmlMemoryErrorType_t, nvmlEccCounterType_t

READINGS = {
    "name": lambda gpu: nvml.nvmlDeviceGetName(gpu),
    "uuid": lambda gpu: nvml.nvmlDeviceGetUUID(gpu),
    "serial": lambda gpu: nvml.nvmlDeviceGetSerial(gpu),
    "pci": pci,
    "memory_bytes": lambda gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).total,
    "ecc_mode": lambda gpu: nvml.nvmlDeviceGetEccMode(gpu)[0],
    "ecc_uncorrected": lambda gpu: nvml.nvmlDeviceGetTotalEccErrors(gpu, UNCORRECTED, VOLATILE),
    "ecc_corrected": lambda gpu: nvml.nvmlDeviceGetTotalEccErrors(gpu, CORRECTED, VOLATILE),
}


def say(line: "Dict[str, Any]") -> None:
    data = json.dumps(line).encode() + b"\n"
    while data:
        data = data[os.write(1, data):]


def main() -> None:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        say({"error": failure(error)})
        return
    count = reading(nvml.nvmlDeviceGetCount)
    say({"driver": reading(nvml.nvmlSystemGetDriverVersion), "nvml": reading(nvml.nvmlSystemGetNVMLVersion), "count": count})
    for index in range(min(count.get("ok", 0), 64)):
        try:
            gpu = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            say({"index": index, "error": failure(error)})
            continue
        line: "Dict[str, Any]" = {"index": index}
        for name, read in READINGS.items():
            line[name] = reading(lambda read=read, gpu=gpu: read(gpu))  # type: ignore[misc]
        say(line)


if __name__ == "muster_nvml":
    main()
