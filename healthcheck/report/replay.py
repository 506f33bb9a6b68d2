"""What a policy would have done, compared with what was done, as text and as JSON (muster.replay/1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from healthcheck.replay.compare import IsolationPair, PolicyComparison, Side
from healthcheck.replay.run import Hold
from inventory.nodeset import fold
from inventory.text import clean, many
from inventory.times import iso, minute

_WHY = 90
_MOST_SAME = 20
LIMITS = (
    "as if triage had run at the end of every sweep, with what was known then",
    "repairs, boots, exchanged parts and decisions of people are as they were: a node that was not really "
    "isolated was not repaired either",
    "a node that only the replay isolates returns by ordinary sweeps, because it was not checked under the "
    "requalification profile",
    "a breaker that only the replay opens is closed by the policy, or after --close-after",
    "lifecycles, racks and versions are today's; cordons of others are not stored; a problem's severity is "
    "its last",
)
ON = (
    "to enable it, start with a small limit:  muster triage --apply --at-most 2",
    "then run it after every sweep, from cron (check exits with 1 when something is wrong, so no &&):",
    "  */5 * * * *  muster check --store >/dev/null; muster triage --apply",
)


def text(found: PolicyComparison) -> Iterator[str]:
    """Both sides in numbers, then each difference, then what is equal."""
    yield f"since {minute(found.since)}, at {found.moments:,} moments{'':<6}would have      was"
    for name, would, was in (("isolations", found.would.isolations, found.was.isolations),
                             ("returns", found.would.returns, found.was.returns),
                             ("openings of the breaker", len(found.would.openings), len(found.was.openings))):
        yield f"  {name:<32}{would:>18,}{was:>14,}"
    yield f"  {'node-hours out of service':<32}{found.would.node_hours:>18,.1f}{found.was.node_hours:>14,.1f}"
    if found.withheld:
        yield f"  the breaker would have held back {many(found.withheld, 'isolation')}"
    for words, side in (("would have opened", found.would), ("opened", found.was)):
        for time, why in side.openings:
            yield f"  the breaker {words} at {minute(time)}: {clean(why, 200)}"
    yield ""
    different = [pair for pair in found.pairs if not pair.same]
    same = [pair for pair in found.pairs if pair.same]
    if not found.pairs:
        yield "no isolation in either"
    elif not different:
        yield "no difference"
    for pair in different:
        yield f"{pair.node}"
        yield f"  would have: {_hold(pair.would)}"
        yield f"  was:        {_hold(pair.was)}"
    if same:
        yield f"equal: {len(same)} isolation{'s' * (len(same) != 1)} of {fold({pair.node for pair in same})}"
        for pair in same[:_MOST_SAME]:
            yield f"  {pair.node}  {_hold(pair.would)}"
        if len(same) > _MOST_SAME:
            yield f"  and {len(same) - _MOST_SAME} more: --format json"
    yield ""
    yield from _people(found)
    yield ""
    yield from LIMITS
    yield ""
    yield from ON


def _people(found: PolicyComparison) -> Iterator[str]:
    """What people did with muster in that time, and whether triage agrees."""
    people = found.people
    agreed = [one for one in people.theirs if one.agreed]
    earlier = sorted(one.earlier for one in people.theirs if one.earlier is not None)
    yield (f"people cordoned {len(people.theirs)} time{'s' * (len(people.theirs) != 1)}: triage agrees with "
           f"{len(agreed)}, of which it would have isolated {len(earlier)} earlier"
           + (f", by {earlier[len(earlier) // 2] / 3600:.1f} h in the median" if earlier else ""))
    yield f"  triage alone would have made {people.triage_alone} isolation{'s' * (people.triage_alone != 1)}"
    yield (f"  node-hours out of service: {people.both_hours:.1f} by both, {people.triage_hours:.1f} by "
           f"triage alone, {people.people_hours:.1f} by people alone")
    alone: dict[str, list[str]] = {}
    for one in people.theirs:
        if not one.agreed:
            alone.setdefault(clean(one.hold.why, _WHY), []).append(one.hold.node)
    for why, names in alone.items():
        yield f"  people alone  {fold(names)}: {why}"


def _hold(hold: Hold | None) -> str:
    if hold is None:
        return "not isolated"
    until = minute(hold.ended) if hold.ended is not None else "now"
    back = f"; back: {clean(hold.back, _WHY)}" if hold.back else ""
    return f"{minute(hold.began)} .. {until}  {clean(hold.why, _WHY)}{back}"


def document(found: PolicyComparison) -> dict[str, Any]:
    """The comparison as one JSON document."""
    return {
        "schema": "muster.replay/1", "since": iso(found.since), "until": iso(found.now),
        "moments": found.moments, "would": _side(found.would) | {"withheld_by_breaker": found.withheld},
        "was": _side(found.was), "differences": [_pair(pair) for pair in found.pairs if not pair.same],
        "same": [_pair(pair) for pair in found.pairs if pair.same], "people": _people_document(found),
        "limits": list(LIMITS),
    }


def _people_document(found: PolicyComparison) -> dict[str, Any]:
    people = found.people
    return {
        "isolations": len(people.theirs), "agreed": sum(one.agreed for one in people.theirs),
        "triage_alone": people.triage_alone,
        "node_hours": {"both": people.both_hours, "triage_alone": people.triage_hours,
                       "people_alone": people.people_hours},
        "each": [{"node": one.hold.node, "agreed": one.agreed, "seconds_earlier": one.earlier}
                 | (_relevant(one.hold) or {})
                 for one in people.theirs],
    }


def _side(side: Side) -> dict[str, Any]:
    return {"isolations": side.isolations, "returns": side.returns, "node_hours": side.node_hours,
            "breaker_openings": [{"time": iso(time), "why": why} for time, why in side.openings]}


def _pair(pair: IsolationPair) -> dict[str, Any]:
    return {"node": pair.node, "would": _relevant(pair.would), "was": _relevant(pair.was)}


def _relevant(hold: Hold | None) -> dict[str, Any] | None:
    if hold is None:
        return None
    returned = iso(hold.ended) if hold.ended is not None else None
    return {"isolated": iso(hold.began), "returned": returned, "why": hold.why, "back": hold.back}
