"""Has the console of a machine captured while it is in a step that starts it: beside the step, which neither
waits for it nor fails with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from healthcheck.store.bringupnotes import LEFT, SKIPPED, SO, TROUBLE
from provisioning.bringup.engine.model import Executor, Machine, Observation, Operation, OperationResult
from provisioning.bringup.engine.site import RunEvent
from provisioning.console.capture import ConsoleCaptures

STEPS = ("bios", "boot", "os", "soak")
"""The steps in which machines start."""
# After these no step starts the machine at once, if it has passed.
_LAST = ("os", "soak")


class WithConsole:
    """A step whose machines' consoles are captured from its first look on."""

    def __init__(self, executor: Executor, captures: ConsoleCaptures) -> None:
        self.step = executor.step
        self._executor, self._captures = executor, captures

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """See `Executor.observe`."""
        for machine in machines:
            if machine.node.bmc is not None:
                self._captures.begin(machine.node)
        return self._executor.observe(machines)

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """See `Executor.make`."""
        return self._executor.make(machine, operation)


def with_consoles(executors: Mapping[str, Executor], captures: ConsoleCaptures) -> dict[str, Executor]:
    """The steps of a run, those that start machines with their consoles."""
    return {name: WithConsole(one, captures) if name in STEPS else one for name, one in executors.items()}


def ending_with_steps(
    captures: ConsoleCaptures, on_event: Callable[[RunEvent], None],
) -> Callable[[RunEvent], None]:
    """Ends a machine's capture when it goes on to a step that does not start it, or is stuck in one."""
    def reported(event: RunEvent) -> None:
        passed = event.stand in (SO, SKIPPED) and event.step in _LAST
        if event.node and (passed or event.stand == LEFT or (event.stand == TROUBLE and event.step in STEPS)):
            captures.end(event.node)
        on_event(event)
    return reported
