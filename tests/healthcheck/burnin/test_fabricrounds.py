"""The state of a burn-in that loads links, on made-up fat trees: planted links are named, no other, and
coverage is what a recount finds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.burnin import faults
from healthcheck.burnin.document import Burnin, as_bytes
from healthcheck.burnin.documentread import read
from healthcheck.burnin.fabricresult import FabricCoverage, rows
from healthcheck.burnin.fabricwork import FabricMeans, FabricWork
from healthcheck.burnin.judgement import BurnInOutcome
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    Participant,
    RankEnd,
    RankReport,
    Task,
    TaskResult,
)
from healthcheck.burnin.stages import BurnInWork, StageStep
from healthcheck.burnin.statemachine import BurninRun
from healthcheck.subnet.burnplan import BurnPair
from healthcheck.subnet.join import AdapterPlace, FabricJoin, JoinedBy
from healthcheck.subnet.model import FabricLink, Subnet
from tests.documents import validate
from tests.healthcheck.burnin.made import GLOO, HARDWARE
from tests.healthcheck.burnin.test_statemachine import FLOORS
from tests.healthcheck.subnet import recount
from tests.healthcheck.subnet.trees import Tree, host
from tests.tries import tries

ONLY = frozenset({BurnInStage.FABRIC})
SOUND = 390.0       # Gb/s each way of a sound pair over NDR
Fault = Callable[[Task, set[FabricLink]], float | None]


class Burnt:
    """A burn-in of the links of a tree whose pairs reach what `rate` says of the links on their way; None:
    the pair did not end well."""

    def __init__(self, tree: Tree, subnet: Subnet, rate: Fault, leave: str = "",
                 means: FabricMeans = FabricMeans.ALLREDUCE) -> None:
        self.subnet, self.rate = subnet, rate
        ports = tree.ports()
        joined = FabricJoin({port.end.guid: AdapterPlace(port.node, JoinedBy.DESCRIPTION, device="mlx5_0",
                                                         rail=0) for port in ports})
        self.ends = {port.node: port for port in ports}
        there = tuple(Participant(port.node, 1) for port in ports)
        work = BurnInWork(fabric=FabricWork([subnet], joined, means=means))
        self.run = BurninRun(there, work, ONLY, FLOORS, HARDWARE)
        self.run.begin(there, work)
        if leave:
            self.run.leave(leave, "it was refused")
        self.rounds: list[list[BurnPair]] = []
        while (step := self.run.next()) is not None:
            self.do(step)
            self.run.step_over()
        self.run.end()
        self.burnt, self.judgement = self.run.judged()
        assert self.burnt.fabric is not None
        self.covered: FabricCoverage = self.burnt.fabric

    def do(self, step: StageStep) -> None:
        pairs = []
        for task in step.tasks:
            a, b = (self.ends[node] for node in task.nodes)
            passed = recount.by_tables(self.subnet, [BurnPair(a, b, 1.0)])
            on = {link for link in self.subnet.links if link.a in passed or link.b in passed}
            rate = self.rate(task, on)
            if rate is None:
                hung = Accusation(Object.UNEXPLAINED, task.id, faults.HUNG, "both wait", (task.id,))
                self.run.add(TaskResult(task, tuple(RankReport(seat, RankEnd.CALLED_OFF)
                                                    for seat in task.seats), (hung,), 0.0, 1.0))
                continue
            figures = {"verified": 5.0, "sustained_gb_s": rate / 8, "busbw_gb_s": rate / 8,
                       "write_gb_s": rate / 8}
            self.run.add(TaskResult(task, tuple(RankReport(seat, RankEnd.DONE, figures, facts=GLOO)
                                                for seat in task.seats), (), 0.0, 1.0))
            pairs.append(BurnPair(a, b, rate))
        self.rounds.append(pairs)

    def links(self) -> Mapping[str, FabricLink]:
        return {self.run.fabric_planes[0].link(link): link for link in self.subnet.links}

    def named(self) -> set[FabricLink]:
        return {self.links()[one.name] for one in self.judgement.accusations if one.object is Object.LINK}

    def outcomes(self) -> dict[str, BurnInOutcome]:
        return {one.node: one.outcome for one in self.judgement.outcomes}


def slow(*links: FabricLink, rate: float = 60.0) -> Fault:
    return lambda _, on: rate if on & set(links) else SOUND


TREE = Tree(leaves=3, hosts=2, spines=2)


def test_sound_links_are_proven_as_a_recount_says_and_all_nodes_pass() -> None:
    made = Burnt(TREE, TREE.by_destination(), slow())
    shares = recount.best_shares(made.subnet,
                                 [recount.by_tables(made.subnet, pairs) for pairs in made.rounds])
    assert min(shares.values()) >= 0.9 and made.covered.proven == made.covered.links == len(made.subnet.links)
    assert made.judgement.verdict is BurnInOutcome.PASS and not made.judgement.accusations


@settings(max_examples=tries(40), deadline=None)
@given(st.integers(0, 11), st.integers(0, 5), st.booleans())
def test_a_planted_link_is_named_or_among_those_that_cannot_be_told_apart_and_no_other_is(
        at: int, seed: int, stands: bool) -> None:
    subnet = TREE.at_random(seed) if seed else TREE.by_destination()
    link = sorted(subnet.links)[at % len(subnet.links)]
    made = Burnt(TREE, subnet, lambda _, on: SOUND if link not in on else None if stands else 60.0)
    used = any(task.stage is BurnInStage.FABRIC and task.nodes
               for task in (result.task for result in made.run.results))
    assert used and made.named() <= {link}
    accused = " ".join(one.why for one in made.judgement.accusations)
    name = made.run.fabric_planes[0].link(link)
    uncovered = {one.link for one in made.run.fabric_planes[0].plan.uncovered}
    assert link in made.named() or name in accused or link in uncovered
    assert made.judgement.verdict is not BurnInOutcome.PASS
    shares = recount.best_shares(subnet, [recount.by_tables(subnet, pairs) for pairs in made.rounds])
    assert made.covered.proven == sum(min(shares[one.a], shares[one.b]) >= 0.9 for one in subnet.links)


def test_the_host_of_a_slow_link_leaves_and_does_not_pass_and_others_do() -> None:
    subnet = TREE.by_destination()
    link = next(link for link in subnet.links if host(3) in (link.a.guid, link.b.guid))
    made = Burnt(TREE, subnet, slow(link))
    assert made.named() == {link} and set(made.run.out) == {"n003"}
    assert {node
            for node, outcome in made.outcomes().items() if outcome is not BurnInOutcome.PASS} == {"n003"}


def test_who_left_takes_no_part_and_what_only_it_reaches_is_not_proven() -> None:
    made = Burnt(TREE, TREE.by_destination(), slow(), leave="n000")
    assert not any("n000" in result.task.nodes for result in made.run.results)
    assert made.judgement.verdict is BurnInOutcome.UNKNOWN and not made.judgement.accusations
    assert any("takes no part" in why for _, why in made.covered.unproven)


def test_a_pair_that_is_slow_once_for_no_reason_is_measured_again() -> None:
    made = Burnt(TREE, TREE.by_destination(), lambda task, _: 60.0 if task.id == "fabric-1-0" else SOUND)
    assert not made.judgement.accusations and made.judgement.verdict is BurnInOutcome.PASS
    assert (len(made.covered.chance) == 1 and made.covered.chance[0].startswith("fabric-1-0: ")
            and not made.covered.noise)


def test_pairs_of_a_round_that_did_not_run_together_prove_nothing_together() -> None:
    made = Burnt(TREE, TREE.by_destination(), slow())
    assert len({row.round for row in rows(made.run.results)}) == len(made.rounds)
    apart = [replace(result, began=10.0 * at, ended=10.0 * at + 1)
             for at, result in enumerate(made.run.results)]
    assert len({row.round for row in rows(apart)}) == len(apart)


@pytest.mark.parametrize("means", FabricMeans)
def test_the_document_holds_it_and_is_read_back(means: FabricMeans) -> None:
    subnet = TREE.by_destination()
    made = Burnt(TREE, subnet, slow(sorted(subnet.links)[0]), means=means)
    burnin = Burnin("20261128T000000Z-0000", "quick", 0.0, 1.0, "1", made.burnt, made.judgement)
    data = as_bytes(burnin)
    validate(json.loads(data), "burnin-1")
    again = read(data, "a document")
    assert again.burnt.fabric == made.covered and as_bytes(again) == data


def test_a_burn_in_that_ends_in_a_round_passes_no_one_by_it() -> None:
    tree = TREE
    subnet = tree.by_destination()
    joined = FabricJoin({port.end.guid: AdapterPlace(port.node, JoinedBy.DESCRIPTION, device="mlx5_0", rail=0)
                         for port in tree.ports()})
    there = tuple(Participant(port.node, 1) for port in tree.ports())
    work = BurnInWork(fabric=FabricWork([subnet], joined))
    run = BurninRun(there, work, ONLY, FLOORS, HARDWARE)
    run.begin(there, work)
    assert run.next() is not None
    run.end(interrupted=True)
    burnt, judgement = run.judged()
    assert (judgement.verdict is BurnInOutcome.UNKNOWN and burnt.fabric is not None
            and burnt.fabric.proven == 0)
    assert {one.outcome for one in judgement.outcomes} == {BurnInOutcome.UNKNOWN}
