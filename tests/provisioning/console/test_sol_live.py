"""Serial over LAN of a real controller (OpenIPMI's ipmi_sim): captured, lost and found again, left behind by
a kill, and never taken from another."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from inventory.model import Bmc, Node, Secret, SecretFrom, Speaks
from provisioning.bmc.credentials import supplier
from provisioning.bmc.ipmi.controller import IpmiController
from provisioning.bmc.ipmi.tool import PrivilegeLevel
from provisioning.console import sol
from provisioning.console.capture import ConsoleCapture, ConsoleCaptures
from provisioning.console.log import FOLDER, CaptureMark, captured, tail
from provisioning.console.sol import IN_USE
from tests.testbed.ipmisim import PASSWORD, USER, IpmiSim, ipmi_sim, require_ipmi
from tests.testbed.planted import private
from tests.testbed.serialport import SerialPort, serial_port
from tests.testbed.sshd import wait_until

PANIC = "[   12.345678] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"


@dataclass
class Bed:
    """A controller with a machine's serial port, and where muster keeps its state."""

    sim: IpmiSim
    port: SerialPort
    folder: Path
    node: Node

    @property
    def controller(self) -> IpmiController:
        return IpmiController(self.node, supplier(self.node))

    def text(self) -> list[str]:
        return [one.text for one in tail(self.folder, self.node.name) if one.mark is None]

    def marks(self, mark: CaptureMark) -> list[str]:
        return [one.text for one in tail(self.folder, self.node.name) if one.mark is mark]

    def wait(self, holds: Callable[[], object], what: str) -> None:
        wait_until(holds, 40, f"{what}; captured: {tail(self.folder, self.node.name)}")

    @contextlib.contextmanager
    def capture(self) -> Iterator[ConsoleCapture]:
        made = ConsoleCapture(self.node, self.folder)
        made.start()
        try:
            yield made
        finally:
            made.end()
            made.join(20)
            assert not made.running


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    require_ipmi()
    secret = private(tmp_path / "password", f"{PASSWORD}\n")
    with serial_port() as port, ipmi_sim(tmp_path / "sim", console=port.device) as sim:
        yield Bed(sim, port, tmp_path / "state", Node("n1", bmc=Bmc(
            sim.address, USER, sim.port, Speaks.IPMI, Secret(SecretFrom.FILE, (str(secret),)))))


def tools(bed: Bed) -> list[Path]:
    """The processes of ipmitool that speak to this controller."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (one / "cmdline").read_bytes().split(b"\0")
            if b"ipmitool" in words[0] and str(bed.sim.port).encode() in words and b"activate" in words:
                found.append(one)
    return found


def test_what_a_machine_writes_is_kept_and_no_process_shows_the_password(bed: Bed) -> None:
    with bed.capture():
        bed.wait(lambda: bed.marks(CaptureMark.BEGUN), "the session")
        (tool,) = tools(bed)
        shown = (tool / "cmdline").read_bytes() + (tool / "environ").read_bytes()
        assert PASSWORD.encode() not in shown
        assert captured(bed.folder, "n1")
        bed.port.write(f"\x1b[2J\x1b[1;1HBooting\r\n{PANIC}\r\nlogin: ")
        bed.wait(lambda: "login:" in bed.text(), "a prompt that does not end its line")
    assert bed.text() == ["Booting", PANIC, "login:"]
    assert bed.marks(CaptureMark.ENDED) and not bed.marks(CaptureMark.GAP)
    assert bed.controller.console_session() == 0 and not tools(bed) and not captured(bed.folder, "n1")
    for path in (bed.folder / FOLDER).iterdir():
        assert path.stat().st_mode & 0o777 == 0o600 and PASSWORD not in path.read_text()


def test_a_session_that_the_controller_ends_is_begun_again_and_the_gap_is_named(
        bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """ipmi_sim says nothing of it to who had the session: it is found out in the silence."""
    monkeypatch.setattr(sol, "QUIET_S", 2.0)
    with bed.capture():
        bed.wait(lambda: bed.marks(CaptureMark.BEGUN), "the session")
        bed.port.write("before\r\n")
        bed.wait(lambda: "before" in bed.text(), "a line")
        bed.controller.detach_console()
        bed.wait(lambda: bed.marks(CaptureMark.AGAIN), "another session")
        bed.port.write("after\r\n")
        bed.wait(lambda: "after" in bed.text(), "a line of that")
    assert bed.marks(CaptureMark.GAP) == ["the controller has ended the session"]


def test_a_console_that_another_has_is_left_to_it_and_captured_once_it_is_free(bed: Bed) -> None:
    other = bed.controller.attach_console(PrivilegeLevel.OPERATOR)
    try:
        bed.wait(bed.controller.console_session, "the other's session")
        held = bed.controller.console_session()
        with bed.capture():
            bed.wait(lambda: bed.marks(CaptureMark.MISSING), "a word on it")
            assert bed.marks(CaptureMark.MISSING) == [IN_USE]
            assert bed.controller.console_session() == held and other.poll() is None
            other.communicate(timeout=20)
            bed.wait(lambda: bed.marks(CaptureMark.BEGUN), "the session")
    finally:
        other.kill()
        other.wait()


CAPTURES = """
import sys, threading
from pathlib import Path
from inventory.model import Bmc, Node, Secret, SecretFrom, Speaks
from provisioning.console.capture import ConsoleCapture
address, port, user, secret, folder = sys.argv[1:]
bmc = Bmc(address, user, int(port), Speaks.IPMI, Secret(SecretFrom.FILE, (secret,)))
ConsoleCapture(Node("n1", bmc=bmc), Path(folder)).start()
threading.Event().wait()
"""


@contextlib.contextmanager
def process(bed: Bed) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own that captures."""
    child = subprocess.Popen([sys.executable, "-c", CAPTURES, bed.sim.address, str(bed.sim.port), USER,
                              str(bed.folder.with_name("password")), str(bed.folder)])
    try:
        bed.wait(lambda: bed.marks(CaptureMark.BEGUN), "the session")
        yield child
    finally:
        child.kill()
        child.wait()


def test_a_capture_that_is_killed_leaves_no_session(bed: Bed) -> None:
    with process(bed) as child:
        assert bed.controller.console_session()
        child.send_signal(signal.SIGKILL)
    bed.wait(lambda: bed.controller.console_session() == 0, "the end of its session")


def test_the_session_that_a_kill_of_both_left_is_ended_by_the_next_capture(bed: Bed) -> None:
    with process(bed) as child:
        (tool,) = tools(bed)
        os.kill(int(tool.name), signal.SIGSTOP)     # so that it cannot end its session
        child.kill()
        child.wait()
        os.kill(int(tool.name), signal.SIGKILL)
    left = bed.controller.console_session()
    assert left and (bed.folder / FOLDER / "n1.sol").read_text().strip() == str(left)
    with bed.capture():
        bed.wait(lambda: len(bed.marks(CaptureMark.BEGUN)) == 2, "a session of its own")
        bed.port.write("after the kill\r\n")
        bed.wait(lambda: "after the kill" in bed.text(), "a line")
    assert bed.controller.console_session() == 0


def test_captures_of_a_run_begin_at_once_and_end_with_it(bed: Bed) -> None:
    captures = ConsoleCaptures(bed.folder, 1)
    captures.begin(bed.node)
    captures.begin(bed.node)
    captures.begin(Node("n2", bmc=bed.node.bmc))
    bed.wait(lambda: bed.marks(CaptureMark.BEGUN), "the session")
    assert [one.text[:30] for one in tail(bed.folder, "n2")] == ["1 consoles are captured alread"]
    captures.close()
    assert bed.controller.console_session() == 0 and bed.marks(CaptureMark.ENDED)
    assert not [one for one in threading.enumerate() if one.name == "console n1"]
