"""Step hardware: parts, event log and sensors of one machine, and machines that say they are each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.facts.bmc import BmcEvent, BmcSensor
from healthcheck.facts.values import Unmeasured
from healthcheck.model.outcome import Owner
from inventory.errors import ConfigError
from provisioning.bmc.base import BmcError, BmcErrorReason, HardwarePart, PowerState
from provisioning.bringup.engine.model import Observation, StepState
from provisioning.bringup.steps.duplicates import Duplicates, Other, delivered_by
from provisioning.bringup.steps.hardware import HardwareAsOrdered
from tests.provisioning.bringup.controllers import (
    IDENTITY,
    NODE,
    POLICY,
    UNSUPPORTED,
    Scripted,
    machine,
    parts,
    sku_of,
    unmeasured,
)

NOW = 1e9


def looked(
    controller: Scripted, *, others: Mapping[str, Other] | None = None,
    delivered: Mapping[str, str] | None = None, name: str = "gx01", after: float = 0.0,
    duplicates: Duplicates | None = None, sku: bool = True,
) -> Observation:
    duplicates = duplicates or Duplicates(lambda: others or {}, delivered)
    step = HardwareAsOrdered(
        POLICY.steps["hardware"], controller, POLICY, sku_of if sku else lambda node: None, duplicates)
    (_, found), = step.observe([machine(replace(NODE, name=name), after=after)])
    assert controller.closed == 1 and controller.operations == []
    return found


def test_a_machine_as_ordered_ends_the_step_and_keeps_its_numbers() -> None:
    found = looked(Scripted())
    assert (found.stand is StepState.SO and found.message == "as gx8 has it"
            and found.keep["serial"] == "SN1" and found.keep["hardware"] == "")


def test_a_missing_gpu_is_for_the_data_centre_with_its_seat_and_rack() -> None:
    hardware = parts()
    gpus = hardware.parts["gpu"]
    assert isinstance(gpus, tuple)
    found = looked(Scripted(hard=parts(gpu=gpus[:7])))
    assert found.stand is StepState.TROUBLE and found.keep["serial"] == "SN1"
    assert [
        (one.owner, one.part, one.slot) for one in found.troubles] == [(Owner.DATACENTRE, "gpu", "GPU_SXM_8")]
    assert "rack r12" in found.troubles[0].hand


def test_all_that_is_wrong_is_reported_at_once() -> None:
    found = looked(Scripted(hard=parts(psu=(HardwarePart("psu", "PSU 1", health="Critical"),),
                                       drive=(HardwarePart("drive", "Bay 0", health="OK"),))))
    assert {one.part for one in found.troubles} == {"psu", "drive"} and "and 1 more" in found.message


def test_what_the_controller_does_not_tell_of_is_said_and_left_for_the_operating_system() -> None:
    found = looked(Scripted(hard=parts(gpu=UNSUPPORTED)))
    assert (found.stand is StepState.SO
            and "left to the check from the operating system: GPUs: its controller does not tell"
            in found.message)
    assert "GPUs" in found.keep["hardware"]


def test_a_machine_without_a_sku_is_compared_with_nothing_and_does_not_pass() -> None:
    found = looked(Scripted(hard=parts(gpu=())), sku=False)
    (trouble,) = found.troubles
    assert found.stand is StepState.TROUBLE and trouble.owner is Owner.OPERATOR
    assert "it has no SKU" in trouble.what and "sku: NAME" in trouble.hand


def test_what_could_not_be_read_this_time_is_read_again_and_in_the_end_ours() -> None:
    found = looked(Scripted(hard=parts(drive=unmeasured())))
    assert (found.stand is StepState.UNKNOWN and "500" in found.message
            and found.troubles[0].owner is Owner.OPERATOR)
    assert "muster bringup skip gx01" in found.troubles[0].hand


def test_a_log_that_names_a_fatal_error_is_the_vendors_and_an_old_one_says_nothing() -> None:
    fatal = BmcEvent("PCI Bus", "Bus Fatal Error", NOW - 3600, "today")
    found = looked(Scripted(events=(fatal,)))
    assert (found.stand is StepState.TROUBLE and found.troubles[0].owner is Owner.VENDOR
            and "Bus Fatal Error" in found.troubles[0].what)
    assert looked(Scripted(events=(replace(fatal, time=NOW - 30 * 86400),))).stand is StepState.SO


def test_a_log_that_was_read_in_part_is_read_again_and_does_not_end_the_step() -> None:
    found = looked(Scripted(unread="entry 7: it answers 500"))
    assert found.stand is StepState.UNKNOWN
    assert "event log, in part: entry 7: it answers 500" in found.message
    (late,) = found.troubles
    assert late.owner is Owner.OPERATOR


def test_a_supply_that_lost_its_input_is_for_the_data_centre() -> None:
    found = looked(Scripted(events=(BmcEvent("Power Supply PSU2", "Power Supply AC lost", NOW - 5, "now"),)))
    assert found.troubles[0].owner is Owner.DATACENTRE and found.troubles[0].part == "psu"


def test_a_sensor_beyond_its_threshold_counts_while_the_machine_is_on() -> None:
    hot = (BmcSensor("Inlet Temp", "ucr", "61 degrees C"), BmcSensor("FAN1", "lnr", "0 RPM"))
    found = looked(Scripted(readings=hot))
    assert [one.part for one in found.troubles] == [
        "node", "fan"] and all(one.owner is Owner.DATACENTRE for one in found.troubles)
    off = looked(Scripted(readings=hot, on=PowerState.OFF))
    assert off.stand is StepState.SO and "sensors: it is off" in off.message


@pytest.mark.parametrize("name", ["log", "sensors"])
def test_a_controller_without_log_or_sensors_says_so_and_one_that_fails_is_asked_again(name: str) -> None:
    found = looked(Scripted(fails={name: BmcError(BmcErrorReason.UNSUPPORTED, "none")}))
    assert found.stand is StepState.SO and "its controller has none" in found.message
    assert looked(Scripted(fails={name: BmcError(BmcErrorReason.BROKEN, "500")})).stand is StepState.UNKNOWN


def test_a_log_that_was_not_read_is_said() -> None:
    assert "event log" in looked(Scripted(events=Unmeasured("x"))).message
    assert "sensors" in looked(Scripted(readings=Unmeasured("x"))).message


@pytest.mark.parametrize("key", ["serial", "uuid"])
def test_of_two_machines_that_say_the_same_of_themselves_each_is_reported_of_the_other(key: str) -> None:
    duplicates = Duplicates(lambda: {"gx02": Other(coming=True)})
    mine = replace(IDENTITY, serial="SN1", uuid="u1")
    theirs = replace(IDENTITY, serial="SN2", uuid="u2")
    theirs = replace(theirs, **{key: getattr(mine, key).upper()})
    first = looked(Scripted(who=mine), duplicates=duplicates)
    assert first.stand is StepState.WAIT and "1 more" in first.message
    second = looked(Scripted(who=theirs), name="gx02", duplicates=duplicates)
    again = looked(Scripted(who=mine), duplicates=duplicates)
    assert second.stand is again.stand is StepState.TROUBLE
    assert ("gx01" in second.troubles[0].what and "gx02" in again.troubles[0].what
            and second.troubles[0].owner is Owner.OPERATOR)


def test_what_makers_write_where_there_is_no_number_is_no_ones() -> None:
    nobody = replace(IDENTITY, serial="To Be Filled By O.E.M.", uuid="00000000-0000-0000-0000-000000000000")
    duplicates = Duplicates(dict)
    assert looked(Scripted(who=nobody), duplicates=duplicates).stand is looked(
        Scripted(who=nobody), name="gx02", duplicates=duplicates).stand is StepState.SO


def test_a_system_that_is_called_as_another_machine_of_ours_is_reported_and_a_factorys_name_is_not() -> None:
    duplicates = Duplicates(dict, names=("gx01", "gx02.example"))
    found = looked(Scripted(who=replace(IDENTITY, name="GX02")), duplicates=duplicates)
    assert (found.stand is StepState.TROUBLE and "gx02.example" in found.troubles[0].hand
            and found.troubles[0].owner is Owner.OPERATOR)
    for name in ("gx01", "gx01.example", "localhost", "dgx-h100", ""):
        assert looked(Scripted(who=replace(IDENTITY, name=name)), duplicates=duplicates).stand is StepState.SO


def test_a_delivery_list_is_read_by_its_column_of_serial_numbers(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("Serial Number,name\nsn1,gx07\nsn2,pallet 3\n")
    assert delivered_by(tmp_path / "list.csv", ("gx01", "gx07")) == {"SN1": "gx07", "SN2": ""}
    assert delivered_by(None, ()) is None
    with pytest.raises(ConfigError, match=r"none\.csv: No such file.*delivery"):
        delivered_by(tmp_path / "none.csv", ())


def test_machines_that_are_known_from_the_store_count_and_do_not_have_to_be_waited_for() -> None:
    known = {
        "gx02": Other({"serial": "SN1"}), "gx03": Other({"serial": "SN3"}), "gx01": Other({"serial": "SN1"})}
    found = looked(Scripted(), others=known)
    assert (found.stand is StepState.TROUBLE and "gx02" in found.troubles[0].what
            and "gx01" not in found.troubles[0].what)
    assert looked(Scripted(), others={"gx03": Other({"serial": "SN3"})}).stand is StepState.SO


def test_whoever_waits_for_others_is_not_read_anew_and_hears_of_them_all_the_same() -> None:
    others = {"gx02": Other(coming=True)}
    controller = Scripted()
    step = HardwareAsOrdered(
        POLICY.steps["hardware"], controller, POLICY, sku_of, Duplicates(lambda: dict(others), fresh_s=0))
    stands = []
    for after, other in ((0, Other(coming=True)), (2, Other(coming=True)), (4, Other({"serial": "SN1"}))):
        others["gx02"] = other
        (_, found), = step.observe([machine(after=after)])
        stands.append(found.stand)
    assert stands == [StepState.WAIT, StepState.WAIT, StepState.TROUBLE] and controller.opened == 1


def test_no_one_waits_for_ever_for_those_who_do_not_tell() -> None:
    coming = {"gx02": Other(coming=True)}
    assert looked(Scripted(), others=coming, after=POLICY.parts.doubles_s - 1).stand is StepState.WAIT
    assert looked(Scripted(), others=coming, after=POLICY.parts.doubles_s).stand is StepState.SO


def test_the_delivery_list_names_what_was_not_delivered_and_what_stands_at_anothers_place() -> None:
    assert looked(Scripted(), delivered={"SN1": "gx01"}).stand is StepState.SO
    assert looked(Scripted(), delivered={"SN1": ""}).stand is StepState.SO
    unknown = looked(Scripted(), delivered={"SN9": "gx01"})
    assert (unknown.stand is StepState.TROUBLE and unknown.troubles[0].owner is Owner.OPERATOR
            and unknown.troubles[0].serial == "SN1")
    swapped = looked(Scripted(), delivered={"SN1": "gx07"})
    assert swapped.troubles[0].owner is Owner.DATACENTRE and "gx07" in swapped.troubles[0].hand
    silent = looked(Scripted(who=replace(IDENTITY, serial=Unmeasured("x"))), delivered={"SN1": ""})
    assert silent.stand is StepState.TROUBLE and "label" in silent.troubles[0].hand
