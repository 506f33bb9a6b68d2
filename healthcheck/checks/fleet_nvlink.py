"""Fleet checks of NVLinks: how many are up by majority, and how often they repeat packets against the fleet's others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from healthcheck.checks.base import fleet_check
from healthcheck.checks.fleet import Said, odd_ones
from healthcheck.checks.fleet_spread import Looks, far_off_rates
from healthcheck.facts.nvlink import GpuLinks, NvLinkErrors
from healthcheck.model.outcome import Finding

Links = Mapping[str, tuple[NvLinkErrors, ...]]


@fleet_check("fleet.nvlink")
def fleet_nvlink(gpu_links: Mapping[str, tuple[GpuLinks, ...]]) -> Iterator[tuple[str, Finding]]:
    """Every GPU has as many NVLinks up as most GPUs of the cohort have."""
    links = [(node, gpu.name, f"{gpu.active} of {gpu.links} links up") for node, found in gpu_links.items() for gpu in found]
    yield from odd_ones(links, "number of NVLinks", "GPUs")


@fleet_check("fleet.nvlink_errors")
def fleet_nvlink_errors(
    nvlink_errors: Links, previous_nvlink_errors: Links, look: Looks, previous_look: Looks, *, spreads: float, floor_hourly: float,
    at_least: int,
) -> Said:
    """No NVLink repeats packets far more often than the fleet's others do; links of the fifth generation have no such counter."""
    yield from far_off_rates(nvlink_errors, previous_nvlink_errors, look, previous_look, "replay", "NVLinks", spreads=spreads,
                              floor_hourly=floor_hourly, at_least=at_least)
