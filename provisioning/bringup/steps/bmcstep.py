"""What steps that ask a controller share: opening it, and what each way of no answer means for a machine. A
controller that cannot be reached, is slow, or answers with errors is checked again, less and less often,
until the step's time is over; what no one can repair by waiting is trouble at once. A refused login is kept,
so that no one tries it again before a person says so."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from healthcheck.ruleset.sku import Sku
from healthcheck.store.bringupnotes import LOGIN, REFUSED
from inventory.errors import MusterError
from inventory.model import Node
from inventory.text import clean
from provisioning.bmc.base import BmcError, BmcErrorReason, ChangeEnd, Controller, EarlierChange
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepState,
)

Controllers: TypeAlias = Callable[[Node], Controller]
SkuOf: TypeAlias = Callable[[Node], "Sku | None"]
_SOONEST, _LATEST = 2.0, 120.0
_MOST = 300
_OF_BMC = ("bmc", "credentials", "hardware", "bios", "boot")


class OfBmc(ABC):
    """Base of the steps; one opens the controller, asks, and closes it. `_observe` and `_make` may raise
    BmcError. A change that the controller still works on is awaited first: it would be made twice."""

    logs_in = True      # a step that asks as a stranger learns nothing of such changes

    def __init__(self, step: BringupStep, controllers: Controllers) -> None:
        self.step = step
        self._controllers = controllers

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        """See `Executor.observe`."""
        for machine in machines:
            yield machine.name, self._observed(machine)

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """See `Executor.make`."""
        if machine.node.bmc is None:
            return OperationResult(False, "it has no bmc in the inventory")
        try:
            controller = self._controllers(machine.node)
        except MusterError as error:
            return OperationResult(False, clean(str(error), _MOST))
        try:
            said = self._make(controller, machine, operation)
        except BmcError as error:
            return made(error)
        finally:
            controller.close()
        return OperationResult(True, clean(f"accepted: {said}", _MOST) if said else "accepted")

    def _observed(self, machine: Machine) -> Observation:
        return self._asked(machine, self._observe)

    def _asked(self, machine: Machine, ask: Callable[[Machine, Controller], Observation]) -> Observation:
        """What `ask`, which may raise BmcError, finds by the machine's controller. It gets the machine with
        what the controller reported later of its operations."""
        if machine.node.bmc is None:
            return without_bmc(machine)
        try:
            controller = self._controllers(machine.node)
        except MusterError as error:
            return trouble(
                clean(str(error), _MOST), Owner.OPERATOR, f"then: muster bringup retry {machine.name}")
        try:
            earlier = controller.earlier() if self.logs_in else ()
            return after_earlier(machine, earlier) or self._looked(machine, controller, earlier, ask)
        except BmcError as error:
            return seen(error, machine, self.step.name)
        finally:
            controller.close()

    def _looked(
        self, machine: Machine, controller: Controller, earlier: Sequence[EarlierChange],
        ask: Callable[[Machine, Controller], Observation],
    ) -> Observation:
        """A look that knows of the machine's operations what the controller reported later."""
        known = learned(machine, earlier)
        operations = tuple(
            replace(past, done=known[past.key].done, message=known[past.key].message)
            if past.done is None and past.key in known else past for past in machine.operations)
        found = ask(replace(machine, operations=operations), controller)
        return replace(found, learned=known) if known else found

    @abstractmethod
    def _observe(self, machine: Machine, controller: Controller) -> Observation:
        """What is so, by this controller; raises BmcError."""

    def _make(self, controller: Controller, machine: Machine, operation: Operation) -> str:
        """What the controller said when it accepted the change, mostly nothing; raises BmcError."""
        raise BmcError(BmcErrorReason.UNSUPPORTED, f"{self.step.name} changes nothing")


_WHAT = {"write": "BIOS settings", "on": "power on", "off": "power off", "boot": "boot"}
_LOOKS_S = 5.0


def after_earlier(machine: Machine, earlier: Sequence[EarlierChange]) -> Observation | None:
    """What changes come to that earlier operations left with the controller: they are waited for, and one
    that failed is for people. None where neither is so."""
    failed = next((one for one in earlier if one.end is ChangeEnd.FAILED), None)
    if failed is not None:
        found = trouble(
            clean(f"its BMC accepted a change, and did not make it: {failed.what}: {failed.message}", _MOST),
            Owner.OPERATOR, f"read the BMC's log, then: muster bringup retry {machine.name}", "node")
        return replace(found, learned=learned(machine, earlier))
    running = next((one for one in earlier if one.end is ChangeEnd.RUNNING), None)
    if running is None:
        return None
    late = Trouble(
        clean(f"its BMC at {address(machine)} does not come to an end with a change: {running.what}: "
              f"{running.message}", _MOST), Owner.OPERATOR,
        "look at its task list, and restart the BMC itself (ipmitool mc reset cold) if it hangs; then: "
        f"muster bringup retry {machine.name}", "node")
    what = clean(f"its BMC still works on {running.what}: {running.message}", _MOST)
    return Observation(StepState.WAIT, what, troubles=(late,),
                       again_s=_LOOKS_S, learned=learned(machine, earlier))


def learned(machine: Machine, earlier: Sequence[EarlierChange]) -> dict[str, OperationResult]:
    """By key what became of the newest operations of unknown end, as the controller tells."""
    found: dict[str, OperationResult] = {}
    for change in earlier:
        done = {ChangeEnd.DONE: True, ChangeEnd.RESET: True, ChangeEnd.FAILED: False}.get(change.end)
        past = next((one for one in reversed(machine.operations)
                     if change.what.startswith(_WHAT.get(one.key.partition(":")[0], "\0"))), None)
        if done is not None and past is not None and past.done is None:
            begins = "accepted" if done else BmcErrorReason.REFUSED.value
            found[past.key] = OperationResult(done, clean(f"{begins}: {change.message}", _MOST))
    return found


def seen(error: BmcError, machine: Machine, step: str) -> Observation:
    """What it means for a machine that its controller did not do what it was asked."""
    message, name, bmc = clean(str(error), _MOST), machine.name, address(machine)
    wrong = error.wrong
    if wrong is BmcErrorReason.UNREACHABLE:
        return later(
            machine, message,
            Trouble(f"its BMC at {bmc} cannot be reached: {clean(error.message, 160)}", Owner.DATACENTRE,
                    f"check the BMC's cable and the power supplies of {name} in {place(machine)}", "cable"))
    if wrong in (BmcErrorReason.BUSY, BmcErrorReason.TIMEOUT, BmcErrorReason.BROKEN):
        return later(machine, message,
                     Trouble(f"its BMC at {bmc} gives no usable answer: {message}", Owner.OPERATOR,
                             "restart the BMC itself (ipmitool mc reset cold), then: muster bringup retry "
                             f"{name}", "node"))
    if wrong is BmcErrorReason.CREDENTIALS:
        return trouble(f"its BMC at {bmc} refuses the login: {clean(error.message, 160)}", Owner.OPERATOR,
                       "correct user and password of `bmc:` in the inventory, then: muster bringup retry "
                       f"{name}", keep={LOGIN: REFUSED})
    hands = {
        BmcErrorReason.PASSWORD: "let muster set one (`accounts:` in bringup.yaml; muster help bmc), or set "
                                 "a new password at the BMC and put it where `password:` of `bmc:` reads it, "
                                 f"then: muster bringup retry {name}",
        BmcErrorReason.TLS: _certificate(machine),
        BmcErrorReason.DENIED: "give its account on the BMC the role of an operator or administrator, then: "
                               f"muster bringup retry {name}",
        BmcErrorReason.NO_SECRET: f"correct the password source of `bmc:`, then: muster bringup retry {name}",
        BmcErrorReason.UNSUPPORTED: f"check it by hand, then: {skip(name, step)}",
        BmcErrorReason.REFUSED: f"read the BMC's log, then: muster bringup retry {name}"}
    return trouble(f"its BMC at {bmc}: {message}", Owner.OPERATOR, hands[wrong])


def _certificate(machine: Machine) -> str:
    if machine.node.bmc is not None and machine.node.bmc.tls != "pin":
        return (f"have its certificate signed by that authority, or correct `tls:` of {machine.name} in the "
                "inventory")
    return ("check whether the BMC was exchanged or belongs to another machine; if it is right, pin its "
            f"certificate: muster bmc enroll {machine.name} --replace {machine.name}")


def made(error: BmcError) -> OperationResult:
    """How an operation that raised ended: unknown, or not made; its kind comes first, for later looks."""
    return OperationResult(error.done, clean(str(error), _MOST))


def refused(message: str) -> bool:
    """Whether what an operation said in the end is that the controller understood, and will not."""
    return message.startswith((f"{BmcErrorReason.REFUSED.value}:", f"{BmcErrorReason.UNSUPPORTED.value}:",
                               f"{BmcErrorReason.DENIED.value}:"))


def later(machine: Machine, message: str, *troubles: Trouble) -> Observation:
    """Not known now: checked again. `troubles` are what it comes to when the step's time is over."""
    return Observation(StepState.UNKNOWN, message, troubles=troubles, again_s=pause(machine))


def pause(machine: Machine) -> float:
    """How long until the next look: half of the time that the machine is in its step, so that pauses grow."""
    return min(_LATEST, max(_SOONEST, (machine.now - machine.began) / 2))


def try_of(machine: Machine) -> str:
    """This try of a machine's step: another one once a person has had it begun anew."""
    return f"{machine.began:.3f}"


def trouble(
    what: str, owner: Owner, advice: str, part: str = "", slot: str = "", keep: dict[str, str] | None = None,
) -> Observation:
    """One thing that someone has to repair."""
    return Observation(
        StepState.TROUBLE, what, troubles=(Trouble(what, owner, advice, part, slot),), keep=keep or {})


def without_bmc(machine: Machine) -> Observation:
    """A machine that no one named a controller of."""
    return trouble("it has no bmc in the inventory", Owner.OPERATOR,
                   f"add bmc: to {machine.name}, or leave these steps out: `without: [{', '.join(_OF_BMC)}]` "
                   f"in bringup.yaml, or {skip(machine.name, *_OF_BMC)}")


def skip(node: str, *steps: str) -> str:
    """The command by which a machine passes over steps."""
    return f"muster bringup skip {node} {' '.join(f'--step {step}' for step in steps)} --reason WHY"


def address(machine: Machine) -> str:
    """Where its controller is."""
    return clean(machine.node.bmc.address, 80) if machine.node.bmc is not None else "no address"


def place(machine: Machine) -> str:
    """Where it stands, for who has to go there."""
    return f"rack {clean(machine.node.rack, 40)}" if machine.node.rack else "its rack"
