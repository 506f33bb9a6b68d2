"""Makes the updates of a plan: a machine at a time is looked at, a step is written down, made, and looked at
again, until a look shows what is wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from healthcheck.model.firmware import BMC, MachineFirmware
from healthcheck.store.file import opened
from healthcheck.store.firmware import merged, write_controller
from healthcheck.store.firmwaresteps import begin_step, end_step, left_off
from inventory.errors import MusterError
from inventory.model import Node
from inventory.text import clean
from provisioning.bmc.ask import Connect
from provisioning.bmc.base import BmcError, BmcErrorReason, Controller, FirmwareImage, PowerAction
from provisioning.bmc.redfish.update import WHAT
from provisioning.bringup.policy.model import BringupPolicy, DesiredFirmware, UpdateRoute
from provisioning.bringup.steps.versions import wanted_version
from provisioning.firmware.decide import (
    SEND,
    Next,
    UpdateDecision,
    UpdateReading,
    UpdateTimes,
    decide,
    ended_by,
)
from provisioning.firmware.drift import Drift, FleetMachine, judged
from provisioning.firmware.inband.update import BandTools, BandUpdate, band_entry
from provisioning.firmware.plan import MachineUpdate, UpdatePlan
from provisioning.firmware.read import look
from provisioning.firmware.steps import counting

# A controller that takes new firmware of its own is away for some minutes; others are slow or busy meanwhile.
_AWAY = frozenset({BmcErrorReason.UNREACHABLE, BmcErrorReason.TIMEOUT, BmcErrorReason.BUSY,
                   BmcErrorReason.BROKEN})
_MOST = 300


@dataclass(frozen=True)
class UpdateOutcome:
    """How an update ended: `said` in words; `hand` is what a person does next, or ""."""

    node: str
    entry: str
    done: bool
    message: str
    hand: str = ""


@dataclass(frozen=True)
class UpdateTools:
    """What updates need: how controllers are reached, whether a machine may be disturbed ("": it may), images
    by entry, clocks. `again_s` is between looks; `band` is for versions by the machine's tools."""

    folder: Path
    who: str
    reach: Connect
    forbidden: Callable[[Node], str]
    images: Mapping[str, FirmwareImage]
    times: UpdateTimes
    again_s: float = 10.0
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = field(default=time.sleep)
    band: BandTools | None = None


def run(plan: UpdatePlan, policy: BringupPolicy, tools: UpdateTools) -> Iterator[UpdateOutcome]:
    """Makes one wave after the other, and gives the outcomes of each when it has ended. Nothing new is begun
    where the first machine fails, or as many as stop a bring-up."""
    total = sum(map(len, plan.waves))
    failed = 0
    stopped = threading.Event()
    for at, wave in enumerate(plan.waves):
        if failed and (at == 1 or (failed >= policy.stop.least and failed >= policy.stop.share * total)):
            for left in plan.waves[at:]:
                for one in left:
                    yield UpdateOutcome(one.node.name, one.entries[0].id, False,
                                        "not begun: others failed before it",
                                        "mend those first, then type the same again")
            return
        with ThreadPoolExecutor(len(wave), thread_name_prefix="firmware") as pool:
            try:
                for outcomes in pool.map(lambda one: list(_machine(one, policy, tools, stopped)), wave):
                    failed += any(not one.done for one in outcomes)
                    yield from outcomes
            except BaseException:       # Ctrl-C: what is being asked is waited for, and nothing more is begun
                stopped.set()
                raise


def _machine(
    update: MachineUpdate, policy: BringupPolicy, tools: UpdateTools, stopped: threading.Event,
) -> Iterator[UpdateOutcome]:
    """The versions of one machine, one after the other; what comes after one that failed is left."""
    for entry in update.entries:
        made = _entry if entry.by is UpdateRoute.REDFISH else _by_tool
        outcome = made(update.node, entry, policy, tools, stopped)
        yield outcome
        if not outcome.done:
            return


def target_of(entry: DesiredFirmware) -> str:
    """What a machine is brought to: the version and the payload."""
    assert entry.payload is not None  # noqa: S101  (planned only with one)
    return f"{clean(wanted_version(entry), 60)} {entry.payload.sha256[:16]}"


def _by_tool(
    node: Node, entry: DesiredFirmware, policy: BringupPolicy, tools: UpdateTools, stopped: threading.Event,
) -> UpdateOutcome:
    image = tools.images[entry.id]
    # The loader asks for a file, and who makes the plan's updates for the tools.
    assert tools.band is not None and entry.payload is not None and image.data is not None  # noqa: S101
    wanted = BandUpdate(node, entry, target_of(entry), image.name, image.data, entry.payload.sha256)
    ended = band_entry(wanted, policy, tools.band, tools.forbidden, stopped)
    return UpdateOutcome(node.name, entry.id, ended.next is Next.DONE, clean(ended.message, _MOST),
                         ended.hand)


def _entry(
    node: Node, entry: DesiredFirmware, policy: BringupPolicy, tools: UpdateTools, stopped: threading.Event,
) -> UpdateOutcome:
    began = tools.clock()
    while not stopped.is_set():
        try:
            controller = tools.reach(node)
            try:
                decision = _once(node, entry, policy, tools, controller)
            finally:
                controller.close()
        except BmcError as error:
            away = tools.clock() - max(began, _newest(node, entry, tools))
            if error.wrong not in _AWAY or away > tools.times.bmc_s:
                return UpdateOutcome(node.name, entry.id, False, clean(f"its BMC: {error}", _MOST),
                                     f"muster bmc show {node.name}, then type the same again")
            decision = UpdateDecision(Next.WAIT, str(error))
        except MusterError as error:
            return UpdateOutcome(node.name, entry.id, False, clean(str(error), _MOST),
                                 "mend that, then type the same again")
        if decision.next in (Next.DONE, Next.FAILED):
            return UpdateOutcome(node.name, entry.id, decision.next is Next.DONE,
                                 clean(decision.message, _MOST), decision.hand)
        if decision.next is Next.WAIT and tools.clock() > began + _most_s(tools.times):
            return UpdateOutcome(node.name, entry.id, False,
                                 clean(f"no end of it: {decision.message}", _MOST),
                                 f"muster bmc show {node.name}, then type the same again")
        tools.sleep(tools.again_s if decision.next is Next.WAIT else 0.0)
    return UpdateOutcome(node.name, entry.id, False, "interrupted", "type the same again")


def _most_s(times: UpdateTimes) -> float:
    """Longer than all that is waited for together, each of which has an end of its own."""
    return times.task_s + times.bmc_s + times.power.off_s + times.power.on_s + times.power.bios_s


def _once(
    node: Node, entry: DesiredFirmware, policy: BringupPolicy, tools: UpdateTools, controller: Controller,
) -> UpdateDecision:
    """One look, and one step where one is due. Raises BmcError where there was no look, MusterError."""
    target = target_of(entry)
    changes = controller.earlier()
    with opened(tools.folder, make=True) as store:
        steps = counting(store, node.name, entry, target)
        sent = next((one for one in steps if one.step == SEND and one.done is None), None)
        if sent is not None and (ended := ended_by(changes, WHAT, sent.began)) is not None:
            # Before all else: a controller reports an end once.
            end_step(store, sent.id, *ended, tools.clock())
            steps = counting(store, node.name, entry, target)
        is_off = (node.name, entry.id) in left_off(store)
    seen = replace(_look(node, entry, policy, tools, controller), changes=changes)
    decision = decide(seen, steps, node.name, tools.times, tools.clock(), own=entry.component == "bmc",
                      left_off=is_off)
    if decision.next in (Next.SEND, Next.OFF, Next.ON):
        if decision.next is not Next.ON and (why := tools.forbidden(node)):
            return UpdateDecision(Next.FAILED, f"not touched: {why}", "mend that, then type the same again")
        _made(node, entry, target, decision, tools, controller)
    return decision


def _made(
    node: Node, entry: DesiredFirmware, target: str, decision: UpdateDecision, tools: UpdateTools,
    controller: Controller,
) -> None:
    """Writes the step down, makes it, and writes down what became of it."""
    name = decision.next.value
    with opened(tools.folder, make=True) as store:
        number = begin_step(store, tools.who, node.name, entry.id, target, name,
                            clean(decision.message, _MOST), tools.clock())
    done: bool | None = True
    try:
        said = _make(entry, decision.next, tools, controller)
    except BmcError as error:
        said, done = str(error), None if error.done is None else False
    with opened(tools.folder, make=True) as store:
        end_step(store, number, done, clean(said, _MOST), tools.clock())


def _make(entry: DesiredFirmware, wanted: Next, tools: UpdateTools, controller: Controller) -> str:
    if wanted is Next.SEND:
        return controller.update(tools.images[entry.id])
    return controller.set_power(PowerAction.OFF if wanted is Next.OFF else PowerAction.ON)


def _look(
    node: Node, entry: DesiredFirmware, policy: BringupPolicy, tools: UpdateTools, controller: Controller,
) -> UpdateReading:
    reported, power, now = look(controller), controller.power(), tools.clock()
    with opened(tools.folder, make=True) as store:
        write_controller(store, node.name, now, reported)
    alone = FleetMachine(node.name, node.sku or (entry.of.skus or (None,))[0],
                         merged(MachineFirmware(), BMC, now, reported))
    found = [one for one in judged(alone, policy).components if one.entry == entry.id]
    versions = ", ".join(sorted({f"{one.name} {one.version or '?'}" for one in found})[:4])
    return UpdateReading(bool(found) and all(one.state is Drift.AS_WANTED for one in found),
                      any(one.state is Drift.DRIFT for one in found), clean(versions, _MOST), power)


def _newest(node: Node, entry: DesiredFirmware, tools: UpdateTools) -> float:
    """When the newest step of it was made; 0 for never."""
    with opened(tools.folder, make=True) as store:
        steps = counting(store, node.name, entry, target_of(entry))
    return max((min(tools.clock(), one.ended or one.began) for one in steps), default=0.0)
