"""Firmware by a machine's own tool: written once, whatever is killed in between; only a look after the
restart ends an update."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.store.file import opened
from healthcheck.store.firmware import known_firmware
from healthcheck.store.firmwaresteps import begin_step, firmware_steps
from inventory.errors import RulesError
from inventory.model import Node
from inventory.transport.base import Transport
from inventory.transport.local import LocalTransport
from provisioning.bmc.base import FirmwareImage
from provisioning.bringup.policy.load import load
from provisioning.bringup.policy.model import BringupPolicy, PowerTimes, UpdateRoute
from provisioning.firmware.decide import UpdateTimes
from provisioning.firmware.drift import Drift, FleetMachine, judged
from provisioning.firmware.inband import update as band
from provisioning.firmware.inband.decide import BandTimes
from provisioning.firmware.inband.hold import NotHeldError
from provisioning.firmware.inband.read import read_tools
from provisioning.firmware.inband.send import BandPlace
from provisioning.firmware.plan import MachineUpdate, UpdatePlan, planned
from provisioning.firmware.update import UpdateOutcome, UpdateTools, run, target_of
from provisioning.remediate.send import StepReport
from tests.provisioning.bringup.controllers import site
from tests.testbed.bandtools import AdapterMachine
from tests.testbed.death import Death, killed_at
from tests.testbed.fwupd import CABINETS, Fwupd, fwupd

CARDS = ("0000:18:00.0", "0000:29:00.0")
DATA = b"CX7 28.43.1014"


class BandBed:
    """One machine, and what updates it by its own tool."""

    def __init__(self, folder: Path, machine: AdapterMachine, place: BandPlace | None = None) -> None:
        self.folder, self.machine = folder, machine
        self.place = place or BandPlace(str(machine.root))
        self.restarts: list[str] = []
        self.lease = threading.Lock()
        self.held: list[Node] = []
        self.does_restart: Callable[[], None] = machine.restart
        self.given_back: Callable[[Node], None] = lambda node: None
        self.note_lost = False
        self.no_lease = ""

    def policy(self, text: str = "") -> BringupPolicy:
        digest = hashlib.sha256(DATA).hexdigest()
        return load([packaged(), site(self.folder / "rules", text or (
            f"firmware: [{{id: cx7, component: hca, exactly: '28.43.1014', by: mlxfwmanager, payload: "
            f"{{file: a.bin, sha256: {digest}}}}}]\n"))])

    @contextmanager
    def holding(self, node: Node, seconds: float) -> Iterator[Transport]:
        if self.no_lease:
            raise NotHeldError(self.no_lease)
        with self.lease:            # no two have a node at a time
            self.held.append(node)
            yield LocalTransport()
            self.given_back(node)
            self.held.remove(node)

    def restart(self, node: Node, key: str, transport: Transport) -> StepReport:
        assert self.held == [node]
        self.restarts.append(key)
        self.does_restart()
        return StepReport(node.name, True, True, "it restarts")

    def restarted(self, node: Node, key: str, transport: Transport) -> StepReport:
        there = key in self.restarts and not self.note_lost
        return StepReport(node.name, there, there, "it restarts" if there else "it never began here")

    def tools(self, policy: BringupPolicy, data: bytes, forbidden: str = "",
              back_s: float = 5.0) -> UpdateTools:
        (entry,) = policy.firmware

        def slept(seconds: float) -> None:
            self.machine.tick()
            time.sleep(seconds)

        self.machine.tick()
        tools = band.BandTools(self.folder / "state", "ops", LocalTransport, self.holding, self.restart,
                               self.restarted,
                               BandTimes(30.0, back_s), 0.15, time.time, slept, self.place)
        return UpdateTools(self.folder / "state", "ops", _none, lambda node: forbidden,
                           {entry.id: FirmwareImage("a.bin", data, None, False)},
                           UpdateTimes(30.0, 10.0, PowerTimes(5, 5, 5)), band=tools)

    def run(self, text: str = "", data: bytes = DATA, **more: object) -> UpdateOutcome:
        policy = self.policy(text)
        plan = UpdatePlan(((MachineUpdate(self.machine.node, policy.firmware, {}),),), ())
        (outcome,) = run(plan, policy, self.tools(policy, data, **more))  # type: ignore[arg-type]
        return outcome

    def steps(self, text: str = "") -> list[tuple[str, bool | None]]:
        (entry,) = self.policy(text).firmware
        with opened(self.folder / "state", make=True) as store:
            return [(one.step, one.done)
                    for one in firmware_steps(store, self.machine.node.name, entry.id, target_of(entry))]


def _none(node: Node) -> object:
    raise AssertionError("no controller is asked")


@pytest.fixture
def bed(tmp_path: Path) -> BandBed:
    return BandBed(tmp_path, AdapterMachine(tmp_path / "root", *CARDS))


def test_adapters_are_written_and_the_machine_is_restarted_under_a_hold_and_read_again(bed: BandBed) -> None:
    outcome = bed.run()
    assert (outcome.done
            and outcome.message == "as wanted: hca 0000:18:00.0 28.43.1014, hca 0000:29:00.0 28.43.1014")
    assert bed.steps() == [("send", True), ("restart", True)] and len(bed.restarts) == 1 and bed.held == []
    assert [one[0] for one in bed.machine.written] == list(CARDS)
    with opened(bed.folder / "state") as store:
        known = known_firmware(store)["gx01"]
    assert {(one.name, one.version, one.source)
            for one in known.versions} == {(f"hca {pci}", "28.43.1014", "mlxfwmanager") for pci in CARDS}
    assert bed.run().done and len(bed.machine.written) == 2 and len(bed.restarts) == 1


def test_only_adapters_that_drift_are_written(bed: BandBed) -> None:
    bed.machine.card(CARDS[0], flash="28.43.1014", running="28.43.1014")
    assert bed.run().done and [one[0] for one in bed.machine.written] == [CARDS[1]]


def test_what_waits_for_a_restart_already_is_not_written_again(bed: BandBed) -> None:
    for pci in CARDS:
        bed.machine.card(pci, flash="28.43.1014")
    assert bed.run().done and bed.machine.written == [] and bed.steps() == [("restart", True)]


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_every_recorded_operation_nothing_is_written_or_restarted_twice(
    tmp_path: Path, step: int,
) -> None:
    for at in range(1, 12, step):
        (tmp_path / str(at)).mkdir()
        bed = BandBed(tmp_path / str(at), AdapterMachine(tmp_path / str(at) / "root", *CARDS))
        with killed_at(at, band, "begin_step", "end_step", "install") as events:
            bed.run()
        bed.held.clear()
        outcome = bed.run()
        assert outcome.done, (at, outcome)
        assert len(bed.machine.written) == 2 and len(bed.restarts) == 1, at
        if len(events) < at:
            assert at > 10
            return


def test_who_was_killed_before_the_payload_was_sent_begins_anew_by_itself(bed: BandBed) -> None:
    (entry,) = bed.policy().firmware
    with opened(bed.folder / "state", make=True) as store:
        begin_step(store, "ops", "gx01", "cx7", target_of(entry), "send", "", time.time() - 60)
    assert bed.run().done and bed.steps() == [("send", True), ("restart", True)]
    assert len(bed.machine.written) == 2


def test_a_tool_that_is_missing_is_no_success_and_nothing_counts_against_the_next_try(bed: BandBed) -> None:
    (bed.machine.root / "usr/bin/mlxfwmanager").rename(bed.machine.root / "tool")
    outcome = bed.run()
    assert (not outcome.done
            and "mlxfwmanager or mstfwmanager or mlxup is not installed there" in outcome.message
            and bed.steps() == [])
    (bed.machine.root / "tool").rename(bed.machine.root / "usr/bin/mlxfwmanager")
    assert bed.run().done


def test_a_tool_that_refuses_is_a_failure_with_what_it_said_and_a_next_step(bed: BandBed) -> None:
    bed.machine.card(CARDS[0], refuses=True)
    outcome = bed.run()
    assert (not outcome.done and "it did not take it: 0000:18:00.0: Fail : The Digest" in outcome.message
            and "gx01 --again --apply" in outcome.hand)
    assert not bed.run().done and len(bed.machine.written) == 1 and bed.restarts == []


def test_a_machine_that_was_restarted_and_runs_the_old_version_is_no_success(bed: BandBed) -> None:
    bed.machine.keeps_old()
    outcome = bed.run()
    assert (not outcome.done
            and outcome.message.startswith("it was restarted, and still runs hca 0000:18:00.0 28.39.1002"))
    assert "muster bmc power gx01 off" in outcome.hand
    assert not bed.run().done and len(bed.restarts) == 1


def test_a_machine_that_does_not_restart_is_said_and_not_asked_again(bed: BandBed) -> None:
    bed.does_restart = lambda: None
    outcome = bed.run(back_s=0.5)
    assert not outcome.done and outcome.message == "it was asked to restart, and has not"
    assert not bed.run(back_s=0.5).done and len(bed.restarts) == 1


def test_it_is_held_until_it_is_back_from_its_restart(bed: BandBed) -> None:
    started: list[float] = []

    def at_end(node: Node) -> None:
        started.append(float((bed.machine.root / "proc/uptime").read_text().split()[0]))

    bed.given_back = at_end
    bed.does_restart = lambda: threading.Timer(0.5, bed.machine.restart).start()
    assert bed.run().done and len(bed.restarts) == 1
    assert started[0] > 1000 > started[1], "it was given back before it had gone down"


def test_a_restart_of_which_the_machine_lost_its_note_is_not_made_again(
        bed: BandBed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note lies in /run, which is empty after a restart."""
    bed.machine.keeps_old()
    ends: list[int] = []

    def end_step(*given: object) -> None:
        ends.append(1)
        if len(ends) == 2:      # the first is that of the payload
            raise Death
        real(*given)  # type: ignore[arg-type]

    real = band.end_step
    monkeypatch.setattr(band, "end_step", end_step)
    with pytest.raises(Death):
        bed.run()
    monkeypatch.setattr(band, "end_step", real)
    bed.held.clear()
    bed.note_lost = True
    outcome = bed.run()
    assert len(bed.restarts) == 1 and bed.steps() == [("send", True), ("restart", None)]
    assert not outcome.done and outcome.message.startswith("it was restarted, and still runs")


def test_an_adapter_that_cannot_be_read_after_the_restart_is_not_as_wanted(bed: BandBed) -> None:
    def back() -> None:
        bed.machine.restart()
        bed.machine.card(CARDS[1], locked=True)
    bed.does_restart = back
    outcome = bed.run(back_s=1.0)
    assert (not outcome.done and "whether it needs it is not known" in outcome.message
            and "hca 0000:29:00.0 ?" in outcome.message)


@pytest.mark.parametrize(("forbidden", "no_lease", "message"),
                         [("a job runs there", "", "not touched: a job runs there"), (
"", "no lease: a job is there", "no lease: a job is there")])
def test_a_machine_that_may_have_a_job_is_not_touched(bed: BandBed, forbidden: str, no_lease: str,
                                                      message: str) -> None:
    bed.no_lease = no_lease
    outcome = bed.run(forbidden=forbidden)
    assert not outcome.done and outcome.message == message and bed.machine.written == [] and bed.steps() == []


def test_a_tool_at_work_is_waited_for_also_by_the_next_run(bed: BandBed) -> None:
    (bed.machine.root / "slow").touch()
    bed.does_restart = lambda: bed.machine.restart(pause=1.5)
    first = threading.Thread(target=bed.run)
    first.start()
    while not bed.machine.written:
        time.sleep(0.02)
    second: list[UpdateOutcome] = []
    other = threading.Thread(target=lambda: second.append(bed.run()))
    other.start()
    time.sleep(0.3)
    (bed.machine.root / "slow").unlink()
    first.join(60)
    other.join(60)
    assert second[0].done and len(bed.machine.written) == 2


def test_what_tools_told_is_in_the_store_and_drifts_and_what_none_told_is_unknown(bed: BandBed) -> None:
    with opened(bed.folder / "state", make=True) as store:
        wrong = read_tools(store, [bed.machine.node], LocalTransport(), 1, place=bed.place)
        known = known_firmware(store)["gx01"]
    assert wrong == {"gx01": "fwupdmgr is not installed there"}
    digest = hashlib.sha256(DATA).hexdigest()
    policy = bed.policy(
        "firmware:\n- {id: cx7, component: hca, exactly: '28.43.1014', by: mlxfwmanager, payload: {file: "
        "a.bin, sha256: " + digest
        + "}}\n- {id: fw, component: 'System Firmware', at_least: '1.0', by: fwupd}\n")
    machine = judged(FleetMachine("gx01", None, known), policy)
    assert [(one.entry, one.state, one.why) for one in machine.components] == [
        ("cx7", Drift.DRIFT, ""), ("cx7", Drift.DRIFT, ""),
        ("fw", Drift.UNKNOWN, "its fwupd was never asked")]
    plan = planned([machine], {"gx01": bed.machine.node}, policy, "*")
    assert [[one.node.name for one in wave] for wave in plan.waves] == [["gx01"]]
    assert plan.left == (("gx01", "fw", "its version is unknown: its fwupd was never asked"),)


def test_a_written_version_that_waits_is_still_drift_and_says_so(bed: BandBed) -> None:
    bed.machine.card(CARDS[0], flash="28.43.1014")
    with opened(bed.folder / "state", make=True) as store:
        read_tools(store, [bed.machine.node], LocalTransport(), 1, (UpdateRoute.MLXFWMANAGER,), bed.place)
        known = known_firmware(store)["gx01"]
    found = judged(FleetMachine("gx01", None, known), bed.policy()).components
    assert [(one.state, one.why) for one in found] == [(Drift.DRIFT, "28.43.1014 waits for a restart"),
                                                       (Drift.DRIFT, "")]


@pytest.mark.parametrize(("entry", "said"), [
    ("{id: a, component: psu, exactly: '1', by: mlxfwmanager}",
     "component: mlxfwmanager updates adapters: expected hca"),
    ("{id: a, component: bios, exactly: '1', by: fwupd}", "component: fwupd: expected nvme or a glob"),
    ("{id: a, component: hca, exactly: '1', by: mlxfwmanager, payload: {url: 'http://head/a', sha256: "
     + "0" * 64 + "}}", "is sent a file"),
    ("{id: a, component: hca, exactly: '1', by: scp}", "by")])
def test_a_route_that_cannot_be_is_one_clear_line(bed: BandBed, entry: str, said: str) -> None:
    with pytest.raises(RulesError) as caught:
        bed.policy(f"firmware:\n- {entry}\n")
    assert (said in str(caught.value) and "bringup.yaml:2" in str(caught.value)
            and len(str(caught.value).splitlines()) == 1)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fwupd]:
    with fwupd(tmp_path_factory.mktemp("fwupd") / "bed") as found:
        yield found


def capsule(daemon: Fwupd) -> None:
    """What a machine's firmware does with a capsule at its start."""
    subprocess.run(["fwupdmgr", "install", str(CABINETS / "fakedevice124.cab"), "--json", "--no-reboot-check",
                    "--assume-yes"],
                   env={**os.environ, **daemon.environment}, stdin=subprocess.DEVNULL, check=True,
                   capture_output=True)


def test_the_real_fwupd_stages_a_cabinet_and_runs_it_after_the_restart(daemon: Fwupd, tmp_path: Path) -> None:
    data = (CABINETS / "fakedevice124.cab").read_bytes()
    text = ("firmware: [{id: cam, component: 'Integrated*', at_least: '1.2.4', by: fwupd, "
            f"payload: {{file: a.cab, sha256: {hashlib.sha256(data).hexdigest()}}}}}]\n")
    machine = AdapterMachine(tmp_path / "root")
    (machine.root / "usr/bin/fwupdmgr").symlink_to("/usr/bin/fwupdmgr")
    bed = BandBed(tmp_path, machine, BandPlace(str(machine.root), daemon.environment))
    daemon.start(reboot=True)

    def restart() -> None:
        """The test device forgets what waits; its bootloader would write it."""
        daemon.stop()
        daemon.start(reboot=False)
        capsule(daemon)
        machine.restart()
    bed.does_restart = restart
    outcome = bed.run(text, data)
    assert outcome.done and outcome.message == "as wanted: Integrated Webcam™ 1.2.4"
    assert bed.steps(text) == [("send", True), ("restart", True)]
