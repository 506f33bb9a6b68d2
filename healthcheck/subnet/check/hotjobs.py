"""The jobs whose traffic passes the hot spots of a report; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from healthcheck.subnet.check.congestion import compared
from healthcheck.subnet.check.findings import (
    FabricFinding,
    FabricJobs,
    FabricReport,
    FabricRule,
    JobHotSpots,
)
from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.jobroutes import JobsBy, PlacedPort, PortJobs, jobs_at
from healthcheck.subnet.model import DeviceKind, FabricEnd
from inventory.jobnodes import JobNodes


def with_jobs(report: FabricReport, seen: Sequence[SeenSubnet], jobs: Sequence[JobNodes],
              source: str) -> FabricReport:
    """The report, in which each hot spot has the jobs that pass it, and each job its hot spots. `source`
    says where the jobs are from."""
    wide = [job for job in jobs if len(set(job.nodes)) > 1]
    placed = {one.subnet.name: tuple(_placed(one)) for one in seen}
    at: dict[tuple[str, FabricEnd], PortJobs] = {}
    for one in seen:
        hot = [found.port for found in report.findings if _hot(found) and found.plane == one.subnet.name
               and found.port is not None]
        for port in jobs_at(one.subnet, placed[one.subnet.name], wide, hot):
            at[one.subnet.name, port.end] = port
    findings = tuple(replace(one, jobs=at.get((one.plane, one.port))) if one.port is not None and _hot(one)
                     else one for one in report.findings)
    nodes = {port.node for ports in placed.values() for port in ports}
    measured = [one for one in seen if compared(one)]
    found = FabricJobs(
        source, single=len(jobs) - len(wide), measured=bool(measured),
        jobs=tuple(sorted((_of_job(job, nodes, tuple(at.values())) for job in wide), key=lambda one: (
            -one.routes, -one.may, -one.unknown, int(one.job)))),
        unmeasured=tuple(one.subnet.name for one in seen if not compared(one)),
        ports=len({end for one in report.findings if one.rule is FabricRule.CONGESTION and one.unknown
                   for end in one.place.ends}))
    return replace(report, findings=findings, jobs=found)


def _hot(one: FabricFinding) -> bool:
    return one.rule is FabricRule.CONGESTION and not one.unknown


def _placed(seen: SeenSubnet) -> Iterator[PlacedPort]:
    """The adapters' ports of which the node and the switch are known."""
    for port in seen.subnet.ports():
        if port.peer is None or seen.kind(port.end) is not DeviceKind.ADAPTER \
                or seen.kind(port.peer) is not DeviceKind.SWITCH:
            continue
        node, place = seen.node_of(port.end), seen.joined.adapters.get(port.end.guid)
        if node is not None:
            yield PlacedPort(node, port.end, port.peer.guid, place.rail if place is not None else None)


def _of_job(job: JobNodes, nodes: set[str], ports: Sequence[PortJobs]) -> JobHotSpots:
    own = [(port.by, one) for port in ports for one in port.jobs if one.job == job.job]
    return JobHotSpots(
        job.job, len(set(job.nodes)), len(set(job.nodes) - nodes),
        sum(by is JobsBy.ROUTES and one.pairs > 0 for by, one in own),
        sum(by is JobsBy.MAY and one.pairs > 0 for by, one in own), sum(one.pairs == 0 for _, one in own))
