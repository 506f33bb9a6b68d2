"""What muster makes of every recorded file stays as it is: causes, how sure they are, owners and exit
codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from healthcheck.cli.main import root
from tests.corpus import files, view
from tests.corpus.files import RECORDINGS, Use
from tests.corpus.kept import same

LOGS = {
    "torchrun-raise": ["torchrun-recorded-raise.log"], "torchrun-kill": ["torchrun-recorded-kill.log"],
    "torchrun-hang": ["torchrun-recorded-hang.log"], "flight-recorder": ["fr_0", "fr_1", "fr_3"],
    "flight-recorder-json": ["fr_0.json"],
    **{f"openmpi-{path.stem}": [f"openmpi-recorded/{path.name}"]
       for path in sorted((RECORDINGS / "blame/openmpi-recorded").iterdir())},
    **{f"slurm-{path.stem}": [f"slurm-recorded/{path.name}"]
       for path in sorted((RECORDINGS / "blame/slurm-recorded").glob("*.out"))},
}


def run(*words: str) -> tuple[int, Any]:
    """A command's exit code and its document, in this process."""
    done = CliRunner().invoke(root, words, standalone_mode=False, catch_exceptions=False)
    return done.return_value or 0, json.loads(done.stdout)


def test_every_recorded_file_is_in_one_part_of_the_corpus() -> None:
    wrong = [
        f"tests/recordings/{name} is in {len(found)} parts of the corpus: say in USES of "
        f"tests/corpus/files.py what becomes of it"
        for name, found in files.uses().items() if len(found) != 1]
    assert not wrong, "\n".join(wrong)


def test_every_log_of_a_job_is_blamed() -> None:
    recorded = {name for name in files.of(Use.EXPLAINED) if name.startswith("blame/")}
    missing = recorded - {f"blame/{name}" for names in LOGS.values() for name in names}
    assert not missing, f"add them to LOGS in tests/corpus/test_files.py: {sorted(missing)}"


def test_files_are_explained_as_ever() -> None:
    same("explain", {name: files.explained(name) for name in files.of(Use.EXPLAINED)})


def test_events_of_kernel_logs_are_known_as_ever() -> None:
    same("events",
         {name: files.events(name) for name in files.of(Use.EVENTS)} | {name: files.lines(name)
                                                                        for name in files.of(Use.LINES)})


def test_the_command_says_what_a_file_s_explanation_says() -> None:
    for name in ("explain/gpu-off-bus.dmesg", "explain/healthy.dmesg", "explain/cut.nccl-tests.txt"):
        code, document = run("explain", str(RECORDINGS / name), "--format", "json")
        assert {"exit": code, **view.explained(document)} == files.explained(name)


def test_jobs_are_blamed_on_those_on_whom_they_always_were(tmp_path: Path,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_STATE", str(tmp_path))
    seen = {}
    for name, logs in LOGS.items():
        code, document = run("blame", "--format", "json", "--nodes", "gpu[001-004]", "--since",
                             "2026-11-20T00:00:00", "--until",
                             "2026-11-23T00:00:00",
                             *(word for log in logs for word in ("--log", str(RECORDINGS / "blame" / log))))
        seen[name] = {"exit": code, **view.blamed(document)}
    same("blame", seen)


def test_jobs_that_slurm_recorded_are_blamed_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by what sacct printed of it, and by what scontrol did where sacct has nothing to say."""
    monkeypatch.setenv("MUSTER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    seen = {}
    for name in files.of(Use.JOB):
        path = RECORDINGS / name
        for tool in ("sacct", "scontrol"):
            (tmp_path / tool).write_text(f"#!/bin/sh\nexec cat {path}\n" if path.suffix == f".{tool}"
                                         else "#!/bin/sh\nexit 1\n")
            (tmp_path / tool).chmod(0o755)
        log = path.with_suffix(".out")
        code, document = run("blame", _job(path), "--format", "json",
                             *(("--log", str(log)) if log.exists() else ()))
        seen[path.name] = {"exit": code, **view.blamed(document)}
    same("blame-jobs", seen)


def _job(path: Path) -> str:
    """The number of the job that sacct or scontrol printed this of."""
    text = path.read_text()
    return (text.partition("JobId=")[2].split()[0] if path.suffix == ".scontrol"
            else text.splitlines()[1].partition("|")[0])
