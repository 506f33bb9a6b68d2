"""Ports of a simulated fabric are disabled by ibportstate and enabled again: ibsim, opensm and
infiniband-diags, the program over our transport."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pytest

from healthcheck.store.file import opened
from healthcheck.store.portdisables import open_ports
from healthcheck.subnet.join import FabricJoin
from healthcheck.subnet.model import FabricEnd, Subnet
from healthcheck.sweep.fabricoutput import saved
from healthcheck.triage.policy import PortPolicy
from inventory.model import Node
from inventory.transport.local import LocalTransport
from provisioning.fabric.disable import PortTools, disable, enable, settle
from provisioning.fabric.ibportstate import NodePorts
from provisioning.fabric.propose import PortProposal, named, proposals
from provisioning.fabric.route import PortTarget
from tests.testbed import plantfabric as plant
from tests.testbed.ibfabric import Fabric, fabric, require_fabric, two_tiers

_FOLDERS = itertools.count()
HALF = PortPolicy(uplinks_percent=50)


@dataclass(frozen=True)
class SimulatedPorts(NodePorts):
    """The program runs on this machine through the transport; looks are the simulator's own tools."""

    bed: Fabric | None = field(default=None)

    def look(self) -> tuple[Subnet, ...]:
        assert self.bed is not None
        folder = self.bed.look(self.bed.folder / f"look{next(_FOLDERS)}",
                               without=("saquery-smir", "saquery-issm", "sminfo", "ibqueryerrors"))
        return tuple(one.subnet() for one in saved(folder))


@contextmanager
def free(host: str) -> Iterator[None]:
    yield


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    require_fabric()
    with fabric(tmp_path_factory.mktemp("fabric") / "f", two_tiers(8, 4, 2, uplinks=2),
                managers=("gpu001",)) as made:
        yield made


def route(bed: Fabric, more: Mapping[str, str] = MappingProxyType({})) -> SimulatedPorts:
    environment = {name: value for name, value in bed.environment(bed.observer).items()
                   if name in ("PATH", "LD_PRELOAD", "IBSIM_SOCKNAME", "SIM_HOST")}
    return SimulatedPorts(Node(bed.observer, bed.observer), LocalTransport(),
                          environment={**environment, **more}, bed=bed)


def tools(bed: Fabric, folder: Path) -> PortTools:
    return PortTools(folder, "ops", route(bed), HALF, free, again_s=0.2)


def proposal(seen: tuple[Subnet, ...], word: str) -> PortProposal:
    (found,) = proposals(seen, FabricJoin(), {named(word, seen): "bit errors"}, HALF)
    return found


def test_an_uplink_is_disabled_the_fabric_goes_on_and_the_uplink_is_given_back(bed: Fabric,
                                                                               tmp_path: Path) -> None:
    with_all = tools(bed, tmp_path)
    (before,) = with_all.route.look()
    one = proposal((before,), "leaf01/5")
    assert ((one.place,
             one.disable.lost)
            == ("leaf01 port 5 to spine01 port 1",
                "an uplink of leaf01: 3 of its 4 working uplinks are left (600 of 800 Gb/s)"))
    done = disable(one, before, 16, with_all)
    assert done.done is True, done
    (after,) = with_all.route.look()
    port = after.port(one.disable.end)
    assert port is not None and port.physical == "disabled" and set(after.devices) == set(before.devices)
    assert len(after.links) == len(before.links) - 1 and settle(with_all) == []
    with opened(tmp_path) as store:
        (row,) = open_ports(store)
    back = enable(row, "mended", with_all)
    # The simulator does not train a link anew; hardware does.
    assert back.done is True and back.message.startswith("enabled (polling)")
    cable = plant.uplink(bed, "leaf01", 0)
    plant.pull(bed, cable)
    plant.plug(bed, cable)
    assert with_all.route.look()[0].links == before.links


@pytest.mark.slow      # beside much other work a simulated manager loses packets
def test_the_last_link_of_a_host_is_refused_and_so_is_the_adapter_s_own_port(bed: Fabric) -> None:
    (seen,) = route(bed).look()
    for word in ("leaf01/1", "gpu001 mlx5_0/1"):
        assert proposal((seen,), word).disable.refused.startswith("it is the last link of gpu001 mlx5_0")


@pytest.mark.slow      # beside much other work a simulated manager loses packets
def test_a_port_whose_cable_was_moved_since_the_look_is_not_touched(bed: Fabric) -> None:
    through = route(bed)
    (seen,) = through.look()
    end, other = named("leaf02/5", (seen,)), named("leaf02/6", (seen,))
    wrong = seen.port(other)
    assert wrong is not None and wrong.peer is not None
    answer = through.set(PortTarget("", end, wrong.peer), enable=False, seen=seen)
    assert answer.done is False and "its cable leads to 0x" in answer.message
    elsewhere = through.set(PortTarget("", FabricEnd("b8cef6000000ffff", 5), wrong.peer),
                            enable=False, seen=seen)
    assert elsewhere.done is False and "no way from" in elsewhere.message
    assert through.look()[0].links == seen.links


@pytest.mark.slow      # beside much other work a simulated manager loses packets
def test_where_the_tools_are_not_installed_nothing_is_begun(bed: Fabric, tmp_path: Path) -> None:
    through = route(bed, {"PATH": str(tmp_path)})
    (seen,) = through.look()
    port = seen.port(named("leaf02/5", (seen,)))
    assert port is not None and port.peer is not None
    answer = through.set(PortTarget("", port.end, port.peer), enable=False, seen=seen)
    assert answer.done is False and answer.message == "smpquery is not installed there (infiniband-diags)"
