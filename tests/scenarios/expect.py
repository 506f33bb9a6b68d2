"""What muster must say of each fault, by its name alone: this file knows nothing of how faults are planted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """One rule that must fail, with a finding whose subject and words hold these texts, and the right advice for the right person."""

    rule: str
    subject: str
    words: tuple[str, ...]
    remedy: tuple[str, ...]
    severity: str = "critical"
    owner: str = "operator"


@dataclass(frozen=True)
class Expected:
    """All that may fail: each of these must, and no other rule. `state` is the node's; `blind` are rules that may be UNKNOWN."""

    said: tuple[Said, ...]
    state: str = "unhealthy"
    blind: bool = False


def _only(rule: str, subject: str, words: str, remedy: str, severity: str = "critical", owner: str = "operator") -> Expected:
    state = {"critical": "unhealthy", "warning": "degraded", "info": "healthy"}[severity]
    return Expected((Said(rule, subject, tuple(words.split("|")), tuple(remedy.split("|")), severity, owner),), state)


def _all(*said: Expected, blind: bool = False) -> Expected:
    state = min((one.state for one in said), key=("unhealthy", "degraded", "healthy").index)
    return Expected(tuple(one.said[0] for one in said), state, blind)


only, together = _only, _all     # what the files of other subjects (expect_*.py) call them

EXPECTED: Mapping[str, Expected] = {
    "off-the-bus": _all(
        _only("kernel-xid", "PCI 0000:61:00, Xid 79", "fallen off the bus", "reboot"),
        _only("gpu-answers", "GPU 3", "GPU is lost", "reboot"), blind=True),
    "gpu-lost": _all(_only("gpu-answers", "GPU 6", "GPU is lost", "reboot"), blind=True),
    "gpu-missing": _all(
        _only("gpu-count", "GPUs", "7|8", "drain and reboot|reseat", owner="datacentre"),
        _only("host-rebooted", "node", "rebooted since the snapshot at|up since", "journalctl -b -1|lifecycle", "warning")),
    "uncorrectable-memory-error": _all(
        _only("kernel-xid", "PCI 0000:52:00, Xid 48", "double bit error", "drain|reset the gpu"),
        _only("gpu-ecc-uncorrected", "GPU 2", "1|at most 0", "drain|reset the gpu")),
    "row-remap-pending": _all(
        _only("kernel-xid-watch", "PCI 0000:1b:00, Xid 63", "marked for remapping", "reset", "warning"),
        _only("gpu-row-remap-pending", "GPU 0", "pending", "reset the gpu", "warning")),
    "row-remap-failed": _all(
        _only("kernel-xid", "PCI 0000:9d:00, Xid 64", "Failed to remap row", "drain|replace the board"),
        _only("gpu-row-remap-failed", "GPU 4", "failed", "drain|return the board to the vendor", owner="vendor")),
    "sram-threshold": _all(
        _only("gpu-sram-threshold", "GPU 6", "threshold is exceeded", "drain|return the board to the vendor", owner="vendor"),
        _only("gpu-sram-uncorrected-lifetime", "GPU 6", "4 in SRAM|at most 2", "field diagnostic|vendor", "warning")),
    "contained-memory-error": _only(
        "kernel-xid-watch", "PCI 0000:43:00, Xid 94", "Contained", "job that met it|reset of the drained gpu", "warning"),
    "uncontained-memory-error": _all(
        _only("kernel-xid", "PCI 0000:df:00, Xid 95", "Uncontained", "drain|reset the gpu"),
        _only("gpu-ecc-uncorrected", "GPU 7", "1|at most 0", "drain|reset the gpu")),
    "corrected-memory-errors-storm": _all(
        _only("gpu-ecc-corrected-rate", "GPU 3", "corrected an hour|at most", "drain|diagnostic", "warning"),
        _only("fleet-ecc-corrected", "GPU 3", "above the median|64 GPUs", "dcgmi diag", "warning")),
    "ecc-off": _only("gpu-ecc-enabled", "GPU 6", "ECC is off|on", "drain|nvidia-smi -i n -e 1"),
    "memory-left-over": _only("gpu-memory-leaked", "GPU 2", "20480 MiB in use without a process", "fuser|reset the gpu", "warning"),
    "nvlink-down": _all(
        _only("nvlink-active", "GPU 4 NVLink 7", "inactive", "drain and reset the gpus"),
        _only("fleet-nvlink", "GPU 4", "17 of 18 links up|63 of 64", "fabric manager|reset", "warning")),
    "nvlink-errors": _only("nvlink-errors", "GPU 1 NVLink 4", "crc_flit|a second", "drain and reset the gpus"),
    "nvlink-fatal": _only("kernel-xid-nvlink", "PCI 0000:d1:00, Xid 74, link 6", "fatal error", "register 0|drain"),
    "nvswitch-fatal": _only("kernel-sxid", "PCI 0000:05:00, SXid 20034, link 30", "Fatal", "access port|trunk port|drain"),
    "nvswitch-corrected-an-error": _only("kernel-sxid-watch", "PCI 0000:06:00, SXid 11021", "single-bit", "watch", "warning"),
    "other-kernel": _only("fleet-kernel", "kernel", "6.5.0-1014-nvidia|6.5.0-1007-nvidia|7 of 8 nodes", "reboot", "warning"),
    "other-driver": _all(
        _only("fleet-driver", "driver", "535.129.03|535.161.08", "reboot", "warning"),
        _only("fleet-gsp", "GPU ", "535.129.03|535.161.08", "reinstall", "warning")),
    "fabric-manager-dead": _all(
        _only("nvlink-fabric-manager", "nvidia-fabricmanager", "failed|active", "drain|restart nvidia-fabricmanager"),
        _only("nvlink-fabric-state", "GPU ", "in progress|completed", "drain|nvidia-fabricmanager"), blind=True),
    "pcie-narrow": _all(
        _only("gpu-pcie-width", "GPU 5", "x8|x16", "drain|power it off|reseat", owner="datacentre"),
        _only("fleet-pcie", "GPU 5", "x8|x16|63 of 64", "reseat", "warning", "datacentre")),
    "pcie-slow": _all(
        _only("gpu-pcie-generation", "GPU 0", "generation 4|generation 5", "drain|power it off|reseat", owner="datacentre"),
        _only("fleet-pcie", "GPU 0", "generation 4|generation 5|63 of 64", "reseat", "warning", "datacentre")),
    "pcie-replays": _all(
        _only("gpu-pcie-replays", "GPU 7", "replays a minute|at most 31", "reseat", "warning", "datacentre"),
        _only("fleet-pcie-replays", "GPU 7", "above the median", "reseat", "warning", "datacentre")),
    "thermal-slowdown": _all(
        _only("gpu-slowdown-thermal", "GPU 1", "hardware thermal slowdown", "drain|fans|heat sink", owner="datacentre"),
        _only("fleet-temperature", "GPU 1", "93 C|above the median|slot 1", "fans|heat sink", "warning", "datacentre")),
    "beyond-its-highest-temperature": _all(
        _only("gpu-temperature", "GPU 6", "88 C, 1 C above its highest operating temperature (T.Limit -1 C)", "fans|coolant", "warning", "datacentre"),
        _only("fleet-temperature", "GPU 6", "88 C|above the median|slot 6", "fans|heat sink", "warning", "datacentre")),
    "power-brake": _only("gpu-power-brake", "GPU 4", "power brake", "power supplies|feed", owner="datacentre"),
    "power-limit-lowered": _only("gpu-power-limit", "GPU 2", "500 W|700 W", "nvidia-smi -i n -pl", "warning"),
    "power-capped-out-of-band": _only("gpu-power-limit", "GPU 2", "500 W|700 W", "cap in the BMC", "warning"),
    "memory-too-hot": _only("gpu-memory-temperature", "GPU 0", "97 C|at most 95 C", "fans|heat sink", "warning", "datacentre"),
    "persistence-off": _only("gpu-persistence", "GPU ", "off|on", "nvidia-persistenced", "warning"),
    "mig-on": _only("gpu-mig", "GPU 3", "MIG is on|off", "drain|nvidia-smi -i n -mig 0", "warning"),
    "firmware-timeout": _only("kernel-xid", "PCI 0000:9d:00, Xid 119", "GSP", "drain|reset the gpu|reboot if the reset fails"),
    "driver-and-library-differ": _all(
        _only("driver-loads", "driver", "mismatch|535.161.08", "drain|unload and load the nvidia modules|reboot"),
        _only("driver-module-matches", "driver", "mismatch|one version", "drain|unload and load the nvidia modules|reboot"),
        _only("kernel-trouble", "nvidia-api-mismatch", "API mismatch", "reboot", "warning"), blind=True),
    "driver-not-loaded": _all(_only("driver-loads", "driver", "Driver Not Loaded", "modprobe nvidia|kernel log"), blind=True),
    "reset-wanted": _all(
        _only("gpu-recovery-action", "GPU 1", "gpu_reset", "drain|nvidia-smi --gpu-reset -i 1"),
        _only("kernel-xid-recovery", "PCI 0000:43:00, Xid 154", "recovery action changed", "drain|reset the gpu")),
    "users-fault": _only("kernel-xid-job", "PCI 0000:c3:00, Xid 31", "MMU Fault", "user|nothing is done to the node", "info", "user"),
    "same-processor-again": _all(
        _only("kernel-xid-repeat", "PCI 0000:61:00, GPC 2 TPC 3, Xid 13", "2 bursts", "drain|diagnostics", "warning"),
        _only("kernel-xid-job", "PCI 0000:61:00, Xid 13", "2 lines", "user|nothing is done to the", "info", "user")),
}
