"""The inventory file: YAML of nodes, sets of nodes, groups and defaults, checked and merged into an `Inventory`."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from inventory.errors import ConfigError, InventoryError, Mark
from inventory.located import LocatedList, LocatedMap, load_yaml, parse_yaml
from inventory.model import Bmc, Inventory, Lifecycle, LifecycleState, Node, PortPlan, Privilege, Via
from inventory.nodeset import MAX_NODES, NAME, Groups, did_you_mean, fold
from inventory.sshconfig import parse_jump
from inventory.text import short

MAX_NAMED = 1_000_000   # names that all entries together may spell out, so that overlapping sets cannot eat the day

_TOP_KEYS = ("version", "defaults", "groups", "nodes")
_PCI = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([01][0-9a-fA-F])\.([0-7])")
# A name or an address of a network device, or a pattern of them, and how many a node may have.
_DEVICE = re.compile(r"[A-Za-z0-9*?][A-Za-z0-9_.:*?-]{0,63}")
_MOST_UNREAD = 64
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_LABEL_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,252}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_STATES = {state.value: state for state in LifecycleState}
_VIAS = tuple(via.value for via in Via)
_PRIVILEGES = tuple(privilege.value for privilege in Privilege)
ROLES = ("compute", "storage", "mgmt", "dpu")     # a misspelt "compute" would take a port out of judgement
_ALSO_CALLED = {     # what people write who come from ssh_config, Ansible or the shell, where spelling alone finds nothing near
    "hostname": "address", "host": "address", "ip": "address", "ansible_host": "address", "ansible_user": "user",
    "ansible_port": "port", "username": "user", "login": "user", "sudo": "become", "key": "identity_file",
    "userknownhostsfile": "known_hosts_file", "jump": "proxy_jump", "bastion": "proxy_jump", "state": "lifecycle",
    "ipmi": "bmc", "redfish": "bmc", "pdu": "power", "switch": "leaf", "tags": "labels", "nics": "ports", "interpreter": "python",
}


class Given(NamedTuple):
    """One value as a file gave it, and where."""

    value: Any
    mark: Mark


@dataclass(frozen=True)
class LoadedInventory:
    """An inventory with, for each node, where each of its values came from; labels and ports as `labels.KEY`, `ports.PCI`."""

    inventory: Inventory
    origins: Mapping[str, Mapping[str, Mark]]


def load_inventory(
    path: str | os.PathLike[str], known_skus: Collection[str] | None = None, known_profiles: Collection[str] | None = None,
) -> Inventory:
    """The inventory that a file describes; nodes in the file's order, groups expanded.

    An entry for one node refines entries for sets, and both refine `defaults`; labels and ports merge key by key. Names of SKUs
    and profiles are checked only where the known ones are given. A relative identity or known_hosts file is taken from the
    inventory's own folder.
    Raises InventoryError: one line with file, line and column, the key, and what was expected.
    """
    return _load(path, known_skus, known_profiles)[0]


def load_with_origins(
    path: str | os.PathLike[str], known_skus: Collection[str] | None = None, known_profiles: Collection[str] | None = None,
) -> LoadedInventory:
    """As `load_inventory`, and keeps where each value stands."""
    return _located(*_load(path, known_skus, known_profiles))


def parse_with_origins(text: str, path: str | os.PathLike[str], known_skus: Collection[str] | None = None) -> LoadedInventory:
    """As `load_with_origins`, of text that is or would be in that file."""
    return _located(*_read(parse_yaml(text, os.fspath(path), error=InventoryError), os.fspath(path), known_skus))


def _located(inventory: Inventory, merged: Mapping[str, Values]) -> LoadedInventory:
    origins = {name: {_dotted(key): given.mark for key, given in values.items()} for name, values in merged.items()}
    return LoadedInventory(inventory, origins)


def check_entry(found: LocatedMap) -> None:
    """Raises InventoryError, as `load_inventory` would, unless an entry for nodes may hold these keys and values."""
    _Reader(Path(), None, None).entry(found)


def _load(
    path: str | os.PathLike[str], known_skus: Collection[str] | None, known_profiles: Collection[str] | None,
) -> tuple[Inventory, Mapping[str, Values]]:
    return _read(load_yaml(path, error=InventoryError), os.fspath(path), known_skus, known_profiles)


def _read(
    document: Any, source: str, known_skus: Collection[str] | None, known_profiles: Collection[str] | None = None,
) -> tuple[Inventory, Mapping[str, Values]]:
    if not isinstance(document, LocatedMap):
        raise InventoryError("expected a map with the keys version and nodes", Mark(source, 1, 1))
    _check_keys(document, _TOP_KEYS, "the inventory")
    _check_version(document, source)
    reader = _Reader(Path(source).absolute().parent, known_skus, known_profiles)
    defaults = reader.entry(_submap(document, "defaults"))
    written = _groups(_submap(document, "groups"))
    merged = _merge(_submap(document, "nodes"), defaults, Groups(written), reader)
    nodes = {name: _node(name, values) for name, values in merged.items()}
    _check_addresses(nodes, merged)
    return Inventory(MappingProxyType(nodes), MappingProxyType(_expand_groups(written, nodes)), source), merged


Key = str | tuple[str, str]     # a node's key, or (labels or ports, key within)
Values = dict[Key, Given]


def _dotted(key: Key) -> str:
    return key if isinstance(key, str) else ".".join(key)


def _check_keys(found: LocatedMap, known: Sequence[str], where: str) -> None:
    for key in found:
        if key not in known:
            also = _ALSO_CALLED.get(key.lower())
            guess = f"; did you mean {also}?" if also in known else did_you_mean(key, known) or f"; known: {', '.join(known)}"
            raise InventoryError(f"unknown key {short(key)} in {where}{guess}", found.key_marks[key])


def _check_version(document: LocatedMap, source: str) -> None:
    if "version" not in document:
        raise InventoryError("the key version is missing, expected version: 1", Mark(source, 1, 1))
    if type(document["version"]) is not int or document["version"] != 1:
        raise InventoryError(f"version is {_described(document['version'])}, expected 1", document.value_marks["version"])


def _submap(document: LocatedMap, key: str) -> LocatedMap:
    """The map under a key; an absent or empty one is an empty map."""
    value = document.get(key)
    if value is None:
        return LocatedMap(document.key_marks.get(key, document.mark))
    if not isinstance(value, LocatedMap):
        raise InventoryError(f"{key} is {_described(value)}, expected a map", document.value_marks[key])
    return value


# groups

def _groups(found: LocatedMap) -> dict[str, list[tuple[str, Mark]]]:
    groups: dict[str, list[tuple[str, Mark]]] = {}
    for name, value in found.items():
        place = found.key_marks[name]
        if not NAME.fullmatch(name):
            raise InventoryError(f"{short(name)} is no group name: expected letters, digits, '.', '-', '_'", place)
        if name == "all":
            raise InventoryError("a group cannot be called all: @all is every node", place)
        items = value if isinstance(value, LocatedList) else [value]
        groups[name] = []
        for at, item in enumerate(items):
            mark = value.value_marks[at] if isinstance(value, LocatedList) else found.value_marks[name]
            written = value.written.get(at) if isinstance(value, LocatedList) else found.written.get(name)
            text = written if isinstance(item, int) and not isinstance(item, bool) else item
            if not isinstance(text, str) or not text:
                raise InventoryError(f"group {name} is {_described(item)}, expected a node set or a list of them", mark)
            groups[name].append((text, mark))
    return groups


def _expand_groups(written: Mapping[str, Sequence[tuple[str, Mark]]], nodes: Mapping[str, Node]) -> dict[str, tuple[str, ...]]:
    groups = Groups(written, nodes.keys())
    members = {name: groups.members(name) for name in written}
    for name, texts in written.items():
        if all(member in nodes for member in members[name]):
            continue
        for text, mark in texts:
            unknown = [member for member in groups.expand(text, mark) if member not in nodes]
            if unknown:
                hint = f"; did you mean @{unknown[0]}?" if unknown[0] in written else did_you_mean(unknown[0], nodes)
                raise InventoryError(f"group {name} names {_few(unknown)}, which no entry under nodes describes{hint}", mark)
    return members


# nodes

def _merge(found: LocatedMap, defaults: Values, groups: Groups, reader: _Reader) -> dict[str, Values]:
    """The values of each node, in the order in which the file first names it."""
    sets: dict[str, Values] = {}
    single: dict[str, Values] = {}
    single_marks: dict[str, Mark] = {}
    named = 0
    for text, value in found.items():
        mark = found.key_marks[text]
        names = groups.expand(text, mark)
        named += len(names)
        if named > MAX_NAMED:
            raise InventoryError(f"the entries up to here spell out over {MAX_NAMED} names", mark)
        if not names:
            raise InventoryError(f"{short(text)} names no node", mark)
        if value is not None and not isinstance(value, LocatedMap):
            raise InventoryError(f"{short(text)} is {_described(value)}, expected a map of keys", found.value_marks[text])
        values = reader.entry(value) if value is not None else {}
        if len(names) == 1 and "@" not in text:      # a group is a set, however many are in it today
            name = names[0]
            if name in single:
                raise InventoryError(f"duplicate key: {name} has an entry of its own at {single_marks[name]} already", mark)
            single[name], single_marks[name] = values, mark
            sets.setdefault(name, {})
        else:
            for name in names:
                _join(name, sets.setdefault(name, {}), values)
        if len(sets) > MAX_NODES:
            raise InventoryError(f"names over {MAX_NODES} nodes", mark)
    if not sets:
        raise InventoryError("nodes names no node; expected entries such as gpu[001-008]: {rack: r01}", found.mark)
    return {name: {**defaults, **values, **single.get(name, {})} for name, values in sets.items()}


def _join(name: str, into: Values, values: Values) -> None:
    """Adds a set's values to a node's; two sets may agree, never differ."""
    for key, given in values.items():
        held = into.setdefault(key, given)
        if held is not given and held.value != given.value:
            raise InventoryError(
                f"two sets disagree on {_dotted(key)} of {name}: {_shown(held.value)} at {held.mark}, {_shown(given.value)} here",
                given.mark,
            )


def _node(name: str, values: Values) -> Node:
    plain: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for key, given in values.items():
        if isinstance(key, str):
            plain[key] = given.value
        else:
            nested.setdefault(key[0], {})[key[1]] = given.value
    for key, inner in nested.items():
        plain[key] = MappingProxyType(inner)
    return Node(name, **plain)


def _check_addresses(nodes: Mapping[str, Node], merged: Mapping[str, Values]) -> None:
    """Two nodes in service at one address would have one machine measured twice and the other never."""
    seen: dict[tuple[str, int | None, str | None], str] = {}
    for node in nodes.values():
        if node.address is None or not node.in_service:
            continue
        other = seen.setdefault((node.address, node.port, node.proxy_jump), node.name)
        if other != node.name:
            place = merged[other]["address"].mark
            raise InventoryError(
                f"{node.name} has the address and port of {other} (given at {place}): each node in service needs its own",
                merged[node.name]["address"].mark,
            )


# the keys of one entry

@dataclass(frozen=True)
class _Spot:
    """One value of an entry: its key for messages, where it stands, and how a number was spelt."""

    key: str
    value: Any
    mark: Mark
    written: str | None

    def wrong(self, expected: str) -> InventoryError:
        """The error for a value that is not what the key needs."""
        return InventoryError(f"{self.key} is {_described(self.value)}, expected {expected}", self.mark)

    def items(self) -> Iterator[_Spot]:
        """The value's items, were it a list; else the value itself."""
        if isinstance(self.value, LocatedList):
            for at, item in enumerate(self.value):
                yield _Spot(self.key, item, self.value.value_marks[at], self.value.written.get(at))
        else:
            yield self

    def within(self, key: str) -> _Spot:
        """The value under a key of this map."""
        held: LocatedMap = self.value
        return _Spot(f"{self.key}.{key}", held[key], held.value_marks[key], held.written.get(key))

    def text(self, expected: str = "text") -> str:
        """Printable text; a number is taken as it was spelt, since rack 07 and label 1.10 are names."""
        value = self.value
        if isinstance(value, (int, float)) and not isinstance(value, bool) and self.written is not None:
            value = self.written
        if not isinstance(value, str) or not value or len(value) > 1024 or not value.isprintable() or value != value.strip():
            raise self.wrong(expected)
        return value


class _Reader:
    """Reads entries: every key of a node, by a function of its own."""

    def __init__(self, folder: Path, known_skus: Collection[str] | None, known_profiles: Collection[str] | None) -> None:
        self._folder = folder
        self._skus = known_skus
        self._profiles = known_profiles
        self._readers: dict[str, Callable[[_Spot], Any]] = {
            "address": self._address,
            "port": lambda spot: _whole(spot, 1, 65535, "a port number from 1 to 65535"),
            "user": lambda spot: _word(spot, "a user name"),
            "transport": lambda spot: Via(_one_of(spot, _VIAS)),
            "privilege": lambda spot: Privilege(_one_of(spot, _PRIVILEGES)),
            "identity_file": self._files,
            "known_hosts_file": self._files,
            "proxy_jump": _jump,
            "python": lambda spot: _word(spot, "a program such as python3 or /usr/bin/python3"),
            "sku": lambda spot: _named(spot, "SKU", self._skus),
            "profile": lambda spot: _named(spot, "profile", self._profiles),
            "lifecycle": _lifecycle,
            "rack": _Spot.text,
            "leaf": lambda spot: tuple(item.text("a leaf switch or a list of them") for item in spot.items()),
            "nvlink_domain": _Spot.text,
            "power": _Spot.text,
            "bmc": self._bmc,
            "unread": _unread,
        }
        self._keys = (*self._readers, "become", "ports", "labels")

    def entry(self, found: LocatedMap) -> Values:
        """The checked values of one entry; those of labels and ports one by one."""
        _check_keys(found, self._keys, "an entry for nodes")
        values: Values = {}
        for key, value in found.items():
            spot = _Spot(key, value, found.value_marks[key], found.written.get(key))
            if key == "become":
                if "privilege" in found:
                    raise InventoryError("become and privilege say the same thing; keep one of them", found.key_marks[key])
                # The older, shorter way to write `privilege: become`.
                values["privilege"] = Given(Privilege.BECOME if _boolean(spot) else Privilege.UNPRIVILEGED, found.key_marks[key])
            elif key == "labels":
                values.update(_labels(spot))
            elif key == "ports":
                values.update(_ports(spot))
            else:
                values[key] = Given(self._readers[key](spot), found.key_marks[key])
        return values

    def _address(self, spot: _Spot) -> str:
        expected = "a host name or an IP address"
        text = spot.text(expected)
        if (found := host(text)) is not None:
            return found
        before, _, after = text.rpartition(":")
        if after.isdigit() and host(before) is not None:
            raise spot.wrong(f"{expected} alone, with port: {after} as a key of its own")
        raise spot.wrong(expected)

    def _files(self, spot: _Spot) -> tuple[str, ...]:
        return tuple(
            str(self._folder / os.path.expanduser(item.text("a file name or a list of them")))  # noqa: PTH111  (knows ~user, never raises)
            for item in spot.items()
        )

    def _bmc(self, spot: _Spot) -> Bmc:
        if not isinstance(spot.value, LocatedMap):
            return Bmc(self._address(spot))
        _check_keys(spot.value, ("address", "user"), "bmc")
        if "address" not in spot.value:
            raise InventoryError("bmc has no address, expected {address, user}", spot.mark)
        user = _word(spot.within("user"), "a user name") if "user" in spot.value else None
        return Bmc(self._address(spot.within("address")), user)


def host(text: str) -> str | None:
    """A host name or an IP address as text (IPv6 without brackets), or None when it is neither."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" not in bare:
        return text if _HOST.fullmatch(text) else None
    try:
        return str(ipaddress.IPv6Address(bare))
    except ValueError:
        return None


def _named(spot: _Spot, kind: str, known: Collection[str] | None) -> str:
    """The name of a SKU or profile, which must be one of the known, if these are given."""
    name = spot.text(f"the name of a {kind} file")
    if known is not None and name not in known:
        guess = did_you_mean(name, known) or f"; known: {', '.join(sorted(known)) or 'none'}"
        raise InventoryError(f"undefined {kind} {short(name)}{guess}", spot.mark)
    return name


def _boolean(spot: _Spot) -> bool:
    if not isinstance(spot.value, bool):
        raise spot.wrong("true or false")
    return spot.value


def _unread(spot: _Spot) -> tuple[str, ...]:
    """Patterns of network devices; they come to stand on a command line."""
    expected = 'names or PCI addresses of network devices, such as [mlx5_4, "0000:05:00.*"]'
    found = tuple(item.text(expected) for item in spot.items())
    if len(found) > _MOST_UNREAD or any(_DEVICE.fullmatch(text) is None or not text.strip("*?") for text in found):
        raise spot.wrong(expected)
    # sysfs writes addresses in lower case.
    return tuple(pci_address(text) or (text.lower() if ":" in text else text) for text in found)


def _whole(spot: _Spot, low: int, high: int, expected: str) -> int:
    if type(spot.value) is not int or not low <= spot.value <= high:
        raise spot.wrong(expected)
    return spot.value


def _word(spot: _Spot, expected: str) -> str:
    """Text that can stand on a command line without being taken for an option or several words."""
    text = spot.text(expected)
    if text.startswith("-") or any(char.isspace() for char in text):
        raise spot.wrong(expected)
    return text


def _jump(spot: _Spot) -> str:
    expected = "[user@]host[:port], several joined by commas, or none"
    text = _word(spot, expected)
    try:
        parse_jump(text)
    except ConfigError:
        raise spot.wrong(expected) from None
    return text


def _lifecycle(spot: _Spot) -> Lifecycle:
    if not isinstance(spot.value, LocatedMap):
        return Lifecycle(_state(spot))
    found = spot.value
    _check_keys(found, ("state", "owner", "until"), "lifecycle")
    if "state" not in found:
        raise InventoryError(f"lifecycle has no state, expected one of {', '.join(_STATES)}", spot.mark)
    owner = spot.within("owner").text() if found.get("owner") is not None else None
    return Lifecycle(_state(spot.within("state")), owner, _date(spot.within("until")) if found.get("until") is not None else None)


def _state(spot: _Spot) -> LifecycleState:
    return _STATES[_one_of(spot, tuple(_STATES))]


def _date(spot: _Spot) -> dt.date:
    if isinstance(spot.value, str) and _DATE.fullmatch(spot.value):
        try:
            return dt.date.fromisoformat(spot.value)
        except ValueError:
            pass
    raise spot.wrong("a date such as 2026-12-01")


def _labels(spot: _Spot) -> Values:
    if not isinstance(spot.value, LocatedMap):
        raise spot.wrong("a map of labels")
    values: Values = {}
    for key in spot.value:
        mark = spot.value.key_marks[key]
        if not _LABEL_KEY.fullmatch(key):
            raise InventoryError(f"{short(key)} is no label: expected letters, digits, '.', '-', '_', '/'", mark)
        inner = spot.within(key)
        written = inner.written if isinstance(inner.value, bool) else None
        values["labels", key] = Given(written or inner.text(), mark)
    return values


def _ports(spot: _Spot) -> Values:
    if not isinstance(spot.value, LocatedMap):
        raise spot.wrong("a map from PCI addresses to {role, rail, leaf, expect}")
    values: Values = {}
    for key in spot.value:
        mark = spot.value.key_marks[key]
        address = pci_address(key)
        if address is None:
            raise InventoryError(f"{short(key)} is no PCI address, expected one such as 0000:18:00.0", mark)
        if ("ports", address) in values:
            raise InventoryError(f"duplicate key: port {address} stands at {values['ports', address].mark} already", mark)
        values["ports", address] = Given(_port(spot.within(key)), mark)
    return values


def _port(spot: _Spot) -> PortPlan:
    if not isinstance(spot.value, LocatedMap):
        raise spot.wrong("a map with role, rail, leaf, expect")
    _check_keys(spot.value, ("role", "rail", "leaf", "expect"), "a port")
    plan: dict[str, Any] = {}
    for key in spot.value:
        inner = spot.within(key)
        choices = {"role": ROLES, "expect": ("up", "down")}.get(key)
        plan[key] = _one_of(inner, choices) if choices else _rail(inner) if key == "rail" else inner.text()
    return PortPlan(**plan)


def _one_of(spot: _Spot, known: Sequence[str]) -> str:
    if not isinstance(spot.value, str) or spot.value not in known:
        guess = did_you_mean(spot.value, known) if isinstance(spot.value, str) else ""
        raise spot.wrong(f"one of {', '.join(known)}{guess}")
    return str(spot.value)


def _rail(spot: _Spot) -> int:
    return _whole(spot, 0, 1023, "a rail number from 0 to 1023")


def pci_address(text: str) -> str | None:
    """The full lower-case form that Linux gives a PCI address ("18:00.0" is "0000:18:00.0"), or None if it is none."""
    match = _PCI.fullmatch(text)
    if match is None:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2].lower()}:{match[3].lower()}.{match[4]}"


# words for messages

def _described(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, LocatedMap):
        return "a map"
    if isinstance(value, LocatedList):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    return short(value) if isinstance(value, str) else f"the number {value}"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, Lifecycle):
        return value.state.value
    if isinstance(value, Bmc):
        return value.address
    if isinstance(value, (Via, Privilege)):
        return str(value.value)
    return short(value) if isinstance(value, str) else str(value)


def _few(names: Sequence[str]) -> str:
    folded = fold(names)
    return folded if len(folded) <= 120 else f"{names[0]} and {len(names) - 1} other nodes"
