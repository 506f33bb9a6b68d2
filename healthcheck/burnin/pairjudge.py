"""Judges pairs as tests: each one's bandwidth beside its equals of all rounds so far, and against a floor where there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median

from healthcheck.burnin.isolate import tested
from healthcheck.burnin.model import Place, TaskResult
from healthcheck.burnin.rounds import Sites
from healthcheck.burnin.stats import LEAST_EQUALS, LEAST_RATIO, slow
from healthcheck.burnin.weigh import Tested

BUSBW = "busbw_gb_s"


class PairJudge:
    """Keeps what the pairs of earlier rounds reached, so that the few of a round of suspects have equals.

    Equals are as far apart (neighbours, one leaf, across leaves) and of the same SKUs, number of ranks and size. `floor` says what a result
    must reach, None where nobody knows. Without a floor, a pair with too few equals is not judged.
    """

    def __init__(self, places: Iterable[Place], floor: Callable[[TaskResult], float | None] = lambda _: None, *,
                 least: int = LEAST_EQUALS, ratio: float = LEAST_RATIO) -> None:
        self._sites = Sites(places)
        self._floor, self._least, self._ratio = floor, least, ratio
        self._known: dict[tuple[object, ...], dict[str, float]] = {}

    def tests(self, results: Iterable[TaskResult]) -> list[Tested]:
        """A round's results as `Isolation.told` takes them."""
        results = list(results)
        whose: dict[str, tuple[object, ...]] = {}
        for result in results:
            value = bandwidth(result)
            if value is not None:
                whose[result.task.id] = self._equals(result)
                self._known.setdefault(whose[result.task.id], {})[result.task.id] = value
        beside = {key: slow(self._known[key], least=self._least, ratio=self._ratio) for key in dict.fromkeys(whose.values())}
        return [tested(result, self._slow(result, beside[whose[result.task.id]][result.task.id].off) if result.task.id in whose else None)
                for result in results]

    def _slow(self, result: TaskResult, behind: bool | None) -> bool | None:
        floor, value = self._floor(result), bandwidth(result)
        if floor is None or value is None:
            return behind
        return bool(behind) or value < floor

    def _equals(self, result: TaskResult) -> tuple[object, ...]:
        nodes = result.task.nodes
        near, leaf = ({by[node] for node in nodes} for by in (self._sites.near, self._sites.leaf))
        apart = "near" if len(near) == 1 else "leaf" if len(leaf) == 1 else "across"
        skus = tuple(sorted(self._sites.places[node].sku or "" for node in nodes))
        return apart, skus, len(result.task.seats), result.reports[0].figures.get("size_bytes")


def bandwidth(result: TaskResult) -> float | None:
    """The bus bandwidth of a whole task in GB/s, which is one of all its ranks: their median. None where it is not whole, or has none."""
    values = [report.figures.get(BUSBW, 0.0) for report in result.reports] if result.whole else []
    return median(values) if values and min(values) > 0 else None
