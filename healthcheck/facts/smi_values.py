"""The readings of one GPU in nvidia-smi's XML log, in the NVML reader's format.

The elements and words are those of `nvidia-smi -q -x` (DTDs nvsmi_device_v11 to v13) and of nvidia-smi's
manual page. Where nvidia-smi has no value, it prints one of three things: the device has no such thing
("N/A", "[Not Supported]"), the value could not be read ("[Unknown Error]", "ERR!"), or the GPU is gone ("[GPU
is lost]"). They stay distinct here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from healthcheck.model.probes import MIB
from inventory.text import clean

# NVML's words for its statuses (nvmlErrorString) that nvidia-smi prints in place of a value.
NVML_WORDS: Mapping[str, int] = {
    "success": 0, "invalid argument": 2, "not supported": 3, "insufficient permissions": 4, "not found": 6,
    "insufficient size": 7,
    "insufficient external power": 8, "driver not loaded": 9, "timeout": 10, "gpu is lost": 15,
    "gpu requires reset": 16,
    "driver/library version mismatch": 18, "in use by another client": 19, "insufficient memory": 20,
    "no data": 21,
    "insufficient resources": 23, "requested functionality has been deprecated": 26, "not ready": 27,
    "invalid state": 29,
    "unknown error": 999, "err!": 999,
}
_NOTHING = ("n/a", "not supported", "not available", "")
_UNKNOWN = {"insufficient permissions", "timeout", "gpu is lost", "gpu requires reset",
            "in use by another client", "no data", "requested functionality has been deprecated", "not ready",
            "unknown error", "err!", "not found"}

Read = Callable[[Mapping[str, str]], dict[str, Any]]


def _value(gpu: Mapping[str, str], paths: tuple[str, ...], convert: Callable[[str], Any]) -> dict[str, Any]:
    """The value at the first of these paths that the log has, in the NVML reader's format."""
    for path in paths:
        found = gpu.get(path)
        if found is None:
            # "N/A" in place of a whole block.
            above = path
            while found is None and "/" in above:
                above = above.rpartition("/")[0]
                found = gpu[above] if _word(gpu.get(above, "?")) in ("n/a", "not supported") else None
        if found is not None:
            return _reading(found, convert, paths[0])
    return {"error": [-1, f"it does not print {paths[0]}"]}


def _word(text: str) -> str:
    return text.strip().strip("[]").strip().lower()


def _reading(text: str, convert: Callable[[str], Any], what: str) -> dict[str, Any]:
    word = _word(text)
    if word in _NOTHING:
        return {"na": True}
    if word in _UNKNOWN:
        return {"error": [NVML_WORDS[word], text.strip("[] ")]}
    try:
        return {"ok": convert(text.strip())}
    except (ValueError, KeyError, OverflowError):
        return {"error": [-1, f"{what} is {clean(text, 40)!r}, which is not in the documented format"]}


def _whole(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,20}", text):
        raise ValueError(text)
    return int(text)


def _unit(unit: str, factor: int = 1) -> Callable[[str], int]:
    def convert(text: str) -> int:
        number, _, word = text.partition(" ")
        if word.strip() != unit:
            raise ValueError(text)
        return _whole(number) * factor

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


def _lower(text: str) -> str:
    return re.sub(r"[ -]+", "_", text.lower())


def pci_address(text: str) -> str:
    """NVIDIA's PCI address "00000000:1A:00.0" as the kernel writes it: 0000:1a:00.0."""
    match = re.fullmatch(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])", text)
    if match is None:
        raise ValueError(text)
    return f"{int(match[1], 16):04x}:{match[2].lower()}"


def _added(values: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum of counters. Those that the device lacks count as nothing; without any, the sum is missing
    too."""
    broken = [value for value in values if "error" in value]
    known = [value["ok"] for value in values if "ok" in value]
    return broken[0] if broken else {"ok": sum(known)} if known else {"na": True}


def _sum(*parts: tuple[str, ...]) -> Read:
    """The sum of the counters at these paths."""

    def read(gpu: Mapping[str, str]) -> dict[str, Any]:
        return _added([_value(gpu, paths, _whole) for paths in parts])

    return read


def _either(first: Read, second: Read) -> Read:
    """The first, or the second where this nvidia-smi does not print the first."""

    def read(gpu: Mapping[str, str]) -> dict[str, Any]:
        value = first(gpu)
        return second(gpu) if value.get("error", [0])[0] == -1 else value

    return read


def _at(convert: Callable[[str], Any], *paths: str) -> Read:
    return lambda gpu: _value(gpu, paths, convert)


def _ecc(block: str, kind: str, old: str) -> Read:
    """Totals of one kind: SRAM and DRAM together; drivers before Turing print a total."""
    sram: Read = _at(_whole, f"ecc_errors/{block}/sram_{kind}")
    if kind == "uncorrectable":
        sram = _either(sram, _sum((f"ecc_errors/{block}/sram_uncorrectable_parity",),
                                  (f"ecc_errors/{block}/sram_uncorrectable_secded",)))

    def total(gpu: Mapping[str, str]) -> dict[str, Any]:
        return _added([sram(gpu), _value(gpu, (f"ecc_errors/{block}/dram_{kind}",), _whole)])

    return _either(total, _at(_whole, f"ecc_errors/{block}/{old}/total"))


def _memory_used(gpu: Mapping[str, str]) -> dict[str, Any]:
    """Before driver 510 nvidia-smi printed no reserved memory and counted it as used."""
    if "fb_memory_usage/reserved" not in gpu:
        return {"error": [-1, "it counts the driver's own memory as used"]}
    return _value(gpu, ("fb_memory_usage/used",), _unit("MiB", MIB))


# nvml.h's nvmlClocksEventReason bits, by the last part of the element's name.
_REASONS = {
    "gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20, "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}
_ACTIVE = _choice(active=1, not_active=0)


def _clock_reasons(gpu: Mapping[str, str]) -> dict[str, Any]:
    bits, known = 0, False
    for name, bit in _REASONS.items():
        found = _value(gpu, tuple(f"clocks_{word}_reasons/clocks_{word}_reason_{name}"
                                  for word in ("event", "throttle")), _ACTIVE)
        if found.get("error", [0])[0] == -1 and name.endswith("_clocks_setting"):
            continue    # not every version has them
        if "error" in found:
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


def _recovery(gpu: Mapping[str, str]) -> dict[str, Any]:
    """The recovery action; before driver 570 there were two flags instead."""
    found = _value(gpu, ("gpu_recovery_action",), _recovery_word)
    if "gpu_recovery_action" in gpu:
        return found
    reset = _value(gpu, ("gpu_reset_status/reset_required",), _YES)
    drain = _value(gpu, ("gpu_reset_status/drain_and_reset_recommended",), _YES)
    if drain.get("ok"):
        return {"ok": "drain_and_reset"}
    if reset.get("ok"):
        return {"ok": "gpu_reset"}
    return {"ok": "none"} if "ok" in reset and "ok" in drain else reset if "ok" not in reset else drain


def _fabric_status(gpu: Mapping[str, str]) -> dict[str, Any]:
    """The status of the GPU's fabric probe: here NVML's words are the value."""
    word = _word(gpu.get("fabric/status", ""))
    if "fabric/status" in gpu and word in NVML_WORDS:
        return {"ok": NVML_WORDS[word]}
    return _value(gpu, ("fabric/status",), lambda text: NVML_WORDS[text])


# Each part of the fabric's health: its element, its place in nvml.h's mask (NVML_GPU_FABRIC_HEALTH_MASK_*),
# and its words.
_FLAG = {"true": 1, "false": 2}
_HEALTH: tuple[tuple[str, int, Mapping[str, int]], ...] = (
    ("bandwidth", 0, {"degraded": 1, "full": 2}),
    ("route_recovery_in_progress", 2, _FLAG),
    ("route_unhealthy", 4, _FLAG),
    ("access_timeout_recovery", 6, _FLAG),
    ("incorrect_configuration", 8, {
        "none": 1, "incorrect systemguid": 2, "incorrect sysguid": 2, "incorrect chassis serial number": 3,
        "no partition": 4,
        "insufficient nvlinks": 5, "insufficient nvlink resources": 5, "incompatible gpu firmware": 6,
        "invalid location": 7,
        "gpu state invalid": 8,
    }),
    ("partition_assigned", 12, _FLAG),
)
HEALTH_PARTS = tuple(name for name, _, _ in _HEALTH)


def _lowered(words: Mapping[str, int]) -> Callable[[str], int]:
    return lambda text: words[text.lower()]


def _fabric_health(gpu: Mapping[str, str]) -> dict[str, Any]:
    """The mask that NVML would have returned. Parts that this version does not print are not supported."""
    if "fabric/health" not in gpu and "fabric" not in gpu:
        return {"error": [-1, "it does not print fabric/health"]}
    mask = 0
    for name, shift, words in _HEALTH:
        found = _value(gpu, (f"fabric/health/{name}",), _lowered(words))
        if "ok" in found:
            mask |= int(found["ok"]) << shift
        elif "error" in found and f"fabric/health/{name}" in gpu:
            return found
    return {"ok": mask} if mask else {"na": True}


_TEMPERATURE = _unit("C")
_MHZ = _unit("MHz")
_BANKS = _unit("bank(s)")
_NS = _unit("us", 1000)
_COUNTERS = "clocks_event_reasons_counters/clocks_event_reasons_counters_"
_ROWS = "remapped_rows/"
_HISTOGRAM = "remapped_rows/row_remapper_histogram/row_remapper_histogram_"
_LINK = "pci/pci_gpu_link_info/"

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
    "compute_mode": _at(_lower, "compute_mode"),
    "memory_bytes": _at(_unit("MiB", MIB), "fb_memory_usage/total"),
    "memory_used_bytes": _memory_used,
    "ecc_mode": _at(_ON, "ecc_mode/current_ecc"),
    "ecc_pending": _at(_ON, "ecc_mode/pending_ecc"),
    "ecc_corrected": _ecc("volatile", "correctable", "single_bit"),
    "ecc_uncorrected": _ecc("volatile", "uncorrectable", "double_bit"),
    "ecc_corrected_lifetime": _ecc("aggregate", "correctable", "single_bit"),
    "ecc_uncorrected_lifetime": _ecc("aggregate", "uncorrectable", "double_bit"),
    "sram_uncorrected_lifetime": _either(
        _at(_whole, "ecc_errors/aggregate/sram_uncorrectable"),
        _sum(("ecc_errors/aggregate/sram_uncorrectable_parity",),
             ("ecc_errors/aggregate/sram_uncorrectable_secded",)),
    ),
    "sram_threshold_exceeded": _at(_YES, "ecc_errors/aggregate/sram_threshold_exceeded"),
    "rows_corrected": _at(_whole, _ROWS + "remapped_row_corr"),
    "rows_uncorrected": _at(_whole, _ROWS + "remapped_row_unc"),
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
    "temperature_slowdown_c": _at(_TEMPERATURE, "temperature/gpu_temp_slow_threshold"),
    "temperature_shutdown_c": _at(_TEMPERATURE, "temperature/gpu_temp_max_threshold"),
    "temperature_memory_max_c": _at(_TEMPERATURE, "temperature/gpu_temp_max_mem_threshold"),
    "temperature_gpu_max_c": _at(_TEMPERATURE, "temperature/gpu_temp_max_gpu_threshold"),
    "temperature_margin_c": _at(_TEMPERATURE, "temperature/gpu_temp_tlimit"),
    "power_mw": _at(
        _milliwatts, "gpu_power_readings/power_draw", "gpu_power_readings/average_power_draw",
        "gpu_power_readings/instant_power_draw",
        "power_readings/power_draw",
    ),
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
    "fabric_state": _at(_lower, "fabric/state"),
    "fabric_status": _fabric_status,
    "fabric_clique": _at(_whole, "fabric/cliqueId"),
    "fabric_cluster": _at(str.lower, "fabric/clusterUuid"),
    "fabric_health": _fabric_health,
}
# Readings of NVML that nvidia-smi -q does not print.
NOT_PRINTED = ("slowdown_thermal_ns",)


def gpu_line(index: int, gpu: Mapping[str, str]) -> dict[str, Any]:
    """One GPU in the NVML reader's format, from the texts of its elements by their paths."""
    return {"index": index, **{key: read(gpu) for key, read in _READS.items()}}


def summary(found: Mapping[str, str]) -> dict[str, Any]:
    """The NVML reader's first line, from the elements before the GPUs."""
    return {
        "driver": _value(found, ("driver_version",), str),
        "cuda": _value(found, ("cuda_version",), str),
        "count": _value(found, ("attached_gpus",), _whole),
    }
