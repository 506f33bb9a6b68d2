"""Machines that all are this one, with what the steps after the operating system need around them."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import Owner
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from inventory.load import load_inventory
from inventory.transport.local import LocalTransport
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    OperationResult,
    PastOperation,
    StepEffect,
    StepState,
)
from provisioning.bringup.steps.context import StepContext


def step(name: str) -> BringupStep:
    """A step with nothing of its own but its name."""
    return BringupStep(name, name, StepEffect.PASSIVE, Owner.OPERATOR, 600.0, together=True)


def context(home: Path, ruleset: Ruleset | None = None, sku: str | None = None) -> StepContext:
    """Of the muster.yaml that lies in `home`, and of the rules in its folder `rules`."""
    folders = [packaged(), *([home / "rules"] if (home / "rules").is_dir() else [])]
    rules = ruleset or load_ruleset(folders)
    path = home / "muster.yaml"
    return StepContext(home / "state", path, load_inventory(path, rules.skus, rules.profiles), rules,
                       tuple(folders), LocalTransport, "a test", sku)


def machines(of: StepContext, *names: str, began: float | None = None) -> list[Machine]:
    """These machines, which have just come to the step."""
    now = time.time()
    return [Machine(of.inventory.nodes[name], began if began is not None else now, now) for name in names]


def after(machine: Machine, seen: Observation, made: OperationResult | None = None) -> Machine:
    """The machine as the next look gets it: with what the last kept, and the operation asked for."""
    operations = machine.operations
    if made is not None and seen.operation is not None:
        operations = (*operations,
                      PastOperation(seen.operation.key, seen.operation.name, time.time(), time.time(),
                                    made.done, made.message))
    return replace(machine, kept={**machine.kept, **seen.keep}, operations=operations, now=time.time())


__all__ = ["Operation", "StepState", "after", "context", "machines", "step"]
