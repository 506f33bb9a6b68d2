"""GPU checks."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.gpu import Gpu, GpuPresence
from healthcheck.outcome import Finding


@check("gpu.count")
def gpu_count(gpu_presence: GpuPresence, *, expected: int) -> Iterator[Finding]:
    """The PCI bus holds, and the driver lists, as many GPUs as the SKU has.

    A GPU that is on the bus but not listed is the driver's loss; one that is not on the bus did not enumerate.
    """
    if gpu_presence.on_pci != expected:
        yield Finding("GPUs on PCI", gpu_presence.on_pci, expected)
    if gpu_presence.listed != expected:
        yield Finding("GPUs listed by the driver", gpu_presence.listed, expected)


@check("gpu.answers")
def gpu_answers(gpus: tuple[Gpu, ...]) -> Iterator[Finding]:
    """Every GPU that the driver lists answers it; a lost one is listed still, so counting does not find it."""
    for gpu in gpus:
        if not gpu.answers:
            yield Finding(gpu.name, gpu.trouble, "an answer")


@check("gpu.ecc_enabled")
def gpu_ecc_enabled(gpus: tuple[Gpu, ...], *, expected: bool) -> Iterator[Finding]:
    """Every GPU has ECC as the SKU says: with ECC off, memory errors are neither corrected nor counted."""
    for gpu in gpus:
        if gpu.ecc_enabled != expected:
            yield Finding(gpu.name, "ECC is off" if expected else "ECC is on", "on" if expected else "off")


@check("gpu.ecc_uncorrected")
def gpu_ecc_uncorrected(gpus: tuple[Gpu, ...], *, allow: int) -> Iterator[Finding]:
    """No GPU has met more uncorrectable memory errors than allowed since its driver was loaded."""
    for gpu in gpus:
        if gpu.ecc_uncorrected > allow:
            yield Finding(gpu.name, gpu.ecc_uncorrected, f"at most {allow}")
