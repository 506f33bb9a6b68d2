"""The page of a scrape: all nodes' rows by family,
within a number of series that problems do not increase."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from healthcheck.exporter import fleet as whole
from healthcheck.exporter import nodes
from healthcheck.exporter.nodes import NodeMetrics
from healthcheck.exporter.source import FleetStatus, NodeNow, fresh
from healthcheck.model.exposition import MetricFamily, Row, Rows, grouped

MOST_SERIES = 250_000
# What is left out, in this order, if there are too many: the number is how many rules that did not pass each
# node keeps at least, worst first.
_SPARED: tuple[MetricFamily | int, ...] = (4, nodes.BY_NUMBER, nodes.PROBING, 1, nodes.CORRECTED,
                                           nodes.DOWNED, nodes.GPU, nodes.TEMPERATURE, nodes.SOFTWARE,
                                           nodes.POWER, nodes.RESULTS, 0, nodes.INFO)
_WRONG = nodes.FAMILIES.index(nodes.NOT_PASSED)       # the last
_MAY_LACK = (nodes.NOT_PASSED, *(each for each in _SPARED if isinstance(each, MetricFamily)))


class Page:
    """Makes pages. A node's rows are made again only for a newer snapshot,
    or when the snapshot goes stale."""

    def __init__(self, stale: float, most: int = MOST_SERIES) -> None:
        self._stale = stale
        self._most = most
        self._held: dict[str, tuple[NodeNow, bool, NodeMetrics]] = {}

    def make(self, fleet: FleetStatus, now: float) -> Rows:
        """The whole page; its rows may be read again and again."""
        stale = self._stale if fleet.stale is None else fleet.stale
        held = self._of(fleet.nodes, now, stale)
        samples = [*whole.probes(one.probes for one in held),
                   *(whole.head(fleet.head) if fleet.head is not None else ()), *whole.health(fleet, stale),
                   *fleet.more]
        counts = [sum(len(one.of[number]) for one in held) for number in range(len(nodes.FAMILIES))]
        each, left_out = self._fit(held, counts, len(samples))
        kept = [_NodeRows(held, number, each if number == _WRONG else None)
                for number, family in enumerate(nodes.FAMILIES)
                if number == _WRONG or family.name not in left_out]
        series = sum(map(len, kept)) + len(samples)
        samples.append((whole.SERIES, whole.SERIES.sample(series)))
        samples += [(whole.LEFT_OUT, whole.LEFT_OUT.sample(left_out.get(family.name, 0), family.name))
                    for family in _MAY_LACK]
        return [*((nodes.FAMILIES[rows.number], rows) for rows in kept if len(rows)),
                *grouped(samples).items()]

    def until(self, fleet: FleetStatus, now: float) -> float:
        """When a page changes by time alone: a snapshot goes stale."""
        stale = self._stale if fleet.stale is None else fleet.stale
        aged = (at.newest.time + stale for at in fleet.nodes if at.newest is not None
                and fresh(at.newest, now, stale))
        # A snapshot from the future becomes fresh.
        early = (at.newest.time - stale for at in fleet.nodes if at.newest is not None
                 and at.newest.time - stale > now)
        return min((*aged, *early), default=math.inf)

    def _of(self, there: Sequence[NodeNow], now: float, stale: float) -> list[NodeMetrics]:
        kept: dict[str, tuple[NodeNow, bool, NodeMetrics]] = {}
        for at in there:
            is_fresh = fresh(at.newest, now, stale)
            held = self._held.get(at.name)
            # Unchanged snapshots and inventory nodes are the same objects.
            if (held is None or held[1] is not is_fresh or held[0].newest is not at.newest
                or held[0].node is not at.node or held[0].cordons != at.cordons):
                held = (at, is_fresh, nodes.rows(at, now, stale))
            kept[at.name] = held
        self._held = kept
        return [held[2] for held in kept.values()]

    def _fit(
        self, held: Sequence[NodeMetrics], counts: Sequence[int], more: int,
    ) -> tuple[int, dict[str, int]]:
        """How many of the rules that did not pass each node keeps, and how many series of which metrics are
        left out to fit.

        Metrics named there are not on the page at all, except the worst of the rules that did not pass.
        """
        wrong = [len(one.of[_WRONG]) for one in held]
        room = self._most - more - sum(counts)
        kept = max(wrong, default=0)
        left_out: dict[str, int] = {}
        for each in _SPARED:
            if room >= 0:
                break
            if isinstance(each, MetricFamily):
                left_out[each.name] = counts[nodes.FAMILIES.index(each)]
                room += left_out[each.name]
            else:
                before = sum(min(kept, count) for count in wrong)
                kept = max(each, _evenly(wrong, before + room))
                after = sum(min(kept, count) for count in wrong)
                left_out[nodes.NOT_PASSED.name] = sum(wrong) - after
                room += before - after
        return kept, left_out


class _NodeRows:
    """The rows of one family over all nodes, of each at most so many; none is copied."""

    def __init__(self, held: Sequence[NodeMetrics], number: int, most: int | None) -> None:
        self._held, self.number, self._most = held, number, most

    def __iter__(self) -> Iterator[Row]:
        for one in self._held:
            yield from one.of[self.number][:self._most]

    def __len__(self) -> int:
        return sum(len(one.of[self.number][:self._most]) for one in self._held)


def _evenly(counts: Sequence[int], room: int) -> int:
    """The largest number that every node may have (or all its own) within `room` in total."""
    low, high = 0, max(counts, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(count, middle) for count in counts) <= room:
            low = middle
        else:
            high = middle - 1
    return low
