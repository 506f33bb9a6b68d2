"""What muster makes of recorded fleets stays as it is: states, findings, owners, and what a head does about
them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from provisioning.demo.expected import compare
from tests.command import environment
from tests.corpus import archives, view
from tests.corpus.archives import Unpacked
from tests.corpus.files import RECORDINGS, Use, of
from tests.corpus.kept import same
from tests.corpus.test_files import run
from tests.documents import all_results
from tests.scenarios.test_scenarios import EXPECTED

# the same faults again, on other nodes, and what tests/scenarios judges live
SLOW = {*(f"demo-{seed}" for seed in range(2, 7)), "scenarios"}
OLD = {"demo-sweep": RECORDINGS / "demo-sweep", "rdma-rxe": RECORDINGS / "rdma-rxe/recording.json"}
DEMOS = [f"demo-{seed}" for seed in range(1, 7)]


def test_the_fleets_of_six_seeds_and_the_scenarios_are_recorded() -> None:
    assert [*DEMOS, "scenarios"] == archives.NAMES


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
                                  for name in archives.NAMES])
def test_a_recorded_fleet_is_judged_as_ever(name: str, unpacked: Unpacked) -> None:
    code, document = run("check", "--replay", str(unpacked(name)), "--format", "json")
    same(f"sweep-{name}", {"exit": code, **view.sweep(all_results(document))})
    if name in DEMOS:
        assert compare(document, json.loads((unpacked(name) / "planted.json").read_text()), later=True) == []
    if name == "scenarios":
        assert {node["node"]: node["state"] for node in document["nodes"] if node["node"] in EXPECTED} == {
            fault: expected.state for fault, expected in EXPECTED.items()}


@pytest.mark.parametrize("name", OLD)
def test_an_old_recording_is_judged_as_ever(name: str) -> None:
    code, document = run("check", "--replay", str(OLD[name]), "--format", "json")
    same(f"sweep-{name}", {"exit": code, **view.sweep(all_results(document))})


def test_every_saved_sweep_is_judged() -> None:
    missing = {file for file in of(Use.SWEPT)
               if not any((RECORDINGS / file).is_relative_to(path) for path in OLD.values())}
    assert not missing, f"add them to OLD in tests/corpus/test_fleets.py: {sorted(missing)}"


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
                                  for name in archives.NAMES])
def test_a_head_does_with_a_recorded_fleet_what_it_always_did(name: str, unpacked: Unpacked,
                                                              tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.corpus.day", str(unpacked(name)), str(tmp_path)],
                          cwd=Path(__file__).parents[2],
                          env=environment(tmp_path), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    views = {"triage": view.triaged, "apply": view.triaged, "again": view.triaged, "nodes": view.stands,
             "gate": view.answered,
             "blame": view.blamed}
    same(f"day-{name}",
         {command: {"exit": said[command]["exit"], "view": view_of(json.loads(said[command]["out"]))}
          for command, view_of in views.items()})
