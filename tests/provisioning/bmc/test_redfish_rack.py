"""The controller against sushy-tools' emulator behind TLS: what is asked comes true."""

from __future__ import annotations

import base64
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inventory.model import Bmc, Node, Secret, SecretFrom
from provisioning.bmc import pins
from provisioning.bmc.ask import ask_controllers, connector
from provisioning.bmc.base import BmcError, BootTarget, Controller, PowerAction, PowerState
from provisioning.bmc.base import BmcErrorReason as Why
from provisioning.bmc.connect import controller
from provisioning.bmc.redfish.controller import RedfishController
from tests.testbed.bmcs import Bed, Machine, Wrong, rack, require_rack

SOUND = [Machine("gpu001"), Machine("gpu002", on=True, expands=True)]
SICK = {wrong: f"sick{at:02}" for at, wrong in enumerate(Wrong)}
PASSWORD = "calvin-0penSesame"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    require_rack()
    folder = tmp_path_factory.mktemp("rack")
    with rack(folder / "bed", [*SOUND, *(Machine(name, wrong=wrong) for wrong, name in SICK.items())],
              password=PASSWORD) as found:
        pins.write(folder, found.fingerprints, {})
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o600)
        yield found


def node(bed: Bed, name: str, tls: str = "pin") -> Node:
    return Node(name,
                bmc=Bmc(bed.address(name), bed.user, bed.port,
                        secret=Secret(SecretFrom.FILE, (str(bed.folder.parent / "password"),)), tls=tls))


@pytest.fixture
def reach(bed: Bed) -> Iterator[Callable[..., RedfishController]]:
    made: list[RedfishController] = []

    def make(name: str, seconds: float = 10.0, tls: str = "pin") -> RedfishController:
        found = controller(node(bed, name, tls), folder=bed.folder.parent, seconds=seconds)
        assert isinstance(found, RedfishController)
        made.append(found)
        return found

    yield make
    for one in made:
        one.close()


Reach = Callable[..., RedfishController]


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_nothing_is_asked_before_the_first_question(bed: Bed, reach: Reach) -> None:
    before = len(bed.log("gpu001"))
    reach("gpu001")
    assert len(bed.log("gpu001")) == before


def test_a_service_is_reached_without_a_login(bed: Bed, reach: Reach) -> None:
    assert reach("gpu001").reachable() == "Redfish 1.5.0 Contoso Rack BMC"
    assert bed.log("gpu001")[-1].login in ("", "none", "nobody")


def test_power_boot_and_bios_come_true_and_are_asked_for_once(bed: Bed, reach: Reach) -> None:
    machine = reach("gpu001")
    before = bed.counts("gpu001")
    assert machine.power() is PowerState.OFF
    machine.set_bios({"NumCores": "4"})
    assert machine.bios().pending == {"NumCores": "4"}
    machine.set_boot(BootTarget.PXE, True)
    assert (machine.boot().target, machine.boot().once) == (BootTarget.PXE, True)
    machine.set_power(PowerAction.ON)
    until(lambda: machine.power() is PowerState.ON)
    machine.set_power(PowerAction.ON)
    until(lambda: machine.bios().pending == {})
    assert machine.bios().current["NumCores"] == "4"       # type: ignore[index]
    machine.set_boot(BootTarget.NONE, False)
    assert machine.boot().target is BootTarget.NONE
    machine.set_power(PowerAction.OFF)
    until(lambda: machine.power() is PowerState.OFF)
    done = bed.counts("gpu001") - before
    assert (done["bios"], done["on"], done["off"], done["login"]) == (1, 1, 1, 1)


def test_hardware_firmware_and_identity_are_as_the_machine_is(reach: Reach) -> None:
    for name in ("gpu001", "gpu002"):       # one by one, and expanded
        machine = reach(name)
        parts = machine.hardware().parts
        assert {kind: len(found) for kind, found in parts.items() if isinstance(found, tuple)} == {
            "cpu": 2, "gpu": 8, "dimm": 4, "drive": 2, "nic": 2, "psu": 2, "fan": 2}
        assert {
            (one.name, one.version) for one in machine.firmware()} >= {("BIOS", "2.1.5"), ("BMC", "7.00.60")}
        assert machine.identity().bios == "2.1.5"
        assert machine.sensors().sensors
        assert machine.log().log.events == ()


def test_where_members_come_with_their_collection_a_machine_takes_a_third_of_the_requests(
    reach: Reach,
) -> None:
    many, few = reach("gpu001"), reach("gpu002")
    for machine in (many, few):
        machine.hardware()
        machine.firmware()
    assert few.session.requests < 35 < many.session.requests < 60


def test_media_is_shown_and_emptied(reach: Reach) -> None:
    machine = reach("gpu001")
    assert [(one.name, one.inserted) for one in machine.media()] == [("Cd", False), ("Floppy", False)]
    machine.eject("Cd")
    with pytest.raises(BmcError) as caught:
        machine.insert("Cd", "http://127.0.0.1:1/none.iso")      # which the emulator tries to fetch
    assert (caught.value.done, caught.value.wrong in (Why.REFUSED, Why.BROKEN)) == (
        False, True) or caught.value.done is None


def test_an_authority_in_place_of_a_pin(bed: Bed, reach: Reach) -> None:
    assert reach("gpu002", tls=str(bed.ca)).power() is PowerState.ON
    with pytest.raises(BmcError) as caught:
        reach("gpu002", tls="verify").power()
    assert caught.value.wrong is Why.TLS


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [(Wrong.NO_ONE, Why.UNREACHABLE), (Wrong.SILENT, Why.TIMEOUT), (Wrong.CERTIFICATE, Why.TLS),
     (Wrong.SICK, Why.BROKEN), (Wrong.DROPS, Why.UNREACHABLE), (Wrong.FLOODS, Why.BROKEN),
     (Wrong.REDIRECTS, Why.BROKEN), (Wrong.SLOW, Why.TIMEOUT)])
def test_each_trouble_has_its_name_and_its_end(bed: Bed, reach: Reach, wrong: Wrong, kind: Why) -> None:
    began = time.monotonic()
    with pytest.raises(BmcError) as caught:
        reach(SICK[wrong], 1.0).power()
    assert caught.value.wrong is kind
    assert caught.value.done is False
    assert time.monotonic() - began < 10
    # no one was followed there
    assert not [one for one in bed.log("elsewhere") if one.machine == "elsewhere"]


def test_a_wrong_password_costs_one_attempt_however_often_it_is_asked(bed: Bed, reach: Reach) -> None:
    machine = reach(SICK[Wrong.PASSWORD])
    for question in (machine.power, machine.identity, machine.hardware, machine.log):
        with pytest.raises(BmcError) as caught:
            question()
        assert caught.value.wrong is Why.CREDENTIALS
    assert bed.counts(SICK[Wrong.PASSWORD])["401"] == 1


LEAVES = """
import os, signal, sys
from pathlib import Path
from inventory.load import load_inventory
from provisioning.bmc.connect import controller

node = load_inventory(Path(sys.argv[1])).nodes["gpu002"]
for at in range(int(sys.argv[3])):
    controller(node, folder=Path(sys.argv[2]), seconds=10).power()
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(bed: Bed, sessions: int) -> None:
    """A command is killed while it has so many sessions open."""
    inventory = bed.folder.parent / "muster.yaml"
    inventory.write_text(f"version: 1\nnodes: {{gpu002: {{bmc: {bed.entry('gpu002')}}}}}\n")
    done = subprocess.run([sys.executable, "-c", LEAVES, str(inventory), str(bed.folder.parent),
                           str(sessions)],
                          check=False, env={**os.environ, "BMC_PASSWORD": PASSWORD})
    assert done.returncode == -signal.SIGKILL


def open_sessions(reach: Reach) -> int:
    """How many the controller has, beside the one that asks."""
    found = reach("gpu002").session.get("/redfish/v1/SessionService/Sessions")
    return int(found["Members@odata.count"]) - 1


def test_sessions_of_killed_commands_are_ended_by_the_next(bed: Bed, reach: Reach) -> None:
    killed(bed, 1)
    first = reach("gpu002")
    first.power()
    assert open_sessions(reach) == 1        # that of `first`, which is in use and left alone
    first.close()
    folder = bed.folder.parent / "bmc-sessions"
    assert all(PASSWORD not in path.read_text() for path in folder.iterdir())


def test_a_controller_that_killed_commands_filled_makes_room_again(bed: Bed, reach: Reach) -> None:
    killed(bed, 16)     # as many as it has room for
    assert reach("gpu002").power() is PowerState.ON
    assert open_sessions(reach) <= 1
    assert bed.counts("gpu002")["401"] == 0


def test_of_a_change_whose_answer_is_lost_no_one_knows_and_it_is_made_once(bed: Bed, reach: Reach) -> None:
    name = SICK[Wrong.LOSES_ANSWERS]
    machine = reach(name)
    for change in (lambda: machine.set_power(PowerAction.ON), lambda: machine.set_bios({"NumCores": "4"})):
        with pytest.raises(BmcError) as caught:
            change()
        assert caught.value.done is None
    sent = [one for one in bed.log(name) if one.method in ("POST", "PATCH") and "Sessions" not in one.path]
    assert len(sent) == 2
    until(lambda: machine.power() is PowerState.ON)


def test_settings_that_are_refused_are_refused_in_one_line(reach: Reach) -> None:
    with pytest.raises(BmcError) as caught:
        reach(SICK[Wrong.BIOS_REFUSED]).set_bios({"NumCores": "4"})
    assert (caught.value.wrong, caught.value.done) == (Why.REFUSED, False)


def test_a_failed_supply_is_in_the_log_in_words_that_are_judged(reach: Reach) -> None:
    events = reach(SICK[Wrong.PSU_FAILED]).log().log.events
    assert any("failure detected" in event.text.casefold() and "power supply" in event.sensor.casefold()
               for event in events)


def test_a_sick_controller_delays_no_other(bed: Bed) -> None:
    nodes = [node(bed, name) for name in (SICK[Wrong.SILENT], SICK[Wrong.SLOW], "gpu002", SICK[Wrong.NO_ONE])]
    began = time.monotonic()
    error_text: dict[str, float] = {}

    def power(one: Controller) -> PowerState:
        return one.power()

    for one, _ in ask_controllers(nodes, connector(bed.folder.parent, 3.0), power, 4):
        error_text[one.name] = time.monotonic() - began
    assert error_text["gpu002"] < 1.5
    assert list(error_text)[-1] in (SICK[Wrong.SILENT], SICK[Wrong.SLOW])
    assert set(error_text) == {one.name for one in nodes}


def test_the_password_is_in_no_log_error_repr_argument_environment_or_file(
    bed: Bed, reach: Reach, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    for name in ("gpu001", *SICK.values()):
        machine = reach(name, 0.5)
        for question in (machine.power, lambda machine=machine: machine.set_power(PowerAction.ON),
                         lambda machine=machine: machine.set_boot(BootTarget.PXE, True)):
            try:
                said.append(repr(question()))
            except BmcError as problem:
                said += [str(problem), repr(problem), repr(problem.__cause__), repr(problem.__context__)]
        said += [repr(machine), repr(machine.session), str(vars(machine)), str(vars(machine.session))]
    written = "".join(said) + caplog.text + "".join(capfd.readouterr())
    assert PASSWORD not in written
    assert base64.b64encode(f"root:{PASSWORD}".encode()).decode() not in written
    assert not [record for record in caplog.records
                if record.name.partition(".")[0] in ("sushy", "urllib3", "requests")]
    ours = f"/proc/{os.getpid()}"
    assert PASSWORD.encode() not in Path(
        f"{ours}/cmdline").read_bytes() + Path(f"{ours}/environ").read_bytes()
    for path in bed.folder.parent.iterdir():
        if path.is_file() and path.name != "password":
            assert PASSWORD.encode() not in path.read_bytes(), path
