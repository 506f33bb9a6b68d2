"""What muster must say of each fault, by its name alone: this file knows nothing of how faults are
planted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """One rule that must fail, with a finding whose subject and words hold these texts, and the right advice
    for the right person."""

    rule: str
    subject: str
    words: tuple[str, ...]
    remedy: tuple[str, ...]
    severity: str = "critical"
    owner: str = "operator"


@dataclass(frozen=True)
class Expected:
    """All that may fail: each of these must, and no other rule. `state` is the node's; `blind` are rules that
    may be UNKNOWN."""

    said: tuple[Said, ...]
    state: str = "unhealthy"
    blind: bool = False


def only(rule: str, subject: str, words: str, remedy: str, severity: str = "critical",
         owner: str = "operator") -> Expected:
    state = {"critical": "unhealthy", "warning": "degraded", "info": "healthy"}[severity]
    return Expected(
        (Said(rule, subject, tuple(words.split("|")), tuple(remedy.split("|")), severity, owner),), state)


def together(*said: Expected, blind: bool = False) -> Expected:
    state = min((one.state for one in said), key=("unhealthy", "degraded", "healthy").index)
    return Expected(tuple(one.said[0] for one in said), state, blind)


EXPECTED: Mapping[str, Expected] = {
    "off-the-bus": together(only("kernel-xid", "PCI 0000:61:00, Xid 79", "fallen off the bus", "reboot"),
                            only("gpu-answers", "GPU 3", "GPU is lost", "reboot"), blind=True),
    "gpu-lost": together(only("gpu-answers", "GPU 6", "GPU is lost", "reboot"), blind=True),
    "gpu-missing": together(
        only("gpu-count", "GPUs", "7|8", "drain and reboot|reseat", owner="datacentre"),
        only("host-rebooted", "node", "rebooted since the snapshot at|up since", "journalctl -b -1|lifecycle",
             "warning")), "uncorrectable-memory-error": together(
                 only("kernel-xid", "PCI 0000:52:00, Xid 48", "double bit error", "drain|reset the gpu"),
                 only("gpu-ecc-uncorrected", "GPU 2", "1|at most 0", "drain|reset the gpu")),
    "row-remap-pending": together(
        only("kernel-xid-watch", "PCI 0000:1b:00, Xid 63", "marked for remapping", "reset", "warning"),
        only("gpu-row-remap-pending", "GPU 0", "pending", "reset the gpu",
             "warning")), "row-remap-failed": together(
                 only("kernel-xid", "PCI 0000:9d:00, Xid 64", "Failed to remap row",
                      "drain|replace the board"),
                 only("gpu-row-remap-failed", "GPU 4", "failed", "drain|return the board to the vendor",
                      owner="vendor")), "sram-threshold": together(
                          only("gpu-sram-threshold", "GPU 6", "threshold is exceeded",
                               "drain|return the board to the vendor", owner="vendor"),
                          only("gpu-sram-uncorrected-lifetime", "GPU 6", "4 in SRAM|at most 2",
                               "field diagnostic|vendor", "warning")),
    "contained-memory-error": only("kernel-xid-watch", "PCI 0000:43:00, Xid 94", "Contained",
                                   "job that met it|reset of the drained gpu", "warning"),
    "uncontained-memory-error": together(
        only("kernel-xid", "PCI 0000:df:00, Xid 95", "Uncontained", "drain|reset the gpu"),
        only("gpu-ecc-uncorrected", "GPU 7", "1|at most 0",
             "drain|reset the gpu")), "corrected-memory-errors-storm": together(
                 only("gpu-ecc-corrected-rate", "GPU 3", "corrected an hour|at most", "drain|diagnostic",
                      "warning"),
                 only("fleet-ecc-corrected", "GPU 3", "above the median|64 GPUs", "dcgmi diag",
                      "warning")), "ecc-off": only("gpu-ecc-enabled", "GPU 6", "ECC is off|on",
                                                   "drain|nvidia-smi -i n -e 1"),
    "memory-left-over": only("gpu-memory-leaked", "GPU 2", "20480 MiB in use without a process",
                             "fuser|reset the gpu", "warning"), "nvlink-down": together(
                                 only("nvlink-active", "GPU 4 NVLink 7", "inactive",
                                      "drain and reset the gpus"),
                                 only("fleet-nvlink", "GPU 4", "17 of 18 links up|63 of 64",
                                      "fabric manager|reset",
                                      "warning")), "nvlink-errors": only("nvlink-errors", "GPU 1 NVLink 4",
                                                                         "crc_flit|a second",
                                                                         "drain and reset the gpus"),
    "nvlink-fatal": only("kernel-xid-nvlink", "PCI 0000:d1:00, Xid 74, link 6", "fatal error",
                         "register 0|drain"), "nvswitch-fatal": only("kernel-sxid",
                                                                     "PCI 0000:05:00, SXid 20034, link 30",
                                                                     "Fatal", "access port|trunk port|drain"),
    "nvswitch-corrected-an-error": only("kernel-sxid-watch", "PCI 0000:06:00, SXid 11021", "single-bit",
                                        "watch", "warning"),
    "other-kernel": only("fleet-kernel", "kernel", "6.5.0-1014-nvidia|6.5.0-1007-nvidia|7 of 8 nodes",
                         "reboot", "warning"), "other-driver": together(
                             only("fleet-driver", "driver", "535.129.03|535.161.08", "reboot", "warning"),
                             only("fleet-gsp", "GPU ", "535.129.03|535.161.08", "reinstall",
                                  "warning")), "fabric-manager-dead": together(
                                      only("nvlink-fabric-manager", "nvidia-fabricmanager", "failed|active",
                                           "drain|restart nvidia-fabricmanager"),
                                      only("nvlink-fabric-state", "GPU ", "in progress|completed",
                                           "drain|nvidia-fabricmanager"),
                                      blind=True), "pcie-narrow": together(
                                          only("gpu-pcie-width", "GPU 5", "x8|x16",
                                               "drain|power it off|reseat", owner="datacentre"),
                                          only("fleet-pcie", "GPU 5", "x8|x16|63 of 64", "reseat", "warning",
                                               "datacentre")), "pcie-slow": together(
                                                   only("gpu-pcie-generation", "GPU 0",
                                                        "generation 4|generation 5",
                                                        "drain|power it off|reseat", owner="datacentre"),
                                                   only("fleet-pcie", "GPU 0",
                                                        "generation 4|generation 5|63 of 64", "reseat",
                                                        "warning", "datacentre")),
    "pcie-replays": together(
        only("gpu-pcie-replays", "GPU 7", "replays a minute|at most 31", "reseat", "warning", "datacentre"),
        only("fleet-pcie-replays", "GPU 7", "above the median", "reseat", "warning",
             "datacentre")), "thermal-slowdown": together(
                 only("gpu-slowdown-thermal", "GPU 1", "hardware thermal slowdown", "drain|fans|heat sink",
                      owner="datacentre"),
                 only("fleet-temperature", "GPU 1", "93 C|above the median|slot 1", "fans|heat sink",
                      "warning", "datacentre")), "beyond-its-highest-temperature": together(
                          only("gpu-temperature", "GPU 6",
                               "88 C, 1 C above its highest operating temperature (T.Limit -1 C)",
                               "fans|coolant", "warning", "datacentre"),
                          only("fleet-temperature", "GPU 6", "88 C|above the median|slot 6", "fans|heat sink",
                               "warning",
                               "datacentre")), "power-brake": only("gpu-power-brake", "GPU 4", "power brake",
                                                                   "power supplies|feed", owner="datacentre"),
    "power-limit-lowered": only("gpu-power-limit", "GPU 2", "500 W|700 W", "nvidia-smi -i n -pl",
                                "warning"), "power-capped-out-of-band": only("gpu-power-limit", "GPU 2",
                                                                             "500 W|700 W", "cap in the BMC",
                                                                             "warning"),
    "memory-too-hot": only("gpu-memory-temperature", "GPU 0", "97 C|at most 95 C", "fans|heat sink",
                           "warning", "datacentre"), "persistence-off": only("gpu-persistence", "GPU ",
                                                                             "off|on", "nvidia-persistenced",
                                                                             "warning"),
    "mig-on": only("gpu-mig", "GPU 3", "MIG is on|off", "drain|nvidia-smi -i n -mig 0",
                   "warning"), "firmware-timeout": only("kernel-xid", "PCI 0000:9d:00, Xid 119", "GSP",
                                                        "drain|reset the gpu|reboot if the reset fails"),
    "driver-and-library-differ": together(
        only("driver-loads", "driver", "mismatch|535.161.08",
             "drain|unload and load the nvidia modules|reboot"),
        only("driver-module-matches", "driver", "mismatch|one version",
             "drain|unload and load the nvidia modules|reboot"),
        only("kernel-trouble", "nvidia-api-mismatch", "API mismatch", "reboot", "warning"),
        blind=True), "driver-not-loaded": together(
            only("driver-loads", "driver", "Driver Not Loaded", "modprobe nvidia|kernel log"),
            blind=True), "reset-wanted": together(
                only("gpu-recovery-action", "GPU 1", "gpu_reset", "drain|nvidia-smi --gpu-reset -i 1"),
                only("kernel-xid-recovery", "PCI 0000:43:00, Xid 154",
                     "recovery action changed", "drain|reset the gpu")), "users-fault": only(
                         "kernel-xid-job", "PCI 0000:c3:00, Xid 31", "MMU Fault",
                         "user|nothing is done to the node", "info",
                         "user"), "same-processor-again": together(
                             only("kernel-xid-repeat", "PCI 0000:61:00, GPC 2 TPC 3, Xid 13", "2 bursts",
                                  "drain|diagnostics", "warning"),
                             only("kernel-xid-job", "PCI 0000:61:00, Xid 13", "2 lines",
                                  "user|nothing is done to the", "info", "user")),}
