"""srun's labelled output and messages, and what `sruntask` does on a node, without Slurm."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.transport import sruntask
from inventory.transport.srunlines import Labelled, LaunchFailed, TaskRecords, carried, launch_failure

LINES = st.lists(st.tuples(st.integers(0, 99_999),
                           st.binary(max_size=80).filter(lambda line: b"\n" not in line)), max_size=20)


@given(LINES, st.data())
def test_lines_come_apart_by_their_label_wherever_the_stream_is_cut(lines: list[tuple[int, bytes]],
                                                                    data: st.DataObject) -> None:
    stream = b"".join(b"%d: %s\n" % line for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    reader = Labelled()
    found = [line for at, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
             for line in reader.feed(stream[at:end])]
    assert found == lines


@given(st.binary(max_size=300))
def test_any_bytes_are_lines(data: bytes) -> None:
    assert len(list(Labelled().feed(data))) == data.count(b"\n")


def test_an_endless_line_is_cut() -> None:
    reader = Labelled()
    assert sum(len(list(reader.feed(b"x" * 4096))) for _ in range(64)) >= 3


@given(st.binary(max_size=100))
def test_any_message_is_a_failed_launch_or_none(data: bytes) -> None:
    assert launch_failure(data) is None or b"failed on node" in data


def test_a_failed_launch_names_its_node() -> None:
    line = (b"srun: error: Task launch for StepId=4294918714.1575102816 failed on node gpu003: Communication "
            b"connection failure")
    assert launch_failure(line) == LaunchFailed("gpu003", "Communication connection failure")


@given(st.binary(max_size=3000))
def test_what_is_carried_comes_back(data: bytes) -> None:
    read, write = os.pipe()
    kept = os.dup(1)
    os.dup2(write, 1)
    try:
        sruntask.send(b".", data)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(write)
    with os.fdopen(read, "rb") as file:
        lines = file.read().splitlines()
    assert all(len(line) < 1000 for line in lines)
    records = TaskRecords()
    assert b"".join(carried(records.add(0, line) or b"") or b"" for line in lines) == data


@given(st.binary(max_size=4000), st.data())
def test_records_that_slurm_cuts_anywhere_come_whole(data: bytes, drawn: st.DataObject) -> None:
    """As it sends what is left when a task ends: pieces without regard to lines, each of which srun ends with
    a newline."""
    stream = b"".join(b"." + base64.b64encode(data[at:at + 570]) + b"~\n"
                      for at in range(0, len(data), 570)) + b"=0 exit 0~\n"
    cuts = sorted(drawn.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    records, found = TaskRecords(), b""
    ended = False
    for at, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        for line in stream[at:end].removesuffix(b"\n").split(b"\n"):
            record = records.add(7, line)
            if record is not None and record.startswith(b"."):
                found += carried(record) or b""
            ended = ended or record == b"=0 exit 0"
            assert records.add(8, b"another") == b"another"
    assert found == data and ended


def test_a_record_without_an_end_is_not_kept_for_ever() -> None:
    records = TaskRecords()
    assert any(records.add(0, b"." + b"A" * 1000) is not None for _ in range(8))


@pytest.mark.parametrize("line", [b".AAA", b".A-_=", b". AAAA"])
def test_a_damaged_line_is_noticed(line: bytes) -> None:
    assert carried(line) is None


def machine(folder: Path, group: str) -> tuple[str, str]:
    """A /proc and a /sys/fs/cgroup."""
    (folder / "self").mkdir()
    (folder / "self" / "cgroup").write_text(group)
    (folder / "cg" / "devices").mkdir(parents=True)
    for at in ("cg/cgroup.procs", "cg/devices/cgroup.procs"):
        (folder / at).write_text("")
    return str(folder), str(folder / "cg")


def test_outside_of_slurms_groups_nothing_is_written(tmp_path: Path) -> None:
    proc, groups = machine(tmp_path, "0::/system.slice/sshd.service\n")
    sruntask.leave_step(proc, groups)
    assert (tmp_path / "cg" / "cgroup.procs").read_text() == ""


@pytest.mark.parametrize(("group", "written"), [
    ("0::/system.slice/slurmstepd.scope/job_4294/step_17/user/task_0\n", "cg/cgroup.procs"),
    ("9:devices:/slurm/uid_0/job_7/step_0\n3:cpuset:/\n", "cg/devices/cgroup.procs"),
])
def test_a_step_in_slurms_groups_leaves_them_and_is_refused_where_it_stays(tmp_path: Path, group: str,
                                                                           written: str) -> None:
    """The GPUs may be denied there, and a node without GPUs is an accusation."""
    proc, groups = machine(tmp_path, group)
    # the file here does not change
    with pytest.raises(sruntask.Unfit, match="stays in Slurm's control group"):
        sruntask.leave_step(proc, groups)
    assert (tmp_path / written).read_text() == "0"


def test_who_may_not_leave_is_refused(tmp_path: Path) -> None:
    proc, _ = machine(tmp_path, "9:devices:/slurm/uid_0/job_7/step_0\n")
    with pytest.raises(sruntask.Unfit, match="cannot leave Slurm's control group"):
        sruntask.leave_step(proc, str(tmp_path / "none"))


def test_a_step_with_mounts_of_its_own_is_refused(tmp_path: Path) -> None:
    proc, groups = machine(tmp_path, "0::/\n")
    for who, space in (("self", "mnt:[1]"), ("1", "mnt:[2]")):
        (tmp_path / who / "ns").mkdir(parents=True)
        (tmp_path / who / "ns" / "mnt").symlink_to(space)
    with pytest.raises(sruntask.Unfit, match="mounts of their own"):
        sruntask.leave_step(proc, groups)


def test_base64_lines_are_plain(tmp_path: Path) -> None:
    assert carried(b"." + base64.b64encode(b"\0\n: 1")) == b"\0\n: 1"
