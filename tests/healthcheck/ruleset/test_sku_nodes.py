"""Every SKU that names a GPU, from its file: its own node is sound under it, a wrong one is not, and no SKU
takes another's GPUs, by their name alone or by the bus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.product import is_model
from healthcheck.model.outcome import NodeState, Severity, Status
from healthcheck.ruleset.sku import LEARNED_FROM, Sku, closest, contradiction, learn
from healthcheck.sweep.skulearn import propose
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import verdict
from tests.healthcheck.ruleset.skunodes import NOT_SUPPORTED, judged, product, readings, sound
from tests.packagedrules import RULES
from tests.tries import tries

OF_GPUS = {name: sku for name, sku in RULES.skus.items() if sku.numbers["gpu_model"] is not None}
by_name = pytest.mark.parametrize("sku", OF_GPUS.values(), ids=lambda sku: sku.name)


@by_name
def test_a_sound_node_is_healthy_under_its_sku(sku: Sku) -> None:
    report = judged(sound(sku), sku)
    assert report.state is NodeState.HEALTHY, report.reason
    assert not [result.rule for result in report.results if result.status in (Status.FAIL, Status.UNKNOWN)
                and result.severity is not Severity.INFO]


class Board(NamedTuple):
    """One GPU as nvidia-smi showed it: what the source says of MiB, watts (enforced, default), link and
    ECC."""

    sku: str
    name: str
    mib: int
    watts: tuple[int, int]
    link: tuple[int, int] | None = None
    ecc: int = 1


# Public captures. Those marked -q show the link and the default limit; others the table alone, where the
# limit stands for both.
CAPTURED = (
    Board("gb300-nvl72", "NVIDIA GB300", 284208, (1400, 1400),
          (6, 16)),        # -q -x: k8s-test-infra, driver 580
    Board("gb200-nvl72", "NVIDIA GB200", 189471, (1200, 1200),
          (5, 16)),        # -q -x: k8s-test-infra, driver 580
    Board("hgx-b200", "NVIDIA B200", 183359, (1000, 1000),
          (5, 16)),            # -q -x: k8s-test-infra, driver 580
    Board("hgx-b300", "NVIDIA B300 SXM6 AC", 275040, (1100, 1100)),             # drivers 580 and 610
    Board("hgx-h100", "NVIDIA H100 80GB HBM3", 81559, (700, 700),
          (5, 16)),     # -q -x: k8s-test-infra, driver 580
    Board("hgx-h200", "NVIDIA H200", 143771, (700, 700), (5, 16)),
    Board("hgx-h20", "NVIDIA H20", 97871, (500, 500)),
    Board("hgx-h20-141gb", "NVIDIA H20-3e", 143771, (500, 500)),
    Board("hgx-a100-40gb", "NVIDIA A100-SXM4-40GB", 40960, (400, 400), (4, 16)),  # -q -x: k8s-test-infra
    Board("hgx-a100-40gb", "A100-SXM4-40GB", 40536, (400, 400), (4, 16)),       # before driver 470
    Board("hgx-a100-80gb", "NVIDIA A100-SXM4-80GB", 81920, (400, 400), (4, 16)),
    Board("h100-nvl", "NVIDIA H100 NVL", 95830, (310, 310), (5, 16)),           # -q, driver 550
    Board("h100-nvl", "NVIDIA H100 NVL", 95830, (400, 400), (5, 16)),
    Board("h100-pcie", "NVIDIA H100 PCIe", 81559, (350, 350)),
    Board("l40s", "NVIDIA L40S", 46068, (350, 350),
          (4, 8)),                    # -q -x: k8s-test-infra, driver 595
    Board("l40s", "NVIDIA L40S", 46068, (325, 325), (4, 16)),
    Board("l40", "NVIDIA L40", 46068, (300, 300)),
    Board("l4", "NVIDIA L4", 23034, (72, 72), (4, 8)),                          # -q, driver 550
    Board("a10", "NVIDIA A10", 23028, (150, 150)),
    Board("a30", "NVIDIA A30", 24576, (165, 165)),
    Board("t4", "Tesla T4", 15360, (70, 70),
          (3, 8)),                           # -q -x: k8s-test-infra, driver 595
    Board("rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation", 49140, (300, 300), (4, 16),
          0),     # -q, driver 550
    Board("rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation", 46068, (300, 300), (4, 16), 1),
    Board("rtx-pro-6000-server", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, (600, 600)),
    Board("rtx-pro-6000-workstation", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 97887,
          (600, 600), None, 0),
    Board("rtx-pro-6000-max-q", "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 97887,
          (300, 300), None, 0),
    Board("gh200", "NVIDIA GH200 480GB", 97871, (900, 900), (4, 1)),            # -q, driver 550: the link
    Board("gh200-120gb", "NVIDIA GH200 120GB", 97871, (900, 900)),
    Board("gh200-nvl2", "NVIDIA GH200 144G HBM3e", 146831, (900, 900)),         # driver 580
)


@pytest.mark.parametrize("board", CAPTURED, ids=lambda board: f"{board.name} {board.mib} {board.watts[0]}")
def test_a_board_as_public_captures_show_it_is_sound_under_its_sku(board: Board) -> None:
    shown = {"name": board.name, "memory_bytes": board.mib * 2**20, "power_limit_mw": board.watts[0] * 1000,
             "power_limit_default_mw": board.watts[1] * 1000, "ecc_mode": board.ecc, "ecc_pending": board.ecc}
    if board.link is not None:
        generation, width = board.link
        shown |= {"pcie_generation": generation, "pcie_generation_max": generation, "pcie_width": width}
    snapshot = sound(OF_GPUS[board.sku], **shown)
    for rule in ("sku-matches", "gpu-memory-size", "gpu-power-limit", "gpu-power-limit-default",
                 "gpu-ecc-enabled",
                 "gpu-pcie-generation", "gpu-pcie-width"):
        found = verdict(rule, snapshot, sku=board.sku)
        assert found.status in (Status.PASS, Status.SKIPPED), (rule, found)


def test_every_sku_of_a_gpu_has_a_board_that_was_captured() -> None:
    assert OF_GPUS.keys() - {board.sku for board in CAPTURED} == {"hgx-a100", "dgx-a100",
                                                                  "dgx-h100", "dgx-h200"}


# By the number that the SKU gives: the rule that judges it, and what to change of GPU 0.
WRONG: Mapping[str, tuple[str, Callable[[Any, Sku], Mapping[str, Any]]]] = {
    "gpu_model": ("sku-matches", lambda *_: {"name": "NVIDIA GeForce RTX 4090"}),
    "gpu_memory_gib": ("gpu-memory-size", lambda gib, _: {"memory_bytes": int(gib * 0.94 * 2**30)}),
    "power_limit_watts": ("gpu-power-limit", lambda watts, _: {"power_limit_mw": int(watts * 900)}),
    "pcie_generation": ("gpu-pcie-generation", lambda generation, _: {"pcie_generation_max": generation - 1}),
    "pcie_width": ("gpu-pcie-width", lambda width, _: {"pcie_width": width // 2}),
    "ecc": ("gpu-ecc-enabled", lambda *_: {"ecc_mode": 0}),
    "mig": ("gpu-mig", lambda *_: {"mig": 1}),
}


@pytest.mark.parametrize("number", WRONG)
@by_name
def test_what_a_sku_gives_of_a_gpu_is_judged_and_what_it_declines_is_skipped(sku: Sku, number: str) -> None:
    rule, change = WRONG[number]
    given = sku.numbers[number]
    if given is None:
        found = verdict(rule, sound(sku), sku=sku.name)
        assert (found.status, found.reason) == (
            Status.SKIPPED, f"the SKU {sku.name} says that {number} is not judged")
        return
    found = verdict(rule, sound(sku, one=change(given, sku)), sku=sku.name)
    assert (found.status, [finding.subject for finding in found.findings]) == (Status.FAIL, ["GPU 0"])


@by_name
def test_a_power_limit_below_the_default_is_found_whether_the_sku_gives_watts_or_not(sku: Sku) -> None:
    rule = "gpu-power-limit" if sku.numbers["power_limit_watts"] else "gpu-power-limit-default"
    low = readings(sku)["power_limit_mw"]["ok"] * 9 // 10
    assert verdict(rule, sound(sku, one={"power_limit_mw": low}), sku=sku.name).status is Status.FAIL


@by_name
def test_a_gpu_that_is_lost_is_found_whether_the_sku_gives_their_number_or_not(sku: Sku) -> None:
    rule = "gpu-count" if sku.numbers["gpu_count"] else "gpu-listed"
    there = sku.numbers["gpu_count"] or 4
    assert verdict(rule, sound(sku), sku=sku.name).status is Status.PASS
    assert verdict(rule, sound(sku, gpus=there - 1, on_pci=there), sku=sku.name).status is Status.FAIL
    absent = verdict("gpu-count", sound(sku, gpus=there - 1), sku=sku.name)
    assert absent.status is (Status.FAIL if sku.numbers["gpu_count"] else Status.SKIPPED)


@pytest.mark.parametrize("count", [1, 2, 4, 8, 10])
def test_cards_are_sound_in_any_number(count: int) -> None:
    report = judged(sound(OF_GPUS["l40s"], gpus=count), OF_GPUS["l40s"])
    assert report.state is NodeState.HEALTHY, report.reason


def test_a_server_of_cards_without_any_is_not_healthy() -> None:
    assert judged(sound(OF_GPUS["l40s"], gpus=0), OF_GPUS["l40s"]).state is NodeState.UNKNOWN


def test_the_number_of_gpus_is_judged_by_one_rule_alone() -> None:
    lost = sound(OF_GPUS["hgx-h100"], gpus=7, on_pci=8)
    assert verdict("gpu-count", lost).status is Status.FAIL
    found = verdict("gpu-listed", lost)
    assert (found.status, found.reason) == (Status.SKIPPED, "the SKU gives gpu_count, so gpu.count judges")


LINKED = [sku for sku in OF_GPUS.values() if sku.numbers["nvlink_count"]]


@pytest.mark.parametrize("sku", LINKED, ids=lambda sku: sku.name)
def test_a_missing_a_dead_and_a_slow_link_are_found(sku: Sku) -> None:
    links, speed = sku.numbers["nvlink_count"], int(sku.numbers["nvlink_gigabytes"] * 1000)
    rows = readings(sku)["nvlinks"]["ok"]
    for rule, wrong in (("nvlink-count", rows[1:]), ("nvlink-active", [[0, *rows[0][1:]], *rows[1:]]),
                        ("nvlink-speed", [[1, 7, speed // 2, *rows[0][3:]], *rows[1:]])):
        assert len(rows) == links and verdict(rule, sound(sku), sku=sku.name).status is Status.PASS
        assert verdict(rule, sound(sku, one={"nvlinks": {"ok": wrong}}),
                       sku=sku.name).status is Status.FAIL, rule


@pytest.mark.parametrize("name", ["h100-nvl", "h100-pcie", "a30", "gh200"])
@pytest.mark.parametrize("links", ["bridged", "alone", "none"])
def test_cards_that_a_bridge_may_join_are_sound_with_and_without_it(name: str, links: str) -> None:
    row = [1, 6, 26562, 0, "0000:d5:00.0", 0, 0, 0, 0, 0]
    down = [0, 6, -3, -3, -3, 0, 0, 0, 0, 0]
    rows = {"bridged": {"ok": [row if n in (0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 15) else down
                               for n in range(18)]},
            "alone": {"ok": [down] * 18}, "none": NOT_SUPPORTED}[links]
    report = judged(sound(OF_GPUS[name], nvlinks=rows), OF_GPUS[name])
    assert report.state is NodeState.HEALTHY, report.reason


@pytest.mark.parametrize("sku", [sku for sku in OF_GPUS.values() if sku.numbers["fabric"]],
                         ids=lambda sku: sku.name)
def test_a_gpu_outside_its_fabric_and_a_dead_service_of_it_are_found(sku: Sku) -> None:
    alone = sound(sku, one={"fabric_state": "in_progress"})
    assert verdict("nvlink-fabric-state", alone, sku=sku.name).status is Status.FAIL
    unit, rule = (("imex", "nvlink-fabric-imex") if sku.numbers["imex"]
                  else ("fabricmanager", "nvlink-fabric-manager"))
    assert verdict(rule, sound(sku), sku=sku.name).status is Status.PASS
    assert verdict(rule, sound(sku, services={unit: "failed/failed"}), sku=sku.name).status is Status.FAIL


# Whose GPUs are whose

# Names that the driver's list of supported GPUs and public captures hold, and the one model among the SKUs'
# that each is; "" for none. Their letters and words stand in each other.
PRODUCTS = {
    "NVIDIA H100 80GB HBM3": "hgx-h100", "NVIDIA H100 PCIe": "h100-pcie", "NVIDIA H100 NVL": "h100-nvl",
    "NVIDIA H100": "", "NVIDIA H200": "hgx-h200", "NVIDIA H200 NVL": "", "NVIDIA H20": "hgx-h20",
    "NVIDIA H20-3e": "hgx-h20-141gb", "NVIDIA H20 NVL16": "", "NVIDIA H800": "", "NVIDIA H100 CNX": "",
    "NVIDIA GH200 480GB": "gh200", "NVIDIA GH200 120GB": "gh200-120gb",
    "NVIDIA GH200 144G HBM3e": "gh200-nvl2",
    "NVIDIA A100-SXM4-40GB": "hgx-a100", "A100-SXM4-40GB": "hgx-a100", "NVIDIA A100-SXM4-80GB": "hgx-a100",
    "NVIDIA A100-SXM-80GB": "hgx-a100", "NVIDIA A100 80GB PCIe": "", "NVIDIA A100-PCIE-40GB": "",
    "NVIDIA A100X": "",
    "NVIDIA A10": "a10", "A10": "a10", "NVIDIA A10G": "", "NVIDIA A10M": "", "NVIDIA A10-24Q": "",
    "NVIDIA RTX A1000": "", "NVIDIA A16": "", "NVIDIA A30": "a30", "NVIDIA A30X": "",
    "NVIDIA RTX A3000 Laptop GPU": "", "NVIDIA A40": "", "NVIDIA L4": "l4", "NVIDIA L40": "l40",
    "NVIDIA L40S": "l40s",
    "NVIDIA L40G": "", "NVIDIA L40S-48Q": "", "NVIDIA L20": "", "Tesla T4": "t4", "NVIDIA T4G": "",
    "NVIDIA T400 4GB": "",
    "GRID T4-16Q": "", "Tesla T40 24GB": "", "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "Quadro RTX 6000": "",
    "NVIDIA RTX A6000": "", "NVIDIA RTX 6000D": "", "NVIDIA RTX 5000 Ada Generation": "",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000-server",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "rtx-pro-6000-workstation",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "rtx-pro-6000-max-q",
    "NVIDIA RTX PRO 6000D Blackwell Workstation Edition": "",
    "NVIDIA RTX PRO 4500 Blackwell Server Edition": "", "NVIDIA B200": "hgx-b200",
    "NVIDIA GB200": "gb200-nvl72",
    "NVIDIA B300 SXM6 AC": "hgx-b300", "NVIDIA GB300": "gb300-nvl72", "NVIDIA Graphics Device": "", "": "",
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_of_one_skus_model_by_its_name_alone(name: str) -> None:
    models = {sku.numbers["gpu_model"]
              for sku in OF_GPUS.values() if is_model(name, sku.numbers["gpu_model"])}
    assert models == ({OF_GPUS[PRODUCTS[name]].numbers["gpu_model"]} if PRODUCTS[name] else set())


@cache
def facts_of(name: str) -> Mapping[str, Any]:
    captures = Captures(sound(OF_GPUS[name]))
    return {fact: build_fact(FACTS[fact], captures) for names in LEARNED_FROM.values() for fact in names}


@by_name
def test_no_sku_takes_anothers_node_by_name_or_by_bus(sku: Sku) -> None:
    model, device = sku.numbers["gpu_model"], sku.numbers["gpu_device"]
    for name, other in OF_GPUS.items():
        same_model = other.numbers["gpu_model"] == model
        assert is_model(product(other), model) is same_model, name
        same = same_model and device in (None, other.numbers["gpu_device"] or "10de:20b0")
        without_bus = {**facts_of(name), "pci_bus": None}
        assert (contradiction(sku, without_bus) is None) is same_model, name
        assert (contradiction(sku, facts_of(name)) is None) is same, name


@by_name
def test_a_node_that_names_no_sku_is_taken_for_the_general_one_of_its_kind(sku: Sku) -> None:
    general = {"dgx-a100": "hgx-a100-40gb", "hgx-a100": "hgx-a100-40gb", "dgx-h100": "hgx-h100",
               "dgx-h200": "hgx-h200"}
    assert closest(learn(facts_of(sku.name)), RULES.skus) == general.get(sku.name, sku.name)


@pytest.mark.parametrize(("name", "gpus"),
                         [("l40s", 8), ("l4", 1), ("h100-nvl", 2), ("gh200", 1), ("gb300-nvl72", 4)])
def test_learning_proposes_the_cards_sku_and_the_number_of_gpus_beside_it(name: str, gpus: int) -> None:
    proposal = propose([sound(OF_GPUS[name], gpus=gpus)], RULES)
    assert proposal.parent is not None and proposal.parent.name == name
    learned = proposal.differs.get("gpu_count")
    assert (learned.value if learned else None) == (gpus if OF_GPUS[name].declines("gpu_count") else None)


@pytest.mark.parametrize(("name", "model", "fits"), [
    # A part of the name, as a site writes it: in whole words, in any spelling of case.
    ("NVIDIA H100 80GB HBM3", "H100", True), ("NVIDIA H100 NVL", "h100", True),
    ("NVIDIA A100-SXM4-80GB", "A100-SXM", True),
    ("NVIDIA A100-SXM4-80GB", "A100 SXM4", True), ("NVIDIA A100-SXM4-80GB", "80GB", True),
    ("NVIDIA A10G", "A10", False),
    ("NVIDIA L40S", "L40", False), ("NVIDIA L40S", "L4", False), ("NVIDIA GB200", "B200", False),
    ("NVIDIA T400 4GB", "T4", False), ("NVIDIA H100 PCIe", "H100 NVL", False),
    ("NVIDIA A100-PCIE-40GB", "A100-SXM", False),
    # The whole name: more of memory and form is the same product.
    ("NVIDIA H100 80GB HBM3", "nvidia h100", True), ("NVIDIA H100 PCIe", "NVIDIA H100", True),
    ("NVIDIA B300 SXM6 AC", "NVIDIA B300", True), ("NVIDIA H200 NVL", "NVIDIA H200", False),
    ("NVIDIA H20-3e", "NVIDIA H20", False), ("NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX 6000", False),
    ("A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", True), ("NVIDIA T4", "Tesla T4", True),
    ("NVIDIA DGX H200", "NVIDIA H200", False),
])
def test_a_model_is_a_name_in_full_or_a_part_of_it(name: str, model: str, fits: bool) -> None:
    assert is_model(name, model) is fits


@settings(max_examples=tries(100))
@given(st.text(max_size=40), st.text(max_size=40))
def test_any_name_is_of_its_own_model_and_upsets_no_reader(name: str, other: str) -> None:
    assert is_model(name, name) and is_model(f"NVIDIA {name}", f"NVIDIA {name}")
    assert isinstance(is_model(name, other), bool)


def test_the_simulated_node_of_the_tests_is_an_hgx_h100() -> None:
    captures = Captures(machine.recording())
    assert contradiction(OF_GPUS["hgx-h100"], {"gpus": build_fact(FACTS["gpus"], captures)}) is None
