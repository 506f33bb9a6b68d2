"""The preloaded shim, seen from a Python process that it is preloaded into, as the collector is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from provisioning.demo.build import Libraries

ASK = """
import ctypes, json, os, sys

class Timex(ctypes.Structure):
    _fields_ = [
        ("modes", ctypes.c_uint),
        *((name, ctypes.c_long) for name in ("offset", "freq", "maxerror", "esterror")),
        ("status", ctypes.c_int),
        *((name, ctypes.c_long) for name in (
            "constant", "precision", "tolerance", "sec", "usec", "tick", "ppsfreq", "jitter")),
        ("shift", ctypes.c_int),
        *((name, ctypes.c_long) for name in ("stabil", "jitcnt", "calcnt", "errcnt", "stbcnt")),
        ("tai", ctypes.c_int), ("rest", ctypes.c_int * 11)]

def statvfs(path):
    try:
        return list(os.statvfs(path))[:10]
    except OSError as error:
        return error.errno

def adjtimex(modes):
    c, buffer = ctypes.CDLL(None, use_errno=True), Timex(modes=modes)
    state = c.adjtimex(ctypes.byref(buffer))
    if state < 0:
        return -ctypes.get_errno()
    return [state, buffer.status, buffer.offset, buffer.maxerror, buffer.tai]

json.dump([statvfs(path) for path in sys.argv[2:]] + [adjtimex(int(sys.argv[1]))], sys.stdout)
"""
ROOT = [4096, 4096, 1000, 500, 400, 100, 90, 90, 4096, 255]
RAID = [4096, 4096, 2000, 10, 10, 0, 0, 0, 4097, 255]
ENOENT, EIO, EPERM = 2, 5, 1


def ask(libraries: Libraries, tree: Path | None, *paths: object, modes: int = 0) -> list[Any]:
    environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(libraries.syscalls)}
    if tree is not None:
        environment["MUSTER_ROOT"] = str(tree)
    command = [sys.executable, "-I", "-S", "-c", ASK, str(modes), *map(str, paths)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    answer: list[Any] = json.loads(done.stdout)
    return answer


def line(mount: str, figures: list[int]) -> str:
    return " ".join((mount, *map(str, figures))) + "\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for folder in (".muster", "raid/data", "raidx", "mnt/a b"):
        (root / folder).mkdir(parents=True)
    (root / ".muster/statvfs").write_text(line("/", ROOT) + line("/raid", RAID) + line("/mnt/a\\040b", RAID))
    (root / ".muster/adjtimex").write_text(
        "state = 0\nstatus = 8193\noffset = -77\nmaxerror = 1500\ntai = 37\n")
    return root


def test_a_path_in_the_tree_is_answered_by_the_mount_that_holds_it(libraries: Libraries, tree: Path) -> None:
    asked = [f"{tree}/", f"{tree}", f"{tree}//raid", f"{tree}/raid/", f"{tree}/raid/data", f"{tree}/raidx",
             f"{tree}/mnt/a b"]
    assert ask(libraries, tree, *asked)[:-1] == [ROOT, ROOT, RAID, RAID, RAID, ROOT, RAID]


def test_the_last_mount_at_a_mount_point_answers(libraries: Libraries, tree: Path) -> None:
    with open(tree / ".muster/statvfs", "a") as table:
        table.write(line("/raid", ROOT))
    assert ask(libraries, tree, tree / "raid")[0] == ROOT


def test_a_path_that_is_not_there_is_not_there(libraries: Libraries, tree: Path) -> None:
    assert ask(libraries, tree, tree / "raid/none")[0] == ENOENT


def test_paths_outside_the_tree_and_all_paths_without_a_tree_are_this_machines(
    libraries: Libraries, tree: Path,
) -> None:
    beside = tree.parent / "rootx"
    beside.mkdir()
    real = os.statvfs(tree.parent)
    inside, outside, _ = ask(libraries, tree, tree, beside)
    assert inside == ROOT
    assert outside[:3] == [real.f_bsize, real.f_frsize, real.f_blocks]
    assert ask(libraries, None, tree)[0][:3] == [real.f_bsize, real.f_frsize, real.f_blocks]


@pytest.mark.parametrize("table", ["", "/raid 1 2 3\n", "nonsense\n" + line("/", ROOT), line("/other", ROOT)])
def test_a_damaged_table_is_an_error_and_never_this_machines_figures(
    libraries: Libraries, tree: Path, table: str,
) -> None:
    (tree / ".muster/statvfs").write_text(table)
    assert ask(libraries, tree, tree / "raid")[0] == EIO


def test_a_missing_table_is_an_error_and_never_this_machines_figures(
    libraries: Libraries, tree: Path,
) -> None:
    (tree / ".muster/statvfs").unlink()
    (tree / ".muster/adjtimex").unlink()
    assert ask(libraries, tree, tree) == [EIO, -EIO]


def test_the_clock_answers_from_its_table(libraries: Libraries, tree: Path) -> None:
    assert ask(libraries, tree)[-1] == [0, 8193, -77, 1500, 37]
    (tree / ".muster/adjtimex").write_text("state = 5\nstatus = 64\nmaxerror = 16000000\n")
    assert ask(libraries, tree)[-1] == [5, 64, 0, 16000000, 0]


@pytest.mark.parametrize(
    "table", ["", "status = 1\n", "state = 0\nstatus = x\n", "state = 0\nno_such = 1\n", "state 0\n"])
def test_a_damaged_clock_table_is_an_error(libraries: Libraries, tree: Path, table: str) -> None:
    (tree / ".muster/adjtimex").write_text(table)
    assert ask(libraries, tree)[-1] == -EIO


def test_the_clock_cannot_be_set(libraries: Libraries, tree: Path) -> None:
    assert ask(libraries, tree, modes=1)[-1] == -EPERM
