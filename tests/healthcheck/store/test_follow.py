"""What a burn-in found or a kernel log reported follows the part: out of the node that it left, to where it
sits."""

from __future__ import annotations

import pytest

from healthcheck.model.outcome import (
    Finding,
    LogEvidence,
    LogView,
    NodeReport,
    Owner,
    Result,
    Severity,
    Status,
    state_of,
)
from healthcheck.store.accused import WRONG_DATA, BurnInAccusation, FinishedBurnIn, write
from healthcheck.store.file import Store
from healthcheck.store.history import problems
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.rmas import begin, give_back, outcome
from healthcheck.store.sweeps import SweepRecord, record

SLOTS = ("0000:18:00.0", "0000:2a:00.0", "0000:3a:00.0")


def sweep(store: Store, at: float, subject: str = "", ends: str = "repair", **nodes: str) -> None:
    """One look at these nodes, each with the GPUs that its word names, letter by letter and slot by slot, a
    dot for none; the kernel of the first reports `subject`."""
    reports = []
    for name in nodes:
        findings = (Finding("Xid", "none", subject, log=LogEvidence("nvrm", ends, 1, 5.0, 5.0, (7,))),
                    ) if subject and not reports else ()
        result = Result("kernel-xid", "kernel.xid", Status.FAIL if findings else Status.PASS,
                        Severity.CRITICAL,
                        findings)
        reports.append(NodeReport(name, state_of([result]), "", (result,), log=LogView(f"b {name}", at)))
    record(store, SweepRecord(at, at + 1, False, "test", "d"), reports,
           {name: NodeReadings(tuple(Component("gpu", slot, letter, f"GPU {number}")
                                     for number, (slot, letter)
                                     in enumerate(zip(SLOTS, word, strict=False)) if letter != "."), (),
                               frozenset({"gpu"})) for name, word in nodes.items()})


def still(store: Store) -> list[tuple[str, str, str | None]]:
    return [(one.node, one.subject, one.serial) for one in problems(store, None, 0, still=True)]


XID = "GPU at PCI 0000:2a:00, Xid 64"


def test_a_report_that_only_a_repair_ends_goes_with_the_board_to_the_next_node(store: Store) -> None:
    sweep(store, 1, XID, n1="ABC", n2="DEF")
    assert still(store) == [("n1", XID, "B")]
    sweep(store, 2, n1="AEC", n2="DFB")
    assert still(store) == [("n2", "GPU at PCI 0000:3a:00, Xid 64", "B")]
    (one,) = problems(store, ["n2"], 0)
    assert (one.reason.startswith("it came along with the part from n1; ")
            and (one.began, one.ends) == (2, "repair"))
    sweep(store, 3, n1="AEC", n2="DFB")
    assert still(store) == [("n2", "GPU at PCI 0000:3a:00, Xid 64", "B")]
    sweep(store, 4, n1="ABC", n2="DFE")           # and home again
    assert still(store) == [("n1", XID, "B")]


def test_it_is_met_again_after_the_board_lay_on_a_shelf(store: Store) -> None:
    sweep(store, 1, XID, n1="ABC", n2="DE.")
    sweep(store, 2, n1="AXC", n2="DE.")
    assert still(store) == []
    sweep(store, 9, n2="DEB")
    assert still(store) == [("n2", "GPU at PCI 0000:3a:00, Xid 64", "B")]


def test_an_empty_slot_ends_nothing_as_no_one_knows_that_the_board_left(store: Store) -> None:
    sweep(store, 1, XID, n1="ABC")
    sweep(store, 2, n1="A.C")
    assert still(store) == [("n1", XID, "B")]


@pytest.mark.parametrize("ends", ["boot", "reset", "quiet 24h"])
def test_what_ends_with_a_boot_ends_as_the_board_leaves_and_accuses_no_other_node(store: Store,
                                                                                  ends: str) -> None:
    sweep(store, 1, XID, ends, n1="ABC", n2="DEF")
    sweep(store, 2, n1="AEC", n2="DBF")
    assert still(store) == []


@pytest.mark.parametrize(("same", "accused"),
                         [(True, []), (False, [("n2", "GPU at PCI 0000:3a:00, Xid 64", "B")])])
def test_a_board_that_the_vendor_repaired_is_accused_no_more_and_one_that_was_to_stay_there_is(
    store: Store, same: bool, accused: list[tuple[str, str, str]],
) -> None:
    sweep(store, 1, XID, n1="ABC", n2="DE.")
    sweep(store, 2, n1="AXC", n2="DE.")
    one, _ = begin(store, "n1", SLOTS[1], "gpu", "b", "worn", "us", "", "", 3)
    give_back(store, one, outcome(same=same, new="" if same else "Y"), "us", 4)
    sweep(store, 9, n2="DEB")
    assert still(store) == accused


def test_what_a_burn_in_found_goes_with_the_board_and_is_called_by_its_number_there(store: Store) -> None:
    sweep(store, 1, n1="ABC", n2="D.F")
    found = BurnInAccusation("n1", WRONG_DATA, "GPU 0", Severity.CRITICAL, Owner.VENDOR, "wrong data", "none",
                             "exchange it", ("node",), 0, 3, ("A",))
    write(store, FinishedBurnIn("run1", "standard", 2, (found,)), "us", 2)
    sweep(store, 3, n1=".BC", n2="DAF")
    assert still(store) == [("n2", "GPU 1", "A")]
    write(store, FinishedBurnIn("run2", "standard", 5, (), {"n2": ("node",)}), "us", 5)
    assert still(store) == []
