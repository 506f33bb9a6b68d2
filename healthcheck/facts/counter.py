"""Counters of RDMA ports from sysfs, and the table of their kinds, widths and meanings.

What they count: Documentation/ABI/stable/sysfs-class-infiniband for `counters`; for `hw_counters` each
driver's source (drivers/infiniband/hw: mlx5/counters.c with NVIDIA's list of mlx5 counters,
bnxt_re/hw_counters.c, irdma/verbs.c, efa/efa_verbs.c, mana/counters.c; ionic's names come from its firmware,
ionic_hw_stats.c). hfi1 has the counters of InfiniBand alone, Slingshot (cxi) no RDMA device. Widths are those
of the PortCounters attribute as the kernel reads it (drivers/infiniband/core/sysfs.c); such a counter stays
at its highest value until it is reset (perfquery -R), those of `hw_counters` start again at 0. Kernels that
read the extended attribute exceed these widths: a port that has one such counter has no highest values.
Without a performance agent, old kernels write "N/A (no PMA)".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import chain
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.parsing import whole
from healthcheck.facts.port import BASE, LINK_DOWNED_FULL, SYSFS, Port, ports
from healthcheck.facts.values import UNSUPPORTED, Fact, parted, partial_if, reading
from healthcheck.model.probes import MIB, Probe, ProbeKind
from healthcheck.model.recording import FileCapture, Outcome


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

    `per` is the unit of the rules' limits, in seconds; `like` is the counter of mlx5 whose limit it shares
    (empty: it has its own). `source` says who judges it so. `devices` are the names of the RDMA devices whose
    driver may have it, as a glob: a node of mlx5 is not searched for the others'.
    """

    name: str
    meaning: GrowthMeaning
    source: str
    bits: int = 0
    per: float = 0.0
    folder: str = "counters"
    like: str = ""
    devices: str = "*"

    @property
    def file(self) -> str:
        """Its file below the folder of a port."""
        return f"{self.folder}/{self.name}"

    @property
    def full(self) -> int | None:
        """The value at which it stops counting; None where it never does."""
        return (1 << self.bits) - 1 if self.bits else None


SECOND, MINUTE, HOUR = 1.0, 60.0, 3600.0
_SENTINEL = "NVIDIA/NVSentinel, NIC health monitor, counter thresholds"
_MLX5 = "NVIDIA, mlx5 counters; drivers/infiniband/hw/mlx5/counters.c"
_HW = "hw_counters"
# Names that udev gives (rocep24s0, rdmap0s6) and those of other drivers (bnxt_re0, irdma0, ionic_0) do not
# begin with mlx5's letter.
_OTHERS, _MANA = "[!m]*", "mana*"


_other = partial(CounterSpec, meaning=GrowthMeaning.RATE, per=SECOND, folder=_HW, devices=_OTHERS)
_timeouts = partial(_other, like="local_ack_timeout_err")
_sequence = partial(_other, like="sequence_errors")
_job = partial(CounterSpec, meaning=GrowthMeaning.JOB, folder=_HW, devices=_OTHERS)

_BNXT = "drivers/infiniband/hw/bnxt_re/hw_counters.c"
_IRDMA = "drivers/infiniband/hw/irdma/verbs.c (irdma_hw_stat_names)"
_IONIC = "AMD, device-metrics-exporter, AINIC metrics (names of the firmware, drivers/infiniband/hw/ionic)"
_EFA = "drivers/infiniband/hw/efa/efa_verbs.c; AWS, Monitor an Elastic Fabric Adapter"
_MANA_IB = "drivers/infiniband/hw/mana/counters.c"

TABLE: tuple[CounterSpec, ...] = (
    CounterSpec("excessive_buffer_overrun_errors", GrowthMeaning.FATAL, _SENTINEL, bits=4),
    CounterSpec("local_link_integrity_errors", GrowthMeaning.FATAL, _SENTINEL, bits=4),
    *(CounterSpec(name, GrowthMeaning.FATAL, _BNXT, folder=_HW, devices=_OTHERS)
      for name in ("res_tx_pci_err", "res_rx_pci_err")),
    CounterSpec("symbol_error", GrowthMeaning.RATE, _SENTINEL, bits=16, per=HOUR),
    CounterSpec("link_error_recovery", GrowthMeaning.RATE, _SENTINEL, bits=8, per=MINUTE),
    CounterSpec("port_rcv_errors", GrowthMeaning.RATE, _SENTINEL, bits=16, per=SECOND),
    CounterSpec("port_xmit_discards", GrowthMeaning.RATE, _SENTINEL, bits=16, per=SECOND),
    CounterSpec("local_ack_timeout_err", GrowthMeaning.RATE, _SENTINEL, per=SECOND, folder=_HW),
    CounterSpec("roce_slow_restart", GrowthMeaning.RATE, _SENTINEL, per=SECOND, folder=_HW),
    _timeouts("to_retransmits", source=_BNXT), _sequence("seq_err_naks_rcvd", source=_BNXT),
    _other("rx_roce_errors", source=_BNXT, like="port_rcv_errors"),
    _other("rx_roce_discards", source=_BNXT, like="port_xmit_discards"),
    _sequence("RetransSegs", source=_IRDMA), _sequence("tcpRetransSegs", source=_IRDMA),
    _other("InProtoErrors", source=_IRDMA, like="port_rcv_errors"),
    _other("tcpInProtoErrors", source=_IRDMA, like="port_rcv_errors"),
    _timeouts("tx_rdma_ack_timeout", source=_IONIC), _sequence("req_rx_pkt_seq_err", source=_IONIC),
    _sequence("req_rx_impl_nak_seq_err", source=_IONIC),
    _timeouts("retrans_timeout_events", source=_EFA),
    _other("rx_drops", source=_EFA, like="port_xmit_discards"),
    _timeouts("requester_timeout", source=_MANA_IB, devices=_MANA),
    _sequence("requester_oos_nak", source=_MANA_IB, devices=_MANA),
    CounterSpec("rnr_nak_retry_err", GrowthMeaning.JOB, _MLX5, folder=_HW),
    CounterSpec("req_transport_retries_exceeded", GrowthMeaning.JOB, _MLX5, folder=_HW),
    CounterSpec("req_rnr_retries_exceeded", GrowthMeaning.JOB, _MLX5, folder=_HW),
    _job("max_retry_exceeded", source=_BNXT), _job("unrecoverable_err", source=_BNXT),
    _job("req_tx_retry_excd_err", source=_IONIC),
    _job("unresponsive_remote_events", source=_EFA), _job("impaired_remote_conn_events", source=_EFA),
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
    paths=tuple(f"{BASE}/{counter.devices}/ports/*/{counter.folder}/{counter.name}" for counter in TABLE),
)


class PortCounter(Fact):
    """One counter of one port ("mlx5_0/1 (0000:18:00.0) symbol_error"); `value` is since boot or its last
    reset. `most` is the value at which it stays until then (perfquery -R), 0 where there is none.

    A driver has some of the table's counters; where it has none of a kind, the port has one entry ("fatal
    counters") of value UNSUPPORTED. One that the port lacks, and another of its kind on this node has, was
    not measured, if the port has any in that folder.
    """

    IDENTITY = ("pci", "number", "counter")

    name: str
    pci: str
    number: int
    counter: str
    value: int
    most: int

    def full(self, counter: str) -> int | None:
        """The value at which it stays; None where it has no such value."""
        return self.most or None if counter == "value" else None


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


@fact("narrow_counters", SYSFS, COUNTERS, each="narrow_counter")
def narrow_counters(captures: Captures) -> Any:
    """Every port's judged counters that have a highest value, and its link_downed."""
    read, unreadable = captures.once(_read)
    every: tuple[Port, ...] = parted(captures.once(ports))[0]
    downed = tuple([PortCounter(f"{port.name} {_DOWNED}", reading(port, "pci"), port.number, _DOWNED,
                                reading(port, _DOWNED), LINK_DOWNED_FULL) for port in every])
    narrow = tuple([counter for counters in read.values() for counter in counters if counter.most])
    return partial_if(narrow + downed, unreadable)


_DOWNED = "link_downed"
_ByKind = dict[GrowthMeaning, tuple[PortCounter, ...]]
_Row = tuple[Port, tuple[FileCapture | None, ...], frozenset[str]]


def _read(captures: Captures) -> tuple[_ByKind, str | None]:
    """The counters that each port's driver has, by kind, port by port in the table's order; and why some
    could not be read, if so."""
    every: tuple[Port, ...]
    every, lacking = parted(captures.once(ports))
    files = captures.files(COUNTERS)
    entries = dict(files.items())
    rows = [_row(entries, port) for port in every]
    of_kind: dict[tuple[str, bool], frozenset[str]] = {}
    for port, _, names in rows:
        key = port.kind, port.virtual
        of_kind[key] = of_kind.get(key, _NONE) | names if port.kind else _NONE
    # Counters that no rule judges make no facts: they grow with traffic.
    of_ports = [
        _counters(captures, files, port, found, names | _lacking(of_kind[port.kind, port.virtual], names))
        for port, found, names in rows]
    read: _ByKind = {meaning: tuple(chain.from_iterable([of_port[meaning] for of_port in of_ports]))
                     for meaning in _JUDGED}
    return read, lacking or _unreadable(files, every)


# By meaning, each by its file.
_JUDGED = {meaning: {counter.file: counter for counter in TABLE if counter.meaning is meaning}
           for meaning in GrowthMeaning if meaning is not GrowthMeaning.INFORMATIONAL}
_FILES = tuple(chain.from_iterable(_JUDGED.values()))
_NONE: frozenset[str] = frozenset()
_MISSING = Outcome.MISSING      # looked up once, since that costs more than what it is compared with


def _row(entries: Mapping[str, FileCapture], port: Port) -> _Row:
    """A port with what was captured of all judged counters, and the files of those that it has."""
    at = _folder(port)
    found = tuple([entries.get(at + file) for file in _FILES])
    return port, found, frozenset([file for file, entry in zip(_FILES, found, strict=True)
                                   if entry is not None and entry.outcome is not _MISSING])


def _folder(port: Port) -> str:
    return f"{BASE}/{port.device}/ports/{port.number}/"


def _lacking(of_kind: frozenset[str], shown: frozenset[str]) -> frozenset[str]:
    """What ports of this kind have and this one has not, in the folders of which it has something: a mode of
    the adapter may leave out a whole folder."""
    if of_kind <= shown:
        return _NONE
    folders = {file.partition("/")[0] for file in shown}
    return frozenset(file for file in of_kind - shown if file.partition("/")[0] in folders)


def _unreadable(files: CapturedFiles, every: tuple[Port, ...]) -> str | None:
    """Why a folder could not be listed, if so: what was not read of a counter is its own value. Only those of
    present ports are: a device may have gone in between."""
    if files.unreadable():
        files.ignore(_folder(port) + counter.file for port in every for counter in TABLE)
    return files.unreadable()


def _of_kind(captures: Captures, meaning: GrowthMeaning) -> Any:
    read, unreadable = captures.once(_read)
    return partial_if(read[meaning], unreadable)


def _counters(captures: Captures, files: CapturedFiles, port: Port, found: tuple[FileCapture | None, ...],
              expected: frozenset[str]) -> _ByKind:
    """The counters of one port: what was found of all files, and those that it has or ought to have;
    ports of any snapshots share them where these are equal."""
    pci = reading(port, "pci")
    content = port.name, port.device, pci, port.number, found, expected
    return captures.part("counters of a port", content, lambda: _of_port(files, port, pci, expected))


def _of_port(files: CapturedFiles, port: Port, pci: Any, expected: frozenset[str]) -> _ByKind:
    at = _folder(port)
    read = {meaning: [(counter.name, files.read(at + file, _value), counter.full or 0)
                      for file, counter in counters.items() if file in expected]
            for meaning, counters in _JUDGED.items()}
    extended = any(most and isinstance(value, int) and value > most
                   for counters in read.values() for _, value, most in counters)
    found: _ByKind = {}
    for meaning, values in read.items():
        found[meaning] = tuple([
            PortCounter(name=f"{port.name} {name}", pci=pci, number=port.number, counter=name, value=value,
                        most=0 if extended else most)
            for name, value, most in values or [(f"{meaning.value} counters", UNSUPPORTED, 0)]])
    return found
