"""What one node shows for its SKU, what most nodes agree on, and which known SKU that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, changed
from healthcheck.ruleset.sku import (
    EMPTY_FACTS,
    LEARNED_FROM,
    LEARNERS,
    OF_PORTS,
    Sku,
    closest,
    learn,
    of_gpus_there,
    provisional,
    spanning,
    with_ports_of,
)
from tests.healthcheck import machine
from tests.packagedrules import RULES

FACTS_OF_ONE = {name: build_fact(FACTS[name], Captures(machine.recording("n1")))
                for name in sorted({fact for facts in LEARNED_FROM.values() for fact in facts})}
GPUS, PORTS, LINKS = FACTS_OF_ONE["gpus"], FACTS_OF_ONE["ports"], FACTS_OF_ONE["nvlinks"]
HUNG = Unmeasured("hung")


def shown(number: str, **facts: Any) -> Any:
    """What a node shows of this number where these facts are otherwise."""
    return learn({**FACTS_OF_ONE, **facts})[number]


def some(facts: Sequence[Fact], count: int, **fields: Any) -> tuple[Any, ...]:
    """The facts, the first `count` of them with these fields."""
    return tuple(changed(one, **fields) if at < count else one for at, one in enumerate(facts))


def test_the_rate_of_ports_is_that_of_the_slowest_active_one_and_none_where_one_was_not_read() -> None:
    assert shown("port_rate_gbps", ports=some(PORTS, 1, rate_gbps=200.0)) == 200.0
    assert shown("port_rate_gbps", ports=some(PORTS, 1, rate_gbps=100.0, state="DOWN")) == 400.0
    assert shown("port_rate_gbps", ports=some(PORTS, 1, rate_gbps=HUNG)) is None
    assert shown("port_rate_gbps", ports=some(PORTS, 8, state="DOWN")) == 0.0
    assert shown("port_rate_gbps", ports=HUNG) is None


def test_numa_nodes_are_those_that_have_cpus() -> None:
    nodes = FACTS_OF_ONE["numa_nodes"]
    assert len(nodes) > 1 and shown("numa_nodes") == len(nodes)
    assert shown("numa_nodes", numa_nodes=some(nodes, 1, cpus=0)) == len(nodes) - 1
    assert shown("numa_nodes", numa_nodes=some(nodes, 1, cpus=1)) == len(nodes)
    assert shown("numa_nodes", numa_nodes=some(nodes, 1, cpus=HUNG)) is None
    assert shown("numa_nodes", numa_nodes=HUNG) is None


def test_a_setting_is_what_all_gpus_have_in_common_and_that_of_no_gpus_where_there_are_none() -> None:
    assert shown("mig") is False and shown("mig", gpus=()) is False
    assert shown("mig", gpus=some(GPUS, 8, mig=UNSUPPORTED)) is False
    assert shown("mig", gpus=some(GPUS, 1, mig=True)) is None and shown("mig",
                                                                        gpus=some(GPUS, 8, mig=True)) is True
    assert shown("mig", gpus=HUNG) is None and shown("ecc", gpus=()) is None


@pytest.mark.parametrize(("odd", "model"), [(3, "kept"), (4, None), (5, "odd")])
def test_a_model_is_that_of_more_than_half_of_the_gpus(odd: int, model: str | None) -> None:
    found = shown("gpu_model", gpus=some(GPUS, odd, model="NVIDIA Odd"))
    assert found == {"kept": GPUS[0].model, None: None, "odd": "NVIDIA Odd"}[model]
    assert shown("gpu_model", gpus=HUNG) is None and shown("gpu_model", gpus=()) is None


def test_links_are_counted_where_they_are_and_fast_as_most_active_ones_are() -> None:
    of_gpus = FACTS_OF_ONE["gpu_links"]
    assert shown("nvlink_count", gpu_links=some(of_gpus, 8, links=UNSUPPORTED, active=UNSUPPORTED)) == 0
    assert shown("nvlink_count", gpu_links=some(of_gpus, 3, active=17)) == 18
    usual = shown("nvlink_gigabytes")
    down = some(LINKS, len(LINKS) - 1, active=False, gigabytes_per_second=1.0)
    assert usual and shown("nvlink_gigabytes", nvlinks=down) == usual


def test_a_cluster_spans_nodes_where_another_node_has_it_too() -> None:
    def of(cluster: Any) -> Mapping[str, Any]:
        return {"gpus": some(GPUS, 8, fabric_cluster=cluster)}

    assert spanning({"a": of("c1"), "b": of("c1"), "c": of("c2"), "d": of(UNSUPPORTED),
                     "e": of("00-00")}) == {"a", "b"}


def numbers(*values: Any, name: str = "gpu_count") -> Sku:
    """What is learned of nodes that show these values."""
    return provisional([{name: value} for value in values], ())


@pytest.mark.parametrize(("values", "learned"), [
    ((8, 8), None), ((8, 8, None), None), ((8, 8, 8), 8), ((8, 8, 7), 8), ((8, 8, 7, 7), None),
    ((8, 7, 6), None), ((8, 8, 8, 7, 6), 8),
    ((8, 8, 7, 6), None), ((None, None, None), None)])
def test_a_number_is_learned_where_over_half_of_at_least_three_nodes_agree(values: tuple[Any, ...],
                                                                           learned: int | None) -> None:
    sku = numbers(*values)
    assert sku.numbers.get("gpu_count") == learned
    measured = [value for value in values if value is not None]
    if learned is None:
        assert ("too few nodes" in sku.why_unknown["gpu_count"]) is (len(measured) < 3)
        assert (
            f"the {len(measured)} measured nodes agree on no gpu_count" in sku.why_unknown["gpu_count"]) is (
                len(measured) >= 3)


def test_of_a_quantity_that_differs_a_little_the_median_is_expected() -> None:
    assert numbers(1007.0, 1010.0, 1008.0, name="memory_gib").numbers["memory_gib"] == 1008.0
    assert numbers(1007.0, 1008.0, name="memory_gib").numbers == {}


@pytest.mark.parametrize(("without", "nodes", "empty"),
                         [(2, 3, True), (2, 4, False), (3, 4, True), (2, 2, False), (0, 3, False)])
def test_a_collection_may_be_empty_where_over_half_of_at_least_three_nodes_have_none(without: int, nodes: int,
                                                                                     empty: bool) -> None:
    seen = [{"ports": at < without} for at in range(nodes)]
    assert provisional([], seen).empty == (frozenset({"ports", *OF_PORTS}) if empty else frozenset())
    assert "gpus" not in provisional([], [{}] * 3).empty and provisional([], []).provisional


def test_a_node_that_shows_no_gpus_is_no_proof_that_none_are_there() -> None:
    own = dict.fromkeys(LEARNERS, 8)
    there = {"gpus": False, "ports": False}
    assert of_gpus_there(own, there) == (own, there)
    assert of_gpus_there({**own, "gpu_count": 1}, {}) == ({**own, "gpu_count": 1}, {})
    for shows, empty in (({**own, "gpu_count": 0}, there), (own, {**there, "gpus": True})):
        left, held = of_gpus_there(shows, empty)
        assert held == {"gpus": False, "ports": False}
        assert left["memory_gib"] == 8 and left["port_count"] == 8
        assert {name for name, value in left.items() if value is None} == {
            name for name in LEARNERS if {"gpus", "gpu_presence", "pci_bus", "gpu_links",
                                          "nvlinks"} & set(LEARNED_FROM[name])}


def test_ports_are_expected_of_equal_nodes_where_any_of_them_has_some() -> None:
    bare = Sku("bare", "", {"gpu_count": 0}, frozenset({"ports", *OF_PORTS}), "bare.yaml")
    assert with_ports_of(bare, [{}] * 3, [{"ports": True}] * 3) is bare
    seen = [{"port_count": 8, "port_rate_gbps": 400.0}] * 3
    for empty in ([{"ports": True}, {"ports": True}, {"ports": False}],
                  [{"ports": True}, {}, {"ports": True}], [{}] * 3):
        found = with_ports_of(bare, seen, empty)
        assert (found.numbers["port_count"], found.numbers["port_rate_gbps"],
                found.numbers["gpu_count"]) == (8, 400.0, 0)
        assert not found.empty & {"ports", *OF_PORTS}


def known(**numbers_of: Mapping[str, Any]) -> dict[str, Sku]:
    """SKUs with these numbers."""
    return {name: Sku(name, "", held, frozenset(), f"{name}.yaml") for name, held in numbers_of.items()}


H100 = {"gpu_count": 8, "gpu_model": "NVIDIA H100", "port_count": 8}
SHOWS = {"gpu_count": 8, "gpu_model": "NVIDIA H100 80GB HBM3", "gpu_device": "10de:2330", "port_count": 8}


def test_the_sku_that_names_the_device_comes_before_one_that_names_none_and_one_of_another_device_never(
) -> None:
    other, own = {**H100, "gpu_device": "10de:2331"}, {**H100, "gpu_device": "10de:2330"}
    assert closest(SHOWS, known(a=H100, b=own)) == "b"
    assert closest(SHOWS, known(a=H100, b=other)) == "a"
    assert closest(SHOWS, known(b=other)) is None
    assert closest({**SHOWS, "gpu_device": None}, known(b=other)) == "b"


def test_the_sku_that_says_most_of_the_gpus_name_comes_first_and_of_two_equal_ones_none() -> None:
    assert closest(SHOWS, known(a=H100, b={**H100, "gpu_model": "NVIDIA H100 80GB"})) == "b"
    assert closest(SHOWS, known(a=H100, b=H100)) is None
    assert closest({**SHOWS, "gpu_model": None},
                   known(a=H100, b={**H100, "gpu_model": "NVIDIA H100 80GB"})) is None


def test_the_number_of_ports_must_agree_unless_a_sku_of_a_model_declines_it() -> None:
    assert closest({**SHOWS, "port_count": 4}, known(a=H100)) is None
    assert closest({**SHOWS, "port_count": None}, known(a=H100)) is None
    assert closest({**SHOWS, "port_count": 4}, known(a={**H100, "port_count": None})) == "a"
    plain = {"gpu_count": 0, "port_count": None}
    assert closest({"gpu_count": 0, "port_count": 4}, known(a=plain)) is None
    assert closest({"gpu_count": 0, "port_count": 4}, known(a={**plain, "port_count": 4})) == "a"


def test_a_healthy_node_is_like_the_sku_that_the_tests_give_it() -> None:
    assert closest(learn(FACTS_OF_ONE), RULES.skus) == "hgx-h100" and EMPTY_FACTS == ("gpus", "ports")
