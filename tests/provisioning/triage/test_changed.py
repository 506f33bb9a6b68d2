"""A change of the rules, a SKU, the policy or muster between sweeps: what is said of it, what came only with
it, and how that is given back, as an operator does these things in whatever order."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import healthcheck
from healthcheck.accounting.read import read
from healthcheck.accounting.summary import summary
from healthcheck.config.rulesfolder import packaged
from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import Finding, NodeReport, Origin, Result, Severity, Status, state_of
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from healthcheck.store.file import opened
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.store.verdicts import evidence
from healthcheck.store.versions import OF_NODES, note
from healthcheck.triage.changed import lines, words
from healthcheck.triage.decidedby import decided_by
from healthcheck.triage.gather import every_change, gather
from healthcheck.triage.judgedby import judged_by
from healthcheck.triage.plan import TriagePlan, make
from healthcheck.triage.policy import BreakerPolicy
from healthcheck.triage.policyload import load_policy
from healthcheck.triage.undo import held_for, undo
from inventory.model import Lifecycle, LifecycleState, Node
from inventory.times import minute
from provisioning.triage import apply as doing
from tests.command import muster
from tests.packagedrules import RULES
from tests.provisioning.triage.triageworld import Memory
from tests.testbed.olderstore import use_version
from tests.tries import tries

SCHEMAS = Path(healthcheck.__file__).parent / "schemas"
RULE = {rule.id: rule for rule in RULES.rules}
POLICY = load_policy([packaged()], RULES)
# A site's files for the commands: a limit, and a stricter one.
FILE, STRICTER_FILE = (f"- {{id: gpu-ecc-uncorrected, with: {{allow: {allow}}}}}\n" for allow in (3, 1))
# The rules of this world, and whether a reading fails one with this limit.
LIMITS = {"gpu-ecc-uncorrected": ("ecc", "allow", lambda value, limit: value > limit),
          "docker-disk": ("disk", "at_least_gib", lambda value, limit: value < limit),
          "site-ecc": ("ecc", "allow", lambda value, limit: value > limit)}
READS = {"ecc": 0, "disk": 40}


class World:
    """Some nodes, a site's rules, and a head that sweeps and decides."""

    def __init__(self, folder: Path, nodes: int = 40) -> None:
        self.folder, self.site = folder / "state", folder / "site"
        self.nodes = {f"n{at:02}": Node(f"n{at:02}", rack=f"r{at // 4}") for at in range(nodes)}
        self.read = {name: dict(READS) for name in self.nodes}
        self.unread: set[str] = set()
        self.unjudged: set[str] = set()
        self.machine: dict[str, str] = {}       # which machine has a name, where that can be read
        self.now = 1_800_000_000.0
        self.back = Memory()
        self.muster = "0.1.0"
        self.ruleset: Ruleset = RULES
        self.put()

    def put(self, *, allow: int = 3, disk: int = 30, severe: bool = False, own: str = "",
            warned: bool = False, gpus: int = 8) -> None:
        """What a person leaves in the site's files: the limits of two rules, and whether one is critical; a
        rule of its own that is on or off; whether the policy isolates for a warning; a number of a SKU."""
        ecc, room = RULE["gpu-ecc-uncorrected"], RULE["docker-disk"]
        rules = [replace(ecc, parameters={"allow": allow}),
                 replace(room, parameters={"at_least_gib": disk},
                         severity=Severity.CRITICAL if severe else room.severity), RULE["gpu-count"]]
        if own:
            off = "disabled in site.yaml" if own == "off" else ""
            rules.append(replace(ecc, id="site-ecc", parameters={"allow": 1}, disabled=off))
        sku = replace(next(iter(RULES.skus.values())), name="ours", numbers={"gpu_count": gpus})
        self.ruleset = replace(RULES, rules=tuple(rules), skus={"ours": sku}, baselines={})
        kinds = tuple(replace(kind, isolation=Isolation.NO_NEW_JOBS) if warned
                      and kind.id == "warning" else kind
                      for kind in POLICY.kinds)
        # Room enough: what the breaker does has tests of its own.
        self.policy = replace(POLICY, kinds=kinds, breaker=BreakerPolicy(number=40, percent=100, reserve=0))

    def files(self, rules: str) -> None:
        """The same for the commands, in a file."""
        self.site.mkdir(exist_ok=True)
        (self.site / "rules.yaml").write_text(rules)
        self.ruleset = load_ruleset([packaged(), self.site])

    def sweep(self, times: int = 1, only: Collection[str] | None = None, minutes: float = 5,
              profiles: tuple[str, ...] = ()) -> None:
        for _ in range(times):
            self.now += minutes * 60
            reports = [self._report(name) for name in (only or self.nodes)]
            with opened(self.folder, make=True) as store:
                record(store,
                       SweepRecord(self.now, self.now + 1, False, "test", self.ruleset.digest, profiles,
                                   versions=judged_by(self.ruleset, self.muster), who="op"), reports,
                       {name: NodeReadings((Component("chassis", "chassis", f"C{one}", "chassis"),
                                            Component("board", "board", f"B{one}", "board")), (),
                                           frozenset({"chassis", "board"}))
                        for name, one in self.machine.items()})

    def _report(self, name: str) -> NodeReport:
        results = []
        for rule in self.ruleset.rules:
            if rule.id not in LIMITS:
                continue
            what, limit, fails = LIMITS[rule.id]
            if left := (f"disabled in {rule.origin_file}" if rule.disabled else
                        "left out by profile timer" if rule.id in self.unjudged else ""):
                results.append(Result(rule.id, rule.checked.name, Status.SKIPPED, rule.severity, (), left))
                continue
            if name in self.unread:
                results.append(Result(rule.id, rule.checked.name, Status.UNKNOWN, rule.severity,
                                      (), "it hung",
                                      Origin.NODE))
                continue
            bad = fails(self.read[name][what], rule.parameters[limit])
            found = (Finding(self.read[name][what], rule.parameters[limit], "GPU 0"),) if bad else ()
            results.append(Result(rule.id, rule.checked.name, Status.FAIL if bad else Status.PASS,
                                  rule.severity, found))
        return NodeReport(name, state_of(results), "", tuple(results))

    def triage(self, since: float | None = None) -> TriagePlan:
        """`muster triage --apply`, or with --undo-since."""
        self.now += 1
        with opened(self.folder) as store:
            with store.writing() as db:
                note(db, decided_by(self.policy), "triage (op)", self.now)
            plan = self.plan(since)
            done = doing.apply(store, self.back, plan, "triage", lambda: self.now, lambda _: None)
            assert not any(one.failed for one in done), done
        return plan

    def settles(self, sweeps: int) -> TriagePlan:
        """What triage makes of it after so many sweeps."""
        self.sweep(sweeps)
        return self.triage()

    def plan(self, since: float | None = None) -> TriagePlan:
        with opened(self.folder) as store:
            view = doing.view(store, self.back, doing.shown(store, self.back, self.nodes))
            fleet = gather(store, self.nodes.values(), self.policy, self.now, lost=view.lost,
                           others=view.others)
            plan = make(fleet, self.policy)
            if since is None:
                return plan
            changes = [one for one in every_change(store, since, self.now, self.policy)
                       if one.kind not in OF_NODES]
            return undo(fleet, self.policy, plan, changes, since, evidence(store, held_for(fleet)))

    def held(self) -> set[str]:
        return set(self.back.holds)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.sweep(2)
    made.triage()
    return made


def too_strict(world: World, *nodes: str) -> float:
    """Two nodes read what the old limit allows and the new one does not; gives the time before the change."""
    for node in nodes or ("n01", "n02"):
        world.read[node]["ecc"] = 2
    assert world.settles(2).steps == ()
    since = world.now
    world.put(allow=1)
    world.sweep()
    return since


def withheld(plan: TriagePlan) -> dict[str, str]:
    return {one.node: one.why for one in plan.withheld}


def acts(plan: TriagePlan) -> list[tuple[str, str]]:
    return sorted((one.act.value, one.node) for one in plan.steps)


# ---- what is said

def test_a_node_that_only_a_stricter_rule_takes_from_jobs_is_said_to_be_so_with_the_limits(
        world: World) -> None:
    too_strict(world)
    plan = world.triage()
    assert acts(plan) == [("isolate", "n01"), ("isolate", "n02")]
    (change,) = plan.changes
    assert (change.name, change.said["with"], change.says["with"]) == (
        "gpu-ecc-uncorrected", {"allow": 3}, {"allow": 1})
    assert all("only since rule gpu-ecc-uncorrected (allow 3 -> 1) changed at 2027-" in one.why
               for one in plan.steps)
    assert all("only since rule gpu-ecc" in words for words in world.back.holds.values())
    assert plan.only_since == {"n01": change.began, "n02": change.began}


def test_a_node_that_fails_something_else_as_well_or_failed_before_is_not_said_to_be_so(world: World) -> None:
    world.read["n03"]["ecc"] = 9
    world.settles(2)
    world.put(allow=1)
    world.read["n03"]["ecc"] = 10
    world.sweep(2)
    plan = world.plan()
    assert plan.only_since == {} and "only since" not in "".join(one.why for one in plan.verdicts)


def test_what_begins_long_after_a_change_is_not_of_it(world: World) -> None:
    world.put(allow=1)
    world.sweep(4)
    world.read["n01"]["ecc"] = 2
    plan = world.settles(1)
    assert acts(plan) == [("isolate", "n01")] and plan.only_since == {} and len(plan.changes) == 1


def test_a_rule_that_became_critical_and_takes_many_is_one_incident_of_the_rules_and_takes_none(
    world: World,
) -> None:
    for node in list(world.nodes)[:8]:
        world.read[node]["disk"] = 10
    assert world.settles(3).steps == ()
    world.put(severe=True)
    plan = world.settles(3)
    (one,) = plan.incidents
    assert (one.kind, one.owner.value, len(one.nodes)) == ("rules", "operator", 8) and not plan.steps
    assert "rule docker-disk changed after" in one.why and "(severity warning -> critical)" in one.why
    assert "8 of 40 nodes in service fail it, which counts for more since" in one.why


def test_a_rule_that_became_critical_and_takes_one_says_so_of_it(world: World) -> None:
    world.read["n05"]["disk"] = 10
    world.settles(3)
    world.put(severe=True)
    plan = world.settles(2)
    assert acts(plan) == [("isolate", "n05")]
    assert "only since rule docker-disk (severity warning -> critical) changed at" in plan.steps[0].why


def test_a_policy_that_newly_isolates_for_what_was_there_is_said_and_a_plan_says_it_before(
        world: World) -> None:
    world.read["n05"]["disk"] = 10
    world.settles(3)
    world.put(warned=True)
    for plan in (world.plan(), world.triage()):
        assert acts(plan) == [("isolate", "n05")]
        assert "only since fault warning (isolation none -> no-new-jobs) changed at" in plan.steps[0].why
        assert [(one.kind, one.name) for one in plan.changes] == [("policy", "warning")]


def test_a_policy_that_newly_isolates_many_is_an_incident_first(world: World) -> None:
    for node in list(world.nodes)[:8]:
        world.read[node]["disk"] = 10
    world.settles(3)
    world.put(warned=True)
    plan = world.triage()
    assert [(one.kind, len(one.nodes)) for one in plan.incidents] == [("rules", 8)] and not plan.steps
    assert "policy warning changed after" in plan.incidents[0].why


def test_a_new_muster_says_only_that_it_was_first_seen_with_it(world: World) -> None:
    world.muster = "0.2.0"
    world.read["n05"]["ecc"] = 9
    plan = world.settles(1)
    assert "first seen when muster (0.1.0 -> 0.2.0) changed at" in plan.steps[0].why and plan.only_since == {}


def test_a_rule_of_another_profile_that_is_judged_for_the_first_time_is_no_change_that_took_a_node(
    world: World,
) -> None:
    world.put(own="on")
    world.unjudged = {"site-ecc"}
    world.read["n01"]["ecc"] = 2
    world.settles(3)
    world.unjudged = set()
    plan = world.settles(2)
    assert acts(plan) == [("isolate", "n01")] and plan.only_since == {}
    assert "first seen when rule site-ecc was judged for the first time, at 2027-" in plan.steps[0].why


# ---- giving back

def test_what_only_a_change_took_is_given_back_once_it_is_put_back_and_a_sweep_found_it_fit(
        world: World) -> None:
    since = too_strict(world)
    world.triage()
    assert world.held() == {"n01", "n02"}
    said = withheld(world.plan(since))
    assert all("rule gpu-ecc-uncorrected (allow 3 -> 1) holds still: put back" in said[node] for node in said)
    world.put()
    assert "holds still" in withheld(world.plan(since))["n01"]         # no sweep is by it yet
    world.sweep(only=["n01"])
    assert acts(world.plan(since)) == [("release", "n01")]
    assert "no sweep by what held before has found it well" in withheld(world.plan(since))["n02"]
    world.sweep()
    plan = world.triage(since)
    assert acts(plan) == [("release", "n01"), ("release", "n02")] and world.held() == set()
    assert ("nothing but rule gpu-ecc-uncorrected (allow 3 -> 1) held it; that is as it was"
            in plan.steps[0].why)
    assert world.triage().steps == () and world.triage(since).steps == ()        # twice: nothing is left
    assert world.settles(2).steps == ()


def test_a_node_whose_name_another_machine_has_is_not_given_back_before_it_is_brought_up(
        world: World) -> None:
    world.machine["n01"] = "a"
    since = too_strict(world)
    world.triage()
    world.put()
    world.machine["n01"] = "b"
    world.sweep()
    plan = world.plan(since)
    assert acts(plan) == [("release", "n02")]
    assert (withheld(plan)
            == {"n01": "another machine has its name, and no clean looks have proven it: muster "
                       "check n01 --store --profile bringup"})
    world.sweep(2, minutes=11, profiles=("bringup",))
    assert acts(world.plan(since)) == [("release", "n01"), ("release", "n02")]


def test_a_change_that_is_made_and_undone_twice_is_undone_the_second_time_as_well(world: World) -> None:
    since = too_strict(world, "n01")
    for _ in range(2):
        world.triage()
        assert world.held() == {"n01"}
        assert "only since rule gpu-ecc-uncorrected (allow 3 -> 1)" in world.plan().verdicts[0].why
        world.put()
        world.sweep()
        assert acts(world.triage(since)) == [("release", "n01")]
        world.sweep(2)
        since = world.now
        world.put(allow=1)
        world.sweep()
    # Once it failed by the old limit as well, it is the node's own.
    world.put()
    world.read["n01"]["ecc"] = 9
    world.sweep(2)
    world.put(allow=1)
    world.sweep()
    assert "only since" not in world.plan().verdicts[0].why


def test_a_node_with_another_fault_is_not_given_back(world: World) -> None:
    since = too_strict(world)
    world.triage()
    world.put()
    world.read["n01"]["ecc"] = 9                # now it is really broken
    world.unread = {"n02"}
    world.sweep()
    plan = world.plan(since)
    assert plan.steps == () and set(withheld(plan)) == {"n01", "n02"}


def test_another_change_that_is_not_put_back_keeps_them(world: World) -> None:
    since = too_strict(world)
    world.triage()
    world.put(disk=5)
    world.sweep()
    assert "rule docker-disk (at_least_gib 30 -> 5) changed, too, since" in withheld(world.plan(since))["n01"]
    assert world.plan(since).steps == ()


@pytest.mark.parametrize("gone", ["", "off"])
def test_a_site_rule_that_is_taken_away_or_switched_off_accuses_no_one_any_more(
    world: World, gone: str,
) -> None:
    world.read["n01"]["ecc"] = 2
    world.sweep(2)
    since = world.now
    world.put(own="on")
    plan = world.settles(2)
    assert acts(plan) == [("isolate", "n01")]
    assert "only since rule site-ecc is there, from 2027-" in plan.steps[0].why
    world.put(own=gone)
    world.sweep()
    with opened(world.folder) as store:
        assert store.rows("SELECT count(*) FROM problem WHERE ended IS NULL")[0][0] == 0
    assert acts(world.triage(since)) == [("release", "n01")] and world.held() == set()


def test_a_node_held_for_a_rule_that_is_gone_comes_back_by_clean_looks_as_well(world: World) -> None:
    world.read["n01"]["ecc"] = 2
    world.put(own="on")
    world.settles(2)
    world.put()
    world.sweep(3, minutes=11, profiles=("bringup",))
    assert acts(world.triage()) == [("release", "n01")]


def test_a_severity_and_a_policy_are_undone_as_limits_are(world: World) -> None:
    world.read["n05"]["disk"] = 10
    world.settles(3)
    since = world.now
    world.put(severe=True)
    world.settles(2)
    assert world.held() == {"n05"}
    world.put()
    world.sweep()
    assert acts(world.triage(since)) == [("release", "n05")] and world.held() == set()
    since = world.now
    world.put(warned=True)
    world.triage()
    assert world.held() == {"n05"}
    assert "fault warning (isolation none -> no-new-jobs) holds still" in withheld(world.plan(since))["n05"]
    world.put()
    assert "no fresh sweep has found it fit" in withheld(world.plan(since))["n05"]
    world.sweep()
    assert acts(world.triage(since)) == [("release", "n05")] and world.held() == set()


def test_what_was_taken_before_or_by_a_person_or_is_not_in_service_is_left(world: World) -> None:
    world.read["n03"]["ecc"] = 9
    world.sweep()
    world.triage()
    since = too_strict(world)
    world.triage()
    world.nodes["n02"] = replace(world.nodes["n02"], lifecycle=Lifecycle(LifecycleState.MAINTENANCE))
    world.put()
    world.sweep()
    plan = world.triage(since)
    assert acts(plan) == [("release", "n01")] and set(withheld(plan)) == {"n02"}
    assert "maintenance" in withheld(plan)["n02"] and world.held() == {"n02", "n03"}


def test_a_rack_that_a_stricter_rule_takes_is_no_incident_of_the_rack(tmp_path: Path) -> None:
    world = World(tmp_path, 128)
    world.settles(2)
    too_strict(world, "n04", "n05", "n06", "n07")
    plan = world.triage()
    assert plan.incidents == () and len(plan.steps) == 4 and len(plan.only_since) == 4
    world.put()
    world.sweep()
    assert len(world.triage(1.8e9).steps) == 4


def test_a_node_that_comes_back_since_its_rule_was_loosened_is_said_to_do_so(world: World) -> None:
    world.read["n01"]["ecc"] = 5
    world.settles(2)
    world.put(allow=7)
    world.sweep(3, minutes=11, profiles=("bringup",))
    plan = world.triage()
    assert acts(plan) == [("release", "n01")] and "clean in its last 2 looks" in plan.steps[0].why
    assert ("gpu-ecc-uncorrected was over when rule gpu-ecc-uncorrected (allow 3 -> 7) changed"
            in plan.steps[0].why)


def test_numbers_of_the_policy_are_changes_of_it_too(world: World) -> None:
    world.policy = replace(world.policy, breaker=replace(world.policy.breaker, number=400), wedged=5)
    assert [words(one) for one in world.triage().changes] == [
        "breaker (number 40 -> 400)", "wedged (wedged 3 -> 5)"]


def test_a_change_of_a_sku_concerns_the_rules_that_take_its_numbers(world: World) -> None:
    for count in (7, 8):
        world.put(gpus=count)
        world.now += 300
        with opened(world.folder) as store, store.writing() as db:
            note(db, judged_by(world.ruleset, world.muster), "op", world.now)
    changes = [one for one in world.plan().changes if one.name == "ours"]
    assert [words(one) for one in changes] == ["sku ours (gpu_count 8 -> 7)", "sku ours (gpu_count 7 -> 8)"]
    assert all(one.exact and one.rules == {"gpu-count"} for one in changes)


def test_heads_that_sweep_by_other_rules_in_turn_do_not_fill_the_plan(world: World) -> None:
    for _ in range(6):
        world.put(allow=1)
        world.sweep()
        world.put()
        world.sweep()
    text = list(lines(world.plan().changes))
    assert len(text) == 6 and text[0] == (
        "what nodes are judged by changed 7 times before that: muster history --changes")


RULES_OF_A_SITE = ({}, {"allow": 1}, {"severe": True}, {"own": "on"}, {"own": "off"},
                   {"warned": True}, {"disk": 5},
                   {"allow": 1, "severe": True})
DEEDS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(RULES_OF_A_SITE)),
    st.tuples(st.just("read"), st.sampled_from(("n0", "n1")), st.sampled_from((
        {"ecc": 0}, {"ecc": 2}, {"ecc": 9}, {"disk": 40}, {"disk": 10}))),
    st.tuples(st.just("sweep"), st.sampled_from((("n0",), ("n0", "n1", "n2")))),
    st.tuples(st.just("triage")), st.tuples(st.just("undo"), st.integers(0, 4)))


def fit(rules: dict[str, object], read: dict[str, int]) -> bool:
    """What a person would say of these readings by a site's rules, of what keeps jobs away."""
    disk = read["disk"] < rules.get("disk", 30) and (rules.get("severe") or rules.get("warned"))
    own = rules.get("own") == "on" and read["ecc"] > 1
    return read["ecc"] <= rules.get("allow", 3) and not disk and not own


@settings(max_examples=tries(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(DEEDS, min_size=8, max_size=20))
def test_whatever_is_done_in_whatever_order_only_a_node_that_was_well_by_the_rules_of_then_is_given_back(
    story: list[tuple[object, ...]],
) -> None:
    """A model of its own: what the rules were when, and what each node's newest sweep read by which."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), 3)
        world.nodes = {name.replace("n0", "n"): replace(node, name=name.replace("n0", "n"))
                       for name, node in world.nodes.items()}
        world.read = {name: dict(READS) for name in world.nodes}
        rules: dict[str, object] = {}
        times: list[tuple[float, dict[str, object]]] = []
        seen: dict[str, tuple[float, dict[str, object], dict[str, int]]] = {}
        taken: dict[str, float] = {}

        def sweep(nodes: Collection[str]) -> None:
            world.sweep(only=nodes)
            for name in nodes:
                seen[name] = (world.now, dict(rules), dict(world.read[name]))

        sweep(world.nodes)
        world.triage()
        times.append((world.now, dict(rules)))
        # Each begins with a node that a change alone takes, so that there is something to give back.
        everyone = ("n0", "n1", "n2")
        for action in (("read", "n1", {"ecc": 2}), ("sweep", everyone), ("triage",), ("put", {"allow": 1}),
                     ("sweep", everyone), ("triage",), *story):
            world.now += 60
            if action[0] == "put":
                rules = dict(action[1])
                world.put(**rules)
            elif action[0] == "read":
                world.read[action[1]] |= action[2]
            elif action[0] == "sweep":
                sweep(action[1])
            else:
                since, then = times[-1 - action[1] % len(times)] if action[0] == "undo" else (None, rules)
                before = world.held()
                plan = world.triage(since)
                for name in before - world.held() if since is not None else ():
                    at, by, read = seen[name]
                    assert taken[name] > since and at > taken[name], (action, plan.steps)
                    # Of files that no sweep has used yet it knows nothing; the policy is that of now.
                    assert fit(then, read), (action, plan.steps)
                    assert fit({**by, "warned": rules.get("warned")}, read), (action, plan.steps)
                    assert all(by.get(key) == then.get(key) for key in ("allow", "disk", "severe"))
                if since is not None:
                    assert world.held() <= before
                taken |= dict.fromkeys(world.held() - before, world.now)
                if since is None and set(seen) == set(world.nodes):
                    times.append((world.now, dict(rules)))


# ---- statistics

def failures(world: World) -> tuple[int, int]:
    """Those that count, and those that came with a change."""
    with opened(world.folder) as store:
        made = summary(read(store, set(world.nodes), world.policy, 1_799_000_000.0, world.now, {}),
                       1_799_000_000.0, world.now, ())
    return made.total.rate.failures, made.changed


def test_failures_that_came_with_a_change_are_in_no_rate(world: World) -> None:
    too_strict(world)
    world.sweep(8)
    world.read["n08"]["ecc"] = 9
    world.settles(2)
    assert failures(world) == (1, 2)


def test_failures_that_end_with_the_change_back_are_in_no_rate_either(world: World) -> None:
    too_strict(world)
    world.sweep(8)
    world.read["n09"]["ecc"] = 2        # long after the change, but well by what held before
    world.sweep(2)
    world.put()
    world.sweep(3)
    assert failures(world) == (0, 3)


def test_a_store_from_before_says_nothing_until_something_changes(tmp_path: Path) -> None:
    from healthcheck.store import migrations

    at = next(number
              for number, step in enumerate(migrations.MIGRATIONS) if "version ADD COLUMN said" in step[0])
    world = World(tmp_path)
    world.put(allow=0)
    with pytest.MonkeyPatch.context() as patch:
        use_version(patch, at)
        with opened(tmp_path / "state", make=True) as store, store.writing() as db:
            db.executemany("INSERT INTO version (kind, name, digest, who, began, seen) VALUES "
                           "(?, ?, ?, 'op', 1.8e9, 1.8e9)",
                           [(one.kind, one.name, one.digest)
                            for one in judged_by(world.ruleset, world.muster)])
    world.sweep(2)
    assert world.triage().changes == ()
    world.put(allow=5)
    world.sweep()
    (change,) = world.plan().changes
    assert (change.said["with"], change.says["with"]) == ({"allow": 0}, {"allow": 5})
    assert json.dumps(change.says)


# ---- the commands

def test_the_commands_say_what_changed_and_give_back_what_it_took(tmp_path: Path) -> None:
    world = World(tmp_path, 8)
    world.files(FILE)
    (tmp_path / "muster.yaml").write_text("version: 1\nnodes:\n  n[00-07]: {}\n")
    world.now = time.time() - 3600
    world.sweep(2)

    def run(*words: str, code: int = 0) -> str:
        done = muster(*words, home=tmp_path, code=code)
        return done.stdout + done.stderr

    def triage(*words: str, code: int = 0) -> str:
        return run("triage", "--hostfile", "bad", "--rules", str(world.site), *words, code=code)

    assert "changed at" not in triage("--apply")
    world.read["n01"]["ecc"] = 2
    since = minute(world.now + 300)
    world.files(STRICTER_FILE)
    world.sweep()
    text = triage("--apply", code=1)
    assert f"rules changed at {since}: rule gpu-ecc-uncorrected (allow 3 -> 1)" in text
    assert "isolate   n01: gpu-error: gpu-ecc-uncorrected of GPU 0: 2 (expected 1); only since rule" in text
    assert (
        f"by change n01: nothing but a change keeps jobs away; if that was wrong, put back what held before, "
        f"then: muster check n01 --store; muster triage --undo-since {since}") in text
    document = json.loads(triage("--format", "json", code=1))
    jsonschema.validate(document, json.loads((SCHEMAS / "triage-1.json").read_text()))
    assert [one["words"] for one in document["changes"]] == ["rule gpu-ecc-uncorrected (allow 3 -> 1)"]
    assert [one["node"] for one in document["only_by_change"]] == ["n01"]
    assert f"rules changed at {since}: rule" in run("history")
    assert run("history", "--changes") == f"{since}  rule gpu-ecc-uncorrected (allow 3 -> 1)\n"
    assert run("history", "--changes", "--rule", "disk-*").startswith("nothing that nodes are judged by")
    (line,) = run("history", "--changes", "--format", "jsonl").splitlines()
    assert json.loads(line)["schema"] == "muster.change/1"
    assert ("withheld  release n01: rule gpu-ecc-uncorrected (allow 3 -> 1) holds still: put back "
            "what held") in (
        triage("--undo-since", since, code=1))
    world.files(FILE)
    world.now = time.time()
    world.sweep(minutes=0)
    assert "there is nothing to undo" in triage("--undo-since", "0s")
    plan = triage("--undo-since", since)
    assert "release   n01: nothing but rule gpu-ecc-uncorrected (allow 3 -> 1) held it" in plan
    assert f"To do it: muster triage --undo-since {since} --hostfile bad" in plan and "--apply" in plan
    assert "n01" in (tmp_path / "bad").read_text()
    assert "is released" in triage("--undo-since", "2h", "--apply")
    assert "n01" not in (tmp_path / "bad").read_text()
    text = run("history", "--summary", "--rules", str(world.site))
    assert "in no rate: 1 came with a change of rules, SKU, policy or muster" in text


@pytest.mark.parametrize(("typed", "said"), [
    (("--undo-since", "yesterday"), "is no time, expected one such as 2026-11-27T09:55Z, or how long ago"),
    (("--undo-since", "2026-01-01T00:00"), "is no time"),
    (("--undo-since", "2999-01-01T00:00Z"), "is in the future"),
    (("--undo-since", "2h", "--at-most", "3"), "leave out"),
    (("--undo-since", "2h", "--replay"), "leave out")])
def test_a_time_that_is_none_is_one_line(tmp_path: Path, typed: tuple[str, ...], said: str) -> None:
    done = muster("triage", *typed, home=tmp_path)
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) <= 3
