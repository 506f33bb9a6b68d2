"""A short training by real gloo ranks: equal bit by bit; planted faults name the guilty or no one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from healthcheck.burnin import faults
from healthcheck.burnin.model import Accusation, BurnInStage, Object, Seat, Task, TaskKind, TaskResult
from healthcheck.burnin.training import odd_nodes
from tests.healthcheck.burnin.workers import FaultyGpus, under_way

NODES, GPUS, STEPS = 3, 2, 24
SEATS = tuple(Seat(f"n{node}", gpu) for node in range(NODES) for gpu in range(GPUS))
BAD = Seat("n1", 1)
SHARED, OWN = 8, 9      # a step in which all ranks compute one same batch, and one in which each has its own


class Bed(FaultyGpus):
    """A burn-in under way, and the faults of its GPUs."""

    def train(self, *rows: dict[str, Any], nodes: bool = False, **params: Any) -> list[TaskResult]:
        """What comes of a training of all, or of each node alone."""
        self.plan.write_text(json.dumps(rows))
        parts = ([tuple(seat for seat in SEATS if seat.node == f"n{node}") for node in range(NODES)]
                 if nodes else [SEATS])
        tasks = []
        for seats in parts:
            self.count += 1
            tasks.append(Task(f"t{self.count}", BurnInStage.TRAIN, TaskKind.TRAIN, seats, 100,
                              {"steps": STEPS, **params}))
        return sorted(self.conductor.run(tasks), key=lambda result: int(result.task.id[1:]))

    def all(self, *rows: dict[str, Any], **params: Any) -> TaskResult:
        """What comes of a training of all."""
        [result] = self.train(*rows, **params)
        assert result.whole, [report.error for report in result.reports]
        return result


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with under_way(tmp_path_factory.mktemp("training"), NODES) as there:
        yield Bed(*there)


def on(fault: str, seat: Seat = BAD, **more: Any) -> dict[str, Any]:
    return {"fault": fault, "node": seat.node, "gpu": seat.gpu, "iteration": SHARED, **more}


def wrong(result: TaskResult) -> list[Accusation]:
    """Who is accused of wrong data: on a busy machine ranks are late, too."""
    return [one for one in result.accusations if one.fault == faults.WRONG_DATA]


def names(result: TaskResult) -> list[tuple[Object, str]]:
    return [(one.object, one.name) for one in wrong(result)]


def test_equal_ranks_come_to_equal_bits_in_each_run_and_on_each_node_and_learn(bed: Bed) -> None:
    first, second = bed.all(), bed.all()
    assert not wrong(first) and not wrong(second)
    [found] = {tuple(sorted(report.checksums.items())) for result in (first, second)
               for report in result.reports}
    assert ({name.rpartition("_")[0] for name, _ in found} == {"train_weights", "train_grads", "train_sum"}
            and len(found) == 36)
    assert {value for name, value in found if name.startswith("train_sum")} == {"0"}
    assert len({value for name, value in found if name.startswith("train_grads")}) == 12
    for report in first.reports:
        assert (report.figures["train_loss"] < report.figures["train_loss_first"] - 1
                and report.figures["verified"] == STEPS // 2)
        assert (report.figures["train_steps_s"] > 0
                and report.figures["compute_p50"] < report.figures["step_p50"])
    alone = bed.train(nodes=True)
    assert (len({repr(sorted(result.reports[0].checksums.items())) for result in alone}) == 1
            and not odd_nodes(alone).accusations)


@pytest.mark.parametrize(("row", "words"), [
    (on("gradient"), "gradients of the batch that all share differ by step 8"),
    pytest.param(on("weight", iteration=OWN), "weights differ by step 10 from those of 5 equals",
                 marks=pytest.mark.slow),
    pytest.param(on("receive", iteration=OWN), "weights differ by step 10", marks=pytest.mark.slow),
    pytest.param(on("loss"), "differ by step 10", marks=pytest.mark.slow),
    (on("loss", iteration=OWN), f"are no numbers in step {OWN}"),
], ids=lambda value: str(value["fault"]) if isinstance(value, dict) else "")
def test_what_one_rank_alone_has_otherwise_is_its_gpu_s(bed: Bed, row: dict[str, Any], words: str) -> None:
    result = bed.all(row)
    assert names(result) == [(Object.GPU, str(BAD))]
    assert words.replace("step 8", "step 10") in wrong(result)[0].why


@pytest.mark.slow       # test_training.py judges such sums, and the others here are live
def test_what_is_altered_where_sums_are_made_names_no_gpu(bed: Bed) -> None:
    [accusation] = wrong(bed.all(on("flip")))
    assert accusation.object is Object.UNEXPLAINED and all(str(seat) in accusation.why for seat in SEATS)
    alone = bed.train(on("flip"), nodes=True)
    assert [names(result) for result in alone] == [[], [(Object.NODE, BAD.node)], []]


@pytest.mark.slow       # test_training.py names such a node
def test_a_node_whose_gradients_were_wrong_in_a_batch_of_its_own_is_named_beside_equal_nodes(
    bed: Bed,
) -> None:
    alone = bed.train(on("gradient", iteration=OWN, bit=31), nodes=True)
    assert not any(wrong(result) for result in alone)
    [accusation] = odd_nodes(alone).accusations
    assert ((accusation.object, accusation.name) == (Object.NODE, BAD.node)
            and "differ by step 10 from those of 2 equals" in accusation.why)


@pytest.mark.slow
def test_who_computes_longer_is_late_and_who_dies_is_dead(bed: Bed) -> None:
    late = [one for one in bed.all(on("slow", iteration=0, seconds=0.3), steps=8).accusations
            if one.fault == faults.SLOW_COMPUTE]
    assert [one.name for one in late] == [str(BAD)]
    [dead] = bed.train(on("killed"))
    assert [(one.name, one.fault) for one in dead.accusations] == [(str(BAD), faults.DEAD)]


@pytest.mark.parametrize(("params", "said"), [
    ({"heads": 3}, "width of train is 32, expected a multiple of its 3 heads"),
    ({"layers": 0}, "layers of train is 0, expected at least 1"),
    ({"precision": "fp64"}, "precision 'fp64', expected one of fp32, tf32, bf16"),
])
def test_what_no_training_can_be_made_of_is_one_line(bed: Bed, params: dict[str, Any], said: str) -> None:
    [result] = bed.train(**params)
    assert not result.whole and any(said in report.error for report in result.reports)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2))
def test_of_twenty_faults_of_chance_the_guilty_is_named_or_no_one_is(bed: Bed, seed: int) -> None:
    chance = random.Random(seed)
    found = []
    for _ in range(20):
        seats = chance.sample(SEATS, chance.choice([1, 1, 2]))
        rows = [on(chance.choice(["gradient", "weight", "receive", "loss", "flip"]), seat,
                   iteration=chance.randrange(STEPS), bit=chance.randrange(32)) for seat in seats]
        accusations = names(bed.all(*rows))
        gpus = {name for object_, name in accusations if object_ is Object.GPU}
        assert gpus <= set(map(str, seats)) and not any(object_ is Object.NODE
                                                        for object_, _ in accusations), (rows, accusations)
        found.append((len(gpus), len(seats)))
    print(f"named {sum(each for each, _ in found)} of {sum(each for _, each in found)}")
    assert sum(each for each, _ in found) >= 10
