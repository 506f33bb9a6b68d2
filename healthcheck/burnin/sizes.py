"""Results of sweeps over sizes: how long each size took, and what NCCL chose. Pure.

Only learned floors judge them: latencies are not published, and scatter too much to compare equals.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from healthcheck.burnin import limits
from healthcheck.burnin.figures import LATENCY
from healthcheck.burnin.model import Task, TaskKind, TaskResult
from healthcheck.burnin.params import PARAMS, ladder
from inventory.text import listed

CHOSE = "nccl_chose"        # the fact: "8:RING/LL 64:RING/LL ..."
NVLS = "NCCL_NVLS_ENABLE"
ON, OFF = "nvls-on", "nvls-off"
_CHOICE = re.compile(r"([1-9]\d{0,14}):([A-Z0-9_]{1,24}/[A-Z0-9_]{1,12})")
_LARGEST = 2**50


def latencies(result: TaskResult) -> dict[int, float]:
    """By size in bytes the seconds of an all-reduce, median over the ranks; planned sizes only."""
    found = {}
    for size in _planned(result):
        own = [value for report in result.reports if (value := report.figures.get(f"{LATENCY}{size}", 0)) > 0]
        if own:
            found[size] = median(own) / 1e6
    return found


def busbw(size: int, seconds: float, ranks: int) -> float:
    """The bus bandwidth in 1e9 bytes a second, as nccl-tests defines it; 0 for one rank."""
    return size / seconds / 1e9 * 2 * (ranks - 1) / ranks


def choices(result: TaskResult) -> dict[int, str]:
    """By size the algorithm and protocol that NCCL logged, such as "RING/LL"; only sizes that it logged."""
    text = next((text for report in result.reports if (text := report.facts.get(CHOSE))), "")
    return {int(size): choice for size, choice in _CHOICE.findall(text)}


def asked_for(task: Task) -> str:
    """Whether a sweep's task may use NVLS, as in `Setting.algo`: "auto" where it is not set."""
    return {"": "auto", "0": OFF}.get(task.environment.get(NVLS, "").strip(), ON)


def without_nvls(results: Iterable[TaskResult]) -> Iterator[str]:
    """A line for the nodes whose NVLS test did not use NVLS, and one for those where that is unknown."""
    nodes: dict[str, list[str]] = defaultdict(list)
    for result in results:
        if result.task.kind is not TaskKind.SIZES or not result.whole or asked_for(result.task) != ON:
            continue
        chose = choices(result)
        if not chose:
            nodes["whether NCCL used NVLS is unknown: its log names no algorithm"] += result.task.nodes
        elif not any(choice.startswith("NVLS") for choice in chose.values()):
            used = ", ".join(sorted({choice.partition("/")[0] for choice in chose.values()}))
            nodes["NCCL used NVLS at no size, though the SKU has it and the settings allow it: it chose "
                  f"{used}"] += result.task.nodes
    for why, of in nodes.items():
        yield f"{why} ({listed(of, limits.NODES_NAMED)})"


@dataclass(frozen=True)
class SizeTiming:
    """One size under one setting: median and longest seconds, and what NCCL chose ("": unknown)."""

    size: int
    median: float
    longest: float
    chose: str


def rows(results: Sequence[TaskResult]) -> tuple[SizeTiming, ...]:
    """Of sweeps under one setting, by size."""
    seconds: dict[int, list[float]] = defaultdict(list)
    chose: dict[int, Counter[str]] = defaultdict(Counter)
    for result in results:
        for size, value in latencies(result).items():
            seconds[size].append(value)
        for size, choice in choices(result).items():
            chose[size][choice] += 1
    return tuple(SizeTiming(size, median(of), max(of), ", ".join(sorted(chose[size])))
                 for size, of in sorted(seconds.items()))


def _planned(result: TaskResult) -> Sequence[int]:
    params: Mapping[str, int | float | str] = result.task.params
    top = params.get("bytes", result.reports[0].figures.get("size_bytes", 0) if result.reports else 0)
    factor = params.get("factor", PARAMS["sizes"]["factor"][0])
    if (not isinstance(top, (int, float)) or not isinstance(factor, int) or not 8 <= top <= _LARGEST
            or factor < 2):
        return ()
    return ladder(int(top), factor)
