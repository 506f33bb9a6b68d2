"""Who is at fault where ranks or nodes of the same training disagree, bit by bit. Pure.

Each rank reports checksums for parts of the steps, in order: of its weights, of the gradients of the batch
that all share before the all-reduce, and how many sums of these were wrong (`onnode/train.py`). All ranks
get the same sums, so one wrong rank does not make two unequal. Each rank is judged where it first differs
from most of its equals:

    gradients, with the weights of the others     that rank's GPU; so is a loss that is no number
    weights or sums, of one rank in the task      that rank's GPU: the sum was right everywhere else
    weights or sums, of several; or a tie         no GPU: their node where it is one, else unexplained
    weights of a whole node beside equal nodes    that node, as within it all are equal; or its only GPU

Equals have the same GPU, driver and libraries (`checksums.SAME_SETUP`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from healthcheck.burnin import limits
from healthcheck.burnin.checksums import SAME_SETUP, ChecksumJudgement
from healthcheck.burnin.faults import WRONG_DATA
from healthcheck.burnin.model import Accusation, Object, RankReport, Task, TaskKind, TaskResult
from healthcheck.burnin.setting import backend_of
from inventory.text import listed

_NAME = re.compile(r"train_(weights|grads|sum)_([0-9]{1,12})")
_WEIGHTS, _GRADS, _SUM = "weights", "grads", "sum"
# reports by the number of steps at the end of a part
_Parts = Mapping[int, Mapping[str, str]]


@dataclass
class _Evidence:
    """Ranks that are accused, and ranks of which any may be at fault, each with the reason."""

    named: dict[int, str] = field(default_factory=dict)
    any_of: dict[int, str] = field(default_factory=dict)

    def known(self, rank: int) -> bool:
        return rank in self.named or rank in self.any_of


def unequal(task: Task, reports: Sequence[RankReport]) -> tuple[Accusation, ...]:
    """Accusations within one task; `reports` are in the order of ranks, one of each."""
    evidence = _Evidence()
    parts = [_parts(report) for report in reports]
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for rank, report in enumerate(reports):
        groups[_setup(report)].append(rank)
    for end in sorted(set().union(*parts)):
        _sums(evidence, end, parts)
        for group in groups.values():
            _beside_equals(evidence, end, parts, [rank for rank in group if end in parts[rank]])
    _no_numbers(evidence, reports)
    return tuple(_accusations(task, evidence))


def _sums(evidence: _Evidence, end: int, parts: Sequence[_Parts]) -> None:
    """Sums of gradients that were the same on all ranks, and so are known."""
    here = [part.get(end, {}) for part in parts]
    if len({each.get(_GRADS) for each in here}) != 1 or any(_SUM not in each for each in here):
        return
    wrong = [rank for rank, each in enumerate(here) if each[_SUM] != "0" and not evidence.known(rank)]
    for rank in wrong:
        evidence.any_of[rank] = f"a sum of equal gradients reached it wrong by step {end}"


def _beside_equals(evidence: _Evidence, end: int, parts: Sequence[_Parts], equals: Sequence[int]) -> None:
    weights = {rank: parts[rank][end].get(_WEIGHTS, "") for rank in equals}
    usual = _usual(weights.values())
    if usual is None:
        _tie(evidence, equals, f"weights by step {end}")
        return
    for rank in equals:
        if weights[rank] != usual and not evidence.known(rank):
            evidence.any_of[rank] = (f"its weights differ by step {end} from those of "
                                     f"{_count(weights.values(), usual)}")
    grads_of = {rank: parts[rank][end].get(_GRADS, "") for rank in equals if weights[rank] == usual}
    most = _usual(grads_of.values())
    if most is None:
        _tie(evidence, list(grads_of), f"gradients of one batch by step {end}, with equal weights,")
        return
    for rank, grads in grads_of.items():
        if grads != most and not evidence.known(rank):
            evidence.named[rank] = (f"its loss or gradients of the batch that all share differ by step {end} "
                                    "from those of "
                                    f"{_count(grads_of.values(), most)} with the same weights")


def _tie(evidence: _Evidence, ranks: Iterable[int], what: str) -> None:
    ranks = list(ranks)
    if any(evidence.known(rank) for rank in ranks):
        return      # an accused rank explains the tie
    evidence.any_of.update((rank, f"{what} are not equal, and no value has a majority") for rank in ranks)


def _no_numbers(evidence: _Evidence, reports: Sequence[RankReport]) -> None:
    found = {rank: min(each.iteration for each in report.wrong) for rank, report in enumerate(reports)
             if report.wrong}
    several = 2 * len(found) > len(reports) > 1
    for rank, step in found.items():
        if not evidence.known(rank):
            (evidence.any_of if several else evidence.named)[
                rank] = f"its loss or gradients are no numbers in step {step}"


def _accusations(task: Task, evidence: _Evidence) -> Iterable[Accusation]:
    if len(evidence.any_of) == 1:      # a tie has at least two
        evidence.named.update(evidence.any_of)
        evidence.any_of.clear()
    for rank in sorted(evidence.named):
        yield Accusation(Object.GPU, str(task.seats[rank]), WRONG_DATA, evidence.named[rank], (task.id,))
    if not evidence.any_of:
        return
    seats = [task.seats[rank] for rank in sorted(evidence.any_of)]
    who = listed(list(map(str, seats)), limits.NAMES)
    why = f"{next(iter(evidence.any_of.values()))}; one of {who}, or the path between them"
    nodes = {seat.node for seat in seats}
    if len(nodes) == 1:
        yield Accusation(Object.NODE, nodes.pop(), WRONG_DATA, why, (task.id,))
    else:
        # Beside an accused rank it is another failure, and stays open.
        name = f"{task.id}, the rest" if evidence.named else task.id
        yield Accusation(Object.UNEXPLAINED, name, WRONG_DATA, why, (task.id,))


def odd_nodes(results: Iterable[TaskResult]) -> ChecksumJudgement:
    """Accuses nodes whose training alone had other weights than that of most equals; a tie names no one, and
    nodes whose own ranks differ are left out."""
    groups: dict[tuple[object, ...], dict[str, tuple[_Parts, Task, str]]] = defaultdict(dict)
    for result in results:
        if result.task.kind is not TaskKind.TRAIN or len(result.task.nodes) != 1 or not result.whole:
            continue
        if any(one.fault == WRONG_DATA for one in result.accusations) or not result.reports[0].checksums:
            continue
        first = result.reports[0]
        key = (tuple(sorted(result.task.params.items())), tuple(_setup(report) for report in result.reports))
        groups[key][result.task.nodes[0]] = _parts(first), result.task, backend_of(first)
    accusations: list[Accusation] = []
    doubtful: dict[str, frozenset[str]] = {}
    alone: dict[str, str] = {}
    for of in groups.values():
        series = {node: repr(sorted(parts.items())) for node, (parts, _, _) in of.items()}
        usual = _usual(series.values())
        if len(of) == 1:
            # Ranks of one node are each other's equals.
            alone.update((node, backend) for node, (_, task, backend) in of.items() if len(task.seats) == 1)
        elif usual is None:
            name = f"training of {listed(sorted(of), limits.NAMES)}"
            doubtful[name] = frozenset(of)
            tests = tuple(task.id for _, task, _ in of.values())
            accusations.append(Accusation(Object.UNEXPLAINED, name, WRONG_DATA,
                                          "equals do not agree, and no result has a majority", tests))
        else:
            right = next(of[node][0] for node in of if series[node] == usual)
            accusations += [_odd(node, task, _first(parts, right), _count(series.values(), usual))
                            for node, (parts, task, _) in of.items() if series[node] != usual]
    return ChecksumJudgement(tuple(accusations), doubtful, alone, ())


def _odd(node: str, task: Task, end: int, equals: str) -> Accusation:
    why = (f"its weights or gradients differ by step {end} from those of {equals} that did the same training "
           "alone")
    if len(task.seats) == 1:
        return Accusation(Object.GPU, str(task.seats[0]), WRONG_DATA, why, (task.id,))
    return Accusation(Object.NODE, node, WRONG_DATA, f"{why}; in it all GPUs agree", (task.id,))


def _first(parts: _Parts, right: _Parts) -> int:
    return min(end for end in {*parts, *right} if parts.get(end) != right.get(end))


def _parts(report: RankReport) -> _Parts:
    found: dict[int, dict[str, str]] = defaultdict(dict)
    for name, checksum in report.checksums.items():
        if match := _NAME.fullmatch(name):
            found[int(match[2])][match[1]] = checksum
    return found


def _setup(report: RankReport) -> tuple[str, ...]:
    return tuple(report.facts.get(fact, "") for fact in SAME_SETUP)


def _usual(values: Iterable[str]) -> str | None:
    """What more than half of them are."""
    values = list(values)
    if not values:
        return ""
    value, number = Counter(values).most_common(1)[0]
    return value if 2 * number > len(values) else None


def _count(values: Iterable[str], usual: str) -> str:
    number = Counter(values)[usual]
    return f"{number} equal{'s' * (number != 1)}"
