"""A node gets another name in the inventory's text: in entries, sets and groups, and nothing else changes."""

from __future__ import annotations

import difflib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.errors import InventoryError
from inventory.load import parse_with_origins
from inventory.rename import renamed
from tests.tries import tries

FILE = """\
version: 1
defaults: {user: muster}
# who trains
groups: {train: "gpu[001-006]", spares: ["gpu[007-008]", "@train!gpu[001-005]"], few: "gpu00*!gpu007"}
nodes:
  gpu[001-004]: {rack: r01}   # by the door
  gpu[005-008]: {rack: r02}
  gpu007: {address: 10.1.0.7, lifecycle: {state: rma, owner: vendor}}   # case 17
  "@spares": {labels: {zone: a}}
"""


def changed(old: str, new: str, text: str = FILE) -> list[str]:
    after = renamed(text, "muster.yaml", old, new)
    return [line for line in difflib.ndiff(text.splitlines(), after.splitlines()) if line[0] in "+-"]


def test_an_entry_of_its_own_keeps_its_place_and_its_comment() -> None:
    text = "version: 1\nnodes:\n  a: {rack: r1}  # left\n  b: {address: 10.0.0.2}  # right\n  c:\n"
    assert changed("b", "z9", text) == ["-   b: {address: 10.0.0.2}  # right",
                                        "+   z9: {address: 10.0.0.2}  # right"]


def test_sets_and_groups_get_the_new_name_and_lose_the_old_one() -> None:
    assert changed("gpu007", "node9") == [
        '- groups: {train: "gpu[001-006]", spares: ["gpu[007-008]", "@train!gpu[001-005]"], few: '
        '"gpu00*!gpu007"}',
        '+ groups: {train: "gpu[001-006]", spares: ["gpu008,node9", "@train!gpu[001-005]"], few: '
        '"gpu00*!node9"}',
        "-   gpu[005-008]: {rack: r02}", "+   gpu[005-006,008],node9: {rack: r02}",
        "-   gpu007: {address: 10.1.0.7, lifecycle: {state: rma, owner: vendor}}   # case 17",
        "+   node9: {address: 10.1.0.7, lifecycle: {state: rma, owner: vendor}}   # case 17"]


def test_a_group_by_a_wildcard_keeps_its_members() -> None:
    after = parse_with_origins(renamed(FILE, "muster.yaml", "gpu003", "other"), "muster.yaml").inventory
    before = parse_with_origins(FILE, "muster.yaml").inventory
    assert set(after.groups["few"]) == {*before.groups["few"], "other"} - {"gpu003"}
    text = FILE.replace("gpu00*!gpu007", "gpu00*!gpu00[6-7]")
    assert 'few: "gpu00*!gpu00[6-7]"' in text
    with pytest.raises(InventoryError, match="has a node gpu008 already"):
        renamed(FILE, "muster.yaml", "gpu003", "gpu008")


@pytest.mark.parametrize(("old", "new", "said"), [
    ("gpu009", "x", "muster.yaml has no node 'gpu009'"),
    ("gpu001", "gpu[1-2]", "is not a node name"),
    ("gpu001", "", "is not a node name"),
    ("gpu001", "gpu001", "has a node gpu001 already")])
def test_what_cannot_be_is_one_line(old: str, new: str, said: str) -> None:
    with pytest.raises(InventoryError, match=r"(?s)^[^\n]*\Z") as error:
        renamed(FILE, "muster.yaml", old, new)
    assert said in str(error.value)


def test_what_is_left_of_a_set_behind_an_exclusion_is_excluded_whole() -> None:
    text = ("version: 1\ngroups: {most: \"@all!r[1-2]-n[1-2]\"}\n"
            "nodes:\n  r[1-2]-n[1-3]:\n")
    after = renamed(text, "f", "r1-n2", "x")
    assert set(parse_with_origins(after, "f").inventory.groups["most"]) == {"r1-n3", "r2-n3"}


def test_a_set_behind_an_intersection_is_edited_by_hand() -> None:
    text = FILE.replace("gpu00*!gpu007", "gpu00*&gpu[003-004]")
    with pytest.raises(InventoryError, match="a set behind & cannot be edited"):
        renamed(text, "muster.yaml", "gpu003", "x")
    assert "gpu00*&x" in renamed(FILE.replace("gpu00*!gpu007", "gpu00*&gpu003"), "muster.yaml", "gpu003", "x")


NAMES = [f"gpu{at}" for at in range(1, 7)]
PART = st.sampled_from([*NAMES, "gpu[1-3]", "gpu[2-6]", "gpu[1,4]", "gpu*", "gpu?", "@g0", "@all"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """An inventory of six nodes whose sets and groups overlap."""
    items = draw(st.lists(st.lists(PART, min_size=1, max_size=3), min_size=1, max_size=3))
    sets = ["".join(f"{draw(st.sampled_from([',', '!']))}{part}" for part in item)[1:] for item in items]
    group = sets[0] if len(sets) == 1 else str(sets).replace("'", '"')
    inner = draw(st.sampled_from(["gpu1", "gpu[2-3]", "gpu[1-6]!gpu4"]))
    return (
        f'version: 1\ngroups:\n  g0: "{inner}"\n  g1: '
        f'{group if group[0] == "[" else chr(34) + group + chr(34)}\n'
        "nodes:\n  gpu[1-6]: {rack: r1}\n  gpu[1-2]: {power: p}\n  gpu5: {address: 10.0.0.5}\n")


@settings(max_examples=tries(150), deadline=None)
@given(text=texts(), old=st.sampled_from(NAMES), new=st.sampled_from(["gpu9", "x", "gpu07", "a-1.b"]))
def test_whatever_the_groups_are_only_the_name_changes_and_back_again_it_is_as_before(
    text: str, old: str, new: str,
) -> None:
    before = parse_with_origins(text, "f").inventory
    after = parse_with_origins(there := renamed(text, "f", old, new), "f").inventory
    assert dict(after.nodes) == {
        new if name == old else name: replace(node, name=new) if name == old else node
        for name, node in before.nodes.items()}
    assert {name: set(held) for name, held in after.groups.items()} == {
        name: {new if each == old else each for each in held} for name, held in before.groups.items()}
    back = parse_with_origins(renamed(there, "f", new, old), "f").inventory
    assert dict(back.nodes) == dict(before.nodes)
    assert {name: set(held) for name, held in back.groups.items()} == {
        name: set(held) for name, held in before.groups.items()}
