"""Documents of `nvidia-smi -q -x` as drivers 470 to 595 print them of GPUs from Pascal to Blackwell.

Written anew: which element stands in which release, and what it says on which GPU, is taken from public logs;
no log is copied. Where no log of a release is public, its elements are those that the releases before and
after it agree on, and the older form where they do not. DRIVERS and BOARDS name the sources. Repositories:

    telegraf   influxdata/telegraf, plugins/inputs/nvidia_smi/testdata
    test-infra NVIDIA/k8s-test-infra, tests/e2e/go/assertions/nvidiasmi/testdata/hardware (captures of real
    nodes) collector  logs of a GTX 1070 in the test TestParseGpuNvidia of a monitoring program in Go
    (530.30.02, 550.54.14)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class Driver:
    """A version of the driver: its document type, CUDA's version, and where its form is from."""

    version: str
    dtd: int
    cuda: str
    source: str

    @property
    def release(self) -> int:
        return int(self.version.partition(".")[0])


DRIVERS = (
    Driver("470.103.01", 11, "11.4",
           "text of nvidia-smi -a of an A100 (NVIDIA/CUDALibrarySamples #104); names as 515"),
    Driver("495.29.05", 11, "11.5", "as 470"),
    Driver("510.47.03", 11, "11.6", "as 515"),
    Driver("515.105.01", 11, "11.7", "telegraf: tesla-t4.xml, a10g.xml"),
    Driver("525.125.06", 12, "12.0", "telegraf: quadro-p2000-v12.xml, rtx-3090-v12.xml (525.147.05)"),
    Driver("530.30.02", 12, "12.1", "collector; influxdata/telegraf #12996 (531.41)"),
    Driver("535.54.03", 12, "12.2", "telegraf: a100-sxm4-v12.xml, rtx-3080-v12.xml (536.40)"),
    Driver("545.23.08", 12, "12.3", "as 535"),
    Driver("550.54.14", 12, "12.4", "collector"),
    Driver("555.42.06", 12, "12.5", "log of two L4 in a Go program; AstraExt/astra-monitor #131"),
    Driver("560.35.03", 12, "12.6", "as 555"),
    Driver("565.57.01", 12, "12.7", "as 555"),
    Driver("570.148.08", 12, "12.8", "test-infra: qx-a100.xml; telegraf: rtx-3060-v12.xml, #16569"),
    Driver("575.51.02", 12, "12.9", "log of an RTX 4070 in a README"),
    Driver("580.105.08", 13, "13.0", "test-infra: qx-b200.xml, qx-h100.xml"),
    Driver("580.173.02", 13, "13.0", "test-infra: qx-gb200.xml, qx-gb300.xml"),
    Driver("590.48.01", 13, "13.1", "as 595"),
    Driver("595.91.07", 13, "13.2", "test-infra: qx-l40s.xml, qx-t4.xml; telegraf: rtx-4000-sff-ada-v13.xml"),
)

# generations, as the log tells them apart; Hopper and Blackwell are as Ada
OLD, TURING, AMPERE, ADA = range(4)


@dataclass(frozen=True)
class Board:
    """A GPU: its generation, what it says in each element, and the numbers of a SKU that has it.

    A number of None is N/A. `margins`: T.Limit of shutdown, slowdown, memory and GPU, with `tlimit` itself
    now; `thresholds`: the same as temperatures.
    """

    name: str
    generation: int
    since: int
    source: str
    architecture: str
    mib: int
    watts: float
    limit: float
    until: int = 999
    celsius: int = 33
    memory_celsius: int | None = None
    thresholds: tuple[int | None, ...] = (96, 93, None, 85)
    margins: tuple[int | None, ...] = (-5, -2, None, 0)
    tlimit: int | None = None
    average: bool = True
    retires: bool = False
    remaps: bool = True
    banks: int = 640
    generation_pcie: int = 4
    width: int = 16
    clocks: tuple[int, int, int, int] = (1410, 1410, 1215, 1215)     # SM now and at most, memory likewise
    mig: str = "N/A"
    fabric: bool = False
    clique: tuple[int, str] = (0, "00000000-0000-0000-0000-000000000000")
    healthy: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    chassis: tuple[str, str, str, str, str] = ("N/A", "N/A", "N/A", "N/A", "N/A")
    module: int = 1
    c2c: str = "N/A"
    module_watts: float | None = None


_FULL = MappingProxyType({
    "summary": "Healthy", "bandwidth": "Full", "route_recovery_in_progress": "False",
    "route_unhealthy": "False",
    "access_timeout_recovery": "False", "incorrect_configuration": "None",
})

BOARDS = (
    Board("Tesla P40", OLD, 470,
          "collector and telegraf quadro-p2000-v12.xml: form of Pascal; V100 counts likewise", "Pascal",
          22919, 50.12, 250.0, until=580, thresholds=(95, 92, None, None), remaps=False, retires=True,
          average=False,
          generation_pcie=3, clocks=(544, 1531, 405, 3615)),
    Board("Tesla T4", TURING, 470, "test-infra qx-t4.xml, telegraf tesla-t4.xml", "Turing", 15360, 33.51,
          70.0, remaps=False,
          retires=True, average=False, generation_pcie=3, clocks=(1590, 1590, 5000, 5001)),
    Board("NVIDIA A10G", AMPERE, 470, "telegraf a10g.xml", "Ampere", 23028, 25.58, 300.0,
          thresholds=(98, 95, None, 88), banks=192,
          clocks=(210, 1710, 405, 6251)),
    Board("NVIDIA A100-SXM4-40GB", AMPERE, 470, "test-infra qx-a100.xml; its average is N/A", "Ampere",
          40960, 49.68, 400.0,
          celsius=33, memory_celsius=31, thresholds=(92, 89, 95, 85), average=False, mig="Disabled",
          clocks=(210, 1410, 1215, 1215)),
    Board("NVIDIA L4", ADA, 525, "log of two L4 with 555.42.06", "Ada Lovelace", 23034, 27.22, 72.0,
          celsius=45, tlimit=39,
          banks=96, clocks=(2040, 2040, 6250, 6251)),
    Board("NVIDIA L40S", ADA, 535, "test-infra qx-l40s.xml", "Ada Lovelace", 46068, 65.64, 350.0, tlimit=54,
          margins=(-7, -2, None, 0),
          banks=192, clocks=(2520, 2520, 9001, 9001)),
    Board("NVIDIA H100 80GB HBM3", ADA, 525, "test-infra qx-h100.xml; its fabric has no health", "Hopper",
          81559, 68.57, 700.0,
          celsius=29, memory_celsius=37, thresholds=(95, 92, 95, 87), margins=(-8, -2, 0, 0),
          tlimit=58, banks=2560,
          generation_pcie=5, clocks=(1980, 1980, 2619, 2619), mig="Disabled", fabric=True, module=2),
    Board("NVIDIA B200", ADA, 570,
          "test-infra qx-b200.xml; only one part of its fabric's health, and no chassis", "Blackwell",
          183359, 195.68, 1000.0, celsius=36, memory_celsius=34, margins=(-5, -3, 0, 0),
          tlimit=49, banks=3840,
          generation_pcie=5, clocks=(120, 1965, 3996, 3996), mig="Disabled", fabric=True,
          healthy=MappingProxyType({"access_timeout_recovery": "False"}),
          chassis=("", "0", "0", "1", "Direct Connected"), module=7,
          c2c="Disabled"),
    Board("NVIDIA GB300", ADA, 580, "test-infra qx-gb300.xml, qx-gb200.xml", "Blackwell", 284208, 180.36,
          1400.0, celsius=36,
          memory_celsius=39, margins=(-5, -3, 0, 0), tlimit=49, banks=5952, generation_pcie=6,
          clocks=(120, 2070, 3996, 3996), mig="Disabled", fabric=True,
          clique=(32766, "00000001-0000-0000-0000-000000000001"), healthy=_FULL,
          chassis=("1820000000001", "25", "15", "1", "Switch Connected"), module=2, c2c="Enabled",
          module_watts=2900.0),
)

# Elements by path, each with the conditions under which it stands: releases ("535-", "-534", "570-579") and
# features of the GPU (see `features`); and what it says, with the board's texts in braces.
ROWS = """
product_name {name}
510- product_architecture {architecture}
570- display_mode Requested functionality has been deprecated
-569 display_mode Enabled
persistence_mode Enabled
535- addressing_mode None
mig_mode/current_mig {mig}
mig_mode/pending_mig {mig}
mig_devices None
serial {serial}
uuid {uuid}
580- pdi N/A
minor_number {minor}
vbios_version 96.00.74.00.01
board_id 0x1800
525- board_part_number 692-2G520-0200-000
-569 gpu_module_id {module}
570- platformInfo/chassis_serial_number {chassis}
570- platformInfo/slot_number {slot}
570- platformInfo/tray_index {tray}
570- platformInfo/host_id {host}
570- platformInfo/peer_type {peer}
570- platformInfo/module_id {module}
570- platformInfo/gpu_fabric_guid N/A
inforom_version/img_version G520.0200.00.05
inforom_version/oem_object 2.1
550- c2c_mode {c2c}
530-569 gpu_reset_status/reset_required No
530-569 mig gpu_reset_status/drain_and_reset_recommended No
530-569 unmig gpu_reset_status/drain_and_reset_recommended N/A
570-579 gpu_reset_status/reset_required Requested functionality has been deprecated
570-579 gpu_reset_status/drain_and_reset_recommended Requested functionality has been deprecated
570- gpu_recovery_action None
510- gsp_firmware_version {version}
pci/pci_bus {bus}
pci/pci_bus_id {pci}
pci/pci_gpu_link_info/pcie_gen/max_link_gen {pcie}
pci/pci_gpu_link_info/pcie_gen/current_link_gen {pcie}
525- pci/pci_gpu_link_info/pcie_gen/max_host_link_gen N/A
pci/pci_gpu_link_info/link_widths/max_link_width {width}x
pci/pci_gpu_link_info/link_widths/current_link_width {width}x
pci/replay_counter 0
pci/replay_rollover_counter 0
pci/tx_util 0 KB/s
fan_speed N/A
performance_state P0
clocks_{reasons}_reasons/clocks_{reasons}_reason_gpu_idle Active
clocks_{reasons}_reasons/clocks_{reasons}_reason_applications_clocks_setting Not Active
clocks_{reasons}_reasons/clocks_{reasons}_reason_sw_power_cap Not Active
clocks_{reasons}_reasons/clocks_{reasons}_reason_hw_slowdown Not Active
clocks_{reasons}_reasons/clocks_{reasons}_reason_hw_thermal_slowdown Not Active
clocks_{reasons}_reasons/clocks_{reasons}_reason_hw_power_brake_slowdown Not Active
clocks_{reasons}_reasons/clocks_{reasons}_reason_sync_boost Not Active
clocks_{reasons}_reasons/clocks_{reasons}_reason_sw_thermal_slowdown Not Active
clocks_{reasons}_reasons/clocks_{reasons}_reason_display_clocks_setting Not Active
575- clocks_event_reasons_counters/clocks_event_reasons_counters_sw_power_cap 39595 us
575- clocks_event_reasons_counters/clocks_event_reasons_counters_sync_boost 0 us
575- clocks_event_reasons_counters/clocks_event_reasons_counters_sw_therm_slowdown 91 us
575- clocks_event_reasons_counters/clocks_event_reasons_counters_hw_therm_slowdown 7 us
575- clocks_event_reasons_counters/clocks_event_reasons_counters_hw_power_brake 5 us
fb_memory_usage/total {mib} MiB
510- fb_memory_usage/reserved 551 MiB
fb_memory_usage/used 3 MiB
bar1_memory_usage/total 131072 MiB
bar1_memory_usage/used 1 MiB
compute_mode Default
utilization/gpu_util 0 %
utilization/memory_util 17 %
575- dram_encryption_mode/current_dram_encryption N/A
ecc_mode/current_ecc Enabled
ecc_mode/pending_ecc Enabled
old ecc_errors/volatile/single_bit/device_memory 3
old ecc_errors/volatile/single_bit/total 3
old ecc_errors/volatile/double_bit/device_memory 0
old ecc_errors/volatile/double_bit/total 0
old ecc_errors/aggregate/single_bit/total 5
old ecc_errors/aggregate/double_bit/total 0
known ecc_errors/volatile/sram_correctable 1
combined ecc_errors/volatile/sram_uncorrectable 0
apart ecc_errors/volatile/sram_uncorrectable_parity 0
apart ecc_errors/volatile/sram_uncorrectable_secded 0
known ecc_errors/volatile/dram_correctable 2
known ecc_errors/volatile/dram_uncorrectable 0
known ecc_errors/aggregate/sram_correctable 1
combined ecc_errors/aggregate/sram_uncorrectable 0
apart ecc_errors/aggregate/sram_uncorrectable_parity 0
apart ecc_errors/aggregate/sram_uncorrectable_secded 0
known ecc_errors/aggregate/dram_correctable 4
known ecc_errors/aggregate/dram_uncorrectable 0
apart ecc_errors/aggregate/sram_threshold_exceeded No
apart ecc_errors/aggregate_uncorrectable_sram_sources/sram_l2 0
apart ecc_errors/aggregate_uncorrectable_sram_sources/sram_other 0
580- apart ecc_errors/channel_repair_pending No
580- apart ecc_errors/tpc_repair_pending No
590- apart ecc_errors/unrepairable_memory No
retired_pages/multiple_single_bit_retirement/retired_count {retired}
retired_pages/multiple_single_bit_retirement/retired_pagelist {nothing}
retired_pages/double_bit_retirement/retired_count {retired}
retired_pages/pending_blacklist {retiring}
retired_pages/pending_retirement {retiring}
unremapped remapped_rows N/A
remapped remapped_rows/remapped_row_corr 0
590- remapped remapped_rows/remapped_row_corr_inactive 0
remapped remapped_rows/remapped_row_unc 0
590- remapped remapped_rows/remapped_row_unc_inactive 0
remapped remapped_rows/remapped_row_pending No
remapped remapped_rows/remapped_row_failure No
remapped remapped_rows/row_remapper_histogram/row_remapper_histogram_max {banks} bank(s)
remapped remapped_rows/row_remapper_histogram/row_remapper_histogram_high 0 bank(s)
remapped remapped_rows/row_remapper_histogram/row_remapper_histogram_partial 0 bank(s)
remapped remapped_rows/row_remapper_histogram/row_remapper_histogram_low 0 bank(s)
remapped remapped_rows/row_remapper_histogram/row_remapper_histogram_none 0 bank(s)
temperature/gpu_temp {celsius}
525-529 temperature/gpu_temp_tlimit {tlimit}
535- temperature/gpu_temp_tlimit {tlimit}
heat temperature/gpu_temp_max_threshold {heat0}
heat temperature/gpu_temp_slow_threshold {heat1}
heat temperature/gpu_temp_max_gpu_threshold {heat3}
margins temperature/gpu_temp_max_tlimit_threshold {margin0}
margins temperature/gpu_temp_slow_tlimit_threshold {margin1}
margins temperature/gpu_temp_max_gpu_tlimit_threshold {margin3}
temperature/gpu_target_temperature N/A
temperature/memory_temp {memory}
heat temperature/gpu_temp_max_mem_threshold {heat2}
margins temperature/gpu_temp_max_mem_tlimit_threshold {margin2}
-534 power_readings/power_state P0
-534 power_readings/power_management Supported
-534 power_readings/power_draw {watts}
-534 power_readings/power_limit {more}
-534 power_readings/default_power_limit {limit}
-534 power_readings/enforced_power_limit {limit}
535-569 gpu_power_readings/power_draw {watts}
570- gpu_power_readings/average_power_draw {average}
570- gpu_power_readings/instant_power_draw {instant}
535- gpu_power_readings/current_power_limit {limit}
535- gpu_power_readings/requested_power_limit {more}
535- gpu_power_readings/default_power_limit {limit}
550-569 gpu_memory_power_readings/power_draw 9.99 W
570- gpu_memory_power_readings/average_power_draw 9.99 W
570- gpu_memory_power_readings/instant_power_draw 9.99 W
535-569 module_power_readings/power_draw 999.00 W
570- module_power_readings/average_power_draw 999.00 W
570- module_power_readings/instant_power_draw 999.00 W
535- module_power_readings/current_power_limit {modulewatts}
570- power_smoothing Insufficient Permissions
595- edpp_multiplier N/A
clocks/graphics_clock 7 MHz
clocks/sm_clock {sm} MHz
clocks/mem_clock {mem} MHz
-579 applications_clocks/graphics_clock 8 MHz
580- applications_clocks/graphics_clock Requested functionality has been deprecated
max_clocks/sm_clock {smmax} MHz
max_clocks/mem_clock {memmax} MHz
525- fabric/state {state}
525- fabric/status {status}
550- fabric/cliqueId {clique}
550- fabric/clusterUuid {cluster}
580- fabric/health/summary {summary}
550- fabric/health/bandwidth {bandwidth}
570- fabric/health/route_recovery_in_progress {route_recovery_in_progress}
570- fabric/health/route_unhealthy {route_unhealthy}
570- fabric/health/access_timeout_recovery {access_timeout_recovery}
580- fabric/health/incorrect_configuration {incorrect_configuration}
590- fabric/health/partition_assigned N/A
supported_clocks/supported_mem_clock/value 1215 MHz
processes {nothing}
"""


def features(board: Board, release: int) -> frozenset[str]:
    """What decides, beside the release, which elements stand in the log of this GPU."""
    apart = board.generation >= AMPERE and release >= 550
    known = board.generation > OLD
    return frozenset({
        "old" if not known else "apart" if apart else "combined", "known" if known else "",
        "margins" if board.generation >= ADA and release >= 550 else "heat",
        "remapped" if board.remaps else "unremapped", "mig" if board.mig != "N/A" else "unmig",
    })


def _degrees(value: int | None) -> str:
    return "N/A" if value is None else f"{value} C"


def _texts(board: Board, driver: Driver, index: int) -> dict[str, str]:
    watts, chassis = f"{board.watts:.2f} W", board.chassis
    parts = {part: board.healthy.get(part, "N/A") for part in _FULL}
    return {
        "name": board.name, "architecture": board.architecture, "mig": board.mig,
        "serial": f"16500000000{index:02d}",
        "uuid": f"GPU-000000{index:02d}-0000-0000-0000-000000000000", "minor": str(index),
        "module": str(board.module),
        "chassis": chassis[0], "slot": chassis[1], "tray": chassis[2], "host": chassis[3], "peer": chassis[4],
        "c2c": board.c2c,
        "version": driver.version, "bus": f"{index + 24:02X}", "pci": f"00000000:{index + 24:02X}:00.0",
        "pcie": str(board.generation_pcie), "width": str(board.width),
        "reasons": "event" if driver.release >= 535 else "throttle",
        "mib": str(board.mib), "retired": "0" if board.retires else "N/A",
        "retiring": "No" if board.retires else "N/A",
        "nothing": "", "banks": str(board.banks), "celsius": _degrees(board.celsius),
        "memory": _degrees(board.memory_celsius),
        "tlimit": _degrees(board.tlimit),
        **{f"heat{n}": _degrees(value) for n, value in enumerate(board.thresholds)},
        **{f"margin{n}": _degrees(value) for n, value in enumerate(board.margins)}, "watts": watts,
        "average": watts if board.average else "N/A", "instant": "1.23 W" if board.average else watts,
        "limit": f"{board.limit:.2f} W", "more": f"{2 * board.limit:.2f} W",
        "modulewatts": "N/A" if board.module_watts is None else f"{board.module_watts:.2f} W",
        "sm": str(board.clocks[0]), "smmax": str(board.clocks[1]), "mem": str(board.clocks[2]),
        "memmax": str(board.clocks[3]),
        "state": "Completed" if board.fabric else "N/A", "status": "Success" if board.fabric else "N/A",
        "clique": str(board.clique[0]) if board.fabric else "N/A",
        "cluster": board.clique[1] if board.fabric else "N/A", **parts,
    }


def _stands(words: Sequence[str], release: int, has: frozenset[str]) -> bool:
    for word in words:
        first, dash, last = word.partition("-")
        if dash and not int(first or 0) <= release <= int(last or 999):
            return False
        if not dash and word not in has:
            return False
    return True


def elements(board: Board, driver: Driver, index: int = 0) -> list[tuple[str, str]]:
    """Path and text of each element of this GPU's part of the log, in order."""
    texts, has = _texts(board, driver, index), features(board, driver.release)
    found = []
    for row in ROWS.strip().splitlines():
        words = row.split(" ")
        at = next(n for n, word in enumerate(words) if "/" in word or "_" in word
                  or word in ("serial", "uuid", "processes", "pdi"))
        if _stands(words[:at], driver.release, has):
            found.append((words[at].format(**texts), " ".join(words[at + 1:]).format(**texts)))
    return found


def printed(driver: Driver, gpus: Sequence[Sequence[tuple[str, str]]]) -> str:
    """The document of these GPUs, each of which is its elements."""
    body = "\n".join(f'\t<gpu id="{dict(gpu).get("pci/pci_bus_id", "")}">\n{_nested(gpu)}\n\t</gpu>'
                     for gpu in gpus)
    return (
        f'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v{driver.dtd}.dtd">\n'
        f'<nvidia_smi_log>\n'
        f"\t<timestamp>Fri Nov 27 00:00:00 2026</timestamp>\n"
        f"\t<driver_version>{driver.version}</driver_version>\n"
        f"\t<cuda_version>{driver.cuda}</cuda_version>\n\t<attached_gpus>{len(gpus)}</attached_gpus>\n"
        f"{body}\n\n</nvidia_smi_log>\n")


def _nested(gpu: Sequence[tuple[str, str]]) -> str:
    return "\n".join(_lines(gpu))


def _lines(gpu: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The elements in their blocks: a block is opened once for the elements that follow each other in it."""
    open_: list[str] = []
    for path, text in gpu:
        *blocks, name = path.split("/")
        while open_ != blocks[:len(open_)]:
            yield "\t" * (len(open_) + 1) + f"</{open_.pop()}>"
        for block in blocks[len(open_):]:
            open_.append(block)
            yield "\t" * (len(open_) + 1) + f"<{block}>"
        yield "\t" * (len(open_) + 2) + f"<{name}>{text}</{name}>"
    while open_:
        yield "\t" * (len(open_) + 1) + f"</{open_.pop()}>"


def documents() -> dict[str, tuple[Driver, Board]]:
    """Every pair of a driver and a GPU that it knows, by a name for the test."""
    return {f"{driver.version}-{board.name.replace(' ', '-')}": (driver, board) for driver in DRIVERS
            for board in BOARDS
            if board.since <= driver.release <= board.until}


def document(driver: Driver, board: Board, gpus: int = 1) -> str:
    """The log of a node with so many of this GPU."""
    return printed(driver, [elements(board, driver, index) for index in range(gpus)])
