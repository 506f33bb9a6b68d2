"""A real subnet manager's fabric, simulated by ibsim: what a check of it finds is stored, is one incident,
and is over when it was mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from healthcheck.cli import fabricstore
from healthcheck.store.fabricfindings import lasting
from healthcheck.store.file import opened
from healthcheck.subnet.check.findings import FabricRule
from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.check.whole import check_fabric
from healthcheck.subnet.join import join
from healthcheck.subnet.model import Subnet
from healthcheck.subnet.samples import sample
from healthcheck.sweep.fabricoutput import saved
from healthcheck.triage.fabricplaces import spots
from tests.healthcheck.triage.made import NOW
from tests.testbed import plantfabric as plant
from tests.testbed.ibfabric import Fabric, fabric, require_fabric, two_tiers

pytestmark = pytest.mark.slow      # beside much other work a simulated manager loses packets


def look(bed: Fabric, folder: Path) -> Subnet:
    (found,) = saved(bed.look(folder))
    return found.subnet()


def test_a_cable_of_a_leaf_is_one_incident_from_when_it_was_pulled_until_it_was_plugged(
        tmp_path: Path) -> None:
    require_fabric()
    with fabric(tmp_path / "f", two_tiers(), managers=("gpu001", "gpu002")) as bed:
        def check(name: str, at: float) -> None:
            subnet = look(bed, tmp_path / name)
            joined = join([subnet], ())
            report = check_fabric([(subnet, at)], joined, bed.plan, None, {"": before})
            fabricstore.keep(tmp_path / "state", report,
                             [SeenSubnet(subnet, joined, bed.plan, before=before, at=at)], {}, at)

        earlier = sample(look(bed, tmp_path / "sound"), NOW - 600)
        assert earlier is not None
        before = earlier
        cable = plant.uplink(bed, "leaf02")
        plant.pull(bed, cable)
        check("pulled", NOW)
        with opened(tmp_path / "state") as store:
            there = lasting(store)
        assert {one.finding.rule for one in there} == {FabricRule.UPLINKS, FabricRule.LINK}
        (spot,) = spots(there)
        assert ((spot.kind, spot.place) == ("link", "leaf02 port 9 to spine01 port 2")
                and "leaf02 port 9: rack" in spot.troubles[0].finding.where)
        plant.plug(bed, cable)
        check("plugged", NOW + 60)
        with opened(tmp_path / "state") as store:
            # the port counted that it went down
            assert {one.finding.rule for one in lasting(store)} <= {FabricRule.FLAPPING}
