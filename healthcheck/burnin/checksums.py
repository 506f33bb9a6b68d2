"""Results that equals must share: the same product on equal GPUs, the same known answer on any; who has
another one is wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.burnin import faults
from healthcheck.burnin.model import Accusation, Object, Seat, TaskKind, TaskResult
from healthcheck.burnin.setting import DEVICE, backend_of
from inventory.text import clean

# A float product is the same bits only with the same chip, driver and libraries; an integer one everywhere.
ALIKE = (DEVICE, "capability", "driver", "cuda", "cublas", "torch")
_ALIKE = {TaskKind.RANDOM: ALIKE, TaskKind.KNOWN: ()}
_MOST_NAMED = 8


@dataclass(frozen=True)
class ChecksumJudgement:
    """Who is accused; where nobody has a majority the nodes that this leaves in doubt, by the accusation's
    name; by node the backend of a random product that had no equal, so that nothing says whether it is right;
    and remarks.
    """

    accusations: tuple[Accusation, ...]
    doubtful: Mapping[str, frozenset[str]]
    alone: Mapping[str, str]
    remarks: tuple[str, ...]


def odd_ones(results: Iterable[TaskResult]) -> ChecksumJudgement:
    """Who has another checksum than most of its equals; a tie names nobody."""
    backends: dict[str, str] = {}
    said: dict[tuple[object, ...], dict[Seat, tuple[str, str]]] = defaultdict(dict)
    for result in results:
        alike = _ALIKE.get(result.task.kind)
        if alike is None:
            continue
        params = tuple(sorted(result.task.params.items()))
        # Whose own answer was wrong is accused without any comparison, and is no equal.
        for report in (report for report in result.reports if not report.wrong_total):
            for name, checksum in report.checksums.items():
                key = (result.task.kind, name, params, *(report.facts.get(fact, "") for fact in alike))
                backends[report.seat.node] = backend_of(report)
                said[key][report.seat] = (checksum, result.task.id)
    accusations: list[Accusation] = []
    doubtful: dict[str, frozenset[str]] = {}
    alone = 0
    unjudged: dict[str, str] = {}
    for key, of in said.items():
        alone += len(of) == 1
        if len(of) == 1 and key[0] is TaskKind.RANDOM:
            unjudged.update({seat.node: backends[seat.node] for seat in of})
        counts = Counter(checksum for checksum, _ in of.values())
        usual, number = counts.most_common(1)[0]
        what = clean(key[1], 60)
        if 2 * number > len(of):
            accusations += [Accusation(Object.GPU, str(seat), faults.WRONG_DATA,
                                       f"{what} differs from what {number} equals have", (task,))
                            for seat, (checksum, task) in of.items() if checksum != usual]
        else:
            seats = sorted(of)
            name = f"{what} of {named(seats)}"
            doubtful[name] = frozenset(seat.node for seat in seats)
            accusations.append(Accusation(
                Object.UNEXPLAINED, name, faults.WRONG_DATA,
                "equals do not agree, and no result has a majority",
                tuple(dict.fromkeys(task for _, task in of.values()))))
    remarks = (f"{alone} checksum{'s' * (alone != 1)} had no equal to be compared with",) if alone else ()
    return ChecksumJudgement(tuple(accusations), doubtful, unjudged, remarks)


def named(all_: Sequence[object]) -> str:
    """The first of them, by commas."""
    return ", ".join(map(str, all_[:_MOST_NAMED])) + (" ..." if len(all_) > _MOST_NAMED else "")
