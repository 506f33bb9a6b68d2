"""A silence gives no held node back, in whatever order it is made, ends and what it hides comes and goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.model.faultkind import Isolation
from healthcheck.store import silences
from healthcheck.store.file import Store, opened
from healthcheck.store.silences import silenced
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.triage.gather import gather
from healthcheck.triage.plan import Act, TriagePlan, make
from healthcheck.triage.policy import SharedUnknown, TriagePolicy
from provisioning.actions.cordon import cordon, uncordon
from provisioning.triage import apply as applying
from tests.provisioning.triage.test_stateful import policy as packaged
from tests.provisioning.triage.triageworld import HOUR, NODES, RULES, Edited, Machine, Status
from tests.testbed.memory import in_memory
from tests.tries import tries

FAR = 30 * 86400.0


def policy() -> TriagePolicy:
    """As in a fleet of eight."""
    return replace(packaged(), ours=SharedUnknown(60, 5),
                   breaker=replace(packaged().breaker, number=8, percent=100))


class Site:
    """Eight nodes, a store and a file of hosts. Triage runs after every sweep."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.store, self.back = store, Edited(folder / "bad-hosts")
        self.nodes = {name: Machine(name) for name in NODES}
        self.now = 1_800_000_000.0
        self.plan: TriagePlan

    def silence(self, rule: str, node: str = "n1", length: float = FAR) -> int:
        return silences.silence(self.store, [node], rule, "known", "ann", self.now, self.now + length).id

    def sweep(self, times: int = 1, **wrong: Status) -> bool:
        """Sweeps with only this wrong on n1; gives whether it is held then."""
        self.nodes["n1"].truth = {rule: wrong.get(rule.replace("-", "_"), Status.PASS) for rule in RULES}
        for _ in range(times):
            self.now += 0.3 * HOUR
            record(self.store, SweepRecord(self.now, self.now + 5, False, "test", "digest", ("bringup",)),
                   [one.report(sorted(RULES)) for one in self.nodes.values()],
                   {one.name: one.readings() for one in self.nodes.values()})
            self.triage()
        return self.held()

    def planned(self, *, heard: bool = False) -> TriagePlan:
        """The plan; `heard`: as if no one had silenced anything."""
        nodes = {name: one.node for name, one in self.nodes.items()}
        seen = applying.view(self.store, self.back, applying.shown(self.store, self.back, nodes))
        quiet = [] if heard else silences.active(self.store, self.now)
        return make(gather(self.store, nodes.values(), policy(), self.now, lost=seen.lost, others=seen.others,
                           silenced=lambda problem: silenced(problem, quiet, self.now) is not None), policy())

    def triage(self) -> None:
        loud = {step.node for step in self.planned(heard=True).steps if step.act is Act.RELEASE}
        self.plan = self.planned()
        given = {step.node for step in self.plan.steps if step.act is Act.RELEASE}
        assert given <= loud, f"a release of {given} rests on a silence"
        applying.apply(self.store, self.back, self.plan, "triage", lambda: self.now, lambda _: None)

    def held(self, node: str = "n1") -> bool:
        return self.back.held([node])[node].number is not None

    def why_not(self) -> str:
        """Why the release of n1 is withheld."""
        (one,) = (one for one in self.plan.withheld if one.node == "n1")
        assert one.act is Act.RELEASE
        return one.why


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with opened(tmp_path, make=True) as store:
        yield Site(tmp_path, store)


ASKS = "; to give it to jobs all the same: muster uncordon n1"


def test_silencing_a_held_node_does_not_give_it_back_and_a_person_does(site: Site) -> None:
    assert site.sweep(2, gpu_count=Status.FAIL)
    site.silence("gpu-*")
    assert site.sweep(3, gpu_count=Status.FAIL)
    assert site.why_not().startswith("only silenced problems are left: gpu-count fails since ")
    assert site.why_not().endswith(ASKS)
    (hidden,) = site.plan.held_back
    assert hidden.verdict is not None and hidden.verdict.isolation is Isolation.EVICT
    uncordon(site.store, site.back, ["n1"], "it may", "ann", lambda: site.now)
    assert not site.sweep(3, gpu_count=Status.FAIL)


def test_what_was_silenced_has_healed_gives_the_node_back_by_measured_health(site: Site) -> None:
    assert site.sweep(2, gpu_count=Status.FAIL)
    site.silence("gpu-*")
    assert site.sweep(gpu_count=Status.FAIL)
    assert site.sweep() and not site.sweep()


def test_a_node_whose_silence_expired_or_ended_is_held_for_what_is_still_there(site: Site) -> None:
    assert site.sweep(2, gpu_count=Status.FAIL)
    number = site.silence("gpu-*", length=HOUR)
    assert site.sweep(2, gpu_count=Status.FAIL) and site.plan.withheld
    assert site.sweep(2, gpu_count=Status.FAIL) and not site.plan.withheld and not site.plan.held_back
    assert silences.unsilence(site.store, number, None, "", "ann", site.now) is None


def test_a_silenced_warning_keeps_no_look_clean(site: Site) -> None:
    assert site.sweep(2, gpu_count=Status.FAIL)
    site.silence("fleet-driver")
    assert site.sweep(3, fleet_driver=Status.FAIL)
    assert site.why_not().startswith("only silenced problems are left: fleet-driver since ")
    assert site.sweep() and not site.sweep()


def test_a_silence_hides_no_worn_out_board_that_went_away_by_itself(site: Site) -> None:
    assert site.sweep(2, gpu_row_remap_failed=Status.FAIL)
    assert site.sweep(2)
    assert "the same board is there" in site.why_not()
    site.silence("gpu-row-remap-failed")
    assert site.sweep(2)
    assert "only silenced problems are left" in site.why_not() and "the same board is there" in site.why_not()


def test_a_silence_ends_no_hold_of_what_flaps(site: Site) -> None:
    for wrong in (Status.FAIL, Status.PASS) * 3:
        site.sweep(port_state=wrong)
    assert site.held()
    site.silence("port-*")
    assert site.sweep(4)
    assert "it came 3 times in 24 h" in site.why_not() and ASKS in site.why_not()


def test_a_node_that_is_not_held_is_left_alone_and_what_else_comes_isolates_it(site: Site) -> None:
    site.silence("port-*")
    assert not site.sweep(4, port_state=Status.FAIL)
    assert site.sweep(2, port_state=Status.FAIL, gpu_count=Status.FAIL)
    assert site.sweep(3, port_state=Status.FAIL)
    assert "only silenced problems are left: port-state fails since " in site.why_not()


def test_a_person_silences_and_cordons_in_either_order_and_triage_touches_neither(site: Site) -> None:
    assert not site.sweep()
    cordon(site.store, site.back, ["n1"], "mine", "ann", lambda: site.now)
    site.silence("gpu-*")
    assert site.sweep(3, gpu_count=Status.FAIL) and site.sweep(3) and not site.plan.withheld


RULE = st.sampled_from(sorted(RULES))
STEP = st.one_of(
    st.just(("sweeps", {}, 2)), st.just(("silence", "*", 500.0)),
    st.tuples(st.just("sweeps"),
              st.dictionaries(RULE, st.sampled_from([Status.FAIL, Status.UNKNOWN]), max_size=2),
              st.integers(1, 3)),
    st.tuples(st.just("silence"), st.sampled_from([*RULES, "*", "gpu-*"]),
              st.sampled_from([0.5, 5.0, 500.0])),
    st.tuples(st.just("unsilence"), st.integers(1, 3), st.none()),
    st.tuples(st.just("waits"), st.sampled_from([1.0, 11.5, 13.0]), st.none()))


@settings(max_examples=tries(25), deadline=None)
@given(first=st.sampled_from(["gpu-count", "gpu-row-remap-failed", "port-state"]),
       steps=st.lists(STEP, min_size=2, max_size=8))
def test_no_story_of_silences_gives_back_what_would_be_held_without_them(
    first: str, steps: list[tuple[str, object, object]],
) -> None:
    """`Site.triage` compares each plan with the one that hears all. The first fault is one that heals, one
    that does not by itself, or one that comes and goes."""
    with in_memory() as folder, opened(Path(folder), make=True) as store:
        site = Site(Path(folder), store)
        for status in (Status.FAIL, Status.PASS) * (3 if first == "port-state" else 1):
            site.sweep(**{first.replace("-", "_"): status})
        assert site.held()
        for what, of, second in steps:
            if what == "sweeps":
                assert isinstance(of, dict) and isinstance(second, int)
                site.sweep(second, **{rule.replace("-", "_"): status for rule, status in of.items()})
            elif what == "silence":
                assert isinstance(second, float)
                site.silence(str(of), length=second * HOUR)
            elif what == "unsilence":
                assert isinstance(of, int)
                silences.unsilence(store, of, None, "", "ann", site.now)
            else:
                assert isinstance(of, float)
                site.now += of * HOUR
