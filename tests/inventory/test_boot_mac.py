"""`boot_mac` of a node: one form, each address once, and what is none is an error with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from inventory.errors import InventoryError
from inventory.importers import csv_
from inventory.load import load_inventory
from inventory.merge import new_file
from inventory.model import Inventory


def loaded(folder: Path, nodes: str) -> Inventory:
    (folder / "muster.yaml").write_text(f"version: 1\nnodes:\n{nodes}")
    return load_inventory(folder / "muster.yaml")


def test_one_or_several_in_any_spelling_are_addresses_in_lower_case(tmp_path: Path) -> None:
    found = loaded(tmp_path,
                   "  a: {boot_mac: 52-54-00-AB-CD-EF}\n  b: {boot_mac: ['52:54:00:00:00:01', "
                   "'52:54:00:00:00:02', '52-54-00-00-00-01']}\n  c: {}\n")
    assert found.nodes["a"].boot_mac == ("52:54:00:ab:cd:ef",)
    assert found.nodes["b"].boot_mac == ("52:54:00:00:00:01",
                                         "52:54:00:00:00:02") and found.nodes["c"].boot_mac == ()


@pytest.mark.parametrize("value", ["x", "'52:54:00:00:00'", "'01:00:5e:00:00:01'", "'00:00:00:00:00:00'",
                                   "[]", "12", "{}", "null", "['52:54:00:00:00:01', x]"])
def test_what_is_no_address_is_an_error_with_its_place(tmp_path: Path, value: str) -> None:
    with pytest.raises(InventoryError,
                       match=r"muster\.yaml:3:\d+: boot_mac is .*, expected a hardware address such as"):
        loaded(tmp_path, f"  a: {{boot_mac: {value}}}\n")


def test_two_nodes_do_not_share_one_unless_one_is_retired(tmp_path: Path) -> None:
    two = ("  a: {boot_mac: '52:54:00:00:00:01'}\n  b: {boot_mac: ['52:54:00:00:00:02', "
           "'52:54:00:00:00:01']%s}\n")
    with pytest.raises(InventoryError,
                       match=r":4:\d+: b has the boot_mac 52:54:00:00:00:01 of a \(given at .*:3:\d+\)"):
        loaded(tmp_path, two % "")
    assert loaded(tmp_path, two % ", lifecycle: retired").nodes["b"].boot_mac
    with pytest.raises(InventoryError, match="each node needs its own"):
        loaded(tmp_path, "  a[1-2]: {boot_mac: '52:54:00:00:00:01'}\n")


def test_mac_is_a_spelling_that_leads_there(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match=r"unknown key 'mac'.*did you mean boot_mac\?"):
        loaded(tmp_path, "  a: {mac: '52:54:00:00:00:01'}\n")


def test_a_table_may_hold_them(tmp_path: Path) -> None:
    merged = new_file(
        csv_.parse("name,boot_mac\na,52:54:00:00:00:01 52:54:00:00:00:02\nb,52-54-00-00-00-03\n",
                   "racks.csv"), "muster.yaml")
    (tmp_path / "muster.yaml").write_text(merged.text)
    found = load_inventory(tmp_path / "muster.yaml")
    assert (found.nodes["a"].boot_mac == ("52:54:00:00:00:01", "52:54:00:00:00:02")
            and found.nodes["b"].boot_mac == ("52:54:00:00:00:03",))
