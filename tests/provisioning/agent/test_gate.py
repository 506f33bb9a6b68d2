"""A node that has nothing but the agent judges itself, with any Python that the agent runs with."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from provisioning.agent.bundle import code
from tests.healthcheck.agent.world import python
from tests.healthcheck.gate.fleet import FOREIGN, Place, fleet
from tests.testbed.require import require


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("agent") / "muster.pyz"
    made.write_bytes(code())
    return made


def gate(
    program: Path, place: Place, *words: str, name: str = "gpu001", interpreter: str = sys.executable,
) -> tuple[int, str]:
    done = subprocess.run(
        [interpreter, "-I", "-S", str(program), "gate", "--slurm-prolog", *place.words, *words],
        env={"SLURMD_NODENAME": name}, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("version", ["3.8", pytest.param("3.9", marks=pytest.mark.slow), "3.13"])
def test_any_python_judges(program: Path, tmp_path: Path, version: str) -> None:
    interpreter = python(version)
    require(interpreter is not None, f"no Python {version} here: pyenv install {version}")
    assert interpreter is not None
    place = Place(tmp_path / "gate")
    place.put(fleet(2, int(time.time()), gpu002={"state": "degraded", "why": "a fan"}))
    assert gate(program, place, interpreter=str(interpreter))[0] == 0
    code_, report = gate(program, place, name="gpu002", interpreter=str(interpreter))
    assert code_ == 0 and report.startswith(
        "muster gate: note: gpu002: degraded: a fan\nmuster gate: open: 1 node")
    code_, report = gate(program, place, name="gpu009", interpreter=str(interpreter))
    assert code_ == 1 and "gpu009: the snapshot has no such node" in report


def test_it_ends_as_the_whole_command_does(program: Path, tmp_path: Path) -> None:
    place = Place(tmp_path / "gate")
    place.put(now=int(time.time()) - 8 * 3600)
    code_, report = gate(program, place)
    assert code_ == 0 and "the snapshot is 8 h old" in report
    place.put(key=FOREIGN)
    assert gate(program, place)[0] == 1
    place.snapshot.unlink()
    assert gate(program, place)[0] == 3
    assert gate(program, place, "gpu001")[0] == 2
