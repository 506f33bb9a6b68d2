"""The NVML reader: readings of the driver and of each GPU as plain values; runs in a child of the collector.

Each reading is independent: {"ok": value}, {"na": true} if the device or its driver has no such thing, or
{"error": [code, message]} in NVML's own words. Links and pairs of GPUs are rows of whole numbers in which -N
stands for NVML's error N: eight GPUs with 18 links each are then a few KiB. NVIDIA's nvml.h documents each
call and field. Python 3.8.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

    Read = Callable[[Any, Any], Any]


MOST_GPUS = 1024
MOST_LINKS = 64
INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND, VERSION_MISMATCH, UNKNOWN = 2, 3, 13, 25, 999
LIBRARY_NOT_FOUND = 12

# R535 is the oldest driver in wide use; the fields of its nvml.h end below this number. An unknown id is
# INVALID_ARGUMENT in some drivers and NOT_SUPPORTED in others: for a newer field both mean that this driver
# does not have it.
NEW_FIELD = 200


def lines(nvml: Any) -> Iterator[Dict[str, Any]]:
    """Yields the driver's line, then one for each GPU as it is done. `nvml` is pynvml or a substitute."""
    try:
        nvml.nvmlInit()
    except Exception as error:
        yield {"error": own_trouble(error) or trouble(error)}
        return
    head = {key: reading(nvml, read, None) for key, read in DRIVER.items()}
    yield head
    # The later GPU of a pair reports it: one that hangs costs only itself and its successors.
    before: List[Any] = []
    for index in range(min(head["count"].get("ok", 0), MOST_GPUS)):
        line: Dict[str, Any] = {"index": index}
        handle = None
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:
            line["error"] = trouble(error)
        else:
            line.update(gpu(nvml, handle, fields_of(str(head["driver"].get("ok", "")))))
            line["p2p"] = {"ok": [pair(nvml, handle, other) for other in before]}
        before.append(handle)
        yield line


def trouble(error: Exception) -> List[Any]:
    """NVML's number and words for an error; -1 for others, such as a call that an older pynvml lacks."""
    code = getattr(error, "value", None)
    return [code, str(error)] if isinstance(code, int) else [-1, "%s: %s" % (type(error).__name__, error)]


def own_trouble(error: Exception) -> List[Any]:
    """[-1, message] where this process lacks what it takes to load the library or to open a device: NVML then
    answers as if there were no library or no driver. Empty otherwise."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
        if getattr(error, "value", None) == LIBRARY_NOT_FOUND:
            import ctypes
            ctypes.CDLL("libnvidia-ml.so.1")
    except (OSError, MemoryError) as lacking:
        words = ("Too many open files", "Error 24", "Cannot allocate memory", "failed to map segment",
                 "cannot create shared object descriptor", "MemoryError")
        message = "%s: %s" % (type(lacking).__name__, lacking)
        # A library on a file system that is mounted noexec cannot be mapped either.
        if any(word in message for word in words) and "not permitted" not in message:
            return [-1, message]
    return []


def reading(nvml: Any, read: Read, handle: Any, late: bool = False) -> Dict[str, Any]:
    """One call's value, or why there is none.

    `late` marks a function that some drivers in use do not have yet: its absence is "na", because an error
    would leave a whole fleet unknown for ever. Every driver has the other functions: their absence means a
    damaged library.
    """
    try:
        value = read(nvml, handle)
    except Exception as error:
        found = trouble(error)
        absent = found[0] == NOT_SUPPORTED or (late and found[0] == FUNCTION_NOT_FOUND)
        return {"na": True} if absent else {"error": found}
    if value is None:
        return {"na": True}
    return {"ok": value.decode("utf-8", "replace") if isinstance(value, bytes) else value}


def gpu(nvml: Any, handle: Any, fields: Dict[str, int]) -> Dict[str, Any]:
    """All readings of one GPU except those of pairs."""
    found = {key: reading(nvml, read, handle, key in LATE) for key, read in GPU.items()}
    for keys, read in TOGETHER.items():
        whole = reading(nvml, read, handle, keys[0] in LATE)
        values = whole.get("ok")
        for at, key in enumerate(keys):
            found[key] = (whole if values is None else {"na": True} if values[at] is None
                          else {"ok": values[at]})
    found.update(field_readings(nvml, handle, fields))
    found["nvlinks"] = reading(nvml, nvlinks, handle)
    found["processes"] = reading(nvml, processes, handle)
    return found


def fields_of(driver: str) -> Dict[str, int]:
    """The fields to ask this driver for. R575 has numbers of its own for three of them."""
    fields = dict(FIELDS)
    release = int(driver.partition(".")[0]) if driver.partition(".")[0].isdigit() else 0
    slowdowns = ("slowdown_sw_thermal_ns", "slowdown_hw_thermal_ns", "slowdown_hw_power_brake_ns")
    for at, key in enumerate(slowdowns):
        fields[key] = 269 + at if release >= 580 else 251 + at if release == 575 else 0
    return fields


def field_readings(nvml: Any, handle: Any, fields: Dict[str, int]) -> Dict[str, Any]:
    """Readings of NVML's numbered fields, all in one call; this driver does not have those of number 0."""
    asked = [(key, number) for key, number in fields.items() if number]
    found: Dict[str, Any] = {key: {"na": True} for key in fields}
    try:
        values = nvml.nvmlDeviceGetFieldValues(handle, [number for _, number in asked])
    except Exception as error:
        why = trouble(error)
        return {key: {"na": True} if why[0] == NOT_SUPPORTED else {"error": why} for key in found}
    for at, (key, number) in enumerate(asked):
        value = values[at]
        plain = field_value(number, value)
        if plain == -NOT_SUPPORTED:
            continue
        if value.nvmlReturn:
            found[key] = {"error": [value.nvmlReturn, str(nvml.NVMLError(value.nvmlReturn))]}
        else:
            found[key] = {"ok": named(ACTIONS, plain) if key == "recovery_action" else plain}
    return found


def field_value(number: int, value: Any) -> int:
    """A field's value as its type says, or minus NVML's error."""
    if value.nvmlReturn:
        new = value.nvmlReturn == INVALID_ARGUMENT and number >= NEW_FIELD
        return -NOT_SUPPORTED if new else -int(value.nvmlReturn)
    return int(getattr(value.value, TYPES.get(value.valueType, "ullVal")))


def named(names: Sequence[str], number: int) -> str:
    """nvml.h's name for a number of an enumeration, in lower case; the number itself if the list lacks it."""
    return names[number] if 0 <= number < len(names) and names[number] else "unknown (%d)" % number


def minus(read: Callable[[], int]) -> int:
    """A call's whole number, or minus NVML's error."""
    try:
        return read()
    except Exception as error:
        code = trouble(error)[0]
        return -code if code > 0 else -UNKNOWN


def address(found: Any) -> str:
    """The PCI address in the kernel's form: NVML writes eight digits of domain and capitals."""
    bus = found.busId.decode() if isinstance(found.busId, bytes) else found.busId
    domain, _, rest = bus.lower().partition(":")
    return "%04x:%s" % (int(domain, 16), rest)


def nvlinks(nvml: Any, handle: Any) -> Any:
    """A row for each NVLink; None if the device has none.

    [state, version, MB/s, kind of remote end, its PCI address or minus an error, replays, recoveries, flit
    CRC, data CRC, data ECC errors, and then the counters of NVLINK5, if the device has any of them].
    """
    head = field_value(LINK_COUNT, nvml.nvmlDeviceGetFieldValues(handle, [LINK_COUNT])[0])
    if head < 0:
        if head == -NOT_SUPPORTED:
            return None
        raise nvml.NVMLError(-head)
    per_link = LINK_FIELDS + NVLINK5
    asked = [(number, link) for link in range(min(head, MOST_LINKS)) for number in per_link]
    values = nvml.nvmlDeviceGetFieldValues(handle, asked) if asked else []
    plain = [field_value(asked[at][0], value) for at, value in enumerate(values)]
    rows: List[List[Any]] = []
    for link in range(min(head, MOST_LINKS)):
        mine = plain[link * len(per_link):(link + 1) * len(per_link)]
        # The functions are called at once, here and below.
        state = minus(lambda: nvml.nvmlDeviceGetNvLinkState(handle, link))  # noqa: B023
        row: List[Any] = [state, mine[0], mine[1]]
        if state == 1:
            row.append(minus(lambda: nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)))  # noqa: B023
            remote = lambda: address(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link))  # noqa: B023, E731
            row.append(minus(remote))  # type: ignore[arg-type]
        else:
            row += [-NOT_SUPPORTED, -NOT_SUPPORTED]
        row += mine[2:4]
        row += [minus(lambda: nvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, kind))  # noqa: B023
                for kind in LINK_ERRORS]
        newer = mine[len(LINK_FIELDS):]
        rows.append(row if all(value == -NOT_SUPPORTED for value in newer) else row + newer)
    return rows


def pair(nvml: Any, handle: Any, other: Any) -> Any:
    """Whether this GPU may read, write and reach by NVLink an earlier one, and vice versa: six numbers."""
    if other is None:
        return None
    return [minus(lambda: nvml.nvmlDeviceGetP2PStatus(a, b, kind))  # noqa: B023
            for a, b in ((handle, other), (other, handle)) for kind in P2P]


def processes(nvml: Any, handle: Any) -> List[List[Any]]:
    """[number, state (see `process`), command] of each process that uses the GPU, directly or through MPS.

    The driver hides processes outside of a container: an empty list there is an error.
    """
    listed = running(nvml, handle)
    if not listed and strange_namespace():
        raise RuntimeError(
            "the collector runs in a PID namespace of its own and sees no process outside of it")
    found = {number: process(number) for number in listed}
    if any(state == "" for state, _ in found.values()):
        # It may have ended since the driver listed it: report as gone only one that is still listed.
        still = running(nvml, handle)
        found = {number: seen for number, seen in found.items() if seen[0] or number in still}
    return [[number, *found[number]] for number in sorted(found)]


def running(nvml: Any, handle: Any) -> List[int]:
    """The numbers of the processes. Up to R495 the calls are of the second version, and MPS may be missing.

    A display server holds memory as well, but does not compute.
    """
    listed: List[Any] = []
    for who in ("Compute", "MPSCompute", "Graphics"):
        try:
            try:
                listed += getattr(nvml, "nvmlDeviceGet%sRunningProcesses_v3" % who)(handle)
            except Exception as error:
                if trouble(error)[0] != FUNCTION_NOT_FOUND:
                    raise
                listed += getattr(nvml, "nvmlDeviceGet%sRunningProcesses_v2" % who)(handle)
        except Exception as error:
            if who == "Compute" or trouble(error)[0] not in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
                raise
    return sorted({int(each.pid) for each in listed})


def strange_namespace() -> bool:
    """Whether we run in another PID namespace than the machine's, which a tree in place of / counts as."""
    try:
        return (not os.environ.get("MUSTER_ROOT", "/").rstrip("/")
                and os.readlink("/proc/self/ns/pid") != FIRST_NAMESPACE)
    except OSError:
        return False


def process(number: int) -> Tuple[str, str]:
    """A process's state in /proc and its name. The state is empty if there is no such process, "?" if it is
    hidden, and "-" in another PID namespace, where the driver's number is meaningless."""
    root = os.environ.get("MUSTER_ROOT", "/").rstrip("/")
    try:
        if strange_namespace():
            return "-", ""
        with open("%s/proc/%d/stat" % (root, number), "rb") as file:
            head, _, rest = file.read(1024).rpartition(b")")
        return rest.split()[0].decode("ascii"), head.partition(b"(")[2][:64].decode("utf-8", "replace")
    except (OSError, IndexError, ValueError):
        pass
    if root:
        return "", ""
    try:
        # With hidepid= other users' folders in /proc are missing, but kill(2) shows that the process exists.
        os.kill(number, 0)
    except ProcessLookupError:
        return "", ""
    except OSError:
        pass
    return "?", ""


def ecc(kind: str, counter: str) -> Read:
    """The total of one kind of memory error: volatile (since the driver's start) or aggregate (ever)."""
    return lambda nvml, handle: nvml.nvmlDeviceGetTotalEccErrors(
        handle, getattr(nvml, "NVML_MEMORY_ERROR_TYPE_" + kind), getattr(nvml, "NVML_%s_ECC" % counter))


def memory(nvml: Any, handle: Any) -> List[Any]:
    """Total and used bytes. The call's first version counts the driver's reserve, so used is unknown."""
    try:
        found = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except Exception as error:
        if trouble(error)[0] not in (FUNCTION_NOT_FOUND, VERSION_MISMATCH):
            raise
        return [nvml.nvmlDeviceGetMemoryInfo(handle).total, None]
    return [found.total, found.used]


def banks(nvml: Any, handle: Any) -> List[int]:
    found = nvml.nvmlDeviceGetRowRemapperHistogram(handle)
    return [found.max, found.high, found.partial, found.low, found.none]


def sram(nvml: Any, handle: Any) -> List[Any]:
    """Uncorrectable SRAM errors ever, and whether they exceed NVIDIA's threshold (newer drivers)."""
    found = nvml.c_nvmlEccSramErrorStatus_v1_t()
    try:
        nvml.nvmlDeviceGetSramEccErrorStatus(handle, nvml.byref(found))
    except Exception as error:
        if trouble(error)[0] != FUNCTION_NOT_FOUND:
            raise
        return [nvml.nvmlDeviceGetMemoryErrorCounter(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                                                     nvml.NVML_AGGREGATE_ECC, nvml.NVML_MEMORY_LOCATION_SRAM),
                None]
    return [found.aggregateUncParity + found.aggregateUncSecDed, found.bThresholdExceeded]


def fabric(nvml: Any, handle: Any) -> Any:
    """State, status, clique, cluster and health mask (newer drivers) of a GPU in a fabric, or None."""
    found = nvml.c_nvmlGpuFabricInfo_v2_t()
    try:
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, nvml.byref(found))
    except Exception as error:
        if trouble(error)[0] not in (FUNCTION_NOT_FOUND, VERSION_MISMATCH):
            raise
        found = nvml.c_nvmlGpuFabricInfo_t()
        nvml.nvmlDeviceGetGpuFabricInfo(handle, nvml.byref(found))
    if found.state == 0:
        return None
    cluster = bytes(found.clusterUuid).hex()
    cluster = "-".join((cluster[:8], cluster[8:12], cluster[12:16], cluster[16:20], cluster[20:]))
    return [named(FABRIC_STATES, found.state), found.status, found.cliqueId, cluster,
            getattr(found, "healthMask", None)]


def call(function: str, *more: int) -> Read:
    """A reader of this function of a GPU."""
    def read(nvml: Any, handle: Any) -> Any:
        return getattr(nvml, function)(handle, *more)

    return read


def reasons(nvml: Any, handle: Any) -> Any:
    """The reasons for the current clocks; the call had another name up to R530."""
    try:
        return nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except Exception as error:
        if trouble(error)[0] != FUNCTION_NOT_FOUND:
            raise
        return nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)


FIRST_NAMESPACE = "pid:[4026531836]"    # PROC_PID_INIT_INO of linux/proc_ns.h
P2P = (0, 1, 2)                         # NVML_P2P_CAPS_INDEX_READ, _WRITE, _NVLINK
LINK_COUNT = 91
LINK_FIELDS = (166, 164, 161, 162)      # version, speed, replays, recoveries of the link in the scope
LINK_ERRORS = (2, 3, 4)                 # NVML_NVLINK_ERROR_DL_CRC_FLIT, _CRC_DATA, _ECC_DATA
NVLINK5 = (206, 207, 208, 211, 214, 215, 219, 220, 221, 222)

TYPES = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
ARCHITECTURES = ("", "", "kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper",
                 "blackwell", "", "", "rubin")
COMPUTE_MODES = ("default", "exclusive_thread", "prohibited", "exclusive_process")
FABRIC_STATES = ("not_supported", "not_started", "in_progress", "completed")
ACTIONS = ("none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset", "recover_imex_domain",
           "bus_reset", "system_reboot")

DRIVER: Dict[str, Read] = {
    "driver": lambda nvml, handle: nvml.nvmlSystemGetDriverVersion(),
    "nvml": lambda nvml, handle: nvml.nvmlSystemGetNVMLVersion(),
    "count": lambda nvml, handle: nvml.nvmlDeviceGetCount(),
}

# From Ada on nvml.h prefers margins (T.Limit) to temperature thresholds, and a driver may stop reporting
# these. They are then UNSUPPORTED, and `temperature_margin_c`, the distance to the highest operating one,
# replaces them.
GPU: Dict[str, Read] = {
    "name": call("nvmlDeviceGetName"),
    "uuid": call("nvmlDeviceGetUUID"),
    "serial": call("nvmlDeviceGetSerial"),
    "pci": lambda nvml, handle: address(nvml.nvmlDeviceGetPciInfo(handle)),
    "architecture": lambda nvml, handle: named(ARCHITECTURES, nvml.nvmlDeviceGetArchitecture(handle)),
    "minor": call("nvmlDeviceGetMinorNumber"),
    "part_number": call("nvmlDeviceGetBoardPartNumber"),
    "vbios": call("nvmlDeviceGetVbiosVersion"),
    "inforom": call("nvmlDeviceGetInforomImageVersion"),
    "gsp_firmware": call("nvmlDeviceGetGspFirmwareVersion"),
    "persistence": call("nvmlDeviceGetPersistenceMode"),
    "compute_mode": lambda nvml, handle: named(COMPUTE_MODES, nvml.nvmlDeviceGetComputeMode(handle)),
    "ecc_uncorrected": ecc("UNCORRECTED", "VOLATILE"),
    "ecc_corrected": ecc("CORRECTED", "VOLATILE"),
    "ecc_uncorrected_lifetime": ecc("UNCORRECTED", "AGGREGATE"),
    "ecc_corrected_lifetime": ecc("CORRECTED", "AGGREGATE"),
    "pcie_generation": call("nvmlDeviceGetCurrPcieLinkGeneration"),
    "pcie_generation_max": call("nvmlDeviceGetMaxPcieLinkGeneration"),
    "pcie_width": call("nvmlDeviceGetCurrPcieLinkWidth"),
    "pcie_width_max": call("nvmlDeviceGetMaxPcieLinkWidth"),
    "pcie_replays": call("nvmlDeviceGetPcieReplayCounter"),
    "temperature_c": call("nvmlDeviceGetTemperature", 0),
    "temperature_shutdown_c": call("nvmlDeviceGetTemperatureThreshold", 0),
    "temperature_slowdown_c": call("nvmlDeviceGetTemperatureThreshold", 1),
    "temperature_memory_max_c": call("nvmlDeviceGetTemperatureThreshold", 2),
    "temperature_gpu_max_c": call("nvmlDeviceGetTemperatureThreshold", 3),
    "temperature_margin_c": call("nvmlDeviceGetMarginTemperature"),
    "power_mw": call("nvmlDeviceGetPowerUsage"),
    "power_limit_mw": call("nvmlDeviceGetEnforcedPowerLimit"),     # of all limiters, that of the BMC included
    "power_limit_default_mw": call("nvmlDeviceGetPowerManagementDefaultLimit"),
    "clock_sm_mhz": call("nvmlDeviceGetClockInfo", 1),
    "clock_sm_max_mhz": call("nvmlDeviceGetMaxClockInfo", 1),
    "clock_memory_mhz": call("nvmlDeviceGetClockInfo", 2),
    "clock_memory_max_mhz": call("nvmlDeviceGetMaxClockInfo", 2),
    "clock_reasons": reasons,
    "utilization_percent": lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
}

# Calls that give several readings at once; None among the values is a reading that this driver does not have.
TOGETHER: Dict[Tuple[str, ...], Read] = {
    ("memory_bytes", "memory_used_bytes"): memory,
    ("ecc_mode", "ecc_pending"): call("nvmlDeviceGetEccMode"),
    ("mig", "mig_pending"): call("nvmlDeviceGetMigMode"),
    ("rows_corrected", "rows_uncorrected", "rows_pending", "rows_failed"): call("nvmlDeviceGetRemappedRows"),
    ("banks_max", "banks_high", "banks_partial", "banks_low", "banks_none"): banks,
    ("sram_uncorrected_lifetime", "sram_threshold_exceeded"): sram,
    ("fabric_state", "fabric_status", "fabric_clique", "fabric_cluster", "fabric_health"): fabric,
}

FIELDS = {
    "pages_retired_corrected": 29, "pages_retired_uncorrected": 30, "pages_pending": 31,
    "slowdown_power_ns": 74, "slowdown_thermal_ns": 75, "temperature_memory_c": 82, "recovery_action": 230,
}

# Readings whose call came after R450: GSP firmware, bank histogram, margin, SRAM status, fabric.
LATE = frozenset({"gsp_firmware", "banks_max", "temperature_margin_c", "sram_uncorrected_lifetime",
                  "fabric_state", "architecture"})
