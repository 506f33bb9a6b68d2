"""A link burn as lines for people, as a table for a launch script, and as muster.fabric.burn/1."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from healthcheck.subnet.burnplan import BurnPair
from healthcheck.subnet.burnplanes import BurnPlane
from healthcheck.subnet.burnways import BurnPort
from healthcheck.subnet.model import FabricLink
from inventory.text import clean, many

SCHEMA = "muster.fabric.burn/1"
COLUMNS = ("round", "a", "b", "expected", "a_host", "a_device", "a_port", "b_host", "b_device", "b_port")
# One page: the pairs of a round, and links that are not covered, up to this many.
_MOST = 12


def lines(planes: Sequence[BurnPlane]) -> Iterator[str]:
    """The plan of each subnet: its rounds, what they are to load, and what they cannot."""
    for plane in planes:
        made, name = plane.plan, plane.subnet.name
        yield (f"{'subnet ' + clean(name, 60) if name else 'subnet'}: {many(made.links, 'link')}, "
               f"{many(len(plane.names), 'host port')}; {many(len(made.rounds), 'round')}, "
               f"{many(made.pairs, 'pair')}")
        for number, pairs in enumerate(made.rounds, plane.first):
            yield from _round(plane, number, pairs)
        yield (f"{expected(plane)} of {many(made.links, 'link')} loaded to {made.share:.0%} each way, "
               f"{_by(plane)}")
        yield from short([f"not covered: {clean(plane.link(one.link), 160)}: {clean(one.why, 160)}"
                          for one in made.uncovered])
        yield from short([f"note: {clean(text, 160)}" for text in sorted(plane.ways.lost)])


def _by(plane: BurnPlane) -> str:
    if plane.plan.modelled:
        return "as expected of adaptive routing that spreads evenly: only counters prove it"
    return "by the forwarding tables"


def expected(plane: BurnPlane) -> int:
    """How many links the plan loads to the asked share."""
    return plane.plan.links - len(plane.plan.uncovered)


def _round(plane: BurnPlane, number: int, pairs: Sequence[BurnPair]) -> Iterator[str]:
    yield f"round {number}: {many(len(pairs), 'pair')}"
    yield from short([f"  {clean(plane.names[pair.a].text)} {clean(plane.names[pair.b].text)} "
                      f"{pair.gbps:.0f} Gb/s each way" for pair in pairs], "csv")


def short(texts: Sequence[str], more: str = "json") -> Iterator[str]:
    """The first of these lines, and how many more there are."""
    yield from texts[:_MOST]
    if len(texts) > _MOST:
        yield f"  {len(texts) - _MOST} more, see --format {more}"


def as_csv(rounds: Sequence[tuple[BurnPlane, int, Sequence[BurnPair]]]) -> str:
    """A row for each pair, with a heading: both ends by name, host, device and port, Gb/s expected."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for plane, number, pairs in rounds:
        for pair in pairs:
            ends = [(port.node, plane.names[port].device, port.end.number) for port in (pair.a, pair.b)]
            writer.writerow((number, plane.names[pair.a].text, plane.names[pair.b].text,
                             round(pair.gbps, 3), *ends[0], *ends[1]))
    return out.getvalue()


def numbered(planes: Sequence[BurnPlane]) -> list[tuple[BurnPlane, int, Sequence[BurnPair]]]:
    """The planned rounds of all subnets with their numbers."""
    return [(plane, number, pairs) for plane in planes
            for number, pairs in enumerate(plane.plan.rounds, plane.first)]


def rounds_document(rounds: Sequence[tuple[BurnPlane, int, Sequence[BurnPair]]]) -> list[dict[str, Any]]:
    """Rounds as JSON."""
    return [{"round": number, "plane": clean(plane.subnet.name, 60), "pairs": [
        {"a": _port(plane, pair.a), "b": _port(plane, pair.b), "gigabits": round(pair.gbps, 3)}
        for pair in pairs]} for plane, number, pairs in rounds]


def document(planes: Sequence[BurnPlane], share: float, code: int,
             result: dict[str, Any] | None = None) -> dict[str, Any]:
    """The plan as JSON, with what became of it where that is known."""
    return {
        "schema": SCHEMA, "exit": code, "share": share,
        "subnets": [{
            "name": clean(plane.subnet.name, 60), "routes": "model" if plane.plan.modelled else "tables",
            "ports": len(plane.names), "links": plane.plan.links, "expected": expected(plane),
            "uncovered": [{**link_document(plane, one.link), "why": clean(one.why)}
                          for one in plane.plan.uncovered],
            "notes": [clean(text) for text in sorted(plane.ways.lost)],
        } for plane in planes],
        "rounds": rounds_document(numbered(planes)), "result": result,
    }


def link_document(plane: BurnPlane, link: FabricLink) -> dict[str, Any]:
    """A link as JSON: its name and both ends."""
    return {"plane": clean(plane.subnet.name, 60), "link": clean(plane.link(link)),
            "ports": [{"guid": end.guid, "number": end.number} for end in (link.a, link.b)]}


def _port(plane: BurnPlane, port: BurnPort) -> dict[str, Any]:
    return {"name": clean(plane.names[port].text), "node": port.node, "device": plane.names[port].device,
            "port": port.end.number, "guid": port.end.guid, "rail": port.rail}
