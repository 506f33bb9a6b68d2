"""Step hardware: the parts that the controller tells of are those of the SKU and well, log and sensors are
not critical, and no other says it is this machine. What the controller does not tell of is no pass: the look
says so, and the step checks looks again from the operating system."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from healthcheck.checks.bmc import bmc_fan, bmc_power_supply, bmc_sel_critical, bmc_sensors
from healthcheck.facts.values import reading
from healthcheck.model.outcome import Finding, Note, Owner
from healthcheck.model.trouble import Trouble
from inventory.text import clean
from provisioning.bmc.base import BmcError, BmcErrorReason, Controller, PowerState
from provisioning.bmc.compare import compare
from provisioning.bmc.redfish.crawl import KeptTries
from provisioning.bringup.engine.model import BringupStep, Machine, Observation, StepState
from provisioning.bringup.policy.model import BringupPolicy
from provisioning.bringup.steps.bmcstep import Controllers, OfBmc, SkuOf, later, place, skip
from provisioning.bringup.steps.credentials import kept
from provisioning.bringup.steps.duplicates import Duplicates

_MOST = 16          # troubles of one machine; the first ones name the cause
_T = TypeVar("_T")
_ADVICE = {
    bmc_sel_critical: "have the vendor look at the controller's whole log",
    bmc_power_supply: "check its lamp, its cord and its PDU; swap the cord, then the supply",
    bmc_sensors: "temperatures: check airflow and heat sinks; voltages: check the supply, then the board",
    bmc_fan: "seat it again, then replace it",
}
_PARTS = {bmc_sel_critical: "node", bmc_power_supply: "psu", bmc_sensors: "node", bmc_fan: "fan"}


class HardwareAsOrdered(OfBmc):
    """Looks; what is wrong, people repair. `sku_of` gives a machine's SKU, None where it has none. `tries`
    keeps what a look has read that did not come to its end, for the next one of the same machine."""

    def __init__(
        self, step: BringupStep, controllers: Controllers, policy: BringupPolicy, sku_of: SkuOf,
        duplicates: Duplicates, tries: KeptTries | None = None,
    ) -> None:
        super().__init__(step, controllers)
        self._policy = policy
        self._sku_of = sku_of
        self._doubles = duplicates
        self._tries = tries or KeptTries(step.seconds)
        self._fine: dict[str, tuple[float, Mapping[str, str], str]] = {}

    def _observed(self, machine: Machine) -> Observation:
        """Whoever only waits for others is not read again meanwhile: that is a hundred requests."""
        began, keep, message = self._fine.get(machine.name, (None, {}, ""))
        if began == machine.began:
            return self._beside(machine, keep, message)
        self._tries.begin(machine.name, machine.began)
        seen = super()._observed(machine)
        if seen.stand is not StepState.UNKNOWN:     # what decided is whole: none of it decides again
            self._tries.drop(machine.name)
        return seen

    def _observe(self, machine: Machine, controller: Controller) -> Observation:
        parts = self._policy.parts
        message = kept(controller.identity())
        powered = controller.power() is not PowerState.OFF
        sku = self._sku_of(machine.node)
        found = compare(
            controller.hardware(), sku.numbers if sku is not None else {}, powered=powered,
            lists=controller.kind != "ipmi", may_be_empty=parts.may_be_empty, place=place(machine))
        unreported, unread = [*found.unreported], [*found.unread]
        logged = list(self._logged(controller, powered, unreported, unread))
        keep = {**message, "hardware": "; ".join(unreported)[:300]}
        wrong = [*self._doubles.of(machine.name, message).troubles, *found.troubles, *logged]
        if sku is None:
            # No one says what it should have, so that nothing was compared: that is no pass.
            wrong.append(
                Trouble("it has no SKU, so it is not known which parts it should have", Owner.OPERATOR,
                        "name one in the inventory (sku: NAME; muster sku list), then: muster bringup retry "
                        f"{machine.name}", "node"))
        if wrong or sku is None:
            more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            return Observation(
                StepState.TROUBLE, f"{wrong[0].what}{more}", troubles=tuple(wrong[:_MOST]), keep=keep)
        if unread:
            # All was answered, and a part of it says nothing yet: that is asked for anew.
            if (kept_of := self._tries.of(machine.name)) is not None and not kept_of.cut:
                self._tries.drop(machine.name)
            why = f"could not be read: {'; '.join(unread[:4])}"
            again = later(machine, clean(why, 300),
                          Trouble(clean(f"its controller: {why}", 300), Owner.OPERATOR,
                                  f"check it there, then: {skip(machine.name, self.step.name)}", "node"))
            return Observation(
                again.stand, again.message, troubles=again.troubles, again_s=again.again_s, keep=keep)
        left = f"; left to the check from the operating system: {'; '.join(unreported)}" if unreported else ""
        model = clean(f"as {sku.name} has it{left}", 400)
        self._fine[machine.name] = machine.began, keep, model
        return self._beside(machine, keep, model)

    def _beside(self, machine: Machine, keep: Mapping[str, str], model: str) -> Observation:
        """One that is well by itself, beside the others."""
        comparison = self._doubles.of(machine.name, keep)
        if (not comparison.troubles and comparison.coming
                and machine.now - machine.began < self._policy.parts.doubles_s):
            return Observation(
                StepState.WAIT, f"as ordered; waits for the serial numbers of {comparison.coming} more",
                again_s=2.0, keep=keep)
        del self._fine[machine.name]
        if comparison.troubles:
            return Observation(
                StepState.TROUBLE, comparison.troubles[0].what, troubles=comparison.troubles, keep=keep)
        return Observation(StepState.SO, model, keep=keep)

    def _logged(
        self, controller: Controller, powered: bool, unreported: list[str], unread: list[str],
    ) -> Iterator[Trouble]:
        """What log and sensors call critical; voltages and fans of a machine that is off do not count."""
        found = _idle_answer(lambda: controller.log(self._policy.parts.log_days), "event log", unreported)
        log = found.log if found is not None else None
        if found is not None and found.missing:
            unread.append(f"event log, in part: {found.missing}")
        if log is not None and isinstance(reading(log, "events"), tuple):
            yield from _troubles(
                bmc_sel_critical, bmc_sel_critical(log, days=self._policy.parts.log_days), Owner.VENDOR)
            yield from _troubles(bmc_power_supply, bmc_power_supply(log), Owner.DATACENTRE)
        elif log is not None:
            unreported.append("event log")
        if not powered:
            unreported.append("sensors: it is off")
            return
        sensors = _idle_answer(controller.sensors, "sensors", unreported)
        if sensors is not None and isinstance(reading(sensors, "sensors"), tuple):
            yield from _troubles(bmc_sensors, bmc_sensors(sensors), Owner.DATACENTRE)
            yield from _troubles(bmc_fan, bmc_fan(sensors), Owner.DATACENTRE)
        elif sensors is not None:
            unreported.append("sensors")


def _idle_answer(ask: Callable[[], _T], what: str, unreported: list[str]) -> _T | None:
    try:
        return ask()
    except BmcError as error:
        if error.wrong is not BmcErrorReason.UNSUPPORTED:
            raise
        unreported.append(f"{what}: its controller has none")
        return None


def _troubles(
    check: Callable[..., Iterator[Finding | Note]], found: Iterator[Finding | Note], owner: Owner,
) -> Iterator[Trouble]:
    for finding in found:
        if isinstance(finding, Finding):
            yield Trouble(clean(f"{finding.subject}: {finding.observed}", 200), finding.owner or owner,
                          finding.remedy or _ADVICE[check], _PARTS[check],
                          clean(finding.subject, 60) if check is bmc_fan else "")
