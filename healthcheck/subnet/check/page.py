"""A fabric's report as lines for people, and as a document (`muster.fabric.check/1`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from healthcheck.model.outcome import Severity
from healthcheck.subnet.check import hotjobspage
from healthcheck.subnet.check.findings import FabricFinding, FabricReport
from inventory.text import clean, many

SCHEMA = "muster.fabric.check/1"
# One page: what is wrong in full, up to this many lines of one rule.
_MOST_OF_RULE = 12


def lines(report: FabricReport) -> Iterator[str]:
    """What was seen, each finding, and the counts."""
    for name, switches, adapters, links in report.subnets:
        words = ", ".join((many(switches, "switch").replace("switchs", "switches"),
                           many(adapters, "adapter"), many(links, "link")))
        yield f"{'subnet ' + clean(name, 60) if name else 'subnet'}: {words}"
    if report.interval is not None and report.interval > 0:
        yield f"counters: what was added in {report.interval:.0f} s"
    if report.findings:
        yield ""
    shown: Counter[tuple[str, bool]] = Counter()
    for one in report.findings:
        key = (one.rule.value, one.unknown)
        shown[key] += 1
        if shown[key] <= _MOST_OF_RULE:
            yield _line(one)
            if one.jobs is not None:
                yield f"          {hotjobspage.at_port(one.jobs, report.jobs)}"
    for (rule, unknown), count in shown.items():
        if count > _MOST_OF_RULE:
            status = " unknown" if unknown else ""
            yield f"          {rule}{status}: {count - _MOST_OF_RULE} more, see --format json"
    if report.findings:
        yield ""
    if report.jobs is not None:
        yield from hotjobspage.lines(report.jobs)
        yield ""
    yield _counts(report)


def _line(one: FabricFinding) -> str:
    status = "unknown" if one.unknown else one.severity.value
    plane = f"[{clean(one.plane, 40)}] " if one.plane else ""
    expected = f", expected {clean(one.expected, 120)}" if one.expected else ""
    return (f"{status:<9} {one.rule.value:<22} {plane}{clean(one.place.name, 120)}: "
            f"{clean(one.observed, 200)}{expected} ({one.owner.value})")


def _counts(report: FabricReport) -> str:
    wrong = Counter(one.severity for one in report.findings if not one.unknown)
    unknown = sum(one.unknown for one in report.findings)
    words = [f"{wrong[severity]} {word}" for severity, word in (
        (Severity.CRITICAL, "critical"), (Severity.WARNING, "warning"), (Severity.INFO, "info"))
        if wrong[severity]]
    if unknown:
        words.append(f"{unknown} unknown")
    return ", ".join(words) if words else "nothing is wrong"


def document(report: FabricReport) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "schema": SCHEMA, "exit": report.exit_code, "interval": report.interval,
        "subnets": [{"name": clean(name, 60), "switches": switches, "adapters": adapters, "links": links}
                    for name, switches, adapters, links in report.subnets],
        "findings": [_finding(one) for one in report.findings],
        **({"jobs": hotjobspage.document(report.jobs)} if report.jobs is not None else {}),
    }


def _finding(one: FabricFinding) -> dict[str, Any]:
    return {
        "rule": one.rule.value, "status": "unknown" if one.unknown else "fail",
        "severity": one.severity.value, "owner": one.owner.value, "plane": clean(one.plane, 60),
        "place": {
            "kind": one.place.kind.value, "name": clean(one.place.name), "nodes": list(one.place.nodes),
            "leaf": one.place.leaf,
            "ports": [{"guid": end.guid, "number": end.number} for end in one.place.ends]},
        "observed": clean(one.observed), "expected": clean(one.expected),
        **({"jobs": hotjobspage.port_document(one.jobs)} if one.jobs is not None else {}),
    }
