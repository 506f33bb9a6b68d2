"""What a controller says of parts beside a SKU's numbers: what is not told is never equal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts.values import UNSUPPORTED, Unmeasured
from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from provisioning.bmc.base import HardwareInventory, HardwarePart, Missing
from provisioning.bmc.compare import PartsComparison, compare
from tests.provisioning.bringup.controllers import GIB, SKU, parts
from tests.tries import tries

EMPTY = frozenset({"dimm", "drive", "nic"})


def compared(hardware: HardwareInventory, *, powered: bool = True, **numbers: object) -> PartsComparison:
    return compare(
        hardware, {**SKU.numbers, **numbers}, powered=powered, may_be_empty=EMPTY, place="rack r12")


def the_only(found: PartsComparison) -> Trouble:
    (only,) = found.troubles
    return only


def of(kind: str, hardware: HardwareInventory | None = None) -> tuple[HardwarePart, ...]:
    found = (hardware or parts()).parts[kind]
    assert isinstance(found, tuple)
    return found


def test_what_is_as_the_sku_has_it_is_equal() -> None:
    assert compared(parts()) == PartsComparison((), ()) and compared(parts()).equal


def test_a_gpu_that_is_away_is_named_by_the_seat_that_the_others_leave_open() -> None:
    found = the_only(compared(parts(gpu=(*of("gpu")[:4], *of("gpu")[5:]))))
    assert (found.what == "7 of 8 GPUs are there: GPU_SXM_5 is not" and found.slot == "GPU_SXM_5"
            and found.part == "gpu")
    assert found.owner is Owner.DATACENTRE and found.hand.startswith("rack r12: reseat the GPU in GPU_SXM_5")


def test_a_seat_that_is_known_to_be_empty_is_named_and_one_that_could_be_any_of_several_is_not() -> None:
    gone = replace(of("dimm")[2], present=False)
    found = the_only(compared(parts(dimm=(*of("dimm")[:2], gone, of("dimm")[3])), memory_gib=None))
    assert found.what == "3 of 4 memory modules are there: A3 is not" and found.slot == "A3"
    spare = HardwarePart("dimm", "B1", present=False)
    found = the_only(compared(parts(dimm=(*of("dimm")[:2], gone, of("dimm")[3], spare)), memory_gib=None))
    assert found.slot == "" and "empty: A3, B1" in found.what


def test_seats_that_are_sold_empty_are_no_trouble() -> None:
    spares = tuple(HardwarePart("dimm", f"B{at}", present=False) for at in range(1, 5))
    assert compared(parts(dimm=(*of("dimm"), *spares))).equal


def test_an_empty_seat_of_a_supply_is_trouble_although_no_sku_counts_supplies() -> None:
    found = the_only(compared(parts(psu=(of("psu")[0], HardwarePart("psu", "PSU 2", present=False)))))
    assert (found.owner is Owner.DATACENTRE and found.slot == "PSU 2"
            and found.what == "power supply PSU 2 is not there")


def test_too_many_parts_are_a_question_of_whose_machine_it_is() -> None:
    found = the_only(compared(parts(gpu=(*of("gpu"), HardwarePart("gpu", "GPU_SXM_9", health="OK")))))
    assert found.owner is Owner.OPERATOR and "sku:" in found.hand


@pytest.mark.parametrize(("kind", "health", "owner"),
                         [("gpu", "Critical", Owner.VENDOR), ("drive", "Critical", Owner.VENDOR),
                          ("dimm", "Critical", Owner.VENDOR), ("gpu", "Warning", Owner.DATACENTRE),
                          ("psu", "Critical", Owner.DATACENTRE), ("psu", "Warning", Owner.DATACENTRE),
                          ("fan", "Critical", Owner.DATACENTRE), ("cpu", "Critical", Owner.VENDOR),
                          ("nic", "critical", Owner.VENDOR)])
def test_a_part_that_is_not_well_has_an_owner_its_seat_and_its_number(
    kind: str, health: str, owner: Owner,
) -> None:
    first, *rest = of(kind)
    found = the_only(compared(parts(**{kind: (replace(first, health=health), *rest)})))
    assert found.owner is owner and found.part == kind and found.slot == first.slot
    assert found.serial == (
        first.serial if isinstance(first.serial, str) else "") and health.casefold() in found.what


def test_less_memory_than_ordered_is_trouble_and_more_is_another_machine() -> None:
    small = tuple(replace(one, amount=32 * GIB) for one in of("dimm"))
    assert the_only(compared(parts(dimm=small))).owner is Owner.DATACENTRE
    large = tuple(replace(one, amount=128 * GIB) for one in of("dimm"))
    assert the_only(compared(parts(dimm=large))).owner is Owner.OPERATOR
    assert compared(parts(), memory_gib=250).equal      # as the kernel counts it, less what firmware keeps


def test_a_missing_processor_shows_by_its_cores() -> None:
    found = the_only(compared(parts(cpu=of("cpu")[:1])))
    assert "56 cores" in found.what and found.owner is Owner.DATACENTRE
    assert compared(parts(), cpu_count=112).equal       # without hyper-threading
    assert the_only(compared(parts(), cpu_count=100)).owner is Owner.OPERATOR


def test_other_ports_and_drives_are_left_to_the_operating_system_and_fewer_are_trouble() -> None:
    more = compared(
        parts(nic=(*of("nic"),
                   HardwarePart("nic", "LOM", health="OK", address="02:00:00:00:01:01,02:00:00:00:01:02"))))
    assert not more.troubles and more.unreported == (
        "network ports: 4 of which 2 are the SKU's",) and not more.equal
    assert the_only(compared(parts(nic=of("nic")[:1]))).what.startswith("1 of 2 network ports")
    assert compared(parts(nic=(replace(of("nic")[0], address=Unmeasured("x")), of("nic")[1]))).unreported
    assert the_only(compared(parts(drive=of("drive")[:1]))).slot == "Bay 1"


def test_a_machine_that_is_off_and_tells_no_gpu_is_no_trouble_and_no_pass() -> None:
    off = compared(parts(gpu=()), powered=False)
    assert ((not off.troubles and not off.equal
             and off.unreported == ("NVSwitches: none reported while it is off",))
            or "GPUs" in str(off.unreported))
    assert compared(parts(gpu=())).troubles
    assert compared(parts(gpu=of("gpu")[:7]), powered=False).troubles


@pytest.mark.parametrize("kind", ["cpu", "gpu", "dimm", "drive", "nic", "switch", "psu", "fan"])
def test_a_kind_that_is_not_told_or_could_not_be_read_is_never_equal(kind: str) -> None:
    untold = compared(parts(**{kind: UNSUPPORTED}))
    assert not untold.equal and not untold.troubles and len(untold.unreported) == 1 and not untold.unread
    unread = compared(parts(**{kind: Unmeasured("it answered 500")}))
    assert not unread.equal and len(unread.unread) == 1 and "500" in unread.unread[0]
    missing = HardwareInventory({name: value for name, value in parts().parts.items() if name != kind})
    assert compared(missing).unread


def test_a_controller_that_tells_of_sensors_is_believed_about_health_and_not_about_numbers() -> None:
    few = parts(dimm=of("dimm")[:1], gpu=Unmeasured("no reading, as may be without power"),
                psu=(replace(of("psu")[0], health="Critical"),))
    off = compare(few, SKU.numbers, powered=False, lists=False, may_be_empty=EMPTY)
    assert [one.part for one in off.troubles] == [
        "psu"] and not off.unread and "numbers of parts" in str(off.unreported)
    assert compare(few, SKU.numbers, powered=True, lists=False, may_be_empty=EMPTY).unread


def test_foreign_words_are_clean_and_short() -> None:
    found = the_only(
        compared(parts(psu=(HardwarePart("psu", "\x1b[31m" + "P" * 900, "M" * 900, "S" * 900, "Critical"),
                            of("psu")[1]))))
    assert "\x1b" not in found.what and len(found.what) < 200 and len(found.serial) <= 60


_HEALTH: st.SearchStrategy[str | Missing] = st.sampled_from(
    ["OK", "OK", "OK", "Warning", "Critical", "strange", "", Unmeasured("x"), UNSUPPORTED])
_TEXT: st.SearchStrategy[str | Missing] = st.text(max_size=12) | st.just(Unmeasured("x"))
_AMOUNT: st.SearchStrategy[int | Missing] = st.integers(0, 2**40) | st.just(Unmeasured("x"))


@st.composite
def _hardware(draw: st.DrawFn) -> HardwareInventory:
    made: dict[str, tuple[HardwarePart, ...] | Missing] = {}
    for kind in ("cpu", "gpu", "dimm", "drive", "nic", "switch", "psu", "fan"):
        one: st.SearchStrategy[HardwarePart] = st.builds(
            HardwarePart, st.just(kind), st.text(max_size=6) | st.sampled_from(["A1", "A2", "A3", "Bay 01"]),
            _TEXT, _TEXT, _HEALTH, _TEXT, _AMOUNT, _TEXT, st.booleans())
        error_text: st.SearchStrategy[tuple[HardwarePart, ...]] = st.lists(one, max_size=4).map(tuple)
        untold: st.SearchStrategy[Missing] = st.sampled_from([Unmeasured("x"), UNSUPPORTED])
        made[kind] = draw(error_text | untold)
    return HardwareInventory(made)


@settings(max_examples=tries(60), deadline=None)
@given(_hardware(), st.booleans(), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_a_count_that_differs_is_never_passed_over(
    hardware: HardwareInventory, powered: bool, gpus: int, dimms: int, drives: int,
) -> None:
    found = compare(hardware, {"gpu_count": gpus, "dimm_count": dimms, "nvme_count": drives}, powered=powered,
                    may_be_empty=EMPTY)
    for kind, number, exact in (("gpu", gpus, True), ("dimm", dimms, True), ("drive", drives, False)):
        error_text = hardware.parts[kind]
        there = sum(part.present for part in error_text) if isinstance(error_text, tuple) else None
        if there is None or (not powered and not there):
            assert not found.equal
        elif there < number or (there > number and exact):
            assert any(one.part == kind for one in found.troubles)
        elif there != number:
            assert not found.equal


@settings(max_examples=tries(60), deadline=None)
@given(_hardware(), st.booleans())
def test_what_is_unmeasured_or_unwell_is_never_equal(hardware: HardwareInventory, powered: bool) -> None:
    found = compare(hardware, {}, powered=powered)
    sound = all(isinstance(error_text, tuple)
                and all(part.present and isinstance(part.health, str) and part.health.casefold() == "ok"
                        for part in error_text) for error_text in hardware.parts.values())
    assert sound or not found.equal
    assert all(one.what and one.hand and "\n" not in one.what for one in found.troubles)
