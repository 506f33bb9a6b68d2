"""What is believed before any test: how rare each kind of cause is, and how often a test fails that it
touches. Data, with its sources.

A cause is bad in one of several ways: at a rate of its own, as hidden from us as the cause is. Each way has
its own rarity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class FailureMode(NamedTuple):
    """One way to be bad: the share of the tests touching the cause that fail, and the share of such causes
    that are bad this way.
    """

    rate: float
    prior: float


# The shares of tests that a bad uplink among good ones spoils, so close that the one beside the true share is
# not refuted by 200 tests.
SHARES = (0.95, 0.75, 0.6, 0.45, 0.3, 0.18)

# About 1 node in 100 of a new cluster is bad: MegaScale reports 0.5 % that are slow for good, and half of
# what fails, fails at times. A node whose NIC is bad passes where only NVLink or its own leaf is needed: what
# leads out of it is a cause of its own. A leaf has tens of uplinks, each pair is hashed on some: one bad of
# 32 shows in a quarter of the tests, several in more. A leaf that spoils everything that touches it is rarer.
# That one path between two healthy nodes is bad is rarest: there are so many of them.
WAYS: Mapping[str, tuple[FailureMode, ...]] = MappingProxyType({
    "node": (FailureMode(0.97, 1 / 200), FailureMode(0.5, 1 / 400), FailureMode(0.2, 1 / 400)),
    "out": (FailureMode(0.97, 1 / 400), FailureMode(0.5, 1 / 1000), FailureMode(0.2, 1 / 1000)),
    "pair": (FailureMode(0.97, 1 / 5000), FailureMode(0.5, 1 / 5000)),
    "uplinks": tuple(FailureMode(rate, 1 / 600) for rate in SHARES),
    "inside": (FailureMode(0.97, 1 / 1000), FailureMode(0.5, 1 / 3000)),
    "between": tuple(FailureMode(rate, 1 / 30_000) for rate in (0.95, 0.6, 0.3)),
})

# Nodes of one leaf share a rack, a power feed, a batch and who cabled them. In one leaf of 1,000 each node is
# bad by even chance, and then mostly for good; without this eight bad nodes of a leaf would be a wonder, and
# any leaf the better explanation. As rare as a leaf that spoils everything: so where all nodes of a leaf
# fail, it is the leaf from seven nodes on, and of fewer no one says which.
LOT = 1 / 1000
LOT_NODE = 0.5
LOT_WAYS = (0.8, 0.1, 0.1)      # of those bad nodes, by way

# The share of sound tests that fail for nothing, of slowness, and how likely each is beforehand: judged by a
# median and its scatter, 1 in 200 does (`stats`), but a shared network can do worse. It is weighed with the
# causes, for what noise explains accuses nobody.
NOISE: Mapping[float, float] = MappingProxyType({0.003: 0.5, 0.01: 0.3, 0.03: 0.15, 0.06: 0.04, 0.12: 0.01})
# Wrong data, or a process that dies, does not come of noise.
NOISE_HARD = 0.0005

# In logarithms of odds: a cause is named from 400 to 1 against the best explanation without it.
ENOUGH = 6.0
# So many tests out of a group have to pass, with others of which nothing bad is known, before its failures
# with bad ones are put down to those alone: where it spoils as few as the least of SHARES, 1 in 20 passes as
# many.
ACQUIT = 15
# A cause whose guilt would make the best explanation more than 1,100 times less likely is not looked for any
# more.
LEAVE = -7.0


def cost(prior: float) -> float:
    """What accusing one takes from the logarithm of the posterior."""
    return -math.log(prior)


def strength(rate: float) -> float:
    """What one way adds to the logarithm of the odds that a test it touches fails: minus the logarithm of the
    chance that it passes.
    """
    return -math.log1p(-rate)
