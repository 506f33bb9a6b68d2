"""An entry of the inventory file: every key that a node may have, and what each value must be."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from inventory.errors import ConfigError, InventoryError, Mark
from inventory.limits import EXPECTED, STAGES, seconds
from inventory.located import LocatedList, LocatedMap
from inventory.model import Lifecycle, LifecycleState, PortPlan, Privilege, Secret, SecretFrom, Speaks, Via
from inventory.nodeset import did_you_mean
from inventory.sshjump import parse_jump
from inventory.text import short

_PCI = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([01][0-9a-fA-F])\.([0-7])")
# A name or an address of a network device, or a pattern of them, and how many a node may have.
_DEVICE = re.compile(r"[A-Za-z0-9*?][A-Za-z0-9_.:*?-]{0,63}")
_MOST_UNREAD = 64
_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
_MOST_MACS = 16
_MOST_WORDS = 64
_SYSTEM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:~-]{0,126}")      # a segment of its path
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_LABEL_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,252}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_STATES = {state.value: state for state in LifecycleState}
_VIAS = tuple(via.value for via in Via)
_PRIVILEGES = tuple(privilege.value for privilege in Privilege)
_SPEAKS = tuple(speaks.value for speaks in Speaks)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
ROLES = ("compute", "storage", "mgmt", "dpu")     # a misspelt "compute" would take a port out of judgement
_PLACES = "{file: PATH}, {env: NAME} or {command: [PROGRAM, ...]}"
# what people write who come from ssh_config, Ansible or the shell, where spelling alone finds nothing near
_ALSO_CALLED = {
    "hostname": "address", "host": "address", "ip": "address", "ansible_host": "address",
    "ansible_user": "user", "ansible_port": "port", "username": "user", "login": "user", "sudo": "become",
    "key": "identity_file", "userknownhostsfile": "known_hosts_file", "jump": "proxy_jump",
    "bastion": "proxy_jump", "state": "lifecycle", "ipmi": "bmc", "redfish": "bmc", "pdu": "power",
    "switch": "leaf", "tags": "labels", "nics": "ports", "interpreter": "python", "timeout": "limits",
    "timeouts": "limits", "connecttimeout": "limits", "mac": "boot_mac", "macs": "boot_mac",
    "mac_address": "boot_mac",
}


class LocatedValue(NamedTuple):
    """One value as a file gave it, and where."""

    value: Any
    mark: Mark


Key = str | tuple[str, str]     # a node's key, or (labels, ports, burnin, bmc or limits, key within)
Values = dict[Key, LocatedValue]


BMC_ADDRESS = ("bmc", "address")


def no_bmc_address(mark: Mark) -> InventoryError:
    """The error for a controller without an address."""
    return InventoryError("bmc has no address, expected {address, user, password, ...}", mark)


def check_entry(found: LocatedMap) -> None:
    """Raises InventoryError, as `inventory.load` would, unless an entry may hold these keys and values."""
    values = EntryReader(Path(), None, None).entry(found)
    if (keys := [key for key in values if key[0] == "bmc"]) and BMC_ADDRESS not in values:
        raise no_bmc_address(values[keys[0]].mark)


def check_keys(found: LocatedMap, known: Sequence[str], where: str) -> None:
    """Raises InventoryError for the first unknown key, with the nearest known one."""
    for key in found:
        if key not in known:
            also = _ALSO_CALLED.get(key.lower())
            guess = (f"; did you mean {also}?" if also in known else did_you_mean(key, known)
                     or f"; known: {', '.join(known)}")
            raise InventoryError(f"unknown key {short(key)} in {where}{guess}", found.key_marks[key])


def described(value: Any) -> str:
    """A value as error messages show it."""
    if value is None:
        return "empty"
    if isinstance(value, LocatedMap):
        return "a map"
    if isinstance(value, LocatedList):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    return short(value) if isinstance(value, str) else f"the number {value}"


@dataclass(frozen=True)
class _Spot:
    """One value of an entry: its key for messages, where it stands, and how a number was spelt."""

    key: str
    value: Any
    mark: Mark
    written: str | None

    def wrong(self, expected: str) -> InventoryError:
        """The error for a value of the wrong kind."""
        return InventoryError(f"{self.key} is {described(self.value)}, expected {expected}", self.mark)

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
        if (not isinstance(value, str) or not value or len(value) > 1024 or not value.isprintable()
            or value != value.strip()):
            raise self.wrong(expected)
        return value


class EntryReader:
    """Reads entries: every key of a node, by a function of its own."""

    def __init__(
        self, folder: Path, known_skus: Collection[str] | None, known_profiles: Collection[str] | None,
    ) -> None:
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
            "boot_mac": _macs,
            "unread": _unread,
        }
        self._keys = (*self._readers, "become", "ports", "labels", "burnin", "bmc", "limits")

    def entry(self, found: LocatedMap) -> Values:
        """The checked values of one entry; those of labels, ports, burnin, bmc and limits one by one."""
        check_keys(found, self._keys, "an entry for nodes")
        values: Values = {}
        for key, value in found.items():
            spot = _Spot(key, value, found.value_marks[key], found.written.get(key))
            if key == "become":
                if "privilege" in found:
                    raise InventoryError("become and privilege set the same thing; keep one of them",
                                         found.key_marks[key])
                # The older, shorter way to write `privilege: become`.
                values["privilege"] = LocatedValue(
                    Privilege.BECOME if _boolean(spot) else Privilege.UNPRIVILEGED, found.key_marks[key])
            elif key == "labels":
                values.update(_labels(spot))
            elif key == "ports":
                values.update(_ports(spot))
            elif key == "burnin":
                values.update(_burnin(spot))
            elif key == "limits":
                values.update(_limits(spot))
            elif key == "bmc":
                values.update(self._bmc(spot, found.key_marks[key]))
            else:
                values[key] = LocatedValue(self._readers[key](spot), found.key_marks[key])
        return values

    def _address(self, spot: _Spot) -> str:
        expected = "a host name or an IP address"
        text = spot.text(expected)
        if (found := host(text)) is not None:
            return found
        before, _, after = text.rpartition(":")
        if after.isdigit() and host(before) is not None:
            raise spot.wrong(f"{expected} alone; give the port as a key of its own: port: {after}")
        raise spot.wrong(expected)

    def _files(self, spot: _Spot) -> tuple[str, ...]:
        return tuple(self._file(item.text("a file name or a list of them")) for item in spot.items())

    def _bmc(self, spot: _Spot, mark: Mark) -> Values:
        if not isinstance(spot.value, LocatedMap):
            return {BMC_ADDRESS: LocatedValue(self._bmc_address(spot), mark)}
        readers: dict[str, Callable[[_Spot], Any]] = {
            "address": self._bmc_address,
            "port": self._readers["port"],
            "user": self._readers["user"],
            "protocol": lambda inner: Speaks(_one_of(inner, _SPEAKS)),
            "password": self._password,
            "tls": self._tls,
            "system": _system,
        }
        check_keys(spot.value, tuple(readers), "bmc")
        return {("bmc", key): LocatedValue(readers[key](spot.within(key)), spot.value.key_marks[key])
                for key in spot.value}

    def _bmc_address(self, spot: _Spot) -> str:
        # what stands before it may be a password, and is not repeated
        if isinstance(spot.value, str) and "@" in spot.value:
            raise InventoryError(f"{spot.key} contains an @, expected a host name or an IP address; give "
                                 "user: and password: as keys of their own", spot.mark)
        return self._address(spot)

    def _password(self, spot: _Spot) -> Secret:
        """Where the password is; a literal password is refused, and never printed."""
        if not isinstance(spot.value, LocatedMap):
            raise InventoryError(
                f"{spot.key} must not be written in the inventory; name its source: {_PLACES}", spot.mark)
        check_keys(spot.value, tuple(source.value for source in SecretFrom), spot.key)
        if len(spot.value) != 1:
            raise InventoryError(f"{spot.key} names {len(spot.value)} sources, expected one of {_PLACES}",
                                 spot.mark)
        key = next(iter(spot.value))
        inner = spot.within(key)
        source = SecretFrom(key)
        if source is SecretFrom.COMMAND:
            return Secret(source,
                          _words(inner, "a program and its words, such as [pass, show, \"bmc/{node}\"]"))
        text = inner.text("the name of a file" if source is SecretFrom.FILE
                          else "the name of an environment variable")
        if source is SecretFrom.FILE:
            text = self._file(text)
        elif not _VARIABLE.fullmatch(text.replace("{node}", "_")):
            raise inner.wrong("the name of an environment variable, such as BMC_PASSWORD")
        return Secret(source, (text,))

    def _tls(self, spot: _Spot) -> str:
        expected = "pin, verify or the path of a CA file"
        text = spot.text(expected)
        if text in ("pin", "verify"):
            return text
        if "/" not in text:
            raise spot.wrong(f"{expected}, with a / in it{did_you_mean(text, ('pin', 'verify'))}")
        return self._file(text)

    def _file(self, text: str) -> str:
        return str(self._folder / os.path.expanduser(text))  # noqa: PTH111  (knows ~user, never raises)


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
    """The name of a SKU or profile, which must be a known one, if those are given."""
    name = spot.text(f"the name of a {kind} file")
    if known is not None and name not in known:
        raise InventoryError(undefined(kind, name, known), spot.mark)
    return name


def undefined(kind: str, name: str, known: Collection[str]) -> str:
    """The message for an unknown SKU or profile."""
    guess = did_you_mean(name, known) or f"; known: {', '.join(sorted(known)) or 'none'}"
    return f"undefined {kind} {short(name)}{guess}"


def _system(spot: _Spot) -> str:
    expected = "the id of a Redfish system, such as Self or System.Embedded.1"
    text = spot.text(expected)
    if _SYSTEM.fullmatch(text) is None:
        raise spot.wrong(expected)
    return text


def _boolean(spot: _Spot) -> bool:
    if not isinstance(spot.value, bool):
        raise spot.wrong("true or false")
    return spot.value


def _unread(spot: _Spot) -> tuple[str, ...]:
    """Patterns of network devices; they are passed on a command line."""
    expected = 'names or PCI addresses of network devices, such as [mlx5_4, "0000:05:00.*"]'
    found = tuple(item.text(expected) for item in spot.items())
    if (len(found) > _MOST_UNREAD or any(_DEVICE.fullmatch(text) is None or not text.strip("*?")
                                         for text in found)):
        raise spot.wrong(expected)
    # sysfs writes addresses in lower case.
    return tuple(pci_address(text) or (text.lower() if ":" in text else text) for text in found)


def _macs(spot: _Spot) -> tuple[str, ...]:
    """Hardware addresses, each once, in lower case with colons."""
    expected = "a hardware address such as 52:54:00:12:34:56, or a list of them"
    found: list[str] = []
    for item in spot.items():
        address = mac_address(item.text(expected))
        if address is None:
            raise item.wrong(expected)
        found += [address] if address not in found else []
    if not 0 < len(found) <= _MOST_MACS:
        raise spot.wrong(expected)
    return tuple(found)


def mac_address(text: str) -> str | None:
    """The form that Linux gives an Ethernet address ("52-54-00-AB-CD-EF" is "52:54:00:ab:cd:ef"), or None for
    what is none, or is one of no single port: a group's (its lowest bit is set, IEEE 802) or zeros."""
    plain = text.lower().replace("-", ":")
    if _MAC.fullmatch(plain) is None or int(plain[:2], 16) & 1 or not plain.strip("0:"):
        return None
    return plain


def _whole(spot: _Spot, low: int, high: int, expected: str) -> int:
    if type(spot.value) is not int or not low <= spot.value <= high:
        raise spot.wrong(expected)
    return spot.value


def _word(spot: _Spot, expected: str) -> str:
    """Text that a command line cannot take for an option or for several words."""
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
    check_keys(found, ("state", "owner", "until"), "lifecycle")
    if "state" not in found:
        raise InventoryError(f"lifecycle has no state, expected one of {', '.join(_STATES)}", spot.mark)
    owner = spot.within("owner").text() if found.get("owner") is not None else None
    return Lifecycle(_state(spot.within("state")), owner,
                     _date(spot.within("until")) if found.get("until") is not None else None)


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
            raise InventoryError(f"{short(key)} is not a label: expected letters, digits, '.', '-', '_', '/'",
                                 mark)
        inner = spot.within(key)
        written = inner.written if isinstance(inner.value, bool) else None
        values["labels", key] = LocatedValue(written or inner.text(), mark)
    return values


def _ports(spot: _Spot) -> Values:
    if not isinstance(spot.value, LocatedMap):
        raise spot.wrong("a map from PCI addresses to {role, rail, leaf, expect}")
    values: Values = {}
    for key in spot.value:
        mark = spot.value.key_marks[key]
        address = pci_address(key)
        if address is None:
            raise InventoryError(f"{short(key)} is not a PCI address, expected one such as 0000:18:00.0",
                                 mark)
        if ("ports", address) in values:
            raise InventoryError(
                f"duplicate key: port {address} is already at {values['ports', address].mark}", mark)
        values["ports", address] = LocatedValue(_port(spot.within(key)), mark)
    return values


def _burnin(spot: _Spot) -> Values:
    if not isinstance(spot.value, LocatedMap):
        raise spot.wrong("a map with python, ranks, watts")
    check_keys(spot.value, ("python", "ranks", "watts"), "burnin of a node")
    readers: dict[str, Callable[[_Spot], Any]] = {
        "python": lambda inner: _words(inner, "a program and its words, such as [/opt/torch/bin/python3] or "
                                              "[docker, exec, -i, torch, python3]"),
        "ranks": lambda inner: _whole(inner, 1, 1024, "a number of processes from 1 to 1024"),
        "watts": lambda inner: float(
            _whole(inner, 1, 1_000_000, "the most watts that the whole node draws, such as 10200")),
    }
    return {("burnin", key): LocatedValue(readers[key](spot.within(key)), spot.value.key_marks[key])
            for key in spot.value}


def _limits(spot: _Spot) -> Values:
    if not isinstance(spot.value, LocatedMap):
        raise spot.wrong(f"a map with {', '.join(STAGES)}")
    check_keys(spot.value, STAGES, "limits")
    values: Values = {}
    for key in spot.value:
        inner = spot.within(key)
        try:
            values["limits", key] = LocatedValue(seconds(inner.value), spot.value.key_marks[key])
        except ValueError:
            raise inner.wrong(EXPECTED) from None
    return values


def _words(spot: _Spot, expected: str) -> tuple[str, ...]:
    """The words of a command; none goes through a shell."""
    found = tuple(item.text(expected) for item in spot.items())
    if not 0 < len(found) <= _MOST_WORDS or found[0].startswith("-"):
        raise spot.wrong(expected)
    return found


def _port(spot: _Spot) -> PortPlan:
    if not isinstance(spot.value, LocatedMap):
        raise spot.wrong("a map with role, rail, leaf, expect")
    check_keys(spot.value, ("role", "rail", "leaf", "expect"), "a port")
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
    """The full lower-case form that Linux gives a PCI address ("18:00.0" is "0000:18:00.0"), or None."""
    match = _PCI.fullmatch(text)
    if match is None:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2].lower()}:{match[3].lower()}.{match[4]}"
