"""Reads the settings of one inventory entry, key by key, into typed values that know their place in the file."""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from inventory.errors import InventoryError, Mark
from inventory.located import LocatedList, LocatedMap
from inventory.model import Bmc, Lifecycle, LifecycleState, PortPlan
from inventory.nodeset import did_you_mean

Key: TypeAlias = tuple[str, ...]       # ("rack",), but ("labels", "zone") and ("ports", "0000:18:00.0"): the unit of merging
Report: TypeAlias = Callable[[InventoryError], None]


class Setting(NamedTuple):
    """A typed value and where it stands."""

    value: Any
    mark: Mark


Settings: TypeAlias = dict[Key, Setting]

PORT_ROLES = ("compute", "storage", "management", "other")

# What a terminal could act on is no text: controls, line separators, bidirectional overrides.
_TEXT = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]{1,256}")
_HOST = r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})|\[[0-9A-Fa-f:.]{2,45}(?:%[A-Za-z0-9_.-]{1,15})?\])"
_USER = r"[A-Za-z0-9_][A-Za-z0-9_.+\\@$-]{0,63}"
_USER_ONLY = re.compile(_USER)
_HOST_ONLY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_HOP = re.compile(rf"(?:{_USER}@)?{_HOST}(?::[0-9]{{1,5}})?")
_PROGRAM = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9_./+-]{0,254}")
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,62}")
_PCI = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([01][0-9a-f])\.([0-7])")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

# What people write who come from ssh_config, Ansible or the shell.
_ALSO_CALLED = {
    "hostname": "address", "host": "address", "ip": "address", "ansiblehost": "address", "ansibleport": "port",
    "username": "user", "ansibleuser": "user", "sudo": "become", "ansiblebecome": "become", "key": "identity_file",
    "keyfile": "identity_file", "userknownhostsfile": "known_hosts_file", "jump": "proxy_jump", "bastion": "proxy_jump",
    "state": "lifecycle", "ipmi": "bmc", "pdu": "power", "leaves": "leaf", "tags": "labels", "nics": "ports",
}


def read_settings(entry: LocatedMap, folder: Path, known_skus: Collection[str] | None, report: Report) -> Settings:
    """The settings of one entry; each wrong one goes to `report` and is left out. Relative paths start at `folder`."""
    found: Settings = {}
    for name in entry:
        try:
            for key, value, mark in _read(_Place(entry, name), folder, known_skus):
                if key in found:
                    raise InventoryError(f"{'.'.join(key)} is given twice, also at {found[key].mark}", mark)
                found[key] = Setting(value, mark)
        except InventoryError as problem:
            report(problem)
    return found


def unknown_key(name: str, mark: Mark, known: Collection[str], what: str) -> InventoryError:
    """The error for a key that is none of ours: the nearest, or else all of them."""
    if len(hint := did_you_mean(name, known)) == 0:
        hint = f"; expected one of {', '.join(known)}"
    return InventoryError(f"unknown key {short(name)}{what}{hint}", mark)


def short(value: object) -> str:
    """A value as it may stand in an error line: quoted, without control characters, at most 60 characters."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def kind(value: object) -> str:
    """What a value is, in a user's words, with the value where it is short enough to help."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return short(value)
    return f"the number {short(value)}"


@dataclass(frozen=True)
class _Place:
    """One value in a map or list, and what it should be called in an error."""

    of: LocatedMap | LocatedList
    at: Any
    prefix: str = ""

    @property
    def value(self) -> Any:
        return self.of[self.at]

    @property
    def mark(self) -> Mark:
        return self.of.value_marks[self.at]

    @property
    def name(self) -> str:
        return self.prefix + (str(self.at) if isinstance(self.of, LocatedMap) else "")

    def wrong(self, expected: str) -> InventoryError:
        """The one error there is here: what stands here, and what was expected."""
        return InventoryError(f"{self.name.removesuffix('.')}: expected {expected}, found {kind(self.value)}", self.mark)

    def text(self, expected: str = "text", pattern: re.Pattern[str] = _TEXT) -> str:
        """Text as it was written: `rack: 07` and `rack: 1.10` are text here."""
        value = self.value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = self.of.written.get(self.at)
        if not isinstance(value, str) or pattern.fullmatch(value) is None:
            raise self.wrong(expected)
        return value

    def texts(self, expected: str = "text") -> Iterator[_Place]:
        """The places of one value or of a list of them."""
        if not isinstance(self.value, LocatedList):
            yield self
            return
        if not self.value:
            raise self.wrong(f"{expected}, or a list of at least one")
        for at in range(len(self.value)):
            yield _Place(self.value, at, f"{self.name}.")

    def whole(self, low: int, high: int) -> int:
        """A whole number within bounds."""
        value = self.value
        if type(value) is not int or not low <= value <= high:
            raise self.wrong(f"a whole number from {low} to {high}")
        return value

    def map(self, known: Collection[str] | None, expected: str = "a map") -> LocatedMap:
        """A map, of known keys only unless `known` is None."""
        value = self.value
        if not isinstance(value, LocatedMap):
            raise self.wrong(expected)
        for key in value if known is not None else ():
            if key not in (known or ()):
                raise unknown_key(key, value.key_marks[key], known or (), f" in {self.name}")
        return value


def _read(place: _Place, folder: Path, known_skus: Collection[str] | None) -> Iterator[tuple[Key, Any, Mark]]:
    name = place.at
    if name == "labels":
        yield from _labels(place)
    elif name == "ports":
        yield from _ports(place)
    elif name in _FILES:
        paths = tuple(_path(item, folder) for item in place.texts("a path"))
        yield (name,), paths, place.mark
    elif name == "sku":
        sku = place.text()
        if known_skus is not None and sku not in known_skus:
            raise InventoryError(f"sku: no SKU is called {short(sku)}{did_you_mean(sku, known_skus)}", place.mark)
        yield (name,), sku, place.mark
    elif name in _READERS:
        yield (name,), _READERS[name](place), place.mark
    else:
        mark = place.of.key_marks[name]    # type: ignore[union-attr]
        meant = _ALSO_CALLED.get(re.sub("[^a-z]", "", name.lower()))
        if meant is not None:
            raise InventoryError(f"unknown key {short(name)}; did you mean {meant}?", mark)
        raise unknown_key(name, mark, KEYS, "")


def _path(place: _Place, folder: Path) -> str:
    try:
        return str(folder / Path(place.text("a path")).expanduser())
    except RuntimeError:
        raise place.wrong("a path; this home folder is not known") from None


def host(text: str) -> str | None:
    """A host name or an IP address (an IPv6 address without its brackets), or None when the text is neither."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in bare:
        try:
            ipaddress.IPv6Address(bare)
        except ValueError:
            return None
        return bare if all(char.isalnum() or char in ":.%-_" for char in bare) else None
    return bare if bare == text and _HOST_ONLY.fullmatch(bare) else None


def _address(place: _Place) -> str:
    expected = "a host name or an IP address"
    text = place.text(expected)
    found = host(text)
    if found is None:
        before, _, after = text.rpartition(":")
        if after.isdigit() and host(before) is not None:
            expected += f" alone (write 'address: {before}, port: {after}')"
        raise place.wrong(expected)
    return found


def _become(place: _Place) -> bool:
    if not isinstance(place.value, bool):
        raise place.wrong("true or false")
    return place.value


def _proxy_jump(place: _Place) -> str:
    expected = "[user@]host[:port], several with commas, or none"
    text = place.text(expected)
    if not all(_HOP.fullmatch(hop) for hop in text.split(",")):
        raise place.wrong(expected)
    return text


def _python(place: _Place) -> str:
    expected = "a program's name or its absolute path on the node"
    text = place.text(expected, _PROGRAM)
    if "/" in text and not text.startswith("/"):
        raise place.wrong(expected)
    return text


def _lifecycle(place: _Place) -> Lifecycle:
    if not isinstance(place.value, LocatedMap):
        return Lifecycle(_state(place))
    entry = place.map(("state", "owner", "until"))
    if "state" not in entry:
        raise InventoryError(f"lifecycle: state is missing; expected one of {_STATES}", entry.mark)
    inside = {key: _Place(entry, key, "lifecycle.") for key in entry}
    return Lifecycle(
        state=_state(inside["state"]),
        owner=inside["owner"].text() if "owner" in inside else None,
        until=_date(inside["until"]) if "until" in inside else None,
    )


_STATES = ", ".join(state.value for state in LifecycleState)


def _state(place: _Place) -> LifecycleState:
    value = place.value
    for state in LifecycleState:
        if value == state.value:
            return state
    hint = did_you_mean(value, [state.value for state in LifecycleState]) if isinstance(value, str) else ""
    raise InventoryError(f"{place.name}: expected one of {_STATES}, found {kind(value)}{hint}", place.mark)


def _date(place: _Place) -> dt.date:
    text = place.text("a date as in 2026-12-01", _DATE)
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise place.wrong("a date that exists") from None


def _bmc(place: _Place) -> Bmc:
    if not isinstance(place.value, LocatedMap):
        return Bmc(_address(place))
    entry = place.map(("address", "user"))
    if "address" not in entry:
        raise InventoryError("bmc: address is missing", entry.mark)
    return Bmc(
        address=_address(_Place(entry, "address", "bmc.")),
        user=_user(_Place(entry, "user", "bmc.")) if "user" in entry else None,
    )


def _user(place: _Place) -> str:
    return place.text("a user name", _USER_ONLY)


def _leaf(place: _Place) -> tuple[str, ...]:
    return tuple(item.text() for item in place.texts())


def _labels(place: _Place) -> Iterator[tuple[Key, Any, Mark]]:
    labels = place.map(None, "a map from label to text")
    for name in labels:
        if _LABEL.fullmatch(name) is None:
            raise InventoryError(f"labels: {short(name)} is no label: expected letters, digits, '_', '.', '/', '-', at most 63",
                                 labels.key_marks[name])
        yield ("labels", name), _Place(labels, name, "labels.").text(), labels.value_marks[name]


def pci_address(text: str) -> str | None:
    """A PCI address in full, lower-case form ("0000:18:00.0"), or None; nvidia-smi's eight-digit domain is understood."""
    match = _PCI.fullmatch(text.lower())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function}"


def _ports(place: _Place) -> Iterator[tuple[Key, Any, Mark]]:
    ports = place.map(None, "a map from PCI address to {role, rail, leaf}")
    for written in ports:
        mark = ports.key_marks[written]
        address = pci_address(written)
        if address is None:
            raise InventoryError(f"ports: {short(written)} is no PCI address: expected one as in 0000:18:00.0", mark)
        here = _Place(ports, written, "ports.")
        yield ("ports", address), _port(here) if here.value is not None else PortPlan(), mark


def _port(place: _Place) -> PortPlan:
    entry = place.map(("role", "rail", "leaf"), "a map of role, rail and leaf")
    inside = {key: _Place(entry, key, f"{place.name}.") for key in entry}
    role = PortPlan.role
    if "role" in inside:
        role = inside["role"].value
        if role not in PORT_ROLES:
            raise inside["role"].wrong(f"one of {', '.join(PORT_ROLES)}")
    return PortPlan(
        role=role,
        rail=inside["rail"].whole(0, 1023) if "rail" in inside else None,
        leaf=inside["leaf"].text() if "leaf" in inside else None,
    )


_FILES = ("identity_file", "known_hosts_file")
_READERS: Mapping[str, Callable[[_Place], Any]] = {
    "address": _address, "port": lambda place: place.whole(1, 65535), "user": _user, "become": _become,
    "proxy_jump": _proxy_jump, "python": _python, "lifecycle": _lifecycle, "rack": _Place.text, "leaf": _leaf,
    "nvlink_domain": _Place.text, "power": _Place.text, "bmc": _bmc,
}
KEYS = (
    "address", "port", "user", "become", "identity_file", "known_hosts_file", "proxy_jump", "python", "sku", "lifecycle", "rack",
    "leaf", "ports", "nvlink_domain", "power", "bmc", "labels",
)
