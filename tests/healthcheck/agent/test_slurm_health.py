"""The agent as HealthCheckProgram of a real slurmd: as the topic slurm-health says, in its own scripts."""

from __future__ import annotations

import json
import random
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from healthcheck.agent.main import LIMIT_S
from inventory.model import Node
from provisioning.demo import h100
from tests.healthcheck.agent.world import World, bundle, world
from tests.testbed import slurm as beds
from tests.testbed.require import require
from tests.testbed.slurm import Slurm, slurm
from tests.testbed.sshd import wait_until

pytestmark = pytest.mark.timeout(300)
NODE = "gpu001"
COMMAND = "/usr/bin/python3 -I -S /opt/muster/current/muster.pyz"
SLURMD_ENDS_IT_S = 60       # slurm.conf(5), HealthCheckProgram


@pytest.fixture(scope="module")
def sick(tmp_path_factory: pytest.TempPathFactory) -> World:
    """An agent on a node whose GPU has met uncorrectable memory errors."""
    machine = h100.healthy(NODE, random.Random(1))
    machine.scenario["gpu.3.ecc.volatile.uncorrected"] = "4"
    return world(tmp_path_factory.mktemp("agent"), bundle(), Node(NODE, sku="hgx-h100"), machine)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, sick: World) -> Iterator[Slurm]:
    """One node, checked every two seconds by the script that lies at `health`."""
    require(beds.can_run(), beds.WHY_NOT)
    folder = tmp_path_factory.mktemp("slurm")
    write(folder, script(0), sick)
    settings = f"HealthCheckProgram={folder}/health\nHealthCheckInterval=2\nHealthCheckNodeState=ANY"
    with slurm(folder, [NODE], extra=settings) as bed:
        yield bed


def script(number: int) -> str:
    """The topic's scripts: from the line `#!/bin/sh` to the end of its block, or to the next prompt."""
    page = (files("healthcheck") / "help" / "slurm-health.md").read_text()
    return re.findall(r"^#!/bin/sh\n.*?(?=^```|^\$ )", page, re.MULTILINE | re.DOTALL)[number]


def write(folder: Path, text: str, node: World) -> None:
    """The script as slurmd finds it, with the simulated node in place of the machine; replaced whole."""
    assert COMMAND in text
    env = " ".join(shlex.quote(f"{name}={value}") for name, value in node.env.items())
    ours = f"env {env} {sys.executable} {' '.join(map(shlex.quote, node.argv[:-5]))}"       # up to muster.pyz
    text = text.replace(COMMAND, ours).replace(" run --", f" run --root {node.tree} --state {node.state} --")
    # slurmd gives it its node's name alone, and on this machine the cluster is not the one of /etc/slurm.
    text = text.replace("scontrol update", f"SLURM_CONF={folder}/slurm.conf scontrol update")
    new = folder / "health.new"
    new.write_text(text)
    new.chmod(0o755)
    new.replace(folder / "health")


def result(node: World) -> dict[str, Any]:
    try:
        return node.result
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def log(cluster: Slurm) -> str:
    return (cluster.folder / f"{NODE}.log").read_text(errors="replace")


def test_slurmd_has_the_agent_leave_result_after_result_and_a_sick_node_stays_as_it_is(cluster: Slurm,
                                                                                       sick: World) -> None:
    wait_until(lambda: result(sick), 100, "a result")
    first = result(sick)
    assert (first["node"], first["state"], first["code"]) == (NODE, "unhealthy", 1)
    wait_until(lambda: result(sick)["time"] > first["time"], 100, "the next result")
    assert cluster.states() == {NODE: "idle"}
    assert "(null)" in cluster.ask("sinfo", "-h", "-o",
                                   "%E") or "none" in cluster.ask("sinfo", "-h", "-o", "%E")
    assert "health_check" not in log(cluster).lower() or "exit" not in log(cluster).lower(), log(cluster)


def test_a_site_whose_script_drains_has_the_node_drained_in_its_own_name(cluster: Slurm, sick: World) -> None:
    write(cluster.folder, script(1), sick)
    wait_until(lambda: cluster.states()[NODE] == "drained", 100, "that the site's script drains")
    reason = cluster.ask("sinfo", "-h", "-o", "%E").strip()
    assert reason.startswith("healthcheck: MUSTER CRITICAL - unhealthy: gpu-ecc-uncorrected"), reason
    # It bears no mark of muster's, by which alone muster would take it for its own.
    assert "muster:" not in reason


def test_the_agent_ends_before_slurmd_would_end_it() -> None:
    assert LIMIT_S + 5 <= SLURMD_ENDS_IT_S
