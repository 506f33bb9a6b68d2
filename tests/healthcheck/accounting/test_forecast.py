"""What a job has to expect of its fleet: figures worked by hand, and what must hold of any rate."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.accounting.forecast import checkpoints, forecast
from healthcheck.accounting.summary import rate
from healthcheck.report.forecast import document, text
from healthcheck.store.file import opened
from tests.command import muster
from tests.healthcheck.accounting.test_summary import swept


def test_ten_failures_in_a_thousand_node_days_interrupt_five_hundred_nodes_five_times_a_day() -> None:
    found = forecast(rate(10, 1000 / 7), 500, 60)
    assert found.per_day == pytest.approx(5)
    # Garwood's interval of 10 is 4.795 to 18.39 (R: poisson.test(10)).
    assert (found.low, found.high) == (pytest.approx(2.398, rel=1e-3), pytest.approx(9.195, rel=1e-3))
    assert not found.few and found.usual is not None
    # 86400 s / 5 = 17280 s apart, 60 s each: Young sqrt(2 x 60 x 17280) = 1440 s.
    assert found.usual.young_s == pytest.approx(1440)
    assert found.usual.daly_s == pytest.approx(1440 * (1 + (1 / 576) ** 0.5 / 3 + 1 / 576 / 9) - 60)


@pytest.mark.parametrize(("hours", "minutes"), [(24, "117"), (6, "57"), (0.25, "9.1")])
def test_the_interval_is_that_of_dalys_own_figures(hours: float, minutes: str) -> None:
    # Daly 2006, figures 3 to 5: a checkpoint of 5 min, failures so many hours apart, and the optimum that its
    # model predicts.
    digits = len(minutes.partition(".")[2])
    assert f"{checkpoints(300, 3600 * hours).daly_s / 60:.{digits}f}" == minutes


def test_where_a_checkpoint_takes_longer_than_two_failures_are_apart_it_is_one_for_each() -> None:
    found = checkpoints(500, 200)
    assert (found.daly_s, found.lost) == (200, 1.0)


def test_without_a_failure_there_is_a_bound_and_never_none_expected() -> None:
    found = forecast(rate(0, 1000 / 7), 500, 60)
    assert found.per_day is None and found.usual is None and found.longest is None
    assert found.high == pytest.approx(3.689 / 2, rel=1e-3)
    said = "\n".join(text(found))
    assert "at most 1.84 interruptions a day" in said and "only this bound is known" in said
    assert "a longer interval may do" in said
    assert document(found)["interruptions_per_day"]["expected"] is None


def test_few_failures_say_that_they_tell_little() -> None:
    said = "\n".join(text(forecast(rate(2, 10), 100), shared=3))
    assert "so few failures tell little" in said and "3 failures in incidents are not in it" in said
    assert "not known without what a checkpoint costs" in said


def test_without_time_nothing_is_measured() -> None:
    found = forecast(rate(3, 0.0), 100, 60)
    assert found.high is None and "not measured" in "\n".join(text(found))


@given(st.integers(0, 5000), st.floats(0.01, 1e6), st.integers(1, 100_000), st.floats(0.001, 86400))
def test_whatever_the_rate_the_intervals_are_in_order(
    failures: int, weeks: float, nodes: int, cost: float,
) -> None:
    found = forecast(rate(failures, weeks), nodes, cost)
    assert found.low is not None and found.high is not None and found.shortest is not None
    assert found.low <= (found.per_day or found.low) <= found.high
    assert (found.usual is None) == (failures == 0)
    for each in (found.shortest, found.usual, found.longest):
        assert each is None or (each.daly_s > 0 and each.young_s > 0 and 0 < each.lost <= 1)
    assert list(text(found)) and json.dumps(document(found))


def test_history_prints_the_forecast_and_says_what_it_lacks(tmp_path: Path) -> None:
    now = time.time()
    with opened(tmp_path / "state", make=True) as store:
        for hour in range(-300, 0):
            swept(store, hour, "n1" if -100 <= hour < -98 else "", now, ("n1", "n2", "n3"))
    said = muster("history", "--summary", "--job-nodes", "100", "--checkpoint-seconds", "30", home=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "a job of 100 nodes: " in said.stdout and "so few failures tell little" in said.stdout
    assert "a checkpoint that costs 30 s: every " in said.stdout
    told = json.loads(muster("history", "--summary", "--job-nodes", "100", "--format", "json",
                             home=tmp_path).stdout)
    assert told["forecast"]["job_nodes"] == 100 and told["forecast"]["checkpoint_seconds"] is None
    assert json.loads(muster("history", "--summary", "--format", "json",
                             home=tmp_path).stdout)["forecast"] is None


@pytest.mark.parametrize("words", [("--job-nodes", "5"), ("--summary", "--checkpoint-seconds", "5"),
                                   ("--summary", "--job-nodes", "5", "--format", "csv"),
                                   ("--summary", "--job-nodes", "0")])
def test_a_forecast_that_is_not_well_asked_for_is_refused_in_one_line(
    tmp_path: Path, words: tuple[str, ...],
) -> None:
    done = muster("history", *words, home=tmp_path)
    assert done.returncode == 2 and "job-nodes" in done.stderr and "Traceback" not in done.stderr
