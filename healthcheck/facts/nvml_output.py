"""The NVML reader's output (healthcheck.collector.onnode.nvml): a first line for the node, and one for each
GPU with its readings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from healthcheck.facts.values import UNSUPPORTED, Unmeasured, Unread

Line = Mapping[str, Any]


class NvmlAnswer(NamedTuple):
    """The reader's lines: the first, and one for each GPU."""

    head: Line
    gpus: Sequence[Line]


def read(text: str) -> NvmlAnswer:
    """The reader's lines, without those that do not say which GPU they are of: a GPU that is missing then.
    Raises Unread where they are not in our format, ValueError for text that is not JSON."""
    lines = [json.loads(line) for line in text.splitlines()]
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise Unread("the NVML reader's answer is empty or not in our format")
    gpus = [line for line in lines[1:] if type(line.get("index")) is int]
    twice = [index for index, count in Counter(map(index_of, gpus)).items() if count > 1]
    if twice:
        raise Unread(f"the NVML reader's answer holds GPU {str(twice[0])[:20]} twice")
    return NvmlAnswer(lines[0], gpus)


def reading(document: Line, key: str, kind: type, source: str = "NVML") -> Any:
    """One reading of the NVML reader: {"ok": value}, {"na": true} or {"error": [code, message]}."""
    value = document.get(key)
    if not isinstance(value, dict):
        return Unmeasured(f"{source}: {key} was not read")
    if value.get("na") is True:
        return UNSUPPORTED
    if "ok" in value and type(value["ok"]) is kind:
        return value["ok"]
    error = error_of(value)
    if error is not None:
        code, words = error
        index = document.get("index")
        return Unmeasured(f"{source}: {key}: {words} (error {code})",
                          asked=asked(code, index) if type(index) is int else ())
    return Unmeasured(f"{source}: {key} has the value {str(value.get('ok'))[:40]!r}, expected "
                      f"{kind.__name__}")


# nvmlReturn_t (nvml.h) that say nothing of a GPU: the call was not allowed to us (4; 17: blocked by the
# operating system or a cgroup), was made wrongly, or by a library that lacks it or does not fit (1, 2, 5, 7,
# 12, 13, 25, 26), our process had no memory (20), or the reader itself failed (-1).
OUR_OWN = frozenset((-1, 1, 2, 4, 5, 7, 12, 13, 17, 20, 25, 26))


def error_of(value: Any) -> tuple[int, str] | None:
    """NVML's number and words in a reading or a GPU's line that holds an error."""
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, list) and len(error) == 2 and type(error[0]) is int:
        return error[0], str(error[1])[:100]
    return None


DRIVER = "driver"       # the name of the driver's fact


def asked(code: int, *indexes: int) -> tuple[str, ...]:
    """Who was asked and answered with this error, as `Unmeasured` has them: one of these GPUs, or the driver
    where no GPU answers. No one where the error is our own."""
    return () if code in OUR_OWN else (*[f"GPU {index}" for index in indexes], DRIVER)


# By field of a Gpu: the reader's key, the type that it sends, and a conversion if there is one.
READINGS: Mapping[str, tuple[str, type, Callable[[Any], Any] | None]] = {
    **{name: (name, str, None) for name in (
        "pci", "uuid", "serial", "architecture", "part_number", "vbios", "inforom", "gsp_firmware",
        "recovery_action", "compute_mode",
        "fabric_cluster", "fabric_summary", "chassis_serial", "peer_type",
    )},
    # nvml.h's state 0, and a mask without any part set, mean that the GPU has no fabric.
    "fabric_state": ("fabric_state", str, lambda value: UNSUPPORTED if value == "not_supported" else value),
    "fabric_health": ("fabric_health", int, lambda value: value or UNSUPPORTED),
    "model": ("name", str, None),
    **{name: (name, int, None) for name in (
        "minor", "memory_bytes", "memory_used_bytes", "ecc_corrected", "ecc_uncorrected",
        "ecc_corrected_lifetime",
        "ecc_uncorrected_lifetime", "sram_corrected", "sram_uncorrected", "sram_corrected_lifetime",
        "sram_uncorrected_lifetime", "dram_corrected", "dram_uncorrected", "dram_corrected_lifetime",
        "dram_uncorrected_lifetime", "rows_corrected", "rows_uncorrected", "rows_corrected_inactive",
        "rows_uncorrected_inactive", "banks_remapped", "bank_remap_none",
        "banks_max", "banks_high",
        "banks_partial", "banks_low", "banks_none", "pages_retired_corrected", "pages_retired_uncorrected",
        "pcie_generation",
        "pcie_generation_max", "pcie_width", "pcie_width_max", "pcie_replays", "temperature_c",
        "temperature_memory_c",
        "temperature_slowdown_c", "temperature_shutdown_c", "temperature_memory_max_c",
        "temperature_gpu_max_c", "temperature_margin_c", "tlimit_shutdown_c", "tlimit_slowdown_c",
        "tlimit_memory_max_c", "tlimit_gpu_max_c",
        "clock_sm_mhz", "clock_sm_max_mhz", "clock_memory_mhz", "clock_memory_max_mhz", "clock_reasons",
        "slowdown_power_ns",
        "slowdown_thermal_ns", "slowdown_hw_thermal_ns", "slowdown_hw_power_brake_ns",
        "slowdown_sw_thermal_ns", "utilization_percent",
        "fabric_status", "fabric_clique", "slot_number", "tray_index", "host_id", "module_id",
        "c2c_links", "c2c_links_active", "c2c_crc_errors", "c2c_replays",
    )},
    "ecc_enabled": ("ecc_mode", int, bool),
    **{name: (name, int, bool) for name in (
        "persistence", "mig", "mig_pending", "ecc_pending", "sram_threshold_exceeded", "rows_pending",
        "rows_failed", "pages_pending", "channel_repair_pending", "tpc_repair_pending", "bank_remap_pending",
        "c2c_enabled",
    )},
    "power_watts": ("power_mw", int, lambda value: value / 1000),
    "power_limit_watts": ("power_limit_mw", int, lambda value: value / 1000),
    "power_limit_default_watts": ("power_limit_default_mw", int, lambda value: value / 1000),
}


# What older readers did not ask for. A recording of theirs has none of it, and is judged as it was then.
_NEWER = frozenset((
    "fabric_summary", "chassis_serial", "slot_number", "tray_index", "host_id", "peer_type", "module_id",
    "sram_corrected", "sram_uncorrected", "sram_corrected_lifetime", "dram_corrected", "dram_uncorrected",
    "dram_corrected_lifetime", "dram_uncorrected_lifetime", "rows_corrected_inactive",
    "rows_uncorrected_inactive", "banks_remapped", "bank_remap_none", "bank_remap_pending",
    "channel_repair_pending", "tpc_repair_pending", "tlimit_shutdown_c", "tlimit_slowdown_c",
    "tlimit_memory_max_c", "tlimit_gpu_max_c", "c2c_enabled", "c2c_links", "c2c_links_active",
    "c2c_crc_errors", "c2c_replays",
))
# What any reader asked for: a line with none of it is of no reader, and nothing was read.
_OLDER = frozenset(key for key, _, _ in READINGS.values()) - _NEWER


def gpu_fields(line: Line, source: str) -> dict[str, Any]:
    """Every reading of a line by field of a Gpu; readings that the device lacks are UNSUPPORTED."""
    values = {}
    if _NEWER.isdisjoint(line) and not _OLDER.isdisjoint(line):
        line = {**{key: {"na": True} for key in _NEWER}, **line}
    for field, (key, kind, convert) in READINGS.items():
        answer = line.get(key)
        # The fast path: nearly all are measured.
        if type(answer) is dict and len(answer) == 1 and type(value := answer.get("ok")) is kind:
            values[field] = convert(value) if convert else value
        else:
            values[field] = _field(line, key, kind, convert, source)
    return values


def _field(line: Line, key: str, kind: type, convert: Callable[[Any], Any] | None, source: str) -> Any:
    value = reading(line, key, kind, source)
    return convert(value) if convert and type(value) is kind else value


def index_of(line: Line) -> int:
    """The GPU's number in NVML's order."""
    index = line.get("index")
    if type(index) is not int:
        raise Unread("the NVML reader's answer holds a GPU without an index")
    return index


def handle_error(line: Line, source: str = "NVML") -> Unmeasured | None:
    """Why nothing was read of this GPU, if NVML gave no handle of it."""
    error = error_of(line)
    if error is None:
        return None
    code = "" if error[0] == -1 else f" (error {error[0]})"     # ours, as a limit, has no number
    silent = error[0] == -1 and error[1].startswith(("no answer within ", "wedged since "))
    index = line.get("index")
    by = (f"GPU {index}", DRIVER) if silent else asked(error[0], *([index] if type(index) is int else []))
    return Unmeasured(f"{source}: {error[1]}{code}", asked=by)
