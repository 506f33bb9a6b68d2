"""The nodes that passed a burn-in, with hardware and boot, for certificates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path

from healthcheck.burnin.document import Burnin, document, environment
from healthcheck.burnin.documentread import load
from healthcheck.burnin.judgement import BurnInOutcome
from healthcheck.burnin.model import BurnInStage, TaskKind
from healthcheck.certify.certificate import STAGES, Passed
from healthcheck.model.hardware import Hardware
from healthcheck.store.file import Store
from healthcheck.store.hardware import newest_hardware
from inventory.ncclenv import FROM_INVENTORY, SETTINGS


def passed_in(burnin: Burnin, only: Collection[str] | None = None) -> tuple[list[Passed], dict[str, str]]:
    """The nodes that passed, of these or of all, and why the others did not."""
    digest = hashlib.sha256(
        json.dumps(document(burnin), sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    kinds: dict[str, set[str]] = {}
    settings: dict[str, dict[str, str]] = {}
    for result in burnin.burnt.results:
        for node in result.task.nodes:
            at = f"{result.task.stage.value} {node}"
            kinds.setdefault(at, set()).add(result.task.kind.value)
            settings.setdefault(at, {}).update((name, value) for name, value in result.task.on(node).items()
                                               if name in SETTINGS | FROM_INVENTORY)
    passed, others = [], {}
    less = _less(burnin)
    for one in burnin.judgement.outcomes:
        if only is not None and one.node not in only:
            continue
        if one.outcome is not BurnInOutcome.PASS or not all(stage.done for stage in one.stages):
            why = one.why[0] if one.why else "not all of its stages were done"
            others[one.node] = f"{one.outcome.value}: {why}"
            continue
        if less:
            others[one.node] = less
            continue
        what = tuple({"stage": stage.stage.value, "kinds": sorted(kinds.get(at, ())), "outcome": "pass",
                      **({"environment": environment(settings[at])} if settings.get(at) else {})}
                     for stage in one.stages for at in (f"{stage.stage.value} {one.node}",))
        passed.append(Passed(one.node, burnin.length, int(burnin.ended), what, dict(one.figures),
                             result=digest))
    return passed, others


def _less(burnin: Burnin) -> str:
    """What this burn-in left out by `--stages`, or ""."""
    if burnin.length not in STAGES:
        return f"one of length {burnin.length} certifies no one: that is shorter than {STAGES[0]}"
    asked = set(burnin.burnt.asked)
    if lacking := [kind.value for kind in TaskKind if kind not in (TaskKind.STORAGE, TaskKind.WRITE)
                   and (BurnInStage.NODE, kind) not in asked]:
        return f"it was not asked for all that a node does alone: {', '.join(lacking)}"
    stages = {stage for stage, _ in asked}
    if (len(burnin.burnt.places) > 1 and not stages & {BurnInStage.LEAF_PAIRS, BurnInStage.CROSS_PAIRS,
                                                       BurnInStage.ALL, BurnInStage.SOAK}):
        return "it was not asked for anything between nodes"
    if burnin.length == "soak" and BurnInStage.SOAK not in stages:
        return "it was not asked for the soak itself"
    return ""


def load_passed(path: Path, only: Collection[str] | None = None) -> tuple[list[Passed], dict[str, str]]:
    """As `passed_in`, of a file; raises ConfigError."""
    return passed_in(load(path), only)


def seen_of(store: Store, passed: list[Passed]) -> tuple[list[Passed], dict[str, Hardware], dict[str, str]]:
    """The passes with the store's versions, boot (at the end of the burn-in, as far as sweeps know) and
    hardware; and why some have none. Raises StoreError."""
    known = newest_hardware(store)
    ready, hardware, missing = [], {}, {}
    for one in passed:
        if one.node not in known or not known[one.node][1].hardware:
            missing[one.node] = f"no look has read its hardware: muster check {one.node} --store"
            continue
        _, now = known[one.node]
        boots = store.rows(
            "SELECT boot FROM boot JOIN node ON node.id = boot.node WHERE name = ? AND began <= ? "
            "ORDER BY began DESC LIMIT 1", one.node, one.at)
        ready.append(Passed(**{**vars(one), "versions": {**now.versions, **one.versions},
                               "boot": boots[0][0] if boots else now.boot}))
        hardware[one.node] = now.hardware
    return ready, hardware, missing
