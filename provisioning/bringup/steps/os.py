"""Step os: the machine is on, and the SSH server of its operating system answers. Another tool installs it;
this step waits.

A machine that is off is turned on once. Without a controller it can only be waited for.
"""

from __future__ import annotations

from dataclasses import replace

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.text import clean
from provisioning.bmc.base import BmcError, BmcErrorReason, Controller, PowerAction
from provisioning.bmc.base import PowerState as State
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    PastOperation,
    StepState,
)
from provisioning.bringup.policy.model import BringupPolicy
from provisioning.bringup.steps.banner import banner
from provisioning.bringup.steps.bmcstep import Controllers, OfBmc, place, trouble
from provisioning.bringup.steps.boot import Answers
from provisioning.bringup.steps.power import on

_AGAIN_S = 10.0
_FIRST_S = 1.0
_WAS_ON = "os.on"     # kept: by which operation it was seen on


class OsAnswers(OfBmc):
    """Looks, and turns the machine on. `answers` gives the line of a node's SSH server, or why there is
    none."""

    def __init__(
        self, step: BringupStep, controllers: Controllers, policy: BringupPolicy, answers: Answers = banner,
    ) -> None:
        super().__init__(step, controllers)
        self._policy = policy
        self._answers = answers

    def _observed(self, machine: Machine) -> Observation:
        line, why = self._answers(machine.node)
        if line:
            return Observation(StepState.SO, f"answers: {line}")
        if machine.node.bmc is None:
            return _waits(machine, f"no answer yet: {why}",
                          Trouble(f"no operating system answers: {clean(why, 160)}", Owner.OPERATOR,
                                  "turn it on and check its console; it has no bmc in the inventory "
                                  f"({place(machine)})", "node"))
        return super()._observed(machine)

    def _observe(self, machine: Machine, controller: Controller) -> Observation:
        state, report = controller.power(), machine.did("on:os")
        if state is not State.ON:
            if report is not None and machine.kept.get(_WAS_ON) == _id(report):
                return trouble(
                    "it was on, and is off again", Owner.DATACENTRE,
                    f"{place(machine)}: check its power supplies, their cords and their PDU; if its "
                    f"installer turned it off, or all is well: muster bringup retry {machine.name}", "psu")
            seen = on(machine, state, "os", "so that its operating system boots", self._policy.power)
            if seen is not None:
                return seen
        how = _progress(controller)
        late = Trouble(f"it is on, and no SSH server answers{f'; its boot has come to {how}' if how else ''}",
                       Owner.OPERATOR,
                       f"check its console (muster bmc show {machine.name}), the PXE server's log for its "
                       "MAC address, and its address in the inventory", "node")
        keep = {_WAS_ON: _id(report)} if report is not None else {}
        return replace(
            _waits(machine, f"is on, and does not answer yet{f': {how}' if how else ''}", late), keep=keep)

    def _make(self, controller: Controller, machine: Machine, operation: Operation) -> str:
        return controller.set_power(PowerAction.ON)


def _id(past: PastOperation) -> str:
    """An operation by when it was begun."""
    return f"{past.began:.3f}"


def _waits(machine: Machine, message: str, late: Trouble) -> Observation:
    return Observation(StepState.WAIT, clean(message, 300), troubles=(late,),
                       again_s=min(_AGAIN_S, max(_FIRST_S, (machine.now - machine.began) / 10)))


def _progress(controller: Controller) -> str:
    """How far the boot has come, where the controller knows."""
    try:
        found = controller.boot().progress
    except BmcError as error:
        if error.wrong is not BmcErrorReason.UNSUPPORTED:
            raise
        return ""
    return clean(found, 60) if isinstance(found, str) else ""
