"""Reboots that someone else carries out later: known, checked, and ours stays ours."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from healthcheck.store.file import Store
from healthcheck.store.ledger import lines
from healthcheck.store.marks import CordonMark
from inventory.errors import UsageError
from provisioning.actions.base import ActionError, Holder, NodeHold, RebootState, reason_with_mark
from provisioning.actions.cordon import cordon
from provisioning.actions.reboot import reboot, resolve_reboots
from tests.testbed.backends import CommandSite, Memory
from tests.testbed.death import Death

CLOCK = map(float, count(1)).__next__


class Rebooting(Memory):
    """A site in memory that reboots nodes when it is told that the time has come."""

    def __init__(self) -> None:
        super().__init__(["a", "b", "c"])
        self.up: dict[str, float | None] = {"a": 1000.0, "b": 2000.0, "c": None}
        self.asked: list[str] = []
        self.busy: bool | None = None
        self.dies: str | None = None

    def _held(self, node: str) -> NodeHold:
        held = super()._held(node)
        return replace(held, busy=self.busy)

    def reboot(self, nodes: Collection[str], reason: str) -> None:
        if self.dies == "before":
            raise Death
        if self.dies == "refuses":
            raise ActionError("RebootProgram isn't defined")
        self.asked += nodes
        if self.dies == "after":
            raise Death

    def boots(self, nodes: Collection[str]) -> Mapping[str, RebootState]:
        return {node: RebootState(self.up[node], node in self.asked) for node in nodes if node in self.up}

    def boot(self, node: str, at: float) -> None:
        self.asked.remove(node)
        self.up[node] = at


def cordoned(store: Store, node: str) -> Rebooting:
    """A site of which we hold this node."""
    site = Rebooting()
    cordon(store, site, [node], "fan", "me", CLOCK)
    return site


def ask(store: Store, site: Memory, *nodes: str) -> list[str]:
    return [done.message for done in reboot(store, site.backend, nodes, "driver", "me", CLOCK)]


def found(store: Store, site: Memory) -> list[str]:
    return [done.message for done in resolve_reboots(store, site.backend, CLOCK)]


def outcomes(store: Store) -> list[str | None]:
    return [line.outcome for line in lines(store) if line.action == "reboot"]


def test_a_reboot_stays_open_in_the_ledger_until_the_node_was_started_anew(store: Store) -> None:
    site = cordoned(store, "a")
    assert ask(store, site, "a") == [
        "is being rebooted"] and outcomes(store) == [None] and found(store, site) == ["is being rebooted"]
    site.busy = True
    assert found(store, site) == ["will be rebooted when its job has ended"] and ask(
        store, site, "a") == ["a reboot is already requested"]
    site.boot("a", 5000)
    assert found(store, site) == ["rebooted, and held still as muster#1"] and found(store, site) == []
    assert outcomes(store) == ["rebooted, and held still as muster#1"]


@pytest.mark.parametrize("moved", [-2.0, 0.0, 2.0])
def test_a_boot_that_is_reported_a_second_or_two_later_is_the_same(store: Store, moved: float) -> None:
    site = cordoned(store, "a")
    ask(store, site, "a")
    site.boot("a", 1000 + moved)
    assert found(store, site) == ["NOT rebooted: no reboot is under way: muster#1: fan"]


@pytest.mark.parametrize(("dies", "said"), [
    ("before", "NOT rebooted: no reboot is under way: muster#1: fan"), ("after", "is being rebooted")])
def test_killed_around_the_action_the_next_run_finds_out_what_was_done(
    store: Store, dies: str, said: str,
) -> None:
    site = cordoned(store, "a")
    site.dies = dies
    with suppress(Death):
        ask(store, site, "a")
    assert outcomes(store) == [None]
    site.dies = None
    assert found(store, site) == [said]
    assert ask(
        store, site, "a") == ["is being rebooted" if dies == "before" else "a reboot is already requested"]


def test_a_refusal_is_written_down_in_its_words(store: Store) -> None:
    site = cordoned(store, "a")
    site.dies = "refuses"
    assert ask(store, site, "a") == ["NOT rebooted: RebootProgram isn't defined"] == outcomes(store)


def test_what_cannot_be_found_out_afterwards_is_not_begun(store: Store) -> None:
    site = cordoned(store, "c")
    assert (ask(store, site, "c") == ["NOT rebooted: memory does not know since when it is up"]
            and site.asked == [] and outcomes(store) == [])


def test_what_is_not_held_by_a_cordon_of_ours_is_not_rebooted(store: Store, tmp_path: Path) -> None:
    site = Rebooting()
    site.hold("a", "fan, Tuesday")
    site.hold("b", "muster#9: of another store")
    ours = "NOT rebooted: there is no cordon of ours; cordon it first"
    assert ask(store, site, "a", "b", "c", "d") == [
        "NOT rebooted, others hold it: fan, Tuesday", ours, ours, "NOT rebooted: it is not known there"]
    assert site.asked == [] and outcomes(store) == []


def test_a_node_that_was_given_back_while_it_started_is_reported_and_not_taken_again(store: Store) -> None:
    site = cordoned(store, "a")
    ask(store, site, "a")
    site.boot("a", 5000)
    site.free("a")
    assert found(store, site) == [
        "rebooted, and no longer held by us: nobody"] and site.held(["a"])["a"].holder is Holder.NO_ONE


def test_a_node_that_is_gone_from_the_site_is_reported(store: Store) -> None:
    site = cordoned(store, "a")
    ask(store, site, "a")
    del site.up["a"], site.reasons["a"]
    done = resolve_reboots(store, site, CLOCK)[0]
    assert (
        done.message, done.held, done.failed) == ("NOT rebooted: the node is not known there", False, True)


class Losing(Rebooting):
    """As Slurm after ResumeTimeout: our words are there, and the drain is not."""

    def _held(self, node: str) -> NodeHold:
        held = super()._held(node)
        return NodeHold(Holder.OTHERS, held.reason) if "timed out" in held.reason else held

    def isolate(self, node: str, reason: str) -> None:
        self.reasons[node] = reason


def test_a_node_that_lost_our_cordon_on_the_way_gets_it_again_and_a_persons_stays(store: Store) -> None:
    site = Losing()
    cordon(store, site, ["a", "b"], "fan", "me", CLOCK)
    ask(store, site, "a", "b")
    site.boot("a", 5000)
    site.boot("b", 5000)
    site.reasons |= {
        "a": f"{reason_with_mark(CordonMark('', 1), 'fan')} : reboot timed out", "b": "reboot timed out"}
    assert found(store, site) == [
        "rebooted, and held still as muster#1", "rebooted, and no longer held by us: reboot timed out"]
    assert site.reasons["a"] == "muster#1: fan" and site.reasons["b"] == "reboot timed out"


def test_a_back_end_that_cannot_is_reported_before_anything_is_done(store: Store) -> None:
    with pytest.raises(
        UsageError,
        match="memory cannot reboot nodes: that needs `cordon: slurm` or a command in the inventory"):
        ask(store, Memory(["a"]), "a")


def test_a_command_of_the_site_that_says_no_boot_times_reboots_nothing(store: Store, tmp_path: Path) -> None:
    site = CommandSite(tmp_path, ["a"])
    cordon(store, site.backend, ["a"], "fan", "me", CLOCK)
    assert [done.message for done in reboot(store, site.backend, ["a"], "driver", "me", CLOCK)] == [
        "NOT rebooted: command does not know since when it is up"]
