"""What each critical rule over GPUs must say of a GPU at fault and of one that could not be read, whichever
way it was read: this file knows nothing of how that is planted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """What the finding says, of one subject of a GPU ("GPU 3", "GPU 3 NVLink 7") or of the node; and whether
    what was not measured is of a GPU."""

    words: str
    subject: str = "GPU {gpu}"
    unread: str = "GPU {gpu}"


EXPECTED: Mapping[str, Said] = {
    "gpu-count": Said("7, expected 8", "GPUs listed by the driver", ""),
    "gpu-listed": Said("7, expected 8 NVIDIA H100", "GPUs listed by the driver", ""),
    "nvlink-fabric-cluster": Said("no cluster UUID (all zeros)"),
    "gpu-answers": Said("GPU is lost (NVML 15), expected an answer"),
    "gpu-recovery-action": Said("asks for gpu_reset, expected none"),
    "gpu-memory-size": Said("40.0 GiB, expected 79 GiB"),
    "gpu-ecc-enabled": Said("ECC is off, expected on"),
    "gpu-ecc-uncorrected": Said("3, expected at most 0"),
    "gpu-sram-threshold": Said("threshold is exceeded"),
    "gpu-row-remap-failed": Said("remapping failed"),
    "gpu-pages-retired": Said("63 pages retired, expected fewer than 63"),
    "gpu-pcie-generation": Said("generation 4, expected generation 5"),
    "gpu-pcie-width": Said("x8, expected x16"),
    "gpu-slowdown-hw": Said("SM clock 900 MHz, expected none"),
    "gpu-slowdown-thermal": Said("hardware thermal slowdown"),
    "gpu-power-brake": Said("power brake slowdown"),
    "gpu-idle": Said("1 running: 4711"),
    "sku-matches": Said("A100-SXM4-80GB, expected NVIDIA H100"),
    "nvlink-count": Said("12 NVLinks, expected 18"),
    "nvlink-active": Said("inactive, expected active", "GPU {gpu} NVLink 7"),
    "nvlink-speed": Said("13.281 GB/s, expected at least 26.5 GB/s", "GPU {gpu} NVLink 7"),
    "nvlink-errors": Said("crc_flit: 200.0 a second", "GPU {gpu} NVLink 4"),
    "nvlink-crc-data": Said("crc_data: 200.0 a second", "GPU {gpu} NVLink 4"),
    "nvlink5-errors": Said("rx_errors: 12000.0 a minute", "GPU {gpu} NVLink 4"),
    "nvlink5-ber": Said("effective bit error ratio", "GPU {gpu} NVLink 4"),
    "nvlink-p2p": Said("expected ok, ok, ok", "GPU {gpu} to GPU 0"),
    "nvlink-fabric-state": Said("in progress, expected completed"),
    "nvlink-fabric-health": Said("route unhealthy"),
    "nvlink-fabric-summary": Said("limited capacity, expected healthy"),
    "nvlink-fabric-clique": Said("clique 7"),
    "nvlink-fabric-manager": Said("expected active", "nvidia-fabricmanager"),
    "driver-loads": Said("Driver Not Loaded, expected a driver that answers", "driver", ""),
    "driver-module-matches": Said("mismatch", "driver", ""),
}

# What the SKU of the node must say for a rule to apply; otherwise it is an HGX H100.
NUMBERS: Mapping[str, Mapping[str, object]] = {"gpu-listed": {"gpu_count": None},
                                               "nvlink-fabric-cluster": {"imex": True}}

_LINKS = "nvidia-smi -q -x prints no NVLinks; nvidia-smi nvlink is another command, which is not run"
# Rules that nvidia-smi's log cannot decide, and why: there they are UNKNOWN.
BY_NVML_ALONE: Mapping[str, str] = {
    "gpu-idle": "its processes are not read: what a container or another user's are is only told by NVML's "
                "reader beside /proc",
    **dict.fromkeys(("nvlink-count", "nvlink-active", "nvlink-speed", "nvlink-errors", "nvlink-crc-data",
                     "nvlink5-errors", "nvlink5-ber"), _LINKS),
    "nvlink-p2p": "nvidia-smi -q -x prints no pairs of GPUs; nvidia-smi topo is another command, which "
                  "is not run",
}

# Critical rules that need the NVML reader for something else than what they judge, by the beginning of their
# names.
ELSEWHERE: Mapping[str, str] = {
    "dcgm-": "DCGM's own diagnostic is judged, and NVML only says whether there is a GPU "
    "(tests/healthcheck/checks/test_dcgm.py)",
    "kernel-": "the kernel's log is judged, and NVML only shows that what it says is over "
    "(tests/healthcheck/checks/test_xid.py)",
    "driver-answers": "snapshots in a row without an answer are judged, whichever source was asked "
    "(tests/healthcheck/collector/test_nvml_stages.py)",
    "container-": "a container is started, on a node under a lease "
                  "(tests/healthcheck/checks/test_container.py)",
}
