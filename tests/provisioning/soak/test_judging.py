"""What restarts took and wrote is judged by a machine's own boots and by others of its SKU."""

from __future__ import annotations

import pytest

from provisioning.soak.boottimes import slow, words
from provisioning.soak.compare import differences
from provisioning.soak.record import BEFORE, BootRecord, SoakRecord

WELL = {"usb 1-1: device not accepting address #": "usb 1-1: device not accepting address 4"}
SICK = {"pcieport #: AER: uncorrected error": "pcieport 0000:00:01.0: AER: uncorrected error"}


def boot(kind: str, seconds: float | None, forms: dict[str, str] | None = None) -> BootRecord:
    return BootRecord(kind, f"boot-{kind}", 1000.0, 1010.0, None if seconds is None else 1000.0 + seconds, {},
                      (), {}, None, None, {},
                      forms or {}, True)


def record(*boots: BootRecord, node: str = "gpu001") -> SoakRecord:
    every = (boot(BEFORE, None), *boots)
    return SoakRecord(node, "h100", "1", tuple(one.kind for one in boots), every)


def others(many: int, seconds: float, forms: dict[str, str] | None = None,
           kind: str = "cold") -> list[SoakRecord]:
    return [record(boot(kind, seconds, forms), node=f"gpu{at:03d}") for at in range(2, many + 2)]


def slow_of(one: SoakRecord, cohort: list[SoakRecord]) -> list[str]:
    return [each.what for each in slow(one, cohort, 2.0, 60.0, "see where it waits")]


def test_the_restart_that_takes_much_longer_than_the_machines_others_is_named_with_its_number() -> None:
    found = slow_of(record(boot("cold", 200), boot("cold", 210), boot("cold", 700)), [])
    assert (len(found) == 1
            and found[0].startswith(
                "restart 3 (cold) took 700 s to answer, and its other cold ones 205 s")), found


@pytest.mark.parametrize("seconds", [(200, 210, 390), (10, 11, 65), (200, 700)],
                         ids=["less than twice", "less than a minute more", "no median"])
def test_a_restart_that_takes_a_little_longer_is_not_named(seconds: tuple[float, ...]) -> None:
    assert slow_of(record(*(boot("cold", one) for one in seconds)), []) == []


def test_cold_starts_are_not_held_against_warm_ones() -> None:
    assert slow_of(record(boot("cold", 700), boot("warm", 100), boot("warm", 110), boot("cold", 690)),
                   []) == []


def test_a_machine_that_always_takes_much_longer_than_others_of_its_sku_is_named_once() -> None:
    found = slow_of(record(boot("cold", 700), boot("cold", 710)), others(3, 200))
    assert len(found) == 1 and "705 s until it answers, and 200 s on 3 others of its SKU" in found[0], found


def test_two_others_are_no_cohort() -> None:
    assert slow_of(record(boot("cold", 700), boot("cold", 710)), others(2, 200)) == []


def test_a_restart_that_no_one_timed_is_called_not_measured_and_is_not_quick() -> None:
    one = record(boot("cold", None), boot("cold", 200), boot("warm", None))
    assert (slow_of(one, others(3, 20))
            and words(one) == "boots took cold 200 to 200 s (1 not measured), warm not measured")


def new_errors(one: SoakRecord, cohort: list[SoakRecord]) -> list[str]:
    return [each.what for each in differences(one, cohort, "rack r1") if "new error" in each.what]


@pytest.mark.parametrize(("many", "wrote", "named"),
                         [(0, 0, True), (4, 1, True), (4, 2, True), (4, 3, False), (2, 2, True)])
def test_a_kernel_error_is_usual_only_where_most_other_machines_write_it(many: int, wrote: int,
                                                                         named: bool) -> None:
    cohort = [*others(wrote, 200, SICK), *others(many - wrote, 200, WELL)]
    assert bool(new_errors(record(boot("cold", 200, SICK)), cohort)) is named


def test_a_kernel_error_of_the_boot_before_is_no_difference() -> None:
    one = record(boot("cold", 200, SICK))
    assert new_errors(SoakRecord(one.node, one.sku, one.tried, one.kinds,
                                 (boot(BEFORE, None, SICK), one.boots[1])), []) == []
