"""The delivery list of parts gives each serial number its lot, and goes before what a module states of
itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model.hardware import Now
from healthcheck.subnet.model import CableModule
from healthcheck.triage.lots import ADAPTER, FleetPart, PartLot
from healthcheck.triage.partslist import by_guid, guid_key, lot_of, parse, parts_of
from inventory.errors import InventoryError

LIST = ("Serial Number,P/N,Vendor,Date-Code,Pallet\nmt2306a1,MFP7E10,NVIDIA,2306,7\n"
        "MT2311B2;x,MFP7E10,NVIDIA,2311\n")


def test_lots_are_read_by_serial_number_under_the_usual_names_of_columns() -> None:
    assert parse(LIST, "parts.csv") == {"MT2306A1": PartLot("NVIDIA", "MFP7E10", "2306"),
                                        "MT2311B2;X": PartLot("NVIDIA", "MFP7E10", "2311")}


@pytest.mark.parametrize(("text", "expected"), [
    ("", "parts.csv:1:1: no column is serial or guid"),
    ("serial\nA\n", "parts.csv:1:1: no column is part"),
    ("serial,part\n", "parts.csv: names nothing"),
    ("part,serial\nX,\n", "parts.csv:2:2: the row has no serial number and no GUID"),
    ("part,guid,serial\nX,,\n", "parts.csv:2:2: the row has no serial number and no GUID"),
    ("serial,part\n" + "A" * 2 ** 24, "parts.csv: is over the size limit"),
    ("part,guid\nX,abc z\n", "parts.csv:2:2: 'abc z' is no GUID"),
    ("part,guid\nX,0xa1\nX,00:00:00:00:00:00:00:a1\n",
     "parts.csv:3:2: '00:00:00:00:00:00:00:a1' is on line 2 already"),
    ("part,serial\nX,a\nX,A\n", "parts.csv:3:2: 'A' is on line 2 already"),
])
def test_what_is_wrong_is_one_line_with_its_place(text: str, expected: str) -> None:
    with pytest.raises(InventoryError) as caught:
        parse(text, "parts.csv")
    assert str(caught.value).startswith(expected)


def test_the_list_goes_before_what_a_module_states_and_no_part_number_is_no_lot() -> None:
    delivered = parse(LIST, "parts.csv")
    assert lot_of(CableModule("NV", "MFP7E10", "MT2306A1", date="230601"),
                  delivered) == PartLot("NVIDIA", "MFP7E10", "2306")
    assert lot_of(CableModule("NV", "MFP7E10", "other", date="230601"),
                  delivered) == PartLot("NV", "MFP7E10", "230601")
    assert lot_of(CableModule("NV", "", ""), delivered) is None


def test_adapters_and_switches_are_listed_by_guid() -> None:
    found = parse("guid,part,lot\n0xb8cef6000000a100,MQM9700,2316\n", "parts.csv")
    assert found == {guid_key("b8:ce:f6:00:00:00:a1:00"): PartLot("", "MQM9700", "2316")}


def test_a_value_of_the_list_is_kept_up_to_a_hundred_characters() -> None:
    assert parse(f"serial,part\nA,{'x' * 100}\nB,{'y' * 101}\n", "parts.csv") == {
        "A": PartLot("", "x" * 100), "B": PartLot("", "y" * 99 + "…")}


GUID = "b8cef6000000a100"


def node_with(**adapter: str) -> Now:
    """One adapter, of which this is known, and a GPU."""
    return Now({"gpu 0000:1b:00.0": {"serial": "1"}, "nic 0000:18:00.0": {"device": "mlx5_0"}},
               frozenset({"nic"}), "b", {}, {"mlx5_0": adapter})


@pytest.mark.parametrize(("adapter", "lot"), [
    ({"guid": GUID}, PartLot("NVIDIA", "MCX75310", "W12")),
    ({"adapter_serial": "mt1", "adapter_part": "MCX75310"}, PartLot("NVIDIA", "MCX75310", "W13")),
    ({"adapter_serial": "mt2", "adapter_part": "MCX75310"}, PartLot("", "MCX75310")),
    ({"adapter": "MT_838", "adapter_part": "MCX75310"}, PartLot("", "MT_838")),
    ({"guid": GUID, "adapter": "MT_838", "adapter_part": "X"}, PartLot("NVIDIA", "MCX75310", "W12"))])
def test_an_adapter_is_of_the_lot_that_it_was_delivered_in_else_of_its_boards_part(
    adapter: dict[str, str], lot: PartLot,
) -> None:
    delivered = {guid_key(GUID): PartLot("NVIDIA", "MCX75310", "W12"),
                 "MT1": PartLot("NVIDIA", "MCX75310", "W13")}
    assert parts_of({"n1": node_with(**adapter)}, delivered) == {
        "n1": (FleetPart(ADAPTER, "mlx5_0", "0000:18:00.0", "n1 mlx5_0", lot),)}


def test_a_subnet_knows_an_adapter_that_is_listed_by_its_serial_number_by_its_guid() -> None:
    delivered = {"MT1": PartLot("NVIDIA", "MCX75310", "W13")}
    nodes = [node_with(guid=GUID, adapter_serial="mt1"), node_with(guid="b8cef6000000a200"),
             node_with(adapter_serial="mt1")]
    assert by_guid(nodes, delivered) == {**delivered, guid_key(GUID): delivered["MT1"]}


@given(st.text(max_size=300) | st.text(alphabet="serialpt,;\n\"A1",
                                       max_size=300).map(lambda text: "serial,part\n" + text))
def test_any_text_is_a_list_or_one_line(text: str) -> None:
    try:
        assert parse(text, "parts.csv")
    except InventoryError as error:
        assert "\n" not in str(error)
