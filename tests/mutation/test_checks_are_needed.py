"""Every packaged check is needed: without its body some test fails; and every kind of answer that it can give
is in the tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from healthcheck.checks.base import CHECKS
from healthcheck.ruleset.rule import UnsupportedPolicy
from tests.mutation.run import FAILING, PASSING, UNMEASURED, UNSUPPORTED, packaged_checks
from tests.scenarios.node import rules
from tests.testbed.require import require_fleet

LIMIT_S = 3600

pytestmark = [pytest.mark.slow, pytest.mark.timeout(LIMIT_S + 60)]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What the run said; in a process of its own, for it forks, and takes checks apart."""
    require_fleet()
    folder = tmp_path_factory.mktemp("mutation")
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutation.run", str(folder)], cwd=Path(__file__).parents[2],
        capture_output=True, text=True,
        timeout=LIMIT_S, check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: Mapping[str, Any] = json.loads(done.stdout)
    assert "error" not in found, found.get("error")
    return found


def test_the_tests_about_checks_pass_with_all_checks_in_place(document: Mapping[str, Any]) -> None:
    assert document["failed"] == {}


def test_every_packaged_check_is_missed_by_some_test(document: Mapping[str, Any]) -> None:
    assert document["checks"].keys() == packaged_checks().keys()
    assert [name for name, check in document["checks"].items() if not check["noticed"]] == []


# Of the answer itself: its time, and the name that the machine gives itself. Where these are not, there is no
# answer. And what the sweep hands in.
ALWAYS_MEASURED = {"host.clock_offset", "host.name", "fleet.nvlink_domains"}


@pytest.mark.parametrize("case", [PASSING, FAILING, UNMEASURED])
def test_every_packaged_check_meets_this_case_in_the_tests(case: str, document: Mapping[str, Any]) -> None:
    spared = ALWAYS_MEASURED if case == UNMEASURED else set()
    assert [name for name, check in document["checks"].items() if case not in check["cases"]
            and name not in spared] == []


def test_every_check_whose_rule_says_what_unsupported_means_meets_it_in_the_tests(
        document: Mapping[str, Any]) -> None:
    # A fleet's check is never told of it: what a node's hardware lacks leaves the comparison before.
    says = {rule.checked.name for rule in rules().rules if rule.unsupported is not UnsupportedPolicy.UNKNOWN
            and not rule.checked.fleet}
    assert says <= CHECKS.keys()
    assert [name for name in sorted(says) if UNSUPPORTED not in document["checks"][name]["cases"]] == []
