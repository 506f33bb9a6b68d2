"""`muster repaired`: what it ends, what it says, whom it asks,
and that it changes nothing where it is told not to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.model.outcome import (
    Finding,
    LogEvidence,
    LogView,
    NodeReport,
    NodeState,
    Result,
    Severity,
    Status,
    state_of,
)
from healthcheck.store.file import opened
from healthcheck.store.ledger import lines
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.repairs import logged, words_in
from healthcheck.store.sweeps import SweepRecord, record
from tests.command import muster

SUBJECT = "GPU at PCI 0000:18:00, Xid 54"


def report(node: str) -> NodeReport:
    log = LogEvidence("nvrm", "repair", 1, 5.0, 5.0, (7,))
    found = Result("kernel-xid", "kernel.xid", Status.FAIL, Severity.CRITICAL,
                   (Finding("Xid 54", "none", SUBJECT, log=log),))
    return NodeReport(node, state_of([found]), "", (found,), log=LogView("b1", 0))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    names = ["gpu001", "gpu002", *(f"n{number:03d}" for number in range(40))]
    with opened(tmp_path / "state", make=True) as store:
        reports = [report(name) for name in names if name != "gpu002"]
        healthy = Result("kernel-xid", "kernel.xid", Status.PASS, Severity.CRITICAL)
        record(store, SweepRecord(1000, 1001, False, "test", "d"),
               [*reports, NodeReport("gpu002", state_of([healthy]), "", (healthy,))],
               {"gpu001": NodeReadings((Component("gpu", "0000:18:00.0", "S1", "GPU 0"),
                                        Component("nvme", "nvme3n1", "S2", "nvme3n1")), (), frozenset())})
    return tmp_path


def alive(home: Path, node: str = "gpu001") -> int:
    with opened(home / "state") as store:
        return len(logged(store, node))


@pytest.mark.parametrize("component", ["0000:18:00.0", "S1", "GPU 0", SUBJECT, "all"])
def test_it_ends_what_the_log_reported_and_writes_the_word_into_the_ledger(
    home: Path, component: str,
) -> None:
    done = muster("repaired", "gpu001", "--component", component, "--reason", "reseated", home=home)
    assert (done.returncode, done.stderr) == (0, "") and f"kernel-xid of {SUBJECT}" in done.stdout
    assert alive(home) == 0
    with opened(home / "state") as store:
        (line,) = [one for one in lines(store) if one.action == "repaired"]
    assert (line.node, line.why, json.loads(line.evidence)["component"]) == ("gpu001", "reseated", component)
    assert line.outcome is not None and line.outcome.startswith("done")
    (word,) = words_in(home / "state")["gpu001"]
    assert (word.covers("kernel-xid", SUBJECT, 7) and not word.covers("kernel-xid", SUBJECT, 8)
            and word.boot == "b1")


def test_a_dry_run_says_what_would_end_and_ends_nothing(home: Path) -> None:
    done = muster("repaired", "gpu001", "--component", "all", "--reason", "x", "--dry-run", home=home)
    assert (done.returncode == 0 and "would end: kernel-xid" in done.stdout
            and "nothing changed" in done.stdout)
    assert alive(home) == 1 and not words_in(home / "state")


def test_a_part_that_no_log_reported_can_be_said_to_be_repaired_as_well(home: Path) -> None:
    done = muster("repaired", "gpu001", "--component", "nvme3n1", "--reason", "drive replaced", home=home)
    assert done.returncode == 0 and "no report of a kernel log" in done.stdout and alive(home) == 1


@pytest.mark.parametrize(("words", "expected"), [
    (("gpu001", "--reason", "x"), "--component is missing"),
    (("gpu001", "--component", " ", "--reason", "x"), "--component is missing"),
    (("gpu001", "--component", "all"), "--reason is missing"),
    (("gpu001", "--component", "all", "--reason", "  "), "--reason is missing"),
    (("gpu001", "--component", "GPU 7", "--reason", "x"),
     f"these nodes have no known component 'GPU 7'; open reports there are of '{SUBJECT}'"),
    (("gpu001,gpu002", "--component", "0000:ff:00.0", "--reason", "x"),
     "expected a subject, serial number, PCI address or slot"),
    (("gpu[001-", "--component", "all", "--reason", "x"), "gpu[001-"),
])
def test_a_mistake_is_one_line_and_changes_nothing(home: Path, words: tuple[str, ...], expected: str) -> None:
    done = muster("repaired", *words, home=home)
    assert (done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
            and expected in done.stderr)
    assert alive(home) == 1


def test_a_node_without_such_a_component_is_named_and_the_others_are_done(home: Path) -> None:
    done = muster("repaired", "gpu[001-002]", "--component", "S1", "--reason", "x", home=home)
    assert done.returncode == 1 and "gpu002: it has no 'S1'" in done.stderr and alive(home) == 0


def test_over_32_nodes_it_asks_and_where_no_one_can_be_asked_it_wants_yes(home: Path) -> None:
    many = ("repaired", "n[000-039]", "--component", "all", "--reason", "risers")
    done = muster(*many, home=home)
    assert (done.returncode == 2
            and "n[000-039] (40 nodes): nothing changed, since there is no terminal" in done.stderr
            and alive(home, "n000") == 1)
    assert muster(*many, "--dry-run", home=home).returncode == 0 and alive(home, "n000") == 1
    done = muster(*many, "--yes", home=home)
    assert done.returncode == 0 and alive(home, "n000") == alive(home, "n039") == 0


def test_hostile_words_are_kept_and_shown_clean(home: Path) -> None:
    done = muster("repaired", "gpu001", "--component", "\x1b[31mGPU 0\n", "--reason", "\x1b]0;x\x07 y",
                  home=home)
    assert "\x1b" not in done.stdout + done.stderr


def test_without_a_store_it_says_how_to_make_one(tmp_path: Path) -> None:
    done = muster("repaired", "gpu001", "--component", "all", "--reason", "x", home=tmp_path)
    assert done.returncode != 0 and "there is no store yet" in done.stderr


def test_what_a_log_reported_before_stands_before_what_could_not_be_measured_now(tmp_path: Path) -> None:
    found = replace(report("gpu001").results[0], severity=Severity.WARNING)
    first = NodeReport("gpu001", state_of([found]), "", (found,), log=LogView("b1", 0))
    blind = Result("a-nvml", "c", Status.UNKNOWN, Severity.CRITICAL, reason="not loaded")
    gone = Result("kernel-xid", "kernel.xid", Status.PASS, Severity.WARNING)
    later = NodeReport("gpu001", NodeState.UNKNOWN, "a-nvml: not loaded", (blind, gone),
                       log=LogView("b1", 99))
    with opened(tmp_path / "state", make=True) as store:
        record(store, SweepRecord(1000, 1001, False, "test", "d"), [first], {})
        (known,) = record(store, SweepRecord(2000, 2001, False, "test", "d"), [later], {})
    assert known.state is NodeState.UNKNOWN
    assert known.reason.startswith(f"kernel-xid: {SUBJECT}: reported before, and nothing shows that it ended")
    assert known.reason.endswith("; a-nvml: not loaded")
