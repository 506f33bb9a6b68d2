"""What muster must say of each fault of a SATA disk, by its name alone."""

from __future__ import annotations

from collections.abc import Mapping

from tests.scenarios.expect import Expected, only, together

EXPECTED: Mapping[str, Expected] = {
    "sata-disk-given-up": together(
        only("disk-scsi-state", "sda (INTEL", "offline|running", "drain|cable|replace it", owner="datacentre"),
        only("disk-scsi-timeouts", "sda (INTEL", "7 commands without an answer", "cable|SMART", "warning", "datacentre")),
    "sata-disk-fails-commands": only("disk-scsi-errors-growing", "sda (INTEL", "328 of 1000 commands failed", "SMART", "info"),
    "sata-disk-that-smartctl-asks": Expected((), "healthy"),
}
