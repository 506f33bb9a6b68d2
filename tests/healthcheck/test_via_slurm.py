"""`muster check --via slurm`, as it is typed: the whole program through srun on a real cluster, and what does
not go with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import muster
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, can_run
from tests.testbed.slurm import slurm as cluster


def test_a_sweep_through_srun_judges_the_node_and_reports_the_ways(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory,
) -> None:
    require(can_run(), WHY_NOT)
    inventory = tmp_path / "muster.yaml"
    inventory.write_text(
        "version: 1\nnodes:\n  gpu001: {sku: cpu-only}\n  nowhere: {sku: cpu-only, address: "
        "nowhere.invalid}\n")
    # A short path: slurmstepd's socket is below it.
    with cluster(tmp_path_factory.mktemp("s"), ["gpu001"]) as bed:
        done = muster("check", "--via", "slurm", "--format", "json", "--inventory", str(inventory),
                      home=tmp_path, timeout=120,
                      **bed.environment)
    nodes = {entry["node"]: entry for entry in json.loads(done.stdout)["nodes"]}
    assert nodes["gpu001"]["counts"]["pass"] > 5, (done.stdout[:500], done.stderr)
    assert "over SSH, as Slurm does not know it" in json.dumps(nodes["nowhere"])
    assert "muster: through srun: gpu001\n" in done.stderr
    assert "muster: over SSH, as Slurm does not know it: nowhere\n" in done.stderr


@pytest.mark.parametrize(("words", "named"), [
    (("--local",), "--local"), (("--replay", "x"), "--replay"), (("gpu001", "--disruptive"), "--disruptive"),
])
def test_what_does_not_go_with_it_is_refused(tmp_path: Path, words: tuple[str, ...], named: str) -> None:
    done = muster("check", "--via", "slurm", *words, home=tmp_path)
    assert done.returncode == 2 and f"{named} does not go with --via slurm" in done.stderr


def test_without_srun_it_is_said_where_to_run_it(tmp_path: Path) -> None:
    done = muster("check", "gpu001", "--via", "slurm", home=tmp_path, PATH=str(tmp_path))
    assert (done.returncode == 2
            and "--via slurm: srun was not found; run this where Slurm's commands are" in done.stderr)
