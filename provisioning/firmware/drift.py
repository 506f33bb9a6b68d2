"""Compares what a machine's components run with what the policy wants of it, and folds the result over the
fleet. What was never read, or cannot be compared, is unknown and never as wanted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from healthcheck.model.firmware import BMC, IN_BAND, SWEEP, ComponentVersion, MachineFirmware
from healthcheck.model.outcome import Owner
from provisioning.bringup.policy.model import BringupPolicy, DesiredFirmware, FirmwarePayload, UpdateRoute
from provisioning.bringup.steps.versions import OWN, as_desired, is_for


class Drift(Enum):
    """How a component is against what is wanted of it; the value is for people."""

    DRIFT = "drift"
    UNKNOWN = "unknown"
    AS_WANTED = "as wanted"
    NOT_WANTED = "nothing wanted"       # of a machine of which the policy wants no version


_WORST = (Drift.DRIFT, Drift.UNKNOWN, Drift.AS_WANTED)
_SKU, _MAKER = "SKU", "maker"


@dataclass(frozen=True)
class FleetMachine:
    """One machine as it is judged: its SKU, None where that is not known, and what is known of its firmware.
    What was read before `since` (epoch seconds) was read of another machine of this name, and what was read
    before `fresh` is too old to say how it is now."""

    node: str
    sku: str | None
    known: MachineFirmware
    since: float = 0.0
    fresh: float = 0.0


@dataclass(frozen=True)
class JudgedComponent:
    """One component, or the lack of it, against one entry of the policy. `name` is empty where no component
    was reported; `read` is when its version was read (epoch seconds), None where it never was."""

    entry: str
    name: str
    state: Drift
    version: str | None = None
    why: str = ""
    read: float | None = None
    source: str = ""


@dataclass(frozen=True)
class JudgedMachine:
    """One machine: its worst component is its state."""

    machine: FleetMachine
    components: tuple[JudgedComponent, ...]

    @property
    def state(self) -> Drift:
        """NOT_WANTED where there is nothing to compare."""
        states = {one.state for one in self.components}
        return next((state for state in _WORST if state in states), Drift.NOT_WANTED)


@dataclass(frozen=True)
class DriftGroup:
    """Machines whose components are equal against one entry: their names for them, and when the oldest and
    the newest of these versions were read, None where none was."""

    entry: str
    state: Drift
    version: str | None
    why: str
    nodes: tuple[str, ...]
    names: tuple[str, ...]
    oldest: float | None
    newest: float | None
    sources: tuple[str, ...]


@dataclass(frozen=True)
class WantedFirmware:
    """An entry of the policy as a report shows it."""

    id: str
    component: str
    at_least: str | None
    exactly: str | None
    vendor: str
    skus: tuple[str, ...]
    owner: Owner
    payload: FirmwarePayload | None
    by: UpdateRoute = UpdateRoute.REDFISH


def wanted(entries: Iterable[DesiredFirmware]) -> tuple[WantedFirmware, ...]:
    """The entries of a policy."""
    return tuple(WantedFirmware(one.id, one.component, one.at_least, one.exactly, one.of.vendor, one.of.skus,
                                one.owner, one.payload, one.by) for one in entries)


def judged(machine: FleetMachine, policy: BringupPolicy) -> JudgedMachine:
    """One machine against all entries that are for it, or may be where its SKU or maker is not known."""
    known = _of_this_machine(machine)
    found: list[JudgedComponent] = []
    for entry in policy.firmware:
        if lacking := _undecided(entry, machine.sku, known.maker):
            found.append(JudgedComponent(entry.id, "", Drift.UNKNOWN, why=f"its {lacking} is not known, and "
                                         "this version is wanted by it"))
        elif entry.of.has(known.maker, machine.sku):
            found += _components(entry, known, machine.fresh)
    return JudgedMachine(machine, tuple(found))


def groups(machines: Iterable[JudgedMachine]) -> tuple[DriftGroup, ...]:
    """Equal components together, by entry in the policy's order, drift before unknown before as wanted, which
    is one group of an entry, whatever the versions. A machine may be in several."""
    order: dict[str, int] = {}
    members: dict[tuple[str, Drift, str | None, str], list[tuple[str, JudgedComponent]]] = defaultdict(list)
    for machine in machines:
        for one in machine.components:
            order.setdefault(one.entry, len(order))
            fits = one.state is Drift.AS_WANTED
            members[one.entry, one.state, None if fits else one.version, one.why].append(
                (machine.machine.node, one))
    keys = sorted(members, key=lambda key: (order[key[0]], _WORST.index(key[1]), key[2] or "", key[3]))
    return tuple(_group(key, members[key]) for key in keys)


def _group(
    key: tuple[str, Drift, str | None, str], members: list[tuple[str, JudgedComponent]],
) -> DriftGroup:
    entry, state, version, why = key
    times = [one.read for _, one in members if one.read is not None]
    return DriftGroup(
        entry, state, version, why, tuple(dict.fromkeys(node for node, _ in members)),
        tuple(sorted({one.name for _, one in members if one.name})), min(times, default=None),
        max(times, default=None), tuple(sorted({one.source for _, one in members if one.source})))


def _undecided(entry: DesiredFirmware, sku: str | None, maker: str) -> str:
    """What has to be known before it can be said whether the entry is for this machine; "" for nothing."""
    if sku is None and entry.of.skus:
        return _SKU
    if not maker and entry.of.vendor != "*" and (not entry.of.skus or sku in entry.of.skus):
        return _MAKER
    return ""


def _of_this_machine(machine: FleetMachine) -> MachineFirmware:
    known, since = machine.known, machine.since
    if not any(time < since for time in known.looked.values()) and not any(
            one.time < since for one in known.versions):
        return known
    looked = {source: time for source, time in known.looked.items() if time >= since}
    return MachineFirmware(known.maker if looked else "", tuple(one for one in known.versions
                                                                if one.time >= since), looked,
                           {key: time for key, time in known.whole.items() if time >= since})


def _components(
    entry: DesiredFirmware, known: MachineFirmware, fresh: float,
) -> Iterator[JudgedComponent]:
    reported = _reported(entry, known)
    if not reported:
        yield JudgedComponent(entry.id, "", Drift.UNKNOWN, why=_never(entry, known.looked))
    for one in reported:
        yield _one(entry, one, fresh)
    kind = entry.component
    if (kind in IN_BAND and kind not in OWN and any(one.source == SWEEP for one in reported)
            and (SWEEP, kind) not in known.whole):
        yield JudgedComponent(entry.id, "", Drift.UNKNOWN, why="no sweep has seen all of them")


def _reported(entry: DesiredFirmware, known: MachineFirmware) -> list[ComponentVersion]:
    """The versions that count. Of BIOS and BMC that is the newest that could be read. What a controller
    reported of parts that a later sweep has seen all of is past. Sweeps and tools use the same names, and
    the newest reading counts; a glob is over the names of whoever brings the version."""
    names_by = BMC if entry.by is UpdateRoute.REDFISH else entry.by.value
    mine = _newest([one for one in known.versions if is_for(entry, one.name, one.kind)
                    and (one.source == names_by or one.kind == entry.component)])
    if entry.component in OWN:
        readable = [one for one in mine if one.version is not None]
        return [max(readable or mine, key=lambda one: one.time)] if mine else []
    seen = known.whole.get((SWEEP, entry.component))
    swept = any(one.source == SWEEP for one in mine)
    return [one for one in mine if seen is None or not swept or one.source == SWEEP or one.time > seen]


def _newest(found: Iterable[ComponentVersion]) -> list[ComponentVersion]:
    """Of those of one name that are not of controllers, the newest that could be read."""
    kept: dict[tuple[bool, str], ComponentVersion] = {}
    for one in found:
        key = one.source == BMC, one.name
        other = kept.get(key)
        if other is None or (one.version is not None, one.time) > (other.version is not None, other.time):
            kept[key] = one
    return list(kept.values())


def _never(entry: DesiredFirmware, looked: Mapping[str, float]) -> str:
    if entry.by is not UpdateRoute.REDFISH and entry.component not in IN_BAND:
        return (f"its {entry.by.value} tells of no such component" if entry.by.value in looked
                else f"its {entry.by.value} was never asked")
    if not looked:
        return "never read"
    if entry.component in IN_BAND:
        return "neither a sweep nor its BMC has reported one" if BMC in looked else (
            "no sweep has reported one, and its BMC was never read")
    return "its BMC tells of no such component" if BMC in looked else "its BMC was never read"


def _one(entry: DesiredFirmware, one: ComponentVersion, fresh: float) -> JudgedComponent:
    if one.version is None:
        return JudgedComponent(entry.id, one.name, Drift.UNKNOWN, None, f"not read: {one.why}", None,
                               one.source)
    if one.time < fresh:
        return JudgedComponent(entry.id, one.name, Drift.UNKNOWN, one.version, "read too long ago", one.time,
                               one.source)
    fits = as_desired(entry, one.version)
    state = Drift.UNKNOWN if fits is None else Drift.AS_WANTED if fits else Drift.DRIFT
    # What else there is to say of one that is read: that another one waits for a restart.
    why = "cannot be compared with what is wanted" if fits is None else one.why
    return JudgedComponent(entry.id, one.name, state, one.version, why, one.time, one.source)
