"""Has a machine's next boot, and only that one, be from somewhere: sets the controller's override, and turns
the machine off, so that the override counts in the boot that is begun afterwards."""

from __future__ import annotations

from healthcheck.model.outcome import Owner
from inventory.text import clean
from provisioning.bmc.base import BootTarget, Controller, Missing
from provisioning.bringup.engine.model import Machine, Observation, Operation, StepEffect, StepState
from provisioning.bringup.policy.model import PowerTimes
from provisioning.bringup.steps.bmcstep import refused, skip, trouble
from provisioning.bringup.steps.power import off

SET = "boot:"


def sent(
    machine: Machine, controller: Controller, target: BootTarget, times: PowerTimes, step: str,
) -> Observation | None:
    """What makes it boot from there when turned on; None when it is off and will. Raises BmcError."""
    power = controller.power()
    found = controller.boot()
    if isinstance(found.allowed, tuple) and target not in found.allowed:
        return trouble(
            f"its controller knows no boot from {target.value}", Owner.OPERATOR,
            f"set the boot order in the BIOS setup, then: {skip(machine.name, step)}", "node")
    key = f"{SET}{target.value}"
    past = machine.did(key)
    accepted = past is not None and past.done is True
    # Where a controller does not tell its override, its word has to do that it was set.
    right = (found.target is target or (accepted and not isinstance(found.target, BootTarget))) and (
        found.once is True or (accepted and not isinstance(found.once, bool)))
    if right:
        return off(machine, power, key, f"so that it boots from {target.value}", times)
    if past is not None and past.done is False and refused(past.message):
        return trouble(
            f"its controller will not boot from {target.value}: {clean(past.message, 160)}", Owner.OPERATOR,
            f"set the boot order in the BIOS setup, then: {skip(machine.name, step)}", "node")
    return Observation(
        StepState.NOT_SO, f"boots from {_shown(found.target)}",
        operation=Operation(f"boot from {target.value} once", key,
                            (f"next boot: {_shown(found.target)} -> {target.value}, once",),
                            StepEffect.PASSIVE, settle_s=times.on_s))


def _shown(target: BootTarget | Missing) -> str:
    return target.value if isinstance(target, BootTarget) else "where it does not say"
