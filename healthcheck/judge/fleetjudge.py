"""Judges a fleet rule: runs its check once over the facts of a whole cohort.

A fact may be one thing of a node or a collection (its GPUs). What lacks a reading that the check asks for
leaves the comparison: one GPU, or the node, which is then UNKNOWN for this rule. The others are compared
among themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from healthcheck.checks.base import GROWTH, Check
from healthcheck.checks.fleet import NoMajority, Uncompared, Undecided
from healthcheck.checks.growth import Growth
from healthcheck.facts.plain import plain
from healthcheck.facts.values import Fact, Refusal, Unmeasured, refusals
from healthcheck.judge.judge import (
    CheckRun,
    clean_finding,
    conclude,
    declared_empty,
    found_empty,
    ready,
    result,
)
from healthcheck.judge.nodefacts import NodeFacts, growth_of, members
from healthcheck.model.outcome import Finding, Origin, Result, Status
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import SMALLEST_COHORT, Sku

Cohort = Mapping[str, NodeFacts]
Runs = Mapping[str, CheckRun]


def judge_fleet(rule: Rule, cohort: Cohort, sku: Sku | None = None) -> dict[str, Result]:
    """The results of one fleet rule for each node of a cohort (nodes of one SKU)."""
    if rule.left_out:
        return {node: result(rule, Status.SKIPPED, reason=rule.left_out) for node in cohort}
    check = rule.checked
    runs: defaultdict[str, CheckRun] = defaultdict(CheckRun)  # most nodes have nothing to report, and none
    compared = {node: facts for node, facts in cohort.items()
                if facts.plain(check) or _comparable(check, facts, sku, runs[node])}
    if _enough(compared, runs):
        refused: list[Refusal] = []
        found: list[tuple[str, Finding | Uncompared | Undecided]] = []
        problem: Unmeasured | None = None
        with refusals(refused):
            try:
                arguments = [_argument(check, name, compared) for name in check.arguments]
                for node, one in check.function(*arguments, **rule.values(None)):
                    if node not in compared:
                        raise ValueError(f"a finding about {node}, which is not among the compared nodes")
                    found.append((node, one if isinstance(one, (Uncompared, Undecided))
                                  else clean_finding(one, check.subject)))
            except NoMajority as error:
                problem = Unmeasured(str(error), Origin.MUSTER)
            except Refusal as error:
                problem = Unmeasured(str(error))
            except Exception as error:  # noqa: BLE001  (a defect of a check costs its rule only)
                problem = Unmeasured(f"the check failed: {type(error).__name__}: {error}", Origin.MUSTER)
        compared = _without_refused(check, compared, refused, runs)
        if _enough(compared, runs):
            _record(check, compared, found, problem, runs)
    return {node: conclude(rule, runs[node]) if node in runs else rule.passed for node in cohort}


def _comparable(check: Check, facts: NodeFacts, sku: Sku | None, run: CheckRun) -> bool:
    """Whether a node has what is to be compared; otherwise `run` gets the reason."""
    run.skipped = found_empty(declared_empty(check, sku), facts)
    return not run.skipped and ready(
        check, facts, run, lambda name: Unmeasured(f"there are no {plain(name)} to compare"))


def _enough(compared: Cohort, runs: Runs) -> bool:
    """Whether there are enough nodes to compare; otherwise they are skipped."""
    if len(compared) >= SMALLEST_COHORT:
        return True
    for node in compared:
        runs[node].skipped = (f"a cohort of {len(compared)} is too small to compare: "
                              f"at least {SMALLEST_COHORT} nodes of one SKU")
    return False


class _Growths(Mapping[str, Callable[[Fact], Growth[Any]]]):
    """By node the function that gives a subject's growth, made each time: checks go from node to node."""

    def __init__(self, compared: Cohort, subject: str) -> None:
        self._compared = compared
        self._subject = subject

    def __getitem__(self, node: str) -> Callable[[Fact], Growth[Any]]:
        return growth_of(self._compared[node].paired(self._subject))

    def __iter__(self) -> Iterator[str]:
        return iter(self._compared)

    def __len__(self) -> int:
        return len(self._compared)


def _argument(check: Check, name: str, compared: Cohort) -> Mapping[str, Any]:
    if name == GROWTH:
        return _Growths(compared, check.subject)
    return {node: facts.input(name).value for node, facts in compared.items()}


def _without_refused(
    check: Check, compared: dict[str, NodeFacts], refused: Iterable[Refusal], runs: Runs,
) -> dict[str, NodeFacts]:
    """The nodes with anything left to compare; the runs of those that refused a reading get the reason."""
    # Each once: what many nodes share refuses for each of them.
    by_source: defaultdict[object, dict[object, Refusal]] = defaultdict(dict)
    for one in refused:
        by_source[one.source].setdefault(one.details, one)
    if not by_source:
        return compared
    left = {}
    for node, facts in compared.items():
        nothing_left = False
        for value in facts.taken(check):
            lacking = 0
            for fact in members(value):
                own, of_growth = id(fact), (id(facts.mark), id(fact))
                if own in by_source or of_growth in by_source:
                    reasons = [*by_source.get(own, {}).values(), *by_source.get(of_growth, {}).values()]
                    runs[node].add_refused(reasons, check.name)
                    lacking += 1
            nothing_left |= lacking == len(members(value))
        if nothing_left:
            runs[node].judged = False
        else:
            left[node] = facts
    return left


def _record(check: Check, compared: Cohort, found: Iterable[tuple[str, Finding | Uncompared | Undecided]],
            problem: Unmeasured | None, runs: Runs) -> None:
    """Adds what the check found to the runs of the nodes that were compared."""
    if problem is not None:
        for node in compared:
            runs[node].unmeasured[check.name] = problem
        return
    uncompared: defaultdict[str, list[Uncompared]] = defaultdict(list)
    for node, one in found:
        if node in compared and isinstance(one, Uncompared):
            uncompared[node].append(one)
        elif node in compared and isinstance(one, Undecided):
            runs[node].unmeasured[one.subject] = Unmeasured(one.why, Origin.MUSTER)
        elif node in compared and isinstance(one, Finding):
            runs[node].findings.append(one)
    for node, without_peers in uncompared.items():
        subjects = members(compared[node].input(check.subject).value)
        _record_uncompared(runs[node], without_peers, len(subjects))


def _record_uncompared(run: CheckRun, uncompared: Iterable[Uncompared], subjects: int) -> None:
    """Reports beside a PASS what had no peers; where that is everything, the node is skipped."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for one in uncompared:
        by_reason[one.why].append(one.subject)
    if sum(map(len, by_reason.values())) >= subjects and not run.findings and not run.unmeasured:
        run.skipped = "; ".join(by_reason)
    else:
        run.caveats += [f"{', '.join(names)}: {reason}" for reason, names in by_reason.items()]
