"""Places of which all or nearly all nodes are concerned: named with no regard to chance. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from healthcheck.triage.past import FleetHistory
from healthcheck.triage.policy import PHYSICAL
from inventory.nodeset import natural

_SAID = {"nvlink_domain": "NVLink domain", "power": "power domain", "batch": "delivery batch",
         "lot": "lot of"}
_ONE_IN = 8         # of so many nodes one may be missing of a place of which nearly all is concerned
_NAMES = 4          # of one kind: a node of a rail-optimised fabric is behind eight leaves
_GROUPS = 6
# Where a person goes first: a rack is seen from the aisle.
_FIRST = ("rack", "power", "nvlink_domain", "leaf")


def named(kind: str, place: str) -> str:
    """A place in words."""
    return f"{_SAID.get(kind, kind)} {place}"


def nearly_all(hits: int, size: int) -> bool:
    """Whether so many of so many are all or nearly all: one may be missing if three are there,
    of more nodes one in eight."""
    missing = size - hits
    return hits >= 2 and missing <= (max(1, size // _ONE_IN) if hits > 2 else 0)


@dataclass(frozen=True)
class WholePlace:
    """A place with those of its nodes that are concerned, of `size` that have a say; `out` of them are not in
    service. `before` are others that are not in service, and were concerned long before those that are."""

    kind: str
    place: str
    nodes: frozenset[str]
    size: int
    out: int = 0
    before: int = 0

    @property
    def share(self) -> str:
        """How much of it is concerned, in words."""
        return f"all {self.size}" if len(self.nodes) == self.size else f"{len(self.nodes)} of {self.size}"

    @property
    def beside(self) -> str:
        """Which of its nodes are not in service, in words; empty where it has none that are concerned."""
        out = [f"{self.out} of them not in service"] if self.out else []
        before = [f"beside {self.before} not in service that had it before"] if self.before else []
        return f" ({', '.join([*out, *before])})" if out or before else ""


def wholly(
    fleet: FleetHistory, concerned: Mapping[str, float], kinds: Collection[str], window: float,
) -> list[WholePlace]:
    """The physical places of these kinds of which all or nearly all is concerned. Nodes that are not in
    service are members where a sweep has ever looked at them, but for those that were concerned more than
    `window` seconds before the first in service; a place without nodes in service is not concerned.
    `concerned` says since when.

    None where that is so of the fleet: then its places say nothing.
    """
    past_of = {past.node: past for past in fleet.nodes if past.in_service or past.state}
    if nearly_all(len(concerned), fleet.quiet.serving + len(past_of)):
        return []
    size = Counter(fleet.quiet.places)
    there: dict[tuple[str, str], list[str]] = defaultdict(list)
    for node, past in past_of.items():
        for kind, names in past.domains.items():
            for name in names if kind in PHYSICAL and kind in kinds else ():
                size[kind, name] += 1
                if node in concerned:
                    there[kind, name].append(node)
    found = []
    for (kind, name), nodes in there.items():
        serving = [node for node in nodes if past_of[node].in_service]
        start = min((concerned[node] for node in serving), default=float("inf")) - window
        kept = [node for node in nodes if concerned[node] >= start]
        before = len(nodes) - len(kept)
        if serving and nearly_all(len(kept), size[kind, name] - before):
            found.append(WholePlace(kind, name, frozenset(kept), size[kind, name] - before,
                                    len(kept) - len(serving), before))
    return found


def listed(found: Iterable[WholePlace]) -> str:
    """Each place by its name, with how much of it is concerned; those with the same nodes together."""
    groups = [(group[0], _names(group)) for group in _groups(found)]
    said = [f"{one.share} nodes of {' and '.join(names)}{one.beside}" for one, names in groups[:_GROUPS]]
    return ", ".join(said) + (f" and {len(groups) - _GROUPS} places more" if len(groups) > _GROUPS else "")


def first(found: Iterable[WholePlace]) -> WholePlace:
    """The one to go to first."""
    return _groups(found)[0][0]


def title(found: Iterable[WholePlace]) -> str:
    """The places alone, by their names."""
    names = [name for group in _groups(found) for name in _names(group)]
    return ", ".join(names[:_GROUPS]) + (f" and {len(names) - _GROUPS} more" if len(names) > _GROUPS else "")


def _groups(found: Iterable[WholePlace]) -> list[list[WholePlace]]:
    """Those with the same nodes together, the largest first."""
    of: dict[tuple[frozenset[str], int], list[WholePlace]] = defaultdict(list)
    for one in sorted(found, key=lambda one: (-len(one.nodes), _FIRST.index(one.kind), natural(one.place))):
        of[one.nodes, one.size].append(one)
    return list(of.values())


def _names(group: Iterable[WholePlace]) -> list[str]:
    """The names of places, those of one kind together."""
    of: dict[str, list[str]] = defaultdict(list)
    for one in group:
        of[one.kind].append(one.place)
    return [named(kind, ", ".join(names[:_NAMES])
                  + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""))
            for kind, names in of.items()]
