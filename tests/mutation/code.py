"""Changes code that acts on nodes a little, in every place, and says which changes no test noticed.

    python -m tests.mutation.code FOLDER SUBJECT [MODULE...] [TEST_FILE...]

Of a subject it changes all modules or these, and asks all of its tests or those in these files (test_bmc for
test_bmc.py). Prints one JSON document. Tests are collected once; each change is made in a fork, which runs
those tests that came through the changed function, the fastest first, until one fails.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.mutation.forks import Forks
from tests.mutation.mutants import Mutant, mutant, sites

HERE = Path(__file__).parents[1]
# By subject: the files that are changed, and those whose tests are to notice.
SUBJECTS = {
    "triage": ("healthcheck/triage/*.py",
               ("healthcheck/triage/test_*.py", "provisioning/triage/test_incidents.py",
                "provisioning/triage/test_conditions.py")),
    # What decides, by the tests that ask it directly: those take seconds, so that no change has to be let off
    # for want of time.
    "decisions": ("healthcheck/triage/*.py", tuple(f"healthcheck/triage/test_{name}.py" for name in (
        "breaker", "changed", "correlate", "decide", "faults", "gather", "incidents", "machines", "plan",
        "requalify", "suspect", "windows"))),
    # What they rest on: what is read of the store, and what belongs together, by the tests that ask for that
    # alone.
    "grounds": ("healthcheck/triage/*.py", tuple(f"healthcheck/triage/test_{name}.py" for name in (
        "changed", "correlate", "episodes", "faults", "gather", "gather_store", "incidents", "machines",
        "ours", "whole", "windows"))),
    # What reads the policy and what else a sweep is judged by: each of these tests loads all rules.
    "policy": ("healthcheck/triage/*.py",
               ("healthcheck/triage/test_policy*.py", "healthcheck/store/test_versions.py",
                "healthcheck/triage/test_changed.py", "healthcheck/triage/test_faults.py",
                "healthcheck/triage/test_plan.py", "healthcheck/triage/test_requalify.py",
                "provisioning/triage/test_changed.py", "provisioning/fabric/test_disable.py")),
    # What tells people of changes, swaps, repairs and their tickets, and what is taken back: also by what the
    # commands show of it.
    "tickets": ("healthcheck/triage/*.py",
                ("healthcheck/triage/test_ticket.py", "healthcheck/triage/test_whole.py",
              "healthcheck/triage/test_changed.py", "healthcheck/triage/test_undo.py",
              "healthcheck/triage/test_machines.py", "provisioning/triage/test_changed.py",
              "provisioning/remediate/test_promises.py", "provisioning/remediate/test_choose.py")),
    # What makes incidents of what subnets show, and of parts that were made together.
    "fabric": ("healthcheck/triage/*.py", tuple(f"healthcheck/triage/test_{name}.py" for name in (
        "fabric_incidents", "fabric_life", "fabriclots", "fabricplaces", "fleetlots", "lots", "partslist"))),
    # So here: by what they keep in memory or in files. Real schedulers take minutes to notice a change that
    # these notice in seconds.
    "cordon": ("provisioning/actions/cordon.py",
               ("provisioning/actions/test_cordon*.py", "provisioning/actions/test_backends.py")),
    # What makes results of facts, and what it is told to judge by.
    "judge": ("healthcheck/judge/*.py", ("healthcheck/judge/test_*.py", "healthcheck/sweep/test_gpuless.py",
                                         "healthcheck/sweep/test_left_out_report.py",
                                         "healthcheck/sweep/test_narrowed.py")),
    # What makes facts of captures, by the tests that give it captures.
    "facts": ("healthcheck/facts/*.py", ("healthcheck/facts/test_*.py", "healthcheck/checks/test_*.py")),
    "ruleset": ("healthcheck/ruleset/*.py",
                ("healthcheck/ruleset/test_*.py", "healthcheck/judge/test_judge.py",
                 "healthcheck/judge/test_trends.py",
                     "healthcheck/judge/test_fleetjudge.py")),
    "lease": ("provisioning/lease/*.py", tuple(f"provisioning/lease/test_{name}.py" for name in (
        "giveway", "lease", "lease_outcomes", "under_a_lease"))),
}
# Of tests of every back end, those whose back end is a server or a program are left out; so are long walks
# among all that may happen.
_QUICK = ("not [slurm and not [kubernetes and not [command and not TestHands and not whatever_a_site_writes "
          "and not with_anything")
LONGEST_S = 150


class Changes(Forks):
    """The plug-in: one run of all tests that watches which functions each comes through, then one run for
    each change."""

    def __init__(self, folder: Path, files: Sequence[Path]) -> None:
        super().__init__(folder)
        self.files = {str(path): path for path in files}
        self.document: dict[str, Any] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        began = time.monotonic()
        baseline = self.forked({"": lambda: self._watched(session.items)}, limit=20 * LONGEST_S)[""]
        if baseline is None or "through" not in baseline:
            self.document = {"error": (baseline or {}).get("error", "the tests did not end in time")}
            return True
        items = {item.nodeid: item for item in session.items}
        jobs: dict[str, Callable[[], dict[str, Any]]] = {}
        for name, path in self.files.items():
            for number, (function, line, what) in enumerate(sites(path.read_text(), _members(path))):
                tests = sorted(baseline["through"].get(f"{name}:{function}", ()),
                               key=lambda test: baseline["seconds"][test])
                key = f"{path.parent.name}-{path.stem}-{number}"
                jobs[key] = self._job(path, number,
                                      [items[test] for test in tests if test not in baseline["failed"]])
                self.document.setdefault("changes", {})[key] = {
                    "where": f"{path.name}:{line} {function}", "what": what,
                    "text": path.read_text().splitlines()[line - 1].strip(), "tests": len(tests)}
        for key, outcome in self.forked(jobs, limit=LONGEST_S).items():
            self.document["changes"][key]["noticed"] = ("(it took too long)" if outcome is None
                                                        else outcome.get("noticed", outcome.get("error")))
        self.document |= {"failed": baseline["failed"], "seconds": round(time.monotonic() - began, 1)}
        return True

    def _job(self, path: Path, number: int, tests: Sequence[pytest.Item]) -> Callable[[], dict[str, Any]]:
        def job() -> dict[str, Any]:
            changed = mutant(path.read_text(), str(path), _members(path), number)
            made = changed is not None and _made(path, changed)
            return {"noticed": next(self.run(tests, stop=True), "") if made else "(cannot be changed)"}
        return job

    def _watched(self, items: Sequence[pytest.Item]) -> dict[str, Any]:
        through: dict[str, set[str]] = defaultdict(set)
        seconds: dict[str, float] = {}
        failed: list[str] = []

        def watch(frame: FrameType, event: str, arg: object) -> None:
            code = frame.f_code
            if event == "call" and code.co_filename in self.files:
                parts = code.co_qualname.split(".<locals>")[0]
                through[f"{code.co_filename}:{parts}"].add(os.environ.get("PYTEST_CURRENT_TEST",
                                                                          "").rpartition(" ")[0])

        for item in items:
            began = time.monotonic()
            threading.setprofile(watch)
            sys.setprofile(watch)
            try:
                failed += self.run([item], stop=False)
            finally:
                sys.setprofile(None)
                threading.setprofile(None)
            seconds[item.nodeid] = time.monotonic() - began
        known = {item.nodeid for item in items}
        return {"through": {name: sorted(tests & known) for name, tests in through.items()},
                "seconds": seconds, "failed": failed}


def _made(path: Path, changed: Mutant) -> bool:
    """Puts the changed code into the running function, wherever that is held."""
    module = importlib.import_module(".".join(path.relative_to(HERE.parent).with_suffix("").parts))
    found: Any = module
    for name in changed.function.split("."):
        found = inspect.getattr_static(found, name)
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    found = getattr(found, "func", found)       # a cached property
    found = inspect.unwrap(found)
    if not inspect.isfunction(found) or found.__code__.co_freevars != changed.code.co_freevars:
        return False
    found.__code__ = changed.code
    for name in dir(module):
        if hasattr(each := getattr(module, name), "cache_clear"):
            each.cache_clear()
    return True


def _members(path: Path) -> dict[str, tuple[str, ...]]:
    """The enumerations that a module knows, by the names by which it knows them."""
    module = importlib.import_module(".".join(path.relative_to(HERE.parent).with_suffix("").parts))
    return {name: tuple(value.__members__)
            for name, value in vars(module).items()
            if inspect.isclass(value) and issubclass(value, enum.Enum)}


def _files(patterns: Sequence[str], root: Path) -> Iterator[Path]:
    return (path for pattern in patterns for path in sorted(root.glob(pattern)))


def main(folder: Path, subject: str, only: Sequence[str] = ()) -> int:
    """Runs everything, or changes only these modules and asks only these test files; prints the document."""
    changed, tests = SUBJECTS[subject]
    modules, asked = ([name for name in only if name.startswith("test_") is tests_only]
                      for tests_only in (False, True))
    files = [path for path in _files([changed], HERE.parent) if not modules or path.stem in modules]
    asking = [path for path in _files(tests, HERE) if not asked or path.stem in asked]
    changes = Changes(folder, files)
    with redirect_stdout(sys.stderr):
        pytest.main([*map(str, asking), "-q", "-p", "no:cacheprovider", "-m", "not slow", "-k", _QUICK],
                    plugins=[changes])
    print(json.dumps(changes.document, indent=1))
    return 0 if changes.document else 1


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
