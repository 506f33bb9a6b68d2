"""The main loop of a run: machines go on when they can, results are stored together. One thread decides and
writes; looks and operations are in others, for they wait. An operation is handed to them once it is in the
store, never before. Nothing is polled but the store, where a person may have said a word meanwhile: the loop
sleeps until a result comes or a time is due."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import Empty

from healthcheck.store import bringups
from healthcheck.store.file import Store
from inventory.errors import StoreError
from provisioning.bringup.engine.journal import Journal
from provisioning.bringup.engine.model import Executor, OperationResult
from provisioning.bringup.engine.scheduler import Scheduler
from provisioning.bringup.engine.site import EnginePolicy, RunContext, RunEvent
from provisioning.bringup.engine.state import MachineState, again
from provisioning.bringup.engine.transitions import Transitions
from provisioning.bringup.engine.workers import OperationEnded, Result, Wake, Workers

POLL_S = 2.0        # how soon a word that someone says meanwhile (skip, retry) is heard


class Engine:
    """One run over these machines; with `dry` the store is only read, up to each one's first open step."""

    def __init__(
        self, site: RunContext, states: Mapping[str, MachineState], executors: Mapping[str, Executor],
        policy: EnginePolicy, on_event: Callable[[RunEvent], None], store: Store | None, *, dry: bool,
    ) -> None:
        self.states, self.stopping = states, False
        self.scheduler = Scheduler(policy, states.values(), free=dry)
        self.journal = Journal(None if dry else store, site.who)
        self._site, self._on_event, self._store = site, on_event, None if dry else store
        self._workers = Workers(policy.width + sum(step.together for step in policy.steps.values()))
        woke = site.clock()
        self._transitions = Transitions(site, states, executors, policy, self.journal, dry, skips(store),
                                        self.scheduler, self._workers, woke)
        self._unwritten: dict[int, OperationResult] = {}
        self._written = True                        # whether the newest operations are in the store
        self._version, self._read_at = self._data_version(), woke

    def interrupt(self) -> None:
        """Has the loop end: nothing is begun any more."""
        self.stopping = True
        self._workers.results.put(Wake())

    def run(self) -> None:
        """Goes on until each machine is through, in trouble or halted, or someone asks for an end. Operations
        under way are waited for and written down, whatever happens. Raises StoreError."""
        transitions = self._transitions
        try:
            with self._transaction():
                transitions.begin()
                transitions.pump(self._site.clock())
            while not self.stopping:
                self._hand_on()
                if not transitions.under_way and transitions.next_due() is None:
                    break
                self._note(self._wait())
            if self.stopping:
                self._on_event(RunEvent("", "", "interrupted", self._awaited()))
            self._drain()
        except KeyboardInterrupt:
            raise
        except BaseException:
            self._drain(quietly=True)
            raise
        finally:
            self._workers.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._written = False
        with self.journal.transaction():
            yield
        self._written = True

    def _hand_on(self) -> None:
        """Tells what happened, and hands what was decided to the threads, now that it is written down."""
        transitions = self._transitions
        events, transitions.events = transitions.events, []
        for event in events:
            self._on_event(event)
        tasks, transitions.tasks = transitions.tasks, []
        for task in tasks:
            task()

    def _wait(self) -> list[Result]:
        """What was learned; sleeps until there is something, or something is due."""
        found: list[Result] = []
        results, due = self._workers.results, self._transitions.next_due()
        left = POLL_S if due is None else max(0.0, due - self._site.clock())
        if results.empty():
            try:
                if self._site.sleep is None:
                    found.append(results.get(timeout=min(left, POLL_S)))
                elif self._transitions.under_way:
                    found.append(results.get())
                else:
                    self._site.sleep(left)
            except Empty:
                pass
        while not results.empty():
            found.append(results.get())
        return found

    def _note(self, found: list[Result]) -> None:
        """Writes down what was learned and what follows, in one transaction."""
        transitions, now = self._transitions, self._site.clock()
        for result in found:
            if isinstance(result, OperationEnded):
                self._unwritten[self._making(result)] = result.made
        changed = self._changed(now)
        due = transitions.next_due()
        if not found and not changed and (due is None or due > now):
            return
        with self._transaction():
            if changed:
                self._read_changes(now)
            for result in found:
                transitions.learn(result, now)
            transitions.due(now)
            transitions.pump(now)
        self._unwritten.clear()

    def _drain(self, quietly: bool = False) -> None:
        """Waits for operations under way, and writes down how they, and those not begun, ended."""
        making = {state.making: state.begun for state in self.states.values() if state.making is not None}
        ends = dict(self._unwritten)
        if self._written:
            ends.update((number, OperationResult(False, "not begun: the run was ended"))
                        for number, begun in making.items() if not begun)
        while {number for number, begun in making.items() if begun} - set(ends):
            result = self._workers.results.get()
            if isinstance(result, OperationEnded):
                ends[self._making(result)] = result.made
        try:
            if ends:
                with self.journal.transaction():
                    for number, made in ends.items():
                        self.journal.operation_ended(number, made, self._site.clock())
        except StoreError:
            if not quietly:
                raise

    def _awaited(self) -> str:
        number = sum(state.begun for state in self.states.values())
        return (f"waiting for {number} running operations; press again to leave at once" if number
                else "nothing else is started")

    def _making(self, ended: OperationEnded) -> int:
        number = self.states[ended.node].making
        assert number is not None  # noqa: S101  (it was made)
        return number

    # What people say meanwhile.

    def _data_version(self) -> int:
        return int(self._store.rows("PRAGMA data_version")[0][0]) if self._store is not None else 0

    def _changed(self, now: float) -> bool:
        """Whether someone else has written to the store."""
        if self._store is None or now - self._read_at < POLL_S:
            return False
        before, self._version, self._read_at = self._version, self._data_version(), now
        return self._version != before

    def _read_changes(self, now: float) -> None:
        """Machines that a person began again come back; those in a step to be skipped by now go on."""
        assert self._store is not None  # noqa: S101  (it was asked)
        transitions = self._transitions
        transitions.skips = skips(self._store)
        stuck = {state.name: (state.step, state.refused, bool(state.came)) for state in self.states.values()
                 if state.out and not state.done}
        for state in again(self._store, [self.states[name] for name in stuck]):
            step, refused, counted = stuck[state.name]
            self.scheduler.back(state, step, refused=refused, counted=counted, now=now)
        for state in self.states.values():
            why = transitions.skips.get((state.name, state.step))
            if why is not None and not state.out and not state.busy:
                transitions.skip(state, why, now)


def skips(store: Store | None) -> dict[tuple[str, str], str]:
    """By machine and step, why a person had it left out."""
    return ({(one.node, one.step): one.why for one in bringups.skips(store, coming=True)} if store is not None
            else {})
