"""Operations on all machines of a step at once: who takes part, and what becomes of whom."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from healthcheck.certify.keys import new_key
from healthcheck.model.hardware import Now
from healthcheck.store import bringups
from healthcheck.store.file import opened
from healthcheck.store.hardware import write_hardware
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepEffect,
    StepState,
)
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import RunContext, RunEvent
from provisioning.bringup.steps.burnin import BurnInStep
from provisioning.bringup.steps.certificate import Certify
from provisioning.bringup.steps.service import ServiceStep
from tests.provisioning.bringup.afteros import context
from tests.provisioning.bringup.scripted import SO, Acts, Plan, node, operation, step
from tests.provisioning.burnin.site import Site as Ranks
from tests.testbed import torches

BURN = operation("burnin", effect=StepEffect.DISRUPTIVE, settle_s=0.0)


@dataclass
class AllAtOnce:
    """Is so on machines it was made of; `cohorts` took part, `answers` say how it ended if not well."""

    step: BringupStep
    answers: Mapping[str, OperationResult] = field(default_factory=dict)
    cohorts: list[tuple[str, ...]] = field(default_factory=list)
    well: set[str] = field(default_factory=set)

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        for machine in machines:
            yield machine.name, SO if machine.name in self.well else Observation(
                StepState.NOT_SO, "not burnt in", BURN, again_s=0.01)

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        raise AssertionError("one alone")

    def make_together(self, machines: Sequence[Machine]) -> Mapping[str, OperationResult]:
        names = tuple(machine.name for machine in machines)
        self.cohorts.append(names)
        self.well |= {name for name in names if name not in self.answers}
        return {name: self.answers.get(name, OperationResult(True, "burnt in")) for name in names}


def ran(
    folder: Path, names: Sequence[str], *executors: object, idle: Mapping[str, str] | None = None,
) -> tuple[object, list[RunEvent]]:
    events: list[RunEvent] = []
    acting = {one.step.name: one for one in executors}      # type: ignore[attr-defined]
    site = RunContext(folder, "ada", idle=lambda machine: (idle or {}).get(machine.name, ""))
    return run(site, [node(name) for name in names], acting,
               Plan({name: one.step for name, one in acting.items()}), events.append), events


def test_all_that_came_take_part_in_one_action_each_with_its_line_before_it(tmp_path: Path) -> None:
    burn = AllAtOnce(step("burnin", together=True, gather_s=600.0))
    outcome, _ = ran(tmp_path, ["n1", "n2", "n3"], Acts(step("checks")), burn, Acts(step("service")))
    assert outcome.done == ("n1", "n2", "n3")       # type: ignore[attr-defined]
    assert [sorted(one) for one in burn.cohorts] == [["n1", "n2", "n3"]]
    with opened(tmp_path) as store:
        assert [(one.node, one.done) for one in bringups.actions(store)] == [
            ("n1", True), ("n2", True), ("n3", True)]


def test_who_must_not_be_disturbed_takes_no_part_and_does_not_keep_the_others(tmp_path: Path) -> None:
    burn = AllAtOnce(step("burnin", 0.3, together=True, gather_s=0.0))
    outcome, events = ran(tmp_path, ["n1", "n2"], burn, idle={"n2": "a job is on it"})
    assert (outcome.done, outcome.trouble) == (("n1",), ("n2",))     # type: ignore[attr-defined]
    assert burn.cohorts == [("n1",)]
    assert any("a job is on it" in event.message for event in events if event.node == "n2")


def test_no_one_is_looked_at_while_the_others_are_burnt_in_and_who_comes_late_is_next(tmp_path: Path) -> None:
    begun, late = threading.Event(), threading.Event()

    class Slow(AllAtOnce):
        def make_together(self, machines: Sequence[Machine]) -> Mapping[str, OperationResult]:
            begun.set()
            assert late.wait(20)        # the other one is at this step by now
            return super().make_together(machines)

    def checks(machine: Machine) -> Observation:
        if machine.name == "n2":
            assert begun.wait(20)
            late.set()
        return SO

    burn = Slow(step("burnin", together=True, gather_s=0.0))
    outcome, _ = ran(tmp_path, ["n1", "n2"], Acts(step("checks"), checks), burn)
    assert outcome.done == ("n1", "n2") and burn.cohorts == [("n1",), ("n2",)]  # type: ignore[attr-defined]


def test_what_is_raised_in_it_is_trouble_of_all_that_took_part(tmp_path: Path) -> None:
    class Broken(AllAtOnce):
        def make_together(self, machines: Sequence[Machine]) -> Mapping[str, OperationResult]:
            raise ZeroDivisionError("a secret")

    outcome, events = ran(tmp_path, ["n1", "n2"], Broken(step("burnin", together=True)))
    assert outcome.trouble == ("n1", "n2")      # type: ignore[attr-defined]
    assert (any("a defect of muster: ZeroDivisionError" in event.message for event in events)
            and "secret" not in str(events))


def test_of_whom_nothing_was_said_no_one_knows_and_it_is_looked_at(tmp_path: Path) -> None:
    class Silent(AllAtOnce):
        def make_together(self, machines: Sequence[Machine]) -> Mapping[str, OperationResult]:
            super().make_together(machines)
            return {}

    outcome, _ = ran(tmp_path, ["n1"], Silent(step("burnin", together=True)))
    assert outcome.done == ("n1",)      # type: ignore[attr-defined]
    with opened(tmp_path) as store:
        assert [one.done for one in bringups.actions(store)] in ([None], [True])


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_real_ranks_take_sound_machines_to_a_certificate_and_to_service_and_leave_the_accused_where_it_is(
    tmp_path: Path,
) -> None:
    site = Ranks(tmp_path, torches.forked(), 3)
    site.plant({"fault": "product", "node": "n3", "gpu": 0})
    text = json.loads((tmp_path / "muster.yaml").read_text())
    text["defaults"]["lifecycle"] = "bringup"
    (tmp_path / "muster.yaml").write_text(json.dumps(text, indent=1))
    of = context(tmp_path)
    # this machine tells no serial number
    with opened(of.folder, make=True) as store, store.writing() as db:
        for at, name in enumerate(site.names, 1):
            db.execute("INSERT INTO node (id, name) VALUES (?, ?)", (at, name))
            write_hardware(
                db, at, 1000.0, Now({"chassis": {"serial": f"S-{name}"}}, frozenset({"chassis"}), "boot", {}))
    new_key(of.folder, "test", "a test", 1000.0)
    steps = [
        step("burnin", together=True), step("certificate", together=True), step("service", together=True)]
    executors = {
        "burnin": BurnInStep(steps[0], of, "quick", "node,leaf-pairs"), "certificate": Certify(steps[1], of),
        "service": ServiceStep(steps[2], of)}
    events: list[RunEvent] = []
    outcome = run(RunContext(of.folder, "ada"), list(of.inventory), executors,
                  Plan({one.name: one for one in steps}), events.append)
    assert (outcome.done, outcome.trouble) == (("n1", "n2"), ("n3",)), events
    with opened(of.folder) as store:
        (line,) = bringups.troubles(store)
        assert (line.node, line.step, line.owner, line.part, line.slot) == (
            "n3", "burnin", "vendor", "gpu", "GPU 0")
        assert {one.key for one in bringups.actions(store) if one.step == "burnin"} == {"burnin"}
    assert site.cordoned() == [] and len(list((of.folder / "burnin").iterdir())) == 1
