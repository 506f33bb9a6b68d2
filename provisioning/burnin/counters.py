"""Error counters of links and GPUs, as two looks saw them, for the judge to compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from healthcheck.burnin.counters import CounterGrowth
from healthcheck.burnin.model import Participant
from healthcheck.facts.values import UNSUPPORTED, reading
from provisioning.burnin.sample import NodeSample

# A counter's name in the limits of rules/burnin.yaml, and the fields of a fact that add up to it.
OF_GPU = {
    "ecc_uncorrected": "ecc_uncorrected", "remapped_uncorrectable": "rows_uncorrected",
    "pcie_replays": "pcie_replays"}
OF_NVLINK = {
    "nvlink_replays": ("replay",), "nvlink_recoveries": ("recovery",),
    "nvlink_crc_errors": ("crc_flit", "crc_data")}
# What may tell why something is slow, and is held against no limit.
CAUSES_OF_GPU = {
    "ecc_corrected": "ecc_corrected", "remapped_correctable": "rows_corrected",
    **{
        name: name for name in ("slowdown_power_ns", "slowdown_thermal_ns", "slowdown_hw_thermal_ns",
                                "slowdown_hw_power_brake_ns", "slowdown_sw_thermal_ns")}}
CAUSES_OF_NVLINK5 = {
    f"nvlink5_{name}": (name,)
        for name in ("malformed_packets", "buffer_overruns", "rx_errors", "local_integrity_errors",
                     "link_recovery_failed", "link_recovery_events", "effective_errors", "symbol_errors")}
CAUSES_OF_PORT = (
    "rnr_nak_retry_err", "req_transport_retries_exceeded", "req_rnr_retries_exceeded", "port_xmit_wait")
CAUSES = frozenset((*CAUSES_OF_GPU, *CAUSES_OF_NVLINK5, *CAUSES_OF_PORT))
_UNREAD = "unread"

# (subject, counter) -> its value, None where it could not be read
Values = Mapping[tuple[str, str], int | None]


def values(seen: NodeSample, place: Participant, gpus: bool) -> dict[tuple[str, str], int | None]:
    """All counters of a node by subject ("gpu0", "rail2") and name, without what the device does not have.
    With `gpus` a look that sees none has not measured them."""
    return {**(_gpus(seen) if gpus else {}), **_rails(seen, place)}


def compared(
    before: Mapping[str, Values], after: Mapping[str, Values], seconds: float,
) -> tuple[CounterGrowth, ...]:
    """One counter for each node, subject and name that either look has and a limit may hold for."""
    found = []
    for node in before.keys() | after.keys():
        first, last = before.get(node, {}), after.get(node, {})
        found += [
            CounterGrowth(node, subject, name, first.get((subject, name)), last.get((subject, name)), seconds)
                for subject, name in sorted(first.keys() | last.keys()) if name not in CAUSES]
    return tuple(sorted(found, key=lambda one: (one.node, one.subject, one.name)))


def _gpus(seen: NodeSample) -> dict[tuple[str, str], int | None]:
    listed = [gpu for gpu in seen.items("gpus") if isinstance(reading(gpu, "pci"), str)]
    order = {gpu.index: f"gpu{at}" for at, gpu in enumerate(sorted(listed, key=lambda gpu: str(gpu.pci)))}
    found: dict[tuple[str, str], int | None] = {}
    for gpu in listed:
        for name, field in {**OF_GPU, **CAUSES_OF_GPU}.items():
            _put(found, order[gpu.index], name, [reading(gpu, field)])
    links: dict[tuple[str, str], list[Any]] = {}
    for fact, of in (("nvlink_errors", OF_NVLINK), ("nvlink5_errors", CAUSES_OF_NVLINK5)):
        for link in seen.items(fact):
            for name, fields in of.items():
                links.setdefault((order.get(reading(link, "gpu"), _UNREAD), name), []).extend(
                    reading(link, field) for field in fields)
    for (subject, name), parts in links.items():
        _put(found, subject, name, parts)
    if not listed or seen.why("gpus"):
        found["GPUs", "ecc_uncorrected"] = None
    return found


def _rails(seen: NodeSample, place: Participant) -> dict[tuple[str, str], int | None]:
    names = {rail.address: f"rail{rail.number}" for rail in place.rails}
    found: dict[tuple[str, str], list[Any]] = {}
    for subject, name, value in _of_ports(seen):
        if subject in names:
            found.setdefault((names[subject], name), []).append(value)
    summed: dict[tuple[str, str], int | None] = {}
    for (subject, name), parts in found.items():
        _put(summed, subject, name, parts)
    for address, subject in names.items():
        if not any(reading(port, "pci") == address for port in seen.ports):
            summed[subject, "link_downed"] = None
    return summed


def _of_ports(seen: NodeSample) -> Iterator[tuple[str, str, Any]]:
    for port in seen.ports:
        pci = reading(port, "pci")
        if isinstance(pci, str):
            yield pci, "link_downed", reading(port, "link_downed")
    for pci, waits in seen.waits.items():
        yield pci, "port_xmit_wait", waits
    for fact in ("port_fatal_counters", "port_rate_counters", "port_job_counters"):
        for one in seen.items(fact):
            pci, counter = reading(one, "pci"), reading(one, "counter")
            if isinstance(pci, str) and isinstance(counter, str) and " " not in counter:
                yield pci, counter, reading(one, "value")


def _put(found: dict[tuple[str, str], int | None], subject: str, name: str, parts: Iterable[Any]) -> None:
    """The sum of what the device has; None where a part could not be read."""
    parts = [part for part in parts if part is not UNSUPPORTED]
    if parts:
        found[subject, name] = sum(parts) if all(type(part) is int for part in parts) else None
