"""Step boot: the next boot, and only that one, is from where the policy says; the boot order of the BIOS is
left alone.

A machine whose SSH server answers has its operating system, and is never sent to an installer; one that is on
may be booting, and is given time to answer. One that is on without an operating system is turned off, so that
the override counts in the boot that the next step begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from healthcheck.model.outcome import Owner
from inventory.model import Node
from inventory.text import clean
from provisioning.bmc.base import BootTarget, Controller, Missing, PowerAction, PowerState
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    StepEffect,
    StepState,
)
from provisioning.bringup.policy.model import BringupPolicy
from provisioning.bringup.steps.banner import banner
from provisioning.bringup.steps.bmcstep import Controllers, OfBmc, refused, skip, trouble
from provisioning.bringup.steps.power import off

Answers: TypeAlias = Callable[[Node], "tuple[str, str]"]
_SET = "boot:"
_AGAIN_S = 15.0


class BootFrom(OfBmc):
    """Looks, sets the override, and turns a machine off for it. `answers` gives the line of a node's SSH
    server, or why there is none."""

    def __init__(
        self, step: BringupStep, controllers: Controllers, policy: BringupPolicy, answers: Answers = banner,
    ) -> None:
        super().__init__(step, controllers)
        self._policy = policy
        self._answers = answers

    def _observe(self, machine: Machine, controller: Controller) -> Observation:
        target = self._policy.boot
        if target is BootTarget.NONE:
            return Observation(StepState.SO, "as its boot order says: no target is wanted for")
        line, _ = self._answers(machine.node)
        if line:
            return Observation(
                StepState.SO,
                f"its operating system answers already ({line}): it is not sent to {target.value}")
        power = controller.power()
        left = self._policy.power.answer_s - (machine.now - machine.began)
        if power is not PowerState.OFF and not machine.operations and left > 0:
            return Observation(StepState.WAIT,
                               f"it is on, and no operating system answers: it is given {left / 60:.0f} min "
                               f"more before it is sent to {target.value}", again_s=min(_AGAIN_S, left))
        found = controller.boot()
        if isinstance(found.allowed, tuple) and target not in found.allowed:
            return trouble(
                f"its controller knows no boot from {target.value}", Owner.OPERATOR,
                f"set the boot order in the BIOS setup, then: {skip(machine.name, self.step.name)}", "node")
        key = f"{_SET}{target.value}"
        past = machine.did(key)
        message = past is not None and past.done is True
        # Where a controller does not tell its override, its word has to do that it was set.
        right = (found.target is target or (message and not isinstance(found.target, BootTarget))) and (
            found.once is True or (message and not isinstance(found.once, bool)))
        if not right:
            if past is not None and past.done is False and refused(past.message):
                return trouble(
                    f"its controller will not boot from {target.value}: {clean(past.message, 160)}",
                    Owner.OPERATOR,
                    f"set the boot order in the BIOS setup, then: {skip(machine.name, self.step.name)}",
                    "node")
            return Observation(
                StepState.NOT_SO, f"boots from {_shown(found.target)}",
                operation=Operation(f"boot from {target.value} once", key,
                                    (f"next boot: {_shown(found.target)} -> {target.value}, once",),
                                    StepEffect.PASSIVE, settle_s=self._policy.power.on_s))
        return (off(machine, power, key, f"so that it boots from {target.value}", self._policy.power)
                or Observation(StepState.SO, f"boots from {target.value} when it is turned on"))

    def _make(self, controller: Controller, machine: Machine, operation: Operation) -> str:
        if operation.key.startswith("off:"):
            return controller.set_power(PowerAction.OFF)
        return controller.set_boot(self._policy.boot, once=True)


def _shown(target: BootTarget | Missing) -> str:
    return target.value if isinstance(target, BootTarget) else "where it does not say"
