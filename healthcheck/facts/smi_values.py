"""The readings of one GPU in nvidia-smi's XML log, in the NVML reader's format.

An element that is not there means one of two things. Where the driver is older than the reading, or the GPU's
generation has another one in its place, the GPU has no such reading: NVML has none there either (`_SINCE`,
`lacking`). Anywhere else it was not measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from healthcheck.facts.parsing import matched, whole
from healthcheck.facts.smi_fabric import FABRIC_READS, OF_C2C, PLATFORM
from healthcheck.facts.smi_words import (
    ON,
    Read,
    Reading,
    Texts,
    added,
    choice,
    either,
    in_unit,
    lacking,
    read_at,
    release_in,
    sum_at,
    value_at,
)
from healthcheck.model.probes import MIB
from inventory.text import clean

# The block of an instance of a divided GPU (MIG), which `smi` numbers: INSTANCE[1].
INSTANCE = "mig_devices/mig_device"
_WATTS, _LANES = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,3})?) W"), re.compile(r"([0-9]{1,20})x")
_ADDRESS = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
_YES = choice(yes=1, no=0, true=1, false=0)
# nvml.h's nvmlComputeMode_t
_MODE = choice(default="default", exclusive_thread="exclusive_thread", prohibited="prohibited",
               exclusive_process="exclusive_process")


def _signed(text: str) -> int:
    return -whole(text[1:]) if text.startswith("-") else whole(text)


def _milliwatts(text: str) -> int:
    return round(float(matched(_WATTS, text)[1]) * 1000)


def _width(text: str) -> int:
    return int(matched(_LANES, text)[1])


def pci_address(text: str) -> str:
    """NVIDIA's PCI address "00000000:1A:00.0" as the kernel writes it: 0000:1a:00.0."""
    match = matched(_ADDRESS, text)
    return f"{int(match[1], 16):04x}:{match[2].lower()}"


def _sram(block: str) -> Read:
    """Uncorrectable errors of SRAM: from driver 550 on Ampere and newer print parity and SEC-DED apart. GPUs
    before Turing do not tell them from those of the device's memory."""
    at = f"ecc_errors/{block}/"
    apart = sum_at(f"{at}sram_uncorrectable_parity", f"{at}sram_uncorrectable_secded")
    return lacking(either(read_at(whole, f"{at}sram_uncorrectable"), apart), f"{at}double_bit/total")


def _part(block: str, name: str) -> Read:
    """Errors of one kind of memory, which GPUs before Turing do not tell apart."""
    at = f"ecc_errors/{block}/"
    return lacking(read_at(whole, f"{at}{name}"), f"{at}double_bit/total")


def _ecc(block: str, kind: str, old: str) -> Read:
    """Totals of one kind: SRAM and DRAM together; GPUs before Turing print a total."""
    at = f"ecc_errors/{block}/"
    sram = _sram(block) if kind == "uncorrectable" else read_at(whole, f"{at}sram_{kind}")
    dram = read_at(whole, f"{at}dram_{kind}")
    total: Read = read_at(whole, f"{at}{old}/total")
    return lambda gpu: total(gpu) if f"{at}{old}/total" in gpu else added([sram(gpu), dram(gpu)])


_OF_INSTANCE = "/ecc_error_count/volatile_count/sram_uncorrectable"


def _with_instances(read: Read) -> Read:
    """Uncorrectable errors since the driver was loaded. A divided GPU (MIG) may count them by instance alone,
    and there without DRAM: then the instances' sum."""

    def found(gpu: Texts) -> Reading:
        value = read(gpu)
        if "na" not in value or value_at(gpu, ("mig_mode/current_mig",), ON) != {"ok": 1}:
            return value
        counted = [path for path in gpu if path.startswith(INSTANCE) and _OF_INSTANCE in path]
        instances = {path.partition("]")[0] for path in gpu if path.startswith(f"{INSTANCE}[")}
        if instances != {path.partition("]")[0] for path in counted}:
            return {"absent": f"{INSTANCE}{_OF_INSTANCE}"}
        return added([value_at(gpu, (path,), whole) for path in counted])

    return found


def _memory_used(gpu: Texts) -> Reading:
    """Before driver 510 nvidia-smi printed no reserved memory and counted it as used."""
    used = value_at(gpu, ("fb_memory_usage/used",), in_unit("MiB", MIB))
    if "ok" in used and "fb_memory_usage/reserved" not in gpu:
        return {"error": [-1, "it counts the driver's own memory as used"]}
    return used


_AVERAGE, _INSTANT = "gpu_power_readings/average_power_draw", "gpu_power_readings/instant_power_draw"


def _power(gpu: Texts) -> Reading:
    """The power draw: up to driver 565 one number; after that the average, or the instantaneous one where the
    GPU has no average (before Ampere, and A100)."""
    average, instant = value_at(gpu, (_AVERAGE,), _milliwatts), value_at(gpu, (_INSTANT,), _milliwatts)
    if "absent" in average and "absent" in instant:
        return value_at(gpu, ("gpu_power_readings/power_draw", "power_readings/power_draw"), _milliwatts)
    if "ok" in average or "error" in average:
        return average
    # One alone that says N/A says nothing of the other.
    return average if "na" in instant else instant


def note(gpu: Texts) -> str:
    """What a reading is that NVML would have given otherwise; "" where each is the same."""
    average = value_at(gpu, (_AVERAGE,), _milliwatts)
    instant = "ok" in value_at(gpu, (_INSTANT,), _milliwatts) and ("na" in average or "absent" in average)
    return "its power draw is the instantaneous one, as it has no average" if instant else ""


# nvml.h's nvmlClocksEventReason bits, by the last part of the element's name.
_REASONS = {
    "gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20, "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}
_ACTIVE = choice(active=1, not_active=0)


def _clock_reasons(gpu: Texts) -> Reading:
    """All reasons, which every driver prints: one that is missing may be the one that holds."""
    bits, known = 0, False
    for name, bit in _REASONS.items():
        found = value_at(gpu, tuple(f"clocks_{word}_reasons/clocks_{word}_reason_{name}"
                                  for word in ("event", "throttle")), _ACTIVE)
        if "error" in found or "absent" in found:
            return found
        if "ok" in found:
            known = True
            bits |= bit * int(found["ok"])
    return {"ok": bits} if known else {"na": True}


# Newer drivers call a reset of the GPU a function level reset (PF FLR), and a reboot of the node one of the
# operating system.
_KNOWN_RECOVERY = choice(
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
    found = value_at(gpu, ("gpu_recovery_action",), _recovery_word)
    if "absent" not in found:
        return found
    reset = value_at(gpu, ("gpu_reset_status/reset_required",), _YES)
    drain = value_at(gpu, ("gpu_reset_status/drain_and_reset_recommended",), _YES)
    if drain.get("ok"):
        return {"ok": "drain_and_reset"}
    if reset.get("ok"):
        return {"ok": "gpu_reset"}
    if "absent" in reset and "absent" in drain:
        return found
    return {"ok": "none"} if "ok" in reset and ("ok" in drain or "na" in drain) else (
        reset if "ok" not in reset else drain)


def _never(key: str) -> Read:
    """A reading that nvidia-smi -q does not print of any GPU."""
    return lambda gpu: {"absent": key}


_TEMPERATURE = in_unit("C", number=_signed)
_MHZ = in_unit("MHz")
_BANKS = in_unit("bank(s)")
_NS = in_unit("us", 1000)
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

# By the NVML reader's keys (`facts/gpureadings.py`, READINGS): where nvidia-smi prints the same.
_READS: Mapping[str, Read] = {
    "pci": read_at(pci_address, "pci/pci_bus_id", "@id"),
    "uuid": read_at(str, "uuid"),
    "serial": read_at(str, "serial"),
    "name": read_at(str, "product_name"),
    "architecture": read_at(lambda text: re.sub(r"[ -]+", "_", text.lower()).removesuffix("_lovelace"),
                            "product_architecture"),
    "minor": read_at(whole, "minor_number"),
    "part_number": read_at(str, "board_part_number"),
    "vbios": read_at(str, "vbios_version"),
    "inforom": read_at(str, "inforom_version/img_version"),
    "gsp_firmware": read_at(str, "gsp_firmware_version"),
    "recovery_action": _recovery,
    "persistence": read_at(ON, "persistence_mode"),
    "mig": read_at(ON, "mig_mode/current_mig"),
    "mig_pending": read_at(ON, "mig_mode/pending_mig"),
    "compute_mode": read_at(_MODE, "compute_mode"),
    "memory_bytes": read_at(in_unit("MiB", MIB), "fb_memory_usage/total"),
    "memory_used_bytes": _memory_used,
    "ecc_mode": read_at(ON, "ecc_mode/current_ecc"),
    "ecc_pending": read_at(ON, "ecc_mode/pending_ecc"),
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
    **{key: lacking(read_at(_YES, f"ecc_errors/{path}"), "ecc_errors/aggregate/sram_uncorrectable",
                     "ecc_errors/aggregate/double_bit/total")
       for key, path in (("sram_threshold_exceeded", "aggregate/sram_threshold_exceeded"),
                         ("channel_repair_pending", "channel_repair_pending"),
                         ("tpc_repair_pending", "tpc_repair_pending"))},
    "rows_corrected": read_at(whole, _ROWS + "remapped_row_corr"),
    "rows_uncorrected": read_at(whole, _ROWS + "remapped_row_unc"),
    "rows_corrected_inactive": read_at(whole, _ROWS + "remapped_row_corr_inactive"),
    "rows_uncorrected_inactive": read_at(whole, _ROWS + "remapped_row_unc_inactive"),
    "rows_pending": read_at(_YES, _ROWS + "remapped_row_pending"),
    "rows_failed": read_at(_YES, _ROWS + "remapped_row_failure"),
    **{f"banks_{name}": read_at(_BANKS, _HISTOGRAM + name)
       for name in ("max", "high", "partial", "low", "none")},
    "pages_retired_corrected": read_at(whole, "retired_pages/multiple_single_bit_retirement/retired_count"),
    "pages_retired_uncorrected": read_at(whole, "retired_pages/double_bit_retirement/retired_count"),
    "pages_pending": read_at(_YES, "retired_pages/pending_retirement"),
    "pcie_generation": read_at(whole, _LINK + "pcie_gen/current_link_gen"),
    "pcie_generation_max": read_at(whole, _LINK + "pcie_gen/max_link_gen"),
    "pcie_width": read_at(_width, _LINK + "link_widths/current_link_width"),
    "pcie_width_max": read_at(_width, _LINK + "link_widths/max_link_width"),
    "pcie_replays": read_at(whole, "pci/replay_counter"),
    "temperature_c": read_at(_TEMPERATURE, "temperature/gpu_temp"),
    "temperature_memory_c": read_at(_TEMPERATURE, "temperature/memory_temp"),
    **{key: lacking(read_at(_TEMPERATURE, f"temperature/gpu_temp_{name}"), f"temperature/gpu_temp_{instead}")
       for key, name, instead in _THRESHOLDS},
    "temperature_margin_c": read_at(_TEMPERATURE, "temperature/gpu_temp_tlimit"),
    "power_mw": _power,
    "power_limit_mw": read_at(
        _milliwatts, "gpu_power_readings/current_power_limit", "gpu_power_readings/enforced_power_limit",
        "power_readings/enforced_power_limit",
    ),
    "power_limit_default_mw": read_at(_milliwatts, "gpu_power_readings/default_power_limit",
                                  "power_readings/default_power_limit"),
    "clock_sm_mhz": read_at(_MHZ, "clocks/sm_clock"),
    "clock_sm_max_mhz": read_at(_MHZ, "max_clocks/sm_clock"),
    "clock_memory_mhz": read_at(_MHZ, "clocks/mem_clock"),
    "clock_memory_max_mhz": read_at(_MHZ, "max_clocks/mem_clock"),
    "clock_reasons": _clock_reasons,
    "slowdown_power_ns": read_at(_NS, _COUNTERS + "sw_power_cap"),
    "slowdown_hw_thermal_ns": read_at(_NS, _COUNTERS + "hw_therm_slowdown"),
    "slowdown_hw_power_brake_ns": read_at(_NS, _COUNTERS + "hw_power_brake"),
    "slowdown_sw_thermal_ns": read_at(_NS, _COUNTERS + "sw_therm_slowdown"),
    "utilization_percent": read_at(in_unit("%"), "utilization/gpu_util"),
    **FABRIC_READS,
    **{key: _never(key) for key in ("slowdown_thermal_ns", *_BANK_REMAPS)},
}
# Readings of NVML that nvidia-smi -q does not print, whether or not a GPU has them.
NOT_PRINTED = ("slowdown_thermal_ns", *_BANK_REMAPS, *OF_C2C)

# The release of the driver that brought a reading to NVML and to nvidia-smi. Older ones have it in neither:
# tests/healthcheck/facts/smidocs.py names the public logs of drivers 515 to 595 that show it.
_SINCE: Mapping[str, int] = {
    "gsp_firmware": 510, "recovery_action": 530,
    **dict.fromkeys(("fabric_state", "fabric_status", "fabric_clique", "fabric_cluster"), 525),
    "temperature_margin_c": 525, "fabric_health": 550,
    **dict.fromkeys(("chassis_serial", *PLATFORM), 570),
    "slowdown_hw_thermal_ns": 575, "slowdown_hw_power_brake_ns": 575, "slowdown_sw_thermal_ns": 575,
    "fabric_summary": 580, "channel_repair_pending": 580, "tpc_repair_pending": 580,
    "rows_corrected_inactive": 590, "rows_uncorrected_inactive": 590, **dict.fromkeys(_BANK_REMAPS, 610),
}
# Driver 530 is a branch that left before 525 got this.
_LEFT_OUT = frozenset({("temperature_margin_c", 530), ("temperature_margin_c", 531)})


def release_of(version: str) -> str:
    """The release of a driver's version: 580 of 580.65.06; "" where that is none."""
    found = re.match(r"([0-9]{3,4})\.[0-9]", version)
    return found[1] if found is not None else ""


def _unprinted(found: Reading) -> Reading:
    return {"error": [-1, f"it does not print {found['absent']}"]}


def _older(key: str, release: int | None) -> bool:
    """Whether a driver of this release has no such reading."""
    return release is not None and (
        (key in _SINCE and release < _SINCE[key]) or (key, release) in _LEFT_OUT)


def gpu_line(index: int, gpu: Texts) -> dict[str, Any]:
    """One GPU in the NVML reader's format, from the texts of its elements by their paths, and its `note` if
    there is one."""
    line: dict[str, Any] = {"index": index}
    if said := note(gpu):
        line["note"] = said
    for key, read in _READS.items():
        found = read(gpu)
        if "absent" in found:
            found = {"na": True} if _older(key, release_in(gpu)) else _unprinted(found)
        line[key] = found
    return line


def summary(found: Texts) -> dict[str, Any]:
    """The NVML reader's first line, from the elements before the GPUs."""
    head = {"driver": value_at(found, ("driver_version",), str),
            "cuda": value_at(found, ("cuda_version",), str),
            "count": value_at(found, ("attached_gpus",), whole)}
    return {key: _unprinted(value) if "absent" in value else value for key, value in head.items()}
