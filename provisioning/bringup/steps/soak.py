"""Step soak: a machine is restarted as often as the policy says, and comes back each time as it was.

Each restart is an operation of its own, kept in the store before it is made, and shows in the id of the boot:
so a killed run goes on where it was, and no restart is made twice. What each boot showed is kept in the state
folder; a machine is judged when all are made, and one that does not come back is trouble at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

from healthcheck.model.outcome import Status
from healthcheck.model.trouble import Trouble
from inventory.model import Node
from inventory.text import clean
from provisioning.bmc.base import Controller, PowerAction
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
from provisioning.bringup.policy.model import DesiredSoak, PowerTimes
from provisioning.bringup.steps.bmcstep import Controllers, OfBmc, place, trouble, try_of
from provisioning.bringup.steps.power import off, on
from provisioning.bringup.steps.soakboots import Boots, BootTimes
from provisioning.console.view import last_lines
from provisioning.soak import boottimes, record
from provisioning.soak.baseline import uncompared, unfit
from provisioning.soak.compare import differences
from provisioning.soak.record import BEFORE, BootRecord, SoakRecord
from provisioning.soak.send import BootReading

_AGAIN_S = 5.0
_SETTLE_S = 120.0           # in which a machine that restarts is gone, mostly
_WATCHED_S = 45.0           # a first answer is dated where the look before it is not older
_REBOOT = "reboot:"
_REFUSED = "it was not restarted: "
_MOST = 300
_MOST_TROUBLES = 40


class Soak(OfBmc):
    """Looks at the boot that the machine is in, has it restarted, and holds its boots against each other."""

    def __init__(
        self, step: BringupStep, folder: Path, boots: Boots, controllers: Controllers, desired: DesiredSoak,
        power: PowerTimes, sku: Callable[[Node], str | None], *, clock: Callable[[], float] = time.time,
    ) -> None:
        """`folder` is the state folder, `sku` what a machine is to be."""
        super().__init__(step, controllers)
        self._folder, self._boots, self._desired, self._power = folder, boots, desired, power
        self._sku, self._clock = sku, clock
        self._away: dict[str, float] = {}      # when a machine was last seen not to be in its coming boot

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        """See `Executor.make`."""
        if not operation.key.startswith(_REBOOT):
            return super().make(machine, operation)
        kept = self._record(machine)
        if not kept.boots or operation.key != f"{_REBOOT}{_name(len(kept.boots))}":
            return OperationResult(False, "its record does not ask for it any more")
        done, said = self._boots.restart(machine.node, kept.boots[-1].boot)
        begins = _REFUSED if done is False and not said.startswith(tuple(_STAGES)) else ""
        return OperationResult(done, clean(f"{begins}{said}", _MOST))

    def _make(self, controller: Controller, machine: Machine, operation: Operation) -> str:
        return controller.set_power(PowerAction.OFF if operation.key.startswith("off:") else PowerAction.ON)

    def _observe(self, machine: Machine, controller: Controller) -> Observation:
        raise AssertionError("it is observed by its boots")

    def _observed(self, machine: Machine) -> Observation:
        kept = self._record(machine)
        number = len(kept.boots)
        if self._ahead(machine, number):
            return trouble("the record of its restarts is gone, so what they showed is not known",
                           self.step.owner, f"to begin them anew: muster bringup retry {machine.name}")
        if number == len(kept.kinds) + 1:
            return self._ended(machine, kept)
        reading, now = self._boots.look(machine.node), self._clock()
        if not kept.boots:
            return self._taken(machine, kept, reading, now) if reading.boot else Observation(
                StepState.UNKNOWN, f"not looked at before it is restarted: {reading.message}", again_s=15.0)
        if reading.boot and reading.boot != kept.boots[-1].boot:
            if self._began(machine, number) is None:
                return trouble("it restarted, and muster had not asked it to", self.step.owner,
                               "find out who or what restarted it (its BMC's log, muster bmc console "
                               f"{machine.name}), then: muster bringup retry {machine.name}", "node")
            return self._taken(machine, kept, reading, now)
        if not reading.boot and self._began(machine, number) is None:
            # It may be restarting by itself, which a restart of ours would hide.
            return Observation(StepState.UNKNOWN, again_s=_AGAIN_S, message=clean(
                f"not reached, and restart {number} is not begun: {reading.message}", _MOST))
        self._away[machine.name] = now
        if kept.kinds[number - 1] == "warm":
            return self._warm(machine, number, reading)
        return self._asked(machine, lambda known, controller: self._cold(known, controller, number, reading))

    # One restart.

    def _cold(
        self, machine: Machine, controller: Controller, number: int, reading: BootReading,
    ) -> Observation:
        name, state = _name(number), controller.power()
        down, up = machine.did(f"off:{name}"), machine.did(f"on:{name}")
        why = f"restart {number} of {len(self._desired.kinds)}, cold"
        if up is not None:
            seen = on(machine, state, name, why, self._power)
            if seen is None and reading.boot and up.done:
                return trouble("its controller turned the power off and on, and it is in the same boot",
                               self.step.owner, "see whether that controller is another machine's (bmc: of "
                               f"{machine.name}), then: muster bringup retry {machine.name}", "node")
            return seen or self._comes(machine, number, up, reading)
        if state is not State.OFF:
            seen = off(machine, state, name, why, self._power)
            assert seen is not None  # noqa: S101  (it is not off)
            return seen
        if down is None:
            return trouble("it is off, and muster had not turned it off", self.step.owner,
                           f"find out who did, then: muster bringup retry {machine.name}", "node")
        left = (down.ended or down.began) + self._desired.off_s - self._clock()
        if left > 0:
            return Observation(StepState.WAIT, f"off, {why}", again_s=min(_AGAIN_S, left))
        seen = on(machine, state, name, why, self._power)
        assert seen is not None  # noqa: S101  (it is off)
        return seen

    def _warm(self, machine: Machine, number: int, reading: BootReading) -> Observation:
        key = f"{_REBOOT}{_name(number)}"
        past = machine.did(key)
        sent = past is not None and past.done is not False
        change = f"restart {number} of {len(self._desired.kinds)}, warm: by its operating system"
        operation = Operation("restart", key, (change,), StepEffect.DISRUPTIVE, once=True,
                              settle_s=_SETTLE_S)
        if past is not None and sent and not (past.done is None and reading.boot):
            return self._comes(machine, number, past, reading)
        if past is not None and past.done is False and past.message.startswith(_REFUSED):
            return trouble(clean(past.message, _MOST), self.step.owner,
                           f"repair that, then: muster bringup retry {machine.name}", "node")
        return Observation(StepState.NOT_SO, change, operation=operation, again_s=_AGAIN_S)

    def _comes(self, machine: Machine, number: int, past: PastOperation, reading: BootReading) -> Observation:
        """A restart was accepted, and the boot is not there yet."""
        since = past.ended or past.began
        kind = self._desired.kinds[number - 1]
        if self._clock() < since + self._desired.boot_s:
            said = "has not gone down yet" if reading.boot else f"not back yet: {reading.message}"
            return Observation(StepState.WAIT, clean(f"restart {number} ({kind}): {said}", _MOST),
                               again_s=_AGAIN_S)
        how = ("it was accepted, and it is still in the boot before" if reading.boot
               else f"it did not come back: {reading.message}")
        wrote = last_lines(self._folder, machine.name, since)
        console = f"; its console ends: {wrote}" if wrote else "; nothing of its console was captured"
        what = clean(f"restart {number} ({kind}): {self._desired.boot_s:g} s later {how}{console}", 400)
        return Observation(StepState.TROUBLE, what, troubles=(
            Trouble(what, self.step.owner, f"{place(machine)}: see its console (muster bmc console "
                    f"{machine.name}) and its BMC's log (muster bmc log {machine.name}); then: muster "
                    f"bringup retry {machine.name}", "node"),))

    # One boot.

    def _taken(self, machine: Machine, kept: SoakRecord, reading: BootReading, now: float) -> Observation:
        """It is in the boot that is to be recorded next."""
        number = len(kept.boots)
        kind = kept.kinds[number - 1] if number else BEFORE
        if kept.coming is None or kept.coming[0] != reading.boot:
            away = self._away.pop(machine.name, None)
            answered = now if number and away is not None and now - away <= _WATCHED_S else None
            kept = replace(kept, coming=(reading.boot, answered))
            record.write(self._folder, kept)
        if reading.uptime < self._desired.settle_s:
            return Observation(StepState.WAIT, f"boot {number} is up for {reading.uptime:.0f} s",
                               again_s=min(_AGAIN_S, self._desired.settle_s - reading.uptime + 0.1))
        past = self._began(machine, number)
        answered = kept.coming[1] if kept.coming is not None else None
        found = self._boots.judged(machine, reading, BootTimes(
            kind, (past.ended or past.began) if past is not None else None, now - reading.uptime, answered))
        if found.record is None:
            return Observation(StepState.UNKNOWN, clean(f"boot {number}: {found.message}", _MOST),
                               again_s=15.0)
        if not number and (wrong := self._unfit(machine, kept, found.record)):
            return wrong
        if waits := self._waits(kept, found.record, reading):
            return Observation(StepState.WAIT, waits, again_s=15.0)
        kept = replace(kept, boots=(*kept.boots, found.record), coming=None)
        record.write(self._folder, kept)
        return Observation(StepState.WAIT, f"boot {number} of {len(kept.kinds)} is recorded", again_s=0.05)

    def _unfit(self, machine: Machine, kept: SoakRecord, first: BootRecord) -> Observation | None:
        """Why no restart is made; None where the boot before is fit to compare with."""
        again = f"then: muster bringup retry {machine.name}"
        hand = (f"{place(machine)}: repair it; if it is to be so from now on, remove "
                f"{record.path_of(self._folder, machine.name)}")
        troubles = [replace(one, hand=clean(f"{one.hand}; {again}", 400))
                    for one in unfit(first, kept.earlier, hand)]
        return Observation(StepState.TROUBLE, f"not restarted: {len(troubles)} things are wrong already",
                           troubles=tuple(troubles[:_MOST_TROUBLES])) if troubles else None

    def _waits(self, kept: SoakRecord, boot: BootRecord, reading: BootReading) -> str:
        """What may yet be measured of it, such as by services that are about to start."""
        if not kept.boots or reading.uptime > self._desired.settle_s + self._desired.boot_s:
            return ""
        lost = sorted(rule for rule, one in boot.rules.items() if one[0] == Status.UNKNOWN.value
                      and rule in kept.boots[0].rules
                      and kept.boots[0].rules[rule][0] == Status.PASS.value)
        return clean(f"not measured yet: {', '.join(lost[:4])}", _MOST) if lost else ""

    def _ended(self, machine: Machine, kept: SoakRecord) -> Observation:
        cohort = tuple(record.others(self._folder, kept.node, kept.sku))
        again = f"then: muster bringup retry {machine.name}"
        troubles = [replace(one, hand=clean(f"{one.hand}; {again}", 400)) for one in chain(
            differences(kept, cohort, place(machine)),
            boottimes.slow(kept, cohort, self._desired.slow, self._desired.slow_s,
                           "see where it waits (muster bmc console, and its BMC's log)"))]
        made = f"{kept.kinds.count('cold')} cold and {kept.kinds.count('warm')} warm restarts"
        unseen = uncompared(kept.boots[0])
        left = f"; not compared, as not read before: {', '.join(unseen)}" if unseen else ""
        keep = {"soak": clean(f"{made}; {boottimes.words(kept)}{left}", _MOST)}
        if troubles:
            return Observation(StepState.TROUBLE, f"{len(troubles)} things came back differently from {made}",
                               troubles=tuple(troubles[:_MOST_TROUBLES]), keep=keep)
        so = f"came back the same from {made}; {boottimes.words(kept)}{left}"
        return Observation(StepState.SO, clean(so, _MOST), keep=keep)

    # What is known.

    def _record(self, machine: Machine) -> SoakRecord:
        """The boots of this try so far; a person who has it begun anew has all of them begun anew."""
        found = record.read(self._folder, machine.name)
        if found is not None and found.tried == try_of(machine) and found.kinds == self._desired.kinds:
            return found
        sku, earlier = self._sku(machine.node) or "", None
        if found is not None and found.sku == sku:
            earlier = found.boots[0] if found.boots else found.earlier
        return SoakRecord(machine.name, sku, try_of(machine), self._desired.kinds, earlier=earlier)

    def _ahead(self, machine: Machine, number: int) -> bool:
        """Whether restarts were made that the record does not have."""
        made = [one.key for one in machine.operations if one.done is not False]
        later = range(number + 1, len(self._desired.kinds) + 1)
        return any(key.endswith(_name(one)) for key in made for one in later) or (number == 0 and bool(made))

    def _began(self, machine: Machine, number: int) -> PastOperation | None:
        """The operation that began the boot of this number, as far as it came; None where there is none."""
        name = _name(number)
        for key in (f"on:{name}", f"off:{name}", f"{_REBOOT}{name}"):
            past = machine.did(key)
            if past is not None and past.done is not False:
                return past
        return None


_STAGES = ("resolve", "connect", "host key", "auth", "login", "become", "python", "turn")


def _name(number: int) -> str:
    return f"soak-{number}"

