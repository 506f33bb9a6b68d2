"""What `base:` of the rules may say, and what nodes may answer."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from inventory.errors import RulesError
from inventory.located import parse_yaml
from inventory.text import clean
from inventory.transport.base import Failure, Reply, Stage
from provisioning.base.desired import ITEMS, BaseSettings, desired
from provisioning.base.identity import kept, number, uuid, who
from provisioning.base.report import ItemState, read
from provisioning.bringup.policy.load import load


def test_the_packaged_rules_wish_for_all_of_it() -> None:
    found = desired(load([packaged()]).base)
    assert found == BaseSettings(sysctl={"kernel.numa_balancing": "0"})
    assert found.clock_seconds == 5


def test_a_site_leaves_items_out_and_adds_kernel_parameters() -> None:
    found = desired(parse_yaml("time: false\n"
                               "clock_seconds: null\n"
                               "sysctl: {vm.swappiness: 1, kernel.numa_balancing: null}\n", "site.yaml"))
    assert (found.time, found.clock_seconds, dict(found.sysctl)) == (False, None, {"vm.swappiness": "1"})
    assert found.memlock


@pytest.mark.parametrize(
    ("text", "says"),
    [("tme: true\n", "site.yaml:1:6: base: unknown key tme; there are time,"),
     ("time: 5\n", "base: time: expected true or false, got 5"),
     ("clock_seconds: 0\n", "expected a number from 0.1 to 3600, or null"),
     ("sysctl: [a]\n", "expected a map of at most 64 kernel parameters"),
     ("sysctl: {'../../etc/passwd': 1}\n", "expected a name such as kernel.numa_balancing"),
     ("sysctl: {a.b: 'x; y'}\n", "plain words"),
     ("sysctl: {a.b: [1]}\n",
      "site.yaml:1:15: base: sysctl: a.b: expected a number or plain words, got a list")])
def test_a_mistake_is_one_line_with_its_place(text: str, says: str) -> None:
    with pytest.raises(RulesError) as caught:
        desired(parse_yaml(text, "site.yaml"))
    assert says in str(caught.value)
    assert str(caught.value).startswith("site.yaml:1:")


json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
                           lambda inner: st.lists(inner, max_size=4)
                               | st.dictionaries(st.text(max_size=10), inner, max_size=4), max_leaves=12)
item = st.fixed_dictionaries(
    {
        "stand": st.sampled_from(("so", "differs", "trouble", "wait", "unseen", "out", "absent"))
            | json_values, "message": json_values, "change": st.lists(json_values, max_size=3) | json_values})
report = st.fixed_dictionaries(
    {
        "ok": json_values, "message": json_values, "changed": st.lists(st.sampled_from(ITEMS)) | json_values,
        "failed": json_values | st.dictionaries(st.sampled_from(ITEMS), json_values), "time": json_values,
        "items": st.tuples(*(item for _ in ITEMS)).map(
            lambda all_: [{**one, "item": name} for one, name in zip(all_, ITEMS, strict=True)])})


def reply(document: Any) -> Reply:
    return Reply("n", zlib.compress(json.dumps(document).encode()), None, 100.0, 101.0)


@given(st.binary(max_size=60) | report.map(lambda one: zlib.compress(json.dumps(one).encode()))
       | json_values.map(lambda one: zlib.compress(json.dumps(one).encode())))
def test_whatever_a_node_answers_is_a_value_and_never_done_unless_it_says_so_of_every_item(
    body: bytes,
) -> None:
    found = read(Reply("n", body, None, 100.0, 101.0), 5.0)
    if found.answered:
        assert [one.name for one in found.items] == ["time", "clock", *ITEMS[1:]]
    else:
        assert (found.stage, found.ok, found.done) == (Stage.REPLY, False, False)
    for line in (found.message, *found.change, *found.failed.values(), *(one.message for one in found.items)):
        assert clean(line) == line
    if found.done:
        assert {one.how for one in found.items} <= {ItemState.SO, ItemState.ABSENT, ItemState.OUT}


@pytest.mark.parametrize(
    "spoil",
    [lambda one: one["items"].pop(), lambda one: one.pop("time"),
     lambda one: one["items"].append(one["items"][0]), lambda one: one["items"][1].update(stand="differs"),
     lambda one: one.update(time="nan")])
def test_an_answer_that_lacks_an_item_says_nothing(spoil: Any) -> None:
    whole = {"ok": True, "message": "", "changed": [], "failed": {}, "time": 100.5,
             "items": [{"item": name, "stand": "so", "message": "", "change": []} for name in ITEMS]}
    assert read(reply(whole), 5.0).done
    spoil(whole)
    assert not read(reply(whole), 5.0).answered


@given(st.fixed_dictionaries({
    "name": json_values, "machine": json_values, "boot": json_values,
    "serial": json_values, "uuid": json_values, "tree": json_values,
    "root": json_values, "unseen": json_values}) | json_values)
def test_whoever_a_node_says_that_it_is_is_text(document: Any) -> None:
    found = who(reply(document))
    if found.failure is None:
        assert all(clean(value) == value for value in found.keep.values())
        assert kept("n", found.keep).keep == found.keep


def test_what_makers_leave_in_place_of_a_number_is_none() -> None:
    for text in ("To Be Filled By O.E.M.", "Default string", "0123456789", "", "  ", "Not Specified",
                 "00000000", "System Serial Number", "None"):
        assert number(text) == "", text
    assert number(" J1234XY ") == "J1234XY"
    assert uuid("03000200-0400-0500-0006-000700080009") == ""
    assert uuid("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF") == ""
    assert uuid("4C4C4544-0035-3010-8048-B7C04F503333") == "4c4c4544-0035-3010-8048-b7c04f503333"


def test_a_node_that_was_not_reached_is_not_done() -> None:
    found = read(Reply("n", None, Failure(Stage.CONNECT, "no route"), 0, 1), 5.0)
    assert (
        found.answered, found.done, found.stage, found.message) == (False, False, Stage.CONNECT, "no route")
