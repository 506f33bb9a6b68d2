"""Shares work over forked processes: each takes the next few items, and a process that dies costs those it had, never a hang."""

from __future__ import annotations

import copyreg
import gc
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import MappingProxyType
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# Items that a process takes at a time: a message for each would cost as much as the work, and too many leave one process with the rest.
_AT_A_TIME = 16


def _read_only(held: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(held)


# Values of ours hold mappings that no one is to change, which Python itself does not pickle.
copyreg.pickle(MappingProxyType, lambda held: (_read_only, (dict(held),)))


@dataclass(frozen=True)
class Died(Generic[T]):
    """The item of which nothing came, because the process that had it ended; `how` says how."""

    item: T
    how: str


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0))


def shared(work: Callable[[T], R], items: Sequence[T], jobs: int) -> Iterator[R | Died[T]]:
    """What `work` makes of each item, in no order; raises what it raised for one.

    With one job, or few items, all is done in this process. Otherwise every process is a copy of this one, so that `work` may hold whatever
    it likes; what it returns, and what it raises, is pickled.
    """
    if jobs <= 1 or len(items) <= _AT_A_TIME:
        yield from map(work, items)
        return
    waiting = [items[start:start + _AT_A_TIME] for start in range(0, len(items), _AT_A_TIME)][::-1]
    crew: list[_Worker[T, R]] = []
    gc.freeze()         # what is there stays where it is, so that the copies go on sharing it
    try:
        for _ in range(min(jobs, len(waiting))):
            crew.append(_Worker(work, crew))
            crew[-1].give(waiting.pop())
        while busy := {worker.results: worker for worker in crew if worker.batch}:
            for ready in wait(list(busy)):
                worker = busy[ready]  # type: ignore[index]
                taken, batch = worker.take(), worker.batch
                if taken is None:
                    how = worker.ended()
                    yield from (Died(item, how) for item in batch)
                    crew.remove(worker)
                    crew.append(worker := _Worker(work, crew))
                elif isinstance(taken, Exception):
                    raise taken
                else:
                    yield from taken
                worker.give(waiting.pop() if waiting else ())
    finally:
        for worker in crew:
            worker.stop()
        gc.unfreeze()


class _Worker(Generic[T, R]):
    """One process and what it is at."""

    def __init__(self, work: Callable[[T], R], others: Iterable[_Worker[T, R]]) -> None:
        """`others` are those that there are: their ends of pipes are closed in its process, so that all end when this one does."""
        context = multiprocessing.get_context("fork")
        self.results, theirs = context.Pipe()
        self.batch: Sequence[T] = ()
        parents = [self.results, *(other.results for other in others)]
        self._process: BaseProcess = context.Process(target=_serve, args=(work, theirs, parents), daemon=True)
        self._process.start()
        theirs.close()

    def give(self, batch: Sequence[T]) -> None:
        """What it is to do next; nothing leaves it idle."""
        self.batch = batch
        if batch:
            with suppress(OSError):     # it has ended, which is seen where its results are taken
                self.results.send(batch)

    def take(self) -> list[R] | Exception | None:
        """What came of its batch; None where it has ended."""
        try:
            taken: list[R] | Exception = self.results.recv()
        except (EOFError, OSError):
            return None
        return taken

    def ended(self) -> str:
        """How the process ended."""
        self.stop()
        code = self._process.exitcode or 0
        return f"by signal {-code}" if code < 0 else f"with exit status {code}"

    def stop(self) -> None:
        """Ends the process, whatever it is at."""
        self.results.close()
        self._process.join(0.5 if not self.batch else 0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(work: Callable[[T], R], results: Connection, parents: Iterable[Connection]) -> None:
    for inherited in parents:
        inherited.close()
    while True:
        try:
            batch: Sequence[T] = results.recv()
        except (EOFError, OSError):
            return
        try:
            made: object = [work(item) for item in batch]
        except Exception as error:  # noqa: BLE001  (it is raised in the process that asked)
            made = error
        try:
            results.send(made)
        except OSError:
            return
