"""Steps bmc and credentials, and what a controller that does not answer means for its machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.facts.values import Unmeasured
from healthcheck.model.outcome import Owner
from healthcheck.store.bringupnotes import LOGIN, REFUSED
from inventory.errors import UsageError
from inventory.model import Node
from provisioning.bmc.base import BmcError, BmcErrorReason, Controller, FirmwareEntry
from provisioning.bringup.engine.model import Machine, Observation, Operation, StepEffect, StepState
from provisioning.bringup.policy.load import load
from provisioning.bringup.policy.model import BringupPolicy
from provisioning.bringup.steps.bmc import BmcReachable
from provisioning.bringup.steps.bmcstep import OfBmc, pause, seen
from provisioning.bringup.steps.credentials import Credentials
from provisioning.bringup.steps.versions import compared
from tests.provisioning.bringup.controllers import IDENTITY, NODE, POLICY, Scripted, machine, site, sku_of


def looked(step: OfBmc, of: Machine) -> Observation:
    (name, found), = step.observe([of])
    assert name == of.name
    return found


def reachable(controller: Scripted, of: Machine | None = None) -> Observation:
    return looked(BmcReachable(POLICY.steps["bmc"], controller), of or machine())


def credentials(controller: Scripted, policy: BringupPolicy = POLICY) -> Observation:
    return looked(Credentials(POLICY.steps["credentials"], controller, policy, sku_of), machine())


def test_a_controller_that_answers_ends_the_step_and_is_closed() -> None:
    controller = Scripted()
    found = reachable(controller)
    assert (found.stand is StepState.SO and "iDRAC 9" in found.message
            and controller.opened == controller.closed == 1)


def test_one_that_cannot_be_reached_is_asked_again_and_in_the_end_the_data_centre_checks_its_cable() -> None:
    controller = Scripted(fails={"reachable": BmcError(BmcErrorReason.UNREACHABLE, "no route to host")})
    found = reachable(controller)
    assert found.stand is StepState.UNKNOWN and controller.closed == 1
    (late,) = found.troubles
    assert (late.owner is Owner.DATACENTRE and late.part == "cable" and "rack r12" in late.hand
            and "power suppl" in late.hand)
    assert "198.51.100.7" in late.what


@pytest.mark.parametrize("wrong", [BmcErrorReason.TIMEOUT, BmcErrorReason.BUSY, BmcErrorReason.BROKEN])
def test_one_that_is_slow_or_sick_is_asked_again_and_in_the_end_ours_to_restart(
    wrong: BmcErrorReason,
) -> None:
    found = reachable(Scripted(fails={"reachable": BmcError(wrong, "503 Service Unavailable")}))
    assert (found.stand is StepState.UNKNOWN and found.troubles[0].owner is Owner.OPERATOR
            and "reset cold" in found.troubles[0].hand)


@given(st.lists(st.floats(0.1, 1e5), min_size=2, max_size=20))
def test_pauses_grow_and_have_an_end(times: list[float]) -> None:
    pauses = [pause(machine(after=after)) for after in sorted(times)]
    assert pauses == sorted(pauses) and min(pauses) >= 2 and max(pauses) <= 120


def test_another_certificate_is_trouble_at_once_and_names_the_command() -> None:
    found = reachable(
        Scripted(
            fails={"reachable": BmcError(BmcErrorReason.TLS, "it shows SHA256:bb, and SHA256:aa is pinned")}))
    assert found.stand is StepState.TROUBLE and found.troubles[0].owner is Owner.OPERATOR
    assert ("muster bmc enroll gx01 --replace gx01" in found.troubles[0].hand
            and "SHA256:aa" in found.troubles[0].what)
    assert NODE.bmc is not None
    verified = replace(NODE, bmc=replace(NODE.bmc, tls="verify"))
    found = reachable(
        Scripted(fails={"reachable": BmcError(BmcErrorReason.TLS, "self-signed")}), machine(verified))
    assert "enroll" not in found.troubles[0].hand and "`tls:` of gx01" in found.troubles[0].hand


@pytest.mark.parametrize("name", ["bmc", "credentials"])
def test_a_machine_without_a_bmc_is_trouble_and_no_one_is_asked(name: str) -> None:
    def never(node: Node) -> Controller:
        raise AssertionError

    step = BmcReachable(POLICY.steps[name], never)
    found = looked(step, machine(replace(NODE, bmc=None)))
    assert found.stand is StepState.TROUBLE and "no bmc in the inventory" in found.message
    assert ("without:" in found.troubles[0].hand
            and "muster bringup skip gx01 --step bmc --step credentials" in found.troubles[0].hand)
    assert step.make(
        machine(replace(NODE, bmc=None)), Operation("x", "x", (), StepEffect.PASSIVE)).done is False


def test_a_controller_that_cannot_even_be_made_is_trouble_in_its_own_words() -> None:
    def never(node: Node) -> Controller:
        raise UsageError("ipmitool is not installed: apt install ipmitool")

    found = looked(BmcReachable(POLICY.steps["bmc"], never), machine())
    assert found.stand is StepState.TROUBLE and "apt install ipmitool" in found.message
    made = BmcReachable(
        POLICY.steps["bmc"], never).make(machine(), Operation("x", "x", (), StepEffect.PASSIVE))
    assert made.done is False and "ipmitool" in made.message


@pytest.mark.parametrize("wrong", list(BmcErrorReason))
def test_every_kind_of_error_has_an_owner_and_a_hand_and_none_is_a_pass(wrong: BmcErrorReason) -> None:
    found = seen(BmcError(wrong, "said so"), machine(), "bmc")
    assert found.stand in (
        StepState.TROUBLE, StepState.UNKNOWN) and found.troubles[0].hand and "gx01" in found.troubles[0].hand
    assert (found.keep == {LOGIN: REFUSED}) == (wrong is BmcErrorReason.CREDENTIALS)


def test_foreign_words_of_an_error_are_one_clean_line() -> None:
    found = seen(BmcError(BmcErrorReason.BROKEN, "\x1b[2J" + "x" * 5000 + "\nsecond"), machine(), "bmc")
    assert ("\x1b" not in found.message + found.troubles[0].what
            and len(found.troubles[0].what) < 500 and "\n" not in found.message)


def test_a_login_keeps_who_the_machine_is() -> None:
    found = credentials(Scripted())
    assert found.stand is StepState.SO and "serial SN1" in found.message and "BIOS 2.1.5" in found.message
    assert found.keep == {
        "serial": "SN1", "uuid": "uuid-1", "vendor": "Dell Inc.", "model": "GX8", "bios": "2.1.5",
        "firmware": "7.00.60", "controller": "iDRAC 9"}


def test_a_refused_login_is_kept_so_that_no_one_tries_it_again() -> None:
    found = credentials(
        Scripted(fails={"identity": BmcError(BmcErrorReason.CREDENTIALS, "401 for user admin")}))
    assert found.stand is StepState.TROUBLE and found.keep == {
        LOGIN: REFUSED} and found.troubles[0].owner is Owner.OPERATOR
    assert "muster bringup retry gx01" in found.troubles[0].hand


@pytest.mark.parametrize("wrong", [BmcErrorReason.DENIED, BmcErrorReason.NO_SECRET])
def test_an_account_that_may_not_and_a_missing_password_are_ours(wrong: BmcErrorReason) -> None:
    found = credentials(Scripted(fails={"identity": BmcError(wrong, "no")}))
    assert (found.stand is StepState.TROUBLE
            and found.troubles[0].owner is Owner.OPERATOR and LOGIN not in found.keep)


def desired(folder: Path, text: str) -> BringupPolicy:
    return load([packaged(), site(folder, f"firmware:\n{text}")])


def test_old_firmware_is_trouble_of_its_owner_and_what_is_new_enough_is_not(tmp_path: Path) -> None:
    policy = desired(tmp_path / "r", """
- {id: bmc, vendor: "Dell*", component: bmc, at_least: "7.00.60"}
- {id: bios, component: bios, exactly: "2.1.6", owner: vendor}
- {id: nics, component: "NIC*", at_least: "28.39.1002"}
""")
    versions = tuple(FirmwareEntry(f"NIC{at}", version)
                     for at, version in enumerate(("28.39.1002", "28.38.900", "28.40.1")))
    found = credentials(Scripted(versions=versions), policy)
    assert found.stand is StepState.TROUBLE and found.keep["serial"] == "SN1"
    assert [(one.owner, one.what) for one in found.troubles] == [
        (Owner.VENDOR, "firmware of bios is 2.1.5, wanted 2.1.6 (bios)"),
        (Owner.OPERATOR, "firmware of NIC1 is 28.38.900, wanted at least 28.39.1002 (nics)")]


def test_a_kind_is_every_part_of_it_and_what_only_a_sweep_tells_is_said_to_be_left_to_one(
        tmp_path: Path) -> None:
    policy = desired(tmp_path / "r", """
- {id: supplies, component: psu, at_least: "00.1D"}
- {id: drives, component: nvme, exactly: "GDC5602Q"}
""")
    well = FirmwareEntry("PSU_0", "00.1D")
    found = credentials(Scripted(versions=(well, FirmwareEntry("Power Supply Firmware", "00.1B"))), policy)
    assert (found.stand is StepState.UNKNOWN
            and "Power Supply Firmware: 00.1B and 00.1D cannot be" in found.message)
    found = credentials(Scripted(versions=(well,)), policy)
    assert found.stand is StepState.SO
    assert "not judged here, as its BMC does not tell of them: nvme (drives)" in found.message
    found = credentials(Scripted(versions=(well, FirmwareEntry("PCIe SSD in Slot 0", "EPK9CB5Q"))), policy)
    assert [one.what for one in found.troubles] == [
        "firmware of PCIe SSD in Slot 0 is EPK9CB5Q, wanted GDC5602Q (drives)"]
    found = credentials(Scripted(versions=(well, FirmwareEntry("PCIe SSD in Slot 0", "N/A"))), policy)
    assert found.stand is StepState.UNKNOWN


def test_a_version_that_is_not_told_or_not_to_be_compared_is_no_pass(tmp_path: Path) -> None:
    policy = desired(tmp_path / "r", """
- {id: bios, component: bios, at_least: "U54 2.10"}
- {id: bmc, component: bmc, at_least: "1"}
- {id: gone, component: "CPLD*", exactly: "1"}
""")
    silent = replace(IDENTITY, bios="U46 v2.10", firmware=Unmeasured("it does not say"))
    found = credentials(Scripted(who=silent, versions=(FirmwareEntry("GPU0", "96"),)), policy)
    assert found.stand is StepState.UNKNOWN and found.troubles[0].owner is Owner.OPERATOR
    assert ("cannot be compared" in found.message and "bmc: its version is unknown" in found.message
            and "no such component" in found.message)
    no_list = credentials(
        Scripted(who=silent, fails={"firmware": BmcError(BmcErrorReason.UNSUPPORTED, "no")}), policy)
    assert no_list.stand is StepState.UNKNOWN and "no inventory of firmware" in no_list.message


def test_a_wish_by_maker_is_no_pass_for_a_machine_that_does_not_say_who_made_it(tmp_path: Path) -> None:
    policy = desired(tmp_path / "r", "- {id: bmc, vendor: \"Dell*\", component: bmc, at_least: \"1\"}\n")
    nobody = Scripted(who=replace(IDENTITY, vendor=Unmeasured("it does not say")))
    assert credentials(nobody, policy).stand is StepState.UNKNOWN
    assert credentials(nobody).stand is StepState.SO        # nothing is wanted of anybody


@pytest.mark.parametrize(
    ("one", "other", "order"),
    [("2.9", "2.10", -1), ("1.0", "1.0.0", 0), ("7.20.30.00", "7.20.30", 0), ("U46 v1.20", "U46 v1.3", 1),
     ("U46 v1.20", "U54 v1.3", None), ("1.2a", "1.2b", None), ("1.2", "1.2.a", None), ("", "1", None),
     ("n/a", "1", None), ("01.02", "1.2", 0), ("96.00.9F.00.01", "96.00.A0.00.01", -1),
     ("96.00.BC.00.01", "96.00.74.00.01", 1), ("96.00.bc.00.01", "96.00.BC.00.01", 0),
     ("96.00.BC.00", "96.00.74.00", None),
     ("10/21/2024", "01/05/2025", -1), ("U46 v2.10 (01/05/2025)", "U46 v2.10 (10/21/2024)", 1),
     ("1/5/2025", "01/05/2025", 0)])
def test_versions_are_compared_piece_by_piece(one: str, other: str, order: int | None) -> None:
    assert compared(one, other) == order


@given(st.text(max_size=20), st.text(max_size=20))
def test_comparing_versions_is_a_matter_of_both_sides(one: str, other: str) -> None:
    forth, back = compared(one, other), compared(other, one)
    assert (forth is None) == (back is None) and (forth is None or back is None or forth == -back)
