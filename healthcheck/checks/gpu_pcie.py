"""Checks of each GPU's PCI Express link: generation, width, and replays."""

from __future__ import annotations

import math
from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.checks.growth import MINUTE, Growth
from healthcheck.facts.gpu import Gpu
from healthcheck.model.outcome import Finding


@check("gpu.pcie_generation")
def gpu_pcie_generation(gpu: Gpu, *, expected: int, loaded_percent: int) -> Iterator[Finding]:
    """GPU and slot allow the SKU's generation, and the link of a GPU at work runs at it.

    An idle GPU may train its link down, so what it runs at is judged from this utilization upwards only.
    """
    if gpu.pcie_generation_max < expected:
        yield Finding(f"GPU and slot allow generation {gpu.pcie_generation_max}", f"generation {expected}")
    elif gpu.pcie_generation < expected and gpu.utilization_percent >= loaded_percent:
        yield Finding(f"generation {gpu.pcie_generation} under load", f"generation {expected}")


@check("gpu.pcie_width")
def gpu_pcie_width(gpu: Gpu, *, expected: int) -> Iterator[Finding]:
    """Every GPU's link has as many lanes as the SKU says; a link that came up narrow stays so, under load or
    not."""
    if gpu.pcie_width < expected:
        slot = f" (GPU and slot allow x{gpu.pcie_width_max})" if gpu.pcie_width_max < expected else ""
        yield Finding(f"x{gpu.pcie_width}{slot}", f"x{expected}")


# A bit error rate of 1e-12 at 2.5, 5, 8, 16, 32 and 64 Gb/s, in errors a minute and lane: DCGM's table.
_REPLAYS = (0.15, 0.3, 0.48, 0.96, 1.92, 3.84)


@check("gpu.pcie_replays")
def gpu_pcie_replays(gpu: Gpu, growth: Growth[Gpu]) -> Iterator[Finding]:
    """No GPU's link replays more packets a minute than a sound link of its generation and width, between two
    snapshots."""
    replays = growth.rate("pcie_replays", per=MINUTE)
    if not replays:
        return
    # The fastest that the link may have run at in between: idle, it may have trained down since.
    generation = min(max(gpu.pcie_generation_max, 1), len(_REPLAYS))
    most = math.ceil(_REPLAYS[generation - 1] * gpu.pcie_width)
    if replays > most:
        yield Finding(f"{replays:.0f} replays a minute", f"at most {most} a minute")
