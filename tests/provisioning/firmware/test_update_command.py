"""`muster firmware update`: a plan first, digests before all else, and never beside a job."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.model.firmware import BMC, ComponentVersion, FirmwareReading
from healthcheck.store.file import opened
from healthcheck.store.firmware import write_controller
from healthcheck.store.firmwaresteps import begin_step, end_step, firmware_steps
from provisioning.lease.runlock import alone
from tests.command import muster
from tests.testbed.redfish.https import served
from tests.testbed.redfish.makers import DELIVERED, USER
from tests.testbed.redfish.updates import Updating, updating

NAMES = ("gpu001", "gpu002")


@pytest.fixture
def services() -> dict[str, Updating]:
    return {name: updating("multipart") for name in NAMES}


@pytest.fixture
def home(tmp_path: Path, services: dict[str, Updating]) -> Iterator[Path]:
    """Two machines in bring-up whose controllers told of an old BIOS, and rules that want a newer one."""
    (tmp_path / "password").write_text(DELIVERED + "\n")
    (tmp_path / "password").chmod(0o600)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "image.bin").write_text("BIOS 2.2.0")
    rules(tmp_path, hashlib.sha256(b"BIOS 2.2.0").hexdigest())
    for one in services.values():
        one.add(USER, DELIVERED)
    with served(tmp_path, services) as places:
        entries = "".join(
            f"  {name}: {{bmc: {{address: {at}, port: {port}, user: {USER}, tls: {ca}, password: {{file: "
            f"{tmp_path}/password}}}}}}\n"
            for name, (at, port, ca) in places.items())
        (tmp_path
         / "muster.yaml").write_text(
             f"version: 1\ngroups: {{rack7: 'gpu[001-002]'}}\ndefaults: {{lifecycle: bringup, rack: r7}}\n"
             f"nodes:\n{entries}")
        with opened(tmp_path / "state", make=True) as store:
            for name in NAMES:
                write_controller(store, name, time.time() - 60,
                                 FirmwareReading("Super Micro",
                                                 (ComponentVersion("bios", "bios", "2.1.5", 0.0, BMC),),
                                                 frozenset()))
        yield tmp_path


def rules(home: Path, digest: str) -> None:
    (home / "rules" / "bringup.yaml").write_text(
        f"firmware: [{{id: new, component: bios, exactly: '2.2.0', payload: {{file: image.bin, sha256: "
        f"{digest}}}}}]\n")


def test_a_plan_sends_nothing_and_apply_brings_every_machine_there(home: Path,
                                                                   services: dict[str, Updating]) -> None:
    plan = muster("firmware", "update", "@rack7", "--rules", "rules", home=home, code=0)
    assert plan.stdout.splitlines() == ["wave 1: gpu001", "gpu001: new: bios 2.1.5 -> 2.2.0",
                                        "wave 2: gpu002", "gpu002: new: bios 2.1.5 -> 2.2.0",
                                        "machines: 2, waves: 2. Nothing was sent; --apply makes the updates."]
    assert not any(one.asked for one in services.values())
    done = muster("firmware", "update", "@rack7", "--rules", "rules", "--apply", home=home, code=0)
    assert done.stdout.splitlines() == ["gpu001  new: as wanted: bios 2.2.0",
                                        "gpu002  new: as wanted: bios 2.2.0"]
    assert [one.pushed for one in services.values()] == [["BIOS 2.2.0"]] * 2
    assert DELIVERED not in done.stdout + done.stderr
    assert muster("firmware", "status", "@rack7", "--rules", "rules", home=home).returncode == 0
    assert muster("firmware", "update", "@rack7", "--rules", "rules", "--component", "bios", "--apply",
                  home=home).returncode == 0
    assert [len(one.pushed) for one in services.values()] == [1, 1]


def test_a_machine_that_a_killed_update_left_off_is_turned_on_though_it_is_as_wanted(
        home: Path, services: dict[str, Updating]) -> None:
    """Some show the new version as soon as the power is off."""
    target = f"2.2.0 {hashlib.sha256(b'BIOS 2.2.0').hexdigest()[:16]}"
    system = services["gpu002"].documents[services["gpu002"].system]
    system |= {"PowerState": "Off", "BiosVersion": "2.2.0"}
    with opened(home / "state") as store:
        for name in ("send", "off"):
            end_step(store, begin_step(store, "ops", "gpu002", "new", target, name, "", time.time()), True,
                     "", time.time())
        write_controller(store, "gpu002", time.time(),
                         FirmwareReading("",
                                         (ComponentVersion("bios", "bios", "2.2.0", 0.0, BMC),), frozenset()))
    assert "gpu002: new: left off by an update" in muster("firmware", "update", "gpu002", "--rules", "rules",
                                                          home=home).stdout
    done = muster("firmware", "update", "gpu002", "--rules", "rules", "--apply", home=home)
    assert done.returncode == 0 and done.stdout == "gpu002  new: as wanted: bios 2.2.0\n"
    assert system["PowerState"] == "On" and not services["gpu002"].pushed
    assert "nothing to update" in muster("firmware", "update", "gpu002", "--rules", "rules", home=home).stdout


def test_a_wrong_digest_is_one_line_and_no_controller_is_asked(home: Path,
                                                               services: dict[str, Updating]) -> None:
    rules(home, "0" * 64)
    done = muster("firmware", "update", "gpu001", "--rules", "rules", "--apply", home=home)
    assert done.returncode == 2 and "nothing was sent" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not any(one.asked for one in services.values())


@pytest.mark.parametrize("lock", ["firmware.lock", "bringup.lock"])
def test_only_one_run_acts_at_a_time_and_none_beside_a_bringup(home: Path, services: dict[str, Updating],
                                                               lock: str) -> None:
    with alone(home / "state", lock, "bringup run"):
        done = muster("firmware", "update", "gpu001", "--rules", "rules", "--apply", home=home)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and not services["gpu001"].pushed


def test_what_failed_is_begun_anew_only_by_a_persons_word(home: Path, services: dict[str, Updating]) -> None:
    services["gpu001"].wrong_image = True
    words = ("firmware", "update", "gpu001", "--rules", "rules", "--apply")
    failed = muster(*words, home=home)
    assert (failed.returncode == 1 and "it did not take it: refused: 400" in failed.stdout
            and "muster firmware update gpu001 --again" in failed.stdout)
    services["gpu001"].wrong_image = False
    assert muster(*words, home=home).returncode == 1 and not services["gpu001"].pushed
    assert muster(*words, "--again",
                  home=home).returncode == 0 and services["gpu001"].pushed == ["BIOS 2.2.0"]


def test_beginning_anew_beside_a_run_or_with_a_wrong_digest_forgets_nothing_and_never_another_entry(
        home: Path, services: dict[str, Updating]) -> None:
    """Else the run under way would send again what it has just sent."""
    target = f"2.2.0 {hashlib.sha256(b'BIOS 2.2.0').hexdigest()[:16]}"
    with opened(home / "state") as store:
        for entry in ("new", "psu"):
            begin_step(store, "ops", "gpu001", entry, target, "send", "", time.time())
    words = ("firmware", "update", "gpu001", "--rules", "rules", "--apply", "--again")

    def counting() -> list[int]:
        with opened(home / "state") as store:
            return [len(firmware_steps(store, "gpu001", entry, target)) for entry in ("new", "psu")]

    with alone(home / "state", "firmware.lock", "firmware update"):
        assert muster(*words, home=home).returncode == 2 and counting() == [1, 1]
    rules(home, "0" * 64)
    assert muster(*words, home=home).returncode == 2 and counting() == [1, 1]
    rules(home, target.partition(" ")[2] + hashlib.sha256(b"BIOS 2.2.0").hexdigest()[16:])
    assert (muster(*words, home=home).returncode == 0 and counting()[1] == 1
            and services["gpu001"].pushed == ["BIOS 2.2.0"])


def test_a_machine_in_service_that_is_not_cordoned_is_not_touched(home: Path,
                                                                  services: dict[str, Updating]) -> None:
    text = (home / "muster.yaml").read_text()
    (home / "muster.yaml").write_text(text.replace("lifecycle: bringup",
                                                   "lifecycle: service").replace(
                                                       "version: 1\n",
                                                       "version: 1\ncordon: {hostfile: bad}\n"))
    (home / "bad").touch()
    plan = muster("firmware", "update", "gpu001", "--rules", "rules", home=home)
    assert "would be refused now: it is in service, and we do not hold it" in plan.stdout
    done = muster("firmware", "update", "gpu001", "--rules", "rules", "--apply", home=home)
    assert (done.returncode == 1
            and "not touched: it is in service, and we do not hold it; first: muster cordon gpu001"
            in done.stdout)
    assert not services["gpu001"].pushed


def test_a_machine_that_comes_into_service_meanwhile_is_left_with_a_line(home: Path,
                                                                         services: dict[str,
                                                                                        Updating]) -> None:
    """The first takes long; the second is put into service by then."""
    inventory = home / "muster.yaml"

    def into_service() -> None:
        text = inventory.read_text()
        inventory.write_text(text.replace("gpu002: {bmc",
                                          "gpu002: {lifecycle: service, bmc").replace(
                                              "version: 1\n", "version: 1\ncordon: {hostfile: bad}\n"))
    (home / "bad").touch()
    services["gpu001"].when_pushed = into_service
    done = muster("firmware", "update", "@rack7", "--rules", "rules", "--apply", home=home)
    assert done.returncode == 1 and "gpu001  new: as wanted: bios 2.2.0" in done.stdout
    assert "gpu002  new: not touched: it is in service, and we do not hold it" in done.stdout
    assert [len(one.pushed) for one in services.values()] == [1, 0]


def test_a_version_by_a_tool_of_the_machine_needs_no_controller_and_one_that_does_not_answer_is_said(
        home: Path) -> None:
    digest = hashlib.sha256(b"BIOS 2.2.0").hexdigest()
    (home / "rules" / "bringup.yaml").write_text(
        "power: {bios_minutes: 0.01}\n"
        f"firmware: [{{id: cx7, component: hca, exactly: '28.43.1014', by: mlxfwmanager, payload: {{file: "
        f"image.bin, sha256: {digest}}}}}]\n")
    (home
     / "muster.yaml").write_text(
         "version: 1\ndefaults: {lifecycle: bringup}\nnodes:\n  gpu009: {address: 127.0.0.1, port: 1, "
         "user: root}\n")
    with opened(home / "state") as store:
        write_controller(store, "gpu009", time.time() - 60, FirmwareReading(
            "", (ComponentVersion("hca 0000:18:00.0", "hca", "28.39.1002", 0.0, ""),), frozenset()),
                         "mlxfwmanager")
    plan = muster("firmware", "update", "gpu009", "--rules", "rules", home=home)
    assert plan.stdout.splitlines()[:2] == ["wave 1: gpu009",
                                            "gpu009: cx7: hca 0000:18:00.0 28.39.1002 -> 28.43.1014"]
    done = muster("firmware", "update", "gpu009", "--rules", "rules", "--apply", home=home)
    assert done.returncode == 1 and done.stdout.startswith("gpu009  cx7: it does not answer: connect: ")
    with opened(home / "state") as store:
        assert firmware_steps(store, "gpu009", "cx7", f"28.43.1014 {digest[:16]}") == ()
