"""Firmware is sent in four makers' manners, once, whatever is killed in between; only a look ends an
update."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.firmware import FirmwareReading
from healthcheck.store import ledger
from healthcheck.store.file import opened
from healthcheck.store.firmware import known_firmware
from healthcheck.store.firmwaresteps import begin_anew, begin_step, end_step, firmware_steps, left_off
from healthcheck.store.parts import ControllerPart, by_controller
from healthcheck.store.sweeps import SweepRecord, record
from inventory.model import Bmc, Node, Secret, SecretFrom
from provisioning.bmc.base import BmcError, BmcErrorReason, Controller, FirmwareImage
from provisioning.bmc.connect import controller
from provisioning.bmc.redfish import task
from provisioning.bmc.redfish.pending import PendingTask, PendingTasks
from provisioning.bmc.redfish.update import WHAT
from provisioning.bringup.policy.load import load
from provisioning.bringup.policy.model import BringupPolicy, PowerTimes
from provisioning.firmware import read, update
from provisioning.firmware.decide import UpdateTimes
from provisioning.firmware.plan import MachineUpdate, UpdatePlan
from provisioning.firmware.update import UpdateOutcome, UpdateTools, run, target_of
from tests.provisioning.bringup.controllers import site
from tests.testbed.death import killed_at
from tests.testbed.redfish.https import served
from tests.testbed.redfish.makers import DELIVERED, USER
from tests.testbed.redfish.updates import MANNERS, Updating, updating

URL = "http://head.example/image.bin"


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """Tasks are looked at without a pause."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "_SOONEST_S", 0.02)
        yield


class Bed:
    """One machine with this service, and what updates it."""

    def __init__(self, folder: Path, service: Updating, place: tuple[str, int, str]) -> None:
        self.folder, self.service = folder, service
        address, port, ca = place
        (folder / "password").write_text(DELIVERED + "\n")
        (folder / "password").chmod(0o600)
        service.add(USER, DELIVERED)
        self.node = Node("gx01", bmc=Bmc(address, USER, port,
                                         secret=Secret(SecretFrom.FILE, (str(folder / "password"),)), tls=ca))

    def policy(self, component: str = "bios", version: str = "2.2.0") -> BringupPolicy:
        digest = hashlib.sha256(f"{component.upper()} {version}".encode()).hexdigest()
        where = f"url: '{URL}'" if self.service.manner == "simple" else "file: image.bin"
        return load([packaged(),
                     site(self.folder / "rules",
                          f"firmware:\n- {{id: new, component: {component}, exactly: '{version}', "
                          f"payload: {{{where}, sha256: {digest}}}}}\n")])

    def tools(self, policy: BringupPolicy, forbidden: str = "", **times: float) -> UpdateTools:
        (entry,) = policy.firmware
        text = f"{entry.component.upper()} {entry.exactly}"
        self.service.served[URL] = text
        by_url = self.service.manner == "simple"
        image = FirmwareImage("image.bin", None if by_url else text.encode(), URL if by_url else None,
                              entry.component != "bmc")
        power = PowerTimes(5, times.get("on_s", 5.0), times.get("bios_s", 10.0))
        return UpdateTools(self.folder / "state", "ops",
                           lambda node: controller(node, folder=self.folder / "state", seconds=20.0),
                           lambda node: forbidden, {entry.id: image},
                           UpdateTimes(30, times.get("bmc_s", 10.0), power), again_s=0.05)

    def run(self, component: str = "bios", **more: object) -> UpdateOutcome:
        policy = self.policy(component)
        plan = UpdatePlan(((MachineUpdate(self.node, policy.firmware, {}),),), ())
        (outcome,) = run(plan, policy, self.tools(policy, **more))  # type: ignore[arg-type]
        return outcome

    def steps(self, component: str = "bios") -> list[tuple[str, bool | None]]:
        with opened(self.folder / "state") as store:
            return [(one.step, one.done)
                    for one in firmware_steps(store, "gx01", "new",
                                              target_of(self.policy(component).firmware[0]))]


@contextmanager
def bed_of(folder: Path, manner: str, **more: object) -> Iterator[Bed]:
    service = updating(manner, **more)
    with served(folder, {"gx01": service}) as places:
        yield Bed(folder, service, places["gx01"])


@pytest.mark.parametrize("manner", MANNERS)
def test_the_image_is_sent_once_and_a_look_shows_it(tmp_path: Path, manner: str) -> None:
    with bed_of(tmp_path, manner) as bed:
        began = time.time()
        outcome = bed.run()
        assert outcome.done and outcome.message == "as wanted: bios 2.2.0"
        assert bed.service.pushed == ["BIOS 2.2.0"]
        reset = [] if manner == "simple" else [("off", True), ("on", True)]
        assert bed.steps() == [("send", True), *reset]
        assert bed.service.documents[bed.service.system]["PowerState"] == "On"
        with opened(tmp_path / "state") as store:
            told = {one.name: (one.version, one.time >= began)
                    for one in known_firmware(store)["gx01"].versions}
            lines = [one for one in ledger.lines(store) if one.action.startswith("firmware")]
        assert told["bios"] == ("2.2.0", True)
        assert len(lines) == len(bed.steps()) and all(one.outcome is not None and one.node == "gx01"
                                                      for one in lines)
        assert bed.run().done and bed.service.pushed == ["BIOS 2.2.0"]      # there is nothing left to do


# By the first step and how many further on is the next: in the fast tier each step of the manner that needs
# no reset, and every ninth of one that does.
KILLS = [("simple", 0, 1), ("multipart", 1, 9),
         *(pytest.param(manner, 0, 1, marks=pytest.mark.slow) for manner in MANNERS if manner != "simple")]


@pytest.mark.parametrize(("manner", "at", "step"), KILLS)
def test_killed_at_each_step_nothing_is_sent_twice_and_what_is_not_known_is_a_persons(
    tmp_path: Path, manner: str, at: int, step: int,
) -> None:
    """Before and after each record and each act; typed again until it ends."""
    while True:
        folder = tmp_path / str(at)
        folder.mkdir()
        with bed_of(folder, manner) as bed:
            with killed_at(at + 1, update, "begin_step", "_make", "end_step") as events:
                bed.run()
            outcome = bed.run()
            assert len(bed.service.pushed) <= 1, at
            resets = [one for one in bed.service.asked if one[0] == "POST"
                      and one[1].rstrip("/").endswith("ComputerSystem.Reset")]
            assert len(resets) <= 2, (at, resets)
            version = bed.service.documents[bed.service.system]["BiosVersion"]
            assert (outcome.done
                    == (version == "2.2.0"
                        and bed.service.documents[bed.service.system]["PowerState"] == "On")), (at, outcome)
            if not outcome.done:
                assert "not known" in outcome.message or "has not" in outcome.message, (at, outcome)
                assert "--again" in outcome.hand
                with opened(folder / "state") as store:
                    assert begin_anew(store, [("gx01", "new")], "ops", time.time()) > 0
                assert bed.run().done, at
            if len(events) <= at:
                return
        at += step


def test_a_controller_that_restarts_with_its_new_firmware_is_waited_for(tmp_path: Path) -> None:
    with bed_of(tmp_path, "multipart", away=6) as bed:
        outcome = bed.run("bmc", bmc_s=60.0)
        assert (outcome.done and outcome.message == "as wanted: bmc 2.2.0"
                and bed.steps("bmc") == [("send", True)])


def test_a_controller_that_does_not_come_back_is_said_and_typing_again_goes_on(tmp_path: Path) -> None:
    with bed_of(tmp_path, "multipart", away=100_000) as bed:
        outcome = bed.run("bmc", bmc_s=2.0)
        assert not outcome.done and "its BMC: " in outcome.message and "muster bmc show gx01" in outcome.hand
        bed.service.gone = 0
        assert bed.run("bmc").done and len(bed.service.pushed) == 1


@pytest.mark.parametrize("manner", MANNERS)
def test_a_refused_image_and_a_task_that_fails_are_failures_with_a_next_step(tmp_path: Path,
                                                                             manner: str) -> None:
    cases: tuple[dict[str, object], ...] = ({"wrong_image": True}, {"fails": "The flash did not answer."})
    for at, more in enumerate(cases):
        (tmp_path / str(at)).mkdir()
        with bed_of(tmp_path / str(at), manner, **more) as bed:
            outcome = bed.run()
            assert (not outcome.done and "it did not take it: " in outcome.message
                    and "--again" in outcome.hand)
            assert bed.steps() == [("send", False)]
            assert not bed.run().done and len(bed.service.pushed) <= 1


def test_one_that_is_reset_and_still_runs_the_old_version_is_no_success(tmp_path: Path) -> None:
    with bed_of(tmp_path, "staged", ignores=True) as bed:
        outcome = bed.run(bios_s=1.0)
        assert not outcome.done and outcome.message == "it was reset, and still runs bios 2.1.5"


def test_a_machine_that_may_have_a_job_is_not_touched(tmp_path: Path) -> None:
    with bed_of(tmp_path, "multipart") as bed:
        outcome = bed.run(forbidden="a job runs there")
        assert not outcome.done and outcome.message == "not touched: a job runs there"
        assert bed.service.pushed == [] and bed.steps() == []


def test_after_the_first_machine_fails_no_other_is_begun(tmp_path: Path) -> None:
    with bed_of(tmp_path, "multipart", wrong_image=True) as bed:
        policy = bed.policy()
        others = [replace(bed.node, name=f"gx0{at}") for at in (2, 3)]
        plan = UpdatePlan(tuple((MachineUpdate(node, policy.firmware, {}),) for node in (bed.node, *others)),
                          ())
        outcomes = list(run(plan, policy, bed.tools(policy)))
        assert [one.node for one in outcomes] == ["gx01", "gx02",
                                                  "gx03"] and not any(one.done for one in outcomes)
        assert [one.message for one in outcomes[1:]] == ["not begun: others failed before it"] * 2


def test_one_that_is_off_and_shows_the_version_is_asked_on_once_and_said_where_it_stays_off(
        tmp_path: Path) -> None:
    with bed_of(tmp_path, "staged", early=True, stays_off=True) as bed:
        outcome = bed.run(on_s=0.5)
        assert (not outcome.done and outcome.message == "it was asked to turn on, and has not"
                and "--again" in outcome.hand)
        assert bed.steps() == [("send", True), ("off", True), ("on", True)]
        assert not bed.run(on_s=0.5).done and len(bed.steps()) == 3


def test_one_that_was_turned_off_is_turned_on_also_by_a_persons_word_and_under_another_payload(
        tmp_path: Path) -> None:
    for word in ("again", "other payload"):
        (tmp_path / word).mkdir()
        with bed_of(tmp_path / word, "staged", early=True) as bed:
            target = target_of(bed.policy().firmware[0]) if word == "again" else "2.1.9 0123456789abcdef"
            bed.service.documents[bed.service.system] |= {"PowerState": "Off", "BiosVersion": "2.2.0"}
            with opened(tmp_path / word / "state", make=True) as store:
                for name in ("send", "off"):
                    end_step(store, begin_step(store, "ops", "gx01", "new", target, name, "", 1.0),
                             True, "", 1.0)
                begin_anew(store, [("gx01", "new")] if word == "again" else [], "ops", 2.0)
                assert left_off(store) == {("gx01", "new")}
            assert bed.run().done and bed.service.documents[bed.service.system]["PowerState"] == "On"
            with opened(tmp_path / word / "state") as store:
                assert left_off(store) == frozenset() and bed.service.pushed == []


def test_the_end_of_a_task_is_kept_though_the_look_after_it_fails(tmp_path: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller tells of it once, and forgets it."""
    failed: list[int] = []

    def look(controller: Controller) -> FirmwareReading:
        if bed.service.pushed and len(failed) < 5:
            failed.append(1)
            raise BmcError(BmcErrorReason.TIMEOUT, "no answer")
        return read.look(controller)
    monkeypatch.setattr(update, "look", look)
    monkeypatch.setattr(task, "_followed",
                        lambda *words, **more: task.TaskReading(task.TaskEnd.RUNNING, "running"))
    with bed_of(tmp_path, "multipart") as bed:
        outcome = bed.run()
        assert len(failed) == 5 and outcome.done and bed.steps()[0] == ("send", True)


def test_a_task_that_no_one_may_look_at_has_not_failed(tmp_path: Path) -> None:
    with bed_of(tmp_path, "multipart", hidden=True) as bed:
        outcome = bed.run()
        assert (not outcome.done and "it is not known whether it took it" in outcome.message
                and "Not for this account." in outcome.message)
        assert bed.steps() == [("send", None)]


def test_the_end_of_an_older_update_is_never_taken_for_that_of_one_that_was_not_sent(tmp_path: Path) -> None:
    with bed_of(tmp_path, "jobs") as bed:
        path = f"{bed.service.ways.job}/JID_1"
        bed.service.tasks[path] = [0, None, "Completed"]
        with PendingTasks(tmp_path / "state", "gx01").keeping(PendingTask(path, WHAT, True)) as kept:
            kept.stays()
        with opened(tmp_path / "state", make=True) as store:
            begin_step(store, "ops", "gx01", "new", target_of(bed.policy().firmware[0]), "send",
                       "", time.time())
        outcome = bed.run()
        assert (not outcome.done
                and outcome.message == ("it is not known whether it took it: the run was cut off as it sent; "
                                        "its BMC tells of no task, and still runs bios 2.1.5"))
        assert "log shows no update" in outcome.hand and "gx01 --again --apply" in outcome.hand
        assert (bed.steps() == [("send", None)]
                and bed.service.documents[bed.service.system]["PowerState"] == "On")


@pytest.mark.parametrize("manner", ["multipart", "staged", "jobs"])
def test_a_machine_is_not_reset_while_no_task_tells_whether_its_image_is_written(tmp_path: Path,
                                                                                 manner: str) -> None:
    with bed_of(tmp_path, manner, untold=True) as bed:
        outcome = bed.run()
        assert (not outcome.done and "it is not known whether it took it" in outcome.message
                and "no task tells" in outcome.message)
        assert bed.steps() == [("send", None)] and "--again" in outcome.hand
        assert not bed.run().done and len(bed.service.pushed) == 1


def exchange(folder: Path, kind: str, *serials: str) -> None:
    """One part after the other sat in one place of the machine."""
    with opened(folder / "state", make=True) as store:
        record(store, SweepRecord(1.0, 2.0, False, "test", "digest"), [])
        for at, serial in enumerate(serials):
            by_controller(store, "gx01", [ControllerPart(kind, kind, serial)], time.time() + at)


@pytest.mark.parametrize(("kind", "counts"), [("board", False), ("gpu", True)])
def test_what_was_sent_to_a_board_that_has_left_does_not_keep_its_successor_from_an_update(
        tmp_path: Path, kind: str, counts: bool) -> None:
    with bed_of(tmp_path, "multipart") as bed:
        assert bed.run().done and len(bed.service.pushed) == 1
        exchange(tmp_path, kind, "B1", "B2")
        bed.service.documents[bed.service.system] |= {"BiosVersion": "2.1.5"}
        outcome = bed.run(bios_s=0.1)
        assert outcome.done is not counts and len(bed.service.pushed) == (1 if counts else 2)


def test_what_was_sent_after_the_old_board_was_last_seen_may_have_been_sent_to_the_new_one_and_counts(
        tmp_path: Path) -> None:
    with bed_of(tmp_path, "multipart") as bed:
        with opened(tmp_path / "state", make=True) as store:
            record(store, SweepRecord(1.0, 2.0, False, "test", "digest"), [])
            by_controller(store, "gx01", [ControllerPart("board", "board", "B1")], time.time())
        bed.service.when_pushed = lambda: exchange(tmp_path, "board", "B2")
        assert bed.run().done and len(bed.service.pushed) == 1
        bed.service.documents[bed.service.system] |= {"BiosVersion": "2.1.5"}
        assert not bed.run(bios_s=0.1).done and len(bed.service.pushed) == 1


def test_what_may_have_been_sent_counts_though_the_board_was_exchanged(tmp_path: Path) -> None:
    with bed_of(tmp_path, "multipart") as bed:
        with opened(tmp_path / "state", make=True) as store:
            begin_step(store, "ops", "gx01", "new", target_of(bed.policy().firmware[0]), "send", "",
                       time.time() - 60)
        exchange(tmp_path, "board", "B1", "B2")
        assert not bed.run().done and bed.service.pushed == []
