"""The inventory's key `bmc`: merged key by key, and never with a password in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from inventory.cli.inventory import inventory
from inventory.errors import InventoryError
from inventory.importers import csv_
from inventory.load import parse_with_origins
from inventory.merge import merge, new_file
from inventory.model import Bmc, Inventory, Secret, SecretFrom, Speaks

SITE = """\
version: 1
defaults: {bmc: {user: admin, password: {file: /etc/muster/bmc.password}}}
nodes:
  gpu[001-002]: {bmc: {tls: verify, port: 8443}}
  gpu001: {bmc: {address: 10.1.2.1, user: root}}
  gpu002: {bmc: 10.1.2.2}
  gpu003: {bmc: {address: 10.1.2.3, protocol: ipmi, password: {command: [pass, show, "bmc/{node}"]}, tls: certs/ca.pem}}
  gpu004: {rack: r01}
"""  # noqa: E501
FILE = Secret(SecretFrom.FILE, ("/etc/muster/bmc.password",))


def load(text: str) -> Inventory:
    return parse_with_origins(text, "/site/m.yaml").inventory


def test_defaults_sets_and_a_nodes_own_entry_merge_key_by_key() -> None:
    nodes = load(SITE).nodes
    assert nodes["gpu001"].bmc == Bmc("10.1.2.1", "root", 8443, Speaks.REDFISH, FILE, "verify")
    assert nodes["gpu002"].bmc == Bmc("10.1.2.2", "admin", 8443, Speaks.REDFISH, FILE, "verify")
    assert nodes["gpu003"].bmc == Bmc("10.1.2.3", "admin", None, Speaks.IPMI,
                                      Secret(SecretFrom.COMMAND, ("pass", "show", "bmc/{node}")),
                                      "/site/certs/ca.pem")


def test_what_defaults_say_of_controllers_gives_no_one_one() -> None:
    assert load(SITE).nodes["gpu004"].bmc is None


def test_a_password_that_stands_in_the_inventory_is_refused_and_not_repeated() -> None:
    for written in ("hunter2", '"hunter2"', "[hunter2]", "20261122"):
        with pytest.raises(InventoryError) as caught:
            load(f"version: 1\nnodes:\n  a: {{bmc: {{address: x, password: {written}}}}}\n")
        assert str(caught.value) == ("/site/m.yaml:3:35: bmc.password must not be written in the inventory; "
                                     "name its source: {file: PATH}, {env: NAME} or {command: [PROGRAM, "
                                     "...]}")


def test_two_nodes_with_one_controller_are_refused_unless_one_is_retired() -> None:
    text = "version: 1\nnodes:\n  a: {bmc: 10.1.2.3}\n  b: {bmc: {address: 10.1.2.3%s}}\n"
    with pytest.raises(InventoryError, match=r"m\.yaml:4:13: b has the bmc of a \(given at "
                                             r"/site/m\.yaml:3:7\): each node needs its own"):
        load(text % "")
    assert len(load(text % ", port: 8443")) == 2
    assert len(load((text % "").replace("3}}", "3}, lifecycle: retired}"))) == 2


def test_nodes_share_a_controller_of_several_machines_where_each_names_its_own_system() -> None:
    text = "version: 1\nnodes:\n  a: {bmc: {address: 10.1.2.3%s}}\n  b: {bmc: {address: 10.1.2.3%s}}\n"
    assert [node.bmc and node.bmc.system for node in load(text % (", system: Node1", ", system: Node2"))] == [
        "Node1", "Node2"]
    for one, other in ((", system: Node1", ", system: Node1"), (", system: Node1", ""),
                       ("", ", system: Node2")):
        with pytest.raises(InventoryError, match="b has the bmc of a"):
            load(text % (one, other))
    for wrong in ("../1", "a/b", "''", "[Node1]"):
        with pytest.raises(InventoryError, match=r"bmc\.system"):
            load(text % (f", system: {wrong}", ""))


@pytest.mark.parametrize("other", ["{address: 10.1.2.3, port: 443}", "{address: 10.1.2.3, protocol: ipmi}",
                                   "{address: 10.1.2.3, protocol: ipmi, port: 623}"])
def test_one_controller_is_one_however_the_way_to_it_is_written(other: str) -> None:
    with pytest.raises(InventoryError, match="b has the bmc of a"):
        load(f"version: 1\nnodes:\n  a: {{bmc: 10.1.2.3}}\n  b: {{bmc: {other}}}\n")


def test_relative_files_are_taken_from_the_inventorys_folder_and_home_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    found = load("version: 1\ndefaults: {bmc: {password: {file: secrets/bmc}, tls: ~/ca.pem}}\nnodes:\n  a: "
                 "{bmc: x}\n").nodes["a"].bmc
    assert found is not None
    assert found.secret == Secret(SecretFrom.FILE, ("/site/secrets/bmc",))
    assert found.tls == "/home/u/ca.pem"


def test_show_says_each_key_with_its_line_and_where_the_password_is(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(SITE)
    text = CliRunner().invoke(inventory, ["show", "gpu003", "-i", str(path)]).output
    assert ["bmc.address", "10.1.2.3"] in [line.split()[:2] for line in text.splitlines()]
    assert "command pass show 'bmc/{node}'" in text
    values = json.loads(CliRunner().invoke(
        inventory, ["show", "gpu001", "-i", str(path), "--format", "json"]).output)["values"]
    assert values["bmc.user"] == {"value": "root", "from": {"file": str(path), "line": 5, "column": 37}}
    assert values["bmc.password"]["value"] == {"file": "/etc/muster/bmc.password"}
    assert values["bmc.protocol"] == {"value": "redfish", "from": None}
    assert "bmc" not in values


def test_a_table_gives_addresses_and_ports_of_controllers() -> None:
    found = (csv_.parse(
        "name,bmc.address,bmc.port,bmc.user,bmc.protocol,bmc.tls\na,10.1.2.3,8443,root,ipmi,verify\n"
        "b,10.1.2.4,,,,\n", "x.csv"))
    nodes = load(new_file(found, "/site/m.yaml").text).nodes
    assert nodes["a"].bmc == Bmc("10.1.2.3", "root", 8443, Speaks.IPMI, None, "verify")
    assert nodes["b"].bmc == Bmc("10.1.2.4")


def test_an_import_changes_an_address_however_it_is_written_and_leaves_the_rest() -> None:
    text = "version: 1\nnodes:\n  a: {bmc: 10.1.2.3}   # first\n  b: {bmc: {address: 10.1.2.4, user: root}}\n"
    found = csv_.parse("name,bmc,\na,10.1.9.3\nb,10.1.9.4\n", "x.csv")
    kept = merge(text, "/site/m.yaml", found)
    assert kept.text == text
    assert "kept: a bmc.address 10.1.2.3, x.csv says 10.1.9.3" in kept.remarks
    assert merge(text, "/site/m.yaml", found, overwrite=("bmc",)).text == (
        "version: 1\nnodes:\n  a: {bmc: 10.1.9.3}   # first\n  b: {bmc: {address: 10.1.9.4, user: root}}\n")


def test_an_import_adds_a_user_beside_an_address_that_stands_alone() -> None:
    found = csv_.parse("name,bmc.address,bmc.user\na,10.1.2.3,root\n", "x.csv")
    after = merge("version: 1\nnodes:\n  a: {bmc: 10.1.2.3}\n", "/site/m.yaml", found).text
    assert load(after).nodes["a"].bmc == Bmc("10.1.2.3", "root")


def test_a_node_that_gets_a_controller_gets_what_defaults_say_of_controllers() -> None:
    found = csv_.parse("name,bmc.address,bmc.port\na,10.1.2.3,8443\n", "x.csv")
    text = ("version: 1\ndefaults: {bmc: {user: admin, password: {file: pw}}}\nnodes:\n  a: {rack: r1}\n  b: "
            "{bmc: 10.1.2.4}\n")
    after = merge(text, "/site/m.yaml", found).text
    assert load(after).nodes["a"].bmc == Bmc("10.1.2.3", "admin", 8443, Speaks.REDFISH,
                                             Secret(SecretFrom.FILE, ("/site/pw",)))
    assert merge(after, "/site/m.yaml", found).text == after
