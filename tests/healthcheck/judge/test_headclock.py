"""A clock of the head that is wrong is reported once, of the head, and the nodes are compared with each
other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.config import rulesfolder
from healthcheck.judge.headclock import HeadClock, head_clock
from healthcheck.model.outcome import Result, Status
from healthcheck.ruleset.ruleset import load_ruleset
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed

RULES = load_ruleset(rulesfolder.folders(None)).select(("host-clock-offset",), ())
DAY = 86400.0


def judged(*offsets: float) -> tuple[list[Result], HeadClock | None]:
    """The rule's result on nodes whose clocks are so far ahead of the head's, and what is said of the
    head."""
    seen = [machine.recording(f"n{at}") for at in range(len(offsets))]
    done = assessed(*(machine.on_host(one, time=one.received + off)
                      for one, off in zip(seen, offsets, strict=True)), rules=RULES)
    return [one for report in done.reports
            for one in report.results if one.rule == "host-clock-offset"], done.head


@pytest.mark.parametrize("way", [-1, 1])
def test_where_most_agree_it_is_the_heads_and_no_node_fails(way: int) -> None:
    results, head = judged(*(way * (DAY + second) for second in (0, 1, 20, 2)))
    assert [one.status for one in results] == [Status.PASS] * 4
    assert head is not None and abs(abs(head.ahead) - DAY) <= 2
    assert ("behind" if way > 0 else "ahead of") in head.words() and "4 of 4 nodes" in head.words()


def test_a_node_that_agrees_with_the_wrong_head_fails_against_the_others() -> None:
    results, head = judged(-DAY, -DAY, 0.0, -DAY)
    assert head is not None and [one.status for one in results] == [
        Status.PASS, Status.PASS, Status.FAIL, Status.PASS]
    assert results[2].findings[0].observed == "86400 s ahead of most others'" and results[2].remedy


@pytest.mark.parametrize("offsets",
                         [(0.0, 0.0, DAY), (DAY, DAY), (DAY,), (DAY, 0.0, DAY, 0.0), (DAY, -DAY, 500.0),
                          (30.0, 30.0, 30.0)])
def test_without_a_majority_each_node_is_judged_by_itself(offsets: tuple[float, ...]) -> None:
    results, head = judged(*offsets)
    assert head is None
    assert [one.status for one in results] == [Status.FAIL if abs(off) > 60 else Status.PASS
                                               for off in offsets]


@pytest.mark.parametrize(("offsets", "ahead"), [
    ((DAY, DAY, DAY), -DAY), ((100.0, 110.0, 90.0), -100.0),
    ((10.0, 10.0, 10.0), None),                     # as much as a clock may be off
    ((100.0, 100.0, 500.0, -300.0), None),          # half of them is no majority
    ((100.0, 100.0, 900.0, -900.0, 500.0), None)])
def test_more_than_half_of_three_or_more_clocks_have_to_agree(offsets: tuple[float, ...],
                                                              ahead: float | None) -> None:
    found = head_clock(dict(zip("abcde", offsets, strict=False)), 10.0)
    assert (found.ahead if found is not None else None) == ahead


def test_a_head_that_is_ahead_by_a_second_is_not_called_behind() -> None:
    assert "1 s ahead of those of 3 of 3 nodes" in HeadClock(1.0, 3, 3).words()
    assert "1 s behind those of 3 of 3 nodes" in HeadClock(-1.0, 3, 3).words()


@given(st.dictionaries(st.text(max_size=3), st.floats(-1e7, 1e7), max_size=9), st.floats(1, 1e4))
def test_the_head_is_blamed_by_a_majority_alone(offsets: dict[str, float], most: float) -> None:
    found = head_clock(offsets, most)
    if found is not None:
        assert abs(found.ahead) > most and 2 * found.agreeing > len(offsets) == found.nodes >= 3
        assert sum(abs(off + found.ahead) <= most for off in offsets.values()) == found.agreeing
