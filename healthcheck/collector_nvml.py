"""The NVML reader: what the driver says of each GPU, as one JSON line for the driver and one for each GPU.

It is not imported: the collector compiles its text in a child of its own with two names set, PYNVML (the source of pynvml from
nvidia-ml-py) and OUT (the descriptor to write to). Python 3.8, standard library only. Each line is written as soon as it is
known, so that what hangs costs the rest and not what came before.

A reading is {"ok": value}, {"na": true} (NVML_ERROR_NOT_SUPPORTED) or {"error": [code, message]}; code -1 is no code of NVML's.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False   # the typing module costs time to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PYNVML: bytes = globals()["PYNVML"]
OUT: int = globals()["OUT"]
NOT_SUPPORTED = 3       # nvml.h: NVML_ERROR_NOT_SUPPORTED
UNCORRECTED, CORRECTED, VOLATILE = 1, 0, 0      # nvml.h: nvmlMemoryErrorType_t, nvmlEccCounterType_t
MOST_GPUS = 1024


def text(value: Any) -> str:
    """Bindings of before 2022 give bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def address(value: Any) -> str:
    """The PCI address as the kernel writes it: lower case, and a domain of four digits unless it needs more."""
    domain, _, rest = text(value).lower().partition(":")
    return "%04x:%s" % (int(domain, 16), rest)


# What is read once, and of each GPU: name and how. A new reading is a line here.
DRIVER: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("driver", lambda nvml: text(nvml.nvmlSystemGetDriverVersion())),
    ("nvml", lambda nvml: text(nvml.nvmlSystemGetNVMLVersion())),
    ("count", lambda nvml: nvml.nvmlDeviceGetCount()),
)
GPU: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("name", lambda nvml, gpu: text(nvml.nvmlDeviceGetName(gpu))),
    ("uuid", lambda nvml, gpu: text(nvml.nvmlDeviceGetUUID(gpu))),
    ("serial", lambda nvml, gpu: text(nvml.nvmlDeviceGetSerial(gpu))),
    ("pci", lambda nvml, gpu: address(nvml.nvmlDeviceGetPciInfo(gpu).busId)),
    ("memory_bytes", lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).total),
    ("ecc_mode", lambda nvml, gpu: nvml.nvmlDeviceGetEccMode(gpu)[0]),
    ("ecc_uncorrected", lambda nvml, gpu: nvml.nvmlDeviceGetTotalEccErrors(gpu, UNCORRECTED, VOLATILE)),
    ("ecc_corrected", lambda nvml, gpu: nvml.nvmlDeviceGetTotalEccErrors(gpu, CORRECTED, VOLATILE)),
)


def trouble(error: Exception) -> list[Any]:
    """Code and message. What is not NVML's (an older binding without the function, say) costs one reading as well."""
    code = getattr(error, "value", None)
    return [code, str(error)] if isinstance(code, int) else [-1, "%s: %s" % (type(error).__name__, error)]


def reading(read: Callable[..., Any], *of: Any) -> dict[str, Any]:
    try:
        return {"ok": read(*of)}
    except Exception as error:
        found = trouble(error)
        return {"na": True} if found[0] == NOT_SUPPORTED else {"error": found}


def write(line: dict[str, Any]) -> None:
    data = json.dumps(line).encode() + b"\n"
    while data:
        data = data[os.write(OUT, data):]


def main() -> None:
    try:
        # The binding's ctypes structures look their module up by name.
        nvml: Any = type(sys)("pynvml")
        sys.modules["pynvml"] = nvml
        exec(compile(PYNVML, "pynvml", "exec"), nvml.__dict__)
        nvml.nvmlInit()
    except Exception as error:
        write({"error": trouble(error)})
        return
    driver = {name: reading(read, nvml) for name, read in DRIVER}
    write(driver)
    for index in range(min(driver["count"].get("ok", 0), MOST_GPUS)):
        try:
            gpu = nvml.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:
            write({"index": index, "error": trouble(error)})
            continue
        line: dict[str, Any] = {"index": index}
        line.update((name, reading(read, nvml, gpu)) for name, read in GPU)
        write(line)


main()
