"""The values of bring-up: steps, machines, observations, operations, troubles.

A step is checked until it is so. A look that finds it not so names the next operation; the operation is
written down, done, and then it is looked at again: only a look ends a step, never an operation's own word. So
whoever is killed anywhere finds by looking where things stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.model import Node


class StepEffect(Enum):
    """Whether a machine notices."""

    PASSIVE = "passive"
    DISRUPTIVE = "disruptive"


class StepState(Enum):
    """What one observation of a step on one machine showed."""

    SO = "so"
    NOT_SO = "not so"           # and `operation` says what is to be done next
    WAIT = "wait"               # it is on its way, by itself or by others: look again in `again_s`
    TROUBLE = "trouble"         # someone has to lend a hand
    # it could not be measured: checked again, and trouble when the step's time is over
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Operation:
    """One change, such that a look can tell whether it was made. `key` names it within the machine's step:
    the same change, the same key. `change` is the diff for people. With `once` it must not be done twice: of
    unknown end it is done again only if `shows` says that this look would have shown it. `settle_s` is how
    long it may take to show."""

    name: str
    key: str
    change: tuple[str, ...]
    effect: StepEffect
    once: bool = False
    shows: bool = True
    settle_s: float = 60.0


@dataclass(frozen=True)
class OperationResult:
    """How an operation ended: True accepted, False not made, None unknown."""

    done: bool | None
    message: str


@dataclass(frozen=True)
class Observation:
    """What was observed, with a line for people. `keep` goes to the store: serials, versions, a boot's id. A
    controller that refused the login is TROUBLE that keeps LOGIN: REFUSED: no one logs in there again before
    a person says so, and where several refused no other is tried with that user. `troubles` are what it comes
    to when the step's time is over, `learned` by key what became of operations of unknown end."""

    stand: StepState
    message: str
    operation: Operation | None = None
    troubles: tuple[Trouble, ...] = ()
    again_s: float = 15.0
    keep: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    learned: Mapping[str, OperationResult] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class PastOperation:
    """An operation of this machine's step in the store; `done` None: end not known. Epoch seconds."""

    key: str
    name: str
    began: float
    ended: float | None
    done: bool | None
    message: str


@dataclass(frozen=True)
class Machine:
    """A machine on its way, as a step gets it: its inventory entry, what earlier looks kept, and of this step
    its operations, oldest first, and when it was begun."""

    node: Node
    began: float
    now: float
    kept: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    operations: tuple[PastOperation, ...] = ()

    @property
    def name(self) -> str:
        """Its inventory name."""
        return self.node.name

    def did(self, key: str) -> PastOperation | None:
        """The newest operation of this key."""
        return next((one for one in reversed(self.operations) if one.key == key), None)


@dataclass(frozen=True)
class BringupStep:
    """One step as a value. A machine in it for over `seconds` is trouble of `owner`; `in_parallel` machines
    may be checked or changed in it at a time, `domain_at_once` of one power domain (None: as many). With
    `together` a look takes all machines at once, and waits `gather_s` for others on their way."""

    name: str
    title: str
    effect: StepEffect
    owner: Owner
    seconds: float
    in_parallel: int = 64
    domain_at_once: int | None = None
    together: bool = False
    gather_s: float = 0.0


class Executor(Protocol):
    """Looks at a step and makes it so. What is wrong with a machine is a value, never raised."""

    step: BringupStep

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """The state of each machine (one, unless `together`), by name, as it is known; changes nothing."""

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """Runs the operation that the observation asked for."""


@runtime_checkable
class JointExecutor(Executor, Protocol):
    """Makes the same of all machines of a step at once, where that is more than making it of each."""

    def make_together(self, machines: Sequence[Machine]) -> Mapping[str, OperationResult]:
        """By machine, how what the look asked for ended; of every one of these."""


ORDER = ("bmc", "credentials", "hardware", "bios", "boot", "os", "ssh", "base", "agent", "checks", "kernel",
         "soak", "leased", "burnin", "certificate", "service")
"""The names of the steps, in the order in which a machine goes through them."""
