"""Rules of rules/nvlink.yaml: a link that is lost, slow or failing, and GPUs that do not reach each other,
are named with their ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from healthcheck.model.outcome import Result, Severity, Status
from healthcheck.model.recording import Recording
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import (
    ALL,
    ERROR,
    NOT_SUPPORTED,
    RULES,
    after,
    findings_of,
    ids,
    status_findings,
    verdict,
)

# The reader's row of a link: state, version, MB/s, kind and address of the remote end; five counters to
# NVLink 4, and ten more on NVLink 5.
UP = [1, 7, 26562, 2, "0000:05:00.0"]
REPLAY, RECOVERY, CRC_FLIT, CRC_DATA, ECC_DATA = range(5, 10)
HOPPER = [*UP, 0, 0, 0, -3, -3]
ZERO_RATIO = 15 << 8 | 255
BLACKWELL = [*UP, -3, -3, -3, -3, -3, 0, 0, 0, 0, 0, 0, 0, ZERO_RATIO, 0, ZERO_RATIO]
(MALFORMED, OVERRUNS, RX, INTEGRITY, RECOVERY_FAILED, RECOVERIES, EFFECTIVE, EFFECTIVE_RATIO, SYMBOLS,
 SYMBOL_RATIO) = range(10, 20)
WORDS = {MALFORMED: "malformed_packets", OVERRUNS: "buffer_overruns", RX: "rx_errors",
         INTEGRITY: "local_integrity_errors", RECOVERY_FAILED: "link_recovery_failed",
         RECOVERIES: "link_recovery_events", EFFECTIVE: "effective_errors", SYMBOLS: "symbol_errors"}

Change = Mapping[tuple[int, int], Mapping[int, int]]


def linked(change: Change | None = None, like: list[Any] = HOPPER,
           links: Callable[[int], int] = lambda gpu: 18, **whole: Any) -> Recording:
    """Eight GPUs of so many links each; `change` by GPU and link replaces numbers of its row, `whole` by
    "gpu3" a GPU's reading."""
    lines: dict[str, Any] = {}
    for gpu in ALL:
        rows = [[(change or {}).get((gpu, link), {}).get(at, value) for at, value in enumerate(like)]
                for link in range(links(gpu))]
        lines[f"gpu{gpu}"] = {"nvlinks": whole.get(f"gpu{gpu}", {"ok": rows})}
    return machine.recording(gpu_nvml=machine.nvml(**lines))


def judged(rule: str, now: Recording, **numbers: Any) -> tuple[Status, str]:
    return status_findings(rule, now, **numbers)


# Links that are there, up and fast

@pytest.mark.parametrize(("rule", "now", "words"), [
    ("nvlink-count", linked(), ""),
    ("nvlink-count", linked(links=lambda gpu: 17 if gpu == 3 else 18), "GPU 3: 17 NVLinks, expected 18"),
    ("nvlink-count", linked(links=lambda gpu: 0 if gpu == 3 else 18), "GPU 3: 0 NVLinks, expected 18"),
    ("nvlink-count", linked({(3, 7): {0: 0}}), ""),
    ("nvlink-active", linked(), ""),
    ("nvlink-active", linked({(3, 7): {0: 0}}), "GPU 3 NVLink 7: inactive, expected active"),
    ("nvlink-active", linked({(3, 7): {0: 0}, (3, 8): {0: 0}, (5, 0): {0: 0}}),
     "GPU 3 NVLink 7: inactive, expected active; GPU 3 NVLink 8: inactive, expected active; GPU 5 NVLink 0: "
     "inactive, expected active"),
    ("nvlink-speed", linked(), ""),
    ("nvlink-speed", linked({(3, 7): {2: 26500}}), ""),
    ("nvlink-speed", linked({(3, 7): {2: 26499}}),
     "GPU 3 NVLink 7: 26.499 GB/s, expected at least 26.5 GB/s"),
    ("nvlink-speed", linked({(3, 7): {2: 20000}}), "GPU 3 NVLink 7: 20 GB/s, expected at least 26.5 GB/s"),
    # One that is down has no speed, and is named once.
    ("nvlink-speed", linked({(3, 7): {0: 0, 2: 0}}), ""),
])
def test_links_are_judged_one_by_one(rule: str, now: Recording, words: str) -> None:
    assert judged(rule, now) == (Status.FAIL if words else Status.PASS, words)


def test_the_loss_of_one_link_of_many_is_a_fault() -> None:
    """gpud takes a partial loss for healthy unless told how many GPUs must have links, and never counts
    links."""
    assert RULES["nvlink-active"].severity is RULES["nvlink-count"].severity is Severity.CRITICAL
    assert judged("nvlink-active", linked({(0, 17): {0: 0}}))[0] is Status.FAIL
    assert judged("nvlink-count", linked(links=lambda gpu: 17 if gpu == 0 else 18))[0] is Status.FAIL


def test_gpus_without_one_link_left_fail_and_their_speed_is_not_known() -> None:
    down = linked({(gpu, link): {0: 0} for gpu in ALL for link in range(18)})
    assert judged("nvlink-active", down)[0] is Status.FAIL
    assert verdict("nvlink-speed",
                   down).reason == "nvlink.speed: no NVLink is active, so none shows its speed"


@pytest.mark.parametrize("rule", ["nvlink-count", "nvlink-active", "nvlink-speed"])
def test_links_that_were_not_read_are_unknown_and_hide_no_fault_of_others(rule: str) -> None:
    assert judged(rule, linked(gpu3=ERROR)) == (Status.UNKNOWN, "")
    assert "GPU 3" in verdict(rule, linked(gpu3=ERROR)).reason
    faulty = linked({(5, 1): {0: 0}, (6, 1): {2: 1}}, links=lambda gpu: 17 if gpu == 7 else 18, gpu3=ERROR)
    assert judged(rule, faulty)[0] is Status.FAIL


def test_a_link_whose_state_or_speed_was_not_read_is_unknown() -> None:
    assert judged("nvlink-active", linked({(3, 7): {0: -999}})) == (Status.UNKNOWN, "")
    assert judged("nvlink-speed", linked({(3, 7): {2: -999}})) == (Status.UNKNOWN, "")


def test_links_that_are_down_because_their_gpu_is_divided_accuse_no_one_and_are_no_pass() -> None:
    """DCGM's health watch leaves out the links of a GPU with MIG on, for NVML shows them as down."""
    down = {"nvlinks": {"ok": [[0, *HOPPER[1:]] for _ in range(18)]}, "mig": {"ok": 1},
            "mig_pending": {"ok": 1}}
    one = machine.recording(gpu_nvml=machine.nvml(gpu3=down))
    assert judged("nvlink-active", one) == (Status.UNKNOWN, "")
    assert ("GPU 3 NVLink 0: MIG is on, and NVML then shows links as "
            "down" in verdict("nvlink-active", one).reason)
    assert judged("nvlink-active", machine.recording(
                      gpu_nvml=machine.nvml(**{f"gpu{gpu}": down for gpu in ALL}))) == (Status.UNKNOWN, "")
    assert verdict("nvlink-active", one, nvlink_count=None).status is Status.SKIPPED
    faulty = machine.recording(gpu_nvml=machine.nvml(gpu3=down, gpu5={"nvlinks": down["nvlinks"]}))
    assert (judged("nvlink-active", faulty)[0] is Status.FAIL
            and "GPU 3" not in judged("nvlink-active", faulty)[1])


def test_a_gpu_that_knows_no_nvlink_fails_where_the_sku_has_some() -> None:
    none = linked(gpu3=NOT_SUPPORTED)
    assert judged("nvlink-count", none) == (Status.FAIL, "links of GPU 3: not supported, expected supported")
    assert judged("nvlink-active", none) == judged("nvlink-speed", none) == (Status.UNKNOWN, "")


@pytest.mark.parametrize("rule", ["nvlink-count", "nvlink-active"])
def test_where_the_sku_has_no_nvlink_what_is_there_is_no_ones_business(rule: str) -> None:
    pcie = linked(**{f"gpu{gpu}": NOT_SUPPORTED for gpu in ALL})
    assert judged(rule, pcie, nvlink_count=0) == judged(rule, linked({(3, 7): {0: 0}}),
                                                        nvlink_count=0) == (Status.PASS, "")
    assert judged(rule, pcie, nvlink_count=None)[0] is judged("nvlink-speed", pcie,
                                                              nvlink_gigabytes=None)[0] is Status.SKIPPED


# Errors since the earlier snapshot

def grown(rule: str, at: int, now: int, seconds: float, before: int = 0, like: list[Any] = HOPPER) -> Result:
    """What is said where this counter of GPU 3's link 7 grew so in the time."""
    return verdict(rule, after(linked({(3, 7): {at: now}}, like), seconds),
                   linked({(3, 7): {at: before}}, like))


@pytest.mark.parametrize(("at", "now", "seconds", "words"), [
    (CRC_FLIT, 59_999, 600, ""),
    (CRC_FLIT, 60_000, 600, "crc_flit: 100.0 a second, expected fewer than 100 a second"),
    (CRC_FLIT, 5_999, 1, ""),
    (CRC_FLIT, 6_000, 1, "crc_flit: 100.0 a second, expected fewer than 100 a second"),
    (REPLAY, 9, 600, ""), (REPLAY, 10, 600, "replay: 1.0 a minute, expected fewer than 1 a minute"),
    (RECOVERY, 9, 600, ""), (RECOVERY, 10, 600, "recovery: 1.0 a minute, expected fewer than 1 a minute"),
    (REPLAY, 1, 60, "replay: 1.0 a minute, expected fewer than 1 a minute"), (REPLAY, 1, 61, ""),
    (RECOVERY, 1, 5, "recovery: 1.0 a minute, expected fewer than 1 a minute"),
])
def test_errors_are_judged_at_the_rates_at_which_dcgm_fails(at: int, now: int, seconds: float,
                                                            words: str) -> None:
    result = grown("nvlink-errors", at, now, seconds)
    assert (result.status, findings_of(result)) == ((Status.FAIL, f"GPU 3 NVLink 7: {words}")
                                                    if words else (Status.PASS, ""))


COUNTS_DATA = [*UP, 0, 0, 0, 0, -3]


@pytest.mark.parametrize(("now", "seconds", "words"), [
    (59_999, 600, ""), (60_000, 600, "crc_data: 100.0 a second, expected fewer than 100 a second"),
    (5_999, 1, ""), (6_000, 1, "crc_data: 100.0 a second, expected fewer than 100 a second"),
    (1_000_000, 60, "crc_data: 16666.7 a second, expected fewer than 100 a second"),
])
def test_errors_in_data_are_judged_at_the_rate_of_those_in_flits(
    now: int, seconds: float, words: str,
) -> None:
    result = grown("nvlink-crc-data", CRC_DATA, now, seconds, like=COUNTS_DATA)
    assert (result.status, findings_of(result)) == ((Status.FAIL, f"GPU 3 NVLink 7: {words}")
                                                    if words else (Status.PASS, ""))


def test_links_that_do_not_count_errors_in_data_are_skipped_and_their_other_errors_are_judged() -> None:
    result = grown("nvlink-crc-data", REPLAY, 9, 600)
    assert result.status is Status.SKIPPED and "not supported" in result.reason
    assert verdict("nvlink-crc-data", after(linked(None, BLACKWELL),
                                            600), linked(None, BLACKWELL)).status is Status.SKIPPED
    assert grown("nvlink-errors", CRC_FLIT, 59_999, 600).status is Status.PASS
    assert grown("nvlink-errors", CRC_FLIT, 60_000, 600).status is Status.FAIL


def test_errors_of_long_ago_are_no_ones_business() -> None:
    assert grown("nvlink-errors", CRC_FLIT, 10**12, 600, before=10**12).status is Status.PASS
    assert grown("nvlink-errors", CRC_FLIT, 10**12, 0, before=10**12).status is Status.PASS
    assert grown("nvlink-crc-data", CRC_DATA, 10**12, 0, before=10**12,
                 like=COUNTS_DATA).status is Status.PASS


def test_errors_that_the_link_corrected_itself_accuse_no_one() -> None:
    assert grown("nvlink-errors", ECC_DATA, 10**6, 600, like=[*UP, 0, 0, 0, 0, 0]).status is Status.PASS


@pytest.mark.parametrize("at", WORDS)
def test_each_counter_of_the_fifth_generation_is_judged_at_one_a_minute(at: int) -> None:
    assert grown("nvlink5-errors", at, 9, 600, like=BLACKWELL).status is Status.PASS
    words = f"GPU 3 NVLink 7: {WORDS[at]}: 1.0 a minute, expected fewer than 1 a minute"
    assert findings_of(grown("nvlink5-errors", at, 10, 600, like=BLACKWELL)) == words


@pytest.mark.parametrize(("rule", "like", "other"), [
    ("nvlink-errors", HOPPER, BLACKWELL), ("nvlink5-errors", BLACKWELL, HOPPER),
])
def test_the_counters_of_another_generation_are_skipped_visibly(
    rule: str, like: list[Any], other: list[Any],
) -> None:
    assert verdict(rule, after(linked(None, like), 600), linked(None, like)).status is Status.PASS
    result = verdict(rule, after(linked(None, other), 600), linked(None, other))
    assert result.status is Status.SKIPPED and "not supported" in result.reason


@pytest.mark.parametrize(("rule", "at", "like"), [
    ("nvlink-errors", CRC_FLIT, HOPPER), ("nvlink-errors", REPLAY, HOPPER),
    ("nvlink-crc-data", CRC_DATA, COUNTS_DATA),
    ("nvlink5-errors", RX, BLACKWELL),
])
def test_errors_that_cannot_be_told_are_unknown(rule: str, at: int, like: list[Any]) -> None:
    assert "it was reset between the two snapshots" in grown(rule, at, 4, 600, before=5, like=like).reason
    for now, before, seconds in ((4, 5, 600), (-999, 0, 600), (0, -999, 600), (1, 0, -1)):
        assert grown(rule, at, now, seconds, before=before, like=like).status is Status.UNKNOWN
    fewer = linked(None, like, links=lambda gpu: 17)
    assert verdict(rule, after(linked(None, like), 600),
                   fewer).reason.startswith("GPU 0 NVLink 17: the earlier snapshot has no such ")
    assert verdict(rule, linked(None, like)).reason == "no earlier snapshot of this node in this boot"


@pytest.mark.parametrize(("mantissa", "exponent", "status"), [
    (1, 12, Status.PASS), (2, 12, Status.FAIL), (10, 13, Status.PASS), (11, 13, Status.FAIL),
    (15, 14, Status.PASS), (1, 11, Status.FAIL),
    (15, 255, Status.PASS),
])
def test_a_bit_error_ratio_fails_above_one_in_a_million_million(
    mantissa: int, exponent: int, status: Status,
) -> None:
    """The same limits, mantissa by mantissa, as DCGM's IsEffectiveBerThresholdExceeded."""
    now = linked({(3, 7): {EFFECTIVE_RATIO: mantissa << 8 | exponent}}, BLACKWELL)
    assert judged("nvlink5-ber", now)[0] is status


def test_a_bit_error_ratio_is_said_and_one_that_was_not_read_is_unknown() -> None:
    now = linked({(3, 7): {EFFECTIVE_RATIO: 5 << 8 | 9}}, BLACKWELL)
    assert judged("nvlink5-ber",
                  now)[1] == "GPU 3 NVLink 7: effective bit error ratio 5.0e-09, expected at most 1.0e-12"
    assert judged("nvlink5-ber", linked({(3, 7): {EFFECTIVE_RATIO: -999}}, BLACKWELL))[0] is Status.UNKNOWN
    assert judged("nvlink5-ber", linked())[0] is Status.SKIPPED


# Pairs

def paired(change: Mapping[tuple[int, int], Any] | None = None, **whole: Any) -> Recording:
    """Eight GPUs that reach each other; `change` by (later, earlier) GPU replaces the six answers of that
    pair."""
    lines = {f"gpu{gpu}": {"p2p": whole.get(f"gpu{gpu}", {"ok": [(change or {}).get((gpu, other), [0] * 6)
                                                                 for other in range(gpu)]})} for gpu in ALL}
    return machine.recording(gpu_nvml=machine.nvml(**lines))


@pytest.mark.parametrize(("answers", "words"), [
    ([0, 0, 0, 0, 0, 0], ""),
    ([0, 0, 5, 0, 0, 0], "GPU 3 to GPU 1: read ok, write ok, NVLink not_supported, expected ok, ok, ok"),
    ([0, 0, 0, 4, 0, 0], "GPU 1 to GPU 3: read disabled_by_regkey, write ok, NVLink ok, expected ok, ok, ok"),
    ([0, 1, 0, 0, 0, 0],
     "GPU 3 to GPU 1: read ok, write chipset_not_supported, NVLink ok, expected ok, ok, ok"),
])
def test_one_pair_that_cannot_reach_each_other_is_a_fault(answers: list[int], words: str) -> None:
    """gpud fails where not one probed pair is left."""
    assert judged("nvlink-p2p", paired({(3, 1): answers})) == (Status.FAIL if words else Status.PASS, words)


def test_pairs_that_were_not_read_are_unknown_and_a_gpu_alone_has_none() -> None:
    assert judged("nvlink-p2p", paired({(3, 1): [0, 0, -999, 0, 0, 0]})) == (Status.UNKNOWN, "")
    assert judged("nvlink-p2p", paired(gpu3=ERROR))[0] is Status.UNKNOWN
    alone = machine.recording(gpu_nvml=machine.nvml(1, gpu0={"p2p": {"ok": []}}))
    assert judged("nvlink-p2p", alone)[0] is Status.SKIPPED


def test_pairs_that_nvml_does_not_support_are_unknown_where_the_sku_says_that_there_is_a_fabric() -> None:
    one, all_of_them = paired(gpu3={"na": True}), paired(**{f"gpu{gpu}": {"na": True} for gpu in ALL})
    for snapshot in (one, all_of_them):
        assert judged("nvlink-p2p", snapshot)[0] is Status.UNKNOWN
        assert judged("nvlink-p2p", snapshot, fabric=False) == (Status.PASS, "")
        assert judged("nvlink-p2p", snapshot, fabric=None)[0] is Status.SKIPPED


def test_where_the_sku_has_no_fabric_gpus_need_not_reach_each_other() -> None:
    apart = paired({(3, 1): [5] * 6})
    assert judged("nvlink-p2p", apart, fabric=False) == (Status.PASS, "")
    assert judged("nvlink-p2p", apart, fabric=None)[0] is Status.SKIPPED


def test_every_rule_of_the_file_is_judged_here() -> None:
    assert ids("nvlink.yaml") == {"nvlink-count", "nvlink-active", "nvlink-speed", "nvlink-errors",
                                  "nvlink-crc-data", "nvlink5-errors", "nvlink5-ber", "nvlink-p2p"}
