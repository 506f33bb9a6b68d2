"""The summaries of checks, which lists of rules and findings show by their first line."""

from __future__ import annotations

from healthcheck.checks.base import CHECKS
from tests.healthcheck.checks.verdicts import RULES


def test_the_first_line_of_a_summary_is_a_whole_sentence() -> None:
    assert RULES and [check.name for check in CHECKS.values()
                      if not check.summary.splitlines()[0].endswith(".")] == []
