"""What is said of the fleet as a whole, of triage, and of muster itself."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from healthcheck.exporter.source import FleetStatus, HeadStatus
from healthcheck.model.exposition import COUNTER, GAUGE, MetricFamily
from healthcheck.model.recording import Outcome

PROBES = MetricFamily("muster_probes", GAUGE, "On how many nodes a probe ended so, by their fresh newest looks.", ("outcome", "probe"))
PROBE_MEDIAN = MetricFamily("muster_probe_median_seconds", GAUGE, "What a probe took on the median node, by the fresh newest looks.",
                            ("probe",))
PROBE_LONGEST = MetricFamily("muster_probe_longest_seconds", GAUGE, "What a probe took where it took longest, by the fresh newest looks.",
                             ("probe",))
BREAKER = MetricFamily("muster_breaker_open", GAUGE, "Whether triage makes no new isolations until a person closes its breaker.")
BREAKER_SINCE = MetricFamily("muster_breaker_opened_timestamp_seconds", GAUGE,
                             "When the breaker opened, in seconds since 1970; 0 while closed.")
VERDICTS = MetricFamily("muster_verdicts", GAUGE, "Open verdicts of triage, by what jobs may do there and what is to be done.",
                        ("isolation", "repair"))
INCIDENTS = MetricFamily("muster_incidents", GAUGE, "Open incidents: causes that are not of one node.", ("kind", "owner"))
SILENCES = MetricFamily("muster_silences", GAUGE, "Silences that hold.")
LEASES = MetricFamily("muster_leases", GAUGE, "Leases of nodes for disruptive work that have not ended.")
RMAS = MetricFamily("muster_rmas", GAUGE, "Parts and nodes that are on their way to the vendor and back.")
UNFINISHED = MetricFamily("muster_ledger_unfinished", GAUGE, "Deeds in the ledger of which nobody knows the end.")
SWEEPS = MetricFamily("muster_sweeps_total", COUNTER, "Sweeps that the store has taken.")
SWEEP_STARTED = MetricFamily("muster_sweep_newest_started_timestamp_seconds", GAUGE, "When the newest stored sweep began; 0 for none.")
SWEEP_SECONDS = MetricFamily("muster_sweep_newest_seconds", GAUGE, "How long the newest stored sweep took.")
SWEEP_NODES = MetricFamily("muster_sweep_newest_nodes", GAUGE, "Nodes in the newest stored sweep.")
SWEEP_UNREACHED = MetricFamily("muster_sweep_newest_unreached_nodes", GAUGE, "Nodes that the newest stored sweep did not reach.")
SWEEP_PARTIAL = MetricFamily("muster_sweep_newest_partial", GAUGE, "Whether the newest stored sweep was interrupted.")
TRIAGE_ENDED = MetricFamily("muster_triage_last_run_timestamp_seconds", GAUGE, "When the newest muster triage --apply ended; 0 for none.")
TRIAGE_SUCCESS = MetricFamily("muster_triage_last_run_success", GAUGE, "Whether that run came to its end, and no step of it failed.")
STORE_BYTES = MetricFamily("muster_store_bytes", GAUGE, "The size of the store's file.")
UP = MetricFamily("muster_source_up", GAUGE, "Whether what the exporter is told by could be read; while not, no node is known to be well.")
INVENTORY = MetricFamily("muster_inventory_last_reload_successful", GAUGE, "Whether the inventory could be read as it is now.")
BUILD = MetricFamily("muster_build_info", GAUGE, "What runs here; always 1.", ("python", "version"))
STALE_AFTER = MetricFamily("muster_stale_after_seconds", GAUGE, "The age from which on a node's newest result says nothing any more.")
READING = MetricFamily("muster_exporter_page_seconds", GAUGE, "What it took to make this page, which is made when something has changed.")
PAGES = MetricFamily("muster_exporter_pages_total", COUNTER, "Pages that were made.")
SERIES = MetricFamily("muster_exporter_series", GAUGE, "Series on this page, without what is said of the exporter itself.")
LEFT_OUT = MetricFamily("muster_exporter_series_left_out", GAUGE, "Series that are not on this page, for it would be too long.",
                        ("metric",))
REFUSED = MetricFamily("muster_exporter_refused_connections_total", COUNTER,
                       "Connections that were closed at once, for there were too many.")
SWEEPER = MetricFamily("muster_exporter_sweeper_up", GAUGE, "Whether the process that sweeps for this exporter (--every) runs.")
SWEEPER_STARTS = MetricFamily("muster_exporter_sweeper_starts_total", COUNTER, "How often that process was started.")
CPU = MetricFamily("process_cpu_seconds_total", COUNTER, "Total user and system CPU time spent in seconds.")
MEMORY = MetricFamily("process_resident_memory_bytes", GAUGE, "Resident memory size in bytes.")
STARTED = MetricFamily("process_start_time_seconds", GAUGE, "Start time of the process since unix epoch in seconds.")
FILES = MetricFamily("process_open_fds", GAUGE, "Number of open file descriptors.")
FAMILIES = (PROBES, PROBE_MEDIAN, PROBE_LONGEST, BREAKER, BREAKER_SINCE, VERDICTS, INCIDENTS, SILENCES, LEASES, RMAS, UNFINISHED, SWEEPS,
            SWEEP_STARTED, SWEEP_SECONDS, SWEEP_NODES, SWEEP_UNREACHED, SWEEP_PARTIAL, TRIAGE_ENDED, TRIAGE_SUCCESS, STORE_BYTES, UP,
            INVENTORY, BUILD, STALE_AFTER, READING, PAGES, SERIES, LEFT_OUT, REFUSED, SWEEPER, SWEEPER_STARTS, CPU, MEMORY, STARTED, FILES)

# More probes there are not; a node that lies must not make series.
_MOST_PROBES = 512
Sample = tuple[MetricFamily, str]


@dataclass(frozen=True)
class Process:
    """The exporter's own process, and where it sweeps itself that one's: whether it runs and how often it was started."""

    version: str
    python: str
    cpu_seconds: float
    resident_bytes: float
    started: float
    files: int
    refused: int = 0
    sweeper: tuple[bool, int] | None = None


def probes(looks: Iterable[tuple[tuple[str, ...], tuple[str, ...], Sequence[float]]]) -> Iterator[Sample]:
    """Of each probe how it ended and what it took, over all these looks, each as (ids, outcomes, seconds)."""
    outcomes: dict[tuple[str, str], int] = defaultdict(int)
    seconds: dict[str, list[float]] = defaultdict(list)
    for ids, ended_so, took in looks:
        for probe, outcome, each in zip(ids, ended_so, took, strict=True):
            if probe in seconds or len(seconds) < _MOST_PROBES:
                outcomes[probe, outcome] += 1
                seconds[probe].append(each)
    for probe in sorted(seconds):
        for ended in Outcome:
            yield PROBES, PROBES.sample(outcomes[probe, ended.value], ended.value, probe)
        yield PROBE_MEDIAN, PROBE_MEDIAN.sample(statistics.median(seconds[probe]), probe)
        yield PROBE_LONGEST, PROBE_LONGEST.sample(max(seconds[probe]), probe)


def head(known: HeadStatus) -> Iterator[Sample]:
    """Triage, sweeps and the store."""
    yield BREAKER, BREAKER.sample(known.breaker is not None)
    yield BREAKER_SINCE, BREAKER_SINCE.sample(known.breaker or 0)
    for keys, count in sorted(known.verdicts.items()):
        yield VERDICTS, VERDICTS.sample(count, *keys)
    for keys, count in sorted(known.incidents.items()):
        yield INCIDENTS, INCIDENTS.sample(count, *keys)
    started, finished = known.sweep_started, known.sweep_finished
    for family, value in (
        (SILENCES, known.silences), (LEASES, known.leases), (RMAS, known.rmas), (UNFINISHED, known.unfinished), (SWEEPS, known.sweeps),
        (SWEEP_STARTED, started or 0), (SWEEP_SECONDS, finished - started if started is not None and finished is not None else 0),
        (SWEEP_NODES, known.sweep_nodes), (SWEEP_UNREACHED, known.sweep_unreached), (SWEEP_PARTIAL, known.sweep_partial),
        (TRIAGE_ENDED, known.triage_ended or 0), (TRIAGE_SUCCESS, known.triage_success), (STORE_BYTES, known.store_bytes),
    ):
        yield family, family.sample(value)


def health(fleet: FleetStatus, stale: float) -> Iterator[Sample]:
    """Whether muster itself is well."""
    yield UP, UP.sample(not fleet.trouble)
    yield INVENTORY, INVENTORY.sample(fleet.inventory_well)
    yield STALE_AFTER, STALE_AFTER.sample(stale)


def process(own: Process, seconds: float, pages: int) -> Iterator[Sample]:
    """The exporter's own process."""
    yield BUILD, BUILD.sample(1, own.python, own.version)
    yield READING, READING.sample(round(seconds, 4))
    yield PAGES, PAGES.sample(pages)
    yield REFUSED, REFUSED.sample(own.refused)
    if own.sweeper is not None:
        yield SWEEPER, SWEEPER.sample(own.sweeper[0])
        yield SWEEPER_STARTS, SWEEPER_STARTS.sample(own.sweeper[1])
    for family, value in ((CPU, own.cpu_seconds), (MEMORY, own.resident_bytes), (STARTED, own.started), (FILES, own.files)):
        yield family, family.sample(value)
