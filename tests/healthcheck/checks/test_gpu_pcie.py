"""Rules of rules/gpu-pcie.yaml: each passes at its limit, fails beyond it, and says what it could not see."""

from __future__ import annotations

import pytest

from healthcheck.model.outcome import Status
from tests.healthcheck.checks.verdicts import (
    ALL,
    ERROR,
    NOT_SUPPORTED,
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
    ("gpu-pcie-generation", {}),
    ("gpu-pcie-generation", {"pcie_generation": 6, "pcie_generation_max": 6, "utilization_percent": 100}),
    # An idle GPU trains its link down.
    ("gpu-pcie-generation", {"pcie_generation": 1, "utilization_percent": 0}),
    ("gpu-pcie-generation", {"pcie_generation": 1, "utilization_percent": 9}),
    ("gpu-pcie-width", {}),
    ("gpu-pcie-width", {"pcie_width_max": 16, "pcie_width": 16, "utilization_percent": 100}),
]
FAILING: list[tuple[str, Raw, str]] = [
    ("gpu-pcie-generation", {"pcie_generation": 4, "utilization_percent": 10},
     "GPU 3: generation 4 under load, expected generation 5"),
    ("gpu-pcie-generation", {"pcie_generation": 1, "utilization_percent": 97},
     "GPU 3: generation 1 under load, expected generation 5"),
    # What GPU and slot allow together shows on an idle GPU too.
    ("gpu-pcie-generation", {"pcie_generation": 4, "pcie_generation_max": 4},
     "GPU 3: GPU and slot allow generation 4, expected generation 5"),
    ("gpu-pcie-width", {"pcie_width": 8}, "GPU 3: x8, expected x16"),
    ("gpu-pcie-width", {"pcie_width": 15}, "GPU 3: x15, expected x16"),
    ("gpu-pcie-width", {"pcie_width": 8, "pcie_width_max": 8},
     "GPU 3: x8 (GPU and slot allow x8), expected x16"),
]
RESTS_ON = {"gpu-pcie-generation": "pcie_generation_max", "gpu-pcie-width": "pcie_width"}


@pytest.mark.parametrize(("rule", "raw"), PASSING)
def test_a_gpu_at_its_limit_passes(rule: str, raw: Raw) -> None:
    assert status_findings(rule, gpus(raw, ALL)) == (Status.PASS, "")


@pytest.mark.parametrize(("rule", "raw", "words"), FAILING)
def test_a_gpu_beyond_it_is_named_and_no_other(rule: str, raw: Raw, words: str) -> None:
    assert status_findings(rule, gpus(raw)) == (Status.FAIL, words)


@pytest.mark.parametrize(("rule", "key"), [
    *RESTS_ON.items(), ("gpu-pcie-generation", "pcie_generation"),
])
@pytest.mark.parametrize("reading", [ERROR, NOT_SUPPORTED])
def test_a_link_that_the_sku_describes_and_the_gpu_does_not_is_unknown(
    rule: str, key: str, reading: Raw,
) -> None:
    result = verdict(rule, gpus({key: reading}, ALL))
    assert result.status is Status.UNKNOWN and "GPU 3" in verdict(rule, gpus({key: reading})).reason


def test_a_slow_link_under_a_load_that_is_not_known_is_unknown() -> None:
    result = verdict("gpu-pcie-generation", gpus({"pcie_generation": 1, "utilization_percent": ERROR}))
    assert (result.status, findings_of(result)) == (Status.UNKNOWN, "")


@pytest.mark.parametrize(("rule", "number"),
                         [("gpu-pcie-generation", "pcie_generation"), ("gpu-pcie-width", "pcie_width")])
def test_a_sku_that_declines_the_number_is_not_judged_by_it(rule: str, number: str) -> None:
    assert verdict(rule, gpus({"pcie_generation_max": 1, "pcie_width": 1}),
                   **{number: None}).status is Status.SKIPPED


def test_every_rule_of_the_file_is_in_every_table() -> None:
    trends = {"gpu-pcie-replays"}
    assert (ids("gpu-pcie.yaml") == {rule for rule, _ in PASSING} | trends == {rule for rule, _, _ in FAILING}
            | trends == RESTS_ON.keys() | trends)


# Replays

def replayed(before: object, now: object, seconds: float, **link: int) -> tuple[Status, str]:
    """What is said of GPU 3, whose link replayed so often in the time."""
    return status_words("gpu-pcie-replays", after(gpus({"pcie_replays": now, **link}), seconds),
                gpus({"pcie_replays": before, **link}))


@pytest.mark.parametrize(("generation", "width", "most"), [
    (1, 16, 3), (2, 16, 5), (3, 16, 8), (4, 16, 16), (5, 16, 31), (6, 16, 62), (7, 16, 62), (5, 8, 16),
    (3, 1, 1),
])
def test_replays_are_judged_by_what_dcgm_allows_such_a_link(generation: int, width: int, most: int) -> None:
    """DCGM: a bit error rate of 1e-12 per lane, rounded up for all lanes; what is faster than it knows counts
    as the fastest."""
    link = {"pcie_generation_max": generation, "pcie_width": width}
    assert replayed(100, 100 + most * 10, 600, **link)[0] is Status.PASS
    words = f"GPU 3: {most + 1} replays a minute, expected at most {most} a minute"
    assert replayed(100, 100 + (most + 1) * 10, 600, **link) == (Status.FAIL, words)


@pytest.mark.parametrize(("before", "now", "seconds", "status"), [
    (9, 9, 0, Status.PASS), (9, 9, 600, Status.PASS), (0, 31, 1, Status.PASS), (0, 32, 1, Status.FAIL),
    (9, 8, 600, Status.UNKNOWN), (0, 9, 0, Status.UNKNOWN), (ERROR, 0, 600, Status.UNKNOWN),
    (0, ERROR, 600, Status.UNKNOWN),
])
def test_replays_that_cannot_be_told_are_unknown(before: object, now: object, seconds: float,
                                                 status: Status) -> None:
    assert replayed(before, now, seconds)[0] is status


def test_replays_of_long_ago_are_no_ones_business() -> None:
    assert replayed(4_000_000, 4_000_000, 600) == (Status.PASS, "")


def test_without_an_earlier_look_or_a_counter_replays_are_skipped_visibly() -> None:
    assert verdict("gpu-pcie-replays", gpus({})).reason == "no earlier snapshot of this node in this boot"
    without = gpus({"pcie_replays": NOT_SUPPORTED}, ALL)
    assert verdict("gpu-pcie-replays", after(without, 600), without).status is Status.SKIPPED
