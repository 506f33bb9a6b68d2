"""What each key of `bringup.yaml` may be: forms that read one value, by section and key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from healthcheck.certify.certificate import STAGES
from healthcheck.config.valuetypes import (
    FLAG,
    GLOB,
    NAME,
    TEXT,
    ValueType,
    choice,
    integer,
    list_of,
    number,
    optional,
)
from healthcheck.model.outcome import Owner
from inventory.located import LocatedList, LocatedMap
from inventory.model import Secret, SecretFrom
from provisioning.bmc.base import BootTarget
from provisioning.bmc.compare import KINDS
from provisioning.bmc.passwords import LEAST, MOST
from provisioning.bmc.redfish.state import no_image
from provisioning.bringup.policy.model import MissingAttribute, UpdateRoute

RANDOM = "random"       # each controller has a password that no other has
_BURNIN_STAGES = ("node", "rail", "leaf-pairs", "cross-pairs", "all", "train", "soak")
_MOST_MINUTES, _MOST_AT_ONCE, _MOST_TEXT, _MOST_SETTINGS, _MOST_WORDS = 60 * 24 * 14, 4096, 200, 200, 32

_MOST_RESTARTS = 1000


def words(name: str, members: Iterable[str]) -> type[Enum]:
    """An Enum whose members are these words."""
    return Enum(name, {one: one for one in members})    # type: ignore[return-value]


def _line(given: Any) -> str:
    if not isinstance(given, str) or not given.strip() or not given.isprintable() or len(given) > _MOST_TEXT:
        raise ValueError
    return given


def _settings(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, LocatedMap) or not 1 <= len(given) <= _MOST_SETTINGS:
        raise ValueError
    return given


def _kinds(given: Any) -> Any:
    if not isinstance(given, LocatedList) or len(given) > len(KINDS):
        raise ValueError
    return given


def _burnin_stages(given: Any) -> str | None:
    if given is None:
        return None
    named = [one.strip() for one in given.split(",")] if isinstance(given, str) else []
    if not named or not set(named) <= set(_BURNIN_STAGES):
        raise ValueError
    return ",".join(named)


def _password_store(given: Any) -> Any:
    """None, ("folder", PATH), or ("command", its words, one of which has the node in it)."""
    if given is None:
        return None
    kind, value = _only(given)
    if kind == "folder":
        return kind, _line(value)
    words = _argv(value)
    if kind != "command" or not any("{node}" in word for word in words):
        raise ValueError
    return kind, words


def _password_source(given: Any) -> Secret | None:
    if given is None:
        return None
    kind, value = _only(given)
    source = SecretFrom(kind)
    return Secret(source, _argv(value) if source is SecretFrom.COMMAND else (_line(value),))


def _only(given: Any) -> tuple[str, Any]:
    """The one key of a map, and its value."""
    if not isinstance(given, LocatedMap) or len(given) != 1:
        raise ValueError
    return next(iter(given.items()))


def _payload(given: Any) -> tuple[str, str, str]:
    """Whether a file or a URL, which one, and the digest in lower case."""
    if not isinstance(given, LocatedMap) or len(given) != 2 or "sha256" not in given:
        raise ValueError
    (kind,) = given.keys() - {"sha256"}
    where, digest = _line(given[kind]), _line(given["sha256"]).lower()
    if kind not in ("file", "url") or _SHA256.fullmatch(digest) is None:
        raise ValueError
    if kind == "url" and no_image(where):
        raise ValueError
    return kind, where, digest


def _argv(given: Any) -> tuple[str, ...]:
    if not isinstance(given, LocatedList) or not 1 <= len(given) <= _MOST_WORDS:
        raise ValueError
    return tuple(_line(word) for word in given)


_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LINE = ValueType(f"a line of at most {_MOST_TEXT} characters", _line)
STEP: Mapping[str, ValueType] = {
    "owner": choice(Owner), "minutes": number(0.01, _MOST_MINUTES), "at_once": integer(1, _MOST_AT_ONCE),
    "domain_at_once": optional(integer(1, _MOST_AT_ONCE)), "gather_seconds": number(0, 86400),
}
_OF: Mapping[str, ValueType] = {"vendor": _LINE, "skus": list_of("names of SKUs", NAME), "enabled": FLAG}
DESIRED: Mapping[str, Mapping[str, ValueType]] = {
    "bios": {
        **_OF, "settings": ValueType(f"a map of 1 to {_MOST_SETTINGS} attributes", _settings),
        "absent": choice(MissingAttribute), "source": TEXT},
    "firmware": {**_OF, "component": _LINE, "at_least": _LINE, "exactly": _LINE, "owner": choice(Owner),
        "by": choice(UpdateRoute),
        "payload": ValueType("{file: PATH, sha256: DIGEST} or {url: ADDRESS, sha256: DIGEST}, the address "
                             "without a user or a password, the digest of 64 hex digits", _payload)}}
SECTIONS: Mapping[str, Mapping[str, ValueType]] = {
    "run": {"width": integer(1, _MOST_AT_ONCE), "grace_seconds": number(0, 3600)},
    "stop": {"share": number(0.01, 1), "least": integer(1, 100_000), "refused_logins": integer(1, 100_000)},
    "power": {
        "off_seconds": number(0.1, 3600), "on_seconds": number(0.1, 3600),
        "bios_minutes": number(0.01, _MOST_MINUTES), "answer_minutes": number(0, _MOST_MINUTES)},
    "boot": {
        "target": choice(
            words("_Boots", (one.value for one in (BootTarget.NONE, BootTarget.PXE, BootTarget.DISK))))},
    "parts": {
        "may_be_empty": ValueType(
            f"a list of kinds of parts ({', '.join(KINDS)})", _kinds, item=choice(words("_Parts", KINDS))),
        "log_days": number(0, 3660), "doubles_seconds": number(0, 3600)},
    "delivery": {"file": optional(_LINE)},
    "accounts": {
        "password": choice(words("_Passwords", ("keep", RANDOM))), "length": integer(LEAST, MOST),
        "store": ValueType("{folder: PATH}, {command: [PROGRAM, ...]}, or null", _password_store),
        "first": ValueType("{file: PATH}, {env: NAME}, {command: [PROGRAM, ...]}, or null", _password_source),
        "operator": optional(NAME)},
    "ssh": {"host_keys": _LINE},
    "burnin": {
        "length": choice(words("_Lengths", STAGES)),
        "stages": ValueType(f"stages by commas ({', '.join(_BURNIN_STAGES)}), or null for all of the length",
                       _burnin_stages)},
    "checks": {"profile": NAME, "snapshots": integer(1, 100), "between_seconds": number(0, 86400)},
    "soak": {
        "cold": integer(0, _MOST_RESTARTS), "warm": integer(0, _MOST_RESTARTS),
        "off_seconds": number(1, 3600), "boot_minutes": number(0.1, 24 * 60),
        "settle_seconds": number(0, 3600), "slow": number(1.05, 100), "slow_seconds": number(0, 3600)},
    "console": {"capture": FLAG, "at_once": integer(1, _MOST_AT_ONCE)},
    "leased": {"rules": list_of("globs over ids of rules", GLOB)}}

# By section the former names of keys, which are still read.
FORMER = {"checks": {"looks": "snapshots"}}


def _setting(given: Any) -> str | int | bool:
    if not isinstance(given, (str, int)):
        raise ValueError
    return given if isinstance(given, int) else _line(given)


SETTING = ValueType("text, a whole number, true or false", _setting)
