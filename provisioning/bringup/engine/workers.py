"""The threads in which machines are looked at and changed, for that waits; what they learn goes into one queue, which the run reads.

They end with the process: nobody waits at its end for a look that hangs. What an executor raises is a defect of ours:
it is told by its type alone, for its words may hold anything, and the other machines go on.
"""

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
from provisioning.bringup.engine.advance import MOST, report_hand
from provisioning.bringup.engine.model import Executor, JointExecutor, Machine, Made, Observation, Operation, StepState


@dataclass(frozen=True)
class Looked:
    """A machine was looked at."""

    node: str
    seen: Observation


@dataclass(frozen=True)
class IdleChecked:
    """Why a machine must not be disturbed by this deed; empty where it may."""

    node: str
    seen: Observation
    deed: Operation
    why: str


@dataclass(frozen=True)
class OperationEnded:
    """A deed has ended; `defect` is where that was by a defect of ours."""

    node: str
    made: Made
    defect: Trouble | None = None


@dataclass(frozen=True)
class Over:
    """All machines of a look at many were told."""

    step: str


@dataclass(frozen=True)
class AllMade:
    """A deed that was done to many machines at once is over, and of each it was told how it ended."""

    step: str


@dataclass(frozen=True)
class Wake:
    """Somebody wants the run to look up."""


Result: TypeAlias = Looked | IdleChecked | OperationEnded | Over | AllMade | Wake


class Workers:
    """So many threads, started when they are needed."""

    def __init__(self, most: int) -> None:
        self.results: SimpleQueue[Result] = SimpleQueue()
        self._most = most
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = 0

    def look(self, executor: Executor, step: str, machines: Sequence[Machine], *, together: bool) -> None:
        """Has machines looked at: `Looked` for each as it is known, and then `Over` where it is `together`."""
        self._do(lambda: self._look(executor, step, machines, together))

    def ask(self, idle: Callable[[Machine], str], machine: Machine, seen: Observation, deed: Operation) -> None:
        """Asks whether a machine may be disturbed."""
        def task() -> None:
            try:
                why = idle(machine)
            except MusterError as error:
                why = f"whether it is idle is not known: {error}"
            except BaseException as error:  # noqa: BLE001  (ours, whatever it is)
                why = f"whether it is idle is not known: {_defect(error)}"
            self.results.put(IdleChecked(machine.name, seen, deed, clean(why, MOST)))
        self._do(task)

    def make(self, executor: Executor, machine: Machine, deed: Operation) -> None:
        """Has a deed done."""
        def task() -> None:
            try:
                ended = OperationEnded(machine.name, executor.make(machine, deed))
            except BaseException as error:  # noqa: BLE001  (ours, whatever it is)
                said = _defect(error)
                ended = OperationEnded(machine.name, Made(None, said), Trouble(f"{said}, in {deed.name}", Owner.OPERATOR, report_hand()))
            self.results.put(ended)
        self._do(task)

    def make_together(self, executor: JointExecutor, step: str, machines: Sequence[Machine], what: str) -> None:
        """Has a deed done to all of them at once: `OperationEnded` for each, and then `AllMade`."""
        def task() -> None:
            made: Mapping[str, Made] = {}
            lacking, defect = Made(None, "nothing was said of it"), None
            try:
                made = executor.make_together(machines)
            except BaseException as error:  # noqa: BLE001  (ours, whatever it is)
                lacking = Made(None, _defect(error))
                defect = Trouble(f"{lacking.said}, in {what}", Owner.OPERATOR, report_hand())
            for machine in machines:
                self.results.put(OperationEnded(machine.name, made.get(machine.name, lacking), defect))
            self.results.put(AllMade(step))
        self._do(task)

    def close(self) -> None:
        """Threads that have nothing to do end; others after what they do."""
        for _ in range(self._threads):
            self._tasks.put(None)

    def _look(self, executor: Executor, step: str, machines: Sequence[Machine], together: bool) -> None:
        missing = {machine.name for machine in machines}
        said = Observation(StepState.UNKNOWN, "the look at it ended without a word of it")
        try:
            for name, seen in executor.look(machines):
                if name in missing:
                    missing.discard(name)
                    self.results.put(Looked(name, seen))
        except BaseException as error:  # noqa: BLE001  (ours, whatever it is)
            what = f"{_defect(error)}, in a look at {step}"
            said = Observation(StepState.TROUBLE, what, troubles=(Trouble(what, Owner.OPERATOR, report_hand()),))
        for name in missing:
            self.results.put(Looked(name, said))
        if together:
            self.results.put(Over(step))

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
