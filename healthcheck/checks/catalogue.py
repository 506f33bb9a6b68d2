"""Brings all checks and facts into their registries: ours, and those of plug-ins (entry point group `muster.checks`)."""

from __future__ import annotations

from importlib import metadata

from healthcheck.checks import (
    dcgm,
    docker,
    driver,
    fabric,
    filesystem,
    fleet,
    fleet_gpu,
    fleet_spread,
    gpu,
    gpu_memory,
    gpu_pcie,
    gpu_power,
    host,
    kernel,
    port,
    site,
)
from healthcheck.checks.base import CHECKS, PREVIOUS
from healthcheck.facts.base import FACTS
from healthcheck.facts.site import PORT_PLANS
from inventory.errors import UsageError

OURS = (
    dcgm, docker, driver, fabric, filesystem, fleet, fleet_gpu, fleet_spread, gpu, gpu_memory, gpu_pcie, gpu_power, host, kernel, port, site,
)
GROUP = "muster.checks"


def load() -> None:
    """Afterwards CHECKS and FACTS are complete, and every fact that a check asks for exists; raises UsageError otherwise."""
    for entry in metadata.entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            raise UsageError(f"the plug-in {entry.name} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}") from error
    for check in CHECKS.values():
        for name in check.facts:
            if name.removeprefix(PREVIOUS) not in FACTS and name != PORT_PLANS:
                raise UsageError(f"the check {check.name} asks for the fact {name}, which does not exist")
