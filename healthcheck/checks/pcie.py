"""PCI Express checks: errors that devices and ports reported between two snapshots, and how the IOMMU treats
devices."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import NotMeasured, and_more, check
from healthcheck.checks.growth import MINUTE, SHORTEST_S, Growth
from healthcheck.facts.pcie import KINDS, Iommu, PcieErrorCount, PcieErrors
from healthcheck.model.outcome import Finding


@check("pcie.aer_fatal")
def pcie_aer_fatal(pcie_errors: PcieErrors, growth: Growth[PcieErrors], *, allow: int) -> Iterator[Finding]:
    """No device and no port above one reported more fatal errors between two snapshots than allowed."""
    for now, before in _pairs(pcie_errors, growth.before):
        if now.fatal - before.fatal > allow:
            yield Finding(f"{now.fatal - before.fatal} fatal errors since the earlier snapshot",
                          f"at most {allow}", now.place)


@check("pcie.aer_nonfatal")
def pcie_aer_nonfatal(
    pcie_errors: PcieErrors, growth: Growth[PcieErrors], *, allow: int,
) -> Iterator[Finding]:
    """No device and no port above one reported more uncorrected errors that are not fatal between two
    snapshots than allowed."""
    for now, before in _pairs(pcie_errors, growth.before):
        if now.nonfatal - before.nonfatal > allow:
            yield Finding(f"{now.nonfatal - before.nonfatal} uncorrected errors since the earlier snapshot",
                          f"at most {allow}", now.place)


@check("pcie.aer_correctable")
def pcie_aer_correctable(
    pcie_errors: PcieErrors, growth: Growth[PcieErrors], *, per_minute: float,
) -> Iterator[Finding]:
    """No device and no port above one corrected errors at a higher rate than allowed between two snapshots
    (over a minute at least)."""
    minutes = max(growth.seconds, SHORTEST_S) / MINUTE
    for now, before in _pairs(pcie_errors, growth.before):
        rate = (now.correctable - before.correctable) / minutes
        if rate > per_minute:
            yield Finding(f"{rate:.4g} corrected errors a minute", f"at most {per_minute:g} a minute",
                          now.place)


def _pairs(errors: PcieErrors, previous: PcieErrors) -> Iterator[tuple[PcieErrorCount, PcieErrorCount]]:
    """Each device now and in the earlier snapshot. Raises NotMeasured at the end if a counter fell (it was
    reset) or a device is new."""
    earlier = {device.address: device for device in previous.devices}
    lost = ""
    for now in errors.devices:
        before = earlier.get(now.address)
        if before is None:
            lost = f"the earlier snapshot has no {now.place}"
        elif any(getattr(now, kind) < getattr(before, kind) for kind in KINDS):
            lost = f"the counters of {now.place} were reset between the two snapshots"
        else:
            yield now, before
    if lost:
        raise NotMeasured(errors, lost)


@check("pcie.iommu")
def pcie_iommu(iommu: Iommu, *, expected: str) -> Iterator[Finding]:
    """The IOMMU, if there is one, does not translate for GPUs and mlx5 adapters."""
    others: dict[str, list[str]] = {}
    for device, kind in iommu.groups:
        if kind != expected:
            others.setdefault(kind, []).append(device)
    for kind, devices in others.items():
        yield Finding(kind, expected, and_more(devices))
