"""Sweeps of machines of which no one said what they are, over a real sshd with the real collector; and what
the inventory and the store know of GPUs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from healthcheck.judge.gpuless import GpuHistory
from healthcheck.store.file import NAME, opened
from healthcheck.store.readings import readings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.sweep.gpuhistory import known_of_gpus
from healthcheck.sweep.sweep import SweepPlan, _probe_set
from inventory.model import Node
from tests import packagedrules
from tests.command import muster
from tests.healthcheck import machine, plainhost
from tests.healthcheck.assessing import assessed
from tests.healthcheck.sweep.test_farm import OF_A_FARM
from tests.testbed.farm import UNLIKE, Farm, farm
from tests.testbed.require import require
from tests.testbed.sshd import SSHD

RULES = packagedrules.RULES
PLAIN = {
    "proc/modules": plainhost.MODULES, "sys/class/dmi/id/product_name": "PowerEdge R650\n",
    "sys/class/dmi/id/sys_vendor": "Dell Inc.\n",
    "sys/bus/pci/devices/0000:03:00.0/uevent": plainhost.DISPLAY,
}
GPUS = {
    f"sys/bus/pci/devices/"
    f"0000:{at:02x}:00.0/uevent": f"PCI_CLASS=30200\nPCI_ID=10DE:2330\nPCI_SLOT_NAME=0000:{at:02x}:00.0\n"
    for at in range(0x18, 0x20)}
RULES_OF_A_FARM = [word for glob in OF_A_FARM
                   for word in ("--only", glob)] + [word for glob in UNLIKE for word in ("--skip", glob)]


def put(tree: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)


def take(tree: Path, files: dict[str, str]) -> None:
    for path in files:
        shutil.rmtree((tree / path).parent)


class Site:
    """Four plain machines behind a real sshd, in an inventory that says nothing of them but how to reach
    them."""

    def __init__(self, folder: Path, running: Farm) -> None:
        self.folder = folder
        self.trees = {node.name: folder / node.name / "tree" for node in running.nodes}
        for tree in self.trees.values():
            put(tree, PLAIN)
        server = running.server
        put(folder,
            {".ssh/config": f"Host n*\n  HostName 127.0.0.1\n  Port {server.port}\n  User {server.user}\n  "
                            f"IdentityFile {server.user_key}\n"
                            f"  UserKnownHostsFile {server.known_hosts}\n"})
        nodes = {node.name: {"python": node.python} for node in running.nodes}
        (folder / "muster.yaml").write_text(json.dumps({"version": 1, "nodes": nodes}))

    def check(self, *words: str,
              rules: tuple[str, ...] = tuple(RULES_OF_A_FARM)) -> tuple[int, dict[str, Any]]:
        """The exit code, and each node's entry of the document."""
        done = muster("check", *words, *rules, "--state", str(self.folder / "state"), "--format", "json",
                      home=self.folder)
        assert done.stdout, done.stderr
        return done.returncode, {node["node"]: node for node in json.loads(done.stdout)["nodes"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    return tmp_path


def test_plain_machines_that_no_one_declared_are_healthy_and_a_replay_says_the_same(folder: Path) -> None:
    with farm(folder, nodes=2, dead=0) as running:
        site = Site(folder, running)
        code, nodes = site.check("--store", "--save", "saved")
        assert {(node["state"], node["sku"])
                for node in nodes.values()} == {("healthy", "cpu-only")} and code == 0
        assert all(node["sku_basis"].startswith("without GPUs by what it shows: ") for node in nodes.values())
        again = muster("check", "--replay", "saved", "--format", "json", home=folder)
        assert {node["node"]: node for node in json.loads(again.stdout)["nodes"]} == nodes
        shown = muster("check", *RULES_OF_A_FARM, "--state", str(folder / "state"), home=folder).stdout
        assert "n[0001-0002] judged as cpu-only, without GPUs by what it shows" in " ".join(shown.split())
        site.check("--store", rules=())     # the page shows what all rules were judged by
        page = muster("report", "--format", "json", "--state", str(folder / "state"), home=folder)
        assert "cpu-only (by what it shows)" in page.stdout, page.stderr


def test_a_node_alone_of_its_equals_is_unknown_until_they_are_asked_with_it(folder: Path) -> None:
    with farm(folder, nodes=4, dead=0) as running:
        site = Site(folder, running)
        code, nodes = site.check("n0001")
        assert (code, nodes["n0001"]["state"]) == (3, "unknown")
        assert "n[0002-0004] none answered in this sweep" in nodes["n0001"]["sku_basis"]
        assert {node["state"] for node in site.check("n[0001-0002]")[1].values()} == {"healthy"}


def test_gpus_that_left_the_bus_are_remembered_and_no_sweep_calls_the_host_or_its_equals_healthy(
        folder: Path) -> None:
    with farm(folder, nodes=3, dead=0) as running:
        site = Site(folder, running)
        put(site.trees["n0003"], GPUS)
        _, nodes = site.check()
        assert "of its equals (by name) n0003: it has 8 GPUs on PCI" in nodes["n0001"]["sku_basis"]
        take(site.trees["n0003"], GPUS)
        for _ in range(2):
            code, nodes = site.check()
            assert {node["state"] for node in nodes.values()} == {"unknown"} and code == 3
            assert nodes["n0003"]["sku_basis"].endswith(
                "an earlier snapshot of it had 8 GPUs on PCI (10de:2330)")
        (folder / "muster.yaml").write_text((folder / "muster.yaml").read_text().replace(
            '"nodes"', '"defaults": {"sku": "cpu-only"}, "nodes"'))
        code, nodes = site.check()
        assert ({node["state"] for node in nodes.values()} == {"healthy"}
                and not any("sku_basis" in node for node in nodes.values()))


def test_a_host_with_its_gpus_driver_on_disk_is_unknown_even_where_few_rules_are_judged(folder: Path) -> None:
    with farm(folder, nodes=2, dead=0) as running:
        site = Site(folder, running)
        put(site.trees["n0002"], {"usr/src/nvidia-550.54.15/dkms.conf": "PACKAGE_NAME=nvidia\n"})
        _, nodes = site.check(rules=("--only", "gpu-count", "--only", "host-swap"))
        assert ("a GPU driver's files are installed (/usr/src/nvidia-550.54.15/dkms.conf)"
                in nodes["n0002"]["sku_basis"])
        assert {node["state"] for node in nodes.values()} == {"unknown"}
        take(site.trees["n0002"], {"usr/src/nvidia-550.54.15/dkms.conf": ""})
        assert {node["state"] for node in site.check(rules=("--only", "gpu-count", "--only",
                                                            "host-swap"))[1].values()} == {"healthy"}


def test_what_proves_it_is_asked_only_where_a_node_has_no_sku() -> None:
    def ids(**more: Any) -> set[str]:
        plan = SweepPlan((Node("n1", sku=more.pop("sku", None)),), RULES.select(("host-swap",)),
                         more.pop("default", None), **more)
        return {probe.id for probe in _probe_set(plan, 10.0, None).probes}

    assert (ids() == ids(sku="hgx-h100", gpu_history=GpuHistory()) == ids(default="hgx-h100",
                                                                          gpu_history=GpuHistory())
            == {"host.swap"})
    assert ids(gpu_history=GpuHistory()) > {"gpu.installed", "gpu.pci", "host.firmware", "module.loaded",
                                            "driver.module"}


NODES = (Node("node1"), Node("node2", sku="hgx-h100"), Node("node3", sku="cpu-only"), Node("login1"),
         Node("store1", sku="gone"), Node("store2"))


def test_what_the_inventory_says_of_equals_is_known_without_a_store(tmp_path: Path) -> None:
    found = known_of_gpus(NODES, RULES.skus, tmp_path)
    assert found == GpuHistory({"node2": "the inventory names the SKU hgx-h100 for it",
                                "store1": "the inventory names the SKU gone for it"},
                               undeclared=frozenset({"node1", "login1", "store2"}))
    assert not (tmp_path / NAME).exists()


def test_the_store_knows_gpus_that_are_gone_by_their_node_and_its_machine(tmp_path: Path) -> None:
    gone = {"gpu_nvml": machine.nvml(0), "gpu_pci": machine.pci(0)}
    with opened(tmp_path, make=True) as store:
        for time, changes in enumerate(({}, gone, gone)):
            seen = machine.recording("node1", host_firmware=plainhost.names(product_serial="S1"), **changes)
            found = assessed(replace(seen, received=1000.0 + time), sku="hgx-h100" if time < 1 else None)
            record(store, SweepRecord(time * 10.0, time * 10.0 + 1, False, "test", "d"), found.reports,
                   {"node1": readings(seen)})
    found = known_of_gpus(NODES, RULES.skus, tmp_path)
    assert (found.names["node1"] == "the store has serial numbers of its GPUs"
            and "node1" in found.machines.values())
    renamed = known_of_gpus((Node("login9"),), RULES.skus, tmp_path)
    assert "node1" not in renamed.names and set(renamed.machines.values()) == {"node1"}


def test_a_sku_in_the_store_speaks_after_it_was_taken_out_of_the_inventory(tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        record(store, SweepRecord(1.0, 2.0, False, "test", "d"),
               assessed(plainhost.recording("login1")).reports)
    assert known_of_gpus(NODES, RULES.skus, tmp_path).names["login1"] == "the store has it as hgx-h100"


def test_a_store_that_is_none_leaves_open_what_it_knows(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("no database")
    assert "the store was not read, which may know its GPUs (" in known_of_gpus(NODES, RULES.skus,
                                                                                tmp_path).unread
