"""`muster inventory` as it is typed: output, pipes, exit codes, and one line for every mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from inventory.cli.inventory import inventory
from inventory.cli.show import SKUS
from tests import forked

FILE = """\
version: 1
defaults: {user: muster, sku: hgx-h100}
groups: {train: "gpu[001-006]", spares: "gpu[007-008]"}
nodes:
  gpu[001-004]: {rack: r01, leaf: [leaf01, leaf02], labels: {zone: a}}
  gpu[005-008]: {rack: r02, ports: {18:00.0: {rail: 0}}}
  gpu007: {address: 10.1.0.7, lifecycle: {state: rma, owner: vendor, until: 2026-01-01}}
"""


@pytest.fixture(autouse=True)
def _file(folder: Path) -> None:
    Path("muster.yaml").write_text(FILE)


def muster(*words: str) -> subprocess.CompletedProcess[str]:
    """The real command, in a process of its own."""
    return forked.run(["muster", "inventory", *words], cwd=Path.cwd(), env=dict(os.environ), timeout=60)


def printed(*words: str) -> str:
    result = CliRunner().invoke(inventory, list(words), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_check_counts_what_a_right_file_holds_and_notes_dates_that_have_passed() -> None:
    assert printed("check") == (
        "muster.yaml: OK, 8 nodes, 2 groups\n"
        "  lifecycle  7 service, 1 rma\n"
        "  sku        8 hgx-h100 (names not checked)\n"
        "  rack       4 r01, 4 r02\n"
        "  ssh        8 by muster itself\n"
        "  note: lifecycle rma is overdue: gpu007\n"
    )


def test_check_of_a_wrong_file_is_one_line_on_standard_error_and_exit_2() -> None:
    Path("muster.yaml").write_text(FILE.replace("rack: r02", "rak: r02"))
    result = muster("check")
    assert (result.returncode, result.stdout) == (2, "")
    assert (result.stderr == "muster: muster.yaml:6:18: unknown key 'rak' in an entry for nodes; did you "
                             "mean rack?\n")


@pytest.mark.parametrize("name", ["absent.yaml", "."])
def test_a_file_that_cannot_be_read_is_one_line_and_exit_2(name: str) -> None:
    result = muster("check", "-i", name)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(f"muster: {name}: ")


def test_without_any_inventory_the_line_says_how_to_name_one() -> None:
    if Path("/etc/muster/muster.yaml").exists():
        pytest.skip("this machine has an inventory of its own")
    Path("muster.yaml").unlink()
    result = muster("nodes")
    assert result.returncode == 2
    assert result.stderr.startswith("muster: no inventory found: name one with --inventory FILE")
    assert len(result.stderr.splitlines()) == 1


def test_sku_names_are_checked_where_the_root_command_knows_them() -> None:
    @click.group()
    def root() -> None:
        click.get_current_context().meta[SKUS] = lambda: {"hgx-h100"}

    root.add_command(inventory)
    result = CliRunner().invoke(root, ["inventory", "check"], catch_exceptions=False)
    assert "  sku        8 hgx-h100\n" in result.output
    Path("muster.yaml").write_text(FILE.replace("hgx-h100", "hgx-h10"))
    assert "undefined SKU 'hgx-h10'; did you mean hgx-h100?" in str(
        CliRunner().invoke(root, ["inventory", "check"]).exception)


def test_show_names_the_line_of_each_value() -> None:
    lines = [line.split() for line in printed("show", "gpu007").splitlines()]
    assert lines[0] == ["gpu007", "in", "@spares"]
    assert ["address", "10.1.0.7", "muster.yaml:7:12"] in lines
    assert ["rack", "r02", "muster.yaml:6:18"] in lines
    assert ["user", "muster", "muster.yaml:2:12"] in lines
    assert ["privilege", "unprivileged", "default"] in lines
    assert ["ports.0000:18:00.0", "rail", "0", "muster.yaml:6:37"] in lines
    assert lines[-2:] == [["ssh:", "muster@10.1.0.7", "port", "22"], ["ssh:", "by", "muster", "itself"]]


def test_show_says_how_ssh_config_bends_the_way(folder: Path) -> None:
    (folder / ".ssh").mkdir()
    (folder / ".ssh/config").write_text(
        "Host gpu*\n  Port 2222\n  User other\n  HostName %h.cluster\n  ProxyJump bastion\n")
    assert "ssh: muster@gpu001.cluster port 2222 through bastion" in muster("show", "gpu001").stdout


def test_show_of_a_node_still_works_when_ssh_config_is_broken(folder: Path) -> None:
    (folder / ".ssh").mkdir()
    (folder / ".ssh/config").write_text("Port nonsense\n")
    result = muster("show", "gpu001")
    assert result.returncode == 0
    assert f"ssh: {folder}/.ssh/config:1:1: Port is 'nonsense'" in result.stdout


def test_show_as_json_holds_values_and_places() -> None:
    document = json.loads(printed("show", "gpu007", "--format", "json"))
    assert document["schema"] == "muster.node/1"
    assert (document["node"], document["groups"]) == ("gpu007", ["spares"])
    assert document["values"]["lifecycle"]["value"] == {"state": "rma", "owner": "vendor",
                                                        "until": "2026-01-01"}
    assert document["values"]["rack"] == {"value": "r02",
                                          "from": {"file": "muster.yaml", "line": 6, "column": 18}}
    assert document["values"]["python"] == {"value": "python3", "from": None}
    assert document["values"]["bmc"] == {"value": None, "from": None}


@pytest.mark.parametrize(("words", "output"), [
    ((), "gpu[001-008]\n"),
    (("@train!gpu[002-004]",), "gpu[001,005-006]\n"),
    (("gpu00[7-8]", "--expand"), "gpu007\ngpu008\n"),
    (("--group", "spares", "--expand"), "gpu007\ngpu008\n"),
    (("gpu00[5-8]", "--group", "@train"), "gpu[005-006]\n"),
    (("gpu001", "--group", "spares"), ""),
    (("*7",), "gpu007\n"),
])
def test_nodes_prints_what_a_node_set_names(words: tuple[str, ...], output: str) -> None:
    assert printed("nodes", *words) == output


def test_nodes_as_json_is_a_list_of_nodes_with_their_values() -> None:
    found = json.loads(printed("nodes", "@spares", "--format", "json"))
    assert [(node["node"], node["lifecycle"]["state"], node["rack"]) for node in found] == [
        ("gpu007", "rma", "r02"), ("gpu008", "service", "r02"),
    ]


@pytest.mark.parametrize(("words", "said"), [
    (("show", "gpu07"), "muster.yaml has no node gpu07; did you mean gpu007?"),
    (("show", "train"), "did you mean the group @train?"),
    (("show", "@train"), "@train names 6 nodes, expected one"),
    (("nodes", "gpu[1-"), "a bracket is not closed"),
    (("nodes", "@trian"), "did you mean @train?"),
    (("nodes", "--group", "spare"), "did you mean @spares?"),
])
def test_a_mistake_on_the_command_line_is_one_line_and_exit_2(words: tuple[str, ...], said: str) -> None:
    result = muster(*words)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_reader_that_leaves_early_causes_no_noise() -> None:
    Path("muster.yaml").write_text("version: 1\nnodes: {'n[1-20000]': }\n")
    program = (f"{sys.executable} -c 'from healthcheck.cli.main import main; main()' inventory nodes "
               "--expand | head -1")
    result = subprocess.run(
        ["sh", "-c", program], capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert (result.stdout, result.stderr) == ("n1\n", "")


@pytest.mark.parametrize("words", [(), ("check",), ("show",), ("nodes",)])
def test_help_teaches_by_example(words: tuple[str, ...]) -> None:
    output = printed(*words, "--help")
    assert ("gpu[001-512]: {rack: r01" if not words else f"muster inventory {words[0]}") in output
