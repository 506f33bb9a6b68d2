"""Equal reasons of many nodes are said once: no node is lost, none is said to have another's reason."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.nodeset import expand, fold
from inventory.reasons import fold_reasons

GPUS = [f"gpu{number:03}" for number in range(1, 65)]
PRINT = "SHA256:" + "a" * 41


def lines(pairs: list[tuple[str, str]]) -> list[str]:
    return [f"{each.names}: {each.text}" for each in fold_reasons(pairs)]


def test_sixty_four_mistyped_names_are_one_line() -> None:
    assert lines([(name, f"resolve: {name} has no address (Name or service not known)")
                  for name in GPUS]) == [
                      "gpu[001-064]: resolve: gpu[001-064] has no address (Name or service not known)"]


def test_one_command_enrols_all_of_them() -> None:
    (line,) = lines([(name,
                      f"host key: 10.0.0.{at} is not in /k; it offers ssh-ed25519 {PRINT}{at:02}; compare "
                            f"with the node's console, then pin it with: muster inventory enroll {name}")
                     for at, name in enumerate(GPUS)])
    assert line.endswith("then pin it with: muster inventory enroll 'gpu[001-064]'")
    assert shlex.split(line.rpartition("with: ")[2])[-1] == "gpu[001-064]"
    assert "10.0.0.[0-63] is not in /k" in line
    assert "each its own" in line


@pytest.mark.parametrize(("first", "second"), [
    ("no answer after 9.98 s", "no answer after 10 s"), ("x; tried 3 times", "x; tried 12 times"),
    ("offers K, /k:3 holds L", "offers K, /k:91 holds L"),
    ("jump host: one: not connected within 9.98 s", "jump host: one: not connected within 10 s")])
def test_figures_that_differ_by_chance_do_not_part_nodes(first: str, second: str) -> None:
    assert len(fold_reasons([("a", first), ("b", second)])) == 1


@pytest.mark.parametrize(("first", "second"), [
    ("connect: refused", "connect: no route"), ("GPU 3 is lost", "GPU 4 is lost"), ("exit 1", "exit 2"),
    ("jump host: one: 10.0.0.1:22 refused", "jump host: one: 10.0.0.2:22 refused"),
    ("jump host: a: refused", "jump host: b: refused"), ("Python 3.6", "Python 3.7"),
    ("version 10.0.0.1.2", "version 10.0.0.1.3")])
def test_what_differs_is_not_one(first: str, second: str) -> None:
    assert lines([("a", first), ("b", second)]) == [f"a: {first}", f"b: {second}"]


def test_one_node_keeps_its_own_words() -> None:
    reason = f"10.0.0.1:22 offers {PRINT}xx after 3 s; type: muster inventory enroll gpu001"
    assert lines([("gpu001", reason)]) == [f"gpu001: {reason}"]


def test_a_machine_that_many_nodes_share_is_not_taken_for_their_own_address() -> None:
    pairs = [(name, f"the jump host 10.9.9.{at % 2} cannot connect to 10.0.0.{at}:22: refused")
             for at, name in enumerate(GPUS)]
    found = fold_reasons(pairs)
    assert len(found) == 2
    assert {re.search(r"10\.9\.9\.\d", each.text)[0] for each in found} == {"10.9.9.0",
                                                                            "10.9.9.1"}  # type: ignore[index]


def test_a_name_within_a_longer_name_is_not_the_nodes() -> None:
    assert lines([("gpu1", "gpu10 and gpu1-a"),
                  ("gpu2", "gpu10 and gpu1-a")]) == ["gpu[1-2]: gpu10 and gpu1-a"]


def test_the_order_is_that_of_the_first_nodes() -> None:
    assert lines([("b", "x"), ("a", "y"), ("c", "x")]) == ["b,c: x", "a: y"]


NAMES = st.builds(lambda word, number: f"{word}{number}", st.sampled_from(["a", "ab", "gpu", "x-a", "n.a"]),
                  st.sampled_from(["", 1, 2, 10, "01", "001", 99]))
WORDS = st.lists(st.sampled_from(["NODE", "10.0.0.1", "10.0.0.2:22", "refused", "after 3 s", "after 4 s",
                                  "muster inventory enroll NODE", "[fe80::1]:22", PRINT + "xx",
                                  ";", "'", "\\1",
                                  "jump host: x"]) | st.text(max_size=8), max_size=6).map(" ".join)


@given(st.lists(st.tuples(NAMES, WORDS), max_size=8))
def test_no_node_is_lost_or_said_twice_of_one_reason(pairs: list[tuple[str, str]]) -> None:
    pairs = [(name, text.replace("NODE", name)) for name, text in pairs]
    found = fold_reasons(pairs)
    assert sorted({(name, each.text) for each in found for name in each.nodes}) or not pairs
    assert {name for each in found for name in each.nodes} == {name for name, _ in pairs}
    assert all(set(expand(each.names)) == set(each.nodes) for each in found)
    assert len(found) <= len(set(pairs))
    for each in found:
        if len(each.nodes) == 1:
            assert (each.nodes[0], each.text) in pairs


@given(st.lists(NAMES, min_size=1, max_size=10, unique=True), WORDS)
def test_one_reason_about_each_nodes_own_name_is_one_line(names: list[str], text: str) -> None:
    # A name that is a word of the text anyway stands for itself there, and a hop's reason is no node's own.
    if text.startswith("jump host: ") or any(re.search(rf"(?<![\w.]){re.escape(name)}(?![\w-])", text)
                                             for name in names):
        return
    (found,) = fold_reasons([(name, text.replace("NODE", name)) for name in names])
    assert list(found.nodes) == names
    if len(names) > 1 and "NODE" in text:
        assert fold(names) in found.text


def test_a_thousand_nodes_are_one_line() -> None:
    pairs = [(f"gpu{number:04}",
              f"connect: 10.{number // 250}.0.{number % 250}:22 did not answer within 10 s")
             for number in range(1_000)]
    (found,) = fold_reasons(pairs)
    assert len(found.nodes) == 1_000
    assert found.text == "connect: 10.[0-3].0.[0-249]:22 did not answer within 10 s"
