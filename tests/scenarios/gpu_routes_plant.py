"""Plants what a GPU says, by either way to read it: NVML, as values of the simulated library
(provisioning/demo/nvml.c), and nvidia-smi, as elements of its log. What rules make of it is in
gpu_routes_expect.py, which knows nothing of this.

Each of the three tables has one entry for a critical rule: FAULTY has what the rule is there to find, SOUND
what a healthy H100 does not say of itself and the rule must let pass, UNREAD what keeps the rule from
judging.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LOST_WORD = "GPU is lost"
# In place of every element's text.
ALL = "*"


@dataclass(frozen=True)
class Says:
    """One GPU: by NVML values under its "gpu.N.", with those of the whole node apart; by nvidia-smi texts by
    their paths, with those of `every` GPU and how the tool ends apart. `services` are those of systemd,
    beside both."""

    nvml: Mapping[str, str] = field(default_factory=dict)
    smi: Mapping[str, str] = field(default_factory=dict)
    node: Mapping[str, str] = field(default_factory=dict)
    head: Mapping[str, str] = field(default_factory=dict)
    every: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 8
    ends: tuple[int, str] | None = None         # nvidia-smi's exit status and what it prints instead of a log
    services: Mapping[str, str] = field(default_factory=dict)

    @property
    def alone(self) -> bool:
        """Whether it cannot share a node with others of these."""
        return bool(self.node or self.head or self.ends or self.services or self.gpus != 8
                    or "error" in self.nvml)


# not installed: then it may run in a driver's container, and the GPUs show whether it works
_DOWN = {"fabricmanager": ""}

_FIFTH = ("malformed_packets", "buffer_overruns", "rx_errors", "local_integrity_errors",
          "link_recovery_failed", "link_recovery_events",
          "effective_errors", "effective_ber", "symbol_errors", "symbol_ber")
_NVLINK5 = Says({"architecture": "10", **{f"nvlink.*.{name}": "0" for name in _FIFTH}})

NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
_CLUSTER = "5c1e9f04-0b3a-4d1c-9a55-1d2e3f405162"
_IN_CLUSTER: Mapping[str, Mapping[str, str]] = {"node": {"gpu.*.fabric.cluster": _CLUSTER},
                                                "every": {"fabric/clusterUuid": _CLUSTER}}

FAULTY: Mapping[str, Says] = {
    "gpu-count": Says(node={"gpu.count": "7"}, gpus=7),
    "gpu-listed": Says(node={"gpu.count": "7"}, gpus=7),
    "nvlink-fabric-cluster": Says({"fabric.cluster": NO_CLUSTER}, {"fabric/clusterUuid": NO_CLUSTER},
                                  **_IN_CLUSTER),
    "gpu-answers": Says({"error": "15"}, {"temperature/gpu_temp": LOST_WORD}),
    "gpu-recovery-action": Says({"field.230": "1"}, {"gpu_recovery_action": "Reset"}),
    "gpu-memory-size": Says({"memory.total": "42949672960"}, {"fb_memory_usage/total": "40960 MiB"}),
    "gpu-ecc-enabled": Says({"ecc.mode": "0"}, {"ecc_mode/current_ecc": "Disabled"}),
    "gpu-ecc-uncorrected": Says({"ecc.volatile.uncorrected": "3"},
                                {"ecc_errors/volatile/dram_uncorrectable": "3"}),
    "gpu-sram-threshold": Says({"ecc.sram.threshold_exceeded": "1"},
                               {"ecc_errors/aggregate/sram_threshold_exceeded": "Yes"}),
    "gpu-row-remap-failed": Says({"rows.failed": "1"}, {"remapped_rows/remapped_row_failure": "Yes"}),
    "gpu-pages-retired": Says(
        {"pages.retired.corrected": "40", "pages.retired.uncorrected": "23"},
        {"retired_pages/multiple_single_bit_retirement/retired_count": "40",
         "retired_pages/double_bit_retirement/retired_count": "23"}),
    "gpu-pcie-generation": Says(
        {"pcie.generation": "4", "pcie.generation.max": "4"},
        {"pci/pci_gpu_link_info/pcie_gen/max_link_gen": "4"}),
    "gpu-pcie-width": Says({"pcie.width": "8"},
                           {"pci/pci_gpu_link_info/link_widths/current_link_width": "8x"}),
    "gpu-slowdown-hw": Says(
        {"clocks.reasons": "0x8", "clocks.current.1": "900"},
        {"clocks_event_reasons/clocks_event_reason_gpu_idle": "Not Active",
         "clocks_event_reasons/clocks_event_reason_hw_slowdown": "Active",
         "clocks/sm_clock": "900 MHz"}),
    "gpu-slowdown-thermal": Says(
        {"clocks.reasons": "0x48"},
        {"clocks_event_reasons/clocks_event_reason_hw_thermal_slowdown": "Active"}),
    "gpu-power-brake": Says(
        {"clocks.reasons": "0x88"},
        {"clocks_event_reasons/clocks_event_reason_hw_power_brake_slowdown": "Active"}),
    "gpu-idle": Says({"processes": "4711:1048576"}),
    "sku-matches": Says({"name": "NVIDIA A100-SXM4-80GB"}, {"product_name": "NVIDIA A100-SXM4-80GB"}),
    "nvlink-count": Says({"nvlink.count": "12"}),
    "nvlink-active": Says({"nvlink.7.state": "0"}),
    "nvlink-speed": Says({"nvlink.7.speed": "13281"}),
    "nvlink-errors": Says({"nvlink.4.crc_flit": "120000"}),
    "nvlink-crc-data": Says({"nvlink.4.crc_data": "120000"}),
    "nvlink5-errors": Says({**_NVLINK5.nvml, "nvlink.4.rx_errors": "120000"}),
    # NVML's number of it: mantissa in the low byte, exponent above (nvml.h,
    # NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER).
    "nvlink5-ber": Says({**_NVLINK5.nvml, "nvlink.4.effective_ber": "0x906"}),
    "nvlink-p2p": Says({"p2p.0.nvlink": "2"}),
    "nvlink-fabric-state": Says({"fabric.state": "2"}, {"fabric/state": "In Progress"}),
    "nvlink-fabric-health": Says({"fabric.health": "0x19A"}, {"fabric/health/route_unhealthy": "True"}),
    "nvlink-fabric-summary": Says({"fabric.summary": "3"}, {"fabric/health/summary": "Limited Capacity"}),
    "nvlink-fabric-clique": Says({"fabric.clique": "7"}, {"fabric/cliqueId": "7"}),
    "nvlink-fabric-manager": Says({"fabric.state": "2"}, {"fabric/state": "In Progress"}, services=_DOWN),
    "driver-loads": Says(node={"init": "9"},
                         ends=(
                             9,
                             "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA "
                             "driver.\n")),
    "driver-module-matches": Says(
        node={"init": "18"},
        ends=(18,
              "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.54\n")),
}

_PAGES = {"retired_pages/multiple_single_bit_retirement/retired_count": "0",
          "retired_pages/double_bit_retirement/retired_count": "0"}

SOUND: Mapping[str, Says] = {
    "nvlink-fabric-cluster": Says(**_IN_CLUSTER),
    "gpu-pages-retired": Says({"pages.retired.corrected": "0", "pages.retired.uncorrected": "0"}, _PAGES),
    # Counters are compared with those of an earlier snapshot, which all GPUs need.
    "nvlink5-errors": Says(node={f"gpu.*.{key}": value for key, value in _NVLINK5.nvml.items()}),
    "nvlink5-ber": _NVLINK5,
    "nvlink-fabric-manager": Says(services=_DOWN),
}

_UNKNOWN = "error 999"
_FABRIC_UNREAD = Says({"fabric.state": _UNKNOWN}, {"fabric/state": "[Unknown Error]"})

UNREAD: Mapping[str, Says] = {
    "gpu-count": Says(node={"fail.nvmlDeviceGetCount_v2": "999"}, head={"attached_gpus": "[Unknown Error]"}),
    "gpu-listed": Says(node={"fail.nvmlDeviceGetCount_v2": "999"}, head={"attached_gpus": "[Unknown Error]"}),
    "nvlink-fabric-cluster": Says(_FABRIC_UNREAD.nvml, _FABRIC_UNREAD.smi,
                                  **_IN_CLUSTER), "gpu-answers": Says({"error": "4"},
                                                                      {ALL: "Insufficient Permissions"}),
    "gpu-recovery-action": Says({"field.230": _UNKNOWN}, {"gpu_recovery_action": "Unknown Error"}),
    "gpu-memory-size": Says({"memory.total": _UNKNOWN}, {"fb_memory_usage/total": "ERR!"}),
    "gpu-ecc-enabled": Says({"ecc.mode": _UNKNOWN}, {"ecc_mode/current_ecc": "ERR!"}),
    "gpu-ecc-uncorrected": Says({"ecc.volatile.uncorrected": _UNKNOWN},
                                {"ecc_errors/volatile/sram_uncorrectable_parity": "ERR!"}),
    "gpu-sram-threshold": Says({"ecc.sram.threshold_exceeded": _UNKNOWN},
                               {"ecc_errors/aggregate/sram_threshold_exceeded": "ERR!"}),
    "gpu-row-remap-failed": Says(
        {"rows.failed": _UNKNOWN},
        {"remapped_rows/remapped_row_failure": "Requested functionality has been deprecated"}),
    "gpu-pages-retired": Says({"pages.retired.corrected": "0", "pages.retired.uncorrected": _UNKNOWN},
                              {**_PAGES, "retired_pages/double_bit_retirement/retired_count": "ERR!"}),
    "gpu-pcie-generation": Says({"pcie.generation.max": _UNKNOWN},
                                {"pci/pci_gpu_link_info/pcie_gen/max_link_gen": "Unknown Error"}),
    "gpu-pcie-width": Says({"pcie.width": _UNKNOWN},
                           {"pci/pci_gpu_link_info/link_widths/current_link_width": "Unknown Error"}),
    "gpu-slowdown-hw": Says({"clocks.reasons": _UNKNOWN},
                            {"clocks_event_reasons/clocks_event_reason_hw_slowdown": "ERR!"}),
    "gpu-slowdown-thermal": Says({"clocks.reasons": _UNKNOWN},
                                 {"clocks_event_reasons/clocks_event_reason_hw_thermal_slowdown": "ERR!"}),
    "gpu-power-brake": Says({"clocks.reasons": _UNKNOWN},
                            {"clocks_event_reasons/clocks_event_reason_hw_power_brake_slowdown": "ERR!"}),
    "gpu-idle": Says({"processes": _UNKNOWN}), "sku-matches": Says({"name": _UNKNOWN},
                                                                   {"product_name": "Unknown Error"}),
    "nvlink-count": Says({"nvlink.count": _UNKNOWN}), "nvlink-active": Says({"nvlink.7.state": _UNKNOWN}),
    "nvlink-speed": Says({"nvlink.7.speed": _UNKNOWN}), "nvlink-errors": Says({
        "nvlink.4.crc_flit": _UNKNOWN
    }), "nvlink-crc-data": Says({"nvlink.4.crc_data": _UNKNOWN}), "nvlink5-errors": Says(
        {**_NVLINK5.nvml, "nvlink.4.rx_errors": _UNKNOWN
         }), "nvlink5-ber": Says({**_NVLINK5.nvml, "nvlink.4.effective_ber": _UNKNOWN}), "nvlink-p2p": Says(
             {"p2p.0.nvlink": _UNKNOWN}), "nvlink-fabric-state": _FABRIC_UNREAD, "nvlink-fabric-health": Says(
                 {"fabric.health": _UNKNOWN},
                 {"fabric/health/route_unhealthy": "Unknown Error"}), "nvlink-fabric-summary": Says(
                     {"fabric.summary": _UNKNOWN},
                     {"fabric/health/summary": "Unknown Error"}), "nvlink-fabric-clique": Says(
                         {"fabric.clique": _UNKNOWN},
                         {"fabric/cliqueId": "Unknown Error"}), "nvlink-fabric-manager": Says(
                             _FABRIC_UNREAD.nvml, _FABRIC_UNREAD.smi, services=_DOWN), "driver-loads": Says(
                                 node={"init": "4"},
                                 ends=(4, "Failed to initialize NVML: Insufficient Permissions\n")),
    "driver-module-matches": Says(node={"init": "4"},
                                  ends=(4, "Failed to initialize NVML: Insufficient Permissions\n")),}
