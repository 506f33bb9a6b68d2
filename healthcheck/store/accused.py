"""What burn-ins found, as problems in the store. No sweep ends them: a burn-in that the same hardware passes
does, or a person's word that it was repaired; and they follow the part (`healthcheck.store.follow`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from healthcheck.model.outcome import Owner, Repair, Severity, Status
from healthcheck.store import ledger
from healthcheck.store.file import Store
from healthcheck.store.rows import insert, node_numbers, update
from inventory.text import clean, many

WRONG_DATA, SLOW, LINK, DEAD, ERRORS, SHARED = (
    "burnin-wrong-data", "burnin-slow", "burnin-link", "burnin-dead", "burnin-errors", "burnin-shared")
# The ids that stand for a rule in such a problem, with what each says. They are no rules of a ruleset:
# no sweep judges them.
RULES: Mapping[str, str] = MappingProxyType({
    WRONG_DATA: "a burn-in found that a GPU computes, keeps or sends wrong data",
    SLOW: "a burn-in found a GPU or a node slower than its equals, or than the floor",
    LINK: "a burn-in found a port or a link slower than its equals, or with errors",
    DEAD: "a burn-in found that a GPU or a node ended, hung, stopped or failed in the middle of its work",
    ERRORS: "a burn-in found that a GPU or a node counted more errors than are allowed",
    SHARED: "a burn-in failed with this node, and cannot say whether it is the node, its partner or a switch "
    "between them",
})
# What the sure ones ask for, where it is more than that a person finds out.
REPAIRS: Mapping[str, Repair] = MappingProxyType({WRONG_DATA: Repair.REPLACE})
# Of burn-ins that can end what an earlier one found; each shows all that those before it do.
LENGTHS = ("quick", "standard", "soak")
_SEVERITIES = (Severity.INFO.value, Severity.WARNING.value, Severity.CRITICAL.value)
# A stage that shows what another one does, and more.
_WIDER = {"leaf-pairs": ("cross-pairs",), "all": ("soak",)}
_GPU, _CHASSIS = "gpu", "chassis"
_TESTS = 6          # named in words; the evidence has all


@dataclass(frozen=True)
class BurnInAccusation:
    """One accusation of one node. `gpu` is the GPU's number in the order of PCI addresses, None where it is
    not one GPU; `gpus` how many the node has; `serials` are what it may be known by. `stages` are those that
    it must pass to be believed well again. `repair` is what the remedy asks for, None where a person has to
    find out.
    """

    node: str
    rule: str
    subject: str
    severity: Severity
    owner: Owner
    observed: str
    expected: str
    remedy: str
    stages: tuple[str, ...]
    gpu: int | None = None
    gpus: int = 0
    serials: tuple[str, ...] = ()
    tests_for: tuple[str, ...] = ()
    tests_against: tuple[str, ...] = ()
    repair: Repair | None = None


@dataclass(frozen=True)
class FinishedBurnIn:
    """A finished burn-in: its accusations, and the stages passed by each node. `at` is when it ended,
    in epoch seconds."""

    run: str
    length: str
    at: float
    accused: tuple[BurnInAccusation, ...] = ()
    passed: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))


def write(store: Store, found: FinishedBurnIn, who: str, now: float) -> list[str]:
    """Writes it down in one transaction, with a line in the ledger for each node of which something begins or
    ends; gives the nodes of which something ended. Raises StoreError. Written twice it is as if written once.
    """
    by_node: dict[str, list[BurnInAccusation]] = {}
    for one in found.accused:
        by_node.setdefault(one.node, []).append(one)
    ended = []
    with store.writing() as db:
        numbers = node_numbers(db, (*by_node, *found.passed))
        for node, stages in found.passed.items():
            over = [number
                    for number, evidence in db.execute("SELECT id, evidence FROM problem WHERE node = ? "
                                                       "AND ended IS NULL AND evidence IS NOT NULL",
                                                       (numbers[node],)).fetchall()
                    if _passes(found.length, stages, json.loads(evidence))]
            db.executemany("UPDATE problem SET ended = ? WHERE id = ?",
                           [(found.at, number) for number in over])
            if over:
                ended.append(node)
                _line(db, now, who, "burn-in passed", node,
                      f"over: {many(len(over), 'accusation')} of earlier burn-ins", found.run)
        for node, mine in by_node.items():
            begun = [_begin(db, numbers[node], one, found) for one in mine]
            if any(begun):
                what = "; ".join(f"{one.rule}{f' of {one.subject}' if one.subject else ''}: {one.observed}"
                                 for one in mine)
                _line(db, now, who, "burn-in failed", node, clean(what, 400), found.run)
    return ended


def accused_nodes(store: Store) -> dict[str, str]:
    """By node what a burn-in found wrong with it or a part of it, in words;
    what it may share with others is not among it."""
    rows = store.rows(
        "SELECT name, subject, observed, evidence FROM problem JOIN node ON node.id = problem.node "
        "WHERE ended IS NULL AND evidence IS NOT NULL AND rule != ? ORDER BY problem.id", SHARED)
    return {name: clean(f"burn-in {json.loads(evidence)['run']} found, of {subject or 'the node'}, "
                        f"{observed}", 200) for name, subject, observed, evidence in reversed(rows)}


def lasts(rule: str) -> bool:
    """Whether a problem of this rule holds though no sweep sees it."""
    return rule in RULES


def _begin(db: sqlite3.Connection, node: int, one: BurnInAccusation, found: FinishedBurnIn) -> bool:
    """Stores one accusation; False if this burn-in already made it. A surer earlier one stays."""
    evidence = {"run": found.run, "length": found.length, "stages": list(one.stages),
                "for": list(one.tests_for), "against": list(one.tests_against)}
    severity = one.severity.value
    held = db.execute("SELECT id, severity, evidence, sweeps FROM problem WHERE node = ? AND rule = ? "
                      "AND subject = ? AND status = ? AND evidence IS NOT NULL AND ended IS NULL",
                      (node, one.rule, one.subject, Status.FAIL.value)).fetchone()
    if held is not None:
        before = json.loads(held[2])
        if before["run"] == found.run:
            return False
        severity = max(severity, held[1], key=_SEVERITIES.index)
        evidence["stages"] = list(dict.fromkeys((*before["stages"], *one.stages)))
        evidence["length"] = max(before["length"], found.length, key=LENGTHS.index)
    values: dict[str, object] = {
        "severity": severity, "owner": one.owner.value, "observed": one.observed, "expected": one.expected,
        "reason": _reason(one, found.run), "remedy": one.remedy, "evidence": json.dumps(evidence),
        "seen": found.at, **({"repair": one.repair.value} if one.repair is not None else {})}
    if held is not None:
        update(db, "problem", held[0], **values, sweeps=held[3] + 1)
    else:
        insert(db, "problem", **values, began=found.at, sweeps=1, node=node, rule=one.rule,
               subject=one.subject, status=Status.FAIL.value, component=_component(db, node, one))
    return True


def _component(db: sqlite3.Connection, node: int, one: BurnInAccusation) -> int | None:
    """The accused component: by its serial number, else by its place if all places are known;
    None if unknown."""
    if one.rule == SHARED or (one.gpu is None and one.subject):
        return None
    kind = _CHASSIS if one.gpu is None else _GPU
    seats = db.execute("SELECT component, serial FROM seat JOIN component ON component.id = component "
                       "WHERE node = ? AND ended IS NULL AND kind = ? ORDER BY slot", (node, kind)).fetchall()
    if one.gpu is None:
        return seats[0][0] if seats else None
    for component, serial in seats:
        if serial in one.serials:
            return int(component)
    # A rank that said who it is, and is none of those that sit there, is no other one.
    return seats[one.gpu][0] if not one.serials and len(seats) == one.gpus and one.gpu < len(seats) else None


def _passes(length: str, stages: Iterable[str], evidence: Mapping[str, object]) -> bool:
    """Whether a burn-in of this length with these stages shows that such an accusation holds no more."""
    needed, before = evidence["stages"], evidence["length"]
    assert isinstance(needed, list) and isinstance(before, str)  # noqa: S101  (we wrote it)
    done = frozenset(stages)
    return LENGTHS.index(length) >= LENGTHS.index(before) and all(
        stage in done or any(wider in done for wider in _WIDER.get(stage, ())) for stage in needed)


def _reason(one: BurnInAccusation, run: str) -> str:
    def named(tests: tuple[str, ...]) -> str:
        more = f" and {len(tests) - _TESTS} more" if len(tests) > _TESTS else ""
        return ", ".join(tests[:_TESTS]) + more

    against = f"; against it: {named(one.tests_against)}" if one.tests_against else ""
    return clean(f"burn-in {run}, for it: {named(one.tests_for) or 'no single test'}{against}", 600)


def _line(db: sqlite3.Connection, now: float, who: str, action: str, node: str, why: str, run: str) -> None:
    ledger.done(db, now, who, action, node, why, f"burn-in {run}", "written down")
