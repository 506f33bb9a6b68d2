"""Runs a burn-in under a lease: a sample before and after, ranks on all nodes, step after step, as
`healthcheck.burnin.statemachine` decides; measurements are always stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from zlib import crc32

from healthcheck.burnin import ports
from healthcheck.burnin.document import Burnin
from healthcheck.burnin.floors import Floors
from healthcheck.burnin.model import BurnInStage, Participant, Task, TaskResult
from healthcheck.burnin.runstates import RunEnding
from healthcheck.burnin.stages import BurnInWork
from healthcheck.burnin.statemachine import BurninRun
from healthcheck.model.lease import Granted
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.ruleset.sku import Sku
from healthcheck.sweep.sweep import SweepPlan
from inventory.model import Node
from inventory.transport.base import Limits
from inventory.transport.deadline import deadline
from provisioning.burnin import counters, ramp
from provisioning.burnin.conductor import Conductor
from provisioning.burnin.engines import NCCL_TESTS, PERFTEST, TORCH, Engines, left_to_torch, unjudged
from provisioning.burnin.nccltests import NcclTests
from provisioning.burnin.perftest import FabricEngine, Perftest
from provisioning.burnin.places import hardware, place, planned
from provisioning.burnin.progress import ProgressReport
from provisioning.burnin.ramp import PowerLimits
from provisioning.burnin.record import BurnInRecord
from provisioning.burnin.sample import NodeSample, sample
from provisioning.burnin.stagesamples import FabricSamples, ReadCounters, StageReading, StageSamples

# for an agent to be started, and PyTorch to be imported from a cold network file system
READY_S = 240.0
CHECK_S = 120.0
# for a look between two stages, while all ranks wait; and, of many nodes, for as many as are checked in turn
BETWEEN_S = 30.0
IN_TURN_S = 2.0

Open = Callable[[], AbstractContextManager[Granted]]
Act = Callable[[Burnin, Mapping[str, str]], None]
RunTasks = Callable[[Sequence[Task], Mapping[str, float]], Iterator[TaskResult]]


@dataclass(frozen=True)
class BurnInRequest:
    """What is to be done: with which nodes, each with the SKU that it is of (None: not known), and how.
    `engine` is what runs all-reduces, `nccl_tests` where nodes have nccl-tests (None: in their PATH), `slurm`
    whether programs are started by Slurm, `see_fabric` what reads the counters of a fabric's ports."""

    nodes: tuple[Node, ...]
    skus: Mapping[str, Sku]
    default_sku: str | None
    work: BurnInWork
    stages: frozenset[BurnInStage]
    power: PowerLimits
    floors: Floors
    hosts: tuple[str, ...] = ()
    listen: str = ""
    port: int = 0
    fanout: int = 64
    ready_s: float = READY_S
    engine: str = TORCH
    nccl_tests: str | None = None
    slurm: bool = False
    see_fabric: ReadCounters | None = None

    def sku(self, node: Node) -> Sku | None:
        """Of which SKU a node is."""
        return self.skus.get(node.sku or self.default_sku or "")


def places_of(
    request: BurnInRequest, seen: Mapping[str, NodeSample] = MappingProxyType({}),
) -> tuple[Participant, ...]:
    """Who takes part; without a look, ports are as planned. Raises UsageError, see `place`."""
    return tuple(place(node, request.sku(node), seen[node.name].ports if node.name in seen else ())
                 for node in request.nodes)


def as_plan(request: BurnInRequest) -> SweepPlan:
    """The nodes for whoever leases them: no rule is judged."""
    return SweepPlan(request.nodes, Ruleset((), request.skus, ""), request.default_sku)


def run(
    request: BurnInRequest, lease: Open, record: BurnInRecord, progress: Callable[[int], ProgressReport],
    act: Act,
) -> tuple[Burnin, bool]:
    """The burn-in, and whether it was interrupted; also then all that was measured is in it, and in the state
    folder. `act` is given a burn-in that was finished, or gave way (then what was finished stands), and the
    nodes of which nothing is believed, before its document says so and any node is given back. Raises
    ActionError, StoreError, UsageError before anything is sent."""
    with lease() as granted:
        # The seed is of the run's own id, so that it can be had again.
        request = replace(request, work=replace(request.work, seed=crc32(record.run.encode())))
        places = places_of(request)
        machine = BurninRun(
            places, request.work, request.stages, request.floors, hardware(request.skus, places))
        held = [node for node in request.nodes if node.name in granted.lease.nodes]
        for node, why in sorted(granted.lease.refused.items()):
            machine.leave(node, why)
        interrupted = False
        try:
            _measure(request, granted, held, machine, record, progress)
        except KeyboardInterrupt:
            interrupted = True
        machine.withheld.update(granted.lease.stood() if held else {})
        machine.end(interrupted=interrupted, gave_way=granted.lease.gave_way() if interrupted else "")
        if machine.ending is RunEnding.INTERRUPTED:
            return record.keep(machine), not machine.withheld
        return record.keep(machine, lambda burnin: act(burnin, machine.withheld)), False


def _measure(
    request: BurnInRequest, granted: Granted, held: Sequence[Node], machine: BurninRun, record: BurnInRecord,
    progress: Callable[[int], ProgressReport],
) -> None:
    """Looks at nodes, runs all steps, looks again. KeyboardInterrupt if the user or lease ends that."""
    bounds = Limits(fanout=request.fanout)
    bounds = replace(bounds, sweep_s=max(CHECK_S, deadline(held, bounds)))
    seen = sample(held, granted.transport, bounds)
    _check_lease(granted)
    places = places_of(request, seen)
    machine.begin(places, replace(request.work, ports=MappingProxyType(_ports(request, held, places, seen))))
    first, began = _counters(request, held, places, seen), record.clock()
    samples = _samples(request, granted, held, places, first)
    machine.stage_counters = samples.found
    record.keep(machine)
    if held:
        with progress(len(machine.steps)) as shown, _engine(request, granted, held, machine) as run_tasks:
            _run_steps(request, granted, machine, record, shown, samples, run_tasks)
    _check_lease(granted)
    if first:
        last = _counters(request, held, places, sample(held, granted.transport, bounds))
        _check_lease(granted)
        samples.ends(last)
        before, after = ({node: reading.values for node, reading in each.items()} for each in (first, last))
        machine.counters = counters.compared(before, after, record.clock() - began)


def _run_steps(
    request: BurnInRequest, granted: Granted, machine: BurninRun, record: BurnInRecord, shown: ProgressReport,
    samples: StageSamples, run_tasks: RunTasks,
) -> None:
    """Runs what the state machine says next, until nothing is left."""
    of_fabric = FabricSamples(request.see_fabric)
    while (step := machine.next()) is not None:
        samples.begins(step)
        of_fabric.begins(step)
        machine.fabric_counters = of_fabric.found
        _check_lease(granted)
        parts = ramp.waves(step.tasks, machine.by_name, request.power)
        for why in parts.refused.values():
            machine.left_out(step, why)
        for wave in parts.waves:
            shown.step(replace(step, tasks=wave), ramp.drawn(wave, machine.by_name))
            after = {} if step.stage.at_once else ramp.starts(wave, machine.by_name)
            for result in run_tasks(wave, after):
                machine.add(result)     # at once: whatever happens next, it is kept
                shown.done(result)
                record.result(machine)
        record.keep(machine)
        machine.step_over()
    of_fabric.begins(None)
    machine.fabric_counters = of_fabric.found


def _check_lease(granted: Granted) -> None:
    """KeyboardInterrupt where the lease is over: who checked nodes was only refused the rest of them."""
    if granted.lease.over():
        raise KeyboardInterrupt


def _samples(request: BurnInRequest, granted: Granted, held: Sequence[Node], places: Sequence[Participant],
           first: Mapping[str, StageReading]) -> StageSamples:
    nodes = {node.name: node for node in held}
    bounds = replace(
        Limits(fanout=request.fanout), sweep_s=BETWEEN_S + IN_TURN_S * len(held) / request.fanout)

    def read(names: Sequence[str]) -> Mapping[str, StageReading]:
        there = [nodes[name] for name in names]
        return _counters(request, there, places, sample(there, granted.transport, bounds))

    return StageSamples(read, first)


@contextmanager
def _engine(
    request: BurnInRequest, granted: Granted, held: Sequence[Node], machine: BurninRun,
) -> Iterator[RunTasks]:
    """What runs tasks. With PyTorch alone, nodes without it take no part. With nccl-tests, too, those without
    nccl-tests take none; who has no PyTorch is measured by nccl-tests alone, and does not pass."""
    def conduct() -> Conductor:
        return Conductor(granted.transport, held, hosts=request.hosts, listen=request.listen,
                         port=request.port, limits=Limits(fanout=request.fanout),
                         seconds=_longest(request, machine), patience=request.work.patience,
                         remark=machine.remarks.append)

    def missing(conductor: Conductor) -> Mapping[str, str]:
        """By node why PyTorch does nothing there; who has too few GPUs takes no part."""
        ready_nodes = conductor.ready(request.ready_s)
        lacking = {
            node.name: why for node in held if node.name in ready_nodes.here and (
                why := lacks(
                    request.sku(node), ready_nodes.here[node.name].gpus, machine.by_name[node.name].gpus))}
        for node, why in sorted(lacking.items()):
            machine.leave(node, why)
        for node, why in sorted(ready_nodes.missing.items()):
            if request.engine != NCCL_TESTS:
                machine.leave(node, why)
            else:
                machine.doubts.setdefault(node, f"nothing was measured with PyTorch there: {why}")
        return {**ready_nodes.missing, **lacking}

    if request.engine == TORCH:
        with conduct() as conductor:
            missing(conductor)
            yield conductor.run
        return
    if request.engine == PERFTEST:
        yield from _perftest(request, granted, held, machine, conduct, missing)
        return
    perf = NcclTests(request.nccl_tests, held, {one.node: one.gpus for one in machine.places}, granted,
                     request.fanout, machine.leave, machine.remarks.append)
    for node, why in sorted(perf.sample().items()):
        machine.leave(node, why)
    machine.remarks += (*left_to_torch(machine.steps, request.slurm), *unjudged(request.slurm))
    with Engines(perf, request.slurm, conduct, missing) as engines:
        yield engines.run


def _perftest(
    request: BurnInRequest, granted: Granted, held: Sequence[Node], machine: BurninRun,
    conduct: Callable[[], Conductor], missing: Callable[[Conductor], Mapping[str, str]],
) -> Iterator[RunTasks]:
    """ib_write_bw for the link burn, and PyTorch for other stages; nodes without one take no part."""
    perf = Perftest(held, granted, request.fanout, machine.leave, machine.remarks.append)
    for node, why in sorted(perf.sample().items()):
        machine.leave(node, why)
    if request.stages == {BurnInStage.FABRIC}:
        yield FabricEngine(perf, None).run
        return
    with conduct() as conductor:
        missing(conductor)
        yield FabricEngine(perf, conductor.run).run


def lacks(sku: Sku | None, seen: int, wanted: int) -> str:
    """Why a node cannot take part with the GPUs that PyTorch sees; "" where it can, or has CPUs alone."""
    if seen >= wanted or ((sku is None or "gpus" in sku.empty) and seen == 0):
        return ""
    return f"PyTorch sees {seen} GPUs there, and {wanted} are to be burnt in; see: muster check"


def _longest(request: BurnInRequest, machine: BurninRun) -> float:
    """How long agents may stay: twice what all steps take at worst, for confirmations, and an hour."""
    worst = sum(len(ramp.waves(step.tasks, machine.by_name, request.power).waves)
                * max(task.seconds for task in step.tasks) for step in machine.steps)
    return request.ready_s + 2 * worst + 3600.0


def _ports(
    request: BurnInRequest, nodes: Sequence[Node], places: Sequence[Participant],
    seen: Mapping[str, NodeSample],
) -> dict[str, ports.Ports]:
    by_name = {one.node: one for one in places}
    found = {}
    for node in nodes:
        if _has_gpus(request.sku(node)):
            at = seen[node.name]
            found[node.name] = ports.ports(
                by_name[node.name].rails, planned(node, request.sku(node)), at.ports, at.netdevs, at.gids,
                request.work.env.get(node.name, MappingProxyType({})))
    return found


def _has_gpus(sku: Sku | None) -> bool:
    return sku is None or "gpus" not in sku.empty


def _counters(request: BurnInRequest, nodes: Sequence[Node], places: Sequence[Participant],
              seen: Mapping[str, NodeSample]) -> dict[str, StageReading]:
    by_name = {one.node: one for one in places}
    return {
        node.name: StageReading(
            counters.values(seen[node.name], by_name[node.name], _has_gpus(request.sku(node))),
            seen[node.name].trouble) for node in nodes}
