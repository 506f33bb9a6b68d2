"""Step os: the machine's operating system is proven to be installed. Whoever `os:` of the policy names
installs it; this step has it begun where it can, sees to the power, and waits for the proof.

That something answers over SSH proves nothing: installers do. A machine that is off is turned on once, unless
its installer does that; without a controller it can only be waited for.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.text import clean
from provisioning.bmc.base import BmcError, BmcErrorReason, BootTarget, Controller, PowerAction
from provisioning.bmc.base import PowerState as State
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
from provisioning.bringup.policy.model import BringupPolicy
from provisioning.bringup.steps.bmcstep import Controllers, OfBmc, place, trouble, try_of
from provisioning.bringup.steps.nextboot import SET, sent
from provisioning.bringup.steps.osproof import Proof, keep
from provisioning.bringup.steps.power import on
from provisioning.osinstall.base import OsBackend, OsError, OsReport, OsState, SupportsFinish

_INSTALL, _FINISH = "install:", "finish"
_AGAIN_S, _LATER_S, _FIRST_S = 10.0, 30.0, 1.0
_SETTLE_S = 60.0
_WAS_ON = "os.on"       # kept: by which operation it was seen on
# Kept: in which try of this step its installation was found to have failed, "" once it was begun anew.
_FAILED = "os.failed"
_ASKED = "os.asked"     # kept: that muster had it installed, also in an earlier try


class OsInstalled(OfBmc):
    """Looks, has the installation begun, and turns the machine on. `proof` says how its system stands."""

    def __init__(
        self, step: BringupStep, controllers: Controllers, policy: BringupPolicy, backend: OsBackend,
        proof: Proof,
    ) -> None:
        super().__init__(step, controllers)
        self._policy, self._backend, self._proof = policy, backend, proof

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """See `Executor.make`."""
        if operation.key != _FINISH and not operation.key.startswith(_INSTALL):
            return super().make(machine, operation)
        try:
            if operation.key == _FINISH and isinstance(self._backend, SupportsFinish):
                self._backend.finish(machine.node)
            else:
                self._backend.install(machine.node)
        except OsError as error:
            return OperationResult(error.done, clean(str(error), 300))
        return OperationResult(True, "accepted")

    def _observed(self, machine: Machine) -> Observation:
        """With what is kept of an accepted installation, which the next try must know of."""
        found, asked = self._found(machine), _asked_last(machine)
        if asked is None or asked.done is not True:
            return found
        return replace(found, keep={_FAILED: "", _ASKED: "yes", **found.keep})

    def _found(self, machine: Machine) -> Observation:
        try:
            report = self._proof(machine.node)
            if report.state is OsState.INSTALLED:
                return self._installed(machine, report)
            past = _asked_last(machine)
            accepted = past is not None and past.done is True
            if report.state is OsState.FAILED and not (accepted and _settles(machine, past)):
                return self._failed(machine, report, accepted)
            if report.state is OsState.PLANNED and not (accepted and _settles(machine, past)) and (
                change := self._backend.changes(machine.node)) and not _accepted(machine, change):
                return self._anew(machine, report, change) if _tried(machine) else _installs(report, change)
        except OsError as error:
            return _unasked(machine, error)
        if self._backend.drives_power:
            return _waits(machine, report, report.message)
        if machine.node.bmc is None:
            return _waits(machine, report, report.message,
                          f"turn it on; it has no bmc in the inventory ({place(machine)})")
        return self._asked(machine, lambda known, controller: self._powered(known, controller, report))

    def _installed(self, machine: Machine, report: OsReport) -> Observation:
        """So; but one that its installer alone vouches for may be off."""
        message, past = f"installed: {report.message}", machine.did(_FINISH)
        ours = _asked_last(machine) is not None or machine.kept.get(_ASKED) == "yes"
        if isinstance(self._backend, SupportsFinish) and ours and (past is None or past.ended is None):
            return Observation(StepState.NOT_SO, clean(message, 300), Operation(
                "take away what its installer needed", _FINISH, ("what it was installed from is taken out",),
                StepEffect.PASSIVE))
        if past is not None and past.done is not True:
            message += (f"; what it was installed from {'is' if past.done is False else 'may be'} left: "
                        f"{past.message}")
        so = Observation(StepState.SO, clean(message, 300), keep=keep(report))
        if report.answered or self._backend.drives_power or machine.node.bmc is None:
            return so
        return self._asked(machine, lambda known, controller: on(
            known, controller.power(), "os", "so that its operating system boots",
            self._policy.power) or so)

    def _observe(self, machine: Machine, controller: Controller) -> Observation:
        raise AssertionError("it is observed by its report")

    def _failed(self, machine: Machine, report: OsReport, accepted: bool) -> Observation:
        """Trouble; in a try that a person has had begun since, it is installed again."""
        if _tried(machine) and not accepted and (change := self._backend.changes(machine.node)):
            return self._anew(machine, report, change)
        what = clean(f"its installation has failed: {report.message}", 300)
        return trouble(
            what, Owner.OPERATOR,
            f"{report.advice or 'see its console and the log of its installer'}; to have it installed again: "
            f"muster bringup retry {machine.name}", "node", keep={_FAILED: try_of(machine)})

    def _anew(self, machine: Machine, report: OsReport, change: tuple[str, ...]) -> Observation:
        """It is sent to its installer again, since no other step does, and installed."""
        target = target_of(self._policy, self._backend)
        if machine.node.bmc is None or self._backend.drives_power or target is BootTarget.NONE:
            return _installs(report, change)
        return self._asked(machine, lambda known, controller: sent(
            known, controller, target, self._policy.power, self.step.name) or _installs(report, change))

    def _powered(self, machine: Machine, controller: Controller, report: OsReport) -> Observation:
        state, past = controller.power(), machine.did("on:os")
        if state is not State.ON:
            if past is not None and machine.kept.get(_WAS_ON) == _id(past):
                return trouble(
                    "it was on, and is off again", Owner.DATACENTRE,
                    f"{place(machine)}: check its power supplies, their cords and their PDU; if its "
                    f"installer turned it off, or all is well: muster bringup retry {machine.name}", "psu")
            seen = on(machine, state, "os", "so that its operating system boots", self._policy.power)
            if seen is not None:
                return seen
        how = _progress(controller)
        advice = ("" if report.state is not OsState.PLANNED else
                  f"check its console (muster bmc show {machine.name}), the PXE server's log for its MAC "
                  "address, and its address in the inventory")
        found = _waits(machine, report, f"it is on; {report.message}"
                       f"{f'; its boot has come to {how}' if how else ''}", advice)
        return replace(found, keep={_WAS_ON: _id(past)} if past is not None else {})

    def _make(self, controller: Controller, machine: Machine, operation: Operation) -> str:
        if operation.key.startswith(SET):
            return controller.set_boot(target_of(self._policy, self._backend), once=True)
        return controller.set_power(PowerAction.OFF if operation.key.startswith("off:") else PowerAction.ON)


def target_of(policy: BringupPolicy, backend: OsBackend) -> BootTarget:
    """From what a machine boots once to be installed: as the policy says, else as its installer needs."""
    return policy.boot if policy.boot is not BootTarget.NONE else backend.target


def _installs(report: OsReport, change: tuple[str, ...]) -> Observation:
    return Observation(
        StepState.NOT_SO, clean(f"not installed: {report.message}", 300),
        Operation("have its operating system installed", install_key(change), change, StepEffect.DISRUPTIVE,
                  once=True, settle_s=_SETTLE_S))


def install_key(change: tuple[str, ...]) -> str:
    """An installer may take several steps, such as to commission and to deploy: each once."""
    digest = hashlib.sha256("\n".join(change).encode()).hexdigest()
    return f"{_INSTALL}{digest[:12]}"


def _accepted(machine: Machine, change: tuple[str, ...]) -> bool:
    past = machine.did(install_key(change))
    return past is not None and past.done is True


def _tried(machine: Machine) -> bool:
    """Whether its installation was reported as failed, and a person has had the step begun anew since."""
    return machine.kept.get(_FAILED, "") not in ("", try_of(machine))


def _asked_last(machine: Machine) -> PastOperation | None:
    return next((one for one in reversed(machine.operations) if one.key.startswith(_INSTALL)), None)


def _settles(machine: Machine, past: PastOperation | None) -> bool:
    """Whether an installer that has just accepted may yet show how it was before."""
    return past is not None and machine.now < (past.ended or past.began) + _SETTLE_S


def _unasked(machine: Machine, error: OsError) -> Observation:
    what = clean(f"who installs it cannot be asked: {error}", 300)
    return Observation(
        StepState.UNKNOWN, what, again_s=_pause(machine, _LATER_S), troubles=(
            Trouble(what, Owner.OPERATOR, f"correct that (os: in bringup.yaml), then: muster bringup retry "
                    f"{machine.name}", "node"),))


def _waits(machine: Machine, report: OsReport, message: str, advice: str = "") -> Observation:
    late = Trouble(
        clean(f"its operating system is not proven to be installed: {message}", 300), Owner.OPERATOR,
        clean(f"{advice or report.advice or 'check its console'}; then: muster bringup retry {machine.name}"),
        "node")
    slowly = report.state is not OsState.PLANNED       # each look is a login
    return Observation(
        StepState.UNKNOWN if report.state is OsState.UNKNOWN else StepState.WAIT, clean(message, 300),
        troubles=(late,), again_s=_pause(machine, _LATER_S if slowly else _AGAIN_S))


def _pause(machine: Machine, most: float) -> float:
    return min(most, max(_FIRST_S, (machine.now - machine.began) / 10))


def _id(past: PastOperation) -> str:
    """An operation by when it was begun."""
    return f"{past.began:.3f}"


def _progress(controller: Controller) -> str:
    """How far the boot has come, where the controller knows."""
    try:
        found = controller.boot().progress
    except BmcError as error:
        if error.wrong is not BmcErrorReason.UNSUPPORTED:
            raise
        return ""
    return clean(found, 60) if isinstance(found, str) else ""
