"""Distributes work over forked processes; one that dies loses the few items it had, and nothing hangs."""

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

# Items per message: one at a time would cost as much as the work, and too many leave one process with the
# rest.
_AT_A_TIME = 16


def _read_only(held: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(held)


# Our values hold read-only mappings, which Python itself does not pickle.
copyreg.pickle(MappingProxyType, lambda held: (_read_only, (dict(held),)))


@dataclass(frozen=True)
class WorkerDied(Generic[T]):
    """An item without a result, because its process ended; `how` says how."""

    item: T
    how: str


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0))


def distribute(work: Callable[[T], R], items: Sequence[T], jobs: int) -> Iterator[R | WorkerDied[T]]:
    """The result of `work` for each item, in any order; raises what `work` raised.

    One job, or few items, run in this process. Otherwise each process is a copy of this one, so `work` may
    hold anything; what it returns or raises is pickled.
    """
    if jobs <= 1 or len(items) <= _AT_A_TIME:
        yield from map(work, items)
        return
    waiting = [items[start:start + _AT_A_TIME] for start in range(0, len(items), _AT_A_TIME)][::-1]
    workers: list[_Worker[T, R]] = []
    gc.freeze()         # what exists is not moved, so the copies go on sharing its memory
    try:
        for _ in range(min(jobs, len(waiting))):
            workers.append(_Worker(work, workers))
            workers[-1].give(waiting.pop())
        while busy := {worker.results: worker for worker in workers if worker.batch}:
            for ready in wait(list(busy)):
                worker = busy[ready]  # type: ignore[index]
                taken, batch = worker.take(), worker.batch
                if taken is None:
                    how = worker.ended()
                    yield from (WorkerDied(item, how) for item in batch)
                    workers.remove(worker)
                    workers.append(worker := _Worker(work, workers))
                elif isinstance(taken, Exception):
                    raise taken
                else:
                    yield from taken
                worker.give(waiting.pop() if waiting else ())
    finally:
        for worker in workers:
            worker.stop()
        gc.unfreeze()


class _Worker(Generic[T, R]):
    """One process and the batch that it works on."""

    def __init__(self, work: Callable[[T], R], others: Iterable[_Worker[T, R]]) -> None:
        """The new process closes its copies of the pipes of `others`, so that all end when this one does."""
        context = multiprocessing.get_context("fork")
        self.results, theirs = context.Pipe()
        self.batch: Sequence[T] = ()
        parents = [self.results, *(other.results for other in others)]
        self._process: BaseProcess = context.Process(target=_serve, args=(work, theirs, parents), daemon=True)
        self._process.start()
        theirs.close()

    def give(self, batch: Sequence[T]) -> None:
        """Sends its next batch; an empty one leaves it idle."""
        self.batch = batch
        if batch:
            with suppress(OSError):     # it has ended, which `take` notices
                self.results.send(batch)

    def take(self) -> list[R] | Exception | None:
        """The results of its batch; None where it has ended."""
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
        """Ends the process, whatever it is doing."""
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
            reply: object = [work(item) for item in batch]
        except Exception as error:  # noqa: BLE001  (it is raised in the parent process)
            reply = error
        try:
            results.send(reply)
        except OSError:
            return
