"""The threads in which machines are checked and changed; what they learn goes into the run's queue. They end
with the process: no one waits at its end for a look that hangs. What an executor raises is a defect of ours:
it is reported by its type alone, for its words may hold anything, and the other machines go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeAlias

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.errors import MusterError
from inventory.text import clean
from provisioning.bringup.engine.advance import MOST, report_advice
from provisioning.bringup.engine.model import (
    Executor,
    JointExecutor,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepState,
)


@dataclass(frozen=True)
class Observed:
    """A machine was checked."""

    node: str
    seen: Observation


@dataclass(frozen=True)
class IdleChecked:
    """Why a machine must not be disturbed by this operation; empty where it may."""

    node: str
    seen: Observation
    operation: Operation
    why: str


@dataclass(frozen=True)
class OperationEnded:
    """An operation has ended; `defect` is where that was by a defect of ours."""

    node: str
    made: OperationResult
    defect: Trouble | None = None


@dataclass(frozen=True)
class BatchObserved:
    """All machines of a look at many were reported."""

    step: str


@dataclass(frozen=True)
class AllOperationsEnded:
    """An operation that was done to many machines at once is over, and how it ended was reported for each."""

    step: str


@dataclass(frozen=True)
class Wake:
    """Someone wants the run to look up."""


Result: TypeAlias = Observed | IdleChecked | OperationEnded | BatchObserved | AllOperationsEnded | Wake


class Workers:
    """So many threads, started when they are needed."""

    def __init__(self, most: int) -> None:
        self.results: SimpleQueue[Result] = SimpleQueue()
        self._most = most
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = 0

    def observe(self, executor: Executor, step: str, machines: Sequence[Machine], *, together: bool) -> None:
        """Has machines checked: `Observed` for each, then `BatchObserved` where it is `together`."""
        self._do(lambda: self._observe(executor, step, machines, together))

    def ask(
        self, idle: Callable[[Machine], str], machine: Machine, seen: Observation, operation: Operation,
    ) -> None:
        """Asks whether a machine may be disturbed."""
        def task() -> None:
            try:
                why = idle(machine)
            except MusterError as error:
                why = f"whether it is idle is not known: {error}"
            except BaseException as error:  # noqa: BLE001  (ours, whatever it is)
                why = f"whether it is idle is not known: {_defect(error)}"
            self.results.put(IdleChecked(machine.name, seen, operation, clean(why, MOST)))
        self._do(task)

    def make(self, executor: Executor, machine: Machine, operation: Operation) -> None:
        """Has an operation done."""
        def task() -> None:
            try:
                ended = OperationEnded(machine.name, executor.make(machine, operation))
            except BaseException as error:  # noqa: BLE001  (ours, whatever it is)
                message = _defect(error)
                ended = OperationEnded(
                    machine.name, OperationResult(None, message),
                    Trouble(f"{message}, in {operation.name}", Owner.OPERATOR, report_advice()))
            self.results.put(ended)
        self._do(task)

    def make_together(
        self, executor: JointExecutor, step: str, machines: Sequence[Machine], what: str,
    ) -> None:
        """Does an operation to all at once: `OperationEnded` for each, then `AllOperationsEnded`."""
        def task() -> None:
            made: Mapping[str, OperationResult] = {}
            lacking, defect = OperationResult(None, "no result was returned for it"), None
            try:
                made = executor.make_together(machines)
            except BaseException as error:  # noqa: BLE001  (ours, whatever it is)
                lacking = OperationResult(None, _defect(error))
                defect = Trouble(f"{lacking.message}, in {what}", Owner.OPERATOR, report_advice())
            for machine in machines:
                self.results.put(OperationEnded(machine.name, made.get(machine.name, lacking), defect))
            self.results.put(AllOperationsEnded(step))
        self._do(task)

    def close(self) -> None:
        """Threads that have nothing to do end; others after what they do."""
        for _ in range(self._threads):
            self._tasks.put(None)

    def _observe(self, executor: Executor, step: str, machines: Sequence[Machine], together: bool) -> None:
        missing = {machine.name for machine in machines}
        message = Observation(StepState.UNKNOWN, "the check ended without a result for it")
        try:
            for name, seen in executor.observe(machines):
                if name in missing:
                    missing.discard(name)
                    self.results.put(Observed(name, seen))
        except BaseException as error:  # noqa: BLE001  (ours, whatever it is)
            what = f"{_defect(error)}, in a check of {step}"
            message = Observation(
                StepState.TROUBLE, what, troubles=(Trouble(what, Owner.OPERATOR, report_advice()),))
        for name in missing:
            self.results.put(Observed(name, message))
        if together:
            self.results.put(BatchObserved(step))

    def _do(self, task: Callable[[], None]) -> None:
        if self._threads < self._most:
            self._threads += 1
            threading.Thread(target=self._work, name="bringup", daemon=True).start()
        self._tasks.put(task)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


def _defect(error: BaseException) -> str:
    return f"a defect of muster: {type(error).__name__}"
