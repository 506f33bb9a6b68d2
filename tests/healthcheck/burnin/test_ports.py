"""Which ports the ranks use: from port map and snapshot, for InfiniBand and RoCE, never storage ports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from healthcheck.burnin.model import Rail
from healthcheck.burnin.ports import Ports, ports
from healthcheck.facts.values import changed as fact_changed
from healthcheck.facts.values import reading
from healthcheck.model.recording import Recording
from healthcheck.ruleset.sku import Sku
from inventory.errors import UsageError
from inventory.model import BurnInSettings, Node, PortPlan
from provisioning.burnin.places import hardware, place, planned, rails
from provisioning.burnin.sample import NodeSample, seen
from tests.healthcheck import machine, network

H100 = Sku("hgx-h100", "", {"gpu_count": 8, "gpu_model": "H100", "port_rate_gbps": 400,
                            "power_limit_watts": 700}, frozenset(), "h100.yaml")
COMPUTE = [f"0000:{0x40 + at:02x}:00.0" for at in range(8)]


def look(**captures: Any) -> NodeSample:
    recording = machine.recording()
    return seen(replace(recording, captures={**recording.captures, **captures}))


def changed(**texts: str) -> NodeSample:
    """A look at the healthy machine, with other texts in files of "mlx5_N.name"."""
    recording = machine.recording()
    capture = recording.captures["port.sysfs"]
    files = dict(capture.files)
    for key, text in texts.items():
        device, name = key.split("__")
        [path] = [path for path in files if path.startswith(f"/sys/class/infiniband/{device}/")
                  and path.endswith(f"/{name}")]
        files[path] = files[path]._replace(text=text)
    return seen(replace(recording,
                        captures={**recording.captures, "port.sysfs": replace(capture, files=files)}))


def of(node: Node, at: NodeSample, sku: Sku = H100) -> Ports:
    return ports(rails(node, sku, at.ports), planned(node, sku), at.ports, at.netdevs, at.gids)


def test_without_a_port_map_the_most_numerous_ports_are_the_rails_in_the_order_of_their_addresses() -> None:
    found = of(Node("gpu001"), look())
    assert found.values == {"NCCL_IB_HCA": "=" + ",".join(f"mlx5_{at}" for at in range(8)), "NCCL_NET": "IB"}
    assert [found.rails[at]["NCCL_IB_HCA"] for at in range(8)] == [f"=mlx5_{at}" for at in range(8)]
    assert found.notes == ()


def test_ports_of_storage_and_management_are_never_named() -> None:
    plans = {address: PortPlan(rail=7 - at) for at, address in enumerate(COMPUTE)}
    plans[COMPUTE[2]], plans[COMPUTE[5]] = PortPlan("storage"), PortPlan("mgmt")
    found = of(Node("gpu001", ports=plans), look())
    assert found.values["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1,mlx5_3,mlx5_4,mlx5_6,mlx5_7"
    assert sorted(found.rails) == [0, 1, 3, 4, 6, 7] and found.rails[7]["NCCL_IB_HCA"] == "=mlx5_0"


def test_a_node_s_word_goes_before_its_sku_s_and_a_port_without_a_link_to_be_takes_no_part() -> None:
    sku = replace(H100, ports={address: PortPlan("compute", at) for at, address in enumerate(COMPUTE)})
    node = Node("gpu001", ports={COMPUTE[0]: PortPlan(role="storage"), COMPUTE[1]: PortPlan(leaf="leaf9"),
                                 COMPUTE[7]: PortPlan(expect="down")})
    found = rails(node, sku)
    assert [rail.number for rail in found] == [1, 2, 3, 4, 5, 6] and found[0] == Rail(1, COMPUTE[1], "leaf9")


def test_ports_that_name_no_rail_are_numbered_after_those_that_do() -> None:
    node = Node("gpu001",
                ports={COMPUTE[0]: PortPlan(), COMPUTE[1]: PortPlan(rail=0), COMPUTE[2]: PortPlan()})
    assert [(rail.number, rail.address) for rail in rails(node, None)] == [(0, COMPUTE[1]), (1, COMPUTE[0]),
                                                                           (2, COMPUTE[2])]


def test_nothing_found_is_reported_and_no_network_is_forced() -> None:
    found = ports((), {}, ())
    assert found.values == {} and found.rails == {} and found.notes == (
        "no RDMA port was found, so NCCL chooses the network (NCCL_NET is not set)",)
    planned_only = ports((Rail(0, "0000:aa:00.0"),), {}, look().ports)
    assert (planned_only.values == {}
            and "no RDMA device was found for rail 0: 0000:aa:00.0" in planned_only.notes)


def test_a_rail_without_its_device_is_reported_and_the_others_are_used() -> None:
    found = of(Node("gpu001", ports={COMPUTE[0]: PortPlan(rail=0), "0000:aa:00.0": PortPlan(rail=1)}), look())
    assert (found.values["NCCL_IB_HCA"] == "=mlx5_0" and list(found.rails) == [0]
            and found.notes == ("no RDMA device was found for rail 1: 0000:aa:00.0",))


def test_a_port_that_is_down_is_named_all_the_same_and_reported() -> None:
    found = of(Node("gpu001"), changed(mlx5_3__state="1: DOWN\n"))
    assert "mlx5_3" in found.values["NCCL_IB_HCA"] and found.notes == ("mlx5_3/1 (0000:43:00.0) is DOWN",)


def test_roce_ports_are_reported_the_gid_that_can_be_routed_where_all_have_it_at_one_index() -> None:
    texts = {f"mlx5_{at}__link_layer": "Ethernet\n" for at in range(8)}
    at = changed(**texts)
    alike = ports(rails(Node("gpu001"), H100, at.ports), {}, at.ports, (),
                  {(f"mlx5_{n}", 1): 3 for n in range(8)})
    assert (alike.values["NCCL_IB_GID_INDEX"] == "3" and alike.rails[0]["NCCL_IB_GID_INDEX"] == "3"
            and alike.values["NCCL_NET"] == "IB")
    other = ports(rails(Node("gpu001"), H100, at.ports), {}, at.ports, (),
                  {(f"mlx5_{n}", 1): 3 + n // 7 for n in range(8)})
    assert "NCCL_IB_GID_INDEX" not in other.values and other.rails[7]["NCCL_IB_GID_INDEX"] == "4"
    assert "no GID of RoCE v2 at one common index" in other.notes[0]


def test_the_first_gid_of_roce_v2_that_leads_beyond_its_link_is_found_in_a_look() -> None:
    captures = network.captures()
    found = seen(replace(machine.recording(), captures={**machine.recording().captures, **captures}))
    assert set(found.gids.values()) <= set(range(8))
    roce = found.items("roce_ports")
    routable = {(port.name.split("/")[0], port.number) for port in roce if reading(port, "routable") is True}
    assert routable == set(found.gids)


def test_a_device_with_several_ports_is_named_with_the_port() -> None:
    at = look()
    second = fact_changed(at.ports[0], number=2, name="mlx5_0/2 (0000:40:00.0)", pci="0000:40:00.1")
    found = ports((Rail(0, COMPUTE[0]),), {}, (*at.ports, second))
    assert found.values["NCCL_IB_HCA"] == "=mlx5_0:1"


def test_the_management_interface_of_the_port_map_is_where_ranks_meet() -> None:
    recording = machine.recording()
    at = seen(replace(recording, captures={**recording.captures, "netdev.sysfs": network.netdev()}))
    [netdev, *_] = [one for one in at.netdevs if isinstance(one.pci, str) and one.link is True]
    name = netdev.bond or netdev.interface
    node = Node("gpu001", ports={netdev.pci: PortPlan("mgmt"), COMPUTE[0]: PortPlan(rail=0)})
    found = of(node, at)
    assert (found.values["NCCL_SOCKET_IFNAME"] == f"={name}" and found.values["GLOO_SOCKET_IFNAME"] == name
            and name)


def test_a_look_that_failed_brings_nothing_and_says_why() -> None:
    found = seen(Recording("gpu001", 0.0, None, None))
    assert (found.ports == () and found.trouble == "it was not reached"
            and found.why("gpus") == "it was not reached")


def test_a_place_is_what_inventory_and_sku_say() -> None:
    node = Node("gpu001", sku="hgx-h100", leaf=("leaf1", "leaf2"), nvlink_domain="d1", power="pdu-a")
    found = place(node, H100)
    assert (found.gpus, found.leaf, found.domain, found.power) == (8, "leaf1+leaf2", "d1", "pdu-a")
    assert found.watts == pytest.approx(8 * 700 * 2.05)
    by_port = place(replace(node, ports={COMPUTE[0]: PortPlan(rail=0, leaf="a"),
                                         COMPUTE[1]: PortPlan(rail=1, leaf="b")}), H100)
    assert by_port.leaf == "a+b" and [rail.leaf for rail in by_port.rails] == ["a", "b"]
    assert place(replace(node, burnin=BurnInSettings(ranks=2, watts=900)), None).gpus == 2
    with pytest.raises(UsageError, match=r"how many GPUs gpu001 has is not known .SKU: none.: give it a SKU"):
        place(node, None)
    assert hardware({"hgx-h100": H100}, [found])["hgx-h100"].gbps == 400


def test_the_site_s_word_goes_before_what_is_found_and_a_rail_alone_keeps_its_device() -> None:
    node, at = Node("gpu001"), look()
    env = {"NCCL_NET": "gIB", "NCCL_IB_TC": "52", "NCCL_IB_HCA": "=mlx5_0,mlx5_1"}
    found = ports(rails(node, H100, at.ports), planned(node, H100), at.ports, at.netdevs, at.gids, env)
    assert found.values == env
    assert found.rails[3] == {"NCCL_NET": "gIB", "NCCL_IB_TC": "52", "NCCL_IB_HCA": "=mlx5_3"}
    unset = ports(rails(node, H100, at.ports), planned(node, H100), at.ports, at.netdevs, at.gids,
                  {"NCCL_NET": ""})
    assert "NCCL_NET" not in unset.values and "NCCL_NET" not in unset.rails[0]
    assert ports((), {}, (), env={"FI_PROVIDER": "efa"}).values == {"FI_PROVIDER": "efa"}
