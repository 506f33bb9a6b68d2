"""The delivery list of parts gives each serial number its lot, and goes before what a module states of
itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet.model import CableModule
from healthcheck.triage.lots import PartLot
from healthcheck.triage.partslist import guid_key, lot_of, parse
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


@given(st.text(max_size=300) | st.text(alphabet="serialpt,;\n\"A1",
                                       max_size=300).map(lambda text: "serial,part\n" + text))
def test_any_text_is_a_list_or_one_line(text: str) -> None:
    try:
        assert parse(text, "parts.csv")
    except InventoryError as error:
        assert "\n" not in str(error)
