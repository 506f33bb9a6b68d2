"""What is kept for later runs is made whole, and a killed attempt hinders no other."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.testbed.kept import kept
from tests.testbed.require import require


def test_what_a_killed_attempt_mounted_keeps_its_content_and_the_next_attempt_succeeds(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require(os.geteuid() == 0, "only root may mount")
    monkeypatch.setenv("MUSTER_TESTBED_CACHE", str(tmp_path))
    shared = tmp_path / "of the machine"
    shared.mkdir()
    (shared / "file").write_text("held")
    left = tmp_path / "root.tmp" / "dev"
    left.mkdir(parents=True)
    subprocess.run(["mount", "--bind", shared, left], check=True)
    assert kept("root", lambda half: (half / "etc").mkdir(parents=True)) == tmp_path / "root"
    assert (shared / "file").read_text() == "held"
    assert ([path.name for path in (tmp_path / "root").iterdir()] == ["etc"]
            and not (tmp_path / "root.tmp").exists())
