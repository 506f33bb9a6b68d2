"""One node's entry in the snapshot as a value; a bad entry is an error, without defaults."""

from __future__ import annotations

from typing import Any, NamedTuple

_STATES = ("healthy", "degraded", "unhealthy", "unknown")
_KINDS = ("ok", "requalify", "revoked")


class GateCertificate(NamedTuple):
    """A node's certificate; `kind` is ok, revoked, or requalify (`cause`: age, rebooted, changed)."""

    id: str
    stage: str
    at: int
    kind: str
    cause: str
    asks: str       # the stage that is due
    why: str


class GateNode(NamedTuple):
    """One node; times are unix seconds. `origin` and `unknown` (ids of rules) belong to an UNKNOWN."""

    name: str
    lifecycle: str
    state: str
    origin: str
    unknown: tuple[str, ...]
    isolation: str
    why: str
    cordoned: str
    groups: tuple[str, ...]
    leaf: tuple[str, ...]
    domain: str
    looked: int | None
    certificate: GateCertificate | None
    versions: dict[str, str]


def gate_node(name: str, entry: Any) -> GateNode:
    """Parses an entry; raises ValueError with the missing or bad key."""
    if not isinstance(entry, dict):
        raise ValueError("it is not a map")
    versions = entry.get("versions")
    if not isinstance(versions, dict):
        raise ValueError("versions")
    state = _text(entry, "state")
    if state not in _STATES:
        raise ValueError("state")
    known = {key: held for key, held in versions.items() if isinstance(held, str) and held}
    looked = None if entry.get("looked") is None else _time(entry, "looked")
    return GateNode(
        name, _text(entry, "lifecycle"), state, _text(entry, "origin", ""), _texts(entry, "unknown"),
        _text(entry, "isolation"), _text(entry, "why", ""), _text(entry, "cordoned", ""),
        _texts(entry, "groups"), _texts(entry, "leaf"), _text(entry, "domain", ""),
        looked, _certificate(entry.get("certificate")), known,
    )


def _certificate(entry: Any) -> GateCertificate | None:
    if entry is None:
        return None
    if not isinstance(entry, dict):
        raise ValueError("certificate")
    kind = _text(entry, "kind")
    if kind not in _KINDS:
        raise ValueError("certificate: kind")
    id_, stage, at = _text(entry, "id"), _text(entry, "stage"), _time(entry, "at")
    return GateCertificate(id_, stage, at, kind, _text(entry, "cause", ""), _text(entry, "asks", ""),
                           _text(entry, "why", ""))


def _time(entry: dict[str, Any], key: str) -> int:
    found = entry.get(key)
    if type(found) is not int or not 0 <= found < 1 << 53:      # True is no time
        raise ValueError(key)
    return found


def _text(entry: dict[str, Any], key: str, otherwise: str | None = None) -> str:
    found = entry.get(key)
    if found is None and otherwise is not None:
        return otherwise
    if not isinstance(found, str):
        raise ValueError(key)
    return found


def _texts(entry: dict[str, Any], key: str) -> tuple[str, ...]:
    """One text counts as a list of one: a node hangs on one leaf, or on one of each rail."""
    found = entry.get(key)
    if found is None:
        return ()
    many = [found] if isinstance(found, str) else found
    if not isinstance(many, list) or not all(isinstance(each, str) for each in many):
        raise ValueError(key)
    return tuple(many)
