"""Two engines for one burn-in: nccl-tests for the all-reduces that it can run, ranks of PyTorch for all else;
never both at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType, TracebackType

from healthcheck.burnin.model import BurnInStage, Task, TaskKind, TaskResult
from healthcheck.burnin.stages import StageStep
from provisioning.burnin.conductor import Conductor
from provisioning.burnin.nccltests import NcclTests, why_not

TORCH, NCCL_TESTS, PERFTEST = "torch", "nccl-tests", "perftest"


def left_to_torch(steps: Iterable[StageStep], slurm: bool) -> list[str]:
    """One line for each reason for which all-reduces are not run by nccl-tests, with their stages."""
    reasons: dict[str, dict[BurnInStage, None]] = {}
    for step in steps:
        for task in step.tasks:
            if task.kind is TaskKind.ALLREDUCE and (why := why_not(task, slurm)):
                reasons.setdefault(why, {})[step.stage] = None
    return [f"all-reduce of {', '.join(stage.value for stage in stages)} is left to PyTorch: {why}"
            for why, stages in reasons.items()]


def unjudged(slurm: bool) -> list[str]:
    """What a page has to say of all-reduces that nccl-tests ran, a line each."""
    lines = [
        "of all-reduces by nccl-tests, who is late and how far single iterations lie apart is not judged"]
    if slurm:
        lines.append("srun numbers ranks by the names of their nodes: the orders of nodes among all of them "
                     "were one and the same")
    return lines


class Engines:
    """`run` gives each task to its engine. `conduct` starts PyTorch's side on all nodes, when first a task
    needs it and once more after nccl-tests has run; `missing` waits for it, and says on which nodes it is
    not: what they had to do with it is not run.
    """

    def __init__(self, perf: NcclTests, slurm: bool, conduct: Callable[[], Conductor],
                 missing: Callable[[Conductor], Mapping[str, str]]) -> None:
        self._perf, self._slurm = perf, slurm
        self._conduct, self._missing = conduct, missing
        self._conductor: Conductor | None = None
        self._without: frozenset[str] = frozenset()

    def __enter__(self) -> Engines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self._close()

    def run(
        self, tasks: Iterable[Task], after: Mapping[str, float] = MappingProxyType({}),
    ) -> Iterator[TaskResult]:
        """As `Conductor.run`; nccl-tests begins on all nodes at once. Without its engine no result."""
        tasks = tuple(tasks)
        own = [task for task in tasks if task.kind is TaskKind.ALLREDUCE and not why_not(task, self._slurm)]
        if own:
            self._close()
            yield from self._perf.run(own)
        others = [task for task in tasks if task not in own]
        if others:
            conductor = self._opened()
            yield from conductor.run([task for task in others if not self._without & set(task.nodes)], after)

    def _opened(self) -> Conductor:
        if self._conductor is None:
            self._conductor = self._conduct().__enter__()
            self._without = frozenset(self._missing(self._conductor))
        return self._conductor

    def _close(self) -> None:
        conductor, self._conductor = self._conductor, None
        if conductor is not None:
            conductor.__exit__(None, None, None)
