"""Brings all checks and facts into their registries: ours, and those of plug-ins (entry point group `muster.checks`)."""

from __future__ import annotations

from healthcheck.baseline.book import KERNEL_BASELINE, KERNEL_CATALOGUE
from healthcheck.checks import (
    bmc,
    boot,
    container,
    counter,
    cpu,
    dcgm,
    disk,
    docker,
    driver,
    filesystem,
    fleet,
    fleet_gpu,
    fleet_host,
    fleet_nvlink,
    fleet_spread,
    gpu,
    gpu_memory,
    gpu_pcie,
    gpu_power,
    gpu_process,
    hca,
    host,
    kernel_event,
    kernel_unusual,
    limits,
    memory,
    module,
    netdev,
    numa,
    nvlink,
    nvlink_fabric,
    optics,
    pcie,
    pcie_config,
    port,
    process,
    raid,
    roce,
    scsi,
    service,
    site,
    system,
    xid,
)
from healthcheck.checks.base import CHECKS, PREVIOUS
from healthcheck.facts.base import FACTS
from healthcheck.facts.boot import EARLIER_BOOT
from healthcheck.facts.seen import SEEN_BEFORE
from healthcheck.facts.site import PORT_PLANS
from healthcheck.xid.xidtable import XID_TABLE
from inventory.errors import UsageError

OURS = (
    netdev, optics, roce,
    bmc, boot, fleet_host, module, service, system,
    disk, raid, scsi,
    cpu, limits, memory, numa, pcie, pcie_config, process,
    container, counter, hca,
    dcgm, docker, driver, nvlink_fabric, filesystem, fleet, fleet_gpu, fleet_nvlink, fleet_spread, gpu, gpu_process, gpu_memory, gpu_pcie,
    gpu_power, host, kernel_event, kernel_unusual, nvlink, port, site, xid,
)
GROUP = "muster.checks"
# Facts that are read from no machine: the sweep hands them in.
HANDED_IN = (EARLIER_BOOT, SEEN_BEFORE, PORT_PLANS, XID_TABLE, KERNEL_CATALOGUE, KERNEL_BASELINE)


def load() -> None:
    """Afterwards CHECKS and FACTS are complete, and every fact that a check asks for exists; raises UsageError otherwise."""
    # An agent has no plug-ins, and does not pay for looking.
    from importlib import metadata

    for entry in metadata.entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            raise UsageError(f"the plug-in {entry.name} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}") from error
    for check in CHECKS.values():
        for name in check.facts:
            if name.removeprefix(PREVIOUS) not in FACTS and name not in HANDED_IN:
                raise UsageError(f"the check {check.name} asks for the fact {name}, which does not exist")
