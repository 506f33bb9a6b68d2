"""What is next in an update by a machine's own tool, by what was done to it and what a look at it shows. Only
a look ends an update; what may have been written is never written again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from healthcheck.store.firmwaresteps import FirmwareStep
from provisioning.firmware.decide import SEND, Next, UpdateDecision, last_step, made_at

RESTART = "restart"
SLACK_S = 3.0      # between the head's clock at an answer, and the machine's time since its start in it


@dataclass(frozen=True)
class BandReading:
    """What a tool shows: whether all components of the entry run what is wanted, whether one certainly does
    not, whether what is wanted is written and waits for a restart, their versions in words, and when the
    machine started (the head's epoch seconds). `lost` is why the tool reported nothing."""

    fits: bool
    drifts: bool
    waits: bool
    versions: str
    started: float
    lost: str = ""


@dataclass(frozen=True)
class BandTimes:
    """For how long a tool may write, and a machine take to come back; seconds."""

    write_s: float
    back_s: float


_AGAIN = ("look at the tool there ({tool}); when nothing is at work, begin anew: muster firmware update "
          "{node} --again --apply")
_CYCLE = ("turn it off and on, which some devices need: muster bmc power {node} off, then on; then type the "
          "same again")


def decide(
    reading: BandReading, steps: Sequence[FirmwareStep], node: str, tool: str, times: BandTimes, now: float,
    *, running: str = "",
) -> UpdateDecision:
    """The next thing for one machine and version; `running`: the tool is at work, and how it is known."""
    send, restart = (last_step(steps, name) for name in (SEND, RESTART))
    if running:
        if send is not None and now > send.began + times.write_s:
            return _failed(f"it is not at its end: {running}", _AGAIN, node, tool)
        return UpdateDecision(Next.WAIT, running)
    if restart is not None and restart.done is not False and reading.started <= restart.began - SLACK_S:
        if now > made_at(restart, now) + times.back_s:
            return _failed("it was asked to restart, and has not", _AGAIN, node, tool)
        return UpdateDecision(Next.WAIT, "restarts")
    if reading.fits:
        return UpdateDecision(Next.DONE, f"as wanted: {reading.versions}")
    if not reading.drifts and not reading.waits:
        if restart is not None and now <= reading.started + times.back_s:
            why = reading.lost or "does not tell its versions yet"
            return UpdateDecision(Next.WAIT, f"started, and {why}")
        why = reading.lost or reading.versions or "no such component"
        return UpdateDecision(Next.FAILED, f"whether it needs it is not known: {why}",
                              "mend that, then type the same again")
    if send is None and not reading.waits:
        return UpdateDecision(Next.SEND, f"runs {reading.versions}")
    if send is not None and not reading.waits:
        if send.done is False:
            return _failed(f"it did not take it: {send.message}", _AGAIN, node, tool)
        if send.done is None:
            why = f": {send.message}" if send.message else ""
            return _failed(f"it is not known whether it took it{why}", _AGAIN, node, tool)
    return _restart(reading, restart, node, tool)


def _restart(reading: BandReading, restart: FirmwareStep | None, node: str, tool: str) -> UpdateDecision:
    """Once; a machine that has restarted and still runs the old version is for a person."""
    if restart is None:
        return UpdateDecision(Next.RESTART, "a restart, so that the new firmware runs")
    if restart.done is False:
        return _failed(f"it does not restart: {restart.message}", _AGAIN, node, tool)
    return _failed(f"it was restarted, and still runs {reading.versions}", _CYCLE, node, tool)


def _failed(message: str, hand: str, node: str, tool: str) -> UpdateDecision:
    return UpdateDecision(Next.FAILED, message, hand.format(node=node, tool=tool))
