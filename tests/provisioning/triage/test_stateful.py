"""Triage among sweeps, people, kills and failures: nothing touched, returned or forgotten wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import Status
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store import rmas, silences
from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import Store, opened
from healthcheck.store.ledger import lines
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.store.verdicts import close_breaker
from healthcheck.triage.gather import gather
from healthcheck.triage.plan import TriagePlan, make
from healthcheck.triage.policy import BreakerPolicy, SharedUnknown, TriagePolicy
from healthcheck.triage.policyload import load_policy
from inventory.model import LifecycleState
from provisioning.actions.base import ActionError, Holder, number_of
from provisioning.actions.cordon import cordon, uncordon
from provisioning.triage import apply as doing
from tests.provisioning.triage.triageworld import (
    HOUR,
    NODES,
    RACKS,
    RESERVED,
    RULES,
    Death,
    Flaky,
    Machine,
    Memory,
    Trouble,
    back_end,
    serious,
)
from tests.testbed.memory import in_memory

NAMES = st.sampled_from(NODES)
NUMBER, PERCENT, HOURS, RESERVE, IN_RACK, CLOSES = 3, 50, 1.0, 1, 2, 6.0
FAR = 10**6


@cache
def policy() -> TriagePolicy:
    """The packaged kinds of fault, with numbers that a fleet of eight can reach."""
    folders = [packaged()]
    return replace(load_policy(folders, load_ruleset(folders)), wedged=2, ours=SharedUnknown(30, 3),
                   breaker=BreakerPolicy(number=NUMBER, percent=PERCENT, hours=HOURS,
                                         domains={"rack": IN_RACK}, reserve=RESERVE, close_hours=CLOSES))


class Triage(RuleBasedStateMachine):
    """`order` counts what happens, as clocks may go back; `isolated` are triage's done isolations."""

    kind = "memory"

    @initialize()
    def begin(self) -> None:
        self.folder = in_memory()
        self.path = Path(self.folder.name)
        self.nodes = {name: Machine(name) for name in NODES}
        self.now, self.order = 1_800_000_000.0, 0
        self.times: set[float] = set()
        self.isolated: list[tuple[str, float, int]] = []
        self.closed = 0             # when, in the order of things, a person last closed the breaker
        self.open = False
        self.hidden: dict[str, set[str]] = {name: set() for name in NODES}
        self.deeds: list[tuple[str, str, int]] = []
        # lines of the ledger whose truth no one can find out: a person was there before anybody looked
        self.doubtful: set[int] = set()
        self.planned: TriagePlan | None = None
        self.back = Flaky(back_end(self.kind, self.path), self.done)
        self.theirs: dict[str, str] = {}
        with opened(self.path, make=True):
            pass

    # ---- what the world does

    @rule(node=NAMES, what=st.sampled_from(sorted(RULES)),
          status=st.sampled_from([Status.FAIL, Status.FAIL, Status.UNKNOWN]))
    def something_breaks(self, node: str, what: str, status: Status) -> None:
        self.nodes[node].truth[what] = status

    @rule(what=st.sampled_from(["kernel-xid", "port-state"]), many=st.integers(2, 6))
    def a_tool_stops_answering_on_many_nodes(self, what: str, many: int) -> None:
        for node in NODES[:many]:
            self.nodes[node].truth[what] = Status.UNKNOWN

    @rule(node=NAMES, reached=st.booleans())
    def a_node_is_cut_off_or_comes_back(self, node: str, reached: bool) -> None:
        self.nodes[node].reached = reached

    @rule(nodes=st.lists(NAMES, min_size=1, unique=True), how=st.sampled_from(["heals", "boot", "swap"]))
    def nodes_are_mended(self, nodes: list[str], how: str) -> None:
        for node in nodes:
            one = self.nodes[node]
            one.truth, one.reached = dict.fromkeys(RULES, Status.PASS), True
            one.boot += how != "heals"
            one.board += how == "swap"

    @rule(hours=st.sampled_from([0.01, 0.3, 1.1, 2.0, 7.0, 13.0, 30.0, -0.4, -26.0]))
    def time_goes_on_or_the_clock_jumps(self, hours: float) -> None:
        self.now += hours * HOUR

    # ---- what muster does

    @rule(some=st.just(list(NODES)) | st.lists(NAMES, min_size=1, unique=True), bringup=st.booleans(),
          times=st.integers(1, 3),
          only=st.just(sorted(RULES)) | st.lists(st.sampled_from(sorted(RULES)), min_size=1, unique=True))
    def sweeps(self, some: list[str], bringup: bool, times: int, only: list[str]) -> None:
        for _ in range(times):
            self.tick()
            chosen = [self.nodes[node] for node in some]
            with opened(self.path) as store:
                record(store,
                       SweepRecord(self.now, self.now + 5, False, "test", "digest",
                                   ("bringup",) if bringup else (), len(only) < len(RULES)),
                       [one.report(only) for one in chosen],
                       {one.name: one.readings() for one in chosen if one.reached})
            for one in chosen:
                one.note(self.order, self.now, only, bringup=bringup)

    @rule(nodes=st.lists(NAMES, min_size=1, max_size=3, unique=True), what=st.sampled_from(sorted(RULES)),
          again=st.booleans())
    def nodes_break_and_triage_acts(self, nodes: list[str], what: str, again: bool) -> None:
        for node in nodes:
            self.nodes[node].truth[what] = Status.FAIL
        self.sweeps(list(NODES), bringup=False, times=2, only=sorted(RULES))
        self.triage(again)

    @rule(nodes=st.lists(NAMES, min_size=1, unique=True), how=st.sampled_from(["heals", "boot", "swap"]),
          times=st.integers(1, 2))
    def nodes_are_mended_and_looked_at(self, nodes: list[str], how: str, times: int) -> None:
        self.nodes_are_mended(nodes, how)
        self.sweeps(nodes, bringup=True, times=times, only=sorted(RULES))

    @rule(nodes=st.lists(NAMES, min_size=1, max_size=3, unique=True), what=st.sampled_from(sorted(RULES)),
          how=st.sampled_from(["heals", "swap", ""]), status=st.sampled_from([Status.FAIL, Status.UNKNOWN]))
    def nodes_look_well_and_relapse(self, nodes: list[str], what: str, how: str, status: Status) -> None:
        self.nodes_are_mended_and_looked_at(nodes, "heals", 2)
        for node in nodes:
            self.nodes[node].truth[what] = status
        self.sweeps(nodes, bringup=False, times=1, only=sorted(RULES))
        if how:
            self.nodes_are_mended(nodes, how)
            self.sweeps(nodes, bringup=False, times=1, only=sorted(RULES))
        self.triage(again=False)

    @rule(by_muster=st.booleans(), most=st.integers(1, 3))
    def a_person_gives_back_what_triage_holds(self, by_muster: bool, most: int) -> None:
        held = [node for node, held in self.back.inner.held(NODES).items() if held.number is not None][:most]
        if by_muster and held:
            self.a_person_uses_muster(held, give_back=True)
        else:
            for node in held:
                self.a_person_acts_in_the_back_end(node, "resume")
        self.triage(again=True)

    @rule(again=st.booleans())
    def triage(self, again: bool) -> None:
        with self.acting() as store:
            self.apply(store)
            self.books_are_right(store)
            if again:
                asked = len(self.back.asked)
                plan = self.apply(store)
                assert not plan.steps and len(self.back.asked) == asked, plan.steps

    @rule(kind=st.sampled_from(["down", "denies", "lies", "dies-before", "dies-after"]),
          after=st.integers(0, 12))
    def triage_among_troubles(self, kind: str, after: int) -> None:
        with self.acting(Trouble(kind, after if kind == "down" else after % 3)) as store:
            self.apply(store)

    @rule(lives=st.integers(1, 12))
    def triage_is_killed(self, lives: int) -> None:
        with self.acting() as store:
            self.apply(store, lives)

    @rule(nodes=st.lists(NAMES, min_size=1, max_size=3, unique=True), give_back=st.booleans())
    def a_person_uses_muster(self, nodes: list[str], give_back: bool) -> None:
        with self.acting() as store:
            if give_back:
                self.remember(nodes)
                uncordon(store, self.back, nodes, "I know better", "a person", self.clock())
            else:
                cordon(store, self.back, nodes, "mine", "a person", self.clock())

    @rule(reason=st.just("the feed is back"))
    def a_person_closes_the_breaker(self, reason: str) -> None:
        self.tick()
        with opened(self.path) as store, store.writing() as db:
            if close_breaker(db, self.now, "a person", reason):
                self.closed, self.open = self.order, False
        self.tick()

    # ---- what people do

    @rule(node=NAMES, what=st.sampled_from(["drain", "resume"]))
    def a_person_acts_in_the_back_end(self, node: str, what: str) -> None:
        self.unknowable(node)
        self.remember([node])
        if what == "drain":
            self.theirs[node] = "mine, hands off"
            self.back.inner.write(node, self.theirs[node])
        else:
            self.theirs.pop(node, None)
            self.back.inner.clear(node)

    @rule(node=NAMES,
          state=st.sampled_from([LifecycleState.SERVICE, LifecycleState.SERVICE, LifecycleState.MAINTENANCE,
                                 LifecycleState.BRINGUP]))
    def a_person_changes_the_lifecycle(self, node: str, state: LifecycleState) -> None:
        self.nodes[node].state = state

    @rule(node=NAMES, what=st.sampled_from(["kernel-xid", "fleet-driver"]))
    def a_person_silences_a_rule(self, node: str, what: str) -> None:
        self.hidden[node].add(what)
        with opened(self.path) as store:
            silences.silence(
                store, [node], what, "known", "a person", self.now - 1000 * HOUR, self.now + 1000 * HOUR)

    @rule(node=NAMES)
    def a_part_goes_to_the_vendor_or_comes_back(self, node: str) -> None:
        self.tick()
        one = self.nodes[node]
        with opened(self.path) as store:
            if one.away:
                (back,) = [rma for rma in rmas.rmas(store, [node]) if rma.id == one.away]
                rmas.settle(
                    store, rmas.give_back(store, back, "same", "a person", self.now), "done", self.now)
                one.away, one.mended = 0, self.order
            else:
                rma, line = rmas.begin(
                    store, node, "0000:1b:00.0", "gpu", "", "worn", "a person", "", "", self.now)
                rmas.settle(store, line, "done", self.now)
                one.away, one.settled = rma.id, None

    # ---- how

    def tick(self) -> None:
        """The next moment; no two sweeps begin at the same time."""
        self.order += 1
        self.now += 1
        while self.now in self.times:
            self.now += 1
        self.times.add(self.now)
        # What a clock that was ahead isolated later than now has happened by now.
        self.isolated = [(node, min(time, self.now), order) for node, time, order in self.isolated]

    def clock(self, lives: int = FAR) -> Callable[[], float]:
        left = lives

        def time() -> float:
            nonlocal left
            left -= 1
            if not left:
                raise Death
            return self.now
        return time

    @contextmanager
    def acting(self, trouble: Trouble | None = None) -> Iterator[Store]:
        """A process that may be the last."""
        self.tick()
        self.planned = None
        self.back.trouble = trouble or Trouble()
        try:
            with opened(self.path) as store, suppress(Death, ActionError):
                self.store = store
                yield store
        finally:
            self.back.trouble = Trouble()

    def apply(self, store: Store, lives: int = FAR) -> TriagePlan:
        """`muster triage --apply` as the command does it."""
        clock = self.clock(lives)
        doing.settle(store, self.back, "triage", clock)
        nodes = {name: one.node for name, one in self.nodes.items()}
        quiet = silences.active(store, self.now)
        seen = doing.shown(store, self.back, nodes)
        fleet = gather(store, nodes.values(), policy(), self.now, lost=doing.lost(seen, self.back.name),
                       others=doing.others(seen),
                       silenced=lambda problem: silences.silenced(problem, quiet, self.now) is not None)
        self.planned = plan = make(fleet, policy())
        steps = [(step.act.value, step.node) for step in plan.steps]
        asked = len(self.back.asked)
        if plan.closes:
            self.open = False
        try:
            done = doing.apply(store, self.back, plan, "triage", clock, lambda _: None)
        finally:
            deeds = self.back.asked[asked:]
            assert deeds == steps[:len(deeds)], (deeds, steps)
        # a run that dies leaves it as it was: the next one takes what room is left
        self.open = self.open or plan.is_open
        for one in self.nodes.values():
            one.told, one.known_away = one.told if one.away else self.order, one.away
        assert self.back.trouble.kind or deeds == steps, (deeds, steps, done)
        assert self.back.trouble.kind or not any(one.failed for one in done), done
        return plan

    def done(self, act: str, node: str, reason: str) -> None:
        """An operation was just done in the back end."""
        self.order += 1
        number = number_of(reason)
        assert number is not None
        self.deeds.append((act, node, number))
        one = self.nodes[node]
        (verdict, line), = self.store.rows("SELECT verdict, line FROM cordon WHERE id = ?", number)
        begun = self.store.rows("SELECT id FROM ledger WHERE node = ? AND outcome IS NULL AND action = ?",
                                node, "cordon" if act == "isolate" else "uncordon")
        assert [line] == [
            row[0] for row in begun] if act == "isolate" else len(begun) == 1, "an operation without its line"
        if self.planned is None:
            return
        assert one.serving, f"{act} of {node}, which is {one.state.value}"
        assert verdict is not None, f"a person's muster#{number} was touched"
        if act == "isolate":
            self.may_be_isolated(one)
            one.taken = self.order
            self.isolated.append((node, self.now, self.order))
        else:
            self.may_be_returned(one)

    def shown(self, one: Machine) -> dict[str, Status]:
        return {what: status for what, status in one.seen.items() if what not in self.hidden[one.name]}

    def may_be_returned(self, one: Machine) -> None:
        assert not one.away, f"{one.name} is away"
        newest = one.looks[-2:]
        assert len(newest) == 2 and self.now - newest[-1].time <= 24 * HOUR, newest
        # whatever a person has silenced: no release rests on that
        assert all(not look.against and look.time <= self.now for look in newest), newest
        bad = max((order for order, _ in one.bad.values()), default=0)
        assert newest[0].order > max(
            bad, one.taken, one.mended) and newest[0].order >= one.booted[1], (newest, bad, one)

    def may_be_isolated(self, one: Machine) -> None:
        wrong = {
            what for what, status in self.shown(one).items() if status is not Status.PASS and serious(what)}
        lately = one.lately(self.now, 37) - self.hidden[one.name]
        assert (one.away or ((wrong or lately) and one.lately(
            self.now, 24) - self.hidden[one.name])), f"nothing is wrong with {one.name}"
        recent = {node for node, time, order in self.isolated
                  if time > self.now - HOURS * HOUR and order > self.closed}
        limit = min(
            NUMBER,
            max(policy().breaker.least, PERCENT * sum(each.serving for each in self.nodes.values()) // 100))
        reserved = bool((wrong | lately) & set(RESERVED))
        assert reserved or not self.open, "the breaker is open"
        if one.name not in recent:
            assert len(recent) < (limit if reserved else max(1, limit - RESERVE)), (recent, limit)
            assert sum(RACKS[node] == RACKS[one.name] for node in recent) < IN_RACK, recent
        if not (one.failing & wrong or one.away or lately - wrong):
            assert any(not self.wide(what) for what in wrong), f"{one.name} is isolated for an incident"
        assert one.settled is None or one.settled != one.away, f"a person gave {one.name} back"

    def wide(self, what: str) -> bool:
        serving = [each for each in self.nodes.values() if each.serving]
        many = sum(self.shown(each).get(what) is Status.UNKNOWN for each in serving)
        return many >= 3 and many * 100 > 30 * len(serving)

    def remember(self, nodes: list[str]) -> None:
        """Whoever takes our cordon from what has one clear fault, told by triage, has seen it."""
        with opened(self.path) as store:
            ours = {
                one.node: one for one in open_cordons(store)
                if one.verdict is not None and one.state.value == "held"}
        for node in nodes:
            one = self.nodes[node]
            held = self.back.inner.held([node])[node]
            alone = one.seen.get("kernel-xid") is Status.FAIL and one.lately(
                self.now, 37) == {"kernel-xid"} == one.failing and one.changed < one.told
            if node in ours and held.number == ours[node].id:
                # That a part of it is away, too, is another reason, and no one has given it back against one
                # that was not told.
                told = not one.away or one.known_away == one.away
                one.settled = one.away if alone and told and "gpu-error" in held.reason and not self.hidden[
                    node] else None

    def unknowable(self, node: str) -> None:
        with opened(self.path) as store:
            self.doubtful |= {
                row[0] for row in store.rows("SELECT id FROM ledger WHERE outcome IS NULL AND node = ?", node)
            }

    def books_are_right(self, store: Store) -> None:
        """After a run that nothing disturbed."""
        assert not store.rows("SELECT 1 FROM ledger WHERE outcome IS NULL")
        held = {name: self.back.inner.held([name])[name].number for name in NODES}
        known = {one.node: one.id for one in open_cordons(store)}
        assert {node: number for node, number in held.items() if number is not None} == known
        isolations = {number for act, _, number in self.deeds if act == "isolate"}
        for number, line, outcome in store.rows(
            "SELECT cordon.id, line, outcome FROM cordon JOIN ledger ON ledger.id = line"):
            assert line in self.doubtful or (
                number in isolations) == outcome.startswith("cordoned"), (number, outcome)
        for node in NODES:
            told = store.rows("SELECT id, outcome FROM ledger WHERE node = ? AND action = 'uncordon'", node)
            doubtful = sum(row[0] in self.doubtful for row in told)
            sure = sum(row[1].startswith("released") for row in told if row[0] not in self.doubtful)
            assert sure <= sum(
                (act, name) == ("release", node) for act, name, _ in self.deeds) <= sure + doubtful
        assert self.planned is not None
        withheld = {one.node for one in self.planned.withheld}
        for one in self.nodes.values():
            fresh = self.now - one.bad.get(("kernel-xid", Status.FAIL), (0, 0.0))[1] < 20 * HOUR
            if one.serving and self.shown(
                one).get("kernel-xid") is Status.FAIL and fresh and one.name not in withheld:
                assert self.back.inner.held(
                    [one.name])[one.name].holder is not Holder.NO_ONE, f"{one.name} takes jobs"

    @invariant()
    def what_a_person_holds_is_as_they_left_it(self) -> None:
        if hasattr(self, "theirs"):
            for node, reason in self.theirs.items():
                assert self.back.inner.held([node])[node].reason == reason

    @invariant()
    def a_node_has_at_most_one_open_cordon_and_every_mark_is_of_one(self) -> None:
        if hasattr(self, "path"):
            with opened(self.path) as store:
                known = [(one.node, one.id) for one in open_cordons(store)]
            assert len(known) == len({node for node, _ in known})
            shown = {
                (node, held.number) for node, held in self.back.inner.held(NODES).items()
                if held.number is not None}
            assert shown <= set(known)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


def test_what_people_ended_is_written_down_in_one_step_or_not_at_all(tmp_path: Path) -> None:
    back = Memory()
    with opened(tmp_path, make=True) as store:
        (done,) = cordon(store, back, ["n1"], "why", "triage", lambda: 1.0)
        assert done.held
        back.write("n1", "mine, hands off")
        times = iter([2.0])
        with suppress(StopIteration):
            doing.resolve_lost(store, back, "triage", lambda: next(times))
        assert open_cordons(store) == []
        assert [(line.action, line.outcome) for line in lines(store)] == [
            ("cordon", "cordoned"), ("reconcile", "others hold it now: mine, hands off")]


@pytest.fixture
def story() -> Iterator[Triage]:
    """The same world, for one way of things."""
    world = Triage()
    world.begin()
    yield world
    world.teardown()


def held(world: Triage, node: str) -> bool:
    return world.back.inner.held([node])[node].number is not None


def test_a_fault_that_was_seen_before_the_clock_was_wrong_for_a_while_is_acted_on(story: Triage) -> None:
    story.nodes_are_mended_and_looked_at(["n1"], "heals", 2)
    story.something_breaks("n1", "kernel-xid", Status.FAIL)
    story.sweeps(list(NODES), bringup=False, times=1, only=sorted(RULES))
    story.time_goes_on_or_the_clock_jumps(-26.0)
    story.something_breaks("n1", "kernel-xid", Status.UNKNOWN)
    story.sweeps(list(NODES), bringup=False, times=1, only=sorted(RULES))
    story.time_goes_on_or_the_clock_jumps(30.0)
    story.triage(again=True)
    assert held(story, "n1")


@pytest.mark.parametrize("another", [False, True])
def test_what_a_person_gives_back_once_an_rma_is_over_is_taken_only_for_another_fault(
    story: Triage, another: bool,
) -> None:
    story.nodes_break_and_triage_acts(["n6"], "kernel-xid", again=True)
    story.a_part_goes_to_the_vendor_or_comes_back("n6")
    story.triage(again=True)
    story.a_part_goes_to_the_vendor_or_comes_back("n6")
    story.a_person_uses_muster(["n6"], give_back=True)
    if another:
        story.nodes_break_and_triage_acts(["n6"], "gpu-count", again=True)
    else:
        story.triage(again=True)
        story.sweeps(list(NODES), bringup=False, times=1, only=sorted(RULES))
        story.triage(again=True)
    assert held(story, "n6") == another


def test_a_fault_that_triage_has_not_told_of_is_not_what_a_person_gave_back(story: Triage) -> None:
    story.nodes_break_and_triage_acts(["n6"], "kernel-xid", again=True)
    story.nodes_are_mended_and_looked_at(["n6"], "heals", 1)
    story.triage(again=True)
    story.something_breaks("n6", "kernel-xid", Status.FAIL)
    story.sweeps(list(NODES), bringup=False, times=1, only=sorted(RULES))
    story.a_person_uses_muster(["n6"], give_back=True)
    story.triage(again=True)
    assert held(story, "n6")


@pytest.mark.parametrize("told", [False, True])
def test_a_node_whose_part_is_away_stays_as_a_person_gave_it_back_only_where_triage_had_told_of_it(
    story: Triage, told: bool,
) -> None:
    story.nodes_break_and_triage_acts(["n6"], "kernel-xid", again=True)
    story.a_part_goes_to_the_vendor_or_comes_back("n6")
    if told:
        story.triage(again=True)
    story.a_person_gives_back_what_triage_holds(by_muster=False, most=1)
    assert held(story, "n6") != told


class TriageByFile(Triage):
    """The same through a file of hosts."""

    kind = "file"


def walk(machine: type[Triage], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None,
                          suppress_health_check=list(HealthCheck)))


# A mark of the function itself would come before those of its parameters.
SHORT, LONG = pytest.mark.timeout(300), [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.parametrize(("machine", "examples", "steps"), [
    pytest.param(Triage, 6, 40, marks=SHORT), pytest.param(TriageByFile, 3, 40, marks=SHORT),
    pytest.param(Triage, 2000, 60, marks=LONG), pytest.param(TriageByFile, 2000, 60, marks=LONG)])
def test_triage_among_all_that_happens(machine: type[Triage], examples: int, steps: int) -> None:
    walk(machine, examples, steps)
