"""`muster burnin run --stages fabric` as it is typed: pairs of gloo ranks over a fabric of network namespaces
load every link, and name one that tc made slow."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from healthcheck.subnet.burnplan import BurnPair
from healthcheck.subnet.burnways import BurnPort
from healthcheck.subnet.model import DeviceKind, FabricEnd, Subnet
from tests.documents import validate
from tests.healthcheck.subnet import recount
from tests.provisioning.burnin.fabricsite import SHARE, SLOW_MBIT, FabricSite, cabled, outputs
from tests.testbed import torches
from tests.testbed.routedfabric import routed


def recounted(document: dict[str, Any], subnet: Subnet) -> set[FabricEnd]:
    """The ends of links whose channel carried the share, by what the document's pairs reached and the routes
    hop by hop."""
    ports = {device.description.split()[0]: next(iter(device.ports))
             for device in subnet.devices.values() if device.kind is DeviceKind.ADAPTER}
    guids = {device.description.split()[0]: guid for guid, device in subnet.devices.items()}
    rounds: dict[int, list[BurnPair]] = defaultdict(list)
    for task in document["tasks"]:
        ends = [BurnPort(name, FabricEnd(guids[name], ports[name]))
                for name in (seat.partition(":")[0] for seat in task["seats"])]
        sent = task["reports"]["figures"]["sustained_gb_s"] if task["reports"]["end"] == "done" else 0.0
        rates = sent if isinstance(sent, list) else [sent]
        rounds[task["params"]["round"]].append(BurnPair(ends[0], ends[1], 8 * min(rates)))
    shares = recount.best_shares(subnet, [recount.by_tables(subnet, pairs) for pairs in rounds.values()])
    return {end for end, share in shares.items() if share >= int(SHARE) / 100}


def checked(site: FabricSite, subnet: Subnet) -> dict[str, Any]:
    """The document of the last burn-in, whose coverage is that of the recount."""
    document = site.document()
    validate(document, "burnin-1")
    carried = recounted(document, subnet)
    assert document["fabric"]["links"] == len(subnet.links)
    assert document["fabric"]["proven"] == sum(link.a in carried and link.b in carried
                                               for link in subnet.links)
    return document


def accused(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["object"], one["fault"]) for one in document["accusations"]]


@pytest.mark.slow       # test_perftest_engine.py has a smaller one
@pytest.mark.root
@pytest.mark.timeout(110)
def test_of_two_links_that_share_every_pair_none_is_named_alone(tmp_path: Path) -> None:
    subnet = outputs(tmp_path / "outputs", cabled())
    with routed(subnet, tmp_path) as fabric:
        fabric.carries(fabric.between("leaf2", "spine1"), SLOW_MBIT)
        site = FabricSite(tmp_path, torches.python(), fabric)
        done = site.burn(code=1)
    document = checked(site, subnet)
    assert accused(document) == [("unexplained", "slow link")], done.stdout
    assert ("cannot tell which of these links is slow: spine1 port 1 to leaf1 port 3; spine1 port 2 to "
            "leaf2 port 3") in done.stdout
    assert "links: 6 of 8 proven to carry 1% each way, by the forwarding tables" in done.stdout
    assert "not proven: spine1 port 2 to leaf2 port 3: spine1 port 2 was loaded to 0%" in done.stdout


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.timeout(300)
def test_sound_links_are_all_proven_and_every_node_passes(tmp_path: Path) -> None:
    subnet = outputs(tmp_path / "outputs", cabled())
    with routed(subnet, tmp_path) as fabric:
        site = FabricSite(tmp_path, torches.python(), fabric)
        done = site.burn(code=0)
    assert checked(site, subnet)["verdict"] == "pass" and "links: 8 of 8 proven" in done.stdout


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("one", "other", "loss"),
                         [("leaf2", "spine1", None), ("spine2", "leaf3", 0.2), ("n4", "leaf2", None)])
def test_with_three_leaves_the_slow_link_itself_is_named(tmp_path: Path, one: str, other: str,
                                                         loss: float | None) -> None:
    subnet = outputs(tmp_path / "outputs", cabled(leaves=3))
    with routed(subnet, tmp_path) as fabric:
        link = fabric.between(one, other)
        if loss is None:
            fabric.carries(link, SLOW_MBIT)
        else:
            fabric.loses(link, loss)
        site = FabricSite(tmp_path, torches.python(), fabric, nodes=6)
        done = site.burn(timeout=500, code=1)
    document = checked(site, subnet)
    assert accused(document) == [("link", "slow link")], done.stdout
    assert {one, other} <= set(document["accusations"][0]["name"].split())
    outcomes = {node["node"]: node["outcome"] for node in document["nodes"]}
    assert {name for name, outcome in outcomes.items()
            if outcome != "pass"} == ({one} if one.startswith("n") else set()), done.stdout
