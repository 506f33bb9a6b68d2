"""The drift of firmware as lines for people and as a document (`muster.firmware/1`)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inventory.nodeset import fold
from inventory.reasons import fold_reasons
from inventory.text import clean
from inventory.times import ago, second
from provisioning.bringup.policy.model import UpdateRoute
from provisioning.firmware.drift import Drift, DriftGroup, JudgedMachine, WantedFirmware

SCHEMA = "muster.firmware/1"
_MOST_NAMES = 4
_MOST_GROUPS = 40      # of one entry: a controller may make up a version for each part
_STATES = (Drift.DRIFT, Drift.UNKNOWN, Drift.AS_WANTED, Drift.NOT_WANTED)


@dataclass(frozen=True)
class FirmwareReport:
    """All of it: what is wanted, machines and groups as judged at `now` (epoch seconds), and by node why its
    controller did not answer when it was asked just now."""

    wanted: tuple[WantedFirmware, ...]
    machines: tuple[JudgedMachine, ...]
    groups: tuple[DriftGroup, ...]
    unanswered: Mapping[str, str]
    now: float


def lines(report: FirmwareReport) -> Iterator[str]:
    """Entry by entry, what drifts first, then what to do, and a recap."""
    by_entry: dict[str, list[DriftGroup]] = {}
    for group in report.groups:
        by_entry.setdefault(group.entry, []).append(group)
    for entry in report.wanted:
        if entry.id in by_entry:
            yield from _entry(entry, by_entry[entry.id], report.now)
    if idle := _nodes(report, Drift.NOT_WANTED):
        yield f"nothing wanted  {fold(idle)}"
    for each in fold_reasons(report.unanswered.items()):
        yield f"not read now  {each.names}  {clean(each.text, 300)}"
    yield from _next(report)
    yield recap(report)


def recap(report: FirmwareReport) -> str:
    """Machines by their worst component."""
    counts = [f"{len(nodes)} {state.value}" for state in _STATES if (nodes := _nodes(report, state))]
    total = len(report.machines)
    return f"{total} {'machine' if total == 1 else 'machines'}: {', '.join(counts)}"


def _entry(entry: WantedFirmware, found: Sequence[DriftGroup], now: float) -> Iterator[str]:
    yield f"{entry.id}: {clean(entry.component, 60)} {desired_words(entry)}{_for(entry)}"
    for group in found[:_MOST_GROUPS]:
        said = ", ".join(word for word in (_version(group), clean(group.why, 200), _read(group, now)) if word)
        yield f"  {group.state.value:9} {len(group.nodes):5}  {fold(group.nodes)}  {said}".rstrip()
    if (more := len(found) - _MOST_GROUPS) > 0:
        yield f"  and {more} more groups, which --format json has"
    if any(group.state is Drift.DRIFT for group in found):
        yield f"  next: {entry.owner.value}: {_update(entry)}"


def desired_words(entry: WantedFirmware) -> str:
    """The wanted version in words."""
    return (f"exactly {clean(entry.exactly, 40)}" if entry.exactly is not None
            else f"at least {clean(entry.at_least, 40)}")


def _for(entry: WantedFirmware) -> str:
    whose = [*([clean(entry.vendor, 40)] if entry.vendor != "*" else []), *entry.skus]
    return f" ({', '.join(whose)})" if whose else ""


def _version(group: DriftGroup) -> str:
    names = [clean(name, 60) for name in group.names[:_MOST_NAMES]]
    if (more := len(group.names) - len(names)) > 0:
        names.append(f"{more} more")
    if group.version is None:
        return "" if group.state is Drift.AS_WANTED else ", ".join(names)
    return f"{', '.join(names)}: {clean(group.version, 60)}"


def _read(group: DriftGroup, now: float) -> str:
    if group.oldest is None or group.newest is None:
        return ""
    old, new = ago(now - group.oldest), ago(now - group.newest)
    return f"read {old} ago" if old == new else f"read {new} to {old} ago"


def _update(entry: WantedFirmware) -> str:
    if entry.payload is None:
        return "update it by the maker's means (no `payload:` says by which file)"
    where = entry.payload.file if entry.payload.file is not None else entry.payload.url
    return f"update it with {clean(where, 200)}, sha256 {entry.payload.sha256}"


def _next(report: FirmwareReport) -> Iterator[str]:
    """How what is unknown for want of a reading comes to be known."""
    unread = [one.machine.node for one in report.machines
              if any(each.state is Drift.UNKNOWN and (each.read is None or each.read < one.machine.fresh)
                     for each in one.components)]
    if unread:
        names = shlex.quote(fold(unread))
        yield (f"next: to read what is unknown: muster firmware status {names} --read, and for GPUs, "
               f"adapters and drives: muster check {names} --store{_tools(report, names)}")


def _tools(report: FirmwareReport, names: str) -> str:
    """How what only the machines' own tools tell comes to be known, where something is wanted of it."""
    if all(one.by is UpdateRoute.REDFISH for one in report.wanted):
        return ""
    return f", and for what is updated there: muster firmware status {names} --tools"


def _nodes(report: FirmwareReport, state: Drift) -> list[str]:
    return [one.machine.node for one in report.machines if one.state is state]


def document(report: FirmwareReport) -> dict[str, Any]:
    """The document; times in UTC."""
    return {
        "schema": SCHEMA, "time": second(report.now), "wanted": [_wanted(one) for one in report.wanted],
        "groups": [_group(one) for one in report.groups],
        "nodes": [_machine(one) for one in report.machines],
        "unanswered": [{"node": node, "why": clean(why, 300)} for node, why in report.unanswered.items()]}


def _wanted(one: WantedFirmware) -> dict[str, Any]:
    payload = None if one.payload is None else {
        "file": None if one.payload.file is None else str(one.payload.file), "url": one.payload.url,
        "sha256": one.payload.sha256}
    return {"id": one.id, "component": one.component, "at_least": one.at_least, "exactly": one.exactly,
            "vendor": one.vendor, "skus": list(one.skus), "owner": one.owner.value, "payload": payload,
            "by": one.by.value}


def _group(one: DriftGroup) -> dict[str, Any]:
    return {"wanted": one.entry, "state": one.state.value, "version": one.version, "why": one.why,
            "nodes": list(one.nodes), "components": list(one.names), "oldest": _time(one.oldest),
            "newest": _time(one.newest), "sources": list(one.sources)}


def _machine(one: JudgedMachine) -> dict[str, Any]:
    known = one.machine.known
    return {"node": one.machine.node, "state": one.state.value, "sku": one.machine.sku,
            "maker": known.maker or None, "components": [
                {"wanted": each.entry, "name": each.name or None, "state": each.state.value,
                 "version": each.version, "why": each.why, "read": _time(each.read),
                 "source": each.source or None} for each in one.components]}


def _time(at: float | None) -> str | None:
    return None if at is None else second(at)


def reported(machines: Iterable[JudgedMachine]) -> Iterator[str]:
    """What runs, wanted or not: a line for each component and version, with its machines."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for one in machines:
        for each in one.machine.known.versions:
            version = clean(each.version, 60) if each.version is not None else "?"
            found.setdefault((each.kind or "-", each.name if not each.kind else "", version),
                             set()).add(one.machine.node)
    for (kind, name, version), nodes in sorted(found.items()):
        yield f"{clean(name, 60) or kind:24}  {version:24}  {len(nodes):5}  {fold(nodes)}"
