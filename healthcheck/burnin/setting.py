"""The figures of tasks, each with the setting under which it was measured, to compare like with like."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from healthcheck.burnin import sizes
from healthcheck.burnin.model import BurnInStage, Object, Participant, RankReport, Task, TaskKind, TaskResult
from healthcheck.burnin.onnode.numa import NOT_BOUND
from healthcheck.burnin.onnode.storage import LOCAL_TYPES
from healthcheck.burnin.params import PARAMS
from healthcheck.burnin.published import BUSBW, BY_SIZE, GLOO, NCCL, Setting

# Judged figures of a single rank: more is better.
OF_RANK = ("tflops_fp64", "tflops_fp32", "tflops_tf32", "tflops_fp16", "tflops_bf16", "tflops_fp8",
           "memory_gb_s", "copy_to_gb_s", "copy_from_gb_s", "copy_within_gb_s", "train_steps_s")
# Figures that depend on which socket's memory is used.
OF_HOST = ("copy_to_gb_s", "copy_from_gb_s")
OF_HOST_MEMORY = ("host_gb_s", "host_numa_gb_s")
OF_STORAGE = ("storage_write_gb_s", "storage_read_gb_s")
# Names of ranks' facts.
DEVICE, BACKEND, WATTS = "device", "backend", "power_limit_w"
NUMA = "numa"
CPU = "cpu"
_LARGEST = 2**62        # bytes


@dataclass(frozen=True)
class SkuHardware:
    """What a SKU says: its GPU's model ("" where it has none), and the rate of its compute ports."""

    gpu: str = ""
    gbps: float = 0


@dataclass(frozen=True)
class Measure:
    """One figure: the object that it may accuse, its setting and task, and all `nodes` that took part."""

    object: Object
    name: str
    setting: Setting
    value: float
    task: str
    nodes: tuple[str, ...]


def rail_of(task: Task) -> int | None:
    """The single rail that carries the task, if a parameter names one."""
    rail = task.params.get("rail")
    return rail if type(rail) is int and rail >= 0 else None


def size_of(size: float) -> int:
    """Bytes; a buffer close to a power of two (less what ranks cannot share evenly) counts as that power; 0
    for what no buffer can be."""
    if not 1 <= size <= _LARGEST:
        return 0
    power = 2 ** round(math.log2(size))
    return power if abs(power - size) < power / 1000 else int(size)


def algo_of(task: Task) -> str:
    """The algorithm that is asked of NCCL, "auto" for any; of a sweep whether it may use NVLS."""
    if task.kind is TaskKind.SIZES:
        return sizes.asked_for(task)
    asked = task.environment.get("NCCL_ALGO", "").strip().lower()
    if asked:
        return asked
    return "ring" if task.environment.get("NCCL_NVLS_ENABLE") == "0" and len(task.nodes) == 1 else "auto"


def measures(
    results: Iterable[TaskResult], places: Mapping[str, Participant], hardware: Mapping[str, SkuHardware],
) -> Iterator[Measure]:
    """The figures of whole tasks; of a task that is not whole nothing counts. `hardware` is by SKU. Those of
    a link burn are none: the plan says by pair what is expected, and `fabricresult` judges it."""
    for result in results:
        if result.whole and result.task.stage is not BurnInStage.FABRIC:
            of = {TaskKind.ALLREDUCE: _of_task, TaskKind.SIZES: _of_sizes, TaskKind.STORAGE: _of_storage,
                  TaskKind.HOST: _of_host}.get(result.task.kind, _of_ranks)
            yield from of(result, places, hardware)


def _of_ranks(result: TaskResult, places: Mapping[str, Participant],
              hardware: Mapping[str, SkuHardware]) -> Iterator[Measure]:
    for report in result.reports:
        for figure in OF_RANK:
            value = report.figures.get(figure, 0)
            if value > 0 and not (figure in OF_HOST and unbound(report)):
                setting = Setting(figure, result.task.stage.value, _gpu(report, places, hardware),
                                  size=unusual_size(result.task), watts=_watts(report),
                                  backend=backend_of(report))
                yield Measure(Object.GPU, str(report.seat), setting, value, result.task.id,
                              (report.seat.node,))


def unusual_size(task: Task) -> int:
    """The size of a rank's own work (rows of a matrix, or bytes), where a parameter gives another one than a
    GPU's default, for which nothing is published or learned; else 0."""
    for name in ("n", "bytes"):
        if name in PARAMS[task.kind.value]:
            given = task.params.get(name, 0)
            return given if isinstance(given, int) and given != PARAMS[task.kind.value][name][0] else 0
    return 0


def _of_host(result: TaskResult, places: Mapping[str, Participant],
             hardware: Mapping[str, SkuHardware]) -> Iterator[Measure]:
    """What a node's ranks copied in its memory together, and the least of several NUMA nodes."""
    reports = result.reports
    if any(report.figures.get("host_gb_s", 0) <= 0 or unbound(report) for report in reports):
        return
    of_numa: dict[str, float] = defaultdict(float)
    for report in reports:
        of_numa[report.facts.get(NUMA, "").partition(",")[0]] += report.figures["host_gb_s"]
    node = reports[0].seat.node
    setting = Setting("host_gb_s", result.task.stage.value, reports[0].facts.get("cpu", ""), len(reports),
                      backend=backend_of(reports[0]))
    yield Measure(Object.NODE, node, setting, sum(of_numa.values()), result.task.id, (node,))
    if len(of_numa) > 1:
        least = replace(setting, figure="host_numa_gb_s")
        yield Measure(Object.NODE, node, least, min(of_numa.values()), result.task.id, (node,))


def _of_storage(result: TaskResult, places: Mapping[str, Participant],
                hardware: Mapping[str, SkuHardware]) -> Iterator[Measure]:
    """What a node's one rank wrote to a mount and read from there."""
    params = result.task.params
    for report in result.reports:
        together = 1 if report.facts.get("mount_type", "") in LOCAL_TYPES else int(params.get("nodes", 1))
        setting = Setting("", result.task.stage.value, _gpu(report, places, hardware), 1, together,
                          size=size_of(report.figures.get("size_bytes", 0)), backend=backend_of(report),
                          mount=str(params.get("path", "")))
        for figure in OF_STORAGE:
            if (value := report.figures.get(figure, 0)) > 0:
                yield Measure(Object.NODE, report.seat.node, replace(setting, figure=figure), value,
                              result.task.id, (report.seat.node,))


def _of_task(result: TaskResult, places: Mapping[str, Participant],
             hardware: Mapping[str, SkuHardware]) -> Iterator[Measure]:
    """The bandwidth of a collective is one of all its ranks: their median."""
    busbw = [value for report in result.reports if (value := report.figures.get(BUSBW, 0)) > 0]
    if not busbw:
        return      # one rank has none
    object_, name = subject(result.task)
    yield Measure(object_, name, setting_of(result, places, hardware), statistics.median(busbw),
                  result.task.id, result.task.nodes)


def _of_sizes(result: TaskResult, places: Mapping[str, Participant],
              hardware: Mapping[str, SkuHardware]) -> Iterator[Measure]:
    """The bandwidth of each size of a sweep."""
    object_, name = subject(result.task)
    setting, ranks = setting_of(result, places, hardware), len(result.task.seats)
    for size, seconds in sizes.latencies(result).items() if ranks > 1 else ():
        yield Measure(object_, name, replace(setting, figure=BY_SIZE, size=size),
                      sizes.busbw(size, seconds, ranks), result.task.id, result.task.nodes)


def setting_of(result: TaskResult, places: Mapping[str, Participant],
               hardware: Mapping[str, SkuHardware]) -> Setting:
    """The conditions of a collective. What nodes differ in is that of the lesser one."""
    task, first = result.task, result.reports[0]
    nodes = task.nodes
    inside, nics, gbps = ways_of(task, [places[node] for node in nodes if node in places], hardware)
    gpus = (max(sum(seat.node == node for seat in task.seats) for node in nodes)
            if len(nodes) < 3 else round(len(task.seats) / len(nodes)))
    return Setting(
        BUSBW, task.stage.value, _gpu(first, places, hardware), gpus, len(nodes), nics, gbps,
        size_of(first.figures.get("size_bytes", 0)), algo_of(task),
        min(_watts(report) for report in result.reports), inside, backend_of(first))


def ways_of(task: Task, there: Sequence[Participant],
            hardware: Mapping[str, SkuHardware]) -> tuple[bool, int, float]:
    """Whether a collective stays within a node or NVLink domain; else by how many NICs of a node it leaves,
    and their rate: the least of these nodes."""
    domains = {place.domain for place in there}
    if (task.stage is not BurnInStage.RAIL if len(task.nodes) == 1
            else len(domains) == 1 and None not in domains):
        return True, 0, 0
    nics = 1 if rail_of(task) is not None else min((len(place.rails) for place in there), default=0)
    return False, nics, min((hardware.get(place.sku or "", SkuHardware()).gbps for place in there), default=0)


def subject(task: Task) -> tuple[Object, str]:
    """The object to accuse where a collective is too slow: as precise as the task allows."""
    nodes, rail = task.nodes, rail_of(task)
    if len(nodes) == 1:
        return (Object.NODE, nodes[0]) if rail is None else (Object.RAIL, f"{nodes[0]}/rail{rail}")
    return (Object.PAIR, pair(nodes)) if len(nodes) == 2 else (Object.UNEXPLAINED, task.id)


def pair(nodes: Sequence[str]) -> str:
    """How a pair is named, whichever of the two comes first."""
    return " - ".join(sorted(nodes))


def unbound(report: RankReport) -> str:
    """Why a rank was not bound to its GPU's NUMA node; "" where it was, or where there is only one."""
    return report.facts.get(NUMA, "") if report.facts.get(NUMA, "").startswith(NOT_BOUND) else ""


def backend_of(report: RankReport) -> str:
    """Which library carried it, or would have: gloo's ranks work on CPUs."""
    return GLOO if report.facts.get(BACKEND) == GLOO else NCCL


def _gpu(report: RankReport, places: Mapping[str, Participant], hardware: Mapping[str, SkuHardware]) -> str:
    device = report.facts.get(DEVICE, "")
    if device:
        return "" if device == CPU else device
    place = places.get(report.seat.node)
    return hardware.get(place.sku or "", SkuHardware()).gpu if place is not None else ""


def _watts(report: RankReport) -> int:
    try:
        return max(0, round(float(report.facts.get(WATTS, "0"))))
    except (ValueError, OverflowError):
        return 0
