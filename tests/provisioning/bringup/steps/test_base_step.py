"""What the answers of nodes about their base configuration and their agent mean for their way."""

from __future__ import annotations

from typing import Any

import pytest

from healthcheck.model.outcome import Owner
from inventory.model import Node
from inventory.transport.base import Stage
from provisioning.agent.install import Done
from provisioning.base.told import How, Item, Told
from provisioning.base.wish import ITEMS
from provisioning.bringup.engine.model import Effect, Machine, Past, Stand
from provisioning.bringup.steps import agent, base

NODE = Node("gpu001")
CHANGE = ("/etc/security/limits.d/muster.conf (new)", "+ * - memlock unlimited")


def told(**hows: How) -> Told:
    return Told("gpu001", tuple(Item(name, hows.get(name, How.SO), "why", CHANGE if hows.get(name) is How.DIFFERS else ())
                                for name in (ITEMS[0], "clock", *ITEMS[1:])))


def machine(*deeds: Past) -> Machine:
    return Machine(NODE, 1000.0, 2000.0, {}, deeds)


def past(key: str, done: bool | None, said: str) -> Past:
    return Past(key, "", 1500.0, None if done is None else 1501.0, done, said)


def test_all_so_says_what_was_not_there_to_be_so() -> None:
    seen = base.seen(machine(), told(peermem=How.ABSENT, nouveau=How.OUT))
    assert (seen.stand, seen.said) == (
        Stand.SO, "so: time, clock, host_name, memlock, persistence, sysctl; does not apply: peermem; left out: nouveau")


@pytest.mark.parametrize(("how", "stand"), [(How.UNSEEN, Stand.UNKNOWN), (How.WAIT, Stand.WAIT), (How.TROUBLE, Stand.TROUBLE)])
def test_what_is_not_seen_on_its_way_or_in_trouble_is_never_so(how: How, stand: Stand) -> None:
    seen = base.seen(machine(), told(time=how))
    assert (seen.stand, seen.deed) == (stand, None)
    assert "time: why" in seen.said
    assert all(trouble.owner is Owner.OPERATOR for trouble in seen.troubles)


def test_what_differs_is_made_so_before_a_person_is_called_and_only_a_new_name_is_disruptive() -> None:
    seen = base.seen(machine(), told(time=How.TROUBLE, memlock=How.DIFFERS))
    assert seen.deed is not None
    assert (seen.deed.effect, seen.deed.change) == (Effect.PASSIVE, tuple(f"memlock: {line}" for line in CHANGE))
    renamed = base.seen(machine(), told(host_name=How.DIFFERS)).deed
    assert renamed is not None
    assert renamed.effect is Effect.DISRUPTIVE
    assert renamed.key != seen.deed.key


@pytest.mark.parametrize(("done", "said", "stand"), [
    (False, "it could not be made so: memlock: Read-only file system", Stand.TROUBLE), (True, "made so: memlock", Stand.TROUBLE),
    (False, "connect: refused", Stand.NOT_SO), (False, "not begun: the run was ended", Stand.NOT_SO), (None, "", Stand.NOT_SO),
])
def test_a_deed_that_the_node_refused_or_that_does_not_stay_is_trouble_and_one_that_was_not_begun_is_begun(
    done: bool | None, said: str, stand: Stand,
) -> None:
    deed = base.seen(machine(), told(memlock=How.DIFFERS)).deed
    assert deed is not None
    assert base.seen(machine(past(deed.key, done, said)), told(memlock=How.DIFFERS)).stand is stand
    # Another diff is another deed.
    assert base.seen(machine(past("base:other", done, said)), told(memlock=How.DIFFERS)).stand is Stand.NOT_SO


def test_a_node_that_did_not_answer_is_unknown() -> None:
    assert base.seen(machine(), Told("gpu001", said="refused", stage=Stage.CONNECT, ok=False)).stand is Stand.UNKNOWN


def agent_told(**more: Any) -> Done:
    return Done("gpu001", True, "", (), {
        "current": "abc", "whole": True, "timer": "active, enabled", "now": 2000.0, "installed": {"version": "1", "period": 300},
        "result": {"time": 1990.0, "state": "healthy", "bundle": "abc"}, **more})


@pytest.mark.parametrize(("more", "stand"), [
    ({}, Stand.SO), ({"current": "old"}, Stand.NOT_SO), ({"current": None}, Stand.NOT_SO), ({"whole": False}, Stand.NOT_SO),
    ({"timer": "inactive, disabled"}, Stand.NOT_SO), ({"result": "No such file or directory"}, Stand.WAIT),
    ({"result": {"time": 1990.0, "bundle": "old"}}, Stand.WAIT), ({"result": {"time": 1000.0, "bundle": "abc"}}, Stand.WAIT),
    ({"result": {"time": 9000.0, "bundle": "abc"}}, Stand.TROUBLE), ({"now": "nan"}, Stand.WAIT), ({"result": {"bundle": "abc"}}, Stand.WAIT),
])
def test_an_agent_is_so_when_the_wanted_version_has_looked_lately(more: dict[str, Any], stand: Stand) -> None:
    late = Machine(NODE, 1900.0, 2000.0)
    assert agent.seen(late, agent_told(**more), "abc", 300).stand is stand


def test_an_agent_that_never_looks_is_trouble_and_one_that_could_not_be_asked_is_unknown() -> None:
    never = agent_told(result="No such file or directory")
    assert agent.seen(machine(past("agent:abc", True, "")), never, "abc", 300).stand is Stand.WAIT
    stuck = agent.seen(machine(past("agent:abc", True, "")), never, "abc", 100)
    assert (stuck.stand, stuck.troubles[0].owner) == (Stand.TROUBLE, Owner.OPERATOR)
    assert agent.seen(machine(), Done("gpu001", False, "connect: refused"), "abc", 300).stand is Stand.UNKNOWN
    refused = past("agent:abc", False, "the agent could not be installed: this needs root here")
    assert agent.seen(machine(refused), agent_told(current=None), "abc", 300).stand is Stand.TROUBLE
