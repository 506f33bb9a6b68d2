"""`muster check --store`, `muster history` and `muster store`, as they are typed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from healthcheck.model.outcome import Finding, NodeReport, NodeState, Owner, Result, Severity, Status
from healthcheck.store.file import NAME, opened
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.rmas import begin, give_back, outcome, ship
from healthcheck.store.sweeps import SweepRecord, record
from tests.command import muster


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A state folder with three sweeps: gpu007 had a fault an hour ago that is over, and has another;
    gpu008 was not reached."""
    state = tmp_path / "state"
    now = time.time()
    parts = NodeReadings((Component("gpu", "0000:18:00.0", "16507", "GPU 0"),), (), frozenset({"gpu"}))

    def failing(rule: str, severity: Severity, *subjects: str) -> Result:
        return Result(rule, rule, Status.FAIL if subjects else Status.PASS, severity,
                      tuple(Finding(3, "at most 0", s) for s in subjects), "", None, "replace it",
                      Owner.VENDOR)

    with opened(state, make=True) as store:
        for ago, one, other in ((7200, ("GPU 0",), ()), (3600, (), ("/",)), (60, (), ("/",))):
            results = (failing("gpu-ecc-uncorrected", Severity.CRITICAL, *one),
                       failing("filesystem-space", Severity.WARNING, *other))
            record(store, SweepRecord(now - ago, now - ago + 5, False, "test", "digest"), [
                NodeReport("gpu007", NodeState.UNHEALTHY if one else NodeState.DEGRADED, "", results),
                NodeReport("gpu008", NodeState.UNKNOWN, "connect: refused", (), True, "connect"),
            ], {"gpu007": parts})
    return state


def history(state: Path, *words: str, home: Path) -> str:
    done = muster("history", *words, "--state", str(state), home=home)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_history_says_what_was_wrong_with_each_node_and_since_when(stored: Path, tmp_path: Path) -> None:
    lines = history(stored, home=tmp_path).splitlines()
    assert [line.split("  ")[0] for line in lines if not line.startswith(" ")] == ["gpu007", "gpu008"]
    assert (lines[0].startswith("gpu007  degraded since 20")
            and "gpu-ecc-uncorrected  GPU 0: 3, expected at most 0  [gpu 16507]" in lines[1])
    assert (".. now" in lines[2] and "filesystem-space" in lines[2]
            and "not reached  connect: refused" in lines[4])


def test_history_is_narrowed_by_node_rule_and_time(stored: Path, tmp_path: Path) -> None:
    assert "gpu008" not in history(stored, "gpu007", home=tmp_path)
    told = [json.loads(line)
            for line in history(stored, "--still", "--format", "jsonl", home=tmp_path).splitlines()]
    assert [(line["schema"], line["node"], line["rule"], line["sweeps"]) for line in told] == [
        ("muster.problem/1", "gpu007", "filesystem-space", 2), ("muster.problem/1", "gpu008", "", 3)]
    assert "gpu-ecc" in history(stored, "--rule", "gpu-*", home=tmp_path)
    assert history(stored, "--rule", "gpu-*", "--since", "10m", home=tmp_path) == "no problems\n"


def test_history_says_where_components_sat(stored: Path, tmp_path: Path) -> None:
    assert history(stored, "gpu007", "--components", home=tmp_path).startswith(
        "gpu007  0000:18:00.0    gpu   16507 ")


def test_history_of_one_part_has_its_places_and_its_returns(stored: Path, tmp_path: Path) -> None:
    with opened(stored) as store:
        now = time.time()
        one, _ = begin(store, "gpu007", "0000:18:00.0", "gpu", "16507", "worn", "us", "", "", now - 30)
        ship(store, one, "us", now - 20)
        give_back(store, one, outcome(same=False, new="16999"), "us", now - 10)
    lines = history(stored, "--serial", " 16507", home=tmp_path).splitlines()
    assert lines[0] == "gpu 16507" and " .. now, last seen 20" in lines[1]
    assert [line.partition("Z  ")[2] for line in lines[2:]] == [
        "RMA 1 of gpu007 opened: worn", "RMA 1 of gpu007 shipped",
        "RMA 1 of gpu007 returned (exchanged 16999)"]
    assert history(stored, "--serial", "16999", home=tmp_path).endswith(
        "came for gpu 16507 at 0000:18:00.0: RMA 1 of gpu007\n")
    told = [json.loads(line)["schema"]
            for line in history(stored, "--serial", "16507", "--format", "jsonl", home=tmp_path).splitlines()]
    assert told == ["muster.seat/1", "muster.rma/1"]
    done = muster("history", "--serial", "nope", "--state", str(stored), home=tmp_path)
    assert (done.returncode, done.stderr) == (
        2, "muster: no sweep, controller or RMA that the store knows has named 'nope'\n")
    done = muster("history", "gpu007", "--serial", "16507", "--state", str(stored), home=tmp_path)
    assert (done.returncode == 2
            and done.stderr.startswith("muster: --serial is about one part, wherever it was"))


def test_a_node_that_no_sweep_has_seen_and_a_store_that_is_not_there_are_reported(
    stored: Path, tmp_path: Path,
) -> None:
    done = muster("history", "gpu009", "--state", str(stored), home=tmp_path)
    assert (done.returncode, done.stderr) == (2, "muster: gpu009: no stored sweep has seen this node\n")
    done = muster("history", "--state", str(tmp_path / "none"), home=tmp_path)
    assert (done.returncode, done.stderr) == (
        2, f"muster: {tmp_path}/none/{NAME}: there is no store yet; `muster check --store` makes one, "
        "and `muster store restore FILE` puts a copy back\n")


def test_the_store_is_shown_checked_copied_and_pruned(stored: Path, tmp_path: Path) -> None:
    def store(*words: str) -> str:
        done = muster("store", *words, "--state", str(stored), home=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    shown = json.loads(store("show", "--format", "json"))
    assert (shown["schema"], shown["sweeps"], shown["nodes"], shown["problems"], shown["open"],
            shown["components"]) == ("muster.store/1", 3, 2, 3, 2, 1)
    assert store("check") == f"{stored}/{NAME}: whole\n"
    assert store("backup", str(tmp_path / "copy.db")).startswith(f"{tmp_path}/copy.db: ")
    assert store("prune", "--older", "1d") == "0 rows deleted\n"
    (tmp_path / "other").mkdir()
    (tmp_path / "copy.db").rename(tmp_path / "other" / NAME)
    assert "gpu-ecc-uncorrected" in history(tmp_path / "other", home=tmp_path)


def test_a_backup_over_the_store_itself_is_refused(stored: Path, tmp_path: Path) -> None:
    done = muster("store", "backup", str(stored / NAME), "--state", str(stored), home=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"muster: {stored}/{NAME}: is the store itself\n")


def test_check_remembers_what_it_found(tmp_path: Path) -> None:
    words = ("check", "--local", "--sku", "cpu-only", "--only", "host-swap", "--only", "host-memory",
             "--format", "jsonl", "--store")
    for _ in range(2):
        done = muster(*words, "--state", str(tmp_path / "state"), home=tmp_path)
        assert done.returncode in (0, 1, 3), done.stderr
    shown = json.loads(muster("store", "show", "--format", "json", "--state", str(tmp_path / "state"),
                              home=tmp_path).stdout)
    assert (shown["sweeps"], shown["nodes"]) == (2, 1)
