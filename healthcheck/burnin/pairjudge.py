"""Judges pairs as tests: bandwidth against the floor, or against equals of all planned rounds so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from healthcheck.burnin import stats
from healthcheck.burnin.floors import Floors
from healthcheck.burnin.isolate import pair_test
from healthcheck.burnin.model import Participant, TaskResult
from healthcheck.burnin.published import Setting
from healthcheck.burnin.setting import Measure, SkuHardware, measures
from healthcheck.burnin.weigh import PairTest


class PairJudge:
    """Keeps the figures of planned rounds, so that the few pairs of a round of suspects have equals; not
    those of repeated tests of a suspect: soon most figures would be as slow as it is."""

    def __init__(self, places: Mapping[str, Participant], floors: Floors,
                 hardware: Mapping[str, SkuHardware]) -> None:
        self._places, self._floors, self._hardware = places, floors, hardware
        self._figures: dict[Setting, dict[str, float]] = defaultdict(dict)

    def keep(self, results: Iterable[TaskResult]) -> None:
        """A planned round's results are a measure for these and for all later ones."""
        for one in measures(results, self._places, self._hardware):
            self._figures[one.setting.learned_from][one.task] = one.value

    def tests(self, results: Iterable[TaskResult]) -> list[PairTest]:
        """A round's results as PairSearch.add_results takes them."""
        results = list(results)
        found = {one.task: one for one in measures(results, self._places, self._hardware)}
        return [pair_test(result, self._slow(found.get(result.task.id))) for result in results]

    def _slow(self, one: Measure | None) -> bool | None:
        if one is None:
            return None
        of, name = one.setting.learned_from, one.task
        ratio = self._floors.rules.relative.get(of.backend)
        floor = self._floors.of(one.setting)
        if floor is not None and one.value < floor.least:
            return True
        equals = {**self._figures[of], name: one.value}
        compared = stats.slow(equals, ratio=ratio)[name] if ratio is not None else None
        # One test accuses no one yet.
        beside = None if compared is None else compared.behind or compared.off
        # An unjudged pair clears no one, unless the site's policy accepts an unknown speed.
        return (False if beside is None
                and (floor is not None or self._floors.rules.accepts(one.setting)) else beside)
