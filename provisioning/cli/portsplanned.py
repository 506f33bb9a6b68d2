"""What becomes of the ports that `muster fabric disable` is asked for: those that are named, or that fail."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from healthcheck.cli.fabricfiles import asked, joined_adapters, read_plan
from healthcheck.cli.wrapping import echo
from inventory.text import clean

if TYPE_CHECKING:
    from healthcheck.store.portdisables import DisabledPort
    from healthcheck.subnet.cabling import CablingPlan
    from healthcheck.subnet.check.findings import FabricFinding
    from healthcheck.subnet.join import FabricJoin
    from healthcheck.subnet.model import FabricEnd, Subnet
    from healthcheck.sweep.fabricoutput import FabricOutput
    from healthcheck.triage.policy import PortPolicy
    from inventory.model import Inventory
    from provisioning.fabric.propose import PortProposal
    from provisioning.fabric.route import PortRoute


@dataclass(frozen=True)
class PortsWanted:
    """What was typed: ports by name, or those that a look finds to fail; and where that looks."""

    ports: tuple[str, ...]
    proposed: bool
    node: str | None
    devices: tuple[str, ...]
    source: str | None
    since: str | None
    reason: str | None
    plan: str | None


@dataclass(frozen=True)
class PortSite:
    """The inventory, the site's rules, the state folder and the policy of ports."""

    known: Inventory | None
    rules: str | None
    folder: Path
    policy: PortPolicy


@dataclass(frozen=True)
class PlannedPorts:
    """What becomes of each port, for how many there is room, and the fabric as it was seen."""

    proposals: tuple[PortProposal, ...]
    room: int
    subnets: tuple[Subnet, ...]


def planned(wanted: PortsWanted, site: PortSite, route: PortRoute | None) -> PlannedPorts:
    """Looks, by UFM where there is a `route` (nodes give counters only), and judges. Raises MusterError."""
    from healthcheck.store.file import NAME, opened
    from healthcheck.store.portdisables import open_ports
    from provisioning.fabric.disable import room
    from provisioning.fabric.propose import links, named, proposals

    cabling = read_plan(wanted.plan) if wanted.plan is not None else None
    outputs = _looks(wanted, site) if wanted.proposed or route is None else ()
    shown = tuple(output.subnet() for output in outputs)
    subnets = shown if route is None else tuple(route.look())
    joined = joined_adapters(subnets, site.known, site.folder, site.rules)
    ends: Mapping[FabricEnd, str]
    if wanted.proposed:
        ends = _failing(wanted, site, outputs, shown, cabling)
        if route is not None:       # UFM names adapters by the GUIDs of their ports; switches are the same
            ends = {_at_switch(shown, end): why for end, why in ends.items()}
    else:
        ends = dict.fromkeys((named(word, subnets) for word in wanted.ports),
                             clean(wanted.reason or "by hand", 300))
    ours: tuple[DisabledPort, ...] = ()
    left = site.policy.most(links(subnets))
    if (site.folder / NAME).exists():
        with opened(site.folder) as store:
            ours = open_ports(store)
        left = room(site.folder, site.policy, subnets, time.time())
    return PlannedPorts(proposals(subnets, joined, ends, site.policy, ours, cabling), left, subnets)


def _looks(wanted: PortsWanted, site: PortSite) -> tuple[FabricOutput, ...]:
    from healthcheck.sweep import fabricoutput

    if wanted.source is not None:
        return fabricoutput.saved(Path(wanted.source))
    return asked(wanted.node or "", site.known, wanted.devices)


def _failing(wanted: PortsWanted, site: PortSite, outputs: Sequence[FabricOutput], subnets: Sequence[Subnet],
             cabling: CablingPlan | None) -> Mapping[FabricEnd, str]:
    from provisioning.fabric.propose import harmful

    joined = joined_adapters(subnets, site.known, site.folder, site.rules)
    return harmful(_findings(wanted, site, outputs, subnets, joined, cabling))


def _at_switch(subnets: Sequence[Subnet], end: FabricEnd) -> FabricEnd:
    from healthcheck.subnet.portguard import switch_end

    return next((switch_end(one, end) for one in subnets if one.port(end) is not None), end)


def _findings(wanted: PortsWanted, site: PortSite, outputs: Sequence[FabricOutput], subnets: Sequence[Subnet],
              joined: FabricJoin, cabling: CablingPlan | None) -> Sequence[FabricFinding]:
    from healthcheck.cli.fabriccheck import kept, of_folder
    from healthcheck.subnet.check.whole import check_fabric

    pairs = [(subnet, output.time) for subnet, output in zip(subnets, outputs, strict=True)]
    before = (of_folder(Path(wanted.since)) if wanted.since is not None
              else kept(site.folder, pairs) if wanted.source is None else {})
    if not before:
        echo("note: there is no earlier sample of counters, so that no link is known to fail: "
             + ("give --since FOLDER" if wanted.source is not None else "run muster fabric check first"),
             err=True)
    in_service = [one.name for one in site.known if one.in_service] if site.known is not None else None
    return check_fabric(pairs, joined, cabling, None, before, in_service).findings
