"""The stages of a burn-in: what runs in which order with which environment, and how long it may take."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.burnin import stages
from healthcheck.burnin.floors import Floors, LearnedFloor
from healthcheck.burnin.model import BurnInStage, Participant, Rail, TaskKind
from healthcheck.burnin.ports import Ports, presumed
from healthcheck.burnin.published import BUSBW, GIB, Setting
from healthcheck.burnin.setting import SkuHardware
from healthcheck.burnin.speeds import Speeds
from healthcheck.burnin.stages import BurnInWork, StageStep
from healthcheck.burnin.watch import Patience
from inventory.errors import UsageError
from inventory.model import StorageMount
from provisioning.burnin.planpage import lines
from provisioning.burnin.ramp import PowerLimits
from provisioning.burnin.request import wanted
from tests.healthcheck.burnin.made import RULES

EVERY = frozenset(BurnInStage) - {BurnInStage.SOAK}


def places(count: int, per_leaf: int = 4, rails: int = 8, gpus: int = 8) -> tuple[Participant, ...]:
    return tuple(Participant(f"gpu{n:03}", gpus, "hgx-h100", f"leaf{n // per_leaf}", None, None, 10_000.0,
                             tuple(Rail(at, f"0000:{0x40 + at:02x}:00.0") for at in range(rails)))
                 for n in range(count))


def work(there: tuple[Participant, ...], length: str = "quick", **params: int | float | str) -> BurnInWork:
    return BurnInWork(
        length, {name.replace("__", "."): value for name, value in params.items()}, presumed(there))


def test_stages_come_in_their_order_and_nodes_alone_do_every_kind_of_work() -> None:
    there = places(8)
    steps = stages.planned(there, work(there), EVERY)
    order = [step.stage for step in steps]
    assert order == sorted(order, key=list(BurnInStage).index)
    kinds = [step.tasks[0].kind for step in steps if step.stage is BurnInStage.NODE]
    assert kinds == [*stages.ALONE[:-2], TaskKind.SIZES, *stages.ALONE[-2:]]
    assert Counter(order) == {
        BurnInStage.NODE: 9, BurnInStage.RAIL: 2, BurnInStage.LEAF_PAIRS: 2, BurnInStage.CROSS_PAIRS: 8,
        BurnInStage.ALL: 3, BurnInStage.TRAIN: 1}
    assert ([len(step.tasks) for step in steps
             if step.stage in (BurnInStage.LEAF_PAIRS, BurnInStage.CROSS_PAIRS)] == [4] * 10)


def test_each_mount_that_is_named_is_written_and_read_by_one_rank_of_every_node() -> None:
    there = places(4)
    request = replace(work(there, storage__threads=8),
                      storage=(StorageMount("/scratch"), StorageMount("/lustre/x", 2**30, "burnin")))
    steps = [step for step in stages.planned(there, request, EVERY) if step.tasks[0].kind is TaskKind.STORAGE]
    assert [
        (step.name, len(step.tasks)) for step in steps] == [("storage /scratch", 4), ("storage /lustre/x", 4)]
    assert all(len(task.seats) == 1 and task.params["nodes"] == 4 and task.params["threads"] == 8
               for step in steps for task in step.tasks)
    assert [step.tasks[0].params["folder"] for step in steps] == ["", "burnin"]
    assert steps[1].tasks[0].params["bytes"] == 2**30 and "bytes" not in steps[0].tasks[0].params
    assert {task.params["tests"] for step in steps for task in step.tasks} == {2}
    assert (BurnInStage.NODE, TaskKind.STORAGE) in stages.asked(steps) and not any(
        task.kind is TaskKind.STORAGE for step in stages.planned(there, work(there), EVERY)
        for task in step.tasks)
    with pytest.raises(UsageError, match=r"burnin.params: storage.path: list mounts in"):
        stages.check(work(there, storage__path="/x"))


@settings(deadline=None)
@given(count=st.integers(1, 9), per_leaf=st.integers(1, 4), rails=st.integers(0, 8), gpus=st.integers(1, 8),
       length=st.sampled_from(["quick", "standard", "soak"]))
def test_whatever_the_cluster_no_seat_is_taken_twice_in_a_step_and_names_are_unique(
    count: int, per_leaf: int, rails: int, gpus: int, length: str,
) -> None:
    there = places(count, per_leaf, rails, gpus)
    steps = stages.planned(there, work(there, length), frozenset(BurnInStage))
    names = [task.id for step in steps for task in step.tasks]
    assert len(set(names)) == len(names)
    for step in steps:
        seats = [seat for task in step.tasks for seat in task.seats]
        assert len(set(seats)) == len(seats) and all(seat.gpu < gpus for seat in seats)
        assert all(task.seconds > step.seconds for task in step.tasks)


def test_each_rail_is_measured_alone_by_two_gpus_beside_it_through_the_nic() -> None:
    there = places(1)
    ports = {
        "gpu000": Ports({"NCCL_IB_HCA": "=all"},
                        {at: {"NCCL_IB_HCA": f"=mlx5_{at}", "NCCL_NET": "IB"} for at in range(8)})}
    steps = stages.rails(there, BurnInWork(ports=ports))
    assert [len(step.tasks) for step in steps] == [4, 4]
    of = {task.params["rail"]: task for step in steps for task in step.tasks}
    assert sorted(of) == list(range(8))
    assert of[3].environment == {
        "NCCL_IB_HCA": "=mlx5_3", "NCCL_NET": "IB", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
        "NCCL_ALGO": "RING"}
    assert [seat.gpu for seat in of[3].seats] == [2, 3] and of[3].params["bytes"] == 1024**3
    assert {task.params["tests"] for task in of.values()} == {8}


def test_a_rail_of_which_a_look_saw_nothing_has_no_task() -> None:
    there = places(1)
    steps = stages.rails(there, BurnInWork(ports={"gpu000": Ports({}, {0: {}})}))
    assert [task.id for step in steps for task in step.tasks] == ["rail-0-gpu000"]
    assert stages.rails(there, BurnInWork()) == [] and stages.rails(places(1, gpus=1), work(places(1))) == []


def test_nodes_whose_devices_are_called_otherwise_have_an_environment_of_their_own() -> None:
    there = places(2)
    groups = {place.node: Ports({"NCCL_IB_HCA": "=mlx5_0"}) for place in there}
    [step] = stages.together(BurnInStage.ALL, 1, [[place.node for place in there]],
                             {place.node: place for place in there}, BurnInWork(ports=groups))
    assert step.tasks[0].environment == {"NCCL_IB_HCA": "=mlx5_0"} and step.tasks[0].local == {}
    other = {**groups, "gpu001": Ports({"NCCL_IB_HCA": "=mlx5_9"})}
    [step] = stages.together(BurnInStage.ALL, 1, [[place.node for place in there]],
                             {place.node: place for place in there}, BurnInWork(ports=other))
    assert step.tasks[0].environment == {} and step.tasks[0].on("gpu001") == {"NCCL_IB_HCA": "=mlx5_9"}


def test_pairs_go_by_ring_and_nodes_alone_need_no_port() -> None:
    there = places(4)
    ports = {place.node: Ports({"NCCL_IB_HCA": "=mlx5_0"}) for place in there}
    steps = stages.planned(there, BurnInWork(ports=ports), EVERY)
    assert all(task.environment.get("NCCL_ALGO") == "RING" and task.environment["NCCL_IB_HCA"]
               for step in steps for task in step.tasks if step.stage is BurnInStage.LEAF_PAIRS)
    alone = [task for step in steps for task in step.tasks if step.stage is BurnInStage.NODE]
    assert all(task.environment == (stages.LOGGED if task.kind is TaskKind.SIZES else {}) for task in alone)


def test_sizes_are_swept_with_nvls_and_without_it_where_it_is_there_and_the_site_leaves_it_open() -> None:
    there = places(4)
    known = {"gpu001": {"NCCL_NVLS_ENABLE": "0"}, "gpu002": {"NCCL_IB_TC": "106"}}
    steps = stages.sweeps(
        there, replace(work(there), nvls=frozenset(["gpu001", "gpu002", "gpu003"]), env=known))
    assert [[task.id for task in step.tasks] for step in steps] == [
        ["node-sizes-gpu000", "node-sizes-gpu001", "node-sizes-nvls-on-gpu002", "node-sizes-nvls-on-gpu003"],
        ["node-sizes-nvls-off-gpu002", "node-sizes-nvls-off-gpu003"]]
    of = {task.id: dict(task.environment) for step in steps for task in step.tasks}
    assert (of["node-sizes-gpu000"] == dict(stages.LOGGED)
            and of["node-sizes-gpu001"]["NCCL_NVLS_ENABLE"] == "0")
    assert of["node-sizes-nvls-on-gpu002"] == {**stages.LOGGED, "NCCL_NVLS_ENABLE": "2", "NCCL_IB_TC": "106"}
    assert of["node-sizes-nvls-off-gpu003"] == {**stages.LOGGED, "NCCL_NVLS_ENABLE": "0"}
    assert {task.nodes[0]: task.params["tests"] for step in steps for task in step.tasks} == {
        "gpu000": 1, "gpu001": 1, "gpu002": 2, "gpu003": 2}


def test_a_sweep_goes_up_to_the_size_that_floors_are_for_and_takes_ten_seconds_of_work_at_most() -> None:
    there = places(8)
    sweeps = [step for step in stages.planned(there, work(there, allreduce__bytes=1 << 30), EVERY)
              if step.tasks[0].kind is TaskKind.SIZES]
    assert [(step.stage, len(step.tasks), step.tasks[0].params["bytes"]) for step in sweeps] == [
        (BurnInStage.NODE, 8, 1 << 30), (BurnInStage.ALL, 1, 1 << 30)]
    for nodes, ranks, rate in ((1, 8, 400e9), (8, 64, 300e9), (512, 4096, 300e9)):
        params = {"bytes": 1 << 32}
        own = stages.expected(TaskKind.SIZES, params, nodes, ranks, rate) - stages.expected(
            TaskKind.SIZES, {**params, "bytes": 8}, nodes, ranks, rate)
        assert 2 < own < 10
    with pytest.raises(
        UsageError,
        match=r"burnin.params: sizes from 8 to 4294967296 bytes by a factor of 1: expected at least 8 bytes"):
        stages.check(BurnInWork(params={"sizes.factor": 1}))


def test_lengths_take_what_they_say() -> None:
    there = places(4)
    minutes = {
        length: sum(step.seconds for step in stages.planned(there, work(there, length), EVERY)) / 60
            for length in ("quick", "standard")}
    assert 3 < minutes["quick"] < 11 and 30 < minutes["standard"] < 55
    soak = stages.planned(there, work(there, "soak"), frozenset(BurnInStage))
    [last] = [step for step in soak if step.stage is BurnInStage.SOAK]
    assert 4 * 3600 < last.seconds < last.tasks[0].seconds < 6 * 3600
    assert max(step.seconds for step in soak if step.stage not in (BurnInStage.SOAK, BurnInStage.NODE)) < 600


def test_a_screening_has_short_work_for_arithmetic_and_links_alone_and_writes_to_no_mount() -> None:
    there = places(6)
    request = replace(work(there, "screen"), storage=(StorageMount("/scratch"),))
    steps = stages.planned(there, request, wanted(None, "screen"))
    assert [(step.stage.value, step.tasks[0].kind.value) for step in steps] == [
        ("node", "known"), ("node", "random"), ("node", "allreduce"), *[("leaf-pairs", "allreduce")] * 2]
    assert sum(step.seconds for step in steps) < 130
    # In two rounds each node of a leaf meets someone, though their number be odd.
    assert all(
        any(node in step.nodes for step in steps[3:]) for node in ("gpu000", "gpu003", "gpu004", "gpu005"))


def test_a_site_s_parameters_replace_those_of_the_length_and_unknown_ones_are_refused() -> None:
    there = places(2)
    steps = stages.planned(there, work(there, allreduce__bytes=4096, rate__run_s=1), EVERY)
    assert ({task.params["bytes"] for step in steps for task in step.tasks if task.kind is TaskKind.ALLREDUCE}
            == {4096})
    for params, said in (
        ({"rates.n": 1}, "rates.n: no such kind of work"), ({"rate.m": 1}, "'m' is no parameter of rate"),
        ({"copy.bytes": -1}, "bytes of copy is -1, expected a number of at least 0")):
        with pytest.raises(UsageError, match=said):
            stages.check(BurnInWork(params=params))
    with pytest.raises(UsageError, match="--length long: expected one of screen, quick, standard, soak"):
        stages.check(BurnInWork("long"))


def test_who_confirms_is_not_asked_of_everybody() -> None:
    there = places(5)       # one is alone in its leaf
    steps = stages.planned(there, work(there), EVERY)
    assert BurnInStage.LEAF_CONFIRM in {step.stage for step in steps}
    assert BurnInStage.LEAF_CONFIRM not in {stage for stage, _ in stages.asked(steps)}


def test_the_plan_says_what_each_step_takes_and_draws_and_what_cannot_be() -> None:
    there = places(8)
    said = list(lines(there, work(there), EVERY, PowerLimits(30)))
    assert said[0].split() == ["STAGE", "STEP", "TASKS", "NODES", "WAVES", "MINUTES", "KW"]
    assert said[1].split()[:5] == ["node", "known", "8", "8", "3"] and said[1].split()[-1] == "30.0"
    assert "note: all cannot be run: its nodes draw up to 80.0 kW, and 30 kW are allowed (max_kw)" in said
    bare = list(lines((Participant("n1", 2),), BurnInWork(), EVERY, PowerLimits()))
    assert any("power is not known" in line for line in bare)
    assert {line.split(":")[1].strip() for line in bare if line.startswith("note: no ")} == {
        "no rail", "no leaf-pairs", "no cross-pairs", "no fabric", "no all", "no train"}


def test_the_next_burn_in_has_other_nodes_meet() -> None:
    there = places(32)

    def met(seed: int) -> set[tuple[str, ...]]:
        return {
            task.nodes for step in stages.planned(there, BurnInWork(seed=seed), {BurnInStage.CROSS_PAIRS})
            for task in step.tasks}

    assert met(1) == met(1) and met(1) != met(2)


def pair_of(gbps: float, rails: int, length: str, speeds: Speeds | None = None) -> StageStep:
    there = places(2, rails=rails)
    speeds = speeds or Speeds(hardware={"hgx-h100": SkuHardware("H100", gbps)})
    request = replace(work(there, length), speeds=speeds)
    return next(step for step in stages.planned(there, request, {BurnInStage.LEAF_PAIRS}))


def test_a_pair_over_one_100_gigabit_port_has_the_time_that_it_takes() -> None:
    # 300 iterations of 4 GiB among 16 ranks took 223 s there.
    step = pair_of(100, 1, "standard")
    assert 200 < step.seconds < 300 and step.tasks[0].seconds > 2 * 223


def test_the_slower_the_ports_and_the_lower_the_floor_the_longer_a_task_may_take() -> None:
    limits = [pair_of(gbps, 1, "standard").tasks[0].seconds for gbps in (400, 200, 100, 25, 10)]
    assert limits == sorted(limits)
    slow = LearnedFloor(Setting(BUSBW, "leaf-pairs", "NVIDIA H100 80GB HBM3", 8, 2, 1, 100, 4 * GIB, "ring",
                                700, False), (2, 2), 3, 0.1, 8, 2.5, by="x")
    learned = pair_of(
        100, 1, "standard", Speeds(Floors(RULES, (slow,)), {"hgx-h100": SkuHardware("H100", 100)}))
    assert learned.tasks[0].seconds > 2400 / 2.5
    assert pair_of(0, 0, "standard").tasks[0].seconds > 2400    # of which no one knows anything


def test_a_soak_and_many_ranks_have_time_to_set_up() -> None:
    there = places(512)
    (step,) = (step for step in stages.planned(
        there, replace(work(there), patience=Patience(setup=500)), {BurnInStage.ALL})[:1])
    assert step.tasks[0].seconds > 500 + 0.1 * 4096
