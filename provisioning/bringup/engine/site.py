"""The input, events and outcome of a bring-up run, as values."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from inventory.model import LifecycleState, Node
from provisioning.bringup.engine import stop
from provisioning.bringup.engine.model import BringupStep, Machine, Observation, Operation

LOCK = "bringup.lock"       # in the state folder, held by the run that acts
LOGIN_STEP = "credentials"
BY_POLICY = "the policy leaves it out"


class EnginePolicy(Protocol):
    """What the engine asks of the policy: `steps` in their order, and those that the site leaves out."""

    @property
    def steps(self) -> Mapping[str, BringupStep]: ...
    @property
    def without(self) -> frozenset[str]: ...
    @property
    def width(self) -> int: ...
    @property
    def grace_s(self) -> float: ...
    @property
    def stop(self) -> stop.StopLimits: ...


def no_jobs(machine: Machine) -> str:
    """For machines that no scheduler knows: planned and bringup are proof enough that none gave it jobs."""
    return ""


@dataclass(frozen=True)
class RunContext:
    """Where a run keeps what it knows, and in whose name it acts. `idle` says why a machine must not be
    disturbed, or "". `sleep` is for tests with their own clock: called in place of waiting."""

    folder: Path
    who: str
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] | None = None
    idle: Callable[[Machine], str] = no_jobs


@dataclass(frozen=True)
class RunEvent:
    """What happened to a machine in a step. `stand` is so, skipped, operation (begun), made (ended), waiting,
    unknown, trouble, done or left; halted is of a step alone, interrupted of none."""

    node: str
    step: str
    stand: str
    message: str
    seen: Observation | None = None
    operation: Operation | None = None


@dataclass(frozen=True)
class BringupOutcome:
    """How machines stand at the end, by name in the order asked for. `queued` were not begun or not ended;
    `halted` says why, by step; `seen` is each one's last look: of a dry run the plan."""

    done: tuple[str, ...] = ()
    trouble: tuple[str, ...] = ()
    queued: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    halted: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    seen: Mapping[str, tuple[str, Observation]] = field(default_factory=lambda: MappingProxyType({}))
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """130 interrupted, 4 halted, 1 a person has to act, else 0."""
        return 130 if self.interrupted else 4 if self.halted else 1 if self.trouble or self.left else 0


def domain_of(node: Node) -> str:
    """A machine's power domain, else its rack; machines of which neither is known share one."""
    return f"power {node.power}" if node.power else f"rack {node.rack}" if node.rack else ""


def user_of(node: Node) -> str:
    """As whom one logs in to its controller."""
    return (node.bmc.user or "") if node.bmc is not None else ""


def unfit(node: Node, step: str | None, last: str) -> str:
    """Why a machine may not be brought up, and what to type; or "". `step` is the one it is in: at the `last`
    it may be in service already, without a record."""
    state = node.lifecycle.state
    if state in (
        LifecycleState.PLANNED, LifecycleState.BRINGUP) or (state is LifecycleState.SERVICE and step == last):
        return ""
    return (f"its lifecycle is {state.value}, and only planned and bringup are brought up: muster inventory "
            f"lifecycle {node.name} bringup")
