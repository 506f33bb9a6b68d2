"""Finds what several nodes with one symptom share: a leaf, a rail, a rack, an NVLink or power domain, a
version, a batch, a moment. Pure.

For each symptom, each place of a kind that can cause it (the policy says which) is held against chance: the
tail of the hypergeometric distribution for places (k of their n nodes have it, K of the N in service), of the
binomial one for rails (of K nodes k have it on this rail alone) and moments (k of K began within a window of
the time that is remembered), all corrected for how many places were tried. The least likely place wins, which
is the narrowest that explains most; what it leaves unexplained is looked at again, and a moment is looked for
last. It proves no cause: it says where to look.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from healthcheck.model.faultkind import Of
from healthcheck.model.problem import Problem
from healthcheck.triage.faults import of
from healthcheck.triage.likelihood import binomial, hypergeometric, odds
from healthcheck.triage.past import FleetHistory, NodeHistory
from healthcheck.triage.policy import EXPLAINING, KINDS, MOMENT, PLACES, IncidentPolicy
from healthcheck.triage.symptom import symptom
from inventory.nodeset import natural

__all__ = ["KINDS", "MOMENT", "PLACES", "Correlation", "Place", "correlate", "domains", "minute", "named"]

# What has no place of its own: of those who have the symptom, most must share it; of a place,
# most must have the symptom.
_WIDESPREAD = ("rail", *EXPLAINING)
_FIRST = (("port", "leaf"), ("hca", "leaf"), ("roce", "leaf"), ("fabric", "nvlink_domain"),
          ("nvlink", "nvlink_domain"), ("driver", "driver"), ("module", "driver"), ("gpu-power", "power"),
          ("bmc", "power"))
_PCI = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_SAID = {"nvlink_domain": "NVLink domain", "power": "power domain", "batch": "delivery batch"}
_MOST_PLACES = 8        # of one symptom: a fleet with more has another trouble

Place = tuple[str, str]
Showing = Mapping[str, Mapping[str, tuple[Problem, ...]]]       # symptom -> node -> its problems


@dataclass(frozen=True)
class Correlation:
    """Nodes with one symptom, or several, that share a place. `inside` of a place are its nodes in service,
    `had` those in service with the symptom anywhere, of `fleet`; `likelihood`: chance does this once in so
    many. `besides` are places that explain it as well.
    """

    kind: str
    place: str
    symptoms: tuple[str, ...]
    nodes: tuple[str, ...]
    inside: int
    had: int
    fleet: int
    likelihood: float
    besides: tuple[str, ...] = ()


def domains(past: NodeHistory, problems: Iterable[Problem] = ()) -> set[Place]:
    """The places of a node; where problems name ports whose leaf or rail is known,
    these and no other leaf or rail."""
    found = {(kind, name) for kind, names in past.domains.items() for name in names}
    found |= {(kind, version) for kind, version in past.versions.items() if version}
    return _of_ports(past, problems, found) if past.ports else found


def _of_ports(past: NodeHistory, problems: Iterable[Problem], found: set[Place]) -> set[Place]:
    named_ports = {pci.lower() for problem in problems for pci in _PCI.findall(problem.subject)}
    if not named_ports:
        return found
    planned = [past.ports[pci] for pci in named_ports if pci in past.ports]
    if leaves := {("leaf", leaf) for leaf, _ in planned if leaf}:
        found = {each for each in found if each[0] != "leaf"} | leaves
    return found | {("rail", rail) for _, rail in planned if rail}


def correlate(fleet: FleetHistory, showing: Showing, policy: IncidentPolicy) -> list[Correlation]:
    """What is shared, the least likely first; places that several symptoms name are one,
    with all of these."""
    wide = {name: nodes for name, nodes in showing.items() if len(nodes) >= policy.at_least}
    if not wide or not policy.kinds:
        return []
    index = _Index(fleet, policy)
    found = [each for name in sorted(wide) for each in index.explain(name, wide[name], len(wide))]
    together: dict[Place, Correlation] = {}
    for one in sorted(found, key=lambda one: (-one.likelihood, one.symptoms)):
        if (first := together.get((one.kind, one.place))) is None:
            together[one.kind, one.place] = one
        else:
            nodes = tuple(sorted({*first.nodes, *one.nodes}, key=natural))
            together[one.kind, one.place] = replace(first, symptoms=(*first.symptoms, *one.symptoms),
                                                    nodes=nodes)
    return list(together.values())


def named(kind: str, place: str) -> str:
    """A place in words."""
    return f"{_SAID.get(kind, kind)} {place}"


def minute(time: float) -> str:
    """The name of a moment."""
    return dt.datetime.fromtimestamp(time, dt.timezone.utc).strftime("%Y-%m-%dT%H:%MZ")


class _Index:
    """How many nodes of the fleet each place has."""

    def __init__(self, fleet: FleetHistory, policy: IncidentPolicy) -> None:
        self._policy = policy
        self._fleet = fleet
        self._past = {past.node: past for past in fleet.nodes if past.in_service}
        self._serving = fleet.quiet.serving + len(self._past)
        self._size: Counter[Place] = Counter({place: size for place, size in fleet.quiet.places.items()
                                              if place[0] in policy.kinds})
        self._rails: Counter[str] = Counter(fleet.quiet.rails)
        self._of = {node: {place for place in domains(past) if place[0] in policy.kinds}
                    for node, past in self._past.items()}
        for past in self._past.values():
            self._size.update(self._of[past.node])
            self._rails.update(rail for _, rail in past.ports.values() if rail)
        self._tried: dict[frozenset[str], int] = {}

    def _places(self, kinds: frozenset[str]) -> int:
        """How many places of these kinds there are to be tried."""
        if kinds not in self._tried:
            self._tried[kinds] = sum(size >= self._policy.at_least and place[0] in kinds
                                     for place, size in self._size.items()) + \
                len(self._rails) * ("rail" in kinds)
        return self._tried[kinds]

    def explain(
        self, name: str, nodes: Mapping[str, tuple[Problem, ...]], symptoms: int,
    ) -> Iterable[Correlation]:
        """The places of one symptom, each for nodes that no earlier one explains."""
        where = {node: _of_ports(self._past[node], problems, self._of[node])
                 for node, problems in nodes.items()}
        one = next(iter(nodes.values()))[0]     # all that have this name are of one rule
        kinds = self._policy.may_cause(of(one) or Of.FAIL, one.rule)
        left = dict(nodes)
        for _ in range(_MOST_PLACES):
            if (len(left) < self._policy.at_least
                or (best := self._best(name, left, where, symptoms, kinds)) is None):
                break
            yield best
            for node in best.nodes:
                left.pop(node, None)
        if len(left) >= self._policy.at_least and MOMENT in kinds:
            yield from self._moment(name, left, symptoms)

    def _best(
        self, name: str, left: Collection[str], where: Mapping[str, set[Place]], symptoms: int,
        kinds: frozenset[str],
    ) -> Correlation | None:
        members: dict[Place, list[str]] = defaultdict(list)
        for node in left:
            for place in where[node]:
                members[place].append(node)
        rails = ({node for node in left if any(each[0] == "rail" for each in where[node])} if self._rails
                 else set())
        first = next((kind for prefix, kind in _FIRST if name.startswith(prefix)), "")
        ranked = []
        for place, inside in members.items():
            kind = place[0]
            if kind not in kinds or len(inside) < self._policy.at_least:
                continue
            if kind == "rail":
                inside = [node for node in inside if sum(each[0] == "rail" for each in where[node]) == 1]
            size = (self._size[place] if kind not in _WIDESPREAD else len(rails) if kind == "rail"
                    else len(left))
            if len(inside) < self._policy.at_least or len(inside) * 100 < self._policy.share * size:
                continue
            if kind == "rail":
                tail = binomial(len(rails), self._rails[place[1]] / self._rails.total(), len(inside))
            else:
                tail = hypergeometric(self._serving, len(left), self._size[place], len(inside))
            order = (round(tail, 6), -len(inside), self._size[place], kind != first, PLACES.index(kind),
                     natural(place[1]))
            ranked.append((order, place, inside, odds(tail, self._places(kinds) * symptoms)))
        ranked.sort(key=lambda each: each[0])
        if not ranked or ranked[0][3] < self._policy.likelihood:
            return None
        order, (kind, place_name), inside, once_in = ranked[0]
        besides = tuple(named(*place) for other, place, nodes, _ in ranked[1:4] if other[:2] == order[:2]
                        and set(nodes) == set(inside))
        size = self._size[kind, place_name] if kind != "rail" else len(left)
        return Correlation(kind, place_name, (name,), tuple(sorted(inside, key=natural)), size, len(left),
                           self._serving, once_in, besides)

    def _moment(
        self, name: str, left: Mapping[str, tuple[Problem, ...]], symptoms: int,
    ) -> Iterable[Correlation]:
        """The window in which most of them began, of nodes that had been seen without it;
        how often it begins otherwise is from history."""
        window = self._policy.window_minutes * 60
        began = sorted((min(problem.began for problem in problems), node) for node, problems in left.items())
        began = [(time, node) for time, node in began if self._past[node].boots
                 and self._past[node].boots[0] < time]
        best: list[tuple[float, str]] = []
        start = 0
        for end in range(len(began)):
            while began[end][0] - began[start][0] > window:
                start += 1
            if end - start + 1 > len(best):
                best = began[start:end + 1]
        span = self._fleet.now - self._fleet.since
        if (len(best) < self._policy.at_least or len(best) * 100 < self._policy.share * len(left)
            or span <= window):
            return
        times = len(left) + sum(symptom(problem) == name for past in self._fleet.nodes
                                for problem in past.over)
        once_in = odds(binomial(times, window / span, len(best)), times * symptoms)
        if once_in >= self._policy.likelihood:
            yield Correlation(MOMENT, minute(best[0][0]), (name,),
                              tuple(sorted((node for _, node in best), key=natural)), len(best), len(left),
                              self._serving, once_in)
