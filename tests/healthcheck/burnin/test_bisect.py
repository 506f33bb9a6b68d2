"""Bisection by leaf: narrows down what only scale shows, at half the cluster's size, never by one sample."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.burnin.bisect import BisectGroup, Bisection, SuspectUnits, units
from healthcheck.burnin.model import Accusation, Object, Participant
from healthcheck.burnin.weigh import PairOutcome
from tests.tries import tries

PASS, FAIL, UNKNOWN = PairOutcome.PASS, PairOutcome.FAIL, PairOutcome.UNKNOWN
Answer = Callable[[BisectGroup], PairOutcome]


def leaves(count: int, size: int = 4) -> SuspectUnits:
    return units(Participant(f"l{leaf:02d}n{at}", 8, leaf=f"leaf{leaf:02d}") for leaf in range(count)
                 for at in range(size))


def played(bisection: Bisection, answer: Answer, most: int = 60) -> list[tuple[BisectGroup, ...]]:
    rounds = []
    while (parts := bisection.next()) is not None:
        nodes = [node for part in parts for node in part.nodes]
        assert len(set(nodes)) == len(nodes), "parts of one round run at the same time"
        rounds.append(parts)
        assert len(rounds) <= most
        bisection.add_results([(f"bisect-{len(rounds)}-{at}", answer(part)) for at, part in enumerate(parts)])
    return rounds


def holds(*bad: int) -> Answer:
    return (lambda part: FAIL
            if any(node.startswith(f"l{leaf:02d}") for node in part.nodes for leaf in bad) else PASS)


def named(found: tuple[Accusation, ...]) -> set[tuple[Object, str]]:
    return {(accused.object, accused.name) for accused in found}


@pytest.mark.parametrize("bad", range(16))
def test_one_leaf_of_sixteen_takes_four_rounds_and_one_to_confirm(bad: int) -> None:
    bisection = Bisection(leaves(16), "all-1")
    rounds = played(bisection, holds(bad))
    assert len(rounds) == 5
    (accused,) = bisection.accusations()
    assert (accused.object, accused.name, accused.confirmed) == (Object.LEAF, f"leaf{bad:02d}", True)
    assert accused.tests_for[0] == "all-1" and len(accused.tests_for) == 6 and accused.tests_against == ()


def test_halves_are_filled_up_with_proven_nodes_to_half_the_size() -> None:
    rounds = played(Bisection(leaves(16), "all-1"), holds(3))
    assert [len(part.nodes) for parts in rounds[:4] for part in parts] == [32] * 8
    assert all(set(part.padding) <= set(part.nodes) and part.padding != () for parts in rounds[1:4]
               for part in parts)
    assert [len(part.padding) for part in rounds[3]] == [28, 28]


def test_nodes_that_are_proven_beforehand_fill_up_from_the_first_halves_on() -> None:
    bisection = Bisection(leaves(3), "all-1", proven=[f"spare{at}" for at in range(9)])
    parts = bisection.next()
    assert parts is not None and [len(part.nodes) for part in parts] == [6, 8]
    assert all(node.startswith("spare") for part in parts for node in part.padding)


@settings(max_examples=tries(40), deadline=None)
@given(st.integers(2, 33), st.data())
def test_each_bad_leaf_is_named_and_no_other(count: int, data: st.DataObject) -> None:
    bad = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=3))
    bisection = Bisection(leaves(count, 2), "all-1")
    played(bisection, holds(*bad))
    if len(bad) < count:
        assert named(bisection.accusations()) == {(Object.LEAF, f"leaf{leaf:02d}") for leaf in bad}


def test_a_leaf_that_fails_once_and_passes_when_it_is_tried_again_is_unexplained() -> None:
    rounds = 0

    def answer(part: BisectGroup) -> PairOutcome:
        nonlocal rounds
        rounds += len(part.suspects) == 1 and "leaf03" in part.suspects
        return PASS if rounds > 1 else holds(3)(part)

    bisection = Bisection(leaves(8), "all-1")
    played(bisection, answer)
    (accused,) = bisection.accusations()
    assert (accused.object is Object.UNEXPLAINED and "leaf03 failed and passed" in accused.why
            and accused.tests_against)


def test_where_proven_nodes_fail_in_its_place_as_well_it_is_not_the_leaf() -> None:
    failing = Bisection(leaves(4), "all-1")
    played(failing, lambda part: FAIL if not part.suspects or "leaf01" in part.suspects else PASS)
    (accused,) = failing.accusations()
    assert accused.object is Object.UNEXPLAINED and "as did proven nodes" in accused.why


def test_where_both_halves_pass_parts_are_left_out_of_all_nodes_instead() -> None:
    of = leaves(16)
    all_nodes = sum(map(len, of.nodes.values()))
    bisection = Bisection(of, "all-1")

    def answer(part: BisectGroup) -> PairOutcome:
        return FAIL if len(part.nodes) > all_nodes / 2 and "leaf06" not in part.without else PASS

    rounds = played(bisection, answer)
    assert named(bisection.accusations()) == {(Object.LEAF, "leaf06")}
    assert all(len(part.nodes) >= all_nodes * 3 / 4 for parts in rounds[1:] for part in parts)
    assert len(rounds) <= 1 + 4 + 2 + 2


def test_where_only_the_number_of_nodes_matters_no_leaf_is_named() -> None:
    bisection = Bisection(leaves(16), "all-1")
    played(bisection, lambda part: FAIL if len(part.nodes) == 64 else PASS)
    (accused,) = bisection.accusations()
    assert accused.object is Object.UNEXPLAINED and "only with more than 48 nodes" in accused.why
    always = Bisection(leaves(16), "all-1")
    played(always, lambda part: FAIL if len(part.nodes) > 40 else PASS)
    assert "whichever part is left out" in always.accusations()[0].why


def test_what_cannot_be_measured_is_tried_once_more_and_then_unexplained() -> None:
    seen: dict[tuple[str, ...], int] = {}

    def answer(part: BisectGroup) -> PairOutcome:
        seen[part.suspects] = seen.get(part.suspects, 0) + 1
        return UNKNOWN

    bisection = Bisection(leaves(4), "all-1")
    played(bisection, answer)
    assert set(seen.values()) == {2}
    (accused,) = bisection.accusations()
    assert accused.object is Object.UNEXPLAINED and "could not be measured" in accused.why


def test_a_result_that_comes_at_the_second_try_counts() -> None:
    tries: dict[tuple[str, ...], int] = {}

    def answer(part: BisectGroup) -> PairOutcome:
        tries[part.suspects] = tries.get(part.suspects, 0) + 1
        return UNKNOWN if tries[part.suspects] == 1 else holds(2)(part)

    bisection = Bisection(leaves(4), "all-1")
    played(bisection, answer)
    assert named(bisection.accusations()) == {(Object.LEAF, "leaf02")}


def test_units_are_leaves_else_nvlink_domains_else_nodes() -> None:
    def place(at: int, leaf: str | None, domain: str | None) -> Participant:
        return Participant(f"n{at}", 8, leaf=leaf, domain=domain)

    assert set(leaves(3).nodes) == {"leaf00", "leaf01", "leaf02"} and leaves(3).object is Object.LEAF
    domains = units([place(at, "leaf1", f"d{at // 2}") for at in range(6)])
    assert set(domains.nodes) == {"NVLink domain d0", "NVLink domain d1", "NVLink domain d2"}
    for unknown in (units([place(at, None, None) for at in range(4)]),
                    units([place(at, f"l{at}" if at else None, None) for at in range(4)])):
        assert unknown.object is Object.NODE and unknown.nodes == {f"n{at}": (f"n{at}",) for at in range(4)}


def test_a_single_unit_cannot_be_parted_and_that_is_reported() -> None:
    bisection = Bisection(SuspectUnits(Object.NODE, {"n0": ("n0",)}), "all-1")
    assert bisection.next() is None and bisection.next() is None
    assert bisection.accusations()[0].object is Object.UNEXPLAINED


def test_a_round_is_the_same_until_one_outcome_for_each_part_was_reported() -> None:
    bisection = Bisection(leaves(4), "all-1")
    parts = bisection.next()
    assert parts is not None and bisection.next() is parts
    with pytest.raises(ValueError, match="one outcome for each part"):
        bisection.add_results([("t", PASS)])
    assert bisection.next() is parts


@settings(max_examples=tries(60), deadline=None)
@given(st.integers(1, 20), st.integers(1, 5), st.randoms(use_true_random=False))
def test_whatever_is_answered_it_ends_and_says_something(count: int, size: int, chance: object) -> None:
    bisection = Bisection(leaves(count, size), "all-1")
    played(bisection, lambda _: chance.choice((PASS, FAIL, UNKNOWN)), most=200)  # type: ignore[attr-defined]
    found = bisection.accusations()
    assert found and all(accused.tests_for[0] == "all-1" for accused in found)
