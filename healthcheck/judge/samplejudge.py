"""Judges fleet rules where a sweep visited only some of a cohort: those that may be sick, and a random sample
of the others.

Compared among all that were visited, the sick would be the majority, and the healthy the outliers. So the
sample stands for the cohort, and the others are compared with it a few at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from healthcheck.judge.fleetjudge import judge_fleet
from healthcheck.judge.judge import result
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import Origin, Result, Status
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import SMALLEST_COHORT, Sku
from inventory.text import many

# Of the sample, so many are compared with it at once: no rule finds outliers among more than a quarter.
_AT_ONCE = 4


@dataclass(frozen=True)
class FleetSample:
    """The nodes of one cohort that stand for all of it, and how many were left out."""

    names: frozenset[str]
    left_out: int


def judge_by_sample(
    rule: Rule, cohort: Mapping[str, NodeFacts], sample: FleetSample, sku: Sku | None = None,
) -> dict[str, Result]:
    """The results of one fleet rule for the visited nodes of a cohort, of which others were left out.

    UNKNOWN of origin muster where too few of the sample could be judged to stand for them.
    """
    if rule.left_out:
        return judge_fleet(rule, cohort, sku)
    standing = {name: facts for name, facts in cohort.items() if name in sample.names}
    if len(standing) < SMALLEST_COHORT:
        reason = (f"{many(sample.left_out, 'node')} of this SKU {'was' if sample.left_out == 1 else 'were'} "
                  f"left out, healthy by {'its agent' if sample.left_out == 1 else 'their agents'}, and of "
                  f"those that stand for them only {len(standing)} could be judged: at least "
                  f"{SMALLEST_COHORT} are needed to compare with")
        return {name: result(rule, Status.UNKNOWN, reason=reason, origin=Origin.MUSTER) for name in cohort}
    results = judge_fleet(rule, standing, sku)
    others = iter([item for item in cohort.items() if item[0] not in sample.names])
    while some := dict(islice(others, max(1, len(standing) // _AT_ONCE))):
        found = judge_fleet(rule, {**standing, **some}, sku)
        results.update({name: found[name] for name in some})
    return results
