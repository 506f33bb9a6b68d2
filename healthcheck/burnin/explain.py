"""Finds the set of causes that best explains all failed tests, by its prior and every test. Pure.

Each accused cause makes a test that it touches fail with some chance, besides the others and noise (a "noisy
or"). A passed test takes a fixed sum from each cause that it touches; what a failed test adds grows less with
every further cause that explains it. So the gain of a cause only falls as others are accused (the score is
submodular). Two things follow. What gains nothing by itself is in no best explanation, and is left out
beforehand. And a branch in which all that is left gains less than the best known lacks is closed, so that
small problems are solved exactly; large ones by adding, dropping and exchanging causes until no such step is
better.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

SMALL = 16          # problems up to this many parts are solved exactly
# Limits of moves of the bounded search: for the best explanation, for one without some cause, and for all of
# the latter of one problem. Causes beyond that are not named.
_MOVES, _OF_RIVAL, _OF_RIVALS = 800, 800, 8000
_LEAST = 1e-9       # smaller differences are rounding
_FAR = -15.0        # parts and exchanges that cost more are not followed
_STEPS = 4000       # limit of steps of the exact search; the best so far counts


class CauseMode(NamedTuple):
    """A cause, by its number (`owner`), that is bad in one way: `price` is the cost of accusing it, in a bad
    `lot` of nodes `lot_price`; `hits` are the failed tests that it touches. Parts of one `start` are accused
    together at the start of a search, as none of them may be the best one alone."""

    owner: int
    strength: float
    price: float
    hits: tuple[int, ...]
    lot: int = -1
    lot_price: float = math.inf
    start: int = -1


class Explanation(NamedTuple):
    """Parts and lots, by number, and the log of how much likelier than noise they make all tests."""

    score: float
    parts: frozenset[int]
    lots: frozenset[int]


@dataclass
class _State:
    score: float
    total: list[float]      # by failed test: strengths of noise and of all accused that touch it
    worth: list[float]      # and the log of its chance to fail by them, times its count
    parts: set[int]
    lots: set[int]

    def copy(self) -> _State:
        return _State(self.score, self.total.copy(), self.worth.copy(), self.parts.copy(), self.lots.copy())

    def explanation(self) -> Explanation:
        return Explanation(self.score, frozenset(self.parts), frozenset(self.lots))


@lru_cache(maxsize=1 << 16)
def fails(total: float) -> float:
    """The log of the chance that a test fails, for this sum of strengths."""
    return math.log(-math.expm1(-total))


class CauseSearch:
    """Failed tests that share causes. `base` is the strength of noise in each, `times` how many tests it
    stands for, which the same parts touch; `lots` is what each lot costs."""

    def __init__(self, parts: Sequence[CauseMode], base: Sequence[float], times: Sequence[int],
                 lots: Mapping[int, float]) -> None:
        self.parts, self.base, self.times, self.lots = parts, base, times, lots
        self._of_test: dict[int, list[int]] = {}
        self._of_owner: dict[int, list[int]] = {}
        self._of_lot: dict[int, list[int]] = {}
        self._near: dict[int, frozenset[int]] = {}
        self._moves, self._left = _MOVES, _OF_RIVALS
        self._starts: list[_State] | None = None
        self._from: tuple[Explanation, _State] | None = None
        for at, part in enumerate(parts):
            self._of_owner.setdefault(part.owner, []).append(at)
            if part.lot in lots:
                self._of_lot.setdefault(part.lot, []).append(at)
            for test in part.hits:
                self._of_test.setdefault(test, []).append(at)

    def best(self) -> Explanation:
        """The best explanation of all."""
        state = self._state()
        self._settle(state, range(len(self.parts)), ())
        return self._searched(state, range(len(self.parts)), frozenset()).explanation()

    def rivals(self, best: Explanation) -> tuple[Explanation, dict[int, Explanation]]:
        """For each accused owner the best explanation in which it is innocent, and the best of all: a rival
        that is better than what was taken for the best takes its place."""
        rivals: dict[int, Explanation] = {}
        waiting = self._owners(best)
        while waiting:
            owner = waiting.pop()
            rival = rivals[owner] = self.without(best, (owner,))
            if rival.score > best.score + _LEAST:
                best, rivals = rival, {}
                waiting = self._owners(best)
        return best, rivals

    def _owners(self, of: Explanation) -> list[int]:
        return list(dict.fromkeys(self.parts[at].owner for at in sorted(of.parts)))

    def without(self, best: Explanation, owners: Iterable[int]) -> Explanation:
        """The best explanation in which these owners are innocent, searched from the best one; that one
        itself where the search had to end early, which is as good."""
        self._moves = most = min(_OF_RIVAL, self._left)
        if most <= 0:
            return best
        banned = frozenset(at for owner in owners for at in self._of_owner[owner])
        if self._from is None or self._from[0] is not best:
            self._from = best, self._state(best)
        state = self._freed(self._from[1].copy(), banned)
        near = {each for at in banned for each in self._neighbours(at)}
        found = self._searched(state, near, banned).explanation()
        self._left -= most - max(0, self._moves)
        return found if self._moves > 0 else best

    def _freed(self, state: _State, banned: frozenset[int]) -> _State:
        """The state without these parts, after the moves that then pay."""
        changed: set[int] = set()
        for at in banned & state.parts:
            self._drop(state, at)
            changed |= self._neighbours(at)
        self._settle(state, changed, banned)
        return state

    def _searched(self, state: _State, near: Iterable[int], banned: frozenset[int]) -> _State:
        """The best state by exchanges from this one or a common start; of a small problem the best of all."""
        found = self._improved(state, near, banned)
        started = self._started(banned, found.score + _FAR if banned else -math.inf)
        if started is not None and started.parts != found.parts:
            found = max(found, self._improved(started, range(len(self.parts)), banned),
                        key=lambda each: each.score)
        return self._exact(found, banned)

    def _started(self, banned: frozenset[int], least: float) -> _State | None:
        """The best state from a start where all parts of one kind are accused; None below `least`."""
        if self._starts is None:
            self._starts = [self._all_of(start)
                            for start in sorted({part.start for part in self.parts if part.start >= 0})]
        found = [self._freed(state.copy(), banned) for state in self._starts if state.score > least]
        return max((state for state in found if state.score > least), key=lambda each: each.score,
                   default=None)

    def _all_of(self, start: int) -> _State:
        state = self._state()
        for at, part in enumerate(self.parts):
            if part.start == start:
                self._add(state, at)
        self._settle(state, range(len(self.parts)), ())
        return state

    # ---- single steps

    def _state(self, of: Explanation | None = None) -> _State:
        worth = [times * fails(total) for times, total in zip(self.times, self.base, strict=True)]
        state = _State(0.0, list(self.base), worth, set(), set())
        for lot in of.lots if of is not None else ():
            self._open(state, lot)
        for at in of.parts if of is not None else ():
            self._add(state, at)
        return state

    def _price(self, state: _State, at: int) -> float:
        part = self.parts[at]
        return part.lot_price if part.lot in state.lots else part.price

    def gain(self, state: _State, at: int) -> float:
        """The gain of accusing it beside the accused ones."""
        part, more = self.parts[at], 0.0
        strength, times, total, worth = part.strength, self.times, state.total, state.worth
        for test in part.hits:
            more += times[test] * fails(total[test] + strength) - worth[test]
        return more - self._price(state, at)

    def _most(self, state: _State, at: int) -> float:
        """What it gains at most: as if each test that it touches failed for certain then."""
        return -sum(map(state.worth.__getitem__, self.parts[at].hits)) - self._price(state, at)

    def _lost(self, state: _State, at: int) -> float:
        """Its gain beside the other accused ones."""
        part, own = self.parts[at], 0.0
        strength, base, times, total, worth = part.strength, self.base, self.times, state.total, state.worth
        for test in part.hits:
            less = total[test] - strength
            own += worth[test] - times[test] * fails(less if less > base[test] else base[test])
        return own - self._price(state, at)

    def _less(self, state: _State, test: int, strength: float) -> float:
        return max(self.base[test], state.total[test] - strength)

    def _add(self, state: _State, at: int) -> None:
        state.score += self.gain(state, at)
        state.parts.add(at)
        for test in self.parts[at].hits:
            self._set(state, test, state.total[test] + self.parts[at].strength)

    def _drop(self, state: _State, at: int) -> None:
        state.score -= self._lost(state, at)
        state.parts.remove(at)
        for test in self.parts[at].hits:
            self._set(state, test, self._less(state, test, self.parts[at].strength))

    def _set(self, state: _State, test: int, total: float) -> None:
        state.total[test] = total
        state.worth[test] = self.times[test] * fails(total)

    def _open(self, state: _State, lot: int) -> None:
        """Takes a lot of nodes for bad, which makes each of its nodes cheaper."""
        state.score += self._saved(state, lot)
        state.lots.add(lot)

    def _close(self, state: _State, lot: int) -> None:
        state.score -= self._saved(state, lot)
        state.lots.remove(lot)

    def _saved(self, state: _State, lot: int) -> float:
        accused = [self.parts[at] for at in self._of_lot[lot] if at in state.parts]
        return sum(part.price - part.lot_price for part in accused) - self.lots[lot]

    def _neighbours(self, at: int) -> frozenset[int]:
        """The parts whose gain depends on this one."""
        if at not in self._near:
            self._near[at] = frozenset(each for test in self.parts[at].hits for each in self._of_test[test])
        return self._near[at]

    # ---- bounded search

    def _settle(self, state: _State, changed: Iterable[int], banned: Collection[int]) -> None:
        """Adds what gains most and drops what gains nothing, among these parts and all that this affects."""
        changed = set(changed)
        while changed:
            dropped = [at for at in sorted(changed & state.parts) if self._drops(state, at)]
            for at in dropped:
                changed |= self._neighbours(at)
            changed = self._filled(state, changed, banned)

    def _drops(self, state: _State, at: int) -> bool:
        if self._lost(state, at) >= 0:
            return False
        self._drop(state, at)
        return True

    def _filled(self, state: _State, parts: Iterable[int], banned: Collection[int]) -> set[int]:
        """Adds the best of these parts repeatedly; returns the accused ones whose gain that changed. Gains
        only fall as others are added, so an old gain is an upper bound."""
        heap = [(-gain, at) for at in parts if at not in state.parts and at not in banned
                and self._most(state, at) > _LEAST and (gain := self.gain(state, at)) > _LEAST]
        heapq.heapify(heap)
        changed: set[int] = set()
        while heap:
            _, at = heapq.heappop(heap)
            gain = self.gain(state, at)
            if heap and gain < -heap[0][0] - _LEAST:
                if gain > _LEAST:
                    heapq.heappush(heap, (-gain, at))
            elif gain > _LEAST:
                self._add(state, at)
                changed |= self._neighbours(at) & state.parts - {at}
        return changed

    def _improved(self, state: _State, parts: Iterable[int], banned: Collection[int]) -> _State:
        """The state after all exchanges that improve it: a part or a lot in or out, with what follows."""
        order = [at for at in parts if at not in banned]
        better = True
        while better and self._moves > 0:
            better = False
            for lot in self.lots:
                other = state.copy()
                (self._close if lot in state.lots else self._open)(other, lot)
                self._settle(other, self._of_lot[lot], banned)
                if other.score > state.score + _LEAST:
                    state, better = other, True
            beside = _Beside(self, state)
            for at in order:
                out = at in state.parts
                if not out and (self._most(state, at) < _FAR or beside.exchanged(at) < _FAR):
                    continue
                self._moves -= 1
                if self._moves < 0:
                    break
                other = state.copy()
                (self._drop if out else self._add)(other, at)
                self._settle(other, self._neighbours(at) - {at}, {*banned, at} if out else banned)
                if other.score > state.score + _LEAST:
                    state, better = other, True
                    beside = _Beside(self, state)
        return state

    def lost(self, state: _State) -> dict[int, float]:
        """The gain of each accused part beside the others."""
        return {at: self._lost(state, at) for at in state.parts}

    # ---- exact search

    def _exact(self, known: _State, banned: Collection[int]) -> _State:
        """The best state of a small problem; the known one for a large one."""
        free = [at for at in range(len(self.parts)) if at not in banned]
        if len(free) > SMALL:
            return known
        best, steps = known, _STEPS
        for lots in _subsets(list(self.lots)):
            start = self._state()
            for lot in lots:
                self._open(start, lot)
            waiting = [(start, free)]
            while waiting and steps:
                steps -= 1
                state, left = waiting.pop()
                if state.score > best.score + _LEAST:
                    best = state
                gains = sorted(((gain, at) for at in left if (gain := self.gain(state, at)) > 0),
                               reverse=True)
                if state.score + sum(gain for gain, _ in gains) <= best.score + _LEAST:
                    continue
                rest = [at for _, at in gains[1:]]
                waiting.append((state, rest))
                more = state.copy()
                self._add(more, gains[0][1])
                waiting.append((more, rest))
        return best


class _Beside:
    """The accused parts of a state, and what each would still gain were another one accused, too."""

    def __init__(self, problem: CauseSearch, state: _State) -> None:
        self._problem, self._state = problem, state
        self._lost = problem.lost(state)
        self._of_test: dict[int, list[int]] = {}
        for at in state.parts:
            for test in problem.parts[at].hits:
                self._of_test.setdefault(test, []).append(at)

    def exchanged(self, new: int) -> float:
        """The score with this part, without those that then gain nothing; very low where these are not two
        or more: an exchange of one for one is found by removing that one."""
        problem, total = self._problem, self._state.total
        part = problem.parts[new]
        left: dict[int, float] = {}
        for test in part.hits:
            for at in self._of_test.get(test, ()):
                strength = problem.parts[at].strength
                without = max(problem.base[test], total[test] - strength)
                less = (fails(total[test]) - fails(without) - fails(total[test] + part.strength)
                        + fails(without + part.strength))
                left[at] = left.get(at, self._lost[at]) - problem.times[test] * less
        if len(left) < 2 or min(left.values()) >= 0:
            return -math.inf
        return problem.gain(self._state, new) - sum(min(0.0, each) for each in left.values())


def _subsets(items: Sequence[int]) -> list[list[int]]:
    """All of them, of at most four items; of more, none and each alone."""
    if len(items) > 4:
        return [[], *([item] for item in items)]
    return [[item for at, item in enumerate(items) if bits >> at & 1] for bits in range(1 << len(items))]
