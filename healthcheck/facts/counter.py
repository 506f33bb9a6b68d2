"""Counters of RDMA ports from sysfs, and the table of their kinds, widths and meanings.

What they count: Documentation/ABI/stable/sysfs-class-infiniband for `counters`,
drivers/infiniband/hw/mlx5/counters.c and NVIDIA's list of mlx5 counters for `hw_counters`. Widths are those
of the PortCounters attribute as the kernel reads it (drivers/infiniband/core/sysfs.c); such a counter stays
at its highest value until it is reset (perfquery -R), those of `hw_counters` start again at 0. Kernels that
read the extended attribute exceed these widths. Without a performance agent, old kernels write "N/A (no
PMA)".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.parsing import whole
from healthcheck.facts.port import BASE, SYSFS, Port, pci_of, ports
from healthcheck.facts.values import UNSUPPORTED, Fact, Partial, partial_if
from healthcheck.model.probes import MIB, Probe, ProbeKind


class GrowthMeaning(Enum):
    """What growth of a counter means."""

    FATAL = "fatal"                     # each one is data lost, or a link that cannot hold its data
    RATE = "rate"                       # links have some; more than a rule's limit is a fault
    JOB = "job"                         # a connection had trouble, at either end
    INFORMATIONAL = "informational"     # normal under load; read for saved sweeps, and not judged


@dataclass(frozen=True)
class CounterSpec:
    """One counter: its name and folder in sysfs, what growth means, its width in bits (0: no limit that
    matters).

    `per` is the unit of the rules' limits, in seconds. `source` says who judges it so.
    """

    name: str
    meaning: GrowthMeaning
    source: str
    bits: int = 0
    per: float = 0.0
    folder: str = "counters"

    @property
    def full(self) -> int | None:
        """The value at which it stops counting; None where it never does."""
        return (1 << self.bits) - 1 if self.bits else None


SECOND, MINUTE, HOUR = 1.0, 60.0, 3600.0
_SENTINEL = "NVIDIA/NVSentinel, NIC health monitor, counter thresholds"
_MLX5 = "NVIDIA, mlx5 counters; drivers/infiniband/hw/mlx5/counters.c"
_HW = "hw_counters"

TABLE: tuple[CounterSpec, ...] = (
    CounterSpec("excessive_buffer_overrun_errors", GrowthMeaning.FATAL, _SENTINEL, bits=4),
    CounterSpec("local_link_integrity_errors", GrowthMeaning.FATAL, _SENTINEL, bits=4),
    CounterSpec("symbol_error", GrowthMeaning.RATE, _SENTINEL, bits=16, per=HOUR),
    CounterSpec("link_error_recovery", GrowthMeaning.RATE, _SENTINEL, bits=8, per=MINUTE),
    CounterSpec("port_rcv_errors", GrowthMeaning.RATE, _SENTINEL, bits=16, per=SECOND),
    CounterSpec("port_xmit_discards", GrowthMeaning.RATE, _SENTINEL, bits=16, per=SECOND),
    CounterSpec("local_ack_timeout_err", GrowthMeaning.RATE, _SENTINEL, per=SECOND, folder=_HW),
    CounterSpec("roce_slow_restart", GrowthMeaning.RATE, _SENTINEL, per=SECOND, folder=_HW),
    CounterSpec("rnr_nak_retry_err", GrowthMeaning.JOB, _MLX5, folder=_HW),
    CounterSpec("req_transport_retries_exceeded", GrowthMeaning.JOB, _MLX5, folder=_HW),
    CounterSpec("req_rnr_retries_exceeded", GrowthMeaning.JOB, _MLX5, folder=_HW),
    # Congestion and adaptive routing make these grow on healthy fabrics.
    CounterSpec("port_xmit_wait", GrowthMeaning.INFORMATIONAL, "kernel ABI sysfs-class-infiniband", bits=32),
    CounterSpec("port_rcv_remote_physical_errors", GrowthMeaning.INFORMATIONAL,
                "kernel ABI sysfs-class-infiniband (another link's errors)", bits=16),
    CounterSpec("out_of_sequence", GrowthMeaning.INFORMATIONAL, _MLX5, folder=_HW),
    CounterSpec("packet_seq_err", GrowthMeaning.INFORMATIONAL, _MLX5, folder=_HW),
)
BY_NAME = {counter.name: counter for counter in TABLE}

COUNTERS = Probe(
    "port.counters", ProbeKind.FILES, limit=1 * MIB,
    paths=tuple(f"{BASE}/*/ports/*/{counter.folder}/{counter.name}" for counter in TABLE),
)


class PortCounter(Fact):
    """One counter of one port ("mlx5_0/1 (0000:18:00.0) symbol_error"); `value` is since boot or its last
    reset.

    A driver has some of the table's counters; where it has none of a kind, the port has one entry ("fatal
    counters") of value UNSUPPORTED.
    """

    IDENTITY = ("pci", "number", "counter")

    name: str
    pci: str
    number: int
    counter: str
    value: int

    def full(self, counter: str) -> int | None:
        """The value at which it stays until it is reset (perfquery -R)."""
        return BY_NAME[self.counter].full if counter == "value" else None


def _value(text: str) -> Any:
    return UNSUPPORTED if text.startswith("N/A") else whole(text)


@fact("port_fatal_counters", SYSFS, COUNTERS, each="port_fatal_counter")
def port_fatal_counters(captures: Captures) -> Any:
    """Every port's counters whose growth is a fault."""
    return _of_kind(captures, GrowthMeaning.FATAL)


@fact("port_rate_counters", SYSFS, COUNTERS, each="port_rate_counter")
def port_rate_counters(captures: Captures) -> Any:
    """Every port's counters that may grow slowly."""
    return _of_kind(captures, GrowthMeaning.RATE)


@fact("port_job_counters", SYSFS, COUNTERS, each="port_job_counter")
def port_job_counters(captures: Captures) -> Any:
    """Every port's counters of connections that had trouble."""
    return _of_kind(captures, GrowthMeaning.JOB)


_ByKind = dict[GrowthMeaning, tuple[PortCounter, ...]]


def _read(captures: Captures) -> tuple[_ByKind, str | None]:
    """The counters that each port's driver has, by kind, port by port in the table's order; and why some
    could not be read, if so."""
    found = captures.once(ports)
    files, sysfs = captures.files(COUNTERS), captures.files(SYSFS)
    every: tuple[Port, ...] = found.value if isinstance(found, Partial) else found
    # Counters that no rule judges make no facts: they grow with traffic.
    of_ports = [_counters(captures, files, port.name, port.device, pci_of(sysfs, port.device), port.number)
                for port in every]
    read: _ByKind = {meaning: tuple(chain.from_iterable([of_port[meaning] for of_port in of_ports]))
                     for meaning in _JUDGED}
    if isinstance(found, Partial):
        return read, found.reason
    # Only those of present ports: a device may have gone in between.
    files.ignore(_path(port.device, port.number, counter) for port in every for counter in TABLE
                      if counter.meaning is GrowthMeaning.INFORMATIONAL)
    return read, files.unreadable()


_JUDGED = {meaning: tuple(counter for counter in TABLE if counter.meaning is meaning)
           for meaning in GrowthMeaning if meaning is not GrowthMeaning.INFORMATIONAL}


def _path(device: str, number: int, counter: CounterSpec) -> str:
    return f"{BASE}/{device}/ports/{number}/{counter.folder}/{counter.name}"


def _of_kind(captures: Captures, meaning: GrowthMeaning) -> Any:
    read, unreadable = captures.once(_read)
    return partial_if(read[meaning], unreadable)


def _counters(captures: Captures, files: CapturedFiles, port: str, device: str, pci: Any,
              number: int) -> _ByKind:
    """The counters of one port; ports of any snapshots share them where their files are equal."""
    paths = _paths(device, number)
    files.ignore(paths)         # one that was not read is a counter of its own that was not measured
    content = port, device, pci, number, tuple(map(files.entry, paths))
    return captures.part("counters of a port", content, lambda: _of_port(files, port, device, pci, number))


def _paths(device: str, number: int) -> list[str]:
    """The files of a port's judged counters."""
    return [f"{BASE}/{device}/ports/{number}/{name}" for name in _NAMES]


_NAMES = tuple(f"{counter.folder}/{counter.name}" for counters in _JUDGED.values() for counter in counters)


def _of_port(files: CapturedFiles, port: str, device: str, pci: Any, number: int) -> _ByKind:
    found: _ByKind = {}
    for meaning, counters in _JUDGED.items():
        there = [(counter.name, path) for counter in counters
                 if files.has(path := _path(device, number, counter))]
        values = ([(name, files.read(path, _value)) for name, path in there]
                  or [(f"{meaning.value} counters", UNSUPPORTED)])
        found[meaning] = tuple([PortCounter(name=f"{port} {name}", pci=pci, number=number, counter=name,
                                            value=value) for name, value in values])
    return found
