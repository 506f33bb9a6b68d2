"""The cases that are played, and the figures of the notes that ours have to reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from isolation.methods import bisection, fixed, of_length, ours, parallel_bisection, round_robin, two_passes
from isolation.world import Tally, World


@dataclass(frozen=True)
class Bound:
    """What the notes say of a row, as text, and what of it is checked: at most so many rounds and innocents,
    at least this recall."""

    text: str
    rounds: float | None = None
    recall: float | None = None
    innocents: float | None = None


@dataclass(frozen=True)
class Method:
    """A row: its name, how it is played, the notes' figures, and after so many trials it has shown enough (it
    is slow)."""

    name: str
    play: Callable[[World], Tally]
    notes: Bound = field(default_factory=lambda: Bound(""))
    most: int = 10_000


@dataclass(frozen=True)
class Case:
    """Rows that are played on the same worlds: what is guilty, and how often that shows. `shape` is leaves
    and nodes of a leaf, where the case has its own."""

    title: str
    wrong: dict[str, Any]
    methods: tuple[Method, ...]
    shape: tuple[int, int] | None = None


_GUILTY = (1, 2, 4, 8)


def cases(leaves: int) -> list[Case]:
    """All cases for a cluster with so many leaves. The notes' figures are of 512 nodes; they bind for another
    size all the same."""
    return [*_nodes(), *_few(), *_several(), *_flaky(), *_seldom(), *_uplinks(leaves), *_links()]


def _nodes() -> list[Case]:
    """Bad nodes, wherever they are: pairs in the leaf and their confirmation, which is all that this
    takes."""
    said = {1: ("1705 min", "11, 28 min"), 2: ("", "21"), 4: ("", "41"), 8: ("", "81, 210 min")}
    return [Case(f"{count} bad node{'s' * (count > 1)}", {"nodes": count}, (
        Method("muster, without rounds across", lambda world: ours(world, across=0),
               Bound("3, 10 min, 1.00", 3.0, 1.0, 0.0)),
        Method("muster", ours),
        Method("two passes", two_passes, Bound("2, 6.7 min"), 100),
        Method("2 + 1 random, majority", fixed(2, 1), Bound("3, 10 min"), 100),
        Method("parallel bisection", parallel_bisection, Bound("10, 35 min"), 50),
        Method("bisection", bisection, Bound(said[count][1]), 50),
        Method("round robin", round_robin, Bound(f"511 {said[count][0]}"), 5))) for count in _GUILTY]


def _few() -> list[Case]:
    """As few nodes as there can be, and odd numbers, of which one sits out each round. Of two nodes no test
    says which is bad."""
    some = (((1, 1), 1, None), ((1, 2), 1, None), ((1, 3), 1, 1.0), ((1, 33), 2, 1.0), ((7, 9), 3, 1.0),
            ((5, 3), 2, 1.0))
    return [Case(f"{bad} bad of {leaves * size} node{'s' * (leaves * size > 1)}, {leaves} x {size}",
                 {"nodes": bad}, (
        Method("muster, quick", of_length("quick"), Bound("all, 0" if recall else "0", None, recall, 0.0)),),
                 (leaves, size))
        for (leaves, size), bad, recall in some]


def _several() -> list[Case]:
    """A share of one leaf's nodes: they are those nodes, and not their leaf. No one's notes have figures of
    it."""
    return [Case(f"{share:.0%} of one leaf's nodes bad", {"one_leaf": share}, (
        Method("muster, quick", of_length("quick"), Bound("all, 0", None, 1.0, 0.0)),))
        for share in (0.25, 0.5, 0.75)]


def _seldom() -> list[Case]:
    """Nodes that fail now and then, by length of burn-in; and noise alone."""
    least = {0.1: (None, None), 0.3: (0.9, 0.99), 0.5: (0.99, 0.99)}
    rows = [Case(f"2 nodes that fail in {share:.0%} of their tests, false alarms .005",
                 {"nodes": 2, "detect": share, "alarm": 0.005}, (
        Method("muster, quick", of_length("quick"), Bound("", None, quick, 0.03)),
        Method("muster, standard", of_length("standard"), Bound("", None, standard, 0.03))))
        for share, (quick, standard) in least.items()]
    return [*rows, Case("nothing bad, false alarms .05", {"alarm": 0.05}, (
        Method("muster, quick", of_length("quick"), Bound("", None, None, 0.03)),))]


def _flaky() -> list[Case]:
    """Bad nodes that show in 7 of 10 tests, among false alarms in 5 of 1,000.

    With as few tests as the notes' majority has, ours names fewer: two failures of three are no 400 to 1, and
    stay open. So its recall binds for depths that a burn-in has; a screening is the least of them.
    """
    worst = {"detect": 0.7, "alarm": 0.005}
    recalls = {1: ".76-.80", 2: ".83-.88", 3: ".88-.90"}
    rows = []
    for extra, text in recalls.items():
        more = {1: "2 + 1", 2: "3 + 2", 3: "4 + 3"}[extra]
        rows += [
            Method(f"muster, {1 + extra} rounds, {extra} tr{'y' if extra == 1 else 'ies'}, none across",
                   lambda world, extra=extra: ours(world, extra, extra, 0, 0),
                   Bound(f"{more}: {text}, innocents <=.03", None, None, 0.03)),
            Method(f"{more} random, majority", fixed(1 + extra, extra), Bound(f"{text}, innocents <=.03"),
                   100)]
    flaky = [Case(f"{count} flaky node{'s' * (count > 1)} (shows .7, false alarms .005)",
                  {"nodes": count, **worst}, (
        Method("muster", ours, Bound("best: .88-.90", None, 0.9, 0.03)),
        Method("muster, screen", of_length("screen"), Bound("2 + 1: .76-.80", None, 0.76, 0.03)),
        Method("muster, 2 repeats", lambda world: ours(world, 2), Bound("best: .88-.90", None, 0.9, 0.03)),
        *rows,
        Method("two passes", two_passes, Bound(".50-.52"), 100),
        Method("parallel bisection", parallel_bisection, Bound(".04-.13"), 50),
        Method("bisection", bisection, Bound(".04-.13"), 50))) for count in (1, 4)]
    return [*flaky, Case("nothing bad, false alarms .005", {"alarm": 0.005}, (
        Method("muster", ours, Bound("", None, None, 0.03)), Method("two passes", two_passes),
        Method("2 + 1 random, majority", fixed(2, 1))))]


def _uplinks(leaves: int) -> list[Case]:
    """Bad uplinks: what is guilty is the leaf. And those beside bad nodes."""
    said = {1: ("1.00, 0", 1.0, 0.0, "1.4"), 2: ("1.00, 0", 1.0, 0.0, "3.7"),
            4: (".99, .03", 0.99, 0.03, "9.2"), 8: (".88, .36", 0.88, 0.36, "24")}
    found = [Case(f"{count} bad uplink{'s' * (count > 1)} of {leaves} leaves x 32", {"uplinks": count}, (
        Method("muster", ours, Bound(f"6-7, leaf {text}", 7.0, recall, innocents)),
        Method("two passes", two_passes, Bound(f"2, innocents {wrong}"), 100),
        Method("round robin", round_robin, Bound(""), 2)))
        for count, (text, recall, innocents, wrong) in said.items()]
    return [*found, Case("4 bad nodes and 4 bad uplinks", {"nodes": 4, "uplinks": 4}, (
        Method("muster", of_length("quick"), Bound("1.00, 1.00, 0", None, 1.0, 0.0)),
        Method("two passes", two_passes, Bound("nodes 1.00, innocents 9.1"), 100),
        Method("round robin", round_robin, Bound(""), 2))),
        Case("4 flaky uplinks (shows .7, false alarms .005)", {"uplinks": 4, "detect": 0.7, "alarm": 0.005}, (
            Method("muster", ours), Method("two passes", two_passes, most=100)))]


def _links() -> list[Case]:
    """Bad paths between two nodes: most are never met by so few rounds; of those that are, how many are
    named."""
    return [Case(f"{count} bad path{'s' * (count > 1)}", {"links": count}, (
        Method("muster", ours), Method("two passes", two_passes, most=100),
        Method("bisection", bisection, most=50),
        Method("round robin", round_robin, most=5))) for count in (1, 8)]
