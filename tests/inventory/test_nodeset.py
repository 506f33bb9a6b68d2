"""Node sets: ClusterShell's syntax, our groups, bounds, and the way back to a folded name."""

from __future__ import annotations

import re
import time
import tracemalloc

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given
from hypothesis import strategies as st

from inventory.errors import InventoryError, Mark
from inventory.model import Inventory, Node
from inventory.nodeset import MAX_NODES, Groups, expand, fold, natural, nearest
from inventory.select import select

GROUPS = {"train": ("gpu1", "gpu2", "gpu3"), "spares": ("gpu3", "gpu4"), "rack1": ("a",), "rack2": ("b",),
          "none": ()}


def refused(text: str, everything: tuple[str, ...] | None = ("gpu1", "gpu2", "gpu3", "gpu4")) -> str:
    with pytest.raises(InventoryError) as caught:
        expand(text, GROUPS, everything)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("text", "names"), [
    ("gpu7", "gpu7"),
    ("gpu[1-3]", "gpu1 gpu2 gpu3"),
    ("gpu[001-003]", "gpu001 gpu002 gpu003"),
    ("gpu[08-11]", "gpu08 gpu09 gpu10 gpu11"),
    ("gpu[1,3,7-9]", "gpu1 gpu3 gpu7 gpu8 gpu9"),
    ("gpu[0-10/5]", "gpu0 gpu5 gpu10"),
    ("gpu[1-2]-ib[0-1].x", "gpu1-ib0.x gpu1-ib1.x gpu2-ib0.x gpu2-ib1.x"),
    ("b,a,c", "a b c"),
    (" a , b ", "a b"),
    ("gpu[1-4]!gpu[2-3]", "gpu1 gpu4"),
    ("gpu[1-4]&gpu[3-9]", "gpu3 gpu4"),
    ("gpu[1-3]^gpu[3-4]", "gpu1 gpu2 gpu4"),
    ("a,b!b,b", "a b"),
    ("@train", "gpu1 gpu2 gpu3"),
    ("@train!@spares", "gpu1 gpu2"),
    ("@train&@spares", "gpu3"),
    ("@rack[1-2]", "a b"),
    ("@all!gpu1", "gpu2 gpu3 gpu4"),
    ("@*", "gpu1 gpu2 gpu3 gpu4"),
    ("gpu*!gpu[1-2]", "gpu3 gpu4"),
    ("gpu?", "gpu1 gpu2 gpu3 gpu4"),
    ("@none", ""),
    ("gpu10,gpu9,gpu09", "gpu9 gpu09 gpu10"),
])
def test_a_node_set_stands_for_these_names(text: str, names: str) -> None:
    assert expand(text, GROUPS, ("gpu1", "gpu2", "gpu3", "gpu4")) == tuple(names.split())


@pytest.mark.parametrize(("text", "word"), [
    ("", "is empty"),
    ("a,", "a name is missing at its end"),
    ("a,,b", "unexpected ','"),
    ("gpu[1-3", "a bracket is not closed"),
    ("gpu1-3]", "a closing bracket"),
    ("gpu[]", "'' is not a range"),
    ("gpu[3-1]", "runs backwards"),
    ("gpu[1-9/0]", "a step of 0"),
    ("gpu[a-b]", "is not a range"),
    ("gpu 1", "unexpected '1'"),
    ("-gpu", "is not a node name"),
    (".gpu", "is not a node name"),
    ("gpu;reboot", "unexpected ';'"),
    ("gpu$(id)", "unexpected '$'"),
    ("gp\u00fc1", "unexpected"),
    ("x" * 300, "at most 253 characters"),
    ("@trian", "did you mean @train?"),
    ("@", "a group name is missing"),
    ("@slurm:gpu", "this inventory only"),
    ("gpu1[8-12]", "write two ranges"),
])
def test_what_is_no_node_set_is_one_line_that_says_why(text: str, word: str) -> None:
    assert word in refused(text)


def test_wildcards_and_all_need_known_nodes() -> None:
    assert "@all cannot be used here" in refused("@all", everything=None)
    assert "cannot be used here" in refused("gpu*", everything=None)


@pytest.mark.parametrize("text", [
    "gpu[1-999999999]", "a[1-1000]b[1-1000]", "r0-[1-50001],r1-[1-50000]",
    *(pytest.param(text, marks=pytest.mark.slow) for text in (
        "gpu[1-999999999999999999]", "x" + "[1-100]" * 9, ",".join(["gpu[1-99999]"] * 50))),
])
def test_a_huge_set_is_refused_before_it_takes_memory(text: str) -> None:
    started = time.process_time()
    tracemalloc.start()
    try:
        assert f"names over {MAX_NODES} nodes" in refused(text)
        assert tracemalloc.get_traced_memory()[1] < 64_000_000
    finally:
        tracemalloc.stop()
    assert time.process_time() - started < 5


def test_the_bound_itself_is_allowed() -> None:
    assert len(expand(f"gpu[1-{MAX_NODES}]")) == MAX_NODES


def test_a_long_run_of_operators_is_read_in_good_time() -> None:
    assert expand(",".join(f"n{n}" for n in range(20_000)))[-1] == "n19999"


def groups(**written: str) -> Groups:
    return Groups(
        {name: [(text, Mark("f.yaml", line, 1))] for line, (name, text) in enumerate(written.items(), 1)})


def test_groups_may_hold_groups() -> None:
    assert groups(a="@b,x", b="y[1-2]").members("a") == ("x", "y1", "y2")


def test_a_circle_of_groups_is_named_with_its_line() -> None:
    with pytest.raises(InventoryError) as caught:
        groups(a="@b", b="@c,x", c="@a").members("a")
    assert str(caught.value) == "f.yaml:3:1: groups contain each other in a cycle: @a > @b > @c > @a"


def test_a_group_that_contains_itself_is_a_circle() -> None:
    with pytest.raises(InventoryError, match="@a > @a"):
        groups(a="x,@a").members("a")


def test_a_broken_group_is_reported_as_broken_each_time_it_is_asked() -> None:
    held = groups(a="@b", b="x[")
    for _ in range(2):
        with pytest.raises(InventoryError, match="a bracket is not closed"):
            held.members("a")


def test_groups_that_multiply_each_other_stay_within_bounds() -> None:
    held = groups(g0="gpu[1-900]", **{f"g{n}": f"@g{n - 1}" for n in range(1, 30)})
    assert held._left == 1_000_000
    held._left = 10_000     # of the same, sooner
    with pytest.raises(InventoryError, match="over 1000000 nodes in all"):
        held.members("g29")


@pytest.mark.parametrize(("names", "folded"), [
    ((), ""), (("gpu1",), "gpu1"), (("gpu2", "gpu1"), "gpu[1-2]"), (("gpu001", "gpu003"), "gpu[001,003]"),
    (("b", "a"), "a,b"), (("r1-n1", "r1-n2", "r2-n1", "r2-n2"), "r[1-2]-n[1-2]"),
])
def test_folding_is_short(names: tuple[str, ...], folded: str) -> None:
    assert fold(names) == folded


NAMES = st.from_regex(re.compile(r"[a-c_](?:[a-c0-9_.-]{0,6}[a-c0-9])?", re.ASCII), fullmatch=True)


@given(st.sets(NAMES | st.builds("gpu{}".format, st.integers(0, 1200)) | st.builds(
    "gpu{:03d}".format, st.integers(0, 1200)), max_size=30))
def test_folded_names_unfold_to_the_same_names(names: set[str]) -> None:
    folded = fold(names)
    assert (set(expand(folded)) if folded else set()) == names


@given(st.sampled_from(["gpu", "rack-", "a.b-", "n_"]), st.integers(1, 6), st.data())
def test_names_of_one_word_and_a_number_fold_as_clustershell_folds_them(word: str, width: int,
                                                                        data: st.DataObject) -> None:
    names = {f"{word}{number:0{width}}"
             for number in data.draw(st.sets(st.integers(0, min(10**width - 1, 60)) | st.integers(
0, 10**width - 1), min_size=2, max_size=30))}
    assert fold(names) == str(NodeSet.fromlist(sorted(names), resolver=RESOLVER_NOGROUP))


@given(st.lists(
    st.tuples(st.sampled_from(",!&^"), st.integers(0, 60), st.integers(0, 20),
              st.sampled_from(["", "/2", "/7"])), min_size=1, max_size=6,
))
def test_clustershell_reads_our_node_sets_the_same_way(parts: list[tuple[str, int, int, str]]) -> None:
    text = "".join(f"{op}gpu[{first}-{first + more}{step}]" for op, first, more, step in parts)[1:]
    assert set(expand(text)) == set(NodeSet(text, resolver=RESOLVER_NOGROUP))


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 4))
def test_clustershell_reads_padded_ranges_the_same_way(first: int, more: int, width: int) -> None:
    last = first + more
    if len(str(last)) > max(width, len(str(first))) and width > len(str(first)):
        return      # ends of different length: mixed padding, which ClusterShell refuses
    text = f"gpu[{first:0{width}}-{last:0{width}}]"
    assert set(expand(text)) == set(NodeSet(text, resolver=RESOLVER_NOGROUP))


@given(st.text(max_size=40) | st.text(st.sampled_from("gpu0123[]-/,!&^@*?. "), max_size=40))
def test_no_text_raises_anything_but_an_inventory_error(text: str) -> None:
    try:
        expand(text, GROUPS, ("gpu1",))
    except InventoryError as error:
        assert len(str(error).splitlines()) == 1


def test_names_sort_by_their_numbers() -> None:
    assert sorted(["gpu10", "gpu2", "a-10-b", "a-9-b", "gpu"], key=natural) == [
        "a-9-b", "a-10-b", "gpu", "gpu2", "gpu10"]


def test_the_nearest_name_forgives_padding_before_spelling() -> None:
    assert nearest("gpu7", ["gpu001", "gpu70", "gpu007"]) == "gpu007"
    assert nearest("qwerty", ["gpu001"]) is None


INVENTORY = Inventory(
    {name: Node(name) for name in ("gpu2", "gpu1", "gpu10")}, {"train": ("gpu1", "gpu2"), "none": ()},
    "muster.yaml",
)


def test_without_a_node_set_all_nodes_are_chosen_in_the_files_order() -> None:
    assert [node.name for node in select(INVENTORY, None)] == ["gpu2", "gpu1", "gpu10"]


def test_chosen_nodes_come_in_natural_order() -> None:
    assert [node.name for node in select(INVENTORY, "gpu10,@train")] == ["gpu1", "gpu2", "gpu10"]


@pytest.mark.parametrize(("text", "said"), [
    ("gpu3", "muster.yaml has no node gpu3; did you mean gpu2?"),
    ("gpu001", "muster.yaml has no node gpu001; did you mean gpu1?"),
    ("gpu[1-5]", "muster.yaml has no node gpu[3-5]"),
    ("train", "muster.yaml has no node train; did you mean the group @train?"),
    ("@tran", "no group @tran; did you mean @train?"),
    ("gpu1!gpu1", "'gpu1!gpu1' selects no node"),
    ("@none", "'@none' selects no node"),
    ("cpu*", "'cpu*' selects no node"),
])
def test_choosing_what_is_not_there_names_what_is_near(text: str, said: str) -> None:
    with pytest.raises(InventoryError) as caught:
        select(INVENTORY, text)
    assert str(caught.value).startswith(said.split("; did")[0])
    assert said.partition("; did")[2] in str(caught.value)
