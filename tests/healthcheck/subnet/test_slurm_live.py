"""A real slurmctld takes the topology.conf of a plan, and shows the switches that it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from healthcheck.subnet.cabling import CablingPlan
from healthcheck.subnet.generate import FabricLayout, FabricShape, HostPorts, generate
from healthcheck.subnet.hierarchy import hierarchy
from healthcheck.subnet.slurmtopology import tree
from tests.healthcheck.subnet.made import rails
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, can_run, slurm

TREE = generate([HostPorts(f"gpu{at:02d}", ("mlx5_0",)) for at in range(1, 9)],
                FabricShape(FabricLayout.TREE, tiers=3, radix=4))


@pytest.mark.root
@pytest.mark.parametrize(("plan", "switches"), [
    (rails(), {"group001": (0, "gpu[01-04]"), "group002": (0, "gpu[05-08]"), "fabric": (1, "gpu[01-08]")}),
    (TREE, {**{f"leaf00{at}": (0, f"gpu[0{2 * at - 1}-0{2 * at}]") for at in range(1, 5)},
            "pod01": (1, "gpu[01-04]"), "pod02": (1, "gpu[05-08]"),
            "fabric": (2, "gpu[01-08]")}),
])
def test_slurm_shows_the_switches_of_the_plan(plan: CablingPlan, switches: dict[str, tuple[int, str]],
                                              tmp_path: Path) -> None:
    require(can_run(), WHY_NOT)
    (tmp_path / "topology.conf").write_text(tree(hierarchy(plan)))
    with slurm(tmp_path, [f"gpu{at:02d}" for at in range(1, 9)], extra="TopologyPlugin=topology/tree") as bed:
        shown = bed.ask("scontrol", "show", "topology")
        log = (tmp_path / "slurmctld.log").read_text()
    found = {}
    for line in filter(None, shown.splitlines()):
        values = dict(word.partition("=")[::2] for word in line.split())
        found[values["SwitchName"]] = (int(values["Level"]), values["Nodes"])
    assert found == switches
    assert not [line for line in log.splitlines() if "topology" in line.lower()
                and ("error" in line or "warn" in line.lower())]
