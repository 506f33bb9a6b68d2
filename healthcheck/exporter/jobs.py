"""Metrics of jobs that are watched: what slows them, by job, rank and cause. Their
number is bounded, whatever jobs there are.

The label is `jobid`, as `job` is that of the scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from healthcheck.model.exposition import GAUGE, MetricFamily, Sample
from healthcheck.store.watched import HANG, WatchedNode

SLOWED = MetricFamily("muster_job_slowed_ratio", GAUGE,
                      "What a finding of muster watch costs a job, in parts of its usual step; rank is the "
                      "first of several.", ("cause", "certainty", "jobid", "node", "rank"))
HANGS = MetricFamily("muster_job_hangs", GAUGE, "Whether a watched job hangs; node and rank are who did not "
                     "come, empty where that is not known.", ("jobid", "node", "rank"))
FINDINGS = MetricFamily("muster_job_findings", GAUGE,
                        "Findings of muster watch that last, by job and cause; all of them, also where "
                        "single ones are left out.", ("cause", "jobid"))
FAMILIES = (SLOWED, HANGS, FINDINGS)
MOST = 256          # series of single findings, those that cost most first
MOST_JOBS = 1024    # pairs of job and cause


def samples(found: Sequence[WatchedNode]) -> Iterator[Sample]:
    """The samples of what lasts, sorted by what it costs."""
    slowed: dict[tuple[str, ...], float] = {}
    hangs: dict[tuple[str, ...], float] = {}
    for one in found:
        rank = str(one.ranks[0]) if one.ranks else ""
        if one.pattern == HANG:
            hangs.setdefault((one.job, one.node, rank), 1)
        else:
            slowed.setdefault((one.cause, one.certainty, one.job, one.node, rank), round(one.share, 4))
    for family, values in ((SLOWED, slowed), (HANGS, hangs)):
        for labels, value in list(values.items())[:MOST]:
            yield family, family.sample(value, *labels)
    counts = Counter((cause, job) for cause, job, _ in {(one.cause, one.job, one.finding) for one in found})
    for labels, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_JOBS]:
        yield FINDINGS, FINDINGS.sample(count, *labels)
