"""SKUs: each packaged one is complete, a wrong one judges nothing and says so, and numbers are learned only
from what was measured.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.pci import PciBus
from healthcheck.facts.product import is_model
from healthcheck.facts.values import Unmeasured
from healthcheck.model.outcome import NodeReport, NodeState, Origin, Result, Status
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from healthcheck.report.document import node
from healthcheck.ruleset import sku as skus
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from healthcheck.sweep import saved
from healthcheck.sweep.skulearn import as_yaml, differences, propose
from inventory.errors import UsageError
from inventory.model import Node
from inventory.transport.base import Failure, Stage
from tests.command import muster
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed, by_rule, page_of
from tests.packagedrules import RULES
from tests.tries import tries

NEEDED = {number for rule in RULES.rules for number in rule.numbers}
A100 = {"name": {"ok": "NVIDIA A100-SXM4-80GB"}}


def each_gpu(number: int = 8, **readings: Any) -> Capture:
    """NVML's answer, with these readings of every GPU."""
    return machine.nvml(number, **{f"gpu{n}": readings for n in range(number)})


ALL_A100 = each_gpu(**A100)


def facts(recording: Recording) -> dict[str, Any]:
    return {name: build_fact(FACTS[name], Captures(recording)) for names in skus.LEARNED_FROM.values()
            for name in names}


def learned(**captures: Capture) -> dict[str, Any]:
    """What a machine with these captures shows."""
    return skus.learn(facts(machine.recording(**captures)))


def pci(device: str, number: int = 8, switches: int = 4) -> Capture:
    """The bus with so many GPUs of a device, and NVSwitches."""
    nvswitches = [("68000", "10DE:22A3")] * switches
    kinds = [("30200", f"10DE:{device}")] * number + nvswitches + [("68000", "8086:1234")]
    return machine.done(**{
        f"/sys/bus/pci/devices/0000:{n:02x}:00.0/uevent":
            f"PCI_CLASS={kind}\nPCI_ID={ident}\nPCI_SLOT_NAME=0000:{n:02x}:00.0\n"
        for n, (kind, ident) in enumerate(kinds)
    })


def swept(*recordings: Recording, sku: str | None = "hgx-h100") -> list[NodeReport]:
    return list(assessed(*recordings, sku=sku).reports)


def results(report: NodeReport) -> dict[str, Result]:
    return {result.rule: result for result in report.results}


@pytest.mark.parametrize("sku", RULES.skus.values(), ids=lambda sku: sku.name)
def test_every_sku_gives_or_declines_every_number_that_a_rule_names(sku: skus.Sku) -> None:
    assert set(sku.numbers) >= NEEDED
    assert sku.source and sku.title


def test_every_number_that_a_rule_names_can_be_learned() -> None:
    assert set(skus.LEARNERS) >= NEEDED
    assert set(skus.LEARNED_FROM) == set(skus.LEARNERS)


@pytest.mark.parametrize("sku", [sku for sku in RULES.skus.values() if sku.ports], ids=lambda sku: sku.name)
def test_a_sku_with_ports_has_a_compute_port_for_each_gpu_and_no_rail_twice(sku: skus.Sku) -> None:
    compute = [plan for plan in sku.ports.values() if plan.role == "compute"]
    assert len(compute) == sku.numbers["gpu_count"] == sku.numbers["port_count"]
    rails = [plan.rail for plan in compute if plan.rail is not None]
    assert len(rails) == len(set(rails))


def test_no_two_skus_with_as_many_gpus_take_each_others_model() -> None:
    products = {"hgx-h100": "NVIDIA H100 80GB HBM3", "hgx-h200": "NVIDIA H200", "hgx-b200": "NVIDIA B200",
                "gb200-nvl72": "NVIDIA GB200", "hgx-a100-40gb": "NVIDIA A100-SXM4-40GB"}
    for name, sku in ((name, RULES.skus[name]) for name in products):
        assert {other for other, product in products.items()
                if is_model(product, sku.numbers["gpu_model"])} == {name}


OF_THE_SERVER = ("memory_gib", "docker", "cpu_count", "numa_nodes", "dimm_count", "nvme_count")


@pytest.mark.parametrize("sku", [sku for name, sku in RULES.skus.items() if name.startswith("hgx-")],
                         ids=lambda sku: sku.name)
def test_a_sku_of_a_baseboard_judges_nothing_that_only_the_server_around_it_has(sku: skus.Sku) -> None:
    assert [number for number in OF_THE_SERVER if not sku.declines(number)] == []


@pytest.mark.parametrize(("sku", "state", "failed"), [
    ("hgx-h100", NodeState.HEALTHY, set()), ("dgx-h100", NodeState.UNHEALTHY, {"host-memory"}),
])
def test_a_healthy_server_of_half_the_memory_and_without_docker_is_healthy_around_the_same_board(
    sku: str, state: NodeState, failed: set[str],
) -> None:
    meminfo = machine.MEMINFO.replace("MemTotal:       2113000000", "MemTotal: 1056000000")
    other = {"host_memory": machine.done(**{"/proc/meminfo": meminfo.replace("2040000000", "1020000000")}),
             **dict.fromkeys(("docker_info", "docker_ps", "docker_images"), Capture(Outcome.MISSING))}
    (report,) = swept(machine.recording(**other), sku=sku)
    found = results(report)
    assert {rule for rule in ("host-memory", "docker-answers") if found[rule].status is Status.FAIL} == failed
    assert report.state is state, [result for result in report.results
                                   if result.status in (Status.FAIL, Status.UNKNOWN)]
    if state is NodeState.HEALTHY:
        assert found["host-memory"].reason == "the SKU hgx-h100 says that memory_gib is not judged"
        assert found["docker-answers"].reason == "the SKU hgx-h100 says that docker is not judged"


# A node that is another machine

def test_a_node_of_another_model_is_unknown_for_every_number_of_its_sku_and_says_what_to_correct() -> None:
    (report,) = swept(machine.recording(gpu_nvml=ALL_A100))
    found = results(report)
    why = ("the node is to be hgx-h100, but GPU 0 is NVIDIA A100-SXM4-80GB: correct `sku:` in the "
           "inventory, or --sku")
    for rule in RULES.rules:
        declined = any(RULES.skus["hgx-h100"].declines(number) for number in rule.needed)
        if rule.needed and not declined and not rule.left_out and not set(rule.fact_names) & {
            "dcgm_diagnostic"}:
            assert (found[rule.id].status, found[rule.id].origin) == (Status.UNKNOWN, Origin.MUSTER), rule.id
            assert found[rule.id].reason == why
    assert found["sku-matches"].reason == why and report.state is NodeState.UNKNOWN and why in report.reason
    assert found["gpu-answers"].status is Status.PASS


def test_one_gpu_of_another_model_is_a_fault_of_that_board_and_the_sku_holds() -> None:
    (report,) = swept(machine.recording(gpu_nvml=machine.nvml(gpu5=A100)))
    (finding,) = results(report)["sku-matches"].findings
    assert (finding.subject, finding.observed, finding.expected) == ("GPU 5", "NVIDIA A100-SXM4-80GB",
                                                                     "NVIDIA H100 80GB HBM3")
    assert results(report)["gpu-count"].status is Status.PASS


@pytest.mark.parametrize(("others", "status"), [(0, Status.PASS), (4, Status.FAIL), (5, Status.UNKNOWN)])
def test_a_sku_is_contradicted_by_more_than_half_of_the_gpus(others: int, status: Status) -> None:
    (report,) = swept(machine.recording(gpu_nvml=machine.nvml(**{f"gpu{n}": A100 for n in range(others)})))
    assert results(report)["sku-matches"].status is status


def test_where_nvml_is_silent_the_pci_bus_says_that_it_is_another_machine() -> None:
    silent = Capture(Outcome.TIMEOUT)
    wrong = results(swept(machine.recording(gpu_nvml=silent, gpu_pci=pci("20B2")))[0])
    assert wrong["gpu-count"].status is Status.UNKNOWN
    assert wrong["gpu-count"].reason.startswith(
        "the node is to be hgx-h100, but 8 of 8 GPUs on PCI are 10de:20b2 and not 10de:2330")
    right = results(swept(machine.recording(gpu_nvml=silent, gpu_pci=pci("2330")))[0])
    assert (right["sku-matches"].status, right["sku-matches"].origin) == (Status.UNKNOWN, Origin.NODE)


PCIE = each_gpu(name={"ok": "NVIDIA H100 PCIe"})


@pytest.mark.parametrize(("nvml", "bus", "seen"), [
    (PCIE, pci("2331"), "GPU 0 is NVIDIA H100 PCIe"), (PCIE, pci("2330"), "GPU 0 is NVIDIA H100 PCIe"),
    (machine.nvml(), pci("2331"),
     "8 of 8 GPUs on PCI are 10de:2331 and not 10de:2330 (NVIDIA H100 80GB HBM3)")])
def test_another_product_of_the_same_chip_is_reported_by_its_name_or_its_pci_device(
    nvml: Capture, bus: Capture, seen: str,
) -> None:
    (report,) = swept(machine.recording(gpu_nvml=nvml, gpu_pci=bus))
    why = f"the node is to be hgx-h100, but {seen}: correct `sku:` in the inventory, or --sku"
    found = results(report)
    assert {(found[rule].status, found[rule].reason)
            for rule in ("sku-matches", "gpu-power-limit", "nvlink-count")} == {(Status.UNKNOWN, why)}
    assert report.state is NodeState.UNKNOWN


@pytest.mark.parametrize(("bus", "contradicts"),
                         [(Capture(Outcome.TIMEOUT), False), (Capture(Outcome.DENIED), False),
                          (pci("2330", 0), False), (pci("2330"), False), (pci("2331"), True)])
def test_a_bus_that_was_not_read_contradicts_no_name_that_fits(bus: Capture, contradicts: bool) -> None:
    reason = results(swept(machine.recording(gpu_pci=bus))[0])["sku-matches"].reason
    assert reason.startswith("the node is to be hgx-h100") is contradicts


def test_a_sku_that_names_no_device_takes_any_of_its_model() -> None:
    (report,) = swept(machine.recording(gpu_nvml=ALL_A100, gpu_pci=pci("20B0")), sku="hgx-a100")
    assert results(report)["sku-matches"].status is Status.PASS


@pytest.mark.parametrize(("swapped", "status"), [(1, Status.PASS), (4, Status.PASS), (5, Status.UNKNOWN)])
def test_one_gpu_of_another_device_is_a_fault_of_that_board_and_most_are_another_machine(
    swapped: int, status: Status,
) -> None:
    both = {**pci("2331", swapped, 0).files, **{path.replace(":00.0", ":01.0"): held
                                                for path, held in pci("2330", 8 - swapped, 0).files.items()}}
    snapshot = machine.recording(gpu_pci=replace(pci("2330"), files=both))
    assert results(swept(snapshot)[0])["sku-matches"].status is status


def test_a_gpu_whose_model_cannot_be_read_is_unknown_and_contradicts_nothing() -> None:
    (report,) = swept(
        machine.recording(gpu_nvml=machine.nvml(gpu1={"name": {"error": [999, "Unknown Error"]}})))
    found = results(report)
    assert (found["sku-matches"].status, found["sku-matches"].origin) == (Status.UNKNOWN, Origin.NODE)
    assert found["gpu-count"].status is Status.PASS


def test_machines_of_another_kind_are_no_peers_of_the_skus_own() -> None:
    reports = swept(*(machine.recording(f"n{n}") for n in range(4)),
                    machine.recording("a100", gpu_nvml=ALL_A100))
    assert [results(report)["fleet-gpu-model"].status
            for report in reports] == [Status.PASS] * 4 + [Status.SKIPPED]


def test_the_document_says_what_a_node_was_to_be_and_null_where_no_one_said() -> None:
    assert [node(swept(machine.recording("n0"), sku=sku)[0])["sku"]
            for sku in ("hgx-h100", None)] == ["hgx-h100", None]
    assert node(swept(machine.recording(gpu_nvml=ALL_A100))[0])["sku"] == "hgx-h100"


def test_a_gpu_of_another_model_than_most_is_named_where_no_sku_is() -> None:
    reports = swept(*(machine.recording(f"n{n}") for n in range(4)),
                    machine.recording("odd", gpu_nvml=machine.nvml(gpu5=A100)), sku=None)
    (finding,) = results(reports[4])["sku-matches"].findings
    assert (finding.subject, finding.expected) == ("GPU 5", "NVIDIA H100 80GB HBM3")


def test_a_hostile_product_name_that_is_learned_does_no_harm_on_the_page() -> None:
    hostile = each_gpu(name={"ok": "NVIDIA \x1b[2JH100"})
    found = assessed(*(machine.recording(f"n{n}", gpu_nvml=hostile) for n in range(3)), sku=None)
    page = page_of(found, width=80)
    assert "gpu_model NVIDIA \\x1b[2JH100" in page and "\x1b" not in page


def test_the_reason_for_many_unknown_rules_comes_before_their_names() -> None:
    reason = "the node is to be hgx-h100, but GPU 0 is NVIDIA A100-SXM4-80GB: correct `sku:`"
    lines = page_of(assessed(machine.recording("n0", gpu_nvml=ALL_A100)), width=80).splitlines()
    at = next(number for number, line in enumerate(lines) if reason in line)
    assert lines[at - 1].startswith("UNKNOWN  ") and lines[at - 1].endswith(" rules")
    assert lines[at + 1].lstrip().startswith("gpu-count, ") and lines[at + 1].endswith(" more")


# Learning

def test_a_healthy_node_shows_every_number() -> None:
    assert learned(gpu_pci=pci("2330")) == {
        "nvlink_count": 18, "nvlink_gigabytes": 26.562, "gpu_count": 8, "port_count": 8,
        "port_rate_gbps": 400.0, "gpu_model": "NVIDIA H100 80GB HBM3", "gpu_device": "10de:2330",
        "gpu_memory_gib": 79, "pcie_generation": 5, "pcie_width": 16, "power_limit_watts": 700.0,
        "nvswitch_count": 4, "fabric_manager": True, "fabric": True, "imex": False, "mig": False, "ecc": True,
        "memory_gib": 2015.0, "docker": True, "cpu_count": 224, "dimm_count": 32, "numa_nodes": 2,
        "nvme_count": 0}


def test_nothing_is_learned_that_was_not_measured() -> None:
    nothing = machine.recording()
    blank = replace(nothing, captures={name: Capture(Outcome.DENIED) for name in nothing.captures})
    assert set(skus.learn(facts(blank)).values()) == {None}


@pytest.mark.parametrize(("number", "changes"),
                         [("mig", {"mig": {"ok": 1}}), ("fabric", {"fabric_state": {"ok": "not_supported"}}),
                          ("ecc", {"ecc_mode": {"error": [999, "x"]}})])
def test_a_setting_is_learned_only_where_all_gpus_share_it(number: str, changes: dict[str, Any]) -> None:
    assert learned(gpu_nvml=machine.nvml(gpu2=changes))[number] is None
    assert learned(gpu_nvml=each_gpu(**changes))[number] == {"mig": True, "fabric": False,
                                                             "ecc": None}[number]


def test_what_most_gpus_of_a_node_show_is_learned_though_one_differs() -> None:
    shows = learned(gpu_nvml=machine.nvml(gpu2={"pcie_width": {"ok": 8}, **A100}))
    assert (shows["pcie_width"], shows["gpu_model"]) == (16, "NVIDIA H100 80GB HBM3")


NO_FABRIC = {"fabric_state": {"na": True}, "fabric_cluster": {"na": True}}
OF_A_RACK = {"fabric_cluster": {"ok": "0e8b1c1e-0000-0000-0000-000000000001"}}
NOT_READY = {"fabric_state": {"ok": "in_progress"}}


@pytest.mark.parametrize(("switches", "service", "gpu", "manager"), [
    (4, "", {}, True), (4, "failed/failed", NO_FABRIC, True),
    # The NVSwitches of HGX B200 are not seen: the service shows it, dead or alive, and none at all may be the
    # fault or a container's.
    (0, "active/running", {}, True), (0, "failed/failed", NOT_READY, True), (0, "inactive/dead", {}, True),
    (0, "", {}, None), (0, "", NOT_READY, None),
    # A package that an image brought and that has nothing to do here.
    (0, "failed/failed", NO_FABRIC, False), (0, "inactive/dead", OF_A_RACK, False), (0, "", NO_FABRIC, False),
])
def test_a_fabric_manager_is_learned_from_switches_or_its_service(
    switches: int, service: str, gpu: dict[str, Any], manager: bool | None,
) -> None:
    shows = learned(gpu_pci=pci("2901", switches=switches), gpu_nvml=each_gpu(**gpu),
                    service_nvidia=machine.services(fabricmanager=service))
    assert shows["fabric_manager"] is manager


def of_a_rack(node: str, cluster: str, *, switches: int = 0, imex: str = "", manager: str = "") -> Recording:
    return machine.recording(
        node, gpu_pci=pci("2941", switches=switches), gpu_nvml=each_gpu(fabric_cluster={"ok": cluster}),
        service_nvidia=machine.services(fabricmanager=manager, imex=imex))


CLUSTER, NONE = "0e8b1c1e-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(("cluster", "switches", "imex", "manager", "wanted"), [
    # Its own NVSwitches, or its own Fabric Manager where these are not seen (HGX B200): one node's fabric.
    (CLUSTER, 4, "", "active/running", False), (CLUSTER, 0, "", "active/running", False),
    (CLUSTER, 4, "inactive/dead", "", False),
    # No cluster at all, in any spelling.
    (NONE, 0, "active/running", "", False), ("0" * 32, 0, "active/running", "", False),
    # A tray of a rack: IMEX is there, alive or dead.
    (CLUSTER, 0, "active/running", "", True), (CLUSTER, 0, "failed/failed", "", True),
    (CLUSTER, 0, "inactive/dead", "failed/failed", True),
    # A cluster and nothing else: it may be one node's, with a Fabric Manager in a container.
    (CLUSTER, 0, "", "", None),
])
def test_imex_is_learned_from_what_runs_the_fabric_and_not_from_any_cluster(
    cluster: str, switches: int, imex: str, manager: str, wanted: bool | None,
) -> None:
    node = of_a_rack("n", cluster, switches=switches, imex=imex, manager=manager)
    assert skus.learn(facts(node))["imex"] is wanted


def test_a_cluster_that_several_nodes_share_spans_nodes() -> None:
    other = CLUSTER.replace("0e8b", "0e8c")
    shared = [of_a_rack(f"n{n}", CLUSTER) for n in range(3)] + [of_a_rack("n3", other)]
    assert skus.spanning({node.node: facts(node) for node in shared}) == {"n0", "n1", "n2"}
    assert skus.spanning({f"n{n}": facts(of_a_rack(f"n{n}", NONE)) for n in range(3)}) == frozenset()


def test_a_bus_that_was_not_read_does_not_show_that_no_fabric_manager_is_wanted() -> None:
    shows = learned(gpu_pci=Capture(Outcome.TIMEOUT), service_nvidia=machine.services(fabricmanager=""),
                    gpu_nvml=each_gpu(**NO_FABRIC))
    assert shows["fabric_manager"] is None


def test_without_a_sku_a_dead_fabric_manager_is_found_by_what_most_nodes_run() -> None:
    unseen = {"gpu_pci": pci("2330", switches=0)}
    reports = swept(*(machine.recording(f"n{n}", **unseen) for n in range(4)),
                    machine.recording("dead", service_nvidia=machine.services(fabricmanager="failed/failed"),
                                      **unseen), sku=None)
    assert [results(report)["nvlink-fabric-manager"].status
            for report in reports] == [Status.PASS] * 4 + [Status.FAIL]


def test_gpus_without_a_fabric_are_learned_to_have_none() -> None:
    shows = learned(gpu_nvml=each_gpu(**NO_FABRIC, mig={"na": True}))
    assert (shows["fabric"], shows["imex"], shows["mig"]) == (False, False, False)


def test_the_pci_bus_is_read_whole_or_not_at_all() -> None:
    whole = facts(machine.recording(gpu_pci=pci("2330", 2, 1)))["pci_bus"]
    assert whole == PciBus("PCI bus", ("10de:2330", "10de:2330"), 1)
    held = pci("2330")
    for spoilt in (
        replace(held, files={**held.files, "/sys/bus/pci/devices/x/uevent": FileCapture(Outcome.DENIED)}),
        Capture(Outcome.DONE), Capture(Outcome.MISSING), replace(held, outcome=Outcome.TRUNCATED)):
        assert isinstance(facts(machine.recording(gpu_pci=spoilt))["pci_bus"], Unmeasured)


@settings(max_examples=tries(100))
@given(st.dictionaries(st.text(max_size=20), st.text(max_size=60), max_size=4))
def test_no_text_on_the_bus_upsets_its_reader(files: dict[str, str]) -> None:
    fact = facts(machine.recording(gpu_pci=machine.done(**{f"/sys/{name}/uevent": text
                                                           for name, text in files.items()})))["pci_bus"]
    assert isinstance(fact, (PciBus, Unmeasured))


@pytest.mark.parametrize(("shows", "name"), [
    ({"gpu_count": 8, "port_count": 8}, None),
    ({"gpu_count": 8, "port_count": 8, "gpu_model": "NVIDIA H200"}, "hgx-h200"),
    ({"gpu_count": 8, "port_count": 8, "gpu_model": "NVIDIA A100-SXM4-40GB", "gpu_device": "10de:20b0"},
     "hgx-a100-40gb"), ({"gpu_count": 8, "port_count": 8, "gpu_model": "NVIDIA A100-SXM4-40GB"}, None),
    ({"gpu_count": 8, "port_count": 8, "gpu_model": "NVIDIA H100 PCIe", "gpu_device": "10de:2331"},
     "h100-pcie"),
    ({"gpu_count": 3, "port_count": 2, "gpu_model": "NVIDIA L40S"}, "l40s"),
    ({"gpu_count": 3, "port_count": 2, "gpu_model": "NVIDIA L40G"}, None),
    ({"gpu_count": 0, "port_count": 0}, "cpu-only"),
    ({"gpu_count": 4, "port_count": 4, "gpu_model": "NVIDIA GB200"}, "gb200-nvl72"),
    ({"gpu_count": 3, "port_count": 1}, None), ({}, None)])
def test_a_machine_is_taken_for_the_one_sku_that_it_fits(shows: dict[str, Any], name: str | None) -> None:
    assert skus.closest(shows, RULES.skus) == name


# muster sku learn

def with_sku(folder: Path, text: str) -> Ruleset:
    """The packaged rules with this SKU, "ours"."""
    (folder / "sku").mkdir()
    (folder / "sku" / "ours.yaml").write_text(text)
    return load_ruleset([packaged(), folder])


def proposal_of(*recordings: Recording) -> dict[str, Any]:
    text = as_yaml(propose(recordings, RULES), "ours", "a test")
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def nodes(number: int, **changes: Capture) -> list[Recording]:
    return [machine.recording(f"n{n}", **{"gpu_pci": pci("2330"), **changes}) for n in range(number)]


def test_nodes_like_a_known_sku_are_proposed_as_that_with_what_differs_and_how_sure_that_is() -> None:
    snapshots = [*nodes(3, gpu_nvml=each_gpu(power_limit_mw={"ok": 500_000})),
                 machine.recording("odd", gpu_nvml=each_gpu(power_limit_mw={"ok": 600_000}))]
    proposal = propose(snapshots, RULES)
    assert not proposal.left_out
    assert proposal.parent is not None and proposal.parent.name == "hgx-h100"
    assert proposal.differs["power_limit_watts"].value == 500.0
    text = as_yaml(proposal, "ours", "a test")
    assert "power_limit_watts: 500  # 3 of 4 nodes, not odd (600)" in text
    assert any(line.startswith("power_limit_watts: 500, there 700 (") for line in differences(proposal))
    ours = yaml.safe_load(text)
    # What the board does not say is learned from the nodes.
    assert (ours["inherit"], ours["numbers"]["memory_gib"], ours["numbers"]["docker"],
            ours["numbers"]["cpu_count"]) == ("hgx-h100", 2015, True, 224)


def test_imex_is_proposed_where_nodes_share_a_cluster_and_not_where_each_has_its_own() -> None:
    for ends, wanted in (("111", True), ("123", None)):
        snapshots = [of_a_rack(f"n{n}", CLUSTER[:-1] + end) for n, end in enumerate(ends)]
        assert propose(snapshots, RULES).numbers["imex"].value is wanted


def test_a_proposal_loads_and_a_healthy_node_is_well_under_it(tmp_path: Path) -> None:
    snapshots = nodes(4)
    rules = with_sku(tmp_path, as_yaml(propose(snapshots, RULES), "ours", "a test"))
    assert [plan.rail for plan in rules.skus["ours"].ports.values()] == list(range(8))
    assert not [r for r in by_rule(snapshots[0], rules=rules, sku="ours").values() if r.status is Status.FAIL]


def test_a_machine_like_no_other_is_proposed_whole() -> None:
    odd = each_gpu(3, name={"ok": "NVIDIA \x1b[31mX1\n"})
    document = proposal_of(*nodes(2, gpu_nvml=odd, gpu_pci=pci("9999", 3, 0)))
    assert "inherit" not in document and document["numbers"]["gpu_count"] == 3
    assert "\x1b" not in document["numbers"]["gpu_model"]
    assert set(document["numbers"]) == set(skus.LEARNERS)


def test_a_dead_fabric_manager_of_hgx_b200_is_not_learned_from_and_is_found_by_what_was_learned(
    tmp_path: Path
) -> None:
    b200 = {"gpu_nvml": each_gpu(name={"ok": "NVIDIA B200"}), "gpu_pci": pci("2901", switches=0)}
    dead = nodes(1, service_nvidia=machine.services(fabricmanager="failed/failed"), **b200)
    with pytest.raises(UsageError, match="nvlink-fabric-manager: nvidia-fabricmanager: failed"):
        propose(nodes(3, service_nvidia=machine.services(fabricmanager="failed/failed"), **b200), RULES)
    proposal = propose(nodes(3, **b200), RULES)
    assert proposal.parent is not None and proposal.parent.name == "hgx-b200"
    assert "fabric_manager" not in proposal.differs
    rules = with_sku(tmp_path, as_yaml(proposal, "ours", "a test"))
    assert by_rule(dead[0], rules=rules, sku="ours")["nvlink-fabric-manager"].status is Status.FAIL


def test_a_machine_without_gpus_and_ports_is_like_cpu_only() -> None:
    bare = {"gpu_nvml": Capture(Outcome.MISSING), "gpu_pci": pci("2330", 0, 0), "port_sysfs": machine.done()}
    document = proposal_of(*nodes(3, **bare))
    assert document["inherit"] == "cpu-only" and set(document["numbers"]) == {
        "memory_gib", "docker", "cpu_count", "dimm_count", "numa_nodes", "nvme_count"}


NO_PORTS = dict.fromkeys(("port_sysfs", "port_counters", "hca_sysfs"), machine.done())


def test_a_sku_without_ports_says_of_all_that_is_empty_without_them_that_it_may_be() -> None:
    captures = Captures(machine.recording("n1", **NO_PORTS))
    empty = {name for name, spec in FACTS.items() if build_fact(spec, captures) == ()}
    assert len(empty) == 6 and RULES.skus["cpu-only"].empty >= empty
    assert set(skus.OF_PORTS) == empty - {"ports"}


@pytest.mark.parametrize("sku", ["cpu-only", None])
def test_a_machine_that_has_no_ports_and_is_to_have_none_lacks_nothing_that_hangs_on_them(
    sku: str | None
) -> None:
    """Without a SKU it is to have what most of its kind have: none of four has any."""
    bare = {"gpu_nvml": Capture(Outcome.MISSING), "gpu_pci": pci("2330", 0, 0), **NO_PORTS}
    of_ports = {rule.id for rule in RULES.rules
                if {"ports", "port_fatal_counters", "port_rate_counters", "hcas"} & set(rule.fact_names)}
    assert {"port-state", "port-errors-fatal", "hca-firmware"} <= of_ports
    for report in swept(*(machine.recording(f"cpu{at}", **bare) for at in range(4)), sku=sku):
        missed = {name: result.reason for name, result in results(report).items() if name in of_ports
                  and result.status is Status.UNKNOWN}
        assert missed == {}


def test_the_ports_of_a_dgx_are_known_and_not_repeated() -> None:
    where = sorted(pci_ for pci_, plan in RULES.skus["dgx-h100"].ports.items() if plan.role == "compute")
    held = machine.ports(**{f"mlx5_{n}.uevent": f"PCI_ID=15B3:1021\nPCI_SLOT_NAME={address}\n"
                            for n, address in enumerate(where)})
    document = proposal_of(*nodes(3, port_sysfs=held))
    assert document["inherit"] == "dgx-h100" and "ports" not in document


def test_nothing_is_learned_from_the_sick_and_the_unreached_and_they_are_named() -> None:
    sick = machine.recording("sick", gpu_nvml=machine.nvml(gpu5={"ecc_uncorrected": {"ok": 35}}))
    proposal = propose([*nodes(3), sick], RULES)
    assert proposal.nodes == ("n0", "n1", "n2")
    assert proposal.left_out["sick"].startswith("gpu-ecc-uncorrected: GPU 5: 35")
    with pytest.raises(UsageError,
                       match="a fault must not become what is expected: sick: gpu-ecc-uncorrected"):
        propose([sick], RULES)
    with pytest.raises(UsageError, match=r"expected: n\[1-9\]: connect: no route$"):
        propose([Recording(f"n{at}", 1.0, None, Failure(Stage.CONNECT, "no route")) for at in range(1, 10)],
                RULES)
    with pytest.raises(UsageError, match="no node is fit to learn from"):
        propose([], RULES)


def test_the_one_of_many_that_lacks_a_gpu_is_unlike_most_and_left_out() -> None:
    short = machine.recording("short", gpu_pci=pci("2330", 7), gpu_nvml=machine.nvml(7))
    proposal = propose([*nodes(4), short], RULES)
    assert proposal.left_out["short"].startswith("gpu-count")
    assert proposal.numbers["gpu_count"].how == "all 4 nodes"


FAILED = {"error": [999, "Unknown Error"]}


def test_what_was_not_measured_stays_as_the_nearest_sku_has_it_and_is_named(tmp_path: Path) -> None:
    snapshots = nodes(3,
                      gpu_nvml=each_gpu(**dict.fromkeys(("nvlinks", "fabric_state", "power_limit_mw"),
                                                        FAILED)))
    proposal = propose(snapshots, RULES)
    assert proposal.parent is not None and proposal.parent.name == "hgx-h100"
    unmeasured = {"nvlink_count", "nvlink_gigabytes", "power_limit_watts", "fabric"}
    assert set(proposal.inherited) == unmeasured and not unmeasured & set(proposal_of(*snapshots)["numbers"])
    assert not [line for line in differences(proposal) if line.partition(":")[0] in unmeasured]
    ours = with_sku(tmp_path, as_yaml(proposal, "ours", "a test")).skus["ours"]
    assert [ours.numbers[name] for name in sorted(unmeasured)] == [True, 18, 26.5, 700]
    save(tmp_path / "monday", snapshots)
    done = muster("sku", "learn", "--from-save", "monday", home=tmp_path)
    (message,) = (line for line in done.stderr.splitlines() if "not measured" in line)
    assert message.startswith("muster: not measured, so inherited from hgx-h100: ")
    assert set(message.partition("hgx-h100: ")[2].split(", ")) == unmeasured


def test_what_was_not_measured_is_null_where_there_is_no_sku_to_inherit_from() -> None:
    odd = each_gpu(3, name={"ok": "X1"}, power_limit_mw=FAILED)
    proposal = propose(nodes(2, gpu_nvml=odd, gpu_pci=pci("9999", 3, 0)), RULES)
    assert proposal.parent is None and proposal.inherited == ()
    assert "  power_limit_watts: null" in as_yaml(proposal, "ours", "a test")
    assert "# not measured, so not judged" in as_yaml(proposal, "ours", "a test")


def test_what_all_nodes_were_measured_for_leaves_nothing_to_be_named(tmp_path: Path) -> None:
    save(tmp_path / "monday", nodes(3))
    assert "not measured" not in muster("sku", "learn", "--from-save", "monday", home=tmp_path).stderr


def test_a_number_on_which_nodes_disagree_is_not_judged_and_says_why() -> None:
    def with_memory(name: str, kib: int) -> Recording:
        return machine.recording(name, host_memory=machine.done(**{"/proc/meminfo": f"MemTotal: {kib} kB\n"}))

    two = propose([with_memory("a", 1_000_000_000), with_memory("b", 1_010_000_000)],
                  RULES).numbers["memory_gib"]
    assert (two.value, two.how) == (954.0, "the median of 2 nodes, 954 to 963")
    split = propose([machine.recording("a"), machine.recording("b", gpu_nvml=each_gpu(mig={"ok": 1}))],
                    RULES).numbers["mig"]
    assert split.value is None and split.how.startswith("no majority of 2 nodes, so not judged")


def save(folder: Path, snapshots: list[Recording]) -> None:
    saver = saved.Saver(folder)
    for snapshot in snapshots:
        saver.add(snapshot, None)
    made = tuple(Node(name=snapshot.node) for snapshot in snapshots)
    saver.finish(saved.SweepManifest("2026-01-02T00:00:00.000Z", "2026-01-02T00:00:03.000Z", False, "a test",
                                     made, None, (), (), "", {}))


def test_a_saved_sweep_is_learned_from_on_the_command_line(tmp_path: Path) -> None:
    save(tmp_path / "monday", nodes(3))
    done = muster("sku", "learn", "--from-save", "monday", "--name", "ours", "-o", "ours.yaml", home=tmp_path)
    assert (done.returncode, done.stdout) == (0, "written: ours.yaml; read it, then name it: sku: ours\n")
    assert "nearest is hgx-h100; differences:" in done.stderr
    document = yaml.safe_load((tmp_path / "ours.yaml").read_text())
    assert document["source"] == "muster sku learn, 2026-01-02, from n[0-2]"
    (tmp_path / "site" / "sku").mkdir(parents=True)
    (tmp_path / "ours.yaml").rename(tmp_path / "site" / "sku" / "ours.yaml")
    shown = muster("sku", "show", "ours", "--rules", "site", "--format", "json", home=tmp_path)
    assert json.loads(shown.stdout)["numbers"]["gpu_count"] == 8
    one = muster("sku", "learn", "n1", "--from-save", "monday", home=tmp_path)
    assert one.returncode == 0 and yaml.safe_load(one.stdout)["sku"] == "hgx-h100-site"
    assert "the one node" in one.stdout


@pytest.mark.parametrize(("words", "message"), [
    (("show", "hgx-h10"), "no such SKU: 'hgx-h10'"),
    (("learn", "--from-save", "none"), "none: no manifest.json"),
    (("learn", "x", "--from-save", "monday"), "contains no recording of x"),
    (("learn", "--from-save", "monday", "--local"), "touches no node"),
    (("learn", "--from-save", "monday", "--name", "a b"), "expected letters"),
    (("learn", "--from-save", "monday", "-o", "monday"), "exists already"),
    (("learn", "--from-save", "monday", "-o", "x/y"), "no folder x"), (("learn",), "no inventory found")])
def test_a_mistake_at_sku_is_one_line(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    save(tmp_path / "monday", nodes(1))
    done = muster("sku", *words, home=tmp_path)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


def test_skus_are_listed_with_what_they_are(tmp_path: Path) -> None:
    listed = muster("sku", "list", home=tmp_path)
    assert listed.returncode == 0 and all(name in listed.stdout for name in RULES.skus)
    found = json.loads(muster("sku", "list", "--format", "json", home=tmp_path).stdout)
    assert {entry["sku"] for entry in found} == set(RULES.skus)
    shown = muster("sku", "show", "cpu-only", home=tmp_path).stdout
    assert "not judged" in shown and "by definition" in shown


@pytest.mark.parametrize(("numbers", "status"),
                         [("port_count: 2", Status.UNKNOWN), ("port_count: null", Status.SKIPPED),
                          ("port_count: 0", Status.SKIPPED)])
def test_ports_that_a_sku_counts_may_not_be_gone_whatever_it_inherits(
    numbers: str, status: Status, tmp_path: Path,
) -> None:
    rules = with_sku(tmp_path, f"sku: ours\ninherit: single-gpu\nnumbers: {{{numbers}}}\n")
    gone = machine.recording(gpu_nvml=machine.nvml(1), gpu_pci=pci("2330", 1, 0),
                             port_sysfs=Capture(Outcome.DONE))
    assert by_rule(gone, rules=rules, sku="ours")["port-state"].status is status
    assert ("ports" in rules.skus["ours"].empty) is (status is Status.SKIPPED)
