"""Closed nodes are replaced by open spares, the nearest first,
and the file of hosts is written whole or not at all."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.gate.allocation import allocate
from healthcheck.gate.decide import Gate, answer
from healthcheck.gate.hostfile import read_hosts
from healthcheck.gate.spares import Filled
from tests.command import muster
from tests.healthcheck.gate.fleet import NOW, Place, entry, names, snapshot

OLD = {"versions": {"driver": "535.1"}}
RMA = {"lifecycle": "rma"}


def filled(
    nodes: dict[str, dict[str, Any]], wanted: list[str], spares: list[str], need: int | None = None,
) -> tuple[Gate, Filled]:
    """`nodes`: what is odd about each."""
    held = snapshot({name: entry(**odd) for name, odd in nodes.items()})
    said, found = allocate(held, answer(held, wanted, NOW), wanted, spares, need or len(wanted), NOW)
    return said.gate, found


def test_nothing_moves_where_all_are_open() -> None:
    gate, found = filled({"a": {}, "b": {}, "s": {}}, ["a", "b"], ["s"])
    assert (gate, found) == (Gate.OPEN, Filled(("a", "b"), (), (), 0))


def test_a_spare_of_the_nvlink_domain_goes_before_one_of_the_leaf_before_any_other() -> None:
    nodes: dict[str, dict[str, Any]] = {
        "a": {"domain": "d1", "leaf": ["l1", "l2"], "lifecycle": "rma"},
        "b": {"leaf": "l7", "certificate": None}, "c": {"leaf": "l9", "state": "unhealthy"},
        "s1": {"leaf": ["l3"]}, "s2": {"leaf": ["l7"]}, "s3": {"domain": "d1", "leaf": ["l8"]},
    }
    gate, found = filled(nodes, ["a", "b", "c"], ["s1", "s2", "s3"])
    assert gate is Gate.OPEN
    assert found.nodes == ("s3", "s2", "s1")
    assert [(move.away, move.instead, move.where) for move in found.moves] == [
        ("a", "s3", "same NVLink domain"), ("b", "s2", "same leaf"), ("c", "s1", "elsewhere")]
    assert found.moves[0].why == "not in service: rma"


@pytest.mark.parametrize(("nodes", "wanted", "spares", "found"), [
    # In the place of the node that it replaces.
    ({"a": {}, "b": RMA, "c": {}, "s": {}}, "abc", ["s"], ("a", "s", "c")),
    # Closed spares and those that are wanted already do not step in.
    ({"a": {}, "b": RMA, "s1": {"isolation": "evict"}, "s2": {}}, "ab",
     ["a", "s1", "nobody", "s2"], ("a", "s2")),
    # Nor does one with another driver, and a node with another than most is replaced.
    ({"a": {}, "b": {}, "c": RMA, "s1": OLD, "s2": {}}, "abc", ["s1", "s2"], ("a", "b", "s2")),
    ({"a": {}, "b": OLD, "c": {}, "s": {}}, "abc", ["s"], ("a", "s", "c"))])
def test_an_open_spare_like_the_others_stands_in_the_place_of_a_node(
    nodes: dict[str, dict[str, Any]], wanted: str, spares: list[str], found: tuple[str, ...],
) -> None:
    gate, made = filled(nodes, list(wanted), spares)
    assert (gate, made.nodes) == (Gate.OPEN, found)


def test_more_nodes_may_be_needed_than_are_named_and_fewer() -> None:
    nodes: dict[str, dict[str, Any]] = {"a": {}, "b": RMA, "c": {}, "s1": {}, "s2": {}}
    assert filled(nodes, ["a", "b", "c"], ["s1", "s2"], 4)[1].nodes == ("a", "s1", "c", "s2")
    found = filled(nodes, ["a", "b", "c"], ["s1", "s2"], 1)[1]
    assert (found.nodes, found.moves, found.left) == (("a",), (), ("c",))


def test_too_few_spares_close_and_say_how_many_are_wanting() -> None:
    gate, found = filled({"a": RMA, "b": RMA, "s": {}}, ["a", "b"], ["s"])
    assert (gate, found.short) == (Gate.CLOSED, 1)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from(["l1", "l2"])), min_size=1,
                max_size=8), st.integers(0, 6), st.integers(1, 9))
def test_whatever_is_written_opens_as_a_whole_and_holds_each_node_once(
    odd: list[tuple[bool, bool, str]], spares: int, need: int,
) -> None:
    nodes = {name: {"leaf": leaf, **(RMA if closed else {}), **(OLD if old else {})}
             for name, (closed, old, leaf) in zip(names(9), odd, strict=False)}
    wanted = list(nodes)
    extra = [f"spare{at}" for at in range(spares)]
    everyone = {**nodes, **{name: {} for name in extra}}
    gate, found = filled(everyone, wanted, extra, need)
    if gate is Gate.OPEN:
        assert len(found.nodes) == len(set(found.nodes)) == need
        assert answer(snapshot({name: entry(**what) for name, what in everyone.items()}), found.nodes,
                      NOW).gate is Gate.OPEN
    else:
        assert found.short


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "gate")
    now = int(time.time())
    made.put({**{name: entry(now) for name in names(4)}, "gpu002": entry(now, lifecycle="rma"),
              "sp1": entry(now, groups=["spares"], leaf=["leaf09"]), "sp2": entry(now, groups=["spares"])})
    return made


def test_the_file_of_hosts_keeps_what_the_launcher_said_of_each_and_what_moved_is_reported(
    place: Place, tmp_path: Path,
) -> None:
    (tmp_path / "hosts").write_text("gpu001 slots=8\ngpu002 slots=4\ngpu003 slots=8\n")
    words = (*place.words, "--hostfile", "hosts", "--write-hostfile", "hosts.open", "--spares", "@spares")
    done = muster("gate", *words, home=tmp_path)
    assert done.returncode == 0, done
    assert (tmp_path / "hosts.open").read_text() == "gpu001 slots=8\nsp2 slots=4\ngpu003 slots=8\n"
    assert "gpu002 -> sp2 (same leaf): not in service: rma" in done.stdout
    said = json.loads(muster("gate", *words, "--need", "4", "--json", home=tmp_path).stdout)
    assert said["hosts"] == ["gpu001", "sp2", "gpu003", "sp1"]
    assert said["moved"][0] == {"away": "gpu002", "instead": "sp2", "where": "same leaf",
                                "why": "not in service: rma"}


def test_a_file_of_hosts_stays_as_it_was_where_the_gate_does_not_open(place: Place, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("as it was\n")
    done = muster("gate", *place.words, "gpu[001-004]", "--write-hostfile", "hosts", "--need", "6",
                  "--spares", "sp1", home=tmp_path)
    assert done.returncode == 1
    assert "2 of 6 nodes are missing, with 1 of 1 spares open" in done.stdout
    assert (tmp_path / "hosts").read_text() == "as it was\n"
    place.snapshot.unlink()
    assert muster("gate", *place.words, "gpu001", "--write-hostfile", "hosts", home=tmp_path).returncode == 3
    assert (tmp_path / "hosts").read_text() == "as it was\n"
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_a_file_of_hosts_that_begins_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_bytes(b"\xef\xbb\xbfgpu001 slots=8\r\ngpu002 slots=8\r\n")
    assert read_hosts(tmp_path / "hosts") == {"gpu001": " slots=8", "gpu002": " slots=8"}
