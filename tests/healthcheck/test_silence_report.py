"""What is said of silences: one line each, with names and the next command."""

from __future__ import annotations

from dataclasses import replace

import pytest

from healthcheck.report.silences import document, ended_line, held_back, left, line, notes, of_node
from healthcheck.store.silences import Silence, SilenceEnd
from healthcheck.triage.past import NodeHistory, SilencedHistory
from healthcheck.triage.plan import TriagePlan, make
from tests.healthcheck.triage.made import NOW, at, fleet, policy, problem

PORTS = Silence(3, frozenset({"n1", "n2", "n3"}), "port-*", "cable on order", "ann", at(-20), at(72))
FANS = Silence(4, frozenset({"n2"}), "fan", "a\x1b[31m\nb", "bob", at(-20), at(5))


def plan() -> TriagePlan:
    nodes = (NodeHistory("n1", hidden=SilencedHistory((problem("port-state", "mlx5_0", node="n1"),))),
             NodeHistory("n2", hidden=SilencedHistory((problem("port-rate", "mlx5_0", node="n2"),
                                                       problem("fan", "2", node="n2", severity="warning")))))
    return make(fleet(*nodes, healthy=20), policy())


def test_each_silence_that_holds_something_back_is_a_line_of_the_plan() -> None:
    first, second = held_back(plan(), [PORTS, FANS, replace(PORTS, id=5, until=at(1))])
    assert first == (
        "silenced  n[1-2]: 2 problems, port-state, port-rate, would isolate for port; silence 3 of ann until "
        "2027-01-18T08:00Z (3d 0h): cable on order")
    assert second == ("silenced  n2: 1 problem, fan; silence 4 of bob until 2027-01-15T13:00Z (5h 0m: soon): "
                      "a\\x1b[31m\\nb")


def test_the_document_has_every_problem_with_what_it_would_come_to() -> None:
    assert [(one["node"], one["rule"], one["silence"], one["fault"], one["isolation"])
            for one in document(plan(), [PORTS, FANS])] == [
        ("n1", "port-state", 3, "port", "no-new-jobs"), ("n2", "port-rate", 3, "port", "no-new-jobs"),
        ("n2", "fan", 4, "", "none")]
    assert document(plan(), [])[0]["silence"] is None


def test_a_node_names_the_silences_that_hide_its_problems() -> None:
    many = [problem(rule, node="n2") for rule in ("port-a", "port-b", "port-c", "port-d")]
    assert of_node([*many, problem("fan", node="n2")], [PORTS, FANS], NOW) == (
        "silence 3 until 2027-01-18T08:00Z (3d 0h) hides port-a, port-b, port-c and 1 more; "
        "silence 4 until 2027-01-15T13:00Z (5h 0m: soon) hides fan")
    assert of_node([problem("gpu-count", node="n2")], [PORTS, FANS], NOW) == ""


@pytest.mark.parametrize(("until", "ended", "said"), [
    (72, None, []), (24.1, None, []),
    (23.9, None, ["note: silence 3 (port-* on n1) ends in 24 h: then 1 problem counts again; or: "
                  "muster silence n1 'port-*' --for 5d --reason TEXT"]),
    (-23.9, None, ["note: silence 3 (port-* on n1) expired 24 h ago: 1 problem counts again"]),
    (-24.1, None, []), (23.9, -1, []), (72, -1, [])])
def test_what_ends_soon_or_expired_lately_is_noted_and_what_a_person_ended_is_not(
    until: float, ended: float | None, said: list[str],
) -> None:
    one = replace(PORTS, began=at(-100), until=at(until), ended=at(ended) if ended is not None else None)
    assert list(notes([one], [problem("port-state", node="n1")], NOW)) == said
    assert list(notes([one], [problem("port-state", node="n9")], NOW)) == []


def test_what_another_silence_hides_then_is_not_noted() -> None:
    soon, longer = replace(PORTS, until=at(2)), replace(PORTS, id=9, until=at(72))
    there = [problem("port-state", node="n1")]
    assert list(notes([soon, longer], there, NOW)) == []
    assert len(list(notes([soon, replace(longer, until=at(3))], there, NOW))) == 1


def test_a_silence_of_the_list_says_what_it_hides_and_which_of_its_nodes_stay_held() -> None:
    there = [problem("port-state", "mlx5_0", node="n1"), problem("fan", node="n2")]
    assert line(PORTS, NOW, there, {"n2", "n3", "n8"}) == (
        "silence 3: port-* on n[1-3]  until 2027-01-18T08:00Z (3d 0h)  1 problem now  port-state of "
        "mlx5_0 on "
        "n1  n[2-3] stay held: muster uncordon n[2-3]  ann  cable on order")
    assert line(replace(PORTS, began=at(1)), NOW, None, ()) == (
        "silence 3: port-* on n[1-3]  from 2027-01-15T09:00Z until 2027-01-18T08:00Z  ann  cable on order")


def test_one_that_is_over_says_by_whom() -> None:
    over = replace(PORTS, ended=at(-3))
    assert ended_line(over, NOW, SilenceEnd("bob", "cable is there")) == (
        "silence 3: port-* on n[1-3]  ended by bob (cable is there) at 2027-01-15T05:00Z, 3 h ago  ann  "
        "cable on order")
    assert "  expired at 2027-01-15T07:00Z, 60 min ago  " in ended_line(
        replace(PORTS, until=at(-1)), NOW, None)


@pytest.mark.parametrize(("seconds", "said"), [
    (29, "0m"), (3599, "1h 0m"), (86399, "1d 0h"), (5 * 86400, "5d 0h")])
def test_what_is_left_is_reported_in_two_units(seconds: float, said: str) -> None:
    assert left(seconds) == said
