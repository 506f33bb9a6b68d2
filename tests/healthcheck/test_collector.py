"""What the collector captures, and how it says what it could not: the real program against trees of files and small tools."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from healthcheck.probes import KIB, MIB, Kind, Probe
from healthcheck.recording import Capture, Outcome, Recording
from tests.testbed.collector import collect, running

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def write(root: Path, path: str, text: str | bytes = "x\n") -> Path:
    file = root / path.strip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def tool(root: Path, name: str, script: str) -> None:
    file = write(root, f"/usr/sbin/{name}", f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def files(root: Path, *paths: str, limit: int = 256 * KIB, tail: bool = False) -> Capture:
    return only(collect([Probe("p", Kind.FILES, paths=paths, limit=limit, tail=tail)], root))


def command(root: Path, *argv: str, seconds: float = 5.0, limit: int = 256 * KIB, tail: bool = False) -> Capture:
    return only(collect([Probe("p", Kind.COMMAND, argv=argv, seconds=seconds, limit=limit, tail=tail)], root))


def only(recording: Recording) -> Capture:
    assert list(recording.captures) == ["p"]
    return recording.captures["p"]


def seen(capture: Capture) -> dict[str, tuple[str, str]]:
    return {path: (entry.outcome.value, entry.text) for path, entry in capture.files.items()}


# Files

def test_a_file_is_read_whole_and_reported_without_the_prefix(tmp_path: Path) -> None:
    write(tmp_path, "/proc/meminfo", "MemTotal: 1 kB\n")
    capture = files(tmp_path, "/proc/meminfo")
    assert capture.outcome is Outcome.DONE and capture.bytes == 15
    assert seen(capture) == {"/proc/meminfo": ("done", "MemTotal: 1 kB\n")}


def test_wildcards_in_any_part_name_every_match_in_order(tmp_path: Path) -> None:
    for device in ("mlx5_10", "mlx5_2", "bnxt0"):
        for port in ("1", "2"):
            write(tmp_path, f"/sys/class/infiniband/{device}/ports/{port}/state", f"{device}/{port}")
    capture = files(tmp_path, "/sys/class/infiniband/mlx5_*/ports/?/state")
    assert [text for _, text in seen(capture).values()] == ["mlx5_10/1", "mlx5_10/2", "mlx5_2/1", "mlx5_2/2"]


def test_symbolic_links_are_followed_as_sysfs_needs(tmp_path: Path) -> None:
    write(tmp_path, "/sys/devices/pci0000:00/0000:18:00.0/uevent", "PCI_ID=10DE:2330")
    link = tmp_path / "sys/bus/pci/devices/0000:18:00.0"
    link.parent.mkdir(parents=True)
    link.symlink_to("../../../devices/pci0000:00/0000:18:00.0")
    assert seen(files(tmp_path, "/sys/bus/pci/devices/*/uevent")) == {
        "/sys/bus/pci/devices/0000:18:00.0/uevent": ("done", "PCI_ID=10DE:2330"),
    }


def test_a_literal_path_that_is_not_there_is_missing(tmp_path: Path) -> None:
    capture = files(tmp_path, "/proc/swaps")
    assert capture.outcome is Outcome.DONE
    assert seen(capture) == {"/proc/swaps": ("missing", "")}


def test_a_wildcard_that_matches_nothing_gives_no_entry(tmp_path: Path) -> None:
    (tmp_path / "sys/class/infiniband").mkdir(parents=True)
    capture = files(tmp_path, "/sys/class/infiniband/*/fw_ver", "/sys/nothing/*/x")
    assert capture.outcome is Outcome.DONE and not capture.files


def test_a_file_that_one_of_several_devices_lacks_is_missing_there(tmp_path: Path) -> None:
    write(tmp_path, "/sys/class/infiniband/mlx5_0/fw_ver", "28")
    write(tmp_path, "/sys/class/infiniband/mlx5_1/board_id", "MT")
    assert seen(files(tmp_path, "/sys/class/infiniband/*/fw_ver")) == {
        "/sys/class/infiniband/mlx5_0/fw_ver": ("done", "28"), "/sys/class/infiniband/mlx5_1/fw_ver": ("missing", ""),
    }


def test_a_file_among_folders_is_not_taken_for_a_device(tmp_path: Path) -> None:
    write(tmp_path, "/sys/class/net/eth0/operstate", "up")
    write(tmp_path, "/sys/class/net/bonding_masters", "")
    assert list(files(tmp_path, "/sys/class/net/*/operstate").files) == ["/sys/class/net/eth0/operstate"]


@root_only
def test_a_folder_that_may_not_be_listed_is_an_entry_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, "/sys/class/secret/a/state")
    write(tmp_path, "/sys/class/closed", "x").chmod(0o600)
    (tmp_path / "sys/class/secret").chmod(0o700)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    probe = Probe("p", Kind.FILES, paths=("/sys/class/secret/*/state", "/sys/class/closed"))
    capture = only(collect([probe], tmp_path, before=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")))
    assert capture.outcome is Outcome.DONE
    assert seen(capture) == {"/sys/class/secret": ("denied", ""), "/sys/class/closed": ("denied", "")}


def test_bytes_that_are_not_utf_8_survive(tmp_path: Path) -> None:
    write(tmp_path, "/proc/x", b"\xff\xfe\x00 \x1b[31m \xc3\xa9")
    text = seen(files(tmp_path, "/proc/x"))["/proc/x"][1]
    assert text.encode("utf-8", "surrogateescape") == b"\xff\xfe\x00 \x1b[31m \xc3\xa9"


def test_a_name_that_is_not_utf_8_or_holds_a_newline_survives(tmp_path: Path) -> None:
    os.makedirs(os.fsencode(tmp_path) + b"/sys/\xff\n")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/sys/\xff\n")) / "state").write_text("1")
    assert seen(files(tmp_path, "/sys/*/state")) == {"/sys/\udcff\n/state": ("done", "1")}


def test_past_the_limit_the_beginning_is_kept_and_the_rest_said_to_be_dropped(tmp_path: Path) -> None:
    write(tmp_path, "/a", "a" * 600)
    write(tmp_path, "/b", "b" * 600)
    capture = files(tmp_path, "/a", "/b", limit=1000)
    assert capture.outcome is Outcome.TRUNCATED and capture.bytes == 1000
    assert seen(capture) == {"/a": ("done", "a" * 600), "/b": ("truncated", "b" * 400)}


def test_a_file_of_exactly_the_limit_is_whole(tmp_path: Path) -> None:
    write(tmp_path, "/a", "a" * 1000)
    for tail in (False, True):
        capture = files(tmp_path, "/a", limit=1000, tail=tail)
        assert capture.outcome is Outcome.DONE and len(capture.files["/a"].text) == 1000


def test_of_a_log_the_end_is_kept(tmp_path: Path) -> None:
    write(tmp_path, "/var/log/x", "".join(f"line {n}\n" for n in range(100_000)))
    entry = files(tmp_path, "/var/log/x", limit=1000, tail=True).files["/var/log/x"]
    assert entry.outcome is Outcome.TRUNCATED
    assert len(entry.text) == 1000 and entry.text.endswith("line 99999\n")


def test_pipes_devices_and_folders_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "null").symlink_to("/dev/null")
    capture = files(tmp_path, "/pipe", "/folder", "/null")
    assert set(seen(capture).values()) == {("crashed", "not a regular file")}


def test_an_attribute_that_cannot_be_read_names_the_error(tmp_path: Path) -> None:
    # /proc/self/mem is a regular file whose first page cannot be read: EIO, as from an attribute of a broken device.
    (tmp_path / "broken").symlink_to("/proc/self/mem")
    assert seen(files(tmp_path, "/broken")) == {"/broken": ("crashed", "EIO")}


def test_a_path_named_by_two_patterns_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, "/sys/a/b", "12345")
    assert files(tmp_path, "/sys/a/b", "/sys/*/b").bytes == 5


@root_only
def test_the_kernel_log_is_read_to_its_end_and_not_waited_for() -> None:
    capture = only(collect([Probe("p", Kind.FILES, paths=("/dev/kmsg",), limit=4 * MIB, tail=True)]))
    text = capture.files["/dev/kmsg"].text
    assert capture.outcome is Outcome.DONE and capture.seconds < 3
    assert text.endswith("\n") and ";" in text.splitlines()[0]


# Mounts and the clock

MOUNTINFO = (
    "22 1 259:2 / / rw,relatime - ext4 /dev/root rw\n"
    "23 22 0:21 / /proc rw - proc proc rw\n"
    "24 22 0:22 / /with\\040blank rw - xfs /dev/sdb rw\n"
    "25 22 0:23 / /gone rw - xfs /dev/sdc rw\n"
    "26 22 0:24 / /twice rw - xfs /dev/sdd rw\n"
    "27 26 0:25 / /twice rw - proc none rw\n"
    "nonsense\n"
)


def test_each_mount_that_holds_data_is_measured_once_and_the_others_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, "/proc/self/mountinfo", MOUNTINFO)
    (tmp_path / "with blank").mkdir()
    (tmp_path / "twice").mkdir()
    capture = only(collect([Probe("p", Kind.MOUNTS, skip=("proc",))], tmp_path))
    assert capture.outcome is Outcome.DONE
    assert {path: entry.outcome.value for path, entry in capture.files.items()} == {
        "/proc/self/mountinfo": "done", "/": "done", "/with blank": "done", "/gone": "missing",
    }
    assert capture.files["/proc/self/mountinfo"].text == MOUNTINFO
    figures = [int(word) for word in capture.files["/"].text.split()]
    here = os.statvfs(tmp_path)
    assert len(figures) == 10
    assert (figures[1], figures[2], figures[5], figures[9]) == (here.f_frsize, here.f_blocks, here.f_files, here.f_namemax)


def test_without_a_table_of_mounts_nothing_is_measured(tmp_path: Path) -> None:
    assert seen(only(collect([Probe("p", Kind.MOUNTS)], tmp_path))) == {"/proc/self/mountinfo": ("missing", "")}


def test_the_clock_is_read_and_not_changed() -> None:
    capture = only(collect([Probe("p", Kind.CLOCK)]))
    document = json.loads(capture.text)
    assert capture.outcome is Outcome.DONE
    assert set(document) == {"state", "status", "offset", "maxerror", "esterror", "tai"}
    assert 0 <= document["state"] <= 5 and 0 <= document["maxerror"] <= 16_000_000


# Commands

def test_a_command_is_run_without_a_shell_in_the_c_locale_from_the_root_folder(tmp_path: Path) -> None:
    tool(tmp_path, "show", 'printf "%s|" "$@" "$LC_ALL" "$LANG" "$PWD"; cat; echo "to stderr" >&2')
    capture = command(tmp_path, "show", "$HOME", "a b", "*")
    assert (capture.outcome, capture.exit, capture.stderr) == (Outcome.DONE, 0, "to stderr\n")
    assert capture.text == "$HOME|a b|*|C|C|/|"
    assert capture.bytes == len(capture.text)


def test_a_command_that_fails_is_done_with_its_exit_status(tmp_path: Path) -> None:
    tool(tmp_path, "fails", "echo part; exit 9")
    capture = command(tmp_path, "fails")
    assert (capture.outcome, capture.exit, capture.text) == (Outcome.DONE, 9, "part\n")


def test_a_program_that_is_not_there_is_missing(tmp_path: Path) -> None:
    capture = command(tmp_path, "no-such-program")
    assert (capture.outcome, capture.exit, capture.text) == (Outcome.MISSING, None, "")


def test_a_program_that_may_not_be_executed_is_denied(tmp_path: Path) -> None:
    tool(tmp_path, "closed", "echo no")
    (tmp_path / "usr/sbin/closed").chmod(0o644)
    assert command(tmp_path, "closed").outcome is Outcome.DENIED


def test_a_program_of_another_format_is_crashed_with_the_error(tmp_path: Path) -> None:
    write(tmp_path, "/usr/sbin/odd", b"\x7fELFnot").chmod(0o755)
    capture = command(tmp_path, "odd")
    assert (capture.outcome, capture.note) == (Outcome.CRASHED, "ENOEXEC")


def test_a_program_that_a_signal_ends_is_crashed(tmp_path: Path) -> None:
    tool(tmp_path, "dies", "echo part; kill -SEGV $$")
    capture = command(tmp_path, "dies")
    assert (capture.outcome, capture.exit) == (Outcome.CRASHED, -11)


def test_a_command_past_its_time_is_killed_with_all_its_children(tmp_path: Path) -> None:
    tool(tmp_path, "hangs", "echo part; sleep 1000 & timeout 1000 sleep 1000; echo never")
    capture = command(tmp_path, "hangs", seconds=0.5)
    assert capture.outcome is Outcome.TIMEOUT and capture.text == "part\n"
    assert 0.5 <= capture.seconds < 2


def test_a_child_that_a_command_leaves_behind_is_killed_and_not_waited_for(tmp_path: Path) -> None:
    tool(tmp_path, "leaves", "sleep 1000 & echo $!")
    capture = command(tmp_path, "leaves", seconds=10)
    assert capture.outcome is Outcome.DONE and capture.seconds < 5
    state = subprocess.run(["ps", "-o", "stat=", "-p", capture.text.strip()], capture_output=True, text=True, check=False).stdout
    assert state == "" or state.startswith("Z")


@pytest.mark.parametrize("script", ["yes", "trap '' XFSZ; while :; do echo 0123456789012345678901234567890; done", "yes >&2"])
def test_a_flood_of_output_is_cut_and_its_writer_ended(tmp_path: Path, script: str) -> None:
    tool(tmp_path, "floods", script)
    capture = command(tmp_path, "floods", limit=64 * KIB, seconds=1.0)
    assert capture.outcome is Outcome.TRUNCATED and capture.seconds < 3
    assert len(capture.text) <= 64 * KIB and len(capture.stderr) <= 4 * KIB


def test_output_of_exactly_the_limit_is_whole(tmp_path: Path) -> None:
    tool(tmp_path, "prints", "head -c 70000 /dev/zero")
    assert command(tmp_path, "prints", limit=70_000).outcome is Outcome.DONE
    capture = command(tmp_path, "prints", limit=69_999)
    assert capture.outcome is Outcome.TRUNCATED and len(capture.text) == 69_999


def test_of_a_long_standard_error_the_end_is_kept(tmp_path: Path) -> None:
    tool(tmp_path, "complains", "seq 10000 >&2")
    capture = command(tmp_path, "complains")
    assert capture.outcome is Outcome.DONE
    assert len(capture.stderr) == 4096 and capture.stderr.endswith("10000\n")


def test_no_more_than_two_commands_run_at_a_time(tmp_path: Path) -> None:
    tool(tmp_path, "counts", f"mkdir {tmp_path}/at-$$; ls -d {tmp_path}/at-* | wc -l; sleep 0.3; rmdir {tmp_path}/at-$$")
    recording = collect([Probe(f"c{n}", Kind.COMMAND, argv=("counts",)) for n in range(5)], tmp_path)
    assert sorted(int(capture.text) for capture in recording.captures.values())[-1] == 2


def test_what_is_not_reached_in_the_time_for_all_is_a_timeout_and_what_was_done_stands(tmp_path: Path) -> None:
    tool(tmp_path, "hangs", "sleep 1000")
    write(tmp_path, "/a", "x")
    probes = [Probe(f"c{n}", Kind.COMMAND, argv=("hangs",), seconds=100.0) for n in range(4)]
    recording = collect([*probes, Probe("f", Kind.FILES, paths=("/a",))], tmp_path, seconds=1.0)
    assert recording.captures["f"].outcome is Outcome.DONE
    assert {recording.captures[probe.id].outcome for probe in probes} == {Outcome.TIMEOUT}
    assert recording.captures["c3"].note == "not started in the time for all probes"


# The answer

def test_the_answer_says_where_it_comes_from(tmp_path: Path) -> None:
    write(tmp_path, "/proc/sys/kernel/random/boot_id", "b007\n")
    write(tmp_path, "/proc/sys/kernel/hostname", "gpu007\n")
    host = collect([], tmp_path).host
    assert host is not None
    assert (host.hostname, host.boot_id, host.uid, host.machine) == ("gpu007", "b007", os.geteuid(), os.uname().machine)
    assert 0 < host.cpu_s < 5


def test_an_answer_over_its_limit_is_cut_where_it_is_longest_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, "/big", "b" * 150_000)
    write(tmp_path, "/log", "".join(f"{n}\n" for n in range(30_000)))
    write(tmp_path, "/small", "s" * 100)
    probes = [
        Probe("big", Kind.FILES, paths=("/big", "/small")), Probe("log", Kind.FILES, paths=("/log",), tail=True),
        Probe("small", Kind.FILES, paths=("/small",)),
    ]
    recording = collect(probes, tmp_path, reply_bytes=50_000)
    big, log, small = (recording.captures[name] for name in ("big", "log", "small"))
    assert big.outcome is log.outcome is Outcome.TRUNCATED
    assert big.files["/big"].outcome is log.files["/log"].outcome is Outcome.TRUNCATED
    assert log.files["/log"].text.endswith("29999\n")
    assert "limit" in big.note and "limit" in log.note
    assert big.files["/small"].text == "s" * 100
    assert small.outcome is Outcome.DONE and small.note == ""


def test_an_answer_of_too_many_entries_loses_them_and_says_so(tmp_path: Path) -> None:
    for n in range(300):
        write(tmp_path, f"/sys/{n}/state", "1")
    recording = collect([Probe("p", Kind.FILES, paths=("/sys/*/state",))], tmp_path, reply_bytes=4000)
    capture = only(recording)
    assert capture.outcome is Outcome.TRUNCATED and not capture.files


def test_an_old_python_is_told_apart_by_its_first_line(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\nfor nonce; do :; done\necho muster:$nonce:python 3.6\n")
    fake.chmod(0o755)
    with running([], python=str(fake)) as started:
        failure = started.reply().failure
    assert failure is not None and failure.reason == "Python 3.6"
