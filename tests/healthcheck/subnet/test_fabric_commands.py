"""`muster fabric plan`, `diff` and `map` as a user types them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from healthcheck.cli.fabricfiles import read_plan
from healthcheck.subnet import plancsv, plandocument
from healthcheck.subnet.drawing import dot
from healthcheck.subnet.hierarchy import hierarchy
from healthcheck.subnet.linkstates import CableState
from healthcheck.subnet.slurmtopology import blocks, tree
from healthcheck.subnet.topologyfile import topology
from inventory.errors import InventoryError, UsageError
from inventory.load import load_inventory
from tests.command import muster
from tests.documents import validate
from tests.healthcheck.subnet.made import rails

GOLDEN = Path(__file__).resolve().parents[2] / "golden/fabric-plan.json"
GENERATED = ("fabric", "plan", "gpu[01-04]", "--ports", "2", "--hosts-per-leaf", "2", "--speed", "NDR",
             "--width", "4")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "plan.csv").write_text(plancsv.write(rails()))
    return tmp_path


def test_a_generated_plan_is_the_golden_document_and_its_own_input(tmp_path: Path) -> None:
    done = muster(*GENERATED, "--format", "json", home=tmp_path)
    assert done.returncode == 0 and done.stdout == GOLDEN.read_text()
    validate(json.loads(done.stdout), "fabric-plan-1")
    (tmp_path / "plan.json").write_text(done.stdout)
    assert muster("fabric", "plan", "--from", "plan.json", "--format", "json",
                  home=tmp_path).stdout == done.stdout
    table = muster(*GENERATED, "--format", "csv", home=tmp_path).stdout
    assert plancsv.parse(table, "x") == plandocument.read(done.stdout, "x")


def test_a_plan_is_generated_from_an_inventory_and_its_skus(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text("version: 1\nnodes:\n  gpu[01-16]: {sku: hgx-h100, rack: r1}\n")
    done = muster("fabric", "plan", "--hosts-per-leaf", "8", home=tmp_path)
    assert done.returncode == 0 and done.stdout.splitlines() == [
        "16 hosts, 16 leaves, 2 spines; 256 cables", "host to leaf: 128 cables, 8 each",
        "leaf to spine: 128 cables, 8 each",
        "no fault found in the plan"]
    slow = muster("fabric", "plan", "--hosts-per-leaf", "8", "--speed", "HDR", "--width", "4", home=tmp_path)
    assert (slow.returncode == 1
            and "the plan has 200 Gb/s for its cable, its SKU 400 Gb/s for its port" in slow.stdout)


def test_the_rails_of_an_inventory_decide_the_order_of_ports(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text(
        "version: 1\nnodes:\n  gpu[01-02]:\n    ports:\n      '0000:18:00.0': {rail: 1}\n      "
        "'0000:3b:00.0': {rail: 0}\n"
        "      '0000:86:00.0': {role: storage}\n")
    rows = muster("fabric", "plan", "--tiers", "1", "--format", "csv", home=tmp_path).stdout.splitlines()
    assert [row.split(",")[:4] for row in rows[1:3]] == [["gpu01", "0000:3b:00.0", "leaf001", "1"],
                                                         ["gpu01", "0000:18:00.0", "leaf002", "1"]]


@pytest.mark.parametrize(("words", "said"), [
    (("plan",), "found no inventory"),
    (("plan", "gpu[01-02]"),
     "gpu01: neither inventory nor SKU says what ports it has: give --ports or --sku"),
    (("plan", "gpu01", "--from", "plan.csv"), "--from names the plan"),
    (("plan", "--from", "none.csv"), "none.csv: No such file"),
    (("plan", "gpu01", "--ports", "2", "--speed", "FAST"), "--speed FAST: expected one of"),
    (("plan", "gpu01", "--ports", "2", "--plane", "x"), "--plane needs --format topology"),
    (("diff", "--plan", "plan.csv"), "give NODE, --ufm URL, --lldp NODES, or --from FOLDER"),
    (("plan", "gpu01", "--ports", "2", "--planes", "2", "--plane", "x", "--format", "topology"),
     "--plane x: the plan has plane1, plane2"),
    (("diff", "--plan", "plan.csv", "--from", "none"), "none: is no folder of saved outputs"),
    (("diff",), "give --plan FILE"),
    (("diff", "--plan", "plan.csv", "--via", "mlx5_0", "--from", "x"), "--via goes with NODE"),
    (("map", "--plan", "plan.csv", "--lldp", "gpu01", "--from", "x"),
     "give NODE, --ufm URL, --lldp NODES, or --from FOLDER"),
    (("diff", "--plan", "plan.csv", "--from", "."), ".: no file in it is called"),
    (("map",), "give --plan FILE"),
    (("map", "--plan", "plan.csv", "--apply"), "--apply needs --format labels"),
    (("map", "--plan", "plan.csv", "--format", "labels"), "found no inventory"),
])
def test_what_cannot_be_done_is_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    done = muster("fabric", *words, home=home)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_a_plan_that_standard_input_does_not_give_is_named_with_its_option(
        home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(home / "written", "wb", buffering=0) as only_written, open(only_written.fileno(), "rb",
                                                                         buffering=0, closefd=False) as stdin:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stdin))
        with pytest.raises(UsageError, match="--plan -: Bad file descriptor"):
            read_plan("-")


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "muster.fabric.plan/1"}',
                                  '{"schema": "muster.fabric.plan/1", "devices": [], "cables": [{}]}',
                                  '{"schema": "muster.fabric.plan/1", "devices": [{"name": "a", "tier": '
                                  '"roof"}], "cables": []}'])
def test_another_document_is_no_plan(text: str) -> None:
    with pytest.raises(InventoryError, match=r"^p\.json"):
        plandocument.read(text, "p.json")


def test_a_switch_port_whose_number_is_not_known_has_no_place_in_a_topology_file() -> None:
    plan = plancsv.parse("device,port,device,port\ngpu01,mlx5_0,leaf01,left\n", "p")
    with pytest.raises(UsageError, match="leaf01 port left: no port number"):
        topology(plan)


def test_the_map_shows_groups_pods_and_links(home: Path) -> None:
    done = muster("fabric", "map", "--plan", "plan.csv", home=home)
    assert (done.stdout.splitlines()[0].startswith("pod01: 2 groups, spines ")
            and done.stdout.splitlines()[1] == (
                "  group001: 4 hosts gpu[01-04], leaves leaf[001-004]"))
    document = json.loads(muster("fabric", "map", "--plan", "plan.csv", "--format", "json", home=home).stdout)
    validate(document, "fabric-map-1")
    assert [group["hosts"][0] for pod in document["pods"] for group in pod["groups"]] == ["gpu01", "gpu05"]
    assert {link["state"] for link in document["links"]} == {"planned"}


def test_hosts_are_ordered_by_pod_group_and_port(home: Path) -> None:
    found = muster("fabric", "map", "--plan", "plan.csv", "--format", "hosts", home=home).stdout.split()
    assert found == [f"gpu{at:02d}" for at in range(1, 9)]


def test_leaves_are_proposed_to_the_inventory_and_written_only_with_apply(home: Path) -> None:
    (home / "muster.yaml").write_text("version: 1\nnodes:\n  gpu[01-08]: {}\n  gpu01: {leaf: other}\n")
    done = muster("fabric", "map", "--plan", "plan.csv", "--format", "labels", home=home)
    assert (done.returncode == 1 and done.stdout.splitlines()[-1].startswith("Nothing changed.")
            and "! leaf:" in done.stdout)
    assert load_inventory(home / "muster.yaml").nodes["gpu02"].leaf == ()
    # one differs
    assert muster("fabric", "map", "--plan", "plan.csv", "--format", "labels", "--apply",
                  home=home).returncode == 1
    nodes = load_inventory(home / "muster.yaml").nodes
    assert nodes["gpu01"].leaf == ("other",) and nodes["gpu06"].leaf == ("leaf005", "leaf006",
                                                                         "leaf007", "leaf008")


def test_slurm_has_a_switch_for_each_group_and_one_above() -> None:
    assert tree(hierarchy(rails())).splitlines()[1:] == [
        "# group001: leaves leaf[001-004]", "SwitchName=group001 Nodes=gpu[01-04]",
        "# group002: leaves leaf[005-008]",
        "SwitchName=group002 Nodes=gpu[05-08]", "SwitchName=fabric Switches=group[001-002]"]
    assert blocks(hierarchy(rails(hosts=6))).splitlines()[1:] == [
        "BlockName=group001 Nodes=gpu[01-04]", "BlockName=group002 Nodes=gpu[05-06]", "BlockSizes=2"]


def test_a_name_that_topology_conf_cannot_hold_is_refused() -> None:
    plan = plancsv.parse("device,port,device,port\ngpu 1=x,mlx5_0,leaf01,1\n", "p")
    with pytest.raises(UsageError, match="is no name that"):
        tree(hierarchy(plan))


def test_a_drawing_is_read_by_graphviz_and_says_each_state_in_a_word() -> None:
    plan = plancsv.parse('device,port,device,port\n"g""1\\",mlx5_0,leaf01,1\ngpu2,mlx5_0,leaf01,2\n', "p")
    text = dot(plan, {plan.cables[0]: CableState.MISSING, plan.cables[1]: CableState.AS_PLANNED})
    assert 'label="missing"' in text and 'style=dotted' in text and text.count(" -- ") == 2
    if shutil.which("dot") is None:
        pytest.skip("no Graphviz: apt-get install -y graphviz")
    done = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0 and not done.stderr and "missing" in done.stdout
