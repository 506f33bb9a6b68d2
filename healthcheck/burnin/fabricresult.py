"""What the rates of a link burn say of each link: slow, proven to carry its share, or neither, and why. Pure.

Tasks' results become rows, which `healthcheck.subnet.burnresults` judges; its verdict becomes accusations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from healthcheck.burnin import faults, limits
from healthcheck.burnin.fabricwork import FabricMeans, FabricRound
from healthcheck.burnin.figures import SUSTAINED, WRITE_RATE
from healthcheck.burnin.merged import task_of
from healthcheck.burnin.model import Accusation, BurnInStage, Object, TaskResult
from healthcheck.burnin.setting import pair
from healthcheck.subnet import burnresults
from healthcheck.subnet.burnplan import BurnPair
from healthcheck.subnet.burnplanes import BurnPlane
from healthcheck.subnet.burnresults import BurnResult, MeasuredPair
from healthcheck.subnet.burnverdict import carried
from healthcheck.subnet.model import FabricLink, PortCounters
from inventory.text import clean, listed

NOT_READ = "no node that sees the fabric was named (--fabric-node): counters were not read"
_GIGABITS = 8.0
_TOGETHER = 0.5     # of the shorter time of two pairs, that both have to be under way
_ODD = 1e-6         # of a rate: what rounding may add
# A task that ended so says of its pair that next to nothing went through.
_STOOD = (faults.HUNG, faults.SLOW)


@dataclass(frozen=True)
class FabricCoverage:
    """What a link burn loaded. `slow` are the names of slow links, `unproven` those of which nothing proves
    that they carried the share each way, and why; `noise` are slow pairs of which all links were cleared,
    and that were not measured again; `chance` those that were fast then.
    `counters` is "" where the fabric's counters were compared, else why they were not."""

    share: float
    adaptive: bool
    means: FabricMeans
    rounds: int
    pairs: int
    links: int
    proven: int
    counters: str = ""
    slow: tuple[str, ...] = ()
    unproven: tuple[tuple[str, str], ...] = ()
    noise: tuple[str, ...] = ()
    chance: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether every link is proven, and every pair judged."""
        return not self.unproven and not self.noise


@dataclass(frozen=True)
class FabricCounters:
    """The counters of each subnet, by its name, before and after the link burn, or `why` there are none."""

    before: Mapping[str, PortCounters | None] = field(default_factory=lambda: MappingProxyType({}))
    after: Mapping[str, PortCounters | None] = field(default_factory=lambda: MappingProxyType({}))
    why: str = NOT_READ


@dataclass(frozen=True)
class FabricVerdict:
    """What was covered, accusations, by node why it cannot pass, those of them whose own link is slow, and
    the rounds that would tell more."""

    coverage: FabricCoverage
    accusations: tuple[Accusation, ...] = ()
    doubts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    slow_nodes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    more: tuple[FabricRound, ...] = ()


def verdict(made: Sequence[BurnPlane], results: Iterable[TaskResult], means: FabricMeans,
            counters: FabricCounters = FabricCounters()) -> FabricVerdict:
    """The verdict by all results so far."""
    measured = rows(results)
    compared = not counters.why
    judged = burnresults.judge([_with(plane, counters) for plane in made] if compared else made, measured,
                               "burn-in", counters.after if compared else None, hint="")
    planned = {id(one): plane for one, plane in zip(judged, made, strict=True)}
    accusations: list[Accusation] = []
    doubts: dict[str, str] = {}
    slow_nodes: dict[str, str] = {}
    unproven: list[tuple[str, str]] = []
    slow: list[str] = []
    noise: list[str] = []
    chance: list[str] = []
    more: list[FabricRound] = []
    last = max([row.round for row in measured] + [plane.first + len(plane.plan.rounds) - 1 for plane in made],
               default=0)
    for one in judged:
        plane = planned[id(one)]
        accusations += _accusations(one)
        named = {each.link for each in one.verdict.named}
        slow += [_called(plane, link) for link in sorted(named)]
        unplanned = {each.link: each.why for each in plane.plan.uncovered}
        for link, why in one.unproven:
            if link not in named:
                unproven.append((_called(plane, link), unplanned.get(link, why)))
                _doubt(plane, link, f"its link {_called(plane, link)} is not proven: "
                                    f"{unplanned.get(link, why)}", doubts)
        for link in sorted(named):
            _doubt(plane, link, f"its link {_called(plane, link)} is slow", slow_nodes)
        repeated = _repeated(plane, one, measured)
        accusations += repeated.accusations
        noise += repeated.once
        chance += repeated.chance
        if pairs := _together(plane, one.confirm, repeated.again):
            last += 1
            more.append(FabricRound(plane, last, pairs, more=True))
    links = sum(plane.plan.links for plane in made)
    coverage = FabricCoverage(
        max((plane.plan.share for plane in made), default=0.0), any(plane.plan.modelled for plane in made),
        means, len({row.round for row in measured}), len(measured), links,
        links - sum(len(one.unproven) for one in judged), counters.why, tuple(slow), tuple(unproven),
        tuple(noise), tuple(chance))
    return FabricVerdict(coverage, tuple(accusations), MappingProxyType({**doubts, **slow_nodes}),
                         MappingProxyType(slow_nodes), tuple(more))


@dataclass(frozen=True)
class _Repeated:
    """Slow pairs of which all links were cleared by others: accused where they were slow again; fast then;
    measured once. `again` are those to be measured again, with pairs by whose one test a link is named."""

    accusations: tuple[Accusation, ...]
    chance: tuple[str, ...]
    once: tuple[str, ...]
    again: tuple[BurnPair, ...]


def _repeated(plane: BurnPlane, one: BurnResult, measured: Sequence[MeasuredPair]) -> _Repeated:
    rates: dict[frozenset[str], list[MeasuredPair]] = defaultdict(list)
    for row in measured:
        rates[frozenset((row.a, row.b))].append(row)
    ports = {name.text: port for port, name in plane.names.items()}
    noise = {task_of(test): test for test in one.verdict.noise}
    found: dict[frozenset[str], list[str]] = defaultdict(list)
    for key, those in rates.items():
        found[key] += [noise[row.test] for row in those if row.test in noise]
    accusations, chance, once = [], [], []
    alone = {task_of(each.slow[0]) for each in one.verdict.named if len(each.slow) == 1}
    again = [BurnPair(ports[row.a], ports[row.b], plane.ways.pair_rate(ports[row.a], ports[row.b]))
             for row in measured if row.test in alone]
    for key, tests in sorted(found.items(), key=lambda item: item[1]):
        if not tests:
            continue
        a, b = sorted(key)
        if len(tests) > 1:
            why = f"slow each time, and others were fast over the same links: {'; '.join(tests)}"
            nodes = pair([ports[a].node, ports[b].node])
            accusations.append(Accusation(Object.PAIR, nodes, faults.SLOW_LINK, clean(why, limits.WHY_TEXT),
                                          tuple(tests[:limits.TESTS])))
        elif len(rates[key]) > 1:
            chance.append(clean(tests[0], 300))
        else:
            once.append(clean(tests[0], 300))
            again.append(BurnPair(ports[a], ports[b], plane.ways.pair_rate(ports[a], ports[b])))
    return _Repeated(tuple(accusations), tuple(chance), tuple(once), tuple(again))


def _together(plane: BurnPlane, first: Sequence[BurnPair], more: Sequence[BurnPair]) -> tuple[BurnPair, ...]:
    """The first pairs, and of the others those that load nothing beyond its rate beside them."""
    chosen = list(first)
    for one in more:
        used = {port for other in chosen for port in (other.a, other.b)}
        loads = carried(plane.ways, [(other.a, other.b, other.gbps) for other in (*chosen, one)])
        if not used & {one.a, one.b} and all(
                load <= plane.ways.rate_of(end) * (1 + _ODD) for end, load in loads.items()):
            chosen.append(one)
    return tuple(chosen)


def rows(results: Iterable[TaskResult]) -> tuple[MeasuredPair, ...]:
    """The measured pairs. Pairs of a round that were not under way at the same time are in rounds of their
    own: they did not load together what they share."""
    found: list[MeasuredPair] = []
    by_round: dict[int, list[tuple[TaskResult, float, tuple[str, str]]]] = defaultdict(list)
    for result in results:
        number, named = result.task.params.get("round"), str(result.task.params.get("ports", "")).split(" ")
        rate = _rate(result)
        if result.task.stage is BurnInStage.FABRIC and isinstance(number, int) and len(named) == 2 and (
                rate is not None):
            by_round[number].append((result, rate, (named[0], named[1])))
    spare = max(by_round, default=0)
    for number, those in sorted(by_round.items()):
        for turn, group in enumerate(_at_once(those)):
            if turn:
                spare += 1
            found += [MeasuredPair(0, spare if turn else number, a, b, rate, _seconds(result), result.task.id)
                      for result, rate, (a, b) in group]
    return tuple(found)


def _at_once(those: Sequence[tuple[TaskResult, float, tuple[str, str]]],
             ) -> list[list[tuple[TaskResult, float, tuple[str, str]]]]:
    groups: list[list[tuple[TaskResult, float, tuple[str, str]]]] = []
    over = shortest = 0.0
    for each in sorted(those, key=lambda each: each[0].began):
        began, ended = each[0].began, each[0].ended
        if not groups or min(over, ended) - began < _TOGETHER * min(shortest, ended - began):
            groups.append([])
            over, shortest = ended, ended - began
        over, shortest = min(over, ended), min(shortest, ended - began)
        groups[-1].append(each)
    return groups


def _rate(result: TaskResult) -> float | None:
    """Gb/s that each of the pair sent, by the slower one's time; None where that was not measured. Not by the
    median: a link that loses packets is fast between two losses."""
    if not result.whole:
        stood = result.accusations and all(
            one.object is Object.UNEXPLAINED and one.fault in _STOOD for one in result.accusations)
        return 0.0 if stood else None
    found = [report.figures.get(WRITE_RATE, report.figures.get(SUSTAINED, 0.0)) for report in result.reports]
    return _GIGABITS * min(found) if found and min(found) > 0 else None


def _seconds(result: TaskResult) -> float | None:
    """For how long the pair sent, by its parameters."""
    asked = result.task.params.get("run_s")
    return float(asked) if isinstance(asked, (int, float)) and asked > 0 else None


def _with(plane: BurnPlane, counters: FabricCounters) -> BurnPlane:
    """The plane with the counters of before the burn."""
    return replace(plane, subnet=replace(plane.subnet, counters=counters.before.get(plane.subnet.name)))


def _accusations(one: BurnResult) -> list[Accusation]:
    plane, share = one.plane, f"{one.plane.plan.share:.0%}"
    found = [Accusation(
        Object.LINK, _called(plane, each.link), faults.SLOW_LINK,
        clean(f"pairs over it reached less than {share} of their rate, and nothing else explains them as "
              f"well: {listed([test.partition(': ')[2] for test in each.slow], limits.NODES_NAMED, '; ')}",
              limits.WHY_TEXT),
        each.slow[:limits.TESTS]) for each in one.verdict.named]
    for group in one.verdict.unclear:
        names = listed([_called(plane, link) for link in group.links], limits.NAMES, "; ")
        tests = listed([test.partition(": ")[2] for test in group.slow], limits.NODES_NAMED, "; ")
        found.append(Accusation(
            Object.UNEXPLAINED, group.slow[0].partition(": ")[0], faults.SLOW_LINK,
            clean(f"cannot tell which of these links is slow: {names}; {tests}", limits.WHY_TEXT),
            group.slow[:limits.TESTS]))
    return found


def _called(plane: BurnPlane, link: FabricLink) -> str:
    """A link by name, with its subnet where that has one."""
    name = clean(plane.link(link), 200)
    return f"{clean(plane.subnet.name, 60)}: {name}" if plane.subnet.name else name


def _doubt(plane: BurnPlane, link: FabricLink, why: str, doubts: dict[str, str]) -> None:
    """Adds the node whose port is an end of the link."""
    for port in plane.names:
        if port.end in (link.a, link.b):
            doubts.setdefault(port.node, clean(why, 400))
