"""Hot spots by job as lines for people, and as parts of the document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from healthcheck.subnet.check.findings import FabricJobs, JobHotSpots
from healthcheck.subnet.jobroutes import JobsBy, PortJobs
from inventory.text import clean, many

_NAMED, _MOST_LINES = 3, 12
_BY = {JobsBy.ROUTES: "jobs by routes", JobsBy.MAY: "jobs that may pass, by topology (no forwarding table)"}


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


def lines(found: FabricJobs) -> Iterator[str]:
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
    for one in found.jobs[:_MOST_LINES]:
        yield _line(one)
    if len(found.jobs) > _MOST_LINES:
        yield f"{many(len(found.jobs) - _MOST_LINES, 'more job')}, see --format json"


def _line(one: JobHotSpots) -> str:
    words = [f"{many(one.routes, 'hot port')} by routes"]
    if one.may:
        words.append(f"{one.may} that it may pass")
    if one.unknown:
        words.append(f"{one.unknown} not known, as routes are not")
    if one.unplaced:
        words.append(f"where {one.unplaced} of its nodes are is not known")
    return f"job {one.job}: {many(one.nodes, 'node')}, {', '.join(words)}"


def document(found: FabricJobs) -> dict[str, Any]:
    """The jobs with their counts; what is not known is null."""
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


def port_document(port: PortJobs) -> dict[str, Any]:
    """The jobs at one hot spot."""
    return {"by": port.by.value, "port": {"guid": port.end.guid, "number": port.end.number},
            "jobs": [{"job": one.job, "pairs": one.pairs, "of": one.of, "unknown": one.unknown}
                     for one in port.jobs]}
