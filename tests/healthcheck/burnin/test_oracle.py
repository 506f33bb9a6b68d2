"""The solver against an oracle that tries every explanation: both name the same causes."""

from __future__ import annotations

import random

import pytest

from healthcheck.burnin.isolate import PairSearch
from healthcheck.burnin.model import Participant
from healthcheck.burnin.rounds import NodePair
from healthcheck.burnin.weigh import PairOutcome
from healthcheck.burnin.weigh import PairTest as Sample
from tests.healthcheck.burnin.oracle import MOST, asked

PLACES = [Participant(f"n{leaf}{at}", 8, leaf=f"leaf{leaf}") for leaf in range(3) for at in range(4)]


def fails(each: NodePair, wrong: str, chance: random.Random) -> bool:
    """Whether a pair fails where this is wrong; n00, n01 and leaf1 are what may be."""
    leaves = {node[1] for node in each}
    return {"a node": "n00" in each,
            "two nodes of a leaf": not {"n00", "n01"}.isdisjoint(each),
            "a node at times": "n00" in each and chance.random() < 0.5,
            "out of a node": "n00" in each and len(leaves) > 1,
            "uplinks": "1" in leaves and len(leaves) > 1 and chance.random() < 0.45,
            "a node and uplinks": "n00" in each
            or ("1" in leaves and len(leaves) > 1 and chance.random() < 0.7),
            "noise": chance.random() < 0.05}[wrong]


@pytest.mark.parametrize("wrong", ["a node", "two nodes of a leaf", "a node at times", "out of a node",
                                   "uplinks", "a node and uplinks", "noise"])
def test_the_solver_finds_the_best_explanation_and_names_what_every_other_lacks_by_far(wrong: str) -> None:
    chance = random.Random(wrong)
    isolation = PairSearch(PLACES, seed=1)
    while (round_ := isolation.next()) is not None:
        isolation.add_results(Sample(each, "t", PairOutcome.FAIL if fails(each, wrong, chance)
                                     else PairOutcome.PASS) for each in round_.pairs)
    weighed = isolation.weighed
    oracle = asked(isolation.evidence)
    assert set(weighed.best) == oracle.best
    # What another explanation of more causes explains about as well, the oracle does not know.
    beyond = {cause for cause, rival in weighed.rivals.items() if len(rival.causes) > MOST}
    assert set(weighed.accused) <= oracle.named <= set(weighed.accused) | beyond
