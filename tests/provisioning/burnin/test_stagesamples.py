"""Counters between stages: checked once a stage, by the same program as any sweep, and only where someone has
some."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from healthcheck.burnin.model import BurnInStage, Seat, Task, TaskKind
from healthcheck.burnin.stages import StageStep
from provisioning.burnin.stagesamples import StageReading, StageSamples
from tests.healthcheck import machine
from tests.provisioning.burnin.site import Site
from tests.testbed import torches
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, can_run
from tests.testbed.slurm import slurm as cluster

PART = ("rail0", "symbol_error")


def step(stage: BurnInStage, *nodes: str) -> StageStep:
    return StageStep(
        stage, "x", (Task("t", stage, TaskKind.ALLREDUCE, tuple(Seat(node, 0) for node in nodes), 1.0),), 1.0)


class Reader:
    """Counters that grow by one with each look."""

    def __init__(self) -> None:
        self.looks: list[list[str]] = []

    def __call__(self, nodes: Sequence[str]) -> Mapping[str, StageReading]:
        self.looks.append(sorted(nodes))
        return {
            node: StageReading({PART: len(self.looks)}) if node != "n9"
                else StageReading({}, "connect: refused") for node in nodes}


def test_one_look_ends_a_stage_and_begins_the_next_and_the_last_one_is_that_after_all() -> None:
    read = Reader()
    samples = StageSamples(read, {node: StageReading({PART: 0}) for node in ("n1", "n2", "n3")})
    for each in (step(BurnInStage.NODE, "n1", "n2", "n3"), step(BurnInStage.NODE, "n1", "n2"),
                 step(BurnInStage.LEAF_PAIRS, "n1", "n2"), step(BurnInStage.ALL, "n1", "n2")):
        samples.begins(each)
    samples.ends({node: StageReading({PART: 9}) for node in ("n1", "n2", "n3")})
    assert read.looks == [["n1", "n2", "n3"], ["n1", "n2"]]
    assert [(one.stage, one.node, one.grew[0][2]) for one in samples.found] == [
        *((BurnInStage.NODE, node, 1) for node in ("n1", "n2", "n3")),
        *((BurnInStage.LEAF_PAIRS, node, 1) for node in ("n1", "n2")),
        *((BurnInStage.ALL, node, 7) for node in ("n1", "n2"))]


def test_nodes_without_counters_are_not_looked_at_and_one_that_could_not_be_says_so_for_both_stages() -> None:
    read = Reader()
    samples = StageSamples(read, {"n1": StageReading({}), "n9": StageReading({PART: 0})})
    samples.begins(step(BurnInStage.NODE, "n1", "n9"))
    samples.begins(step(BurnInStage.ALL, "n1", "n9"))
    samples.ends({"n1": StageReading({}), "n9": StageReading({PART: 3})})
    assert read.looks == [["n9"]]
    assert [(one.node, one.stage, one.why, one.grew) for one in samples.found] == [
        ("n9", BurnInStage.NODE, "connect: refused", ()),
        ("n9", BurnInStage.ALL, "before it, connect: refused", ())]


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["local", "slurm"])
def test_what_a_port_counts_during_one_stage_of_a_burn_in_is_reported_of_that_stage_alone(
    tmp_path: Path, launcher: str,
) -> None:
    require(launcher != "slurm" or can_run(), WHY_NOT)
    tree = tmp_path / "tree"
    for probe in ("port.sysfs", "port.counters"):
        for path, entry in machine.recording().captures[probe].files.items():
            if "/mlx5_2/" in path and entry.text is not None:
                (tree / path[1:]).parent.mkdir(parents=True, exist_ok=True)
                (tree / path[1:]).write_text(entry.text)
    [counter] = tree.glob("sys/class/infiniband/mlx5_2/ports/1/counters/port_xmit_wait")
    site = Site(tmp_path, torches.python(), nodes=2, cordon="slurm" if launcher == "slurm" else None)
    (tmp_path / "slurm").mkdir()
    with cluster(tmp_path / "slurm", site.names) if launcher == "slurm" else contextlib.nullcontext() as bed:
        environment = site.environment(MUSTER_ROOT=str(tree), **(bed.environment if bed is not None else {}))
        process = subprocess.Popen(
            site.words("--stages", "leaf-pairs,all", launcher=launcher), cwd=tmp_path, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        for line in process.stderr:
            if "leaf-pairs round 1" in line:
                counter.write_text(str(int(counter.read_text()) + 412))
        process.communicate(timeout=110)
    found = site.document()
    grew = {(one["stage"], one["node"]): one["grew"] for one in found["stage_counters"]}
    assert grew == {
        ("all", "n1"): [], ("all", "n2"): [],
        **{("leaf-pairs", node): [["rail0", "port_xmit_wait", 412]] for node in ("n1", "n2")}}
    assert all(
        one["read"]["rail0"] > 8 and not one["unknown"] for one in found["stage_counters"]
    ), json.dumps(found["stage_counters"])
