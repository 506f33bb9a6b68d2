"""What muster makes of everything that is recorded stays as it is: states, findings, owners, acts and exit codes; words may get better.

A change that is meant is written with MUSTER_GOLDEN=update, and its difference read and explained in the commit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from healthcheck.cli.main import root
from tests.command import environment
from tests.corpus import view

HERE = Path(__file__).resolve().parent
RECORDINGS = HERE.parent / "recordings"
FLEETS = HERE / "fleets"
SWEEPS = sorted(path.name.partition(".")[0] for path in FLEETS.iterdir())
BLAMED = {
    "torchrun-raise": ["torchrun-recorded-raise.log"], "torchrun-kill": ["torchrun-recorded-kill.log"],
    "torchrun-hang": ["torchrun-recorded-hang.log"], "flight-recorder": ["fr_0", "fr_1", "fr_3"], "flight-recorder-json": ["fr_0.json"],
    **{f"openmpi-{path.stem}": [f"openmpi-recorded/{path.name}"] for path in sorted((RECORDINGS / "blame/openmpi-recorded").iterdir())},
    **{f"slurm-{path.stem}": [f"slurm-recorded/{path.name}"] for path in sorted((RECORDINGS / "blame/slurm-recorded").glob("*.out"))},
}


def run(*words: str) -> tuple[int, Any]:
    """A command's exit code and its document, in this process."""
    done = CliRunner().invoke(root, words, standalone_mode=False, catch_exceptions=False)
    return done.return_value or 0, json.loads(done.stdout)


def same(name: str, seen: Mapping[str, Any]) -> None:
    """It is what is kept under this name."""
    kept = HERE / "expected" / f"{name}.json"
    text = json.dumps(seen, indent=1, ensure_ascii=True) + "\n"
    if os.environ.get("MUSTER_GOLDEN") == "update":
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(text)
    assert text == kept.read_text()


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a recorded sweep."""
    base = tmp_path_factory.mktemp("sweeps")

    def get(name: str) -> Path:
        if not (base / name).exists():
            with tarfile.open(FLEETS / f"{name}.tar.xz") as archive:
                archive.extractall(base / name, filter="data")
        return base / name
    return get


def test_there_are_recorded_sweeps() -> None:
    assert SWEEPS


@pytest.mark.parametrize("name", SWEEPS)
def test_a_recorded_sweep_is_judged_as_ever(name: str, unpacked: Callable[[str], Path]) -> None:
    code, document = run("check", "--replay", str(unpacked(name)), "--format", "json")
    same(f"sweep-{name}", {"exit": code, **view.sweep(document)})


@pytest.mark.parametrize("name", ["demo-sweep", "rdma-rxe/recording.json"])
def test_an_old_recording_is_judged_as_ever(name: str) -> None:
    code, document = run("check", "--replay", str(RECORDINGS / name), "--format", "json")
    same(f"sweep-{name.partition('/')[0]}", {"exit": code, **view.sweep(document)})


def test_files_are_explained_as_ever() -> None:
    seen = {}
    for path in sorted((RECORDINGS / "explain").iterdir()):
        if path.suffix != ".md":
            code, document = run("explain", str(path), "--format", "json")
            seen[path.name] = {"exit": code, **view.explained(document)}
    same("explain", seen)


def test_jobs_are_blamed_on_those_on_whom_they_always_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_STATE", str(tmp_path))
    seen = {}
    for name, files in BLAMED.items():
        code, document = run("blame", "--format", "json", "--nodes", "gpu[001-004]", "--since", "2026-11-20T00:00:00", "--until",
                             "2026-11-23T00:00:00", *(word for file in files for word in ("--log", str(RECORDINGS / "blame" / file))))
        seen[name] = {"exit": code, **view.blamed(document)}
    same("blame", seen)


@pytest.mark.parametrize("name", SWEEPS)
def test_a_head_does_with_a_recorded_sweep_what_it_always_did(name: str, unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.corpus.day", str(unpacked(name)), str(tmp_path)], cwd=HERE.parents[1],
                          env=environment(tmp_path), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    views = {"triage": view.triaged, "apply": view.triaged, "again": view.triaged, "nodes": view.stands, "gate": view.answered,
             "blame": view.blamed}
    same(f"day-{name}", {command: {"exit": said[command]["exit"], "view": of(json.loads(said[command]["out"]))}
                         for command, of in views.items()})
