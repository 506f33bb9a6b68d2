"""What follows from what was learned of a machine: it is kept, reported, and the next is decided, in one
transaction. What is to be done outside is put into `tasks`, what is to be reported into `events`: both are
for after the transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from healthcheck.store import bringupnotes as notes
from provisioning.bringup.engine.advance import After, StepTimes, Stuck, Through, Until, after, found, late
from provisioning.bringup.engine.journal import Journal
from provisioning.bringup.engine.model import (
    BringupStep,
    Executor,
    JointExecutor,
    Observation,
    Operation,
    OperationResult,
    PastOperation,
    StepEffect,
    StepState,
)
from provisioning.bringup.engine.scheduler import Joined, Joint, Scheduler, Timer
from provisioning.bringup.engine.site import BY_POLICY, EnginePolicy, RunContext, RunEvent
from provisioning.bringup.engine.state import MachineState
from provisioning.bringup.engine.workers import (
    AllOperationsEnded,
    BatchObserved,
    IdleChecked,
    Observed,
    OperationEnded,
    Result,
    Workers,
)


@dataclass
class Transitions:
    """The machines of a run. `skips`: by machine and step why it is left out. With `dry` none goes beyond its
    first open step. `under_way` counts looks, questions and operations; one at many is one."""

    site: RunContext
    states: Mapping[str, MachineState]
    executors: Mapping[str, Executor]
    policy: EnginePolicy
    journal: Journal
    dry: bool
    skips: dict[tuple[str, str], str]
    scheduler: Scheduler
    workers: Workers
    woke: float
    events: list[RunEvent] = field(default_factory=list)
    tasks: list[Callable[[], None]] = field(default_factory=list)
    under_way: int = 0
    _pumped: float = 0.0
    _joint: Joint = field(default_factory=Joint)

    def __post_init__(self) -> None:
        self._timer = Timer(self.states)

    def begin(self) -> None:
        """Every machine is where the store has it."""
        for state in self.states.values():
            if state.refused:
                self.scheduler.locked(state)
            elif self.scheduler.past_login(state.step) and not state.unlogged:
                self.scheduler.logins.accepted.add(state.user)
        for state in self.states.values():
            if not state.out:
                self._arrive(state, self.woke)

    def learn(self, result: Result, now: float) -> None:
        """Takes in what came back from outside."""
        if isinstance(result, BatchObserved):
            self._joint.looking.discard(result.step)
            self.under_way -= 1
            self._together(result.step)
        elif isinstance(result, AllOperationsEnded):
            self.under_way -= 1
        elif isinstance(result, (Observed, IdleChecked, OperationEnded)):
            state = self.states[result.node]
            state.busy = False
            # Of what is done to many at once the end counts, which is reported by itself.
            if isinstance(result, Observed):
                self.under_way -= not self.policy.steps[state.step].together
                self._observed(state, result.seen, now)
            elif isinstance(result, OperationEnded):
                self.under_way -= not self._joins(state.step)
                self._made(state, result, now)
            else:
                self.under_way -= 1
                self._idle_answer(state, result, now)

    def next_due(self) -> float | None:
        """When something is to be done though nothing was learned; None where that is never."""
        # A look at many that could not begin when its time had come waits for something to be learned.
        ticks = [time for time in self.scheduler.ticks() if time > self._pumped]
        due = self._timer.next()
        return min(ticks if due is None else [*ticks, due], default=None)

    def due(self, now: float) -> None:
        """Machines whose time has come are to be checked."""
        for state in self._timer.come(now):
            self.scheduler.ready(state, now)

    def pump(self, now: float) -> None:
        """Sends machines where there are places."""
        self._pumped = now
        self.events += [RunEvent("", name, "halted", why) for name, why in self.scheduler.judge()]
        for step, batch in self.scheduler.next(now, self.under_way):
            self.under_way += 1
            self._observe(step, batch, now)

    def skip(self, state: MachineState, why: str, now: float) -> None:
        """A person had its step left out meanwhile."""
        self.scheduler.dropped(state)
        self._leave(state, notes.SKIPPED, now, why)

    def _observe(self, step: BringupStep, batch: list[MachineState], now: float) -> None:
        for state in batch:
            state.busy, state.looked, state.came = True, now, state.came or now
            if state.began is None:
                state.began = now
                self.journal.entered(state.name, step.name, now)
        machines = [state.machine(now) for state in batch]
        if step.together:
            self._joint.looking.add(step.name)
        self.tasks.append(lambda: self.workers.observe(
            self.executors[step.name], step.name, machines, together=step.together))

    def _observed(self, state: MachineState, seen: Observation, now: float) -> None:
        self.scheduler.looked(state)
        state.seen = (state.step, seen)
        state.kept.update({str(name): str(value) for name, value in seen.keep.items()})
        self._learned(state, seen.learned, now)
        step = self.policy.steps[state.step]
        if state.hindered and seen.stand is StepState.NOT_SO:
            seen = replace(seen, message=f"{seen.message}; {state.hindered}", troubles=())
        what = after(step, state.machine(state.looked), seen,
                     StepTimes(state.came, self.woke, now, self.policy.grace_s))
        self._settle(state, what, now)
        why = self.skips.get((state.name, state.step))
        if isinstance(what, Through):
            self.scheduler.passed(state)
            self._leave(state, notes.SO, now, seen.message)
        elif why is not None:
            self._leave(state, notes.SKIPPED, now, why)
        elif isinstance(what, Stuck):
            self._stuck(state, what, now)
        elif self.dry:
            self._emit(state,
                       "unknown" if seen.stand is StepState.UNKNOWN else "operation" if seen.operation
                           else "waiting", seen.message, seen.operation)
            self.scheduler.out(state)
        elif isinstance(what, Until):
            self._until(state, what, now)
        elif what.operation.effect is StepEffect.DISRUPTIVE:
            self._ask(state, seen, what.operation, now)
        else:
            self._make(state, what.operation, now)

    def _settle(self, state: MachineState, what: After, now: float) -> None:
        """Writes down what became of operations of unknown end, as far as this look shows it."""
        for number in state.unended():
            if (made := found(state.operations[number], what)) is not None:
                state.ended(number, made, now)
                self.journal.operation_ended(number, made, now)

    def _learned(self, state: MachineState, learned: Mapping[str, OperationResult], now: float) -> None:
        """Writes down what a look learned of operations of which no one knew the end."""
        for number, past in list(state.operations.items()):
            if past.key in learned and past.done is None and number != state.making:
                state.ended(number, learned[past.key], now)
                self.journal.operation_learned(number, learned[past.key], now)

    def _ask(self, state: MachineState, seen: Observation, operation: Operation, now: float) -> None:
        state.busy = True
        self.under_way += 1
        self._joint.open[state.step] += 1
        machine = state.machine(now)
        self.tasks.append(lambda: self.workers.ask(self.site.idle, machine, seen, operation))

    def _idle_answer(self, state: MachineState, checked: IdleChecked, now: float) -> None:
        step = self.policy.steps[state.step]
        over = state.came + step.seconds
        state.hindered = f"NOT done: {checked.operation.name}: {checked.why}" if checked.why else ""
        self._joint.open[step.name] -= 1
        if (skipped := self.skips.get((state.name, state.step))) is not None:
            self._leave(state, notes.SKIPPED, now, skipped)
        elif not checked.why:
            self._make(state, checked.operation, now)
        elif now >= over:
            self._stuck(state, Stuck((late(step, state.name, state.hindered),)), now)
        else:
            self._until(state, Until(min(now + checked.seen.again_s, over), state.hindered), now)
        self._together(step.name)

    def _make(self, state: MachineState, operation: Operation, now: float) -> None:
        """Writes down that an operation is about to be done; afterwards it is."""
        machine = state.machine(now)
        number = self.journal.operation_started(state.name, state.step, operation, now)
        state.operations[number] = PastOperation(operation.key, operation.name, now, None, None, "")
        state.making, state.busy, state.message = number, True, operation.name
        self.journal.stood(state.name, notes.WAITING, operation.name, looked=now, kept=state.kept)
        self.journal.troubled(state.name, state.step, (), now)
        self._emit(state, "operation", operation.name, operation)
        self._joint.open[state.step] += 1
        if self._joins(state.step):
            self._joint.join(state.step, Joined(state, machine, operation))
            return
        self.under_way += 1
        executor = self.executors[state.step]

        def task() -> None:
            state.begun = True
            self.workers.make(executor, machine, operation)
        self.tasks.append(task)

    def _joins(self, step: str) -> bool:
        """Whether an operation of this step is done to all machines at once that need it."""
        return self.policy.steps[step].together and isinstance(self.executors[step], JointExecutor)

    def _together(self, name: str) -> None:
        """Has an operation done to all that were found to need it, once no one else can join them."""
        joined = self._joint.all(name)
        if joined is None:
            return
        if not joined:
            self.scheduler.over(name)
            return
        executor = self.executors[name]
        assert isinstance(executor, JointExecutor)  # noqa: S101  (they were joined because it is)
        self.under_way += 1

        def task() -> None:
            for one in joined:
                one.state.begun = True
            self.workers.make_together(
                executor, name, [one.machine for one in joined], joined[0].operation.name)
        self.tasks.append(task)

    def _made(self, state: MachineState, ended: OperationEnded, now: float) -> None:
        number = state.making
        assert number is not None  # noqa: S101  (it was made)
        state.ended(number, ended.made, now)
        state.making, state.begun = None, False
        self._joint.open[state.step] -= 1
        self.journal.operation_ended(number, ended.made, now)
        self._emit(state, "made", ended.made.message)
        name = state.step
        if ended.defect is not None:
            self._stuck(state, Stuck((ended.defect,)), now)
        else:
            self.scheduler.ready(state, now)
        self._together(name)

    def _until(self, state: MachineState, until: Until, now: float) -> None:
        if not state.operations:
            self.scheduler.give(state)
        self.journal.stood(
            state.name, notes.WAITING, until.message, again=until.time, looked=now, kept=state.kept)
        self.journal.troubled(state.name, state.step, (), now)
        if until.message != state.message:
            unknown = state.seen is not None and state.seen[1].stand is StepState.UNKNOWN
            self._emit(state, "unknown" if unknown else "waiting", until.message)
        state.message = until.message
        self._timer.add(state, until.time)

    def _stuck(self, state: MachineState, stuck: Stuck, now: float) -> None:
        message = stuck.troubles[0].what
        self.journal.stood(state.name, notes.TROUBLE, message, looked=now, kept=state.kept)
        self.journal.troubled(state.name, state.step, stuck.troubles, now)
        self._emit(state, "trouble", message)
        self.scheduler.stuck(state)

    def _leave(self, state: MachineState, outcome: str, now: float, message: str) -> None:
        """It is through with its step; `message` is what the look said, or why it was skipped."""
        for number in state.unended():
            self.journal.operation_ended(
                number, OperationResult(None, "not checked, because the step was skipped"), now)
        onward = next(iter(self.scheduler.order[self.scheduler.order.index(state.step) + 1:]), None)
        if state.seen is not None and state.seen[0] == state.step:
            self.journal.stood(state.name, notes.WAITING, message, looked=now, kept=state.kept)
        self.journal.left(
            state.name, state.step, outcome, onward, now, message if outcome == notes.SKIPPED else "")
        self._emit(state, outcome, message)
        if onward is None:
            self._emit(state, notes.DONE, "")
        self.scheduler.onward(state, onward)
        if onward is not None:
            self._arrive(state, now)

    def _arrive(self, state: MachineState, now: float) -> None:
        """It is in its step from now on, unless that is left out for it."""
        why = BY_POLICY if state.step in self.policy.without else self.skips.get((state.name, state.step))
        if why is not None:
            self._leave(state, notes.SKIPPED, now, why)
        else:
            self.scheduler.ready(state, now)

    def _emit(
        self, state: MachineState, stand: str, message: str, operation: Operation | None = None,
    ) -> None:
        seen = state.seen[1] if state.seen is not None and state.seen[0] == state.step else None
        self.events.append(RunEvent(state.name, state.step, stand, message, seen, operation))
