"""What is next in a machine's update, by what was done to it and what a look at it shows. Only a look ends an
update; what may have been sent is never sent again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from healthcheck.store.firmwaresteps import FirmwareStep
from provisioning.bmc.base import ChangeEnd, EarlierChange, PowerState
from provisioning.bringup.policy.model import PowerTimes

SEND, OFF, ON = "send", "off", "on"


class Next(Enum):
    """What to do now."""

    DONE = "done"
    SEND = "send"
    OFF = "off"
    ON = "on"
    RESTART = "restart"     # by the machine itself, where no controller is asked
    WAIT = "wait"
    FAILED = "failed"


@dataclass(frozen=True)
class UpdateReading:
    """What a controller shows: whether all components of the entry are as wanted, whether one certainly is
    not, their versions in words, the machine's power, and what became of changes that earlier calls left."""

    fits: bool
    drifts: bool
    versions: str
    power: PowerState
    changes: tuple[EarlierChange, ...] = ()


@dataclass(frozen=True)
class UpdateTimes:
    """For how long a task may run, and a controller that takes new firmware of its own be away; seconds."""

    task_s: float
    bmc_s: float
    power: PowerTimes


@dataclass(frozen=True)
class UpdateDecision:
    """What is next, what it is in words, and of a failure what a person does."""

    next: Next
    message: str
    hand: str = ""


_LOOK = ("look at its BMC's tasks and log; when nothing is under way, begin anew: "
         "muster firmware update {node} --again --apply")
_CUT_OFF = ("if its BMC's log shows no update since then, the image never arrived: send it with muster "
            "firmware update {node} --again --apply; if it shows one, wait for its end, then type the same "
            "again")


def decide(
    reading: UpdateReading, steps: Sequence[FirmwareStep], node: str, times: UpdateTimes, now: float, *,
    own: bool, left_off: bool = False,
) -> UpdateDecision:
    """The next thing for one machine and version. `own`: the controller's firmware, which takes no reset.
    `left_off`: an update turned the machine off and not on again."""
    send, off, on = (last_step(steps, name) for name in (SEND, OFF, ON))
    running = next((one for one in reading.changes if one.end is ChangeEnd.RUNNING), None)
    if running is not None:
        if send is not None and now > made_at(send, now) + times.task_s:
            return _failed(f"its task is still running: {running.message}", node)
        return UpdateDecision(Next.WAIT, f"{running.what}: {running.message}")
    if reading.fits:
        if reading.power is PowerState.OFF and (left_off or on is not None or off is not None):
            return _on(on, node, times, now, "on again")
        if left_off and off is not None and now <= made_at(off, now) + times.power.off_s:
            return UpdateDecision(Next.WAIT, "turns off")       # and then on: it shows what waits for that
        return UpdateDecision(Next.DONE, f"as wanted: {reading.versions}")
    if send is None and not reading.drifts:
        return _failed(f"whether it needs it is not known: {reading.versions or 'no such component'}", node)
    if send is None:
        return UpdateDecision(Next.SEND, f"runs {reading.versions}")
    if send.done is False:
        return _failed(f"it did not take it: {send.message}", node)
    if send.done is None:
        return _unknown(reading, send, node)
    if own:
        if now > made_at(send, now) + times.bmc_s:
            return _failed(f"it took it, and still runs {reading.versions}", node)
        return UpdateDecision(Next.WAIT, "takes its new firmware")
    return _reset(reading, off, on, node, times, now)


def _unknown(reading: UpdateReading, send: FirmwareStep, node: str) -> UpdateDecision:
    """A run that was cut off as it sent may have sent all of it; a person sees whether anything arrived."""
    if send.ended is not None or send.message:
        why = f": {send.message}" if send.message else ""
        return _failed(f"it is not known whether it took it{why}", node)
    return UpdateDecision(
        Next.FAILED, "it is not known whether it took it: the run was cut off as it sent; its BMC tells of "
        f"no task, and still runs {reading.versions}", _CUT_OFF.format(node=node))


def _reset(
    reading: UpdateReading, off: FirmwareStep | None, on: FirmwareStep | None, node: str, times: UpdateTimes,
    now: float,
) -> UpdateDecision:
    """Off and on again, each asked for once but for `on`, which is repeated where a run was cut off in it."""
    is_off = reading.power is PowerState.OFF
    if on is None:
        if is_off:
            return UpdateDecision(Next.ON, "boots with new firmware")
        if off is None:
            return UpdateDecision(Next.OFF, "a reset, so that the new firmware becomes current")
        if off.done is False:
            return _failed(f"it will not turn off: {off.message}", node)
        if now > made_at(off, now) + times.power.off_s:
            return _failed("it was asked to turn off, and has not", node)
        return UpdateDecision(Next.WAIT, "turns off")
    if is_off:
        return _on(on, node, times, now, "boots with new firmware")
    if now > made_at(on, now) + times.power.bios_s:
        return _failed(f"it was reset, and still runs {reading.versions}", node)
    return UpdateDecision(Next.WAIT, "boots with new firmware")


def _on(on: FirmwareStep | None, node: str, times: UpdateTimes, now: float, message: str) -> UpdateDecision:
    """A machine that is off is turned on, once; its controller may show that some seconds later."""
    if on is None or on.ended is None:
        return UpdateDecision(Next.ON, message)
    if on.done is False:
        return _failed(f"it will not turn on: {on.message}", node)
    if now > made_at(on, now) + times.power.on_s:
        return _failed("it was asked to turn on, and has not", node)
    return UpdateDecision(Next.WAIT, message)


def ended_by(changes: Sequence[EarlierChange], what: str, since: float) -> tuple[bool, str] | None:
    """What a send of unknown end came to, by the controller's changes: whether it was taken, and what was
    said; None where they do not tell. Older than `since`, its beginning, is another one."""
    for one in changes:
        if one.began < since:
            continue
        if one.what == what and one.end in (ChangeEnd.DONE, ChangeEnd.RESET):
            return True, one.message
        if one.what == what and one.end is ChangeEnd.FAILED:
            return False, one.message
    return None


def last_step(steps: Sequence[FirmwareStep], name: str) -> FirmwareStep | None:
    """The newest step of this name."""
    return next((one for one in reversed(steps) if one.step == name), None)


def made_at(step: FirmwareStep, now: float) -> float:
    """When it was made, and not later than now: a clock may have been ahead."""
    return min(now, step.ended or step.began)


def _failed(message: str, node: str) -> UpdateDecision:
    return UpdateDecision(Next.FAILED, message, _LOOK.format(node=node))
