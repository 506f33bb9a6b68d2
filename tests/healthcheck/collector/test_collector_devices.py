"""A command that is run once for each device: the real program, against trees of files and real commands."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from healthcheck.facts.base import Captures, why
from healthcheck.facts.files import DeviceOutput
from healthcheck.facts.values import Unmeasured, Unread
from healthcheck.model.probes import KIB, Probe, ProbeKind
from healthcheck.model.recording import Capture, Outcome, Recording
from tests.healthcheck.collector.test_collector import as_no_one, needs_root
from tests.testbed.collector import await_none_with, collect


def plant(tree: Path, *names: str) -> None:
    for name in names:
        (tree / "sys/class/nvme" / name).mkdir(parents=True)


def each(*argv: str, **more: Any) -> Probe:
    more = {"seconds": 10.0, "each_s": 5.0, **more}
    return Probe("it", ProbeKind.COMMAND, argv=argv, each=("/sys/class/nvme/nvme*",), **more)


def recording(probe: Probe, tree: Path, **more: Any) -> Recording:
    return collect([probe], tree, seconds=20.0, mark=str(tree), **more)


def look(probe: Probe, tree: Path, **more: Any) -> Capture:
    return recording(probe, tree, **more).captures[probe.id]


def entries(capture: Capture) -> dict[str, tuple[str, str]]:
    return {path.rpartition("/")[2]: (entry.outcome.value, entry.text)
            for path, entry in capture.files.items()}


def test_the_command_is_run_for_each_device_and_its_answers_are_kept_apart(tree: Path) -> None:
    plant(tree, "nvme0", "nvme1", "nvme10")
    probe = each("echo", "/dev/{name}", "--of={name}")
    made = recording(probe, tree)
    assert made.captures["it"].outcome.value == "done"
    assert Captures(made).devices(probe) == {
        f"/sys/class/nvme/{name}": DeviceOutput(0, f"/dev/{name} --of={name}\n")
        for name in ("nvme0", "nvme1", "nvme10")
    }


def test_a_stem_is_the_name_without_its_last_suffix(tree: Path) -> None:
    plant(tree, "nvme0", "nvme1.a.sock")
    assert entries(look(each("echo", "{stem}", "of", "{name}"), tree)) == {
        "nvme0": ("done", "exit 0\nnvme0 of nvme0\n"),
        "nvme1.a.sock": ("done", "exit 0\nnvme1.a of nvme1.a.sock\n")}


def test_an_exit_status_and_a_complaint_are_kept(tree: Path) -> None:
    plant(tree, "nvme0")
    probe = each("sh", "-c", "echo answer; echo first >&2; echo denied: $0 >&2; exit 4", "{name}")
    assert Captures(recording(probe, tree)).devices(probe) == {
        "/sys/class/nvme/nvme0": DeviceOutput(4, "answer\n", "denied: nvme0")}


def test_no_device_is_no_entry_also_where_there_is_no_tool(tree: Path) -> None:
    capture = look(each("no-such-tool", "{name}"), tree)
    assert (capture.outcome.value, dict(capture.files)) == ("done", {})


def test_devices_without_the_tool_are_a_missing_tool(tree: Path) -> None:
    plant(tree, "nvme0", "nvme1")
    probe = each("no-such-tool", "{name}")
    with pytest.raises(Unread, match=r"^no-such-tool is not there$"):
        Captures(recording(probe, tree)).devices(probe)


def test_a_name_that_is_no_plain_name_never_reaches_a_command(tree: Path) -> None:
    plant(tree, "nvme0", "nvme0;reboot", "nvme\n1", "nvme$(id)", "nvme 2", "nvme{name}")
    found = entries(look(each("echo", "{name}"), tree))
    assert found.pop("nvme0") == ("done", "exit 0\nnvme0\n")
    assert len(found) == 5
    assert set(found.values()) == {("crashed", "no name of a device")}


def test_a_name_that_begins_like_an_option_never_reaches_a_command(tree: Path) -> None:
    (tree / "sys/class/net/-rf").mkdir(parents=True)
    probe = Probe("it", ProbeKind.COMMAND, argv=("echo", "{name}"), each=("/sys/class/net/*",))
    assert entries(look(probe, tree)) == {"-rf": ("crashed", "no name of a device")}


def test_one_device_that_hangs_costs_its_own_entry(tree: Path) -> None:
    plant(tree, "nvme0", "nvme1", "nvme2")
    probe = each("sh", "-c", "test $1 = nvme1 && exec sleep 60; echo $1", str(tree), "{name}", each_s=1.0)
    made = recording(probe, tree)
    assert made.captures["it"].outcome.value == "done"
    said = Captures(made).devices(probe)
    assert said["/sys/class/nvme/nvme0"] == DeviceOutput(0, "nvme0\n")
    assert said["/sys/class/nvme/nvme1"] == Unmeasured(
        "/sys/class/nvme/nvme1: the command's outcome is timeout")
    assert said["/sys/class/nvme/nvme2"] == DeviceOutput(0, "nvme2\n")
    await_none_with(str(tree))


def test_when_the_probe_has_no_time_left_the_rest_never_had_their_turn(tree: Path) -> None:
    plant(tree, "nvme0", "nvme1", "nvme2")
    began = time.monotonic()
    capture = look(each("sleep", "60", seconds=1.0, each_s=5.0), tree)
    assert time.monotonic() - began < 10
    assert capture.outcome.value == "timeout"
    assert entries(capture)["nvme0"][0] == "timeout"
    assert entries(capture)["nvme2"] == ("timeout", "its turn never came")


def test_more_devices_than_it_may_ask_are_cut_and_said_so(tree: Path) -> None:
    plant(tree, *(f"nvme{number}" for number in range(5)))
    capture = look(each("echo", "{name}", most=3), tree)
    assert (capture.outcome.value, len(capture.files)) == ("truncated", 3)


def test_the_devices_share_the_probes_limit(tree: Path) -> None:
    plant(tree, "nvme0", "nvme1")
    capture = look(each("sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x", limit=8 * KIB), tree)
    assert {entry.outcome.value for entry in capture.files.values()} == {"truncated"}
    assert sum(len(entry.text) for entry in capture.files.values()) < 9 * KIB


def test_one_that_crashes_is_no_answer(tree: Path) -> None:
    plant(tree, "nvme0")
    probe = each("sh", "-c", "kill -SEGV $$")
    assert Captures(recording(probe, tree)).devices(probe) == {
        "/sys/class/nvme/nvme0": Unmeasured(
            "/sys/class/nvme/nvme0: the command's outcome is crashed (exit -11)"),
    }


def test_devices_of_two_probes_take_turns_side_by_side(tree: Path) -> None:
    plant(tree, *(f"nvme{number}" for number in range(4)))
    probes = [Probe(name, ProbeKind.COMMAND, argv=("echo", name, "{name}"), each=("/sys/class/nvme/*",))
              for name in ("a", "b", "c")]
    made = collect(probes, tree, seconds=20.0, mark=str(tree))
    for name in ("a", "b", "c"):
        assert [entry.text for entry in made.captures[name].files.values()] == [
            f"exit 0\n{name} nvme{number}\n" for number in range(4)]


def executable(tree: Path, name: str, script: str) -> None:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


DRIVER = "/sys/bus/pci/drivers/megaraid_sas"


def test_the_first_of_a_commands_names_that_is_installed_is_run(tree: Path) -> None:
    plant(tree, "nvme0")
    executable(tree, "opt/maker/tool64", 'echo "by path $@"')
    path = str(tree / "opt/maker/tool64")
    probe = each("no-such-tool", "{name}", tools=("nor-such-a-one", path, "echo"))
    assert Captures(recording(probe, tree)).devices(probe) == {
        "/sys/class/nvme/nvme0": DeviceOutput(0, "by path nvme0\n")}
    probe = each("no-such-tool", "{name}", tools=("nor-such-a-one",))
    with pytest.raises(Unread, match=r"^no-such-tool is not there$"):
        Captures(recording(probe, tree)).devices(probe)


def test_a_driver_that_is_not_loaded_has_no_device(tree: Path) -> None:
    probe = Probe("it", ProbeKind.COMMAND, argv=("echo", "run"), each=(DRIVER,), most=1)
    capture = look(probe, tree)
    assert (capture.outcome.value, dict(capture.files)) == ("done", {})
    (tree / DRIVER[1:]).mkdir(parents=True)
    assert entries(look(probe, tree)) == {"megaraid_sas": ("done", "exit 0\nrun\n")}


SCAN = """\
/dev/sda -d scsi # /dev/sda, SCSI device
/dev/bus/0 -d megaraid,8 # /dev/bus/0 [megaraid_disk_08], SCSI device
/dev/bus/0 -d sat+megaraid,12 # /dev/bus/0 [megaraid_disk_12] [SAT], ATA device
/dev/bus/0 -d megaraid,8;id # /dev/bus/0
/dev/bus/../sda -d megaraid,9 # /dev/bus/0
-x/dev/bus/0 -d megaraid,9 # /dev/bus/0
"""


def test_drives_that_a_scan_lists_are_asked_in_place_of_the_devices(tree: Path) -> None:
    (tree / DRIVER[1:]).mkdir(parents=True)
    executable(tree, "bin/scanner", f"cat <<'END'\n{SCAN}END")
    probe = Probe("it", ProbeKind.COMMAND, argv=("echo", "-d", "{name}", "{folder}"), each=(DRIVER,),
                  scan=(str(tree / "bin/scanner"),), seconds=10.0)
    assert Captures(recording(probe, tree)).devices(probe) == {
        "/dev/bus/0/megaraid,8": DeviceOutput(0, "-d megaraid,8 /dev/bus/0\n"),
        "/dev/bus/0/sat+megaraid,12": DeviceOutput(0, "-d sat+megaraid,12 /dev/bus/0\n")}


def test_a_scan_that_fails_is_no_empty_list(tree: Path) -> None:
    (tree / DRIVER[1:]).mkdir(parents=True)
    probe = Probe("it", ProbeKind.COMMAND, argv=("echo", "{name}"), each=(DRIVER,), scan=("false",))
    capture = look(probe, tree)
    assert capture.outcome.value == "unable" and "cannot be listed" in capture.note


def test_a_folder_that_cannot_be_listed_is_no_empty_one(tree: Path) -> None:
    probe = Probe("it", ProbeKind.COMMAND, argv=("echo", "{name}"), each=("/run/teamd/*.sock",))
    assert look(probe, tree).outcome.value == "done"
    (tree / "run").mkdir(exist_ok=True)
    (tree / "run/teamd").symlink_to("teamd")        # as one of another user's, it is there and gives no names
    capture = look(probe, tree)
    assert (capture.outcome.value, dict(capture.files)) == ("unable", {})
    assert ("the devices cannot be listed: " in capture.note
            and "Too many levels of symbolic links" in capture.note)


@needs_root
def test_a_folder_that_only_root_may_list_is_denied_and_says_so(tree: Path) -> None:
    probe = Probe("it", ProbeKind.COMMAND, argv=("echo", "{name}"), each=("/run/teamd/*.sock",))
    (tree / "run/teamd").mkdir(parents=True)
    (tree / "run/teamd/team0.sock").touch()
    (tree / "run/teamd").chmod(0o700)
    capture = look(probe, tree, **as_no_one(tree))
    assert (capture.outcome, dict(capture.files)) == (Outcome.DENIED, {})
    assert why(probe,
               capture).startswith("echo: permission denied: the devices cannot be listed: PermissionError: ")
    assert why(probe, capture).endswith("/run/teamd'")
