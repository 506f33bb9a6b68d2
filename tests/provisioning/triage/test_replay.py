"""A policy replayed over what it did does the same; another does what was counted by hand."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import Status
from healthcheck.replay.compare import compare
from healthcheck.replay.record import read
from healthcheck.replay.run import SimulatedRun, run
from healthcheck.store import rmas, silences
from healthcheck.store.file import Store, opened
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.store.verdicts import close_breaker
from healthcheck.triage.gather import gather, window
from healthcheck.triage.plan import make
from healthcheck.triage.policy import TriagePolicy
from provisioning.actions.cordon import cordon, uncordon
from provisioning.triage import apply as doing
from tests.command import muster
from tests.provisioning.triage.test_stateful import policy
from tests.provisioning.triage.triageworld import HOUR, NODES, RULES, Machine, Memory
from tests.testbed.memory import in_memory
from tests.tries import tries

BEGIN = 1_800_000_000.0
EVERY = 600.0
Did = tuple[str, float, float | None]


class World:
    """A fleet, swept and then triaged, as `muster check --store && muster triage --apply` does."""

    def __init__(self, store: Store) -> None:
        self.store, self.back, self.now = store, Memory(), BEGIN
        self.nodes = {name: Machine(name) for name in NODES}

    def round(self, events: list[tuple[str, str]], *, bringup: bool = True, hours: float = 0.0) -> None:
        """What happens, and then a sweep and a triage."""
        for what, node in events:
            self.now += 1
            self.happens(what, self.nodes[node])
        self.now += EVERY + hours * HOUR
        reports = [one.report(list(RULES)) for one in self.nodes.values()]
        record(self.store,
               SweepRecord(self.now, self.now + 5, False, "test", "digest", ("bringup",) if bringup else ()),
               reports, {one.name: one.readings() for one in self.nodes.values() if one.reached})
        self.now += 5
        doing.settle(self.store, self.back, "triage (t)", self.clock)
        quiet = silences.active(self.store, self.now)
        nodes = {name: one.node for name, one in self.nodes.items()}
        seen = doing.shown(self.store, self.back, nodes)
        fleet = gather(self.store, nodes.values(), policy(), self.now, lost=doing.lost(seen, self.back.name),
                       others=doing.others(seen),
                       silenced=lambda problem: silences.silenced(problem, quiet, self.now) is not None)
        doing.apply(self.store, self.back, make(fleet, policy()), "triage (t)", self.clock, lambda _: None)

    def clock(self) -> float:
        return self.now

    def happens(self, what: str, one: Machine) -> None:
        """One thing, to one node."""
        if what in RULES:
            one.truth[what] = Status.FAIL
        elif what.startswith("unread "):
            one.truth[what[7:]] = Status.UNKNOWN
        elif what in ("heals", "boots", "is exchanged"):
            one.truth, one.reached = dict.fromkeys(RULES, Status.PASS), True
            one.boot += what != "heals"
            one.board += what == "is exchanged"
        elif what == "is cut off":
            one.reached = False
        elif what == "is silenced":
            silences.silence(
                self.store, [one.name], "kernel-xid", "known", "op", self.now, self.now + 5 * HOUR)
        elif what == "is given back":
            uncordon(self.store, self.back, [one.name], "I know better", "op", self.clock)
        elif what == "is resumed":
            self.back.clear(one.name)
        elif what == "is cordoned":
            cordon(self.store, self.back, [one.name], "mine", "op", self.clock)
        elif what == "breaker":
            with self.store.writing() as db:
                close_breaker(db, self.now, "op", "looked")
        elif one.away:
            (back,) = [rma for rma in rmas.rmas(self.store, [one.name]) if rma.id == one.away]
            rmas.settle(
                self.store, rmas.give_back(self.store, back, "same", "op", self.now), "done", self.now)
            one.away = 0
        else:
            rma, line = rmas.begin(
                self.store, one.name, "0000:1b:00.0", "gpu", "", "worn", "op", "", "", self.now)
            rmas.settle(self.store, line, "done", self.now)
            one.away = rma.id

    def replayed(self, with_policy: TriagePolicy, since: float = BEGIN) -> SimulatedRun:
        """By such a policy, until now."""
        nodes = [one.node for one in self.nodes.values()]
        found = read(self.store, with_policy.requalify.profile, since - window(with_policy))
        return run(found, nodes, with_policy, since, self.now)

    def did(self) -> list[Did]:
        """What triage did in truth."""
        return [tuple(row) for row in self.store.rows(
            "SELECT node, began, ended FROM cordon WHERE verdict IS NOT NULL ORDER BY began, node")]


def told(found: SimulatedRun) -> list[Did]:
    return [(hold.node, hold.began, hold.ended) for hold in found.holds]


EVENTS = st.tuples(
    st.sampled_from([*RULES, "kernel-xid", "gpu-count", "port-state", "unread kernel-xid", "heals", "heals",
                     "boots", "boots", "is exchanged", "is cut off", "is silenced", "is given back",
                     "is resumed", "is cordoned", "breaker", "rma"]), st.sampled_from(NODES))
ROUNDS = st.lists(
    st.tuples(st.lists(EVENTS, max_size=3), st.booleans(), st.sampled_from([0, 0, 0, 0.5, 3, 13])),
    max_size=25)


@settings(max_examples=tries(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(ROUNDS)
def test_the_policy_that_was_in_force_does_again_what_it_did(
    rounds: list[tuple[list[tuple[str, str]], bool, float]],
) -> None:
    with in_memory() as folder, opened(Path(folder), make=True) as store:
        world = World(store)
        for events, bringup, hours in rounds:
            world.round(events, bringup=bringup, hours=hours)
        assert told(world.replayed(policy())) == world.did()


def test_replaying_nothing_is_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        assert World(store).replayed(policy()) == SimulatedRun((), (), 0, 0)


def test_a_policy_that_waits_isolates_later_and_the_hours_say_so(tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        world = World(store)
        for events in ([], [("kernel-xid", "n1")], [], [], [], [("heals", "n1")], [], [], []):
            world.round(events)
        ((node, began, ended),) = world.did()
        # Sweeps every ten minutes, and a few seconds for events and triage: it failed at the second, and two
        # clean looks followed the sixth.
        slower = replace(policy(), kinds=tuple(replace(kind, confirm=4) for kind in policy().kinds))
        (hold,) = world.replayed(slower).holds
        assert ended is not None
        assert (hold.node, hold.began - began, hold.ended) == (node, 3 * (EVERY + 5), ended)
        never = replace(
            policy(), kinds=tuple(replace(kind, isolation=Isolation.NONE) for kind in policy().kinds))
        assert world.replayed(never).holds == ()
        record_ = read(store, "bringup", 0)
        found = compare(record_, world.replayed(slower), NODES, BEGIN, world.now)
        assert [(pair.node, pair.same) for pair in found.pairs] == [("n1", False)]
        assert found.was.node_hours - found.would.node_hours == pytest.approx(3 * (EVERY + 5) / HOUR)
        assert (found.would.isolations, found.would.returns, found.was.isolations, found.was.returns) == (
            1, 1, 1, 1)
        same = compare(record_, world.replayed(policy()), NODES, BEGIN, world.now)
        assert [pair.same for pair in same.pairs] == [
            True] and same.would.node_hours == pytest.approx(same.was.node_hours)


def test_a_trial_lays_what_people_did_beside_what_triage_would_have_done(tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        world = World(store)
        nodes = [one.node for one in world.nodes.values()]

        def sweep(*events: tuple[str, str]) -> None:
            """No one has switched triage on."""
            for what, node in events:
                world.now += 1
                world.happens(what, world.nodes[node])
            world.now += EVERY
            record(store, SweepRecord(world.now, world.now + 5, False, "test", "digest", ("bringup",)),
                   [one.report(list(RULES)) for one in world.nodes.values()],
                   {one.name: one.readings() for one in world.nodes.values()})
            world.now += 5

        sweep()
        # n3: nothing that triage could see
        sweep(("kernel-xid", "n1"), ("is cordoned", "n3"))
        sweep(("gpu-count", "n5"))
        sweep(("is cordoned", "n1"))                                            # later than triage would have
        # before any sweep could show it
        sweep(("kernel-xid", "n7"), ("is cordoned", "n7"))
        for _ in range(3):
            sweep()
        found = compare(
            read(store, "bringup", 0), run(read(store, "bringup", 0), nodes, policy(), BEGIN, world.now),
            NODES, BEGIN, world.now)
        assert {
            one.hold.node: one.agreed for one in found.people.theirs} == {"n1": True, "n3": False, "n7": True}
        earlier = {one.hold.node: one.earlier for one in found.people.theirs}
        assert (
            earlier["n3"], earlier["n7"]) == (None, None) and earlier["n1"] == pytest.approx(EVERY, rel=0.05)
        assert found.people.triage_alone == 1 and found.was.isolations == 0 and found.would.isolations == 2
        assert (found.people.people_hours > 1 and found.people.triage_hours > 0.5
                and found.people.both_hours > 0.5)
        total = sum((hold.ended or world.now) - hold.began
                    for hold in run(read(store, "bringup", 0), nodes, policy(), BEGIN, world.now).holds)
        assert found.people.both_hours + found.people.triage_hours == pytest.approx(total / HOUR)


def test_it_is_printed_as_text_and_json_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text("version: 1\nnodes:\n  n[1-8]: {}\n")
    with opened(tmp_path / "state", make=True) as store:
        world = World(store)
        world.now = time.time() - 7 * HOUR
        for events in ([], [("kernel-xid", "n1")], [], [("heals", "n1")], [], [], []):
            world.round(events)
        before = list(store._connection.iterdump())
        findings_of = muster("triage", "--replay", "--since", "1d", home=tmp_path)
        assert (findings_of.returncode, findings_of.stderr) == (0, "")
        assert "no difference" in findings_of.stdout and "equal: 1 isolation of n1" in findings_of.stdout
        (tmp_path / "draft.yaml").write_text("faults:\n- {id: gpu-error, isolation: none, repair: watch}\n")
        told_ = json.loads(
            muster("triage", "--replay", "--policy", "draft.yaml", "--format", "json", home=tmp_path).stdout)
        assert (told_["schema"], told_["would"]["isolations"], told_["was"]["isolations"]) == (
            "muster.replay/1", 0, 1)
        assert [(each["node"], each["would"]) for each in told_["differences"]] == [("n1", None)]
        assert list(store._connection.iterdump()) == before
    for words in (("--replay", "--apply"), ("--replay", "--at-most", "2"), ("--since", "1d"),
                  ("--policy", "draft.yaml")):
        wrong = muster("triage", *words, home=tmp_path)
        assert wrong.returncode == 2 and "--replay" in wrong.stderr and "Traceback" not in wrong.stderr
