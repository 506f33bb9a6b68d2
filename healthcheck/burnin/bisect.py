"""Finds the leaf behind a failure that only scale shows: all nodes fail together, and every pair passed.

Halves of the suspects run at the same time, each filled up with nodes of leaves that passed, to half the size
of the cluster: 16 leaves take four rounds and one to confirm. Where both halves pass, the failure needs more
nodes. Then all nodes run without one part of the suspects after the other: the part without which they pass
is guilty, unless they pass without any part.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.burnin import faults
from healthcheck.burnin.model import Accusation, Object, Participant
from healthcheck.burnin.rounds import Sites
from healthcheck.burnin.weigh import PairOutcome
from inventory.text import listed

_PARTS = 4          # parts that are left out in turn at first, then two of what is left


@dataclass(frozen=True)
class SuspectUnits:
    """What is accused as a whole: leaves, NVLink domains of one leaf, or nodes; with their nodes by name."""

    object: Object
    nodes: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class BisectGroup:
    """Nodes that run together: the suspected units, and `padding` of proven nodes; or all but `without`."""

    suspects: tuple[str, ...]
    nodes: tuple[str, ...]
    padding: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


Parts = tuple[BisectGroup, ...]
_Steps = Generator[Parts, Sequence[PairOutcome], None]


def units(places: Iterable[Participant]) -> SuspectUnits:
    """The largest units of which there are several."""
    sites = Sites(places)
    for by, of in ((sites.leaf, Object.LEAF), (sites.near, Object.LEAF)):
        groups = sites.grouped(sites.order, by)
        if len(groups) > 1 and all(group.name for group in groups):
            return SuspectUnits(of, {str(group): tuple(nodes) for group, nodes in groups.items()})
    return SuspectUnits(Object.NODE, {node: (node,) for node in sites.order})


class Bisection:
    """Run the parts that `next` gives, all at the same time, and add their outcomes, until `next` is None.
    `failed` is the id of the test of all nodes that failed, `proven` are more nodes that may fill up."""

    def __init__(self, of: SuspectUnits, failed: str, proven: Iterable[str] = (),
                 fault: str = faults.SLOW) -> None:
        self._of, self._failed, self._fault = of, failed, fault
        self._all_nodes = tuple(node for nodes in of.nodes.values() for node in nodes)
        self._size = (len(self._all_nodes) + 1) // 2
        self._extra = tuple(node for node in proven if node not in set(self._all_nodes))
        self._clean: list[str] = []
        self._found: list[Accusation] = []
        self._log: list[tuple[BisectGroup, str, PairOutcome]] = []
        self._steps = self._plan()
        self._current: Parts | None = None
        self._outcomes: Sequence[PairOutcome] | None = None
        self._over = False

    def next(self) -> Parts | None:
        """The parts to run now, the same until their results are added; None when nothing is left to test."""
        if self._current is None and not self._over:
            try:
                self._current = (next(self._steps) if self._outcomes is None
                                 else self._steps.send(self._outcomes))
            except StopIteration:
                self._over = True
        return self._current

    def add_results(self, outcomes: Sequence[tuple[str, PairOutcome]]) -> None:
        """Adds (test's id, outcome) of each of the current parts, in order; ValueError for another number."""
        if self._current is None or len(outcomes) != len(self._current):
            raise ValueError("expected one outcome for each part of the current round")
        self._log += [(part, test, outcome)
                      for part, (test, outcome) in zip(self._current, outcomes, strict=True)]
        self._outcomes = [outcome for _, outcome in outcomes]
        self._current = None

    def accusations(self) -> tuple[Accusation, ...]:
        """The accusations by the results so far."""
        return tuple(self._found)

    def _plan(self) -> _Steps:
        suspected: list[tuple[str, ...]] = [tuple(self._of.nodes)]
        if len(suspected[0]) < 2:
            self._unexplained("there is only one, so nothing to divide")
            return
        while suspected:
            whole = [group for group in suspected if len(group) == 1]
            for group in whole:
                yield from self._confirm(group[0])
            parted = [half for group in suspected if len(group) > 1
                      for half in (group[:len(group) // 2], group[len(group) // 2:])]
            if not parted:
                return
            outcomes = yield from self._sure([self._part(half, at, len(parted))
                                              for at, half in enumerate(parted)])
            suspected = []
            for at in range(0, len(parted), 2):
                pair = list(zip(parted[at:at + 2], outcomes[at:at + 2], strict=True))
                self._clean += [unit for half, outcome in pair if outcome is PairOutcome.PASS
                                for unit in half]
                bad = [half for half, outcome in pair if outcome is PairOutcome.FAIL]
                suspected += bad
                if not bad and all(outcome is PairOutcome.PASS for _, outcome in pair):
                    yield from self._leave_out(tuple(unit for half, _ in pair for unit in half), _PARTS)
                elif not bad:
                    self._unexplained(f"whether {listed(parted[at] + parted[at + 1], 6)} fail could not be "
                                      "measured")

    def _sure(self, parts: list[BisectGroup]) -> Generator[Parts, Sequence[PairOutcome], list[PairOutcome]]:
        """The outcomes of these parts; what is unknown is run once more."""
        outcomes = list((yield tuple(parts)))
        again = [at for at, outcome in enumerate(outcomes) if outcome is PairOutcome.UNKNOWN]
        if again:
            for at, outcome in zip(again, (yield tuple(parts[at] for at in again)), strict=True):
                outcomes[at] = outcome
        return outcomes

    def _part(self, suspects: tuple[str, ...], at: int, of: int, turn: int = 0) -> BisectGroup:
        """These units, and its share of the proven nodes up to the size of half the cluster."""
        own = self._nodes(suspects)
        proven = [*self._nodes(self._clean), *self._extra]
        proven = proven[turn % len(proven):] + proven[:turn % len(proven)] if proven else []
        padding = tuple(proven[at::of][:max(0, self._size - len(own))])
        return BisectGroup(suspects, (*own, *padding), padding)

    def _confirm(self, unit: str) -> _Steps:
        """Runs it again with other proven nodes, beside a control: one sample proves no guilt."""
        part = self._part((unit,), 0, 1, len(self._of.nodes[unit]))
        left = [node for node in (*self._nodes(self._clean), *self._extra) if node not in set(part.padding)]
        control = [BisectGroup((), tuple(left[:len(part.nodes)]))] if len(left) > 1 else []
        outcomes = yield from self._sure([part, *control])
        if outcomes[0] is PairOutcome.FAIL and PairOutcome.FAIL not in outcomes[1:]:
            self._accuse(unit, "fails among proven nodes each time, at the size of half the cluster",
                         bool(part.padding))
        else:
            why = ("failed and passed" if outcomes[0] is PairOutcome.PASS
                   else "failed, as did proven nodes without it" if outcomes[1:] == [PairOutcome.FAIL]
                   else "failed once, and could not be measured again")
            self._unexplained(f"{unit} {why}")

    def _leave_out(self, group: tuple[str, ...], parts: int) -> _Steps:
        """All nodes without one part of the group after the other."""
        step = -(-len(group) // min(parts, len(group)))
        pieces = [group[at:at + step] for at in range(0, len(group), step)]
        needed = []
        for piece in pieces:
            left = set(self._nodes(piece))
            nodes = tuple(node for node in self._all_nodes if node not in left)
            outcomes = yield from self._sure([BisectGroup((), nodes, (), piece)])
            needed += [piece] if outcomes[0] is PairOutcome.PASS else []
        if not needed or len(needed) == len(pieces):
            most = len(self._all_nodes) - len(self._nodes(pieces[0]))
            how = f"only with more than {most} nodes" if needed else "whichever part is left out"
            self._unexplained(f"all nodes fail {how}, so the cause is no part of {listed(group, 6)}")
            return
        for piece in needed:
            if len(piece) == 1:
                self._accuse(piece[0], "all nodes fail, and pass without it", False)
            else:
                yield from self._leave_out(piece, 2)

    def _nodes(self, names: Iterable[str]) -> list[str]:
        return [node for name in names for node in self._of.nodes[name]]

    def _accuse(self, unit: str, why: str, confirmed: bool) -> None:
        speaks_for = [self._failed, *(test for part, test, outcome in self._log
                                      if (outcome is PairOutcome.FAIL and unit in part.suspects)
                                      or (outcome is PairOutcome.PASS and unit in part.without))]
        against = [test for part, test, outcome in self._log
                   if (outcome is PairOutcome.PASS and unit in part.suspects)
                   or (outcome is PairOutcome.FAIL and part.without and unit in part.without)]
        self._found.append(Accusation(self._of.object, unit, self._fault, why, tuple(speaks_for),
                                      tuple(against), confirmed))

    def _unexplained(self, why: str) -> None:
        tests = (self._failed, *(test for _, test, outcome in self._log if outcome is PairOutcome.FAIL))
        passed = tuple(test for _, test, outcome in self._log if outcome is PairOutcome.PASS)
        self._found.append(Accusation(Object.UNEXPLAINED, self._failed, self._fault, why, tests, passed))
