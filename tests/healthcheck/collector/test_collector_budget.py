"""The CPU budget of a look: what would spend more is ended or not started, and says so; what was captured by
then is kept."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from healthcheck.facts.base import Captures
from healthcheck.facts.values import Unread
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import FileCapture, Outcome
from tests.testbed.collector import await_none_with, collect

SPENT = "the CPU budget of 1 s was spent"
SPIN = Probe("spin", ProbeKind.COMMAND, argv=("sh", "-c", "while :; do :; done"), seconds=15.0)
QUICK = tuple(Probe(f"quick{n}", ProbeKind.COMMAND, argv=("echo", "here")) for n in range(2))
LATER = tuple(Probe(f"z{n}", ProbeKind.COMMAND, argv=("echo", "late")) for n in range(2))
SLOW = Probe("sleep", ProbeKind.COMMAND, argv=("sleep", "14"), seconds=15.0)


def test_what_spins_is_ended_long_before_its_own_limit_and_the_rest_is_kept(tmp_path: Path) -> None:
    """The program that spins and one that sleeps hold both places, so nothing after them can have started
    before the budget was spent."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/name").write_text("n\n")
    files = Probe("files", ProbeKind.FILES, paths=("/etc/name",))
    began = time.monotonic()
    seen = collect((files, *QUICK, SPIN, SLOW, *LATER), tmp_path, cpu_seconds=1.0,
                   mark=str(tmp_path)).captures
    assert time.monotonic() - began < 12
    assert seen["files"].files == {"/etc/name": FileCapture(Outcome.DONE, "n\n")}
    assert [(seen[p.id].outcome, seen[p.id].text) for p in QUICK] == [(Outcome.DONE, "here\n")] * 2
    for probe in (SPIN, SLOW, *LATER):
        assert (seen[probe.id].outcome, seen[probe.id].note, seen[probe.id].exit) == (
            Outcome.TIMEOUT, SPENT, None), probe.id
    await_none_with(str(tmp_path))


def test_what_was_late_before_the_budget_was_spent_keeps_its_own_reason_and_what_it_cut_off_is_unread(
    tmp_path: Path,
) -> None:
    late = Probe("a-late", ProbeKind.COMMAND, argv=("sleep", "9"), seconds=0.2)
    recording = collect((late, SPIN), tmp_path, cpu_seconds=1.0)
    seen = recording.captures
    assert seen["a-late"].outcome is Outcome.TIMEOUT and SPENT not in seen["a-late"].note
    assert seen["spin"].note == SPENT
    with pytest.raises(Unread, match=f"{re.escape(SPENT)}$"):
        Captures(recording).text(SPIN)


def test_within_its_budget_a_look_is_as_without_one(tmp_path: Path) -> None:
    free, bounded = (collect(QUICK, tmp_path, **more).captures for more in ({}, {"cpu_seconds": 60.0}))
    assert [(c.outcome, c.text, c.note) for c in free.values()] == [
        (c.outcome, c.text, c.note) for c in bounded.values()]


def test_a_node_may_be_given_another_time_than_the_probe_set_has(tmp_path: Path) -> None:
    slow = Probe("slow", ProbeKind.COMMAND, argv=("sh", "-c", "sleep 2; echo here"), seconds=15.0)
    more = collect((slow,), tmp_path, seconds=0.5, after=("seconds=20",)).captures["slow"]
    assert (more.outcome, more.text) == (Outcome.DONE, "here\n")
    less = collect((slow,), tmp_path, seconds=20.0, after=("without=mlx5_9", "seconds=0.5")).captures["slow"]
    assert less.outcome is Outcome.TIMEOUT
