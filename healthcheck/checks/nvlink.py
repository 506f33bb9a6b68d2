"""NVLink checks: that all links are there, up, fast and sound, and that the GPUs of a node reach each other over them.

One link of eighteen that is lost is a fault: collectives run at the pace of the slowest pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from healthcheck.checks.base import NotJudged, NotMeasured, check
from healthcheck.checks.trend import rate
from healthcheck.facts.look import Look
from healthcheck.facts.nvlink import ALONE, GpuLinks, GpuPair, NvLink, NvLink5Errors, NvLinkErrors
from healthcheck.model.outcome import Finding

E = TypeVar("E", NvLinkErrors, NvLink5Errors)


@check("nvlink.count")
def nvlink_count(gpu_links: tuple[GpuLinks, ...], *, expected: int) -> Iterator[Finding]:
    """Every GPU has as many NVLinks as the SKU says, up or not; one that was never trained is not listed at all."""
    for gpu in gpu_links if expected else ():
        if gpu.links != expected:
            yield Finding(gpu.name, f"{gpu.links} NVLinks", expected)


@check("nvlink.active")
def nvlink_active(nvlinks: tuple[NvLink, ...], *, expected: int) -> Iterator[Finding]:
    """Every NVLink of a SKU that has some is up."""
    for link in nvlinks if expected else ():
        if not link.active:
            yield Finding(link.name, "inactive", "active")


@check("nvlink.speed")
def nvlink_speed(nvlinks: tuple[NvLink, ...], *, at_least_gigabytes: float) -> Iterator[Finding]:
    """Every active NVLink runs at the SKU's speed (of one direction); one that is down is named by nvlink.active alone."""
    active = [link for link in nvlinks if link.active]
    if not active and at_least_gigabytes:
        raise NotMeasured(None, "no NVLink is active, so none shows its speed")
    for link in active:
        if link.gigabytes_per_second < at_least_gigabytes:
            yield Finding(link.name, f"{link.gigabytes_per_second:g} GB/s", f"at least {at_least_gigabytes:g} GB/s")


def _with_earlier(links: Iterable[E], previous: Iterable[E]) -> Iterator[tuple[E, E]]:
    """Each link's counters with their earlier selves; where this generation of links has none, the earlier ones are not asked for."""
    now = {(link.gpu, link.link): link for link in links}
    before = {(link.gpu, link.link): link for link in previous} if now else {}
    for end, link in now.items():
        earlier = before.get(end)
        if earlier is None:
            raise NotMeasured(link, "the earlier look has no such link")
        yield link, earlier


def _storms(link: E, earlier: E, looks: tuple[Look, Look], counters: Iterable[str], at_least_per_minute: float) -> Iterator[Finding]:
    for counter in counters:
        if (events := rate(link, earlier, counter, looks, per=60)) >= at_least_per_minute:
            yield Finding(link.name, f"{counter}: {events:.1f} a minute", f"fewer than {at_least_per_minute:g} a minute")


def _crc(link: NvLinkErrors, earlier: NvLinkErrors, looks: tuple[Look, Look], counter: str, crc_per_second: float) -> Iterator[Finding]:
    if (errors := rate(link, earlier, counter, looks, per=1)) >= crc_per_second:
        yield Finding(link.name, f"{counter}: {errors:.1f} a second", f"fewer than {crc_per_second:g} a second")


@check("nvlink.errors")
def nvlink_errors(
    nvlink_errors: tuple[NvLinkErrors, ...], previous_nvlink_errors: tuple[NvLinkErrors, ...], look: Look, previous_look: Look, *,
    crc_per_second: float, events_per_minute: float,
) -> Iterator[Finding]:
    """No NVLink (to its fourth generation) has CRC errors, replays or recoveries at these rates or above, from one look to the next.

    Some CRC errors are the nature of such links. Those in data are nvlink.crc_data's to judge; those that the link's ECC corrected are
    not judged: not every generation counts them, and none is known to act on them.
    """
    for link, earlier in _with_earlier(nvlink_errors, previous_nvlink_errors):
        if link.crc_flit == earlier.crc_flit and link.replay == earlier.replay and link.recovery == earlier.recovery:
            continue
        yield from _crc(link, earlier, (look, previous_look), "crc_flit", crc_per_second)
        yield from _storms(link, earlier, (look, previous_look), ("replay", "recovery"), events_per_minute)


@check("nvlink.crc_data")
def nvlink_crc_data(
    nvlink_errors: tuple[NvLinkErrors, ...], previous_nvlink_errors: tuple[NvLinkErrors, ...], look: Look, previous_look: Look, *,
    crc_per_second: float,
) -> Iterator[Finding]:
    """No NVLink (to its fourth generation) has CRC errors in data at this rate or above, from one look to the next.

    A check of its own, because generations that count all the others do not count these: what they lack must not leave the rest unjudged.
    """
    for link, earlier in _with_earlier(nvlink_errors, previous_nvlink_errors):
        if link.crc_data != earlier.crc_data:
            yield from _crc(link, earlier, (look, previous_look), "crc_data", crc_per_second)


# Those that DCGM's health watch fails at one a minute.
_FIFTH = ("malformed_packets", "buffer_overruns", "rx_errors", "local_integrity_errors", "link_recovery_failed", "link_recovery_events",
          "effective_errors", "symbol_errors")


@check("nvlink5.errors")
def nvlink5_errors(
    nvlink5_errors: tuple[NvLink5Errors, ...], previous_nvlink5_errors: tuple[NvLink5Errors, ...], look: Look, previous_look: Look, *,
    events_per_minute: float,
) -> Iterator[Finding]:
    """No NVLink of the fifth generation has errors or recoveries at this rate or above, from one look to the next."""
    for link, earlier in _with_earlier(nvlink5_errors, previous_nvlink5_errors):
        yield from _storms(link, earlier, (look, previous_look), _FIFTH, events_per_minute)


@check("nvlink5.ber")
def nvlink5_ber(nvlink5_errors: tuple[NvLink5Errors, ...], *, at_most: float) -> Iterator[Finding]:
    """No NVLink of the fifth generation has more errors a bit, after correction, than allowed."""
    for link in nvlink5_errors:
        if link.effective_ber > at_most:
            yield Finding(link.name, f"effective bit error ratio {link.effective_ber:.1e}", f"at most {at_most:.1e}")


@check("nvlink.p2p")
def nvlink_p2p(gpu_pairs: tuple[GpuPair, ...], *, expected: bool) -> Iterator[Finding]:
    """Where the SKU's GPUs share an NVLink fabric, every GPU may read and write the memory of every other one over NVLink."""
    for pair in gpu_pairs if expected else ():
        if pair.read == ALONE:
            raise NotJudged("a GPU that is alone has no other one to reach")
        if not pair.read == pair.write == pair.nvlink == "ok":
            yield Finding(pair.name, f"read {pair.read}, write {pair.write}, NVLink {pair.nvlink}", "ok, ok, ok")
