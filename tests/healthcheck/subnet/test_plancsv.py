"""A cabling plan as a table: what is read, and what is refused at which place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet import plancsv
from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedDevice, PlannedEnd, Tier
from inventory.errors import InventoryError

HEADER = "device,port,device,port,plane,speed,width,metres,serial,part\n"


def test_a_table_with_the_ends_named_twice_is_read() -> None:
    plan = plancsv.parse(HEADER
                         + "gpu01,0000:18:00.0,leaf01,1/6/2,,ndr,4x,3,MT1,MCP4Y10\n"
                           "leaf01,1/20/1,spine01,1/1/1,,NDR,4,,,\n", "p.csv")
    assert plan.cables[0] == PlannedCable(PlannedEnd("gpu01", "0000:18:00.0"), PlannedEnd("leaf01", "1/6/2"),
                                          "", 4, "NDR", None, 3.0, "MT1", "MCP4Y10")
    assert ({name: device.tier for name, device in plan.devices.items()}
            == {"gpu01": Tier.HOST, "leaf01": Tier.LEAF, "spine01": Tier.SPINE})


def test_the_lower_tier_becomes_the_first_end_whichever_is_written_first() -> None:
    plan = plancsv.parse("device_a;port_a;device_b;port_b\nspine01;1;leaf01;33\nleaf01;1;gpu01;mlx5_0\n",
                         "p.csv")
    assert [cable.a.device for cable in plan.cables] == ["leaf01", "gpu01"]


def test_racks_units_tiers_and_guids_of_devices_are_read_once_and_hold() -> None:
    plan = plancsv.parse("device\tport\tdevice\tport\ttier\ttier\track\track\tunit\tunit\tguid\tguid\n"
                         "a\tp1\tb\t1\thost\tleaf\tr1\tr2\tU7\t40\t\t0xB8CEF60000000100\n"
                         "a\tp2\tb\t2\t\t\t\t\t\t\t\t\n", "p.csv")
    assert plan.devices["a"] == PlannedDevice("a", Tier.HOST, "r1", 7) and plan.devices["b"] == PlannedDevice(
        "b", Tier.LEAF, "r2", 40, "b8cef60000000100")


@pytest.mark.parametrize(("text", "expected"), [
    ("", "p.csv:1:1: no column is device_a"),
    ("device,port,device\n", "p.csv:1:1: no column is port_b"),
    ("device,port,device,port,lenght\n", "p.csv:1:5: the column 'lenght' is not one of a cabling plan"),
    ("device,port,device,port,plane,plane\n", "p.csv:1:6: two columns are plane"),
    (HEADER, "p.csv: names no cable"),
    (HEADER + "gpu01,mlx5_0,leaf01\n", "p.csv:2:4: the row has no port_b"),
    (HEADER + "gpu01,mlx5_0,leaf01,1\ngpu02,mlx5_0,leaf01,1\n",
     "p.csv:3:4: leaf01 port 1 has a cable already, on line 2"),
    (HEADER + "gpu01,mlx5_0,gpu01,mlx5_1\n", "p.csv:2:3: both ends are at 'gpu01'"),
    (HEADER + "gpu01,mlx5_0,leaf01,1,,FAST\n", "p.csv:2:6: 'FAST' is no speed of a lane"),
    (HEADER + "gpu01,mlx5_0,leaf01,1,,,3\n", "p.csv:2:7: '3': expected lanes"),
    (HEADER + "gpu01,mlx5_0,leaf01,1,,,,-2\n", "p.csv:2:8: '-2': expected a number over 0"),
    (HEADER + "gpu01,mlx5_0,leaf01,1,,,,nan\n", "p.csv:2:8: 'nan': expected a number over 0"),
    (HEADER + "gpu01,mlx5_0,leaf01,1,,,,,,,x\n", "p.csv:2:11: 'x' is in a column without a name"),
    (HEADER + "sw1,1,sw2,1\n", "p.csv: nothing shows which devices are hosts"),
    (HEADER + "gpu01,mlx5_0,leaf01,1\nsw1,1,sw2,1\n", "p.csv: no cable leads from a host to sw1"),
    (HEADER + '"gpu01,mlx5_0\n', "p.csv:2:1: not valid CSV"),
    ("device,port,device,port,speed,speed\ngpu01,mlx5_0,leaf01,1,NDR,HDR\n",
     "p.csv:2:6: the ends differ in speed: NDR and HDR"),
    ("device,port,device,port,tier_a\na,1,b,1,host\na,2,b,2,leaf\n",
     "p.csv:3:5: a has another tier on line 2"),
    ("device,port,device,port,tier_a\na,1,b,1,roof\n", "p.csv:2:5: 'roof': expected host, leaf, spine, core"),
])
def test_what_is_wrong_is_one_line_with_its_place(text: str, expected: str) -> None:
    with pytest.raises(InventoryError) as caught:
        plancsv.parse(text, "p.csv")
    assert str(caught.value).startswith(expected) and "\n" not in str(caught.value)


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), min_size=1,
                max_size=12).filter(
                    lambda text: text == text.strip() and "\x7f" not in text)
MAYBE = st.none() | NAMES


@st.composite
def plans(draw: st.DrawFn) -> CablingPlan:
    """Any plan of hosts and leaves."""
    hosts = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    leaves = draw(st.lists(NAMES.filter(lambda name: name not in hosts), min_size=1, max_size=2, unique=True))
    cables = []
    for at, host in enumerate(hosts):
        cables.append(PlannedCable(
            PlannedEnd(host, draw(NAMES)), PlannedEnd(leaves[at % len(leaves)], f"{at + 1}"),
            draw(NAMES | st.just("")),
            draw(st.sampled_from([None, 1, 4, 8])), draw(st.sampled_from([None, "HDR", "XDR"])),
            draw(st.none() | st.floats(1, 800)),
            draw(st.none() | st.floats(0.5, 100)), draw(MAYBE), draw(MAYBE)))
    used = [name for cable in cables for name in (cable.a.device, cable.b.device)]
    tiers = {**dict.fromkeys(hosts, Tier.HOST), **dict.fromkeys(leaves, Tier.LEAF)}
    return CablingPlan({name: PlannedDevice(name, tiers[name], draw(MAYBE),
                                            draw(st.none() | st.integers(0, 60)))
                        for name in dict.fromkeys(used)},
                       tuple(cables))


@given(plans())
def test_what_is_written_is_read_again_as_it_was(plan: CablingPlan) -> None:
    assert plancsv.parse(plancsv.write(plan), "p.csv") == plan


@given(st.text(max_size=400) | st.text(alphabet="gpu01,mlx5_0;\tleaf\n\"'1/2devicport_ab",
                                       max_size=400).map(lambda text: HEADER + text))
def test_any_text_is_a_plan_or_one_line(text: str) -> None:
    try:
        plan = plancsv.parse(text, "p.csv")
    except InventoryError as error:
        assert "\n" not in str(error)
    else:
        assert plan.cables


def test_a_cell_that_a_spreadsheet_would_run_is_written_as_text() -> None:
    assert (plancsv.plain("=HYPERLINK(1)") == "'=HYPERLINK(1)" and plancsv.plain(4.0) == "4"
            and plancsv.plain(None) == "")


@pytest.mark.parametrize(("cell", "metres"),
                         [("3,5", 3.5), ("3.5", 3.5), ("3m", 3.0), ("3,5 m", 3.5), ("20", 20.0)])
def test_lengths_are_read_as_data_centres_write_them(cell: str, metres: float) -> None:
    plan = plancsv.parse(f"\ufeffdevice;port;device;port;metres\r\ngpu01;mlx5_0;leaf01;1;{cell}\r\n", "p.csv")
    assert plan.cables[0].metres == metres


def test_usual_names_of_columns_are_known_and_notes_are_not_read() -> None:
    plan = plancsv.parse(
        "Device;Port;Device;Port;Length (m);Serial Number;Part-Number;Notes\n"
        "gpu01;mlx5_0;leaf01;1;3,5;MT1;MCP4;blue, behind\n", "p.csv")
    assert (plan.cables[0].metres, plan.cables[0].serial, plan.cables[0].part) == (3.5, "MT1", "MCP4")
    with pytest.raises(InventoryError, match="two columns are metres"):
        plancsv.parse("device;port;device;port;length;metres\n", "p.csv")
