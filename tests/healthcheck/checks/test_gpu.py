"""Rules of rules/gpu.yaml: each passes at its limit, fails beyond it, and says what it could not see."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from healthcheck.checks.gpu import _RECOVERIES
from healthcheck.collector.onnode.nvml import ACTIONS
from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import Owner, Status
from healthcheck.model.recording import Capture, Outcome
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.xid.xidtable import REPAIRS, Action
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import (
    ALL,
    ERROR,
    NOT_SUPPORTED,
    RULES,
    Raw,
    findings_of,
    gpus,
    ids,
    status_findings,
    verdict,
)

GIB = 2**30

PASSING: list[tuple[str, Raw]] = [
    ("gpu-answers", {}), ("gpu-recovery-action", {}), ("gpu-persistence", {}), ("gpu-mig", {}),
    ("gpu-compute-mode", {}), ("gpu-c2c", {"c2c_enabled": 1, "c2c_links": 10, "c2c_links_active": 10}),
    ("gpu-memory-size", {}), ("gpu-memory-size", {"memory_bytes": int(79 * 0.9701 * GIB)}),
    ("gpu-memory-size", {"memory_bytes": int(79 * 1.0299 * GIB)}),
]
FAILING: list[tuple[str, Raw, str]] = [
    ("gpu-c2c", {"c2c_enabled": 1, "c2c_links": 10, "c2c_links_active": 9},
     "GPU 3: 9 of 10 links to the CPU (C2C) are active, expected all"),
    ("gpu-c2c", {"c2c_enabled": 0, "c2c_links": 10},
     "GPU 3: the links to the CPU (C2C) are off, expected on"),
    ("gpu-answers", {"name": {"error": [15, "GPU is lost"]}},
     "GPU 3: GPU is lost (NVML 15), expected an answer"),
    ("gpu-answers", {"name": {"error": [16, "GPU requires reset"]}},
     "GPU 3: GPU requires reset (NVML 16), expected an answer"),
    ("gpu-recovery-action", {"recovery_action": "gpu_reset"},
     "GPU 3: the driver asks for gpu_reset, expected none"),
    ("gpu-persistence", {"persistence": 0}, "GPU 3: persistence mode is off, expected on"),
    ("gpu-mig", {"mig": 1, "mig_pending": 1}, "GPU 3: MIG is on, expected off"),
    ("gpu-mig", {"mig": 1, "mig_pending": 0}, "GPU 3: MIG is on, expected off"),
    ("gpu-mig", {"mig_pending": 1}, "GPU 3: MIG will be on after the next reset, expected off"),
    ("gpu-compute-mode", {"compute_mode": "prohibited"}, "GPU 3: prohibited, expected default"),
    ("gpu-memory-size", {"memory_bytes": int(79 * 0.969 * GIB)},
     "GPU 3: 76.6 GiB, expected 79 GiB, within 3%"),
    ("gpu-memory-size", {"memory_bytes": int(79 * 1.031 * GIB)},
     "GPU 3: 81.4 GiB, expected 79 GiB, within 3%"),
]
# The reading that each rule rests on.
RESTS_ON = {
    "gpu-recovery-action": "recovery_action", "gpu-persistence": "persistence", "gpu-mig": "mig",
    "gpu-compute-mode": "compute_mode", "gpu-c2c": "c2c_links",
    "gpu-memory-size": "memory_bytes",
}


@pytest.mark.parametrize(("rule", "raw"), PASSING)
def test_a_gpu_at_its_limit_passes(rule: str, raw: Raw) -> None:
    assert status_findings(rule, gpus(raw)) == (Status.PASS, "")


@pytest.mark.parametrize(("rule", "raw", "words"), FAILING)
def test_a_gpu_beyond_it_is_named_and_no_other(rule: str, raw: Raw, words: str) -> None:
    result = verdict(rule, gpus(raw))
    assert (result.status, findings_of(result)) == (Status.FAIL, words)
    assert result.remedy and result.owner


@pytest.mark.parametrize(("rule", "key"), RESTS_ON.items())
def test_a_reading_that_failed_is_unknown(rule: str, key: str) -> None:
    result = verdict(rule, gpus({key: ERROR}))
    assert result.status is Status.UNKNOWN
    assert "GPU 3" in result.reason and "Unknown Error" in result.reason


@pytest.mark.parametrize(("rule", "key"), RESTS_ON.items())
def test_what_a_gpu_does_not_have_is_reported_and_never_passed(rule: str, key: str) -> None:
    status = Status.UNKNOWN if rule == "gpu-memory-size" else Status.SKIPPED
    result = verdict(rule, gpus({key: NOT_SUPPORTED}, ALL))
    assert result.status is status and "not supported" in result.reason


def test_a_gpu_without_links_to_the_cpu_whose_mode_is_off_is_not_accused() -> None:
    """B200 on a board with another CPU (NVIDIA/k8s-test-infra, qx-b200.xml)."""
    assert verdict("gpu-c2c", gpus({"c2c_enabled": 0}, ALL)).status is Status.SKIPPED


# Rules of how many GPUs there are, which are below.
COUNTS = {"gpu-count", "gpu-listed"}


def test_every_rule_of_the_file_is_in_every_table() -> None:
    assert (ids("gpu.yaml") == {rule for rule, _ in PASSING}
            | COUNTS == {rule for rule, _, _ in FAILING} | COUNTS)
    assert ids("gpu.yaml") == RESTS_ON.keys() | {"gpu-answers"} | COUNTS


# Counting

@pytest.mark.parametrize(("listed", "on_pci", "words"), [
    (8, 8, ""), (7, 8, "GPUs listed by the driver: 7, expected 8"),
    (9, 8, "GPUs listed by the driver: 9, expected 8"),
    (7, 7, "GPUs on PCI: 7, expected 8; GPUs listed by the driver: 7, expected 8"),
    (0, 8, "GPUs listed by the driver: 0, expected 8"),
])
def test_a_gpu_that_is_missing_is_counted_on_the_bus_and_by_the_driver(
    listed: int, on_pci: int, words: str,
) -> None:
    result = verdict("gpu-count",
                     machine.recording(gpu_nvml=machine.nvml(listed), gpu_pci=machine.pci(on_pci)))
    assert (result.status, findings_of(result)) == (Status.FAIL if words else Status.PASS, words)


@pytest.mark.parametrize(("listed", "on_pci", "words"), [
    (8, 8, ""), (1, 1, ""), (7, 8, "GPUs listed by the driver: 7, expected 8 NVIDIA L40S, as on PCI"),
    (0, 2, "GPUs listed by the driver: 0, expected 2 NVIDIA L40S, as on PCI")])
def test_of_cards_in_any_number_the_driver_lists_all_that_are_on_the_bus(listed: int, on_pci: int,
                                                                         words: str) -> None:
    result = verdict("gpu-listed", sku="l40s",
                     now=machine.recording(gpu_nvml=machine.nvml(listed), gpu_pci=machine.pci(on_pci)))
    assert (result.status, findings_of(result)) == (Status.FAIL if words else Status.PASS, words)


@pytest.mark.parametrize(("rule", "sku"), [("gpu-count", "hgx-h100"), ("gpu-listed", "l40s")])
def test_gpus_that_could_not_be_counted_are_unknown(rule: str, sku: str) -> None:
    head = json.dumps({"driver": {"ok": "550.54.15"}, "count": ERROR}) + "\n"
    for unread in ({"gpu_nvml": replace(machine.nvml(), text=head)}, {"gpu_pci": Capture(Outcome.TIMEOUT)}):
        assert verdict(rule, machine.recording(**unread), sku=sku).status is Status.UNKNOWN


def test_a_gpu_that_answers_nothing_but_errors_does_not_answer() -> None:
    silent = dict.fromkeys(json.loads(machine.nvml().text.splitlines()[4]).keys() - {"index"}, ERROR)
    result = verdict("gpu-answers", gpus(silent))
    assert findings_of(result) == "GPU 3: GPU does not answer: Unknown Error (NVML 999), expected an answer"


# Recovery

@pytest.mark.parametrize(("action", "remedy", "owner"), [
    ("gpu_reset", "reset it (nvidia-smi --gpu-reset -i 3)", Owner.OPERATOR),
    ("node_reboot", "reboot it", Owner.OPERATOR),
    ("drain_p2p", "end every process that talks between GPUs", Owner.OPERATOR),
    ("drain_and_reset", "Start nothing new on the GPU; when what runs on it has ended, reset it (nvidia-smi "
     "--gpu-reset -i 3)", Owner.OPERATOR),
    ("recover_imex_domain", "restart nvidia-imex", Owner.OPERATOR),
    ("bus_reset", "reboot it", Owner.OPERATOR), ("system_reboot", "power-cycle it", Owner.OPERATOR),
    ("17", "look this action up", Owner.OPERATOR),
])
def test_the_drivers_own_word_on_recovery_is_obeyed(action: str, remedy: str, owner: Owner) -> None:
    (finding,) = verdict("gpu-recovery-action", gpus({"recovery_action": action})).findings
    assert finding.observed == f"the driver asks for {action}"
    assert remedy in finding.remedy and finding.owner is owner


def test_the_actions_that_are_known_are_all_that_the_reader_names() -> None:
    assert set(_RECOVERIES) | {"none"} == set(ACTIONS)


@pytest.mark.parametrize(("code", "action"), list(enumerate(ACTIONS))[1:])
def test_one_request_of_the_driver_wants_one_repair_whether_nvml_says_it_or_the_log(
    code: int, action: str,
) -> None:
    (asked,) = verdict("gpu-recovery-action", gpus({"recovery_action": action})).findings
    table = load_ruleset([packaged()]).xids
    assert table is not None and asked.repair is REPAIRS[table.recoveries[code].action]


def test_a_request_that_no_one_knows_wants_one_repair_whether_nvml_says_it_or_the_log() -> None:
    (asked,) = verdict("gpu-recovery-action", gpus({"recovery_action": "unknown (17)"})).findings
    assert asked.repair is REPAIRS[Action.SUPPORT]


# What the SKU says

def test_a_sku_that_wants_mig_accuses_the_gpu_without_it() -> None:
    assert verdict("gpu-mig", gpus({"mig": 1, "mig_pending": 1}, ALL), mig=True).status is Status.PASS
    assert findings_of(verdict("gpu-mig", gpus({"mig": 1, "mig_pending": 1}, range(1, 8)),
                               mig=True)) == "GPU 0: MIG is off, expected on"
    assert findings_of(verdict("gpu-mig", gpus({"mig": 1, "mig_pending": 0}, ALL),
                               mig=True)).startswith("GPU 0: MIG will be off after the next reset")


@pytest.mark.parametrize(("rule", "number"), [("gpu-mig", "mig"), ("gpu-memory-size", "gpu_memory_gib"),
                                              ("gpu-count", "gpu_count")])
def test_a_number_that_the_sku_declines_is_skipped_and_one_it_lacks_is_unknown(
    rule: str, number: str,
) -> None:
    assert verdict(rule, gpus({}), **{number: None}).status is Status.SKIPPED
    assert RULES[rule].numbers == (number,)


def test_one_gpu_of_the_smaller_model_is_named_among_its_peers() -> None:
    result = verdict("gpu-memory-size", gpus({"memory_bytes": 40 * GIB}, (5,)))
    assert findings_of(result) == "GPU 5: 40.0 GiB, expected 79 GiB, within 3%"


def test_a_gpu_that_could_not_be_read_does_not_hide_the_one_that_is_wrong() -> None:
    now = machine.recording(gpu_nvml=machine.nvml(gpu1={"persistence": ERROR},
                                                  gpu6={"persistence": {"ok": 0}}))
    result = verdict("gpu-persistence", now)
    assert (result.status, findings_of(result)) == (Status.FAIL,
                                                    "GPU 6: persistence mode is off, expected on")
    assert "GPU 1" in result.reason
