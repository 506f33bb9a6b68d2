"""Compares results that equal GPUs must share bit by bit; the GPU with another result is wrong."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from healthcheck.burnin import faults, limits
from healthcheck.burnin.model import Accusation, Object, Seat, TaskKind, TaskResult
from healthcheck.burnin.setting import DEVICE, backend_of
from inventory.text import clean, listed

# Float products have the same bits only with equal chip, driver and libraries; integer products always.
SAME_SETUP = (DEVICE, "capability", "driver", "cuda", "cublas", "torch")
_MUST_EQUAL = {TaskKind.RANDOM: SAME_SETUP, TaskKind.KNOWN: ()}


@dataclass(frozen=True)
class ChecksumJudgement:
    """Who is accused by checksums; `doubtful`: by accusation the nodes in doubt where no result has a
    majority; `alone`: by node the backend of a random product that had no equal, and so is not judged."""

    accusations: tuple[Accusation, ...]
    doubtful: Mapping[str, frozenset[str]]
    alone: Mapping[str, str]
    remarks: tuple[str, ...]


def odd_ones(results: Iterable[TaskResult]) -> ChecksumJudgement:
    """Accuses GPUs whose checksum differs from that of most equals; a tie names no one."""
    backends: dict[str, str] = {}
    groups: dict[tuple[object, ...], dict[Seat, tuple[str, str]]] = defaultdict(dict)
    for result in results:
        facts = _MUST_EQUAL.get(result.task.kind)
        if facts is None:
            continue
        params = tuple(sorted(result.task.params.items()))
        # A GPU with a wrong known result is accused already, and is no equal.
        for report in (report for report in result.reports if not report.wrong_total):
            for name, checksum in report.checksums.items():
                key = (result.task.kind, name, params, *(report.facts.get(fact, "") for fact in facts))
                backends[report.seat.node] = backend_of(report)
                groups[key][report.seat] = (checksum, result.task.id)
    accusations: list[Accusation] = []
    doubtful: dict[str, frozenset[str]] = {}
    alone = 0
    unjudged: dict[str, str] = {}
    for key, of in groups.items():
        alone += len(of) == 1
        if len(of) == 1 and key[0] is TaskKind.RANDOM:
            unjudged.update({seat.node: backends[seat.node] for seat in of})
        counts = Counter(checksum for checksum, _ in of.values())
        usual, number = counts.most_common(1)[0]
        what = clean(key[1], 60)
        if 2 * number > len(of):
            accusations += [Accusation(Object.GPU, str(seat), faults.WRONG_DATA,
                                       f"{what} differs from that of {number} equals", (task,))
                            for seat, (checksum, task) in of.items() if checksum != usual]
        else:
            seats = sorted(of)
            name = f"{what} of {listed(list(map(str, seats)), limits.NAMES)}"
            doubtful[name] = frozenset(seat.node for seat in seats)
            accusations.append(Accusation(
                Object.UNEXPLAINED, name, faults.WRONG_DATA,
                "equals do not agree, and no result has a majority",
                tuple(dict.fromkeys(task for _, task in of.values()))))
    remarks = (f"{alone} checksum{'s' * (alone != 1)} had no equal to compare with",) if alone else ()
    return ChecksumJudgement(tuple(accusations), doubtful, unjudged, remarks)
