"""What opens a gate and what closes it, each thing alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from healthcheck.gate.decide import Gate, GateDecision, answer
from healthcheck.gate.messages import text
from healthcheck.gate.reading import snapshot_of
from tests.healthcheck.gate.fleet import NOW, POLICY, certificate, document, fleet, names, snapshot

HOUR = 3600


def asked(
    nodes: dict[str, Any], wanted: list[str] | None = None, now: float = NOW, **changed: Any,
) -> GateDecision:
    return answer(snapshot(nodes, **changed), list(nodes) if wanted is None else wanted, now)


def policy(section: str, **changed: Any) -> dict[str, Any]:
    return {**POLICY, section: {**POLICY[section], **changed}}


def one(**odd: Any) -> GateDecision:
    return asked(fleet(1, gpu001=odd))


def only(said: GateDecision) -> str:
    assert len(said.whys) == 1, said.whys
    return said.whys[0].why


def test_nodes_with_nothing_wrong_open_without_a_word() -> None:
    assert asked(fleet(4)) == GateDecision(Gate.OPEN)


@pytest.mark.parametrize(("odd", "why"), [
    ({"lifecycle": "rma"}, "not in service: rma"),
    ({"lifecycle": "maintenance"}, "not in service: maintenance"),
    ({"isolation": "no new jobs", "why": "gpu-error: GPU 3"}, "isolated (no new jobs): gpu-error: GPU 3"),
    ({"isolation": "evict"}, "isolated (evict): no reason given"),
    ({"cordoned": "a person: fan, Tuesday"}, "cordoned: a person: fan, Tuesday"),
    ({"certificate": None}, "no certificate: it has not passed a burn-in"),
    ({"certificate": certificate(kind="revoked", why="wrong sums")},
     "its certificate was revoked: wrong sums"),
    ({"certificate": certificate(kind="requalify", cause="changed", why="GPU 3")}, "must requalify: GPU 3"),
    ({"certificate": certificate(kind="requalify")}, "must requalify: no reason given"),
    ({"certificate": certificate(stage="none")}, "certified by none burn-in; policy asks for quick"),
    ({"state": "unhealthy", "why": "gpu-count"}, "unhealthy: gpu-count"),
    ({"state": "unknown", "origin": "node", "why": "nvml hangs"}, "unknown, by the node: nvml hangs"),
    ({"state": "unknown", "origin": None}, "unknown, by the node"),
])
def test_one_thing_that_is_wrong_closes_and_says_which_node_why_and_what_to_do(
    odd: dict[str, Any], why: str,
) -> None:
    said = asked(fleet(4, gpu002=odd))
    assert said.gate is Gate.CLOSED
    assert only(said) == why
    assert said.whys[0].node == "gpu002" and said.whys[0].do


@pytest.mark.parametrize(("odd", "note"), [
    ({"state": "degraded", "why": "one fan"}, "degraded: one fan"),
    ({"certificate": certificate(kind="requalify", cause="age", why="93 days ago")},
     "must requalify: 93 days ago"),
    ({"certificate": certificate(kind="requalify", cause="rebooted", why="booted")},
     "must requalify: booted"),
    ({"state": "unknown", "origin": "muster", "why": "store locked"},
     "unknown, by muster itself: store locked"),
])
def test_what_does_not_close_is_said(odd: dict[str, Any], note: str) -> None:
    said = asked(fleet(4, gpu002=odd))
    assert said.gate is Gate.OPEN
    assert [(notice.nodes, notice.text) for notice in said.notices] == [(("gpu002",), note)]


def test_age_never_closes_whatever_the_policy_says_of_the_rest() -> None:
    strict = policy("certificate", rebooted="block", changed="block")
    assert asked(fleet(1, gpu001={"certificate": certificate(kind="requalify", cause="age")}),
                 policy=strict).gate is Gate.OPEN
    assert asked(fleet(1, gpu001={"certificate": certificate(kind="requalify", cause="rebooted")}),
                 policy=strict).gate is Gate.CLOSED


@pytest.mark.parametrize(("section", "changed", "odd"), [
    ("state", {"degraded": "block"}, {"state": "degraded"}),
    ("certificate", {"stage": "soak"}, {}),
    ("certificate", {"rebooted": "block"}, {"certificate": certificate(kind="requalify", cause="rebooted")}),
    ("unknown", {"muster": "block"}, {"state": "unknown", "origin": "muster"}),
    ("unknown", {"rules": {"gpu-*": "block"}},
     {"state": "unknown", "origin": "muster", "unknown": ["gpu-count"]}),
])
def test_a_stricter_policy_closes(section: str, changed: dict[str, Any], odd: dict[str, Any]) -> None:
    assert asked(fleet(1, gpu001=odd)).gate is Gate.OPEN
    assert asked(fleet(1, gpu001=odd), policy=policy(section, **changed)).gate is Gate.CLOSED


@pytest.mark.parametrize(("section", "changed", "odd"), [
    ("state", {"unhealthy": "allow"}, {"state": "unhealthy"}),
    ("state", {"cordoned": "allow"}, {"cordoned": "Ann"}),
    ("certificate", {"changed": "allow"}, {"certificate": certificate(kind="requalify", cause="changed")}),
    ("unknown", {"node": "allow"}, {"state": "unknown", "origin": "node"}),
    ("unknown", {"rules": {"kernel-*": "allow"}},
     {"state": "unknown", "origin": "node", "unknown": ["kernel-xid"]}),
])
def test_a_laxer_policy_opens_and_says_so(section: str, changed: dict[str, Any], odd: dict[str, Any]) -> None:
    assert asked(fleet(1, gpu001=odd)).gate is Gate.CLOSED
    said = asked(fleet(1, gpu001=odd), policy=policy(section, **changed))
    assert said.gate is Gate.OPEN and said.notices


def test_of_several_unknown_rules_each_must_be_allowed() -> None:
    rules = policy("unknown", rules={"kernel-*": "allow"})
    odd = {"state": "unknown", "origin": "node", "unknown": ["kernel-xid", "gpu-count"]}
    assert asked(fleet(1, gpu001=odd), policy=rules).gate is Gate.CLOSED


@pytest.mark.parametrize(("nodes", "wanted", "hours", "gate", "why"), [
    (fleet(4), [], 0, Gate.CLOSED, "the node list is empty"),
    (fleet(4), ["gpu001", "gpu999"], 0, Gate.CLOSED, "the snapshot has no such node"),
    # a clock that was set back closes, and one that is a little behind does not
    (fleet(2), None, -2, Gate.CLOSED, "behind the snapshot"), (fleet(2), None, -240 / HOUR, Gate.OPEN, ""),
    (fleet(2), None, 25, Gate.UNSURE, "past the grace"),
    # a node that was bad when the head went away stays closed; one that was never looked at lacks a result
    (fleet(2, gpu002={"state": "unhealthy"}), None, 8, Gate.CLOSED, "unhealthy"),
    (fleet(4, gpu003={"looked": None}), None, 0, Gate.CLOSED, "never checked"),
])
def test_who_is_asked_of_and_when_decides(
    nodes: dict[str, Any], wanted: list[str] | None, hours: float, gate: Gate, why: str,
) -> None:
    said = asked(nodes, wanted, now=NOW + hours * HOUR)
    assert said.gate is gate and [why in one.why for one in said.whys] == [True] * (gate is not Gate.OPEN)


def test_a_head_that_is_off_for_eight_hours_closes_nothing_and_is_reported() -> None:
    said = asked(fleet(512), now=NOW + 8 * HOUR)
    assert said.gate is Gate.OPEN
    assert "the snapshot is 8 h old" in said.notices[0].text


def test_a_locked_store_closes_nothing_within_the_grace() -> None:
    odd = {"state": "unknown", "origin": "muster", "why": "the store is locked", "looked": NOW - 5 * HOUR}
    said = asked(fleet(4, **dict.fromkeys(names(4), odd)))
    assert said.gate is Gate.OPEN
    assert said.notices[0].nodes == tuple(names(4))
    later = {**odd, "looked": NOW - 30 * HOUR, "certificate": certificate(at=NOW - 40 * HOUR)}
    assert asked(fleet(1, gpu001=later)).gate is Gate.UNSURE


def test_a_locked_store_opens_no_node_that_was_never_certified() -> None:
    assert one(state="unknown", origin="muster", certificate=None).gate is Gate.CLOSED


def test_one_of_512_may_lack_a_fresh_result_where_policy_allows_and_one_alone_may_not() -> None:
    stale = {"looked": NOW - 3 * HOUR}
    said = asked(fleet(512, gpu007=stale))
    assert said.gate is Gate.OPEN
    assert said.notices[0].nodes == ("gpu007",) and "1 of 512" in said.notices[0].text
    assert asked(fleet(512, gpu007=stale), policy=policy("unknown", percent=0)).gate is Gate.CLOSED
    assert asked(fleet(512, gpu007=stale), ["gpu007"]).gate is Gate.CLOSED
    assert asked(fleet(512, **{f"gpu00{at}": stale for at in (1, 2, 3)})).gate is Gate.CLOSED


def test_where_all_sweeps_have_stopped_nodes_open_within_the_grace() -> None:
    def stopped(hours: int) -> dict[str, Any]:
        return fleet(4, **{name: {"looked": NOW - hours * HOUR} for name in names(4)})

    said = asked(stopped(8), ["gpu001"])
    assert said.gate is Gate.OPEN and "no fresh result of any node" in said.notices[0].text
    assert asked(stopped(30), ["gpu001"]).gate is Gate.UNSURE
    assert asked(stopped(8), ["gpu001"], policy=policy("unknown", muster="block")).gate is Gate.UNSURE


def test_the_branch_of_the_driver_must_be_equal_and_its_last_number_need_not() -> None:
    odd = {"versions": {"driver": "550.90.07"}}
    assert asked(fleet(4, gpu002=odd)).gate is Gate.OPEN
    said = asked(fleet(4, gpu002={"versions": {"driver": "535.183.01"}}))
    assert said.gate is Gate.CLOSED
    assert (said.whys[0].node, only(said)) == ("gpu002", "driver-branch 535, while 3 of 4 have 550")
    assert asked(fleet(4, gpu002=odd), policy=policy("versions", equal=["driver"])).gate is Gate.CLOSED


def test_a_version_that_is_not_known_is_not_equal_and_matters_to_no_one_alone() -> None:
    nodes = fleet(3, gpu002={"versions": {}})
    assert only(asked(nodes)) == "driver-branch is unknown, and must be equal"
    assert asked(nodes, ["gpu002"]).gate is Gate.OPEN
    assert asked(nodes, policy=policy("versions", equal=[])).gate is Gate.OPEN


def test_a_node_named_twice_counts_once() -> None:
    assert len(asked(fleet(2, gpu001={"lifecycle": "rma"}), ["gpu001", "gpu001"]).whys) == 1


@pytest.mark.parametrize("key", ["lifecycle", "state", "isolation", "versions"])
def test_an_entry_without_a_key_closes(key: str) -> None:
    nodes = fleet(2)
    del nodes["gpu001"][key]
    said = asked(nodes)
    assert said.gate is Gate.CLOSED and "is unreadable" in only(said)


@pytest.mark.parametrize("changed", [
    {"looked": "yesterday"}, {"looked": True}, {"looked": -1}, {"certificate": []},
    {"certificate": {"kind": "ok"}}, {"groups": 3}, {"certificate": certificate(kind="fine")},
    {"certificate": certificate(at=None)}, {"versions": []}, {"state": "green"}, {"why": 3},
])
def test_an_entry_that_is_not_what_it_should_be_closes(changed: dict[str, Any]) -> None:
    assert one(**changed).gate is Gate.CLOSED


@pytest.mark.parametrize("held",
                         [None, {}, [], {**POLICY, "grace": {"hours": float("nan")}},
                          {**POLICY, "grace": {"hours": "24"}}, {**POLICY, "fresh": {"minutes": True}},
                          {**POLICY, "unknown": {**POLICY["unknown"], "node": "maybe"}}])
def test_a_policy_that_cannot_be_understood_opens_nothing(held: Any) -> None:
    # no head writes NaN; Python reads it all the same
    whole = json.dumps(document(fleet(1), policy=held)).encode()
    assert answer(snapshot_of(whole), ["gpu001"], NOW).gate is Gate.UNSURE


def test_what_cannot_be_known_of_a_node_is_to_be_as_fresh_as_what_is_known() -> None:
    lenient = policy("unknown", node="allow")
    old = {"state": "unknown", "origin": "node", "looked": NOW - 30 * 86400}
    assert asked(fleet(4, gpu002=old), policy=lenient).gate is Gate.CLOSED
    assert asked(fleet(4, gpu002={**old, "looked": NOW}), policy=lenient).gate is Gate.OPEN


def test_a_long_answer_names_what_fails_before_what_is_unknown() -> None:
    unsure = {f"gpu{at:03}": {"state": "unknown", "origin": "node", "why": f"nvml hangs for {at} s"}
              for at in range(1, 40)}
    nodes = fleet(40, **unsure, gpu040={"state": "unhealthy", "why": "gpu-ecc-uncorrected: GPU 3: 4"})
    lines = text(asked(nodes), 40, None, NOW).splitlines()
    assert lines[1] == "  gpu040: unhealthy: gpu-ecc-uncorrected: GPU 3: 4"
    assert lines[-1] == "  ... and 20 more reasons: --format json has all"
