"""Brings one machine to one version by its own tool: it is looked at, a step is written down, made, and
looked at again, until a look shows what is wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from healthcheck.model.firmware import MachineFirmware
from healthcheck.store.file import opened
from healthcheck.store.firmware import merged
from healthcheck.store.firmwaresteps import FirmwareStep, begin_step, end_step, void_step
from inventory.errors import MusterError
from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import Transport
from provisioning.bringup.policy.model import BringupPolicy, DesiredFirmware
from provisioning.bringup.steps.versions import as_desired
from provisioning.firmware.decide import SEND, Next, UpdateDecision
from provisioning.firmware.drift import Drift, FleetMachine, judged
from provisioning.firmware.inband.decide import RESTART, SLACK_S, BandReading, BandTimes, decide
from provisioning.firmware.inband.device import look_of
from provisioning.firmware.inband.read import keep
from provisioning.firmware.inband.send import ALL_OF_IT, BandOrder, BandPlace, install, look, settle
from provisioning.firmware.steps import counting
from provisioning.remediate.send import StepReport

_MOST = 300
_MOST_NAMED = 4


@dataclass(frozen=True)
class BandTools:
    """What updates by tools of the machines need: how nodes are reached, how one is held for a step, for how
    long, how one restarts under the name of its step (None: only what became of that), and clocks."""

    folder: Path
    who: str
    transport: Callable[[], Transport]
    held: Callable[[Node, float], AbstractContextManager[Transport]]
    restart: Callable[[Node, str, Transport], StepReport]
    restarted: Callable[[Node, str, Transport], StepReport]
    times: BandTimes
    again_s: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    place: BandPlace = ALL_OF_IT


@dataclass(frozen=True)
class BandUpdate:
    """One machine and one version: the target is `provisioning.firmware.update.target_of`'s, and `data` the
    payload, whose digest has been compared."""

    node: Node
    entry: DesiredFirmware
    target: str
    name: str
    data: bytes
    sha256: str


@dataclass(frozen=True)
class _Seen:
    """A look, and the addresses of the devices that drift."""

    look: BandReading
    addresses: tuple[str, ...]


def band_entry(
    wanted: BandUpdate, policy: BringupPolicy, tools: BandTools, forbidden: Callable[[Node], str],
    stopped: threading.Event,
) -> UpdateDecision:
    """Brings it there, and says how that ended: DONE or FAILED."""
    began = tools.clock()
    while not stopped.is_set():
        try:
            decision = _once(wanted, policy, tools, forbidden, began, stopped)
        except MusterError as error:
            return UpdateDecision(Next.FAILED, str(error), "mend that, then type the same again")
        if decision.next in (Next.DONE, Next.FAILED):
            return decision
        tools.sleep(tools.again_s if decision.next is Next.WAIT else 0.0)
    return UpdateDecision(Next.FAILED, "interrupted", "type the same again")


def _once(
    wanted: BandUpdate, policy: BringupPolicy, tools: BandTools, forbidden: Callable[[Node], str],
    began: float, stopped: threading.Event,
) -> UpdateDecision:
    """One look, and one step where one is due. Raises MusterError."""
    node, tool = wanted.node, wanted.entry.by
    running = _recovered(wanted, tools)
    seen = _look(wanted, policy, tools)
    steps = _steps(wanted, tools)
    if isinstance(seen, str):
        since = max([began, *(min(tools.clock(), one.ended or one.began) for one in steps)])
        if tools.clock() > since + tools.times.back_s:
            return UpdateDecision(Next.FAILED, f"it does not answer: {seen}",
                                  f"muster check {node.name}, then type the same again")
        return UpdateDecision(Next.WAIT, seen)
    decision = decide(seen.look, steps, node.name, tool.value, tools.times, tools.clock(), running=running)
    if decision.next in (Next.SEND, Next.RESTART):
        if why := forbidden(node):
            return UpdateDecision(Next.FAILED, f"not touched: {why}", "mend that, then type the same again")
        if ended := _made(wanted, decision, seen.addresses, tools, stopped):
            return ended
    return decision


def _steps(wanted: BandUpdate, tools: BandTools) -> tuple[FirmwareStep, ...]:
    with opened(tools.folder, make=True) as store:
        return counting(store, wanted.node.name, wanted.entry, wanted.target)


def _recovered(wanted: BandUpdate, tools: BandTools) -> str:
    """Asks the machine what became of steps whose end is not known, and writes it down; says so while a tool
    is at work. Nothing is decided before that."""
    for step in _steps(wanted, tools):
        if step.done is not None or step.step not in (SEND, RESTART):
            continue
        if step.step == SEND:
            found = settle(wanted.node, _key(step), tools.transport(), tools.place)
            if found.running:
                return f"{wanted.entry.by.value}: {found.message}"
            never, done, message = found.never, found.done, found.message
        else:
            asked = tools.restarted(wanted.node, _key(step), tools.transport())
            never, done, message = asked.ok is False and not asked.touched, asked.ok, asked.message
            if never:
                # Its note of a restart does not outlive one, so that it may have been made all the same.
                started = _started(wanted, tools)
                if started is None:
                    continue
                if started > step.began - SLACK_S:
                    never, done, message = False, None, "it has started since"
        with opened(tools.folder, make=True) as store:
            if never:
                void_step(store, step.id, clean(message, _MOST), tools.clock())
            else:
                end_step(store, step.id, done, clean(message, _MOST), tools.clock())
    return ""


def _started(wanted: BandUpdate, tools: BandTools) -> float | None:
    """When the machine started (this head's epoch seconds); None where it does not answer."""
    (found,) = look([wanted.node], (), tools.transport(), 1, tools.place)
    return None if found.up is None else tools.clock() - found.up


def _back(wanted: BandUpdate, began: float, tools: BandTools, stopped: threading.Event) -> None:
    """Waits for the machine to have started since then: its old holder would run jobs while it goes down."""
    while not stopped.is_set() and tools.clock() < began + tools.times.back_s:
        started = _started(wanted, tools)
        if started is not None and started > began - SLACK_S:
            return
        tools.sleep(tools.again_s)


def _key(step: FirmwareStep) -> str:
    """A step's name on the machine. Its number alone is given again by a store that was put back."""
    return f"firmware-{step.id}-{int(step.began * 1000)}"


def _look(wanted: BandUpdate, policy: BringupPolicy, tools: BandTools) -> _Seen | str:
    """What the tool shows now, which is kept; or why the machine did not answer."""
    node, entry = wanted.node, wanted.entry
    (found,) = look([node], [entry.by], tools.transport(), 1, tools.place)
    now = tools.clock()
    if found.up is None:
        return found.failure
    with opened(tools.folder, make=True) as store:
        keep(store, found, now)
    seen, named = look_of(entry.by.value, found.devices.get(entry.by, ()))
    alone = FleetMachine(node.name, node.sku or (entry.of.skus or (None,))[0],
                         replace(merged(MachineFirmware(), entry.by.value, now, seen), maker=_maker(entry)))
    mine = [one for one in judged(alone, policy).components if one.entry == entry.id]
    drifting = [named[one.name] for one in mine if one.state is Drift.DRIFT]
    written = [one for one in drifting if one.written and as_desired(entry, one.written) is True]
    waits = bool(drifting) and written == drifting
    names = sorted({f"{one.name} {one.version or '?'}" for one in mine if one.name})
    versions = ", ".join(names[:_MOST_NAMED])
    return _Seen(BandReading(bool(mine) and all(one.state is Drift.AS_WANTED for one in mine), bool(drifting),
                          waits, clean(versions, _MOST), now - found.up, found.lost.get(entry.by, "")),
                 tuple(one.address for one in drifting if one not in written))


def _maker(entry: DesiredFirmware) -> str:
    """A maker that the entry is for: the plan has chosen machines by theirs, which tools do not tell."""
    return entry.of.vendor.replace("*", "") or "any"


def _made(
    wanted: BandUpdate, decision: UpdateDecision, addresses: tuple[str, ...], tools: BandTools,
    stopped: threading.Event,
) -> UpdateDecision | None:
    """Holds the machine, writes the step down, makes it, and writes down what became of it; one that restarts
    is held until it is back. An end of the update where it certainly was not begun. Raises MusterError."""
    node, times = wanted.node, tools.times
    with tools.held(node, times.write_s if decision.next is Next.SEND else times.back_s) as transport:
        with opened(tools.folder, make=True) as store:
            now = tools.clock()
            number = begin_step(store, tools.who, node.name, wanted.entry.id, wanted.target,
                                decision.next.value, clean(decision.message, _MOST), now)
        key = f"firmware-{number}-{int(now * 1000)}"
        if decision.next is Next.SEND:
            order = BandOrder(key, wanted.entry.by, addresses, wanted.name, wanted.data, wanted.sha256)
            found = install(node, order, transport, tools.times.write_s, tools.place)
            never, done, message = found.never, found.done, found.message
        else:
            asked = tools.restart(node, key, transport)
            never, done, message = asked.ok is False and not asked.touched, asked.ok, asked.message
        with opened(tools.folder, make=True) as store:
            if never:
                void_step(store, number, clean(message, _MOST), tools.clock())
            else:
                end_step(store, number, done, clean(message, _MOST), tools.clock())
        if decision.next is Next.RESTART and not never and done is not False:
            _back(wanted, now, tools, stopped)
    if never:
        return UpdateDecision(Next.FAILED, f"not begun: {message}", "mend that, then type the same again")
    return None
