"""Signals of a node: what two samples of it, some seconds apart, say of the time between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from healthcheck.checks import catalogue  # noqa: F401  (registers all facts)
from healthcheck.checks.gpu_power import HW_POWER_BRAKE, HW_THERMAL, SW_POWER_CAP, SW_THERMAL
from healthcheck.facts import edac, gpu
from healthcheck.facts.base import FACTS, Captures
from healthcheck.facts.cache import FactCache
from healthcheck.facts.values import Fact, Unread, reading
from healthcheck.model.probes import Probe, ProbeSet
from healthcheck.model.recording import Recording
from healthcheck.watch import linksignals
from healthcheck.watch.nodeload import LOAD, NodeLoad, load_of
from healthcheck.watch.samples import SamplePair, WatchSample, grown_by, sample_of
from healthcheck.watch.signals import NodeSignal, SignalKind, gpu_name

_FACTS = ("gpus", "memory_parts", *linksignals.FACTS)
_SECONDS = 20.0
_LEAST_REQUESTS = 20        # of a disk between two samples, for their time to mean anything
_LEAST_SEGMENTS = 200
_THERMAL = ("slowdown_thermal_ns", "slowdown_hw_thermal_ns", "slowdown_sw_thermal_ns")
_POWER = (("slowdown_hw_power_brake_ns", SignalKind.POWER_BRAKE),
          ("slowdown_power_ns", SignalKind.POWER_CAP))
_HEAT_REASONS, _POWER_REASONS = SW_THERMAL | HW_THERMAL, SW_POWER_CAP | HW_POWER_BRAKE
_BUSY = 20                  # per cent: an idle GPU lowers its clocks and its PCIe link by itself
_LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}   # GB/s a lane, by generation (PCI-SIG)

# The modules whose facts are read; importing them registers the facts.
_MODULES = (edac, gpu)


def probes() -> ProbeSet:
    """What is collected of each node."""
    wanted: list[Probe] = [LOAD]
    for name in _FACTS:
        wanted += FACTS[name].probes
    return ProbeSet.of(dict.fromkeys(wanted), _SECONDS)


def sampled(recording: Recording, cache: FactCache | None = None) -> WatchSample | None:
    """What is kept of a recording until the next; None where the node was not reached. Nodes share equal
    facts by way of the cache."""
    if recording.host is None:
        return None
    captures = Captures(recording, cache)
    return sample_of(recording, recording.host, _load(captures), captures, _FACTS)


def signals_between(before: WatchSample, after: WatchSample, host: str = "") -> list[NodeSignal]:
    """The signals of one node, called `host` by ranks; none where it was booted in between."""
    if before.boot != after.boot or after.time <= before.time:
        return []
    pair = SamplePair(before, after, host or after.node)
    return [*load_signals(before.load, after.load, pair.seconds, pair.signal), *_of_gpus(pair),
            *_of_memory(pair), *linksignals.of_links(pair)]


def _load(captures: Captures) -> NodeLoad:
    try:
        files = captures.files(LOAD)
    except Unread:
        return NodeLoad()

    def text(path: str) -> str | None:
        try:
            return files.text(path)
        except Unread:
            return None

    return load_of(files, text)


def load_signals(before: NodeLoad, after: NodeLoad, seconds: float,
                 signal: Callable[..., NodeSignal]) -> Iterator[NodeSignal]:
    """The signals of a node's load over so many seconds; `signal` makes one of a kind, a value and a part."""
    for name, kind in (("memory", SignalKind.MEMORY_PRESSURE), ("cpu", SignalKind.CPU_PRESSURE),
                       ("io", SignalKind.IO_PRESSURE)):
        if (value := _rate(before.pressure_s, after.pressure_s, name, seconds)) is not None:
            yield signal(kind, value)
    if before.cpu is not None and after.cpu is not None and after.cpu > before.cpu \
            and before.steal is not None and after.steal is not None and after.steal >= before.steal:
        yield signal(SignalKind.CPU_STEAL, (after.steal - before.steal) / (after.cpu - before.cpu))
    if before.swapped_in is not None and after.swapped_in is not None \
            and after.swapped_in >= before.swapped_in:
        yield signal(SignalKind.SWAPPING, (after.swapped_in - before.swapped_in) / seconds)
    for name, (requests, spent) in after.disks.items():
        earlier = before.disks.get(name, (0, 0.0))
        if name in before.disks and requests - earlier[0] >= _LEAST_REQUESTS and spent >= earlier[1]:
            yield signal(SignalKind.DISK_LATENCY, (spent - earlier[1]) / (requests - earlier[0]), name)
    if None not in (before.sent, after.sent, before.sent_again, after.sent_again):
        sent = (after.sent or 0) - (before.sent or 0)
        again = (after.sent_again or 0) - (before.sent_again or 0)
        if sent >= _LEAST_SEGMENTS and again >= 0:
            yield signal(SignalKind.RETRANSMITS, again / sent)
    quotas = [value for path in after.throttled_s
              if (value := _rate(before.throttled_s, after.throttled_s, path, seconds)) is not None]
    if quotas:
        yield signal(SignalKind.CPU_QUOTA, max(quotas))


def _rate(before: Mapping[str, float], after: Mapping[str, float], name: str, seconds: float) -> float | None:
    if name not in before or name not in after or after[name] < before[name]:
        return None
    return (after[name] - before[name]) / seconds


def _of_gpus(pair: SamplePair) -> Iterator[NodeSignal]:
    for before, after in pair.subjects("gpus"):
        names = _names(after)
        heat = _heat(after)
        thermal = [grown for name in _THERMAL if (grown := grown_by(before, after, name)) is not None]
        if thermal:
            yield pair.signal(SignalKind.THERMAL, max(thermal) / 1e9 / pair.seconds, after.name, names, heat)
        elif (seen := _seen(before, after, _HEAT_REASONS)) is not None:
            yield pair.signal(SignalKind.THERMAL_SEEN, seen, after.name, names, heat)
        power = [(kind, grown) for name, kind in _POWER
                 if (grown := grown_by(before, after, name)) is not None]
        for kind, grown in power:
            yield pair.signal(kind, grown / 1e9 / pair.seconds, after.name, names)
        if not power and (seen := _seen(before, after, _POWER_REASONS)) is not None:
            yield pair.signal(SignalKind.POWER_SEEN, seen, after.name, names)
        for name, kind in (("ecc_corrected", SignalKind.CORRECTED),
                           ("pcie_replays", SignalKind.PCIE_REPLAYS)):
            if (grown := grown_by(before, after, name)) is not None:
                yield pair.signal(kind, grown / pair.seconds, after.name, names)
        used = reading(after, "utilization_percent")
        if type(used) is int and used >= _BUSY:
            yield from _of_busy(pair, after, names)


def _seen(before: Fact, after: Fact, bits: int) -> float | None:
    """The share of the two samples that saw such a reason, of a GPU or driver without counters of time."""
    reasons = [reading(one, "clock_reasons") for one in (before, after)]
    if not all(type(one) is int for one in reasons):
        return None
    return sum(bool(one & bits) for one in reasons) / len(reasons)


def _heat(gpu: Fact) -> str:
    """How hot it is, in words; empty where that is not measured."""
    degrees = reading(gpu, "temperature_c")
    return f"at {degrees} degrees C" if type(degrees) is int else ""


def _names(gpu: Fact) -> frozenset[str]:
    """What a rank may call this GPU."""
    known = [reading(gpu, name) for name in ("pci", "uuid", "index")]
    return frozenset(gpu_name(str(one)) for one in known if type(one) in (str, int))


def _of_busy(pair: SamplePair, gpu: Fact, names: frozenset[str]) -> Iterator[NodeSignal]:
    clock, most = reading(gpu, "clock_sm_mhz"), reading(gpu, "clock_sm_max_mhz")
    if type(clock) is int and type(most) is int and 0 < clock <= most:
        yield pair.signal(SignalKind.CLOCKS, 1 - clock / most, gpu.name, names)
    now = _bandwidth(gpu, "pcie_generation", "pcie_width")
    best = _bandwidth(gpu, "pcie_generation_max", "pcie_width_max")
    if now and best:
        yield pair.signal(SignalKind.PCIE, max(0.0, 1 - now / best), gpu.name, names)


def _bandwidth(gpu: Fact, generation: str, width: str) -> float | None:
    number, lanes = reading(gpu, generation), reading(gpu, width)
    return _LANE[number] * lanes if type(number) is int and number in _LANE and type(lanes) is int else None


def _of_memory(pair: SamplePair) -> Iterator[NodeSignal]:
    for before, after in pair.subjects("memory_parts"):
        if (grown := grown_by(before, after, "corrected")) is not None:
            yield pair.signal(SignalKind.CORRECTED, grown / pair.seconds, after.name)
