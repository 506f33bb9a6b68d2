"""Bring-ups in the store: each machine's state, its actions with their ledger lines, its problems,
and people's decisions on steps.

A person's word (begin, skip, retry) is one transaction; what the engine learns of
many machines at once `bringupnotes` writes down.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from healthcheck.store import ledger
from healthcheck.store.bringupnotes import LOGIN, QUEUED, TROUBLE, forget, mended, stood
from healthcheck.store.file import Store
from inventory.errors import UsageError
from inventory.text import short


@dataclass(frozen=True)
class MachineProgress:
    """One machine's state: `stand` is queued, waiting, trouble, done or left. `since` is when it came to
    its step, `again` when it is to be looked at again, `kept` what looks kept."""

    node: str
    began: float
    who: str
    step: str
    since: float
    stand: str
    message: str
    again: float | None
    looked: float | None
    ended: float | None
    kept: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def on_its_way(self) -> bool:
        """Whether it is neither done nor taken off."""
        return self.ended is None


@dataclass(frozen=True)
class TroubleLine:
    """One trouble of one machine, from when to when it was seen; `ended` is None while it holds."""

    node: str
    step: str
    what: str
    owner: str
    hand: str
    part: str
    slot: str
    serial: str
    began: float
    ended: float | None


@dataclass(frozen=True)
class ActionLine:
    """One action. `done` is None if unknown, `ended` None if unchecked since;
    an action that no longer `counts` may be repeated."""

    id: int
    node: str
    step: str
    key: str
    name: str
    change: tuple[str, ...]
    began: float
    ended: float | None
    done: bool | None
    message: str
    counts: bool
    line: int


@dataclass(frozen=True)
class SkipLine:
    """One step that a person had left out for one machine."""

    node: str
    step: str
    who: str
    why: str
    time: float


@dataclass(frozen=True)
class StepLine:
    """One machine's time in one step; `outcome` is so, skipped, retried, or None while it is in it;
    `why` is why it was skipped."""

    node: str
    step: str
    began: float
    ended: float | None
    outcome: str | None
    why: str


def progress(store: Store, nodes: Collection[str] | None = None) -> list[MachineProgress]:
    """The state of these machines, or of all ever started, by name."""
    found = [MachineProgress(**{**dict(row), "kept": MappingProxyType(json.loads(row["kept"]))})
             for row in store.rows("SELECT * FROM bringup ORDER BY node")]
    return _of(found, nodes)


def troubles(store: Store, open_only: bool = True, nodes: Collection[str] | None = None) -> list[TroubleLine]:
    """Problems for people to fix, open or past, in order of detection."""
    rows = store.rows("SELECT node, step, what, owner, hand, part, slot, serial, began, ended "
                      "FROM bringup_trouble ORDER BY id")
    return _of([TroubleLine(**dict(row)) for row in rows if row["ended"] is None or not open_only], nodes)


def actions(store: Store, nodes: Collection[str] | None = None) -> list[ActionLine]:
    """What was done to these machines, or to all, in the order in which it was begun."""
    return _of([ActionLine(**{**dict(row), "change": tuple(json.loads(row["change"])),
                              "counts": bool(row["counts"]),
                              "done": None if row["done"] is None else bool(row["done"])})
                for row in store.rows("SELECT * FROM bringup_action ORDER BY id")], nodes)


def skips(store: Store, nodes: Collection[str] | None = None, *, coming: bool = False) -> list[SkipLine]:
    """The steps that people had left out, in the order in which they said so; with `coming` those that are
    still to be, for what was said of a way that has ended does not count for the next one."""
    rows = store.rows("SELECT s.node, s.step, s.who, s.why, s.time FROM bringup_skip AS s "
                      "LEFT JOIN bringup AS b ON b.node = s.node WHERE s.ended IS NULL AND (NOT ? "
                      "OR b.ended IS NULL OR s.time > b.ended) ORDER BY s.id", coming)
    return _of([SkipLine(**dict(row)) for row in rows], nodes)


def steps(store: Store, nodes: Collection[str] | None = None) -> list[StepLine]:
    """How long each step took, oldest first."""
    rows = store.rows("SELECT node, step, began, ended, outcome, why FROM bringup_step ORDER BY id")
    return _of([StepLine(**dict(row)) for row in rows], nodes)


def begin(store: Store, nodes: Iterable[str], first: str, who: str, now: float) -> list[str]:
    """Has these machines begin their way at this step, but for those that are on it; gives which began."""
    began: list[str] = []
    with store.writing() as db:
        there = {row["node"]: row["ended"] for row in db.execute("SELECT node, ended FROM bringup")}
        for node in dict.fromkeys(nodes):
            if node in there and there[node] is None:
                continue
            if node in there:
                forget(db, node, None, now)
                # What was said since then is of the way that begins.
                db.execute("UPDATE bringup_skip SET ended = ? WHERE node = ? AND ended IS NULL AND time <= ?",
                           (now, node, there[node]))
            db.execute("INSERT OR REPLACE INTO bringup VALUES (?, ?, ?, ?, ?, ?, '', NULL, NULL, NULL, '{}')",
                       (node, now, who, first, now, QUEUED))
            began.append(node)
    return began


def skip(
    store: Store, nodes: Iterable[str], step: str, who: str, why: str, now: float, *, order: Sequence[str],
) -> dict[str, str]:
    """Has these machines pass over a step, which never counts as passed; gives what became of each,
    in words. `order` is that of all steps.

    A machine that is in the step, in trouble or not, goes on with the next one as
    soon as a run looks at it. Raises UsageError.
    """
    if step not in order:
        raise UsageError(f"there is no step {short(step)}: expected one of {', '.join(order[:-1])}")
    if step == order[-1]:
        raise UsageError(f"{step} is the end of the way, and cannot be skipped; to set it by hand: muster "
                         "inventory lifecycle NODE service")
    if not why.strip():
        raise UsageError(f"to skip {step} takes a reason, which the ledger keeps: give --reason")
    messages: dict[str, str] = {}
    with store.writing() as db:
        there = {row["node"]: row for row in db.execute("SELECT node, step, stand, ended, kept FROM bringup")}
        for node in dict.fromkeys(nodes):
            row = there.get(node)
            at = row["step"] if row is not None and row["ended"] is None else None
            if at is not None and order.index(at) > order.index(step):
                messages[node] = f"is past {step} already: nothing to skip"
                continue
            if row is not None and row["ended"] is not None:
                db.execute("UPDATE bringup_skip SET ended = ? WHERE node = ? AND step = ? AND ended IS NULL "
                           "AND time <= ?",
                           (now, node, step, row["ended"]))
            new = db.execute("INSERT INTO bringup_skip (node, step, who, why, time) VALUES (?, ?, ?, ?, ?) "
                             "ON CONFLICT DO NOTHING",
                             (node, step, who, why, now)).rowcount
            if not new:
                messages[node] = f"{step} is to be skipped already"
                continue
            if at == step and row is not None and row["stand"] == TROUBLE:
                mended(db, node, now)
                stood(db, node, QUEUED, f"{who} had {step} skipped", again=now, kept=_may_login(row["kept"]))
            messages[node] = f"{step} will be skipped, and never counts as passed"
            ledger.done(db, now, who, f"bringup skip {step}", node, why, "", messages[node])
    return messages


def retry(store: Store, nodes: Iterable[str], who: str, now: float) -> dict[str, str]:
    """Restarts the failed step of these machines; returns a message for each.

    Their troubles end, and actions from before do not count any more:
    what must be done once only may be done again.
    """
    messages: dict[str, str] = {}
    with store.writing() as db:
        there = {row["node"]: row for row in db.execute("SELECT node, step, stand, kept FROM bringup")}
        for node in dict.fromkeys(nodes):
            row = there.get(node)
            if row is None or row["stand"] != TROUBLE:
                messages[node] = ("is not in trouble: nothing to retry" if row is not None
                              else "was never begun: muster bringup run")
                continue
            mended(db, node, now)
            forget(db, node, row["step"], now)
            stood(db, node, QUEUED, f"{who} had {row['step']} begun anew", again=now,
                  kept=_may_login(row["kept"]))
            messages[node] = f"{row['step']} begins anew"
            ledger.done(db, now, who, f"bringup retry {row['step']}", node, "somebody looked", "",
                        messages[node])
    return messages


def _may_login(kept: str) -> dict[str, str]:
    """Clears what was kept, so that a refused login is tried again, as a person decided."""
    return {name: value for name, value in json.loads(kept).items() if name != LOGIN}


_Line = TypeVar("_Line", MachineProgress, TroubleLine, ActionLine, SkipLine, StepLine)


def _of(found: list[_Line], nodes: Collection[str] | None) -> list[_Line]:
    return [one for one in found if nodes is None or one.node in nodes]
