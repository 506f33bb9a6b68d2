"""What the answers of nodes about their base configuration and their agent mean for their way."""

from __future__ import annotations

from typing import Any

import pytest

from healthcheck.model.outcome import Owner
from inventory.model import Node
from inventory.transport.base import Stage
from provisioning.agent.install import AgentResult
from provisioning.base.desired import ITEMS
from provisioning.base.report import BaseReport, ItemReport, ItemState
from provisioning.bringup.engine.model import Machine, PastOperation, StepEffect, StepState
from provisioning.bringup.steps import agent, base

NODE = Node("gpu001")
CHANGE = ("/etc/security/limits.d/muster.conf (new)", "+ * - memlock unlimited")


def on_event(**hows: ItemState) -> BaseReport:
    return BaseReport("gpu001",
                      tuple(ItemReport(name, hows.get(name, ItemState.SO), "why",
                                       CHANGE if hows.get(name) is ItemState.DIFFERS else ())
                            for name in (ITEMS[0], "clock", *ITEMS[1:])))


def machine(*operations: PastOperation) -> Machine:
    return Machine(NODE, 1000.0, 2000.0, {}, operations)


def past(key: str, done: bool | None, message: str) -> PastOperation:
    return PastOperation(key, "", 1500.0, None if done is None else 1501.0, done, message)


def test_all_so_says_what_was_not_there_to_be_so() -> None:
    seen = base.seen(machine(), on_event(peermem=ItemState.ABSENT, nouveau=ItemState.OUT))
    assert ((seen.stand, seen.message) == (StepState.SO,
                                           "so: time, clock, host_name, memlock, persistence, sysctl; does "
                                           "not apply: peermem; left out: nouveau"))


@pytest.mark.parametrize(("how", "stand"),
                         [(ItemState.UNSEEN, StepState.UNKNOWN), (ItemState.WAIT, StepState.WAIT),
                          (ItemState.TROUBLE, StepState.TROUBLE)])
def test_what_is_not_seen_on_its_way_or_in_trouble_is_never_so(how: ItemState, stand: StepState) -> None:
    seen = base.seen(machine(), on_event(time=how))
    assert (seen.stand, seen.operation) == (stand, None)
    assert "time: why" in seen.message
    assert all(trouble.owner is Owner.OPERATOR for trouble in seen.troubles)


def test_what_differs_is_made_so_before_a_person_is_called_and_only_a_new_name_is_disruptive() -> None:
    seen = base.seen(machine(), on_event(time=ItemState.TROUBLE, memlock=ItemState.DIFFERS))
    assert seen.operation is not None
    assert (seen.operation.effect, seen.operation.change) == (
        StepEffect.PASSIVE, tuple(f"memlock: {line}" for line in CHANGE))
    renamed = base.seen(machine(), on_event(host_name=ItemState.DIFFERS)).operation
    assert renamed is not None
    assert renamed.effect is StepEffect.DISRUPTIVE
    assert renamed.key != seen.operation.key


@pytest.mark.parametrize(
    ("done", "message", "stand"),
    [(False, "it could not be applied: memlock: Read-only file system", StepState.TROUBLE),
     (True, "made so: memlock", StepState.TROUBLE), (False, "connect: refused", StepState.NOT_SO),
     (False, "not begun: the run was ended", StepState.NOT_SO), (None, "", StepState.NOT_SO)])
def test_an_action_that_the_node_refused_or_that_does_not_stay_is_trouble_and_one_that_was_not_begun_is_begun(
    done: bool | None, message: str, stand: StepState,
) -> None:
    operation = base.seen(machine(), on_event(memlock=ItemState.DIFFERS)).operation
    assert operation is not None
    assert base.seen(
        machine(past(operation.key, done, message)), on_event(memlock=ItemState.DIFFERS)).stand is stand
    # Another diff is another operation.
    assert base.seen(machine(past("base:other", done, message)),
                     on_event(memlock=ItemState.DIFFERS)).stand is StepState.NOT_SO


def test_a_node_that_did_not_answer_is_unknown() -> None:
    assert base.seen(
        machine(),
        BaseReport("gpu001", message="refused", stage=Stage.CONNECT, ok=False)).stand is StepState.UNKNOWN


def agent_told(**more: Any) -> AgentResult:
    return AgentResult("gpu001", True, "", (),
                       {
                           "current": "abc", "whole": True, "timer": "active, enabled", "now": 2000.0,
                           "installed": {"version": "1", "period": 300},
                           "result": {"time": 1990.0, "state": "healthy", "bundle": "abc"}, **more})


@pytest.mark.parametrize(
    ("more", "stand"),
    [({}, StepState.SO), ({"current": "old"}, StepState.NOT_SO), ({"current": None}, StepState.NOT_SO),
     ({"whole": False}, StepState.NOT_SO), ({"timer": "inactive, disabled"}, StepState.NOT_SO),
     ({"result": "No such file or directory"}, StepState.WAIT),
     ({"result": {"time": 1990.0, "bundle": "old"}}, StepState.WAIT),
     ({"result": {"time": 1000.0, "bundle": "abc"}}, StepState.WAIT),
     ({"result": {"time": 9000.0, "bundle": "abc"}}, StepState.TROUBLE), ({"now": "nan"}, StepState.WAIT),
     ({"result": {"bundle": "abc"}}, StepState.WAIT)])
def test_an_agent_is_so_when_the_wanted_version_has_looked_lately(
    more: dict[str, Any], stand: StepState,
) -> None:
    late = Machine(NODE, 1900.0, 2000.0)
    assert agent.seen(late, agent_told(**more), "abc", 300).stand is stand


def test_an_agent_that_never_looks_is_trouble_and_one_that_could_not_be_asked_is_unknown() -> None:
    never = agent_told(result="No such file or directory")
    assert agent.seen(machine(past("agent:abc", True, "")), never, "abc", 300).stand is StepState.WAIT
    stuck = agent.seen(machine(past("agent:abc", True, "")), never, "abc", 100)
    assert (stuck.stand, stuck.troubles[0].owner) == (StepState.TROUBLE, Owner.OPERATOR)
    assert agent.seen(
        machine(), AgentResult("gpu001", False, "connect: refused"), "abc", 300).stand is StepState.UNKNOWN
    refused = past("agent:abc", False, "the agent could not be installed: this needs root here")
    assert agent.seen(machine(refused), agent_told(current=None), "abc", 300).stand is StepState.TROUBLE
