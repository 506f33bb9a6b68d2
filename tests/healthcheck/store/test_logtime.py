"""Times of kernel lines in findings are shown by the clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model.outcome import LogEvidence, LogView
from healthcheck.store.logtime import by_clock

NOW = 1_800_000_000.0                                   # 2027-01-15T08:00:00Z
LOG = LogView("boot", 0, now=7200.0)
ONE, TWO = LogEvidence("kernel", first=3600.0), LogEvidence("kernel", count=3, first=3600.0, last=7080.0)
SEVERAL = "3 times, the first 60 min after boot and the last 118 min after boot, 2 min ago: Xid 79"


@pytest.mark.parametrize(("text", "evidence", "ages", "shown"), [
    ("60 min after boot, 60 min ago: Xid 79", ONE, True, "2027-01-15T07:00Z, 60 min ago: Xid 79"),
    ("60 min after boot, 60 min ago: Xid 79", ONE, False, "2027-01-15T07:00Z: Xid 79"),
    (SEVERAL, TWO, True,
     "3 times, the first 2027-01-15T07:00Z and the last 2027-01-15T07:58Z, 2 min ago: Xid 79"),
    (SEVERAL, TWO, False, "3 times, the first 2027-01-15T07:00Z and the last 2027-01-15T07:58Z: Xid 79"),
    ("60 min after boot, 60 min ago: said 5 s after boot, 1 s ago", ONE, False,
     "2027-01-15T07:00Z: said 5 s after boot, 1 s ago"),
    ("60 min after boot, 60 min ago: x", LogEvidence("kernel"), True, "60 min ago: x"),
    ("60 min after boot, 60 min ago: x", LogEvidence("kernel"), False, "60 min after boot, 60 min ago: x"),
    ("60 min after boot, 60 min ago: x", None, False, "60 min after boot, 60 min ago: x"),
    ("40 s after boot", LogEvidence("kernel", first=9e9), True, "40 s after boot"),
    ("no time at all", ONE, True, "no time at all"),
])
def test_a_time_is_the_clocks_where_it_is_known(text: str, evidence: LogEvidence | None, ages: bool,
                                                shown: str) -> None:
    assert by_clock(text, LOG, evidence, NOW, ages=ages) == shown


@pytest.mark.parametrize(("log", "now"), [(None, NOW), (LOG, None), (LogView("boot", 0), NOW)])
def test_without_a_clock_nothing_is_made_up(log: LogView | None, now: float | None) -> None:
    text = "60 min after boot, 60 min ago: x"
    assert by_clock(text, log, ONE, now, ages=False) == text and by_clock(text, log, ONE, now,
                                                                          ages=True) == "60 min ago: x"


@given(st.text(), st.booleans())
def test_words_without_a_time_stay_as_they_are(text: str, ages: bool) -> None:
    if " after boot" not in text:
        assert by_clock(text, LOG, ONE, NOW, ages=ages) == text
