"""The IPMI controller against a real one, ipmi_sim, and through the real ipmitool."""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from healthcheck.facts.values import UNSUPPORTED
from inventory.errors import UsageError
from inventory.model import Bmc, Node, Speaks
from provisioning.bmc.base import BmcError, BmcErrorReason, BootTarget, PowerAction, PowerState
from provisioning.bmc.ipmi import messages, rmcp, tool, udp
from provisioning.bmc.ipmi.controller import IpmiController
from tests.testbed.ipmisim import (
    MODEL,
    PASSWORD,
    PSU_SERIAL,
    SERIAL,
    USER,
    VENDOR,
    IpmiSim,
    ipmi_sim,
    require_ipmi,
)
from tests.testbed.planted import executable
from tests.testbed.sshd import wait_until


@pytest.fixture(scope="module", autouse=True)
def needed() -> None:
    require_ipmi()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IpmiSim]:
    with ipmi_sim(tmp_path_factory.mktemp("ipmi")) as found:
        yield found


@pytest.fixture
def sim(running: IpmiSim) -> IpmiSim:
    (running.folder / "power").write_text("0\n")
    (running.folder / "boot").write_text("none\n")
    (running.folder / "asked").write_text("")
    return running


def controller(
    sim: IpmiSim, user: str = USER, password: str = PASSWORD, seconds: float = 20.0,
) -> IpmiController:
    node = Node("gpu001", bmc=Bmc(sim.address, port=sim.port, speaks=Speaks.IPMI))
    return IpmiController(node, lambda: (user, password), seconds)


def wrong(call: Callable[[], object]) -> BmcError:
    with pytest.raises(BmcError) as caught:
        call()
    assert PASSWORD not in str(caught.value)
    return caught.value


def test_power_goes_on_and_off_and_each_shows(sim: IpmiSim) -> None:
    bmc = controller(sim)
    shown = [bmc.power()]
    for set_power in (PowerAction.ON, PowerAction.OFF):
        bmc.set_power(set_power)
        shown.append(bmc.power())
    assert shown == [PowerState.OFF, PowerState.ON, PowerState.OFF]
    bmc.set_power(PowerAction.ON)
    bmc.set_power(PowerAction.SHUTDOWN)
    assert not sim.has_power()
    assert sim.changes == ["set power 1", "set power 0", "set power 1", "set shutdown 1"]


def test_the_machine_is_reported_from_what_to_boot(sim: IpmiSim) -> None:
    bmc = controller(sim)
    for target, there in ((BootTarget.PXE, "pxe"), (BootTarget.DISK, "default"), (BootTarget.CD, "cdrom"),
                          (BootTarget.BIOS, "bios"), (BootTarget.NONE, "none")):
        bmc.set_boot(target, once=True)
        assert (sim.folder / "boot").read_text().strip() == there
    # This simulator never says that its flags are valid, and then they override nothing.
    assert bmc.boot().target is BootTarget.NONE


def test_how_long_an_override_lasts_and_uefi_are_asked_for(
    sim: IpmiSim, monkeypatch: pytest.MonkeyPatch,
) -> None:
    bmc: list[tuple[str, ...]] = []
    real = tool.run

    def run(
        program: str, door: tool.Door, user: str, password: str, words: tuple[str, ...], **more: object,
    ) -> tool.IpmitoolOutput:
        bmc.append(tuple(words))
        return real(program, door, user, password, words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(tool, "run", run)
    controller(sim).set_boot(BootTarget.DISK, once=False)
    assert bmc[-2:] == [
        ("raw", "0x00", "0x08", "0x03", "0x08"), ("chassis", "bootdev", "disk", "options=persistent,efiboot")]
    controller(sim).set_boot(BootTarget.PXE, once=True)
    assert bmc[-1] == ("chassis", "bootdev", "pxe", "options=efiboot")


def test_who_it_is_comes_from_its_records(sim: IpmiSim) -> None:
    found = controller(sim).identity()
    assert (found.vendor, found.model, found.serial, found.firmware, found.controller) == (
        VENDOR, MODEL, SERIAL, "9.08", "IPMI 2.0")
    assert isinstance(found.uuid, str)


def test_a_power_supply_without_input_is_critical_and_its_neighbour_has_a_serial_number(sim: IpmiSim) -> None:
    parts = controller(sim).hardware().parts
    supplies = parts["psu"]
    assert isinstance(supplies, tuple)
    assert [(one.slot, one.health, one.present) for one in supplies] == [
        ("PSU1", "OK", True), ("PSU2", "Critical", True)]
    assert supplies[0].serial == PSU_SERIAL
    assert not isinstance(parts["gpu"], tuple)      # IPMI has no idea of GPUs: not measured, never none


def test_the_event_log_and_the_sensors_are_the_facts_of_the_node_itself(sim: IpmiSim) -> None:
    bmc = controller(sim)
    # the other one was taken back
    assert [event.text for event in bmc.log().log.events] == ["Power Supply AC lost"]
    assert bmc.log_use().used_percent == 0
    assert [(one.name, one.state, one.critical) for one in bmc.sensors().sensors] == [
        ("CPU Temp", "ok", False), ("FAN1", "ok", False)]


def test_what_ipmi_has_not_is_unsupported_and_no_one_is_asked(sim: IpmiSim) -> None:
    bmc = controller(sim)
    for call in (bmc.bios, bmc.media, bmc.firmware, lambda: bmc.set_bios({}), lambda: bmc.insert("cd", "x"),
                 lambda: bmc.eject("cd")):
        assert wrong(call).wrong is BmcErrorReason.UNSUPPORTED
    assert not (sim.folder / "asked").read_text()


def test_without_a_password_it_says_that_it_is_there(sim: IpmiSim) -> None:
    def never() -> tuple[str, str]:
        raise AssertionError("no secret is needed to see whether it is there")

    node = Node("gpu001", bmc=Bmc(sim.address, port=sim.port, speaks=Speaks.IPMI))
    assert IpmiController(node, never, 5.0).reachable() == "IPMI 2.0 at 127.0.0.1"


@pytest.mark.parametrize(("user", "password", "said"),
                         [(USER, "not-it", "the password is wrong"), ("nobody", PASSWORD, "no such user")])
def test_a_wrong_account_is_tried_once_and_changes_nothing(
    sim: IpmiSim, user: str, password: str, said: str,
) -> None:
    bmc = controller(sim, user, password)
    first = wrong(lambda: bmc.set_power(PowerAction.ON))
    assert first.wrong is BmcErrorReason.CREDENTIALS and said in first.message and first.done is False
    sim.process.send_signal(signal.SIGSTOP)     # whoever asked again would wait
    try:
        began = time.monotonic()
        again = wrong(bmc.power)
        assert again.wrong is BmcErrorReason.CREDENTIALS and "not tried again" in again.message
        assert time.monotonic() - began < 10
    finally:
        sim.process.send_signal(signal.SIGCONT)
    assert not sim.changes


@pytest.mark.parametrize(
    ("user", "password"),
    [("", "x"), ("u" * 17, "x"), (USER, ""), (USER, "p" * 21), (USER, "ä" * 11), (USER, "a\tb")])
def test_an_account_that_does_not_fit_is_never_sent(sim: IpmiSim, user: str, password: str) -> None:
    assert wrong(controller(sim, user, password).power).wrong is BmcErrorReason.NO_SECRET
    assert not (sim.folder / "asked").read_text()


def test_a_password_of_twenty_bytes_with_everything_that_a_shell_would_read_arrives_whole(
    tmp_path: Path,
) -> None:
    # An echo of the file that it was given.
    program = executable(
        tmp_path / "ipmitool", '#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -f ] && cat "$2"; shift; done\n')
    password = " $(id)`id`'\"\\;|&*? "[:20]
    said = tool.run(str(program), tool.Door("127.0.0.1", 1, 3), USER, password, (),
                    level=tool.PrivilegeLevel.USER, end=time.monotonic() + 10)
    assert said.out == password + "\n"


def test_a_silent_port_is_unreachable_before_any_password_is_asked_for(tmp_path: Path) -> None:
    with ipmi_sim(tmp_path / "m") as sim:
        sim.process.send_signal(signal.SIGSTOP)
        bmc = controller(sim, seconds=1.0)
        began = time.monotonic()
        assert wrong(bmc.power).wrong is BmcErrorReason.UNREACHABLE
        assert wrong(bmc.reachable).wrong is BmcErrorReason.UNREACHABLE
        assert time.monotonic() - began < 10
        sim.process.send_signal(signal.SIGCONT)
        wait_until(sim.answers, what="an answer")
        assert controller(sim).power() is PowerState.OFF
        sim.kill()
        problem = wrong(controller(sim, seconds=5.0).reachable)
        assert problem.wrong is BmcErrorReason.UNREACHABLE and "nothing listens" in problem.message


def test_a_controller_that_falls_silent_in_the_middle_leaves_unknown_what_was_done(tmp_path: Path) -> None:
    with ipmi_sim(tmp_path / "m") as sim:
        bmc = controller(sim, seconds=2.5)
        bmc.power()
        sim.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        problem = wrong(lambda: bmc.set_power(PowerAction.ON))
        assert time.monotonic() - began < 10
        assert problem.wrong is BmcErrorReason.TIMEOUT and problem.done is None
        assert not _of_ours(sim.port)           # no child is left
        sim.process.send_signal(signal.SIGCONT)


def test_no_process_shows_the_password_in_its_words_or_its_environment(sim: IpmiSim) -> None:
    bmc = controller(sim)
    bmc.power()
    sim.process.send_signal(signal.SIGSTOP)     # so that ipmitool waits where it can be checked
    try:
        thread = threading.Thread(target=lambda: wrong(bmc.power))
        bmc._seconds = 3
        thread.start()
        found: dict[int, str] = {}

        def asks() -> bool:
            found.update(_of_ours(sim.port))
            return bool(found)

        wait_until(asks, 30, "ipmitool")
        for one in Path("/proc").glob("[0-9]*"):
            for name in ("cmdline", "environ"):
                with contextlib.suppress(OSError):
                    assert PASSWORD.encode() not in (one / name).read_bytes(), f"{one}/{name}"
        assert all({text.partition("=")[0] for text in env.split("\0") if text} == {"PATH", "LC_ALL", "TZ"}
                   for env in found.values())
        thread.join()
    finally:
        sim.process.send_signal(signal.SIGCONT)


def _of_ours(port: int) -> dict[int, str]:
    """The environment of each ipmitool that speaks to this port."""
    found = {}
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (one / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"ipmitool") and str(port).encode() in words:
                found[int(one.name)] = (one / "environ").read_text()
    return {pid: environment for pid, environment in found.items() if environment}


def test_more_than_an_account_may_is_denied(sim: IpmiSim) -> None:
    said = tool.run(tool.found(), tool.Door(sim.address, sim.port, 3), USER, PASSWORD,
                    ("chassis", "power", "on"), level=tool.PrivilegeLevel.USER, end=time.monotonic() + 10)
    assert said.exit
    problem = messages.error(said)
    assert problem.wrong is BmcErrorReason.DENIED and problem.done is False
    assert not sim.changes


def test_what_is_only_looked_at_asks_for_no_right_to_change_anything(
    sim: IpmiSim, monkeypatch: pytest.MonkeyPatch,
) -> None:
    levels: list[tool.PrivilegeLevel] = []
    real = tool.run

    def run(*words: object, **more: object) -> tool.IpmitoolOutput:
        levels.append(more["level"])  # type: ignore[arg-type]
        return real(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(tool, "run", run)
    bmc = controller(sim)
    for look in (bmc.power, bmc.identity, bmc.hardware, bmc.log, bmc.log_use, bmc.sensors):
        look()
    assert set(levels) == {tool.PrivilegeLevel.USER}


def test_an_empty_repository_of_sensors_is_left_as_it_is(tmp_path: Path) -> None:
    # With more rights ipmitool erases it and writes one of its own: "SDRR successfully erased".
    with ipmi_sim(tmp_path / "m", records=False) as sim:
        bmc = controller(sim)
        problem = wrong(bmc.sensors)
        assert problem.wrong is BmcErrorReason.UNSUPPORTED and "no record of any sensor" in problem.message
        assert set(bmc.hardware().parts.values()) == {UNSUPPORTED}
        assert [event.text for event in bmc.log().log.events] == ["Power Supply AC lost"]
        said = tool.run(tool.found(), tool.Door(sim.address, sim.port, 3), USER, PASSWORD, ("sdr", "elist"),
                        level=tool.PrivilegeLevel.USER, end=time.monotonic() + 10)
        assert "Cannot erase SDRR" in said.err and "erased" not in said.out


class Peer:
    """A UDP server that answers the questions of a list of answers, then none."""

    def __init__(self, answer: Callable[[int, bytes], list[bytes]]) -> None:
        self.link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.link.bind(("127.0.0.1", 0))
        self.port = int(self.link.getsockname()[1])
        self.asked = 0
        self._answer = answer
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        # Closed under the thread, its number would be another socket's, which the thread would read.
        self._over.set()
        self.link.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join(10)
        assert not self._thread.is_alive()
        self.link.close()

    def _serve(self) -> None:
        while True:
            data, back = self.link.recvfrom(1024)
            if self._over.is_set():
                return
            self.asked += 1
            for one in self._answer(self.asked, data):
                self.link.sendto(one, back)


def capable(data: bytes) -> bytes:
    """The answer of a controller of IPMI 2.0 to Get Channel Authentication Capabilities, b"" to others."""
    if data[:4] != bytes((6, 0, 0xFF, 7)):
        return b""
    body = bytes((0x20, data[18], 0x38, 0, 1, 0x97, 0x04, 0x03, 0, 0, 0, 0))
    message = bytes((0x81, 0x1C, 0x63)) + body + bytes((-sum(body) & 0xFF,))
    return bytes((6, 0, 0xFF, 7)) + bytes(9) + bytes((len(message),)) + message


def test_a_question_that_is_lost_is_asked_again() -> None:
    with Peer(lambda count, data: [capable(data)] if count > 3 and capable(data) else []) as peer:
        assert udp.hear("127.0.0.1", peer.port, 5.0) == rmcp.Capabilities(v2=True, anonymous=False)
        assert peer.asked == 4      # a ping and a question, twice


def test_a_flood_of_datagrams_ends_in_its_time() -> None:
    with Peer(lambda count, data: [secrets.token_bytes(60) for _ in range(2000)]) as peer:
        began = time.monotonic()
        assert udp.hear("127.0.0.1", peer.port, 1.0) is False
        assert time.monotonic() - began < 10


def test_a_flood_of_words_is_cut_off(tmp_path: Path) -> None:
    program = executable(tmp_path / "ipmitool", "#!/bin/sh\nyes\n")
    began = time.monotonic()
    with pytest.raises(BmcError) as caught:
        tool.run(str(program), tool.Door("127.0.0.1", 1, 3), USER, "x", (), level=tool.PrivilegeLevel.USER,
                 end=time.monotonic() + 20)
    assert caught.value.wrong is BmcErrorReason.BROKEN and time.monotonic() - began < 10


def test_without_ipmitool_one_line_says_which_package_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="apt-get install -y ipmitool") as caught:
        IpmiController(Node("gpu001", bmc=Bmc("10.1.0.1")), lambda: ("", ""), 1.0)
    assert "\n" not in str(caught.value)
