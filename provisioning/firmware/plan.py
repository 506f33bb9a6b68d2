"""Which updates are to be made, in which order and how many at once; and which are not, and why."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from inventory.model import Node, Speaks
from provisioning.bringup.engine.site import domain_of
from provisioning.bringup.policy.model import BringupPolicy, DesiredFirmware, UpdateRoute
from provisioning.firmware.drift import Drift, JudgedMachine
from provisioning.remediate.steps import rootless


@dataclass(frozen=True)
class MachineUpdate:
    """What one machine gets, in the order of the policy; `now` are the versions that drift, by entry."""

    node: Node
    entries: tuple[DesiredFirmware, ...]
    now: Mapping[str, str]

    @property
    def domain(self) -> str:
        """What fails together, as in a bring-up: machines of which nothing is known share one."""
        return domain_of(self.node)


@dataclass(frozen=True)
class UpdatePlan:
    """Waves of machines, each of which begins when the one before it has ended; the first is one machine, so
    that a bad payload costs one. `left` is by machine and entry why it is not updated."""

    waves: tuple[tuple[MachineUpdate, ...], ...]
    left: tuple[tuple[str, str, str], ...]


def planned(
    machines: Iterable[JudgedMachine], nodes: Mapping[str, Node], policy: BringupPolicy, component: str,
    left_off: Collection[tuple[str, str]] = (),
) -> UpdatePlan:
    """Machines that drift, by what the store knows of them, and those that an update `left_off` (machine and
    entry), whatever they run; at most so many at once, and of one domain, as step bios of bring-up."""
    updates: list[MachineUpdate] = []
    left: list[tuple[str, str, str]] = []
    for machine in machines:
        node, taken, now = nodes[machine.machine.node], [], {}
        for entry in policy.firmware:
            found = [one for one in machine.components if one.entry == entry.id]
            if not found or not fnmatchcase(entry.component.casefold(), component.casefold()):
                continue
            drifts = [one for one in found if one.state is Drift.DRIFT]
            is_off = (node.name, entry.id) in left_off
            if (drifts or is_off) and not (why := _why_not(node, entry)):
                taken.append(entry)
                now[entry.id] = ", ".join(sorted({f"{one.name} {one.version}" for one in drifts})[:4]
                                          or ["left off by an update"])
            elif drifts or is_off:
                left.append((node.name, entry.id, why))
            elif any(one.state is Drift.UNKNOWN for one in found):
                why = next(one.why for one in found if one.state is Drift.UNKNOWN)
                left.append((node.name, entry.id, f"its version is unknown: {why}"))
        if taken:
            updates.append(MachineUpdate(node, tuple(taken), now))
    step = policy.steps["bios"]
    return UpdatePlan(waves(updates, step.in_parallel, step.domain_at_once), tuple(left))


def _why_not(node: Node, entry: DesiredFirmware) -> str:
    if entry.payload is None:
        return "no `payload:` says by which file"
    if entry.by is not UpdateRoute.REDFISH:
        return rootless(node)
    if node.bmc is None:
        return "the inventory names no controller for it (`bmc:`)"
    if node.bmc.speaks is Speaks.IPMI:
        return "its controller is asked over IPMI, which takes no firmware"
    return ""


def waves(
    updates: Sequence[MachineUpdate], at_once: int, domain_at_once: int | None,
) -> tuple[tuple[MachineUpdate, ...], ...]:
    """One machine, then as many as may be at once, of each domain no more than may be of one."""
    found: list[tuple[MachineUpdate, ...]] = [(updates[0],)] if updates else []
    queue = deque(updates[1:])
    while queue:
        wave: list[MachineUpdate] = []
        waiting: deque[MachineUpdate] = deque()
        of: Counter[str] = Counter()
        while queue:
            one = queue.popleft()
            full = domain_at_once is not None and of[one.domain] >= domain_at_once
            if len(wave) >= at_once or full:
                waiting.append(one)
            else:
                wave.append(one)
                of[one.domain] += 1
        found.append(tuple(wave))
        queue = waiting
    return tuple(found)
