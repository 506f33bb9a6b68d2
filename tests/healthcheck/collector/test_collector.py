"""The real program, run as a transport runs it, against trees of files and real commands."""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from healthcheck.collector.joined import COLLECTOR
from healthcheck.collector.onnode import answer, nvml, reader
from healthcheck.model.probes import KIB, MIB, Probe, ProbeKind
from healthcheck.model.recording import Capture, FileCapture, Outcome
from tests.testbed.collector import await_none_with, collect

MOUNTINFO = "/proc/self/mountinfo"


def plant(tree: Path, path: str, content: bytes | str = b"") -> Path:
    at = tree / path.lstrip("/")
    at.parent.mkdir(parents=True, exist_ok=True)
    at.write_bytes(content if isinstance(content, bytes) else content.encode())
    return at


def look(probe: Probe, tree: Path, seconds: float = 20.0, **more: Any) -> Capture:
    return collect([probe], tree, seconds=seconds, mark=str(tree), **more).captures[probe.id]


def files(*paths: str, limit: int = 256 * KIB, tail: bool = False) -> Probe:
    return Probe("it", ProbeKind.FILES, paths=paths, limit=limit, tail=tail)


def command(*argv: str, seconds: float = 5.0, limit: int = 256 * KIB, tail: bool = False) -> Probe:
    return Probe("it", ProbeKind.COMMAND, argv=argv, seconds=seconds, limit=limit, tail=tail)


def as_no_one(tree: Path) -> dict[str, Any]:
    """Runs the program as a user without any right, who may enter the tree."""
    for folder in (tree, *tree.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    return {"before": ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")}


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody who may not")


# Files

def test_files_are_named_by_their_path_below_the_root(tree: Path) -> None:
    plant(tree, "/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n")
    plant(tree, "/sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n")
    capture = look(files("/sys/class/infiniband/*/ports/*/state"), tree)
    assert capture.outcome is Outcome.DONE
    assert capture.files == {
        "/sys/class/infiniband/mlx5_0/ports/1/state": FileCapture(Outcome.DONE, "4: ACTIVE\n"),
        "/sys/class/infiniband/mlx5_1/ports/1/state": FileCapture(Outcome.DONE, "1: DOWN\n"),
    }
    assert capture.bytes == 18


def test_a_named_file_that_is_not_there_is_an_entry_and_a_pattern_that_matches_nothing_is_none(
    tree: Path,
) -> None:
    plant(tree, "/sys/a/b", "x")
    capture = look(files("/sys/module/nvidia/version", "/sys/a/b/c", "/sys/a/*/c", "/sys/none/*"), tree)
    assert capture.files == {
        "/sys/module/nvidia/version": FileCapture(Outcome.MISSING),
        "/sys/a/b/c": FileCapture(Outcome.MISSING),
    }


def test_patterns_follow_links_and_leave_hidden_names_alone(tree: Path) -> None:
    plant(tree, "/sys/devices/pci0/uevent", "PCI_ID=1\n")
    plant(tree, "/sys/bus/.hidden/uevent", "no")
    (tree / "sys/bus/0000:00:01.0").symlink_to("../devices/pci0")
    capture = look(files("/sys/bus/*/uevent", "/sys/bus/0000:0?:0[12].0/uevent"), tree)
    assert capture.files == {"/sys/bus/0000:00:01.0/uevent": FileCapture(Outcome.DONE, "PCI_ID=1\n")}


@needs_root
def test_what_may_not_be_read_or_listed_is_denied_and_not_absent(tree: Path) -> None:
    plant(tree, "/proc/secret", "x").chmod(0)
    plant(tree, "/sys/closed/a/state", "x")
    (tree / "sys/closed").chmod(0o711)
    capture = look(files("/proc/secret", "/sys/closed/*/state"), tree, **as_no_one(tree))
    assert capture.outcome is Outcome.DONE
    assert capture.files == {"/proc/secret": FileCapture(Outcome.DENIED),
                             "/sys/closed": FileCapture(Outcome.DENIED)}


def test_pipes_sockets_folders_and_devices_are_not_opened(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    (tree / "folder").mkdir()
    (tree / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tree / "socket"))
        capture = look(files("/pipe", "/folder", "/zero", "/socket"), tree)
    assert set(capture.files.values()) == {FileCapture(Outcome.CRASHED, "not a regular file")}
    assert len(capture.files) == 4


def test_an_error_of_the_device_is_reported_by_its_name(tmp_path: Path) -> None:
    capture = look(files("/proc/self/mem"), Path("/"))
    assert capture.files == {"/proc/self/mem": FileCapture(Outcome.CRASHED, "EIO")}


def test_past_its_limit_a_file_is_cut_and_reports_it(tree: Path) -> None:
    plant(tree, "/log", b"0123456789" * 1000)
    capture = look(files("/log", limit=1000), tree)
    assert capture.outcome is Outcome.TRUNCATED
    assert capture.files["/log"].outcome is Outcome.TRUNCATED
    assert (("0123456789" * 1000).startswith(capture.files["/log"].text)
            and 900 < len(capture.files["/log"].text) <= 1000)


def test_a_file_of_exactly_the_limit_is_whole(tree: Path) -> None:
    plant(tree, "/log", b"x" * (1000 - len("/log")))
    capture = look(files("/log", limit=1000), tree)
    assert (capture.outcome, capture.files["/log"].outcome) == (Outcome.DONE, Outcome.DONE)


def test_the_tail_of_a_log_begins_with_a_whole_line(tree: Path) -> None:
    lines = [f"6,{number},{number},-;line {number}\n" for number in range(2000)]
    plant(tree, "/dev/kmsg", "".join(lines))
    capture = look(files("/dev/kmsg", limit=1000, tail=True), tree)
    kept = capture.files["/dev/kmsg"]
    assert (capture.outcome, kept.outcome) == (Outcome.TRUNCATED, Outcome.TRUNCATED)
    assert kept.text.endswith(lines[-1]) and kept.text.splitlines(keepends=True)[0] in lines
    assert 900 < len(kept.text) <= 1000


def test_files_beyond_the_probes_bytes_are_not_left_out_silently(tree: Path) -> None:
    for number in range(100):
        plant(tree, f"/sys/{number:03}", b"x" * 100)
    capture = look(files("/sys/*", limit=2000), tree)
    assert capture.outcome is Outcome.TRUNCATED
    assert 0 < len(capture.files) < 100
    assert all(entry == FileCapture(Outcome.DONE, "x" * 100) for entry in list(capture.files.values())[:-1])


def test_bytes_that_are_not_text_survive(tree: Path) -> None:
    hostile = b"\xff\xfe\x00\x1b[31m\xed\xa0\x80\r\nmuster:0000:frame 3 " + b"0" * 64 + b"\nabc"
    plant(tree, "/hostile", hostile)
    assert look(files("/hostile"), tree).files["/hostile"].text.encode("utf-8", "surrogateescape") == hostile


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="the kernel log may not be read here")
def test_the_kernels_log_is_read_record_by_record_to_its_end() -> None:
    shown = subprocess.run(["dmesg", "-r"], capture_output=True, check=True).stdout
    entry = look(Probe("it", ProbeKind.FILES, paths=("/dev/kmsg",), limit=64 * MIB, tail=True),
                 Path("/")).files["/dev/kmsg"]
    assert entry.outcome is Outcome.DONE
    records = [line for line in entry.text.splitlines() if not line.startswith(" ")]
    assert records and all(line.split(";")[0].count(",") >= 3 for line in records)
    # The log is a ring: while both are read, old records may go and new ones come.
    read = [int(line.split(",")[2]) for line in records]
    stamps = {int(seconds) * 1_000_000 + int(micros) for seconds, micros in re.findall(
        rb"^<\d+>\[ *(\d+)\.(\d{6})\]", shown, re.MULTILINE)}
    assert stamps and {stamp for stamp in stamps if stamp >= read[0]} <= set(read)


def test_a_probe_out_of_time_keeps_what_it_has(tree: Path) -> None:
    for number in range(50):
        plant(tree, f"/sys/{number:03}", b"x")
    capture = look(Probe("it", ProbeKind.FILES, paths=("/sys/*",), seconds=0.0), tree)
    assert capture.outcome is Outcome.TIMEOUT
    assert len(capture.files) < 50


# Mounts and the clock

def mount_line(point: str, kind: str, number: int = 1) -> str:
    return f"{number} 0 0:1 / {point} rw,relatime shared:1 - {kind} none rw\n"


def test_each_mount_that_holds_data_has_its_figures(tree: Path) -> None:
    (tree / "data one").mkdir()
    plant(tree, MOUNTINFO, mount_line("/", "ext4") + mount_line("/data\\040one", "xfs") + mount_line(
        "/sys", "sysfs") + mount_line("/gone", "nfs"))
    capture = look(Probe("it", ProbeKind.MOUNTS, skip=("sysfs",)), tree)
    assert capture.outcome is Outcome.DONE
    assert list(capture.files) == [MOUNTINFO, "/", "/data one", "/gone"]
    assert capture.files["/gone"] == FileCapture(Outcome.MISSING)
    figures = [int(word) for word in capture.files["/data one"].text.split()]
    found = os.statvfs(tree)
    assert len(figures) == 10
    assert figures[:3] == [found.f_bsize, found.f_frsize, found.f_blocks] and figures[9] == found.f_namemax


def test_of_mounts_stacked_at_one_point_only_the_topmost_counts(tree: Path) -> None:
    (tree / "a").mkdir()
    (tree / "b").mkdir()
    plant(tree, MOUNTINFO, mount_line("/a", "ext4") + mount_line("/b", "sysfs") + mount_line(
        "/a", "sysfs") + mount_line("/b", "ext4"))
    assert list(look(Probe("it", ProbeKind.MOUNTS, skip=("sysfs",)), tree).files) == [MOUNTINFO, "/b"]


def test_a_mount_with_a_hostile_name_is_one_mount(tree: Path) -> None:
    name = b"caf\xe9\xe2\x80\xa8x"
    (tree / os.fsdecode(name)).mkdir()
    plant(tree, MOUNTINFO, mount_line("/", "ext4").encode() + b"2 1 0:2 / /" + name + b" rw - ext4 none rw\n")
    capture = look(Probe("it", ProbeKind.MOUNTS), tree)
    assert capture.files["/" + name.decode("utf-8", "surrogateescape")].outcome is Outcome.DONE


def test_too_many_mounts_are_truncated_and_not_forgotten(tree: Path) -> None:
    plant(tree, MOUNTINFO,
          "".join(mount_line(f"/m{number}", "ext4") for number in range(reader.MOST_MOUNTS + 1)))
    capture = look(Probe("it", ProbeKind.MOUNTS, limit=8 * MIB), tree)
    assert capture.outcome is Outcome.TRUNCATED
    assert len(capture.files) == reader.MOST_MOUNTS + 1


def test_the_kernels_clock_answers_with_its_state(tree: Path) -> None:
    capture = look(Probe("it", ProbeKind.CLOCK), tree)
    clock = json.loads(capture.text)
    assert capture.outcome is Outcome.DONE
    assert set(clock) == {"state", "status", "offset", "maxerror", "esterror", "tai"}
    # STA_UNSYNC, which only adjtimex(2) itself changes, and TIME_ERROR go together.
    assert 0 <= clock["state"] <= 5 and (clock["state"] == 5 or not clock["status"] & 0x40)
    assert clock["maxerror"] >= 0 and -1000 < clock["tai"] < 1000


# Processes

def task(tree: Path, pid: int, state: str, name: str = "python3", **more: str) -> None:
    plant(tree, f"/proc/{pid}/stat",
          f"{pid} ({name}) {state} 1 1 1 0 -1 4194560 0 0 0 0 12 31 0 0 20 0 1 0 {100 + pid} 0 0\n")
    for file, text in more.items():
        plant(tree, f"/proc/{pid}/{file}", text)


def test_processes_are_counted_and_those_that_sleep_for_good_or_were_not_waited_for_are_kept(
    tree: Path,
) -> None:
    task(tree, 1, "S", "systemd")
    task(tree, 7, "D", "a) Z (b", status="voluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n",
         wchan="io_schedule")
    task(tree, 8, "Z", "sh")
    task(tree, 9, "S", "slurmd", limits="Max open files  1 1 files\n")
    task(tree, 10, "D", status="Name: x\n")
    task(tree, 11, "D")     # ended before it was looked at closely
    plant(tree, "/proc/12/stat", "12 (cut")
    capture = look(Probe("it", ProbeKind.PROCESSES, argv=("slurmd",)), tree)
    document = json.loads(capture.text)
    assert capture.outcome is Outcome.DONE
    assert document["states"] == {"S": 2, "D": 2, "Z": 1} and document["hidden"] is False
    assert sorted(document["processes"]) == [[7, "D", 107, 42, "a) Z (b"], [8, "Z", 108, -1, "sh"],
                                             [10, "D", 110, -1, "python3"]]
    assert document["waits"] == {"7": "io_schedule", "10": ""}
    assert document["limits"] == [[9, "slurmd", "Max open files  1 1 files\n"]]


def test_of_very_many_processes_of_one_state_only_the_first_are_kept_and_all_are_counted(tree: Path) -> None:
    for pid in range(1, reader.MOST_TASKS + 3):
        task(tree, pid, "Z")
    document = json.loads(look(Probe("it", ProbeKind.PROCESSES), tree).text)
    assert (document["states"]["Z"], len(document["processes"])) == (reader.MOST_TASKS + 2, reader.MOST_TASKS)


def test_where_the_first_process_cannot_be_seen_others_are_hidden_too(tree: Path) -> None:
    task(tree, 4711, "S")
    assert json.loads(look(Probe("it", ProbeKind.PROCESSES), tree).text)["hidden"] is True


def test_who_has_which_process_is_read_with_its_group_but_no_kernel_thread_and_no_zombie(tree: Path) -> None:
    uid = "Name:\tx\nUid:\t%d\t0\t0\t0\nHugetlbPages:\t    2048 kB\n"
    task(tree, 1, "S", "systemd", status=uid % 0, cgroup="0::/init.scope\n")
    task(tree, 9, "R", "a) (b", status=uid % 1001, cgroup="0::/system.slice/slurmstepd.scope/job_7/step_0\n")
    task(tree, 10, "S", "a) (b", status="Uid:\t1001\n",
         cgroup="0::/system.slice/slurmstepd.scope/job_7/step_0\n")
    task(tree, 11, "Z", status=uid % 1001)
    task(tree, 12, "S")     # ended before its owner was read
    plant(tree, "/proc/13/stat",
          f"13 (kswapd0) S 2 0 0 0 -1 {4194560 | 0x00200000} 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n")
    plant(tree, "/proc/uptime", "100.5 3.0\n")
    document = json.loads(look(Probe("it", ProbeKind.OWNERS), tree).text)
    assert document == {
        "processes": [[1, 1, 0, 101, 2048, 0, 0], [9, 1, 1001, 109, 2048, 1, 1], [10, 1, 1001, 110, 0, 1, 1]],
        "names": ["systemd", "a) (b"],
        "cgroups": ["", "0::/system.slice/slurmstepd.scope/job_7/step_0\n"], "more": 0,
        "own": [], "uptime": "100.5 3.0\n", "hidden": False, "strange": False}


def test_of_the_real_machines_processes_this_program_and_what_started_it_are_told_apart() -> None:
    document = json.loads(collect([Probe("it", ProbeKind.OWNERS)], None, seconds=20).captures["it"].text)
    numbers = {row[0] for row in document["processes"]}
    assert {1, os.getpid()} <= numbers and os.getpid() in document["own"] and 1 not in document["own"]
    assert document["hidden"] is False


# Commands

def test_a_command_runs_without_a_shell_input_or_foreign_locale(tree: Path) -> None:
    script = ("import os,sys; print(os.getcwd(), sys.stdin.read()=='', os.environ['LC_ALL'], "
              "os.environ['LANG'], os.getsid(0)==os.getpid())")
    capture = look(command("/usr/bin/python3", "-c", script, "$(id)"), tree)
    assert (capture.outcome, capture.exit, capture.text) == (Outcome.DONE, 0, "/ True C C True\n")


def test_a_command_is_found_where_administrators_tools_are(tree: Path) -> None:
    assert look(command("ldconfig", "--version"), tree, env={"PATH": "/usr/bin:/bin"}).outcome is Outcome.DONE


def test_a_commands_exit_status_and_complaint_are_kept(tree: Path) -> None:
    capture = look(command("sh", "-c", "echo out; echo err >&2; exit 3"), tree)
    assert (capture.outcome, capture.exit, capture.text, capture.stderr) == (
        Outcome.DONE, 3, "out\n", "err\n")
    assert capture.bytes == 4


def test_a_command_that_is_not_there_is_missing(tree: Path) -> None:
    capture = look(command("no-such-program"), tree)
    assert (capture.outcome, capture.exit) == (Outcome.MISSING, None)


@needs_root
def test_a_command_that_we_may_not_run_is_denied(tree: Path) -> None:
    plant(tree, "/tool", "#!/bin/sh\n")
    assert look(command(str(tree / "tool")), tree, **as_no_one(tree)).outcome is Outcome.DENIED


def test_a_file_that_is_no_program_is_crashed_with_the_reason(tree: Path) -> None:
    plant(tree, "/tool", b"\x00\x01").chmod(0o755)
    capture = look(command(str(tree / "tool")), tree)
    assert (capture.outcome, capture.note) == (Outcome.CRASHED, "ENOEXEC")


def test_a_command_that_a_signal_ended_is_crashed(tree: Path) -> None:
    capture = look(command("sh", "-c", "kill -SEGV $$"), tree)
    assert (capture.outcome, capture.exit) == (Outcome.CRASHED, -11)


def test_a_command_past_its_time_is_killed_with_all_that_it_started(tree: Path) -> None:
    began = time.monotonic()
    capture = look(command("sh", "-c", "echo begun; (timeout 1000 sleep 1000) & sleep 1000", seconds=0.3),
                   tree)
    assert (capture.outcome, capture.exit, capture.text) == (Outcome.TIMEOUT, None, "begun\n")
    assert time.monotonic() - began < 30
    await_none_with(str(tree))


def test_what_a_command_leaves_behind_in_the_background_ends_with_it(tree: Path) -> None:
    capture = look(command("sh", "-c", "sleep 1000 & echo started"), tree)
    assert (capture.outcome, capture.text) == (Outcome.DONE, "started\n")
    await_none_with(str(tree))


@pytest.mark.parametrize("tool",
                         ["yes", "cat /dev/zero", "trap '' XFSZ; while :; do echo yes || exit 1; done"])
def test_a_flood_of_output_is_cut_at_the_limit(tree: Path, tool: str) -> None:
    capture = look(command("sh", "-c", tool, limit=100_000), tree)
    assert capture.outcome is Outcome.TRUNCATED
    assert len(capture.text) == 100_000 and 100_000 < capture.bytes <= MIB


def test_output_somewhat_over_the_limit_keeps_the_exit_status_and_the_chosen_end(tree: Path) -> None:
    show = ("sh", "-c", "seq 1 20000; exit 4")
    first, last = look(command(*show, limit=1000), tree), look(command(*show, limit=1000, tail=True), tree)
    assert (first.outcome, first.exit, last.outcome) == (Outcome.TRUNCATED, 4, Outcome.TRUNCATED)
    assert first.text.startswith("1\n2\n") and last.text.endswith("19999\n20000\n") and len(last.text) == 1000


def test_output_of_exactly_the_limit_is_whole(tree: Path) -> None:
    capture = look(command("printf", "%01000d", "7", limit=1000), tree)
    assert (capture.outcome, capture.bytes) == (Outcome.DONE, 1000)


def test_a_flood_of_complaints_leaves_its_last_words(tree: Path) -> None:
    capture = look(command("sh", "-c", "seq 1 20000 >&2; echo end >&2"), tree)
    assert capture.outcome is Outcome.DONE
    assert capture.stderr.endswith("20000\nend\n") and len(capture.stderr) == 4096


def test_at_most_two_commands_run_at_a_time(tree: Path) -> None:
    script = f"echo + >> {tree}/log; sleep 0.2; echo - >> {tree}/log"
    probes = [Probe(f"c{number}", ProbeKind.COMMAND, argv=("sh", "-c", script)) for number in range(5)]
    collect(probes, tree)
    running = peak = 0
    for mark in (tree / "log").read_text().split():
        running += 1 if mark == "+" else -1
        peak = max(peak, running)
    assert peak == 2


def test_a_node_out_of_time_reports_it_for_each_probe(tree: Path) -> None:
    probes = [Probe(f"c{number}", ProbeKind.COMMAND, argv=("sleep", "1000"), seconds=30)
              for number in range(4)]
    began = time.monotonic()
    recording = collect([*probes, files("/none")], tree, seconds=0.5)
    assert time.monotonic() - began < 20
    assert {name: capture.outcome for name, capture in recording.captures.items()
            if name != "it"} == dict.fromkeys(("c0", "c1", "c2", "c3"), Outcome.TIMEOUT)
    assert [recording.captures[name].note for name in ("c2", "c3")] == ["its turn never came"] * 2
    assert recording.captures["it"].outcome is Outcome.DONE


# The answer

def test_the_host_is_described_as_it_is_below_the_root(tree: Path) -> None:
    plant(tree, "/proc/sys/kernel/hostname", "gpu007\n")
    plant(tree, "/proc/sys/kernel/random/boot_id", "b007\n")
    before = time.time()
    host = collect([], tree).host
    assert host is not None
    assert (host.hostname, host.boot_id, host.uid, host.machine) == (
        "gpu007", "b007", os.geteuid(), os.uname().machine)
    assert before <= host.time <= time.time() and 0 < host.cpu_s < 5
    assert host.python.startswith("3.")


def test_without_a_hostname_file_the_kernel_is_asked(tree: Path) -> None:
    host = collect([], tree).host
    assert host is not None
    assert (host.hostname, host.boot_id) == (os.uname().nodename, "")


def test_an_answer_over_its_limit_gives_up_the_largest_captures_and_reports_it(tree: Path) -> None:
    plant(tree, "/small", b"small")
    plant(tree, "/large", "".join(f"{number} \u00fc\n" for number in range(200_000)))
    probes = [
        Probe("large", ProbeKind.FILES, paths=("/large",), limit=4 * MIB, tail=True),
        Probe("more", ProbeKind.COMMAND, argv=("seq", "200000"), limit=4 * MIB),
        Probe("small", ProbeKind.FILES, paths=("/small",)),
    ]
    recording = collect(probes, tree, reply_bytes=MIB)
    assert recording.captures["small"].files["/small"] == FileCapture(Outcome.DONE, "small")
    large = recording.captures["large"]
    assert (large.outcome, large.files["/large"].outcome) == (Outcome.TRUNCATED, Outcome.TRUNCATED)
    assert (large.files["/large"].text.endswith("\n199999 \u00fc\n")
            and large.files["/large"].text[0].isdigit())
    assert (recording.captures["more"].outcome is Outcome.TRUNCATED
            and recording.captures["more"].text.startswith("1\n2\n"))


def test_fitting_ends_whatever_the_limit_and_claims_nothing_whole_that_was_cut() -> None:
    def captures() -> dict[str, dict[str, object]]:
        return {
            "a": {"outcome": "done", "seconds": 0.0, "bytes": 3, "text": "\udcff" * 3000, "note": "n" * 3000},
            "b": {"outcome": "done", "seconds": 0.0, "bytes": 3,
                  "files": {f"/{number}": ["done", "x" * 50] for number in range(100)}},
        }

    whole = captures()
    for limit in (-5, 0, 100, 1000, 5000, 20_000, 10**6):
        made = answer.fit(captures(), limit, {"a"})
        for name, capture in made.items():
            assert capture == whole[name] or capture["outcome"] == "truncated"
            for path, entry in capture.get("files", {}).items():
                assert entry == whole[name]["files"][path] or entry[0] == "truncated"  # type: ignore[index]
        if limit >= 1000:
            assert len(json.dumps(made)) <= limit + 100


# Where it runs

@pytest.mark.parametrize("path", [*COLLECTOR, Path(nvml.__file__)], ids=lambda path: path.stem)
def test_what_runs_on_a_node_can_be_read_by_python_3_8(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    imports = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imports <= set(sys.stdlib_module_names)
