"""`muster check --from-prometheus` over real agents, a real Prometheus and real sshd: who is visited, and
what is kept of who is not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from healthcheck.store.file import opened
from healthcheck.store.leftout import left_out_nodes
from inventory.load import load_inventory
from inventory.model import Inventory
from provisioning.demo.fleet import DemoFleet
from tests.command import muster
from tests.documents import all_results
from tests.healthcheck.agent.world import World, bundle, install
from tests.testbed.memory import base_in_memory
from tests.testbed.ports import free_port
from tests.testbed.prometheus import Monitoring, monitoring, require_prometheus
from tests.testbed.require import require_fleet
from tests.testbed.sshd import wait_until
from tests.testbed.textfiles import scrape_config, serving

pytestmark = pytest.mark.timeout(600)      # six agents run one after another, and whole sweeps
NAMES = [f"gpu00{number}" for number in range(1, 7)]
SICK = "gpu002"


@dataclass
class Bed:
    """Six nodes with agents, of which one is sick, and the Prometheus that scrapes them."""

    home: Path
    fleet: DemoFleet
    inventory: Inventory
    agents: dict[str, World]
    prometheus: Monitoring

    def run_agents(self, *names: str) -> None:
        """The agents of these nodes run, and Prometheus has what they wrote."""
        began = time.time()
        for name in names or NAMES:
            self.agents[name].run("--textfile", str(self.home / "text" / name))
        for name in names or NAMES:
            wait_until(lambda name=name: self.newest(name) >= began, 60,
                       f"that Prometheus has {name}")  # type: ignore[misc]

    def newest(self, name: str) -> float:
        """When the agent's newest run that Prometheus has was made; 0 for none."""
        found = self.prometheus.query(f'muster_agent_run_timestamp_seconds{{node="{name}"}}')
        return max((float(one["value"][1]) for one in found), default=0.0)

    def check(self, *words: str, url: str = "", **more: str) -> tuple[dict[str, Any], Any]:
        """What the head's sweep says, and the process."""
        done = muster("check", "-i", str(self.fleet.inventory), "--format", "json", "--from-prometheus",
                      url or self.prometheus.url, "--max-age", "1h", *words, home=self.home,
                      timeout=120, **more)
        assert done.stdout, done.stderr
        return json.loads(done.stdout), done

    def text(self, name: str) -> Path:
        return self.home / "text" / name / "muster.prom"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    require_fleet()
    require_prometheus()
    home = tmp_path_factory.mktemp("bed")
    made = bundle()
    planted = {name: (["ecc-uncorrectable"] if name == SICK else []) for name in NAMES}
    with DemoFleet(base=base_in_memory(home), planted=planted) as fleet, serving(home / "text") as address:
        inventory = load_inventory(fleet.inventory)
        agents = {}
        for name in NAMES:
            (home / "text" / name).mkdir(parents=True)
            (home / name).mkdir()
            agents[name] = install(home / name, made, inventory.nodes[name], fleet.nodes[name].tree)
        (home / "prometheus").mkdir()
        with monitoring(home / "prometheus", [scrape_config(address, NAMES)], []) as prometheus:
            there = Bed(home, fleet, inventory, agents, prometheus)
            first, *others = NAMES
            there.run_agents(first)
            for name in others:
                agents[name].compiled(agents[first])
            there.run_agents(*others)
            yield there


@pytest.fixture(scope="module")
def first_sweep(bed: Bed) -> tuple[dict[str, Any], Any]:
    """The first one by way of the agents, after which the head has seen all boots."""
    return bed.check()


def by_name(document: dict[str, Any]) -> dict[str, Any]:
    return {node["node"]: node for node in document["nodes"]}


def left_out(document: dict[str, Any]) -> set[str]:
    return {node["node"] for node in document["nodes"] if "by_agent" in node}


def test_only_what_may_be_sick_and_a_sample_is_visited_and_the_rest_is_shown_as_not_visited(
    bed: Bed, first_sweep: tuple[dict[str, Any], Any],
) -> None:
    first, done = first_sweep
    # The head has never seen their boots itself.
    assert left_out(first) == set() and "0 of 6 nodes are healthy by their agents" in done.stderr
    assert "5 because the head has not seen their boot itself" in done.stderr
    second, done = bed.check()
    out = left_out(second)
    assert len(out) == 1 and SICK not in out and done.returncode == 1
    assert ("1 of 6 nodes are healthy by their agents and were not visited; 5 were visited: 1 because their "
            "agents do not judge them healthy; 4 because they are in the random sample") in done.stderr
    assert second["summary"] == {"healthy": 4, "degraded": 0, "unhealthy": 1, "unknown": 0,
                                 "healthy_by_agent": 1}
    for name in out:
        node = by_name(second)[name]
        assert node["results"] == [] and node["probes"] is None and "by its agent" in node["reason"]
        evidence = node["by_agent"]
        assert evidence["at"] == pytest.approx(bed.newest(name), abs=0.001)
        assert evidence["target"] == f"node {name}:9100"
        assert (evidence["boot_id"] and evidence["version"] and len(evidence["rules"]) == 64
                and evidence["sku"] == "dgx-h100")
    # The sample carries the fleet rules.
    for name in set(NAMES) - out - {SICK}:
        (rule,) = [one
                   for one in by_name(all_results(second))[name]["results"] if one["rule"] == "fleet-driver"]
        assert rule["status"] == "pass"
    with opened(bed.home / "state") as store:
        assert set(left_out_nodes(store)) == out
    nodes = muster("nodes", "-i", str(bed.fleet.inventory), home=bed.home)
    assert "healthy, by their agents; not visited by the newest sweep" in nodes.stdout
    told = json.loads(muster("nodes", "-i", str(bed.fleet.inventory), "--format", "json",
                             home=bed.home).stdout)
    assert {node["node"] for node in told["nodes"] if node["by_agent"] is not None} == out


@pytest.mark.usefixtures("first_sweep")
def test_a_node_that_was_booted_is_visited_once_and_then_the_head_knows_its_boot(bed: Bed) -> None:
    (node, *_) = sorted(set(NAMES) - {SICK})
    boot = bed.fleet.nodes[node].tree / "proc/sys/kernel/random/boot_id"
    boot.write_text("0d5bdb6e-0000-4000-8000-000000000001\n")
    bed.run_agents(node)
    document, done = bed.check(node)
    assert ("1 because they were booted since the head saw them" in done.stderr
            and left_out(document) == set())
    document, done = bed.check()
    assert "booted since" not in done.stderr and len(left_out(document)) == 1


def test_without_an_answer_that_counts_every_node_is_visited_and_one_line_says_why(bed: Bed,
                                                                                   tmp_path: Path) -> None:
    document, done = bed.check(url=f"http://127.0.0.1:{free_port()}")
    assert left_out(document) == set() and all(node["results"]
                                               for node in document["nodes"]) and done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if "--from-prometheus" in line]
    assert line.endswith("no answer: Connection refused; so all nodes are visited")
    # Prometheus' own page instead of its API.
    document, done = bed.check(NAMES[0], url=f"{bed.prometheus.url}/graph")
    assert left_out(document) == set() and "so all nodes are visited" in done.stderr
    document, done = bed.check(NAMES[0], "--max-age", "1s")
    assert left_out(document) == set() and "because their agents' results are too old" in done.stderr
