"""Signals of a node: what two recordings of it, some seconds apart, say of the time between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from healthcheck.facts import counter, edac, gpu, netdev, port
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.values import Fact, Partial, Unmeasured, Unread, reading
from healthcheck.model.probes import Probe, ProbeSet
from healthcheck.model.recording import Recording
from healthcheck.watch.nodeload import LOAD, NodeLoad, load_of
from healthcheck.watch.signals import NodeSignal, SignalKind, gpu_name

_FACTS = ("gpus", "ports", "port_fatal_counters", "port_rate_counters", "netdevs", "memory_parts")
_SECONDS = 20.0
_LEAST_REQUESTS = 20        # of a disk between two samples, for their time to mean anything
_LEAST_SEGMENTS = 200
_THERMAL = ("slowdown_thermal_ns", "slowdown_hw_thermal_ns", "slowdown_sw_thermal_ns")
_BUSY = 20                  # per cent: an idle GPU lowers its clocks and its PCIe link by itself
_LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}   # GB/s a lane, by generation (PCI-SIG)

# The modules whose facts are read; importing them registers the facts.
_MODULES = (counter, edac, gpu, netdev, port)


def probes() -> ProbeSet:
    """What is collected of each node."""
    wanted: list[Probe] = [LOAD]
    for name in _FACTS:
        wanted += FACTS[name].probes
    return ProbeSet.of(dict.fromkeys(wanted), _SECONDS)


def signals_between(before: Recording, after: Recording, host: str = "") -> list[NodeSignal]:
    """The signals of one node; none where it was booted in between or was not reached. `host` is what ranks
    call it, by default the node's name."""
    if before.host is None or after.host is None or before.host.boot_id != after.host.boot_id:
        return []
    seconds = after.host.time - before.host.time
    if seconds <= 0:
        return []
    pair = _Pair(Captures(before), Captures(after), host or after.node, before.received, after.received,
                 seconds)
    found: list[NodeSignal] = []
    for part in (_of_load, _of_gpus, _of_memory, _of_ports, _of_netdevs):
        found += part(pair)
    return found


@dataclass(frozen=True)
class _Pair:
    """Two samples of a node and the seconds between them, by its own clock."""

    before: Captures
    after: Captures
    host: str
    since: float
    until: float
    seconds: float

    def signal(self, kind: SignalKind, value: float, part: str = "",
               gpu: frozenset[str] = frozenset()) -> NodeSignal:
        """A signal of this node over this time."""
        return NodeSignal(self.host, kind, value, self.since, self.until, part, gpu)

    def subjects(self, name: str) -> Iterator[tuple[Any, Any]]:
        """The members of a fact that both samples have, by identity."""
        earlier = {_identity(one): one for one in _built(self.before, name)}
        for one in _built(self.after, name):
            if (identity := _identity(one)) in earlier:
                yield earlier[identity], one


def _built(captures: Captures, name: str) -> tuple[Any, ...]:
    value = build_fact(FACTS[name], captures)
    if isinstance(value, Partial):
        value = value.value
    return () if isinstance(value, Unmeasured) else tuple(value)


def _identity(one: Fact) -> tuple[Any, ...]:
    return tuple(str(reading(one, name)) for name in one.IDENTITY)


def _grown(before: Fact, after: Fact, name: str) -> float | None:
    """The growth of a counter; None where it is not known, or fell."""
    one, other = reading(before, name), reading(after, name)
    if type(one) is not int or type(other) is not int or other < one:
        return None
    return float(other - one)


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


def _of_load(pair: _Pair) -> Iterator[NodeSignal]:
    yield from load_signals(_load(pair.before), _load(pair.after), pair.seconds, pair.signal)


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


def _of_gpus(pair: _Pair) -> Iterator[NodeSignal]:
    for before, after in pair.subjects("gpus"):
        names = _names(after)
        thermal = [grown for name in _THERMAL if (grown := _grown(before, after, name)) is not None]
        if thermal:
            yield pair.signal(SignalKind.THERMAL, max(thermal) / 1e9 / pair.seconds, after.name,
                              names)
        for name, kind in (("slowdown_hw_power_brake_ns", SignalKind.POWER_BRAKE),
                           ("slowdown_power_ns", SignalKind.POWER_CAP)):
            if (grown := _grown(before, after, name)) is not None:
                yield pair.signal(kind, grown / 1e9 / pair.seconds, after.name, names)
        for name, kind in (("ecc_corrected", SignalKind.CORRECTED),
                           ("pcie_replays", SignalKind.PCIE_REPLAYS)):
            if (grown := _grown(before, after, name)) is not None:
                yield pair.signal(kind, grown / pair.seconds, after.name, names)
        used = reading(after, "utilization_percent")
        if type(used) is int and used >= _BUSY:
            yield from _of_busy(pair, after, names)


def _names(gpu: Fact) -> frozenset[str]:
    """What a rank may call this GPU."""
    known = [reading(gpu, name) for name in ("pci", "uuid", "index")]
    return frozenset(gpu_name(str(one)) for one in known if type(one) in (str, int))


def _of_busy(pair: _Pair, gpu: Fact, names: frozenset[str]) -> Iterator[NodeSignal]:
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


def _of_memory(pair: _Pair) -> Iterator[NodeSignal]:
    for before, after in pair.subjects("memory_parts"):
        if (grown := _grown(before, after, "corrected")) is not None:
            yield pair.signal(SignalKind.CORRECTED, grown / pair.seconds, after.name)


def _of_ports(pair: _Pair) -> Iterator[NodeSignal]:
    for before, after in pair.subjects("ports"):
        if (grown := _grown(before, after, "link_downed")) is not None:
            yield pair.signal(SignalKind.LINK_DOWN, grown / pair.seconds, after.name)
    for name in ("port_fatal_counters", "port_rate_counters"):
        for before, after in pair.subjects(name):
            if (grown := _grown(before, after, "value")) is not None:
                yield pair.signal(SignalKind.LINK_ERRORS, grown / pair.seconds, after.name)


def _of_netdevs(pair: _Pair) -> Iterator[NodeSignal]:
    for before, after in pair.subjects("netdevs"):
        if (grown := _grown(before, after, "downs")) is not None:
            yield pair.signal(SignalKind.LINK_DOWN, grown / pair.seconds, after.name)
        errors = [grown for name in ("rx_errors", "tx_errors")
                  if (grown := _grown(before, after, name)) is not None]
        if errors:
            yield pair.signal(SignalKind.LINK_ERRORS, sum(errors) / pair.seconds, after.name)
