"""What is read of one GPU: the fact, and the NVML reader's key and type of each of its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from healthcheck.facts.nvml_output import Line, reading
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured


class Gpu(Fact):
    """One GPU that the driver lists. `answers` is False, with the driver's words in `trouble`, where it does
    not answer (`healthcheck.facts.gpu_answers`), and unmeasured where that is not known.

    nvml.h defines the readings; units are in the names, and readings without one are counts. `ecc_corrected`
    and `ecc_uncorrected` are the volatile totals (since the driver was loaded), `_lifetime` the aggregate
    ones (of the board's life); `sram_` and `dram_` are the parts of the same totals. Each bit of
    `clock_reasons` is an nvmlClocksEventReason; the `_ns` counters say for how long such a reason held since
    the driver was loaded. `fabric_state` and `recovery_action` are nvml.h's names in lower case (`completed`,
    `drain_and_reset`), `fabric_status` is an nvmlReturn_t, `fabric_summary` is healthy, unhealthy or
    limited_capacity. `memory_used_bytes` excludes what the driver reserves. `temperature_margin_c` is the
    GPU's T.Limit, 0 at the highest operating temperature and less beyond it; on the same scale each `tlimit_`
    is where a threshold lies, 0 or a few degrees below. `temperature_below_slowdown_c` is another scale, of a
    GPU that has a slowdown temperature instead. Of newer drivers, `_inactive` rows were remapped and no
    longer are, and `bank_remap_none` counts groups of banks without a spare one. `chassis_serial` to
    `module_id` are nvmlPlatformInfo_v2_t: a GPU that sits in no rack has no serial number, slot or tray.
    `c2c_crc_errors` and `c2c_replays` are sums over the GPU's links. `caveat` says where nvidia-smi replaced
    NVML.
    """

    IDENTITY = ("pci",)

    name: str
    index: int
    answers: bool
    trouble: str
    # what it is
    pci: str
    uuid: str
    serial: str
    model: str
    architecture: str
    minor: int
    part_number: str
    vbios: str
    inforom: str
    gsp_firmware: str
    # how it is set
    recovery_action: str
    persistence: bool
    mig: bool
    mig_pending: bool
    compute_mode: str
    # its memory
    memory_bytes: int
    memory_used_bytes: int
    ecc_enabled: bool
    ecc_pending: bool
    ecc_corrected: int
    ecc_uncorrected: int
    ecc_corrected_lifetime: int
    ecc_uncorrected_lifetime: int
    sram_corrected: int
    sram_uncorrected: int
    sram_corrected_lifetime: int
    sram_uncorrected_lifetime: int
    sram_threshold_exceeded: bool
    dram_corrected: int
    dram_uncorrected: int
    dram_corrected_lifetime: int
    dram_uncorrected_lifetime: int
    rows_corrected: int
    rows_uncorrected: int
    rows_pending: bool
    rows_failed: bool
    banks_max: int
    banks_high: int
    banks_partial: int
    banks_low: int
    banks_none: int
    rows_corrected_inactive: int
    rows_uncorrected_inactive: int
    banks_remapped: int
    bank_remap_none: int
    bank_remap_pending: bool
    channel_repair_pending: bool
    tpc_repair_pending: bool
    pages_retired_corrected: int
    pages_retired_uncorrected: int
    pages_pending: bool
    # its PCI Express link
    pcie_generation: int
    pcie_generation_max: int
    pcie_width: int
    pcie_width_max: int
    pcie_replays: int
    # heat, power, clocks
    temperature_c: int
    temperature_memory_c: int
    temperature_slowdown_c: int
    temperature_shutdown_c: int
    temperature_memory_max_c: int
    temperature_gpu_max_c: int
    temperature_margin_c: int
    tlimit_shutdown_c: int
    tlimit_slowdown_c: int
    tlimit_memory_max_c: int
    tlimit_gpu_max_c: int
    temperature_below_slowdown_c: int
    power_watts: float
    power_limit_watts: float
    power_limit_default_watts: float
    clock_sm_mhz: int
    clock_sm_max_mhz: int
    clock_memory_mhz: int
    clock_memory_max_mhz: int
    clock_reasons: int
    slowdown_power_ns: int
    slowdown_thermal_ns: int
    slowdown_hw_thermal_ns: int
    slowdown_hw_power_brake_ns: int
    slowdown_sw_thermal_ns: int
    utilization_percent: int
    # its place in an NVSwitch or multi-node NVLink fabric
    fabric_state: str
    fabric_status: int
    fabric_clique: int
    fabric_cluster: str
    fabric_health: int
    fabric_summary: str
    # its place in a rack
    chassis_serial: str
    slot_number: int
    tray_index: int
    host_id: int
    peer_type: str
    module_id: int
    # its links to a Grace CPU
    c2c_enabled: bool
    c2c_links: int
    c2c_links_active: int
    c2c_crc_errors: int
    c2c_replays: int
    caveat: str


# What the GPU's answers come to, and no single reading is.
_CONCLUDED = ("name", "index", "answers", "trouble", "temperature_below_slowdown_c", "caveat")
# The type that the reader sends for each type of a field, and a conversion if there is one.
_SENT: Mapping[str, tuple[type, Callable[[Any], Any] | None]] = {
    "str": (str, None), "int": (int, None), "bool": (int, bool),
}


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000


# By field of a Gpu: the reader's key, which mostly has the field's name, the type that it sends, and a
# conversion if there is one.
READINGS: Mapping[str, tuple[str, type, Callable[[Any], Any] | None]] = {
    **{field: (field, *_SENT[kind]) for field, kind in Gpu.FIELDS.items()
       if kind in _SENT and field not in _CONCLUDED},
    # nvml.h's state 0, and a mask without any part set, mean that the GPU has no fabric.
    "fabric_state": ("fabric_state", str, lambda value: UNSUPPORTED if value == "not_supported" else value),
    "fabric_health": ("fabric_health", int, lambda value: value or UNSUPPORTED),
    "model": ("name", str, None),
    "ecc_enabled": ("ecc_mode", int, bool),
    **{f"{name}_watts": (f"{name}_mw", int, _watts)
       for name in ("power", "power_limit", "power_limit_default")},
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


def gpu_fields(line: Line, held: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Every reading of a line by field of a Gpu; readings that the device lacks are UNSUPPORTED. `held` are
    what `readings_of` held of it."""
    if _NEWER.isdisjoint(line) and not _OLDER.isdisjoint(line):
        held = {**dict.fromkeys(_NEWER, UNSUPPORTED), **held}
    values = {}
    for field, (key, kind, convert) in READINGS.items():
        value = held.get(key)
        if type(value) is not kind and value is not UNSUPPORTED:
            value = reading(line, key, kind, source)
        if convert is bool and type(value) is int and value not in (0, 1):
            value = Unmeasured(f"{source}: {key} has the value {value}, expected 0 or 1")
        values[field] = convert(value) if convert and type(value) is kind else value
    return values
