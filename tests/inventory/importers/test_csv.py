"""Tables of nodes: which columns are which keys, and the place of every mistake."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from inventory.entry import check_entry
from inventory.errors import InventoryError, MusterError, UsageError
from inventory.importers import csv_
from inventory.importers.base import MAX_BYTES, Imported, decode, read
from inventory.load import load_inventory
from inventory.located import parse_yaml


def plain(found: Imported) -> dict[str, dict[str, Any]]:
    return {name: dict(values) for name, values in found.nodes.items()}


def parse(text: str, **mapping: str) -> Imported:
    return csv_.parse(text, "racks.csv", mapping)


def test_columns_that_are_called_like_our_keys_are_taken_by_themselves() -> None:
    found = parse("""\
Hostname,Address,PORT,Rack,Leaf,NVLink Domain,labels.serial,bmc.address,Bmc.User,become,groups,lifecycle
gpu001,10.1.0.1,22,07,leaf01 leaf02,d1,0042,,,yes,train h100,
gpu002,10.1.0.2,,07,leaf01,,,,,no,train,planned
""")
    assert plain(found) == {
        "gpu001": {"address": "10.1.0.1", "port": 22, "rack": "07", "leaf": ["leaf01", "leaf02"],
                   "nvlink_domain": "d1", "labels": {"serial": "0042"}, "become": True},
        "gpu002": {"address": "10.1.0.2", "rack": "07", "leaf": "leaf01", "become": False,
                   "lifecycle": "planned"},
    }
    assert found.groups == {"train": ("gpu001", "gpu002"), "h100": ("gpu001",)}


def test_other_columns_are_mapped_or_passed_over() -> None:
    found = csv_.parse("Device Name;Position;Zone;Owner\ngpu1;r01;z1;bob\n", "racks.csv",
                       {"device name": "name", "Position": "rack", "Zone": "labels.zone", "OWNER": "-"})
    assert plain(found) == {"gpu1": {"rack": "r01", "labels": {"zone": "z1"}}}


def test_several_devices_of_which_nothing_is_read_stand_in_one_cell() -> None:
    assert csv_.parse("name,unread\na,mlx5_4 0000:3b:*\nb,eth?\n",
                      "x").nodes == {"a": {"unread": ["mlx5_4", "0000:3b:*"]}, "b": {"unread": "eth?"}}


def test_every_key_that_an_inventory_knows_can_be_a_column() -> None:
    with pytest.raises(InventoryError) as caught:
        check_entry(parse_yaml("qqqqqqqq: 1\n", "x"))
    known = set(str(caught.value).partition("known: ")[2].split(", "))
    assert known == {key for key in csv_.KEYS if "." not in key} - {"name", "groups"} | {
        "labels", "limits", "ports", "burnin"}


@pytest.mark.parametrize("text", [
    "name,rack\ngpu1,r1\n", "name;rack\r\ngpu1;r1\r\n", "name\track\ngpu1\tr1", "\ufeffname,rack\ngpu1,r1\n",
    '"name","rack"\n"gpu1","r1"\n', "\n,,\n name , rack \n\n gpu1 , r1 \n,\n", "name,rack,\ngpu1,r1,\n",
    "node,rack\rgpu1,r1\r",
])
def test_every_way_to_save_the_same_table_gives_the_same_nodes(text: str) -> None:
    assert plain(parse(text)) == {"gpu1": {"rack": "r1"}}


@pytest.mark.parametrize(("text", "error"), [
    ("", "racks.csv: is empty, expected a first row that names the columns"),
    ("name\n", "racks.csv: names no node"),
    ("rack\nr1\n", "racks.csv:1:1: no column names the nodes: expected one called name, node, hostname or "
                   "host"),
    ("name,rak\n", "racks.csv:1:2: the column 'rak' is not a key of a node; did you mean rack?; map it with "
                   "--map 'rak'=KEY"),
    ("name,host\n", "racks.csv:1:2: the columns 'name' and 'host' are both name: skip one with --map "
                    "'host'=-"),
    ("name,rack,rack\n", "racks.csv:1:3: the columns 'rack' and 'rack' are both rack"),
    ("name,bmc,bmc.user\n", "racks.csv:1:1: the columns 'bmc' and 'bmc.user' are bmc and bmc.user: map 'bmc' "
                            "to bmc.address"),
    ("name,rack\ngpu1,r1,x\n",
     "racks.csv:2:3: 'x' is in a column without a name: is a delimiter left unquoted?"),
    ("name,rack\n,r1\n", "racks.csv:2:1: the row has no node name"),
    ("rack,name\nr1,-x\n", "racks.csv:2:2: '-x' is not a node name"),
    ("name\ngpu1\n\ngpu1\n", "racks.csv:4:1: duplicate node gpu1: it is already at racks.csv:2:1"),
    ("name,rack,port\ngpu1,r1,70000\n", "racks.csv:2:3: port is the number 70000, expected a port number"),
    ("name,rack\n\"gpu1\",\"r\n1\"\n", "racks.csv:2:2: rack is 'r\\n1', expected text"),
    ("name,rack\ngpu1,\"\n\"\ngpu2,\"r2\n\"\ngpu1,\n",
     "racks.csv:6:1: duplicate node gpu1: it is already at racks.csv:2:1"),
    ("name,bmc\ngpu1,a b\n", "racks.csv:2:2: bmc is 'a b', expected a host name or an IP address"),
    ("name,bmc.user\ngpu1,x\n", "racks.csv:2:2: bmc has no address"),
    ("name,bmc.address,bmc.port\ngpu1,x,70000\n",
     "racks.csv:2:3: bmc.port is the number 70000, expected a port number"),
    ("name,bmc.password\n", "racks.csv:1:2: the column 'bmc.password' is not a key of a node"),
    ("name,become\ngpu1,maybe\n", "racks.csv:2:2: become is 'maybe', expected true or false"),
    ("name,lifecycle.state,lifecycle.until\ngpu1,rma,soon\n",
     "racks.csv:2:3: lifecycle.until is 'soon', expected a date"),
    ("name,labels.a b\ngpu1,x\n", "racks.csv:1:2: the column 'labels.a b' is not a key"),
    ("name,rack\ngpu1,\"r1\n", "racks.csv:2:1: not valid CSV: unexpected end of data"),
    ("name" + ",x" * 1000, "racks.csv:1:1: has over 1000 columns"),
    ("x" * (MAX_BYTES + 1), "racks.csv: is over the size limit of 16777216 bytes"),
])
def test_a_mistake_in_a_table_is_one_line_with_its_place(text: str, error: str) -> None:
    with pytest.raises(InventoryError) as caught:
        parse(text)
    assert str(caught.value).startswith(error)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(("mapping", "error"), [
    ({"Zone": "zone"}, "--map 'Zone': 'zone' is not a key of a node"),
    ({"Zone": "rak"}, "--map 'Zone': 'rak' is not a key of a node; did you mean rack?"),
    ({"Zon": "rack"}, "--map 'Zon': the table has no such column; did you mean Zone?"),
    ({"Zone": "labels."}, "--map 'Zone': 'labels.' is not a key"),
])
def test_a_wrong_mapping_is_a_usage_error(mapping: dict[str, str], error: str) -> None:
    with pytest.raises(UsageError) as caught:
        csv_.parse("name,Zone\ngpu1,z\n", "racks.csv", mapping)
    assert str(caught.value).startswith(error)


def test_bytes_that_are_no_text_are_named_by_their_place(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match=r"racks.csv:2:4: is not UTF-8 text: byte 0xe9"):
        decode(b"name,rack\ngpu\xe9,r1\n", "racks.csv")
    with pytest.raises(InventoryError, match=r"none\.csv: no such file"):
        read(tmp_path / "none.csv")
    with pytest.raises(InventoryError, match="is a directory"):
        read(tmp_path)
    with open(tmp_path / "big", "wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(InventoryError, match="over the size limit of 16777216 bytes"):
        read(tmp_path / "big")


@given(st.text(max_size=200) | st.text(alphabet='name,rack;\t\n\r"x1\0', max_size=120).map(
    "name,rack\n".__add__))
def test_no_text_raises_anything_but_one_line(text: str) -> None:
    try:
        parse(text)
    except MusterError as problem:
        assert str(problem).isprintable()


CELL = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9 ,;'\"_.-]{0,8}[A-Za-z0-9]", fullmatch=True)
ROW = st.fixed_dictionaries({"rack": st.just("") | CELL, "labels.note": st.just("") | CELL,
                             "port": st.just("") | st.integers(1, 65535).map(str)})


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True), ROW, min_size=1, max_size=5),
       st.sampled_from(",;\t"), st.booleans())
def test_a_table_that_was_written_is_read_back_and_loads(
    tmp_path_factory: pytest.TempPathFactory, nodes: dict[str, dict[str, str]], delimiter: str, quoted: bool,
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
    writer.writerow(["name", "rack", "labels.note", "port"])
    for name, row in nodes.items():
        writer.writerow([name, row["rack"], row["labels.note"], row["port"]])
    found = parse(text.getvalue())
    assert plain(found) == {name: {**({"rack": row["rack"]} if row["rack"] else {}),
                                   **({"labels": {"note": row["labels.note"]}} if row["labels.note"] else {}),
                                   **({"port": int(row["port"])} if row["port"] else {})}
                            for name, row in nodes.items()}
    path = tmp_path_factory.mktemp("table") / "muster.yaml"
    path.write_text(
        yaml.safe_dump({"version": 1, "nodes": {name: dict(values) for name, values in found.nodes.items()}}))
    assert [node.rack for node in load_inventory(path)] == [nodes[node.name]["rack"] or None
                                                            for node in load_inventory(path)]
