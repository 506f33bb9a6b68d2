"""`muster inventory labels`: over SSH from demo nodes with a recorded lldpctl, from saved outputs, and from a
stand-in for MAAS."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from inventory.load import load_inventory
from inventory.model import PortPlan
from provisioning.demo.fleet import DemoFleet
from tests.command import muster
from tests.documents import validate
from tests.healthcheck.help.pages import FOLDER, blocks
from tests.testbed.maas import KEY, READY, Hardware, Maas, script_set, serving
from tests.testbed.memory import base_in_memory
from tests.testbed.planted import executable, private
from tests.testbed.require import require_fleet

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings" / "lldp"
YAML = """version: 1
groups: {new: "gpu[001-003]"}
nodes:
  gpu[001-003]: {lifecycle: planned}    # delivered in one truck
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "muster.yaml").write_text(YAML)
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    (outputs / "gpu001.xml").write_text((RECORDINGS / "many.xml").read_text())
    (outputs / "gpu002.json").write_text((RECORDINGS / "none.json").read_text())
    return tmp_path


def labels(home: Path, *words: str) -> CompletedProcess[str]:
    done = muster("inventory", "labels", *words, home=home)
    assert "Traceback" not in done.stderr and KEY.rpartition(":")[2] not in done.stdout + done.stderr
    return done


def document(home: Path, *words: str) -> dict[str, Any]:
    done = labels(home, *words, "--format", "json")
    found: dict[str, Any] = json.loads(done.stdout)
    validate(found, "labels-1")
    assert found["exit"] == done.returncode
    return found


def test_saved_outputs_are_shown_with_their_evidence_and_change_nothing(home: Path) -> None:
    done = labels(home, "gpu[001-002]", "--saved", "outputs", "--leaf", "leaf*", "--rack", "tor-*")
    assert done.returncode == 1 and done.stdout.splitlines() == [
        "gpu001:", "  + rack: r07", "      outputs/gpu001.xml: eno1 leads to tor-r07 swp7",
        "  + leaf: [leaf01, leaf02.dc1.example.com]",
        "      outputs/gpu001.xml: leaf01 at ens1f0 Ethernet1; leaf02.dc1.example.com at ens2f0 Ethernet4",
        "2 nodes: 2 new",
        "Nothing changed. Run again with --apply to write what is new (+)."]
    assert (home / "muster.yaml").read_text() == YAML


def test_the_topic_shows_what_is_printed(home: Path) -> None:
    block = next(text for language, text in blocks(FOLDER / "discover.md") if language == "console"
                 and "inventory labels" in text)
    typed, _, shown = block.removeprefix("$ ").partition("\n")
    assert labels(home, *shlex.split(typed)[3:]).stdout == shown


def test_apply_writes_what_is_new_keeps_comments_and_has_nothing_to_do_the_second_time(home: Path) -> None:
    words = ("gpu001", "--saved", "outputs", "--leaf", "leaf*", "--rack", "tor-*")
    done = labels(home, *words, "--apply")
    assert (done.returncode == 0
            and "+  gpu001: {rack: r07, leaf: [leaf01, leaf02.dc1.example.com]}" in done.stdout)
    assert done.stdout.endswith("muster.yaml: written\n")
    assert ((home / "muster.yaml").read_text()
            == YAML + "  gpu001: {rack: r07, leaf: [leaf01, leaf02.dc1.example.com]}\n")
    again = labels(home, *words, "--apply")
    assert (again.returncode, again.stdout) == (0, "1 node: 2 as it is\n")


def test_json_says_the_same_and_apply_with_it_prints_the_document_alone(home: Path) -> None:
    words = ("gpu001", "--saved", "outputs", "--leaf", "leaf*")
    found = document(home, *words)
    assert [(one["key"], one["value"], one["state"]) for one in found["proposals"]] == [
        ("leaf", ["leaf01", "leaf02.dc1.example.com"], "new")] and not found["applied"]
    assert [one["port"] for one in found["nodes"][0]["neighbours"]] == ["Ethernet1", "Ethernet4", "swp7",
                                                                        "eth0", "eth0"]
    assert (document(home, *words, "--apply")["applied"]
            and load_inventory(home / "muster.yaml").nodes["gpu001"].leaf[0] == "leaf01")


def test_what_differs_is_shown_and_left(home: Path) -> None:
    text = YAML + "  gpu001: {rack: r99, leaf: leaf01}\n"
    (home / "muster.yaml").write_text(text)
    done = labels(home, "gpu001", "--saved", "outputs", "--leaf", "leaf*", "--rack", "tor-*", "--apply")
    assert done.returncode == 1 and "  ! rack: r07, the inventory says r99\n" in done.stdout
    assert ("  ! leaf: [leaf01, leaf02.dc1.example.com], the inventory says leaf01\n" in done.stdout
            and "(!) is left" in done.stdout)
    assert (home / "muster.yaml").read_text() == text


def test_a_node_without_an_output_or_with_a_broken_one_is_not_read(home: Path) -> None:
    (home / "outputs" / "gpu002.json").write_text("\x1b[2Jno json")
    done = labels(home, "gpu[002-003]", "--saved", "outputs")
    assert done.returncode == 3 and "gpu002: not read: outputs/gpu002.json: no JSON of lldpctl" in done.stdout
    assert ("gpu003: not read: outputs has none of gpu003.json, gpu003.json0, gpu003.xml" in done.stdout
            and "\x1b" not in done.stdout)


@pytest.mark.parametrize(("words", "said"), [
    (("--saved", "nowhere"), "--saved nowhere: is no folder"),
    (("--saved", "outputs", "--rack", "tor"), "expected a name with one *"),
    (("--saved", "outputs", "--from-maas", "https://m"), "exclude each other"),
    (("--from-maas", "https://m"), "--from-maas needs --key"),
    (("--key", "x"), "--from-maas needs --key"), (("--ca", "x"), "--ca needs --from-maas"),
    (("gpu9", "--saved", "outputs"), "gpu9"),
    (("--from-maas", "http://192.0.2.1/MAAS", "--key", "x"), "cleartext"),
])
def test_what_cannot_be_meant_is_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    done = labels(home, *words)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""


# What 50-maas-01-commissioning prints of cards, as canonical/maas has it in
# src/maasserver/testing/commissioning.py.
RESOURCES = {"api_extensions": ["resources"], "resources": {"network": {"total": 3, "cards": [
    {"pci_address": f"0000:{bus}:00.0", "vendor": "Mellanox", "driver": "mlx5_core",
     "numa_node": 0, "ports": [
         {"id": name, "port": 0, "address": "00:00:5e:00:53:01", "protocol": "ethernet",
          "link_detected": True}]}
    for name, bus in (("ens1f0", "18"), ("ens2f0", "29"), ("eno1", "5e"))]}}}


@pytest.fixture
def maas(home: Path) -> Iterator[Maas]:
    private(home / "maas.key", KEY + "\n")
    with serving(Maas(), home) as bed:
        bed.enlist("abc001", "amused-cat", Hardware("SN1", power_address="10.2.0.1"), READY,
                   tag_names=["gpu", "rack-r07"],
                   zone={"name": "room-b"}, pool={"name": "train"})
        bed.enlist("abc002", "gpu002", Hardware("SN2"), READY)
        bed.results["abc001"] = [
            script_set(7, "Commissioning",
                       {"maas-capture-lldpd": b"<lldp/>", "50-maas-01-commissioning": b"{}"}),
            script_set(9, "Commissioning", {"maas-capture-lldpd": (RECORDINGS / "many.xml").read_bytes(),
                                            "50-maas-01-commissioning": json.dumps(RESOURCES).encode()}),
            script_set(11, "Testing", {"smartctl-validate": b"fine"})]
        bed.results["abc002"] = [script_set(8, "Commissioning",
                                            {"99-maas-02-capture-lldp": b"<!DOCTYPE lldp><lldp/>"})]
        yield bed


def from_maas(bed: Maas) -> tuple[str, ...]:
    return ("--from-maas", bed.url, "--key", "maas.key", "--ca", "maas-authority.pem")


def test_what_maas_commissioned_gives_rack_leaves_ports_and_places(home: Path, maas: Maas) -> None:
    (home / "muster.yaml").write_text(
        'version: 1\nnodes:\n  gpu[001-003]: {ports: {"0000:18:00.0": {role: compute, rail: 0}, '
        '"0000:29:00.0": {role: compute, rail: 1}}}  # as wired\n'
        "  gpu001: {labels: {serial: SN1}}\n")
    done = labels(home, *from_maas(maas), "--rack", "tor-*", "--apply")
    assert done.returncode == 3, done
    node = load_inventory(home / "muster.yaml").nodes["gpu001"]
    assert (node.rack == "r07" and node.leaf == ("leaf01", "leaf02.dc1.example.com")
            and node.labels == {"serial": "SN1", "zone": "room-b", "pool": "train"})
    assert node.ports == {"0000:18:00.0": PortPlan("compute", 0, "leaf01"),
                          "0000:29:00.0": PortPlan("compute", 1, "leaf02.dc1.example.com")}
    assert "# as wired" in (home / "muster.yaml").read_text()
    assert ("MAAS: tag rack-r07 of amused-cat (abc001)" in done.stdout
            and "  + labels.zone: room-b\n      MAAS: zone of amused-cat (abc001)" in done.stdout)
    assert ("gpu002: not read: the output of lldpctl in MAAS: XML with a document type "
            "of its own") in done.stdout
    assert "gpu003: not read: MAAS does not have this machine" in done.stdout
    assert not [seen for seen in maas.seen if seen[0] != "GET"]


def test_a_maas_that_does_not_accept_the_key_leaves_every_node_unread(home: Path, maas: Maas) -> None:
    maas.keys.clear()
    done = labels(home, "gpu[001-002]", *from_maas(maas))
    assert done.returncode == 3 and done.stdout.count("does not accept the API key (401)") == 2


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[DemoFleet]:
    require_fleet()
    with DemoFleet(base=base_in_memory(tmp_path),
                   planted={"gpu001": [], "gpu002": [], "gpu003": []}) as running:
        yield running


def test_over_ssh_each_node_says_which_switch_is_at_which_of_its_ports(fleet: DemoFleet) -> None:
    home = fleet.folder
    there = {f"eno{number}": Path(home / "gpu001" / "tree" / "sys/class/net" / f"eno{number}"
                                  / "device").resolve().name for number in (1, 2)}
    said = (RECORDINGS / "many.json0").read_text().replace("ens1f0",
                                                           "eno8").replace("ens2f0",
                                                                           "eno9").replace('"eno1"', '"eno0"')
    for name, mine in (("gpu001", "eno8"), ("gpu002", "eno9")):
        # Either node has one of the two switches at its first interface, and the rest elsewhere.
        executable(home / name / "tree" / "usr/bin" / "lldpctl",
                   f"#!/bin/sh\n[ \"$*\" = '-f json0' ] || exit 64\ncat <<'END'\n{_only(said, mine)}\nEND\n")
    # Whatever this machine has installed.
    executable(home / "gpu003" / "tree" / "usr/bin" / "lldpctl",
               "#!/bin/sh\necho 'unable to connect' >&2\nexit 1\n")
    text = fleet.inventory.read_text()
    (home / "muster.yaml").write_text(text.replace("  ports:\n",
                                                   f'  ports:\n    "{there["eno1"]}": {{role: storage}}\n'))
    done = labels(home, "--inventory", str(home / "muster.yaml"), "--leaf", "leaf*")
    # The demo's nodes are all at leaf01, by their inventory.
    assert (f"gpu001:\n  + ports.{there['eno1']}.leaf: leaf01\n      lldpctl: eno1 leads to leaf01 "
            f"Ethernet1\n") in done.stdout, done
    assert "gpu002:\n  ! leaf: leaf02.dc1.example.com, the inventory says leaf01\n" in done.stdout
    assert "      lldpctl: leaf02.dc1.example.com at eno1 Ethernet4\n" in done.stdout
    assert ("gpu003: not read: lldpctl ended with exit status 1: unable to connect" in done.stdout
            and done.returncode == 1)
    assert (home / "muster.yaml").read_text().count("leaf01") == text.count("leaf01")


def _only(said: str, interface: str) -> str:
    """The output of a node whose eno1 has the neighbour that the recorded one has at this interface."""
    document = json.loads(said)
    document["lldp"][0]["interface"] = [{**one, "name": "eno1"} for one in document["lldp"][0]["interface"]
                                        if one["name"] == interface]
    return json.dumps(document)
