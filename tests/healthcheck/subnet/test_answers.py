"""A device that answers some management packets and not others is there, and is named as that, not as
missing."""

from __future__ import annotations

from dataclasses import replace

from healthcheck.model.outcome import Severity
from healthcheck.subnet.check.findings import FabricReport, FabricRule
from healthcheck.subnet.check.seen import FabricWanted
from healthcheck.subnet.check.whole import check_fabric
from healthcheck.subnet.model import DeviceKind, FabricPort, LinkState, Subnet
from healthcheck.subnet.readers import linkinfo
from tests.healthcheck.subnet.faulty import FaultyFabric

LINK = "leaf001 port 2 to gpu02 mlx5_0"
# iblinkinfo 44 on ibsim: the adapter's PortInfo was lost.
UNANSWERED = (
    '0xa088c20300000031 "                 gpu004 mlx5_0"      0    1[  ] ==(undefined (0)     Extended speed '
    'NoChange/NoChange)==>  '
    '0xb8cef60000000200      4    4[  ] "leaf01" (Could be 1X Could be 2.5 Gbps)\n'
    '0xb8cef60000000200 "                        leaf01"      4    3[  ] ==( 4X        53.125 Gbps Active/  '
    'LinkUp)==>  '
    '0xa088c20300000021      0    1[  ] "gpu003 mlx5_0" (Could be 12X)\n'
    '0xb8cef60000000200 "                        leaf01"      4    4[  ] ==( 4X        53.125 Gbps Active/  '
    'LinkUp)==>  '
    '0xa088c20300000031      0    1[  ] "" (Could be 1X Could be 2.5 Gbps)\n')


def checked(fabric: FaultyFabric, subnet: Subnet) -> FabricReport:
    return check_fabric([(subnet, 1000.0)], fabric.joined(), fabric.plan, FabricWanted(4, "NDR"),
                        {"": fabric.before(400.0)})


def adapter(fabric: FaultyFabric) -> str:
    return fabric.end(fabric.planned(fabric.cable("leaf001", "2")).a).guid


def without_state(subnet: Subnet, guid: str) -> Subnet:
    device = subnet.devices[guid]
    ports = {number: FabricPort(port.end, peer=port.peer) for number, port in device.ports.items()}
    return replace(subnet, devices={**subnet.devices, guid: replace(device, ports=ports)},
                   tools=(linkinfo.TOOL,))


def test_a_port_that_did_not_answer_is_read_as_one_of_which_nothing_is_known() -> None:
    found = linkinfo.read(UNANSWERED)
    (port,) = found.devices["a088c20300000031"].ports.values()
    assert not found.unread and (port.state, port.physical, port.width, port.speed,
                                 port.lid) == (None, None, None, None, None)
    assert (port.peer is not None and port.peer.number == 4
            and found.devices["b8cef60000000200"].ports[4].state is LinkState.ACTIVE)


def test_a_port_whose_state_was_lost_is_named_and_nothing_else() -> None:
    fabric = FaultyFabric()
    report = checked(fabric, without_state(fabric.subnet(), adapter(fabric)))
    (one,) = (found for found in report.findings if not found.unknown)
    assert ((one.rule, one.place.name, one.severity) == (FabricRule.SILENT, LINK, Severity.WARNING)
            and "its state was not read" in one.observed)


def test_where_no_adapter_s_state_is_shown_none_is_accused() -> None:
    fabric = FaultyFabric()
    subnet = fabric.subnet()
    for guid, device in fabric.subnet().devices.items():
        if device.kind is DeviceKind.ADAPTER:
            subnet = without_state(subnet, guid)
    assert not any(one.rule is FabricRule.SILENT for one in checked(fabric, subnet).findings)


def test_where_another_source_shows_states_none_is_accused() -> None:
    fabric = FaultyFabric()
    subnet = replace(without_state(fabric.subnet(), adapter(fabric)), tools=("GET /ufmRest/resources/ports",))
    assert not any(one.rule is FabricRule.SILENT for one in checked(fabric, subnet).findings)


def test_in_outputs_that_ended_early_no_port_is_said_to_answer_in_part() -> None:
    fabric = FaultyFabric()
    subnet = replace(without_state(fabric.subnet(), adapter(fabric)), partial=True)
    assert not any(one.rule is FabricRule.SILENT for one in checked(fabric, subnet).findings)


def test_a_host_whose_description_was_lost_is_not_missing_but_gave_no_name() -> None:
    fabric = FaultyFabric()
    guid, subnet = adapter(fabric), fabric.subnet()
    nameless = replace(subnet,
                       devices={**subnet.devices, guid: replace(subnet.devices[guid], description="")})
    unknown = replace(fabric.joined(), adapters={known: place
                                                 for known, place in fabric.joined().adapters.items()
                                                 if known != guid})
    report = check_fabric([(nameless, 1000.0)], unknown, fabric.plan, FabricWanted(4, "NDR"),
                          {"": fabric.before(400.0)})
    (one,) = (found for found in report.findings if not found.unknown)
    assert (one.rule, one.place.name, one.place.nodes) == (FabricRule.IDENTITY,
                                                           "in the place of gpu02 mlx5_0", ("gpu02",))
    assert one.observed == "gives no name, or its answer was lost"
