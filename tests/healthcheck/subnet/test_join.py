"""Adapters of a subnet and nodes: by GUID, by description, and where both differ."""

from __future__ import annotations

from healthcheck.subnet.join import (
    AdapterPlace,
    JoinedBy,
    join,
    known_adapters,
    system_name,
)
from healthcheck.subnet.merge import merge
from healthcheck.subnet.model import FabricEnd, Subnet
from healthcheck.subnet.plannednames import names_of, switch_names
from healthcheck.subnet.readers import topology
from inventory.model import Node, PortPlan
from tests.testbed.ibfabric import node_guids, two_tiers

PLAN = two_tiers(4, 2, 1)
GUIDS = node_guids(PLAN)


def subnet(**names: str) -> Subnet:
    """The hosts' adapters, each at a switch; `names` are descriptions by host."""
    text = "".join(
        f'caguid=0x{guid}\nCa\t1 "H-{guid}"\t\t# "{names.get(host, f"{host} {port}")}"\n'
        f'[1]({int(guid, 16) + 1:x}) \t"S-00000000000000aa"'
        f'[{at}]\t\t# lid {at} lmc 0 "leaf01" lid 90 4xHDR\n'
        for at, ((host, port), guid) in enumerate(GUIDS.items(), 1) if port)
    return merge("", [topology.read(text)])


def hardware(*hosts: str, **guids: str) -> dict[str, dict[str, dict[str, str]]]:
    return {host: {"nic 0000:18:00.0": {"guid": guids.get(host) or GUIDS[host, "mlx5_0"], "device": "mlx5_0"},
                   "gpu 0000:19:00.0": {"uuid": "x"}}
            for host in hosts}


def test_a_guid_that_a_node_states_gives_its_address_and_rail() -> None:
    nodes = {"gpu001": Node("gpu001", ports={"0000:18:00.0": PortPlan(rail=3, leaf="leaf01")})}
    joined = join([subnet()], known_adapters(hardware("gpu001")), nodes)
    assert joined.adapters[GUIDS["gpu001", "mlx5_0"]] == AdapterPlace("gpu001", JoinedBy.GUID, "0000:18:00.0",
                                                                      "mlx5_0", 3, "leaf01")
    assert joined.conflicts == () and joined.absent == ()


def test_a_description_alone_joins_the_node_and_is_stated_as_such() -> None:
    nodes = {name: Node(name) for name in ("gpu001", "gpu002")}
    joined = join([subnet(gpu002="gpu002.example HCA-1")], (), nodes)
    assert joined.adapters[GUIDS["gpu001", "mlx5_0"]] == AdapterPlace("gpu001", JoinedBy.DESCRIPTION,
                                                                      device="mlx5_0")
    assert joined.adapters[GUIDS["gpu002", "mlx5_0"]] == AdapterPlace("gpu002", JoinedBy.DESCRIPTION)
    assert GUIDS["gpu003", "mlx5_0"] not in joined.adapters


def test_a_description_of_another_node_than_the_guid_is_a_conflict() -> None:
    joined = join([subnet(gpu001="gpu002 mlx5_0")], known_adapters(hardware("gpu001", "gpu002")))
    assert joined.adapters[GUIDS["gpu001", "mlx5_0"]].node == "gpu001"
    assert [(one.guid, one.observed)
            for one in joined.conflicts] == [(GUIDS["gpu001", "mlx5_0"], "calls itself gpu002 mlx5_0")]


def test_a_guid_that_two_nodes_state_is_joined_by_neither() -> None:
    twice = hardware("gpu001", "gpu002", gpu002=GUIDS["gpu001", "mlx5_0"])
    joined = join([subnet(gpu001="unnamed")], known_adapters(twice))
    assert GUIDS["gpu001", "mlx5_0"] not in joined.adapters
    assert "gpu001, gpu002 state it" in [one.observed for one in joined.conflicts]


def test_an_adapter_that_no_subnet_shows_is_absent() -> None:
    joined = join([subnet()], known_adapters(hardware("gpu001", "gpu009", gpu009="b8cef60300000099")))
    assert [one.node for one in joined.absent] == ["gpu009"]


def test_an_adapter_of_an_ethernet_is_rightly_in_no_subnet() -> None:
    found = hardware("gpu001")
    found["gpu001"] |= {
        "nic 0000:20:00.0": {"guid": "b8cef60300000098", "device": "mlx5_8", "layer": "Ethernet"},
        "nic 0000:28:00.0": {"guid": "b8cef60300000099", "device": "mlx5_9", "layer": "InfiniBand"}}
    assert [one.device for one in join([subnet()], known_adapters(found)).absent] == ["mlx5_9"]


def test_a_managed_switch_is_called_by_its_system_name() -> None:
    assert system_name("MF0;leaf01:MQM9700/U1") == "leaf01" and system_name("leaf01") == "leaf01"


def test_ports_have_the_plans_names_by_address_or_display_name() -> None:
    seen = subnet()
    joined = join([seen], known_adapters(hardware("gpu001", "gpu002", "gpu003", "gpu004")))
    names = names_of(PLAN, seen, joined).said
    assert ({end.device for end in names.values()} >= {"gpu001", "gpu004"}
            and all(end.port == "mlx5_0" for end in names.values() if "gpu" in end.device))
    assert names[FabricEnd(GUIDS["gpu001", "mlx5_0"], 1)].device == "gpu001"
    assert switch_names(PLAN, seen) == {"00000000000000aa": "leaf01"}
