"""The page that a scrape gets: all nodes' lines family by family, within a number of series that does not grow with what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from healthcheck.exporter import fleet as whole
from healthcheck.exporter import nodes
from healthcheck.exporter.nodes import Lines
from healthcheck.exporter.source import Fleet, NodeNow, fresh
from healthcheck.exporter.text import Family

MOST_SERIES = 250_000
# What is left out, in this order, where there are too many: a number stands for the rules that did not pass, of which each node keeps so
# many at least, its worst ones.
_SPARED: tuple[Family | int, ...] = (
    4, nodes.BY_NUMBER, nodes.PROBING, 1, nodes.CORRECTED, nodes.DOWNED, nodes.GPU, nodes.TEMPERATURE, nodes.SOFTWARE, nodes.POWER,
    nodes.RESULTS, 0, nodes.INFO)
_MAY_LACK = (nodes.NOT_PASSED, *(each for each in _SPARED if isinstance(each, Family)))


class Page:
    """Makes pages. A node's lines are made anew only when there is a newer look, or its look has aged."""

    def __init__(self, stale: float, most: int = MOST_SERIES) -> None:
        self._stale = stale
        self._most = most
        self._lines: dict[str, tuple[NodeNow, bool, Lines]] = {}
        self._probes: tuple[tuple[object, ...], list[whole.Sample]] = ((), [])
        self.pages = 0

    def make(self, fleet: Fleet, now: float, process: whole.Process, before: float) -> str:
        """The page; `before` is what the one before it took, in seconds."""
        self.pages += 1
        lines = self._of(fleet.nodes, now)
        samples = [*self._probed(fleet, now), *(whole.head(fleet.head) if fleet.head is not None else ()),
                   *whole.health(fleet, self._stale)]
        of = {family: [line for one in lines for line in one.of[number]] for number, family in enumerate(nodes.FAMILIES)}
        left_out = self._fit(of, lines, len(samples))
        series = sum(map(len, of.values())) + len(samples)
        samples += whole.process(process, before, self.pages)
        samples.append((whole.SERIES, whole.SERIES.sample(series)))
        samples += [(whole.LEFT_OUT, whole.LEFT_OUT.sample(left_out.get(family.name, 0), family.name))
                    for family in _MAY_LACK]
        for family, line in samples:
            of.setdefault(family, []).append(line)
        return "".join(part for family in (*nodes.FAMILIES, *whole.FAMILIES) if of.get(family) for part in (family.head, *of[family]))

    def _of(self, there: Sequence[NodeNow], now: float) -> list[Lines]:
        kept: dict[str, tuple[NodeNow, bool, Lines]] = {}
        for at in there:
            is_fresh = fresh(at.newest, now, self._stale)
            held = self._lines.get(at.name)
            # A look that has not changed is the same object, and so are the inventory's nodes.
            if held is None or held[1] is not is_fresh or held[0].newest is not at.newest or held[0].node is not at.node \
                    or held[0].cordons != at.cordons:
                held = (at, is_fresh, nodes.lines(at, now, self._stale))
            kept[at.name] = held
        self._lines = kept
        return [held[2] for held in kept.values()]

    def _probed(self, fleet: Fleet, now: float) -> Iterable[whole.Sample]:
        stale = tuple(at.name for at in fleet.nodes if not fresh(at.newest, now, self._stale))
        key = (fleet.generation, len(fleet.nodes), stale)
        if key != self._probes[0]:
            looks = (at.newest for at in fleet.nodes if at.newest is not None and fresh(at.newest, now, self._stale))
            self._probes = (key, list(whole.probes(looks)))
        return self._probes[1]

    def _fit(self, of: dict[Family, list[str]], lines: Sequence[Lines], more: int) -> dict[str, int]:
        """Leaves out what is too much, and says how many series of which metric that is."""
        room = self._most - more - sum(map(len, of.values()))
        wrong = nodes.FAMILIES.index(nodes.NOT_PASSED)
        counts = [len(one.of[wrong]) for one in lines]
        left_out: dict[str, int] = {}
        for each in _SPARED:
            if room >= 0:
                break
            family = nodes.NOT_PASSED if isinstance(each, int) else each
            before = len(of[family])
            if isinstance(each, int):
                kept = max(each, _evenly(counts, before + room))
                of[family] = [line for one in lines for line in one.of[wrong][:kept]]
            else:
                of[family] = []
            gone = before - len(of[family])
            left_out[family.name] = left_out.get(family.name, 0) + gone
            room += gone
        return left_out


def _evenly(counts: Sequence[int], room: int) -> int:
    """The largest number of which every node may have so many, or all of its own, within `room` altogether."""
    low, high = 0, max(counts, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(count, middle) for count in counts) <= room:
            low = middle
        else:
            high = middle - 1
    return low
