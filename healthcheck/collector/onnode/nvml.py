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
    from typing import Any, Callable, Collection, Dict, Iterator, List, Mapping, Sequence, Tuple

    Read = Callable[[Any, Any], Any]


MOST_GPUS = 1024
MOST_LINKS = 64
INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND, VERSION_MISMATCH, UNKNOWN = 2, 3, 13, 25, 999
NOT_FOUND, LIBRARY_NOT_FOUND = 6, 12
# Of a function, or a version of a structure, that the driver does not have yet.
TOO_NEW = (FUNCTION_NOT_FOUND, VERSION_MISMATCH)
LOST = (15, 16)         # GPU_IS_LOST, RESET_REQUIRED
NO_ATTACH = 2           # NVML_INIT_FLAG_NO_ATTACH

# The fields of R470's nvml.h end below this number (nvidia-ml-py 11.470.66, NVML_FI_MAX). An unknown id is
# INVALID_ARGUMENT in some drivers and NOT_SUPPORTED in others: for a newer field both mean that this driver
# does not have it.
NEW_FIELD = 161


def silent(stage: str, index: int) -> None:
    """Where no one asks for the stages."""


def lines(nvml: Any, begin: Callable[[str, int], None] = silent, skip: Collection[int] = (),
          done: Sequence[int] = ()) -> Iterator[Dict[str, Any]]:
    """Yields the driver's line, then one for each GPU as it is done. `nvml` is pynvml or a substitute.

    `begin` is called with the name and the GPU's index (-1 for none) before each stage that may hang: init,
    attach, read. GPUs in `skip` are not touched. Those in `done` have their lines from an earlier reader:
    they are attached last, for the pairs that they are in.
    """
    begin("init", -1)
    try:
        plain = initialised(nvml)
        head = {key: reading(nvml, read, None) for key, read in DRIVER.items()}
        if not plain and not head["count"].get("ok"):
            plain = initialised_again(nvml)
            head = {key: reading(nvml, read, None) for key, read in DRIVER.items()}
    except Exception as error:
        yield {"error": own_trouble(error) or trouble(error)}
        return
    yield head
    count = min(head["count"].get("ok", 0), MOST_GPUS)
    todo = [index for index in range(count) if index not in skip and index not in done]
    handles: Dict[int, Any] = {}
    for index in todo:
        line: Dict[str, Any] = {"index": index}
        begin("attach", index)
        try:
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
            except Exception as error:
                # A GPU that the driver calls lost is lost by any start, and one without the flag may hang.
                if plain or handles or trouble(error)[0] in LOST:
                    raise
                plain = initialised_again(nvml)
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:
            line["error"] = trouble(error)
        else:
            begin("read", index)
            line.update(gpu(nvml, handle))
            line["p2p"] = {"ok": pairs(nvml, handle, index, handles)}
            handles[index] = handle
        yield line
    found = list(handles)
    for index in done if found else ():
        begin("attach", index)
        try:
            handles[index] = nvml.nvmlDeviceGetHandleByIndex(index)
        except Exception:  # noqa: S112  (it was read before: only its pairs are not known)
            continue
    for index in found if done else ():
        begin("read", index)
        yield {"index": index, "p2p": {"ok": pairs(nvml, handles[index], index, handles)}}


def initialised(nvml: Any) -> bool:
    """Starts NVML with the flag that leaves all GPUs unattached (R418), or without: then it returns True."""
    try:
        nvml.nvmlInitWithFlags(NO_ATTACH)
    except Exception as error:
        if trouble(error)[0] not in (-1, FUNCTION_NOT_FOUND):
            raise
        nvml.nvmlInit()
        return True
    return False


def initialised_again(nvml: Any) -> bool:
    """Starts NVML anew without the flag: no public source shows that each driver lists and opens GPUs with
    it, so the first failure of that kind is not taken for the GPU's."""
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    return True


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
        absent = found[0] == NOT_SUPPORTED or (late and found[0] in TOO_NEW)
        return {"na": True} if absent else {"error": found}
    if value is None:
        return {"na": True}
    return {"ok": value.decode("utf-8", "replace") if isinstance(value, bytes) else value}


def gpu(nvml: Any, handle: Any) -> Dict[str, Any]:
    """All readings of one GPU except those of pairs."""
    found = {key: reading(nvml, read, handle, key in LATE) for key, read in GPU.items()}
    for keys, read in TOGETHER.items():
        whole = reading(nvml, read, handle, keys[0] in LATE)
        values = whole.get("ok")
        for at, key in enumerate(keys):
            found[key] = (whole if values is None else {"na": True} if values[at] is None
                          else {"ok": values[at]})
    if found["mig"] == {"ok": 1} and found["ecc_uncorrected"] == {"na": True}:
        found["ecc_uncorrected"] = found["sram_uncorrected"] = reading(nvml, of_instances, handle)
    found.update(field_readings(nvml, handle))
    found["nvlinks"] = reading(nvml, nvlinks, handle)
    found["processes"] = reading(nvml, processes, handle)
    return found


def field_readings(nvml: Any, handle: Any) -> Dict[str, Any]:
    """Readings of NVML's numbered fields, all in one call."""
    numbers = [*FIELDS.values(), *EARLIER, *LATER, ON_EARLIER, LIFE_EARLIER, LIFE_LATER]
    try:
        answers = nvml.nvmlDeviceGetFieldValues(handle, numbers)
        values = {number: answers[at] for at, number in enumerate(numbers)}
    except Exception as error:
        why = trouble(error)
        return {key: {"na": True} if why[0] == NOT_SUPPORTED else {"error": why}
                for key in (*FIELDS, *SLOWDOWNS)}
    found = {key: field_reading(nvml, number, values[number]) for key, number in FIELDS.items()}
    action = found["recovery_action"].get("ok")
    if action is not None:
        found["recovery_action"] = {"ok": named(ACTIONS, action)}
    found.update(slowdowns(nvml, values))
    return found


def field_reading(nvml: Any, number: int, value: Any) -> Dict[str, Any]:
    """One field's value, or why there is none."""
    if lacks(number, value):
        return {"na": True}
    if value.nvmlReturn:
        return {"error": [value.nvmlReturn, str(nvml.NVMLError(value.nvmlReturn))]}
    plain = plain_value(value)
    # A signed number of a driver that calls it unsigned.
    return {"ok": plain - (1 << 32) if number in SIGNED and plain >= 1 << 31 else plain}


def lacks(number: int, value: Any) -> bool:
    """Whether NVML says that the driver or the device has no such field."""
    return bool(value.nvmlReturn == NOT_SUPPORTED
                or (value.nvmlReturn == INVALID_ARGUMENT and number >= NEW_FIELD))


def plain_value(value: Any) -> int:
    return int(getattr(value.value, TYPES.get(value.valueType, "ullVal")))


def field_value(number: int, value: Any) -> int:
    """A counter's value as its type says, or minus NVML's error."""
    if value.nvmlReturn:
        return -NOT_SUPPORTED if lacks(number, value) else -int(value.nvmlReturn)
    return plain_value(value)


def slowdowns(nvml: Any, values: Dict[int, Any]) -> Dict[str, Any]:
    """The times of slowdowns, from whichever of two numberings this driver has.

    Public sources dispute the numbers, and a release does not tell: help topic `gpu`, "Disputed". The answers
    do. Where they say nothing, or contradict each other, a time is measured only if both numberings give the
    same.
    """
    there = {numbers for numbers in (EARLIER, LATER) if any(may_be_time(n, values[n]) for n in numbers)}
    if not there:
        return {key: {"na": True} for key in SLOWDOWNS}
    votes = evidence(values, there)
    found: Dict[str, Any] = {}
    for at, key in enumerate(SLOWDOWNS):
        read = {numbers: field_reading(nvml, numbers[at], values[numbers[at]])
                for numbers in (EARLIER, LATER)}
        if len(votes) == 1:
            found[key] = read[next(iter(votes))]
        elif read[EARLIER] == read[LATER]:
            found[key] = read[EARLIER]
        else:
            found[key] = {"error": [-1, "fields %d and %d do not show which of them is this time"
                                    % (EARLIER[at], LATER[at])]}
    return found


def may_be_time(number: int, value: Any) -> bool:
    """Whether this answer can be nanoseconds: 32 bits hold no more than 4.3 s of them."""
    return not lacks(number, value) and (bool(value.nvmlReturn) or value.valueType in WIDE)


def evidence(values: Dict[int, Any], there: Any) -> Any:
    """The numberings, of EARLIER and LATER, that some answer speaks for; `there` are those that may hold
    times."""
    answered = {number: plain_value(value) for number, value in values.items() if not value.nvmlReturn}
    votes = set()
    # What is left of the life of power smoothing's circuit is a number of per cent, and so is its highest
    # floor; there the earlier numbering has a switch.
    life = answered.get(LIFE_LATER)
    if life is None and len(there) == 1:
        votes |= there          # without power smoothing all that answers are times
    elif life is not None and life > 1:
        votes.add(LATER)
    elif life is not None and answered.get(ON_EARLIER, 2) <= 1 < answered.get(LIFE_EARLIER, 0) <= 100:
        votes.add(EARLIER)
    if there == {LATER}:
        votes.add(LATER)        # the earlier numbering has times wherever it has settings
    for numbers, most in ((EARLIER, MOST_SWITCHES), (LATER, MOST_PROFILE)):
        if any(answered.get(numbers[at], 0) > limit for at, limit in enumerate(most)):
            votes.add(numbers)  # no setting is so large
    return votes


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
    CRC, data CRC, data ECC errors, and then those of NVLINK5, if the device has any of them, with the list of
    its FEC bins up to the last one that is not 0].
    """
    head = field_value(LINK_COUNT, nvml.nvmlDeviceGetFieldValues(handle, [LINK_COUNT])[0])
    if head < 0:
        if head == -NOT_SUPPORTED:
            return None
        raise nvml.NVMLError(-head)
    # Asking a link for its bins costs more than all else about it, and no older GPU has any.
    newer = minus(lambda: nvml.nvmlDeviceGetArchitecture(handle)) not in BEFORE_NVLINK5
    per_link = LINK_FIELDS + NVLINK5 + FEC if newer else LINK_FIELDS
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
        counters, bins = mine[len(LINK_FIELDS):-len(FEC)], mine[-len(FEC):]
        if newer and any(value != -NOT_SUPPORTED for value in counters + bins):
            while len(bins) > 1 and bins[-1] in (0, -NOT_SUPPORTED):
                bins.pop()
            row += [*counters, bins]
        rows.append(row)
    return rows


def c2c(nvml: Any, handle: Any) -> Any:
    """How many links to the CPU a GPU has and how many are active; their CRC errors and replays in sum.

    None on a GPU without any: all but those of Grace.
    """
    first = nvml.nvmlDeviceGetFieldValues(handle, [C2C_COUNT])[0]
    count = field_value(C2C_COUNT, first)
    if count in (0, -NOT_SUPPORTED):
        return None
    if count < 0:
        raise nvml.NVMLError(-count)
    links = min(count, MOST_LINKS)
    asked = [(number, link) for number in C2C for link in range(links)]
    values = nvml.nvmlDeviceGetFieldValues(handle, asked)
    sums: List[Any] = [count]
    for at, number in enumerate(C2C):
        plain = [field_value(number, value) for value in values[at * links:(at + 1) * links]]
        lost = [value for value in plain if value < 0 and value != -NOT_SUPPORTED]
        if lost:
            raise nvml.NVMLError(-lost[0])
        known = [value for value in plain if value >= 0]
        sums.append(sum(value == 1 for value in known) if number == C2C[0] and known
                    else sum(known) if known else None)
    return sums


def pairs(nvml: Any, handle: Any, index: int, handles: Mapping[int, Any]) -> List[Any]:
    """A GPU's pairs with those before it, None where the other is not attached. The later GPU of a pair
    reports it: one that hangs costs only itself and its successors."""
    return [pair(nvml, handle, handles.get(other)) for other in range(index)]


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
        if trouble(error)[0] not in TOO_NEW:
            raise
        return [nvml.nvmlDeviceGetMemoryInfo(handle).total, None]
    return [found.total, found.used]


def banks(nvml: Any, handle: Any) -> List[int]:
    found = nvml.nvmlDeviceGetRowRemapperHistogram(handle)
    return [found.max, found.high, found.partial, found.low, found.none]


def sram(nvml: Any, handle: Any) -> List[Any]:
    """Corrected and uncorrectable SRAM errors, volatile and aggregate, and whether the latter exceed NVIDIA's
    threshold (newer drivers)."""
    found = nvml.c_nvmlEccSramErrorStatus_v1_t()
    try:
        nvml.nvmlDeviceGetSramEccErrorStatus(handle, nvml.byref(found))
    except Exception as error:
        # The GPUs before Ampere have the counters, and not the status.
        if trouble(error)[0] not in (*TOO_NEW, NOT_SUPPORTED):
            raise
        return [*errors_in(nvml, handle, nvml.NVML_MEMORY_LOCATION_SRAM), None]
    return [found.volatileCor, found.volatileUncParity + found.volatileUncSecDed, found.aggregateCor,
            found.aggregateUncParity + found.aggregateUncSecDed, found.bThresholdExceeded]


def dram(nvml: Any, handle: Any) -> List[Any]:
    """Corrected and uncorrectable errors of the device's memory, volatile and aggregate."""
    return errors_in(nvml, handle, nvml.NVML_MEMORY_LOCATION_DRAM)


def errors_in(nvml: Any, handle: Any, location: int) -> List[Any]:
    return [nvml.nvmlDeviceGetMemoryErrorCounter(handle, kind, counter, location)
            for counter in (nvml.NVML_VOLATILE_ECC, nvml.NVML_AGGREGATE_ECC)
            for kind in (nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)]


def of_instances(nvml: Any, handle: Any) -> Any:
    """Uncorrectable errors of a divided GPU, volatile: nvml.h has them of its instances alone, and there
    without DRAM. None without any instance."""
    found = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except Exception as error:
            if trouble(error)[0] != NOT_FOUND:
                raise
        else:
            found.append(nvml.nvmlDeviceGetMemoryErrorCounter(
                instance, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC,
                nvml.NVML_MEMORY_LOCATION_SRAM))
    return sum(found) if found else None


def fabric(nvml: Any, handle: Any) -> Any:
    """State, status, clique, cluster, health mask and summary (newer drivers) of a GPU in a fabric, or
    None."""
    for layout in (nvml.c_nvmlGpuFabricInfo_v3_t, nvml.c_nvmlGpuFabricInfo_v2_t):
        found = layout()
        try:
            nvml.nvmlDeviceGetGpuFabricInfoV(handle, nvml.byref(found))
        except Exception as error:
            if trouble(error)[0] not in (*TOO_NEW, INVALID_ARGUMENT):
                raise
        else:
            break
    else:
        found = nvml.c_nvmlGpuFabricInfo_t()
        nvml.nvmlDeviceGetGpuFabricInfo(handle, nvml.byref(found))
    if found.state == 0:
        return None
    cluster = bytes(found.clusterUuid).hex()
    cluster = "-".join((cluster[:8], cluster[8:12], cluster[12:16], cluster[16:20], cluster[20:]))
    summary = getattr(found, "healthSummary", 0)
    return [named(FABRIC_STATES, found.state), found.status, found.cliqueId, cluster,
            getattr(found, "healthMask", None), named(FABRIC_SUMMARIES, summary) if summary else None]


def platform(nvml: Any, handle: Any) -> List[Any]:
    """The chassis' serial number, slot, tray, host, kind of peer and module of a GPU.

    Outside a rack the serial number is empty, and slot and tray mean nothing. Read as bytes: pynvml makes
    text of the numbers.
    """
    found = nvml.c_nvmlPlatformInfo_v2_t()
    nvml.nvmlDeviceGetPlatformInfo(handle, nvml.byref(found))
    raw = bytes(found)
    serial = raw[20:36].partition(b"\0")[0].decode("ascii", "replace").strip()
    slot, tray, host, peer, module = raw[36:41]
    return [serial or None, slot if serial else None, tray if serial else None, host, named(PEERS, peer),
            module]


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
NVLINK5 = (206, 207, 208, 211, 214, 215, 219, 220, 221, 222, 293)     # the last: the raw bit error ratio
FEC = tuple(range(235, 251))
BEFORE_NVLINK5 = range(2, 10)           # NVML_DEVICE_ARCH_KEPLER to _HOPPER
C2C_COUNT = 170
C2C = (171, 231, 232)                   # status, CRC errors, replays of the link in the scope

TYPES = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
ARCHITECTURES = ("", "", "kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper",
                 "blackwell", "", "", "rubin")
COMPUTE_MODES = ("default", "exclusive_thread", "prohibited", "exclusive_process")
FABRIC_STATES = ("not_supported", "not_started", "in_progress", "completed")
FABRIC_SUMMARIES = ("", "healthy", "unhealthy", "limited_capacity")
# nvml.h gives no numbers of them: help topic `gpu`, "Disputed".
PEERS = ("direct_connected", "switch_connected")
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
    "c2c_enabled": lambda nvml, handle: nvml.nvmlDeviceGetC2cModeInfoV(handle).isC2cEnabled,
}

# Calls that give several readings at once; None among the values is a reading that this driver does not have.
TOGETHER: Dict[Tuple[str, ...], Read] = {
    ("memory_bytes", "memory_used_bytes"): memory,
    ("ecc_mode", "ecc_pending"): call("nvmlDeviceGetEccMode"),
    ("mig", "mig_pending"): call("nvmlDeviceGetMigMode"),
    ("rows_corrected", "rows_uncorrected", "rows_pending", "rows_failed"): call("nvmlDeviceGetRemappedRows"),
    ("banks_max", "banks_high", "banks_partial", "banks_low", "banks_none"): banks,
    ("sram_corrected", "sram_uncorrected", "sram_corrected_lifetime", "sram_uncorrected_lifetime",
     "sram_threshold_exceeded"): sram,
    ("dram_corrected", "dram_uncorrected", "dram_corrected_lifetime", "dram_uncorrected_lifetime"): dram,
    ("channel_repair_pending", "tpc_repair_pending"): call("nvmlDeviceGetRepairStatus"),
    ("fabric_state", "fabric_status", "fabric_clique", "fabric_cluster", "fabric_health",
     "fabric_summary"): fabric,
    ("chassis_serial", "slot_number", "tray_index", "host_id", "peer_type", "module_id"): platform,
    ("c2c_links", "c2c_links_active", "c2c_crc_errors", "c2c_replays"): c2c,
}

FIELDS = {
    "pages_retired_corrected": 29, "pages_retired_uncorrected": 30, "pages_pending": 31,
    "slowdown_power_ns": 74, "slowdown_thermal_ns": 75, "temperature_memory_c": 82,
    "tlimit_shutdown_c": 193, "tlimit_slowdown_c": 194, "tlimit_memory_max_c": 195, "tlimit_gpu_max_c": 196,
    "recovery_action": 230,
    "rows_corrected_inactive": 301, "rows_uncorrected_inactive": 302, "banks_remapped": 303,
    "bank_remap_none": 306, "bank_remap_pending": 307,
}
SIGNED = frozenset(range(193, 197))

# The times of slowdowns, where NVIDIA's bindings of R575 and R580.65 have them, and where those of R580.82
# and later do. In the later numbering the earlier one's numbers are a switch, a level of privilege and a
# switch of power smoothing; in the earlier one the later one's are a profile's number, per cent, and mW/s.
SLOWDOWNS = ("slowdown_sw_thermal_ns", "slowdown_hw_thermal_ns", "slowdown_hw_power_brake_ns")
EARLIER, LATER = (251, 252, 253), (269, 270, 271)
ON_EARLIER, LIFE_EARLIER, LIFE_LATER = 256, 263, 258
MOST_SWITCHES, MOST_PROFILE = (1, 255, 1), (255, 100)
WIDE = (0, 2, 3, 4)                     # double, unsigned long, unsigned and signed long long

# Readings whose call came after R450: each group of TOGETHER by its first.
LATE = frozenset({"gsp_firmware", "banks_max", "temperature_margin_c", "sram_corrected", "fabric_state",
                  "architecture", "c2c_enabled", "c2c_links", "channel_repair_pending", "chassis_serial"})
