"""Plans a link burn: pairs of host ports, in rounds, whose traffic loads every link of a fabric.

In a round a host port has one partner, and the two send to each other at the same time. No channel is asked
for more than it carries, so that every pair is to reach its full rate and a slow one shows. A link is covered
when in one round each of its channels is to carry the asked share of its rate. `burnways` says which ways
there are; the search for few rounds is here.

The first try begins with hosts of opposite switches in order, which is the whole answer in a well-wired fat
tree with routes by destination. A round is filled with the channels first that fewest pairs reach. Where no
pair is free that loads such a channel, one or two pairs are taken back if that covers more than it loses (a
chain of such exchanges is what Kuhn's matching does, "The Hungarian Method", 1955; here channels are shared,
so it is a heuristic).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from healthcheck.subnet.burnways import BurnPort, BurnWays, Channel
from healthcheck.subnet.model import FabricEnd, FabricLink

SHARE = 0.9
TRIES = 2           # plans from different orders, of which the shortest is taken
_CANDIDATES = 96    # pairs that are looked at for one channel
_SWAPS = 48         # of them, for which others would be taken back
_ODD = 1e-6         # of a rate: what rounding may add


@dataclass(frozen=True, order=True)
class BurnPair:
    """Two host ports that send to each other, and Gb/s that each is to send."""

    a: BurnPort
    b: BurnPort
    gbps: float


@dataclass(frozen=True)
class UncoveredLink:
    """A link that the plan does not load to the asked share each way, and why."""

    link: FabricLink
    why: str


@dataclass(frozen=True)
class LinkBurnPlan:
    """The rounds of a link burn. `expected` is by channel the largest share of its rate that one round is to
    put on it; with `modelled` ways that is an expectation, and no proof."""

    rounds: tuple[tuple[BurnPair, ...], ...]
    expected: dict[FabricEnd, float]
    uncovered: tuple[UncoveredLink, ...]
    share: float
    modelled: bool
    links: int

    @property
    def pairs(self) -> int:
        """Pairs of all rounds."""
        return sum(len(pairs) for pairs in self.rounds)


def plan(ways: BurnWays, share: float = SHARE, tries: int = TRIES, seed: int = 0,
         together: int | None = None, swap: bool = True) -> LinkBurnPlan:
    """The plan with the fewest rounds of these tries, then with the fewest pairs. `together` is how many
    pairs may run at the same time (None: any number), `swap` whether pairs may be taken back. ValueError for
    a bad share."""
    if not 0 < share <= 1:
        raise ValueError(f"share {share}: expected more than 0 and at most 1")
    found: list[_Search] = []
    for number in range(max(1, tries)):
        search = _Search(ways, share, seed + number, together, swap)
        search.run(ways.opposite() if number == 0 and together is None else ())
        found.append(search)
        if len(search.rounds) <= 1:
            break
    best = min(found, key=lambda each: (len(each.rounds), sum(map(len, each.rounds))))
    return best.plan()


class _Search:
    """One try: `load` and the open channels of the round under way, and what earlier rounds covered."""

    def __init__(self, ways: BurnWays, share: float, seed: int, together: int | None, swap: bool) -> None:
        self.ways, self.share, self.together, self.swap = ways, share, together, swap
        self.random = random.Random(seed)   # noqa: S311  (another order of equal choices: no secret)
        self.need = [share * rate for rate in ways.rates]
        self.open = {at for at, rate in enumerate(ways.rates) if rate > 0 and ways.reach[at]}
        self.best = [0.0] * len(ways.rates)
        self.rounds: list[list[tuple[int, int]]] = []
        self.load: list[float] = []
        self.value = 0.0        # how much of what is open this round covers, a channel at most 1
        self.partner: dict[int, int] = {}
        self.users: list[set[int]] = []

    def run(self, first_pairs: Sequence[tuple[int, int]]) -> None:
        """Rounds until none could cover an open channel; each begins with `first_pairs` that fit."""
        # Channels that even all pairs which reach them do not load enough are no aim.
        self.open = {at for at in self.open if self.ways.most(at) + _ODD >= self.need[at]}
        while self.open:
            self.load, self.value = [0.0] * len(self.need), 0.0
            self.users = [set() for _ in self.need]
            self.partner = {}
            first, *others = self._order()
            self._begin(first_pairs)
            self._cover(first)
            for channel in others:
                self._cover(channel)
            pairs = sorted((a, b) for a, b in self.partner.items() if a < b)
            covered = {at for at in self.open if self._covered(at)}
            self.best = [max(old, new) for old, new in zip(self.best, self.load, strict=True)]
            if pairs and covered:
                self.rounds.append(pairs)
            self.open -= covered or {first}

    def _begin(self, pairs: Sequence[tuple[int, int]]) -> None:
        for a, b in pairs:
            gain, possible = self._gain(a, b)
            if gain >= possible * (1 - _ODD) and self._fits(a, b):
                self._put(a, b)

    def _order(self) -> list[Channel]:
        """Open channels, those first that fewest ways reach; equals in a random order."""
        order = sorted(self.open)
        self.random.shuffle(order)
        return sorted(order, key=lambda at: len(self.ways.reach[at]))

    def _covered(self, channel: Channel) -> bool:
        return self.load[channel] >= self.need[channel] * (1 - _ODD)

    def _cover(self, channel: Channel) -> None:
        """Loads this channel as it is to be, as far as pairs are free."""
        while not self._covered(channel):
            if self.together is not None and len(self.partner) >= 2 * self.together:
                return
            free: list[tuple[int, int]] = []
            taken: list[tuple[int, int]] = []
            for a, b in self.ways.candidates(channel, self.random, _CANDIDATES):
                (taken if a in self.partner or b in self.partner else free).append((a, b))
            if not self._best_free(free) and not (self.swap and self._exchange(channel, taken)):
                return

    def _best_free(self, pairs: Iterable[tuple[int, int]]) -> bool:
        best, most = None, 0.0
        for a, b in pairs:
            gain, possible = self._gain(a, b)
            if gain > most and self._fits(a, b):
                best, most = (a, b), gain
                if gain >= possible * (1 - _ODD):
                    break
        if best is None:
            return False
        self._put(*best)
        return True

    def _gain(self, a: int, b: int) -> tuple[float, float]:
        """What of open channels the pair would cover, each as a share of its need, and what it could."""
        gain = possible = 0.0
        for at, load in self.ways.loads(a, b):
            need = self.need[at]
            own = min(load, need) / need
            possible += own
            if at in self.open and (lacking := need - self.load[at]) > 0:
                gain += min(load, lacking) / need
        return gain, possible

    def _fits(self, a: int, b: int) -> bool:
        rates, loads = self.ways.rates, self.load
        return all(loads[at] + load <= rates[at] * (1 + _ODD) for at, load in self.ways.loads(a, b))

    def _put(self, a: int, b: int) -> None:
        self.partner[a], self.partner[b] = b, a
        for at, load in self.ways.loads(a, b):
            self._change(at, load)
            self.users[at].add(min(a, b))

    def _take_back(self, a: int) -> tuple[int, int]:
        b = self.partner.pop(a)
        del self.partner[b]
        for at, load in self.ways.loads(a, b):
            self._change(at, -load)
            self.users[at].discard(min(a, b))
        return min(a, b), max(a, b)

    def _change(self, channel: Channel, load: float) -> None:
        before = self.load[channel]
        self.load[channel] = after = max(0.0, before + load)
        if channel in self.open:
            need = self.need[channel]
            self.value += (min(after, need) - min(before, need)) / need

    def _exchange(self, channel: Channel, pairs: Sequence[tuple[int, int]]) -> bool:
        """Takes pairs back for one that loads this channel, where the round then covers more; what lost its
        partner gets another one if there is one."""
        for a, b in pairs[:_SWAPS]:
            before = self.value
            out = [self._take_back(end) for end in (a, b) if end in self.partner]
            over = {user for at, load in self.ways.loads(a, b) for user in self.users[at]
                    if self.load[at] + load > self.ways.rates[at] * (1 + _ODD)}
            if len(over) <= 2 - len(out):
                out += [self._take_back(user) for user in over]
            put = []
            if self._fits(a, b):
                self._put(a, b)
                put.append((a, b))
                put += self._placed_again([end for pair in out for end in pair if end not in (a, b)])
            if put and self.value > before + _ODD:
                return True
            for one, _ in put:
                self._take_back(one)
            for one, two in out:
                self._put(one, two)
        return False

    def _placed_again(self, ends: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs among those that lost their partners, as far as they fit."""
        put = []
        for at, a in enumerate(ends):
            for b in ends[at + 1:]:
                if a not in self.partner and b not in self.partner and self.ways.may(a, b) and (
                        self._fits(a, b)):
                    self._put(a, b)
                    put.append((a, b))
        return put

    def plan(self) -> LinkBurnPlan:
        """The plan that was found."""
        ways = self.ways
        rounds = tuple(tuple(BurnPair(ways.ports[a], ways.ports[b], ways.rate(a, b)) for a, b in pairs)
                       for pairs in self.rounds)
        expected = {end: self.best[at] / ways.rates[at] for end, at in ways.channels.items()
                    if ways.rates[at] > 0}
        uncovered = []
        for link in sorted(ways.links):
            why = ways.unusable(link)
            lacking = [end for end in (link.a, link.b) if expected.get(end, 0.0) < self.share * (1 - _ODD)]
            if not why and lacking:
                why = ways.lacking(min(lacking, key=lambda end: expected.get(end, 0.0)), expected)
            if why:
                uncovered.append(UncoveredLink(link, why))
        return LinkBurnPlan(rounds, expected, tuple(uncovered), self.share, ways.routes.expected,
                            len(ways.links))
