"""Metrics of what `muster fabric check --store` found, by rule and kind of place. Their number is bounded,
whatever is wrong: single findings are named up to MOST, and subnets up to MOST_SUBNETS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from healthcheck.model.exposition import GAUGE, MetricFamily, Sample
from healthcheck.store.fabricfindings import FabricTrouble
from inventory.text import clean

FINDINGS = MetricFamily("muster_fabric_findings", GAUGE,
                        "Open findings of muster fabric check, by rule and kind of place.",
                        ("kind", "owner", "rule", "severity"))
UNMEASURED = MetricFamily("muster_fabric_findings_unmeasured", GAUGE,
                          "Open findings that the newest check of their subnet did not measure.",
                          ("kind", "rule"))
BEGAN = MetricFamily("muster_fabric_finding_began_timestamp_seconds", GAUGE,
                     "When a check first showed an open finding; node is empty where it is of none or of "
                     "several, and where says which link, port, switch, leaf or subnet.",
                     ("kind", "node", "rule", "severity", "where"))
CHECKED = MetricFamily("muster_fabric_checked_timestamp_seconds", GAUGE,
                       "When a subnet was last checked with --store.", ("subnet",))
FAMILIES = (FINDINGS, UNMEASURED, BEGAN, CHECKED)
MOST = 256          # series of single findings, the gravest first
MOST_SUBNETS = 64


def samples(found: Sequence[FabricTrouble], checked: Sequence[tuple[str, float]]) -> Iterator[Sample]:
    """The samples of what is open, which is sorted with the gravest first, and of each subnet's newest
    check."""
    counts = Counter((one.finding.kind.value, one.finding.owner.value, one.finding.rule.value,
                      one.finding.severity.value) for one in found)
    for labels, count in sorted(counts.items()):
        yield FINDINGS, FINDINGS.sample(count, *labels)
    missed = Counter((one.finding.kind.value, one.finding.rule.value) for one in found
                     if one.missed is not None)
    for pair, count in sorted(missed.items()):
        yield UNMEASURED, UNMEASURED.sample(count, *pair)
    single: dict[tuple[str, ...], float] = {}
    for one in found:
        finding = one.finding
        node = finding.nodes[0] if len(finding.nodes) == 1 else ""
        single.setdefault((finding.kind.value, node, finding.rule.value, finding.severity.value,
                           clean(finding.place, 128)), one.began)
    for labels_of_one, began in list(single.items())[:MOST]:
        yield BEGAN, BEGAN.sample(began, *labels_of_one)
    for name, at in checked[:MOST_SUBNETS]:
        yield CHECKED, CHECKED.sample(at, clean(name, 64))
