"""What is wrong with nodes, each text once: equal findings of many nodes share one entry. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from healthcheck.model.outcome import Status
from healthcheck.model.problem import Problem
from inventory.text import clean

_SEVERITIES = ("critical", "warning", "info")
_MOST_OF_NODE = 12
# Characters of all texts together: a page has 3 MB for 4,096 nodes. What is beyond is counted.
_ROOM = 400_000
# Of all nodes together, of which each keeps its worst one.
_MOST = 12_000
_TEXT = 240


class Findings:
    """The shared texts (`texts`), by node its findings (number of the text, since when, until when or None),
    and how many more it has."""

    def __init__(self) -> None:
        self.texts: list[dict[str, str]] = []
        self.of: dict[str, list[list[Any]]] = {}
        self.more: dict[str, int] = {}
        self._numbers: dict[tuple[str, ...], int] = {}
        self._room, self._entries = _ROOM, _MOST

    def add(self, problems: Iterable[Problem]) -> None:
        """Takes in the problems of all nodes: the worst of each node first, so that no one uses it up."""
        by_node: dict[str, list[Problem]] = defaultdict(list)
        for one in problems:
            by_node[one.node].append(one)
        for held in by_node.values():
            held.sort(key=_urgency)
        for turn in range(_MOST_OF_NODE):
            for node, held in by_node.items():
                if turn < len(held) and (turn == 0 or self._entries > 0):
                    self._take(node, held[turn])
        for node, held in by_node.items():
            if left := len(held) - len(self.of.get(node, ())):
                self.more[node] = left

    def _take(self, node: str, one: Problem) -> None:
        found = _texts(one)
        number = self._numbers.get(found)
        if number is None:
            size = sum(map(len, found)) + 90
            if size > self._room and node in self.of:
                return
            if size > self._room:
                # The worst of a node is named all the same, in words that others share.
                found = (found[0], "", *found[2:5], "", "", "(not shown: the page is full)", "")
            self._room -= size
            number = self._numbers[found] = self._numbers.get(found, len(self.texts))
            if number == len(self.texts):
                self.texts.append({key: text for key, text in zip(_KEYS, found, strict=True) if text})
        self._entries -= 1
        self.of.setdefault(node, []).append(
            [number, int(one.began), int(one.ended) if one.ended is not None else None])


_KEYS = ("rule", "subject", "status", "severity", "owner", "observed", "expected", "reason", "remedy")


def _texts(one: Problem) -> tuple[str, ...]:
    return (clean(one.rule or "not reached", 80), clean(one.subject, 120), one.status, one.severity,
            one.owner or "", clean(one.observed, _TEXT), clean(one.expected, _TEXT), clean(one.reason, _TEXT),
            clean(one.remedy, _TEXT))


def _urgency(one: Problem) -> tuple[bool, int, bool, float]:
    severity = _SEVERITIES.index(one.severity) if one.severity in _SEVERITIES else 0
    return one.ended is not None, severity, one.status != Status.FAIL.value, one.began
