"""What `muster gate --print` prints can be installed as it is.
What it does in a real Slurm is in test_slurm.py."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from healthcheck.gate.hooks import HOOKS, hook
from tests.command import MUSTER, muster


@pytest.fixture
def hooked(tmp_path: Path) -> Path:
    """The hook, its commands replaced by ones that write down how they were called;
    `muster` ends as a file says."""
    script = tmp_path / "hook"
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name in ("scontrol", "scancel", "squeue", "logger", "muster"):
        (bin_ / name).write_text(
            f"#!/bin/sh\necho {name} \"$@\" >>{tmp_path}/calls\ncat {tmp_path}/{name}.says 2>/dev/null\n"
            f"exit $(cat {tmp_path}/{name}.ends 2>/dev/null || echo 0)\n")
    script.write_text(
        hook("slurm", str(bin_ / "muster")).replace("PATH=/usr/local/bin", f"PATH={bin_}:/usr/local/bin"))
    for each in (script, *bin_.iterdir()):
        each.chmod(each.stat().st_mode | stat.S_IXUSR)
    return script


def ran(script: Path, context: str = "prolog_slurmctld", **ends: int) -> tuple[int, list[str]]:
    """How the hook ended, and what it called; `ends` are the exit codes of commands."""
    folder = script.parent
    for name, code in ends.items():
        (folder / f"{name}.ends").write_text(str(code))
    environment = {"SLURM_SCRIPT_CONTEXT": context, "SLURM_JOB_ID": "41",
                   "SLURM_JOB_NODELIST": "gpu[001-002]", "SLURM_JOB_PARTITION": "main"}
    done = subprocess.run([str(script)], env=environment, capture_output=True, check=False)
    return done.returncode, (folder / "calls").read_text().splitlines()


def test_an_open_gate_is_silent(hooked: Path) -> None:
    assert ran(hooked) == (0, ["muster gate --nodelist gpu[001-002]"])


def test_a_node_asks_for_itself_alone(hooked: Path) -> None:
    assert ran(hooked, "prolog_slurmd") == (0, ["muster gate --slurm-prolog"])


def test_a_closed_gate_requeues_and_holds_and_says_why_in_one_line(hooked: Path) -> None:
    (hooked.parent / "muster.says").write_text("closed: $(touch x) `id` \"'\n  gpu002: not in service\n"
                                               + "x" * 999)
    code, calls = ran(hooked, muster=1)
    assert code == 0
    assert [call.split()[0] for call in calls] == ["muster", "logger", "scontrol", "scontrol"]
    assert calls[2].startswith(
        "scontrol update JobId=41 Comment=closed: $(touch x) `id` \"' gpu002: not in service xxx")
    assert len(calls[2]) < 400 and calls[3] == "scontrol requeuehold 41"


@pytest.mark.parametrize("said", ["0 COMPLETING\n", "0 PENDING\n", "4294901757 PENDING\n"])
def test_a_job_that_is_held_already_or_let_go_again_is_not_cancelled(hooked: Path, said: str) -> None:
    (hooked.parent / "squeue.says").write_text(said)
    code, calls = ran(hooked, "prolog_slurmd", muster=1, scontrol=1)
    assert code == 0 and not [call for call in calls if call.startswith("scancel")]


def test_a_job_that_cannot_be_requeued_is_cancelled(hooked: Path) -> None:
    code, calls = ran(hooked, muster=1, scontrol=1)
    assert code == 0 and calls[-1] == "scancel 41"


@pytest.mark.parametrize(("context", "expected"), [("prolog_slurmctld", 1), ("prolog_slurmd", 0)])
def test_where_slurm_does_not_answer_only_the_controller_hook_fails_for_the_other_would_drain(
    hooked: Path, context: str, expected: int,
) -> None:
    assert ran(hooked, context, muster=1, scontrol=1, scancel=1)[0] == expected


@pytest.mark.parametrize("code", [2, 3, 124, 127])
def test_a_gate_that_cannot_tell_is_logged_and_holds_only_where_the_site_wants_that(
    hooked: Path, code: int,
) -> None:
    assert [call.split()[0] for call in ran(hooked, muster=code)[1]] == ["muster", "logger"]
    hooked.write_text(hooked.read_text().replace("UNSURE=start", "UNSURE=hold"))
    assert ran(hooked, muster=code)[1][-1] == "scontrol requeuehold 41"


@pytest.mark.parametrize(("globs", "asked"), [("*", True), ("train main", True), ("ma*", True),
                                              ("train gpu-*", False), ("", False)])
def test_only_jobs_of_the_partitions_named_are_asked_for(hooked: Path, globs: str, asked: bool) -> None:
    hooked.write_text(hooked.read_text().replace("PARTITIONS='*'", f"PARTITIONS='{globs}'"))
    (hooked.parent / "calls").touch()
    assert bool(ran(hooked)[1]) is asked


def test_a_node_that_has_the_agent_alone_asks_that(hooked: Path) -> None:
    bin_ = hooked.parent / "bin"
    (bin_ / "muster").rename(bin_ / "python3")
    assert ran(hooked, "prolog_slurmd") == (
        0, ["muster -I -S /opt/muster/current/muster.pyz gate --slurm-prolog"])


def test_a_path_with_spaces_is_quoted_and_slurm_conf_is_named_where_it_is_elsewhere(tmp_path: Path) -> None:
    text = hook("slurm", "/opt/my muster/muster", "/srv/slurm conf")
    assert ("set -- '/opt/my muster/muster'\n" in text
            and "SLURM_CONF='/srv/slurm conf'\nexport SLURM_CONF\n" in text)
    assert "export SLURM_CONF" not in hook("slurm", "/opt/muster")
    for each in (text, hook("slurm", "/opt/muster")):
        assert subprocess.run(["sh", "-n"], input=each, text=True, check=False).returncode == 0


def test_the_init_container_asks_for_the_node_that_it_is_on() -> None:
    found: dict[str, Any] = yaml.safe_load(hook("kubernetes", "muster"))["spec"]
    (container,) = found["initContainers"]
    assert container["command"] == ["muster", "gate", "$(NODE_NAME)"]
    assert container["env"] == [
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"]: volume["hostPath"]["path"] for volume in found["volumes"]}
    assert all(mount["readOnly"] for mount in container["volumeMounts"])


@pytest.mark.parametrize("kind", HOOKS)
def test_printing_needs_no_snapshot(kind: str, tmp_path: Path) -> None:
    done = muster("gate", "--print", kind, home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == hook(kind, str(MUSTER), os.environ.get("SLURM_CONF", "") and "")
