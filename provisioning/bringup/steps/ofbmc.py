"""What all steps that ask a management controller share: opening it, and what each way in which it did not answer means for a machine.

A controller that cannot be reached, is slow, or answers with errors is looked at again, less and less often, until the step's time is over;
what nobody can mend by waiting is trouble at once. A refused login is kept, so that nobody tries it again before a person says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from healthcheck.ruleset.sku import Sku
from healthcheck.store.bringupnotes import LOGIN, REFUSED
from inventory.errors import MusterError
from inventory.model import Node
from inventory.text import clean
from provisioning.bmc.base import BmcError, BmcErrorReason, Controller
from provisioning.bringup.engine.model import BringupStep, Machine, Made, Observation, Operation, StepState

Controllers: TypeAlias = Callable[[Node], Controller]
SkuOf: TypeAlias = Callable[[Node], "Sku | None"]
_SOONEST, _LATEST = 2.0, 120.0
_MOST = 300
_OF_BMC = ("bmc", "credentials", "hardware", "bios", "boot")


class OfBmc(ABC):
    """Base of the steps; one opens the controller, asks, and closes it again. `_look` and `_make` may raise BmcError."""

    def __init__(self, step: BringupStep, controllers: Controllers) -> None:
        self.step = step
        self._controllers = controllers

    def look(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """See `Executor.look`."""
        for machine in machines:
            yield machine.name, self._looked(machine)

    def make(self, machine: Machine, deed: Operation) -> Made:
        """See `Executor.make`."""
        if machine.node.bmc is None:
            return Made(False, "it has no bmc in the inventory")
        try:
            controller = self._controllers(machine.node)
        except MusterError as error:
            return Made(False, clean(str(error), _MOST))
        try:
            self._make(controller, machine, deed)
        except BmcError as error:
            return made(error)
        finally:
            controller.close()
        return Made(True, "accepted")

    def _looked(self, machine: Machine) -> Observation:
        if machine.node.bmc is None:
            return without_bmc(machine)
        try:
            controller = self._controllers(machine.node)
        except MusterError as error:
            return trouble(clean(str(error), _MOST), Owner.OPERATOR, f"then: muster bringup retry {machine.name}")
        try:
            return self._look(machine, controller)
        except BmcError as error:
            return seen(error, machine, self.step.name)
        finally:
            controller.close()

    @abstractmethod
    def _look(self, machine: Machine, controller: Controller) -> Observation:
        """What is so, by this controller; raises BmcError."""

    def _make(self, controller: Controller, machine: Machine, deed: Operation) -> None:
        raise BmcError(BmcErrorReason.UNSUPPORTED, f"{self.step.name} changes nothing")


def seen(error: BmcError, machine: Machine, step: str) -> Observation:
    """What it means for a machine that its controller did not do what it was asked."""
    said, name, bmc = clean(str(error), _MOST), machine.name, address(machine)
    wrong = error.wrong
    if wrong is BmcErrorReason.UNREACHABLE:
        return later(machine, said, Trouble(f"its BMC at {bmc} cannot be reached: {clean(error.said, 160)}", Owner.DATACENTRE,
                                            f"check the BMC's cable and the power supplies of {name} in {place(machine)}", "cable"))
    if wrong in (BmcErrorReason.BUSY, BmcErrorReason.TIMEOUT, BmcErrorReason.BROKEN):
        return later(machine, said, Trouble(f"its BMC at {bmc} gives no usable answer: {said}", Owner.OPERATOR,
                                            f"restart the BMC itself (ipmitool mc reset cold), then: muster bringup retry {name}", "node"))
    if wrong is BmcErrorReason.CREDENTIALS:
        return trouble(f"its BMC at {bmc} refuses the login: {clean(error.said, 160)}", Owner.OPERATOR,
                       f"correct user and password of `bmc:` in the inventory, then: muster bringup retry {name}", keep={LOGIN: REFUSED})
    hands = {
        BmcErrorReason.TLS: _certificate(machine),
        BmcErrorReason.DENIED: f"give its account on the BMC the role of an operator or administrator, then: muster bringup retry {name}",
        BmcErrorReason.NO_SECRET: f"mend where `bmc:` has its password from, then: muster bringup retry {name}",
        BmcErrorReason.UNSUPPORTED: f"see to it by hand, then: {skip(name, step)}",
        BmcErrorReason.REFUSED: f"look at the BMC's log, then: muster bringup retry {name}",
    }
    return trouble(f"its BMC at {bmc}: {said}", Owner.OPERATOR, hands[wrong])


def _certificate(machine: Machine) -> str:
    if machine.node.bmc is not None and machine.node.bmc.tls != "pin":
        return f"have its certificate signed by that authority, or correct `tls:` of {machine.name} in the inventory"
    return (f"see whether the BMC was exchanged or is another's; if it is right, pin its certificate: muster bmc enroll {machine.name} "
            f"--replace {machine.name}")


def made(error: BmcError) -> Made:
    """How a deed ended that raised: nobody knows, or it was not made. What it says begins with the kind, by which a look knows it again."""
    return Made(error.done, clean(str(error), _MOST))


def refused(said: str) -> bool:
    """Whether what a deed said in the end is that the controller understood, and will not."""
    return said.startswith((f"{BmcErrorReason.REFUSED.value}:", f"{BmcErrorReason.UNSUPPORTED.value}:", f"{BmcErrorReason.DENIED.value}:"))


def later(machine: Machine, said: str, *troubles: Trouble) -> Observation:
    """Not known now: looked at again. `troubles` are what it comes to when the step's time is over."""
    return Observation(StepState.UNKNOWN, said, troubles=troubles, again_s=pause(machine))


def pause(machine: Machine) -> float:
    """How long until the next look: half of the time that the machine is in its step, so that pauses grow."""
    return min(_LATEST, max(_SOONEST, (machine.now - machine.began) / 2))


def trouble(what: str, owner: Owner, hand: str, part: str = "", slot: str = "", keep: dict[str, str] | None = None) -> Observation:
    """One thing that somebody has to mend."""
    return Observation(StepState.TROUBLE, what, troubles=(Trouble(what, owner, hand, part, slot),), keep=keep or {})


def without_bmc(machine: Machine) -> Observation:
    """A machine that nobody named a controller of."""
    return trouble("it has no bmc in the inventory", Owner.OPERATOR,
                   f"add bmc: to {machine.name}, or leave these steps out: `without: [{', '.join(_OF_BMC)}]` in "
                   f"bringup.yaml, or {skip(machine.name, *_OF_BMC)}")


def skip(node: str, *steps: str) -> str:
    """The command by which a machine passes over steps."""
    return f"muster bringup skip {node} {' '.join(f'--step {step}' for step in steps)} --reason WHY"


def address(machine: Machine) -> str:
    """Where its controller is."""
    return clean(machine.node.bmc.address, 80) if machine.node.bmc is not None else "no address"


def place(machine: Machine) -> str:
    """Where it stands, for who has to go there."""
    return f"rack {clean(machine.node.rack, 40)}" if machine.node.rack else "its rack"
