"""Devices that answer management packets in part: they are there, and some answers were lost."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.model.outcome import Severity
from healthcheck.subnet.check.findings import FabricFinding, FabricRule
from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.model import FabricEnd, LinkState
from healthcheck.subnet.readers import linkinfo


def is_nameless(seen: SeenSubnet, end: FabricEnd) -> bool:
    """Whether it is of a device that is not known by its GUID, and whose description was not read."""
    device = seen.subnet.devices.get(end.guid)
    return (device is not None and not device.description and end not in seen.planned_name
            and end.guid not in seen.joined.adapters)


def nameless_places(seen: SeenSubnet) -> frozenset[str]:
    """The planned devices in whose place there is one without a name: no one can say that they are gone."""
    return frozenset(
        other.device for cable in seen.cables for end, other in ((cable.a, cable.b), (cable.b, cable.a))
        if end in seen.ends and (port := seen.subnet.port(seen.ends[end])) is not None
        and port.peer is not None and is_nameless(seen, port.peer))


def in_part(seen: SeenSubnet) -> Iterator[FabricFinding]:
    """Ports of links that are up whose own state iblinkinfo could not read, where it read their equals'."""
    if seen.subnet.partial or linkinfo.TOOL not in seen.subnet.tools:
        return
    shown = {seen.kind(port.end) for port in seen.subnet.ports() if port.state is not None}
    for one in seen.pairs:
        for own, other in (one, one[::-1]):
            if own.state is not None or other.state is not LinkState.ACTIVE or seen.kind(own.end) not in shown:
                continue
            if is_nameless(seen, own.end) and other.end in seen.planned_name:
                continue        # the planned cable's finding says it
            yield FabricFinding(
                FabricRule.SILENT, seen.at_link(own.end, other.end),
                f"{seen.port_name(own.end)} answers management packets in part: its state was not read",
                "answers", Severity.WARNING, plane=seen.subnet.name)
