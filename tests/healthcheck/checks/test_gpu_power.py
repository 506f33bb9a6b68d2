"""Rules of rules/gpu-power.yaml: each passes at its limit, fails beyond it, and says what it could not
see."""

from __future__ import annotations

import pytest

from healthcheck.model.outcome import Owner, Status
from tests.healthcheck.checks.verdicts import (
    ALL,
    ERROR,
    NOT_SUPPORTED,
    RULES,
    Raw,
    after,
    findings_of,
    gpus,
    ids,
    status_findings,
    status_words,
    verdict,
)

# A GPU that prints its thresholds and no margin, as A100 does.
OLDER: Raw = {"temperature_margin_c": NOT_SUPPORTED, "temperature_slowdown_c": 92}
BUSY: Raw = {"clock_reasons": 0, "utilization_percent": 100}

PASSING: list[tuple[str, Raw]] = [
    ("gpu-slowdown-hw", {}),
    # As NVML reports it while clocks change, or of an idle GPU: the clock is not halved, or no one wants it.
    ("gpu-slowdown-hw", {"clock_reasons": 0x8, "clock_sm_mhz": 991}),
    ("gpu-slowdown-hw", {"clock_reasons": 0x9, "clock_sm_mhz": 345}),
    # Those causes have rules of their own.
    ("gpu-slowdown-hw", {"clock_reasons": 0x48, "clock_sm_mhz": 345}),
    ("gpu-slowdown-hw", {"clock_reasons": 0x88, "clock_sm_mhz": 345}),
    ("gpu-slowdown-thermal", {}), ("gpu-slowdown-thermal", {"clock_reasons": 0xBF}),
    ("gpu-power-brake", {}), ("gpu-power-brake", {"clock_reasons": 0x7F}),
    ("gpu-slowdown-sw-thermal", {}), ("gpu-slowdown-sw-thermal", {"clock_reasons": 0xDF}),
    ("gpu-slowdown-sw-thermal", {"clock_reasons": 0x60}),
    ("gpu-power-limit", {"power_limit_mw": 700_000}), ("gpu-power-limit", {"power_limit_mw": 750_000}),
    ("gpu-power-limit-default", {}),
    ("gpu-power-limit-default", {"power_limit_mw": 200_000, "power_limit_default_mw": 200_000}),
    ("gpu-power-limit-default", {"power_limit_mw": 750_000}),
    ("gpu-power-draw", {"power_mw": 1}), ("gpu-power-draw", {"power_mw": 1_050_000}),
    ("gpu-temperature", {"temperature_margin_c": 3, "temperature_c": 84}),
    ("gpu-temperature-slowdown", {**OLDER, "temperature_c": 89}),
    ("gpu-memory-temperature", {"temperature_memory_c": 95}),
    ("gpu-memory-temperature", {"temperature_memory_c": 1}),
    ("gpu-clocks-low", {**BUSY, "clock_sm_mhz": 1188}),
    ("gpu-clocks-low", {**BUSY, "clock_sm_mhz": 345, "utilization_percent": 49}),
    *[("gpu-clocks-low", {**BUSY, "clock_sm_mhz": 345, "clock_reasons": reason})
      for reason in (0x1, 0x4, 0x8, 0x20, 0x40, 0x80, 0x6)],
    # A site may lower its application clocks, down to this share.
    *[("gpu-clocks-low", {**BUSY, "clock_sm_mhz": 1188, "clock_reasons": reason})
      for reason in (0x2, 0x10, 0x100)],
    ("gpu-clocks-low", {"clock_reasons": 0x2, "utilization_percent": 49, "clock_sm_mhz": 345}),
]
FAILING: list[tuple[str, Raw, str]] = [
    ("gpu-slowdown-hw", {"clock_reasons": 0x8, "clock_sm_mhz": 990},
     "GPU 3: hardware slowdown, SM clock 990 MHz, expected none, 1980 MHz"),
    ("gpu-slowdown-hw", {"clock_reasons": 0xC, "clock_sm_mhz": 345},
     "GPU 3: hardware slowdown, SM clock 345 MHz, expected none, 1980 MHz"),
    ("gpu-slowdown-thermal", {"clock_reasons": 0x40}, "GPU 3: hardware thermal slowdown, expected none"),
    ("gpu-slowdown-thermal", {"clock_reasons": 0x68}, "GPU 3: hardware thermal slowdown, expected none"),
    ("gpu-power-brake", {"clock_reasons": 0x80}, "GPU 3: power brake slowdown, expected none"),
    ("gpu-power-brake", {"clock_reasons": 0x8C}, "GPU 3: power brake slowdown, expected none"),
    ("gpu-slowdown-sw-thermal", {"clock_reasons": 0x20}, "GPU 3: software thermal slowdown, expected none"),
    ("gpu-slowdown-sw-thermal", {"clock_reasons": 0x24}, "GPU 3: software thermal slowdown, expected none"),
    ("gpu-power-limit", {"power_limit_mw": 699_999}, "GPU 3: limited to 699.999 W, expected at least 700 W"),
    ("gpu-power-limit", {"power_limit_mw": 500_000}, "GPU 3: limited to 500 W, expected at least 700 W"),
    ("gpu-power-limit-default", {"power_limit_mw": 699_999},
     "GPU 3: limited to 699.999 W, expected its default of 700 W, or more"),
    ("gpu-power-limit-default", {"power_limit_mw": 200_000},
     "GPU 3: limited to 200 W, expected its default of 700 W, or more"),
    ("gpu-power-draw", {"power_mw": 0}, "GPU 3: draws 0 W, expected more than 0 W"),
    ("gpu-power-draw", {"power_mw": 1_050_001},
     "GPU 3: draws 1050 W, expected at most 1050 W (1.5 times its limit)"),
    # The margins of public captures: highest operating temperature, slowdown and shutdown of H100, Blackwell.
    *[("gpu-temperature", {"temperature_margin_c": margin, "temperature_c": 87 - margin},
       f"GPU 3: {87 - margin} C, {where} its highest operating temperature (T.Limit {margin} C), expected at "
       "least 3 C below it")
      for margin, where in ((2, "2 C below"), (0, "at"), (-1, "1 C above"), (-2, "2 C above"),
                            (-3, "3 C above"), (-5, "5 C above"), (-8, "8 C above"))],
    *[("gpu-temperature-slowdown", {**OLDER, "temperature_c": now},
       f"GPU 3: {now} C, {where} its slowdown temperature of 92 C, expected at least 3 C below it")
      for now, where in ((90, "2 C below"), (92, "at"), (94, "2 C above"))],
    ("gpu-memory-temperature", {"temperature_memory_c": 96}, "GPU 3: memory at 96 C, expected at most 95 C"),
    ("gpu-clocks-low", {**BUSY, "clock_sm_mhz": 1187},
     "GPU 3: SM clock 1187 of 1980 MHz at 100% load, without a reason, expected at least 60% of the maximum"),
    *[("gpu-clocks-low", {**BUSY, "clock_sm_mhz": 345, "clock_reasons": reason},
       f"GPU 3: SM clock 345 of 1980 MHz at 100% load, held down by a setting: {words}, expected at least "
       "60% of the maximum")
      for reason, words in ((0x2, "application or locked clocks"), (0x10, "sync boost"),
                            (0x100, "display clocks"),
                            (0x112, "application or locked clocks, sync boost, display clocks"))],
    ("gpu-clocks-low", {**BUSY, "clock_sm_mhz": 1187, "clock_reasons": 0x2},
     "GPU 3: SM clock 1187 of 1980 MHz at 100% load, held down by a setting: application or locked clocks, "
     "expected at least 60% of the maximum"),
    ("gpu-clocks-low", {**BUSY, "clock_sm_mhz": 345, "utilization_percent": 50, "clock_reasons": 0x200},
     "GPU 3: SM clock 345 of 1980 MHz at 50% load, without a reason, expected at least 60% of the maximum"),
]
RESTS_ON: dict[str, tuple[str, Raw]] = {
    "gpu-slowdown-hw": ("clock_reasons", {}), "gpu-slowdown-thermal": ("clock_reasons", {}),
    "gpu-power-brake": ("clock_reasons", {}),
    "gpu-slowdown-sw-thermal": ("clock_reasons", {}), "gpu-power-limit": ("power_limit_mw", {}),
    "gpu-power-limit-default": ("power_limit_default_mw", {}), "gpu-power-draw": ("power_mw", {}),
    "gpu-temperature": ("temperature_c", {}), "gpu-temperature-slowdown": ("temperature_slowdown_c", OLDER),
    "gpu-memory-temperature": ("temperature_memory_c", {}),
    "gpu-clocks-low": ("clock_sm_mhz", BUSY),
}
# What the SKU says otherwise where the rule is judged at all.
NUMBERS: dict[str, Raw] = {"gpu-power-limit-default": {"power_limit_watts": None}}
TRENDS = {
    "gpu-slowdown-thermal-time": ("slowdown_hw_thermal_ns", 0x40),
    "gpu-power-brake-time": ("slowdown_hw_power_brake_ns", 0x80),
    "gpu-slowdown-sw-thermal-time": ("slowdown_sw_thermal_ns", 0x20),
}


@pytest.mark.parametrize(("rule", "raw"), PASSING)
def test_a_gpu_at_its_limit_passes(rule: str, raw: Raw) -> None:
    assert status_findings(rule, gpus(raw, ALL), **NUMBERS.get(rule, {})) == (Status.PASS, "")


@pytest.mark.parametrize(("rule", "raw", "words"), FAILING)
def test_a_gpu_beyond_it_is_named_and_no_other(rule: str, raw: Raw, words: str) -> None:
    assert status_findings(rule, gpus(raw), **NUMBERS.get(rule, {})) == (Status.FAIL, words)


@pytest.mark.parametrize(("rule", "key", "raw"), [(rule, key, raw) for rule, (key, raw) in RESTS_ON.items()])
def test_a_reading_that_failed_is_unknown(rule: str, key: str, raw: Raw) -> None:
    result = verdict(rule, gpus({**raw, key: ERROR}), **NUMBERS.get(rule, {}))
    assert result.status is Status.UNKNOWN
    assert "GPU 3" in result.reason and "Unknown Error" in result.reason


@pytest.mark.parametrize(("rule", "key", "raw"), [(rule, key, raw) for rule, (key, raw) in RESTS_ON.items()])
def test_what_a_gpu_does_not_have_is_reported_and_never_passed(rule: str, key: str, raw: Raw) -> None:
    result = verdict(rule, gpus({**raw, key: NOT_SUPPORTED}, ALL), **NUMBERS.get(rule, {}))
    assert result.status is (Status.UNKNOWN if rule == "gpu-power-limit" else Status.SKIPPED)


def test_every_rule_of_the_file_is_in_every_table() -> None:
    now = ids("gpu-power.yaml") - TRENDS.keys()
    assert now == {rule for rule, _ in PASSING} == {rule for rule, _, _ in FAILING} == RESTS_ON.keys()
    assert TRENDS.keys() < ids("gpu-power.yaml")


@pytest.mark.parametrize("rule", sorted(ids("gpu-power.yaml") - TRENDS.keys()))
@pytest.mark.parametrize("clock", [345, 1200, 1980])
def test_a_gpu_that_stays_at_its_power_limit_under_load_is_never_accused_of_it(rule: str, clock: int) -> None:
    raw = {"clock_reasons": 0x4, "clock_sm_mhz": clock, "power_mw": 701_000, "utilization_percent": 100,
           "slowdown_power_ns": 10**15, **(OLDER if rule == "gpu-temperature-slowdown" else {})}
    assert verdict(rule, gpus(raw, ALL), **NUMBERS.get(rule, {})).status is Status.PASS


@pytest.mark.parametrize(("rule", "raw"), [
    ("gpu-temperature", {"temperature_c": 0}), ("gpu-temperature", {"temperature_c": -1}),
    ("gpu-temperature-slowdown", {**OLDER, "temperature_c": 0}),
    ("gpu-memory-temperature", {"temperature_memory_c": 0}),
    ("gpu-memory-temperature", {"temperature_memory_c": -2}),
    ("gpu-temperature", {"temperature_c": 255}), ("gpu-memory-temperature", {"temperature_memory_c": 255}),
    ("gpu-temperature-slowdown", {**OLDER, "temperature_c": 255}),
])
def test_a_temperature_that_cannot_be_is_no_measurement(rule: str, raw: Raw) -> None:
    result = verdict(rule, gpus(raw))
    assert (result.status, findings_of(result)) == (Status.UNKNOWN, "") and "GPU 3" in result.reason


def test_margin_and_slowdown_temperature_are_two_scales_and_neither_replaces_the_other() -> None:
    hot = gpus({**OLDER, "temperature_c": 92}, ALL)
    assert verdict("gpu-temperature", hot).status is Status.SKIPPED
    assert verdict("gpu-temperature-slowdown", hot).status is Status.FAIL
    # 1 C above the highest operating temperature and 1 C below slowdown: one finding, by the margin.
    both = gpus({"temperature_margin_c": -1, "temperature_slowdown_c": 89, "temperature_c": 88}, ALL)
    assert verdict("gpu-temperature", both).status is Status.FAIL
    assert verdict("gpu-temperature-slowdown", both).status is Status.SKIPPED


def test_a_margin_that_could_not_be_read_is_unknown_and_the_other_scale_is_still_judged() -> None:
    unread = gpus({"temperature_margin_c": ERROR, "temperature_slowdown_c": 92, "temperature_c": 91})
    assert verdict("gpu-temperature", unread).status is Status.UNKNOWN
    assert findings_of(verdict("gpu-temperature-slowdown", unread)).startswith("GPU 3: 91 C, 1 C below")
    # Which of the two it has is not known: a cool one passes by neither.
    cool = gpus({"temperature_margin_c": ERROR, "temperature_slowdown_c": 92, "temperature_c": 40})
    assert verdict("gpu-temperature-slowdown", cool).status is Status.UNKNOWN


@pytest.mark.parametrize("rule", ["gpu-temperature", "gpu-temperature-slowdown"])
def test_a_gpu_that_gives_neither_is_skipped_visibly(rule: str) -> None:
    assert verdict(rule,
                   gpus({**OLDER, "temperature_slowdown_c": NOT_SUPPORTED}, ALL)).status is Status.SKIPPED


def test_heat_and_power_from_outside_are_the_data_centres() -> None:
    rules = {"gpu-slowdown-thermal", "gpu-power-brake", "gpu-slowdown-sw-thermal", "gpu-temperature",
             "gpu-temperature-slowdown", "gpu-memory-temperature", *TRENDS}
    assert {RULES[rule].owner for rule in rules} == {Owner.DATACENTRE}


def test_a_site_that_lowered_the_limit_says_so_in_its_sku() -> None:
    lowered = gpus({"power_limit_mw": 500_000}, ALL)
    assert verdict("gpu-power-limit", lowered, power_limit_watts=500).status is Status.PASS
    assert verdict("gpu-power-limit", lowered, power_limit_watts=None).status is Status.SKIPPED


def test_a_limit_below_the_default_is_for_one_rule_alone_to_judge() -> None:
    lowered = gpus({"power_limit_mw": 500_000}, ALL)
    for said_by_sku, of_sku, of_default in ((700, Status.FAIL, Status.SKIPPED),
                                            (500, Status.PASS, Status.SKIPPED),
                                            (None, Status.SKIPPED, Status.FAIL)):
        assert verdict("gpu-power-limit", lowered, power_limit_watts=said_by_sku).status is of_sku
        assert verdict("gpu-power-limit-default", lowered, power_limit_watts=said_by_sku).status is of_default
    assert verdict("gpu-power-limit-default",
                   lowered).reason == "the SKU gives power_limit_watts, so the default is not judged"


@pytest.mark.parametrize("sku", ["single-gpu", "gb200-nvl72"])
def test_a_limit_below_the_default_is_found_where_the_sku_says_nothing_of_power(sku: str) -> None:
    result = verdict("gpu-power-limit-default", gpus({"power_limit_mw": 200_000}), sku=sku)
    assert (result.status is Status.FAIL
            and findings_of(result) == "GPU 3: limited to 200 W, expected its default of 700 W, or more")


def test_a_limit_that_was_not_read_is_not_held_against_a_default() -> None:
    assert verdict("gpu-power-limit-default", gpus({"power_limit_mw": ERROR}),
                   power_limit_watts=None).status is Status.UNKNOWN


# How long, since the earlier snapshot

def slowed(rule: str, before: object, now: object, seconds: float, reasons: int = 0) -> tuple[Status, str]:
    """What is said of GPU 3, which was slowed for so many nanoseconds by the rule's counter."""
    counter, _ = TRENDS[rule]
    return status_words(rule, after(gpus({counter: now, "clock_reasons": reasons}), seconds),
                        gpus({counter: before}))


@pytest.mark.parametrize("rule", TRENDS)
@pytest.mark.parametrize(("before", "now", "seconds", "status"), [
    (0, 0, 600, Status.PASS), (5, 5, 0, Status.PASS), (10**15, 10**15 + 6 * 10**9, 600, Status.PASS),
    (10**15, 10**15 + 7 * 10**9, 600, Status.FAIL), (0, 1, 600, Status.PASS),
    (9, 8, 600, Status.UNKNOWN), (0, 10**9, 0, Status.UNKNOWN), (0, ERROR, 600, Status.UNKNOWN),
    (ERROR, 0, 600, Status.UNKNOWN),
])
def test_a_gpu_that_was_slowed_for_more_than_one_percent_of_the_time_is_named(
    rule: str, before: object, now: object, seconds: float, status: Status,
) -> None:
    """DCGM issue 242: a diagnostic that failed for 0.0 s of it wanted a threshold."""
    assert slowed(rule, before, now, seconds)[0] is status


@pytest.mark.parametrize("rule", TRENDS)
def test_how_long_it_was_slowed_is_said(rule: str) -> None:
    words = "GPU 3: slowed for 300 s, 50.0% of the time since the earlier snapshot, expected at most 1%"
    assert slowed(rule, 0, 300 * 10**9, 600) == (Status.FAIL, words)


@pytest.mark.parametrize("rule", TRENDS)
def test_a_gpu_that_is_slowed_now_is_left_to_the_rule_of_the_moment(rule: str) -> None:
    _, reason = TRENDS[rule]
    assert slowed(rule, 0, 600 * 10**9, 600, reason)[0] is Status.PASS
    assert verdict(rule.removesuffix("-time"), gpus({"clock_reasons": reason})).status is Status.FAIL


@pytest.mark.parametrize(("rule", "counter"), [(rule, counter) for rule, (counter, _) in TRENDS.items()])
def test_without_an_earlier_look_or_a_counter_it_is_skipped_visibly(rule: str, counter: str) -> None:
    assert verdict(rule, gpus({})).reason == "no earlier snapshot of this node in this boot"
    without = gpus({counter: NOT_SUPPORTED}, ALL)
    assert verdict(rule, after(without, 600), without).status is Status.SKIPPED
