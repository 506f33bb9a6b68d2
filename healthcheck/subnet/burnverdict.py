"""Which links the pairs of a link burn accuse, and which pairs would tell more.

A pair loads several channels, any of which may be what slows it. A channel is cleared by a pair that was
fast and put at least as much of itself on it. A link is named only where nothing else explains as well: where
it is the only one that a slow pair leaves, or the only one that explains every slow pair beside it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.subnet.burnplan import BurnPair
from healthcheck.subnet.burnways import BurnPort, BurnWays, Channel
from healthcheck.subnet.model import FabricEnd, FabricLink

_TRIED = 200        # pairs that are looked at for one suspect
_ODD = 1e-6
# Slow pairs that one link must explain alone to be named where others explain some of them.
_SEVERAL = 2


@dataclass(frozen=True)
class BurnTest:
    """What became of a pair: `slow` is None where it was not measured or could not be judged."""

    test: str
    a: BurnPort
    b: BurnPort
    slow: bool | None


@dataclass(frozen=True)
class NamedLink:
    """A link that explains these slow pairs, and nothing else does as well."""

    link: FabricLink
    slow: tuple[str, ...]


@dataclass(frozen=True)
class UnclearLinks:
    """Links of which some explain these slow pairs; nothing tells which."""

    links: tuple[FabricLink, ...]
    slow: tuple[str, ...]


@dataclass(frozen=True)
class BurnVerdict:
    """What all pairs together say. `noise` are slow pairs of which every channel was cleared by others;
    `hidden` are links that only pairs used which a named link had slowed, so that nothing is known of them;
    `measured` are the links of which a judged pair loaded each way, without the hidden ones."""

    named: tuple[NamedLink, ...]
    unclear: tuple[UnclearLinks, ...]
    noise: tuple[str, ...]
    hidden: tuple[FabricLink, ...]
    measured: frozenset[FabricLink]


class LinkSuspects:
    """What remains suspect of all links after these tests."""

    def __init__(self, ways: BurnWays, tests: Iterable[BurnTest]) -> None:
        self._ways = ways
        self._numbers = ways.numbers
        self._link = {ways.channels[end]: link for link in ways.links for end in (link.a, link.b)}
        self._tests = [test for test in tests if test.slow is not None]
        self._cleared: dict[Channel, float] = {}
        for test in self._tests:
            for at, share in self._shares(test).items() if not test.slow else ():
                self._cleared[at] = max(self._cleared.get(at, 0.0), share)

    def _shares(self, test: BurnTest) -> Mapping[Channel, float]:
        """By channel which share of its own rate the pair puts on it."""
        a, b = self._numbers[test.a], self._numbers[test.b]
        rate = self._ways.rate(a, b)
        return {at: load / rate for at, load in self._ways.loads(a, b)}

    def of(self, test: BurnTest) -> frozenset[FabricLink]:
        """The links that may have slowed this pair."""
        return frozenset(self._link[at] for at, share in self._shares(test).items()
                         if share > self._cleared.get(at, 0.0) + _ODD)

    def verdict(self) -> BurnVerdict:
        """Whom the tests name."""
        slow = {test.test: self.of(test) for test in self._tests if test.slow}
        noise = tuple(sorted(test for test, links in slow.items() if not links))
        left = {test: links for test, links in slow.items() if links}
        named: list[FabricLink] = []
        while True:
            found = _only(left)
            if not found:
                break
            named += found
            left = {test: links for test, links in left.items() if not links & set(found)}
        proven = [NamedLink(link, tuple(sorted(test for test, links in slow.items() if link in links)))
                  for link in sorted(named)]
        unclear = [UnclearLinks(tuple(sorted(set().union(*(left[test] for test in group)))), group)
                   for group in _groups(left)]
        suspected = set(named).union(*(each.links for each in unclear))
        hidden = sorted(set().union(*slow.values()) - suspected)
        ends = {end for test in self._tests for end in self._ends(test)}
        measured = frozenset(link for link in self._ways.links if link.a in ends and link.b in ends)
        return BurnVerdict(tuple(proven), tuple(unclear), noise, tuple(hidden), measured - set(hidden))

    def _ends(self, test: BurnTest) -> list[FabricEnd]:
        names = list(self._ways.channels)
        return [names[at] for at in self._shares(test)]

    def next_round(self, seed: int = 0) -> tuple[BurnPair, ...]:
        """Pairs that tell suspects apart: each loads one suspect and of all others only what is cleared. No
        port is in two, and no channel is asked for more than it carries. Empty where there are none."""
        order = random.Random(seed)     # noqa: S311  (another choice of equals: no secret)
        verdict = self.verdict()
        suspects = sorted({*verdict.hidden, *(link for group in verdict.unclear for link in group.links)})
        # Whoever comes first takes the ports that it needs: in another round that is another one.
        order.shuffle(suspects)
        doubtful = {self._ways.channels[end] for link in (*suspects, *(each.link for each in verdict.named))
                    for end in (link.a, link.b)}
        used: set[int] = set()
        load: dict[Channel, float] = {}
        found = []
        for link in suspects:
            own = {self._ways.channels[end] for end in (link.a, link.b)}
            best, fewest = None, len(doubtful) + 1
            for at in sorted(own):
                if not self._ways.reach[at]:
                    continue
                for a, b in self._ways.candidates(at, order, _TRIED):
                    loads = self._ways.loads(a, b)
                    others = sum(channel in doubtful - own for channel, _ in loads)
                    if others < fewest and not used & {a, b} and self._says(a, b, own) and all(
                            load.get(channel, 0.0) + more <= self._ways.rates[channel] * (1 + _ODD)
                            for channel, more in loads):
                        best, fewest = (a, b), others
            if best is not None and not self._known(best, link):
                used |= set(best)
                for channel, more in self._ways.loads(*best):
                    load[channel] = load.get(channel, 0.0) + more
                found.append(BurnPair(self._ways.ports[best[0]], self._ways.ports[best[1]],
                                      self._ways.rate(*best)))
        return tuple(found)

    def _says(self, a: int, b: int, own: set[Channel]) -> bool:
        """Whether a pair loads one of these channels more than what is cleared of it."""
        rate = self._ways.rate(a, b)
        return any(at in own and load / rate > self._cleared.get(at, 0.0) + _ODD
                   for at, load in self._ways.loads(a, b))

    def _known(self, pair: tuple[int, int], link: FabricLink) -> bool:
        """Whether this very pair was slow already, with the same suspects left: it would say the same."""
        ends = {self._ways.ports[at] for at in pair}
        return any(test.slow and {test.a, test.b} == ends and link in self.of(test) for test in self._tests)


def _only(left: Mapping[str, frozenset[FabricLink]]) -> list[FabricLink]:
    """Links without which a slow pair is not explained, or which alone explain all that share suspects."""
    alone = sorted({link for links in left.values() if len(links) == 1 for link in links})
    if alone:
        return alone
    found = []
    for group in _groups(left):
        common = frozenset.intersection(*(left[test] for test in group))
        if len(common) == 1 and len(group) >= _SEVERAL:
            found += list(common)
    return found


def _groups(left: Mapping[str, frozenset[FabricLink]]) -> list[tuple[str, ...]]:
    """Slow pairs that share suspects, directly or through others."""
    groups: list[tuple[set[str], set[FabricLink]]] = []
    for test, links in sorted(left.items()):
        own, of = {test}, set(links)
        apart: list[tuple[set[str], set[FabricLink]]] = []
        for tests, theirs in groups:
            if theirs & of:
                own, of = own | tests, of | theirs
            else:
                apart.append((tests, theirs))
        groups = [*apart, (own, of)]
    return sorted(tuple(sorted(tests)) for tests, _ in groups)


def carried(ways: BurnWays, pairs: Iterable[tuple[BurnPort, BurnPort, float]]) -> dict[FabricEnd, float]:
    """By channel what these flows put on it: each pair with what it sent each way, in any unit."""
    numbers = ways.numbers
    names: Sequence[FabricEnd] = list(ways.channels)
    found: dict[FabricEnd, float] = {}
    for one, other, amount in pairs:
        a, b = numbers[one], numbers[other]
        rate = ways.rate(a, b)
        for at, load in ways.loads(a, b):
            found[names[at]] = found.get(names[at], 0.0) + amount * load / rate
    return found
