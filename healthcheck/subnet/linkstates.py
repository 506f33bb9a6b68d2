"""How each planned cable is shown in a drawing or on a page: what a comparison with the plan found of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from healthcheck.subnet.cabling import CablingPlan, PlannedCable
from healthcheck.subnet.difference import CablingComparison, DifferenceKind


class LinkLook(Enum):
    """A planned cable as it is shown, in words."""

    PLANNED = "planned"  # not compared with anything
    AS_PLANNED = "as planned"
    WRONG = "wrong"  # swapped, shifted, misplaced, or a cable that does not fit
    MISSING = "missing"
    UNKNOWN = "unknown"


# The order in which states are listed: what needs a person first.
SHOWN_STATES = (LinkLook.MISSING, LinkLook.WRONG, LinkLook.UNKNOWN, LinkLook.AS_PLANNED, LinkLook.PLANNED)
_LOOKS = {DifferenceKind.MISSING: LinkLook.MISSING, DifferenceKind.UNKNOWN: LinkLook.UNKNOWN}


def link_states(plan: CablingPlan, comparison: CablingComparison | None) -> Mapping[PlannedCable, LinkLook]:
    """The state of each planned cable; without a comparison all are just planned."""
    if comparison is None:
        return dict.fromkeys(plan.cables, LinkLook.PLANNED)
    states = dict.fromkeys(plan.cables, LinkLook.AS_PLANNED)
    for one in comparison.differences:
        states.update(dict.fromkeys(one.planned, _LOOKS.get(one.kind, LinkLook.WRONG)))
    return states
