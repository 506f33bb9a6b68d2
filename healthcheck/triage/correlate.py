"""Finds what several nodes with one symptom share: a leaf, a rail, a rack, an NVLink or power domain, a
version, a batch, a moment. Pure.

For each symptom, each place of a kind that can cause it (the policy says which) is held against chance: the
tail of the hypergeometric distribution for places (k of their n nodes have it, K of the N in service), of the
binomial one for rails (of K nodes k have it on this rail alone) and moments (k of K began within a window of
the time that is remembered), all corrected for how many places were tried. The least likely place wins, which
is the narrowest that explains most; what it leaves unexplained is looked at again, and a moment is looked for
last. A place that one can go to (leaf, rack, power or NVLink domain) of which all or nearly all nodes have it
needs less evidence, and its nodes out of service bear witness with those in service: a rack that went dark is
dark whether or not someone works on half of it. It proves no cause: it says where to look.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from healthcheck.model.faultkind import Of
from healthcheck.model.problem import Problem
from healthcheck.triage.faults import of
from healthcheck.triage.likelihood import binomial, hypergeometric, odds
from healthcheck.triage.past import FleetHistory, NodeHistory
from healthcheck.triage.policy import EXPLAINING, KINDS, MOMENT, PHYSICAL, PLACES, IncidentPolicy
from healthcheck.triage.symptom import symptom
from healthcheck.triage.whole import WholePlace, named, nearly_all
from inventory.nodeset import natural
from inventory.times import minute

__all__ = ["KINDS", "MOMENT", "PLACES", "Correlation", "OutOfService", "Place", "correlate", "domains",
           "minute"]

# What has no place of its own: of those who have the symptom, most must share it; of a place,
# most must have the symptom.
_WIDESPREAD = ("rail", *EXPLAINING)
_FIRST = (("port", "leaf"), ("hca", "leaf"), ("roce", "leaf"), ("fabric", "nvlink_domain"),
          ("nvlink", "nvlink_domain"), ("driver", "driver"), ("module", "driver"), ("gpu-power", "power"),
          ("bmc", "power"))
_PCI = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_BESIDES = 3
_MOST_PLACES = 8        # of one symptom: a fleet with more has another trouble

Place = tuple[str, str]
Showing = Mapping[str, Mapping[str, tuple[Problem, ...]]]       # symptom -> node -> its problems


@dataclass(frozen=True)
class OutOfService:
    """The nodes that are not in service and were looked at lately, and what they show: like `Showing`."""

    looked: frozenset[str] = frozenset()
    showing: Showing = field(default_factory=dict)


@dataclass(frozen=True)
class Correlation:
    """Nodes with one symptom, or several, that share a place. `inside` of a place are its nodes in service,
    `had` those in service with the symptom anywhere, of `fleet`; `likelihood`: chance does this once in so
    many. `besides` are places that explain it as well, `whole` others of which all or nearly all is
    concerned, and `out` the nodes there that show it and are not in service.
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
    whole: tuple[WholePlace, ...] = ()
    out: tuple[str, ...] = ()


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


def correlate(
    fleet: FleetHistory, showing: Showing, policy: IncidentPolicy, beside: OutOfService | None = None,
) -> list[Correlation]:
    """What is shared, the least likely first; places that several symptoms name are one,
    with all of these. `beside` are nodes out of service: they bear witness, and are in no incident."""
    beside = beside or OutOfService()
    wide = {name: nodes for name, nodes in showing.items()
            if nodes and len(nodes) + len(beside.showing.get(name, ())) >= policy.at_least}
    if not wide or not policy.kinds:
        return []
    index = _Index(fleet, policy, beside)
    found = [each for name in sorted(wide) for each in index.explain(name, wide[name], len(wide))]
    together: dict[Place, Correlation] = {}
    for one in sorted(found, key=lambda one: (-one.likelihood, one.symptoms)):
        if (first := together.get((one.kind, one.place))) is None:
            together[one.kind, one.place] = one
        else:
            nodes, out = (tuple(sorted({*each, *other}, key=natural))
                          for each, other in ((first.nodes, one.nodes), (first.out, one.out)))
            together[one.kind, one.place] = replace(first, symptoms=(*first.symptoms, *one.symptoms),
                                                    nodes=nodes, out=out)
    return list(together.values())


@dataclass(frozen=True)
class _Ranked:
    """A place with those who have the symptom there, in service and out of it; `size` are all its nodes that
    have a say, `whole`: so few of them do not have it that it is concerned as a whole."""

    order: tuple[object, ...]
    place: Place
    inside: list[str]
    out: list[str]
    size: int
    likelihood: float
    whole: bool


class _Index:
    """How many nodes of the fleet each place has."""

    def __init__(self, fleet: FleetHistory, policy: IncidentPolicy, beside: OutOfService) -> None:
        self._policy = policy
        self._fleet = fleet
        self._beside = beside
        self._past = {past.node: past for past in fleet.nodes}
        serving = [past for past in self._past.values() if past.in_service]
        self._serving = fleet.quiet.serving + len(serving)
        self._size: Counter[Place] = Counter(fleet.quiet.places)
        self._rails: Counter[str] = Counter(fleet.quiet.rails)
        self._of = {node: domains(past) for node, past in self._past.items()}
        for past in serving:
            self._size.update(self._of[past.node])
            self._rails.update(rail for _, rail in past.ports.values() if rail)
        self._besides: Counter[Place] = Counter(place for node in beside.looked for place in self._of[node]
                                                if place[0] in PHYSICAL)
        self._tried: dict[frozenset[str], int] = {}

    def _places(self, kinds: frozenset[str]) -> int:
        """How many places of these kinds there are to be tried."""
        if kinds not in self._tried:
            self._tried[kinds] = sum(self._size[place] + self._besides[place] >= self._policy.at_least
                                     and place[0] in kinds for place in self._size) + \
                len(self._rails) * ("rail" in kinds)
        return self._tried[kinds]

    def explain(
        self, name: str, nodes: Mapping[str, tuple[Problem, ...]], symptoms: int,
    ) -> Iterable[Correlation]:
        """The places of one symptom, each for nodes that no earlier one explains."""
        there = {**nodes, **self._beside.showing.get(name, {})}
        where = {node: _of_ports(self._past[node], problems, self._of[node])
                 for node, problems in there.items()}
        began = {node: min(problem.began for problem in problems) for node, problems in there.items()}
        one = next(iter(nodes.values()))[0]     # all that have this name are of one rule
        kinds = self._policy.may_cause(of(one) or Of.FAIL, one.rule)
        left = dict(there)
        whole: list[WholePlace] | None = None
        for _ in range(_MOST_PLACES):
            if len(left) < self._policy.at_least:
                break
            ranked = self._ranked(name, left, where, began, symptoms, kinds)
            if whole is None:       # of all that have it, before any place took its nodes
                whole = [WholePlace(*each.place, frozenset([*each.inside, *each.out]), each.size)
                         for each in ranked if each.whole]
            if (best := self._best(name, ranked, nodes.keys() & left.keys(), whole)) is None:
                break
            yield best
            for node in (*best.nodes, *best.out):
                left.pop(node, None)
        serving = {node: problems for node, problems in left.items() if node in nodes}
        if len(serving) >= self._policy.at_least and MOMENT in kinds:
            yield from self._moment(name, serving, symptoms)

    def _ranked(
        self, name: str, left: Collection[str], where: Mapping[str, set[Place]], began: Mapping[str, float],
        symptoms: int, kinds: frozenset[str],
    ) -> list[_Ranked]:
        """The places with enough of those that are left, the least likely first."""
        members: dict[Place, list[str]] = defaultdict(list)
        besides: dict[Place, list[str]] = defaultdict(list)
        serving = [node for node in left if self._past[node].in_service]
        others = sorted(began[node] for node in left if not self._past[node].in_service)
        for node in left:
            for place in where[node]:
                (members if self._past[node].in_service else besides)[place].append(node)
        rails = ({node for node in serving if any(each[0] == "rail" for each in where[node])} if self._rails
                 else set())
        first = next((kind for prefix, kind in _FIRST if name.startswith(prefix)), "")
        ranked = []
        for place, inside in members.items():
            kind = place[0]
            if kind not in kinds:
                continue
            if kind == "rail":
                inside = [node for node in inside if sum(each[0] == "rail" for each in where[node]) == 1]
            size = (self._size[place] if kind not in _WIDESPREAD else len(rails) if kind == "rail"
                    else len(serving))
            out: list[str] = []
            if kind in PHYSICAL:
                # What a node out of service has had since before says nothing of this, either way.
                start = min(began[node] for node in inside) - self._policy.window_minutes * 60
                early = bisect_left(others, start)
                out = [node for node in besides[place] if began[node] >= start]
                size += self._besides[place] - len(besides[place]) + len(out)
            hits = len(inside) + len(out)
            if hits < self._policy.at_least or hits * 100 < self._policy.share * size:
                continue
            if kind == "rail":
                tail = binomial(len(rails), self._rails[place[1]] / self._rails.total(), len(inside))
            elif kind in PHYSICAL:
                tail = hypergeometric(self._serving + len(self._beside.looked) - early, len(left) - early,
                                      size, hits)
            else:
                tail = hypergeometric(self._serving, len(serving), self._size[place], len(inside))
            order = (round(tail, 6), -hits, self._size[place], kind != first, PLACES.index(kind),
                     natural(place[1]))
            ranked.append(_Ranked(order, place, inside, out, size, odds(tail, self._places(kinds) * symptoms),
                                  kind in PHYSICAL and nearly_all(hits, size)))
        whole = frozenset(node for each in ranked if each.whole for node in (*each.inside, *each.out))
        tried = self._places(kinds) * symptoms
        return sorted((self._apart(each, whole, len(left), tried) if each.whole else each for each in ranked),
                      key=lambda each: each.order)

    def _apart(self, one: _Ranked, whole: frozenset[str], had: int, tried: int) -> _Ranked:
        """A whole place as chance would have it without the others that went as a whole: two racks that went
        together hide each other in a small fleet."""
        others = len(whole.difference(one.inside, one.out))
        tail = hypergeometric(self._serving + len(self._beside.looked) - others, had - others, one.size,
                              len(one.inside) + len(one.out))
        return replace(one, likelihood=max(one.likelihood, odds(tail, tried)))

    def _best(
        self, name: str, ranked: list[_Ranked], serving: Collection[str], whole: Iterable[WholePlace],
    ) -> Correlation | None:
        """The least likely place that chance does not explain; `serving` have the symptom and are left."""
        policy = self._policy
        best = next((each for each in ranked if each.likelihood >= policy.likelihood
                     or (each.whole and each.likelihood >= policy.whole)), None)
        if best is None:
            return None
        kind, place_name = best.place
        nodes = frozenset([*best.inside, *best.out])
        same = [each.place for each in ranked if each is not best and each.order[:2] == best.order[:2]
                and {*each.inside, *each.out} == nodes]
        # One of each kind goes before all leaves of a rail-optimised fabric.
        firsts = list({kind: (kind, name) for kind, name in reversed(same) if kind != best.place[0]}.values())
        same.sort(key=lambda place: place not in firsts)
        besides = tuple(named(*place) for place in same[:_BESIDES])
        size = self._size[best.place] if kind != "rail" else len(serving)
        return Correlation(
            kind, place_name, (name,), tuple(sorted(best.inside, key=natural)), size, len(serving),
            self._serving, best.likelihood, besides,
            tuple(one for one in whole if one.nodes & nodes and one.nodes != nodes
                  and (one.kind, one.place) != best.place),
            tuple(sorted(best.out, key=natural)))

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
