"""Ranking: a cause beats its symptom, what came before beats what came after,
and what many share is of none of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from healthcheck.blame.evidence import Case, Evidence, JobWindow, SharedPlace, Weight
from healthcheck.blame.page import exit_code, headline
from healthcheck.blame.rank import NEAR, SKEW, Suspect, culprit, suspects
from healthcheck.model.outcome import Owner
from inventory.nodeset import fold

NODES = tuple(f"n{number}" for number in range(1, 9))
WINDOW = JobWindow(10_000.0, 20_000.0, NODES)
CASE = Case("job 1", WINDOW, "failed", 19_990.0, ())


def seen(
    node: str, weight: Weight, moment: float | None, *, since: float | None = None, group: str = "",
    sure: bool = True,
) -> Evidence:
    return Evidence(node, weight, weight.value, "test", since if since is not None else moment, moment,
                    group=group or weight.value, sure=sure)


def ranked(*evidence: Evidence, shared: tuple[SharedPlace, ...] = ()) -> list[Suspect]:
    return suspects(replace(CASE, evidence=evidence, shared=shared))


@pytest.mark.parametrize(("evidence", "nodes"), [
    # A device that failed before the end outranks everything else.
    *(((seen("n1", worse, 19_980.0), seen("n2", Weight.DEVICE, 19_970.0)), ["n2"]) for worse in (
        Weight.LOST, Weight.NETWORK, Weight.HOST, Weight.USER, Weight.LEAD, Weight.STOPPED, Weight.ODD,
        Weight.SYMPTOM)),
    # Of two alike the one before the failure is first, and of two before the earlier.
    ((seen("n1", Weight.DEVICE, 19_999.0 + SKEW), seen("n2", Weight.DEVICE, 19_950.0),
      seen("n3", Weight.DEVICE, 19_900.0)), ["n3", "n2", "n1"]),
    # What a job lived with for hours counts less than what came near its end.
    ((seen("n1", Weight.DEVICE, CASE.failed - NEAR - 1), seen("n2", Weight.NETWORK, CASE.failed - 60)),
     ["n2"]),
    # A preemption outranks a fault, and a time limit does not.
    ((seen("n1", Weight.DEVICE, 19_000.0), seen("", Weight.ORDERED, 20_000.0)), [""]),
    ((seen("n1", Weight.DEVICE, 19_000.0), seen("", Weight.STOPPED, 20_000.0)), ["n1"]),
])
def test_what_outranks_what(evidence: tuple[Evidence, ...], nodes: list[str]) -> None:
    assert [one.node for one in ranked(*evidence)][:len(nodes)] == nodes


def test_clocks_may_differ_by_some_seconds() -> None:
    assert ranked(seen("n1", Weight.DEVICE, CASE.failed + SKEW - 1))[0].score == ranked(
        seen("n1", Weight.DEVICE, CASE.failed))[0].score


def test_what_came_after_the_end_is_no_ones_cause() -> None:
    assert culprit(ranked(seen("n1", Weight.DEVICE, WINDOW.end + 3600))) is None


def test_a_lead_and_a_cause_on_one_node_support_each_other() -> None:
    both = ranked(seen("n1", Weight.NETWORK, 19_950.0), seen("n2", Weight.NETWORK, 19_940.0),
                  replace(seen("n1", Weight.LEAD, 19_990.0), source="log"))
    assert both[0].node == "n1" and both[0].main.weight is Weight.NETWORK


def test_symptoms_alone_make_no_culprit() -> None:
    assert culprit(ranked(*(seen(node, Weight.SYMPTOM, 19_990.0) for node in NODES))) is None


def test_nodes_of_one_leaf_with_one_fault_are_one_cause_there() -> None:
    leaf = SharedPlace("leaf", "l1", frozenset(NODES[:4]), owner=Owner.NETWORK)
    rack = SharedPlace("rack", "r1", frozenset(NODES))
    found = ranked(*(seen(node, Weight.NETWORK, 19_980.0, group="port-state") for node in NODES[:4]),
                   shared=(rack, leaf))
    assert [(one.node, one.shared) for one in found] == [("", leaf)]
    assert found[0].owner is Owner.NETWORK


def test_two_nodes_of_a_leaf_or_different_faults_accuse_no_leaf() -> None:
    leaf = SharedPlace("leaf", "l1", frozenset(NODES[:4]))
    two = [seen(node, Weight.NETWORK, 19_980.0) for node in NODES[:2]]
    different = [seen(node, Weight.NETWORK, 19_980.0, group=node) for node in NODES[:4]]
    assert all(one.shared is None for found in (two, different) for one in ranked(*found, shared=(leaf,)))


def test_a_node_behind_a_shared_cause_is_still_suspect_for_what_is_its_own() -> None:
    leaf = SharedPlace("leaf", "l1", frozenset(NODES[:4]))
    found = ranked(*(seen(node, Weight.NETWORK, 19_980.0) for node in NODES[:4]),
                   seen("n2", Weight.DEVICE, 19_000.0, group="xid"), shared=(leaf,))
    assert [one.node for one in found] == ["", "n2"] or [one.node for one in found] == ["n2", ""]


@pytest.mark.parametrize(("one", "word"), [
    (seen("n1", Weight.DEVICE, 19_980.0), "certain"),
    (seen("n1", Weight.DEVICE, 20_500.0, since=19_000.0), "likely"),
    (seen("n1", Weight.DEVICE, 19_980.0, sure=False), "likely"),
    (seen("n1", Weight.LEAD, 19_980.0, sure=False), "a guess"),
])
def test_how_sure_it_is_is_said_in_words(one: Evidence, word: str) -> None:
    assert ranked(one)[0].sure == word


@pytest.mark.parametrize(("evidence", "unmeasured", "code"), [
    ((seen("n1", Weight.DEVICE, 19_980.0),), ("x: y",), 1), ((), ("x: y",), 3), ((), (), 0),
    ((seen("", Weight.STOPPED, 20_000.0),), (), 0), ((seen("", Weight.STOPPED, 20_000.0),), ("x: y",), 3),
])
def test_the_exit_code_never_says_fine_of_what_was_not_measured(
    evidence: tuple[Evidence, ...], unmeasured: tuple[str, ...], code: int,
) -> None:
    case = replace(CASE, evidence=evidence, unmeasured=unmeasured)
    assert exit_code(case, suspects(case)) == code


def test_the_headline_never_says_that_all_is_fine_where_something_was_not_measured() -> None:
    assert headline(replace(CASE, unmeasured=("n1 kernel-xid: denied",)), None,
                    fold) == "nothing found; not measured: n1 kernel-xid"
    assert headline(CASE, None, fold) == "nothing found, and all of it was measured"
