"""What muster must say of each fault of the host's installation and its management controller, and of
reboots, by its name alone."""

from __future__ import annotations

from collections.abc import Mapping

from tests.scenarios.expect import Expected, only, together

EXPECTED: Mapping[str, Expected] = {
    "memory-module-failed": only("bmc-sel-critical", "Memory CPU0_DIMM_C1", "Uncorrectable ECC",
                                 "drain|reseat", owner="vendor"),
    "power-cord-out": only("bmc-power-supply", "PSU", "20", "cord|pdu", "warning", "datacentre"),
    "fan-stopped": only("bmc-fan", "FAN7_TACH", "0 RPM (lcr)", "replace the fan", "warning", "datacentre"),
    "inlet-hot": only("bmc-sensors", "TEMP_INLET", "47 degrees C (ucr)", "air flow", owner="datacentre"),
    "event-log-full": only("bmc-sel-full", "event log", "98 %|below 90 %", "sel save|sel clear", "warning"),
    "nouveau-took-over": only("module-forbidden", "nouveau", "loaded", "blacklist|reboot"),
    "service-died": only("service-failed", "cron", "failed (failed)", "journalctl -u", "warning"),
    "name-servers-lost": together(
        only("host-resolver", "resolver", "no nameserver", "resolv.conf", "warning"),
        only("host-own-name", "host name", "no address", "/etc/hosts", "warning")),
    "kernel-crashed-before": only("host-crash", "kernel", "/var/lib/systemd/pstore/7301123/dmesg.txt",
                                  "read the record", "warning"),
    "booted-unlike-its-peers": together(
        only("fleet-bios", "BIOS", "1.1.3|1.6.7, as on 7 of 8 nodes", "next maintenance", "warning"),
        only("fleet-cmdline", "kernel parameters", "iommu=pt", "grub", "warning"),
        only("fleet-sysctl", "kernel.numa_balancing", "1|0, as on 7 of 8 nodes", "sysctl.d", "warning"),
        only("fleet-os", "distribution", "22.04.1|22.04.4", "reinstall", "warning")),
    "memory-module-slow": only("host-dimm-alike", "CPU1_DIMM_C2", "4400 MT/s|4800 MT/s", "part number",
                               "warning", "vendor"),
    "rebooted-by-itself": only(
        "host-rebooted", "node", "rebooted since the snapshot at|up since",
        "journalctl -b -1|BMC|lifecycle NODE maintenance", "warning"),
}
