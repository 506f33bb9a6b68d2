"""Converts the text of `nvidia-smi -q` into the XML log of `-q -x`, as far as rules use it.

The text has the same readings under other names, in indented blocks. Names: nvidia-smi's manual page, and
published output of drivers 510 to 595.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from xml.sax.saxutils import escape, quoteattr

from healthcheck.facts.limits import SMI_GPUS
from healthcheck.facts.smi_fabric import HEALTH_PARTS

BANNER = "==============NVSMI LOG=============="
_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
_LINE = re.compile(r"( *)(\S[^:]{0,60}?) *(?:: (.{0,200}))?$")
_MOST_LINES = 400_000

_HEAD: Mapping[str, str] = MappingProxyType({
    "driver version": "driver_version", "cuda version": "cuda_version", "attached gpus": "attached_gpus",
})
# The element's path by the text's lower-case name.
_PATHS: Mapping[str, str] = MappingProxyType({
    "product name": "product_name", "product architecture": "product_architecture",
    "persistence mode": "persistence_mode", "mig mode/current": "mig_mode/current_mig",
    "mig mode/pending": "mig_mode/pending_mig", "serial number": "serial", "gpu uuid": "uuid",
    "minor number": "minor_number", "vbios version": "vbios_version",
    "board part number": "board_part_number", "inforom version/image version": "inforom_version/img_version",
    "gsp firmware version": "gsp_firmware_version",
    "gpu reset status/reset required": "gpu_reset_status/reset_required",
    "gpu reset status/drain and reset recommended": "gpu_reset_status/drain_and_reset_recommended",
    "gpu recovery action": "gpu_recovery_action", "pci/bus id": "pci/pci_bus_id",
    "pci/gpu link info/pcie generation/max": "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
    "pci/gpu link info/pcie generation/current": "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
    "pci/gpu link info/link width/max": "pci/pci_gpu_link_info/link_widths/max_link_width",
    "pci/gpu link info/link width/current": "pci/pci_gpu_link_info/link_widths/current_link_width",
    "pci/replays since reset": "pci/replay_counter", "fb memory usage/total": "fb_memory_usage/total",
    "fb memory usage/reserved": "fb_memory_usage/reserved", "fb memory usage/used": "fb_memory_usage/used",
    "compute mode": "compute_mode", "ecc mode/current": "ecc_mode/current_ecc",
    "ecc mode/pending": "ecc_mode/pending_ecc", **{f"ecc errors/{block}/{said}": f"ecc_errors/{block}/{name}"
                                                   for block in ("volatile", "aggregate") for said, name in (
                                                       ("sram correctable", "sram_correctable"),
                                                       ("sram uncorrectable", "sram_uncorrectable"),
                                                       ("sram uncorrectable parity",
                                                        "sram_uncorrectable_parity"),
                                                       ("sram uncorrectable sec-ded",
                                                        "sram_uncorrectable_secded"),
                                                       ("dram correctable", "dram_correctable"),
                                                       ("dram uncorrectable", "dram_uncorrectable"),
                                                       ("sram threshold exceeded", "sram_threshold_exceeded"),
                                                   )},
    "retired pages/single bit ecc": "retired_pages/multiple_single_bit_retirement/retired_count",
    "retired pages/double bit ecc": "retired_pages/double_bit_retirement/retired_count",
    "retired pages/pending page blacklist": "retired_pages/pending_retirement",
    "remapped rows": "remapped_rows", "remapped rows/correctable error": "remapped_rows/remapped_row_corr",
    "remapped rows/uncorrectable error": "remapped_rows/remapped_row_unc",
    "remapped rows/pending": "remapped_rows/remapped_row_pending",
    "remapped rows/remapping failure occurred": "remapped_rows/remapped_row_failure",
    **{f"remapped rows/bank remap availability histogram/{name}":
       f"remapped_rows/row_remapper_histogram/row_remapper_histogram_{name}"
       for name in ("max", "high", "partial", "low", "none")},
    "temperature/gpu current temp": "temperature/gpu_temp",
    "temperature/memory current temp": "temperature/memory_temp",
    "temperature/gpu t.limit temp": "temperature/gpu_temp_tlimit",
    "temperature/gpu slowdown temp": "temperature/gpu_temp_slow_threshold",
    "temperature/gpu shutdown temp": "temperature/gpu_temp_max_threshold",
    "temperature/gpu max operating temp": "temperature/gpu_temp_max_gpu_threshold",
    "temperature/memory max operating temp": "temperature/gpu_temp_max_mem_threshold",
    "temperature/gpu slowdown t.limit temp": "temperature/gpu_temp_slow_tlimit_threshold",
    "temperature/gpu shutdown t.limit temp": "temperature/gpu_temp_max_tlimit_threshold",
    "temperature/gpu max operating t.limit temp": "temperature/gpu_temp_max_gpu_tlimit_threshold",
    "temperature/memory max operating t.limit temp": "temperature/gpu_temp_max_mem_tlimit_threshold",
    "gpu power readings/power draw": "gpu_power_readings/power_draw",
    "gpu power readings/average power draw": "gpu_power_readings/average_power_draw",
    "gpu power readings/instantaneous power draw": "gpu_power_readings/instant_power_draw",
    "gpu power readings/current power limit": "gpu_power_readings/current_power_limit",
    "gpu power readings/default power limit": "gpu_power_readings/default_power_limit",
    "power readings/power draw": "gpu_power_readings/power_draw",
    "power readings/enforced power limit": "gpu_power_readings/enforced_power_limit",
    "power readings/default power limit": "gpu_power_readings/default_power_limit",
    "clocks/sm": "clocks/sm_clock", "max clocks/sm": "max_clocks/sm_clock",
    "clocks/memory": "clocks/mem_clock", "max clocks/memory": "max_clocks/mem_clock",
    **{f"clocks {word} reasons/{said}": f"clocks_event_reasons/clocks_event_reason_{name}"
       for word in ("event", "throttle") for said, name in (
           ("idle", "gpu_idle"), ("applications clocks setting", "applications_clocks_setting"),
           ("sw power cap", "sw_power_cap"), ("hw slowdown", "hw_slowdown"),
           ("hw slowdown/hw thermal slowdown", "hw_thermal_slowdown"),
           ("hw slowdown/hw power brake slowdown", "hw_power_brake_slowdown"), ("sync boost", "sync_boost"),
           ("sw thermal slowdown", "sw_thermal_slowdown"),
           ("display clock setting", "display_clocks_setting"))},
    **{f"clocks event reasons counters/{said}":
       f"clocks_event_reasons_counters/clocks_event_reasons_counters_{name}" for said, name in (
           ("sw power capping", "sw_power_cap"), ("sw thermal slowdown", "sw_therm_slowdown"),
           ("hw thermal slowdown", "hw_therm_slowdown"), ("hw power braking", "hw_power_brake"))},
    "fabric/state": "fabric/state", "fabric/status": "fabric/status", "fabric/cliqueid": "fabric/cliqueId",
    "fabric/clusteruuid": "fabric/clusterUuid",
    **{f"fabric/health/{part.replace('_', ' ')}": f"fabric/health/{part}"
       for part in ("summary", *HEALTH_PARTS)},
    **{f"platform info/{said}": f"platformInfo/{name}" for said, name in (
        ("chassis serial number", "chassis_serial_number"), ("slot number", "slot_number"),
        ("tray index", "tray_index"), ("host id", "host_id"), ("peer type", "peer_type"),
        ("module id", "module_id"))},
    "gpu c2c mode": "c2c_mode", "ecc errors/channel repair pending": "ecc_errors/channel_repair_pending",
    "ecc errors/tpc repair pending": "ecc_errors/tpc_repair_pending",
})


def log(text: str, start: int = 0) -> str:
    """The first log after `start`, up to the end of its section; empty if there is none."""
    at = text.find(BANNER, start)
    if at < 0:
        return ""
    end = text.find("\n____________________", at)
    again = text.find(BANNER, at + len(BANNER))
    return text[at:min((place for place in (end, again) if place >= 0), default=len(text))]


def as_xml(text: str) -> str:
    """The log in the format of `nvidia-smi -q -x`; without values that no rule uses."""
    head: dict[str, list[str]] = {}
    gpus: list[tuple[str, dict[str, list[str]]]] = []
    for path, value in _readings(text):
        if path == "":
            if len(gpus) == SMI_GPUS:
                break
            gpus.append((value, {}))
        elif not gpus and path in _HEAD:
            head.setdefault(_HEAD[path], []).append(value)
        elif gpus and path in _PATHS:
            gpus[-1][1].setdefault(_PATHS[path], []).append(value)
    made = list(_elements(head))
    for address, values in gpus:
        made += [f"<gpu id={quoteattr(address)}>", *_elements(values), "</gpu>"]
    return "<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n" + "\n".join(made) + "\n</nvidia_smi_log>\n"


def _readings(text: str) -> Iterator[tuple[str, str]]:
    """Path and value of each line; an empty path begins the GPU of that address."""
    above: list[tuple[int, str]] = []
    for row in text.split("\n", _MOST_LINES)[:_MOST_LINES]:
        begins = _GPU.match(row)
        if begins is not None:
            above = []
            yield "", begins[1]
            continue
        match = _LINE.match(row[:400])
        if match is None:
            continue
        indent, name = len(match[1]), match[2].lower()
        while above and above[-1][0] >= indent:
            above.pop()
        path = "/".join([*(part for _, part in above[-6:]), name])
        above.append((indent, name))
        if match[3] is not None:
            yield path, match[3].strip()


def _elements(values: Mapping[str, list[str]]) -> Iterator[str]:
    """The elements in their blocks, each opened once; an element that the text has twice is there twice."""
    blocks: dict[str, dict[str, list[str]]] = {}
    for path, found in values.items():
        name, _, rest = path.partition("/")
        if rest:
            blocks.setdefault(name, {})[rest] = found
        else:
            yield from (f"<{name}>{escape(value)}</{name}>" for value in found)
    for name, inside in blocks.items():
        yield f"<{name}>"
        yield from _elements(inside)
        yield f"</{name}>"
