"""Step bios: the settings that the policy wants are current. They are written once and current after a reset.
The reset is off and then on, each an operation of its own that shows in the power state, and each is done
once for one difference. A look reads current and pending settings in one go, so that a kill between writing
and reset finds by looking what was taken."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from healthcheck.facts.values import UNSUPPORTED, Unmeasured
from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.text import clean
from provisioning.bmc.base import Bios, BmcError, BmcErrorReason, Controller, Missing, PowerAction, PowerState
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    StepEffect,
    StepState,
)
from provisioning.bringup.policy.model import BringupPolicy, MissingAttribute
from provisioning.bringup.steps.bmcstep import Controllers, OfBmc, SkuOf, later, refused, skip, trouble
from provisioning.bringup.steps.power import reset

Settings: TypeAlias = Mapping[str, "str | int | bool"]
Desired: TypeAlias = Mapping[str, "tuple[str | int | bool, MissingAttribute]"]
_WRITE = "write:"


class BiosAsDesired(OfBmc):
    """Looks, writes, and resets. `sku_of` gives a machine's SKU, None where it has none."""

    def __init__(
        self, step: BringupStep, controllers: Controllers, policy: BringupPolicy, sku_of: SkuOf,
    ) -> None:
        super().__init__(step, controllers)
        self._policy = policy
        self._sku_of = sku_of

    def _observe(self, machine: Machine, controller: Controller) -> Observation:
        desired = self._desired(machine, controller)
        if desired is None:
            return trouble("its controller does not say who made it, and BIOS settings are set by maker",
                           Owner.OPERATOR, f"check its settings by hand, then: {skip(machine.name, 'bios')}")
        if not desired:
            return Observation(StepState.SO, "no setting is wanted for")
        found = _read(controller)
        if not isinstance(found.current, Mapping):
            return _unread(found.current, desired, machine)
        gone = [name for name in desired if name not in found.current]
        lacking = [name for name in gone if desired[name][1] is MissingAttribute.TROUBLE]
        if lacking:
            return trouble(f"its BIOS has no setting {_names(lacking)}", Owner.OPERATOR,
                           "correct its name in bringup.yaml (absent: leave, where not all machines have "
                           f"it), then: muster bringup retry {machine.name}")
        differs = _differs(desired, found.current)
        if not differs:
            left = f"; it has no {_names(gone)}" if gone else ""
            return Observation(
                StepState.SO, clean(f"{len(desired) - len(gone)} settings as wanted{left}", 300))
        return self._booting(
            machine, controller, found, differs) or self._next(machine, controller, found, differs)

    def _booting(
        self, machine: Machine, controller: Controller, found: Bios, differs: Settings,
    ) -> Observation | None:
        """What a reset of ours, perhaps on its way, comes to; None without one, or for other settings."""
        on = next((past for past in reversed(machine.operations) if past.key.startswith("on:bios:")), None)
        if on is None or controller.power() is not PowerState.ON:
            return None
        over = (on.ended or on.began) + self._policy.power.bios_s
        ours = on.key == f"on:bios:{digest_of(differs)}"
        if machine.now >= over and not ours:
            return None
        state = "still waits" if found.pending else "is as it was"
        late = Trouble(f"BIOS setting {_names(differs)} {state} after a reset", Owner.VENDOR,
                       "read its console and the BMC's log, and set it by hand; then: muster bringup retry "
                       f"{machine.name}", "node")
        if machine.now >= over:
            return Observation(StepState.TROUBLE, late.what, troubles=(late,))
        again = min(15.0, max(0.5, self._policy.power.bios_s / 20))
        return Observation(StepState.WAIT, f"boots with new settings; differs: {_names(differs)}",
                           troubles=(late,), again_s=again)

    def _next(self, machine: Machine, controller: Controller, found: Bios, differs: Settings) -> Observation:
        """What brings the machine nearer: to write, to turn off, to turn on."""
        digest, times = digest_of(differs), self._policy.power
        written, off = machine.did(_WRITE + digest), machine.did(f"off:bios:{digest}")
        pending = found.pending if isinstance(found.pending, Mapping) else None
        waits = pending is not None and all(
            name in pending and same(pending[name], value) for name, value in differs.items())
        accepted = written is not None and written.done is True
        # Where what is pending cannot be read, the word has to do that it was taken; and it may be gone from
        # there once the power was off.
        if waits or (accepted and (pending is None or off is not None)):
            turned = reset(machine, controller, f"bios:{digest}",
                           f"so that BIOS settings become current: {_names(differs)}", times)
            # It came on since `_booting` asked: nothing is written again, the next look sees it boot.
            return turned or Observation(StepState.WAIT, "has just come on", again_s=0.5)
        if written is not None and written.done is False and _waiting_job(written.message):
            return trouble(
                "its BMC takes no BIOS settings while an earlier change waits: "
                f"{clean(written.message, 160)}", Owner.OPERATOR,
                "restart the machine once, so that the waiting change is made, or delete its job at the BMC; "
                f"then: muster bringup retry {machine.name}", "node")
        if written is not None and written.done is False and refused(written.message):
            return trouble(
                f"its BIOS does not take {_names(differs)}: {clean(written.message, 160)}", Owner.OPERATOR,
                "correct bringup.yaml, or set it in the BIOS setup; then: muster bringup retry "
                f"{machine.name}", "node")
        change = tuple(f"BIOS {clean(name, 60)}: {clean(_now(found, name), 60)} -> {clean(value, 60)}"
                           for name, value in differs.items())
        return Observation(
            StepState.NOT_SO, f"differs: {_names(differs)}",
            operation=Operation("write BIOS settings", _WRITE + digest, change, StepEffect.PASSIVE, once=True,
                                shows=pending is not None, settle_s=times.on_s))

    def _make(self, controller: Controller, machine: Machine, operation: Operation) -> str:
        if operation.key.startswith("off:"):
            return controller.set_power(PowerAction.OFF)
        if operation.key.startswith("on:"):
            return controller.set_power(PowerAction.ON)
        # Compared once more: what is written is what this operation is named after.
        current = _read(controller).current
        differs = _differs(
            self._desired(machine, controller) or {}, current if isinstance(current, Mapping) else {})
        if _WRITE + digest_of(differs) != operation.key:
            raise BmcError(BmcErrorReason.BUSY, "its settings changed since they were checked")
        return controller.set_bios(differs)

    def _desired(self, machine: Machine, controller: Controller) -> Desired | None:
        """By the maker that credentials kept, else asked for; None where none is reported and it matters."""
        sku = self._sku_of(machine.node)
        name = sku.name if sku is not None else None
        vendor = machine.kept.get("vendor", "")
        if not vendor and self._policy.needs_maker(self._policy.bios, name):
            message = controller.identity().vendor
            if not isinstance(message, str) or not message:
                return None
            vendor = message
        return self._policy.settings(vendor, name)


def _waiting_job(message: str) -> bool:
    """Whether a write was refused because settings of an earlier one wait for a reset. Source: Dell's event
    and error message reference, SYS011 ("Pending configuration values are already committed")."""
    bare = message.casefold()
    return refused(message) and "pending" in bare and ("already committed" in bare or "job" in bare)


def digest_of(settings: Settings) -> str:
    """A name for these settings with these values."""
    return hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode()).hexdigest()[:12]


def same(one: str | int | bool, other: str | int | bool) -> bool:
    """Whether a controller's value is the wanted one; some write numbers and booleans as text."""
    return (type(one) is type(other) and one == other) or str(one).casefold() == str(other).casefold()


def _differs(desired: Desired, current: Settings) -> Settings:
    return {
        name: value for name, (value, _) in desired.items()
            if name in current and not same(current[name], value)}


def _names(settings: Iterable[str]) -> str:
    return ", ".join(clean(name, 60) for name in list(settings)[:6])


def _now(found: Bios, name: str) -> object:
    return found.current.get(name, "") if isinstance(found.current, Mapping) else ""


def _read(controller: Controller) -> Bios:
    try:
        return controller.bios()
    except BmcError as error:
        if error.wrong is not BmcErrorReason.UNSUPPORTED:
            raise
        return Bios(UNSUPPORTED, UNSUPPORTED)


def _unread(current: Missing, desired: Desired, machine: Machine) -> Observation:
    advice = f"set {_names(desired)} by hand in the BIOS setup, then: {skip(machine.name, 'bios')}"
    if isinstance(current, Unmeasured):
        late = Trouble("its BIOS settings cannot be read", Owner.OPERATOR, advice)
        return later(machine, f"BIOS settings: {clean(current.reason, 160)}", late)
    return trouble(f"its controller can neither read nor set the wanted BIOS settings: {_names(desired)}",
                   Owner.OPERATOR, advice)
