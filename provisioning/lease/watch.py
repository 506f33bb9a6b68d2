"""Watches a lease while work runs under it: renews it, and stops the work when the lease is lost.

A thread looks every few seconds whether the nodes are still held for us and free of jobs, and, of a lease
that gives way, whether a job waits for them. That the back end does not answer stops nothing as long as the
lease's time lasts: a scheduler that is down starts no job either.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from healthcheck.store import leases
from healthcheck.store.file import Store, opened
from healthcheck.store.leases import LeaseRecord
from inventory.errors import StoreError
from inventory.model import Node
from inventory.transport.base import Failure, Limits, Program, Reply, Stage, Transport
from provisioning.actions.base import ActionError, Backend
from provisioning.lease.jobs import jobs
from provisioning.lease.take import LeaseManager

BEAT_S = 20.0
MakeManager = Callable[[Store], LeaseManager]
# Asked with the back end and the nodes of a lease: why it is to give way now, in words, "" where it is not.
# Raises ActionError.
GivesWay = Callable[[Backend, Sequence[str]], str]


class LeaseWatch:
    """`with LeaseWatch(...) as watch:` renews the lease; `lost` says by node why it did not stand, `gave_way`
    to whom it gave way. `transport` sends a node only what a look directly before allows."""

    def __init__(
        self, folder: Path, manager: MakeManager, entry: LeaseRecord, transport: Transport, *,
        beat: float = BEAT_S, gives_way: GivesWay | None = None,
    ) -> None:
        self.entry = entry
        self.lost: dict[str, str] = {}
        self.gave_way = ""
        self._folder = folder
        self._lessor = manager
        self._inner = transport
        self._beat = beat
        self._gives_way = gives_way
        self._term = entry.until - entry.began
        self._until = entry.until
        self._end = threading.Event()
        self._lock = threading.Lock()       # guards _working: no one is interrupted who is not at work
        # runs that go on: ranks stay on nodes while another one looks at them
        self._working = 0
        self._thread = threading.Thread(target=self._watch, name="lease", daemon=True)

    def __enter__(self) -> LeaseWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def check(self, share: float = 0.5) -> dict[str, str]:
        """By node why the lease does not stand; raises ActionError and StoreError if unknown. With less than
        this share of its term left it is renewed for a whole one."""
        with opened(self._folder) as store:
            manager = self._lessor(store)
            now = manager.clock()
            entry = leases.current(store, self.entry)
            if entry is None:
                return dict.fromkeys(self.entry.nodes, f"lease {self.entry.name} was ended by someone else")
            if now > entry.until:
                return dict.fromkeys(entry.nodes, f"lease {entry.name} was not renewed in time")
            lost = {
                **manager.method.gone(entry),
                **jobs(manager.method.base, entry.nodes, manager.run, entry.name).busy}
            if self._gives_way is not None and (why := self._gives_way(manager.method.base, entry.nodes)):
                self.gave_way = why
                return lost
            if len(lost) < len(entry.nodes) and entry.until - now < self._term * share:
                manager.method.extend(entry, now + self._term)
                leases.extend(store, entry, now + self._term)
                self._until = now + self._term
            return lost

    def stood(self) -> dict[str, str]:
        """By node why what was measured under the lease is not to be relied on; a last look that fails is a
        reason. That it gave way is none: until then it stood."""
        try:
            self.lost.update(self.check())
        except (ActionError, StoreError) as error:
            self.lost.update(
                dict.fromkeys(self.entry.nodes, f"whether its lease stood to the end is not known: {error}"))
        return {node: f"its lease was lost: {why}" for node, why in self.lost.items()}

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        """As the transport's own; nodes that do not stand the look before get nothing, and say so."""
        wanted = list(nodes)
        if not {node.name for node in wanted} & set(self.entry.nodes):
            yield from self._inner.run(wanted, program, limits)
            return
        try:
            # What is sent now may run for as long as a whole term, whatever becomes of us.
            self.lost.update(self.check(share=1.0))
        except (ActionError, StoreError) as error:
            self.lost.update(dict.fromkeys(self.entry.nodes, str(error)))
        waiting = {node.name for node in wanted if node.name not in self.lost and not self.gave_way}
        for name in [node.name for node in wanted if node.name not in waiting]:
            yield self._refusal(name)
        try:
            self._at_work(1)
            for reply in self._inner.run([node for node in wanted if node.name in waiting], program, limits):
                waiting.discard(reply.node)
                yield reply
        except KeyboardInterrupt:
            if not self.over:
                raise
            for name in sorted(waiting):
                yield self._refusal(name)
        finally:
            self._at_work(-1)

    @property
    def over(self) -> str:
        """Why the work is to end now, "" where it may go on."""
        if self.gave_way:
            return f"it gave way: {self.gave_way}"
        return next(
            (f"another node's lease was lost, which ended the work: {why}" for why in self.lost.values()), "")

    def _refusal(self, name: str) -> Reply:
        why = self.lost.get(name) or self.over
        return Reply(name, None, Failure(Stage.LEASE, why), now := time.time(), now)

    def _at_work(self, more: int) -> None:
        with self._lock:
            self._working += more

    def _watch(self) -> None:
        while not self._end.wait(self._beat):
            try:
                lost = self.check()
            except (ActionError, StoreError) as error:
                late = time.time() > self._until
                lost = dict.fromkeys(self.entry.nodes, f"it was not renewed in time: {error}") if late else {}
            if lost or self.gave_way:
                self.lost.update(lost)
                with self._lock:
                    if self._working:
                        signal.pthread_kill(threading.main_thread().ident or 0, _interrupting())
                return


def _interrupting() -> signal.Signals:
    """A signal that is a KeyboardInterrupt: TERM is made one, and INT may be ignored (nohup, a shell's &)."""
    return signal.SIGTERM if callable(signal.getsignal(signal.SIGTERM)) else signal.SIGINT
