"""Facts as plain values that a file of cases can hold, and what of an expected value they do not show."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any

from healthcheck.facts.values import UNSUPPORTED, Fact, Partial, Unmeasured, readings


def shown(value: Any) -> Any:
    """Facts and named tuples as mappings of their fields, sets in order; what was not measured in words."""
    if isinstance(value, Unmeasured):
        return f"not measured: {value.reason}"
    if value is UNSUPPORTED:
        return "not supported"
    if isinstance(value, Partial):
        return {"partly": value.reason, "value": shown(value.value)}
    if isinstance(value, Enum):
        return shown(value.value)
    if isinstance(value, Fact):
        return shown(readings(value))
    if dataclasses.is_dataclass(value):
        return {field.name: shown(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return shown(value._asdict())
    if isinstance(value, Mapping):
        return {shown(key) if isinstance(key, (int, str)) else str(shown(key)): shown(one)
                for key, one in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(map(shown, value), key=str)
    return [shown(one) for one in value] if isinstance(value, (tuple, list)) else value


def unlike(expected: Any, found: Any, where: str = "") -> Iterator[str]:
    """Where the shown value is not as expected. A mapping expects its own keys alone, an empty one no keys;
    for a list it expects the members of these names. A list expects each of its members and no others."""
    if isinstance(expected, dict) and isinstance(found, list):
        found = {one["name"]: one for one in found if isinstance(one, dict) and "name" in one}
    if isinstance(expected, dict) and isinstance(found, dict) and expected:
        for key, one in expected.items():
            if key in found:
                yield from unlike(one, found[key], f"{where}.{key}")
            else:
                yield f"{where} has no {key}, but {', '.join(map(str, found))}"
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from unlike(one, other, f"{where}[{number}]")
    elif expected != found or isinstance(expected, bool) is not isinstance(found, bool):
        yield f"{where or 'it'} is {found!r}, expected {expected!r}"
