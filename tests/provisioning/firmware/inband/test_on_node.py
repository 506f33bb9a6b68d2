"""The program that nodes get, run for real: a payload is compared where it lies, written once, and nothing is
left of it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import Failure, Limits, Program, Reply, Stage
from inventory.transport.local import LocalTransport
from provisioning.bringup.policy.model import UpdateRoute
from provisioning.firmware.inband import send
from provisioning.firmware.inband.send import (
    BandAnswer,
    BandOrder,
    BandPlace,
    NodeReading,
    answered,
    install,
    look,
    settle,
)
from provisioning.firmware.onnode import operations
from tests.testbed.bandtools import AdapterMachine
from tests.testbed.fwupd import CABINETS, WEBCAM, Fwupd, fwupd
from tests.testbed.planted import executable
from tests.testbed.sshd import wait_until

FIRST, SECOND = "0000:18:00.0", "0000:29:00.0"
DATA = b"CX7 28.43.1014"
MLX, FWUPD = UpdateRoute.MLXFWMANAGER, UpdateRoute.FWUPD
RECORDED = Path(__file__).parents[3] / "recordings" / "firmware"


@pytest.fixture
def machine(tmp_path: Path) -> AdapterMachine:
    return AdapterMachine(tmp_path / "root", FIRST, SECOND)


def order(key: str = "firmware-1-1", data: bytes = DATA, *devices: str) -> BandOrder:
    return BandOrder(key, MLX, devices or (FIRST,), "fw ConnectX7.bin", data,
                     hashlib.sha256(data).hexdigest())


def place(machine: AdapterMachine) -> BandPlace:
    return BandPlace(str(machine.root))


def make(machine: AdapterMachine, given: BandOrder, seconds: float = 20.0) -> BandAnswer:
    return install(machine.node, given, LocalTransport(), seconds, place(machine))


def asked(machine: AdapterMachine, key: str = "firmware-1-1") -> BandAnswer:
    return settle(machine.node, key, LocalTransport(), place(machine))


def seen(machine: AdapterMachine, *tools: UpdateRoute) -> NodeReading:
    (found,) = look([machine.node], tools or (MLX,), LocalTransport(), 1, place(machine))
    return found


def test_adapters_are_asked_one_by_one_and_one_that_is_locked_is_said(machine: AdapterMachine) -> None:
    machine.card(SECOND, locked=True)
    (machine.root / "sys/bus/pci/devices/0000:18:00.1").mkdir()
    first, second = seen(machine).devices[MLX]
    assert first.version == "28.39.1002" and second.version is None and second.why == "Failed to open device"


def test_older_tools_that_know_no_xml_are_read_too(tmp_path: Path) -> None:
    old = AdapterMachine(tmp_path / "root", FIRST, old=True)
    assert [one.version for one in seen(old).devices[MLX]] == ["28.39.1002"]


def test_a_tool_that_is_not_there_tells_nothing_and_nothing_is_up_to_date_by_it(
        machine: AdapterMachine) -> None:
    found = seen(machine, FWUPD, MLX)
    assert FWUPD not in found.devices and found.lost == {FWUPD: "fwupdmgr is not installed there"}
    answer = make(machine, replace(order(), tool=FWUPD))
    assert answer == BandAnswer(False, "fwupdmgr is not installed there", never=True)


def test_a_payload_is_written_from_a_folder_that_only_root_reads_and_nothing_of_it_is_left(
        machine: AdapterMachine) -> None:
    assert make(machine, order("firmware-1-1", DATA, FIRST, SECOND)) == BandAnswer(True, "written")
    digest = hashlib.sha256(DATA).hexdigest()
    assert machine.written == [[FIRST, digest, "0o40700"],
                               [SECOND, digest, "0o40700"]] and machine.left() == []
    assert machine.notes.stat().st_mode & 0o777 == 0o700
    staged = seen(machine).devices[MLX][0]
    assert staged.version == "28.39.1002" and staged.waits and staged.written == "28.43.1014"


def test_a_payload_of_another_digest_is_not_written(machine: AdapterMachine) -> None:
    answer = make(machine, replace(order(), sha256="0" * 64))
    assert answer.done is False and answer.never and "has the digest" in answer.message
    assert machine.written == [] and machine.left() == []


@pytest.mark.parametrize("stage", [Stage.JUMP, Stage.HEAD])
@pytest.mark.parametrize(("python", "never"), [(None, True), ("3.11", False)])
def test_what_failed_here_or_on_the_way_has_begun_nothing_unless_the_program_ran(
    stage: Stage, python: str | None, never: bool,
) -> None:
    answer = answered(Reply("gx01", None, Failure(stage, "it was lost"), 0.0, 1.0, python=python))
    assert (answer.never, answer.done) == (never, False if never else None)


def test_the_same_order_is_never_written_twice(machine: AdapterMachine) -> None:
    assert make(machine, order()).done is True
    assert make(machine, order()).done is True and len(machine.written) == 1
    assert asked(machine) == BandAnswer(True, "written")


def test_an_order_that_never_came_is_refused_when_it_comes_late(machine: AdapterMachine) -> None:
    assert asked(machine) == BandAnswer(False, "it never began there", never=True)
    assert make(machine, order()) == BandAnswer(False, "it never began there",
                                                never=True) and machine.written == []


def test_what_the_tool_refuses_is_said_with_the_device_and_the_next_one_is_left(
        machine: AdapterMachine) -> None:
    machine.card(SECOND, refuses=True)
    answer = make(machine, order("firmware-1-1", DATA, FIRST, SECOND))
    assert answer.done is False and not answer.never
    assert (answer.message
            == f"{SECOND}: Fail : The Digest in the signature is wrong; 1 before it were written")
    assert machine.left() == []


def test_a_tool_that_wrote_nothing_has_not_taken_it(machine: AdapterMachine) -> None:
    answer = make(machine, order(data=b"CX7 28.39.1002"))
    assert answer.done is False and "it wrote nothing: Status:           Up to date" in answer.message


@pytest.mark.parametrize(("name", "wrote"),
                         [("mlxfwmanager-done.txt", True), ("mlxfwmanager-up-to-date.txt", False)])
def test_that_something_was_written_is_read_from_what_real_ones_print(tmp_path: Path, name: str,
                                                                      wrote: bool) -> None:
    tool = executable(tmp_path / "tool", f"#!/bin/sh\ncat {RECORDED / name}\n")
    assert operations.written("mlxfwmanager", str(tool), "image", FIRST)[0] is wrote


def test_a_tool_that_takes_longer_goes_on_and_is_asked_about(machine: AdapterMachine) -> None:
    (machine.root / "slow").touch()
    answer = make(machine, order(), seconds=0.5)
    assert answer.done is None and answer.running
    assert asked(machine).running
    other = make(machine, order("firmware-2-1"))
    assert other.never and other.message == "another update is at work there"
    (machine.root / "slow").unlink()
    wait_until(lambda: not asked(machine).running, 20)
    assert asked(machine).done is True and machine.left() == [] and len(machine.written) == 1


def test_a_tool_outlives_the_program_and_the_connection_that_started_it(machine: AdapterMachine) -> None:
    (machine.root / "slow").touch()
    heads = threading.Thread(target=make, args=(machine, order()))
    heads.start()
    wait_until(lambda: len(machine.written) == 1, 20)
    program = running(machine)
    os.killpg(program, signal.SIGKILL)
    heads.join(30)
    assert asked(machine).running
    (machine.root / "slow").unlink()
    wait_until(lambda: asked(machine).done is True, 20)
    assert machine.left() == [] and make(machine, order()).done is True and len(machine.written) == 1


def running(machine: AdapterMachine) -> int:
    """The session of the program that waits for the tool: the parent of the tool's."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(machine.root / "usr/bin/mlxfwmanager").encode() in path.read_bytes():
                child = int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
                return int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    raise AssertionError("it does not run")


def test_who_is_killed_beside_the_tool_leaves_it_unknown_and_the_next_one_tidies_up(
        machine: AdapterMachine) -> None:
    machine.notes.mkdir(parents=True, mode=0o700)
    (machine.notes / "payload-firmware-1-1").mkdir()
    (machine.notes / "payload-firmware-1-1" / "fw.bin").write_bytes(DATA)
    (machine.notes / "firmware-1-1.json").write_text(json.dumps({"tool": "mlxfwmanager", "devices": [FIRST]}))
    answer = asked(machine)
    assert (answer.done is None and not answer.running
            and answer.message == "it was cut short there while the tool wrote")
    assert make(machine, order()).done is None and machine.written == []
    assert make(machine, order("firmware-2-1")).done is True and machine.left() == []


@pytest.mark.parametrize("key", ["message", "said"])        # the second in notes of earlier versions
def test_an_earlier_note_is_the_answer(machine: AdapterMachine, key: str) -> None:
    machine.notes.mkdir(parents=True, mode=0o700)
    (machine.notes / "firmware-1-1.json").write_text(json.dumps({"ok": False,
                                                                 key: "it wrote nothing: no such device"}))
    for answer in (asked(machine), make(machine, order())):
        assert (answer.done, answer.message) == (False, "it wrote nothing: no such device")
    assert machine.written == []


def test_only_so_many_notes_are_kept_and_the_newest(machine: AdapterMachine) -> None:
    machine.notes.mkdir(parents=True, mode=0o700)
    for at in range(40):
        note = machine.notes / f"firmware-{at}-1.json"
        note.write_text('{"ok": true, "message": "written"}')
        os.utime(note, (time.time() - 1000 + at,) * 2)
    assert make(machine, order("firmware-99-1")).done is True
    left = {path.stem for path in machine.notes.glob("*.json")}
    assert len(left) == operations.MOST_NOTES + 1 and {"firmware-99-1",
                                                       "firmware-39-1"} <= left and "firmware-0-1" not in left


@pytest.mark.parametrize("key", ["../x", "", "A", "a" * 65])
def test_names_that_lead_elsewhere_are_refused(machine: AdapterMachine, key: str) -> None:
    assert make(machine, order(key)).message == "the request is not in its form"
    assert not machine.notes.exists()


def test_who_is_not_root_is_reported_so() -> None:
    program = (
        "import io, os, zlib\nos.geteuid = lambda: 1000\nfrom provisioning.firmware.onnode import "
        "operations\n"
        "operations.main('n', b'{\"root\": \"\", \"environment\": {}, \"do\": \"read\", \"tools\": []}', "
        "io.BytesIO())")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True,
                          cwd=Path(operations.__file__).parents[3])
    _, _, body = done.stdout.partition(b"\n")
    (found,) = look([Node("gx01")], [MLX], Answering(body), 1)
    assert found.up is None and "this needs root there" in found.failure


class Answering:
    """A transport whose nodes give this answer."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        return (Reply(node.name, self.body, None, 0.0, 0.0) for node in nodes)


@given(st.binary(max_size=40) | st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=5),
                                             lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                                                 st.sampled_from(["ok", "outputs", "message", "running",
                                                                  "never", "up", "tools", "fwupd",
                                                                  "mlxfwmanager", "missing", "", "text",
                                                                  "why", FIRST]), inner, max_size=6),
    max_leaves=12).map(lambda found: zlib.compress(json.dumps(found).encode())))
def test_whatever_a_node_answers_is_a_value_in_plain_text(body: bytes) -> None:
    answer = answered(Reply("gx01", body, None, 0.0, 0.0))
    assert clean(answer.message, 300) == answer.message and not (answer.never and answer.done is not False)
    (found,) = look([Node("gx01")], [MLX, FWUPD], Answering(body), 1)
    assert (found.up is None) == bool(found.failure)
    assert found.up is None or found.devices.keys() | found.lost.keys() == {MLX, FWUPD}


@pytest.mark.parametrize("body", [b"", b"no zlib", b"\x78\x9c"])
def test_an_answer_that_cannot_be_read_says_nothing_of_the_order(body: bytes) -> None:
    found = answered(Reply("gx01", body, None, 0.0, 0.0))
    assert found.done is None and not found.never and not found.running


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fwupd]:
    with fwupd(tmp_path_factory.mktemp("fwupd") / "bed") as found:
        yield found


def cabinet(key: str, version: str = "124") -> BandOrder:
    data = (CABINETS / f"fakedevice{version}.cab").read_bytes()
    return BandOrder(key, FWUPD, (WEBCAM,), f"fakedevice{version}.cab", data,
                     hashlib.sha256(data).hexdigest())


def test_the_real_fwupd_writes_a_cabinet_stages_it_and_says_what_it_refuses(daemon: Fwupd,
                                                                            machine: AdapterMachine) -> None:
    there = BandPlace(str(daemon.root), daemon.environment)

    def version() -> tuple[str | None, bool]:
        (found,) = look([machine.node], [FWUPD], LocalTransport(), 1, there)
        (one,) = found.devices[FWUPD]
        return one.version, one.waits

    daemon.start(reboot=True)
    assert version() == ("1.2.2", False)
    assert install(machine.node, cabinet("a-1"), LocalTransport(), 60, there) == BandAnswer(True, "written")
    assert version() == ("1.2.2", True)
    daemon.stop()
    daemon.start(reboot=False)
    assert install(machine.node, cabinet("a-2"), LocalTransport(), 60, there).done is True
    assert version() == ("1.2.4", False)
    older = install(machine.node, cabinet("a-3", "123"), LocalTransport(), 60, there)
    assert older.done is False and "older than installed" in older.message
    assert not [path for path in (daemon.root / "var/lib/muster-firmware").iterdir()
                if path.name.startswith("payload")]
    daemon.stop()
    (lost,) = look([machine.node], [FWUPD], LocalTransport(), 1, there)
    assert FWUPD not in lost.devices and lost.lost[FWUPD].startswith("fwupdmgr: ")


@pytest.mark.parametrize("up", ["NaN", "Infinity", "-1.0", "true", "null"])
def test_a_machine_that_does_not_say_for_how_long_it_is_up_has_not_answered(up: str) -> None:
    body = zlib.compress(f'{{"up": {up}, "tools": {{"fwupd": {{}}}}}}'.encode())
    found = send._looked(Reply("gx01", body, None, 0.0, 0.0), [UpdateRoute.FWUPD])
    assert found.up is None and found.failure == "its answer cannot be read"


def test_of_a_machine_that_tells_of_very_many_adapters_a_bounded_number_is_kept() -> None:
    said = {"up": 1.0,
            "tools": {"mlxfwmanager": {"outputs": {f"{at:04x}:00:00.0": {} for at in range(5000)}}}}
    found = send._looked(Reply("gx01", zlib.compress(json.dumps(said).encode()), None, 0.0, 0.0),
                         [UpdateRoute.MLXFWMANAGER])
    assert len(found.devices[UpdateRoute.MLXFWMANAGER]) == 128
