"""A site of hosts behind two leaves and two spines, for burn-ins of its links: saved outputs of its fabric,
and ranks in network namespaces that its forwarding tables route between.

A port is called 1X SDR, 2 Gb/s: a hundredth of that, 20 Mbit/s, is what ranks reach on two cores that seven
others want, too; a sound link carries eight times that, a slow one a quarter.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedDevice, PlannedEnd, Tier
from healthcheck.subnet.model import Subnet
from healthcheck.sweep.fabricoutput import saved
from tests.provisioning.burnin.site import Site
from tests.testbed import fabricoutputs, fabrictables
from tests.testbed.routedfabric import RoutedFabric

SHARE = "1"
SLOW_MBIT = 5
SMALL = {"allreduce.run_s": 1, "allreduce.bytes": 1 << 18}


def cabled(per_leaf: int = 2, leaves: int = 2, spines: int = 2, width: int = 1) -> CablingPlan:
    """Hosts n1.. behind leaf1.., each leaf with a cable to each spine."""
    devices = {f"spine{at + 1}": PlannedDevice(f"spine{at + 1}", Tier.SPINE) for at in range(spines)}
    cables = []
    for at in range(leaves):
        leaf = f"leaf{at + 1}"
        devices[leaf] = PlannedDevice(leaf, Tier.LEAF)
        for spine in range(spines):
            cables.append(PlannedCable(PlannedEnd(leaf, str(per_leaf + spine + 1)),
                                       PlannedEnd(f"spine{spine + 1}", str(at + 1))))
        for host in range(per_leaf):
            name = f"n{at * per_leaf + host + 1}"
            devices[name] = PlannedDevice(name, Tier.HOST)
            cables.append(PlannedCable(PlannedEnd(name, "mlx5_0"), PlannedEnd(leaf, str(host + 1))))
    return CablingPlan(devices, tuple(replace(cable, width=width, speed="SDR") for cable in cables))


def outputs(folder: Path, plan: CablingPlan) -> Subnet:
    """Saves the outputs of its tools with forwarding tables, and gives what they show."""
    fabrictables.write(fabricoutputs.write(plan, folder))
    (output,) = saved(folder)
    return output.subnet()


class FabricSite(Site):
    """The site; with a fabric its hosts are in namespaces, else on this machine."""

    def __init__(self, home: Path, python: str, fabric: RoutedFabric | None = None, nodes: int = 4,
                 small: dict[str, Any] | None = None,
                 marked: str = "") -> None:
        super().__init__(home, python, nodes=nodes, small={**SMALL, **(small or {})}, marked=marked)
        if fabric is None:
            return
        document = json.loads((home / "muster.yaml").read_text())
        document["burnin"]["head"] = fabric.head
        for name, entry in document["nodes"].items():
            entry["python"] = str(fabric.pythons[name])
        (home / "muster.yaml").write_text(json.dumps(document))

    def burn(self, *more: str, **given: Any) -> Any:
        """A burn-in of the stage fabric."""
        return self.run("--stages", "fabric", "--fabric", "outputs", "--share", SHARE, *more, **given)
