"""What a fleet's history adds up to: made histories with answers counted by hand,
and what must hold of any."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.accounting import chance
from healthcheck.accounting.failures import IncidentSpan, NodeFailure, failures
from healthcheck.accounting.read import read
from healthcheck.accounting.service import watched, without
from healthcheck.accounting.summary import WEEK, Summary, SummaryInput, summary
from healthcheck.accounting.times import CordonSpan
from healthcheck.model.outcome import Finding, NodeReport, Result, Severity, Status, state_of
from healthcheck.model.spans import both, merged, seconds
from healthcheck.report.summary import as_csv, document, text
from healthcheck.store import cordons, rmas
from healthcheck.store.file import Store, opened
from healthcheck.store.sweeps import SweepRecord, record
from tests.command import muster
from tests.healthcheck.triage.made import NOW, at, policy, problem
from tests.tries import tries

POLICY = policy()
HOUR, DAY = 3600.0, 86400.0


def told(
    *found: NodeFailure, nodes: int = 10, weeks: float = 4, held: dict[str, list[CordonSpan]] | None = None,
    every: float = HOUR, groups: Any = None,
) -> SummaryInput:
    """A fleet of n0, n1 ... that was looked at every hour of the last weeks."""
    begin = NOW - weeks * WEEK
    names = [f"n{number}" for number in range(nodes)]
    return SummaryInput(found, {name: [(begin, NOW)] for name in names}, dict.fromkeys(names, begin),
                        [begin + number * every for number in range(int(weeks * WEEK / every) + 1)],
                        held or {}, groups or {})


def failed(node: str, hours: float, *, lasts: float | None = 2, cause: str = "lost", component: str = "gpu",
           shared: bool = False) -> NodeFailure:
    """A failure that began so many hours from now."""
    return NodeFailure(node, at(hours), at(hours + lasts) if lasts is not None else None, cause, component,
                       shared)


def made(what: SummaryInput, *by: str, weeks: float = 4) -> Summary:
    return summary(what, NOW - weeks * WEEK, NOW, by or ("cause", "component"))


@pytest.mark.parametrize("count, low, high",
                         [(0, 0.0, 3.6889), (1, 0.0253, 5.5716), (2, 0.2422, 7.2247), (5, 1.6235, 11.6683),
                          (10, 4.7954, 18.3904), (100, 81.3640, 121.6272)])
def test_the_interval_is_that_of_the_tables(count: int, low: float, high: float) -> None:
    assert chance.interval(count) == pytest.approx((low, high), abs=5e-4)


@settings(deadline=None, max_examples=tries(30))
@given(st.integers(0, 20_000))
def test_an_interval_holds_the_count_and_grows_with_it(count: int) -> None:
    low, high = chance.interval(count)
    assert low <= count < high
    assert chance.interval(count + 1) > (low, high)


def test_by_chance_the_worst_have_what_a_poisson_distribution_gives_them() -> None:
    # Mean 1: P(0) = P(1) = 0.3679, P(2) = 0.1839, P(3) = 0.0613 ...; the worst tenth are all those with 3 or
    # more (0.0803) and some with 2.
    more = 1 - math.exp(-1) * 2.5
    expected = (1 - math.exp(-1) * 2) + (0.1 - more) * 2
    assert chance.share_of_worst(1000, 1000, 100) == pytest.approx(expected, abs=1e-9)
    assert chance.share_of_worst(0, 10, 1) == 0
    assert chance.share_of_worst(3, 10, 10) == pytest.approx(1)


def test_problems_within_six_hours_are_one_failure_of_the_most_urgent_kind() -> None:
    found = failures([
        problem("kernel-xid", began=-30, ended=-29, serial="A"),
        problem("gpu-count", "", began=-28, ended=-27), problem("port-state", "mlx5_0", began=-20, ended=-19),
        problem("port-state", "mlx5_1", began=-2, sweeps=1), problem("gpu-count", "", node="n2", began=-3),
    ], POLICY)
    assert [(one.node, one.began, one.ended, one.cause, one.component)
            for one in found] == [("n1", at(-30), at(-27), "lost", "gpu"),
                                  ("n1", at(-20), at(-19), "port", "port"),
                                  ("n2", at(-3), None, "lost", "gpu")]


def test_what_is_only_watched_or_not_confirmed_or_our_own_is_no_failure() -> None:
    assert failures([
        problem("fleet-driver", severity="warning"), problem("port-state", "mlx5_0", sweeps=1),
        problem("kernel-novel", "line"), problem("gpu-count", "", status="unknown", origin="muster"),
        problem("gpu-count", "", status="unknown", sweeps=1), problem("", "", status="unknown", sweeps=1)],
                    POLICY) == []


def test_a_node_that_is_not_reached_for_long_has_failed_unless_many_are_so_at_once() -> None:
    gone = problem("", "", status="unknown", sweeps=9, began=-5, reason="timeout")
    (own,) = failures([gone], POLICY)
    assert (own.cause, own.component, own.shared) == ("gone", "node", False)
    for nodes, began, shared in (({"n1"}, -4.5, True), ({"n2"}, -4.5, False), ({"n1"}, -2, False)):
        (one,) = failures([gone], POLICY, [IncidentSpan(frozenset(nodes), at(began), None)])
        assert one.shared is shared


def test_a_nodes_own_failure_during_an_incident_of_something_else_is_its_own() -> None:
    for symptoms, shared in ((("port-state",), False),
                             (("port-state", "gpu-count of GPU"), True), ((), True)):
        (one,) = failures([problem("gpu-count", began=-5), problem("port-state", "", began=-4.5)], POLICY,
                          [IncidentSpan(frozenset({"n1"}), at(-6), None, frozenset(symptoms))])
        assert one.shared is shared


def test_rates_times_and_shares_of_a_small_fleet_are_those_counted_by_hand() -> None:
    held = {"n1": [CordonSpan("n1", at(-99.5), at(-90), True)],
            "n2": [CordonSpan("n2", at(-49), None, False)], "n3": [CordonSpan("n3", at(-30), at(-20), False)]}
    found = made(told(failed("n1", -100), failed("n1", -95, cause="port", component="port"),
                      failed("n1", -300), failed("n2", -50, lasts=None),
                      failed("n3", -29.5, cause="port", component="port"), failed("n4", -10, shared=True),
                      failed("n5", -4 * 168), held=held))
    # 10 nodes, 4 weeks: 40 node-weeks; 5 own failures, one of an incident, one at the first look.
    assert (found.total.rate.failures, found.total.rate.node_weeks, found.total.rate.per_100_week) == (
        5, 40, 12.5)
    assert found.total.rate.low == pytest.approx(1.6235 * 2.5, abs=1e-3)
    assert found.total.rate.high == pytest.approx(11.6683 * 2.5, abs=1e-3)
    assert (found.first, found.shared, found.outside, found.total.nodes) == (1, 1, 0, 3)
    # n1 failed twice in one week and once in another, n2 and n3 in one.
    assert (found.weekly.failures, found.weekly.per_100_week) == (4, 10.0)
    assert [(row.key, row.rate.failures) for row in found.tables["cause"]] == [("lost", 3), ("port", 2)]
    lost, port = found.tables["cause"]
    assert (lost.isolate.count, lost.isolate.mean, lost.isolate.median) == (2, 0.75 * HOUR, 0.75 * HOUR)
    assert (lost.back.count, lost.back.mean, lost.out, lost.never, lost.already) == (1, 9.5 * HOUR, 1, 1, 0)
    assert (port.already, port.never, port.back.count) == (2, 0, 0)
    # Hourly sweeps: what began on the hour was not there an hour before,
    # what began in between half an hour before.
    assert (lost.unseen.mean, port.unseen.mean) == (HOUR, 0.75 * HOUR)
    assert found.worst.again == (("n1", 3),)
    assert (found.worst.nodes, found.worst.share, found.worst.share_again) == (1, 0.6, 0.6)
    assert found.worst.again_by_chance == pytest.approx(1 - math.exp(-0.5))
    assert [one.node for one in found.out] == ["n2"]


def cordon(began: float, ended: float | None, *, released: bool = True, own: bool = True) -> CordonSpan:
    """A hold of n1, in hours from now."""
    return CordonSpan("n1", at(began), at(ended) if ended is not None else None, released, own)


@pytest.mark.parametrize(("lasts", "held", "back", "out"), [
    # Given back after an hour, and held again for what came back: 30 hours, and not one.
    (30, [cordon(-100, -99), cordon(-98, -69)], 31, 30),
    # The problem is over, and triage still has to hold it twice.
    (2, [cordon(-100, -95), cordon(-91, -81)], 19, 15),
    (2, [cordon(-100, -95), cordon(-88, -81)], 5, 5),                       # later than `apart`
    (2, [cordon(-100, -95), cordon(-91, -81, own=False)], 5, 5),            # a person's, for another reason
    (2, [cordon(-100, -95), cordon(-96, -81, own=False)], 19, 19),          # a person takes it over
    (2, [cordon(-100, -90), cordon(-99.5, -89)], 11, 11),                   # two back ends at once
    (2, [cordon(-100, -90), cordon(-99.5, -95)], 10, 10),                   # one of which lets go first
    (2, [cordon(-100, -95, released=False), cordon(-94, -84)], 16, 15),     # taken away by hand in between
    (2, [cordon(-100, -95), cordon(-94, -84, released=False)], None, 15),   # and at the end
    (2, [cordon(-100, -99), cordon(-98.5, None)], None, 99.5),              # still out
    (2, [cordon(-105, -90)], None, 10),     # held before anyone saw why: from the failure on
    (2, [cordon(-100, 24)], 124, 100),      # by a clock that ran ahead: no hour of tomorrow
    (2, [cordon(-105, -101)], None, None), (2, [cordon(-90, -80)], None, None)])
def test_a_failure_is_out_of_service_in_all_its_holds(
    lasts: float, held: list[CordonSpan], back: float | None, out: float | None,
) -> None:
    found = made(told(failed("n1", -100, lasts=lasts), held={"n1": held})).total
    assert (found.back.mean, found.held.mean) == (back and pytest.approx(back * HOUR),
                                                  out and pytest.approx(out * HOUR))


def test_a_hold_is_of_the_failure_in_which_it_began_and_no_hour_counts_for_two() -> None:
    held = [cordon(-100, -60), cordon(-59, -50), cordon(-10, None, own=False)]
    found = made(told(failed("n1", -100), failed("n1", -80, cause="port"), failed("n1", -5, shared=True),
                      held={"n1": held}))
    lost, port = found.tables["cause"]
    assert (lost.held.mean, port.held.mean, port.already) == (40 * HOUR, 9 * HOUR, 1)
    assert (found.held.total, found.held.failures, found.held.incidents, found.held.other) == (
        59 * HOUR, 49 * HOUR, 5 * HOUR, 5 * HOUR)
    assert [one.began for one in found.out] == [at(-10)]
    (line,) = [line for line in text(found, {}, []) if line.startswith("out of service by muster in")]
    assert line == ("out of service by muster in this time: 59.0 node-hours: 49.0 for these failures, 5.0 in "
                    "incidents, 5.0 for earlier failures or other reasons")


holds_of_n1 = st.lists(st.builds(lambda began, lasts, released, own: CordonSpan(
    "n1", at(began), at(min(0.0, began + lasts)) if lasts < 90 else None, released, own),
    st.floats(-800, 0), st.floats(0, 100), st.booleans(), st.booleans()), max_size=12)


@settings(deadline=None)
@given(holds_of_n1, st.lists(st.builds(failed, st.just("n1"), st.floats(-800, 0), lasts=st.floats(0, 50),
                                       shared=st.booleans()), max_size=8, unique_by=lambda one: one.began))
def test_however_failures_and_holds_lie_their_hours_are_within_those_that_the_node_was_out(
    held: list[CordonSpan], found: list[NodeFailure],
) -> None:
    held.sort(key=lambda one: one.began)
    whole = made(told(*found, held={"n1": held}))
    assert 0 <= whole.held.failures + whole.held.incidents <= whole.held.total + 1e-3
    # Counted hour by hour, in another way: the node is out where any hold covers the moment.
    steps = [-672 + number / 2 + 0.01 for number in range(1344)]
    out = sum(any(one.began <= at(step) and (one.ended is None or at(step) < one.ended) for one in held)
              for step in steps) / 2
    assert whole.held.total / HOUR == pytest.approx(out, abs=0.5 * len(held) + 0.1)


def test_a_rack_is_counted_against_the_time_of_its_own_nodes() -> None:
    racks = {f"n{number}": "r1" if number < 2 else "r2" for number in range(10)}
    found = made(told(failed("n0", -100), failed("n5", -50), failed("n6", -40), groups={"rack": racks}),
                 "rack")
    assert [(row.key, row.rate.failures, row.rate.node_weeks, row.rate.per_100_week)
            for row in found.tables["rack"]] == [("r2", 2, 32, 6.25), ("r1", 1, 8, 12.5)]


def test_a_rack_in_which_nothing_failed_is_shown_with_how_little_that_may_mean() -> None:
    found = made(told(groups={"rack": {"n0": "r1"}}, nodes=1), "rack")
    (row,) = found.tables["rack"]
    assert (row.rate.per_100_week, row.rate.low) == (0, 0)
    assert row.rate.high == pytest.approx(3.6889 * 25, abs=0.02)


def test_time_without_sweeps_and_at_the_vendors_does_not_count() -> None:
    assert watched([0, 10, 20, 90, 100, 300], 24) == [(0, 20), (90, 100), (300, 300)]
    assert both([(0, 20), (90, 100)], [(10, 95)]) == [(10, 20), (90, 95)]
    assert merged([(90, 100), (0, 20), (10, 30), (30, 40)]) == [(0, 40), (90, 100)]
    assert without([(0, 20), (90, 100)], [(5, 10), (15, 95)]) == [(0, 5), (10, 15), (95, 100)]
    assert without([(7, 7), (12, 12)], [(5, 10)]) == [(12, 12)]


spans = st.lists(st.integers(0, 50), max_size=8,
                 unique=True).map(lambda ends: [(float(low), float(high))
                                                for low, high in zip(
                                                    sorted(ends)[::2], sorted(ends)[1::2], strict=False)])


@given(spans, spans)
def test_time_in_and_time_out_add_up(
    some: list[tuple[float, float]], away: list[tuple[float, float]],
) -> None:
    assert seconds(both(some, away)) + seconds(without(some, away)) == pytest.approx(seconds(some))


@settings(deadline=None)
@given(st.lists(st.builds(failed, st.sampled_from([f"n{number}" for number in range(12)]), st.floats(-800, 0),
                          lasts=st.none() | st.floats(0, 50), cause=st.sampled_from("abc"),
                          component=st.sampled_from("xyz"), shared=st.booleans()), max_size=30))
def test_whatever_happened_the_parts_add_up_to_the_whole(found: list[NodeFailure]) -> None:
    racks = {f"n{number}": f"r{number % 3}" for number in range(10)}
    whole = made(told(*found, groups={"rack": racks}), "cause", "component", "rack")
    for rows in whole.tables.values():
        assert sum(row.rate.failures for row in rows) == whole.total.rate.failures
        assert sum(row.never + row.already + row.isolate.count for row in rows) == whole.total.rate.failures
    for by in ("cause", "component"):
        assert sum(row.rate.per_100_week or 0 for row in whole.tables[by]) == pytest.approx(
            whole.total.rate.per_100_week)
    assert sum(row.rate.node_weeks for row in whole.tables["rack"]) == pytest.approx(
        whole.total.rate.node_weeks)
    assert whole.weekly.failures <= whole.total.rate.failures
    assert list(text(whole, {}, [])) and document(whole, {}, []) and as_csv(whole)


# ---- from sweeps in a store, and as it is typed

def swept(
    store: Store, hour: float, bad: str = "", now: float = NOW, nodes: tuple[str, ...] = ("n1", "n2"),
) -> None:
    """A sweep, so many hours from now."""
    reports = []
    for node in nodes:
        failing = node == bad
        result = Result("gpu-count", "gpu.count", Status.FAIL if failing else Status.PASS, Severity.CRITICAL,
                        (Finding(7, 8, "GPUs"),) if failing else ())
        reports.append(NodeReport(node, state_of([result]), "", (result,)))
    record(store, SweepRecord(now + hour * HOUR, now + hour * HOUR + 9, False, "test", "digest"), reports)


def test_a_stored_history_gives_what_was_counted_by_hand(tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        for hour, bad in ((-200, "n2"), (-199, "n2"), (-198, ""), (-100, ""), (-99, "n1"), (-98, "n1"),
                          (-97, ""), (-90, ""), (-10, "")):
            swept(store, hour, bad)
        one = cordons.mean(store, "n1", "hostfile", "gpu-count", "triage", at(-98.5))
        assert one is not None
        cordons.settle(store, one, cordons.CordonState.HELD, "cordoned", at(-98.5))
        cordons.settle(store, one, cordons.CordonState.RELEASED, "released", at(-92.5),
                       cordons.releasing(store, one, "well", "triage", at(-92.5)))
        never = cordons.mean(store, "n2", "hostfile", "x", "triage", at(-98.5))
        assert never is not None
        cordons.settle(store, never, cordons.CordonState.VOID, "not done: it said no", at(-98.5))
        away, _ = rmas.begin(store, "n2", "", "chassis", "", "dead", "op", "", "", at(-98))
        rmas.give_back(store, away, rmas.outcome(same=True, new=""), "op", at(-95))
        what = read(store, None, POLICY, NOW - 4 * WEEK, NOW, {})
    # Sweeps ran from -200 to -198, from -100 to -90, and at -10; n2 was away for three hours.
    assert {node: seconds(there) / HOUR for node, there in what.service.items()} == {"n1": 12, "n2": 9}
    found = made(what)
    assert (found.total.rate.failures, found.first) == (1, 1)
    assert found.total.rate.node_weeks == pytest.approx(21 / 168)
    (row,) = found.tables["cause"]
    assert (row.key, row.unseen.mean, row.isolate.mean, row.back.mean) == ("lost", HOUR, HOUR / 2, 6 * HOUR)
    assert (row.held.mean, found.held.total) == (6 * HOUR, 6 * HOUR)


def test_of_the_stored_cordons_those_of_people_and_of_incidents_are_no_second_hold_of_triages(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, make=True) as store:
        swept(store, -1)
        with store.writing() as db:
            db.execute("INSERT INTO incident (id, kind, cause, nodes, why, owner, began, seen) "
                       "VALUES (1, 'rack', 'r1', '[]', '', 'operator', 0, 0)")
            db.execute("INSERT INTO verdict (id, node, fault, isolation, repair, owner, why, evidence, "
                       "began, seen) VALUES (1, 1, 'lost', 'evict', 'reboot', 'operator', '', '[]', 0, 0)")
        for node in ("n1", "n2", "n3", "n4"):
            assert cordons.mean(store, node, "hostfile", "x", "op", at(-5)) is not None
        with store.writing() as db:
            db.execute("UPDATE cordon SET verdict = 1 WHERE node IN ('n2', 'n3')")
            db.execute("UPDATE cordon SET incident = 1 WHERE node = 'n3'")
            db.execute("UPDATE cordon SET began = ? WHERE node = 'n4'", (at(3),))
        held = read(store, None, POLICY, NOW - WEEK, NOW, {}).held
    assert {node: one.own for node, (one,) in held.items()} == {"n1": False, "n2": True, "n3": False}


def test_the_summary_is_printed_as_text_json_and_csv(tmp_path: Path) -> None:
    now = time.time()
    with opened(tmp_path / "state", make=True) as store:
        for hour in range(-300, 0):
            swept(store, hour, "n1" if -100 <= hour < -98 else "", now, ("n1", "n2", "n3"))
    (tmp_path / "muster.yaml").write_text("version: 1\nnodes:\n  n[1-2]: {rack: r1}\n  n3: {rack: r2, "
                                          "lifecycle: {state: maintenance, owner: me}}\n")
    said = muster("history", "--summary", "-i", "muster.yaml", home=tmp_path)
    assert (said.returncode, said.stderr) == (0, "")
    assert "1 failure of 1 node: " in said.stdout and "too few failures to tell" in said.stdout
    assert "n3 (maintenance)" in said.stdout
    told_ = json.loads(muster("history", "--summary", "--by", "rack", "-i", "muster.yaml", "--format", "json",
                              home=tmp_path).stdout)
    assert (told_["schema"], told_["nodes"], told_["failures"]["failures"]) == ("muster.summary/1", 2, 1)
    assert [row["key"] for row in told_["by"]["rack"]] == ["r1"]
    rows = list(csv.DictReader(
        io.StringIO(muster("history", "--summary", "--format", "csv", home=tmp_path).stdout)))
    assert [(row["by"], row["key"], row["failures"]) for row in rows] == [
        ("all", "all", "1"), ("cause", "gpu-lost", "1"), ("component", "gpu", "1")]


@pytest.mark.parametrize("words", [("--summary", "n1"), ("--summary", "--still"), ("--by", "rack"),
                                   ("--format", "csv")])
def test_what_does_not_go_together_is_said_in_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = muster("history", *words, home=tmp_path)
    assert done.returncode == 2 and "--summary" in done.stderr and "Traceback" not in done.stderr


def test_an_empty_store_has_no_rate(tmp_path: Path) -> None:
    with opened(tmp_path / "state", make=True):
        pass
    done = muster("history", "--summary", home=tmp_path)
    assert done.returncode == 0 and "0 failures; no rate without time between sweeps" in done.stdout
