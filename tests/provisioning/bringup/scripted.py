"""Machines that are a folder on disk: an operation appends a line to its machine's file, and what it changed
shows a moment later.

As a program (`python -m tests.provisioning.bringup.scripted FOLDER`) it runs a bring-up of them, and dies at
the point of an operation that it was told.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.model import Bmc, Lifecycle, LifecycleState, Node
from provisioning.bringup.engine.model import (
    BringupStep,
    Executor,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepEffect,
    StepState,
)
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import BringupOutcome, RunContext, RunEvent
from provisioning.bringup.engine.stop import StopLimits

SO = Observation(StepState.SO, "so")
SHOWS_S = 0.03      # after an operation
# on some machines: longer than it takes to begin another run, so that its first look does not show it
SLOWLY_S = 0.5
INSTALL_S = 0.1


@dataclass(frozen=True)
class Stop:
    """When a run stops."""

    share: float = 0.5
    least: int = 5
    refused_logins: int = 3


@dataclass(frozen=True)
class Plan:
    """A policy of these steps alone."""

    steps: Mapping[str, BringupStep]
    without: frozenset[str] = frozenset()
    width: int = 64
    grace_s: float = 10.0
    stop: StopLimits = field(default_factory=Stop)


def step(
    name: str, seconds: float = 3600.0, *, in_parallel: int = 64, domain_at_once: int | None = None,
    together: bool = False, gather_s: float = 0.0, owner: Owner = Owner.DATACENTRE,
) -> BringupStep:
    return BringupStep(name, f"{name} is well", StepEffect.PASSIVE, owner, seconds, in_parallel,
                       domain_at_once, together, gather_s)


def node(
    name: str, power: str | None = None, *, user: str | None = None,
    state: LifecycleState = LifecycleState.BRINGUP, rack: str | None = None,
) -> Node:
    return Node(
        name, name, lifecycle=Lifecycle(state), power=power, rack=rack, bmc=Bmc("192.0.2.1", user=user))


@dataclass
class Acts:
    """An executor of two functions of one machine."""

    step: BringupStep
    looks: Callable[[Machine], Observation] = lambda machine: SO
    makes: Callable[[Machine, Operation], OperationResult] = (
        lambda machine, operation: OperationResult(True, "accepted"))

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        for machine in machines:
            yield machine.name, self.looks(machine)

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        return self.makes(machine, operation)


def trouble(what: str, owner: Owner = Owner.VENDOR) -> Observation:
    """Someone has to lend a hand."""
    return Observation(StepState.TROUBLE, what, troubles=(Trouble(what, owner, "swap it"),))


def operation(
    key: str, *, once: bool = False, shows: bool = True, settle_s: float = 60.0,
    effect: StepEffect = StepEffect.PASSIVE,
) -> Operation:
    """A change of this key."""
    return Operation(f"do {key}", key, (f"{key}: no -> yes",), effect, once, shows, settle_s)


def lag(name: str, key: str) -> float:
    """How long an operation takes to show."""
    return SLOWLY_S if key == "write" and int(name[1:]) % 8 == 0 else SHOWS_S


class Died:
    """Kills its process at the point that it was told, of all points that it passes."""

    def __init__(self, at: int) -> None:
        self._at, self._points = at, count(1)

    def point(self) -> None:
        if next(self._points) == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Disk:
    """A file for each machine in `folder`, with a line for each operation that came true."""

    folder: Path
    died: Died

    def lines(self, name: str) -> list[list[str]]:
        path = self.folder / name
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def shown(self, name: str) -> set[str]:
        return {key for _, key, when in self.lines(name) if time.time() >= float(when) + lag(name, key)}

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        self.died.point()
        with (self.folder / machine.name).open("a") as file:
            file.write(f"- {operation.key} {time.time()}\n")
            file.flush()
            self.died.point()
        time.sleep(0.002)
        self.died.point()
        return OperationResult(True, "accepted")

    def wants(self, *keys: str, once: bool) -> Callable[[Machine], Observation]:
        """A look at a step that takes these operations, one after the other."""
        def observe(machine: Machine) -> Observation:
            shown = self.shown(machine.name)
            missing = next((key for key in keys if key not in shown), None)
            if missing is None:
                return SO
            return Observation(
                StepState.NOT_SO, f"{missing} is not there",
                operation(missing, once=once, settle_s=lag(machine.name, missing) + SHOWS_S), again_s=0.02)
        return observe

    def install(self, machine: Machine) -> Observation:
        began = [float(when) for _, key, when in self.lines(machine.name) if key == "pxe"]
        return SO if time.time() >= min(
            began) + INSTALL_S else Observation(StepState.WAIT, "it is being installed", again_s=0.03)

    def parts(self, machine: Machine) -> Observation:
        number = int(machine.name[1:])
        return trouble("no GPU 3") if number % 10 == 3 else Observation(
            StepState.SO, "as it should be", keep={"serial": f"S{number}"})


def world(folder: Path, died: Died) -> tuple[dict[str, Executor], Plan]:
    """Executors of a whole way, and their policy."""
    disk = Disk(folder, died)
    executors: dict[str, Executor] = {one.step.name: one for one in (
        Acts(step("bmc")), Acts(step("credentials")), Acts(step("hardware"), disk.parts),
        Acts(step("bios", in_parallel=8), disk.wants("write", "off", "on", once=True), disk.make),
        Acts(step("boot", domain_at_once=3), disk.wants("pxe", once=False), disk.make),
        Acts(step("os"), disk.install),
        Acts(step("checks", together=True, gather_s=0.05)),
        Acts(step("service"), disk.wants("service", once=False), disk.make))}
    return executors, Plan({name: executor.step for name, executor in executors.items()},
                           frozenset({"credentials"}), width=16, grace_s=0.02)


def nodes(number: int, served: Callable[[str], bool] = lambda name: False) -> list[Node]:
    """So many machines, eight to a power domain."""
    return [
        node(name, f"pdu{at // 8}", state=LifecycleState.SERVICE if served(name) else LifecycleState.BRINGUP)
            for at, name in enumerate(f"n{at:03d}" for at in range(number))]


def bring_up(
    folder: Path, number: int, at: int = 0, on_event: Callable[[RunEvent], None] = lambda event: None,
) -> BringupOutcome:
    """A run over them, or what is left of it."""
    (folder / "world").mkdir(parents=True, exist_ok=True)
    executors, plan = world(folder / "world", Died(at))
    disk = Disk(folder / "world", Died(0))
    there = nodes(number, lambda name: any(key == "service" for _, key, _ in disk.lines(name)))
    return run(RunContext(folder / "state", "ada"), there, executors, plan, on_event)


if __name__ == "__main__":
    print("begun", flush=True)
    raise SystemExit(bring_up(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])).exit_code)
