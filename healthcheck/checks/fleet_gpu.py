"""Fleet checks of GPUs: what boards of one SKU must have in common, by majority."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from healthcheck.checks.base import fleet_check
from healthcheck.checks.fleet import Comparison, odd_ones, rows
from healthcheck.facts.gpu import Gpu

Fleet = Mapping[str, tuple[Gpu, ...]]


def _odd(gpus: Fleet, read: Callable[[Gpu], str], what: str) -> Comparison:
    yield from odd_ones(rows(gpus, read), what, "GPUs")


@fleet_check("fleet.gpu_model", reads=("model",))
def fleet_gpu_model(gpus: Fleet) -> Comparison:
    """Every GPU is of the model that most GPUs of the cohort are."""
    yield from _odd(gpus, lambda gpu: gpu.model, "model")


@fleet_check("fleet.vbios", reads=("vbios",))
def fleet_vbios(gpus: Fleet) -> Comparison:
    """Every GPU has the VBIOS that most GPUs of the cohort have."""
    yield from _odd(gpus, lambda gpu: gpu.vbios, "VBIOS")


@fleet_check("fleet.gsp", reads=("gsp_firmware",))
def fleet_gsp(gpus: Fleet) -> Comparison:
    """Every GPU's system processor runs the firmware that most run; it comes with the driver, so another
    means a half-changed driver."""
    yield from _odd(gpus, lambda gpu: gpu.gsp_firmware, "GSP firmware")


@fleet_check("fleet.inforom", reads=("inforom",))
def fleet_inforom(gpus: Fleet) -> Comparison:
    """Every GPU has the InfoROM image that most GPUs of the cohort have."""
    yield from _odd(gpus, lambda gpu: gpu.inforom, "InfoROM image")


@fleet_check("fleet.board", reads=("part_number",))
def fleet_board(gpus: Fleet) -> Comparison:
    """Every GPU is on a board of the part number that most have; a board that was exchanged may be of another
    revision."""
    yield from _odd(gpus, lambda gpu: gpu.part_number, "board part number")


@fleet_check("fleet.pcie", reads=("pcie_width", "pcie_generation_max"))
def fleet_pcie(gpus: Fleet) -> Comparison:
    """Every GPU's PCI Express link is as wide, and could be as fast, as those of most GPUs of the cohort.

    The generation is the highest that GPU and slot support: the present one falls when a GPU is idle.
    """
    yield from _odd(gpus, lambda gpu: f"x{gpu.pcie_width}, up to generation {gpu.pcie_generation_max}",
                    "PCI Express link")
