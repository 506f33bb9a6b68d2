"""The readings of one GPU in nvidia-smi's XML log, in the NVML reader's format.

The elements and words are those of `nvidia-smi -q -x` (DTDs nvsmi_device_v11 to v13) and of nvidia-smi's
manual page. Where nvidia-smi has no value, it prints one of three things: the device has no such thing
("N/A", "[Not Supported]"), the value could not be read ("[Unknown Error]", "ERR!"), or the GPU is gone ("[GPU
is lost]"). They stay distinct here. Such a word may stand in place of a whole block.

An element that is not there means one of two things. Where the driver is older than the reading, or the GPU's
generation has another one in its place, the GPU has no such reading: NVML has none there either (`_SINCE`,
`_lacking`). Anywhere else it was not measured. An element that is there twice is no measurement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from healthcheck.model.probes import MIB
from inventory.text import clean

# NVML's words for its statuses (nvmlErrorString) that nvidia-smi prints in place of a value.
NVML_WORDS: Mapping[str, int] = {
    "success": 0, "uninitialized": 1, "invalid argument": 2, "not supported": 3,
    "insufficient permissions": 4, "already initialized": 5, "not found": 6, "insufficient size": 7,
    "insufficient external power": 8, "driver not loaded": 9, "timeout": 10,
    "interrupt request issue": 11, "nvml shared library not found": 12, "function not found": 13,
    "corrupted inforom": 14, "gpu is lost": 15, "gpu requires reset": 16, "gpu requires restart": 16,
    "the operating system has blocked the request": 17, "driver/library version mismatch": 18,
    "in use by another client": 19, "insufficient memory": 20, "no data": 21,
    "insufficient resources": 23, "requested functionality has been deprecated": 26, "not ready": 27,
    "gpu not found": 28, "invalid state": 29, "unknown error": 999, "err!": 999,
}
_NOTHING = ("n/a", "not supported", "not available")

Texts = Mapping[str, str]
# {"ok": value}, {"na": True} or {"error": [code, message]} as the NVML reader has them, or {"absent": path}
# where the log has no such element.
Reading = dict[str, Any]
Read = Callable[[Texts], Reading]

# What `smi` writes in place of an element's text that the log holds twice. No log has this character.
TWICE = "\0twice"
# The block of an instance of a divided GPU (MIG), which `smi` numbers: INSTANCE[1].
INSTANCE = "mig_devices/mig_device"
# Where it puts the release of the driver among the texts of each GPU.
RELEASE = "@release"


def _value(gpu: Texts, paths: tuple[str, ...], convert: Callable[[str], Any]) -> Reading:
    """The value at the first of these paths that the log has, in the NVML reader's format."""
    for path in paths:
        found = gpu.get(path)
        if found is not None:
            return _reading(found, convert, path)
        above = path
        while "/" in above:
            above = above.rpartition("/")[0]
            if text := gpu.get(above):
                return _in_place(text, above)
    return {"absent": paths[0]}


def _word(text: str) -> str:
    return text.strip().strip("[]").strip().rstrip(".").lower()


def _wordless(text: str, what: str) -> Reading | None:
    """What a word in place of a value says; None if the text is none of these words."""
    word = _word(text)
    if word in _NOTHING:
        return {"na": True}
    if NVML_WORDS.get(word):
        return {"error": [NVML_WORDS[word], text.strip("[] ")]}
    return {"error": [-1, f"it prints {what} twice"]} if text == TWICE else None


def _in_place(text: str, what: str) -> Reading:
    """What this text says in place of a block of elements."""
    return _wordless(text, what) or _malformed(text, what)


def _malformed(text: str, what: str) -> Reading:
    return {"error": [-1, f"{what} is {clean(text, 40)!r}, which is not in the documented format"]}


def _reading(text: str, convert: Callable[[str], Any], what: str) -> Reading:
    if not text:
        # Names that a board was not given are empty; numbers and states never are.
        return {"na": True} if convert is str else _malformed(text, what)
    said = _wordless(text, what)
    if said is not None:
        return said
    try:
        return {"ok": convert(text.strip())}
    except (ValueError, KeyError, OverflowError):
        return _malformed(text, what)


def _whole(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,20}", text):
        raise ValueError(text)
    return int(text)


def _signed(text: str) -> int:
    return -_whole(text[1:]) if text.startswith("-") else _whole(text)


def _unit(unit: str, factor: int = 1, number: Callable[[str], int] = _whole) -> Callable[[str], int]:
    def convert(text: str) -> int:
        digits, _, word = text.partition(" ")
        if word.strip() != unit:
            raise ValueError(text)
        return number(digits) * factor

    return convert


def _milliwatts(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,3})? W", text):
        raise ValueError(text)
    return round(float(text[:-2]) * 1000)


def _width(text: str) -> int:
    if not text.endswith("x"):
        raise ValueError(text)
    return _whole(text[:-1])


def _choice(**words: Any) -> Callable[[str], Any]:
    table = {name.replace("_", " "): value for name, value in words.items()}
    return lambda text: table[text.lower().replace("_", " ")]


_ON = _choice(enabled=1, disabled=0)
_YES = _choice(yes=1, no=0, true=1, false=0)


# nvml.h's nvmlGpuFabricState_t (one that is not supported is N/A) and nvmlComputeMode_t.
_STATE = _choice(not_started="not_started", in_progress="in_progress", completed="completed")
_SUMMARY = _choice(healthy="healthy", unhealthy="unhealthy", limited_capacity="limited_capacity")
_MODE = _choice(default="default", exclusive_thread="exclusive_thread", prohibited="prohibited",
                exclusive_process="exclusive_process")


def _uuid(text: str) -> str:
    if not re.fullmatch(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", text):
        raise ValueError(text)
    return text.lower()


def _lower(text: str) -> str:
    return re.sub(r"[ -]+", "_", text.lower())


def pci_address(text: str) -> str:
    """NVIDIA's PCI address "00000000:1A:00.0" as the kernel writes it: 0000:1a:00.0."""
    match = re.fullmatch(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])", text)
    if match is None:
        raise ValueError(text)
    return f"{int(match[1], 16):04x}:{match[2].lower()}"


def _added(values: list[Reading]) -> Reading:
    """The sum of counters. Those that the device lacks count as nothing; without any, the sum is missing
    too."""
    for why in ("error", "absent"):
        for value in values:
            if why in value:
                return value
    known = [value["ok"] for value in values if "ok" in value]
    return {"ok": sum(known)} if known else {"na": True}


def _sum(*paths: str) -> Read:
    """The sum of the counters at these paths."""
    return lambda gpu: _added([_value(gpu, (path,), _whole) for path in paths])


def _either(first: Read, second: Read) -> Read:
    """The first, or the second where this nvidia-smi does not print the first."""

    def read(gpu: Texts) -> Reading:
        value = first(gpu)
        other = second(gpu) if "absent" in value else value
        return value if "absent" in other else other

    return read


def _at(convert: Callable[[str], Any], *paths: str) -> Read:
    return lambda gpu: _value(gpu, paths, convert)


def _lacking(read: Read, *instead: str) -> Read:
    """The reading, which a GPU does not have whose log holds one of these elements in its place."""

    def found(gpu: Texts) -> Reading:
        value = read(gpu)
        return {"na": True} if "absent" in value and any(path in gpu for path in instead) else value

    return found


def _sram(block: str) -> Read:
    """Uncorrectable errors of SRAM: from driver 550 on Ampere and newer print parity and SEC-DED apart. GPUs
    before Turing do not tell them from those of the device's memory."""
    at = f"ecc_errors/{block}/"
    apart = _sum(f"{at}sram_uncorrectable_parity", f"{at}sram_uncorrectable_secded")
    return _lacking(_either(_at(_whole, f"{at}sram_uncorrectable"), apart), f"{at}double_bit/total")


def _part(block: str, name: str) -> Read:
    """Errors of one kind of memory, which GPUs before Turing do not tell apart."""
    at = f"ecc_errors/{block}/"
    return _lacking(_at(_whole, f"{at}{name}"), f"{at}double_bit/total")


def _ecc(block: str, kind: str, old: str) -> Read:
    """Totals of one kind: SRAM and DRAM together; GPUs before Turing print a total."""
    at = f"ecc_errors/{block}/"
    sram = _sram(block) if kind == "uncorrectable" else _at(_whole, f"{at}sram_{kind}")
    dram = _at(_whole, f"{at}dram_{kind}")
    total: Read = _at(_whole, f"{at}{old}/total")
    return lambda gpu: total(gpu) if f"{at}{old}/total" in gpu else _added([sram(gpu), dram(gpu)])


_OF_INSTANCE = "/ecc_error_count/volatile_count/sram_uncorrectable"


def _with_instances(read: Read) -> Read:
    """Uncorrectable errors since the driver was loaded. A divided GPU (MIG) may count them by instance alone,
    and there without DRAM: then the instances' sum."""

    def found(gpu: Texts) -> Reading:
        value = read(gpu)
        if "na" not in value or _value(gpu, ("mig_mode/current_mig",), _ON) != {"ok": 1}:
            return value
        counted = [path for path in gpu if path.startswith(INSTANCE) and _OF_INSTANCE in path]
        instances = {path.partition("]")[0] for path in gpu if path.startswith(f"{INSTANCE}[")}
        if instances != {path.partition("]")[0] for path in counted}:
            return {"absent": f"{INSTANCE}{_OF_INSTANCE}"}
        return _added([_value(gpu, (path,), _whole) for path in counted])

    return found


def _memory_used(gpu: Texts) -> Reading:
    """Before driver 510 nvidia-smi printed no reserved memory and counted it as used."""
    used = _value(gpu, ("fb_memory_usage/used",), _unit("MiB", MIB))
    if "ok" in used and "fb_memory_usage/reserved" not in gpu:
        return {"error": [-1, "it counts the driver's own memory as used"]}
    return used


_AVERAGE, _INSTANT = "gpu_power_readings/average_power_draw", "gpu_power_readings/instant_power_draw"


def _power(gpu: Texts) -> Reading:
    """The power draw: up to driver 565 one number; after that the average, or the instantaneous one where the
    GPU has no average (before Ampere, and A100)."""
    average, instant = _value(gpu, (_AVERAGE,), _milliwatts), _value(gpu, (_INSTANT,), _milliwatts)
    if "absent" in average and "absent" in instant:
        return _value(gpu, ("gpu_power_readings/power_draw", "power_readings/power_draw"), _milliwatts)
    if "ok" in average or "error" in average:
        return average
    # One alone that says N/A says nothing of the other.
    return average if "na" in instant else instant


def note(gpu: Texts) -> str:
    """What a reading is that NVML would have given otherwise; "" where each is the same."""
    average = _value(gpu, (_AVERAGE,), _milliwatts)
    instant = "ok" in _value(gpu, (_INSTANT,), _milliwatts) and ("na" in average or "absent" in average)
    return "its power draw is the instantaneous one, as it has no average" if instant else ""


# nvml.h's nvmlClocksEventReason bits, by the last part of the element's name.
_REASONS = {
    "gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20, "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}
_ACTIVE = _choice(active=1, not_active=0)


def _clock_reasons(gpu: Texts) -> Reading:
    """All reasons, which every driver prints: one that is missing may be the one that holds."""
    bits, known = 0, False
    for name, bit in _REASONS.items():
        found = _value(gpu, tuple(f"clocks_{word}_reasons/clocks_{word}_reason_{name}"
                                  for word in ("event", "throttle")), _ACTIVE)
        if "error" in found or "absent" in found:
            return found
        if "ok" in found:
            known = True
            bits |= bit * int(found["ok"])
    return {"ok": bits} if known else {"na": True}


# Newer drivers call a reset of the GPU a function level reset (PF FLR), and a reboot of the node one of the
# operating system.
_KNOWN_RECOVERY = _choice(
    none="none", reset="gpu_reset", gpu_reset="gpu_reset", pf_flr="gpu_reset", reboot="node_reboot",
    node_reboot="node_reboot",
    os_reboot="node_reboot", drain_p2p="drain_p2p", drain_and_reset="drain_and_reset",
    recover_imex_domain="recover_imex_domain",
    bus_reset="bus_reset", system_reboot="system_reboot",
)


def _recovery_word(text: str) -> str:
    """An action newer than this table is returned by name, as with NVML, and not as unreadable."""
    try:
        return str(_KNOWN_RECOVERY(text))
    except KeyError:
        return f"unknown ({clean(text, 40)})"


def _recovery(gpu: Texts) -> Reading:
    """The recovery action; from driver 530 to 570 there were two flags instead, of which a GPU without MIG
    lacks the second."""
    found = _value(gpu, ("gpu_recovery_action",), _recovery_word)
    if "absent" not in found:
        return found
    reset = _value(gpu, ("gpu_reset_status/reset_required",), _YES)
    drain = _value(gpu, ("gpu_reset_status/drain_and_reset_recommended",), _YES)
    if drain.get("ok"):
        return {"ok": "drain_and_reset"}
    if reset.get("ok"):
        return {"ok": "gpu_reset"}
    if "absent" in reset and "absent" in drain:
        return found
    return {"ok": "none"} if "ok" in reset and ("ok" in drain or "na" in drain) else (
        reset if "ok" not in reset else drain)


def _of_fabric(read: Read) -> Read:
    """The reading of a GPU's fabric, which a GPU without one does not have, whatever its log leaves out."""

    def found(gpu: Texts) -> Reading:
        value = read(gpu)
        if "absent" in value and _word(gpu.get("fabric/state", "")) in _NOTHING:
            return {"na": True}
        return value

    return found


def _fabric_status(gpu: Texts) -> Reading:
    """The status of the GPU's fabric probe: here NVML's words are the value, unless they stand for the state
    as well."""
    state = _value(gpu, ("fabric/state",), _STATE)
    if "error" in state:
        return state
    word = _word(gpu.get("fabric/status", ""))
    if word in NVML_WORDS and word not in _NOTHING:
        return {"ok": NVML_WORDS[word]}
    return _value(gpu, ("fabric/status",), lambda text: NVML_WORDS[text])


# Each part of the fabric's health: its element, the release from which nvidia-smi prints it (None: only some
# builds of 580 do), its place in nvml.h's mask (NVML_GPU_FABRIC_HEALTH_MASK_*), and its words.
_FLAG = {"true": 1, "false": 2}
_HEALTH: tuple[tuple[str, int | None, int, Mapping[str, int]], ...] = (
    ("bandwidth", 550, 0, {"degraded": 1, "full": 2}),
    ("route_recovery_in_progress", 570, 2, _FLAG),
    ("route_unhealthy", 570, 4, _FLAG),
    ("access_timeout_recovery", 570, 6, _FLAG),
    ("incorrect_configuration", 580, 8, {
        "none": 1, "incorrect systemguid": 2, "incorrect sysguid": 2, "incorrect chassis serial number": 3,
        "no partition": 4,
        "insufficient nvlinks": 5, "insufficient nvlink resources": 5, "incompatible gpu firmware": 6,
        "invalid location": 7,
        "gpu state invalid": 8,
    }),
    ("partition_assigned", None, 12, _FLAG),
)
HEALTH_PARTS = tuple(name for name, *_ in _HEALTH)


def _in_rack(name: str) -> Read:
    """Where in its chassis a GPU sits; 0 of one that sits in none, whose chassis' number is empty."""

    def found(gpu: Texts) -> Reading:
        value = _value(gpu, (f"platformInfo/{name}",), _whole)
        nowhere = gpu.get("platformInfo/chassis_serial_number") == ""
        return {"na": True} if "ok" in value and nowhere else value

    return found


def _never(key: str) -> Read:
    """A reading that nvidia-smi -q does not print of any GPU."""
    return lambda gpu: {"absent": key}


def _c2c_mode(gpu: Texts) -> Reading:
    """Whether the links to a CPU of the same module are on. Drivers before 550 do not print it; of the GPUs
    that they know GH200 alone has such links."""
    mode = _value(gpu, ("c2c_mode",), _ON)
    release = _release(gpu)
    known = release is not None and release < 550 and "product_name" in gpu
    return {"na": True} if "absent" in mode and known and not _beside_grace(gpu) else mode


def _beside_grace(gpu: Texts) -> bool:
    """Whether the GPU's name is that of a module with a Grace CPU (GH200, GB200, GB300)."""
    return re.search(r"\bG[HB][0-9]{3}\b", gpu.get("product_name", "")) is not None


def _c2c(key: str) -> Read:
    """A reading of those links, which nvidia-smi -q does not print and a GPU without them does not have."""

    def read(gpu: Texts) -> Reading:
        mode = _c2c_mode(gpu)
        none = "na" in mode or (mode.get("ok") == 0 and not _beside_grace(gpu))
        return {"na": True} if none else {"absent": key}

    return read


def _lowered(words: Mapping[str, int]) -> Callable[[str], int]:
    return lambda text: words[text.lower()]


def _fabric_health(gpu: Texts) -> Reading:
    """The mask that NVML would have returned. Parts that this version does not print are not supported."""
    mask, printed = 0, False
    release = _release(gpu)
    for name, since, shift, words in _HEALTH:
        found = _value(gpu, (f"fabric/health/{name}",), _lowered(words))
        if "error" in found:
            return found
        if "absent" in found and since is not None and (release is None or release >= since):
            return found
        printed = printed or "absent" not in found
        mask |= int(found.get("ok", 0)) << shift
    return {"ok": mask} if mask else {"na": True} if printed else {"absent": "fabric/health/bandwidth"}


_TEMPERATURE = _unit("C", number=_signed)
_MHZ = _unit("MHz")
_BANKS = _unit("bank(s)")
_NS = _unit("us", 1000)
_COUNTERS = "clocks_event_reasons_counters/clocks_event_reasons_counters_"
_ROWS = "remapped_rows/"
_HISTOGRAM = "remapped_rows/row_remapper_histogram/row_remapper_histogram_"
_LINK = "pci/pci_gpu_link_info/"
# The elements of thresholds: from Ada on the log has margins (T.Limit) in place of temperatures.
_THRESHOLDS = tuple([
    row for what, middle in (("slowdown", "slow"), ("shutdown", "max"), ("memory_max", "max_mem"),
                             ("gpu_max", "max_gpu"))
    for row in ((f"temperature_{what}_c", f"{middle}_threshold", f"{middle}_tlimit_threshold"),
                (f"tlimit_{what}_c", f"{middle}_tlimit_threshold", f"{middle}_threshold"))])
_BANK_REMAPS = ("banks_remapped", "bank_remap_none", "bank_remap_pending")
_OF_C2C = ("c2c_links", "c2c_links_active", "c2c_crc_errors", "c2c_replays")
_PLATFORM: Mapping[str, Callable[[str], Any]] = {
    "slot_number": _whole, "tray_index": _whole, "host_id": _whole, "module_id": _whole,
    "peer_type": _choice(direct_connected="direct_connected", switch_connected="switch_connected"),
}

# By the NVML reader's keys (`facts/nvml_output.py`, READINGS): where nvidia-smi prints the same.
_READS: Mapping[str, Read] = {
    "pci": _at(pci_address, "pci/pci_bus_id", "@id"),
    "uuid": _at(str, "uuid"),
    "serial": _at(str, "serial"),
    "name": _at(str, "product_name"),
    "architecture": _at(lambda text: _lower(text).removesuffix("_lovelace"), "product_architecture"),
    "minor": _at(_whole, "minor_number"),
    "part_number": _at(str, "board_part_number"),
    "vbios": _at(str, "vbios_version"),
    "inforom": _at(str, "inforom_version/img_version"),
    "gsp_firmware": _at(str, "gsp_firmware_version"),
    "recovery_action": _recovery,
    "persistence": _at(_ON, "persistence_mode"),
    "mig": _at(_ON, "mig_mode/current_mig"),
    "mig_pending": _at(_ON, "mig_mode/pending_mig"),
    "compute_mode": _at(_MODE, "compute_mode"),
    "memory_bytes": _at(_unit("MiB", MIB), "fb_memory_usage/total"),
    "memory_used_bytes": _memory_used,
    "ecc_mode": _at(_ON, "ecc_mode/current_ecc"),
    "ecc_pending": _at(_ON, "ecc_mode/pending_ecc"),
    "ecc_corrected": _ecc("volatile", "correctable", "single_bit"),
    "ecc_uncorrected": _with_instances(_ecc("volatile", "uncorrectable", "double_bit")),
    "ecc_corrected_lifetime": _ecc("aggregate", "correctable", "single_bit"),
    "ecc_uncorrected_lifetime": _ecc("aggregate", "uncorrectable", "double_bit"),
    **{f"{name}{end}": read for block, end in (("volatile", ""), ("aggregate", "_lifetime"))
       for name, read in (("sram_corrected", _part(block, "sram_correctable")),
                          ("sram_uncorrected", _sram(block)),
                          ("dram_corrected", _part(block, "dram_correctable")),
                          ("dram_uncorrected", _part(block, "dram_uncorrectable")))},
    "sram_uncorrected": _with_instances(_sram("volatile")),
    # Only where parity and SEC-DED are apart is there a threshold, and a repair.
    **{key: _lacking(_at(_YES, f"ecc_errors/{path}"), "ecc_errors/aggregate/sram_uncorrectable",
                     "ecc_errors/aggregate/double_bit/total")
       for key, path in (("sram_threshold_exceeded", "aggregate/sram_threshold_exceeded"),
                         ("channel_repair_pending", "channel_repair_pending"),
                         ("tpc_repair_pending", "tpc_repair_pending"))},
    "rows_corrected": _at(_whole, _ROWS + "remapped_row_corr"),
    "rows_uncorrected": _at(_whole, _ROWS + "remapped_row_unc"),
    "rows_corrected_inactive": _at(_whole, _ROWS + "remapped_row_corr_inactive"),
    "rows_uncorrected_inactive": _at(_whole, _ROWS + "remapped_row_unc_inactive"),
    "rows_pending": _at(_YES, _ROWS + "remapped_row_pending"),
    "rows_failed": _at(_YES, _ROWS + "remapped_row_failure"),
    **{f"banks_{name}": _at(_BANKS, _HISTOGRAM + name) for name in ("max", "high", "partial", "low", "none")},
    "pages_retired_corrected": _at(_whole, "retired_pages/multiple_single_bit_retirement/retired_count"),
    "pages_retired_uncorrected": _at(_whole, "retired_pages/double_bit_retirement/retired_count"),
    "pages_pending": _at(_YES, "retired_pages/pending_retirement"),
    "pcie_generation": _at(_whole, _LINK + "pcie_gen/current_link_gen"),
    "pcie_generation_max": _at(_whole, _LINK + "pcie_gen/max_link_gen"),
    "pcie_width": _at(_width, _LINK + "link_widths/current_link_width"),
    "pcie_width_max": _at(_width, _LINK + "link_widths/max_link_width"),
    "pcie_replays": _at(_whole, "pci/replay_counter"),
    "temperature_c": _at(_TEMPERATURE, "temperature/gpu_temp"),
    "temperature_memory_c": _at(_TEMPERATURE, "temperature/memory_temp"),
    **{key: _lacking(_at(_TEMPERATURE, f"temperature/gpu_temp_{name}"), f"temperature/gpu_temp_{instead}")
       for key, name, instead in _THRESHOLDS},
    "temperature_margin_c": _at(_TEMPERATURE, "temperature/gpu_temp_tlimit"),
    "power_mw": _power,
    "power_limit_mw": _at(
        _milliwatts, "gpu_power_readings/current_power_limit", "gpu_power_readings/enforced_power_limit",
        "power_readings/enforced_power_limit",
    ),
    "power_limit_default_mw": _at(_milliwatts, "gpu_power_readings/default_power_limit",
                                  "power_readings/default_power_limit"),
    "clock_sm_mhz": _at(_MHZ, "clocks/sm_clock"),
    "clock_sm_max_mhz": _at(_MHZ, "max_clocks/sm_clock"),
    "clock_memory_mhz": _at(_MHZ, "clocks/mem_clock"),
    "clock_memory_max_mhz": _at(_MHZ, "max_clocks/mem_clock"),
    "clock_reasons": _clock_reasons,
    "slowdown_power_ns": _at(_NS, _COUNTERS + "sw_power_cap"),
    "slowdown_hw_thermal_ns": _at(_NS, _COUNTERS + "hw_therm_slowdown"),
    "slowdown_hw_power_brake_ns": _at(_NS, _COUNTERS + "hw_power_brake"),
    "slowdown_sw_thermal_ns": _at(_NS, _COUNTERS + "sw_therm_slowdown"),
    "utilization_percent": _at(_unit("%"), "utilization/gpu_util"),
    "fabric_state": _at(_STATE, "fabric/state"),
    "fabric_status": _of_fabric(_fabric_status),
    "fabric_clique": _of_fabric(_at(_whole, "fabric/cliqueId")),
    "fabric_cluster": _of_fabric(_at(_uuid, "fabric/clusterUuid")),
    "fabric_health": _of_fabric(_fabric_health),
    "fabric_summary": _of_fabric(_at(_SUMMARY, "fabric/health/summary")),
    "chassis_serial": _at(str, "platformInfo/chassis_serial_number"),
    **{key: _at(convert, f"platformInfo/{key}") for key, convert in _PLATFORM.items()},
    "slot_number": _in_rack("slot_number"), "tray_index": _in_rack("tray_index"),
    "c2c_enabled": _c2c_mode,
    **{key: _c2c(key) for key in _OF_C2C},
    **{key: _never(key) for key in ("slowdown_thermal_ns", *_BANK_REMAPS)},
}
# Readings of NVML that nvidia-smi -q does not print, whether or not a GPU has them.
NOT_PRINTED = ("slowdown_thermal_ns", *_BANK_REMAPS, *_OF_C2C)

# The release of the driver that brought a reading to NVML and to nvidia-smi. Older ones have it in neither:
# tests/healthcheck/facts/smidocs.py names the public logs of drivers 515 to 595 that show it.
_SINCE: Mapping[str, int] = {
    "gsp_firmware": 510, "recovery_action": 530,
    **dict.fromkeys(("fabric_state", "fabric_status", "fabric_clique", "fabric_cluster"), 525),
    "temperature_margin_c": 525, "fabric_health": 550,
    **dict.fromkeys(("chassis_serial", *_PLATFORM), 570),
    "slowdown_hw_thermal_ns": 575, "slowdown_hw_power_brake_ns": 575, "slowdown_sw_thermal_ns": 575,
    "fabric_summary": 580, "channel_repair_pending": 580, "tpc_repair_pending": 580,
    "rows_corrected_inactive": 590, "rows_uncorrected_inactive": 590, **dict.fromkeys(_BANK_REMAPS, 610),
}
# Driver 530 is a branch that left before 525 got this.
_LEFT_OUT = frozenset({("temperature_margin_c", 530), ("temperature_margin_c", 531)})


def _release(gpu: Texts) -> int | None:
    release = gpu.get(RELEASE, "")
    return int(release) if release else None


def release_of(version: str) -> str:
    """The release of a driver's version: 580 of 580.65.06; "" where that is none."""
    found = re.match(r"([0-9]{3,4})\.[0-9]", version)
    return found[1] if found is not None else ""


def _unprinted(found: Reading) -> Reading:
    return {"error": [-1, f"it does not print {found['absent']}"]}


def _older(key: str, release: int | None) -> bool:
    """Whether a driver of this release has no such reading."""
    return release is not None and (release < _SINCE.get(key, 0) or (key, release) in _LEFT_OUT)


def gpu_line(index: int, gpu: Texts) -> dict[str, Any]:
    """One GPU in the NVML reader's format, from the texts of its elements by their paths, and its `note` if
    there is one."""
    line: dict[str, Any] = {"index": index}
    if said := note(gpu):
        line["note"] = said
    for key, read in _READS.items():
        found = read(gpu)
        if "absent" in found:
            found = {"na": True} if _older(key, _release(gpu)) else _unprinted(found)
        line[key] = found
    return line


def summary(found: Texts) -> dict[str, Any]:
    """The NVML reader's first line, from the elements before the GPUs."""
    head = {"driver": _value(found, ("driver_version",), str), "cuda": _value(found, ("cuda_version",), str),
            "count": _value(found, ("attached_gpus",), _whole)}
    return {key: _unprinted(value) if "absent" in value else value for key, value in head.items()}
