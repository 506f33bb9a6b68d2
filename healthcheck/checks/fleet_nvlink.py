"""Fleet checks of NVLinks: how many are up by majority, and how often they repeat packets against the fleet's
others."""

from __future__ import annotations

from collections.abc import Mapping

from healthcheck.checks.base import fleet_check
from healthcheck.checks.fleet import Comparison, odd_ones, rows
from healthcheck.checks.fleet_spread import Growths, far_off_rates
from healthcheck.facts.nvlink import GpuLinks, NvLinkErrors


@fleet_check("fleet.nvlink")
def fleet_nvlink(gpu_links: Mapping[str, tuple[GpuLinks, ...]]) -> Comparison:
    """Every GPU has as many NVLinks up as most GPUs of the cohort have."""
    links = rows(gpu_links, lambda gpu: f"{gpu.active} of {gpu.links} links up")
    yield from odd_ones(links, "number of NVLinks", "GPUs")


@fleet_check("fleet.nvlink_errors")
def fleet_nvlink_errors(
    nvlink_errors: Mapping[str, tuple[NvLinkErrors, ...]], growth: Growths[NvLinkErrors], *,
    spreads: float, floor_hourly: float, at_least: int,
) -> Comparison:
    """No NVLink repeats packets far more often than the fleet's others do; links of the fifth generation have
    no such counter."""
    yield from far_off_rates(nvlink_errors, growth, "replay", "NVLinks",
                             spreads=spreads, floor_hourly=floor_hourly, at_least=at_least)
