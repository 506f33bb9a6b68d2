"""Signals of a node's links: RDMA ports, Ethernet interfaces, NVLinks, and the PCI Express links of adapters.

A link that came back at a lower speed counts no errors. Its speed is compared with its own in the sample
before, and with the fastest of its kind on the node: no one says what is right for it, so what was so before
the job was slow, or is so on the other nodes, explains nothing (`healthcheck.watch.causes`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from healthcheck.facts import counter, hca, netdev, nvlink, port
from healthcheck.facts.values import reading
from healthcheck.watch.samples import SamplePair, grown_by
from healthcheck.watch.signals import NodeSignal, SignalKind

FACTS = ("ports", "port_fatal_counters", "port_rate_counters", "netdevs", "hcas", "nvlink_errors",
         "nvlink5_errors")
# The modules whose facts are read; importing them registers the facts.
_MODULES = (counter, hca, netdev, nvlink, port)
# Of these a link has few or none; CRC errors, which it corrects by itself, come on healthy ones.
_NVLINK = (("nvlink_errors", ("replay", "recovery")), ("nvlink5_errors", ("link_recovery_events",)))
# Counters of the transport, and those that are like them: the sender counts what was lost anywhere.
_OF_PATHS = {"local_ack_timeout_err", "roce_slow_restart", "sequence_errors"}


def of_links(pair: SamplePair) -> Iterator[NodeSignal]:
    """All of them."""
    yield from _downs(pair, "ports", "link_downed")
    yield from _downs(pair, "netdevs", "downs")
    yield from _errors(pair)
    yield from _speeds(pair, "ports", _port_speed)
    yield from _speeds(pair, "netdevs", _netdev_speed)
    yield from _adapters(pair)


def _downs(pair: SamplePair, fact: str, name: str) -> Iterator[NodeSignal]:
    for before, after in pair.subjects(fact):
        if (grown := grown_by(before, after, name)) is not None:
            yield pair.signal(SignalKind.LINK_DOWN, grown / pair.seconds, after.name)


def _errors(pair: SamplePair) -> Iterator[NodeSignal]:
    """Of each port, interface and GPU what grew most."""
    most: dict[tuple[SignalKind, str], tuple[float, str]] = {}

    def counted(kind: SignalKind, device: str, grown: float | None, by: str) -> None:
        if grown is not None and grown > most.get((kind, device), (-1.0, ""))[0]:
            most[kind, device] = grown, by

    for fact in ("port_fatal_counters", "port_rate_counters"):
        for before, after in pair.subjects(fact):
            device, kind = after.name.removesuffix(f" {after.counter}"), _kind(after.counter)
            counted(kind, device, grown_by(before, after, "value"), f"by {after.counter}")
    for before, after in pair.subjects("netdevs"):
        for name in ("rx_errors", "tx_errors"):
            counted(SignalKind.LINK_ERRORS, after.name, grown_by(before, after, name), f"by {name}")
    for fact, names in _NVLINK:
        for before, after in pair.subjects(fact):
            number, link = reading(after, "gpu"), reading(after, "link")
            for name in names:
                counted(SignalKind.NVLINK_ERRORS, f"GPU {number}", grown_by(before, after, name),
                        f"by {name} of NVLink {link}")
    for (kind, device), (grown, by) in most.items():
        yield pair.signal(kind, grown / pair.seconds, device, beside=by)


def _kind(name: str) -> SignalKind:
    """What a port's counter speaks of: its link, or a connection's whole way."""
    spec = counter.BY_NAME.get(name)
    of_path = spec is not None and {spec.name, spec.like} & _OF_PATHS
    return SignalKind.REPEATS if of_path else SignalKind.LINK_ERRORS


def _port_speed(one: Any) -> tuple[str, float] | None:
    """A port's kind (or itself, where that is not known) and its speed in Gbit/s, 0 where it is not up; None
    where that is not measured."""
    kind, state, rate = (reading(one, name) for name in ("kind", "state", "rate_gbps"))
    if type(kind) is not str or type(state) is not str or type(rate) is not float or reading(one, "virtual"):
        return None
    return kind or reading(one, "device"), rate if state == "ACTIVE" else 0.0


def _netdev_speed(one: Any) -> tuple[str, float] | None:
    """The same of an interface that was set up."""
    kind, link, mbps = (reading(one, name) for name in ("kind", "link", "mbps"))
    if reading(one, "up") is not True or type(kind) is not str or type(link) is not bool:
        return None
    if not link:
        return kind, 0.0
    return (kind, mbps / 1000) if type(mbps) is int and mbps > 0 else None


def _speeds(pair: SamplePair, fact: str,
            speed: Callable[[Any], tuple[str, float] | None]) -> Iterator[NodeSignal]:
    seen = [(after.name, speed(before), speed(after)) for before, after in pair.subjects(fact)]
    best: dict[str, float] = defaultdict(float)
    for _, _, now in seen:
        if now is not None:
            best[now[0]] = max(best[now[0]], now[1])
    for name, then, now in seen:
        if now is None:
            continue
        usual = max(best[now[0]], then[1] if then is not None else 0.0)
        if usual > 0:
            yield pair.signal(SignalKind.LINK_SPEED, 1 - now[1] / usual, name)


def _adapters(pair: SamplePair) -> Iterator[NodeSignal]:
    for _, after in pair.subjects("hcas"):
        values = [reading(after, name) for name in ("width", "gigatransfers", "width_best",
                                                    "gigatransfers_best")]
        if all(type(one) in (int, float) and one > 0 for one in values):
            width, speed, most_width, most_speed = values
            missing = max(0.0, 1 - width * speed / (most_width * most_speed))
            yield pair.signal(SignalKind.ADAPTER_PCIE, missing, after.name)
