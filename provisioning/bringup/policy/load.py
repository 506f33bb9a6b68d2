"""Reads `bringup.yaml` of the rules folders; every mistake is one line with its place. A later folder's file
is laid over the earlier ones: steps by name and settings by id, each key by key, where `enabled: false` takes
a setting out; the other sections key by key, but for `os`, of which a file that names `by` says all. It is
data: nothing in it is ever executed while it is read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from healthcheck.config.entry import Entry, entry_of, kind_of, known_keys, merged, overlay
from healthcheck.config.valuetypes import NAME, ValueType, choice, parse_value
from healthcheck.model.firmware import KINDS as FIRMWARE_KINDS
from healthcheck.model.outcome import Owner
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, LocatedMap, load_yaml
from inventory.model import Secret, SecretFrom
from provisioning.bmc.accounts import DesiredAccounts
from provisioning.bmc.base import BootTarget
from provisioning.bringup.engine.model import ORDER, BringupStep
from provisioning.bringup.policy.fields import DESIRED, FORMER, RANDOM, SECTIONS, SETTING, STEP, words
from provisioning.bringup.policy.model import (
    FILE,
    FIRST,
    STEPS,
    BringupPolicy,
    DesiredBios,
    DesiredBurnIn,
    DesiredChecks,
    DesiredConsoles,
    DesiredFirmware,
    DesiredLeased,
    DesiredSoak,
    FirmwarePayload,
    Machines,
    MissingAttribute,
    Parts,
    PowerTimes,
    Stop,
    UpdateRoute,
)
from provisioning.osinstall.registry import chosen
from provisioning.osinstall.section import OsSection

_TOP = ("steps", "without", *SECTIONS, *DESIRED, "base", "os")


class _Draft:
    """The policy while files are laid over each other: step entries and values with their places."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.steps: dict[str, dict[str, Any]] = {name: {} for name in ORDER}
        self.without: frozenset[str] = frozenset()
        self.sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
        self.marks: dict[tuple[str, str], Mark] = {}
        self.desired: dict[str, dict[str, Entry]] = {name: {} for name in DESIRED}
        self.base = LocatedMap(Mark(FILE, 1, 1))
        self.os = LocatedMap(Mark(FILE, 1, 1))


# From where a machine may boot so that it comes to its installer; of others the site knows.
_BOOTS_BY = {"virtual-media": (BootTarget.NONE, BootTarget.CD), "pxe": (BootTarget.NONE, BootTarget.PXE)}


def load(folders: Iterable[Path]) -> BringupPolicy:
    """What the files of all folders say; raises RulesError. A file itself may be among the folders."""
    draft, looked = _Draft(), []
    for folder in folders:
        looked.append(str(folder))
        if (path := folder if folder.is_file() else folder / FILE).is_file():
            _read(draft, path)
    if not draft.files:
        raise RulesError(f"no rules folder holds a {FILE}: looked in {', '.join(looked)}")
    end = Mark(draft.files[-1], 1, 1)
    for name in ORDER:
        _complete(f"steps: {name}", draft.steps[name], STEP, end)
    held = draft.sections
    for name, forms in SECTIONS.items():
        _complete(name, held[name], forms, end)
    if not draft.os:
        raise RulesError("os is missing: expected a map with by", end)
    run, stop, power, parts = held["run"], held["stop"], held["power"], held["parts"]
    burnin, checks, soak, consoles = held["burnin"], held["checks"], held["soak"], held["console"]
    # What restarts no machine proves nothing of its restarts.
    idle = frozenset() if soak["cold"] or soak["warm"] else frozenset(("soak",))
    target, installer = BootTarget(held["boot"]["target"]), chosen(OsSection(draft.os))
    if target not in _BOOTS_BY.get(installer.by, (target,)):
        raise RulesError(f"boot: target: {target.value} leads past os: by: {installer.by}, which sets what "
                         "it needs by itself: expected none", draft.marks["boot", "target"])
    return BringupPolicy(
        MappingProxyType({name: _step(name, draft.steps[name]) for name in ORDER}), draft.without | idle,
        run["width"], run["grace_seconds"], Stop(stop["share"], stop["least"], stop["refused_logins"]),
        PowerTimes(power["off_seconds"], power["on_seconds"], power["bios_minutes"] * 60,
                   power["answer_minutes"] * 60), target,
        Parts(frozenset(parts["may_be_empty"]), parts["log_days"], parts["doubles_seconds"]),
        DesiredBurnIn(burnin["length"], burnin["stages"]),
        DesiredChecks(checks["profile"], checks["snapshots"], checks["between_seconds"]),
        DesiredLeased(held["leased"]["rules"]),
        DesiredSoak(soak["cold"], soak["warm"], soak["off_seconds"], soak["boot_minutes"] * 60,
                    soak["settle_seconds"], soak["slow"], soak["slow_seconds"]),
        DesiredConsoles(consoles["capture"], consoles["at_once"]),
        tuple(_bios(entry) for entry in _there(draft, "bios")),
        tuple(_firmware(entry) for entry in _there(draft, "firmware")), _path(draft, "delivery", "file"),
        draft.base, tuple(draft.files), _path(draft, "ssh", "host_keys", FIRST), installer,
        _accounts(draft))


def _read(draft: _Draft, path: Path) -> None:
    top = load_yaml(path, error=RulesError)
    if not isinstance(top, LocatedMap):
        raise RulesError(f"expected a map of {', '.join(_TOP)}; got {kind_of(top)}", Mark(str(path), 1, 1))
    known_keys(top, _TOP, "")
    draft.files.append(str(path))
    if "steps" in top:
        steps = _map(top, "steps")
        known_keys(steps, ORDER, "steps: ")
        for name in steps:
            _keys(_map(steps, name, "steps: "), f"steps: {name}", STEP, draft.steps[name])
    if "without" in top:
        draft.without = _without(top)
    for name, forms in SECTIONS.items():
        if name in top:
            given = _map(top, name)
            _keys(given, name, forms, draft.sections[name], FORMER.get(name, {}))
            draft.marks |= {(name, key): mark for key, mark in given.value_marks.items()}
    for name, forms in DESIRED.items():
        for item, mark in _items(top, name):
            _desired(draft, name, forms, item, mark)
    if "base" in top:
        draft.base = merged(draft.base, _map(top, "base"))
    if "os" in top:
        given = _map(top, "os")
        draft.os = given if "by" in given else merged(draft.os, given)


def _keys(given: LocatedMap, where: str, forms: Mapping[str, ValueType], into: dict[str, Any],
          former: Mapping[str, str] = MappingProxyType({})) -> None:
    known_keys(given, [*forms, *(key for key in given if key in former)], f"{where}: ")
    for key in given:
        name = former.get(key, key)
        if name != key and name in given:
            raise RulesError(f"{where}: {key} is {name} by its former name; write it once",
                             given.key_marks[key])
        into[name] = _plain(parse_value(f"{where}: {key}", given[key], given.value_marks[key], forms[name]))


def _plain(found: Any) -> Any:
    """Members of the Enums that only name words as those words."""
    if isinstance(found, tuple):
        return tuple(_plain(one) for one in found)
    return found.value if isinstance(
        found, Enum) and not isinstance(found, (Owner, MissingAttribute)) else found


def _desired(draft: _Draft, section: str, forms: Mapping[str, ValueType], item: Any, mark: Mark) -> None:
    entry = entry_of(item, ("id", *forms), "id", mark)
    parse_value("id", entry.name, entry.marks["id"], NAME)
    for key, form in forms.items():
        if key in entry.values:
            entry.values[key] = parse_value(
                f"{section}: {entry.name}: {key}", entry.values[key], entry.marks[key], form)
    settings = entry.values.get("settings")
    if isinstance(settings, LocatedMap):
        for name, given in settings.items():
            parse_value(
                f"{section}: {entry.name}: settings: {name}", given, settings.value_marks[name], SETTING)
        old = draft.desired[section].get(entry.name)
        if old is not None and old.mark.file != mark.file:
            entry.values["settings"] = {**old.values.get("settings", {}), **settings}
    overlay(draft.desired[section], entry, "id")


def _without(top: LocatedMap) -> frozenset[str]:
    found = top["without"]
    if not isinstance(found, LocatedList):
        raise RulesError(
            f"without: expected a list of steps, got {kind_of(found)}", top.value_marks["without"])
    # Without its end a way would be gone again and again.
    form = choice(words("_Steps", ORDER[:-1]))
    return frozenset(
        parse_value("without", one, found.value_marks[at], form).value for at, one in enumerate(found))


def _map(top: LocatedMap, key: str, where: str = "") -> LocatedMap:
    found = top[key]
    if not isinstance(found, LocatedMap):
        raise RulesError(f"{where}{key}: expected a map, got {kind_of(found)}", top.value_marks[key])
    return found


def _items(top: LocatedMap, key: str) -> list[tuple[Any, Mark]]:
    found = top.get(key, [])
    if not isinstance(found, list):
        raise RulesError(f"{key}: expected a list, got {kind_of(found)}", top.value_marks[key])
    return [(item, top[key].value_marks[at]) for at, item in enumerate(found)]


def _complete(where: str, found: Mapping[str, Any], forms: Mapping[str, ValueType], mark: Mark) -> None:
    for key, form in forms.items():
        if key not in found:
            raise RulesError(f"{where}: {key} is missing: expected {form.phrase}", mark)


def _there(draft: _Draft, section: str) -> list[Entry]:
    return [entry for entry in draft.desired[section].values() if entry.values.get("enabled", True)]


def _step(name: str, held: Mapping[str, Any]) -> BringupStep:
    title, effect, together = STEPS[name]
    return BringupStep(name, title, effect, held["owner"], held["minutes"] * 60, held["at_once"],
                       held["domain_at_once"], together, held["gather_seconds"])


def _of(entry: Entry) -> Machines:
    return Machines(entry.values.get("vendor", "*"), entry.values.get("skus", ()))


def _bios(entry: Entry) -> DesiredBios:
    held = entry.values
    for key in ("settings", "source"):
        if key not in held:
            raise RulesError(
                f"bios: {entry.name}: {key} is missing: expected {DESIRED['bios'][key].phrase}", entry.mark)
    return DesiredBios(entry.name, _of(entry), MappingProxyType(dict(held["settings"])),
                       held.get("absent", MissingAttribute.TROUBLE), held["source"])


def _firmware(entry: Entry) -> DesiredFirmware:
    held = entry.values
    if "component" not in held:
        raise RulesError(f"firmware: {entry.name}: component is missing: expected bios, bmc, or a glob over "
                         "the names of components", entry.mark)
    if ("at_least" in held) == ("exactly" in held):
        raise RulesError(f"firmware: {entry.name}: at_least is missing: expected either at_least or exactly",
                         entry.marks.get("at_least", entry.mark))
    by = held.get("by", UpdateRoute.REDFISH)
    if wrong := _not_by(by, held["component"]):
        raise RulesError(f"firmware: {entry.name}: component: {wrong}", entry.marks["component"])
    payload = _payload(entry)
    if by is not UpdateRoute.REDFISH and payload is not None and payload.file is None:
        raise RulesError(f"firmware: {entry.name}: payload: {by.value} is sent a file: expected "
                         "{file: PATH, sha256: DIGEST}", entry.marks["payload"])
    return DesiredFirmware(entry.name, _of(entry), held["component"], held.get("at_least"),
                           held.get("exactly"), held.get("owner", Owner.OPERATOR), payload, by)


def _not_by(by: UpdateRoute, component: str) -> str:
    """Why these components do not get their firmware by this tool; "" where they may. fwupd has other
    versions for BIOSes than these say themselves."""
    if by is UpdateRoute.MLXFWMANAGER and component != "hca":
        return "mlxfwmanager updates adapters: expected hca"
    if by is UpdateRoute.FWUPD and component in FIRMWARE_KINDS and component != "nvme":
        return "fwupd: expected nvme or a glob over the names of its devices, such as 'System Firmware'"
    return ""


def _payload(entry: Entry) -> FirmwarePayload | None:
    """A path that is not absolute starts at the folder of the file that names it."""
    if (held := entry.values.get("payload")) is None:
        return None
    kind, where, digest = held
    if kind == "url":
        return FirmwarePayload(None, where, digest)
    return FirmwarePayload(Path(entry.marks["payload"].file).parent / where, None, digest)


def _accounts(draft: _Draft) -> DesiredAccounts:
    """Raises RulesError for passwords that are to be made and have no place to be kept."""
    held = draft.sections["accounts"]
    random, store, first = held["password"] == RANDOM, held["store"], held["first"]
    if (random or held["operator"] is not None) and store is None:
        raise RulesError("accounts: store is missing: a new password has to be kept; expected {folder: PATH} "
                         "or {command: [PROGRAM, \"{node}\"]}",
                         draft.marks["accounts", "password" if random else "operator"])
    here = Path(draft.marks["accounts", "store"].file).parent
    folder = Path(os.path.abspath(here / store[1])) if store and store[0] == "folder" else None  # noqa: PTH100
    if first is not None and first.source is SecretFrom.FILE:
        at = Path(draft.marks["accounts", "first"].file).parent
        first = Secret(first.source, (str(at / first.words[0]),))
    return DesiredAccounts(random, held["length"], folder,
                           store[1] if store and store[0] == "command" else None, first, held["operator"])


def _path(draft: _Draft, section: str, key: str, none: str | None = None) -> Path | None:
    """A path that is not absolute starts at the file that names it."""
    file = draft.sections[section][key]
    return None if file in (None, none) else Path(draft.marks[section, key].file).parent / file
