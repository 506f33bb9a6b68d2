"""`muster inventory import`: what a source knows comes in once, and never over what the file says."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory.cli.inventory import inventory
from inventory.errors import InventoryError, MusterError, UsageError
from inventory.importers import csv_
from inventory.importers.base import Imported
from inventory.load import load_inventory, parse_with_origins
from inventory.merge import merge, new_file
from inventory.model import LifecycleState
from tests.command import unread
from tests.inventory.test_load import ENTRY, meant, own_controllers
from tests.tries import tries

FILE = """\
version: 1
defaults: {user: muster}
nodes:
  # by the door
  gpu[001-004]: {rack: r01}
  gpu007: {rack: r02, labels: {zone: a}}   # case 17
"""


def source(nodes: Mapping[str, Mapping[str, Any]], **groups: tuple[str, ...]) -> Imported:
    return Imported("slurm", nodes, groups)


def lines(text: str, found: Imported, **options: Any) -> tuple[list[str], tuple[str, ...]]:
    """The lines that a merge takes away and adds, and its remarks."""
    merged = merge(text, "m.yaml", found, **options)
    again = merge(merged.text, "m.yaml", found, **options)
    assert again.text == merged.text
    diff = difflib.unified_diff(text.splitlines(), merged.text.splitlines(), n=0, lineterm="")
    return [line for line in diff if not line.startswith(("---", "+++", "@@"))], merged.remarks


FOUR = {f"gpu{n:03}": {"rack": "r01"} for n in range(1, 5)} | {"gpu007": {"rack": "r02"}}


def test_a_new_file_has_what_nodes_share_in_folded_sets_and_what_is_their_own_in_single_entries() -> None:
    found = source({
        f"gpu{n:03}": {"address": f"10.0.0.{n}", "user": "root", "rack": f"r{n // 5}",
                       "labels": {"gres": "gpu:h100:8"}} for n in range(1, 9)
    } | {"login": {"user": "root"}}, train=tuple(f"gpu{n:03}" for n in range(1, 9)))
    assert new_file(found, "m.yaml").text == (
        "version: 1\n"
        "defaults: {user: root}\n"
        "groups:\n"
        "  train: gpu[001-008]\n"
        "nodes:\n"
        '  gpu[001-004]: {rack: r0, labels: {gres: "gpu:h100:8"}}\n'
        '  gpu[005-008]: {rack: r1, labels: {gres: "gpu:h100:8"}}\n'
        "  login: {}\n"
        + "".join(f"  gpu{n:03}: {{address: 10.0.0.{n}}}\n" for n in range(1, 9))
    )


def test_new_nodes_are_added_as_folded_sets_without_what_the_defaults_say() -> None:
    added = {f"gpu{n:03}": {"rack": "r03", "user": "muster"} for n in range(10, 20)}
    assert lines(FILE, source(FOUR | added)) == (["+  gpu[010-019]: {rack: r03}"],
                                                 ("new: 10 nodes, gpu[010-019]",))


def test_a_value_that_the_file_says_stays_and_is_named() -> None:
    found = source({name: {"rack": "r03", "user": "root"} for name in FOUR})
    assert lines(FILE, found) == ([], (
        "kept: gpu[001-004] rack r01, slurm says r03", "kept: gpu[001-004,007] user muster, slurm says root",
        "kept: gpu007 rack r02, slurm says r03",
    ))


def test_only_keys_that_are_named_are_overwritten() -> None:
    found = source({name: {"rack": "r03", "labels": {"zone": "b"}} for name in FOUR})
    changed, remarks = lines(FILE, found, overwrite={"rack"})
    assert changed == [
        "-  gpu[001-004]: {rack: r01}", "-  gpu007: {rack: r02, labels: {zone: a}}   # case 17",
        "+  gpu[001-004]: {rack: r03, labels: {zone: b}}",
        "+  gpu007: {rack: r03, labels: {zone: a}}   # case 17",
    ]
    assert remarks == ("kept: gpu007 labels.zone a, slurm says b",)
    assert lines(FILE, found, overwrite={"rack", "labels.zone"})[1] == ()


def test_a_value_that_the_file_lacks_goes_where_a_person_would_write_it() -> None:
    found = source({"gpu001": {"power": "p1"}, "gpu002": {"power": "p1"}, "gpu007": {"power": "p2"},
                    "gpu003": {"address": "10.0.0.3"}, "gpu004": {}})
    assert lines(FILE, found)[0] == [
        "-  gpu007: {rack: r02, labels: {zone: a}}   # case 17",
        "+  gpu007: {rack: r02, labels: {zone: a}, power: p2}   # case 17",
        "+  gpu[001-002]: {power: p1}", "+  gpu003: {address: 10.0.0.3}",
    ]


def test_nodes_that_the_source_lacks_are_named_and_stay_unless_they_are_to_be_retired() -> None:
    found = source({name: given for name, given in FOUR.items() if name != "gpu007"})
    assert lines(FILE,
                 found) == ([], ("not in slurm: gpu007; left as they are (--missing retired retires them)",))
    assert lines(FILE, found, retire=True)[0] == [
        "-  gpu007: {rack: r02, labels: {zone: a}}   # case 17",
        "+  gpu007: {rack: r02, labels: {zone: a}, lifecycle: retired}   # case 17",
    ]


def test_a_node_in_service_is_not_sent_back_to_planned_by_silence() -> None:
    found = source(FOUR | {"gpu001": {"lifecycle": "planned"}})
    assert lines(FILE, found) == ([], ("kept: gpu001 lifecycle service, slurm says planned",))
    assert lines(FILE, found, overwrite={"lifecycle"})[0] == ["+  gpu001: {lifecycle: planned}"]


def test_groups_are_added_and_those_of_the_file_stay() -> None:
    text = FILE.replace("nodes:", "groups: {train: gpu001}\nnodes:")
    found = source(FOUR, train=("gpu001", "gpu002"), debug=("gpu007",))
    assert lines(text, found) == (
        ["-groups: {train: gpu001}", "+groups: {train: gpu001, debug: gpu007}"],
        ("kept: group train gpu001, slurm says gpu[001-002]",),
    )
    assert lines(text, found, overwrite={"groups"})[0] == [
        "-groups: {train: gpu001}", '+groups: {train: "gpu[001-002]", debug: gpu007}',
    ]


def test_other_spellings_in_the_file_are_overwritten_where_they_stand() -> None:
    text = "version: 1\nnodes:\n  a1: {become: true, ports: {18:00.0: {rail: 1}}, rack: 7}   # x\n"
    found = source({"a1": {"privilege": "helper", "ports": {"0000:18:00.0": {"rail": 2}}, "rack": "7"}})
    assert lines(text, found, overwrite={"privilege", "ports"}) == ([
        "-  a1: {become: true, ports: {18:00.0: {rail: 1}}, rack: 7}   # x",
        "+  a1: {ports: {18:00.0: {rail: 2}}, rack: 7, privilege: helper}   # x",
    ], ())


def test_a_set_of_many_names_is_broken_into_lines_that_can_be_read() -> None:
    names = {f"gpu{n * n:05}": {"rack": "r1"} for n in range(200)}
    text = new_file(source(names, odd=tuple(names)), "m.yaml").text
    assert max(map(len, text.splitlines()[4:])) < 130
    assert list(parse_with_origins(text, "m.yaml").inventory.nodes) == list(names)


def test_two_nodes_at_one_address_are_refused_in_the_sources_name() -> None:
    found = source({"a": {"address": "10.0.0.1"}, "b": {"address": "10.0.0.1"}})
    with pytest.raises(InventoryError) as caught:
        new_file(found, "m.yaml")
    assert str(caught.value) == "slurm: b has the address and port of a: each node in service needs its own"


@pytest.mark.parametrize("text", [None, "version: 1\nnodes:\n  login: {}\n",
                                  "version: 1\nnodes:\n  gpu2: {rack: r1}\n"])
def test_a_sku_that_there_is_not_is_named_with_its_node_and_its_place_in_the_source(text: str | None) -> None:
    found = csv_.parse("name,rack,sku\ngpu1,r1,hgx-h100\ngpu2,r1,hgx-h1000\n", "racks.csv")
    with pytest.raises(InventoryError) as caught:
        if text is None:
            new_file(found, "m.yaml", ("hgx-h100",))
        else:
            merge(text, "m.yaml", found, skus=("hgx-h100",))
    assert (str(caught.value) == "racks.csv:3:3: sku of gpu2 is an undefined SKU 'hgx-h1000'; did you mean "
                                 "hgx-h100?")


def test_a_sku_that_there_is_not_and_that_is_not_taken_is_only_told() -> None:
    found = csv_.parse("name,sku\ngpu2,hgx-h1000\n", "racks.csv")
    merged = merge("version: 1\nnodes:\n  gpu2: {sku: hgx-h100}\n", "m.yaml", found, skus=("hgx-h100",))
    assert merged.remarks == ("kept: gpu2 sku hgx-h100, racks.csv says hgx-h1000",)


def test_a_sku_without_a_place_is_named_with_its_node_and_its_source() -> None:
    with pytest.raises(InventoryError, match=r"^slurm: sku of a is an undefined SKU 'x'; known: hgx-h100$"):
        new_file(source({"a": {"sku": "x"}}), "m.yaml", ("hgx-h100",))


NAMES = st.sampled_from([*(f"gpu{n}" for n in range(1, 12)), "gpu01", "login", "07", "a-1.b"])
NODES = st.dictionaries(NAMES, ENTRY, min_size=1, max_size=8).map(own_controllers)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None,
          max_examples=tries(80))
@given(NODES, st.data())
def test_any_import_makes_a_file_of_exactly_these_nodes(
    tmp_path: Path, nodes: dict[str, dict[str, Any]], data: st.DataObject,
) -> None:
    members = data.draw(st.lists(st.sampled_from(list(nodes)), unique=True, min_size=1))
    path = tmp_path / "m.yaml"
    path.write_text(new_file(source(nodes, train=tuple(members)), str(path)).text)
    found = load_inventory(path)
    assert dict(found.nodes) == {name: meant(name, entry) for name, entry in nodes.items()}
    assert set(found.groups["train"]) == set(members)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=tries(60))
@given(NODES, NODES, st.sampled_from([(), ("rack",), ("lifecycle", "labels", "ports", "leaf", "privilege")]),
       st.booleans())
def test_any_second_import_fills_what_is_missing_keeps_what_is_there_and_changes_nothing_when_repeated(
    old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]], overwrite: tuple[str, ...], retire: bool,
) -> None:
    before = new_file(source(old), "/m.yaml").text.replace("\nnodes:\n", "\nnodes:   # kept\n")
    merged = merge(before, "/m.yaml", source(new), overwrite=overwrite, retire=retire)
    assert "# kept" in merged.text
    assert merge(merged.text, "/m.yaml", source(new), overwrite=overwrite, retire=retire).text == merged.text
    loaded = parse_with_origins(before, "/m.yaml")
    found = parse_with_origins(merged.text, "/m.yaml").inventory
    assert set(found.nodes) == {*old, *new}
    for name, entry in old.items():
        mine, theirs = meant(name, entry), meant(name, new.get(name, {}))
        node = found.nodes[name]
        said = {key.partition(".")[0] for key in loaded.origins[name]}
        for key in ("port", "user", "rack", "power", "sku", "leaf", "python", "privilege"):
            given_by_source = (key in new.get(name, {})
                               or (key == "privilege" and "become" in new.get(name, {})))
            wins = key in said and not (key in overwrite and given_by_source)
            assert getattr(node, key) == getattr(mine if wins or not given_by_source else theirs, key)
        assert {**theirs.labels, **mine.labels} == node.labels or "labels" in overwrite
        merged_bmc = {**new.get(name, {}).get("bmc", {}), **entry.get("bmc", {})}
        assert node.bmc == (meant(name, {"bmc": merged_bmc}).bmc if merged_bmc else None)
        if retire and name not in new:
            assert node.lifecycle.state is LifecycleState.RETIRED


def muster(*words: str, given_input: str | None = None) -> str:
    result = CliRunner().invoke(inventory, ["import", *words], input=given_input)
    if isinstance(result.exception, MusterError):
        raise result.exception
    assert result.exit_code == 0, result.exception
    return result.output


SCONTROL = "".join(f"NodeName=gpu{n:03} Arch=x86_64 CPUTot=8 State=IDLE Partitions=train\n"
                   for n in range(1, 5))


def test_a_saved_scontrol_makes_a_new_file_and_a_second_import_changes_nothing(folder: Path) -> None:
    Path("nodes.txt").write_text(SCONTROL)
    said = muster("slurm", "nodes.txt", "-o", "muster.yaml", "--yes")
    assert "--- /dev/null\n+++ muster.yaml\n" in said
    assert "new: 4 nodes, gpu[001-004]\n" in said
    assert load_inventory("muster.yaml").groups["train"] == ("gpu001", "gpu002", "gpu003", "gpu004")
    first = Path("muster.yaml").stat()
    assert muster("slurm", "-", given_input=SCONTROL).endswith("muster.yaml: nothing to change\n")
    assert Path("muster.yaml").stat() == first


def test_an_ansible_inventory_is_merged_into_the_file(folder: Path) -> None:
    Path("muster.yaml").write_text(FILE)
    Path("hosts.ini").write_text("[train]\ngpu[010:012] ansible_user=root\n")
    said = muster("ansible", "hosts.ini", "--yes")
    assert "+  gpu[010-012]: {user: root}\n" in said
    assert "not in hosts.ini: gpu[001-004,007]" in said
    assert load_inventory("muster.yaml").nodes["gpu011"].user == "root"


def test_a_table_is_merged_by_its_header(folder: Path) -> None:
    Path("muster.yaml").write_text(FILE)
    Path("racks.csv").write_text("node,Rack Position\ngpu007,r09\ngpu008,r09\n")
    said = muster("csv", "racks.csv", "--map", "Rack Position=rack", "--yes")
    assert "kept: gpu007 rack r02, racks.csv says r09\n" in said
    assert load_inventory("muster.yaml").nodes["gpu008"].rack == "r09"


def test_what_is_to_be_written_is_written_even_when_no_one_reads_the_difference(folder: Path) -> None:
    Path("racks.csv").write_text("node,rack\ngpu001,r1\n")
    assert unread("inventory", "import", "csv", "racks.csv", "-o", "muster.yaml", "--yes", home=folder) == 0
    assert load_inventory("muster.yaml").nodes["gpu001"].rack == "r1"


def test_a_name_that_is_none_is_one_line_with_its_place_and_nothing_is_written(folder: Path) -> None:
    Path("racks.csv").write_text("node,rack\ngpu001,r1\n-rf,r1\n")
    with pytest.raises(InventoryError, match=r"racks.csv:3:\d+: '-rf' is not a node name"):
        muster("csv", "racks.csv", "-o", "muster.yaml", "--yes")
    assert not os.path.lexists("muster.yaml")


@pytest.mark.parametrize(("words", "said"), [
    (["slurm", "nodes.txt"], "no terminal to ask on"),
    (["slurm", "nodes.txt", "-o", "muster.yaml", "--yes"],
     "exists already; import into it with --inventory muster.yaml"),
    (["slurm", "nodes.txt", "-o", "new.yaml", "-i", "muster.yaml"], "--output writes a new file"),
    (["slurm", "nodes.txt", "--overwrite", "rak"],
     "--overwrite names 'rak', which is not a key; did you mean rack?"),
    (["slurm", "none.txt"], "none.txt: no such file"),
    (["csv", "nodes.txt", "--map", "x"], "--map is 'x', expected HEADER=KEY"),
    (["slurm", "nodes.txt", "-i", "none.yaml"], "none.yaml: no such file"),
])
def test_a_mistake_is_one_line_and_writes_nothing(folder: Path, words: list[str], said: str) -> None:
    Path("muster.yaml").write_text(FILE)
    Path("nodes.txt").write_text(SCONTROL)
    with pytest.raises(MusterError) as caught:
        muster(*words)
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert Path("muster.yaml").read_text() == FILE
    assert not os.path.lexists("new.yaml")


def test_without_an_inventory_the_way_to_make_one_is_named(folder: Path) -> None:
    Path("nodes.txt").write_text(SCONTROL)
    with pytest.raises(UsageError, match=r"no inventory found: make one with --output muster.yaml"):
        muster("slurm", "nodes.txt")


def test_two_thousand_nodes_with_addresses_of_their_own_are_imported_in_seconds() -> None:
    import time

    nodes = {f"gpu{n:04}": {"address": f"10.0.{n // 256}.{n % 256}", "rack": f"r{n // 32}", "user": "root"}
             for n in range(2048)}
    started = time.process_time()
    text = new_file(source(nodes), "m.yaml").text
    assert merge(text, "m.yaml",
                 source({name: given | {"power": "p1"} for name, given in nodes.items()})).text != text
    assert time.process_time() - started < 10
