"""Step os with an installer that is an object: asked once, and its report alone ends the step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.model.outcome import Owner
from healthcheck.store import bringups
from healthcheck.store.file import opened
from inventory.model import Node
from provisioning.bmc.base import BmcError, BmcErrorReason, BootTarget, PowerState
from provisioning.bringup.engine.model import Machine, Observation, Operation, OperationResult, StepState
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import BringupOutcome, RunContext
from provisioning.bringup.steps.boot import BootFrom
from provisioning.bringup.steps.os import OsInstalled, install_key
from provisioning.bringup.steps.osproof import OsProof, Proof, proven_keys
from provisioning.osinstall.base import OsError, OsReport, OsState
from provisioning.osinstall.hostkeylines import blob_of
from tests.provisioning.bringup.controllers import NODE, POLICY, Scripted, machine, past
from tests.provisioning.bringup.proofs import (
    ALIVE,
    DEAD,
    INSTALLER,
    UNPROVEN,
    Installer,
    always,
    others,
)
from tests.provisioning.bringup.scripted import Plan
from tests.testbed.death import Clock

INSTALL = install_key(("deploy gx01",))
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDL7QHzCcmlBjaLs6jqbZHNfuCp2jmuZjNszJrqTxcRH"
DONE = OsReport(OsState.INSTALLED, "is deployed", "jammy", (KEY,))
FAILED = OsReport(OsState.FAILED, "Failed deployment", advice="see its events")
PXE = replace(POLICY, boot=BootTarget.PXE, power=replace(POLICY.power, answer_s=0.0))


def os(
    back: Installer, controller: Scripted | None = None, *operations: tuple[str, bool | None],
    after: float = 1.0,
    node: Node = NODE, kept: dict[str, str] | None = None, message: str = "accepted",
    proof: Proof | None = None,
) -> Observation:
    executor = OsInstalled(POLICY.steps["os"], controller or Scripted(), POLICY, back, proof or back.state)
    of = machine(node, after=after,
                 operations=tuple(past(key, done, message=message) for key, done in operations), kept=kept)
    (_, found), = executor.observe([of])
    return found


def boot(back: Installer | None, proof: Proof, controller: Scripted | None = None,
         policy: object = PXE) -> Observation:
    (_, found), = BootFrom(
        POLICY.steps["boot"], controller or Scripted(), policy, back or others(),
        proof).observe([machine(after=1.0)])  # type: ignore[arg-type]
    return found


def brought(
    folder: Path, back: Installer, controller: Scripted, proof: Proof | None = None, policy: object = POLICY,
    clock: Clock | None = None, on_event: Callable[[object], None] = lambda event: None,
) -> BringupOutcome:
    clock, proof = clock or Clock(), proof or back.state
    executors = {
        "boot": BootFrom(POLICY.steps["boot"], controller, policy, back, proof),  # type: ignore[arg-type]
        "os": OsInstalled(POLICY.steps["os"], controller, policy, back, proof)}  # type: ignore[arg-type]
    return run(RunContext(folder, "somebody", clock, clock.sleep), [NODE], executors,
               Plan({name: one.step for name, one in executors.items()}), on_event)


def test_an_installer_is_asked_once_and_the_step_ends_with_its_report_alone(tmp_path: Path) -> None:
    back, controller, looks = Installer(), Scripted(on=PowerState.OFF), []

    def proof(node: Node) -> OsReport:
        looks.append(back.report.state)
        if looks.count(OsState.INSTALLING) == 3:
            back.report = DONE
        return back.state(node)

    assert brought(tmp_path, back, controller, proof).done == ("gx01",)
    assert back.asked == ["gx01"]
    assert controller.operations == ["on"]
    with opened(tmp_path) as store:
        (row,) = bringups.progress(store)
        assert [(one.key, one.done) for one in bringups.actions(store)] == [(INSTALL, True), ("on:os", True)]
    assert row.kept["os.image"] == "jammy"
    assert proven_keys(row.kept) == (blob_of(KEY),)


def test_an_installer_of_several_steps_is_asked_for_each_of_them_once(tmp_path: Path) -> None:
    class Commissions(Installer):
        def changes(self, node: Node) -> tuple[str, ...]:
            return (f"{'deploy' if self.report.message == 'Ready' else 'commission'} {node.name}",)

    back, looks = Commissions(drives_power=True), [0, 0]

    def proof(node: Node) -> OsReport:
        if back.report.state is OsState.INSTALLING:
            looks[len(back.asked) - 1] += 1
            if looks[len(back.asked) - 1] == 3:
                back.report = OsReport(OsState.PLANNED, "Ready") if len(back.asked) == 1 else DONE
        return back.state(node)

    assert brought(tmp_path, back, Scripted(), proof).done == ("gx01",)
    with opened(tmp_path) as store:
        assert [one.key for one in bringups.actions(store)] == [install_key((f"{do} gx01",))
                                                                for do in ("commission", "deploy")]
    assert back.asked == ["gx01", "gx01"]


class Leaves(Installer):
    """Leaves a disc in the machine's drive."""

    def finish(self, node: Node) -> None:
        self.asked.append(f"finish {node.name}")
        if self.raises:
            raise self.raises.pop(0)


def test_what_an_installation_leaves_behind_is_taken_away_once_and_nothing_of_a_machine_that_others_installed(
        tmp_path: Path) -> None:
    back = Leaves(report=DONE)
    first = os(back, None, (INSTALL, True))
    assert first.operation is not None and first.operation.key == "finish"
    executor = OsInstalled(POLICY.steps["os"], Scripted(), POLICY, back, back.state)
    assert executor.make(machine(), first.operation).done is True
    assert back.asked == ["finish gx01"]
    assert os(back, None, (INSTALL, True), ("finish", True)).stand is StepState.SO
    assert os(back).stand is StepState.SO


def test_a_disc_that_cannot_be_taken_out_is_said_and_keeps_no_machine_from_service() -> None:
    back = Leaves(report=DONE, raises=[OsError("its controller: no media", done=False)])
    first = os(back, None, (INSTALL, True))
    assert first.operation is not None
    made = OsInstalled(POLICY.steps["os"], Scripted(), POLICY, back,
                       back.state).make(machine(), first.operation)
    assert (made.done, made.message) == (False, "its controller: no media")
    found = os(back, None, (INSTALL, True), ("finish", False), message=made.message)
    assert found.stand is StepState.SO
    assert found.message.endswith("what it was installed from is left: its controller: no media")


@pytest.mark.parametrize(("seen", "state"), [
    (ALIVE, OsState.INSTALLED), (UNPROVEN, OsState.UNKNOWN), (DEAD, OsState.PLANNED),
    (INSTALLER, OsState.PLANNED)])
def test_what_others_have_installed_is_not_installed_over(seen: OsReport, state: OsState) -> None:
    assert OsProof(Installer(), always(seen))(NODE).state is state


def test_a_machine_that_only_its_installer_vouches_for_is_turned_on_where_it_is_off(tmp_path: Path) -> None:
    controller = Scripted(on=PowerState.OFF)
    assert brought(tmp_path, Installer(report=DONE), controller).done == ("gx01",)
    assert controller.operations == ["on"]
    gone = Scripted(fails={"power": BmcError(BmcErrorReason.BROKEN, "500")})
    assert os(Installer(report=DONE), gone).stand is StepState.UNKNOWN
    assert os(Installer(report=replace(DONE, answered=True)), gone).stand is StepState.SO
    assert os(Installer(report=DONE), gone, node=replace(NODE, bmc=None)).stand is StepState.SO
    assert os(Installer(report=DONE, drives_power=True), gone).stand is StepState.SO


def test_the_operation_says_what_it_changes_and_is_once(tmp_path: Path) -> None:
    found = os(Installer())
    assert found.stand is StepState.NOT_SO
    assert found.operation is not None
    assert (found.operation.change, found.operation.once,
            found.operation.key) == (("deploy gx01",), True, INSTALL)


def test_an_installer_that_drives_the_power_has_it_to_itself(tmp_path: Path) -> None:
    back = Installer(drives_power=True, target=BootTarget.PXE)
    controller = Scripted(on=PowerState.OFF, fails={"power": BmcError(BmcErrorReason.BROKEN, "500")})
    assert os(back, controller, (INSTALL, True)).stand is StepState.WAIT
    assert boot(back, back.state, controller).message == "its installer (scripted) turns it on and off"
    assert controller.operations == []


def test_the_installers_target_counts_where_the_policy_names_none() -> None:
    back = Installer(target=BootTarget.PXE)
    found = boot(back, back.state, Scripted(on=PowerState.OFF), replace(POLICY, power=PXE.power))
    assert found.operation is not None
    assert found.operation.key == "boot:pxe"
    found = boot(back, back.state, Scripted(on=PowerState.OFF), replace(PXE, boot=BootTarget.DISK))
    assert found.operation is not None
    assert found.operation.key == "boot:disk"


@pytest.mark.parametrize("done", [False, True])
def test_killed_while_it_asked_the_installer_is_asked_again_only_where_it_does_not_show(tmp_path: Path,
                                                                                        done: bool) -> None:
    back = Installer()

    class Dying(OsInstalled):
        def make(self, machine: Machine, operation: Operation) -> OperationResult:
            if operation.key == INSTALL and not lost:
                lost.append(1)
                if done:
                    super().make(machine, operation)
                return OperationResult(None, "it is not known")
            return super().make(machine, operation)

    lost: list[int] = []
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.now += seconds
        if back.asked and clock.now > 1100:
            back.report = DONE

    executor = Dying(POLICY.steps["os"], Scripted(), POLICY, back, back.state)
    outcome = run(RunContext(tmp_path, "somebody", clock, sleep), [NODE], {"os": executor},
                  Plan({"os": executor.step}), lambda event: None)
    assert outcome.done == ("gx01",)
    assert back.asked == ["gx01"]


def test_an_installer_that_cannot_be_asked_or_will_not_is_trouble_in_the_end_with_its_words(
        tmp_path: Path) -> None:
    back = Installer(raises=[OsError("no such machine", done=False)] * 10_000)
    clock = Clock()
    assert brought(tmp_path, back, Scripted(), clock=clock).trouble == ("gx01",)
    assert clock.now - 1000 >= POLICY.steps["os"].seconds

    def gone(node: Node) -> OsReport:
        raise OsError("the region refuses the connection")

    found = os(Installer(), proof=gone)
    assert found.stand is StepState.UNKNOWN
    assert "the region refuses the connection" in found.troubles[0].what
    assert "bringup.yaml" in found.troubles[0].hand
    assert boot(None, gone).stand is StepState.UNKNOWN


def test_a_failed_installation_is_trouble_and_a_retry_has_it_installed_again(tmp_path: Path) -> None:
    back, controller = Installer(report=FAILED), Scripted()
    assert brought(tmp_path, back, controller).trouble == ("gx01",)
    with opened(tmp_path) as store:
        (line,) = bringups.troubles(store)
    assert line.owner == Owner.OPERATOR.value
    assert "Failed deployment" in line.what
    assert line.hand == "see its events; to have it installed again: muster bringup retry gx01"
    # Begun anew by itself, it is not: no one has said so.
    assert brought(tmp_path, back, controller).trouble == ("gx01",)
    assert back.asked == []
    with opened(tmp_path) as store:
        bringups.retry(store, ["gx01"], "somebody", 9e9)

    def sleep(seconds: float) -> None:
        clock.now += seconds
        if back.asked:
            back.report = DONE

    clock = Clock(1e10)
    executor = OsInstalled(POLICY.steps["os"], controller, POLICY, back, back.state)
    outcome = run(RunContext(tmp_path, "somebody", clock, sleep), [NODE], {"os": executor},
                  Plan({"os": executor.step}), lambda event: None)
    assert outcome.done == ("gx01",)
    assert back.asked == ["gx01"]


@pytest.mark.parametrize("report", [FAILED, None], ids=["it failed", "its failure was forgotten"])
def test_to_be_installed_again_it_is_sent_there_again_and_turned_off_first(report: OsReport | None) -> None:
    back, controller = Installer(**({"report": report} if report else {}), target=BootTarget.PXE), Scripted()
    operations: list[tuple[str, bool | None]] = []
    for _ in range(3):
        found = os(back, controller, *operations, kept={"os.failed": "900.000"})
        assert found.operation is not None
        operations.append((found.operation.key, True))
        executor = OsInstalled(POLICY.steps["os"], controller, POLICY, back, back.state)
        assert executor.make(machine(), found.operation).done
    assert [key for key, _ in operations] == ["boot:pxe", "off:boot:pxe", INSTALL]
    assert controller.operations == ["boot pxe", "off"]


def test_one_that_fails_again_is_trouble_again() -> None:
    back = Installer(report=FAILED)
    found = os(back, None, (INSTALL, True), after=300.0, kept={"os.failed": "900.000"})
    assert found.stand is StepState.TROUBLE
    assert found.keep["os.failed"] == "1000.000"
    # What it said before it was asked does not count.
    assert os(back, None, (INSTALL, True), after=30.0, kept={"os.failed": "900.000"}).stand is StepState.WAIT


def test_an_installer_that_answers_is_no_system_and_is_not_sent_to_an_installer_again() -> None:
    found = os(Installer(report=INSTALLER), None)
    assert found.stand is StepState.WAIT
    assert "subiquity" in found.troubles[0].what
    assert "see its console" in found.troubles[0].hand
    sent = boot(None, always(INSTALLER))
    assert sent.stand is StepState.SO
    assert "is being installed" in sent.message


def test_what_proves_neither_is_not_measured_and_never_installed_over() -> None:
    found = os(Installer(report=UNPROVEN))
    assert found.stand is StepState.UNKNOWN
    assert "name a marker" in found.troubles[0].hand
    for on in (PowerState.ON, PowerState.OFF):
        sent = boot(None, always(UNPROVEN), Scripted(on=on))
        assert (sent.stand, sent.operation) == (StepState.UNKNOWN, None)
        assert "turn it off, then: muster bringup retry gx01" in sent.troubles[0].hand
        assert "skip gx01 --step boot" in sent.troubles[0].hand


def test_what_has_answered_once_is_not_installed_over_because_one_look_misses_it() -> None:
    seen = boot(None, always(UNPROVEN))
    late = replace(machine(after=800.0), kept=dict(seen.keep))

    def next_look(of: Machine, on: PowerState) -> Observation:
        executor = BootFrom(POLICY.steps["boot"], Scripted(on=on), PXE, others(), always(DEAD))
        (_, found), = executor.observe([of])
        return found

    missed = next_look(late, PowerState.ON)
    assert (missed.stand, missed.operation) == (StepState.UNKNOWN, None)
    assert "something answered there" in missed.message
    # Who turned it off, or had the step begun anew, has said so.
    assert next_look(late, PowerState.OFF).operation is not None
    assert next_look(replace(late, began=1500.0), PowerState.ON).operation is not None


def test_an_installers_word_without_host_keys_is_held_against_the_machines_own_sign() -> None:
    said = replace(DONE, host_keys=())
    back = Installer(report=said)
    assert OsProof(Installer(report=DONE), always(DEAD))(NODE) == DONE
    both = OsProof(back, always(replace(ALIVE, host_keys=(KEY,))))(NODE)
    assert (both.state, both.image, both.host_keys) == (OsState.INSTALLED, "jammy", (KEY,))
    for seen, state in ((DEAD, OsState.INSTALLING), (INSTALLER, OsState.INSTALLING),
                        (UNPROVEN, OsState.UNKNOWN)):
        report = OsProof(back, always(seen))(NODE)
        assert (report.state, report.host_keys) == (state, ())
        assert "is deployed; the machine itself: " in report.message
    asked: list[Node] = []
    OsProof(Installer(report=INSTALLER),
            lambda node: asked.append(node) or DEAD)(NODE)  # type: ignore[func-returns-value]
    assert asked == []


@pytest.mark.parametrize("power", [PowerState.ON, PowerState.OFF])
def test_a_failure_of_before_sends_no_machine_to_its_installer_until_a_person_says_so(
        power: PowerState) -> None:
    back = Installer(report=FAILED, target=BootTarget.PXE)
    found = boot(back, back.state, Scripted(on=power))
    assert (found.stand, found.operation) == (StepState.SO, None)
    assert "Failed deployment" in found.message


def test_a_failure_that_no_one_was_told_of_is_reported_first_though_one_before_it_was_tried_again() -> None:
    back = Installer(report=OsReport(OsState.INSTALLING, "its disk is written"))
    asked = os(back, None, (INSTALL, True), kept={"os.failed": "900.000"})
    assert asked.stand is StepState.WAIT
    back.report = FAILED
    # Its time in the step was over, and somebody had it begun anew; meanwhile its installer gave up.
    found = os(back, kept={"os.failed": "900.000", **asked.keep})
    assert (found.stand, found.operation) == (StepState.TROUBLE, None)


def test_what_an_installation_leaves_behind_is_taken_away_also_after_the_step_was_begun_anew() -> None:
    back = Leaves()
    back.report = OsReport(OsState.INSTALLING, "is deploying")
    asked = os(back, None, (INSTALL, True))
    back.report = DONE
    found = os(back, kept=dict(asked.keep))
    assert found.operation is not None
    assert found.operation.key == "finish"


def test_a_disc_of_which_it_is_not_known_whether_it_was_taken_out_is_said() -> None:
    found = os(Leaves(report=DONE), None, (INSTALL, True), ("finish", None),
               message="its controller: timeout")
    assert found.stand is StepState.SO
    assert found.message.endswith("what it was installed from may be left: its controller: timeout")
