"""Findings are reported with how many nodes have them: one node's own, or one event of many."""

from __future__ import annotations

import pytest

from healthcheck.judge.peers import with_node_counts
from healthcheck.model.outcome import Finding, Result, Severity, Status


def result(*subjects: str, status: Status = Status.FAIL, text: str = "seen") -> Result:
    return Result("kernel-novel", "kernel.novel", status, Severity.WARNING,
                  tuple(Finding(text, "known", one) for one in subjects))


def test_what_one_node_says_alone_is_reported_as_its_own() -> None:
    results = {"n1": result("a"), "n2": result("b"), "n3": Result("r", "c", Status.PASS, Severity.WARNING)}
    assert {node: one.findings[0].observed for node, one in with_node_counts(results).items()} == {
        "n1": "seen; no other node says it", "n2": "seen; no other node says it"}


@pytest.mark.parametrize(("reporting", "nodes", "one_event"),
                         [(2, 64, False), (3, 64, False), (6, 64, False), (7, 64, True), (3, 8, True)])
def test_what_many_say_at_once_is_reported_with_the_same_words_for_each(
    reporting: int, nodes: int, one_event: bool,
) -> None:
    passed = Result("r", "c", Status.PASS, Severity.WARNING)
    results = {f"n{n}": result("a", text=f"seen at {n}") if n < reporting else passed for n in range(nodes)}
    words = {one.findings[0].observed for one in with_node_counts(results).values()}
    assert (words == {f"{reporting} of {nodes} nodes say it at once; n0: seen at 0"}) is one_event
    assert one_event or words == {f"seen at {n}; {reporting} of {nodes} nodes say it"
                                  for n in range(reporting)}


def test_nodes_on_which_the_rule_was_not_judged_are_no_peers() -> None:
    unknown = Result("r", "c", Status.UNKNOWN, Severity.WARNING)
    assert with_node_counts({"n1": result("a"), "n2": unknown, "n3": unknown}) == {}


def test_two_nodes_are_peers_of_each_other() -> None:
    passed = Result("r", "c", Status.PASS, Severity.WARNING)
    assert with_node_counts({"n1": result("a"),
                             "n2": passed})["n1"].findings[0].observed == "seen; no other node says it"
