"""Which machine a node is, by its own report, which may hold anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from inventory.text import clean
from inventory.transport import answer
from inventory.transport.base import Failure, Reply, Stage

_MOST = 1 << 16
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# What makers leave where a number should be.
_NO_NUMBER = re.compile(
    r"[0 .:-]*|[0f-]*|n/?a|none|unknown|empty|not (specified|available|applicable)|default string|"
        r"to be filled by o\.e\.m\.?|system serial number|(0?123456789)[0-9a-f]*|"
        r"03000200-0400-0500-0006-000700080009", re.IGNORECASE)


@dataclass(frozen=True)
class NodeIdentity:
    """Host name and boot, "" where it does not say; `unseen` says why serial and uuid could not be read. What
    makers leave in place of a number is none."""

    node: str
    name: str = ""
    machine: str = ""
    boot: str = ""
    serial: str = ""
    uuid: str = ""
    root: bool = False
    unseen: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    failure: Failure | None = None

    @property
    def keep(self) -> dict[str, str]:
        """As the store keeps it with the machine."""
        return {f"os.{name}": getattr(self, name) for name in _KEPT}


_KEPT = ("name", "machine", "boot", "serial", "uuid")


def who(reply: Reply) -> NodeIdentity:
    """What a node answered."""
    if reply.failure is not None:
        return NodeIdentity(
            reply.node, failure=Failure(reply.failure.stage, clean(reply.failure.reason, 300)))
    try:
        report = answer.document(reply.body, _MOST)
        unseen = {
            name: clean(why, 200) for name, why in report["unseen"].items() if name in ("serial", "uuid")}
        return NodeIdentity(
            reply.node, _text(report["name"]), _text(report["machine"]).lower(),
            _text(report["boot"]).lower(), number(_text(report["serial"])) or number(_text(report["tree"])),
            uuid(_text(report["uuid"])), report["root"] is True, unseen)
    except answer.UNREADABLE:
        return NodeIdentity(reply.node, failure=Failure(Stage.REPLY, "its answer cannot be read"))


def kept(node: str, message: Mapping[str, str]) -> NodeIdentity:
    """As `NodeIdentity.keep` gave it."""
    name, machine, boot, serial, uuid_ = (message.get(f"os.{key}", "") for key in _KEPT)
    return NodeIdentity(node, name, machine, boot, serial, uuid_)


def number(text: str) -> str:
    """A serial number, or "" for what makers leave in place of one."""
    text = text.strip()
    return "" if _NO_NUMBER.fullmatch(text) else text


def uuid(text: str) -> str:
    """A board's UUID in lower case, or "" for what is none."""
    text = text.strip().lower()
    return text if _UUID.fullmatch(text) and not _NO_NUMBER.fullmatch(text) else ""


def _text(value: Any) -> str:
    return clean(value, 200) if isinstance(value, str) else ""
