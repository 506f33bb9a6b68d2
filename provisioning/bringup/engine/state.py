"""The state of machines on their way, as a run holds it in memory, and how it is read from the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from healthcheck.store import bringups
from healthcheck.store.bringupnotes import LOGIN, REFUSED, SKIPPED, TROUBLE
from healthcheck.store.bringups import MachineProgress
from healthcheck.store.file import Store
from inventory.model import Node
from provisioning.bringup.engine.model import Machine, Observation, OperationResult, PastOperation
from provisioning.bringup.engine.site import LOGIN_STEP, domain_of, user_of


@dataclass
class MachineState:
    """One machine on its way. `began` is when its step began, `came` when this run first checked it there (0:
    not yet), `looked` when the newest look began, `due` when the next does. `operations` are those of this
    step that count, by their numbers in the store, oldest first; `making` is under way, `begun` says that it
    was handed on. `busy`: checked or changed right now; `placed`: has a place in its step; `out`: goes no
    further. `unlogged`: the login to its controller was left out, so it is not known. `hindered` is why an
    operation was not begun."""

    node: Node
    step: str
    domain: str
    user: str
    kept: dict[str, str] = field(default_factory=dict)
    operations: dict[int, PastOperation] = field(default_factory=dict)
    began: float | None = None
    came: float = 0.0
    looked: float = 0.0
    due: float | None = None
    making: int | None = None
    begun: bool = False
    busy: bool = False
    placed: bool = False
    out: bool = False
    done: bool = False
    unlogged: bool = False
    message: str = ""
    hindered: str = ""
    seen: tuple[str, Observation] | None = None

    @property
    def name(self) -> str:
        """Its inventory name."""
        return self.node.name

    @property
    def refused(self) -> bool:
        """Whether its controller refused the login, and no one said since that it may be tried again."""
        return self.kept.get(LOGIN) == REFUSED

    def machine(self, now: float) -> Machine:
        """What a step gets of it."""
        began = self.began if self.began is not None else now
        return Machine(
            self.node, began, now, MappingProxyType(dict(self.kept)), tuple(self.operations.values()))

    def unended(self) -> list[int]:
        """Operations of which no one wrote the end, but for the one that is under way."""
        return [number for number, past in self.operations.items()
                if past.ended is None and number != self.making]

    def ended(self, number: int, made: OperationResult, now: float) -> None:
        """What became of an operation."""
        self.operations[number] = replace(self.operations[number], ended=now, done=made.done,
                                          message=made.message)

    def onward(self, step: str) -> None:
        """It comes to another step."""
        self.step, self.operations, self.began, self.came, self.due = step, {}, None, 0.0, None
        self.message, self.hindered = "", ""


def start(node: Node, first: str) -> MachineState:
    """A machine at the beginning of its way."""
    return MachineState(node, first, domain_of(node), user_of(node))


def read(store: Store | None, nodes: Sequence[Node], first: str) -> dict[str, MachineState]:
    """Machines as the store has them, in the order of `nodes`; others begin. One query each for all."""
    names = {node.name for node in nodes}
    rows = ({row.node: row for row in bringups.progress(store, names) if row.on_its_way} if store is not None
            else {})
    states = {node.name: start(node, first) for node in nodes}
    for name, row in rows.items():
        _put(states[name], row)
    if store is not None and rows:
        _fill(store, [states[name] for name in rows])
    return states


def again(store: Store, states: Iterable[MachineState]) -> list[MachineState]:
    """Those of these troubled machines that a person has since begun again, as the store has them."""
    rows = {row.node: row for row in bringups.progress(store) if row.stand != TROUBLE and row.on_its_way}
    found = [state for state in states if state.name in rows]
    for state in found:
        state.onward(rows[state.name].step)
        _put(state, rows[state.name])
    if found:
        _fill(store, found)
    return found


def _put(state: MachineState, row: MachineProgress) -> None:
    state.step, state.kept, state.message = row.step, dict(row.kept), row.message


def _fill(store: Store, states: Sequence[MachineState]) -> None:
    of = {state.name: state for state in states}
    for line in bringups.steps(store, of):
        of[line.node].unlogged |= line.step == LOGIN_STEP and line.outcome == SKIPPED
        if line.ended is None and line.step == of[line.node].step:
            of[line.node].began = line.began
    for operation in bringups.actions(store, of):
        if operation.counts and operation.step == of[operation.node].step:
            of[operation.node].operations[operation.id] = PastOperation(
                operation.key, operation.name, operation.began, operation.ended, operation.done,
                operation.message)
