"""What was said of nodes is put together as if each node had all of it by itself (healthcheck.judge.told)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from healthcheck.judge.told import Told
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model.outcome import Result, Severity, Status, state_of
from tests.healthcheck.rules import rule

RULES = [replace(rule(lambda things: iter(())), id=f"r{number}") for number in range(6)]
SAID = st.builds(lambda status, severity: Result("r", "c", status, severity), st.sampled_from(Status), st.sampled_from(Severity))
SHARED = st.dictionaries(st.sampled_from([one.id for one in RULES]), SAID)


@given(st.lists(SHARED, min_size=1, max_size=3), st.lists(st.tuples(st.integers(0, 2), SHARED, st.tuples(*[SAID] * 6)), max_size=6))
def test_what_nodes_share_and_what_is_their_own_is_told_in_the_order_of_the_rules(shared, nodes) -> None:  # type: ignore[no-untyped-def]
    told = Told(RULES)
    for number, over, rest in nodes:
        common = shared[number % len(shared)]
        own = over | {one.id: said for one, said in zip(RULES, rest, strict=True) if one.id not in common}
        slow = tuple((common | own)[one.id] for one in RULES)
        assert told.of(common, own) == (slow, state_of(slow))


def test_a_rule_of_which_nothing_was_said_is_no_node_without_a_fault() -> None:
    said = Result("r", "c", Status.PASS, Severity.CRITICAL)
    with pytest.raises(KeyError, match="r4"):
        Told(RULES).of({one.id: said for one in RULES[:4]}, {"r0": said, "r5": said})
