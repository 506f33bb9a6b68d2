"""Steps boot and os: the next boot, and whether a system answers; none is installed over."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.values import Unmeasured
from healthcheck.model.outcome import Owner
from inventory.model import Node
from inventory.sshconfig import SshConfig
from provisioning.bmc.base import BmcError, BmcErrorReason, BootOverride, BootTarget, PowerState
from provisioning.bringup.engine.model import Executor, Machine, Observation, StepState
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import BringupOutcome, RunContext
from provisioning.bringup.steps.boot import BootFrom
from provisioning.bringup.steps.os import OsInstalled
from provisioning.bringup.steps.osproof import Proof
from provisioning.osinstall.banner import banner, line_of
from provisioning.osinstall.base import OsReport
from tests.provisioning.bringup.controllers import NODE, POLICY, UNSUPPORTED, Scripted, machine, past
from tests.provisioning.bringup.proofs import ALIVE, DEAD, always, others
from tests.provisioning.bringup.scripted import Plan
from tests.testbed.death import Clock
from tests.testbed.sshd import Sshd, listener, silent, sshd

PXE = replace(POLICY, boot=BootTarget.PXE, power=replace(POLICY.power, answer_s=0.0))


dead, alive = always(DEAD), always(ALIVE)


def boot(
    controller: Scripted, *operations: tuple[str, bool | None],
    proof: Proof = dead, after: float = 1.0, message: str = "accepted",
) -> Observation:
    of = machine(after=after, operations=tuple(past(key, done, message=message) for key, done in operations))
    (_, found), = BootFrom(POLICY.steps["boot"], controller, PXE, others(), proof).observe([of])
    return found


def os(
    controller: Scripted, *operations: tuple[str, bool | None],
    proof: Proof = dead, after: float = 1.0, node: Node = NODE,
    kept: dict[str, str] | None = None,
) -> Observation:
    of = machine(node, after=after, operations=tuple(past(key, done) for key, done in operations), kept=kept)
    (_, found), = OsInstalled(POLICY.steps["os"], controller, POLICY, others(), proof).observe([of])
    return found


def brought(folder: Path, *executors: Executor) -> BringupOutcome:
    clock = Clock()
    return run(RunContext(folder, "somebody", clock, clock.sleep), [NODE],
               {executor.step.name: executor for executor in executors},
               Plan({executor.step.name: executor.step for executor in executors}), lambda event: None)


def test_where_nothing_is_wished_the_controller_is_not_even_asked() -> None:
    controller = Scripted(fails={"boot": BmcError(BmcErrorReason.BROKEN, "500")})
    (_, found), = BootFrom(POLICY.steps["boot"], controller, POLICY, others(), dead).observe([machine()])
    assert found.stand is StepState.SO and "boot order" in found.message


def test_a_machine_that_is_on_without_a_system_is_sent_there_turned_off_and_then_on(tmp_path: Path) -> None:
    controller = Scripted()
    booted: list[BootTarget] = []

    def installed(node: Node) -> OsReport:
        if controller.operations[-1:] == ["on"]:
            booted.append(controller.boot().target)     # type: ignore[arg-type]
            return alive(node)
        return dead(node)

    executors = BootFrom(POLICY.steps["boot"], controller, PXE, others(), installed), OsInstalled(
        POLICY.steps["os"], controller, PXE, others(), installed)
    assert brought(tmp_path, *executors).done == ("gx01",)
    assert controller.operations == [
        "boot pxe", "off", "on"] and booted == [BootTarget.PXE] and controller.override.once is True


def test_a_machine_that_is_off_is_not_turned_twice(tmp_path: Path) -> None:
    controller = Scripted(on=PowerState.OFF)
    assert brought(tmp_path, BootFrom(POLICY.steps["boot"], controller, PXE, others(), dead)).done == (
        "gx01",) and controller.operations == ["boot pxe"]


def test_a_system_that_is_installed_is_never_sent_to_an_installer(tmp_path: Path) -> None:
    controller = Scripted()
    found = boot(controller, proof=alive)
    assert found.stand is StepState.SO and "is installed" in found.message and ALIVE.message in found.message
    assert brought(tmp_path, BootFrom(POLICY.steps["boot"], controller, PXE, others(), alive)).done == (
        "gx01",) and controller.operations == []


def test_an_override_that_is_not_for_one_boot_only_is_not_what_is_wished() -> None:
    lasting = Scripted(on=PowerState.OFF, override=BootOverride(BootTarget.PXE, False))
    assert boot(lasting).stand is StepState.NOT_SO
    assert boot(
        Scripted(on=PowerState.OFF, override=BootOverride(BootTarget.PXE, True))).stand is StepState.SO


def test_a_controller_that_knows_no_such_boot_or_refuses_it_is_ours() -> None:
    found = boot(Scripted(override=BootOverride(BootTarget.NONE, False, (BootTarget.NONE, BootTarget.DISK))))
    assert (found.stand is StepState.TROUBLE and found.troubles[0].owner is Owner.OPERATOR
            and "skip gx01" in found.troubles[0].hand)
    refused = boot(Scripted(), ("boot:pxe", False), message="refused: 400")
    assert refused.stand is StepState.TROUBLE and refused.troubles[0].owner is Owner.OPERATOR
    assert boot(Scripted(), ("boot:pxe", False), message="timeout: slow").stand is StepState.NOT_SO


@pytest.mark.parametrize(
    "override",
    [BootOverride(UNSUPPORTED, UNSUPPORTED), BootOverride(BootTarget.PXE, Unmeasured("it does not say"))])
def test_an_override_that_is_not_told_is_set_and_then_taken_at_its_word(override: BootOverride) -> None:
    first, second = boot(Scripted(override=override)), boot(Scripted(override=override), ("boot:pxe", True))
    assert first.operation is not None and first.operation.key == "boot:pxe" and not first.operation.once
    assert second.operation is not None and second.operation.key == "off:boot:pxe" and second.operation.once


def test_an_override_that_did_not_stay_is_set_again() -> None:
    found = boot(Scripted(override=BootOverride(BootTarget.NONE, False)), ("boot:pxe", True))
    assert found.operation is not None and found.operation.key == "boot:pxe"


def test_a_machine_that_is_off_is_turned_on_once_and_waited_for(tmp_path: Path) -> None:
    controller = Scripted(on=PowerState.OFF)
    looks: list[int] = []

    def slowly(node: Node) -> OsReport:
        looks.append(1)
        return alive(node) if len(looks) > 5 else dead(node)

    assert brought(tmp_path, OsInstalled(POLICY.steps["os"], controller, POLICY, others(), slowly)).done == (
        "gx01",) and controller.operations == ["on"]


def test_a_proof_is_all_that_is_asked_for() -> None:
    controller = Scripted(fails={"power": BmcError(BmcErrorReason.UNREACHABLE, "gone")})
    found = os(controller, proof=alive)
    assert (found.stand is StepState.SO and found.message == f"installed: {ALIVE.message}"
            and controller.opened == 0)


def test_while_it_waits_it_says_how_far_the_boot_has_come_and_in_the_end_whom_to_ask() -> None:
    controller = Scripted(override=BootOverride(BootTarget.NONE, False, progress="OSBootStarted"))
    found = os(controller)
    assert found.stand is StepState.WAIT and "OSBootStarted" in found.message
    (late,) = found.troubles
    assert (late.owner is Owner.OPERATOR and "console" in late.hand and "PXE" in late.hand
            and "OSBootStarted" in late.what)
    silent_ = Scripted(fails={"boot": BmcError(BmcErrorReason.UNSUPPORTED, "no override")})
    assert os(silent_).stand is StepState.WAIT


def test_when_the_time_is_over_the_machine_is_in_trouble_with_that_owner(tmp_path: Path) -> None:
    controller = Scripted(on=PowerState.OFF)
    executor = OsInstalled(POLICY.steps["os"], controller, POLICY, others(), dead)
    assert brought(tmp_path, executor).trouble == ("gx01",) and controller.operations == ["on"]
    from healthcheck.store import bringups
    from healthcheck.store.file import opened

    with opened(tmp_path) as store:
        (line,) = bringups.troubles(store)
    assert line.owner == "operator" and "nothing answers" in line.what


def test_a_machine_that_was_told_to_go_on_and_stays_off_is_for_the_data_centre(tmp_path: Path) -> None:
    controller = Scripted(on=PowerState.OFF, stays=True)
    assert brought(tmp_path, OsInstalled(POLICY.steps["os"], controller, POLICY, others(), dead)).trouble == (
        "gx01",) and controller.operations == ["on"]
    assert os(controller, ("on:os", True), after=POLICY.power.on_s - 1).stand is StepState.WAIT
    found = os(controller, ("on:os", True), after=POLICY.power.on_s + 1)
    assert (found.stand is StepState.TROUBLE and found.troubles[0].owner is Owner.DATACENTRE
            and found.troubles[0].part == "psu")
    assert "rack r12" in found.troubles[0].hand


def test_a_machine_that_went_off_again_is_not_turned_on_a_second_time() -> None:
    was_on = os(Scripted(), ("on:os", True))
    assert was_on.keep
    found = os(Scripted(on=PowerState.OFF), ("on:os", True), kept=dict(was_on.keep))
    assert (found.stand is StepState.TROUBLE and "off again" in found.message
            and found.troubles[0].owner is Owner.DATACENTRE)


def test_without_a_controller_it_is_waited_for_and_in_the_end_somebody_goes_there() -> None:
    found = os(Scripted(), node=replace(NODE, bmc=None))
    assert (found.stand is StepState.WAIT and "no route to host" in found.message
            and "no bmc" in found.troubles[0].hand)
    assert os(Scripted(), node=replace(NODE, bmc=None), proof=alive).stand is StepState.SO


def test_a_controller_that_fails_meanwhile_is_no_pass() -> None:
    assert os(Scripted(fails={"power": BmcError(BmcErrorReason.BROKEN, "500")})).stand is StepState.UNKNOWN
    assert os(Scripted(override=BootOverride(Unmeasured("x"), Unmeasured("x")),
                       fails={"boot": BmcError(BmcErrorReason.TIMEOUT, "slow")})).stand is StepState.UNKNOWN


def node(port: int) -> Node:
    return Node("here", "127.0.0.1", port=port)


NO_CONFIG = SshConfig.parse("")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as started:
        yield started


def test_an_ssh_server_is_known_by_its_line(server: Sshd) -> None:
    line, why, _ = banner(node(server.port), config=NO_CONFIG)
    assert line.startswith("SSH-2.0-OpenSSH") and why == ""


def test_a_server_behind_a_jump_host_is_asked_for_its_keys(server: Sshd, tmp_path: Path) -> None:
    with sshd(tmp_path / "bastion") as bastion:
        config = SshConfig.parse("Host bastion\n"
                                 " HostName 127.0.0.1\n"
                                 f" Port {bastion.port}\n"
                                 f" User {bastion.user}\n"
                                 f" IdentityFile {bastion.user_key}\n"
                                 f" UserKnownHostsFile {bastion.known_hosts}\n")
        line, why, _ = banner(replace(node(server.port), proxy_jump="bastion"), config=config)
        assert "through bastion" in line and why == ""
        line, why, _ = banner(replace(node(1), proxy_jump="bastion"), config=config)
        assert line == "" and "cannot connect" in why
        found = banner(replace(node(1), proxy_jump="nowhere.invalid"), config=config)
        assert (found.line, found.asked) == ("", False)


def test_a_port_that_is_shut_and_one_that_is_silent_say_so_in_time() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        line, why, _ = banner(node(unused.getsockname()[1]), config=NO_CONFIG)
        assert line == "" and "refused" in why
    with listener(silent) as port:
        line, why, _ = banner(node(port), 0.3, NO_CONFIG)
        assert line == "" and "127.0.0.1" in why


def test_a_name_without_an_address_says_nothing_of_the_machine() -> None:
    found = banner(Node("gone.invalid"), config=NO_CONFIG)
    assert (found.line, found.asked) == ("", False)


def test_a_server_may_say_other_lines_before_its_own_and_one_that_says_none_is_no_ssh_server() -> None:
    def says(text: bytes) -> Callable[[socket.socket], None]:
        def serve(link: socket.socket) -> None:
            link.sendall(text)
            link.shutdown(socket.SHUT_WR)
        return serve

    with listener(says(b"welcome\r\nSSH-2.0-x\x1b[2J y\r\n")) as port:
        assert banner(node(port), 5.0, NO_CONFIG) == ("SSH-2.0-x\\x1b[2J y", "", True)
    with listener(says(b"220 mail\r\n" * 9000)) as port:
        assert "shows no SSH server" in banner(node(port), 5.0, NO_CONFIG)[1]


@given(st.binary(max_size=60))
def test_only_the_line_of_an_ssh_server_is_one(message: bytes) -> None:
    line = line_of(b"welcome\r\n" + message + b"\r\n")
    assert bool(line) == any(part.startswith((b"SSH-2.0-", b"SSH-1.99-")) for part in message.split(b"\n"))
    assert line.isprintable() and len(line) <= 120


@given(st.binary(max_size=30))
def test_half_a_line_is_none_yet(message: bytes) -> None:
    assert line_of(b"SSH-2.0-" + message.replace(b"\n", b"")) == ""


def test_a_machine_that_is_on_may_be_booting_and_is_given_time_before_it_is_sent_to_an_installer() -> None:
    """As after the reset that made its BIOS settings current: its system would be installed over."""
    patient = replace(PXE, power=replace(PXE.power, answer_s=600.0))
    controller = Scripted()
    early, late = (Machine(machine().node, 1000.0, 1000.0 + waited) for waited in (30.0, 601.0))
    (_, found), = BootFrom(POLICY.steps["boot"], controller, patient, others(), dead).observe([early])
    assert (found.stand, found.again_s) == (
        StepState.WAIT, 15.0) and "10 min more before it is sent to pxe" in found.message
    (_, found), = BootFrom(POLICY.steps["boot"], controller, patient, others(), alive).observe([early])
    assert found.stand is StepState.SO
    (_, found), = BootFrom(POLICY.steps["boot"], controller, patient, others(), dead).observe([late])
    assert found.operation is not None and found.operation.key == "boot:pxe"
    # One that is off boots nothing.
    (_, found), = BootFrom(POLICY.steps["boot"], Scripted(on=PowerState.OFF), patient, others(),
                           dead).observe([early])
    assert found.operation is not None and found.operation.key == "boot:pxe"
    assert POLICY.power.answer_s == 600.0 and POLICY.power.answer_s < POLICY.steps["boot"].seconds
