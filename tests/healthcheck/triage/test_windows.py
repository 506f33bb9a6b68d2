"""Change windows: in one nothing is isolated but for the worst faults, releases go on,
and the plan says until when."""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from healthcheck.report.plan import document, text
from healthcheck.triage.past import NodeHistory
from healthcheck.triage.plan import TriagePlan, make
from healthcheck.triage.windows import ChangeWindow, Weekly, moment
from tests.healthcheck.triage.made import NOW, at, fleet, held, looks, past, policy, problem

WORST = frozenset({"lost", "worn"})


def sick(name: str, rule: str = "kernel-xid", **more: Any) -> NodeHistory:
    return past(name, problem(rule, node=name), **more)


def plan(*nodes: NodeHistory, windows: tuple[ChangeWindow, ...]) -> TriagePlan:
    return make(fleet(*nodes, healthy=100), policy(windows=windows))


def window(
    begins: float = -1, ends: float = 1, why: str = "new core switches", but: frozenset[str] = WORST,
) -> ChangeWindow:
    return ChangeWindow(at(begins), at(ends), why, but)


def test_in_a_window_the_worst_alone_are_isolated_and_releases_go_on() -> None:
    well = NodeHistory("n9", over=(problem("gpu-count", node="n9", began=-9, ended=-3),), cordons=(held(-8),),
                       snapshots=looks(-3, -1))
    made = plan(sick("n1"), sick("n2", "gpu-count"), sick("n3", "port-state"), well, windows=(window(),))
    assert [(step.act.value, step.node) for step in made.steps] == [("release", "n9"), ("isolate", "n2")]
    assert {one.node: one.why for one in made.withheld} == dict.fromkeys(
        ("n1", "n3"), "a change window until 2027-01-15T09:00Z: new core switches")
    assert not made.is_open and not any(one.by_breaker for one in made.withheld)
    said = list(text(made, 4, 4, NOW))
    assert said[0] == ("change window until 2027-01-15T09:00Z: new core switches; nothing is isolated but "
                       "for lost, worn; releases go on")
    assert "withheld  isolate n[1,3]: a change window until 2027-01-15T09:00Z: new core switches" in said
    assert document(made)["windows"] == [{"until": "2027-01-15T09:00:00+00:00", "why": "new core switches",
                                          "but": ["lost", "worn"]}]


@pytest.mark.parametrize(("begins", "ends", "steps"),
                         [(-1, 1, 0), (-2, -1, 1), (1, 2, 1), (0, 1, 0), (-1, 0, 1)])
def test_a_window_holds_from_its_beginning_until_before_its_end(
    begins: float, ends: float, steps: int,
) -> None:
    made = plan(sick("n1"), windows=(window(begins, ends),))
    assert len(made.steps) == steps and bool(made.windows) is not bool(steps)


def test_of_several_windows_each_must_let_a_fault_through_and_the_last_to_end_is_named() -> None:
    made = plan(sick("n1", "gpu-count"),
                windows=(window(-1, 1), window(-1, 3, "longer", frozenset({"error"})),
                         window(-1, 2, "x", frozenset())))
    assert made.steps == () and made.withheld[0].why.endswith("until 2027-01-15T11:00Z: longer")


def test_a_window_lets_through_the_isolation_for_a_fault_it_names_and_none_for_one_that_does_not_isolate(
) -> None:
    named = window(but=frozenset({"port"}))
    waiting = past("n1", problem("kernel-xid", node="n1"), problem("port-state", node="n1", sweeps=1))
    assert (plan(waiting, windows=(named,)).steps == ()
            and len(plan(sick("n1", "port-state"), windows=(named,)).steps) == 1)


def test_what_a_window_withholds_takes_no_room_and_is_isolated_after_it() -> None:
    nodes = [sick(f"n{number}") for number in range(3)]
    assert (plan(*nodes, windows=(window(),)).opens == ""
            and len(plan(*nodes, windows=(window(-2, -1),)).steps) == 3)


# ---- weekly, by the clocks of a place

def local(text: str, zone: str = "Europe/Berlin") -> float:
    return dt.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


WEEKLY = ChangeWindow(Weekly(5, 22, 0, "Europe/Berlin"), Weekly(6, 6, 0, "Europe/Berlin"), "x", frozenset())
# In the spring night there is no 02:30: the clocks go from 02:00 to 03:00.
GAP = ChangeWindow(Weekly(6, 2, 30, "Europe/Berlin"), Weekly(6, 3, 0, "Europe/Berlin"), "x", frozenset())
OVER_MONDAY = ChangeWindow(Weekly(6, 20, 0, "Europe/Berlin"), Weekly(0, 5, 30, "Europe/Berlin"), "x",
                           frozenset())


@pytest.mark.parametrize(("window", "now", "until"), [
    (WEEKLY, "2026-11-28T21:59", None), (WEEKLY, "2026-11-28T22:00", "2026-11-29T06:00"),
    (WEEKLY, "2026-11-29T05:59", "2026-11-29T06:00"), (WEEKLY, "2026-11-29T06:00", None),
    (WEEKLY, "2026-11-25T23:00", None), (OVER_MONDAY, "2026-11-29T23:00", "2026-11-30T05:30"),
    (OVER_MONDAY, "2026-11-30T05:00", "2026-11-30T05:30"), (OVER_MONDAY, "2026-11-30T06:00", None),
    # the night in which the clocks go back
    (OVER_MONDAY, "2026-11-29T19:00", None), (WEEKLY, "2026-10-25T05:30", "2026-10-25T06:00"),
    (WEEKLY, "2026-03-29T05:30", "2026-03-29T06:00"),
    (GAP, "2026-03-22T02:45", "2026-03-22T03:00"), (GAP, "2026-03-29T03:15", None),
    (GAP, "2026-03-29T03:45", None), (GAP, "2026-04-01T12:00", None),
    (GAP, "2026-10-25T02:45", "2026-10-25T03:00"), (GAP, "2026-10-26T02:45", None)])
def test_a_weekly_window_is_by_the_clocks_of_its_zone(
    window: ChangeWindow, now: str, until: str | None,
) -> None:
    assert window.until(local(now)) == (local(until) if until is not None else None)


@pytest.mark.parametrize("ends", ["once", "weekly"])
def test_a_window_of_a_time_once_and_a_time_every_week_which_no_policy_may_have_holds_never(
    ends: str,
) -> None:
    weekly = Weekly(5, 22, 0, "UTC")
    begins, until = (weekly, NOW + 1e9) if ends == "once" else (NOW - 1e9, weekly)
    assert ChangeWindow(begins, until, "x", frozenset()).until(NOW) is None


# 2026-03-29; there the clocks went forward on the 8th
@example(1774746900.0, 6, 2, 6, 3, "America/New_York")
@example(1773000000.0, 6, 2, 6, 3, "America/New_York")      # 2026-03-08, after the hour that was left out
@given(st.floats(1.7e9, 2.2e9), st.integers(0, 6), st.integers(0, 23), st.integers(0, 6), st.integers(0, 23),
       st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]))
def test_a_weekly_window_that_holds_ends_within_a_week(
    now: float, day: int, hour: int, last: int, end: int, zone: str,
) -> None:
    if (day, hour) != (last, end):
        until = ChangeWindow(Weekly(day, hour, 0, zone), Weekly(last, end, 0, zone), "x",
                             frozenset()).until(now)
        other = ChangeWindow(Weekly(last, end, 0, zone), Weekly(day, hour, 0, zone), "x",
                             frozenset()).until(now)
        assert (until is None) is not (other is None)       # it is in one of the two
        assert now < (until or other or 0) <= now + 8 * 86400


@pytest.mark.parametrize(("text", "time"),
                         [("2026-11-28T22:00Z", 1795903200.0), ("2026-11-28 23:00+01:00", 1795903200.0),
                          ("Sat 22:00 Europe/Berlin", Weekly(5, 22, 0, "Europe/Berlin"))])
def test_a_time_is_read_as_people_write_it(text: str, time: object) -> None:
    assert moment(text) == time


@pytest.mark.parametrize("text", ["", "now", "2026-11-28", "2026-11-28T22:00", "2026-13-28T22:00Z",
                                  "Sat 22:00", "Sat 25:00 UTC", "Samstag 22:00 UTC",
                                  "Sat 22:00 Europe/Nowhere", "Sat 22:00 ../../etc/passwd", "sat 22:00 UTC"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"timezone|month|^$|[0-9a-z]"):
        moment(text)


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    try:
        found = moment(text)
    except ValueError:
        return
    assert isinstance(found, float | Weekly)
