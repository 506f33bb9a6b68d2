"""Trends of memory errors: counters of GPUs that have grown, as points for a sparkline."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from healthcheck.store.clock import AHEAD_S
from healthcheck.store.file import Store
from inventory.text import clean

DAYS = 30
_NAMES = {
    "ecc_corrected_lifetime": "corrected memory errors",
    "ecc_uncorrected_lifetime": "uncorrectable memory errors",
    "rows_corrected": "rows remapped after corrected errors",
    "rows_uncorrected": "rows remapped after uncorrectable errors",
    "pages_retired_corrected": "pages retired after corrected errors",
    "pages_retired_uncorrected": "pages retired after uncorrectable errors",
}
# The worst of a node; the page is no place for each counter of a machine that lies.
_MOST_OF_NODE, _MOST_POINTS, _MOST = 6, 24, 600


def trends(store: Store, now: float) -> dict[str, list[dict[str, Any]]]:
    """By node its counters that grew in the last 30 days: what they count, the GPU's place, by how much, and
    (epoch seconds, value) of at most 24 changes. Uncorrectable errors and remaps stand before corrected
    errors, then what grew most."""
    marks = ", ".join("?" * len(_NAMES))
    # A counter that a node has had for years is stored with its first value, and did not grow by that.
    grown = store.rows(
        "SELECT counter.node, node.name, slot, counter.name FROM counter "  # noqa: S608  (marks)
        f"JOIN node ON node.id = counter.node WHERE counter.name IN ({marks}) "
        "GROUP BY counter.node, slot, counter.name HAVING max(value) > min(value)", *_NAMES)
    found = []
    for number, node, slot, name in grown:
        points = _points(store, (number, slot, name), now)
        growth = points[-1][1] - points[0][1] if points else 0.0
        if growth > 0:
            found.append((name == "ecc_corrected_lifetime", -growth, node, slot, name, points))
    by_node: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _, growth, node, slot, name, points in sorted(found)[:_MOST]:
        if len(by_node[node]) < _MOST_OF_NODE:
            step = -(-len(points) // _MOST_POINTS)
            kept = points[:-1:step] + points[-1:]
            by_node[node].append({"what": _NAMES[name], "slot": clean(slot, 64), "growth": -growth,
                                  "points": [[int(time), value] for time, value in kept]})
    return dict(by_node)


def _points(store: Store, of: tuple[int, str, str], now: float) -> list[tuple[float, float]]:
    """The counter's values within the time, and the last one before it."""
    points = [(time, value) for time, value in store.rows(
        "SELECT time, value FROM counter WHERE node = ? AND slot = ? AND name = ? AND time <= ? "
        "ORDER BY time", *of, now + AHEAD_S)]
    earlier = sum(time < now - DAYS * 86400 for time, _ in points)
    return points[max(0, earlier - 1):]
