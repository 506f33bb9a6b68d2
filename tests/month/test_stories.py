"""Ten stories of an on-call operator's weeks, each as it was met, told on the simulated site with its
laws."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.store.file import NAME
from healthcheck.subnet.check.findings import FabricRule
from tests.month.story import Story
from tests.month.world import slot_of
from tests.testbed.memory import in_memory

KILLED = """import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA wal_autocheckpoint=0")
db.execute("INSERT INTO node (name) VALUES ('never')")
os.kill(os.getpid(), signal.SIGKILL)"""


@pytest.fixture
def story(request: pytest.FixtureRequest) -> Iterator[Story]:
    """With the host file; a story that a back end's own state is part of says `slurm`, or both."""
    with in_memory() as folder:
        told = Story(Path(folder), getattr(request, "param", "hostfile"))
        yield told
        told.every_hold_can_be_ended()


def test_a_board_that_was_returned_is_held_against_the_node_where_it_sits_and_no_other(story: Story) -> None:
    story.part_fails("gpu03", 2, "gpu-row-remap-failed")
    story.turn(2)
    old = story.world.machines["gpu03"].parts[slot_of(2)]
    assert story.rma_opened("gpu03", 2).code == 0
    story.rma_returned("gpu03", "NEW1")
    story.turn(2)
    story.lifecycle("gpu03", "service")
    story.turn(3)
    assert not story.world.held()
    there = story.world.machines["gpu15"].parts[slot_of(1)]
    story.world.bad.pop(old)
    story.part_is_exchanged("gpu15", 1, old)
    story.turn(3)
    assert {node for _, node in story.world.held()} == {"gpu15"}
    said = story.world.muster("rma", "list").text
    assert "gpu15" in said and old in said
    story.part_is_exchanged("gpu15", 1, there)
    story.turn(3)
    assert old not in story.world.muster("rma", "list").text
    story.turn(4, minutes=240)
    assert not story.world.held()


@pytest.mark.parametrize("story", ["hostfile", "slurm"], indirect=True)
def test_what_is_newer_than_a_copy_that_was_restored_is_listed_and_can_be_ended_and_no_number_is_given_again(
    story: Story,
) -> None:
    story.cordon("gpu01", "fan")
    story.backup()
    for node in ("gpu07", "gpu08"):
        story.cordon(node, "cables")
    story.restore()
    story.turn(1)
    story.cordon("gpu09", "noise")
    story.cordon("gpu10", "noise")
    story.turn(1)
    held = {node: mark for (_, node), mark in story.world.marks().items()}
    assert held.keys() == {"gpu01", "gpu07", "gpu08", "gpu09", "gpu10"}
    story.every_hold_can_be_ended()
    tried = story.uncordon("gpu07")
    assert (not story.world.held_by_muster("gpu07") if tried.code == 0
            else held["gpu07"] in tried.text), tried.text


def test_a_copy_is_put_back_whole_beside_the_journal_of_a_writer_that_was_killed(story: Story) -> None:
    story.cordon("gpu01", "fan")
    story.backup()
    path = story.world.state / NAME
    left = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)], check=False)
    assert left.returncode == -signal.SIGKILL and Path(f"{path}-wal").stat().st_size
    story.restore()
    story.turn(1)
    assert story.world.muster("store", "check").code == 0
    with sqlite3.connect(path) as db:
        assert not db.execute("SELECT 1 FROM node WHERE name = 'never'").fetchall()
    assert story.world.held_by_muster("gpu01") and "gpu01" in story.world.muster("cordon").out


def test_a_lease_that_a_head_took_with_its_clock_ahead_lasts_as_long_as_it_was_to(story: Story) -> None:
    story.clock_jumps(24)
    story.lease("gpu11", 600)
    story.turn(2)
    story.clock_jumps(-24)
    story.turn(9, minutes=60)
    assert story.world.held_by_muster("gpu11")
    story.turn(3, minutes=60)
    assert not story.world.held_by_muster("gpu11")


def test_a_silence_gives_no_node_back(story: Story) -> None:
    story.node_fails("gpu11", "host-memory")
    story.turn(2)
    assert story.world.held_by_muster("gpu11")
    story.silence("gpu11", "host-*", 48)
    story.turn(4)
    assert story.world.held_by_muster("gpu11")
    said = story.triage().text
    assert "only silenced problems are left" in said, said
    assert "uncordon" in said or "unsilence" in said, said
    story.unsilence("gpu11")
    story.node_is_well("gpu11")
    story.turn(4)
    assert not story.world.held_by_muster("gpu11")


def test_a_port_that_flaps_is_isolated_while_it_is_down_and_comes_back_once_it_was_up_for_long(
        story: Story) -> None:
    for _ in range(4):
        story.node_fails("gpu09", "port-state")
        story.turn(1, minutes=60)
        story.node_is_well("gpu09")
        story.turn(1, minutes=60)
    story.node_fails("gpu09", "port-state")
    story.turn(1, minutes=60)
    assert story.world.held_by_muster("gpu09")
    story.node_is_well("gpu09")
    story.turn(3, minutes=60)
    assert story.world.held_by_muster("gpu09")
    story.turn(6, minutes=180)
    assert not story.world.held_by_muster("gpu09")


def test_a_cable_that_is_down_is_one_incident_until_it_is_reseated_and_no_other_node_is_held(
        story: Story) -> None:
    story.cable_is_sick("gpu09", FabricRule.LINK)
    story.turn(2)
    assert {node for _, node in story.world.marks()} == {"gpu09"}
    (one,) = story.incidents()
    assert (one["kind"], one["cause"], one["nodes"], one["owner"]) == ("link", "l0 port 3 to gpu09 mlx5_0",
                                                                       ["gpu09"], "datacentre")
    assert "gpu09 itself shows port-state" in one["why"] and story.rows()["gpu09"]["owner"] == "datacentre"
    story.cable_is_reseated("gpu09")
    story.turn(1)
    assert story.incidents() == [] and story.world.held_by_muster("gpu09")
    story.turn(9, minutes=180)
    assert story.world.marks() == {}


def test_bit_errors_that_only_the_subnet_sees_are_an_incident_and_keep_no_node_from_jobs(
        story: Story) -> None:
    story.cable_is_sick("gpu09", FabricRule.ERRORS)
    story.turn(3)
    (one,) = story.incidents()
    assert (one["kind"], one["nodes"], one["owner"]) == ("link", ["gpu09"],
                                                         "datacentre") and story.world.marks() == {}
    story.cable_is_reseated("gpu09")
    story.turn(1)
    assert story.incidents() == []


@pytest.mark.parametrize("story", ["hostfile", "slurm"], indirect=True)
def test_the_cordon_of_a_node_that_was_renamed_is_ended_by_its_new_name(story: Story) -> None:
    story.cordon("gpu05", "fan")
    story.renamed("gpu05", "gpu99")
    story.turn(2)
    assert story.world.marks()
    done = story.uncordon("gpu99")
    assert (done.code, story.world.marks()) == (0, {}), done.text


@pytest.mark.parametrize("story", ["hostfile", "slurm"], indirect=True)
def test_the_cordon_of_a_node_that_was_removed_can_be_ended_and_no_other_node_is_guessed(
        story: Story) -> None:
    story.cordon("gpu06", "fan")
    story.world.remove("gpu06")
    story.turn(2)
    assert "gpu06" in story.world.muster("cordon").text
    story.every_hold_can_be_ended()
    done = story.uncordon("gpu06")
    assert not set(re.findall(r"gpu\d\d", done.text)) - {"gpu06"}, done.text
    assert not story.world.marks() or done.code != 0


def test_a_head_whose_clock_was_a_day_ahead_accuses_no_node_and_shows_no_time_to_come(story: Story) -> None:
    story.clock_jumps(24)
    story.node_fails("gpu20", "fleet-driver")
    story.turn(2)
    story.node_is_well("gpu20")
    story.turn(1)
    story.clock_jumps(-24)
    story.turn(3)
    assert not story.world.held()
    rows = story.rows()
    assert not [row for row in rows.values() if row["seen"] is None or row["seen"] > story.world.now]
    watched = [row["node"] for row in rows.values() if row["state"] != "healthy"]
    assert not watched, watched
    for line in story.world.muster("history", "--format", "jsonl").out.splitlines():
        problem = json.loads(line)
        assert problem["ended"] is None or problem["began"] <= problem["ended"], problem


@pytest.mark.parametrize(("kind", "name"),
                         [("rack", "r2"), pytest.param("power", "pdu1", marks=pytest.mark.slow),
                          pytest.param("leaf", "l3", marks=pytest.mark.slow)])
def test_a_place_that_goes_dark_is_named(story: Story, kind: str, name: str) -> None:
    nodes = [node for node, at in story.world.places.items() if at[kind] == name]
    story.lifecycle(nodes[1], "maintenance")
    story.cordon(nodes[2], "fan")
    story.place_fails(kind, name, "")
    story.turn(3)
    said = story.world.muster("incident", "list").text + story.world.triage().text
    assert name in said, said
    story.place_is_well(kind, name, "")
    story.turn(6, minutes=30)
    assert {node for _, node in story.world.held()} == {nodes[2]}


def test_a_board_that_came_back_the_same_is_the_same_words_wherever_it_is_named(story: Story) -> None:
    story.part_fails("gpu03", 2, "gpu-row-remap-failed")
    story.turn(2)
    old = story.world.machines["gpu03"].parts[slot_of(2)]
    story.rma_opened("gpu03", 2)
    story.rma_returned("gpu03", "NEW1", seat=old)
    story.turn(2)
    story.lifecycle("gpu03", "service")
    story.turn(2)
    row = story.rows()["gpu03"]
    ticket = story.world.muster("ticket", "gpu03")
    assert (row["owner"], row["repair"]) == ("vendor", "replace"), row
    assert old in ticket.text and "nothing to repair" not in ticket.text, ticket.text


def test_rules_that_became_too_strict_are_named_before_any_node(story: Story) -> None:
    for node in ("gpu21", "gpu22"):
        story.world.machines[node].hot = True
    story.turn(3)
    assert not story.world.held()
    story.rules_change(strict=True)
    story.turn(3)
    said = story.world.triage().text + story.world.muster("incident",
                                                          "list").text + story.world.muster("history").text
    assert re.search(r"rules? changed|changed rule|gpu-temperature .*changed", said), said
    story.rules_change(strict=False)
    story.turn(4)
    assert not {node for _, node in story.world.held()} & {"gpu21", "gpu22"} or "undo-since" in said


def test_a_list_of_nothing_says_so(story: Story) -> None:
    for command in (("lease", "list"), ("silence",), ("incident", "list"), ("rma", "list"), ("cordon",)):
        assert len(story.world.muster(*command).text.splitlines()) == 1, command


@pytest.mark.parametrize("story", ["slurm"], indirect=True)
def test_two_nodes_that_change_places_are_a_swap_with_both_names(story: Story) -> None:
    story.nodes_change_places("gpu31", "gpu32")
    story.sweep()
    for said in (story.triage().text, story.world.muster("nodes").text):
        assert re.search("swap|change[ds]? places", said) and "gpu31" in said and "gpu32" in said, said
    story.turn(2)
    assert not story.world.held()


@pytest.mark.parametrize("story", ["hostfile", "slurm"], indirect=True)
def test_a_node_that_a_burn_in_has_is_left_to_it_and_held_for_what_it_shows_once_that_ended(
        story: Story) -> None:
    story.lease("gpu12", 600)
    story.every_hold_can_be_ended()
    lease = {*story.world.marks().values()}
    assert len(lease) == 1
    story.node_fails("gpu12", "host-memory")
    story.turn(3)
    assert {*story.world.marks().values()} == lease
    assert re.search("held +gpu12: .*host-memory", story.triage().text)
    story.lease_ends("gpu12")
    assert not story.world.marks()
    story.turn(1)
    assert story.world.held_by_muster("gpu12")


@pytest.mark.parametrize("how", ["killed", "over"])
def test_a_lease_that_no_one_gives_back_ends_and_the_hold_below_it_stays(story: Story, how: str) -> None:
    story.node_fails("gpu13", "host-memory")
    story.turn(2)
    before = story.world.marks()
    assert story.world.held_by_muster("gpu13")
    for node in ("gpu13", "gpu14"):
        story.lease(node, 30, killed=how == "killed")
    story.turn(1 if how == "killed" else 2)
    assert story.world.marks() == before
    assert len(story.world.muster("lease", "list").text.splitlines()) == 1
    story.node_is_well("gpu13")
    story.turn(4)
    assert not story.world.held()


@pytest.mark.parametrize("story", ["slurm"], indirect=True)
def test_what_slurm_holds_of_a_removed_node_can_be_ended_from_the_list_of_a_host_file(story: Story) -> None:
    story.cordon("gpu05", "fan", hostfile=True)
    story.node_fails("gpu06", "host-memory")
    story.turn(2)
    story.world.remove("gpu06")
    story.turn(1)
    assert story.world.held_by_muster("gpu06")


@pytest.mark.parametrize("later", ["a warning for long", "a clock that goes back"])
def test_a_machine_that_was_proven_under_a_name_is_not_held_as_another_one_for_what_comes_later(
        story: Story, later: str) -> None:
    story.nodes_change_places("gpu03", "gpu10")
    story.turn(8)
    assert not story.world.held()
    if later == "a warning for long":
        for node in ("gpu03", "gpu10"):
            story.node_fails(node, "fleet-driver")
    else:
        story.clock_jumps(-1.5)
    story.turn(6)
    assert not story.world.held()


def test_a_node_that_an_incident_held_is_given_back_once_it_is_well_by_a_clock_that_went_back_before(
        story: Story) -> None:
    story.place_fails("rack", "r0", "")
    story.turn(3)
    story.place_is_well("rack", "r0", "")
    story.turn(1)
    story.clock_jumps(-24)
    story.turn(1)
    story.place_fails("leaf", "l1", "port-state")
    story.turn(3)
    assert story.world.held()
    story.place_is_well("leaf", "l1", "port-state")
    story.turn(5, minutes=240)
    assert not story.world.held()


def test_a_held_node_that_a_dark_place_keeps_from_proving_itself_is_of_who_repairs_that_place(
        story: Story) -> None:
    story.place_fails("power", "pdu2", "port-state")
    story.turn(3)
    held = {node for _, node in story.world.held()}
    assert held
    story.place_is_well("power", "pdu2", "port-state")
    story.place_fails("leaf", "l1", "")
    story.turn(3)
    rows = story.rows()
    dark = [node for node in held if story.world.places[node]["leaf"] == "l1"]
    assert dark and all(rows[node]["owner"] for node in dark)


def test_a_board_that_was_exchanged_before_the_clock_went_back_is_held_against_the_node_where_it_shows_up(
        story: Story) -> None:
    old = story.world.machines["gpu35"].parts[slot_of(0)]
    story.exchanged_on_site("gpu35", 0, "NEW1")
    story.turn(2)
    story.clock_jumps(-24)
    story.turn(1)
    story.old_board_shows_up(old, "gpu17", 0)
    story.turn(3)
    assert {node for _, node in story.world.held() if node != "gpu35"} == {"gpu17"}
