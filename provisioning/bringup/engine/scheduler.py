"""When which machine is checked or changed: whose turn it is, when it comes again, and who waits. A machine
is sent into a step where the step has a place for it and is not halted. An operation that is done to many
machines at once waits until no one of a look at many is checked or asked about any more; until it is over no
one else is checked in that step."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from provisioning.bringup.engine.model import BringupStep, Machine, Operation
from provisioning.bringup.engine.queues import StepQueue
from provisioning.bringup.engine.site import LOGIN_STEP, EnginePolicy
from provisioning.bringup.engine.state import MachineState
from provisioning.bringup.engine.stop import Logins, Tally


class Scheduler:
    """The queues of all steps. `halts`: why a step is closed; with `free` only refused logins halt."""

    def __init__(self, policy: EnginePolicy, states: Iterable[MachineState], *, free: bool) -> None:
        self.order = tuple(policy.steps)
        self.halts: dict[str, str] = {}
        self._halted: dict[str, str] = {}       # but for refused logins, which are of one user
        self.logins = Logins()
        self._tally = Tally()
        self._policy, self._free = policy, free
        self._states = {state.name: state for state in states}
        self._queues = {name: StepQueue(step) for name, step in policy.steps.items()}
        self._live = Counter(state.step for state in self._states.values())
        self._batches: set[str] = set()

    def past_login(self, step: str) -> bool:
        """Whether a machine in this step has been logged in to."""
        return LOGIN_STEP in self.order and self.order.index(step) > self.order.index(LOGIN_STEP)

    def ready(self, state: MachineState, now: float) -> None:
        """To be checked as soon as there is a place; one that was changed here has its place."""
        queue = self._queues[state.step]
        state.due = None
        if state.operations and not state.placed:
            queue.hold(state.domain)
            state.placed = True
        queue.add(state.name, state.domain, now, has=state.placed)

    def give(self, state: MachineState) -> None:
        """It needs its place no more."""
        if state.placed:
            self._queues[state.step].give(state.domain)
            state.placed = False

    def dropped(self, state: MachineState) -> None:
        """It is not to be checked, though it may have been waiting for that."""
        self._queues[state.step].remove(state.name, state.domain)

    def out(self, state: MachineState) -> None:
        """It goes no further in this run."""
        self.give(state)
        state.out = True
        self._live[state.step] -= 1

    def stuck(self, state: MachineState) -> None:
        """It met its step's trouble."""
        self._tally.stuck[state.step] += 1
        self.logins.refused[state.user] += state.refused
        self.out(state)

    def locked(self, state: MachineState) -> None:
        """Its controller refused the login before this run: it is left alone."""
        self.logins.refused[state.user] += 1
        self.out(state)

    def back(self, state: MachineState, step: str, *, refused: bool, counted: bool, now: float) -> None:
        """A person had it begun again that was stuck in this step; `counted` if that was in this run."""
        self._tally.stuck[step] -= counted
        self.logins.refused[state.user] -= refused
        state.out = False
        self._live[state.step] += 1
        self.ready(state, now)

    def passed(self, state: MachineState) -> None:
        """Its step is so."""
        self._tally.passed[state.step] += 1
        if state.step == LOGIN_STEP:
            self.logins.accepted.add(state.user)

    def onward(self, state: MachineState, step: str | None) -> None:
        """It leaves its step for this one, None at the end."""
        self.give(state)
        self._live[state.step] -= 1
        if step is None:
            state.out = state.done = True
        else:
            state.onward(step)
            self._live[step] += 1

    def looked(self, state: MachineState) -> None:
        """A look at it came back."""
        if state.step == LOGIN_STEP:
            self.logins.trying[state.user] -= 1

    def over(self, step: str) -> None:
        """A look at many has ended."""
        self._batches.discard(step)

    def judge(self) -> Iterator[tuple[str, str]]:
        """Sees whether steps are halted, or go on after all; gives those new, with why."""
        before = self.halts
        self._halted = {} if self._free else {
            name: why for name in self.order if (why := self._tally.halted(name, self._policy.stop))}
        self.halts = dict(self._halted)
        for user in self.logins.refused:
            if LOGIN_STEP in self.order and (why := self.logins.halted(user, self._policy.stop)):
                self.halts[LOGIN_STEP] = why
        for name, why in self.halts.items():
            if name not in before and self._queues[name].length:
                yield name, why

    def next(self, now: float, under_way: int) -> Iterator[tuple[BringupStep, list[MachineState]]]:
        """Who is to be checked now, first those nearest to the end, for threads at `under_way`."""
        for name in reversed(self.order):
            queue = self._queues[name]
            if queue.step.together:
                if batch := self._batch(queue, now):
                    self._batches.add(name)
                    under_way += 1
                    yield queue.step, batch
                continue
            # A look at many has a thread of its own.
            while queue.length and under_way < self._policy.width + len(
                self._batches) and (state := next(self._taken(queue), None)):
                under_way += 1
                yield queue.step, [state]

    def ticks(self) -> Iterator[float]:
        """Until when looks at many wait for others to join."""
        for name, queue in self._queues.items():
            if (queue.since is not None and queue.step.together and queue.step.in_parallel
                    and name not in self._batches):
                yield queue.since + queue.step.gather_s

    def _taken(self, queue: StepQueue, *, anew: bool = True) -> Iterator[MachineState]:
        while (name := queue.take(self._may if anew else _none)) is not None:
            state = self._states[name]
            if state.step == LOGIN_STEP:
                self.logins.trying[state.user] += 1
            state.placed = True
            yield state

    def _batch(self, queue: StepQueue, now: float) -> list[MachineState]:
        """Whoever is checked together: all, if no one is awaited. Who was changed waits for no one."""
        if queue.since is None or queue.step.name in self._batches:
            return []
        if now >= queue.since + queue.step.gather_s or not self._others_may_come(queue.step.name):
            return list(self._taken(queue))
        return list(self._taken(queue, anew=False))

    def _others_may_come(self, step: str) -> bool:
        before = self.order[:self.order.index(step)]
        return (any(self._live[name] > (self._queues[name].length if name in self.halts else 0)
                    for name in before) or self._live[step] > self._queues[step].length)

    def _may(self, name: str) -> bool:
        state = self._states[name]
        if state.came:
            return True
        if state.step == LOGIN_STEP and not self.logins.may(state.user, self._policy.stop):
            return False
        return state.step not in self._halted


class Timer:
    """Times of machines; the old one of a machine that went on does not count."""

    def __init__(self, states: Mapping[str, MachineState]) -> None:
        self._states = states
        self._heap: list[tuple[float, int, str]] = []
        self._number = count()

    def add(self, state: MachineState, time: float) -> None:
        """It is to be checked then."""
        state.due = time
        heapq.heappush(self._heap, (time, next(self._number), state.name))

    def next(self) -> float | None:
        """The earliest time."""
        while self._heap and self._states[self._heap[0][2]].due != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def come(self, now: float) -> Iterator[MachineState]:
        """Those whose time has come, earliest first; each once."""
        while (time := self.next()) is not None and time <= now:
            state = self._states[heapq.heappop(self._heap)[2]]
            state.due = None
            yield state


@dataclass(frozen=True)
class Joined:
    """One machine that an operation is to be done to together with others."""

    state: MachineState
    machine: Machine
    operation: Operation


@dataclass
class Joint:
    """All steps, by name; `open` counts the machines asked about or changed, joined ones included."""

    looking: set[str] = field(default_factory=set)
    open: Counter[str] = field(default_factory=Counter)
    joined: dict[str, list[Joined]] = field(default_factory=dict)

    def join(self, step: str, one: Joined) -> None:
        """It waits for the others."""
        self.joined.setdefault(step, []).append(one)

    def all(self, step: str) -> list[Joined] | None:
        """Those to whom it is done now, once; none where nothing is under way, None where some may join."""
        if step in self.looking or self.open[step] > len(self.joined.get(step, ())):
            return None
        return self.joined.pop(step, [])


def _none(name: str) -> bool:
    return False
