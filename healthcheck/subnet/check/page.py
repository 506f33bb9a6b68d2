"""A fabric's report as lines for people, and as a document (`muster.fabric.check/1`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from healthcheck.model.outcome import Severity
from healthcheck.subnet.check.findings import FabricFinding, FabricJobs, FabricReport, JobHotSpots
from healthcheck.subnet.jobroutes import JobsBy, PortJobs
from inventory.text import clean, many

SCHEMA = "muster.fabric.check/1"
# One page: what is wrong in full, up to this many lines of one rule.
_MOST_OF_RULE = 12
_NAMED, _MOST_JOBS = 3, 12       # jobs at one hot spot, and in all
_BY = {JobsBy.ROUTES: "jobs by routes", JobsBy.MAY: "jobs that may pass, by topology (no forwarding table)"}


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
                yield f"          {at_port(one.jobs, report.jobs)}"
    for (rule, unknown), count in shown.items():
        if count > _MOST_OF_RULE:
            status = " unknown" if unknown else ""
            yield f"          {rule}{status}: {count - _MOST_OF_RULE} more, see --format json"
    if report.findings:
        yield ""
    if report.jobs is not None:
        yield from job_lines(report.jobs)
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
        **({"jobs": _jobs(report.jobs)} if report.jobs is not None else {}),
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
        **({"jobs": _port_jobs(one.jobs)} if one.jobs is not None else {}),
    }


def at_port(port: PortJobs, jobs: FabricJobs | None) -> str:
    """The jobs at one hot spot."""
    there = [one for one in port.jobs if one.pairs]
    words = [f"{one.job} ({one.pairs} of {many(one.of, 'node pair')})" for one in there[:_NAMED]]
    if len(there) > _NAMED:
        words.append(f"{len(there) - _NAMED} more")
    unknown = sum(one.unknown for one in port.jobs)
    lost = unknown or any(one.unplaced for one in (jobs.jobs if jobs is not None else ()))
    return f"{_BY[port.by]}: {', '.join(words) or ('none that is known' if lost else 'none')}" + (
        f"; routes of {many(unknown, 'node pair')} are not known" if unknown else "")


def job_lines(found: FabricJobs) -> Iterator[str]:
    """The jobs, each with how many hot spots its traffic passes, or why that is not known."""
    if found.unknown:
        yield f"jobs: not known: {clean(found.unknown)}"
        return
    yield (f"jobs ({clean(found.source, 120)}): {len(found.jobs)} with several nodes; {found.single} with "
           "one node left out")
    for name in found.unmeasured:
        words = f"subnet {clean(name, 60)}" if name else "the subnet"
        yield f"hot ports of {words} are not known: there are no two samples of counters"
    if found.ports:
        yield f"of {many(found.ports, 'port')} it is not known whether they are hot"
    if not found.measured:
        return
    for one in found.jobs[:_MOST_JOBS]:
        yield _job(one)
    if len(found.jobs) > _MOST_JOBS:
        yield f"{many(len(found.jobs) - _MOST_JOBS, 'more job')}, see --format json"


def _job(one: JobHotSpots) -> str:
    words = [f"{many(one.routes, 'hot port')} by routes"]
    if one.may:
        words.append(f"{one.may} that it may pass")
    if one.unknown:
        words.append(f"{one.unknown} not known, as routes are not")
    if one.unplaced:
        words.append(f"where {one.unplaced} of its nodes are is not known")
    return f"job {one.job}: {many(one.nodes, 'node')}, {', '.join(words)}"


def _jobs(found: FabricJobs) -> dict[str, Any]:
    """What is not known is null."""
    return {
        "source": clean(found.source), "unknown": clean(found.unknown) or None,
        "single": None if found.unknown else found.single,
        "unmeasured_subnets": [clean(name, 60) for name in found.unmeasured],
        "unmeasured_ports": None if found.unknown else found.ports,
        "jobs": None if found.unknown else [
            {"job": one.job, "nodes": one.nodes, "unplaced": one.unplaced,
             "hot_ports": {"routes": one.routes, "may": one.may, "unknown": one.unknown}
             if found.measured else None} for one in found.jobs],
    }


def _port_jobs(port: PortJobs) -> dict[str, Any]:
    return {"by": port.by.value, "port": {"guid": port.end.guid, "number": port.end.number},
            "jobs": [{"job": one.job, "pairs": one.pairs, "of": one.of, "unknown": one.unknown}
                     for one in port.jobs]}
