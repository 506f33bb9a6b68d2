"""What muster must say of each fault of disks, arrays and mounts, by its name alone."""

from __future__ import annotations

from collections.abc import Mapping

from tests.scenarios.expect import Expected, only, together

EXPECTED: Mapping[str, Expected] = {
    "nvme-given-up": together(
        only("disk-nvme-driven", "NVMe drive 0000:2a:00.0", "no driver runs it", "drain and reboot|replaced"),
        only("disk-log-nvme-dead", "nvme4", "Device not ready|comes back", "drain and reboot|replace it"),
        only("disk-log-nvme-resets", "nvme4", "reset controller", "firmware|replaced", "warning", "vendor"),
        only("disk-log-io-errors", "nvme4n1", "I/O error", "drain|SMART|replace the disk",
             owner="datacentre"),
        only("raid-state", "md1 (raid0)", "broken|active or clean", "drain|mdadm --detail")),
    "nvme-dead": only("disk-nvme-state", "nvme2 (0000:22:00.0)", "dead|live", "drain and reboot|replaced"),
    "nvme-narrow": only("disk-nvme-pcie", "nvme6 (0000:a2:00.0)", "x2|x4", "drain|reseat", "warning",
                        "datacentre"),
    "nvme-hot": only("disk-nvme-temperature", "nvme3", "85 C|at most 81.85 C", "fans", "warning",
                     "datacentre"),
    "nvme-hot-without-a-sensor": only("disk-smart-temperature", "nvme3 (SAMSUNG", "a temperature is beyond",
                                      "fans|drive is sound", "warning", "datacentre"),
    "nvme-read-only": together(
        only("disk-nvme-read-only", "nvme6n1", "read-only|writable", "drain|write-protected", owner="vendor"),
        only("disk-smart-warning", "nvme6 (SAMSUNG", "0x08: the media is read-only",
             "drain|replace the drive", owner="vendor")),
    "nvme-without-a-namespace": only("disk-nvme-namespace", "nvme7 (0000:a3:00.0)",
                                     "no namespace|at least one", "nvme list-ns|power-cycle"),
    "nvme-passed-on": only("fleet-pci-driver", "storage 0000:ac:00.0",
                           "driver vfio-pci|driver nvme, as on 7 of 8 nodes", "driverctl", "warning"),
    "nvme-resets": only("disk-log-nvme-resets", "nvme7", "2 lines|timeout, aborting", "firmware|replaced",
                        "warning", "vendor"),
    "disk-fails": together(
        only("disk-smart-spare-low", "nvme5 (SAMSUNG", "the spare is below its threshold",
             "drain|replace the drive", owner="vendor"),
        only("disk-smart-life", "nvme5 (SAMSUNG", "88% of its life used|days left", "Find what writes",
             "warning", "operator")),
    "disk-worn": only("disk-smart-wear", "nvme1 (SAMSUNG", "93% of its life used|below 90%", "replacement",
                      "warning", "vendor"),
    "disk-loses-data": together(
        only("disk-smart-media-errors", "nvme8 (SAMSUNG", "7 media|at most 0", "watch|replace the drive",
             "warning", "vendor"),
        only("disk-smart-media-errors-growing", "nvme8 (SAMSUNG", "7 more", "drain|replace the drive",
             owner="vendor"),
        only("disk-log-io-errors", "nvme8n1", "2 lines|critical medium error", "drain|replace the disk",
             owner="datacentre")),
    "filesystem-damaged": only("disk-log-filesystem", "md1", "Corruption", "drain|xfs_repair"),
    "mirror-lost-a-disk": only(
        "raid-degraded", "md0 (raid1)", "1 of 2 members missing (faulty: nvme1n1p3)",
        "mdadm --detail|mdadm --add", owner="datacentre"),
    "scratch-not-mounted": only("filesystem-expected", "/raid", "not mounted (xfs of /dev/md1)|/etc/fstab",
                                "before a job writes"),
    "lustre-unhealthy": only("filesystem-lustre", "Lustre", "LBUG; NOT HEALTHY|healthy", "drain|reboot"),
    "a-disk-that-has-seen-much": Expected((), "healthy"),
    "sata-disk-given-up": together(
        only("disk-scsi-state", "sda (INTEL", "offline|running", "drain|cable|replace it",
             owner="datacentre"),
        only("disk-scsi-timeouts", "sda (INTEL", "7 commands without an answer", "cable|SMART", "warning",
             "datacentre")),
    "sata-disk-fails-commands": only("disk-scsi-errors-growing", "sda (INTEL", "328 of 1000 commands failed",
                                     "SMART", "info"),
    "sata-disk-that-smartctl-asks": Expected((), "healthy"),
}
