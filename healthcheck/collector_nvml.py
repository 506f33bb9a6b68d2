"""The NVML reader: what the driver says of itself and of each GPU, as plain values; runs in a child of the collector.

Every reading stands for itself: {"ok": value}, {"na": true} where the device has no such thing, or {"error": [code, message]}
in NVML's own words. What each call means is documented in NVIDIA's nvml.h. Python 3.8.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List

    Read = Callable[[Any, Any], Any]


MOST_GPUS = 1024


def lines(nvml: Any) -> Iterator[Dict[str, Any]]:
    """Yields the driver's line, then one for each GPU as it is done; with `nvml` being pynvml, or whatever answers like it."""
    try:
        nvml.nvmlInit()
    except Exception as error:
        yield {"error": trouble(error)}
        return
    head = {key: reading(nvml, read, None) for key, read in DRIVER.items()}
    yield head
    for index in range(min(head["count"].get("ok", 0), MOST_GPUS)):
        line: Dict[str, Any] = {"index": index}
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:
            line["error"] = trouble(error)
        else:
            line.update((key, reading(nvml, read, handle)) for key, read in GPU.items())
        yield line


def trouble(error: Exception) -> List[Any]:
    """NVML's number and words for an error; -1 for one that is not NVML's: a call that an older pynvml does not know, say."""
    code = getattr(error, "value", None)
    return [code, str(error)] if isinstance(code, int) else [-1, "%s: %s" % (type(error).__name__, error)]


def reading(nvml: Any, read: Read, handle: Any) -> Dict[str, Any]:
    """One call's value, or why there is none."""
    try:
        value = read(nvml, handle)
    except Exception as error:
        found = trouble(error)
        return {"na": True} if found[0] == nvml.NVML_ERROR_NOT_SUPPORTED else {"error": found}
    return {"ok": value.decode("utf-8", "replace") if isinstance(value, bytes) else value}


def pci(nvml: Any, handle: Any) -> str:
    """The PCI address as the kernel writes it: NVML has eight digits of domain and capitals."""
    found = nvml.nvmlDeviceGetPciInfo(handle)
    bus = found.busId.decode() if isinstance(found.busId, bytes) else found.busId
    domain, _, rest = bus.lower().partition(":")
    return "%04x:%s" % (int(domain, 16), rest)


def ecc(kind: str) -> Read:
    """The volatile total of one kind of memory error: since the driver was loaded."""
    return lambda nvml, handle: nvml.nvmlDeviceGetTotalEccErrors(
        handle, getattr(nvml, "NVML_MEMORY_ERROR_TYPE_" + kind), nvml.NVML_VOLATILE_ECC)


DRIVER: Dict[str, Read] = {
    "driver": lambda nvml, handle: nvml.nvmlSystemGetDriverVersion(),
    "nvml": lambda nvml, handle: nvml.nvmlSystemGetNVMLVersion(),
    "count": lambda nvml, handle: nvml.nvmlDeviceGetCount(),
}

GPU: Dict[str, Read] = {
    "name": lambda nvml, handle: nvml.nvmlDeviceGetName(handle),
    "uuid": lambda nvml, handle: nvml.nvmlDeviceGetUUID(handle),
    "serial": lambda nvml, handle: nvml.nvmlDeviceGetSerial(handle),
    "pci": pci,
    "memory_bytes": lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).total,
    "ecc_mode": lambda nvml, handle: nvml.nvmlDeviceGetEccMode(handle)[0],
    "ecc_uncorrected": ecc("UNCORRECTED"),
    "ecc_corrected": ecc("CORRECTED"),
}
