"""Rules of rules/gpu-memory.yaml: each passes at its limit, fails beyond it, and says what it could not
see."""

from __future__ import annotations

import pytest

from healthcheck.model.outcome import Owner, Severity, Status
from tests.healthcheck import machine
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

PASSING: list[tuple[str, Raw]] = [
    ("gpu-ecc-enabled", {}), ("gpu-ecc-pending", {}), ("gpu-ecc-pending", {"ecc_mode": 0, "ecc_pending": 1}),
    ("gpu-ecc-pending", {"ecc_mode": 0, "ecc_pending": 0}),
    ("gpu-ecc-uncorrected", {"ecc_uncorrected": 0}), ("gpu-ecc-uncorrected-lifetime", {}),
    ("gpu-ecc-corrected", {"ecc_corrected": 20_000_000}),
    ("gpu-sram-uncorrected-lifetime", {"sram_uncorrected_lifetime": 2}),
    ("gpu-sram-threshold", {}), ("gpu-row-remap-pending", {}), ("gpu-row-remap-failed", {}),
    ("gpu-row-remap-count", {"rows_uncorrected": 511}),
    ("gpu-row-remap-banks", {"banks_partial": 9, "banks_high": 9}),
    ("gpu-ecc-uncorrected-place", {"ecc_uncorrected": 3}), ("gpu-repair-pending", {}),
    ("gpu-bank-remap", {"bank_remap_pending": 0, "bank_remap_none": 0}),
    ("gpu-pages-pending", {"pages_pending": 0}),
    ("gpu-pages-retired", {"pages_retired_corrected": 31, "pages_retired_uncorrected": 31}),
]
FAILING: list[tuple[str, Raw, str]] = [
    ("gpu-ecc-enabled", {"ecc_mode": 0}, "GPU 3: ECC is off, expected on"),
    ("gpu-ecc-pending", {"ecc_pending": 0}, "GPU 3: ECC will be off after the next reset, expected on"),
    ("gpu-ecc-uncorrected", {"ecc_uncorrected": 1}, "GPU 3: 1, expected at most 0"),
    ("gpu-ecc-uncorrected-lifetime", {"ecc_uncorrected_lifetime": 1},
     "GPU 3: 1 in the board's life, expected at most 0"),
    ("gpu-ecc-corrected", {"ecc_corrected": 20_000_001},
     "GPU 3: 20000001 corrected, expected at most 20000000"),
    ("gpu-sram-threshold", {"sram_threshold_exceeded": 1},
     "GPU 3: the SRAM error threshold is exceeded, expected not exceeded"),
    ("gpu-sram-uncorrected-lifetime", {"sram_uncorrected_lifetime": 3},
     "GPU 3: 3 in SRAM in the board's life, expected at most 2"),
    ("gpu-row-remap-pending", {"rows_pending": 1}, "GPU 3: a row remapping is pending, expected none"),
    ("gpu-row-remap-failed", {"rows_failed": 1}, "GPU 3: a row remapping failed, expected none"),
    ("gpu-row-remap-count", {"rows_uncorrected": 512},
     "GPU 3: 512 rows remapped for uncorrectable errors, expected fewer than 512"),
    ("gpu-row-remap-banks", {"banks_none": 1},
     "GPU 3: 1 banks have no spare row, expected spare rows in every bank"),
    ("gpu-row-remap-banks", {"banks_low": 1}, "GPU 3: 1 banks are low on spare rows, expected at most 0"),
    ("gpu-ecc-uncorrected-place", {"sram_uncorrected": 1, "dram_uncorrected": 2},
     "GPU 3: 1 in SRAM, 2 in DRAM, expected none"),
    ("gpu-repair-pending", {"channel_repair_pending": 1},
     "GPU 3: the repair of a memory channel is pending, expected none"),
    ("gpu-repair-pending", {"tpc_repair_pending": 1}, "GPU 3: the repair of a TPC is pending, expected none"),
    ("gpu-bank-remap", {"bank_remap_pending": 1}, "GPU 3: a bank remapping is pending, expected none"),
    ("gpu-bank-remap", {"bank_remap_none": 2},
     "GPU 3: 2 groups of banks have no spare bank, expected a spare one in each"),
    ("gpu-pages-pending", {"pages_pending": 1}, "GPU 3: a page retirement is pending, expected none"),
    ("gpu-pages-retired", {"pages_retired_corrected": 32, "pages_retired_uncorrected": 31},
     "GPU 3: 63 pages retired, expected fewer than 63"),
]
RESTS_ON = {
    "gpu-ecc-enabled": "ecc_mode", "gpu-ecc-pending": "ecc_pending", "gpu-ecc-uncorrected": "ecc_uncorrected",
    "gpu-ecc-uncorrected-lifetime": "ecc_uncorrected_lifetime", "gpu-ecc-corrected": "ecc_corrected",
    "gpu-sram-threshold": "sram_threshold_exceeded", "gpu-row-remap-pending": "rows_pending",
    "gpu-row-remap-failed": "rows_failed", "gpu-sram-uncorrected-lifetime": "sram_uncorrected_lifetime",
    "gpu-row-remap-count": "rows_uncorrected", "gpu-row-remap-banks": "banks_none",
    "gpu-pages-pending": "pages_pending",
    "gpu-pages-retired": "pages_retired_uncorrected", "gpu-ecc-uncorrected-place": "dram_uncorrected",
    "gpu-repair-pending": "tpc_repair_pending", "gpu-bank-remap": "bank_remap_pending",
}
OLDER: Raw = {"pages_pending": 0, "pages_retired_corrected": 0, "pages_retired_uncorrected": 0}
NEWER: Raw = {"bank_remap_pending": 0, "bank_remap_none": 0}


def among_peers(raw: Raw, rule: str) -> Raw:
    """Pages are retired on GPUs older than Ampere only, banks are remapped on newer ones than Hopper: there
    all eight have the readings."""
    return {**(OLDER if rule.startswith("gpu-pages") else NEWER if rule == "gpu-bank-remap" else {}), **raw}


@pytest.mark.parametrize(("rule", "raw"), PASSING)
def test_a_gpu_at_its_limit_passes(rule: str, raw: Raw) -> None:
    assert status_findings(rule, gpus(among_peers(raw, rule), ALL)) == (Status.PASS, "")


@pytest.mark.parametrize(("rule", "raw", "words"), FAILING)
def test_a_gpu_beyond_it_is_named_and_no_other(rule: str, raw: Raw, words: str) -> None:
    assert status_findings(rule, gpus(among_peers(raw, rule))) == (Status.FAIL, words)


@pytest.mark.parametrize(("rule", "key"), RESTS_ON.items())
def test_a_reading_that_failed_is_unknown(rule: str, key: str) -> None:
    result = verdict(rule, gpus({**among_peers({}, rule), key: ERROR}))
    assert result.status is Status.UNKNOWN
    assert "GPU 3" in result.reason and "Unknown Error" in result.reason


@pytest.mark.parametrize(("rule", "key"), RESTS_ON.items())
def test_what_a_gpu_does_not_have_is_reported_and_never_passed(rule: str, key: str) -> None:
    result = verdict(rule, gpus({key: NOT_SUPPORTED}, ALL))
    assert result.status is (Status.FAIL if rule == "gpu-ecc-enabled" else Status.SKIPPED)


def test_every_rule_of_the_file_is_in_every_table() -> None:
    trends = {"gpu-ecc-corrected-rate"}
    assert (ids("gpu-memory.yaml") == {rule for rule, _ in PASSING}
            | trends == {rule for rule, _, _ in FAILING} | trends == RESTS_ON.keys() | trends)


# Corrected errors over time

def storm(before: object, now: object, seconds: float) -> tuple[Status, str]:
    """What is said of GPU 3, whose corrected errors grew so in the time."""
    return status_words("gpu-ecc-corrected-rate", after(gpus({"ecc_corrected": now}), seconds),
                gpus({"ecc_corrected": before}))


@pytest.mark.parametrize(("before", "now", "seconds", "status"), [
    (0, 36_000, 3600, Status.PASS), (0, 36_001, 3600, Status.FAIL), (5_000_000, 5_036_001, 3600, Status.FAIL),
    (7, 7, 3600, Status.PASS), (7, 7, 0, Status.PASS), (0, 864_000, 86_400, Status.PASS),
    (0, 864_001, 86_400, Status.FAIL),
    # Over less than a minute, a handful of errors would look like a storm.
    (0, 600, 1, Status.PASS), (0, 601, 1, Status.FAIL), (0, 600, 60, Status.PASS), (0, 601, 60, Status.FAIL),
    (8, 7, 3600, Status.UNKNOWN), (0, 1, -5, Status.UNKNOWN), (0, ERROR, 3600, Status.UNKNOWN),
    (ERROR, 0, 3600, Status.UNKNOWN),
])
def test_corrected_errors_are_judged_by_how_fast_they_come(before: object, now: object, seconds: float,
                                                           status: Status) -> None:
    assert storm(before, now, seconds)[0] is status


def test_the_storm_that_a_peer_never_reported_is_reported() -> None:
    """NVSentinel issue 1748: 4,647 to 17,657 single-bit errors a second on one stack of memory."""
    assert storm(0, 4647 * 300, 300) == (Status.FAIL,
                                         "GPU 3: 16729200 corrected an hour, expected at most 36000 an hour")


def test_a_counter_that_was_reset_or_a_clock_that_was_set_back_is_reported() -> None:
    assert "it was reset between the two snapshots" in storm(8, 7, 3600)[1]
    assert (storm(0, 1, -5)[1] == "GPU 3: by the node's clock the earlier snapshot was taken 5 s later, so "
            "no rate can be computed")


def test_without_an_earlier_look_a_rate_is_skipped_visibly() -> None:
    result = verdict("gpu-ecc-corrected-rate", gpus({}))
    assert (result.status, result.reason) == (Status.SKIPPED, "no earlier snapshot of this node in this boot")


def test_a_gpu_is_compared_with_itself_though_its_number_changed() -> None:
    swapped = {"gpu3": {"pci": {"ok": "0000:1c:00.0"}, "ecc_corrected": {"ok": 0}},
               "gpu4": {"pci": {"ok": "0000:1b:00.0"}, "ecc_corrected": {"ok": 90_000}}}
    now = after(gpus({"ecc_corrected": 90_000}), 3600)
    assert verdict("gpu-ecc-corrected-rate", now,
                   machine.recording(gpu_nvml=machine.nvml(**swapped))).status is Status.PASS
    missing = machine.recording(gpu_nvml=machine.nvml(7))
    assert verdict("gpu-ecc-corrected-rate", now,
                   missing).reason.startswith("GPU 7: the earlier snapshot has no such ")


def test_uncorrectable_sram_errors_are_judged_where_the_threshold_flag_is_not_to_be_had() -> None:
    raw = {"sram_uncorrected_lifetime": 5, "sram_threshold_exceeded": NOT_SUPPORTED}
    assert verdict("gpu-sram-threshold", gpus(raw, ALL)).status is Status.SKIPPED
    assert verdict("gpu-sram-uncorrected-lifetime", gpus(raw, ALL)).status is Status.FAIL


# What peers got wrong

@pytest.mark.parametrize("corrected", [0, 19_999_999])
def test_one_uncorrectable_error_is_not_weighed_against_the_limit_of_corrected_ones(corrected: int) -> None:
    """azurehpc-health-checks lets uncorrectable errors in DRAM share the 20 million of corrected ones."""
    raw = {"ecc_corrected": corrected, "ecc_uncorrected": 1}
    assert verdict("gpu-ecc-uncorrected", gpus(raw)).status is Status.FAIL
    assert verdict("gpu-ecc-corrected", gpus(raw)).status is Status.PASS


def test_rows_remapped_for_corrected_errors_do_not_count_as_uncorrectable_ones_nor_vice_versa() -> None:
    """azurehpc-health-checks tests a column that its query does not have, so that its limit of 512 can never
    fire."""
    assert verdict("gpu-row-remap-count", gpus({"rows_corrected": 600})).status is Status.PASS
    assert verdict("gpu-row-remap-count",
                   gpus({"rows_corrected": 0, "rows_uncorrected": 600})).status is Status.FAIL


def test_a_gpu_that_says_nothing_of_ecc_has_not_passed() -> None:
    """A table that shows N/A for ECC is no healthy GPU: the SKU has it."""
    assert status_findings("gpu-ecc-enabled", gpus({"ecc_mode": NOT_SUPPORTED})) == (
        Status.FAIL, "ECC enabled of GPU 3: not supported, expected supported")
    assert verdict("gpu-ecc-uncorrected", gpus({"ecc_uncorrected": NOT_SUPPORTED},
                                               ALL)).status is Status.SKIPPED


def test_a_sku_without_ecc_accuses_the_gpu_that_will_have_it() -> None:
    without = {"ecc_mode": 0, "ecc_pending": 0}
    assert verdict("gpu-ecc-pending", gpus(without, ALL), ecc=False).status is Status.PASS
    mixed = machine.recording(gpu_nvml=machine.nvml(**{
        f"gpu{n}": {"ecc_mode": {"ok": 0}, "ecc_pending": {"ok": int(n == 2)}} for n in ALL
    }))
    assert findings_of(verdict("gpu-ecc-pending", mixed,
                               ecc=False)) == "GPU 2: ECC will be on after the next reset, expected off"


def test_a_board_for_the_vendor_is_the_vendors_and_a_pending_reset_the_operators() -> None:
    owners = {rule: RULES[rule].owner for rule in ("gpu-sram-threshold", "gpu-row-remap-failed",
                                                   "gpu-pages-retired", "gpu-row-remap-pending")}
    assert owners == {"gpu-sram-threshold": Owner.VENDOR, "gpu-row-remap-failed": Owner.VENDOR,
                      "gpu-pages-retired": Owner.VENDOR, "gpu-row-remap-pending": Owner.OPERATOR}


def test_an_old_uncorrectable_error_informs_and_leaves_the_node_as_it_is() -> None:
    assert RULES["gpu-ecc-uncorrected-lifetime"].severity is Severity.INFO
