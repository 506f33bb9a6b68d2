"""A machine's power off and on, or on: operations done once that show in its state. There is no restart:
killed between off and on, the next look finds the machine off, and goes on from there."""

from __future__ import annotations

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from provisioning.bmc.base import Controller
from provisioning.bmc.base import PowerState as State
from provisioning.bringup.engine.model import Machine, Observation, Operation, StepEffect, StepState
from provisioning.bringup.policy.model import PowerTimes
from provisioning.bringup.steps.bmcstep import place, refused

_AGAIN_S = 5.0


def reset(
    machine: Machine, controller: Controller, what: str, why: str, times: PowerTimes,
) -> Observation | None:
    """What is to be done for this machine to be on by our own operation "on:`what`", and where it was on by
    "off:`what`" before; None when it is. `why` is for people."""
    state = controller.power()
    if machine.did(f"on:{what}") is None and (seen := off(machine, state, what, why, times)) is not None:
        return seen
    return on(machine, state, what, why, times)


def off(machine: Machine, state: State, what: str, why: str, times: PowerTimes) -> Observation | None:
    """What is to be done for it to be off; None when it is."""
    return None if state is State.OFF else _turned(machine, state, "off", what, why, times.off_s)


def on(machine: Machine, state: State, what: str, why: str, times: PowerTimes) -> Observation | None:
    """What is to be done for it to be on; None when it is."""
    return None if state is State.ON else _turned(machine, state, "on", what, why, times.on_s)


def _turned(machine: Machine, state: State, to: str, what: str, why: str, settle_s: float) -> Observation:
    past = machine.did(f"{to}:{what}")
    if past is not None and past.done:
        return _shown(machine, to, past.ended or past.began, settle_s)
    if state is State.CHANGING:
        return Observation(StepState.WAIT, "its power is changing", again_s=_AGAIN_S)
    if past is not None and past.done is False and refused(past.message):
        report = Trouble(
            f"its controller will not turn it {to}: {past.message}", Owner.OPERATOR,
            f"read the BMC's log, turn it {to} by hand, then: muster bringup retry {machine.name}", "node")
        return Observation(StepState.TROUBLE, report.what, troubles=(report,))
    change = f"power: {state.value} -> {to}, {why}"
    return Observation(StepState.NOT_SO, change, again_s=_AGAIN_S,
                       operation=Operation(f"power {to}", f"{to}:{what}", (change,), StepEffect.DISRUPTIVE,
                                           once=True, settle_s=settle_s))


def _shown(machine: Machine, to: str, since: float, settle_s: float) -> Observation:
    """A change that was accepted and does not show yet."""
    late = Trouble(
        f"it was asked to go {to}, which was accepted, and {settle_s:g} s later it has not", Owner.DATACENTRE,
        f"{place(machine)}: check its power supplies, their cords and their PDU, and press its power button; "
        f"then: muster bringup retry {machine.name}", "psu")
    if machine.now >= since + settle_s:
        return Observation(StepState.TROUBLE, late.what, troubles=(late,))
    return Observation(
        StepState.WAIT, f"goes {to}", troubles=(late,), again_s=min(_AGAIN_S, max(0.5, settle_s / 10)))
