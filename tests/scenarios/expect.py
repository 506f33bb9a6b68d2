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


EXPECTED: Mapping[str, Expected] = {
    "off-the-bus": _all(
        _only("kernel-xid", "0000:61:00", "79", "reboot"),
        _only("gpu-answers", "GPU 3", "lost", "reboot"), blind=True),
    "gpu-lost": _all(_only("gpu-answers", "GPU 6", "lost", "reboot"), blind=True),
    "gpu-missing": _only("gpu-count", "", "7|8", "power", owner="datacentre"),
    "uncorrectable-memory-error": _all(
        _only("kernel-xid", "0000:52:00", "48", "reset"),
        _only("gpu-ecc-uncorrected", "GPU 2", "1", "reset")),
    "row-remap-pending": _all(
        _only("kernel-xid-watch", "0000:1b:00", "63", "reset", "warning"),
        _only("gpu-row-remap-pending", "GPU 0", "", "reset", "warning")),
    "row-remap-failed": _all(
        _only("kernel-xid", "0000:9d:00", "64", "reset"),
        _only("gpu-row-remap-failed", "GPU 4", "", "replace", owner="vendor")),
    "sram-threshold": _only("gpu-sram-threshold", "GPU 6", "", "replace", owner="vendor"),
    "contained-memory-error": _only("kernel-xid-job", "0000:43:00", "94", "restart", "info", "user"),
    "uncontained-memory-error": _all(
        _only("kernel-xid", "0000:df:00", "95", "reset"),
        _only("gpu-ecc-uncorrected", "GPU 7", "1", "reset")),
    "corrected-memory-errors-storm": _only("gpu-ecc-corrected-rate", "GPU 3", "", "", "warning"),
    "ecc-off": _only("gpu-ecc-enabled", "GPU 6", "", "nvidia-smi"),
    "memory-left-over": _only("gpu-memory-leaked", "GPU 2", "20", "reset", "warning"),
    "nvlink-down": _only("nvlink-active", "GPU 4 NVLink 7", "", "reset"),
    "nvlink-errors": _only("nvlink-errors", "GPU 1 NVLink 4", "", "reset"),
    "nvlink-fatal": _only("kernel-xid-nvlink", "0000:d1:00", "74|6", ""),
    "nvswitch-fatal": _only("kernel-sxid", "0000:05:00", "20034|30", ""),
    "fabric-manager-dead": _all(
        _only("fabric-manager", "fabric", "failed", "start"),
        _only("fabric-state", "GPU", "", "fabric manager")),
    "pcie-narrow": _only("gpu-pcie-width", "GPU 5", "8|16", "reseat"),
    "pcie-slow": _only("gpu-pcie-generation", "GPU 0", "4|5", "reseat"),
    "pcie-replays": _only("gpu-pcie-replays", "GPU 7", "", "reseat", "warning"),
    "thermal-slowdown": _all(
        _only("gpu-slowdown-hw", "GPU 1", "", "", owner="datacentre"),
        _only("gpu-slowdown-thermal", "GPU 1", "", "", owner="datacentre")),
    "power-brake": _only("gpu-power-brake", "GPU 4", "", "power", owner="datacentre"),
    "power-limit-lowered": _only("gpu-power-limit", "GPU 2", "500|700", "nvidia-smi", "warning"),
    "memory-too-hot": _only("gpu-memory-temperature", "GPU 0", "97|95", "", "warning", "datacentre"),
    "persistence-off": _only("gpu-persistence", "GPU", "", "nvidia-smi", "warning"),
    "mig-on": _only("gpu-mig", "GPU 3", "", "nvidia-smi", "warning"),
    "firmware-timeout": _only("kernel-xid", "0000:9d:00", "119", "reset"),
    "driver-and-library-differ": _all(_only("driver-loads", "", "mismatch", "reboot"), blind=True),
    "driver-not-loaded": _all(_only("driver-loads", "", "Not Loaded", "modprobe"), blind=True),
    "reset-wanted": _all(
        _only("gpu-recovery-action", "GPU 1", "reset", "reset"),
        _only("kernel-xid-recovery", "0000:43:00", "GPU Reset", "reset")),
    "users-fault": _only("kernel-xid-job", "0000:c3:00", "31", "", "info", "user"),
    "same-processor-again": _all(
        _only("kernel-xid-repeat", "0000:61:00", "13|GPC 2|TPC 3", "diag"),
        _only("kernel-xid-job", "0000:61:00", "13", "", "info", "user")),
}
