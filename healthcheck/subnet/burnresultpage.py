"""What the rates of a link burn say, as lines for people and as the `result` of muster.fabric.burn/1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from healthcheck.subnet.burnpage import link_document, rounds_document, short
from healthcheck.subnet.burnplan import BurnPair
from healthcheck.subnet.burnplanes import BurnPlane
from healthcheck.subnet.burnresults import BurnResult
from inventory.text import clean, many


def confirming(results: Sequence[BurnResult], last: int) -> list[tuple[BurnPlane, int, Sequence[BurnPair]]]:
    """The rounds that would tell suspects apart, numbered from the one after `last`."""
    wanted = [result for result in results if result.confirm]
    return [(result.plane, last + at, result.confirm) for at, result in enumerate(wanted, 1)]


def lines(results: Sequence[BurnResult], last: int) -> Iterator[str]:
    """Slow links, what stays unclear, what was not measured or proven, and the pairs that tell more."""
    for result in results:
        plane, verdict, name = result.plane, result.verdict, result.plane.subnet.name
        proven = plane.plan.links - len(result.unproven)
        yield (f"{'subnet ' + clean(name, 60) if name else 'subnet'}: {proven} of "
               f"{many(plane.plan.links, 'link')} proven to carry {plane.plan.share:.0%} each way")
        yield from short([f"slow: {clean(plane.link(one.link), 160)}: {clean('; '.join(one.slow[:3]), 200)}"
                          for one in verdict.named])
        for group in verdict.unclear:
            yield (f"unclear: one or more of {many(len(group.links), 'link')}: "
                   f"{clean('; '.join(group.slow[:3]), 200)}")
            yield from short([f"  {clean(plane.link(link), 160)}" for link in group.links])
        yield from short([f"hidden by a slow link: {clean(plane.link(link), 160)}"
                          for link in verdict.hidden])
        yield from short([f"slow, and others were fast over the same links: {clean(one)}"
                          for one in verdict.noise])
        yield from short([f"not measured: {clean(one)}" for one in result.unmeasured])
        yield from short([f"not judged, as its round asks a link for more than it carries: {clean(one)}"
                          for one in result.unjudged])
        yield from short([f"not proven: {clean(plane.link(link), 160)}: {clean(why, 160)}"
                          for link, why in result.unproven])
    for plane, number, pairs in confirming(results, last):
        yield f"to tell more, run round {number}: {many(len(pairs), 'pair')} (--format csv)"
        yield from short([f"  {clean(plane.names[pair.a].text)} {clean(plane.names[pair.b].text)}"
                          for pair in pairs], "csv")


def document(results: Sequence[BurnResult], last: int) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "proven": sum(result.plane.plan.links - len(result.unproven) for result in results),
        "slow": [{**link_document(result.plane, one.link), "pairs": [clean(test) for test in one.slow]}
                 for result in results for one in result.verdict.named],
        "unclear": [{"links": [link_document(result.plane, link) for link in group.links],
                     "pairs": [clean(test) for test in group.slow]}
                    for result in results for group in result.verdict.unclear],
        "hidden": [link_document(result.plane, link) for result in results for link in result.verdict.hidden],
        "noise": [clean(one) for result in results for one in result.verdict.noise],
        "unmeasured": [clean(one) for result in results for one in result.unmeasured],
        "unjudged": [clean(one) for result in results for one in result.unjudged],
        "unproven": [{**link_document(result.plane, link), "why": clean(why)}
                     for result in results for link, why in result.unproven],
        "confirm": rounds_document(confirming(results, last)),
    }
