"""Step credentials: the login is taken, and the machine says what it is, with wanted firmware. Where the
policy wants passwords of their own, a controller that has none gets one first. Serial number, UUID and
versions are kept. A refused login is never tried again by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from healthcheck.model.firmware import IN_BAND
from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from healthcheck.store.bringupnotes import LOGIN, REFUSED
from inventory.errors import MusterError
from inventory.text import clean
from provisioning.bmc.accounts import Accounts
from provisioning.bmc.base import BmcError, BmcErrorReason, Controller, MachineIdentity, Missing
from provisioning.bmc.components import kind_of
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
from provisioning.bringup.policy.model import BringupPolicy, DesiredFirmware, UpdateRoute
from provisioning.bringup.steps.bmcstep import (
    Controllers,
    OfBmc,
    SkuOf,
    address,
    later,
    made,
    refused,
    skip,
    trouble,
)
from provisioning.bringup.steps.versions import OWN, as_desired, is_for, wanted_version

_ACCOUNTS = "accounts"
_SETTLES_S = 30.0           # until a change is sent again that does not show
_MOST = 300
_KEPT = ("serial", "uuid", "vendor", "model", "name", "bios", "firmware", "controller")


class Credentials(OfBmc):
    """Looks, and sets accounts; a version is changed by whoever owns it. `sku_of` gives a machine's SKU, None
    where it has none; `accounts` is None where none are wanted."""

    def __init__(
        self, step: BringupStep, controllers: Controllers, policy: BringupPolicy, sku_of: SkuOf,
        accounts: Accounts | None = None,
    ) -> None:
        super().__init__(step, controllers)
        self._policy = policy
        self._sku_of = sku_of
        self._accounts = accounts

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """Sets accounts. See `Executor.make`."""
        if self._accounts is None or machine.node.bmc is None:
            return super().make(machine, operation)
        try:
            return OperationResult(True, clean(self._accounts.settle(machine.node) or "nothing to do", _MOST))
        except MusterError as error:
            return OperationResult(False, clean(str(error), _MOST))
        except BmcError as error:
            return made(error)

    def _observed(self, machine: Machine) -> Observation:
        if self._accounts is None or machine.node.bmc is None:
            return super()._observed(machine)
        past = machine.did(_ACCOUNTS)
        if past is not None and past.done is not True and (why := _refused_login(past.message)):
            return trouble(f"its BMC at {address(machine)} refuses the login: {why}", Owner.OPERATOR,
                           "find out its password, put it where `password:` of `bmc:` reads it, then: muster "
                           f"bringup retry {machine.name}", keep={LOGIN: REFUSED})
        try:
            lacking = self._accounts.lacking(machine.node)
        except (BmcError, MusterError) as error:
            return trouble(clean(str(error), _MOST), Owner.OPERATOR,
                           f"correct it, then: muster bringup retry {machine.name}")
        return _set_accounts(lacking, past) if lacking else super()._observed(machine)

    def _observe(self, machine: Machine, controller: Controller) -> Observation:
        try:
            return self._identified(machine, controller)
        except BmcError as error:
            if self._accounts is None:
                raise
            if error.wrong is BmcErrorReason.CREDENTIALS:
                return trouble(
                    f"its BMC at {address(machine)} refuses the password that is kept: "
                    f"{clean(error.message, 160)}", Owner.OPERATOR,
                    f"if the BMC was exchanged or reset: muster bmc accounts {machine.name} --apply; else "
                    "find out its password, put it where `password:` of `bmc:` reads it; then: muster "
                    f"bringup retry {machine.name}", keep={LOGIN: REFUSED})
            if error.wrong is not BmcErrorReason.PASSWORD:
                raise
            return _set_accounts("a new password, which it asks for", machine.did(_ACCOUNTS))

    def _identified(self, machine: Machine, controller: Controller) -> Observation:
        found = controller.identity()
        keep = kept(found)
        sku = self._sku_of(machine.node)
        desired = self._policy.versions(keep.get("vendor", ""), sku.name if sku is not None else None)
        versions: dict[str, str | Missing] = {"bios": found.bios, "bmc": found.firmware}
        unreported = ""
        if any(entry.component not in OWN for entry in desired):
            try:
                versions |= {entry.name: entry.version for entry in controller.firmware()}
            except BmcError as error:
                if error.wrong is not BmcErrorReason.UNSUPPORTED:
                    raise
                unreported = "it has no inventory of firmware"
        wrong: list[Trouble] = []
        unknown: list[str] = []
        if "vendor" not in keep and self._policy.needs_maker(
            self._policy.firmware, sku.name if sku is not None else None):
            unknown.append("whose machine it is, and versions are set by maker")
        by_sweeps: list[str] = []
        for entry in desired:
            if entry.by is not UpdateRoute.REDFISH or (
                    entry.component in IN_BAND and not _named(entry, versions)):
                by_sweeps.append(f"{entry.component} ({entry.id})")
                continue
            for each in _judged(entry, versions, machine.name, unreported):
                (unknown if isinstance(each, str) else wrong).append(each)      # type: ignore[arg-type]
        message = ", ".join(f"{name} {keep[key]}" for name, key in (
            ("", "vendor"), ("", "model"), ("serial", "serial"), ("BIOS", "bios"),
            ("BMC", "firmware")) if key in keep)
        message = clean(" ".join(message.split()) or "logged in; it does not say what it is", 300)
        if by_sweeps:
            message = clean(f"{message}; not judged here, as its BMC does not tell of them: "
                            f"{', '.join(by_sweeps)}; after a sweep: muster firmware status", _MOST)
        if wrong:
            return Observation(StepState.TROUBLE, wrong[0].what, troubles=tuple(wrong), keep=keep)
        if unknown:
            why = f"{message}; not known: {'; '.join(unknown[:4])}"
            again = later(
                machine, why,
                Trouble(f"versions of firmware are not known: {'; '.join(unknown[:4])}", Owner.OPERATOR,
                        f"check them by hand, then: {skip(machine.name, self.step.name)}"))
            return Observation(
                again.stand, again.message, troubles=again.troubles, again_s=again.again_s, keep=keep)
        return Observation(StepState.SO, message, keep=keep)


def _set_accounts(what: str, past: PastOperation | None) -> Observation:
    """The operation that sets what is lacking; what the controller will not do is for people."""
    if past is not None and past.done is False and refused(past.message):
        return Observation(StepState.TROUBLE, clean(f"its accounts cannot be set: {past.message}", _MOST))
    return Observation(StepState.NOT_SO, f"lacks {what}", Operation(
        "set accounts", _ACCOUNTS, (f"BMC: none -> {what}",), StepEffect.PASSIVE, settle_s=_SETTLES_S))


def _refused_login(message: str) -> str:
    """What an operation said that was refused for its passwords; "" for all else."""
    begins = f"{BmcErrorReason.CREDENTIALS.value}: "
    return message.removeprefix(begins) if message.startswith(begins) else ""


def kept(found: MachineIdentity) -> dict[str, str]:
    """What a controller says of itself and its machine, where it says it; for the store."""
    return {key: clean(value, 80) for key in _KEPT if isinstance(value := getattr(found, key), str) and value}


def _named(desired: DesiredFirmware, versions: Mapping[str, str | Missing]) -> dict[str, str | Missing]:
    return {name: version for name, version in versions.items() if is_for(desired, name, kind_of(name))}


def _judged(
    desired: DesiredFirmware, versions: Mapping[str, str | Missing], node: str, unreported: str,
) -> Iterator[Trouble | str]:
    """Troubles, and in words what is not known."""
    named = _named(desired, versions)
    if not named:
        yield (f"{clean(desired.component, 60)}: "
               f"{unreported or 'its firmware inventory has no such component'}")
    for name, version in named.items():
        shown = clean(name, 60)
        if not isinstance(version, str):
            yield f"{shown}: its version is unknown"
            continue
        wanted, fits = wanted_version(desired), as_desired(desired, version)
        if fits:
            continue
        if fits is None:
            yield f"{shown}: {clean(version, 40)} and {clean(wanted, 40)} cannot be compared"
            continue
        at_least = "at least " if desired.exactly is None else ""
        yield Trouble(
            f"firmware of {shown} is {clean(version, 40)}, wanted {at_least}{clean(wanted, 40)} "
            f"({desired.id})", desired.owner, f"update it, then: muster bringup retry {node}", "node")
