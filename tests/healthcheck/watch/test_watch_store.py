"""What muster watch keeps, and what triage, blame and the exporter make of it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.blame.evidence import JobWindow, Weight
from healthcheck.blame.stored import stored_evidence
from healthcheck.cli.watchstore import WatchStore, rows_of
from healthcheck.config.rulesfolder import folders
from healthcheck.exporter.jobs import MOST, samples
from healthcheck.model.faultkind import Isolation, Of
from healthcheck.model.outcome import Severity
from healthcheck.ruleset.rulenames import read_rule_names
from healthcheck.store import history, watched
from healthcheck.store.file import Store, opened
from healthcheck.triage.faults import faults
from healthcheck.triage.gather import gather
from healthcheck.triage.policy import TriagePolicy
from healthcheck.triage.policyload import load_policy
from healthcheck.watch.model import (
    CauseVerdict,
    Certainty,
    SlowPattern,
    StepPhase,
    WatchCause,
    WatchFinding,
    WatchLevel,
)
from healthcheck.watch.watcher import JobWatch, WatchUpdate
from inventory.model import Node
from tests.command import muster
from tests.healthcheck.accounting.test_summary import swept
from tests.healthcheck.triage.made import NOW


def _packaged() -> TriagePolicy:
    found = folders(None)
    return load_policy(found, read_rule_names(found))


ROW = watched.WatchedNode("4711", "a", "n1", (5,), "step_down", "thermal", "likely", 0.3, "rank 5 is hot",
                          NOW - 600, NOW)
FOUND = WatchFinding("0-rank-5-1", WatchLevel.RANK, "rank 5", (5,), ("gpu001.site",), SlowPattern.STEP_DOWN,
                     StepPhase.FORWARD, 0, 1, NOW - 60, NOW, 6, 0.3, 0.3, True,
                     CauseVerdict(WatchCause.THERMAL, Certainty.LIKELY))


def test_a_finding_is_kept_once_and_is_over_with_its_end_or_when_no_one_watches(store: Store) -> None:
    watched.write(store, [ROW])
    watched.write(store, [replace(ROW, share=0.4, seen=NOW + 60)])
    (one,) = watched.lasting(store, NOW + 60)
    assert (one.share, one.ranks, one.began) == (0.4, (5,), ROW.began)
    assert watched.lasting(store, NOW + 61 + watched.FRESH_S) == []
    watched.write(store, [replace(ROW, seen=NOW + 70, ended=NOW + 70)])
    assert watched.lasting(store, NOW + 70) == []
    assert len(watched.between(store, NOW, NOW + 1)) == 1 and not watched.between(store, NOW + 71, NOW + 99)
    history.prune(store, NOW + 1000)
    assert watched.between(store, 0, NOW + 99) == []


@pytest.mark.parametrize(("isolation", "expected"), [("none", Isolation.NONE),
                                                     ("no-new-jobs", Isolation.NO_NEW_JOBS)])
def test_triage_is_reported_and_isolates_only_where_the_policy_says_so(
    tmp_path: Path, isolation: str, expected: Isolation,
) -> None:
    rules = _packaged()
    rules = replace(rules, kinds=tuple(replace(kind, isolation=Isolation(isolation))
                                       if kind.id == "slows-a-job" else kind for kind in rules.kinds))
    with opened(tmp_path, make=True) as store:
        swept(store, -1)
        watched.write(store, [ROW, replace(ROW, finding="b", node="n2", certainty="possible"),
                              replace(ROW, finding="c", node="")])
        fleet = gather(store, [Node("n1"), Node("n2")], rules, NOW)
    one, other = fleet.nodes
    assert [problem.rule for problem in one.problems] == ["watch-slow"] and not other.problems
    (fault,) = faults(one, rules, NOW)
    assert (fault.kind.id, fault.kind.isolation) == ("slows-a-job", expected)


def test_the_packaged_policy_isolates_no_node_that_slows_a_job() -> None:
    kind = _packaged().kind(Of.FAIL, watched.SLOWS, Severity.WARNING)
    assert kind is not None and kind.isolation is Isolation.NONE


def test_blame_names_who_slowed_the_job_and_whom_it_waited_for(tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        watched.write(store,
                      [ROW, replace(ROW, finding="b", node="n2", pattern="hang", certainty="cannot tell"),
                       replace(ROW, finding="c", node="n3")])
        found = stored_evidence(store, JobWindow(NOW - 3600, NOW, ("n1", "n2"))).evidence
    assert {(one.node, one.weight, one.sure) for one in found if one.source == "muster watch"} == {
        ("n1", Weight.ODD, True), ("n2", Weight.LEAD, False)}


def test_metrics_are_bounded_whatever_jobs_there_are() -> None:
    many = [replace(ROW, job=str(number % 7), finding=str(number), node=f"n{number}")
            for number in range(5000)]
    found = list(samples([*many, replace(ROW, pattern="hang", job="8")]))
    assert sum(family.name == "muster_job_slowed_ratio" for family, _ in found) == MOST
    assert sum(family.name == "muster_job_hangs" for family, _ in found) == 1
    assert sum(family.name == "muster_job_findings" for family, _ in found) == 8


def test_a_host_is_kept_under_the_name_of_the_inventory_and_a_place_under_none() -> None:
    (one,) = rows_of("4711", FOUND, {"gpu001": "gpu001.cluster"}, NOW)
    assert (one.node, one.cause, one.certainty, one.ended) == ("gpu001.cluster", "thermal", "likely", None)
    for host, name in (("GPU001.cluster", "gpu001.cluster"), ("10.0.3.7", "10.0.3.7")):
        (row,) = rows_of("4711", replace(FOUND, hosts=(host,)), {"gpu001": "gpu001.cluster"}, NOW)
        assert row.node == name
    (rack,) = rows_of("4711", replace(FOUND, level=WatchLevel.PLACE), {}, NOW)
    assert rack.node == ""
    (over,) = rows_of("4711", FOUND, {}, NOW, over=True)
    assert over.ended == NOW


def test_what_lasts_is_written_again_before_it_would_be_over(tmp_path: Path) -> None:
    kept, watch = WatchStore(tmp_path, {}), JobWatch()
    watch.findings[FOUND.id] = FOUND
    kept.keep("4711", watch, WatchUpdate(findings=(FOUND,)), NOW)
    kept.keep("4711", watch, WatchUpdate(), NOW + 30)
    kept.keep("4711", watch, WatchUpdate(), NOW + 90)
    with opened(tmp_path) as store:
        assert [one.seen for one in watched.lasting(store, NOW + 90)] == [NOW + 90]
    kept.keep("4711", watch, WatchUpdate(), NOW + 100, last=True)
    with opened(tmp_path) as store:
        assert watched.lasting(store, NOW + 100) == []


def test_a_store_that_cannot_be_written_is_reported_of_once_and_ends_no_watching(
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "muster.db").write_text("no store")
    kept, watch = WatchStore(tmp_path, {}), JobWatch()
    for second in (0, 100):
        kept.keep("4711", watch, WatchUpdate(findings=(FOUND,)), time.time() + second)
    assert capsys.readouterr().err.count("what is found is not kept") == 1


def test_a_replay_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "steps").mkdir()
    done = muster("watch", "--replay", "--store", "--log", "steps", home=tmp_path)
    assert done.returncode == 2 and "--store does not go with --replay" in done.stderr
