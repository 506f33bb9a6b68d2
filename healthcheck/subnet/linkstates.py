"""How each planned cable is shown in a drawing or on a page: what a comparison found of it, and its link."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from healthcheck.subnet.cabled import CabledFabric
from healthcheck.subnet.cabling import CablingPlan, PlannedCable
from healthcheck.subnet.difference import DifferenceKind, compare


class CableState(Enum):
    """A planned cable as it is shown, in words."""

    PLANNED = "planned"  # not compared with anything
    AS_PLANNED = "as planned"
    WRONG = "wrong"  # swapped, shifted, misplaced, or a cable that does not fit
    MISSING = "missing"
    DEGRADED = "degraded"  # at its planned ends; its link is not active, or narrower or slower than planned
    UNKNOWN = "unknown"


# The order in which states are listed: what needs a person first.
SHOWN_STATES = (CableState.MISSING, CableState.WRONG, CableState.DEGRADED, CableState.UNKNOWN,
                CableState.AS_PLANNED, CableState.PLANNED)
_BY_DIFFERENCE = {DifferenceKind.MISSING: CableState.MISSING, DifferenceKind.UNKNOWN: CableState.UNKNOWN}


def link_states(plan: CablingPlan, seen: CabledFabric | None) -> Mapping[PlannedCable, CableState]:
    """The state of each planned cable; where nothing was seen all are just planned."""
    if seen is None:
        return dict.fromkeys(plan.cables, CableState.PLANNED)
    degraded = {frozenset(cable.ends) for cable in seen.cables if cable.degraded}
    states = {cable: CableState.DEGRADED if frozenset((cable.a, cable.b)) in degraded
              else CableState.AS_PLANNED for cable in plan.cables}
    for one in compare(plan, seen).differences:
        states.update(dict.fromkeys(one.planned, _BY_DIFFERENCE.get(one.kind, CableState.WRONG)))
    return states
