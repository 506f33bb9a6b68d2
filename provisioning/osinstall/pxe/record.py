"""How one installation stands, as kept in the state folder, and how it goes on. Pure: times and secrets are
given.

A record names the installation by its node and number. It holds two secrets while it is on its way: the
`ticket`, which is in the addresses that the installer fetches, and the `token`, with which the installed
system signs its phone-home. Both are dropped when it ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from provisioning.osinstall.pxe.machines import PxeMachine

SCHEMA = "muster.installation/1"
MOST_BYTES = 64 * 1024
# The same thing fetched again within so many seconds is not written again.
_AGAIN_S = 5.0


class InstallationStage(Enum):
    """How far it has come."""

    ARMED = "armed"             # nothing was fetched yet
    BOOT = "boot"               # its boot script was fetched
    SEED = "seed"               # the installer fetched its seed
    WRITTEN = "written"         # the installer says that the disk is written: boots go to the disk
    DONE = "done"               # the installed system phoned home
    FAILED = "failed"
    DISARMED = "disarmed"       # a person ended it


_ENDED = (InstallationStage.DONE, InstallationStage.FAILED, InstallationStage.DISARMED)


@dataclass(frozen=True)
class Installation:
    """One record. `began` and `since` (of the stage) and `until` are epoch seconds; `why` is a clean line;
    `digest` is the SHA-256 of the phone-home that was accepted."""

    node: str
    number: int
    image: str
    macs: tuple[str, ...]
    stage: InstallationStage
    began: float
    since: float
    until: float
    ticket: str = ""
    token: str = ""
    host_keys: tuple[str, ...] = ()
    digest: str = ""
    why: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more can come of it."""
        return self.stage in _ENDED

    def active(self, now: float) -> bool:
        """Whether it is on its way and has time left."""
        return not self.ended and now < self.until


def armed(
    old: Installation | None, machine: PxeMachine, now: float, seconds: float, ticket: str, token: str,
) -> Installation:
    """The next installation of a machine; the one that is on its way, unchanged, where it is the same."""
    if old is not None and old.active(now) and (old.image, old.macs) == (machine.image.name, machine.macs):
        return old
    return Installation(machine.name, 1 if old is None else old.number + 1, machine.image.name, machine.macs,
                        InstallationStage.ARMED, now, now, now + seconds, ticket, token)


def reached(old: Installation, stage: InstallationStage, now: float) -> Installation:
    """After something was fetched. A written disk stays so: from then on nothing may install it again."""
    if not old.active(now) or old.stage is InstallationStage.WRITTEN:
        return old
    if old.stage is stage and 0 <= now - old.since < _AGAIN_S:
        return old
    return replace(old, stage=stage, since=now)


def done(old: Installation, host_keys: tuple[str, ...], digest: str, now: float) -> Installation:
    """After its phone-home was accepted; the secrets are spent."""
    return _ended(replace(old, host_keys=host_keys, digest=digest), InstallationStage.DONE, "", now)


def failed(old: Installation, why: str, now: float) -> Installation:
    """After its installer gave up, or its time was over."""
    return old if old.ended else _ended(old, InstallationStage.FAILED, why, now)


def disarmed(old: Installation, now: float) -> Installation:
    """After a person ended it; nothing is served for it any more."""
    return old if old.ended else _ended(old, InstallationStage.DISARMED, "", now)


def forgotten(old: Installation, now: float) -> Installation:
    """After a person wants the machine installed again, however the last installation ended."""
    if old.stage is InstallationStage.DISARMED:
        return old
    return _ended(replace(old, host_keys=(), digest=""), InstallationStage.DISARMED, "", now)


def is_of(record: Installation, macs: tuple[str, ...]) -> bool:
    """Whether it is of the machine with these ports, as far as known: a machine may be replaced."""
    return not macs or bool(set(macs) & set(record.macs))


def overdue(old: Installation) -> str:
    """What is wrong with one whose time is over."""
    return f"its time is over, and it came no further than: {at_stage(old.stage)}"


def at_stage(stage: InstallationStage) -> str:
    """A stage in words."""
    return {
        InstallationStage.ARMED: "armed, and it has not asked for its boot script",
        InstallationStage.BOOT: "it fetched its boot script",
        InstallationStage.SEED: "its installer fetched its seed",
        InstallationStage.WRITTEN: "its disk is written, and the installed system has not phoned home",
    }.get(stage, stage.value)


def _ended(old: Installation, stage: InstallationStage, why: str, now: float) -> Installation:
    return replace(old, stage=stage, since=now, ticket="", token="", why=why)


def written(record: Installation) -> bytes:
    """The record as a file holds it."""
    return json.dumps({
        "schema": SCHEMA, "node": record.node, "number": record.number, "image": record.image,
        "macs": list(record.macs), "stage": record.stage.value, "began": record.began, "since": record.since,
        "until": record.until, "ticket": record.ticket, "token": record.token,
        "host_keys": list(record.host_keys), "digest": record.digest, "why": record.why}, indent=1).encode()


def read(data: bytes) -> Installation:
    """The record that a file holds. Raises ValueError with what is wrong, which quotes nothing of it."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise ValueError(f"it is no {SCHEMA}")
    try:
        return Installation(
            _text(found, "node"), _number(found, "number", int), _text(found, "image"),
            _texts(found, "macs"), InstallationStage(found["stage"]), _number(found, "began", float),
            _number(found, "since", float), _number(found, "until", float), _text(found, "ticket"),
            _text(found, "token"), _texts(found, "host_keys"), _text(found, "digest"), _text(found, "why"))
    except (KeyError, ValueError):
        raise ValueError("a field of it is missing or wrong") from None


def _text(found: Mapping[str, Any], key: str) -> str:
    if not isinstance(found[key], str):
        raise ValueError(key)
    return str(found[key])


def _texts(found: Mapping[str, Any], key: str) -> tuple[str, ...]:
    if not isinstance(found[key], list) or not all(isinstance(one, str) for one in found[key]):
        raise ValueError(key)
    return tuple(found[key])


def _number(found: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
    if isinstance(found[key], bool) or not isinstance(found[key], (int, kind)):
        raise ValueError(key)
    return kind(found[key])
