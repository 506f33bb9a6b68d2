"""A run over scripted machines with its own clock: who goes on when, and what stops it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from healthcheck.model.outcome import Owner
from healthcheck.store import bringupnotes, bringups, file, ledger
from healthcheck.store.bringupnotes import LOGIN, REFUSED
from healthcheck.store.file import NAME, opened
from inventory.errors import StoreError, UsageError
from inventory.model import LifecycleState, Node
from provisioning.bringup.engine.model import (
    Executor,
    Machine,
    Observation,
    Operation,
    OperationResult,
    StepEffect,
    StepState,
)
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import LOCK, BringupOutcome, RunContext, RunEvent
from provisioning.lease.runlock import alone
from tests.provisioning.bringup.scripted import SO, Acts, Plan, Stop, node, operation, step, trouble


@dataclass
class Fake:
    """A site with a clock that only sleeping moves; `events` is what was told."""

    folder: Path
    now: float = 1000.0
    events: list[RunEvent] = field(default_factory=list)
    idle: Callable[[Machine], str] = lambda machine: ""

    def sleep(self, seconds: float) -> None:
        assert seconds < 1e6
        self.now += seconds

    def run(
        self, names: Sequence[Node | str], *executors: Acts, dry: bool = False, **more: object,
    ) -> BringupOutcome:
        plan = Plan({one.step.name: one.step for one in executors}, **more)     # type: ignore[arg-type]
        acting: dict[str, Executor] = {one.step.name: one for one in executors}
        site = RunContext(self.folder, "ada", lambda: self.now, self.sleep, self.idle)
        return run(site, [node(one) if isinstance(one, str) else one for one in names], acting, plan,
                   self.events.append, dry=dry)

    def on_event(self, stand: str) -> list[tuple[str, str]]:
        return [(event.node, event.step) for event in self.events if event.stand == stand]

    def at(self, name: str) -> bringups.MachineProgress:
        with opened(self.folder) as store:
            return bringups.progress(store, [name])[0]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def not_so(what: Operation, said: str = "it is not so", again_s: float = 15.0) -> Observation:
    return Observation(StepState.NOT_SO, said, what, again_s=again_s)


@dataclass
class Thing:
    """Not so before its operation, and shown `lag_s` after it; `made` are its machines, in order."""

    fake: Fake
    once: bool = False
    lag_s: float = 0.0
    effect: StepEffect = StepEffect.PASSIVE
    made: list[str] = field(default_factory=list)
    when: dict[str, float] = field(default_factory=dict)

    def observe(self, machine: Machine) -> Observation:
        when = self.when.get(machine.name)
        if when is not None and self.fake.now >= when + self.lag_s:
            return SO
        return not_so(operation("it", once=self.once, effect=self.effect))

    def make(self, machine: Machine, operation: Operation) -> OperationResult:
        self.made.append(machine.name)
        self.when[machine.name] = self.fake.now
        return OperationResult(True, "accepted")


def test_machines_go_through_all_steps_and_the_store_has_their_way(fake: Fake) -> None:
    thing = Thing(fake, lag_s=20.0)
    outcome = fake.run(
        ["n1", "n2"],
        Acts(step("bmc"), lambda machine: Observation(StepState.SO, "so", keep={"serial": "7"})),
        Acts(step("bios"), thing.observe, thing.make), Acts(step("service")))
    assert (outcome.done, outcome.trouble, outcome.exit_code, sorted(thing.made)) == (
        ("n1", "n2"), (), 0, ["n1", "n2"])
    with opened(fake.folder) as store:
        assert {
            (one.stand, one.step, one.who, dict(one.kept).get("serial"))
            for one in bringups.progress(store)} == {("done", "service", "ada", "7")}
        assert ([(one.step, one.ended and one.ended - one.began, one.outcome) for one in bringups.steps(
            store, ["n1"])] == [("bmc", 0.0, "so"), ("bios", 30.0, "so"), ("service", 0.0, "so")])
        assert [(line.action, line.outcome) for line in ledger.lines(store)] == [
            ("bringup bios", "accepted: accepted")] * 2


def test_a_machine_does_not_wait_for_another(fake: Fake) -> None:
    slow = Acts(step("os"),
                lambda machine: Observation(StepState.WAIT, "booting", again_s=60.0)
                if machine.name == "n1" and fake.now < 2000 else SO)
    fake.run(["n1", "n2"], slow, Acts(step("service")))
    assert fake.on_event("done") == [("n2", "service"), ("n1", "service")]


def test_an_action_is_in_the_store_before_it_is_done(fake: Fake) -> None:
    written: list[tuple[str, float | None]] = []

    def make(machine: Machine, what: Operation) -> OperationResult:
        with opened(fake.folder) as store:
            written.extend((one.key, one.ended) for one in bringups.actions(store))
        return OperationResult(True, "accepted")
    fake.run(["n1"],
             Acts(step("bios"), lambda machine: SO if written else not_so(operation("it", once=True)), make))
    assert written == [("it", None)]


def test_a_step_whose_time_is_over_is_its_owners_trouble_with_what_was_said_last(fake: Fake) -> None:
    outcome = fake.run(
        ["n1"],
        Acts(step("os", 100.0), lambda machine: Observation(StepState.UNKNOWN, "no route", again_s=30.0)))
    assert (outcome.trouble, outcome.exit_code, fake.now) == (("n1",), 1, 1100.0)
    with opened(fake.folder) as store:
        (line,) = bringups.troubles(store)
    assert (line.what, line.owner, line.began) == (
        "os is well: could not be measured after 100 s: no route", "datacentre", 1100.0)


def test_whoever_is_in_trouble_is_looked_at_anew_by_the_next_run_and_keeps_since_when(fake: Fake) -> None:
    bad = True
    hardware = Acts(step("hardware"), lambda machine: trouble("no GPU 3") if bad else SO)
    fake.run(["n1"], hardware)
    fake.now += 500
    fake.run(["n1"], hardware)
    with opened(fake.folder) as store:
        assert [
            (one.began, one.ended) for one in bringups.troubles(store, open_only=False)] == [(1000.0, None)]
    bad = False
    assert fake.run(["n1"], hardware).done == ("n1",)
    with opened(fake.folder) as store:
        assert bringups.troubles(store) == []


def test_a_refused_login_is_tried_again_only_when_a_person_says_so(fake: Fake) -> None:
    looks: list[str] = []

    def observe(machine: Machine) -> Observation:
        looks.append(machine.name)
        return Observation(StepState.TROUBLE, "401", keep={LOGIN: REFUSED}) if len(looks) == 1 else SO
    credentials = Acts(step("credentials"), observe)
    assert fake.run(["n1"], credentials).trouble == ("n1",)
    assert fake.run(["n1"], credentials).trouble == ("n1",) and looks == ["n1"]
    assert fake.run(["n1"], credentials, dry=True).trouble == ("n1",) and looks == ["n1"]
    with opened(fake.folder) as store:
        bringups.retry(store, ["n1"], "bob", fake.now)
    assert fake.run(["n1"], credentials).done == ("n1",)


def refusing(tried: list[str], accept: str = "") -> Acts:
    def observe(machine: Machine) -> Observation:
        tried.append(machine.name)
        return SO if machine.name == accept else Observation(StepState.TROUBLE, "401", keep={LOGIN: REFUSED})
    return Acts(step("credentials"), observe)


def test_after_some_refused_logins_and_none_accepted_no_other_is_tried(fake: Fake) -> None:
    tried: list[str] = []
    nodes = [node(f"n{number:02d}", user="root") for number in range(20)]
    outcome = fake.run(nodes, Acts(step("bmc")), refusing(tried))
    assert (len(tried), len(outcome.trouble), len(outcome.queued), outcome.exit_code) == (3, 3, 17, 4)
    assert ("accounts lock" in outcome.halted["credentials"]
            and fake.at(outcome.queued[0]).message == outcome.halted["credentials"])
    # Nor by the next run, nor by a dry one.
    assert fake.run(nodes, Acts(step("bmc")), refusing(tried)).exit_code == 4 and len(tried) == 3
    fake.run(nodes, Acts(step("bmc")), refusing(tried), dry=True)
    assert len(tried) == 3


def test_another_user_and_one_who_was_let_in_once_are_tried_on(fake: Fake) -> None:
    tried: list[str] = []
    nodes = [node(f"n{number:02d}", user="root" if number % 2 else "admin") for number in range(20)]
    outcome = fake.run(nodes, Acts(step("bmc")), refusing(tried, accept="n01"), stop=Stop(share=1.0))
    assert len([name for name in tried if int(name[1:]) % 2]) == 10 and len(tried) == 13
    assert (len(outcome.trouble), len(outcome.queued), outcome.done) == (12, 7, ("n01",))


def test_a_user_who_was_let_in_by_an_earlier_run_is_tried_on(fake: Fake) -> None:
    tried: list[str] = []
    nodes = [node(f"n{number:02d}", user="root") for number in range(10)]
    executors = (refusing(tried, accept="n00"), Acts(step("os"), lambda machine: trouble("dark")))
    fake.run(nodes[:1], *executors)
    assert len(fake.run(nodes, *executors, stop=Stop(share=1.0)).trouble) == 10 and len(tried) == 10


def test_where_that_login_was_skipped_no_one_was_let_in(fake: Fake) -> None:
    tried: list[str] = []
    nodes = [node(f"n{number:02d}", user="root") for number in range(10)]
    executors = (refusing(tried), Acts(step("os"), lambda machine: trouble("dark")))
    with opened(fake.folder, make=True) as store:
        bringups.skip(
            store, ["n00"], "credentials", "bob", "known", 900.0, order=("credentials", "os", "service"))
    fake.run(nodes[:1], *executors)
    assert fake.run(nodes, *executors, stop=Stop(share=1.0)).exit_code == 4 and len(tried) == 3


def test_refused_ones_that_a_person_has_tried_again_meanwhile_count_no_more(fake: Fake) -> None:
    mended = False
    nodes = [*(node(f"n{number}", user="root") for number in range(6)), node("n9", user="admin")]

    def login(machine: Machine) -> Observation:
        return SO if mended or machine.name == "n9" else Observation(
            StepState.TROUBLE, "401", keep={LOGIN: REFUSED})

    def boots(machine: Machine) -> Observation:
        nonlocal mended
        if fake.now >= 1100.0 and not mended:
            mended = True
            with opened(fake.folder) as store:
                bringups.retry(store, [one.node for one in bringups.troubles(store)], "bob", fake.now)
        return SO if fake.now >= 1300.0 else Observation(StepState.WAIT, "booting", again_s=50.0)
    outcome = fake.run(nodes, Acts(step("credentials"), login), Acts(step("os"), boots), stop=Stop(least=3))
    assert (len(outcome.done), outcome.exit_code, fake.on_event("halted")) == (7, 0, [("", "credentials")])


def test_a_step_that_most_machines_fail_in_is_halted_and_the_rest_stay_queued(fake: Fake) -> None:
    nodes = [f"n{number:02d}" for number in range(40)]
    outcome = fake.run(nodes, Acts(step("hardware", in_parallel=4), lambda machine: trouble("no NIC")),
                       stop=Stop(share=0.5, least=5))
    assert (outcome.exit_code, list(outcome.halted)) == (4, ["hardware"]) and 5 <= len(outcome.trouble) <= 8
    assert len(outcome.trouble) + len(outcome.queued) == 40 and [
        event.step for event in fake.events if event.stand == "halted"] == ["hardware"]
    assert "does not look like the machines' fault" in fake.at(
        outcome.queued[-1]).message and fake.at(outcome.queued[-1]).stand == "queued"


def test_one_in_ten_halts_nothing(fake: Fake) -> None:
    outcome = fake.run(
        [f"n{number:02d}" for number in range(60)],
        Acts(step("hardware"), lambda machine: trouble("no NIC") if machine.name.endswith("3") else SO))
    assert (len(outcome.done), len(outcome.trouble), outcome.exit_code) == (54, 6, 1)


def test_steps_left_out_by_policy_or_people_are_skipped_and_never_so(fake: Fake) -> None:
    def never(machine: Machine) -> Observation:
        raise AssertionError(machine.name)
    with opened(fake.folder, make=True) as store:
        bringups.skip(store, ["n1"], "agent", "bob", "later", 900.0, order=("agent", "service"))
    fake.run(["n1"], Acts(step("bios"), never), Acts(step("agent"), never), Acts(step("service")),
             without=frozenset({"bios"}))
    with opened(fake.folder) as store:
        assert [(one.step, one.outcome, one.why) for one in bringups.steps(store)] == [
            ("bios", "skipped", "the policy leaves it out"), ("agent", "skipped", "later"),
            ("service", "so", "")]


def test_of_one_power_domain_no_more_than_its_bound_draw_power_at_once(fake: Fake) -> None:
    thing = Thing(fake, lag_s=50.0)
    most: dict[str, int] = {}

    def make(machine: Machine, what: Operation) -> OperationResult:
        made = thing.make(machine, what)
        with lock:
            rising = [name for name, when in thing.when.items() if fake.now < when + thing.lag_s]
            for pdu in ("a", "b"):
                most[pdu] = max(most.get(pdu, 0), sum(name.startswith(pdu) for name in rising))
        return made
    lock = threading.Lock()
    nodes = [node(f"{pdu}{number}", f"pdu {pdu}") for pdu in "ab" for number in range(6)]
    outcome = fake.run(
        nodes, Acts(step("boot", domain_at_once=2), thing.observe, make), Acts(step("service")))
    assert len(outcome.done) == 12 and most == {"a": 2, "b": 2} and fake.now >= 1150.0


@dataclass
class Many(Acts):
    """Keeps who was checked together, and when."""

    batches: list[list[str]] = field(default_factory=list)

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        self.batches.append(sorted(machine.name for machine in machines))
        yield from super().observe(machines)


def arrives(fake: Fake, times: dict[str, float]) -> Acts:
    return Acts(step("os"), lambda machine: SO if fake.now >= times[machine.name] else Observation(
        StepState.WAIT, "on its way", again_s=times[machine.name] - fake.now))


def test_a_look_at_many_waits_for_those_on_their_way_and_no_longer_than_that(fake: Fake) -> None:
    checks = Many(step("checks", together=True, gather_s=60.0))
    fake.run(["n1", "n2", "n3"], arrives(fake, {"n1": 1000.0, "n2": 1050.0, "n3": 1500.0}), checks,
             Acts(step("service")))
    assert checks.batches == [["n1", "n2"], ["n3"]]


def test_a_look_at_many_waits_for_no_one_where_no_one_can_come(fake: Fake) -> None:
    checks = Many(step("checks", together=True, gather_s=600.0))
    fake.run(["n1", "n2", "n3"],
             Acts(step("hardware"), lambda machine: trouble("dark") if machine.name == "n3" else SO),
             arrives(fake, {"n1": 1000.0, "n2": 1050.0}), checks)
    assert (checks.batches, fake.now) == ([["n1", "n2"]], 1050.0)


def test_of_a_look_at_many_each_machine_goes_on_as_soon_as_it_is_known(fake: Fake) -> None:
    gone_on = threading.Event()

    class Slowly(Acts):
        def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
            yield "n1", SO
            yield "n1", trouble("said twice")
            yield "nobody", SO
            assert gone_on.wait(10)

    def service(machine: Machine) -> Observation:
        gone_on.set()
        return SO
    outcome = fake.run(
        ["n1", "n2"], Slowly(step("checks", 50.0, together=True)), Acts(step("service"), service))
    # Of n2 it never said a word.
    assert (outcome.done, outcome.trouble) == (
        ("n1",), ("n2",)) and "without a result for it" in fake.at("n2").message


def test_those_that_are_looked_at_again_are_so_together(fake: Fake) -> None:
    checks = Many(step("checks", together=True, gather_s=60.0),
                  lambda machine: SO if fake.now > 1000.0 else Observation(
                      StepState.WAIT, "once more", again_s=20.0 if machine.name == "n1" else 30.0))
    fake.run(["n1", "n2"], checks)
    assert checks.batches == [["n1", "n2"], ["n1", "n2"]] and fake.now == 1030.0


@dataclass
class Jointly(Many):
    """Makes it of all machines at once, and keeps of whom; of `forgets` it says nothing."""

    made: list[list[str]] = field(default_factory=list)
    forgets: str = ""
    then: Callable[[], None] = lambda: None

    def observe(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Observation]]:
        self.batches.append(sorted(machine.name for machine in machines))
        for machine in machines:
            burnt = any(machine.name in names for names in self.made)
            yield machine.name, SO if burnt else not_so(
                operation("burn", effect=StepEffect.DISRUPTIVE, settle_s=0.0))

    def make_together(self, machines: Sequence[Machine]) -> dict[str, OperationResult]:
        self.made.append(sorted(machine.name for machine in machines))
        self.then()
        return {
            machine.name: OperationResult(True, "burnt") for machine in machines
            if machine.name != self.forgets}


def test_what_is_made_of_many_at_once_is_made_of_all_that_need_it_and_are_idle(fake: Fake) -> None:
    fake.idle = lambda machine: "job 7 runs on it" if machine.name == "n2" and fake.now < 1010.0 else ""
    burnin = Jointly(step("burnin", together=True))
    assert len(fake.run(["n1", "n2", "n3"], burnin).done) == 3 and burnin.made == [["n1", "n3"], ["n2"]]


def test_an_action_done_to_many_takes_no_one_elses_place(fake: Fake) -> None:
    late = threading.Event()

    def os(machine: Machine) -> Observation:
        if machine.name != "late":
            return SO
        late.set()
        return SO
    burnin = Jointly(step("burnin", together=True, gather_s=1.0), then=lambda: void(late.wait(10)))
    nodes = [*(f"n{number}" for number in range(8)), "late"]
    boots = Acts(step("boot"),
                 lambda machine: SO if machine.name != "late" or burnin.made
                 else Observation(StepState.WAIT, "booting", again_s=0.02))
    plan = Plan({"boot": boots.step, "os": step("os"), "burnin": burnin.step}, width=4)
    outcome = run(RunContext(fake.folder, "ada"), [node(name) for name in nodes],
                  {"boot": boots, "os": Acts(step("os"), os), "burnin": burnin},
                  plan, fake.events.append)
    assert len(outcome.done) == 9 and late.is_set() and len(burnin.made[0]) > plan.width


def test_who_was_changed_is_looked_at_without_waiting_for_others(fake: Fake) -> None:
    burnin = Jointly(step("burnin", together=True, gather_s=500.0))
    fake.run(["n1", "n2"], arrives(fake, {"n1": 1000.0, "n2": 3000.0}), burnin)
    assert burnin.batches == [["n1"], ["n1"], ["n2"], ["n2"]]
    # It waited for the other one once, before it was changed.
    with opened(fake.folder) as store:
        assert [one.ended for one in bringups.steps(store, ["n1"]) if one.step == "burnin"] == [1500.0]


def test_of_whom_nothing_is_said_after_an_action_done_to_many_no_one_knows(fake: Fake) -> None:
    burnin = Jointly(step("burnin", together=True), forgets="n2")
    fake.run(["n1", "n2"], burnin)
    with opened(fake.folder) as store:
        assert {one.node: (one.done, one.message) for one in bringups.actions(store)} == {
            "n1": (True, "burnt"), "n2": (None, "no result was returned for it")}


def test_what_is_raised_in_an_action_done_to_many_is_our_defect(fake: Fake) -> None:
    def fails() -> None:
        raise KeyError("secret")
    outcome = fake.run(["n1", "n2"], Jointly(step("burnin", together=True), then=fails), stop=Stop(share=1.0))
    assert outcome.trouble == (
        "n1", "n2") and fake.at("n1").message == "a defect of muster: KeyError, in do burn"


def test_a_halted_look_at_many_ends_the_run_and_no_one_waits_for_who_is_halted(fake: Fake) -> None:
    nodes = [f"n{number:02d}" for number in range(10)]
    bad = Many(step("kernel", in_parallel=6, together=True),
               lambda machine: SO if machine.name == "n05" else trouble("bad"))
    checks = Many(step("checks", together=True, gather_s=600.0))
    outcome = fake.run(nodes, bad, checks)
    assert (outcome.done, len(outcome.trouble), len(outcome.queued), outcome.exit_code) == (("n05",), 5, 4, 4)
    assert (checks.batches, fake.now) == ([["n05"]], 1000.0)


def test_who_was_begun_in_a_step_before_it_was_halted_goes_on(fake: Fake) -> None:
    def observe(machine: Machine) -> Observation:
        if machine.name != "n00":
            return trouble("bad")
        return SO if fake.now >= 1020.0 else Observation(StepState.WAIT, "on its way", again_s=20.0)
    outcome = fake.run(
        [f"n{number:02d}" for number in range(20)], Acts(step("hardware", in_parallel=6), observe))
    assert outcome.done == ("n00",) and len(outcome.queued) >= 8


def test_an_action_that_came_true_while_a_long_look_was_under_way_is_no_trouble(fake: Fake) -> None:
    thing = Thing(fake, once=True, lag_s=50.0)

    def observe(machine: Machine) -> Observation:
        seen = thing.observe(machine)
        fake.now += 100.0 if thing.made and seen is not SO else 0.0
        return seen
    assert fake.run(["n1"], Acts(step("bios"), observe, thing.make)).done == ("n1",) and thing.made == ["n1"]


def test_an_action_that_outlived_its_time_is_waited_for_written_down_and_done_once(fake: Fake) -> None:
    made: list[str] = []

    def looks(machine: Machine) -> Observation:
        past = machine.did("off")
        if past is None:
            return Observation(StepState.NOT_SO, "on", operation("off", once=True, shows=False))
        if machine.now < 1300:
            return Observation(StepState.WAIT, "its BMC still works on it", again_s=30)
        known = {"off": OperationResult(True, "accepted: Completed")} if past.done is None else {}
        return replace(SO, learned=known)

    def makes(machine: Machine, wanted: Operation) -> OperationResult:
        made.append(machine.name)
        return OperationResult(None, "still on its way")

    fake.run(["n1"], Acts(step("bios"), looks, makes))
    assert made == ["n1"]
    with opened(fake.folder) as store:
        (action,) = bringups.actions(store)
    assert (action.done, action.message) == (True, "accepted: Completed") and action.ended >= 1300


def test_foreign_words_are_bounded_and_escaped_in_the_store(fake: Fake) -> None:
    words = "\x1b[31m" + "x" * 9999
    thing = Thing(fake, lag_s=20.0)
    on_event: list[str] = []

    def observe(machine: Machine) -> Observation:
        if thing.made and (said := fake.at("n1").message) not in on_event:
            on_event.append(said)
        return replace(thing.observe(machine), message=words)

    def make(machine: Machine, what: Operation) -> OperationResult:
        return replace(thing.make(machine, what), message=words)
    fake.run(["n1"], Acts(step("bios"), observe, make),
             Acts(step("os"), lambda machine: Observation(StepState.TROUBLE, words)))
    with opened(fake.folder) as store:
        (line,), (done,) = bringups.troubles(store), bringups.actions(store)
    for text in (line.what, done.message, fake.at("n1").message, on_event[1]):
        assert text.startswith("\\x1b[31mxxx") and len(text) == 400


def test_a_step_without_a_place_ends_the_run_before_it(fake: Fake) -> None:
    outcome = fake.run(
        ["n1"], Acts(step("bmc")), Many(step("checks", in_parallel=0, together=True, gather_s=600.0)))
    assert (outcome.queued, fake.now, fake.at("n1").step) == (("n1",), 1000.0, "checks")


def test_what_a_executor_raises_is_our_defect_and_the_others_go_on(fake: Fake) -> None:
    def observe(machine: Machine) -> Observation:
        if machine.name == "n1":
            raise KeyError("secret")
        return SO if machine.name == "n3" else not_so(operation("it"))

    def make(machine: Machine, what: Operation) -> OperationResult:
        raise SystemExit("secret")
    outcome = fake.run(["n1", "n2", "n3"], Acts(step("bios"), observe, make))
    assert (outcome.done, outcome.trouble) == (("n3",), ("n1", "n2"))
    with opened(fake.folder) as store:
        found = {(one.node, one.what, one.owner) for one in bringups.troubles(store)}
        assert [(one.done, one.ended is not None) for one in bringups.actions(store)] == [(None, True)]
    assert found == {("n1", "a defect of muster: KeyError, in a check of bios", Owner.OPERATOR.value),
                     ("n2", "a defect of muster: SystemExit, in do it", Owner.OPERATOR.value)}
    assert b"secret" not in (fake.folder / NAME).read_bytes()


def test_what_disturbs_is_not_begun_before_the_machine_is_idle(fake: Fake) -> None:
    thing = Thing(fake, effect=StepEffect.DISRUPTIVE)
    fake.idle = lambda machine: "job 7 runs on it" if fake.now < 1040.0 else ""
    fake.run(["n1"], Acts(step("bios"), thing.observe, thing.make))
    assert thing.when == {"n1": 1045.0}
    assert [event.message for event in fake.events if event.stand == "waiting"] == [
        "NOT done: do it: job 7 runs on it"]


def test_a_machine_that_is_never_idle_is_trouble_and_whoever_cannot_say_is_believed_to_be_busy(
    fake: Fake,
) -> None:
    def idle(machine: Machine) -> str:
        raise StoreError("gone") if machine.name == "n1" else RuntimeError("secret")
    thing = Thing(fake, effect=StepEffect.DISRUPTIVE)
    fake.idle = idle
    fake.run(["n1", "n2"], Acts(step("bios", 100.0), thing.observe, thing.make))
    assert thing.made == [] and fake.at("n1").stand == "trouble"
    with opened(fake.folder) as store:
        assert {
            one.node: one.what.rpartition("whether it is idle is not known: ")[2]
            for one in bringups.troubles(store)} == {"n1": "gone", "n2": "a defect of muster: RuntimeError"}


def test_a_step_that_is_skipped_while_it_is_asked_whether_it_may_disturb_is_not_begun(fake: Fake) -> None:
    thing = Thing(fake, effect=StepEffect.DISRUPTIVE)

    def idle(machine: Machine) -> str:
        with opened(fake.folder) as store:
            bringups.skip(store, ["n1"], "bios", "bob", "why not", fake.now, order=("bios", "service"))
        fake.now += 5.0
        return ""
    fake.idle = idle
    assert fake.run(
        ["n1"], Acts(step("bios"), thing.observe, thing.make)).done == ("n1",) and thing.made == []


def test_of_an_action_that_no_one_knows_of_in_a_step_that_is_skipped_that_is_written_down(fake: Fake) -> None:
    with opened(fake.folder, make=True) as store:
        bringups.begin(store, ["n1"], "bios", "ada", 900.0)
        with store.writing() as db:
            bringupnotes.action_begun(db, "n1", "bios", "it", "do it", (), "ada", 900.0)
        bringups.skip(store, ["n1"], "bios", "bob", "why not", 900.0, order=("bios", "service"))
    assert fake.run(["n1"], Acts(step("bios"))).done == ("n1",)
    with opened(fake.folder) as store:
        assert (next(line.outcome for line in ledger.lines(store))
                == "not known: not checked, because the step was skipped")


def test_a_dry_run_looks_until_the_first_that_is_not_so_and_writes_nothing(fake: Fake) -> None:
    thing = Thing(fake)
    executors = (Acts(step("bmc"), lambda machine: trouble("dark") if machine.name == "n2" else SO),
                 Acts(step("bios"), thing.observe, thing.make))
    outcome = fake.run(["n1", "n2"], *executors, dry=True)
    assert not (fake.folder / NAME).exists() and thing.made == [] and outcome.done == ()
    assert {name: (at, seen.stand) for name, (at, seen) in outcome.seen.items()} == {
        "n1": ("bios", StepState.NOT_SO), "n2": ("bmc", StepState.TROUBLE)}
    assert ([(event.node, event.operation.key) for event in fake.events
             if event.stand == "operation" and event.operation] == [("n1", "it")])
    fake.run(["n2"], *executors)
    before = (fake.folder / NAME).read_bytes()
    fake.run(["n1", "n2"], *executors, dry=True)
    assert (fake.folder / NAME).read_bytes() == before and thing.made == []


def test_a_second_run_at_once_is_refused_and_a_dry_one_is_not(fake: Fake) -> None:
    fake.folder.mkdir(exist_ok=True)
    with alone(fake.folder, LOCK, "bringup run"):
        with pytest.raises(UsageError, match="another muster bringup run"):
            fake.run(["n1"], Acts(step("bmc")))
        assert fake.run(["n1"], Acts(step("bmc")), dry=True).done == ("n1",)


def test_a_machine_that_is_not_in_bring_up_is_left_alone_and_taken_off_its_way(fake: Fake) -> None:
    fake.run(["n1"], Acts(step("bmc")), Acts(step("os"), lambda machine: trouble("dark")))
    outcome = fake.run([node("n1", state=LifecycleState.RMA)], Acts(step("bmc")), Acts(step("os")))
    assert (outcome.left, outcome.done, outcome.exit_code) == (("n1",), (), 1)
    assert fake.at("n1").stand == "left" and "its lifecycle is rma" in fake.at("n1").message
    # Back in bring-up it goes its whole way again.
    assert fake.run(["n1"], Acts(step("bmc")), Acts(step("os"))).done == ("n1",)
    with opened(fake.folder) as store:
        assert [one.step for one in bringups.steps(store)] == ["bmc", "os", "bmc", "os"]


def test_after_a_retry_what_must_be_done_once_may_be_done_again(fake: Fake) -> None:
    bad = True

    def observe(machine: Machine) -> Observation:
        return SO if not bad and machine.operations else not_so(operation("it", once=True))
    bios = Acts(step("bios"), observe)
    assert fake.run(["n1"], bios).trouble == (
        "n1",) and "was accepted, and after 60 s it does not show" in fake.at("n1").message
    fake.run(["n1"], bios)
    with opened(fake.folder) as store:
        assert len(bringups.actions(store)) == 1
        bringups.retry(store, ["n1"], "bob", fake.now)
    bad = False
    assert fake.run(["n1"], bios).done == ("n1",)
    with opened(fake.folder) as store:
        assert [one.counts for one in bringups.actions(store)] == [False, True]


def test_a_word_that_somebody_says_meanwhile_is_heard(fake: Fake) -> None:
    said: list[str] = []

    def observe(machine: Machine) -> Observation:
        if fake.now >= 1100.0 and not said:
            said.append("said")
            with opened(fake.folder) as store:
                bringups.retry(store, ["n1"], "bob", fake.now)
                bringups.skip(store, ["n2"], "os", "bob", "why not", fake.now, order=("bmc", "os", "service"))
        return (Observation(StepState.WAIT, "waiting", again_s=3000.0 if machine.name == "n2" else 50.0)
                if fake.now < 1300 else SO)
    bmc = Acts(step("bmc"), lambda machine: trouble("dark") if machine.name == "n1" and not said else SO)
    outcome = fake.run(["n1", "n2", "n3"], bmc, Acts(step("os"), observe), Acts(step("service")))
    assert outcome.done == ("n1", "n2", "n3")
    assert fake.on_event(
        "skipped") == [("n2", "os")] and fake.on_event("done")[0] == ("n2", "service") and fake.now == 1300.0


def goes_on(fake: Fake, thing: Thing) -> None:
    """After a run that could not write: nothing was done twice, and the next one finds what was done."""
    assert sorted(thing.made) == ["n1", "n2"] and fake.at("n1").stand == "waiting"
    with opened(fake.folder) as store:
        assert store.check() == [] and {one.ended for one in bringups.actions(store)} == {None}
    assert fake.run(["n1", "n2"], Acts(step("bios"), thing.observe, thing.make)).done == (
        "n1", "n2") and len(thing.made) == 2
    with opened(fake.folder) as store:
        assert {line.outcome for line in ledger.lines(store)} == {"accepted: it shows; found so later"}


def both(thing: Thing, then: Callable[[], None]) -> Callable[[Machine, Operation], OperationResult]:
    """Makes both machines' operations end at once, after what happens then."""
    meet = threading.Barrier(2, then)

    def make(machine: Machine, what: Operation) -> OperationResult:
        made = thing.make(machine, what)
        meet.wait(10)
        return made
    return make


def test_while_others_write_to_the_store_for_too_long_nothing_is_begun_and_nothing_lost(
    fake: Fake, monkeypatch: pytest.MonkeyPatch,
) -> None:
    thing = Thing(fake, once=True)
    with opened(fake.folder, make=True):
        pass
    monkeypatch.setattr(file, "WAIT_S", 0.1)
    with closing(sqlite3.connect(fake.folder / NAME, isolation_level=None, check_same_thread=False)) as other:
        with pytest.raises(StoreError, match="another muster has been writing to it"):
            fake.run(["n1", "n2"],
                     Acts(step("bios"), thing.observe,
                          both(thing, lambda: void(other.execute("BEGIN IMMEDIATE")))))
        other.execute("ROLLBACK")
    goes_on(fake, thing)


def void(_: object) -> None:
    """What it gives is of no interest."""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_on_a_full_disk_nothing_is_begun_and_nothing_lost(tmp_path: Path) -> None:
    fake = Fake(tmp_path / "small")
    fake.folder.mkdir()
    thing, filler = Thing(fake, once=True), fake.folder / "filler"

    def fill() -> None:
        with suppress(OSError), filler.open("wb", buffering=0) as out:
            while True:
                out.write(bytes(1024))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(fake.folder)], check=True)
    try:
        with pytest.raises(StoreError, match="the disk is full"):
            fake.run(["n1", "n2"], Acts(step("bios"), thing.observe, both(thing, fill)))
        filler.unlink()
        goes_on(fake, thing)
    finally:
        subprocess.run(["umount", str(fake.folder)], check=True)


def test_whatever_is_raised_where_it_is_reported_no_action_is_left_of_which_no_one_knows(fake: Fake) -> None:
    made: list[str] = []

    def make(machine: Machine, what: Operation) -> OperationResult:
        assert failing.wait(10)
        made.append(machine.name)
        return OperationResult(True, "accepted")

    def on_event(event: RunEvent) -> None:
        if event.stand == "operation" and event.node == "n2":
            failing.set()
            raise BrokenPipeError
    failing = threading.Event()
    bios = Acts(step("bios"),
                lambda machine: not_so(operation("it", once=True)) if machine.name == "n1" or under_way(fake)
                    else Observation(StepState.WAIT, "not yet", again_s=0.01), make)
    with pytest.raises(BrokenPipeError):
        run(RunContext(fake.folder, "ada"), [node("n1"), node("n2")], {"bios": bios},
            Plan({"bios": bios.step}), on_event)
    with opened(fake.folder) as store:
        assert {one.node: one.done for one in bringups.actions(store)} == {
            "n1": True, "n2": False} and made == ["n1"]


def under_way(fake: Fake) -> bool:
    """Whether an operation is in the store."""
    with opened(fake.folder) as store:
        return bool(bringups.actions(store))


def thousands(fake: Fake, number: int) -> BringupOutcome:
    """So many machines through steps made, waited for and checked together; the slowest takes 4,860 s."""
    done: dict[str, set[str]] = {}

    def wants(*keys: str) -> Callable[[Machine], Observation]:
        def observe(machine: Machine) -> Observation:
            missing = next((key for key in keys if key not in done.get(machine.name, ())), None)
            return SO if missing is None else not_so(operation(missing, once=True))
        return observe

    def make(machine: Machine, what: Operation) -> OperationResult:
        done.setdefault(machine.name, set()).add(what.key)
        return OperationResult(True, "accepted")

    def takes(seconds: float) -> Callable[[Machine], Observation]:
        return lambda machine: SO if machine.now - machine.began >= seconds else Observation(
            StepState.WAIT, "on its way", again_s=60.0)

    def parts(machine: Machine) -> Observation:
        return trouble("no GPU 3") if machine.name.endswith("3") else SO
    executors = (Acts(step("bmc")), Acts(step("credentials")), Acts(step("hardware"), parts),
                 Acts(step("bios"), wants("write", "off", "on"), make),
                 Acts(step("boot", domain_at_once=4), wants("pxe"), make),
                 Acts(step("os", in_parallel=1000), takes(1200.0)), Acts(step("ssh"), takes(60.0)),
                 Acts(step("base"), wants("time", "limits"), make), Acts(step("agent"), wants("agent"), make),
                 Acts(step("checks", together=True, gather_s=120.0)),
                 Acts(step("kernel", together=True, gather_s=60.0)),
                 Acts(step("burnin", 7200.0, together=True, gather_s=300.0, in_parallel=1000), takes(3600.0)),
                 Acts(step("certificate")), Acts(step("service"), wants("service"), make))
    return fake.run([node(f"n{at:04d}", f"pdu{at // 8}") for at in range(number)], *executors)


def test_many_machines_are_through_when_the_slowest_can_be(fake: Fake) -> None:
    outcome = thousands(fake, 100)
    assert (len(outcome.done), len(outcome.trouble), fake.now) == (90, 10, 5860.0)


@pytest.mark.slow
def test_a_thousand_machines_cost_a_head_seconds(fake: Fake) -> None:
    began = time.process_time()
    outcome = thousands(fake, 1000)
    assert (len(outcome.done), len(outcome.trouble), fake.now) == (
        900, 100, 5860.0) and time.process_time() - began < 30
