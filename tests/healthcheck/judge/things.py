"""Things that tests of the judge judge, with their snapshots and cohorts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from healthcheck.facts.snapshot_time import SnapshotTime
from healthcheck.facts.values import (
    UNSUPPORTED,
    Unmeasured,
)
from healthcheck.judge.judge import judge
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import Finding, Result
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import Sku
from tests.healthcheck.rules import Thing, thing

COLD, HOT = thing("thing 0", 20), thing("thing 1", 99)
DARK = thing("thing 2", Unmeasured("the sensor hung"))
BARE = thing("thing 3", UNSUPPORTED)
NONE_SKU = Sku("none", "", {}, frozenset({"things"}), "none.yaml")


def hot(thing: Thing) -> Iterator[Finding]:
    if thing.heat > 50:
        yield Finding(thing.heat, "at most 50")


def judged(known: Rule, things: Any, sku: Sku | None = None, **others: Any) -> Result:
    """What the rule says of a node with these things."""
    return judge(known, NodeFacts({"things": things, **others}), sku)


def trend(known: Rule, now: Any, before: Any, seconds: float = 60.0) -> Result:
    """What a rule says of these things, and those of so many seconds before."""
    earlier = {"things": before, "snapshot_time": SnapshotTime("snapshot_time", 1000.0 - seconds, 0.0)}
    return judge(known,
                 NodeFacts({"things": now, "snapshot_time": SnapshotTime("snapshot_time", 1000.0, 0.0)},
                           earlier), None)


def cohort(*heats: Any) -> dict[str, NodeFacts]:
    return {f"n{i}": NodeFacts({"things": thing(f"n{i}", heat)}) for i, heat in enumerate(heats)}
