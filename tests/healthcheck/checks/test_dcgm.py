"""The DCGM diagnostic: both shapes of its output, every status, what is missing, and what it must never be:
beside a job."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.checks.dcgm import ACTIONS
from healthcheck.collector.reply import within
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.dcgm import DIAGNOSTICS, SEVERITIES, document
from healthcheck.facts.values import Partial, Unmeasured
from healthcheck.model.lease import NEEDED, Lease
from healthcheck.model.outcome import Owner, Result, Status
from healthcheck.model.probes import Effect, Probe, ProbeSet
from healthcheck.model.recording import Capture, Outcome, Recording
from healthcheck.report.progress import progress
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.sweep import sweep
from healthcheck.sweep.rootprobes import root_probes
from inventory.errors import RulesError, UsageError
from inventory.model import Node
from tests.healthcheck import machine
from tests.healthcheck.assessing import by_rule
from tests.healthcheck.checks.verdicts import only
from tests.packagedrules import RULES
from tests.testbed.collector import collect
from tests.tries import tries

DISRUPTIVE = [rule for rule in RULES.rules if rule.disruptive]


def error(code: int, severity: int, words: str) -> dict[str, Any]:
    return {"error_category": 8, "error_id": code, "error_severity": severity, "warning": words}


def four(tests: dict[str, dict[int, str]] | None = None, *, gpus: int = 8) -> dict[str, Any]:
    """A document of DCGM 4, of the form of dcgm_diag_schema.json; `tests` changes the status of single
    GPUs."""
    changed = tests or {}

    def test(name: str) -> dict[str, Any]:
        printed = {gpu: changed.get(name, {}).get(gpu, "Pass") for gpu in range(gpus)}
        worst = ("Fail" if "Fail" in printed.values() else "Skip"
                 if set(printed.values()) == {"Skip"} else "Pass")
        results = [{"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": status}
                   for gpu, status in printed.items()]
        return {"name": name, "results": results, "test_summary": {"status": worst}}

    return {
        "DCGM Diagnostic": {"test_categories": [
            {"category": "Deployment", "tests": [test("software")]}, {"category": "Hardware", "tests": [
                test("memory"), test("eud"), test("diagnostic"), test("memtest")]},
            {"category": "Integration", "tests": [test("pcie")]},
            {"category": "Performance", "tests": [test("targeted_stress"), test("targeted_power")]},
        ]},
        "entity_groups": [{"entity_group": "GPU", "entity_group_id": 1, "entities": [
            {"device_id": "2330", "entity_id": gpu, "serial_num": f"16{gpu}"} for gpu in range(gpus)]}],
        "metadata": {"Driver Version Detected": "550.54.15", "version": "4.2.3"},
    }


def dcgm_test(whole: dict[str, Any], name: str) -> dict[str, Any]:
    """This test in a document of DCGM 4."""
    return next(test for category in whole["DCGM Diagnostic"]["test_categories"]
                for test in category["tests"] if test["name"] == name)


def altered(name: str, **changes: Any) -> dict[str, Any]:
    """A healthy document of DCGM 4 but for one test."""
    whole = four()
    dcgm_test(whole, name).update(changes)
    return whole


def three(status: str = "Pass", *, gpus: int = 8) -> dict[str, Any]:
    """A document of DCGM 3, as dcgmi/Diag.cpp of v3.3.8 builds it; `status` is that of the test of PCI
    Express."""

    def test(name: str) -> dict[str, Any]:
        return {"name": name, "results": [{"gpu_id": str(gpu), "status": "Pass"} for gpu in range(gpus)]}

    return {
        "DCGM GPU Diagnostic": {"test_categories": [
            {"category": "Deployment", "tests": [
                {"name": name, "results": [{"status": "Pass"}]} for name in ("Denylist", "NVML Library",
                                                                             "Persistence Mode", "Inforom")]},
            {"category": "Integration", "tests": [
                {"name": "PCIe", "results": [{"gpu_id": str(gpu), "status": status, "info": "a word"}
                                             for gpu in range(gpus)]}]},
            {"category": "Hardware", "tests": [test("GPU Memory"), test("Diagnostic"), test("Memtest")]},
            {"category": "Stress", "tests": [test("Targeted Stress"), test("Targeted Power")]},
        ]},
        "Driver Version Detected": "535.129.03", "GPU Device IDs": ["2330"] * gpus,
        "GPU Device Serials": {str(gpu): f"16{gpu}" for gpu in range(gpus)}, "version": "3.3.8",
    }


def printed(whole: object, exit_status: int = 0) -> Capture:
    text = whole if isinstance(whole, str) else json.dumps(whole, indent=3) + "\n"
    return Capture(Outcome.DONE, exit=exit_status, seconds=90.0, bytes=len(text), text=text)


def judged(capture: Capture | None, level: str = "medium", *, asked: bool = True,
           without: tuple[str, ...] = ()) -> Result:
    """What the rule of a level says of a healthy node that holds this capture."""
    recording = machine.recording()
    held = {name: value for name, value in recording.captures.items() if name not in without}
    if capture is not None:
        held[f"dcgm.diag_{level}"] = capture
    rule = f"dcgm-diag-{level}"
    return by_rule(replace(recording, captures=held), rules=only(rule),
                   sent=[f"dcgm.diag_{level}"] if asked else [])[rule]


@pytest.mark.parametrize("level", DIAGNOSTICS)
@pytest.mark.parametrize("whole", [four(), three()])
def test_a_diagnostic_in_which_every_test_passed_on_every_gpu_passes(
    level: str, whole: dict[str, Any],
) -> None:
    result = judged(printed(whole), level)
    assert (result.status, result.reason) == (Status.PASS, ""), result


@pytest.mark.parametrize("gpu", range(8))
def test_the_entry_of_every_gpu_counts_and_not_only_the_first(gpu: int) -> None:
    """gcm (`check_dcgmi` diag) reads results[0] of each test, and knows the heading of DCGM 3 only."""
    whole = four({"memory": {gpu: "Fail"}})
    dcgm_test(whole, "memory")["results"][gpu]["warnings"] = [error(52, 2, "Found 1 faulty memory cell")]
    result = judged(printed(whole, 205))
    assert result.status is Status.FAIL and len(result.findings) == 1
    finding = result.findings[0]
    assert (finding.subject, finding.expected) == (f"GPU {gpu} memory", "pass")
    assert finding.observed == "fail: Found 1 faulty memory cell (error 52, isolate)"
    assert finding.owner is Owner.VENDOR and "field diagnostic" in finding.remedy
    older = three()
    older["DCGM GPU Diagnostic"]["test_categories"][1]["tests"][0]["results"][gpu]["status"] = "Fail"
    assert [f.subject for f in judged(printed(older, 226)).findings] == [f"GPU {gpu} pcie"]


@pytest.mark.parametrize(("severity", "name"), sorted(SEVERITIES.items()))
def test_the_severity_that_dcgm_gives_an_error_decides_remedy_and_owner(severity: int, name: str) -> None:
    whole = four({"pcie": {3: "Fail"}})
    dcgm_test(whole, "pcie")["results"][3]["warnings"] = [error(30, severity, "Bandwidth too low")]
    finding = judged(printed(whole, 226)).findings[0]
    assert (finding.remedy, finding.owner) == ACTIONS.get(name, ("", None))


def test_of_several_errors_the_gravest_decides() -> None:
    whole = four({"pcie": {3: "Fail"}})
    dcgm_test(whole, "pcie")["results"][3]["warnings"] = [error(29, 5, "a setting"), error(57, 2, "DBE")]
    assert judged(printed(whole, 205)).findings[0].owner is Owner.VENDOR


def test_a_setting_is_a_finding_that_says_so() -> None:
    """The persistence mode on a real DCGM 4.2.3: status Fail, category 8, error 29, severity 5."""
    whole = four({"software": dict.fromkeys(range(8), "Fail")})
    for gpu, result in enumerate(dcgm_test(whole, "software")["results"]):
        result["warnings"] = [error(29, 5, f"Persistence Mode: Persistence mode for GPU {gpu} is disabled.")]
    result = judged(printed(whole, 226))
    assert len(result.findings) == 8 and all("A setting" in finding.remedy for finding in result.findings)


def test_a_warning_has_not_passed() -> None:
    result = judged(printed(four({"pcie": {2: "Warn"}})))
    assert result.status is Status.FAIL and result.findings[0].observed == "warn: no reason given"


def test_a_test_that_the_rule_lets_dcgm_skip_is_reported_beside_the_pass() -> None:
    whole = four({"eud": dict.fromkeys(range(8), "Skip")})
    result = judged(printed(whole), "long")
    assert (result.status, result.reason) == (Status.PASS, "DCGM skipped eud (8x)")
    assert judged(printed(whole), "medium").status is Status.UNKNOWN


def test_a_diagnostic_that_skipped_all_it_may_skip_has_judged_nothing() -> None:
    whole = four()
    whole["DCGM Diagnostic"]["test_categories"] = [
        {"category": "Hardware",
         "tests": [{"name": "eud", "results": [{"entity_group": "GPU", "entity_id": gpu, "status": "Skip"}
                                               for gpu in range(8)]}]}]
    result = judged(printed(whole), "long")
    assert result.status is Status.UNKNOWN and "DCGM skipped every test" in result.reason


LEVEL_RUNS = {
    "quick": {"software"}, "medium": {"memory", "pcie"},
    "long": {"diagnostic", "targeted_stress", "targeted_power"}, "xlong": {"memtest"},
}


def without(whole: dict[str, Any], *names: str) -> dict[str, Any]:
    """The document as it is where these tests did not run: DCGM leaves out what did not, and a category
    without any."""
    root = next(iter(whole))
    kept = []
    for category in whole[root]["test_categories"]:
        tests = [] if "software" in names and category["category"] == "Deployment" else [
            test for test in category["tests"]
            if test["name"].lower().removeprefix("gpu ").replace(" ", "_") not in names]
        kept += [{**category, "tests": tests}] if tests else []
    return {**whole, root: {"test_categories": kept}}


@pytest.mark.parametrize("whole", [four(), three()])
@pytest.mark.parametrize("level", LEVEL_RUNS)
@pytest.mark.parametrize("test", sorted({test for tests in LEVEL_RUNS.values() for test in tests}))
def test_a_test_of_the_level_that_was_not_run_has_not_passed_and_is_named(
    whole: dict[str, Any], level: str, test: str,
) -> None:
    levels = list(LEVEL_RUNS)
    demanded = any(test in LEVEL_RUNS[below] for below in levels[:levels.index(level) + 1])
    result = judged(printed(without(whole, test)), level)
    assert (result.status, result.reason.endswith(f"DCGM did not run {test}")) == (
        (Status.UNKNOWN, True) if demanded else (Status.PASS, False)), result


def test_all_tests_that_were_not_run_are_named_and_a_failure_beside_them_stays_one() -> None:
    only = without(three(), "memory", "pcie", "diagnostic", "memtest", "targeted_stress", "targeted_power")
    assert judged(printed(only)).reason.endswith("DCGM did not run memory, pcie")
    assert judged(printed(only), "quick").status is Status.PASS
    failed = judged(printed(without(four({"pcie": {3: "Fail"}}), "memory"), 226))
    assert failed.status is Status.FAIL and [finding.subject for finding in failed.findings] == ["GPU 3 pcie"]


def test_a_test_that_was_skipped_is_not_said_to_be_missing() -> None:
    result = judged(printed(four({"memory": dict.fromkeys(range(8), "Skip")})))
    assert (result.status is Status.UNKNOWN and "DCGM skipped it" in result.reason
            and "did not run" not in result.reason)


@pytest.mark.parametrize("whole", [four(), three()])
def test_a_gpu_that_dcgm_lists_and_gives_no_result_for_is_unknown(whole: dict[str, Any]) -> None:
    root = next(iter(whole))
    whole = copy.deepcopy(whole)
    for category in whole[root]["test_categories"][1:]:
        for test in category["tests"]:
            del test["results"][6]
    result = judged(printed(whole))
    assert result.status is Status.UNKNOWN and "GPU 6" in result.reason and "gives no result" in result.reason


def test_an_entry_that_is_null_is_no_result() -> None:
    """DCGM 3 writes the results by index: where a GPU did not run the test, JSON's writer fills the hole with
    null."""
    whole = three()
    whole["DCGM GPU Diagnostic"]["test_categories"][1]["tests"][0]["results"][2] = None
    assert judged(printed(whole)).status is Status.UNKNOWN
    whole["DCGM GPU Diagnostic"]["test_categories"][0]["tests"].insert(1, None)
    assert judged(printed(whole)).status is Status.UNKNOWN


def test_gpus_that_no_one_counted_are_unknown() -> None:
    whole = three()
    del whole["GPU Device IDs"], whole["GPU Device Serials"]
    assert judged(printed(whole)).status is Status.PASS      # NVML counts them
    assert judged(printed(whole), without=("gpu.nvml",)).status is Status.UNKNOWN


def test_a_failure_stays_one_where_nvml_is_silent() -> None:
    assert judged(printed(four({"pcie": {1: "Fail"}}), 226), without=("gpu.nvml",)).status is Status.FAIL


def test_gpus_are_called_what_nvml_calls_them_where_serial_numbers_tell() -> None:
    whole = four({"pcie": {0: "Fail"}})
    entities = whole["entity_groups"][0]["entities"]
    entities[0]["serial_num"], entities[7]["serial_num"] = "167", "160"
    assert judged(printed(whole, 226)).findings[0].subject == "GPU 7 pcie"
    entities[0]["serial_num"] = "<<<NOT_SUPPORTED>>>"
    assert judged(printed(whole, 226)).findings[0].subject == "GPU 0 pcie"


def test_a_summary_that_is_worse_than_the_results_counts_and_its_error_is_not_lost() -> None:
    for words, warnings in (("", {}), ("Xid 79", {"warnings": [error(101, 4, "Xid 79")]})):
        (found,) = judged(printed(altered("pcie", test_summary={"status": "Fail", **warnings}), 226)).findings
        assert found.subject == "node pcie" and words in str(found.observed)


@pytest.mark.parametrize("order", [("Fail", "Pass"), ("Pass", "Fail")])
def test_of_two_results_of_one_test_on_one_gpu_the_worse_counts(order: tuple[str, str]) -> None:
    whole = four()
    results = dcgm_test(whole, "pcie")["results"]
    results[3]["status"] = order[0]
    results.append({**results[3], "status": order[1]})
    assert [f.subject for f in judged(printed(whole, 226)).findings] == ["GPU 3 pcie"]


def test_a_serial_number_that_two_gpus_share_names_neither() -> None:
    whole = four({"pcie": {1: "Fail"}})
    whole["entity_groups"][0]["entities"][1]["serial_num"] = "167"
    assert judged(printed(whole, 226)).findings[0].subject == "GPU 1 pcie"


def test_a_test_that_looks_at_no_gpu_counts_for_what_it_looks_at() -> None:
    whole = four()
    cpu = {"name": "cpu_eud",
           "results": [{"entity_group": "CPU", "entity_group_id": 7, "entity_id": 0, "status": "Fail"}],
           "test_summary": {"status": "Fail"}}
    whole["DCGM Diagnostic"]["test_categories"][1]["tests"].append(cpu)
    result = judged(printed(whole, 226))
    assert [f.subject for f in result.findings] == ["CPU 0 cpu_eud"] and result.reason == ""


def test_the_deployment_tests_of_dcgm_3_have_their_errors_under_another_key() -> None:
    whole = three()
    deployment = whole["DCGM GPU Diagnostic"]["test_categories"][0]["tests"]
    odd = {"warnings": "Persistence mode for GPU 5 is disabled.", "error_id": 29, "error_category": 8,
           "error_severity": 5}
    deployment[2]["results"][0] = {"status": "Fail", "gpu_id": 5, "warnings": [odd]}
    result = judged(printed(whole, 226))
    assert [f.subject for f in result.findings] == ["GPU 5 persistence_mode"] and result.reason == ""
    # One result holds the errors of all, and only the last one's number.
    deployment[2]["results"][0]["warnings"] = [{**odd, "warnings": "GPU 2"}, None, odd]
    assert [f.subject for f in judged(printed(whole, 226)).findings] == ["node persistence_mode"]


@pytest.mark.parametrize(("capture", "words"), [
    (Capture(Outcome.MISSING), "dcgmi diag is not there"), (Capture(Outcome.DENIED), "permission denied"),
    (Capture(Outcome.TIMEOUT), "dcgmi diag did not answer within 645 s"),
    (Capture(Outcome.TRUNCATED, text="{"), "gave more than"),
    (Capture(Outcome.CRASHED, exit=-11), "crashed (signal 11)"),
    (Capture(Outcome.WEDGED, note="wedged since 06:00"), "is wedged"),
    (printed("", 127), "dcgmi diag is not there"), (printed("", 126), "cannot be executed"),
    (printed(four(), 124), "did not end within 600 s, and was stopped"),
    (printed(four(), 137), "ignored the request to stop, and was killed"),
    (None, "was not captured"), (printed("", 1), "gave no whole result (exit status 1): no output"),
    (printed("Error: unable to establish a connection to the specified host: localhost\n", 1),
     "unable to establish a connection"),
    (printed({"DCGM Diagnostic": {"version": "4.2.3", "runtime_error": "Error: MIG is enabled"}}, 226),
     "did not run: Error: MIG is enabled"),
    (printed({"DCGM Diagnostic": {"version": "4.2.3"}}), "lists no test"),
    (printed({"DCGM Diagnostic": {"test_categories": []}}), "lists no test"),
    (printed(
         {"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [{"name": "memory"}]}]}}),
     "gives it no status"),
    (printed({"something": {}}), "gave no whole result"), (printed("[1, 2]\n"), "gave no whole result"),
    (printed("{" * 100_000), "gave no whole result"),
    # not every test passed on every GPU
    (printed(four({"memory": {5: "Skip"}})), "GPU 5 memory: DCGM skipped it"),
    (printed(three("Skip")), "GPU 0 pcie: DCGM skipped it: a word"),
    (printed(four({"pcie": {1: "Not Run"}})), "the status 'Not Run'"),
    (printed(four(gpus=7)), "NVML lists 8 GPUs, and DCGM tested 7"),
    (printed(four(), 226), "dcgmi ended with exit status 226, though no test failed"),
    *((printed(altered(name, results=[])), f"node {name}: DCGM passes it, but gives no result for any device")
      for name in ("memory", "software")),
    (printed(altered("memory", results=[
        {"entity_group": "CPU", "entity_group_id": 7, "entity_id": 0, "status": "Pass"}])),
     "GPU 0 memory: DCGM tested this GPU and gives no result"),
    # a pass with an error beside it (NVIDIA/DCGM issue 284)
    (printed(altered("memory", results=[
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": "Pass",
         "warnings": [error(56, 4, "Could not allocate memory")] if gpu == 4 else []}
        for gpu in range(8)]), 226),
     "GPU 4 memory: DCGM passes it, but reports an error: Could not allocate"),
    (printed(altered("pcie", test_summary={"status": "Pass", "warnings": [error(101, 4, "Xid 79")]}), 226),
     "node pcie: DCGM passes it, but reports an error: Xid 79"),
])
def test_a_diagnostic_without_a_whole_result_is_unknown(capture: Capture | None, words: str) -> None:
    result = judged(capture)
    assert result.status is Status.UNKNOWN and words in result.reason


def test_noise_before_the_document_is_passed_over() -> None:
    assert judged(printed("WARNING: {this} should not happen\n" + json.dumps(four()))).status is Status.PASS


@pytest.mark.parametrize("text", [json.dumps(four(gpus=2), indent=1), json.dumps(three(gpus=2), indent=1)])
def test_a_document_cut_anywhere_is_no_document(text: str) -> None:
    for at in range(len(text)):
        assert document(text[:at]) is None


@pytest.mark.parametrize("whole", [four(), three()])
def test_a_document_cut_in_the_capture_is_unknown(whole: dict[str, Any]) -> None:
    text = json.dumps(whole, indent=1)
    for at in range(0, len(text), 389):
        assert judged(printed(text[:at])).status is Status.UNKNOWN


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats(allow_nan=False) | st.text(max_size=6)
    | st.sampled_from(["Pass", "Fail", "GPU", "0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["test_categories", "tests", "results", "name", "status", "warnings", "entity_group",
                         "entity_id", "gpu_id", "gpu_ids", "test_summary", "category", "entities", "error_id",
                         "error_severity", "info", "runtime_error"]), inner, max_size=4), max_leaves=25)


@settings(deadline=None, max_examples=tries(300))
@given(root=JSON, beside=JSON, name=st.sampled_from(["DCGM Diagnostic", "DCGM GPU Diagnostic"]))
def test_whatever_a_document_holds_it_is_read_or_refused(root: object, beside: object, name: str) -> None:
    whole = {name: root, "entity_groups": beside, "GPU Device IDs": beside, "GPU Device Serials": beside,
             "metadata": beside}
    recording = replace(machine.recording(), captures={"dcgm.diag_long": printed(whole)})
    for fact in ("dcgm_tests_long", "dcgm_run_long"):
        value = build_fact(FACTS[fact], Captures(recording))
        assert isinstance(value, Unmeasured | Partial | tuple) or fact == "dcgm_run_long"
        assert "could not be read from the node's output" not in getattr(value, "reason", "")


@settings(deadline=None, max_examples=tries(60))
@given(st.data())
def test_whatever_one_place_of_a_healthy_document_holds_instead_it_passes_only_if_it_is_a_pass(
    data: st.DataObject,
) -> None:
    whole = data.draw(st.sampled_from([four(), three()]))
    categories = whole[next(iter(whole))]["test_categories"]
    category = data.draw(st.sampled_from(categories))
    test = data.draw(st.sampled_from(category["tests"]))
    at = data.draw(st.integers(0, len(test["results"]) - 1))
    value = data.draw(JSON.filter(lambda value: not (isinstance(value, str) and value.lower() == "pass")))
    test["results"][at] = {**test["results"][at], "status": value}
    assert judged(printed(whole)).status is not Status.PASS


# --- Invariant 8: nothing disruptive runs beside a job.


def test_there_is_something_disruptive_so_that_what_follows_means_something() -> None:
    assert {rule.id for rule in DISRUPTIVE} >= {f"dcgm-diag-{level}" for level in DIAGNOSTICS}
    assert all(rule.effect is Effect.DISRUPTIVE for rule in DISRUPTIVE)


@pytest.mark.parametrize("probe", sorted({probe for rule in DISRUPTIVE for probe in rule.disruptive},
                                         key=lambda probe: probe.id), ids=lambda p: p.id)
def test_invariant_8_no_probe_set_with_a_disruptive_probe_can_be_made_without_a_lease(probe: Probe) -> None:
    with pytest.raises(ValueError, match="disruptive without a lease"):
        ProbeSet((probe,))
    with pytest.raises(ValueError, match="disruptive without a lease"):
        ProbeSet.of([probe])
    with pytest.raises(ValueError, match="disruptive without a lease"):
        RULES.probe_set(45.0, extra=[probe])
    with pytest.raises(ValueError, match="disruptive without a lease"):
        replace(ProbeSet.of([probe], lease=Lease(frozenset({"gpu001"}), "a test")), lease=None)


OFF = {rule.id for rule in RULES.rules if rule.left_out}


@given(only=st.lists(st.sampled_from([rule.id for rule in RULES.rules] + ["*", "dcgm-*", "gpu-*"]),
                     max_size=5), profiles=st.sets(st.sampled_from([None, *RULES.profiles])))
def test_invariant_8_whatever_is_selected_nothing_disruptive_is_sent(
    only: list[str], profiles: set[str | None],
) -> None:
    if set(only) & OFF and len(set(only) - OFF) == 0:
        only = [*only, "gpu-count"]     # rules that are off leave nothing to judge, which is refused
    probes = RULES.select(only).probe_set(45.0, profiles=profiles).probes
    assert all(probe.effect is Effect.PASSIVE for probe in probes)


def test_under_a_lease_it_is_sent_and_only_to_nodes_of_the_lease() -> None:
    lease = Lease(frozenset({"gpu001"}), "a test")
    sent = RULES.select(["dcgm-diag-quick"]).probe_set(300.0, lease=lease)
    assert "dcgm.diag_quick" in {probe.id for probe in sent.probes} and sent.lease == lease
    plan = sweep.SweepPlan((Node(name="gpu001"), Node(name="gpu002")), RULES)
    with pytest.raises(UsageError, match="the lease of 'a test' does not cover 'gpu002'"):
        sweep.live(plan, None, sweep.limits(9, 1), progress(0, "", quiet=True), lease=lease)


def test_without_a_lease_a_disruptive_rule_is_skipped_and_says_so() -> None:
    result = judged(None, asked=False)
    assert (result.status, result.reason) == (Status.SKIPPED, NEEDED)


def test_a_node_that_answers_what_no_one_asked_is_not_believed() -> None:
    recording = replace(machine.recording(),
                        captures={**machine.captures(),
                                  "dcgm.diag_quick": printed(four({"pcie": {1: "Fail"}}), 226)})
    kept = within(recording, RULES.probe_set(45.0))
    assert "dcgm.diag_quick" not in kept.captures and "gpu.nvml" in kept.captures


def test_a_recording_that_holds_the_capture_is_judged() -> None:
    assert judged(printed(four({"pcie": {1: "Fail"}}), 226), asked=False).status is Status.FAIL


def test_what_was_sent_and_did_not_come_back_is_unknown() -> None:
    assert judged(None, asked=True).status is Status.UNKNOWN


@pytest.mark.parametrize(("globs", "words"), [
    (["dcgm-diag-medium"], "dcgm-diag-medium is disruptive and needs a lease"),
    (["dcgm-*"],
     "dcgm-diag-long, dcgm-diag-medium, dcgm-diag-quick, dcgm-diag-xlong are disruptive and need a lease"),
    (["gpu-*", "dcgm-diag-quick"], "dcgm-diag-quick is disruptive"),
])
def test_to_ask_for_nothing_else_is_a_mistake(globs: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        RULES.refuse_disruptive(globs)
    RULES.refuse_disruptive(["gpu-*"])
    RULES.refuse_disruptive(["*"])


@pytest.mark.parametrize(("check", "effect", "words"), [
    ("dcgm.diag_quick", "passive", "effect: expected disruptive: its probe dcgm.diag_quick is"),
    ("gpu.answers", "disruptive", "effect: expected passive: none of its probes is disruptive"),
])
def test_a_rule_cannot_say_of_itself_what_its_probes_are_not(
    tmp_path: Path, check: str, effect: str, words: str,
) -> None:
    text = (f"- id: mine\n  check: {check}\n  severity: info\n  effect: {effect}\n  remedy: None.\n  source: "
            "a test\n  proven: documented\n")
    (tmp_path / "site.yaml").write_text(text)
    with pytest.raises(RulesError, match=words):
        load_ruleset([tmp_path])


def test_the_root_owned_helper_knows_nothing_disruptive() -> None:
    assert all(probe.effect is Effect.PASSIVE for probe in root_probes())


def test_every_level_has_an_outer_limit_of_its_own() -> None:
    assert {name: probe.argv[3] for name, probe in DIAGNOSTICS.items()} == {"quick": "120", "medium": "600",
                                                                            "long": "3600", "xlong": "10800"}
    assert all(probe.argv[4:] == ("dcgmi", "diag", "-r", str(at), "-j")
               for at, probe in enumerate(DIAGNOSTICS.values(), 1))
    assert all(probe.seconds > float(probe.argv[3]) + float(probe.argv[2]) for probe in DIAGNOSTICS.values())


def test_a_diagnostic_that_hangs_is_told_to_stop_before_it_is_killed(tmp_path: Path) -> None:
    """Through the real collector: dcgmi ends what it started when it gets TERM, and cannot when it is
    killed."""
    programs = tmp_path / "usr" / "bin"
    programs.mkdir(parents=True)
    script = f'#!/bin/sh\ntrap "echo stopped > {tmp_path}/told; kill $!; exit 1" TERM\nsleep 77 &\nwait\n'
    (programs / "dcgmi").write_text(script)
    (programs / "dcgmi").chmod(0o755)
    # Whether a probe disrupts is the head's to know; the collector runs what it is sent.
    probe = replace(DIAGNOSTICS["quick"], argv=("timeout", "-k", "30", "0.5", *DIAGNOSTICS["quick"].argv[4:]),
                    effect=Effect.PASSIVE)
    recording = collect([probe], tmp_path)
    assert (tmp_path / "told").read_text() == "stopped\n"
    assert recording.captures["dcgm.diag_quick"].exit == 124


def test_a_recording_by_hand_stays_what_it_was() -> None:
    """The helper of these tests changes nothing that others build on."""
    assert (isinstance(machine.recording(), Recording)
            and not any(name.startswith("dcgm") for name in machine.captures()))
