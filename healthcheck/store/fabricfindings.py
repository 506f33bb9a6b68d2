"""What `muster fabric check --store` found: for triage, blame, the exporter, and whoever closes ports.

A finding that a later check of its subnet measured and did not show is over. One that the later check did not
measure stays open, and says since when nothing has measured it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from healthcheck.model.outcome import Owner, Severity, Status
from healthcheck.model.problem import Problem
from healthcheck.store.clock import AHEAD_S
from healthcheck.store.file import Store
from healthcheck.store.rows import insert, update
from healthcheck.subnet.check.findings import FabricRule, PlaceKind
from healthcheck.subnet.hands import HANDS
from healthcheck.subnet.kept import KeptFinding, TouchedDevice
from healthcheck.subnet.model import FabricEnd
from inventory.text import clean

_PREFIX = "subnet-"      # "fabric-" began ids of rules of NVLink once, which globs of sites may still mean


def rule_id(rule: FabricRule) -> str:
    """The id that stands for a rule where a finding touches a node, as those of burn-ins do: no sweep judges
    it."""
    return _PREFIX + rule.value.removeprefix(_PREFIX)


RULES: Mapping[str, str] = MappingProxyType({
    rule_id(rule): f"muster fabric check --store found {rule.value} at a port, link or adapter of the node"
    for rule in FabricRule if rule is not FabricRule.SOURCE})
# The name of what all subnets of a check together show, in the place of a subnet's.
WHOLE = "*"
_OF_NODES = (PlaceKind.LINK, PlaceKind.PORT, PlaceKind.NODE)
_GROUPS: Mapping[PlaceKind, str] = {PlaceKind.PORT: "cable", PlaceKind.LINK: "cable",
                                    PlaceKind.SWITCH: "switch", PlaceKind.LEAF: "switch"}
_MOST = 16_384      # rows that are read at once


@dataclass(frozen=True)
class FabricTrouble:
    """A finding as stored. Times are epoch seconds: it `began` with the first check that showed it, `seen` is
    the last that measured and showed it; `missed` is the newest check where that could not measure it, for
    the reason in `unmeasured`; `ended` is None while it lasts. `checks` have shown it."""

    id: int
    finding: KeptFinding
    began: float
    seen: float
    checks: int
    missed: float | None = None
    unmeasured: str = ""
    ended: float | None = None

    @property
    def rule(self) -> str:
        """Its name where a rule's id stands."""
        return rule_id(self.finding.rule)


@dataclass(frozen=True)
class SubnetChecked:
    """One subnet of a check, seen at `at`: what is wrong there, and by `not_measured` why the check cannot
    say of a finding that it does not show whether it is over (empty: it is). `guids` are its switches'."""

    plane: str
    guids: frozenset[str]
    at: float
    found: Sequence[KeptFinding]
    not_measured: Callable[[KeptFinding], str]


@dataclass(frozen=True)
class FabricStored:
    """How many findings began, go on, ended, and were not measured; and the names of subnets of which a newer
    check is stored, which were left as they are."""

    began: int = 0
    lasting: int = 0
    ended: int = 0
    missed: int = 0
    older: tuple[str, ...] = ()


def write(store: Store, checked: Iterable[SubnetChecked], now: float) -> FabricStored:
    """Writes a check down, in one transaction; written twice it is as if written once. What claims to be
    later than now is of now. Raises StoreError."""
    began = lasting = ended = missed = 0
    older: list[str] = []
    with store.writing() as db:
        taken: set[int] = set()
        for one in checked:
            at = min(one.at, now)
            number, before = _subnet(db, one, taken)
            if number is not None and before > at:
                older.append(one.plane)
                continue
            if number is None:
                number = insert(db, "fabric_subnet", plane="", guids="[]", checked=at)
            taken.add(number)
            update(db, "fabric_subnet", number, plane=clean(one.plane, 127),
                   guids=json.dumps(sorted(one.guids)), checked=at)
            left = {each.id: each for each in map(_trouble, db.execute(
                "SELECT * FROM fabric_finding WHERE subnet = ? AND ended IS NULL ORDER BY id DESC",
                (number,)))}
            named = {key: each for each in left.values() for key in _names(each.finding)}
            for found in one.found:
                same = next((each for key in _names(found) if (each := named.get(key)) is not None
                             and each.id in left), None)
                if same is None:
                    began += 1
                    insert(db, "fabric_finding", **_values(found), checks=1, began=at, seen=at,
                           unmeasured="", subnet=number)
                else:
                    lasting += 1
                    del left[same.id]
                    update(db, "fabric_finding", same.id, **_values(found),
                           checks=same.checks + int(at > same.seen), seen=at, missed=None, unmeasured="")
            for each in left.values():
                if why := one.not_measured(each.finding):
                    missed += 1
                    update(db, "fabric_finding", each.id, missed=at, unmeasured=clean(why, 200))
                else:
                    ended += 1
                    update(db, "fabric_finding", each.id, ended=max(at, each.seen), missed=None,
                           unmeasured="")
    return FabricStored(began, lasting, ended, missed, tuple(older))


def lasting(store: Store) -> list[FabricTrouble]:
    """What is open, measured lately or not, the gravest first. Raises StoreError."""
    return list(map(_trouble, store.rows(
        "SELECT * FROM fabric_finding WHERE ended IS NULL ORDER BY CASE severity WHEN 'critical' THEN 0 "
        "WHEN 'warning' THEN 1 ELSE 2 END, id LIMIT ?", _MOST)))


def between(store: Store, start: float, end: float) -> list[FabricTrouble]:
    """What was there in that time, the oldest first. Raises StoreError."""
    return list(map(_trouble, store.rows(
        "SELECT * FROM fabric_finding WHERE began <= ? AND (ended IS NULL OR ended >= ?) ORDER BY began, id "
        "LIMIT ?", end, start, _MOST)))


def checked(store: Store, now: float) -> list[tuple[str, float]]:
    """The subnets by name, with the time of the newest check of each."""
    return [(row[0], row[1]) for row in store.rows(
        "SELECT plane, max(checked) FROM fabric_subnet WHERE plane != ? AND checked <= ? GROUP BY plane "
        "ORDER BY plane", WHOLE, now + AHEAD_S)]


def problems(found: Iterable[FabricTrouble]) -> Iterator[Problem]:
    """What touches single nodes, as triage takes it: warnings, which isolate no node unless the policy says
    so."""
    for one in found:
        finding = one.finding
        if finding.kind in _OF_NODES and finding.severity is not Severity.INFO:
            for node in finding.nodes:
                yield Problem(node, one.rule, finding.place, Status.FAIL.value, Severity.WARNING.value, None,
                              finding.owner.value, finding.observed, finding.expected or "none",
                              one.unmeasured, remedy(finding), one.began, one.seen, one.ended, one.checks,
                              None, None)


def remedy(finding: KeptFinding) -> str:
    """What a person does, and where."""
    return HANDS[finding.rule] + (f" ({finding.where})" if finding.where else "")


def _subnet(db: sqlite3.Connection, one: SubnetChecked, taken: set[int]) -> tuple[int | None, float]:
    """The stored subnet that it is, with the time of its newest check: that with most of its switches; what
    has none of them is another one, whatever it is called."""
    best, most, when = None, 0, 0.0
    for number, plane, guids, checked_at in db.execute("SELECT id, plane, guids, checked FROM fabric_subnet"):
        like = len(one.guids.intersection(json.loads(guids)))
        if one.plane == WHOLE == plane:
            like = 1
        if like > most and number not in taken:
            best, most, when = number, like, checked_at
    return best, when


def _names(one: KeptFinding) -> Iterator[tuple[object, ...]]:
    """What two checks know one thing by: its place's name, or else a port or device that both name (of a lot
    its name alone); of a node the node, whose name in words may be an earlier one."""
    what = one.rule, _GROUPS.get(one.kind, one.kind.value)
    if one.kind is PlaceKind.NODE:
        yield (*what, one.nodes, one.place.partition(" ")[2])
        return
    yield (*what, clean(one.place, 255))
    if one.kind is not PlaceKind.LOT:
        yield from ((*what, end) for end in one.ends)


def _values(one: KeptFinding) -> dict[str, object]:
    return {
        "plane": clean(one.plane, 127), "rule": one.rule.value, "kind": one.kind.value,
        "place": clean(one.place, 255), "severity": one.severity.value, "owner": one.owner.value,
        "observed": clean(one.observed, 400), "expected": clean(one.expected, 200),
        "ends": json.dumps([[end.guid, end.number] for end in one.ends]), "nodes": json.dumps(one.nodes),
        "parts": json.dumps([clean(part, 64) for part in one.parts]), "rails": json.dumps(one.rails),
        "leaf": clean(one.leaf, 127) if one.leaf is not None else None,
        "touched": json.dumps([[each.kind, clean(each.name, 127), each.links, each.up]
                               for each in one.touched]),
        "gone": json.dumps([clean(name, 127) for name in one.gone]), "words": clean(one.where, 300)}


def _trouble(row: sqlite3.Row) -> FabricTrouble:
    return FabricTrouble(
        row["id"],
        KeptFinding(FabricRule(row["rule"]), PlaceKind(row["kind"]), row["place"], row["plane"],
                    Severity(row["severity"]), Owner(row["owner"]), row["observed"], row["expected"],
                    tuple(FabricEnd(guid, number) for guid, number in json.loads(row["ends"])),
                    tuple(json.loads(row["nodes"])), tuple(json.loads(row["parts"])),
                    tuple(json.loads(row["rails"])), row["leaf"],
                    tuple(TouchedDevice(*each) for each in json.loads(row["touched"])),
                    tuple(json.loads(row["gone"])), row["words"]),
        row["began"], row["seen"], row["checks"], row["missed"], row["unmeasured"], row["ended"])
