"""Runs the tests that concern checks, then again for each packaged check with its body taken out, and says
which of them noticed.

    python -m tests.mutation.run FOLDER [CHECK...]

Prints one JSON document. Tests are collected once; each run is a fork of that, so that 100 checks take
minutes. What a check's tests are is measured: those during which it was called. Looks at simulated nodes are
kept in FOLDER and taken only once.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from healthcheck.checks.base import CHECKS, Check
from healthcheck.judge import fleetjudge, judge
from healthcheck.judge.judge import CheckRun
from healthcheck.model.outcome import Result
from healthcheck.ruleset import plugins
from healthcheck.ruleset.rule import Rule
from tests.mutation.forks import Forks

HERE = Path(__file__).parents[1]
# The files whose tests say what checks do. What sweeps whole fleets, collects or renders is not asked.
ABOUT_CHECKS = (
    "healthcheck/checks/test_*.py", "healthcheck/test_checks*.py", "healthcheck/test_driver*.py",
    "healthcheck/test_nvlink_fabric*.py",
    "healthcheck/nvl72/test_*.py",
    "healthcheck/facts/test_smi*.py", "healthcheck/facts/test_xid*.py", "healthcheck/xid/test_*.py",
    "healthcheck/ruleset/test_sku*.py", "healthcheck/judge/test_fleet*.py",
    "scenarios/test_*.py",
)
# The passing runs of a check's tests take seconds; without the check they cannot take much longer.
LONGEST_S = 120
PASSING, FAILING, UNMEASURED, UNSUPPORTED = "passing", "failing", "unmeasured", "unsupported"


@dataclass
class Seen:
    """What one check met in the tests: cases, and the tests in which it was called."""

    cases: set[str] = field(default_factory=set)
    tests: list[str] = field(default_factory=list)


def packaged_checks() -> dict[str, Check]:
    """Ours, without those of plug-ins."""
    plugins.load()
    return {name: check
            for name, check in sorted(CHECKS.items()) if check.function.__module__.startswith("healthcheck.")}


def take_out(check: Check) -> None:
    """Makes the check find nothing, wherever it is held: by the registry, by loaded rules, by a test that
    imported it."""
    function: Any = inspect.unwrap(check.function)
    function.__code__ = _nothing.__code__


def _nothing(*facts: object, **values: object) -> Iterator[Any]:
    return
    yield


class Runs(Forks):
    """The plug-in: replaces pytest's own loop over the tests by one fork for all, and one for each check."""

    def __init__(self, folder: Path, only: Sequence[str]) -> None:
        super().__init__(folder)
        self.only = only
        self.document: dict[str, Any] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        began = time.monotonic()
        checks = packaged_checks()
        baseline = self.forked({"": lambda: self._watched(session.items, checks)}, limit=10 * LONGEST_S)[""]
        if baseline is None or "checks" not in baseline:
            self.document = {"error": (baseline or {}).get("error", "the tests did not end in time"),
                             "checks": {}}
            return True
        items = {item.nodeid: item for item in session.items}
        seen = baseline["checks"]
        # A test of few checks says more of each of them, and sooner.
        busy = {name: sum(name in of["tests"] for of in seen.values()) for name in items}

        def without(check: Check) -> Callable[[], dict[str, Any]]:
            tests = sorted(seen[check.name]["tests"], key=lambda name: busy[name])
            return lambda: self._mutated(check,
                                         [items[name] for name in tests if name not in baseline["failed"]])

        outcomes = self.forked({name: without(check) for name, check in checks.items() if not self.only
                                or name in self.only}, limit=LONGEST_S)
        for name, outcome in outcomes.items():
            seen[name]["noticed"] = (outcome or {}).get("noticed", "" if outcome else "(it took too long)")
        self.document = {"checks": seen, "failed": baseline["failed"],
                         "seconds": round(time.monotonic() - began, 1)}
        return True

    def _watched(self, items: Sequence[pytest.Item], checks: dict[str, Check]) -> dict[str, Any]:
        seen = {name: Seen() for name in checks}
        watch(checks, seen)
        failed = dict.fromkeys(self.run(items, stop=False), self.why)
        return {"failed": failed, "checks": {name: {"cases": sorted(of.cases), "tests": sorted(set(of.tests))}
                                             for name, of in seen.items()}}

    def _mutated(self, check: Check, items: Sequence[pytest.Item]) -> dict[str, Any]:
        take_out(check)
        return {"noticed": next(self.run(items, stop=True), "")}


def watch(checks: dict[str, Check], seen: dict[str, Seen]) -> None:
    """From now on `seen` holds what each check meets."""
    names = {check.function: name for name, check in checks.items()}
    ran: Callable[..., bool] = judge._run
    of_fleet: Callable[[Rule, CheckRun | None], Result] = fleetjudge._result_of
    word: Callable[[Rule, CheckRun], Result] = judge.conclude

    def met(check: Check, *cases: str) -> None:
        name = names.get(check.function)
        if name is not None:
            seen[name].tests.append(os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0])
            seen[name].cases.update(cases)

    def _run(check: Check, *given: Any) -> bool:
        nothing = ran(check, *given)
        if nothing:
            met(check, PASSING)
        return nothing

    def conclude(rule: Rule, verdict: CheckRun) -> Result:
        found = word(rule, verdict)
        if not verdict.skipped:
            cases = ((FAILING, verdict.findings), (UNMEASURED, verdict.unmeasured),
                     (UNSUPPORTED, verdict.unsupported),
                     (PASSING, found.status.value == "pass"))
            met(rule.checked, *(case for case, there in cases if there))
        return found

    def _result_of(rule: Rule, verdict: CheckRun | None) -> Result:
        if verdict is None:
            met(rule.checked, PASSING)
        return of_fleet(rule, verdict)

    judge._run = _run
    fleetjudge._result_of = _result_of
    judge.conclude = fleetjudge.conclude = conclude


def main(folder: Path, only: Sequence[str] = ()) -> int:
    """Runs everything, or takes out only these checks; prints the document."""
    looks = folder / "looks"
    looks.mkdir()
    os.environ["MUSTER_SCENARIO_LOOKS"] = str(looks)
    files = sorted({str(path) for pattern in ABOUT_CHECKS for path in HERE.glob(pattern)})
    runs = Runs(folder, only)
    with redirect_stdout(sys.stderr):
        pytest.main([*files, "-q", "-p", "no:cacheprovider", "-m", "not slow"], plugins=[runs])
    print(json.dumps(runs.document, indent=1))
    return 0 if runs.document else 1


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
