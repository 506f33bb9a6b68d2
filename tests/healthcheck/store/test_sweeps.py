"""What sweeps leave in the store: problems begin, go on and end; what was not measured ends nothing;
components keep their record."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from healthcheck.model.outcome import (
    Finding,
    LogEvidence,
    NodeReport,
    NodeState,
    Origin,
    Owner,
    Result,
    Severity,
    Status,
    state_of,
)
from healthcheck.store import history
from healthcheck.store.file import Store, opened
from healthcheck.store.readings import Component, CounterReading, NodeReadings
from healthcheck.store.sweeps import SweepRecord, record
from tests.testbed.memory import in_memory
from tests.tries import tries


def result(rule: str, status: Status, *subjects: str, reason: str = "") -> Result:
    findings = tuple(Finding(7, "at most 0", subject) for subject in subjects)
    return Result(rule, rule.replace("-", ".", 1), status, Severity.CRITICAL, findings, reason,
                  Origin.NODE if status is Status.UNKNOWN else None, "replace it" if findings else "",
                  Owner.VENDOR if findings else None)


def report(*results: Result, node: str = "n1") -> NodeReport:
    return NodeReport(node, state_of(results), "", results)


def unreached(node: str = "n1") -> NodeReport:
    return NodeReport(node, NodeState.UNKNOWN, "connect: refused", (), True, "connect")


def swept(store: Store, time: float, *reports: NodeReport, **readings: NodeReadings) -> None:
    record(store, SweepRecord(time, time + 5, False, "test", "digest"), reports, readings)


def told(store: Store) -> list[tuple[str, str, str, float, float | None, int]]:
    return [(p.rule, p.subject, p.status, p.began, p.ended, p.sweeps)
            for p in history.problems(store, None, 0)]


def test_a_boot_that_was_not_read_is_no_reboot(store: Store) -> None:
    for time, boot in enumerate(("b1", "", "b1", "", "b2")):
        swept(store, time, report(GOOD), n1=NodeReadings((), (), frozenset(), boot))
    assert [row[0] for row in store.rows("SELECT boot FROM boot ORDER BY began")] == ["b1", "b2"]


GOOD, BAD = result("gpu-ecc", Status.PASS), result("gpu-ecc", Status.FAIL, "GPU 3")
DARK = result("gpu-ecc", Status.UNKNOWN, reason="NVML hung")


def test_a_fault_begins_goes_on_and_ends(store: Store) -> None:
    for time, found in enumerate((GOOD, BAD, BAD, GOOD, BAD)):
        swept(store, time, report(found))
    assert told(store) == [("gpu-ecc", "GPU 3", "fail", 1, 3, 2), ("gpu-ecc", "GPU 3", "fail", 4, None, 1)]
    (first, *_) = history.problems(store, ["n1"], 0)
    assert (first.observed, first.expected, first.remedy, first.owner, first.severity) == (
        "7", "at most 0", "replace it", "vendor", "critical")


def test_a_fault_of_a_log_is_kept_with_its_emitter_and_how_it_ends_as_last_seen(store: Store) -> None:
    def of_a_log(*findings: Finding) -> NodeReport:
        return report(Result("kernel-fault", "kernel.fault", Status.FAIL, Severity.CRITICAL, findings))

    lines = ("[   50.000000] x",)
    swept(store, 0,
          of_a_log(Finding(1, 0, "ours", lines=lines, log=LogEvidence("nvme", "repair", 3, 1.0, 2.0)),
                   Finding(1, 0, "line", lines=lines),
                   Finding(1, 0, "nobody", lines=lines, log=LogEvidence("")), Finding(1, 0, "no log")))
    kept = {one.subject: (one.emitter, one.ends) for one in history.problems(store, None, 0)}
    # Lines whose emitter no one named are no one's: empty, and not as if no log had been read.
    assert kept == {"ours": ("nvme", "repair"), "line": ("", None), "nobody": ("", ""),
                    "no log": (None, None)}
    swept(store, 1, of_a_log(Finding(1, 0, "ours", lines=lines, log=LogEvidence("nvme-driver", "boot"))))
    (again,) = history.problems(store, None, 0, still=True)
    assert (again.subject, again.emitter, again.ends, again.sweeps) == ("ours", "nvme-driver", "boot", 2)
    swept(store, 2, report(DARK, node="n2"))
    (unknown,) = history.problems(store, ["n2"], 0)
    assert (unknown.emitter, unknown.ends) == (None, None)


def test_what_was_not_measured_ends_no_fault(store: Store) -> None:
    for time, found in enumerate(
            (report(BAD), report(DARK), unreached(), report(result("gpu-other", Status.PASS)), report(BAD))):
        swept(store, time, found)
    assert told(store) == [("gpu-ecc", "GPU 3", "fail", 0, None, 2), ("gpu-ecc", "", "unknown", 1, 4, 1),
                           ("", "", "unknown", 2, 3, 1)]


def test_a_fault_beside_what_could_not_be_measured_ends_no_other_of_its_rule(store: Store) -> None:
    partly = result("gpu-ecc", Status.FAIL, "GPU 1", reason="GPU 3: NVML hung")
    swept(store, 0, report(BAD))
    swept(store, 1, report(partly))
    assert {(subject, ended) for _, subject, _, _, ended, _ in told(store)} == {
        ("GPU 3", None), ("GPU 1", None)}
    swept(store, 2, report(result("gpu-ecc", Status.FAIL, "GPU 1")))
    assert {(subject, ended) for _, subject, _, _, ended, _ in told(store)} == {("GPU 3", 2), ("GPU 1", None)}


@pytest.mark.parametrize(("reason", "ends"), [
    ("disabled in site.yaml", True), ("the SKU ours says that gpu_count is not judged", True),
    ("left out by --skip", False), ("no earlier snapshot of this node in this boot", False),
])
def test_a_rule_that_the_site_did_away_with_accuses_no_one_any_more(
    store: Store, reason: str, ends: bool,
) -> None:
    swept(store, 0, report(BAD))
    swept(store, 1, report(result("gpu-ecc", Status.SKIPPED, reason=reason)))
    assert (told(store)[0][4] == 1) is ends


def test_a_node_that_an_interrupted_sweep_did_not_ask_is_left_as_it_was(store: Store) -> None:
    swept(store, 0, report(BAD), report(BAD, node="n2"))
    record(store, SweepRecord(1, 6, True, "test", "digest"),
           [report(GOOD), NodeReport("n2", NodeState.UNKNOWN, "interrupted", ())])
    assert [(spell.node, spell.state, spell.ended) for spell in history.spells(store, None, 0)] == [
        ("n1", "unhealthy", 1), ("n1", "healthy", None), ("n2", "unhealthy", None)]
    assert [problem.node for problem in history.problems(store, None, 0, still=True)] == ["n2"]


def test_a_node_in_whose_place_another_machine_answered_is_unknown_and_its_faults_stay(store: Store) -> None:
    swept(store, 0, report(BAD))
    swept(store, 1, NodeReport("n1", NodeState.UNKNOWN, "the machine that answered calls itself n2", ()))
    assert [(spell.state, spell.ended) for spell in history.spells(store, None, 0)] == [
        ("unhealthy", 1), ("unknown", None)]
    assert told(store) == [("gpu-ecc", "GPU 3", "fail", 0, None, 1), ("", "not asked", "unknown", 1, None, 1)]
    (_, unknown) = history.problems(store, None, 0)
    assert unknown.origin == "muster", "the address in the inventory is wrong, not the node"


@pytest.mark.parametrize("stage", ["turn", "lease", "jump host", "head"])
def test_a_node_that_was_not_asked_is_unknown_for_our_sake_and_is_not_counted_as_one_that_did_not_answer(
    store: Store, stage: str,
) -> None:
    for time in range(3):
        swept(store, time, NodeReport("n1", NodeState.UNKNOWN, f"{stage}: not asked", (), True, stage))
    swept(store, 3, unreached())
    assert [(p.subject, p.origin, p.sweeps, p.ended) for p in history.problems(store, None, 0)] == [
        ("not asked", "muster", 3, None), ("", "node", 1, None)]
    swept(store, 4, report(GOOD))
    assert [p.ended for p in history.problems(store, None, 0)] == [4, 4]


def test_some_rules_alone_make_no_node_healthy(store: Store) -> None:
    swept(store, 0, report(BAD))
    left_out = result("gpu-ecc", Status.SKIPPED, reason="left out by --only")
    record(store, SweepRecord(1, 6, False, "test", "digest", selected=True),
           [report(left_out, result("host-swap", Status.FAIL, "/swap"))])
    assert [(spell.state, spell.ended) for spell in history.spells(store, None, 0)] == [("unhealthy", None)]
    assert [(rule, ended) for rule, _, _, _, ended, _ in told(store)] == [
        ("gpu-ecc", None), ("host-swap", None)]


def gpus(*serials: str, whole: bool = True) -> NodeReadings:
    return NodeReadings(tuple(Component("gpu", f"0000:0{n}:00.0", serial, f"GPU {n}")
                              for n, serial in enumerate(serials) if serial), (),
                        frozenset({"gpu"} if whole else ()))


def test_a_swapped_gpu_takes_its_record_along_and_the_new_one_starts_clean(store: Store) -> None:
    fault = report(result("gpu-ecc", Status.FAIL, "GPU 1"))
    swept(store, 0, fault, n1=gpus("a", "b"))
    swept(store, 1, report(GOOD), report(GOOD, node="n2"), n1=gpus("a", "c"), n2=gpus("b"))
    swept(store, 2, report(result("gpu-ecc", Status.FAIL, "GPU 0"), node="n2"), n2=gpus("b"))
    record_of = {(p.node, p.subject): p.serial for p in history.problems(store, None, 0)}
    assert record_of == {("n1", "GPU 1"): "b", ("n2", "GPU 0"): "b"}
    assert [(s.node, s.slot, s.serial, s.ended)
            for s in history.seats(store, None, 0)] == [("n1", "0000:00:00.0", "a", None),
                                                        ("n1", "0000:01:00.0", "b", 1),
                                                        ("n1", "0000:01:00.0", "c", None),
                                                        ("n2", "0000:00:00.0", "b", None)]


def test_a_component_that_was_taken_out_sits_nowhere_and_one_that_was_not_read_sits_where_it_did(
    store: Store,
) -> None:
    swept(store, 0, report(GOOD), n1=gpus("a", "b"))
    swept(store, 1, report(GOOD), n1=gpus("a", whole=False))
    assert [seat.ended for seat in history.seats(store, None, 0)] == [None, None]
    swept(store, 2, report(GOOD), n1=gpus("a"))
    assert [seat.ended for seat in history.seats(store, None, 0)] == [None, 2]


def test_a_counter_takes_room_only_where_it_changed(store: Store) -> None:
    for time, value in enumerate((5, 5, 5, 7, 7)):
        swept(store, time, report(GOOD),
              n1=NodeReadings((), (CounterReading("0000:01:00.0", "pcie_replays", value),), frozenset()))
    assert [tuple(row) for row in store.rows("SELECT time, value FROM counter ORDER BY time")] == [
        (0, 5), (3, 7)]


def test_pruning_forgets_what_ended_ends_what_no_one_saw_since_and_keeps_what_holds(store: Store) -> None:
    counter = NodeReadings((), (CounterReading("p", "link_downed", 1),), frozenset())
    swept(store, 0, report(BAD), report(BAD, node="left"), n1=counter)
    swept(store, 10, report(GOOD), n1=NodeReadings((), (CounterReading("p", "link_downed", 2),), frozenset()))
    swept(store, 100, report(BAD))
    history.prune(store, 50)
    assert told(store) == [("gpu-ecc", "GPU 3", "fail", 100, None, 1)]
    assert [spell.node for spell in history.spells(store, None, 0)] == ["n1", "n1"]
    assert [tuple(row) for row in store.rows("SELECT time, value FROM counter")] == [(10, 2)]
    assert history.size(store).sweeps == 1 and store.check() == []


STATUSES = st.sampled_from(["pass", "fail one", "fail both", "fail partly", "unknown", "left out"])


def made(rule: str, how: str) -> Result:
    if how == "fail one":
        return result(rule, Status.FAIL, "GPU 0")
    if how == "fail both":
        return result(rule, Status.FAIL, "GPU 0", "GPU 1")
    if how == "fail partly":
        return result(rule, Status.FAIL, "GPU 1", reason="GPU 0: not read")
    return {"pass": result(rule, Status.PASS), "unknown": result(rule, Status.UNKNOWN, reason="hung"),
            "left out": result(rule, Status.SKIPPED, reason="left out by --skip")}[how]


class Sweeping(RuleBasedStateMachine):
    """Sweeps of any outcome against a model that remembers which faults were shown, and shown to be gone."""

    @initialize()
    def begin(self) -> None:

        self.folder = in_memory()
        self.context = opened(Path(self.folder.name), make=True)
        self.store = self.context.__enter__()
        self.time = 0.0
        self.faults: set[tuple[str, str, str]] = set()

    @rule(node=st.sampled_from(["n1", "n2"]), one=STATUSES, other=STATUSES,
          reached=st.sampled_from([True, True, True, False]))
    def sweep(self, node: str, one: str, other: str, reached: bool) -> None:
        self.time += 60
        if not reached:
            swept(self.store, self.time, unreached(node))
            return
        swept(self.store, self.time, report(made("r-1", one), made("r-2", other), node=node))
        for name, how in (("r-1", one), ("r-2", other)):
            if how in ("pass", "fail one", "fail both"):
                self.faults -= {(node, name, "GPU 0"), (node, name, "GPU 1")}
            self.faults |= {(node, name, subject)
                            for subject in {"fail one": ("GPU 0",), "fail both": ("GPU 0", "GPU 1"),
                                            "fail partly": ("GPU 1",)}.get(how, ())}

    @rule()
    def reopen(self) -> None:
        self.context.__exit__(None, None, None)
        self.context = opened(Path(self.folder.name))
        self.store = self.context.__enter__()

    @invariant()
    def the_open_faults_are_those_that_were_shown_and_not_shown_to_be_gone(self) -> None:
        if hasattr(self, "store"):
            held = {(p.node, p.rule, p.subject) for p in history.problems(self.store, None, 0, still=True)
                    if p.status == "fail"}
            assert held == self.faults
            assert self.store.check() == []

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.context.__exit__(None, None, None)
            self.folder.cleanup()


TestSweeping = Sweeping.TestCase
TestSweeping.settings = settings(max_examples=tries(25), stateful_step_count=15, deadline=None)
