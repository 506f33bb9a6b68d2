"""What muster must say of each fault of disks, arrays and mounts, by its name alone."""

from __future__ import annotations

from collections.abc import Mapping

from tests.scenarios.expect import Expected, only, together

EXPECTED: Mapping[str, Expected] = {
    "nvme-given-up": together(
        only("disk-nvme-driven", "NVMe drive 0000:2a:00.0", "no driver runs it", "drain and reboot|replaced", owner="vendor"),
        only("disk-log-nvme-dead", "nvme4", "Device not ready|comes back", "drain and reboot|replace it", owner="vendor"),
        only("disk-log-nvme-resets", "nvme4", "reset controller", "firmware|replaced", "warning", "vendor"),
        only("disk-log-io-errors", "nvme4n1", "I/O error", "drain|SMART|replace the disk", owner="datacentre"),
        only("raid-state", "md1 (raid0)", "broken|active or clean", "drain|mdadm --detail")),
    "nvme-dead": only("disk-nvme-state", "nvme2 (0000:22:00.0)", "dead|live", "drain and reboot|replaced", owner="vendor"),
    "nvme-narrow": only("disk-nvme-pcie", "nvme6 (0000:a2:00.0)", "x2|x4", "drain|reseat", "warning", "datacentre"),
    "nvme-hot": together(
        only("disk-nvme-temperature", "nvme3", "85 C|at most 81.85 C", "fans", "warning", "datacentre"),
        only("disk-smart-warning", "nvme3 (SAMSUNG", "0x02: a temperature is beyond", "drain|airflow", owner="vendor")),
    "nvme-resets": only("disk-log-nvme-resets", "nvme7", "2 lines|timeout, aborting", "firmware|replaced", "warning", "vendor"),
    "disk-fails": together(
        only("disk-smart-failed", "nvme5 (SAMSUNG", "failing|passed", "drain|replace the disk", owner="vendor"),
        only("disk-smart-warning", "nvme5 (SAMSUNG", "0x01: the spare is below its threshold", "drain|another drive", owner="vendor"),
        only("disk-smart-spare", "nvme5 (SAMSUNG", "4% spare|at least 20%", "replacement", "warning", "vendor")),
    "disk-worn": only("disk-smart-wear", "nvme1 (SAMSUNG", "93% of its life used|below 90%", "replacement", "warning"),
    "disk-loses-data": together(
        only("disk-smart-media-errors", "nvme8 (SAMSUNG", "7 media|at most 0", "watch|replace the drive", "warning", "vendor"),
        only("disk-smart-media-errors-growing", "nvme8 (SAMSUNG", "7 more", "drain|replace the drive", owner="vendor"),
        only("disk-log-io-errors", "nvme8n1", "2 lines|critical medium error", "drain|replace the disk", owner="datacentre")),
    "filesystem-damaged": only("disk-log-filesystem", "md1", "Corruption", "drain|xfs_repair"),
    "mirror-lost-a-disk": only(
        "raid-degraded", "md0 (raid1)", "1 of 2 members missing (faulty: nvme1n1p3)", "mdadm --detail|mdadm --add", owner="datacentre"),
    "scratch-not-mounted": only("filesystem-expected", "/raid", "not mounted (xfs of /dev/md1)|/etc/fstab", "before a job writes"),
    "lustre-unhealthy": only("filesystem-lustre", "Lustre", "LBUG; NOT HEALTHY|healthy", "drain|reboot"),
    "a-disk-that-has-seen-much": Expected((), "healthy"),
}
