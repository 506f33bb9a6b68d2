"""Readers of fabric tools: documented forms, ports that the simulator has not, cut and hostile output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet.merge import merge
from healthcheck.subnet.model import DeviceKind, FabricEnd, LinkState, ManagerState
from healthcheck.subnet.readers import counters, dbcsv, linkinfo, ports, routes, sa, smp, topology
from healthcheck.subnet.readers.every import SOURCES, source_of

LEAF, CARD = "fc6a1c0300a1b200", "b8cef6030012ab4c"


def ports_line(width: str = "4x", rate: str = "NDR", number: int = 1,
               description: str = "gpu001 mlx5_0") -> str:
    return (f"SW    12 {number:2d} 0x{LEAF} {width} {rate} - CA    31  1 0x{CARD} ( "
            f"'MF0;leaf01:MQM9700/U1' - "
            f"'{description}' )\n")


@pytest.mark.parametrize(("width", "rate", "lanes", "speed"), [
    ("4x", "NDR", 4, "NDR"), ("4x", "XDR", 4, "XDR"), ("8x", "NDR", 8, "NDR"), ("2x", "HDR", 2, "HDR"),
    ("1x", "XDR", 1, "XDR"), ("4x", "FDR10", 4, "FDR10"),
    ("??", "???", None, None)])
def test_every_width_and_rate_of_ibnetdiscover_is_read(width: str, rate: str, lanes: int | None,
                                                       speed: str | None) -> None:
    # dump_linkwidth_compat and dump_linkspeedext_compat of infiniband-diags/ibnetdiscover.c (rdma-core)
    port = ports.read(ports_line(width, rate)).devices[LEAF].ports[1]
    assert (port.width, port.speed, port.peer) == (lanes, speed, FabricEnd(CARD, 1))


@pytest.mark.parametrize(("width", "rate", "lanes", "speed"), [
    ("4X", "106.25 Gbps", 4, "NDR"), ("4X", "212.5 Gbps", 4, "XDR"), ("8X", "106.25 Gbps", 8, "NDR"),
    ("2X", "53.125 Gbps", 2, "HDR"),
    ("4X", "10.0 Gbps (FDR10)", 4, "FDR10"), ("4X", "undefined (64)", 4, None)])
def test_every_width_and_rate_of_iblinkinfo_is_read(width: str, rate: str, lanes: int,
                                                    speed: str | None) -> None:
    # mad_dump_linkwidth of libibmad/dump.c and ibnd_dump_agg_linkspeedext of libibnetdisc (rdma-core)
    line = (
        f'0x{LEAF} "         MF0;leaf01:MQM9700/U1"     12    3[  ] ==({width:>3} {rate:>18} Active/  '
        f'LinkUp)==>  0x{CARD}     31    1[  ] '
        '"gpu001 mlx5_0" (Could be 12X )\n')
    other = (f'0x{LEAF} "         MF0;leaf01:MQM9700/U1"     12    4[ 2] ==(                Down/ '
             f'Polling)==> '
             f'            [  ] "" ( )\n')
    reading = linkinfo.read(line + other)
    port = reading.devices[LEAF].ports[3]
    assert (port.width, port.speed, port.state, reading.unread) == (lanes, speed, LinkState.ACTIVE, ())
    assert (reading.devices[LEAF].kind is DeviceKind.SWITCH
            and reading.devices[CARD].kind is DeviceKind.ADAPTER)
    split = reading.devices[LEAF].ports[4]
    # a split port's external number
    assert (split.state, split.label, split.width) == (LinkState.DOWN, "2", None)


def test_planes_of_one_card_are_devices_of_one_system() -> None:
    # ConnectX-8 shows a node for each plane, with one system image GUID (ibnetdiscover's sysimgguid)
    text = "".join(
        f'\nvendid=0x2c9\ndevid=0x1023\nsysimgguid=0x{CARD}\ncaguid=0x{int(CARD, 16) + plane:x}\nCa\t1 '
        f'"H-{int(CARD, 16) + plane:016x}"\t\t'
        f'# "gpu001 mlx5_{plane}"\n[1]({int(CARD, 16) + plane:x}) \t"S-{LEAF}"[{plane + 1}]\t\t# lid 31 lmc '
        f'0 "leaf01" lid 12 4xXDR\n'
        for plane in range(4))
    reading = topology.read(text)
    assert {device.system
            for device in reading.devices.values() if device.kind is DeviceKind.ADAPTER} == {CARD}
    assert [device.ports[1].speed
            for device in reading.devices.values() if device.kind is DeviceKind.ADAPTER] == ["XDR"] * 4


def test_an_adapter_known_by_port_guid_and_by_node_guid_is_one() -> None:
    node, port = "a088c20300000010", "a088c20300000011"
    full = topology.read(
        f'caguid=0x{node}\nCa\t1 "H-{node}"\t\t# "gpu002 mlx5_0"\n[1]({port}) \t"S-{LEAF}"[2]\t\t# lid 9 lmc '
        f'0 "leaf01" lid 12 4xHDR\n')
    flat = ports.read(f"CA     9  1 0x{port} 4x HDR - SW    12  2 0x{LEAF} ( 'gpu002 mlx5_0' - 'leaf01' )\n")
    errors = counters.read_errors(
        f'Errors for "gpu002 mlx5_0"\n   GUID 0x{port} port 1: [SymbolErrorCounter == 7]\n\n## Summary: 2 '
        f'nodes checked, 1 bad nodes '
        "found\n##          2 ports checked, 1 ports have errors beyond threshold\n## Thresholds: \n## "
        "Suppressed:\n")
    subnet = merge("", [flat, full, errors])
    assert set(subnet.devices) == {node, LEAF} and len(subnet.links) == 1
    assert subnet.counters is not None and subnet.counters.count(FabricEnd(node, 1),
                                                                 "SymbolErrorCounter") == 7
    assert subnet.counters.count(FabricEnd(LEAF, 2), "SymbolErrorCounter") == 0


def test_a_switch_of_which_iblinkinfo_shows_one_port_is_a_switch_where_another_tool_says_so() -> None:
    shown = linkinfo.read(
        f'0x{LEAF} "leaf01" 12 2[  ] ==(4X 53.125 Gbps Active/  LinkUp)==>  0xa088c20300000011 9 1[  ] '
        f'"gpu002 mlx5_0" ( )\n')
    full = topology.read(
        f'switchguid=0x{LEAF}({LEAF})\nSwitch\t40 "S-{LEAF}"\t\t# "leaf01" enhanced port 0 lid 12 lmc 0\n')
    assert (shown.devices[LEAF].kind is DeviceKind.ADAPTER
            and merge("", [shown, full]).devices[LEAF].kind is DeviceKind.SWITCH)


@pytest.mark.parametrize("tail", ["##          3 PMA query failures\n## Suppressed:\n",
                                  "## Suppressed: PortXmitWait SymbolErrorCounter\n"])
def test_counters_that_may_have_been_left_out_are_not_zeros(tail: str) -> None:
    text = (
        "\n## Summary: 2 nodes checked, 0 bad nodes found\n##          2 ports checked, 0 ports have errors "
        "beyond threshold\n## Thresholds: \n" + tail)
    reading = counters.read_errors(text)
    assert reading.counters is not None and not reading.counters.zeros and reading.unread


def test_a_summary_that_is_missing_says_that_the_output_was_cut() -> None:
    reading = counters.read_errors(
        'Errors for 0xa00 "leaf01"\n   GUID 0xa00 port 1: [LinkDownedCounter == 255]\n')
    assert reading.partial and reading.counters is not None and not reading.counters.zeros
    assert reading.counters.full == {FabricEnd("0" * 13 + "a00", 1): frozenset({"LinkDownedCounter"})}


def test_a_counter_of_64_bits_is_not_full_at_255() -> None:
    reading = counters.read_errors(
        'Errors for 0xa00 "leaf01"\n   GUID 0xa00 port 1: [LinkDownedCounter == 255 (255.000)]\n')
    assert reading.counters is not None and reading.counters.full == {}


def test_a_marked_port_whose_manager_no_one_knows_is_a_manager_of_unknown_state() -> None:
    node, port = "a088c20300000010", "a088c20300000011"
    seen = topology.read(
        f'caguid=0x{node}\nCa\t1 "H-{node}"\t\t# "gpu002 mlx5_0"\n[1]({port}) \t"S-{LEAF}"[2]\t\t# lid 9 lmc '
        f'0 "leaf01" lid 12 4xHDR\n')
    records = sa.read(
        "SMInfoRecord dump:\n\t\tGUID..................0x1\n\t\tPriority..............5\n"
        "\t\tSMState...............3\n")
    marks = sa.read(
        "IsSM ports\nPortInfoRecord dump:\n\t\tEndPortLid..............9\n\t\tPortNum.................1\n"
        "\t\tcapability_mask.........0x50C04A\n")
    managers = merge("", [seen, records, marks]).managers
    assert managers is not None
    assert [(one.port_guid, one.state) for one in managers] == [("0" * 15 + "1", ManagerState.MASTER),
                                                                (port, ManagerState.UNKNOWN)]


DB = f"""START_NODES
NodeDesc,NumPorts,NodeType,ClassVersion,BaseVersion,SystemImageGUID,NodeGUID,PortGUID
"gpu001, mlx5_0",1,1,1,1,0x{CARD},0x{CARD},0x{CARD}
"MF0;leaf01:MQM9700/U1",65,2,1,1,0x{LEAF},0x{LEAF},0x{LEAF}
END_NODES

START_PORTS
NodeGuid,PortGuid,PortNum,LID,LinkWidthActv,LinkSpeedActv,PortPhyState,PortState
0x{CARD},0x{CARD},1,31,2,2048,5,4
0x{LEAF},0x{LEAF},0,12,0,0,0,0
0x{LEAF},0x{LEAF},1,12,4,16777216,5,4
0x{LEAF},0x{LEAF},2,12,2,1024,2,1
END_PORTS

START_LINKS
NodeGuid1,PortNum1,NodeGuid2,PortNum2
0x{CARD},1,0x{LEAF},1
END_LINKS

START_PM_INFO
NodeGUID,PortGUID,PortNumber,LinkDownedCounter,LinkDownedCounterExt,SymbolErrorCounter,PortXmitWaitExt
0x{LEAF},0x{LEAF},1,255,300,65535,N/A
END_PM_INFO

START_CABLE_INFO
NodeGuid,PortGuid,PortNum,Vendor,PN,SN,Rev,LengthDesc,Temperature,RX1Power
0x{LEAF},0x{LEAF},1,NVIDIA,"MCA4J80-N003","MT2310,1",A1,"3 m",74C,-12.5dBm
END_CABLE_INFO

START_TEMP_SENSING
NodeGUID,CurrentTemperature
0x{LEAF},61
END_TEMP_SENSING

START_FANS_SPEED
NodeGUID,FanIndex,MinSpeed,MaxSpeed,FanSpeed
0x{LEAF},3,4500,9000,0
END_FANS_SPEED

START_POWER_SUPPLIES
NodeGuid,PSUIndex,IsPresent,DCState
0x{LEAF},1,Yes,OK
0x{LEAF},2,Yes,ERROR
END_POWER_SUPPLIES
"""


def test_the_tables_of_ibdiagnet_are_read() -> None:
    # Section and column names as in ibdiagnet2's db_csv; rates as numbered by IBLinkSpeed of ibutils2 (2048
    # is NDR, 1 << 24 XDR)
    reading = dbcsv.read(DB)
    leaf, card = reading.devices[LEAF], reading.devices[CARD]
    assert (reading.unread, reading.partial) == ((), False)
    assert (card.description, card.ports[1].speed, card.ports[1].peer) == ("gpu001, mlx5_0", "NDR",
                                                                           FabricEnd(LEAF, 1))
    assert (leaf.ports[1].width, leaf.ports[1].speed, leaf.ports[2].state,
            leaf.ports[2].physical) == (8, "XDR", LinkState.DOWN, "polling")
    assert (reading.counters is not None and reading.counters.values[FabricEnd(LEAF, 1)]
            == {"LinkDownedCounter": 300, "SymbolErrorCounter": 65535})
    assert reading.counters.full == {FabricEnd(LEAF, 1): frozenset({"SymbolErrorCounter"})}
    module = reading.modules[FabricEnd(LEAF, 1)]
    assert (module.part, module.serial, module.metres) == ("MCA4J80-N003", "MT2310,1", 3.0)
    assert [(one.what, one.part, one.value, one.ok) for one in reading.sensors] == [
        ("temperature", "", 74.0, None), ("rx power", "", -12.5, None), ("temperature", "", 61.0, None),
        ("fan", "fan 3", 0.0, None),
        ("power supply", "power supply 1", None, True), ("power supply", "power supply 2", None, False)]


def test_a_section_without_its_end_is_partial() -> None:
    assert dbcsv.read(DB[:DB.index("END_LINKS")]).partial and dbcsv.read("").partial


def test_port_information_of_smpquery_is_read_with_its_node() -> None:
    node = (f"# Node info: Lid 12\nNodeType:........................Switch\n"
            f"NumPorts:........................64\nGuid:............................0x{LEAF}\n")
    info = (
        "# Port info: Lid 12 port 5\nLinkWidthActive:.................8X\n"
        "LinkState:.......................Active\nPhysLinkState:...................LinkUp\n"
        "LinkSpeedActive:.................10.0 Gbps\nLinkSpeedExtActive:..............106.25 Gbps\n")
    port = smp.read(node + info).devices[LEAF].ports[5]
    assert (port.width, port.speed, port.state) == (8, "NDR", LinkState.ACTIVE)
    assert smp.read(info).unread


def test_tables_of_routes_leave_out_what_leads_nowhere() -> None:
    text = (
        f"Unicast lids [0x0-0x3] of switch DR path slid 0; dlid 0; 0,1 guid 0x{LEAF} (leaf01):\n  Lid  Out   "
        f"Destination\n       Port     Info \n"
        "0x0001 002 : (Channel Adapter portguid 0x1: 'gpu001 mlx5_0')\n0x0002 255 : (path not found)\n2 "
        "valid lids dumped \n")
    reading = routes.read(text)
    assert reading.routes == {LEAF: {1: 2}} and reading.unread == ()


def test_a_hostile_description_is_cleaned_and_one_that_cannot_be_told_apart_is_not_taken() -> None:
    reading = ports.read(ports_line(description="\x1b[31mred"))
    assert "\x1b" not in reading.devices[CARD].description and reading.devices[CARD].description
    assert ports.read(ports_line(description="a' - 'b")).devices[CARD].description == ""


def test_a_file_is_known_by_the_beginning_of_its_name() -> None:
    names = {"ibnetdiscover-p.txt": "ibnetdiscover-p", "ibnetdiscover": "ibnetdiscover",
             "perfquery-leaf01.txt": "perfquery", "ibdiagnet2.db_csv": "ibdiagnet2.db_csv"}
    assert {name: source.name for name in names if (source := source_of(name)) is not None} == names
    assert source_of("readme.txt") is None


PIECES = st.lists(st.one_of(st.text(max_size=40),
                            st.sampled_from([*DB.splitlines(),
                                             *(line.strip("\n") for line in (ports_line(), "## Suppressed:")),
"IsSM ports", "SMInfoRecord dump:", "\t\tGUID....0x1", "# Port info: Lid 1 port 1",
'[1]\t"S-0000000000000a00"[1]\t\t# "x" lid 0 4xHDR',
"   GUID 0x1 port 1: [LinkDownedCounter == 1]",
'0x0000000000000a00 "x" 1 1[  ] ==( 4X 53.125 Gbps Active/ LinkUp)==> "Port not available"'])),
                  max_size=30).map("\n".join)


@given(PIECES)
def test_no_text_makes_a_reader_fail_or_show_what_a_terminal_would_act_on(text: str) -> None:
    for source in SOURCES:
        reading = source.read(text, False)
        subnet = merge("", [reading])
        shown = [*reading.unread, *(device.description for device in subnet.devices.values())]
        assert all(line.isprintable() or "\u3000" in line
                   or not any(ord(one) < 32 or ord(one) == 127 for one in line) for line in shown)
        assert all(len(guid) == 16 for guid in subnet.devices)


@given(st.data())
def test_what_is_cut_is_partial_or_whole(data: st.DataObject) -> None:
    text = ports_line() * 3
    at = data.draw(st.integers(1, len(text) - 1))
    assert ports.read(text[:at]).partial or text[:at].endswith("\n")


def test_a_summary_that_was_cut_anywhere_leaves_no_counter_known_as_0() -> None:
    whole = (
        "\n## Summary: 2 nodes checked, 0 bad nodes found\n##          2 ports checked, 0 ports have errors "
        "beyond threshold\n"
        "## Thresholds: \n##          1 PMA query failures\n## Suppressed:\n")
    ports = whole.index("## Thresholds")        # older versions end there
    for end in range(len(whole)):
        reading = counters.read_errors(whole[:end])
        assert end == ports or (reading.partial and reading.counters is not None
                                and not reading.counters.zeros), whole[:end]


def test_a_file_of_tables_that_was_cut_between_two_of_them_is_partial_and_so_are_its_managers() -> None:
    for end in ("END_NODES\n", "END_PORTS\n"):
        reading = dbcsv.read(DB[: DB.index(end) + len(end)])
        assert reading.partial and not reading.all_managers
    assert not dbcsv.read(DB).partial and dbcsv.read(DB).all_managers


def test_a_manager_whose_record_was_cut_may_be_the_master() -> None:
    whole = ("SMInfoRecord dump:\n\t\tGUID..................0xa088c20300000001\n\t\tPriority..............5\n"
             "\t\tSMState...............3\n")
    assert sa.read(whole).all_managers
    cut = whole[: whole.index("\t\tSMState")]
    assert not sa.read(cut).all_managers and sa.read(cut).unread
