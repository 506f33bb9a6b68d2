"""The report of a job has what `muster watch --store` kept of it while it ran: causes that no log has, and
what the logs do not show."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.report.watchkept import adopted, beyond, kept
from healthcheck.store import watched
from healthcheck.store.file import Store, opened
from healthcheck.store.watched import WatchedNode
from healthcheck.watch import steplines
from healthcheck.watch.model import Certainty, SlowPattern, WatchCause, WatchFinding, WatchLevel
from tests.command import muster
from tests.documents import validate
from tests.healthcheck.watch.simulated import Planted, SimulatedJob

ROW = WatchedNode("4711", "0-rank-5-1", "gpu001", (5,), "step_down", "thermal", "likely", 0.3,
                  "rank 5 on gpu001 is hot", 1000.0, 1600.0,
                  1600.0)
FOUND = WatchFinding("0-rank-5-2", WatchLevel.RANK, "rank 5", (5,), ("gpu001",), SlowPattern.STEP_DOWN, None,
                     0, 2, 1010.0, 1590.0, 6, 0.3,
                     0.3, True)


def test_all_of_a_job_is_read_however_much_there_is_of_others(store: Store) -> None:
    watched.write(store,
                  [replace(ROW, job=f"other{number % 9}", finding=str(number)) for number in range(5000)])
    watched.write(store, [replace(ROW, finding=str(number), began=1000.0 + number) for number in range(5000)])
    found = watched.of_job(store, "4711", 0.0, 1e10)
    assert len(found) == 5000 and {one.job for one in found} == {"4711"}
    assert [one.began for one in found] == sorted(one.began for one in found)


def test_another_job_of_the_same_name_at_another_time_is_left_out(store: Store) -> None:
    watched.write(store, [ROW, replace(ROW, finding="later", began=5000.0, seen=5100.0, ended=5100.0)])
    assert [one.finding for one in watched.of_job(store, "4711", 900.0, 2000.0)] == [ROW.finding]


def test_the_rows_of_a_finding_are_one_with_all_its_nodes() -> None:
    (one,) = kept([ROW, replace(ROW, node="gpu002")])
    assert one.nodes == ("gpu001", "gpu002") and one.row.finding == ROW.finding


def test_a_likely_cause_that_was_kept_of_the_same_rank_and_time_is_taken() -> None:
    (one,) = adopted([FOUND], kept([ROW]))
    assert (one.verdict.cause, one.verdict.certainty) == (WatchCause.THERMAL, Certainty.LIKELY)
    assert ("while it ran: rank 5 on gpu001 is hot" in one.verdict.evidence[0]
            and not beyond(kept([ROW]), [one]))


@pytest.mark.parametrize("row", [replace(ROW, ranks=(6,)), replace(ROW, began=3000.0, ended=3100.0),
                                 replace(ROW, certainty="possible"),
                                 replace(ROW, cause="unknown"), replace(ROW, cause="made of nothing"),
                                 replace(ROW, pattern="hang")])
def test_what_was_kept_of_another_rank_or_time_or_is_not_likely_explains_nothing(row: WatchedNode) -> None:
    assert adopted([FOUND], kept([row])) == (FOUND,)


def test_two_likely_causes_that_do_not_agree_explain_nothing() -> None:
    assert adopted([FOUND], kept([ROW, replace(ROW, finding="b", cause="power")])) == (FOUND,)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A job whose rank 3 is slow in the middle."""
    (tmp_path / "steps").mkdir()
    lines: dict[int, list[str]] = {}
    for _, passed in SimulatedJob(8, 300, 1, (Planted("compute", (3,), 1.3, since=100),),
                                  began=time.time() - 3600).passes():
        for line in passed:
            lines.setdefault(line.rank or 0, []).append(steplines.line(line) + "\n")
    for rank, own in lines.items():
        (tmp_path / "steps" / f"rank_{rank}.jsonl").write_text("".join(own))
    return tmp_path


def test_the_report_of_a_watched_job_names_the_cause_and_the_spares(home: Path) -> None:
    now = time.time()
    with opened(home / "state", make=True) as store:
        watched.write(store, [replace(ROW, node="gpu0000", ranks=(3,), began=now - 3500,
                                      seen=now - 3200, ended=None),
                              replace(ROW, finding="b", node="", ranks=(), pattern="oscillation",
                                      cause="link", said="the job; a link flaps",
                                      began=now - 3300, seen=now - 3250, ended=now - 3250)])
    told = json.loads(muster("watch", "report", "--log", "steps", "--format", "json", home=home).stdout)
    validate(told, "watch.report-1")
    (one,) = told["findings"]
    assert (one["cause"]["name"], one["cause"]["certainty"]) == ("thermal", "likely")
    assert told["goodput"]["lost_seconds_by_cause"]["thermal"] > 20
    assert told["suspect_hosts"] == ["gpu0000"] and [other["id"] for other in told["kept"]] == ["b"]
    said = muster("watch", "report", "--log", "steps", home=home).stdout
    assert "kept by muster watch --store while it ran, and not in its logs:\n- the job; a link flaps" in said


def test_a_job_whose_logs_are_gone_still_has_what_was_kept(home: Path) -> None:
    with opened(home / "state", make=True) as store:
        watched.write(store, [ROW])
    done = muster("watch", "report", "4711", home=home)
    assert (done.returncode == 3 and "- rank 5 on gpu001 is hot" in done.stdout
            and "goodput: not measured" in done.stdout), done.stderr
