"""NVLink checks: all links are present, up, fast and free of errors, and the GPUs of a node reach each other
over them.

A single lost link is a fault: collectives run at the speed of the slowest pair.
"""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import NotJudged, NotMeasured, Peers, check
from healthcheck.checks.growth import MINUTE, SECOND, Growth
from healthcheck.facts.nvlink import ALONE, GpuLinks, GpuPair, NvLink, NvLink5Errors, NvLinkErrors
from healthcheck.model.outcome import Finding


@check("nvlink.count")
def nvlink_count(gpu_link: GpuLinks, *, expected: int) -> Iterator[Finding]:
    """Every GPU has as many NVLinks as the SKU says, up or not; one that was never trained is not listed at
    all."""
    if expected and gpu_link.links != expected:
        yield Finding(f"{gpu_link.links} NVLinks", expected)


@check("nvlink.active")
def nvlink_active(nvlink: NvLink, *, expected: int) -> Iterator[Finding]:
    """Every NVLink of a SKU that has some is up."""
    if expected and not nvlink.active:
        yield Finding("inactive", "active")


@check("nvlink.speed")
def nvlink_speed(nvlinks: Peers[NvLink], *, at_least_gigabytes: float) -> Iterator[Finding]:
    """Every active NVLink runs at the SKU's speed (of one direction); one that is down is named by
    nvlink.active alone."""
    active = nvlinks.where(lambda link: link.active)
    if not len(active) and at_least_gigabytes:
        raise NotMeasured(None, "no NVLink is active, so none shows its speed")
    for link, speed in active.read(lambda link: link.gigabytes_per_second):
        if speed < at_least_gigabytes:
            yield Finding(f"{speed:g} GB/s", f"at least {at_least_gigabytes:g} GB/s", link.name)


@check("nvlink.errors")
def nvlink_errors(
    nvlink_counters: NvLinkErrors, growth: Growth[NvLinkErrors], *,
    crc_per_second: float, events_per_minute: float,
) -> Iterator[Finding]:
    """No NVLink (to its fourth generation) has CRC errors, replays or recoveries at these rates or above
    between two snapshots.

    Such links always have some CRC errors. nvlink.crc_data judges those in data. Those that the link's ECC
    corrected are not judged: not every generation counts them, and no tool is known to act on them.
    """
    if (errors := growth.rate("crc_flit", per=SECOND)) and errors >= crc_per_second:
        yield _fast("crc_flit", errors, crc_per_second, "second")
    for counter in ("replay", "recovery"):
        if (events := growth.rate(counter, per=MINUTE)) and events >= events_per_minute:
            yield _fast(counter, events, events_per_minute, "minute")


@check("nvlink.crc_data")
def nvlink_crc_data(
    nvlink_counters: NvLinkErrors, growth: Growth[NvLinkErrors], *, crc_per_second: float,
) -> Iterator[Finding]:
    """No NVLink (to its fourth generation) has CRC errors in data at this rate or above between two
    snapshots.

    A check of its own, because some generations count all others but not these, and that must not leave the
    others unjudged.
    """
    if (errors := growth.rate("crc_data", per=SECOND)) and errors >= crc_per_second:
        yield _fast("crc_data", errors, crc_per_second, "second")


def _fast(counter: str, rate: float, most: float, unit: str) -> Finding:
    return Finding(f"{counter}: {rate:.1f} a {unit}", f"fewer than {most:g} a {unit}")


# Those that DCGM's health watch fails at one a minute.
_FIFTH = ("malformed_packets", "buffer_overruns", "rx_errors", "local_integrity_errors",
          "link_recovery_failed", "link_recovery_events", "effective_errors", "symbol_errors")


@check("nvlink5.errors")
def nvlink5_errors(
    nvlink5_counters: NvLink5Errors, growth: Growth[NvLink5Errors], *, events_per_minute: float,
) -> Iterator[Finding]:
    """No NVLink of the fifth generation has errors or recoveries at this rate or above between two
    snapshots."""
    for counter in _FIFTH:
        if (events := growth.rate(counter, per=MINUTE)) and events >= events_per_minute:
            yield _fast(counter, events, events_per_minute, "minute")


@check("nvlink5.ber")
def nvlink5_ber(nvlink5_counters: NvLink5Errors, *, at_most: float) -> Iterator[Finding]:
    """No NVLink of the fifth generation has more errors a bit, after correction, than allowed."""
    ratio = nvlink5_counters.effective_ber
    if ratio > at_most:
        yield Finding(f"effective bit error ratio {ratio:.1e}", f"at most {at_most:.1e}")


@check("nvlink.p2p")
def nvlink_p2p(gpu_pair: GpuPair, *, expected: bool) -> Iterator[Finding]:
    """Where the SKU's GPUs share an NVLink fabric, every GPU may read and write the memory of every other one
    over NVLink."""
    if not expected:
        return
    if gpu_pair.read == ALONE:
        raise NotJudged("the node's single GPU has no other one to reach")
    if not gpu_pair.read == gpu_pair.write == gpu_pair.nvlink == "ok":
        yield Finding(f"read {gpu_pair.read}, write {gpu_pair.write}, NVLink {gpu_pair.nvlink}", "ok, ok, ok")
