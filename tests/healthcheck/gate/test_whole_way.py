"""From what the head knows to a job that starts or does not: the real commands, on a head and on a node,
that share a folder."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from healthcheck.facts.components import hardware_of
from healthcheck.model.outcome import NodeReport, Result, Severity, Status, state_of
from healthcheck.model.recording import Recording
from healthcheck.store.file import opened
from healthcheck.store.readings import readings
from healthcheck.store.sweeps import SweepRecord, record
from tests.command import muster
from tests.healthcheck import machine
from tests.healthcheck.certify.world import NAMESPACES, Passed, issue, load_keys, new_key
from tests.testbed.ports import free_port

NODES = ("gpu001", "gpu002", "gpu003", "gpu004")
INVENTORY = """\
version: 1
nodes:
  gpu[001-004]: {leaf: [leaf01], sku: hgx-h100}
groups: {train: "gpu[001-004]"}
"""


class World:
    """A head with an inventory, a store and keys; a node's folders; and a folder that both see."""

    def __init__(self, home: Path) -> None:
        self.home, self.state = home, home / "state"
        self.shared, self.kept, self.keys = home / "shared", home / "kept", home / "gate.pub"
        self.shared.mkdir()
        (home / "muster.yaml").write_text(INVENTORY)
        self.now = time.time()
        new_key(self.state, "alpha", "test", self.now)
        self.keys.write_bytes(
            "".join(key.public.line(NAMESPACES) for key in load_keys(self.state).trusted).encode())
        self.sweep()
        issue(self.state, [Passed(name, "standard", int(self.now), boot="b1") for name in NODES],
              {name: hardware_of(self.look(name)).hardware for name in NODES}, self.now)

    def look(self, name: str, **gpu: object) -> Recording:
        """One look at a node; `gpu` are readings of its third GPU."""
        changed = ({"gpu.nvml": machine.nvml(gpu3={key: {"ok": value} for key, value in gpu.items()})} if gpu
                   else {})
        found = machine.on_host(machine.recording(name, **changed), boot_id="b1")
        return dataclasses.replace(found, received=self.now)

    def sweep(self, **odd: dict[str, object]) -> None:
        """What a sweep writes into the store."""
        result = Result("gpu-count", "gpu.count", Status.PASS, Severity.CRITICAL)
        self.now += 0.001
        with opened(self.state, make=True) as store:
            record(store, SweepRecord(self.now, self.now, False, "test", "d"),
                   [NodeReport(name, state_of([result]), "", (result,)) for name in NODES],
                   {name: readings(self.look(name, **odd.get(name, {}))) for name in NODES})

    def head(self, *words: str) -> subprocess.CompletedProcess[str]:
        return muster(*words, home=self.home)

    def publish(self) -> None:
        done = self.head("gate", "publish", "--to", str(self.shared))
        assert done.returncode == 0, done
        done = self.node("fetch", str(self.shared))
        assert done.returncode == 0, done

    def node(self, *words: str) -> subprocess.CompletedProcess[str]:
        return muster("gate", *words, home=self.home, MUSTER_GATE=str(self.kept),
                      MUSTER_GATE_KEYS=str(self.keys))

    def opens(self, nodes: str = "@train") -> bool:
        """Whether the gate opens on the node; it says nothing else than that it does, or is closed."""
        done = self.node(nodes)
        assert done.returncode in (0, 1), done
        return done.returncode == 0


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.publish()
    return made


def test_certified_nodes_open_and_an_older_snapshot_that_is_put_back_closes(
    world: World, tmp_path: Path,
) -> None:
    assert world.opens()
    shutil.copytree(world.kept / "current", tmp_path / "older")
    world.publish()
    assert world.opens()
    older = tmp_path / "older"
    for name in ("gate.json", "gate.json.sig"):
        (world.kept / "current" / name).write_bytes((older / name).read_bytes())
    done = world.node("@train")
    assert done.returncode == 1 and "an older snapshot was restored" in done.stdout


def test_a_node_in_rma_closes(world: World) -> None:
    away = "  gpu002: {lifecycle: {state: rma, owner: vendor, until: 2099-12-01}}\n"
    (world.home / "muster.yaml").write_text(INVENTORY.replace("groups:", f"{away}groups:"))
    world.publish()
    done = world.node("@train")
    assert done.returncode == 1 and "gpu002: not in service: rma" in done.stdout
    assert world.opens("gpu001,gpu003")


def test_a_revoked_certificate_closes(world: World) -> None:
    done = world.head("certificate", "revoke", "gpu003", "--reason", "summed wrongly")
    assert done.returncode == 0, done
    world.publish()
    done = world.node("@train")
    assert done.returncode == 1 and "gpu003: its certificate was revoked: summed wrongly" in done.stdout


def test_another_gpu_than_was_proven_closes(world: World) -> None:
    world.sweep(gpu004={"uuid": "GPU-another", "serial": "1650000000001"})
    world.publish()
    done = world.node("@train")
    assert (done.returncode == 1 and "gpu004: must requalify: another component than was proven: gpu "
            in done.stdout)


def test_without_head_exporter_and_shared_folder_the_gate_opens_by_what_was_kept(world: World) -> None:
    shutil.rmtree(world.shared)
    shutil.rmtree(world.state)
    (world.home / "muster.yaml").unlink()
    for source in (str(world.shared), f"http://127.0.0.1:{free_port()}/gate"):
        done = world.node("fetch", source)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done
        assert world.opens()


def test_a_locked_store_and_one_that_is_broken_take_no_snapshot_away(world: World) -> None:
    held = sqlite3.connect(world.state / "muster.db")
    held.execute("BEGIN EXCLUSIVE")
    try:
        done = world.head("gate", "publish", "--to", str(world.shared))
        assert done.returncode in (0, 2) and "Traceback" not in done.stderr, done
    finally:
        held.close()
    assert world.node("fetch", str(world.shared)).returncode == 0
    assert world.opens()


@pytest.mark.parametrize("gone", [True, False])
def test_without_a_store_it_is_published_what_was_known_and_what_people_did_since(
    world: World, gone: bool,
) -> None:
    if gone:
        (world.state / "muster.db").unlink()
    else:
        (world.state / "muster.db").write_bytes(b"no database" * 999)
    before = json.loads((world.kept / "current" / "gate.json").read_bytes())
    for _ in range(2):
        done = world.head("gate", "publish", "--to", str(world.shared))
        assert done.returncode == 0 and "published without the store" in done.stderr, done
        assert ("there is no store yet" if gone else "is damaged") in done.stderr
    assert world.node("fetch", str(world.shared)).returncode == 0
    after = json.loads((world.kept / "current" / "gate.json").read_bytes())
    # States and looks are no newer than they were: they age.
    assert after["nodes"] == before["nodes"] and after["serial"] > before["serial"] and world.opens()
    away = "  gpu002: {lifecycle: {state: rma, owner: vendor, until: 2099-12-01}}\n"
    (world.home / "muster.yaml").write_text(INVENTORY.replace("groups:", f"{away}groups:"))
    if not gone:
        done = world.head("cordon", "gpu003", "--reason", "smoke", "--hostfile", str(world.home / "bad"))
        assert done.returncode == 0, done
    world.publish()
    done = world.node("@train")
    assert done.returncode == 1 and "gpu002: not in service: rma" in done.stdout
    assert ("gpu003" in done.stdout and "smoke" in done.stdout) is not gone
    assert world.opens("gpu001,gpu004")
