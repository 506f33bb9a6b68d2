"""What burn-ins found, in the store: begun once, ended by a pass as wide, by another part in its place,
and by no sweep."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from healthcheck.model.outcome import NodeReport, NodeState, Owner, Result, Severity, Status
from healthcheck.store import accused
from healthcheck.store.accused import (
    SHARED,
    WRONG_DATA,
    BurnInAccusation,
    FinishedBurnIn,
    accused_nodes,
    write,
)
from healthcheck.store.file import Store
from healthcheck.store.history import problems, prune
from healthcheck.store.ledger import lines
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.sweeps import SweepRecord, record

DAY = 86400.0
WRONG = BurnInAccusation("n1", WRONG_DATA, "GPU 1", Severity.CRITICAL, Owner.VENDOR, "wrong data: 5 elements",
                         "what arithmetic says", "exchange it", ("node",), 1, 2, ("S1",), ("known-n1",),
                         ("random-n1",))


def swept(
    store: Store, at: float, serials: dict[str, str], node: str = "n1", whole: bool = True,
    chassis: str = "C1",
) -> None:
    """A sweep that found the node healthy, with these GPUs by slot."""
    parts = [*(Component("gpu", slot, serial, f"GPU {number}")
               for number, (slot, serial) in enumerate(sorted(serials.items()))),
             Component("chassis", "chassis", chassis, "chassis")]
    passed = tuple(Result(rule, rule, Status.PASS, Severity.CRITICAL) for rule in ("kernel-xid", "gpu-count"))
    record(store, SweepRecord(at, at + 1, False, "test", "digest", ("bringup",)),
           [NodeReport(node, NodeState.HEALTHY, "", passed)],
           {node: NodeReadings(tuple(parts), (), frozenset({"gpu", "chassis"} if whole else ()))})


def burnt(store: Store, at: float, *found: BurnInAccusation, run: str = "", length: str = "standard",
          **passed: tuple[str, ...]) -> list[str]:
    return write(store, FinishedBurnIn(run or f"run{at:g}", length, at, found, passed), "burn-in (me)", at)


def still(store: Store) -> list[tuple[str, str, str, str | None]]:
    return [(one.node, one.rule, one.subject, one.serial) for one in problems(store, None, 0, still=True)]


def test_it_is_a_problem_of_the_part_with_its_tests_and_its_run_and_a_line_in_the_ledger(
    store: Store,
) -> None:
    swept(store, 1, {"a": "S0", "b": "S1"})
    burnt(store, 10, WRONG)
    (one,) = problems(store, None, 0)
    assert (one.node, one.rule, one.subject, one.status, one.severity, one.kind, one.serial) == (
        "n1", WRONG_DATA, "GPU 1", "fail", "critical", "gpu", "S1")
    assert (one.began, one.seen, one.ended, one.sweeps, one.owner) == (10, 10, None, 1, "vendor")
    assert one.reason == "burn-in run10, for it: known-n1; against it: random-n1"
    (line,) = lines(store)
    assert (line.action, line.node, line.evidence, line.outcome) == (
        "burn-in failed", "n1", "burn-in run10", "written down")
    assert line.why == "burnin-wrong-data of GPU 1: wrong data: 5 elements"


def test_written_twice_it_is_as_if_written_once(store: Store) -> None:
    swept(store, 1, {"a": "S0", "b": "S1"})
    for _ in range(2):
        burnt(store, 10, WRONG, WRONG, run="r", n2=("node",))
    assert (len(problems(store, None, 0)) == 1 and len(lines(store)) == 1
            and problems(store, None, 0)[0].sweeps == 1)


def test_it_is_written_wholly_or_not_at_all(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(accused, "_line", fails)
    with pytest.raises(Exception, match="disk is full"):
        burnt(store, 10, WRONG)
    assert problems(store, None, 0) == [] and store.rows("SELECT * FROM node") == []


@pytest.mark.parametrize(("serials", "seats", "known"), [
    (("S0",), {"a": "S0", "b": "S1"}, "S0"),                # by its own number, wherever CUDA counts it
    # by its UUID where its number is a maker's placeholder
    (("0", "GPU-7"), {"a": "S0", "b": "GPU-7"}, "GPU-7"),
    ((), {"a": "S0", "b": "S1"}, "S1"),                     # by its place, where all places are known
    ((), {"a": "S0"}, None),                                # of one that is not seen, places say nothing
    (("S9",), {"a": "S0", "b": "S1"}, None),                # another one than any that sits there
])
def test_the_gpu_is_the_one_that_the_rank_ran_on(
    store: Store, serials: tuple[str, ...], seats: dict[str, str], known: str | None,
) -> None:
    swept(store, 1, seats)
    burnt(store, 10, replace(WRONG, serials=serials))
    assert still(store) == [("n1", WRONG_DATA, "GPU 1", known)]


def test_no_sweep_and_no_pruning_ends_it(store: Store) -> None:
    swept(store, 1, {"a": "S0", "b": "S1"})
    burnt(store, 10, WRONG)
    for at in (20, 30):
        swept(store, at, {"a": "S0", "b": "S1"})
    prune(store, 400 * DAY)
    assert still(store) == [("n1", WRONG_DATA, "GPU 1", "S1")]


@pytest.mark.parametrize(("length", "stages", "over"),
                         [("standard", ("node",), True), ("soak", ("node", "all"), True),
                          ("quick", ("node", "all"), False), ("standard", ("all",), False)])
def test_a_burn_in_that_passes_the_same_stages_at_least_as_long_ends_it(
    store: Store, length: str, stages: tuple[str, ...], over: bool,
) -> None:
    burnt(store, 10, WRONG)
    assert burnt(store, 20, length=length, n1=stages, n2=stages) == (["n1"] if over else [])
    assert [one.ended for one in problems(store, None, 0)] == [20.0 if over else None]
    assert [line.action for line in lines(store)] == ["burn-in failed", *["burn-in passed"] * over]


@pytest.mark.parametrize(("needed", "done", "over"),
                         [(("leaf-pairs",), ("node", "cross-pairs"), True),
                          (("cross-pairs",), ("leaf-pairs", "all"), False), (("all",), ("soak",), True),
                          (("node", "all"), ("all", "soak"), False), (("rail",), ("node",), False)])
def test_a_wider_stage_shows_what_a_narrower_one_does(
    store: Store, needed: tuple[str, ...], done: tuple[str, ...], over: bool,
) -> None:
    burnt(store, 10, replace(WRONG, stages=needed))
    assert burnt(store, 20, n1=done) == (["n1"] if over else [])


def test_another_board_in_its_place_ends_it_and_one_that_is_merely_gone_or_moved_in_its_node_does_not(
    store: Store,
) -> None:
    swept(store, 1, {"a": "S0", "b": "S1"})
    burnt(store, 10, WRONG)
    swept(store, 20, {"a": "S0"})                               # it fell off the bus
    swept(store, 30, {"a": "S1", "b": "S0"})                    # two boards have changed places
    assert still(store) == [("n1", WRONG_DATA, "GPU 1", "S1")]
    swept(store, 40, {"a": "S2", "b": "S0"})
    assert still(store) == [] and problems(store, None, 0)[0].ended == 40


def test_another_machine_under_the_name_ends_what_was_said_of_the_node_as_a_whole(store: Store) -> None:
    swept(store, 1, {"a": "S0"})
    burnt(store, 10, replace(WRONG, rule=accused.DEAD, subject="", gpu=None, serials=()))
    swept(store, 20, {"a": "S3"})
    assert len(still(store)) == 1
    swept(store, 30, {"a": "S3"}, chassis="C2")
    assert still(store) == []


def test_what_fails_again_goes_on_with_all_stages_the_longer_length_and_the_graver_word(store: Store) -> None:
    burnt(store, 10, WRONG, length="soak")
    burnt(store, 20, replace(WRONG, severity=Severity.WARNING, stages=("all",), observed="once more"),
          length="quick")
    (one,) = problems(store, None, 0)
    assert (one.severity, one.observed, one.began, one.seen,
            one.sweeps) == ("critical", "once more", 10, 20, 2)
    assert (burnt(store, 30, length="standard", n1=("node", "all")) == []
            and burnt(store, 40, length="soak", n1=("all",)) == [])
    assert burnt(store, 50, length="soak", n1=("node", "all")) == ["n1"]


def test_who_is_accused_is_reported_in_words_and_who_only_shares_is_not(store: Store) -> None:
    burnt(store, 10, WRONG, replace(WRONG, node="n2", rule=SHARED, subject="n2 - n3", gpu=None))
    assert accused_nodes(store) == {"n1": "burn-in run10 found, of GPU 1, wrong data: 5 elements"}
    burnt(store, 20, n1=("node",))
    assert accused_nodes(store) == {}


def test_its_ids_are_no_rules_of_a_sweep_and_each_says_what_it_is() -> None:
    from healthcheck.config.rulesfolder import packaged
    from healthcheck.ruleset.ruleset import load_ruleset

    assert not accused.RULES.keys() & {rule.id for rule in load_ruleset([packaged()]).rules}
    assert all(name.startswith("burnin-") and len(said) > 30 for name, said in accused.RULES.items())
