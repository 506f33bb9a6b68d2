"""The desired base configuration, from `base:` in rules/bringup.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from healthcheck.config.entry import kind_of, nearest
from inventory.errors import Mark, RulesError

ITEMS = ("time", "host_name", "memlock", "persistence", "nouveau", "peermem", "sysctl")
"""The items that a node looks at, in their order. The clock's distance from the head's is seen from here."""
_SWITCHES = ("time", "synchronised", "host_name", "memlock", "persistence", "nouveau", "peermem")
_KEYS = (*_SWITCHES, "clock_seconds", "sysctl")
_NAME = re.compile(r"[a-z0-9_]+(?:\.[A-Za-z0-9_-]+){1,6}")
_VALUE = re.compile(r"[A-Za-z0-9_.:/,-]+(?: [A-Za-z0-9_.:/,-]+)*")
_LONGEST_CLOCK, _MOST_PARAMETERS, _LONGEST_VALUE = 3600, 64, 200


@dataclass(frozen=True)
class BaseSettings:
    """Which items are wanted. `clock_seconds` None: not compared. `sysctl`: kernel parameters by name."""

    time: bool = True
    synchronised: bool = True
    clock_seconds: float | None = 5.0
    host_name: bool = True
    memlock: bool = True
    persistence: bool = True
    nouveau: bool = True
    peermem: bool = True
    sysctl: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def document(self) -> dict[str, Any]:
        """As it is sent to a node."""
        return {**{name: getattr(self, name) for name in _SWITCHES}, "sysctl": dict(self.sysctl)}


def desired(message: Mapping[str, Any]) -> BaseSettings:
    """What this section says; missing keys are as in `BaseSettings`. Raises RulesError, with the place."""
    found: dict[str, Any] = {}
    for key, given in message.items():
        if key not in _KEYS:
            raise RulesError(f"base: unknown key {key}; there are {', '.join(_KEYS)}{nearest(key, _KEYS)}",
                             _mark(message, key))
        if key == "sysctl":
            found[key] = _sysctl(message, given)
        elif key == "clock_seconds":
            found[key] = _seconds(message, given)
        elif given is None or isinstance(given, bool):
            found[key] = bool(given)
        else:
            raise RulesError(
                f"base: {key}: expected true or false, got {kind_of(given)}", _mark(message, key))
    return BaseSettings(**found)


def _seconds(message: Mapping[str, Any], given: Any) -> float | None:
    if given is None or given is False:
        return None
    if type(given) not in (int, float) or not 0.1 <= given <= _LONGEST_CLOCK:
        raise RulesError(f"base: clock_seconds: expected a number from 0.1 to {_LONGEST_CLOCK}, or null, got "
                         f"{kind_of(given)}", _mark(message, "clock_seconds"))
    return float(given)


def _sysctl(message: Mapping[str, Any], given: Any) -> Mapping[str, str]:
    if given is None or given is False:
        return MappingProxyType({})
    if not isinstance(given, Mapping) or len(given) > _MOST_PARAMETERS:
        raise RulesError(f"base: sysctl: expected a map of at most {_MOST_PARAMETERS} kernel parameters, got "
                         f"{kind_of(given)}", _mark(message, "sysctl"))
    found = {}
    for name, value in given.items():
        if _NAME.fullmatch(name) is None:
            raise RulesError("base: sysctl: expected a name such as kernel.numa_balancing, got "
                             f"{ascii(name)[:60]}", _mark(given, name))
        if value is None:
            continue
        text = str(value) if type(value) in (int, str) else ""
        if len(text) > _LONGEST_VALUE or _VALUE.fullmatch(text) is None:
            raise RulesError(f"base: sysctl: {name}: expected a number or plain words, got {kind_of(value)}",
                             _mark(given, name))
        found[name] = text
    return MappingProxyType(found)


def _mark(message: Mapping[str, Any], key: str) -> Mark | None:
    """Where a mapping that came from a file has this key."""
    marks = getattr(message, "value_marks", {})
    place = marks.get(key)
    return place if isinstance(place, Mark) else None
