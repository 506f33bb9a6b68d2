"""Metrics of the fleet as a whole, of triage, and of muster itself."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from healthcheck.exporter.source import FleetStatus, HeadStatus
from healthcheck.model.exposition import COUNTER, GAUGE, MetricFamily, Sample
from healthcheck.model.recording import Outcome

PROBES = MetricFamily("muster_probes", GAUGE, "Nodes by outcome of a probe, from fresh newest results.",
                      ("outcome", "probe"))
PROBE_MEDIAN = MetricFamily("muster_probe_median_seconds", GAUGE,
                            "Duration of a probe on the median node, from fresh newest results.", ("probe",))
PROBE_LONGEST = MetricFamily("muster_probe_longest_seconds", GAUGE,
                             "Longest duration of a probe, from fresh newest results.", ("probe",))
BREAKER = MetricFamily("muster_breaker_open", GAUGE,
                       "Whether the breaker is open: triage makes no new isolations.")
BREAKER_SINCE = MetricFamily("muster_breaker_opened_timestamp_seconds", GAUGE,
                             "When the breaker opened, in seconds since 1970; 0 while closed.")
VERDICTS = MetricFamily("muster_verdicts", GAUGE, "Open verdicts of triage, by isolation and repair.",
                        ("isolation", "repair"))
INCIDENTS = MetricFamily("muster_incidents", GAUGE, "Open incidents: causes that several nodes share.",
                         ("kind", "owner"))
SILENCES = MetricFamily("muster_silences", GAUGE, "Active silences.")
LEASES = MetricFamily("muster_leases", GAUGE, "Leases of nodes for disruptive work that have not ended.")
RMAS = MetricFamily("muster_rmas", GAUGE, "Open returns of parts and nodes to the vendor.")
UNFINISHED = MetricFamily("muster_ledger_unfinished", GAUGE, "Actions in the ledger without a known outcome.")
SWEEPS = MetricFamily("muster_sweeps_total", COUNTER, "Stored sweeps.")
SWEEP_STARTED = MetricFamily("muster_sweep_newest_started_timestamp_seconds", GAUGE,
                             "When the newest stored sweep began; 0 for none.")
SWEEP_SECONDS = MetricFamily("muster_sweep_newest_seconds", GAUGE, "Duration of the newest stored sweep.")
SWEEP_NODES = MetricFamily("muster_sweep_newest_nodes", GAUGE, "Nodes that the newest stored sweep visited.")
SWEEP_LEFT_OUT = MetricFamily("muster_sweep_newest_left_out_nodes", GAUGE,
                              "Nodes that the newest stored sweep did not visit, being healthy by their "
                              "agents.")
SWEEP_UNREACHED = MetricFamily("muster_sweep_newest_unreached_nodes", GAUGE,
                               "Nodes that the newest stored sweep did not reach.")
SWEEP_PARTIAL = MetricFamily("muster_sweep_newest_partial", GAUGE,
                             "Whether the newest stored sweep was interrupted.")
TRIAGE_ENDED = MetricFamily("muster_triage_last_run_timestamp_seconds", GAUGE,
                            "When the newest muster triage --apply ended; 0 for none.")
TRIAGE_SUCCESS = MetricFamily("muster_triage_last_run_success", GAUGE,
                              "Whether that run completed without a failed step.")
STORE_BYTES = MetricFamily("muster_store_bytes", GAUGE, "The size of the store's file.")
UP = MetricFamily("muster_source_up", GAUGE,
                  "Whether the exporter's source could be read; if not, all nodes are unknown.")
INVENTORY = MetricFamily("muster_inventory_last_reload_successful", GAUGE,
                         "Whether the current inventory could be read.")
BUILD = MetricFamily("muster_build_info", GAUGE, "Versions of the exporter; always 1.", ("python", "version"))
STALE_AFTER = MetricFamily("muster_stale_after_seconds", GAUGE,
                           "Age from which a node's newest result counts as unknown.")
READING = MetricFamily("muster_exporter_page_seconds", GAUGE,
                       "Time to make this page, which is made on changes.")
PAGES = MetricFamily("muster_exporter_pages_total", COUNTER, "Pages made.")
SERIES = MetricFamily("muster_exporter_series", GAUGE, "Series on this page, without the exporter's own.")
LEFT_OUT = MetricFamily("muster_exporter_series_left_out", GAUGE,
                        "Series left out because the page would be too long.", ("metric",))
REFUSED = MetricFamily("muster_exporter_refused_connections_total", COUNTER,
                       "Connections refused, or closed as the slowest, because there were too many.")
SWEEPER = MetricFamily("muster_exporter_sweeper_up", GAUGE,
                       "Whether this exporter's sweep process (--every) runs.")
SWEEPER_STARTS = MetricFamily("muster_exporter_sweeper_starts_total", COUNTER, "Starts of that process.")
CPU = MetricFamily("process_cpu_seconds_total", COUNTER, "Total user and system CPU time spent in seconds.")
MEMORY = MetricFamily("process_resident_memory_bytes", GAUGE, "Resident memory size in bytes.")
STARTED = MetricFamily("process_start_time_seconds", GAUGE,
                       "Start time of the process since unix epoch in seconds.")
FILES = MetricFamily("process_open_fds", GAUGE, "Number of open file descriptors.")
FAMILIES = (PROBES, PROBE_MEDIAN, PROBE_LONGEST, BREAKER, BREAKER_SINCE, VERDICTS, INCIDENTS, SILENCES,
            LEASES, RMAS, UNFINISHED, SWEEPS, SWEEP_STARTED, SWEEP_SECONDS, SWEEP_NODES, SWEEP_LEFT_OUT,
            SWEEP_UNREACHED,
            SWEEP_PARTIAL, TRIAGE_ENDED, TRIAGE_SUCCESS, STORE_BYTES, UP, INVENTORY, BUILD, STALE_AFTER,
            READING, PAGES, SERIES, LEFT_OUT, REFUSED, SWEEPER, SWEEPER_STARTS, CPU, MEMORY, STARTED, FILES)

# There are no more probes; a lying node must not create series.
_MOST_PROBES = 512


@dataclass(frozen=True)
class Process:
    """The exporter's process, and its sweep process if any: whether it runs and how often it was started."""

    version: str
    python: str
    cpu_seconds: float
    resident_bytes: float
    started: float
    files: int
    refused: int = 0
    sweeper: tuple[bool, int] | None = None


def probes(snapshots: Iterable[tuple[tuple[str, ...], tuple[str, ...], Sequence[float]]]) -> Iterator[Sample]:
    """Outcome and duration of each probe over these snapshots, each as (ids, outcomes, seconds)."""
    outcomes: dict[tuple[str, str], int] = defaultdict(int)
    seconds: dict[str, list[float]] = defaultdict(list)
    for ids, ended_so, took in snapshots:
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
        (SILENCES, known.silences), (LEASES, known.leases), (RMAS, known.rmas),
        (UNFINISHED, known.unfinished), (SWEEPS, known.sweeps), (SWEEP_STARTED, started or 0),
        (SWEEP_SECONDS, finished - started if started is not None and finished is not None else 0),
        (SWEEP_NODES, known.sweep_nodes), (SWEEP_LEFT_OUT, known.sweep_left_out),
        (SWEEP_UNREACHED, known.sweep_unreached),
        (SWEEP_PARTIAL, known.sweep_partial), (TRIAGE_ENDED, known.triage_ended or 0),
        (TRIAGE_SUCCESS, known.triage_success), (STORE_BYTES, known.store_bytes),
    ):
        yield family, family.sample(value)


def health(fleet: FleetStatus, stale: float) -> Iterator[Sample]:
    """Health of muster itself."""
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
    for family, value in ((CPU, own.cpu_seconds), (MEMORY, own.resident_bytes), (STARTED, own.started),
                          (FILES, own.files)):
        yield family, family.sample(value)
