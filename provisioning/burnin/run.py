"""Runs a burn-in under a lease: a look before and after, ranks on all nodes, stage after stage; what was measured is kept come what may."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from types import MappingProxyType
from zlib import crc32

from healthcheck.burnin.conduct import Conductor
from healthcheck.burnin.document import Burnin
from healthcheck.burnin.floors import Floors
from healthcheck.burnin.model import Place, Stage, TaskResult
from healthcheck.model.lease import Granted
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.ruleset.sku import Sku
from healthcheck.sweep.sweep import Plan
from inventory.model import Node
from inventory.transport.base import Limits
from provisioning.burnin import counters, ports, ramp
from provisioning.burnin.course import Course
from provisioning.burnin.engines import TORCH, Engines, left_to_torch, unjudged
from provisioning.burnin.look import Seen, look
from provisioning.burnin.nccltests import NcclTests
from provisioning.burnin.places import hardware, place, planned
from provisioning.burnin.ramp import Power
from provisioning.burnin.record import Record
from provisioning.burnin.stagelooks import Reading, StageLooks
from provisioning.burnin.stages import Step, Work
from provisioning.burnin.telling import Telling

READY_S = 240.0         # for an agent to be started, and PyTorch to be imported from a cold network file system
LOOK_S = 120.0
BETWEEN_S = 30.0        # for a look between two stages, while all ranks wait; and, of many nodes, for as many as are looked at in turn
IN_TURN_S = 2.0

Open = Callable[[], AbstractContextManager[Granted]]
Act = Callable[[Burnin, Mapping[str, str]], None]


@dataclass(frozen=True)
class Asked:
    """What is to be done: with which nodes, each with the SKU that it is of (None: nobody says), and how.

    `engine` is what runs all-reduces, `nccl_tests` where nodes have nccl-tests (None: in their PATH), `slurm` whether programs are started
    by Slurm.
    """

    nodes: tuple[Node, ...]
    skus: Mapping[str, Sku]
    default_sku: str | None
    work: Work
    stages: frozenset[Stage]
    power: Power
    floors: Floors
    hosts: tuple[str, ...] = ()
    listen: str = ""
    port: int = 0
    fanout: int = 64
    ready_s: float = READY_S
    engine: str = TORCH
    nccl_tests: str | None = None
    slurm: bool = False

    def sku(self, node: Node) -> Sku | None:
        """Of which SKU a node is."""
        return self.skus.get(node.sku or self.default_sku or "")


def places_of(asked: Asked, seen: Mapping[str, Seen] = MappingProxyType({})) -> tuple[Place, ...]:
    """Who takes part. Without a look, ports are those that the inventory and the SKUs plan. Raises UsageError, see `place`."""
    return tuple(place(node, asked.sku(node), seen[node.name].ports if node.name in seen else ()) for node in asked.nodes)


def as_plan(asked: Asked) -> Plan:
    """The nodes for whoever leases them: no rule is judged."""
    return Plan(asked.nodes, Ruleset((), asked.skus, ""), asked.default_sku)


def run(asked: Asked, lease: Open, record: Record, telling: Callable[[int], Telling], act: Act) -> tuple[Burnin, bool]:
    """The burn-in, and whether it was interrupted; also then all that was measured is in it, and in the state folder.

    `act` is told of a burn-in that was finished, or gave way, and of the nodes of which nothing is believed, before its document says so
    and before any node is given back. Of one that gave way what was finished stands, and it was not interrupted. Raises ActionError,
    StoreError, UsageError before anything is sent.
    """
    with lease() as granted:
        return _leased(asked, granted, record, telling, act)


def _leased(asked: Asked, granted: Granted, record: Record, telling: Callable[[int], Telling], act: Act) -> tuple[Burnin, bool]:
    held = [node for node in asked.nodes if node.name in granted.lease.nodes]
    bounds = replace(Limits(fanout=asked.fanout), sweep_s=LOOK_S)
    interrupted = finished = False
    # Told by the run's own id, so that it can be had again.
    asked = replace(asked, work=replace(asked.work, seed=crc32(record.run.encode())))
    course = _course(asked, asked.work, places_of(asked))
    looks: StageLooks | None = None
    first: dict[str, Reading] = {}
    began = record.clock()
    for node, why in sorted(granted.lease.refused.items()):
        _leave(record, course, node, why)
    try:
        seen = look(held, granted.transport, bounds)
        _go_on(granted)
        places = places_of(asked, seen)
        out = course.out
        course = _course(asked, replace(asked.work, ports=MappingProxyType(_ports(asked, held, places, seen))), places)
        course.out = out
        _remark(record, course)
        first, began = _counters(asked, held, places, seen), record.clock()
        looks = _looks(asked, granted, held, places, first)
        record.stage_counters = looks.found
        record.keep(course)
        if held:
            with telling(len(course.steps)) as tells:
                _conduct(asked, granted, held, course, record, tells, looks)
        _go_on(granted)
        finished = True
    except KeyboardInterrupt:
        interrupted = True
    try:
        # An interrupted one is not kept waiting for what its links counted.
        if not interrupted and looks is not None and first:
            last = _counters(asked, held, course.places, look(held, granted.transport, bounds))
            _go_on(granted)
            looks.ends(last)
            before, after = ({node: reading.values for node, reading in each.items()} for each in (first, last))
            record.counters = counters.compared(before, after, record.clock() - began)
    except KeyboardInterrupt:
        interrupted = True
    record.withheld.update(granted.lease.stood() if held else {})
    finished = finished and not interrupted
    gave_way = granted.lease.gave_way() if interrupted else ""
    if gave_way:
        course.cut()
        record.unfinished = f"it gave way: {gave_way}"
    over = finished or bool(gave_way)
    burnin = record.keep(course, finished=finished, act=(lambda burnin: act(burnin, record.withheld)) if over else None)
    return burnin, interrupted and not (record.withheld or gave_way)


def _go_on(granted: Granted) -> None:
    """Raises KeyboardInterrupt where the lease is over: whoever looked at nodes meanwhile was only refused the rest of them."""
    if granted.lease.over():
        raise KeyboardInterrupt


def _course(asked: Asked, work: Work, places: tuple[Place, ...]) -> Course:
    return Course(places, work, asked.stages, asked.floors, hardware(asked.skus, places), lambda step: ())


def _leave(record: Record, course: Course, node: str, why: str) -> None:
    """A node takes no part, and nothing of it passes."""
    course.leave(node, why)
    record.doubts[node] = f"took no part: {why}"


def _looks(asked: Asked, granted: Granted, held: Sequence[Node], places: Sequence[Place], first: Mapping[str, Reading]) -> StageLooks:
    nodes = {node.name: node for node in held}
    bounds = replace(Limits(fanout=asked.fanout), sweep_s=BETWEEN_S + IN_TURN_S * len(held) / asked.fanout)

    def read(names: Sequence[str]) -> Mapping[str, Reading]:
        there = [nodes[name] for name in names]
        return _counters(asked, there, places, look(there, granted.transport, bounds))

    return StageLooks(read, first)


def _conduct(asked: Asked, granted: Granted, held: Sequence[Node], course: Course, record: Record, tells: Telling,
             looks: StageLooks) -> None:
    by_name = {one.node: one for one in course.places}

    def conduct() -> Conductor:
        return Conductor(granted.transport, held, hosts=asked.hosts, listen=asked.listen, port=asked.port,
                         limits=Limits(fanout=asked.fanout), seconds=_longest(asked, course), patience=asked.work.patience)

    def missing(conductor: Conductor) -> dict[str, str]:
        """By node why PyTorch does nothing there; who has too few GPUs leaves."""
        crew = conductor.ready(asked.ready_s)
        lacking = {node.name: why for node in held if node.name in crew.here
                   and (why := lacks(asked.sku(node), crew.here[node.name].gpus, by_name[node.name].gpus))}
        for node, why in sorted(lacking.items()):
            _leave(record, course, node, why)
        return {**crew.missing, **lacking}

    with ExitStack() as stack:
        if asked.engine == TORCH:
            conductor = stack.enter_context(conduct())
            for node, why in sorted(missing(conductor).items()):
                _leave(record, course, node, why)
            run_ = conductor.run
        else:
            run_ = stack.enter_context(_engines(asked, granted, held, course, record, conduct, missing)).run

        def do(step: Step) -> Iterator[TaskResult]:
            looks.begins(step)
            _go_on(granted)
            parts = ramp.waves(step.tasks, by_name, asked.power)
            for why in parts.refused.values():
                course.missing.setdefault(step.stage, why)
                course.remarks.append(f"{step.stage.value} {step.name} was left out: {why}")
            for wave in parts.waves:
                tells.step(replace(step, tasks=wave), ramp.drawn(wave, by_name))
                for result in run_(wave, ramp.starts(wave, by_name)):
                    tells.done(result)
                    yield result
                    record.result(course)
            record.keep(course)

        course.do = do
        course.go()


def _engines(asked: Asked, granted: Granted, held: Sequence[Node], course: Course, record: Record, conduct: Callable[[], Conductor],
             missing: Callable[[Conductor], dict[str, str]]) -> Engines:
    """Both engines. Who has no nccl-tests takes no part; who has no PyTorch is measured by nccl-tests alone, and does not pass."""
    perf = NcclTests(asked.nccl_tests, held, {one.node: one.gpus for one in course.places}, granted, asked.fanout,
                     lambda node, why: _leave(record, course, node, why), course.remarks.append)
    for node, why in sorted(perf.look().items()):
        _leave(record, course, node, why)
    course.remarks += (*left_to_torch(course.steps, asked.slurm), *unjudged(asked.slurm))

    def without(conductor: Conductor) -> dict[str, str]:
        found = missing(conductor)
        for node, why in sorted(found.items()):
            record.doubts.setdefault(node, f"nothing was measured with PyTorch there: {why}")
        return found

    return Engines(perf, asked.slurm, conduct, without)


def lacks(sku: Sku | None, seen: int, wanted: int) -> str:
    """Why a node cannot take part with the GPUs that PyTorch sees there; "" where it can, as can a node of CPUs alone."""
    if seen >= wanted or ((sku is None or "gpus" in sku.empty) and seen == 0):
        return ""
    return f"PyTorch sees {seen} GPUs there, and {wanted} are to be burnt in; look with: muster check"


def _longest(asked: Asked, course: Course) -> float:
    """How long agents may stay at most: twice what all steps may take at worst, for there are confirmations, and an hour."""
    by_name = {one.node: one for one in course.places}
    worst = sum(len(ramp.waves(step.tasks, by_name, asked.power).waves) * max(task.seconds for task in step.tasks) for step in course.steps)
    return asked.ready_s + 2 * worst + 3600.0


def _ports(asked: Asked, nodes: Sequence[Node], places: Sequence[Place], seen: Mapping[str, Seen]) -> dict[str, ports.Ports]:
    by_name = {one.node: one for one in places}
    found = {}
    for node in nodes:
        if _has_gpus(asked.sku(node)):
            at = seen[node.name]
            found[node.name] = ports.ports(by_name[node.name].rails, planned(node, asked.sku(node)), at.ports, at.netdevs, at.gids,
                                             asked.work.env.get(node.name, MappingProxyType({})))
    return found


def _has_gpus(sku: Sku | None) -> bool:
    return sku is None or "gpus" not in sku.empty


def _counters(asked: Asked, nodes: Sequence[Node], places: Sequence[Place], seen: Mapping[str, Seen]) -> dict[str, Reading]:
    by_name = {one.node: one for one in places}
    return {node.name: Reading(counters.values(seen[node.name], by_name[node.name], _has_gpus(asked.sku(node))), seen[node.name].trouble)
            for node in nodes}


def _remark(record: Record, course: Course) -> None:
    """What is to be known of ports; a node with a rail that cannot be measured does not pass."""
    notes: dict[str, list[str]] = {}
    for one in course.places:
        of = course.work.ports.get(one.node)
        for note in of.notes if of is not None else ():
            notes.setdefault(note, []).append(one.node)
        if of is not None and Stage.RAIL in course.wanted and len(of.rails) < len(one.rails):
            lacking = ", ".join(str(rail.number) for rail in one.rails if rail.number not in of.rails)
            record.doubts.setdefault(one.node, f"rail {lacking} was not measured: no RDMA device was seen for it")
    for note, nodes in notes.items():
        more = f" and {len(nodes) - 1} more nodes" if len(nodes) > 1 else ""
        record.remarks.append(f"{note} ({nodes[0]}{more})")
