"""Silences: what falls under one and for how long, who made and ended it,
and any order of making and ending against a plain model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.model.problem import Problem
from healthcheck.store.file import Store, opened
from healthcheck.store.ledger import lines
from healthcheck.store.silences import Silence, active, silence, silenced, unsilence
from tests.tries import tries

NODES = ("gpu1", "gpu2", "gpu10")
DAY = 86400.0


def problem(node: str = "gpu1", rule: str = "port-state") -> Problem:
    return Problem(node, rule, "mlx5_0", "fail", "critical", None, None, "down", "up", "", "", 0.0, 50.0,
                   None, 3, None, None)


def quiet(
    number: int = 1, rule: str = "port-*", nodes: frozenset[str] = frozenset({"gpu1"}), began: float = 100.0,
    until: float = 200.0,
) -> Silence:
    return Silence(number, nodes, rule, "known", "someone", began, until)


@pytest.mark.parametrize(("node", "rule", "now", "covered"), [
    ("gpu1", "port-state", 100, True), ("gpu1", "port-state", 199.9, True),
    ("gpu1", "port-state", 200, False), ("gpu1", "port-state", 99.9, False),
    ("gpu10", "port-state", 150, False), ("gpu1", "Port-state", 150, False),
    ("gpu1", "hca-port-state", 150, False), ("gpu1", "", 150, False),
])
def test_a_problem_is_silenced_on_its_node_by_its_rule_in_its_time(
    node: str, rule: str, now: float, covered: bool,
) -> None:
    assert silenced(problem(node, rule), [quiet()], now) == (quiet() if covered else None)


def test_a_node_that_is_not_reached_is_silenced_by_all_rules_alone() -> None:
    assert silenced(problem(rule=""), [quiet(rule="*")], 150) is not None
    assert silenced(problem(rule=""), [quiet(rule="?*"), quiet(rule="port-*")], 150) is None


def test_of_several_the_longest_is_named_and_what_ended_early_is_over() -> None:
    long, short = quiet(2, until=300.0), quiet(1)
    assert silenced(problem(), [short, long], 150) == long == silenced(problem(), [long, short], 150)
    assert silenced(problem(), [replace(long, ended=140.0), short], 150) == short
    assert silenced(problem(), [], 150) is None


def test_the_ledger_says_for_each_node_who_silenced_what_and_who_ended_it(store: Store) -> None:
    made = silence(store, ("gpu2", "gpu1"), "port-*", "cable", "ann", 1000.0, 1000.0 + DAY)
    assert active(store, 1000.0) == [made] == [
        Silence(1, frozenset({"gpu1", "gpu2"}), "port-*", "cable", "ann", 1000.0, 1000.0 + DAY)]
    left = unsilence(store, made.id, ("gpu2", "gpu10"), "by hand", "bob", 2000.0)
    assert left is not None and left.nodes == {"gpu1"} and active(store, 2000.0) == [left]
    over = unsilence(store, made.id, None, "done", "bob", 3000.0)
    assert over is not None and over.ended == 3000.0 and active(store, 3000.0) == []
    told = [(line.action, line.node, line.who, line.why, line.time, line.outcome)
            for line in lines(store)]
    assert told == [("silence", "gpu1", "ann", "cable", 1000.0, "done"),
                    ("silence", "gpu2", "ann", "cable", 1000.0, "done"),
                    ("unsilence", "gpu2", "bob", "by hand", 2000.0, "done"),
                    ("unsilence", "gpu1", "bob", "done", 3000.0, "done")]
    assert {line.evidence for line in lines(store)} == {"silence 1: port-* until 1970-01-02T00:16Z"}


def test_what_does_not_hold_cannot_be_ended_and_leaves_no_line(store: Store) -> None:
    made = silence(store, ("gpu1",), "port-*", "cable", "ann", 1000.0, 2000.0)
    assert unsilence(store, made.id, None, "", "bob", 2000.0) is None and active(store, 2000.0) == []
    assert unsilence(store, made.id, ("gpu2",), "", "bob", 1500.0) is None
    assert unsilence(store, 99, None, "", "bob", 1500.0) is None
    assert len(lines(store)) == 1 and active(store, 1500.0) == [made]


STEPS = st.lists(st.tuples(
    st.booleans(), st.integers(1, 4), st.none() | st.frozensets(st.sampled_from(NODES), min_size=1),
    st.sampled_from(["*", "port-*", "gpu-count"]), st.integers(1, 60), st.integers(1, 100),
), max_size=8)


@settings(max_examples=tries(100), deadline=None)
@given(steps=STEPS)
def test_any_order_of_making_and_ending_silences_what_a_plain_model_does(
    steps: list[tuple[bool, int, frozenset[str] | None, str, int, int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    now, model, made = 0.0, {}, 0
    with opened(tmp_path_factory.mktemp("state"), make=True) as store:
        for making, number, nodes, rule, wait, length in steps:
            now += wait
            if making:
                silence(store, nodes or frozenset(NODES), rule, "w", "x", now, now + length)
                made += 1
                model |= {(made, node): (rule, now + length) for node in nodes or NODES}
            else:
                unsilence(store, number, nodes, "w", "x", now)
                for node in nodes or NODES:
                    if (number, node) in model and model[number, node][1] > now:
                        del model[number, node]
            held = active(store, now)
            for node in NODES:
                for asked in ("port-state", "gpu-count", ""):
                    fits = [until for (_, where), (glob, until) in model.items() if where == node
                            and until > now
                            and (glob in ("*", asked) or (glob == "port-*" and asked == "port-state"))]
                    found = silenced(problem(node, asked), held, now)
                    assert (found.until if found is not None else None) == max(fits, default=None)
        assert store.check() == []
