"""Bring-ups in the store: what is written is what is read, actions have their lines in the ledger,
and people's words hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from healthcheck.store import bringupnotes as notes
from healthcheck.store import bringups, ledger
from healthcheck.store.file import Store, opened
from inventory.errors import UsageError
from tests.testbed.olderstore import use_version

ORDER = ("bmc", "bios", "boot", "service")
GPU = ("GPU 3 is not there", "vendor", "swap it", "gpu", "3", "1654")


def at(store: Store, node: str) -> bringups.MachineProgress:
    found = bringups.progress(store, [node])
    assert len(found) == 1
    return found[0]


def outcomes(store: Store) -> list[tuple[str, str | None]]:
    return [(line.action, line.outcome) for line in ledger.lines(store)]


def in_trouble(store: Store, node: str = "n1", step: str = "bios") -> int:
    """A machine in trouble in a step, after an action; gives the action."""
    bringups.begin(store, [node], step, "ada", 1.0)
    with store.writing() as db:
        notes.entered(db, node, step, 2.0)
        act = notes.action_begun(db, node, step, "write:7", "write BIOS settings", ("SMT: on -> off",),
                                "ada", 3.0)
        notes.troubled(db, node, step, [GPU], 4.0)
        notes.stood(db, node, notes.TROUBLE, GPU[0], looked=4.0,
                    kept={notes.LOGIN: notes.REFUSED, "serial": "7"})
    return act


def test_a_machine_begins_once_and_again_only_when_its_way_has_ended(store: Store) -> None:
    assert bringups.begin(store, ["n1", "n2", "n1"], "bmc", "ada", 1.0) == ["n1", "n2"]
    assert bringups.begin(store, ["n2", "n3"], "bmc", "bob", 2.0) == ["n3"]
    assert [(one.node, one.who, one.stand, one.step, one.on_its_way)
            for one in bringups.progress(store)] == [("n1", "ada", "queued", "bmc", True),
                                                     ("n2", "ada", "queued", "bmc", True),
                                                     ("n3", "bob", "queued", "bmc", True)]
    bringups.skip(store, ["n1"], "bios", "ada", "has none", 2.0, order=ORDER)
    with store.writing() as db:
        notes.action_ended(db, notes.action_begun(db, "n1", "bmc", "k", "do", (), "ada", 3.0),
                           True, "well", 3.5)
        notes.left(db, "n1", "bmc", notes.SO, None, 4.0)
    assert (at(store, "n1").stand, at(store, "n1").ended, at(store, "n1").on_its_way) == ("done", 4.0, False)
    assert bringups.begin(store, ["n1"], "bmc", "eve", 5.0) == ["n1"]
    # Of the former way no action counts, and no skip holds.
    assert (not bringups.actions(store)[0].counts and bringups.skips(store) == []
            and at(store, "n1").ended is None)


def test_an_action_is_in_the_ledger_before_it_is_done_and_its_end_is_written_once(store: Store) -> None:
    act = in_trouble(store)
    (line,) = ledger.lines(store)
    assert (line.action, line.node, line.why, line.outcome) == (
        "bringup bios", "n1", "write BIOS settings", None)
    assert line.evidence == "write:7; SMT: on -> off"
    with store.writing() as db:
        notes.action_ended(db, act, None, "the answer did not come", 5.0)
        notes.action_ended(db, act, True, "later", 6.0)
    (one,) = bringups.actions(store, ["n1"])
    assert (one.key, one.change, one.began, one.ended, one.done,
            one.line) == ("write:7", ("SMT: on -> off",), 3.0, 5.0, None, line.id)
    assert outcomes(store) == [("bringup bios", "not known: the answer did not come")]


def test_a_trouble_that_is_met_again_keeps_its_beginning_and_one_that_is_not_ends(store: Store) -> None:
    in_trouble(store)
    with store.writing() as db:
        notes.troubled(db, "n1", "bios", [(GPU[0], "datacentre", "reseat it", *GPU[3:]),
                                          ("no PSU 1", "datacentre", "power", "psu", "1", "")], 9.0)
    assert [(one.what, one.owner, one.began) for one in bringups.troubles(store)] == [
        (GPU[0], "datacentre", 4.0), ("no PSU 1", "datacentre", 9.0)]
    with store.writing() as db:
        notes.troubled(db, "n1", "boot", [("no PSU 1", "datacentre", "power", "psu", "1", "")], 10.0)
    assert [(one.step, one.began) for one in bringups.troubles(store)] == [("boot", 10.0)]
    assert [one.ended for one in bringups.troubles(store, open_only=False)] == [10.0, 10.0, None]


def test_a_retry_ends_troubles_and_lets_what_is_done_once_be_done_again(store: Store) -> None:
    in_trouble(store)
    bringups.begin(store, ["n2"], "bmc", "ada", 1.0)
    told = bringups.retry(store, ["n1", "n2", "n3"], "bob", 8.0)
    assert told == {"n1": "bios begins anew", "n2": "is not in trouble: nothing to retry",
                    "n3": "was never begun: muster bringup run"}
    one = at(store, "n1")
    assert (one.stand, one.again, dict(one.kept)) == ("queued", 8.0, {"serial": "7"})
    assert bringups.troubles(store) == [] and [act.counts for act in bringups.actions(store)] == [False]
    assert [(each.outcome, each.ended) for each in bringups.steps(store)] == [("retried", 8.0)]
    assert outcomes(store) == [("bringup bios", "not known: no one looked before it was restarted"),
                               ("bringup retry bios", "bios begins anew")]
    assert bringups.retry(store, ["n1"], "bob", 9.0) == {"n1": "is not in trouble: nothing to retry"}


def test_a_skip_takes_a_step_that_is_still_to_come_and_a_reason(store: Store) -> None:
    in_trouble(store)
    for step, why, words in (("bios", " ", "takes a reason"), ("service", "why", "cannot be skipped"),
                             ("biso", "why", "there is no step 'biso'")):
        with pytest.raises(UsageError, match=words):
            bringups.skip(store, ["n1"], step, "bob", why, 5.0, order=ORDER)
    assert bringups.skips(store) == []
    told = bringups.skip(store, ["n1", "n9"], "bios", "bob", "no such settings", 5.0, order=ORDER)
    assert set(told.values()) == {"bios will be skipped, and never counts as passed"}
    assert (at(store, "n1").stand, bringups.troubles(store)) == ("queued", [])
    assert bringups.skip(store, ["n1"], "bios", "bob", "twice", 6.0, order=ORDER) == {
        "n1": "bios is to be skipped already"}
    assert bringups.skip(store, ["n1"], "bmc", "bob", "late", 6.0, order=ORDER) == {
        "n1": "is past bmc already: nothing to skip"}
    assert [(one.node, one.step, one.who, one.why, one.time) for one in bringups.skips(store)] == [
        ("n1", "bios", "bob", "no such settings", 5.0), ("n9", "bios", "bob", "no such settings", 5.0)]
    assert [action for action, _ in outcomes(store)] == ["bringup bios", "bringup skip bios",
                                                         "bringup skip bios"]


def test_a_skipped_step_ends_as_skipped_with_its_reason(store: Store) -> None:
    in_trouble(store)
    with store.writing() as db:
        notes.left(db, "n1", "bios", notes.SKIPPED, "boot", 7.0, "no such settings")
        notes.left(db, "n1", "boot", notes.SO, "service", 8.0)
    assert [(one.step, one.began, one.ended, one.outcome, one.why) for one in bringups.steps(store)] == [
        ("bios", 2.0, 7.0, "skipped", "no such settings"), ("boot", 8.0, 8.0, "so", "")]
    assert (at(store, "n1").step, at(store, "n1").since, bringups.troubles(store)) == ("service", 8.0, [])


def test_a_store_from_before_bring_up_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as older:
        use_version(older, 6)
        with opened(tmp_path, make=True):
            pass
    with opened(tmp_path) as store:
        assert bringups.begin(store, ["n1"], "bmc", "ada", 1.0) == ["n1"] and store.check() == []


def test_where_a_thousand_machines_stand_is_read_by_a_query_each_and_not_by_one_a_machine(
    store: Store, monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [f"n{number:04d}" for number in range(1000)]
    bringups.begin(store, nodes, "bios", "ada", 1.0)
    with store.writing() as db:
        for node in nodes:
            for step in ORDER:
                notes.left(db, node, step, notes.SO, "service", 2.0)
            notes.action_ended(db,
                               notes.action_begun(db, node, "boot", "k", "do", ("a", "b"), "ada", 3.0), True,
                             "well", 4.0)
            notes.troubled(db, node, "service", [GPU], 5.0)
    asked: list[str] = []
    rows = store.rows
    monkeypatch.setattr(store, "rows", lambda query, *values: (asked.append(query), rows(query, *values))[1])
    found = (bringups.progress(store), bringups.troubles(store), bringups.skips(store), bringups.steps(store),
             bringups.actions(store))
    assert 5 <= len(asked) <= 10
    assert [len(each) for each in found] == [1000, 1000, 0, 4000, 1000]
