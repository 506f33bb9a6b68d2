"""Fleet checks of disks: sizes by node, firmware and namespaces by model, by majority."""

from __future__ import annotations

from collections.abc import Mapping

from healthcheck.checks.base import fleet_check
from healthcheck.checks.fleet import Comparison, by_peers, outliers
from healthcheck.facts.local_disks import LocalDisks
from healthcheck.facts.nvme import Nvme
from healthcheck.facts.scsi import ScsiDisk


@fleet_check("fleet.disk_sizes")
def fleet_disk_sizes(local_disks: Mapping[str, LocalDisks]) -> Comparison:
    """Every node has as many disks of each size as the majority of its cohort."""
    yield from outliers(local_disks, lambda fact: fact.sizes, "disks")


@fleet_check("fleet.disk_firmware")
def fleet_disk_firmware(
    nvmes: Mapping[str, tuple[Nvme, ...]], scsi_disks: Mapping[str, tuple[ScsiDisk, ...]],
) -> Comparison:
    """Every disk of a node's own has the firmware that most disks of its model in the cohort have."""
    yield from by_peers(nvmes, "firmware", lambda drive: (f"drives {drive.model}", drive.firmware)
                        if drive.pci else None)
    yield from by_peers(scsi_disks, "firmware", lambda disk: (f"disks {disk.model}", disk.firmware)
                        if not disk.over else None)


@fleet_check("fleet.disk_namespaces", reads=("model", "namespaces"))
def fleet_disk_namespaces(nvmes: Mapping[str, tuple[Nvme, ...]]) -> Comparison:
    """Every NVMe drive has as many namespaces as most drives of its model in the cohort have; of one without
    any disk.nvme_namespace speaks."""
    yield from by_peers(nvmes, "number of namespaces",
                        lambda drive: (f"drives {drive.model}", f"{drive.namespaces} namespaces")
                        if drive.namespaces else None)
