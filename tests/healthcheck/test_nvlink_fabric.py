"""The fabric's rules: state, health mask, clique, services and the Fabric Manager's journal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.gpu import gpus
from healthcheck.facts.nvlink_fabric import NvlinkFabricLog, nvlink_fabric_log
from healthcheck.facts.values import UNSUPPORTED, Unmeasured, reading
from healthcheck.judge.judge import judge
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import Owner, Result, Status
from healthcheck.model.recording import Capture, Outcome
from tests.healthcheck import machine
from tests.healthcheck.test_checks import RULES, results, said
from tests.tries import tries

TRAY, CPU = "gb200-nvl72", "cpu-only"


def on(sku: str, rule: str, **changes: Capture) -> Result:
    """What a rule says under the numbers of another SKU."""
    (found,) = (each for each in RULES.rules if each.id == rule)
    captures = Captures(machine.recording(**changes))
    return judge(found, NodeFacts({name: build_fact(FACTS[name], captures) for name in found.fact_names}),
                 RULES.skus[sku])


def gpu(number: int = 3, **readings: Any) -> Capture:
    """NVML's answer with other readings of one GPU; None is what the device lacks."""
    return machine.nvml(**{f"gpu{number}": _readings(readings)})


def every(**readings: Any) -> Capture:
    return machine.nvml(**{f"gpu{number}": _readings(readings) for number in range(8)})


def _readings(readings: dict[str, Any]) -> dict[str, Any]:
    return {key: {"na": True} if value is None else {"error": value} if isinstance(value, list)
            else {"ok": value} for key, value in readings.items()}


BROKEN = [999, "Unknown Error"]
CLUSTER = "5cd30dc8-0000-4000-8000-000000000001"


@pytest.mark.parametrize(("rule", "capture", "status"), [
    ("nvlink-fabric-state", gpu(), Status.PASS),
    ("nvlink-fabric-state", gpu(fabric_state=BROKEN), Status.UNKNOWN),
    ("nvlink-fabric-state", gpu(fabric_status=BROKEN), Status.UNKNOWN),
    ("nvlink-fabric-state", Capture(Outcome.TIMEOUT), Status.UNKNOWN),
    ("nvlink-fabric-health", gpu(fabric_health=BROKEN), Status.UNKNOWN),
    ("nvlink-fabric-health", every(fabric_health=None), Status.SKIPPED),
    ("nvlink-fabric-health", every(fabric_health=0), Status.SKIPPED),
    ("nvlink-fabric-summary", gpu(), Status.PASS),
    ("nvlink-fabric-summary", gpu(fabric_summary=BROKEN), Status.UNKNOWN),
    ("nvlink-fabric-summary", every(fabric_summary=None), Status.SKIPPED),
    ("nvlink-fabric-clique", every(fabric_clique=184, fabric_cluster=CLUSTER), Status.PASS),
    ("nvlink-fabric-clique", gpu(fabric_clique=BROKEN), Status.UNKNOWN),
    ("nvlink-fabric-clique", every(fabric_state="in_progress"), Status.UNKNOWN),
    ("nvlink-fabric-clique", every(fabric_state=None), Status.SKIPPED),
])
def test_a_rule_of_the_fabric_passes_is_unknown_or_skipped_as_it_was_measured(rule: str, capture: Capture,
                                                                              status: Status) -> None:
    assert results(gpu_nvml=capture)[rule].status is status


# ---- nvlink-fabric-state ----

@pytest.mark.parametrize(("readings", "words"), [
    ({"fabric_state": "in_progress"}, "GPU 3: fabric probe in progress, expected completed"),
    ({"fabric_state": "not_started", "fabric_status": 0},
     "GPU 3: fabric probe not started, expected completed"),
    ({"fabric_status": 23},
     "GPU 3: fabric probe completed with insufficient resources (23), expected success"),
    ({"fabric_status": 77}, "GPU 3: fabric probe completed with error (77), expected success"),
])
def test_a_gpu_without_its_place_in_the_fabric_is_named(readings: dict[str, Any], words: str) -> None:
    assert said(results(gpu_nvml=gpu(**readings))["nvlink-fabric-state"]) == words


@pytest.mark.parametrize("capture", [gpu(fabric_state=None), gpu(fabric_state="not_supported"),
                                     every(fabric_state=None), every(fabric_state="not_supported")])
def test_a_fabric_that_the_sku_says_is_there_and_nvml_does_not_support_is_unknown(capture: Capture) -> None:
    found = results(gpu_nvml=capture)["nvlink-fabric-state"]
    assert found.status is Status.UNKNOWN and "not supported: fabric state of GPU " in found.reason
    assert on(CPU, "nvlink-fabric-state", gpu_nvml=capture).status is Status.PASS
    assert on("hgx-a100", "nvlink-fabric-state", gpu_nvml=capture).status is Status.SKIPPED


def test_a_state_that_nvml_does_not_support_and_a_mask_without_a_part_are_unsupported() -> None:
    (first,
     *_) = gpus(Captures(machine.recording(gpu_nvml=every(fabric_state="not_supported", fabric_health=0))))
    assert reading(first, "fabric_state") is UNSUPPORTED and reading(first, "fabric_health") is UNSUPPORTED


# ---- nvlink-fabric-health ----

HEALTHY = 0x1AA


@pytest.mark.parametrize(("mask", "words", "owner"), [
    (HEALTHY & ~0x3 | 0x1, "bandwidth degraded, expected a healthy fabric", None),
    (HEALTHY & ~0xC | 0x4, "route recovery in progress, expected a healthy fabric", None),
    (HEALTHY & ~0x30 | 0x10, "route unhealthy, expected a healthy fabric", None),
    (HEALTHY & ~0xC0 | 0x40, "access timeout recovery in progress, expected a healthy fabric", None),
    *((HEALTHY & ~0xF00 | number << 8, f"incorrect configuration: {words}, expected a correct configuration",
       Owner.OPERATOR) for number, words in (
           (2, "system GUID"), (3, "chassis serial number"), (4, "no partition"), (5, "insufficient NVLinks"),
           (6, "incompatible GPU firmware"),
           (7, "invalid location"), (8, "GPU state invalid"), (15, "number 15"))),
])
def test_each_part_of_the_health_mask_is_named(mask: int, words: str, owner: Owner | None) -> None:
    result = results(gpu_nvml=gpu(fabric_health=mask))["nvlink-fabric-health"]
    assert said(result) == f"GPU 3: {words}" and result.findings[0].owner is owner


@pytest.mark.parametrize("mask", [HEALTHY, 0xAA, 0x100, 0x21AA, 0x11AA])
def test_a_mask_without_a_fault_passes_also_where_parts_are_not_supported(mask: int) -> None:
    assert results(gpu_nvml=every(fabric_health=mask))["nvlink-fabric-health"].status is Status.PASS


# ---- nvlink-fabric-summary, nvlink-fabric-partition ----

@pytest.mark.parametrize(("summary", "words"), [
    ("unhealthy", "unhealthy"), ("limited_capacity", "limited capacity"), ("unknown (7)", "unknown (7)")])
def test_a_fabric_that_the_driver_calls_less_than_healthy_is_named_though_its_mask_says_nothing(
        summary: str, words: str) -> None:
    found = results(gpu_nvml=gpu(fabric_summary=summary))
    assert said(found["nvlink-fabric-summary"]) == f"GPU 3: the fabric's health: {words}, expected healthy"
    assert found["nvlink-fabric-health"].status is Status.PASS


@pytest.mark.parametrize(("mask", "words"), [
    (HEALTHY | 0x2000, "GPU 3: no partition is assigned, expected a partition"),
    (HEALTHY | 0x8000, "GPU 3: the global fabric manager is disconnected, expected connected"),
    (HEALTHY | 0x5000, ""), (HEALTHY, ""),
])
def test_a_gpu_without_a_partition_or_a_global_manager_is_named(mask: int, words: str) -> None:
    found = results(gpu_nvml=gpu(fabric_health=mask))
    assert said(found["nvlink-fabric-partition"]) == words
    assert found["nvlink-fabric-health"].status is Status.PASS
    assert results(gpu_nvml=gpu(fabric_health=BROKEN))["nvlink-fabric-partition"].status is Status.UNKNOWN


# ---- nvlink-fabric-clique ----

def test_gpus_of_two_cliques_or_clusters_in_one_node_are_named() -> None:
    assert said(results(gpu_nvml=gpu(fabric_clique=7))["nvlink-fabric-clique"]) == (
        "GPU 3: clique 7 of cluster 00000000-0000-0000-0000-000000000000, "
        "expected clique 0 of cluster 00000000-0000-0000-0000-000000000000, as most of the node's GPUs")
    assert "GPU 3: clique 0 of cluster 5cd30dc8" in said(
        results(gpu_nvml=gpu(fabric_cluster=CLUSTER))["nvlink-fabric-clique"])


# ---- services ----

NO_SYSTEMD = Capture(Outcome.DONE, exit=1,
                     stderr="System has not been booted with systemd as init system (PID 1). Can't "
                            "operate.\n")


@pytest.mark.parametrize(("state", "words"),
                         [("failed/failed", "failed (failed)"), ("inactive/dead", "inactive (dead)"),
                          ("activating/start", "activating (start)")])
def test_a_fabric_manager_that_does_not_run_is_named(state: str, words: str) -> None:
    found = results(service_nvidia=machine.services(fabricmanager=state))["nvlink-fabric-manager"]
    assert said(found) == f"nvidia-fabricmanager: {words}, expected active"


def test_a_fabric_manager_that_is_not_installed_is_a_fault_unless_the_fabric_shows_its_work() -> None:
    absent = machine.services(fabricmanager="")
    assert results(service_nvidia=absent)["nvlink-fabric-manager"].status is Status.PASS
    for unready in (every(fabric_state="in_progress"), every(fabric_state=None), every(fabric_status=23)):
        assert (said(results(service_nvidia=absent, gpu_nvml=unready)["nvlink-fabric-manager"])
                == "nvidia-fabricmanager: not installed, expected active")


@pytest.mark.parametrize("sku",
                         [sku.name for sku in RULES.skus.values() if sku.name.startswith(("hgx-", "dgx-"))])
def test_every_sku_with_nvswitches_of_its_own_wants_a_fabric_manager_seen_or_not(sku: str) -> None:
    down = on(sku, "nvlink-fabric-manager", service_nvidia=machine.services(fabricmanager="failed/failed"))
    assert said(down) == "nvidia-fabricmanager: failed (failed), expected active"
    absent = machine.services(fabricmanager="")
    assert on(sku, "nvlink-fabric-manager", service_nvidia=absent,
              gpu_nvml=every(fabric_state="in_progress")).status is Status.FAIL
    assert on(sku, "nvlink-fabric-manager", service_nvidia=absent).status is Status.PASS
    assert on(sku, "nvlink-fabric-manager").status is Status.PASS
    assert on(sku, "nvlink-fabric-manager", service_nvidia=NO_SYSTEMD).status is Status.UNKNOWN
    logged = machine.journal("nv-fabricmanager[2211]: detected NVSwitch fatal error 12028 on fid 0")
    assert on(sku, "nvlink-fabric-manager-log", fabric_journal=logged).status is Status.FAIL


@pytest.mark.parametrize("sku", [TRAY, CPU, "single-gpu"])
def test_a_machine_without_nvswitches_of_its_own_wants_no_fabric_manager(sku: str) -> None:
    assert RULES.skus[sku].numbers["fabric_manager"] is False


def test_without_systemd_the_services_are_unknown_and_no_fault() -> None:
    found = results(service_nvidia=NO_SYSTEMD)["nvlink-fabric-manager"]
    assert found.status is Status.UNKNOWN and "not booted with systemd" in found.reason
    assert results(service_nvidia=Capture(Outcome.TIMEOUT))["nvlink-fabric-manager"].status is Status.UNKNOWN
    assert "no systemctl" in results(service_nvidia=Capture(Outcome.MISSING))["nvlink-fabric-manager"].reason


def test_where_the_switches_are_elsewhere_no_fabric_manager_is_wanted() -> None:
    down = machine.services(fabricmanager="failed/failed", imex="active/running")
    assert on(TRAY, "nvlink-fabric-manager", service_nvidia=down).status is Status.PASS
    none = {"gpu_nvml": Capture(Outcome.MISSING, note="no NVIDIA device"), "gpu_pci": machine.pci(0)}
    assert on(CPU, "nvlink-fabric-manager", service_nvidia=down,
              **none).status in (Status.PASS, Status.SKIPPED)


def test_imex_is_wanted_where_the_sku_says_so() -> None:
    assert (said(on(TRAY, "nvlink-fabric-imex", service_nvidia=machine.services(imex="failed/failed")))
            == "nvidia-imex: failed (failed), expected active")
    assert said(on(TRAY, "nvlink-fabric-imex")) == "nvidia-imex: not installed, expected active"
    assert on(TRAY, "nvlink-fabric-imex",
              service_nvidia=machine.services(imex="active/running")).status is Status.PASS
    assert on(TRAY, "nvlink-fabric-imex", service_nvidia=NO_SYSTEMD).status is Status.UNKNOWN
    assert results(service_nvidia=NO_SYSTEMD)["nvlink-fabric-imex"].status is Status.SKIPPED


# ---- the journal ----

@pytest.mark.parametrize(("line", "what"), [
    ("nv-fabricmanager[2211]: detected NVSwitch fatal error 12028 on fid 0 on NVSwitch pci bus id "
     "00000000:86:00.0 physical id 3 port 61", "NVSwitch fatal error 12028"),
    ("nv-fabricmanager[2211]: detected NVSwitch non-fatal error 11012 on fid 0 on NVSwitch pci bus id "
     "00000000:86:00.0 physical id 3 port 61",
     "NVSwitch non-fatal error 11012"),
    ("nv-fabricmanager[2211]: failed to find the GPU handle 1234567890 in the multicast team request "
     "setup 99.", "GPU without a place in its multicast team"),
    ("nv-fabricmanager[9]: detected number of NVSwitches don't match with any supported system topology, "
     "aborting fabric manager", "NVSwitches do not fit the system"),
    ("nv-fabricmanager[9]: request to query NVSwitch device information from NVSwitch driver failed with "
     "error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]",
     "no NVSwitch"),
    ("systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.", "fabric manager error"),
])
def test_each_documented_error_of_the_fabric_manager_is_named(line: str, what: str) -> None:
    (finding,) = results(fabric_journal=machine.journal(line))["nvlink-fabric-manager-log"].findings
    assert finding.subject == what and line in str(finding.observed)


def test_equal_errors_are_one_finding_with_a_count() -> None:
    many = machine.journal(*["nv-fabricmanager[1]: detected NVSwitch non-fatal error 11012 on fid 0"] * 500)
    (finding,) = results(fabric_journal=many)["nvlink-fabric-manager-log"].findings
    assert str(finding.observed).startswith("500 lines, the first: ")


def test_a_quiet_journal_passes_and_one_that_cannot_be_read_is_unknown() -> None:
    rule = "nvlink-fabric-manager-log"
    assert results()[rule].status is Status.PASS
    hint = "Hint: You are currently not seeing messages from other users and the system.\n"
    found = results(fabric_journal=Capture(Outcome.DONE, exit=0, text="-- No entries --\n",
                                           stderr=hint))[rule]
    assert found.status is Status.UNKNOWN and "needs root" in found.reason
    for capture in (Capture(Outcome.DENIED), Capture(Outcome.MISSING), Capture(Outcome.TIMEOUT),
                    Capture(Outcome.DONE, exit=1, stderr="No journal files were opened")):
        assert results(fabric_journal=capture)[rule].status is Status.UNKNOWN


def test_a_journal_of_which_only_the_end_was_read_can_fail_and_does_not_pass() -> None:
    cut = Capture(Outcome.TRUNCATED, exit=0, text=machine.journal().text)
    assert results(fabric_journal=cut)["nvlink-fabric-manager-log"].status is Status.UNKNOWN
    bad = Capture(Outcome.TRUNCATED, exit=0,
                  text=machine.journal("x: detected NVSwitch fatal error 12028").text)
    assert results(fabric_journal=bad)["nvlink-fabric-manager-log"].status is Status.FAIL


def test_a_node_without_switches_needs_no_journal() -> None:
    assert on(TRAY, "nvlink-fabric-manager-log",
              fabric_journal=Capture(Outcome.MISSING)).status is Status.PASS


@settings(deadline=None, max_examples=tries(200))
@given(st.text(max_size=400), st.text(max_size=60))
def test_any_journal_is_lines_or_unmeasured(text: str, stderr: str) -> None:
    found = nvlink_fabric_log(
        Captures(machine.recording(fabric_journal=Capture(Outcome.DONE, exit=0, text=text, stderr=stderr))))
    assert isinstance(found, NvlinkFabricLog)
    if not isinstance(reading(found, "text"), Unmeasured):
        for line in found.errors():
            assert len(line.text) <= 300 and line.text.isprintable()
