"""One passive sample of the nodes: their ports and interfaces, and the error counters of links and GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from healthcheck.collector import program, reply
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.counter import COUNTERS
from healthcheck.facts.netdev import NetDev
from healthcheck.facts.port import BASE, Port
from healthcheck.facts.roce import ROCE
from healthcheck.facts.values import Partial, Unmeasured, reading
from healthcheck.model.probes import ProbeSet
from healthcheck.model.recording import Recording
from healthcheck.ruleset import plugins
from inventory.model import Node
from inventory.transport.base import Limits, Transport

SECONDS = 45.0      # of the collector; the NVML reader has 40 s at most
_FACTS = ("ports", "netdevs", "roce_ports", "port_fatal_counters", "port_rate_counters", "port_job_counters",
          "gpus", "nvlink_errors", "nvlink5_errors")
_GIDS = 8


@dataclass(frozen=True)
class NodeSample:
    """What a look at one node brought: its facts by name, which GID of a port can be routed, and when it was;
    or why there is nothing. `waits` is by PCI address of a port how often it had to wait to send (None: not
    read)."""

    facts: Mapping[str, Any]
    gids: Mapping[tuple[str, int], int]
    at: float
    trouble: str = ""
    waits: Mapping[str, int | None] = field(default_factory=dict)

    def items(self, fact: str) -> tuple[Any, ...]:
        """What was measured of a fact that is a collection."""
        found = self.facts.get(fact)
        found = found.value if isinstance(found, Partial) else found
        return found if isinstance(found, tuple) else ()

    def why(self, fact: str) -> str:
        """Why a fact is not whole; "" where it is."""
        found = self.facts.get(fact)
        return found.reason if isinstance(found, (Unmeasured, Partial)) else self.trouble

    @property
    def ports(self) -> tuple[Port, ...]:
        """The RDMA ports."""
        return self.items("ports")

    @property
    def netdevs(self) -> tuple[NetDev, ...]:
        """The Ethernet interfaces."""
        return self.items("netdevs")


def sample(nodes: Sequence[Node], transport: Transport, bounds: Limits) -> dict[str, NodeSample]:
    """By node what is seen now; every node is in it."""
    plugins.load()
    probes = ProbeSet.of([probe for name in _FACTS for probe in FACTS[name].probes], SECONDS)
    found = {}
    for answer in transport.run(nodes, program.build(probes), bounds) if nodes else ():
        recording = reply.within(reply.decode(answer, limit=bounds.reply_bytes), probes)
        found[answer.node] = seen(recording)
    return {node.name: found.get(node.name, NodeSample({}, {}, 0.0, "it was not checked")) for node in nodes}


def seen(recording: Recording) -> NodeSample:
    """What a recording of such a look holds."""
    if recording.failure is not None or recording.host is None:
        failure = recording.failure
        return NodeSample(
            {}, {}, recording.received,
            f"{failure.stage.value}: {failure.reason}" if failure is not None else "it was not reached")
    captures = Captures(recording)
    facts = {name: build_fact(FACTS[name], captures) for name in _FACTS}
    ports = facts["ports"].value if isinstance(facts["ports"], Partial) else facts["ports"]
    if not isinstance(ports, tuple):
        return NodeSample(facts, {}, recording.received)
    return NodeSample(
        facts, dict(_gids(captures, ports)), recording.received, waits=dict(_waits(captures, ports)))


def _waits(captures: Captures, ports: Iterable[Port]) -> Iterator[tuple[str, int | None]]:
    """Of each port whose driver counts them (Documentation/ABI/stable/sysfs-class-infiniband)."""
    capture = captures.capture(COUNTERS)
    files = capture.files if capture is not None else {}
    for port in ports:
        device, pci = reading(port, "device"), reading(port, "pci")
        entry = files.get(f"{BASE}/{device}/ports/{port.number}/counters/port_xmit_wait") if isinstance(
            device, str) else None
        if entry is not None and isinstance(pci, str):
            message = _line(entry)
            yield pci, int(message) if message.isdecimal() and len(message) < 20 else None


def _gids(captures: Captures, ports: Iterable[Port]) -> Iterator[tuple[tuple[str, int], int]]:
    """The first GID of each port that is of RoCE v2 and holds an IPv4 address (mapped, ::ffff:a.b.c.d) or one
    of a global IPv6 network, not fe80: (Documentation/ABI/testing/sysfs-class-infiniband,
    gid_attrs/types)."""
    capture = captures.capture(ROCE)
    files = capture.files if capture is not None else {}
    for port in ports:
        if not isinstance(reading(port, "device"), str) or type(reading(port, "number")) is not int:
            continue
        at = f"{BASE}/{port.device}/ports/{port.number}"
        for index in range(_GIDS):
            kind, gid = (
                _line(files.get(path)) for path in (f"{at}/gid_attrs/types/{index}", f"{at}/gids/{index}"))
            if kind == "RoCE v2" and gid.strip("0:") and not gid.lower().startswith("fe80:"):
                yield (port.device, port.number), index
                break


def _line(entry: Any) -> str:
    text = getattr(entry, "text", "")
    return text.strip() if isinstance(text, str) else ""
