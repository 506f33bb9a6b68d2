"""Since when each thing that decides is as it is: rules, SKUs, baselines, muster itself;
and what nodes run, from when it last changed.

A row holds from the first sweep with it (`began`) to the last (`seen`);
of each kind and name the newest row is what holds. One without a digest says that it is gone.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from healthcheck.store.file import Store
from healthcheck.store.newest import firmware
from healthcheck.store.rows import insert
from healthcheck.store.telemetry import Telemetry

# What nodes run, by kind: noted where it changed, and for no node before.
OF_NODES = ("driver", "kernel", "firmware")
POLICY = "policy"           # noted by triage, and all else by sweeps
# All rules that there are, judged or not: what is judged for the first time need not be new.
RULESET, THERE = "ruleset", "there"
_THERE, _ENABLED = f'{{"{THERE}":true}}', "enabled"


@dataclass(frozen=True)
class Version:
    """One deciding input (rule, SKU, fault of the policy, version) by a digest. `said` is what it says, as a
    JSON object, empty where that is not kept: a change of it is shown in its words."""

    kind: str
    name: str
    digest: str
    said: str = ""


@dataclass(frozen=True)
class VersionSpan:
    """A version that held from the first sweep with it to the first with another, None where it holds;
    `before` is the last sweep with the one before it, None where there was none. That one had the digest
    `was` and said `said_before`, empty where that is not known."""

    kind: str
    name: str
    digest: str
    began: float
    before: float | None
    after: float | None = None
    was: str = ""
    said: str = ""
    said_before: str = ""

    def holds(self, now: float) -> bool:
        """Whether it held at that time."""
        return self.began <= now and (self.after is None or now < self.after)


def note(
    db: sqlite3.Connection, versions: Iterable[Version], who: str, now: float,
    unjudged: Collection[str] = (), latest: float = float("inf"),
) -> None:
    """Writes down, inside a transaction, what a sweep at `now` was judged by, and what of such kinds is gone.
    An older sweep that is stored late changes nothing; what is later than `latest` was stored by a clock that
    was ahead, and is of now. A rule that this sweep did not judge is as it was, unless it was switched on or
    off."""
    db.execute("UPDATE version SET began = min(began, ?), seen = min(seen, ?) WHERE seen > ?",
               (now, now, latest))
    newest = {(row[0], row[1]): (row[2], row[3], row[4], row[5]) for row in db.execute(_NEWEST)}
    versions = tuple(versions)
    last_seen: dict[str, float] = {}
    for (kind, _), row in newest.items():
        last_seen[kind] = max(row[2], last_seen.get(kind, 0.0))
    there = content_of(newest.get((RULESET, RULESET), (0, "", 0.0, ""))[3]).get("rules", ())
    for one in versions:
        number, digest, seen, said = newest.pop((one.kind, one.name), (0, "", 0.0, ""))
        if number and now < seen:
            continue
        if one.kind == "rule" and one.name in unjudged and not (number and _switched(said, one.said)):
            continue
        if number and digest == one.digest and not differs(said, one.said):
            db.execute("UPDATE version SET seen = ?, content = ? WHERE id = ?",
                       (now, said if said == one.said else _joined(said, one.said), number))
        elif not number and one.kind == "rule" and one.name in there:
            _begin(db, replace(one, said=_joined(one.said, _THERE)), who, now, now)
        else:
            _begin(db, one, who, now, now)
    kinds = {one.kind for one in versions} - {"muster"}
    # What was gone before such things were noted was no change of now.
    for (kind, name), (_, digest, seen, _) in newest.items():
        if kind in kinds and digest and seen <= now and (name in there if kind == "rule"
                                                         else seen == last_seen.get(kind)):
            _begin(db, Version(kind, name, ""), who, now, now)


def differs(said: str, other: str) -> bool:
    """Whether two texts of one thing differ in what both speak of: a newer muster may say more."""
    one, two = content_of(said), content_of(other)
    return any(one[key] != two[key] for key in one.keys() & two.keys())


def _joined(said: str, more: str) -> str:
    return json.dumps({**content_of(said), **content_of(more)}, separators=(",", ":")) if more else said


def content_of(said: str) -> Mapping[str, Any]:
    """What a version says, by key; nothing where that was not kept."""
    found = json.loads(said) if said else {}
    return found if isinstance(found, dict) else {}


def _switched(said: str, other: str) -> bool:
    one, two = content_of(said), content_of(other)
    return _ENABLED in one and _ENABLED in two and one[_ENABLED] != two[_ENABLED]


def pending(store: Store, versions: Sequence[Version], now: float) -> list[VersionSpan]:
    """What `note` would write down as changed at `now`, where something of the kind was noted before."""
    newest = {(row[0], row[1]): tuple(row[2:]) for row in store.rows(_NEWEST)}
    kinds = {kind for kind, _ in newest}
    found = []
    for one in versions:
        number, digest, seen, said = newest.pop((one.kind, one.name), (0, "", None, ""))
        if one.kind in kinds and not (number and digest == one.digest and not differs(said, one.said)):
            found.append(VersionSpan(one.kind, one.name, one.digest, now, seen, None, digest, one.said, said))
    gone = {one.kind for one in versions}
    return [*found, *(VersionSpan(kind, name, "", now, seen, None, digest, "", said)
                      for (kind, name), (_, digest, seen, said) in newest.items() if kind in gone and digest)]


def policies(store: Store, now: float) -> list[tuple[float, str, str]]:
    """When which part of the policy began to say what, up to `now`, in that order."""
    return [tuple(row) for row in store.rows("SELECT began, name, content FROM version WHERE kind = ? "
                                             "AND began <= ? ORDER BY id", POLICY, now)]


def rules_now(store: Store) -> list[tuple[str, str]]:
    """The rules, each with what it says now; empty where that is not known."""
    return [tuple(row) for row in store.rows("SELECT name, content FROM version WHERE id IN (SELECT max(id) "
                                             "FROM version WHERE kind = 'rule' GROUP BY name) "
                                             "AND digest != ''")]


_NEWEST = ("SELECT kind, name, id, digest, seen, content FROM version WHERE id IN "
           "(SELECT max(id) FROM version GROUP BY kind, name)")


def note_nodes(
    db: sqlite3.Connection, shown: Iterable[tuple[str, Telemetry]], who: str, now: float,
    latest: float = float("inf"),
) -> None:
    """Writes down, inside a transaction and before the newest looks are written over,
    which nodes run another version than they did. `latest` is as for `note`."""
    before = {row[0]: tuple(row[1:]) for row in db.execute(
        "SELECT name, time, driver, kernel, firmware FROM newest JOIN node ON node.id = newest.node "
        "WHERE driver || kernel || firmware != ''")}
    for node, new in shown:
        time, *old = before.get(node, (now, "", "", ""))
        ahead = time > latest
        time = min(time, now) if ahead else time
        for kind, was, is_now in zip(OF_NODES, old, (new.driver, new.kernel, firmware(new)), strict=True):
            if was and is_now and was != is_now and (time < now or ahead):
                db.execute("UPDATE version SET seen = ? WHERE digest = ? AND id = "
                           "(SELECT max(id) FROM version WHERE kind = ? AND name = ?)",
                           (time, was, kind, node))
                if db.execute("SELECT 1 FROM version WHERE kind = ? AND name = ? AND digest = ? AND seen = ?",
                              (kind, node, was, time)).fetchone() is None:
                    _begin(db, Version(kind, node, was), "", time, time)
                _begin(db, Version(kind, node, is_now), who, now, now)


def history(store: Store, since: float) -> list[VersionSpan]:
    """What began since, where it had another form before, or was not there when others of its kind were
    already; by kind, name and time."""
    rows = store.rows(
        "SELECT kind, name, digest, began, before, after, coalesce(was, ''), content, coalesce(words, '') "
        "FROM (SELECT id, kind, name, digest, began, content, lag(seen) OVER of AS before, "
        "lag(digest) OVER of AS was, lag(content) OVER of AS words, lead(began) OVER of AS after, "
        "min(began) OVER (PARTITION BY kind) AS first FROM version "
        "WINDOW of AS (PARTITION BY kind, name ORDER BY id)) WHERE began >= ? "
        "AND (before IS NOT NULL OR began > first) AND kind != ? ORDER BY kind, name, id",
        since, RULESET)
    return [VersionSpan(*row) for row in rows]


def _begin(db: sqlite3.Connection, one: Version, who: str, began: float, seen: float) -> None:
    insert(db, "version", kind=one.kind, name=one.name, digest=one.digest, who=who, began=began, seen=seen,
           content=one.said)
