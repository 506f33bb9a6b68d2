"""Tests that run in forks pass, fail and are counted as elsewhere, and what kills a worker costs one test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WHOLE = """
import os, pytest

@pytest.fixture(scope="session")
def whole():
    yield
    open(f"cleared-{os.getpid()}", "x").close()
"""
# Each notes the process it runs in, and the folder that it was given.
NOTING = """
import os, pytest

@pytest.mark.parametrize("number", range(4))
def test_one(number, whole, tmp_path):
    with open("notes", "a") as notes:
        notes.write(f"{__name__} {os.getpid()} {tmp_path}\\n")
"""
ENDING = """
import os

def test_before():
    print("seen before")

def test_that_ends():
    os._exit(3)

def test_after():
    print("seen after")
    assert [1, 2] == [1, 3]
"""


def ran(folder: Path, *words: str, whole: str = WHOLE, **files: str) -> tuple[int, str]:
    """The exit code and the output of these files' tests in two workers."""
    (folder / "conftest.py").write_text(whole)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.workers", "-p", "no:cacheprovider", "--workers=2",
         "-rA", "--basetemp=base", *words, "."],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


def test_a_files_tests_share_a_process_and_what_belongs_to_the_whole_run_is_made_once_in_it_and_cleared_up(
        tmp_path: Path) -> None:
    code, said = ran(tmp_path, a=NOTING, b=NOTING, c=NOTING)
    assert code == 0 and "12 passed" in said, said
    notes = [line.split() for line in (tmp_path / "notes").read_text().splitlines()]
    together = {(name, process) for name, process, _ in notes}
    processes = {process for _, process in together}
    assert len(together) == 3 and len({folder for _, _, folder in notes}) == 12
    assert {path.name for path in tmp_path.glob("cleared-*")} == {f"cleared-{process}"
                                                                  for process in processes}


def test_what_ends_a_worker_fails_that_test_alone_and_each_output_is_its_tests_own(tmp_path: Path) -> None:
    code, said = ran(tmp_path, a=ENDING, b=NOTING)
    assert code == 1 and "2 failed, 5 passed" in said, said
    assert "the worker ended with 3 in this test" in said and "At index 1 diff: 2 != 3" in said
    assert re.search(r"_ test_after _.*Captured stdout call -+\nseen after\n", said,
                     re.DOTALL) and said.count("seen before") == 1


@pytest.mark.parametrize(("words", "passed"), [((), 6), (("-x",), 0)])
def test_the_first_failure_ends_it_where_that_is_asked_for(words: tuple[str, ...], passed: int,
                                                           tmp_path: Path) -> None:
    failing = "def test_fails(): assert 0\n"
    later = "import time\ndef test_later(): time.sleep(0.5)\n"
    code, said = ran(tmp_path, *words, a=failing + later, **{f"b{number}": later for number in range(5)})
    assert code == 1 and "1 failed" in said and (f"{passed} passed" in said) == (words == ()), said


def test_what_is_not_cleared_up_at_the_end_fails_the_run(tmp_path: Path) -> None:
    code, said = ran(tmp_path, whole=WHOLE.replace("open(", "int('gone', "), a=NOTING)
    assert code == 1 and "was not cleared up" in said and "TypeError" in said, said
