"""Rules of rules/pcie.yaml: errors between two snapshots, told by device and by port, and the IOMMU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.pcie import total
from healthcheck.facts.values import Unmeasured
from healthcheck.model.outcome import Status
from healthcheck.model.recording import Outcome, Recording
from tests.healthcheck import machine
from tests.healthcheck.checks.changed import files, spoilt
from tests.healthcheck.checks.verdicts import after, findings_of, ids, status_findings, verdict

GPU, PORT = "nvidia/0000:1b:00.0", "pcieport/0000:1a:01.0"
FATAL, NONFATAL, CORRECTABLE = "pcie-aer-fatal", "pcie-aer-nonfatal", "pcie-aer-correctable"
KIND = {FATAL: "fatal", NONFATAL: "nonfatal", CORRECTABLE: "correctable"}


def counted(kind: str, count: int, at: str = GPU) -> Recording:
    return files("pcie.aer", {f"{at}/aer_dev_{kind}": machine.aer(kind, count)})


@pytest.mark.parametrize(("rule", "count", "seconds", "words"), [
    (FATAL, 0, 600, ""),
    (FATAL, 1, 600, "nvidia 0000:1b:00.0: 1 fatal errors since the earlier snapshot, expected at most 0"),
    (NONFATAL, 0, 600, ""), (NONFATAL, 3, 600, "nvidia 0000:1b:00.0: 3 uncorrected errors since the earlier "
                             "snapshot, expected at most 0"),
    (CORRECTABLE, 320, 600, ""), (CORRECTABLE, 32, 1, ""),
    (CORRECTABLE, 330, 600,
     "nvidia 0000:1b:00.0: 33 corrected errors a minute, expected at most 32 a minute"),
    (CORRECTABLE, 33, 1, "nvidia 0000:1b:00.0: 33 corrected errors a minute, expected at most 32 a minute"),
])
def test_errors_since_the_last_look_are_judged(rule: str, count: int, seconds: float, words: str) -> None:
    result = verdict(rule, after(counted(KIND[rule], count), seconds), machine.recording())
    assert (result.status, findings_of(result)) == (Status.FAIL if words else Status.PASS, words)


@pytest.mark.parametrize("rule", KIND)
def test_errors_of_long_ago_are_no_ones_business(rule: str) -> None:
    long_ago = counted(KIND[rule], 4000)
    assert verdict(rule, after(long_ago, 600), long_ago).status is Status.PASS


def test_a_port_that_reports_names_what_sits_below_it() -> None:
    result = verdict(FATAL, after(counted("fatal", 1, PORT), 600), machine.recording())
    assert findings_of(result).startswith("port 0000:1a:01.0 above nvidia 0000:1b:00.0: 1 fatal")
    alone = files("pcie.aer",
                  {f"{PORT}/aer_dev_fatal": machine.aer("fatal", 1), f"{PORT}/secondary_bus_number": None})
    assert findings_of(verdict(FATAL, after(alone, 600),
                               machine.recording())).startswith("port 0000:1a:01.0: 1 fatal")


@pytest.mark.parametrize("rule", KIND)
@pytest.mark.parametrize("change", [Outcome.DENIED, Outcome.TIMEOUT, "nonsense\n", "TOTAL_ERR_FATAL\n",
                                    "Undefined 0\n"])
def test_counters_that_could_not_be_read_are_unknown(rule: str, change: Outcome | str) -> None:
    now = files("pcie.aer", {f"{GPU}/aer_dev_{KIND[rule]}": change})
    assert verdict(rule, after(now, 600), machine.recording()).status is Status.UNKNOWN


@pytest.mark.parametrize("rule", KIND)
def test_a_device_that_is_new_or_was_reset_is_unknown_and_hides_no_other(rule: str) -> None:
    kind = KIND[rule]
    reset = after(counted(kind, 5000, PORT), 600)
    result = verdict(rule, reset, counted(kind, 9))
    assert ((result.status, findings_of(result).partition(":")[0]) == (Status.FAIL, "port 0000")
            and "nvidia 0000:1b:00.0 were reset" in result.reason)
    without = files("pcie.aer", {f"{GPU}/aer_dev_{name}": None for name in KIND.values()})
    assert verdict(rule, after(machine.recording(), 600), without).status is Status.UNKNOWN


@pytest.mark.parametrize("rule", [*KIND, "pcie-iommu"])
def test_where_nothing_counts_or_there_is_no_iommu_the_rule_is_skipped(rule: str) -> None:
    probe = "pcie.iommu" if rule == "pcie-iommu" else "pcie.aer"
    capture = machine.captures()[probe]
    none = machine.recording(
        **{probe: replace(capture, files={"/proc/meminfo": capture.files["/proc/meminfo"]})})
    result = verdict(rule, after(none, 600), none)
    assert (result.status, result.reason.partition(":")[0]) == (Status.SKIPPED, "not supported")


@pytest.mark.parametrize(("texts", "words"), [
    ({}, ""), ({"1b:00.0/iommu_group/type": "DMA-FQ\n"}, "nvidia 0000:1b:00.0: DMA-FQ, expected identity"),
    ({"/iommu_group/type": "DMA\n"}, "nvidia 0000:1b:00.0 and 1 more: DMA, expected identity"),
])
def test_an_iommu_that_translates_is_reported(texts: dict[str, str], words: str) -> None:
    assert status_findings("pcie-iommu",
                           files("pcie.iommu", texts)) == (Status.FAIL if words else Status.PASS, words)


def test_an_iommu_that_cannot_be_read_is_unknown() -> None:
    assert verdict("pcie-iommu", files("pcie.iommu",
                                       {"1b:00.0/iommu_group/type": Outcome.DENIED})).status is Status.UNKNOWN


def test_every_rule_of_the_file_is_tested_here() -> None:
    assert ids("pcie.yaml") == {*KIND, "pcie-iommu"}


SAMPLE = ("Receiver Error 2\nBad TLP 0\nRELAY_NUM Rollover 0\nReplay Timer Timeout 3\nAdvisory Non-Fatal "
          "0\nTOTAL_ERR_COR 4\n")


def test_the_kernels_sample_is_read_and_of_total_and_sum_the_greater_counts() -> None:
    assert total(SAMPLE) == 5 and total(SAMPLE.replace("COR 4", "COR 9")) == 9


def test_a_file_that_is_cut_before_its_total_is_refused() -> None:
    whole = SAMPLE.index("TOTAL_ERR_COR ") + len("TOTAL_ERR_COR 4")
    for end in range(whole):
        with pytest.raises(ValueError, match=r"\A"):
            total(SAMPLE[:end])


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\A"):
        total(text)


@given(spoilt("pcie.aer"))
def test_no_bytes_in_any_file_raise(recording: Recording) -> None:
    value = build_fact(FACTS["pcie_errors"], Captures(recording))
    assert not isinstance(value, Unmeasured) or "could not be read from" not in value.reason
