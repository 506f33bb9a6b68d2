"""No message holds a fact's own name where it has underscores: that is for programs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from healthcheck.facts.base import FACTS
from healthcheck.facts.plain import plain
from healthcheck.facts.values import Fact, Partial, Unmeasured
from healthcheck.judge.fleetjudge import judge_fleet
from healthcheck.judge.judge import judge
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import Result
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import LEARNERS
from tests import packagedrules

RULES = packagedrules.RULES
INTERNAL = re.compile(r"(?<![/\w.-])[a-z][a-z0-9]*_[a-z0-9_]+(?![\w/-]*[/.])")
# What a person types into a SKU file.
TYPED = frozenset(LEARNERS)
SKUS = ("hgx-h100", "cpu-only", None)
NOTHING: dict[str, Any] = {
    "unmeasured": Unmeasured("it was not read"), "empty": (), "partly": Partial((), "some were not read")}


def results(rule: Rule, facts: NodeFacts, sku: str | None) -> list[Result]:
    known = RULES.skus[sku] if sku is not None else None
    if rule.checked.fleet:
        return list(judge_fleet(rule, {f"n{n}": facts for n in range(3)}, known).values())
    return [judge(rule, facts, known)]


@pytest.mark.parametrize("sku", SKUS)
@pytest.mark.parametrize("how", NOTHING)
def test_what_was_not_measured_is_named_in_words_by_every_rule(how: str, sku: str | None) -> None:
    names = {name for rule in RULES.rules for name in rule.fact_names}
    facts = NodeFacts(dict.fromkeys(names, NOTHING[how]), dict.fromkeys(names, NOTHING[how]))
    said = {word for rule in RULES.rules for result in results(rule, facts, sku)
            for word in INTERNAL.findall(result.reason)}
    assert said <= TYPED
    absent = {word for rule in RULES.rules for result in results(rule, NodeFacts({}), sku)
              for word in INTERNAL.findall(result.reason)}
    assert absent <= TYPED


def test_every_fact_and_every_field_of_one_has_a_name_in_words() -> None:
    fields = {field for kind in every_fact() for field in kind.FIELDS}
    assert len(FACTS) > 100 and len(fields) > 300
    named = {name: plain(name) for name in (*FACTS, *fields)}
    assert {name
            for name, words in named.items() if "_" in words or not words or words != words.strip()} == set()
    assert len({named[name] for name in FACTS}) == len(FACTS)
    assert named["nvlink_errors"] == "NVLink error counters" and named["ecc_enabled"] == "ECC enabled"
    assert named["temperature_below_slowdown_c"] == "temperature below slowdown" and named["gpus"] == "gpus"


def every_fact() -> list[type[Fact]]:
    found: list[type[Fact]] = []
    for kind in Fact.__subclasses__():
        found += [kind, *kind.__subclasses__()]
    return found
