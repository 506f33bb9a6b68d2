"""Reads nodes' reports on their base configuration, which may hold anything, into values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any

from inventory.text import clean
from inventory.transport import answer
from inventory.transport.base import Reply, Stage
from provisioning.base.desired import ITEMS

MOST = 1 << 20          # bytes of an answer
_MOST_LINES, _LONGEST = 60, 200
CLOCK = "clock"


class ItemState(Enum):
    """How an item stands; the value is for people."""

    SO = "so"
    DIFFERS = "differs"
    WAIT = "on its way"
    TROUBLE = "trouble"
    ABSENT = "does not apply"
    OUT = "left out"
    UNSEEN = "not seen"


_STATES = {
    "so": ItemState.SO, "differs": ItemState.DIFFERS, "wait": ItemState.WAIT, "trouble": ItemState.TROUBLE,
    "absent": ItemState.ABSENT, "out": ItemState.OUT, "unseen": ItemState.UNSEEN}


@dataclass(frozen=True)
class ItemReport:
    """One item of one node; `change` is the diff that would make it so."""

    name: str
    how: ItemState
    message: str = ""
    change: tuple[str, ...] = ()


@dataclass(frozen=True)
class BaseReport:
    """What one check of a node showed. `stage` is how far it came without an answer, `message` then why.
    `changed` items were made so now; `failed` says why others could not be."""

    node: str
    items: tuple[ItemReport, ...] = ()
    message: str = ""
    stage: Stage | None = None
    ok: bool = True
    changed: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def answered(self) -> bool:
        """Whether it reported anything that can be read."""
        return bool(self.items)

    def of(self, *hows: ItemState) -> tuple[ItemReport, ...]:
        """The items that stand so."""
        return tuple(item for item in self.items if item.how in hows)

    @property
    def change(self) -> tuple[str, ...]:
        """The whole diff, each line with its item's name."""
        return tuple(f"{item.name}: {line}" for item in self.of(ItemState.DIFFERS) for line in item.change)

    @property
    def done(self) -> bool:
        """Whether nothing is left to do, and nothing to wait for."""
        return self.answered and self.ok and not self.of(
            ItemState.DIFFERS, ItemState.WAIT, ItemState.TROUBLE, ItemState.UNSEEN)


def read(reply: Reply, clock_seconds: float | None) -> BaseReport:
    """What a node answered, with its clock compared with ours within the two moments we know."""
    if reply.failure is not None:
        return BaseReport(
            reply.node, message=clean(reply.failure.reason, 300), stage=reply.failure.stage, ok=False)
    try:
        report = answer.document(reply.body, MOST)
        items = tuple(_item(one) for one in report["items"])
        if tuple(item.name for item in items) != ITEMS:
            raise ValueError
        message = clean(report["message"], 300) if isinstance(report["message"], str) else ""
        changed = tuple(name for name in report["changed"] if name in ITEMS)
        failed = {name: clean(why, 300) for name, why in report["failed"].items() if name in ITEMS}
        now = float(report["time"])
        if not math.isfinite(now):
            raise ValueError
    except answer.UNREADABLE:
        return BaseReport(reply.node, message="its answer cannot be read", stage=Stage.REPLY, ok=False)
    clock = _clock(now, reply, clock_seconds, next(item for item in items if item.name == "time"))
    return BaseReport(
        reply.node, (items[0], clock, *items[1:]), message, None, report["ok"] is True, changed, failed)


def _item(message: Mapping[str, Any]) -> ItemReport:
    how = _STATES[message["stand"]]
    change = tuple(clean(str(line), _LONGEST) for line in message["change"][:_MOST_LINES])
    if how is ItemState.DIFFERS and not change:
        raise ValueError
    return ItemReport(str(message["item"]), how, clean(str(message["message"]), 300), change)


def _clock(now: float, reply: Reply, most: float | None, service: ItemReport) -> ItemReport:
    """How far the clock is off at least; awaited while a time service is about to set it."""
    if most is None:
        return ItemReport(CLOCK, ItemState.OUT, "by base: of muster's rules")
    off = now - reply.received if now > reply.received else min(0.0, now - reply.started)
    if abs(off) <= most:
        return ItemReport(CLOCK, ItemState.SO, f"within {most:g} s of the head's")
    message = f"{abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} the head's, and {most:g} s are allowed"
    if service.how in (ItemState.WAIT, ItemState.DIFFERS):
        return ItemReport(CLOCK, ItemState.WAIT, message)
    return ItemReport(CLOCK, ItemState.TROUBLE,
                      f"{message}: compare both with a third clock, and step it: chronyc makestep")
