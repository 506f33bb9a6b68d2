"""Disables ports and enables them again: each is written down, asked once, and believed only when it was read
back. What was asked and is not read back is UNKNOWN, and stays so until somebody looks.

Whoever is killed leaves a row that says how far it came; `settle` finds out the rest. One process does this
at a time (`provisioning.lease.runlock`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from healthcheck.store import portdisables
from healthcheck.store.clock import in_future
from healthcheck.store.file import opened
from healthcheck.store.portdisables import DisabledPort, PortRecord, open_ports
from healthcheck.subnet.model import FabricDevice, FabricEnd, Subnet
from healthcheck.triage.policy import PortPolicy
from inventory.errors import MusterError
from provisioning.fabric.propose import PortProposal, links
from provisioning.fabric.route import PortAnswer, PortRoute, PortTarget

LOCK = "fabric.lock"
# A request that was on its way when its sender died has arrived by then, or never will.
LATE_S = 600.0
# As a port shows that is off: by its own physical state, or because the subnet manager was asked to leave its
# link out.
DISABLED, ISOLATED = "disabled", "isolated by the subnet manager"
_OFF = (DISABLED, ISOLATED)


@dataclass(frozen=True)
class PortOutcome:
    """What became of one port: `done` is None where that is not known."""

    place: str
    done: bool | None
    message: str


@dataclass(frozen=True)
class PortTools:
    """What it takes: the state folder, who asks, by which route, the policy, how a host's machine is held
    while its link goes (it gives way, or raises MusterError), and clocks. `again_s` is between `looks` at a
    port that does not show yet what it was asked for."""

    folder: Path
    who: str
    route: PortRoute
    policy: PortPolicy
    hold: Callable[[str], AbstractContextManager[object]]
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = field(default=time.sleep)
    again_s: float = 5.0
    looks: int = 3


def settle(tools: PortTools) -> list[PortOutcome]:
    """Writes down what became of every port of which that is not known, and which ports somebody else has
    enabled meanwhile; a line for each of which there is something to say. Raises MusterError."""
    with opened(tools.folder, make=True) as store:
        rows = open_ports(store)
        for row in rows:
            if row.asked is None:
                portdisables.not_done(store, row.id, "cut short before the fabric was asked", tools.clock())
    left = [row for row in rows if row.asked is not None and _same_means(row, tools.route)]
    outcomes = [PortOutcome(row.place, False, "not disabled: cut short before the fabric was asked")
            for row in rows if row.asked is None]
    outcomes += [PortOutcome(row.place, None, f"{row.stands}, by {row.route}: ask by the same means")
                 for row in rows if row.asked is not None and not _same_means(row, tools.route)
                 and (row.held is None or row.undo is not None)]
    if left:
        seen = tools.route.look()
        outcomes += [one for row in left if (one := _found_out(row, seen, tools)) is not None]
    return outcomes


def _same_means(row: DisabledPort, route: PortRoute) -> bool:
    return row.route.partition(" ")[0] == route.name.partition(" ")[0]


def _found_out(row: DisabledPort, seen: Sequence[Subnet], tools: PortTools) -> PortOutcome | None:
    shown = shown_as(seen, row.end)
    now = tools.clock()
    with opened(tools.folder, make=True) as store:
        if shown in _OFF:
            if row.held is None:
                portdisables.held(store, row.id, f"read back later: {shown}", now)
            return None if row.held is not None and row.undo is None else PortOutcome(
                row.place, True, "it is disabled, as was asked" if row.undo is None
                else "it is disabled still; muster fabric enable asks again")
        if shown is None:
            return PortOutcome(row.place, None, f"{row.stands}; the port is not seen now")
        if row.held is not None or row.undo is not None:
            message = ("enabled" if row.undo is not None else "somebody else enabled it") + f" ({shown})"
            portdisables.over(store, row.id, message, now)
            return PortOutcome(row.place, True, message)
        asked = row.asked or row.began
        if now - asked < LATE_S and not in_future(asked, now):
            return PortOutcome(row.place, None, f"{row.stands}, and it is not disabled ({shown}); whether "
                               "the request is still on its way is known in "
                               f"{(LATE_S - (now - asked)) / 60:.0f} min")
        portdisables.not_done(store, row.id, f"not disabled ({shown})", now)
        return PortOutcome(row.place, False, f"not disabled ({shown})")


def disable(proposal: PortProposal, subnet: Subnet, all_links: int, tools: PortTools) -> PortOutcome:
    """Disables one port, after its host is held if it is one's. StoreError; all else is in the outcome."""
    one = proposal.disable
    assert one.peer is not None and not one.refused  # noqa: S101  (only what may be is begun)
    with ExitStack() as stack:
        try:
            for host in one.hosts:
                stack.enter_context(tools.hold(host))
        except MusterError as error:
            return PortOutcome(proposal.place, False, f"not disabled: {error}")
        record = PortRecord(proposal.plane, one.end, proposal.place, one.peer, one.reason, one.lost,
                            tools.route.name)
        now = tools.clock()
        with opened(tools.folder, make=True) as store:
            number = portdisables.begin(store, record, tools.who, now, (
                tools.policy.most(all_links), now - tools.policy.hours * 3600))
        if isinstance(number, str):
            return PortOutcome(proposal.place, False, f"not disabled: {number}")
        with opened(tools.folder, make=True) as store:
            portdisables.asking(store, number, tools.clock())
        answer = _asked(PortTarget(proposal.plane, one.end, one.peer), subnet, tools, enable=False)
        if answer.done is False:
            with opened(tools.folder, make=True) as store:
                portdisables.not_done(store, number, answer.message, tools.clock())
            return PortOutcome(proposal.place, False, f"not disabled: {answer.message}")
        shown, after = _read_back(one.end, tools, lambda state: state in _OFF)
        if shown not in _OFF:
            return PortOutcome(proposal.place, None, "UNKNOWN: it was asked, and does not show as disabled "
                               f"({shown or 'the port is not seen'})"
                               f"{f': {answer.message}' if answer.message else ''}")
        gone = sorted(device.description or f"0x{device.guid}" for device in _gone(subnet, after))
        message = f"{shown}; {one.lost}" if not gone else (
            f"{shown}, and {', '.join(gone[:5])} {'is' if len(gone) == 1 else 'are'} no longer seen: "
            "muster fabric enable gives it back")
        with opened(tools.folder, make=True) as store:
            portdisables.held(store, number, message, tools.clock())
        return PortOutcome(proposal.place, None if gone else True, message)


def enable(row: DisabledPort, why: str, tools: PortTools) -> PortOutcome:
    """Enables a port that we disabled. Raises StoreError; whatever else fails is in the outcome."""
    if not _same_means(row, tools.route):
        return PortOutcome(row.place, False, f"not enabled: it was disabled by {row.route}, and has to be "
                           "enabled by the same means")
    try:
        seen = tools.route.look()
    except MusterError as error:
        return PortOutcome(row.place, None, f"no one could look: {error}")
    subnet = next((one for one in seen if one.port(row.end) is not None), None)
    if subnet is None:
        return PortOutcome(row.place, None, "the port is not seen, and nothing was asked")
    with opened(tools.folder, make=True) as store:
        portdisables.undoing(store, row, why, tools.who, tools.clock())
    answer = _asked(PortTarget(subnet.name, row.end, row.peer), subnet, tools, enable=True)
    if answer.done is False:
        with opened(tools.folder, make=True) as store:
            portdisables.not_undone(store, row, answer.message, tools.clock())
        return PortOutcome(row.place, False, f"not enabled: {answer.message}")
    shown, _ = _read_back(row.end, tools, lambda state: state not in (None, *_OFF))
    if shown is None or shown in _OFF:
        return PortOutcome(row.place, None, "UNKNOWN: it was asked, and does not show as enabled "
                           f"({shown or 'the port is not seen'})"
                           f"{f': {answer.message}' if answer.message else ''}")
    up = "" if shown == "linkup" else "; its link is not up yet"
    with opened(tools.folder, make=True) as store:
        portdisables.over(store, row.id, f"enabled ({shown})", tools.clock())
    return PortOutcome(row.place, True, f"enabled ({shown}){up}")


def shown_as(subnets: Sequence[Subnet], end: FabricEnd) -> str | None:
    """`ISOLATED`, or the physical state of a port; None where no subnet shows it."""
    if any(subnet.isolated(end) for subnet in subnets):
        return ISOLATED
    ports = (subnet.port(end) for subnet in subnets)
    return next((port.physical for port in ports if port is not None and port.physical is not None), None)


def room(folder: Path, policy: PortPolicy, subnets: Sequence[Subnet], now: float) -> int:
    """How many ports may be disabled now. Raises StoreError."""
    with opened(folder, make=True) as store:
        return max(0, policy.most(links(subnets))
                   - portdisables.used(store, now - policy.hours * 3600))


def _asked(target: PortTarget, subnet: Subnet, tools: PortTools, *, enable: bool) -> PortAnswer:
    try:
        return tools.route.set(target, enable=enable, seen=subnet)
    except MusterError as error:    # it may have been asked all the same
        return PortAnswer(None, str(error))


def _read_back(end: FabricEnd, tools: PortTools,
               wanted: Callable[[str | None], bool]) -> tuple[str | None, Sequence[Subnet]]:
    """How the port is shown as soon as that is as wanted, or at the last look; and that look."""
    shown: str | None = None
    seen: Sequence[Subnet] = ()
    for at in range(tools.looks):
        if at:
            tools.sleep(tools.again_s)
        try:
            seen = tools.route.look()
        except MusterError:
            continue
        shown = shown_as(seen, end)
        if wanted(shown):
            break
    return shown, seen


def _gone(before: Subnet, after: Sequence[Subnet]) -> list[FabricDevice]:
    there = {guid for subnet in after for guid in subnet.devices}
    return [device for guid, device in before.devices.items() if guid not in there]
