"""Step service: the inventory says so, the agent knows, and jobs are kept away no more. The file is edited as
`muster inventory lifecycle` does. An agent of this bring-up counts in alerts from then on."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.cli.lifecycle import edited
from inventory.errors import InventoryError, MusterError
from inventory.inventoryfile import InventoryFile
from inventory.load import parse_with_origins
from inventory.model import Lifecycle, LifecycleState, Node
from inventory.text import clean, short
from provisioning.bringup.engine.hold import give, held
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepEffect,
    StepState,
)
from provisioning.bringup.steps.agent import KEPT as AGENT
from provisioning.bringup.steps.agent import AgentStep
from provisioning.bringup.steps.context import StepContext

_TRIES = 3      # a person may edit the file meanwhile
# Whoever was sent elsewhere meanwhile (rma, maintenance, retired) is not given to jobs: that is a person's
# word.
_ONWARD = (LifecycleState.PLANNED, LifecycleState.BRINGUP, LifecycleState.SERVICE)


class ServiceStep:
    """Reads the inventory file again at each look: a person may have edited it meanwhile."""

    def __init__(self, step: BringupStep, context: StepContext, agent: AgentStep | None = None) -> None:
        self.step = step
        self._context, self._agent = context, agent

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """See `Executor.observe`."""
        try:
            nodes = self._nodes()
            kept = held(self._context.folder, self._context.inventory, [machine.name for machine in machines])
        except MusterError as error:
            for machine in machines:
                yield machine.name, Observation(StepState.UNKNOWN, clean(str(error), 300))
            return
        there = [replace(machine, node=nodes[machine.name], operations=()) for machine in machines
                 if machine.name in nodes]
        agents = self._agents([machine for machine in there if machine.node.in_service])
        for machine in machines:
            node = nodes.get(machine.name)
            if node is None:
                yield machine.name, Observation(
                    StepState.UNKNOWN, f"{self._context.path} does not name it any more")
                continue
            if node.lifecycle.state not in _ONWARD:
                yield machine.name, _elsewhere(node)
                continue
            seen = agents.get(machine.name)
            change = (*(() if node.in_service else (f"lifecycle: {node.lifecycle.state.value} -> service",)),
                      *(("its agent: in service",) if seen is not None and seen.stand is StepState.NOT_SO
                        else ()), *(("uncordon",) if machine.name in kept else ()))
            if change:
                yield machine.name, Observation(
                    StepState.NOT_SO,
                    f"lifecycle {node.lifecycle.state.value}{', cordoned' * (machine.name in kept)}",
                    Operation("give it to jobs", "service", change, StepEffect.PASSIVE, settle_s=10.0))
            elif seen is not None and seen.stand is StepState.UNKNOWN:
                yield machine.name, Observation(StepState.UNKNOWN, f"its agent: {seen.message}")
            else:
                yield machine.name, Observation(StepState.SO, "in service")

    def _nodes(self) -> Mapping[str, Node]:
        """As the file has them now."""
        given = InventoryFile.read(self._context.path)
        return parse_with_origins(given.text, str(given.path), self._context.ruleset.skus).inventory.nodes

    def _agents(self, machines: Sequence[Machine]) -> dict[str, Observation]:
        """How the agents stand of those machines on which this bring-up has seen one."""
        installed = [machine for machine in machines if AGENT in machine.kept]
        return dict(self._agent.observe(installed)) if self._agent is not None and installed else {}

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """One machine alone."""
        return self.make_together([machine])[machine.name]

    def make_together(self, machines: Sequence[Machine]) -> Mapping[str, OperationResult]:
        """Edits the file once for all of them, tells their agents, and then gives them to jobs."""
        names, context = [machine.name for machine in machines], self._context
        try:
            set_lifecycle(context.path, names, LifecycleState.SERVICE, context.ruleset.skus)
            nodes = self._nodes()
            self._notify_agents(
                [replace(machine, node=nodes[machine.name], operations=()) for machine in machines])
            given = {
                one.node: one
                for one in give(context.folder, context.inventory, names, context.who, time.time)}
        except MusterError as error:
            return dict.fromkeys(names, OperationResult(False, clean(str(error), 300)))
        written = f"written to {context.path}"
        return {
            name: OperationResult(name not in given or not given[name].failed,
                                  f"{written}; {clean(given[name].message, 200)}" if name in given
                                  else written) for name in names}

    def _notify_agents(self, machines: Sequence[Machine]) -> None:
        """Whether that worked is for the next look."""
        agents = self._agents(machines)
        behind = [machine.node for machine in machines
                  if machine.name in agents and agents[machine.name].operation is not None]
        if self._agent is not None and behind:
            list(self._agent.install(behind))


def _elsewhere(node: Node) -> Observation:
    what = f"someone set its lifecycle to {_state(node)} meanwhile, so it is not put into service"
    advice = (f"to go on: muster inventory lifecycle {node.name} bringup; then: muster bringup retry "
              f"{node.name}")
    return Observation(StepState.TROUBLE, what, troubles=(Trouble(what, Owner.OPERATOR, advice),))


def _state(node: Node) -> str:
    return node.lifecycle.state.value


def set_lifecycle(
    path: Path, names: Sequence[str], state: LifecycleState, skus: Collection[str] | None,
) -> None:
    """Afterwards the inventory file says so of these nodes, and the rest of it is as it was. Raises
    InventoryError, also where someone took one of them out of bring-up meanwhile."""
    for left in reversed(range(_TRIES)):
        given = InventoryFile.read(path)
        loaded = parse_with_origins(given.text, str(path), skus)
        if gone := [name for name in names if name not in loaded.inventory.nodes]:
            raise InventoryError(f"{path}: does not name {short(gone[0])} any more")
        if elsewhere := [
            name for name in names if loaded.inventory.nodes[name].lifecycle.state not in _ONWARD]:
            raise InventoryError(f"{path}: lifecycle of {short(elsewhere[0])} is "
                                 f"{_state(loaded.inventory.nodes[elsewhere[0]])} by now")
        wanted = {
            name: Lifecycle(state) for name in names
                if loaded.inventory.nodes[name].lifecycle.state is not state}
        if not wanted:
            return
        try:
            given.write(edited(given, loaded, wanted, skus))
            return
        except MusterError:
            if not left:
                raise
