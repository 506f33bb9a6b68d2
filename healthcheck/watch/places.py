"""Which places are slower than the others in one window: a rack with warm air slows all its hosts by less
than any of them would be accused for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from healthcheck.watch.late import LateWindow
from healthcheck.watch.robust import measured, median_of, spread

EFFECT = 0.03       # of the job's step
SIGMAS = 6.0
_LEAST_PLACES = 4
_LEAST_HOSTS = 3    # of each
_FLOOR = 0.003


def late_places(of: Mapping[int, str], hosts: Sequence[str], seen: LateWindow) -> dict[str, float]:
    """The places that are slower, with how many seconds a step; `of` gives the place of each slot that
    reported, "" where it is not known."""
    excess: dict[str, list[float]] = defaultdict(list)
    members: dict[str, set[str]] = defaultdict(set)
    for slot, place in of.items():
        if place:
            excess[place].append(seen.excess[slot])
            members[place].add(hosts[slot])
    middles = {place: median_of(measured(values)) for place, values in excess.items()
               if len(members[place]) >= _LEAST_HOSTS}
    ordered = measured(list(middles.values()))
    if len(ordered) < _LEAST_PLACES:
        return {}
    middle = median_of(ordered)
    sigma = max(spread(ordered, middle), _FLOOR * seen.seconds)
    limit = max(EFFECT * seen.seconds, SIGMAS * sigma)
    return {place: value - middle for place, value in middles.items() if value - middle > limit}
