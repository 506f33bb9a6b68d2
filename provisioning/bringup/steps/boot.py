"""Step boot: the next boot, and only that one, is from where the policy or the installer says; the boot order
of the BIOS is left alone.

A machine is sent to an installer only where nothing that is worth keeping can be there: one whose system is
installed, or being installed, never is, nor is one where something answers of which it is not known what it
is. One whose installation has failed is for a person, and step os sends it there again. One that is on may be
booting, and is given time to answer. Then it is turned off, so that the override counts.
"""

from __future__ import annotations

from dataclasses import replace

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.text import clean
from provisioning.bmc.base import BootTarget, Controller, PowerAction, PowerState
from provisioning.bringup.engine.model import BringupStep, Machine, Observation, Operation, StepState
from provisioning.bringup.policy.model import BringupPolicy
from provisioning.bringup.steps.bmcstep import Controllers, OfBmc, later, pause, skip, try_of
from provisioning.bringup.steps.nextboot import sent
from provisioning.bringup.steps.os import target_of
from provisioning.bringup.steps.osproof import Proof
from provisioning.osinstall.base import OsBackend, OsError, OsReport, OsState

_AGAIN_S = 15.0
_ANSWERED = "boot.answered"     # kept: in which try of this step something answered that may be a system
_KEPT = {OsState.INSTALLED: "its operating system is installed", OsState.INSTALLING: "it is being installed"}


class BootFrom(OfBmc):
    """Looks, sets the override, and turns a machine off for it. `proof` says how its system stands."""

    def __init__(
        self, step: BringupStep, controllers: Controllers, policy: BringupPolicy, backend: OsBackend,
        proof: Proof,
    ) -> None:
        super().__init__(step, controllers)
        self._policy, self._backend, self._proof = policy, backend, proof
        self._target = target_of(policy, backend)

    def _observe(self, machine: Machine, controller: Controller) -> Observation:
        target = self._target
        if self._backend.drives_power:
            return Observation(StepState.SO, f"its installer ({self._backend.name}) turns it on and off")
        if target is BootTarget.NONE:
            return Observation(StepState.SO, "as its boot order says: no target is wanted for")
        try:
            report = self._proof(machine.node)
        except OsError as error:
            what = clean(f"who installs it cannot be asked: {error}", 300)
            return later(machine, what, Trouble(what, Owner.OPERATOR, "correct that (os: in bringup.yaml), "
                                                f"then: muster bringup retry {machine.name}", "node"))
        if report.state is OsState.FAILED:      # no one has looked at it, and step os sends it there again
            return Observation(StepState.SO, clean(
                f"its installation has failed ({report.message}): it is not sent to {target.value} before "
                "a person has step os begun anew", 300))
        if report.state in _KEPT:
            return Observation(StepState.SO, clean(
                f"{_KEPT[report.state]} ({report.message}): it is not sent to {target.value}", 300))
        if report.state is OsState.UNKNOWN:
            return self._unproven(machine, report)
        if not machine.operations and controller.power() is not PowerState.OFF:
            if machine.kept.get(_ANSWERED) == try_of(machine):
                return self._unproven(machine, replace(
                    report, message=f"something answered there, and now it does not ({report.message})"))
            left = self._policy.power.answer_s - (machine.now - machine.began)
            if left > 0:
                return Observation(StepState.WAIT,
                                   f"it is on, and no operating system answers: it is given {left / 60:.0f} "
                                   f"min more before it is sent to {target.value}",
                                   again_s=min(_AGAIN_S, left))
        return (sent(machine, controller, target, self._policy.power, self.step.name)
                or Observation(StepState.SO, f"boots from {target.value} when it is turned on"))

    def _unproven(self, machine: Machine, report: OsReport) -> Observation:
        what = clean(f"it is not known whether its operating system is installed: {report.message}; it is "
                     f"not sent to {self._target.value}", 300)
        hand = (f"{report.advice or 'see its console'}; to have it installed over what is there: turn it "
                f"off, then: muster bringup retry {machine.name}; to leave it as it is: "
                f"{skip(machine.name, self.step.name)}")
        return Observation(StepState.UNKNOWN, what, again_s=pause(machine),
                           keep={_ANSWERED: try_of(machine)} if report.answered else {},
                           troubles=(Trouble(what, Owner.OPERATOR, clean(hand), "node"),))

    def _make(self, controller: Controller, machine: Machine, operation: Operation) -> str:
        if operation.key.startswith("off:"):
            return controller.set_power(PowerAction.OFF)
        return controller.set_boot(self._target, once=True)
