"""The NVML reader: what the driver says of itself and of each GPU, as plain values; runs in a child of the collector.

Every reading stands for itself: {"ok": value}, {"na": true} where the device or its driver has no such thing, or
{"error": [code, message]} in NVML's own words. Where there are many alike (links, pairs of GPUs) a value is a list of rows of whole
numbers, in which -N stands for NVML's error N: eight GPUs with 18 links each are then a few KiB. What each call and field means is
documented in NVIDIA's nvml.h. Python 3.8.
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

# The oldest driver that is still out there in numbers is R535; the fields of its nvml.h end below this number. An id that a driver
# does not know is INVALID_ARGUMENT in some and NOT_SUPPORTED in others: for a newer field both say that this driver has no such thing.
NEW_FIELD = 200


def lines(nvml: Any) -> Iterator[Dict[str, Any]]:
    """Yields the driver's line, then one for each GPU as it is done; with `nvml` being pynvml, or whatever answers like it."""
    try:
        nvml.nvmlInit()
    except Exception as error:
        yield {"error": trouble(error)}
        return
    head = {key: reading(nvml, read, None) for key, read in DRIVER.items()}
    yield head
    # Pairs are told by the later GPU of the two, so that one that hangs costs itself and its successors only.
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
    """NVML's number and words for an error; -1 for one that is not NVML's: a call that an older pynvml does not know, say."""
    code = getattr(error, "value", None)
    return [code, str(error)] if isinstance(code, int) else [-1, "%s: %s" % (type(error).__name__, error)]


def reading(nvml: Any, read: Read, handle: Any, late: bool = False) -> Dict[str, Any]:
    """One call's value, or why there is none.

    `late` is for a function that came with a driver newer than some that are in use. There its absence is what that driver's API is,
    and no failure to look: it must not leave a whole fleet unknown for ever. Any other function every driver has, so that its
    absence means a library that is not sound.
    """
    try:
        value = read(nvml, handle)
    except Exception as error:
        found = trouble(error)
        return {"na": True} if found[0] == NOT_SUPPORTED or (late and found[0] == FUNCTION_NOT_FOUND) else {"error": found}
    if value is None:
        return {"na": True}
    return {"ok": value.decode("utf-8", "replace") if isinstance(value, bytes) else value}


def gpu(nvml: Any, handle: Any, fields: Dict[str, int]) -> Dict[str, Any]:
    """All readings of one GPU but those that concern another one too."""
    found = {key: reading(nvml, read, handle, key in LATE) for key, read in GPU.items()}
    for keys, read in TOGETHER.items():
        whole = reading(nvml, read, handle, keys[0] in LATE)
        values = whole.get("ok")
        for at, key in enumerate(keys):
            found[key] = whole if values is None else {"na": True} if values[at] is None else {"ok": values[at]}
    found.update(field_readings(nvml, handle, fields))
    found["nvlinks"] = reading(nvml, nvlinks, handle)
    found["processes"] = reading(nvml, processes, handle)
    return found


def fields_of(driver: str) -> Dict[str, int]:
    """The fields to ask this driver for. R575 gave three of them other numbers, which mean something else before and after."""
    fields = dict(FIELDS)
    release = int(driver.partition(".")[0]) if driver.partition(".")[0].isdigit() else 0
    for at, key in enumerate(("slowdown_sw_thermal_ns", "slowdown_hw_thermal_ns", "slowdown_hw_power_brake_ns")):
        fields[key] = 269 + at if release >= 580 else 251 + at if release == 575 else 0
    return fields


def field_readings(nvml: Any, handle: Any, fields: Dict[str, int]) -> Dict[str, Any]:
    """Readings of NVML's numbered fields, all in one call; number 0 is one that this driver has not."""
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
    """nvml.h's name for a number of an enumeration, in lower case; the number itself where it is newer than this list."""
    return names[number] if 0 <= number < len(names) and names[number] else "unknown (%d)" % number


def minus(read: Callable[[], int]) -> int:
    """A call's whole number, or minus NVML's error."""
    try:
        return read()
    except Exception as error:
        code = trouble(error)[0]
        return -code if code > 0 else -UNKNOWN


def address(found: Any) -> str:
    """The PCI address as the kernel writes it: NVML has eight digits of domain and capitals."""
    bus = found.busId.decode() if isinstance(found.busId, bytes) else found.busId
    domain, _, rest = bus.lower().partition(":")
    return "%04x:%s" % (int(domain, 16), rest)


def nvlinks(nvml: Any, handle: Any) -> Any:
    """A row for each NVLink; None where the device has none.

    [state, version, MB/s, kind of remote end, its PCI address or minus an error, replays, recoveries, flit CRC, data CRC, data ECC
    errors, and then the counters of NVLINK5]; the last are left out where the device has none of them.
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
        state = minus(lambda: nvml.nvmlDeviceGetNvLinkState(handle, link))  # noqa: B023  (called at once, here and below)
        row: List[Any] = [state, mine[0], mine[1]]
        if state == 1:
            row.append(minus(lambda: nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)))  # noqa: B023
            row.append(minus(lambda: address(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link))))  # type: ignore[arg-type, return-value]  # noqa: B023
        else:
            row += [-NOT_SUPPORTED, -NOT_SUPPORTED]
        row += mine[2:4]
        row += [minus(lambda: nvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, kind)) for kind in LINK_ERRORS]  # noqa: B023
        newer = mine[len(LINK_FIELDS):]
        rows.append(row if all(value == -NOT_SUPPORTED for value in newer) else row + newer)
    return rows


def pair(nvml: Any, handle: Any, other: Any) -> Any:
    """Whether this GPU may read, write and reach by NVLink an earlier one, and that one this one: six numbers, or None without it."""
    if other is None:
        return None
    return [minus(lambda: nvml.nvmlDeviceGetP2PStatus(a, b, kind))  # noqa: B023
            for a, b in ((handle, other), (other, handle)) for kind in P2P]


def processes(nvml: Any, handle: Any) -> List[List[Any]]:
    """[number, state, command] of each process that uses the GPU, by itself or through MPS; see `process` for the state.

    The driver shows a container none of the processes outside of it, so there none is no answer.
    """
    listed = running(nvml, handle)
    if not listed and strange_namespace():
        raise RuntimeError("the collector runs in a PID namespace of its own, and is shown no process outside of it")
    found = {number: process(number) for number in listed}
    if any(state == "" for state, _ in found.values()):
        # It may have ended between the driver's word and our look: gone is only what the driver goes on listing.
        still = running(nvml, handle)
        found = {number: seen for number, seen in found.items() if seen[0] or number in still}
    return [[number, *found[number]] for number in sorted(found)]


def running(nvml: Any, handle: Any) -> List[int]:
    """The numbers of the processes; up to R495 the calls are of the second version, and not every GPU or driver has MPS.

    A display server holds memory as well, and is no process that computes.
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
    """Whether we are in a PID namespace that is not the machine's; a tree in place of / is always the machine's."""
    try:
        return not os.environ.get("MUSTER_ROOT", "/").rstrip("/") and os.readlink("/proc/self/ns/pid") != FIRST_NAMESPACE
    except OSError:
        return False


def process(number: int) -> Tuple[str, str]:
    """A process's state by /proc and its name: no state where there is no such process, "?" where it is hidden from us, and "-" where
    its number means nothing to us, because the driver counts from outside of our PID namespace."""
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
        # Under hidepid= a stranger's folder in /proc is not there, but the process answers that we may not signal it.
        os.kill(number, 0)
    except ProcessLookupError:
        return "", ""
    except OSError:
        pass
    return "?", ""


def ecc(kind: str, counter: str) -> Read:
    """The total of one kind of memory error: volatile, since the driver was loaded, or aggregate, of the board's life."""
    return lambda nvml, handle: nvml.nvmlDeviceGetTotalEccErrors(
        handle, getattr(nvml, "NVML_MEMORY_ERROR_TYPE_" + kind), getattr(nvml, "NVML_%s_ECC" % counter))


def memory(nvml: Any, handle: Any) -> List[Any]:
    """Total and used bytes. The first version of the call counts what the driver reserves as used, so there used is not known."""
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
    """Uncorrectable errors in SRAM in the board's life, and whether they are past NVIDIA's threshold; older drivers only count."""
    found = nvml.c_nvmlEccSramErrorStatus_v1_t()
    try:
        nvml.nvmlDeviceGetSramEccErrorStatus(handle, nvml.byref(found))
    except Exception as error:
        if trouble(error)[0] != FUNCTION_NOT_FOUND:
            raise
        return [nvml.nvmlDeviceGetMemoryErrorCounter(
            handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_AGGREGATE_ECC, nvml.NVML_MEMORY_LOCATION_SRAM), None]
    return [found.aggregateUncParity + found.aggregateUncSecDed, found.bThresholdExceeded]


def fabric(nvml: Any, handle: Any) -> Any:
    """State, status, clique, cluster and health mask of a GPU in a fabric; None for one that is in none. Older drivers have no mask."""
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
    return [named(FABRIC_STATES, found.state), found.status, found.cliqueId, cluster, getattr(found, "healthMask", None)]


def call(function: str, *more: int) -> Read:
    """Reads what this function says of a GPU."""
    def read(nvml: Any, handle: Any) -> Any:
        return getattr(nvml, function)(handle, *more)

    return read


def reasons(nvml: Any, handle: Any) -> Any:
    """Why the clocks are what they are; the call had another name up to R530."""
    try:
        return nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except Exception as error:
        if trouble(error)[0] != FUNCTION_NOT_FOUND:
            raise
        return nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)


FIRST_NAMESPACE = "pid:[4026531836]"    # PROC_PID_INIT_INO of linux/proc_ns.h
P2P = (0, 1, 2)                         # NVML_P2P_CAPS_INDEX_READ, _WRITE, _NVLINK
LINK_COUNT = 91
LINK_FIELDS = (166, 164, 161, 162)      # version, speed, replays, recoveries, each of the link that is the field's scope
LINK_ERRORS = (2, 3, 4)                 # NVML_NVLINK_ERROR_DL_CRC_FLIT, _CRC_DATA, _ECC_DATA
NVLINK5 = (206, 207, 208, 211, 214, 215, 219, 220, 221, 222)

TYPES = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
ARCHITECTURES = ("", "", "kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell", "", "", "rubin")
COMPUTE_MODES = ("default", "exclusive_thread", "prohibited", "exclusive_process")
FABRIC_STATES = ("not_supported", "not_started", "in_progress", "completed")
ACTIONS = ("none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset", "recover_imex_domain", "bus_reset", "system_reboot")

DRIVER: Dict[str, Read] = {
    "driver": lambda nvml, handle: nvml.nvmlSystemGetDriverVersion(),
    "nvml": lambda nvml, handle: nvml.nvmlSystemGetNVMLVersion(),
    "count": lambda nvml, handle: nvml.nvmlDeviceGetCount(),
}

# Thresholds of heat: from Ada on nvml.h prefers margins to them (T.Limit), and a driver may cease to give them. They are UNSUPPORTED
# then, and `temperature_margin_c`, the distance to the nearest slowdown, says what they said.
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

# What one call says of several readings at once; None among its values is a reading that this driver has not.
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
    "pages_retired_corrected": 29, "pages_retired_uncorrected": 30, "pages_pending": 31, "slowdown_power_ns": 74,
    "slowdown_thermal_ns": 75, "temperature_memory_c": 82, "recovery_action": 230,
}

# Readings whose call came after R450: GSP firmware, bank histogram, margin, SRAM status, fabric.
LATE = frozenset({"gsp_firmware", "banks_max", "temperature_margin_c", "sram_uncorrected_lifetime", "fabric_state", "architecture"})
