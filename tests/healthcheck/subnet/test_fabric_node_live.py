"""`muster fabric check`, `diff` and `map` on a node that sees a fabric: over a real sshd the real collector
runs infiniband-diags, whose subnet is ibsim's with a real subnet manager, and whose jobs are a real
Slurm's."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from healthcheck.subnet import plancsv
from healthcheck.subnet.cabling import PlannedEnd
from healthcheck.sweep import fabricoutput
from inventory.load import load_inventory
from inventory.transport.remote import RemoteTransport
from tests.command import muster
from tests.documents import validate
from tests.testbed import ibnode
from tests.testbed import plantfabric as plant
from tests.testbed.ibfabric import Fabric, fabric, require_fabric, two_tiers
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, can_run, slurm
from tests.testbed.sshd import Sshd, wait_until

PLAN = two_tiers(16, 8, 2)
MANAGERS = ("gpu001", "gpu002")
NODE = "gpu016"
_TRIES = 4


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    require_fabric()
    with fabric(tmp_path_factory.mktemp("fabric") / "f", PLAN, managers=MANAGERS) as made:
        yield made


@pytest.fixture
def home(tmp_path: Path, bed: Fabric, plain_sshd: Sshd) -> Path:
    document = {"version": 1,
                "nodes": {"gpu[001-015]": {}, NODE: ibnode.entry(plain_sshd, bed, tmp_path / "node")}}
    (tmp_path / "muster.yaml").write_text(json.dumps(document))
    (tmp_path / "plan.csv").write_text(plancsv.write(PLAN))
    return tmp_path


def nothing(_: int) -> None:
    """What is before a look where nothing is planted."""


def run(home: Path, *words: str, first: Callable[[int], None] = nothing,
        **more: str) -> subprocess.CompletedProcess[str]:
    """The command after `first`, which is told how many times it ran before: both again where the simulator
    lost a tool's packets, as it does beside much other work."""
    for at in range(_TRIES):
        first(at)
        done = muster("fabric", *words, home=home, timeout=100, **more)
        assert "Traceback" not in done.stderr and done.returncode != 2, done.stderr
        if "ends early" not in done.stdout and "queries of counters failed" not in done.stdout:
            break
        shutil.rmtree(home / "after", ignore_errors=True)
    return done


def check(home: Path, *words: str, first: Callable[[int], None] = nothing,
          **more: str) -> subprocess.CompletedProcess[str]:
    """At least a second after the sample before it: what was added in less tells nothing."""
    began = time.time()
    wait_until(lambda: time.time() > began + 1, what="the next second")
    return run(home, "check", NODE, "--plan", "plan.csv",
               *(word for name in MANAGERS for word in ("--manager", name)), *words, first=first, **more)


def test_a_healthy_fabric_is_read_over_ssh_and_the_second_look_finds_nothing_wrong(home: Path) -> None:
    first = check(home, "--routes")
    assert (first.returncode == 3
            and "there is no earlier sample of counters" in first.stdout), (first.stdout, first.stderr)
    second = check(home, "--routes")
    assert (second.returncode, second.stdout.splitlines()[0], second.stdout.splitlines()[-1]) == (
        0, "subnet: 4 switches, 16 adapters, 20 links", "nothing is wrong"), (second.stdout, second.stderr)


def test_errors_since_the_last_look_are_named_and_what_was_saved_says_the_same(home: Path,
                                                                               bed: Fabric) -> None:
    cable = plant.host_cable(bed, "gpu011")
    check(home)
    try:
        live = check(home, "--routes", "--save", "after", "--format", "json",
                     first=lambda at: plant.count(bed, cable.b, "SymbolErrorCounter", 1200 + 400 * at))
    finally:
        plant.count(bed, cable.b, "SymbolErrorCounter", 0)
    document = json.loads(live.stdout)
    validate(document, "fabric-check-1")
    (found,) = (one for one in document["findings"] if one["status"] == "fail")
    assert (live.returncode, found["rule"],
            found["place"]["name"]) == (1, "link-errors", "leaf02 port 3 to gpu011 mlx5_0"), document
    saved = run(home, "check", "--from", "after", "--plan", "plan.csv")
    assert (saved.returncode == 3
            and saved.stdout.startswith("subnet: 4 switches, 16 adapters, 20 links\n")), saved.stdout
    assert "lids dumped" in (home / "after" / "dump_fts.txt").read_text()


def test_the_cabling_and_the_states_of_links_are_those_that_the_node_sees(home: Path) -> None:
    same = run(home, "diff", NODE, "--plan", "plan.csv", "--format", "json")
    assert (same.returncode, json.loads(same.stdout)["differences"],
            json.loads(same.stdout)["same"]) == (0, [], 20), same.stderr
    shown = json.loads(run(home, "map", NODE, "--plan", "plan.csv", "--format", "json").stdout)
    assert len(shown["links"]) == 20 and {link["state"] for link in shown["links"]} == {"as planned"}
    other = PLAN.cables[-1]
    (home / "plan.csv").write_text(
        (home / "plan.csv").read_text().replace(f"{other.b.device},{other.b.port},", f"{other.b.device},30,"))
    moved = run(home, "diff", NODE, "--plan", "plan.csv", "--format", "json")
    assert moved.returncode == 1 and json.loads(moved.stdout)["differences"], moved.stdout


def test_what_a_burn_in_reads_before_and_after_is_what_every_port_sent(home: Path, bed: Fabric) -> None:
    """As `muster burnin run --fabric-node` reads it."""
    node = load_inventory(home / "muster.yaml").nodes[NODE]
    cable = plant.host_cable(bed, "gpu005")
    joined = {end: f"{port.node[2:]}/{port.number}" for end, port in bed.there.items()}
    plant.sent(bed, cable.b, 7_000_000_000)
    for _ in range(_TRIES):
        (counters,) = fabricoutput.counters(node, RemoteTransport()).values()
        assert counters is not None
        sent = {f"{end.guid}/{end.number}": values.get("PortXmitData", 0)
                for end, values in counters.values.items()}
        if sent.keys() >= set(joined.values()):
            break
    assert (all(sent[port] > 0 for port in joined.values())
            and 7_000_000_000 <= sent[joined[cable.b]] < 7_001_000_000)


def test_a_hot_port_names_the_jobs_of_a_real_slurm_by_the_tables_that_the_node_reads(
    home: Path, bed: Fabric, tmp_path_factory: pytest.TempPathFactory,
) -> None:
    require(can_run(), WHY_NOT)
    hot = PlannedEnd("leaf01", "3")      # to gpu003
    names = [f"gpu{number:03d}" for number in (3, 4, 5, 11, 12)]
    # whose sockets have no room for a long path
    with slurm(tmp_path_factory.mktemp("slurm"), names) as cluster:
        wide, apart = (cluster.ask("sbatch", "--parsable", "-p", "main", "-w", nodes, "-N", str(count), "-o",
                                   "/dev/null", "--wrap", "sleep 600").strip()
                       for nodes, count in (("gpu[003,011-012]", 3), ("gpu[004-005]", 2)))
        wait_until(lambda: cluster.ask("squeue", "-h", "-t", "R", "-o",
                                       "%A").split() in ([wide, apart], [apart, wide]), what="running jobs")
        check(home)

        def busy(at: int) -> None:
            for cable in PLAN.cables:
                if cable.a.device.startswith("gpu"):
                    plant.sent(bed, cable.b, 50_000_000 * (at + 1))
            plant.count(bed, hot, "PortXmitWait", 900_000_000 * (at + 1))

        try:
            done = check(home, "--jobs", first=busy, **cluster.environment)
        finally:
            plant.count(bed, hot, "PortXmitWait", 0)
    lines = done.stdout.splitlines()
    at = next(number
              for number, line in enumerate(lines) if "congestion" in line and "leaf01 port 3 waits" in line)
    assert lines[at + 1].strip() == f"jobs by routes: {wide} (2 of 3 node pairs)", (done.stdout, done.stderr)
    assert (f"job {wide}: 3 nodes, 1 hot port by routes" in lines
            and f"job {apart}: 2 nodes, 0 hot ports by routes" in lines)


def test_routes_go_with_a_node(home: Path) -> None:
    done = muster("fabric", "check", "--from", "nowhere", "--routes", home=home)
    assert done.returncode == 2 and "--routes goes with NODE" in done.stderr
