"""The aggregation node of a Quantum switch (SHARP) is an adapter within it: no host's, and no cable leads to
it. Forms: published outputs of ibnetdiscover, ibhosts and iblinkinfo of QM8700 switches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.check.whole import check_fabric
from healthcheck.subnet.join import join
from healthcheck.subnet.model import DeviceKind, FabricEnd, LinkState, Subnet
from healthcheck.subnet.samples import sample
from healthcheck.sweep.fabricoutput import saved
from tests.testbed import fabricoutputs
from tests.testbed.ibfabric import node_guids, two_tiers

PLAN = two_tiers(8, 4, 2)
SWITCHES = {name: guid for (name, port), guid in node_guids(PLAN).items() if not port}
NAME = "Mellanox Technologies Aggregation Node"
PORT = 65


def beside(guid: str) -> str:
    return f"{int(guid, 16) + 8:016x}"


def with_aggregation(folder: Path, *only: str) -> Subnet:
    """A healthy fabric, with an aggregation node in each switch; `only` these outputs."""
    fabricoutputs.write(PLAN, folder)
    added: dict[str, list[str]] = {name: [] for name in ("ibnetdiscover", "ibnetdiscover-p", "iblinkinfo")}
    for at, (name, guid) in enumerate(SWITCHES.items(), 900):
        own = beside(guid)
        added["ibnetdiscover-p"] += [
            f"SW {at:5d} {PORT} 0x{guid} 4x NDR - CA {at + 100:5d}  1 0x{own} ( '{name}' - '{NAME}' )",
            f"CA {at + 100:5d}  1 0x{own} 4x NDR - SW {at:5d} {PORT} 0x{guid} ( '{NAME}' - '{name}' )"]
        state = "( 4X        106.25 Gbps Active/  LinkUp)"
        added["iblinkinfo"] += [
            f'0x{guid} "{name}" {at:6d} {PORT:4d}[  ] =={state}==>  0x{own} {at + 100:6d}    1[  ] '
            f'"{NAME}" ( )',
            f'0x{own} "{NAME}" {at + 100:6d}    1[  ] =={state}==>  0x{guid} {at:6d} {PORT:4d}[  ] '
            f'"{name}" ( )']
        added["ibnetdiscover"] += [
            "", f"sysimgguid=0x{guid}", f"caguid=0x{own}", f'Ca\t1 "H-{own}"\t\t# "{NAME}"',
            f'[1]({own}) \t"S-{guid}"[{PORT}]\t\t# lid {at + 100} lmc 0 "{name}" lid {at} 4xNDR']
    for name, lines in added.items():
        file = folder / f"{name}.txt"
        file.write_text(file.read_text() + "".join(f"{line}\n" for line in lines))
    for file in folder.iterdir() if only else ():
        if file.stem not in (*only, "saquery-smir", "ibqueryerrors", "ibqueryerrors-data"):
            file.unlink()
    (found,) = saved(folder)
    return found.subnet()


@pytest.mark.parametrize("only", [(), ("iblinkinfo",), ("iblinkinfo", "ibnetdiscover"),
                                  ("iblinkinfo", "ibnetdiscover-p")])
def test_aggregation_nodes_are_no_finding_no_leaf_s_host_and_no_cable(tmp_path: Path,
                                                                     only: tuple[str, ...]) -> None:
    subnet = with_aggregation(tmp_path / "a", *only)
    joined = join([subnet], ())
    report = check_fabric([(subnet, 4600.0)], joined, PLAN, before={"": sample(subnet, 1000.0)})
    assert report.findings == ()
    assert {device.description for device in subnet.devices.values()
            if device.kind is DeviceKind.SWITCH and device.guid in SeenSubnet(subnet, joined).leaves} == {
        name for name in SWITCHES if name.startswith("leaf")}
    assert len(subnet.links) == len(PLAN.cables)


def test_a_port_of_a_switch_that_leads_to_no_known_device_is_named_as_before(tmp_path: Path) -> None:
    subnet = with_aggregation(tmp_path / "a")
    guid = SWITCHES["spine01"]
    device = subnet.devices[guid]
    end = FabricEnd(guid, PORT)
    port = replace(next(iter(device.ports.values())), end=end, state=LinkState.ACTIVE, peer=None)
    odd = replace(subnet, devices={
        **subnet.devices, guid: replace(device, ports={**device.ports, PORT: port})})
    report = check_fabric([(odd, 4600.0)], join([odd], ()), PLAN, before={"": sample(odd, 1000.0)})
    assert any(end in one.place.ends for one in report.findings)
