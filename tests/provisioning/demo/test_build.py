"""Compiling the C libraries: once, cleanly, and with one clear line when it cannot be."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from inventory.errors import MusterError
from provisioning.demo import build as module
from provisioning.demo.build import build
from tests.testbed.planted import executable

SOURCES = Path(module.__file__).parent


@pytest.mark.parametrize("source", ["nvml.c", "syscalls.c"])
def test_the_sources_compile_without_a_warning(source: str, tmp_path: Path) -> None:
    command = [
        "cc", "-std=gnu11", "-O2", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wshadow",
        "-Wconversion", "-Wno-sign-conversion", "-o", str(tmp_path / "out.so"), str(SOURCES / source), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_second_build_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(tmp_path)
    before = first.nvml.stat().st_mtime_ns
    monkeypatch.setattr(subprocess, "run", None)
    assert build(tmp_path) == first
    assert first.nvml.stat().st_mtime_ns == before
    assert [path.name for path in tmp_path.iterdir()] == [first.folder.name]


def test_without_a_compiler_one_line_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(
        MusterError, match=r"^the demo needs a C compiler; type: apt-get install -y gcc libc6-dev$"):
        build(tmp_path)


def test_a_compiler_that_fails_is_quoted_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = executable(
        tmp_path / "cc",
        "#!/bin/sh\necho 'x.c:1: fatal error: stdio.h: No such file or directory' >&2\nexit 1\n")
    monkeypatch.setattr(shutil, "which", lambda name: str(compiler))
    with pytest.raises(
        MusterError, match=r"cannot compile nvml.c: .*stdio.h.*; type: apt-get install -y gcc libc6-dev$"):
        build(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MusterError, match="cannot keep compiled files"):
        build(tmp_path / "file" / "cache")
