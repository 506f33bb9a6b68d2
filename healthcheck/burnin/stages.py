"""The stages of a burn-in as steps of tasks that run at the same time, and how long each takes.

Known steps are planned. Confirmation of suspects, and what follows a failure of all nodes, is decided during
the run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from healthcheck.burnin import fabricwork, rounds
from healthcheck.burnin.fabricwork import FabricMeans, FabricRound, FabricWork
from healthcheck.burnin.isolate import DEPTHS, PairSearch
from healthcheck.burnin.model import BurnInStage, Participant, Seat, Task, TaskKind
from healthcheck.burnin.onnode.sizes import LEAST_TIMED
from healthcheck.burnin.params import LENGTHS, PARAMS, ladder, params_for
from healthcheck.burnin.ports import Ports, given
from healthcheck.burnin.sizes import NVLS, OFF, ON
from healthcheck.burnin.speeds import Speed, Speeds
from healthcheck.burnin.watch import Patience
from healthcheck.burnin.weigh import PairOutcome, PairTest
from inventory.errors import UsageError
from inventory.model import StorageMount

# Stages only for suspects, or after a failure of all nodes.
BY_THEMSELVES = frozenset({BurnInStage.LEAF_CONFIRM, BurnInStage.RAIL_CONFIRM, BurnInStage.BISECT})
# Work of each node alone, in this order, as far as its length includes it; the last two are among its own
# GPUs. Sweeps over sizes come before these two: after an all-reduce by nccl-tests PyTorch must be started
# again. Training is last, as it says less about the owner of a wrong sum.
ALONE = (TaskKind.KNOWN, TaskKind.RANDOM, TaskKind.MEMORY, TaskKind.RATE, TaskKind.COPY, TaskKind.HOST,
         TaskKind.ALLREDUCE, TaskKind.TRAIN)
RING_ORDERS = MappingProxyType({"screen": 1, "quick": 2, "standard": 4, "soak": 4})
# Seconds in which the ranks of a node begin one after the other, or the load of an all-reduce rises and
# falls; more for many nodes.
RAMP_S = 2.0
RAMP_TOGETHER_S = MappingProxyType({BurnInStage.ALL: 5.0, BurnInStage.BISECT: 5.0, BurnInStage.TRAIN: 5.0,
                                    BurnInStage.SOAK: 30.0})
# A NIC needs less data than NVLink to reach its rate.
RAIL_BYTES = 1024**3
# The environment of a single rail: GPUs of one node or NVLink domain communicate through its NIC.
THROUGH_NIC = MappingProxyType({"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"})
OUT_OF_DOMAIN = MappingProxyType({**THROUGH_NIC, "NCCL_MNNVL_ENABLE": "0"})
# In a sweep NCCL also logs algorithm and protocol. NVLS on is 2: NCCL goes on without it if it is
# unavailable, and the page shows that; with 1 it would fail (src/transport/nvls.cc).
LOGGED = MappingProxyType({"NCCL_DEBUG_SUBSYS": "INIT,NET,ENV,TUNING"})
NVLS_TESTS = MappingProxyType({ON: "2", OFF: "0"})
# start of a process group; other tasks: _START_S
_SETUP_S = MappingProxyType({TaskKind.ALLREDUCE: 12.0, TaskKind.SIZES: 12.0, TaskKind.TRAIN: 12.0})
_LAUNCH_S = 1e-3        # of the smallest all-reduce between many nodes
_START_S, _A_NODE_S = 5.0, 0.1
_SLOWEST = 20e9         # bytes a second of a copy, which sound machines exceed
_SLOWEST_STORAGE = 0.2e9        # of a mount
_SLOWEST_FLOPS = 75e12  # operations a second of a training in bf16
_PATTERN_S = 1.0        # to fill 80 GB and to read them back
_PATTERNS, _PRECISIONS = 5, 6
# manners of collectives that are tested (`onnode/exchange.py`), and seconds to check one
_MANNERS, _CHECK_S = 29, 0.01
_LONG_S = 1800.0        # beyond that the factor of the time limit is smaller


@dataclass(frozen=True)
class BurnInWork:
    """What to run: a length, the site's parameters by "kind.name", and by node the environment for its ports.
    `speeds` are the expected speeds of all-reduces, `patience` the time limits; `env` is by node the site's
    NCCL settings, `nvls` are the nodes whose NVSwitches can reduce, and `storage` the mounts that every node
    tests. `fabric` is what a link burn is planned from (None: no one said). Another `seed` pairs other nodes:
    a burn-in tests few of all paths, and the next one should test others."""

    length: str = "quick"
    params: Mapping[str, int | float | str] = field(default_factory=lambda: MappingProxyType({}))
    ports: Mapping[str, Ports] = field(default_factory=lambda: MappingProxyType({}))
    seed: int = 0
    speeds: Speeds = field(default_factory=Speeds)
    patience: Patience = field(default_factory=Patience)
    env: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    nvls: frozenset[str] = frozenset()
    storage: tuple[StorageMount, ...] = ()
    fabric: FabricWork | None = None


@dataclass(frozen=True)
class StageStep:
    """Tasks of one stage that may run at once; `seconds` is how long the longest is expected to take."""

    stage: BurnInStage
    name: str
    tasks: tuple[Task, ...]
    seconds: float

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes that take part, each once."""
        return tuple(dict.fromkeys(node for task in self.tasks for node in task.nodes))


def check(work: BurnInWork) -> None:
    """Raises UsageError for an unknown length or parameter."""
    for name in work.params:
        kind = name.partition(".")[0]
        if name in ("storage.path", "storage.folder", "storage.nodes"):
            raise UsageError(f"burnin.params: {name}: list mounts in `burnin: {{storage: [...]}}`")
        if kind not in PARAMS:
            raise UsageError(f"burnin.params: {name}: no such kind of work, expected one of "
                             f"{', '.join(PARAMS)}")
    for each in TaskKind:
        _params(work, each)


def alone(places: Sequence[Participant], work: BurnInWork) -> list[StageStep]:
    """Each node by itself: a step for each kind of work, all nodes at once."""
    steps: list[StageStep] = []
    has = LENGTHS[work.length]
    for kind in (each for each in ALONE if each.value in has):
        if kind is TaskKind.ALLREDUCE and TaskKind.SIZES.value in has:
            steps += sweeps(places, work)
        params = _params(work, kind)
        tasks = [Task(f"node-{kind.value}-{place.node}", BurnInStage.NODE, kind,
                      rounds.seats([place.node], {place.node: place}), 0.0, MappingProxyType(dict(params)),
                      given(work.env.get(place.node, {}) if kind.together else {})) for place in places]
        steps.append(step(BurnInStage.NODE, kind.value, tasks, places, work))
    return [*steps, *(storage(places, work) if TaskKind.STORAGE.value in has else ())]


def storage(places: Sequence[Participant], work: BurnInWork) -> list[StageStep]:
    """A step for each mount, all nodes at once: one rank of each writes and reads."""
    steps = []
    for number, mount in enumerate(work.storage, 1):
        own = {"path": mount.path, "folder": mount.folder, "nodes": len(places), "tests": len(work.storage),
               **({"bytes": mount.bytes} if mount.bytes is not None else {})}
        params = MappingProxyType({**_params(work, TaskKind.STORAGE), **own})
        tasks = [Task(f"node-storage-{number}-{place.node}", BurnInStage.NODE, TaskKind.STORAGE,
                      (Seat(place.node, 0),), 0.0, params) for place in places]
        steps.append(step(BurnInStage.NODE, f"storage {mount.path}", tasks, places, work))
    return steps


def sweeps(places: Sequence[Participant], work: BurnInWork) -> list[StageStep]:
    """Each node alone, over sizes; with and without NVLS if it has it and the site does not decide."""
    params = _sizes(work, RAMP_S)
    steps: dict[str, list[Task]] = {}
    for place in places:
        env = given(work.env.get(place.node, {}))
        both = place.node in work.nvls and place.gpus > 1 and NVLS not in env
        tests = NVLS_TESTS if both else {"": ""}
        own = MappingProxyType({**params, "tests": len(tests)})
        for test, value in tests.items():
            name = f"node-sizes-{test}-{place.node}" if test else f"node-sizes-{place.node}"
            settings = {**LOGGED, **env, **({NVLS: value} if test else {})}
            seats = rounds.seats([place.node], {place.node: place})
            task = Task(name, BurnInStage.NODE, TaskKind.SIZES, seats, 0.0, own, MappingProxyType(settings))
            steps.setdefault("sizes, NVLS off" if test == OFF else "sizes", []).append(task)
    return [step(BurnInStage.NODE, name, tasks, places, work) for name, tasks in steps.items()]


def sweep_together(number: int, order: Sequence[str], places: Mapping[str, Participant],
                   work: BurnInWork) -> StageStep:
    """All these nodes, over sizes; `number` counts the tries."""
    task = Task(f"{BurnInStage.ALL.value}-sizes-{number}", BurnInStage.ALL, TaskKind.SIZES,
                rounds.seats(order, places), 0.0, _sizes(work, RAMP_TOGETHER_S[BurnInStage.ALL]), LOGGED)
    return step(BurnInStage.ALL, "sizes" if number == 1 else f"sizes, try {number}", [local(task, work)],
                places.values(), work)


def _sizes(work: BurnInWork, ramp_s: float) -> Mapping[str, Any]:
    """A sweep's parameters: sizes up to that of the all-reduce with floors."""
    known = work.params.get("allreduce.bytes")
    size = {"bytes": max(8, known)} if isinstance(known, int) else {}
    return MappingProxyType(_params(work, TaskKind.SIZES, ramp_s=ramp_s, **size))


def rails(places: Sequence[Participant], work: BurnInWork) -> list[StageStep]:
    """Each rail alone, by two GPUs of the node beside its NIC; as few steps as rails share a pair of GPUs."""
    steps: dict[int, list[Task]] = {}
    params = _params(work, TaskKind.ALLREDUCE,
                     **({} if "allreduce.bytes" in work.params else {"bytes": RAIL_BYTES}))
    for place in places:
        turns: dict[int, int] = {}
        ports = work.ports.get(place.node)
        if place.gpus < 2 or ports is None:
            continue
        tests = sum(rail.number in ports.rails for rail in place.rails)
        for at, rail in enumerate(place.rails):
            if rail.number not in ports.rails:
                continue
            first = min(at * place.gpus // len(place.rails), place.gpus - 2) // 2 * 2
            turn = turns[first] = turns.get(first, -1) + 1
            seats = (Seat(place.node, first), Seat(place.node, first + 1))
            steps.setdefault(turn, []).append(Task(
                f"rail-{rail.number}-{place.node}", BurnInStage.RAIL, TaskKind.ALLREDUCE, seats, 0.0,
                MappingProxyType({**params, "rail": rail.number, "tests": tests}),
                MappingProxyType({**ports.rails[rail.number], **THROUGH_NIC, "NCCL_ALGO": "RING"})))
    return [step(BurnInStage.RAIL, f"step {turn + 1} of {len(steps)}", steps[turn], places, work)
            for turn in sorted(steps)]


def rails_of_pairs(number: int, these: Mapping[int, rounds.Round], places: Mapping[str, Participant],
                   work: BurnInWork) -> list[StageStep]:
    """A round of pairs over each rail alone, between the GPUs beside it, in as few steps as possible."""
    params = MappingProxyType(_params(work, TaskKind.ALLREDUCE,
                                      **({} if "allreduce.bytes" in work.params else {"bytes": RAIL_BYTES})))
    environment = MappingProxyType({**OUT_OF_DOMAIN, **rounds.RING})
    steps: dict[int, list[Task]] = {}
    for rail, round_ in these.items():
        for at, each in enumerate(round_.pairs):
            beside = [_beside(places[node], rail) for node in each]
            seats = tuple(Seat(node, gpu) for node, (gpu, _) in zip(each, beside, strict=True))
            local = {node: work.ports[node].rails[rail] for node in each}
            steps.setdefault(max(turn for _, turn in beside), []).append(Task(
                f"{BurnInStage.RAIL_CONFIRM.value}-{number}-{rail}-{at}", BurnInStage.RAIL_CONFIRM,
                TaskKind.ALLREDUCE, seats, 0.0,
                MappingProxyType({**params, "rail": rail}), environment, MappingProxyType(local)))
    return [step(BurnInStage.RAIL_CONFIRM, f"round {number}, step {at + 1} of {len(steps)}", steps[turn],
                 places.values(), work) for at, turn in enumerate(sorted(steps))]


def _beside(place: Participant, number: int) -> tuple[int, int]:
    """The GPU beside a rail, by the order of PCI addresses; and how many earlier rails share it."""
    order = [rail.number for rail in sorted(place.rails, key=lambda rail: rail.address)]
    beside = [at * place.gpus // len(order) for at in range(len(order))]
    at = order.index(number)
    return beside[at], beside[:at].count(beside[at])


def pairs(round_: rounds.Round, places: Mapping[str, Participant], work: BurnInWork) -> StageStep:
    """One round of pairs."""
    params = _params(work, TaskKind.ALLREDUCE)
    tasks = [local(task, work) for task in rounds.tasks(round_, places, 0.0, params)]
    return step(round_.stage, f"round {round_.number}", tasks, places.values(), work)


def together(stage: BurnInStage, number: int, orders: Sequence[Sequence[str]],
             places: Mapping[str, Participant], work: BurnInWork) -> list[StageStep]:
    """All-reduces of many nodes, or trainings, one for each order; `number` is the first one's."""
    ramp_s = RAMP_TOGETHER_S[stage]
    kind = TaskKind.TRAIN if stage is BurnInStage.TRAIN else TaskKind.ALLREDUCE
    params = (_given(work, kind, "soak", {"ramp_s": ramp_s}) if stage is BurnInStage.SOAK
              else _params(work, kind, ramp_s=ramp_s))
    steps = []
    for at, order in enumerate(orders):
        task = Task(f"{stage.value}-{number + at}", stage, kind, rounds.seats(order, places), 0.0,
                    MappingProxyType(dict(params)))
        steps.append(step(stage, f"order {number + at}", [local(task, work)], places.values(), work))
    return steps


def fabric(one: FabricRound, places: Mapping[str, Participant],
           work: BurnInWork) -> tuple[StageStep, list[str]]:
    """One round of a link burn, and why pairs of it cannot be run, a line each. Data is checked as it comes,
    but no other collective is tested: links would be idle."""
    means = work.fabric.means if work.fabric is not None else FabricMeans.ALLREDUCE
    run_s = fabricwork.RUN_S[work.length]
    if means is FabricMeans.WRITE:
        params = _given(work, means.kind, work.length, {"run_s": run_s})
    else:
        params = _given(work, means.kind, "quick", {
            "run_s": run_s, "ramp_s": 0.0, "compute_n": 0, "checks": 0,
            "check_share": fabricwork.CHECK_SHARE,
            **({} if "allreduce.bytes" in work.params else {"bytes": RAIL_BYTES})})
    tasks, without = fabricwork.tasks(one, places, work.ports, params, means,
                                      MappingProxyType({**OUT_OF_DOMAIN, **rounds.RING}))
    return step(BurnInStage.FABRIC, one.name, tasks, places.values(), work), without


def planned(places: Sequence[Participant], work: BurnInWork,
            wanted: Collection[BurnInStage]) -> list[StageStep]:
    """The steps of a burn-in in which no one is accused; pairs in a leaf come before those across."""
    by_name = {place.node: place for place in places}
    steps: list[StageStep] = []
    if BurnInStage.NODE in wanted:
        steps += alone(places, work)
    if BurnInStage.RAIL in wanted:
        steps += rails(places, work)
    if BurnInStage.LEAF_PAIRS in wanted or BurnInStage.CROSS_PAIRS in wanted:
        isolation = isolated(places, work, wanted)
        while (round_ := isolation.next()) is not None:
            steps.append(pairs(round_, by_name, work))
            isolation.add_results(PairTest(each, "", PairOutcome.PASS) for each in round_.pairs)
    if BurnInStage.FABRIC in wanted and work.fabric is not None:
        steps += [fabric(one, by_name, work)[0] for one in fabricwork.rounds(work.fabric.planes(by_name))]
    if len(places) > 1:
        for stage, orders in ((BurnInStage.ALL, RING_ORDERS[work.length]), (BurnInStage.TRAIN, 1),
                              (BurnInStage.SOAK, 1)):
            if stage in wanted:
                steps += together(stage, 1, rounds.rings(places, orders), by_name, work)
            if stage is BurnInStage.ALL and stage in wanted:
                steps.append(sweep_together(1, rounds.rings(places, 1)[0], by_name, work))
    return steps


def isolated(places: Sequence[Participant], work: BurnInWork, wanted: Collection[BurnInStage]) -> PairSearch:
    """The rounds of pairs among these places, as many as the length asks for."""
    depth = DEPTHS[work.length]
    across = depth.across if BurnInStage.CROSS_PAIRS in wanted else 0
    return PairSearch(places, repeats=depth.repeats, across=across, tries=depth.tries, seed=work.seed)


def asked(steps: Iterable[StageStep]) -> tuple[tuple[BurnInStage, TaskKind], ...]:
    """The planned work of each node: kinds of work by stage, without confirmation and bisection."""
    return tuple(dict.fromkeys((step.stage, task.kind) for step in steps for task in step.tasks
                               if step.stage not in BY_THEMSELVES))


def local(task: Task, work: BurnInWork) -> Task:
    """The task with the port environment of its nodes: common if it is equal on all, else by node."""
    own = {node: work.ports[node].values for node in task.nodes if node in work.ports}
    first, *others = own.values() or [MappingProxyType({})]
    if len(own) == len(task.nodes) and all(values == first for values in others):
        return replace(task, environment=MappingProxyType({**first, **task.environment}))
    return replace(task, local=MappingProxyType({node: MappingProxyType(dict(values))
                                                 for node, values in own.items() if values}))


def expected(kind: TaskKind, params: Mapping[str, Any], nodes: int, ranks: int = 1,
             bytes_a_second: float = Speed.usual) -> float:
    """Seconds that a sound GPU takes, a rough upper estimate, with all-reduces at this bus bandwidth."""
    full = {name: row[0] for name, row in PARAMS[kind.value].items()} | dict(params)
    seconds = _SETUP_S.get(kind, _START_S) + _A_NODE_S * nodes + 2 * full["ramp_s"]
    if kind in (TaskKind.KNOWN, TaskKind.RANDOM):
        seconds += full["run_s"]
    elif kind is TaskKind.MEMORY:
        seconds += full["passes"] * (_PATTERNS + full["walks"]) * (full["dwell_s"] + _PATTERN_S)
    elif kind is TaskKind.RATE:
        seconds += full["warm_s"] + _PRECISIONS * full["run_s"]
    elif kind is TaskKind.TRAIN:
        seconds += full["steps"] * _step_s(full, bytes_a_second)
    elif kind is TaskKind.COPY:
        seconds += 2 * full["repeats"] * full["bytes"] / _SLOWEST
    elif kind in (TaskKind.HOST, TaskKind.WRITE):
        seconds += full["run_s"]
    elif kind is TaskKind.STORAGE:
        seconds += 2 * min(full["bytes"] / _SLOWEST_STORAGE,
                           full["run_s"] or full["bytes"] / _SLOWEST_STORAGE)
    elif kind is TaskKind.SIZES:
        for size in ladder(full["bytes"], full["factor"]):
            each = _LAUNCH_S + 2 * (ranks - 1) / ranks * size / bytes_a_second
            seconds += full["warmup"] * each + max(LEAST_TIMED * each,
                                                   min(full["run_s"], full["iterations"] * each))
    else:
        carried = 2 * (ranks - 1) / ranks * full["bytes"]
        seconds += full["run_s"] or (full["warmup"] + full["iterations"]) * carried / bytes_a_second
        seconds += full["checks"] * _MANNERS * (_CHECK_S + 2 * full["check_bytes"] / bytes_a_second)
    return float(seconds)


def _step_s(params: Mapping[str, Any], bytes_a_second: float) -> float:
    """Seconds of one training step: six operations a parameter and token, and one all-reduce of gradients."""
    count = 12 * params["layers"] * params["width"] ** 2 + 2 * params["vocab"] * params["width"]
    return float(6 * count * params["batch"] * params["length"] / _SLOWEST_FLOPS
                 + 2 * 4 * count / bytes_a_second)


def limit(task: Task, speed: Speed, patience: Patience) -> float:
    """After how many seconds a task is given up: time to begin, and three times what is expected, or what it
    takes at the least speed that may finish; of the hours of a soak only the rest."""
    size = len(task.nodes), len(task.seats)
    whole, slowest = (expected(task.kind, task.params, *size, rate) for rate in (speed.usual, speed.least))
    return patience.start(len(task.seats)) + max(3 * min(whole, _LONG_S), 1.2 * whole, slowest)


def step(stage: BurnInStage, name: str, tasks: Sequence[Task], places: Iterable[Participant],
         work: BurnInWork) -> StageStep:
    """The step of these tasks, each with its time."""
    by_name = {place.node: place for place in places}
    speeds = [work.speeds.of(task, by_name) if task.kind.together else Speed() for task in tasks]
    seconds = [expected(task.kind, task.params, len(task.nodes), len(task.seats), speed.usual)
               for task, speed in zip(tasks, speeds, strict=True)]
    timed = [replace(task, seconds=limit(task, speed, work.patience))
             for task, speed in zip(tasks, speeds, strict=True)]
    return StageStep(stage, name, tuple(timed), max(seconds, default=0.0))


def _params(work: BurnInWork, kind: TaskKind, **more: Any) -> dict[str, Any]:
    """The parameters of a kind: by length, `more`, the site's; of a soak only the last all-reduce is long."""
    length = "standard" if work.length == "soak" and kind is TaskKind.ALLREDUCE else work.length
    return _given(work, kind, length, {"ramp_s": RAMP_S, **more})


def _given(work: BurnInWork, kind: TaskKind, length: str, more: Mapping[str, Any]) -> dict[str, Any]:
    if length not in LENGTHS:
        raise UsageError(f"--length {length}: expected one of {', '.join(LENGTHS)}")
    own = {name.partition(".")[2]: value for name, value in work.params.items()
           if name.partition(".")[0] == kind.value}
    try:
        return params_for(kind.value, length, **{**more, **own})
    except ValueError as error:
        raise UsageError(f"burnin.params: {error}") from None


