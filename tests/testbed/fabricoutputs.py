"""What fabric tools print of a cabling plan, by hand from their documented forms (infiniband-diags in
rdma-core): for fabrics that the simulator cannot be, such as NDR, and large ones for benches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedDevice, PlannedEnd, Tier
from tests.testbed.ibfabric import net_ports, node_guids

_GBPS = {"SDR": "2.5", "EDR": "25.78125", "HDR": "53.125", "NDR": "106.25", "XDR": "212.5"}


def three_tiers(hosts: int, per_leaf: int = 32, leaves_in_pod: int = 32, spines_in_pod: int = 32,
                cores: int = 32) -> CablingPlan:
    """A fat tree of three tiers: pods of leaves and spines, each leaf with a cable to each spine of its pod,
    each spine to `cores` cores."""
    devices: dict[str, PlannedDevice] = {}
    cables: list[PlannedCable] = []
    leaves = -(-hosts // per_leaf)
    pods = -(-leaves // leaves_in_pod)
    for core in range(cores):
        devices[f"core{core + 1:03d}"] = PlannedDevice(f"core{core + 1:03d}", Tier.CORE)
    for pod in range(pods):
        for spine in range(spines_in_pod):
            name = f"spine{pod * spines_in_pod + spine + 1:03d}"
            devices[name] = PlannedDevice(name, Tier.SPINE)
            for core in range(cores):
                cables.append(_cable(name, leaves_in_pod + core + 1, f"core{core + 1:03d}",
                                     pod * spines_in_pod + spine + 1))
    for leaf in range(leaves):
        pod, name = leaf // leaves_in_pod, f"leaf{leaf + 1:03d}"
        devices[name] = PlannedDevice(name, Tier.LEAF)
        for spine in range(spines_in_pod):
            cables.append(_cable(name, per_leaf + spine + 1, f"spine{pod * spines_in_pod + spine + 1:03d}",
                                 leaf % leaves_in_pod + 1))
    for host in range(hosts):
        name = f"gpu{host + 1:04d}"
        devices[name] = PlannedDevice(name, Tier.HOST)
        cables.append(_cable(name, "mlx5_0", f"leaf{host // per_leaf + 1:03d}", host % per_leaf + 1))
    return CablingPlan(devices, tuple(cables))


def _cable(lower: str, port: object, upper: str, number: int) -> PlannedCable:
    return PlannedCable(PlannedEnd(lower, str(port)), PlannedEnd(upper, str(number)), width=4, speed="NDR")


def write(plan: CablingPlan, folder: Path,
          errors: Mapping[tuple[PlannedEnd, str], int] | None = None) -> Path:
    """The outputs of a look at the plan's fabric, all healthy but for these counters; with one master and one
    standby."""
    there, guids = net_ports(plan), node_guids(plan)
    lids = {guid: at for at, guid in enumerate(guids.values(), 1)}
    names = {guid: f"{name} {port}".strip() for (name, port), guid in guids.items()}
    links: dict[str, list[tuple[int, str, int, PlannedCable, bool]]] = {guid: [] for guid in guids.values()}
    for cable in plan.cables:
        a, b = there[cable.a], there[cable.b]
        for one, other in ((a, b), (b, a)):
            links[one.node[2:]].append((one.number, other.node[2:], other.number, cable,
                                        other.node[0] == "H"))
    ports, lines, topology = [], [], []
    for (_, port), guid in guids.items():
        host = bool(port)
        shown = f"{int(guid, 16) + 1:016x}" if host else guid
        topology += ["", f"sysimgguid=0x{guid}",
                     f"{'ca' if host else 'switch'}guid=0x{guid}" + ("" if host else f"({guid})"),
                     f'{"Ca" if host else "Switch"}\t{1 if host else 64} '
                     f'"{"H" if host else "S"}-{guid}"\t\t# "{names[guid]}"'
                     + ("" if host else f" enhanced port 0 lid {lids[guid]} lmc 0")]
        for number, far, far_number, cable, far_host in sorted(links[guid]):
            far_shown = f"{int(far, 16) + 1:016x}" if far_host else far
            ports.append(
                f"{'CA' if host else 'SW'} {lids[guid]:5d} {number:2d} 0x{shown} {cable.width}x "
                f"{cable.speed} - {'CA' if far_host else 'SW'} "
                f"{lids[far]:5d} {far_number:2d} 0x{far_shown} ( '{names[guid]}' - '{names[far]}' )")
            state = f"({cable.width}X {_GBPS[cable.speed or 'NDR'] + ' Gbps':>18} Active/  LinkUp)"
            lines.append(
                f'0x{shown} "{names[guid]:>30}" {lids[guid]:6d} {number:4d}[  ] =={state}==>  0x{far_shown} '
                f'{lids[far]:6d} '
                f'{far_number:4d}[  ] "{names[far]}" ( )')
            own, its = (f"({shown}) " if host else "", f"({far_shown}) " if far_host else "")
            lid = f"lid {lids[guid]} lmc 0 " if host else ""
            topology.append(
                f'[{number}]{own}\t"{"H" if far_host else "S"}-{far}"[{far_number}]{its}\t\t# '
                f'{lid}"{names[far]}" lid {lids[far]} '
                f"{cable.width}x{cable.speed}")
    shown_errors = [f"   GUID 0x{_port_guid(there[end].node)} port {there[end].number}: [{name} == {value}]"
                    for (end, name), value in (errors or {}).items()]
    data = [f"   GUID 0x{_port_guid(port.node)} port {port.number}: [PortXmitData == 0 (0.000)]"
            for port in there.values()]
    checked = sum(len(those) for those in links.values())
    managers = [guid for (_, port), guid in guids.items() if port][:2]
    records = [f"SMInfoRecord dump:\n\t\tRID\n\t\tLID...................{lids[guid]}\n\t\tSMInfo dump:\n"
               f"\t\tGUID..................0x{int(guid, 16) + 1:016x}\n\t\tActCount..............9\n"
               f"\t\tPriority..............5\n"
               f"\t\tSMState...............{3 - at}" for at, guid in enumerate(managers)]
    folder.mkdir(parents=True)
    for name, made in (("ibqueryerrors-data", ['Data Counters for 0x1 "all"', *data, "",
                                               f"## Summary: {len(guids)} nodes checked, 0 bad nodes found",
                                               f"##          {checked} ports checked, 0 ports have errors "
                                               f"beyond threshold"]), ("ibnetdiscover-p", ports),
                       ("iblinkinfo", lines), ("ibnetdiscover", topology), ("saquery-smir", records),
                       ("ibqueryerrors", [
*shown_errors, "", f"## Summary: {len(guids)} nodes checked, {len(shown_errors)} bad nodes found",
f"##          {checked} ports checked, {len(shown_errors)} ports have errors beyond threshold",
"## Thresholds: ", "## Suppressed:"])):
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in made))
    return folder


def _port_guid(node: str) -> str:
    return f"{int(node[2:], 16) + (node[0] == 'H'):x}"
