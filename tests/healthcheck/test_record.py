"""`muster record` as it is typed, and `muster check --replay FILE` of what it wrote."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from healthcheck.model.recording import from_json, to_json
from healthcheck.report.progress import progress
from healthcheck.scrub import scrub
from healthcheck.sweep import saved, sweep
from healthcheck.sweep.snapshots import KeptSnapshots
from healthcheck.sweep.sweep import SweepPlan
from inventory.errors import UsageError
from inventory.load import load_inventory
from inventory.sshconfig import SshConfig
from inventory.transport.ssh import SshTransport
from provisioning.demo.faults import FAULTS
from provisioning.demo.fleet import DemoFleet
from tests.command import muster
from tests.healthcheck import machine
from tests.healthcheck.sweep.test_saved import snapshot
from tests.healthcheck.test_scrub import DEMO, KEY, assert_judged_alike
from tests.packagedrules import RULES
from tests.testbed.memory import base_in_memory
from tests.testbed.require import require_fleet
from tests.tries import WHOLE

# Faults that cost a minute each are left out where they say no more than `refused`: nothing was reached.
PLANTED = {f"gpu{at:03d}": (fault,)
           for at, fault in enumerate(sorted(set(FAULTS) - {"silent", "login-hangs"}), 1)}


def named(fault: str) -> str:
    return next(name for name, planted in PLANTED.items() if planted == (fault,))


# The faults that a test asks for by name; the slow tier has a node of each.
FEW = [named(fault) for fault in ("refused", "ecc-uncorrectable", "link-flapping")]
ALL = pytest.param(sorted(PLANTED), id="all", marks=[pytest.mark.slow, pytest.mark.timeout(600)])


@pytest.fixture(scope="module", params=[pytest.param(FEW, id="few"), ALL])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoFleet]:
    require_fleet()
    with DemoFleet(base=base_in_memory(tmp_path_factory.mktemp("base")),
                   planted={"gpu000": (), **{name: PLANTED[name] for name in request.param}}) as running:
        yield running


def nodes_of(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)["nodes"]
    return found


def told(node: dict[str, Any]) -> dict[str, tuple[str, int]]:
    return {result["rule"]: (result["status"], len(result["findings"])) for result in node["results"]}


def test_a_live_node_with_any_planted_fault_is_judged_the_same_after_scrubbing(
    fleet: DemoFleet, tmp_path: Path,
) -> None:
    refused, flapping = named("refused"), named("link-flapping")
    nodes = tuple(node for node in load_inventory(fleet.inventory, RULES.skus)
                  if WHOLE or node.name in (refused, flapping))
    looks, plan, transport = (KeptSnapshots(tmp_path / "state"), SweepPlan(nodes, RULES),
                              SshTransport(SshConfig.parse("")))
    for name in ("first", "second"):
        saver = saved.Saver(tmp_path / name)
        sweep.live(plan, transport, replace(sweep.limits(60, 32), twice=False), progress(0, "", quiet=True),
                   snapshots=looks,
                   saver=saver)
        fleet.advance()
    manifest = saved.load_manifest(tmp_path / "second")
    failed = set()
    for look, previous in saved.recordings(tmp_path / "second", manifest):
        node = next(node for node in nodes if node.name == look.node)
        made = scrub(look, node, previous=previous, key=KEY, hosts=[node.name for node in nodes])
        assert_judged_alike(look, node, previous, made)
        failed.add(look.node) if look.failure else None
        text = json.dumps(to_json(made.recording))
        assert look.node not in text
        assert look.host is None or look.host.boot_id not in text
    assert refused in failed and flapping not in failed


def test_a_recording_of_a_node_is_private_names_no_one_and_replays_as_the_live_look(
    fleet: DemoFleet, tmp_path: Path,
) -> None:
    name = named("ecc-uncorrectable")
    done = muster("record", name, "-i", str(fleet.inventory), "-o", "out.json", home=tmp_path)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert (done.stdout.startswith("written: out.json, ") and "8 GPU UUIDs" in done.stdout
            and "Check what was kept before you publish the file" in done.stdout)
    path = tmp_path / "out.json"
    assert path.stat().st_mode & 0o777 == 0o600 and not (tmp_path / "state").exists()
    text = path.read_text()
    assert name not in text and str(fleet.folder) not in text and from_json(json.loads(text)).node == "node1"
    before = snapshot(tmp_path)
    again = muster("check", "--replay", "out.json", "--format", "json", "--full", home=tmp_path)
    assert snapshot(tmp_path) == before and again.stderr == ""
    live = muster("check", name, "-i", str(fleet.inventory), "--format", "json", "--full", home=tmp_path)
    assert ((again.returncode, told(nodes_of(again.stdout)[0]))
            == (live.returncode, told(nodes_of(live.stdout)[0])) and live.returncode == 1)
    page = muster("check", "--replay", "out.json", "--only", "gpu-ecc-un*d", "--only", "gpu-count",
                  home=tmp_path)
    assert (page.stdout.startswith("1 node (muster.yaml), 2 rules")
            and "unhealthy      1  node1" in page.stdout)
    assert muster("check", "--replay", "out.json", "--sku", "cpu-only", "--only", "gpu-count",
                  home=tmp_path).returncode == 1


def test_an_earlier_look_goes_into_the_file_and_stays_the_earlier_look(
    fleet: DemoFleet, tmp_path: Path,
) -> None:
    name = named("link-flapping")
    muster("check", name, "-i", str(fleet.inventory), "--only", "port-link-downed", home=tmp_path)
    before = snapshot(tmp_path / "state")
    fleet.advance()
    done = muster("record", name, "-i", str(fleet.inventory), "-o", "out.json", home=tmp_path)
    assert done.returncode == 0 and snapshot(tmp_path / "state") == before
    again = muster("check", "--replay", "out.json", "--format", "json", "--full", home=tmp_path)
    assert told(nodes_of(again.stdout)[0])["port-link-downed"] == ("fail", 1)


def test_a_node_that_is_not_reached_gives_a_recording_of_that(fleet: DemoFleet, tmp_path: Path) -> None:
    name = named("refused")
    done = muster("record", name, "-i", str(fleet.inventory), "-o", "out.json", home=tmp_path)
    assert done.returncode == 3 and done.stdout.startswith("not reached (connect: ")
    again = muster("check", "--replay", "out.json", home=tmp_path)
    assert (again.returncode == 3 and "connect: " in again.stdout
            and name not in (tmp_path / "out.json").read_text())


def test_raw_keeps_everything_and_says_so(fleet: DemoFleet, tmp_path: Path) -> None:
    done = muster("record", "gpu000", "-i", str(fleet.inventory), "-o", "out.json", "--raw", home=tmp_path)
    assert (done.returncode == 0 and "--raw: nothing was replaced" in done.stderr
            and "replaced:" not in done.stdout)
    path = tmp_path / "out.json"
    assert '"gpu000"' in path.read_text() and path.stat().st_mode & 0o777 == 0o600
    assert muster("check", "--replay", "out.json", home=tmp_path).returncode == 0


def test_this_machine_can_be_recorded_without_ssh(tmp_path: Path) -> None:
    done = muster("record", "--local", "-o", "here.json", "--sku", "cpu-only", home=tmp_path)
    assert done.returncode == 0 and "changed what" not in done.stderr, done.stderr
    document = json.loads((tmp_path / "here.json").read_text())
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (document["host"]["hostname"].partition(".")[0] in ("node1", "localhost")
            and boot not in json.dumps(document))
    assert f'"{socket.gethostname()}"' not in json.dumps(document["captures"])


@pytest.mark.parametrize(("words", "says"), [
    (("-o", "x.json"), "no node named"), (("a", "-o", "."), "is a folder"),
    (("a", "-o", "no/x.json"), "no folder no"),
    (("a", "--local", "-o", "x.json"), "NODES does not go with --local"),
    (("a[1-2]", "-o", "x.json"), "names 2 nodes"), (("a", "-o", "x.json", "--sku", "none"), "no such SKU"),
])
def test_what_cannot_be_is_one_line(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    done = muster("record", *words, home=tmp_path)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not list(tmp_path.glob("*.json"))


def test_whoever_records_a_node_without_an_address_reads_its_name_and_the_file_does_not_hold_it(
    tmp_path: Path,
) -> None:
    done = muster("record", "zqnode7.invalid", "-o", "out.json", "--sku", "hgx-h100", home=tmp_path)
    assert (done.returncode == 3
            and done.stdout.startswith("not reached (resolve: zqnode7.invalid ")), done.stdout + done.stderr
    assert "zqnode7" not in (tmp_path / "out.json").read_text()


# ---- files of one recording


def test_a_recording_of_a_saved_sweep_is_judged_as_it_stands(tmp_path: Path) -> None:
    plan, outcome = sweep.replay(DEMO / "nodes" / "gpu002.json", RULES, (), (), "hgx-h100")
    assert ([node.name for node in plan.nodes] == ["gpu002"]
            and outcome.assessed.reports[0].state.value == "unhealthy")
    assert saved.load_manifest(DEMO / "nodes" / "gpu002.json").rules_digest == ""


@pytest.mark.parametrize("damage", [
    {"schema": "muster.recording/2"}, {"node": "a\x1b[31mb"}, {"received": 1e300}, {"sweep": 1}, {"look": 1},
    {"sweep": {"manifest": {}}}, {"sweep": {"manifest": {"schema": "muster.sweep/1"}}},
])
def test_a_damaged_file_is_one_line(tmp_path: Path, damage: dict[str, Any]) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**json.loads((DEMO / "nodes" / "gpu001.json").read_text()), **damage}))
    with pytest.raises(UsageError) as error:
        sweep.replay(path, RULES, (), (), None)
    assert "\n" not in str(error.value) and "\x1b" not in str(error.value)


@pytest.mark.parametrize("said", [
    {"profile": "\x1b[31m"}, {"profile": ["a"]}, {"sku": "\x1b[31m\n"}, {"sku": {}}, {"rack": {}},
    {"power": 1}, {"labels": {"a": ["x"]}},
    {"ports": {"0000:18:00.0": {"role": ["x"], "rail": 0, "leaf": None}}},
    {"ports": {"0000:18:00.0": {"role": "compute", "rail": "\x1b", "leaf": None}}},
])
def test_a_file_whose_node_is_not_one_of_an_inventory_is_one_line(
    tmp_path: Path, said: dict[str, Any],
) -> None:
    path = one_file(tmp_path)
    document = json.loads(path.read_text())
    document["sweep"]["manifest"]["inventory"]["nodes"][0].update(said)
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError) as error:
        sweep.replay(path, RULES, (), (), None)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("times", [("2026-11-21T10:00:00", "2026-11-21T10:00:01Z"), ("yesterday", "today"),
                                   ("\x1b", "")])
def test_times_that_cannot_be_told_apart_cost_no_verdict(tmp_path: Path, times: tuple[str, str]) -> None:
    path = one_file(tmp_path)
    document = json.loads(path.read_text())
    document["sweep"]["manifest"].update(started=times[0], finished=times[1])
    path.write_text(json.dumps(document))
    assert sweep.replay(path, RULES, (), (), None)[1].seconds == 0.0


def one_file(tmp_path: Path) -> Path:
    manifest = saved.load_manifest(DEMO)
    path = tmp_path / "x.json"
    one = saved.SweepManifest(manifest.started, manifest.finished, False, "muster.yaml", manifest.nodes[:1],
                              "hgx-h100", (), (), "d", manifest.probes)
    path.write_bytes(saved.encode_one(machine.recording("gpu001"), None, one, muster="0.1.0", scrubbed=True))
    return path


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "null", '{"sweep": {}}'])
def test_a_file_that_is_none_of_ours_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError):
        sweep.replay(path, RULES, (), (), None)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    manifest = saved.load_manifest(DEMO)
    look, before = (machine.recording("gpu001"),
                    machine.recording("gpu001", port_sysfs=machine.ports(8, **{"mlx5_1.link_downed": "1"})))
    one = saved.SweepManifest(manifest.started, manifest.finished, False, "muster.yaml", manifest.nodes[:1],
                              "hgx-h100", (), (), "d", manifest.probes)
    path = tmp_path / "x.json"
    path.write_bytes(saved.encode_one(look, before, one, muster="0.1.0", scrubbed=True))
    again = saved.load_manifest(path)
    assert again == one
    (read, previous), = saved.recordings(path, again)
    assert (read == look and previous is not None and "port.sysfs" in previous.captures
            and "kernel.log" not in previous.captures)
    document = json.loads(path.read_bytes())
    assert "look" not in document
    document["look"] = document.pop("sweep")    # as earlier versions named it
    path.write_text(json.dumps(document))
    assert saved.load_manifest(path) == again
    assert list(saved.recordings(path, again)) == [(read, previous)]
