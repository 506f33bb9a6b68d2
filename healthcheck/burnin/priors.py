"""Prior beliefs, with their sources: how rare each kind of cause is, and how often its tests fail.

A cause is bad in one of several ways: at a hidden rate of its own. Each way has its own rarity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class FailureMode(NamedTuple):
    """One way to be bad: the share of its tests that fail, and the share of causes that are bad this way."""

    rate: float
    prior: float


# The share of its tests that a bad uplink among good ones spoils; close enough that the one next to the true
# share survives 200 tests.
SHARES = (0.95, 0.75, 0.6, 0.45, 0.3, 0.18)

# About 1 node in 100 of a new cluster is bad: MegaScale reports 0.5 % that are permanently slow, and half of
# the faults are intermittent. A node with a bad NIC passes where only NVLink or its own leaf is used, so its
# way out is a cause of its own. A leaf has tens of uplinks and each pair is hashed to some: one bad of 32
# shows in a quarter of the tests, several in more. A leaf that spoils everything is rarer. A bad path between
# two healthy nodes is rarest, as there are so many paths.
FAILURE_MODES: Mapping[str, tuple[FailureMode, ...]] = MappingProxyType({
    "node": (FailureMode(0.97, 1 / 200), FailureMode(0.5, 1 / 400), FailureMode(0.2, 1 / 400)),
    "out": (FailureMode(0.97, 1 / 400), FailureMode(0.5, 1 / 1000), FailureMode(0.2, 1 / 1000)),
    "pair": (FailureMode(0.97, 1 / 5000), FailureMode(0.5, 1 / 5000)),
    "uplinks": tuple(FailureMode(rate, 1 / 600) for rate in SHARES),
    "inside": (FailureMode(0.97, 1 / 1000), FailureMode(0.5, 1 / 3000)),
    "between": tuple(FailureMode(rate, 1 / 30_000) for rate in (0.95, 0.6, 0.3)),
})

# Nodes of one leaf share a rack, a power feed, a batch and its cabling. In one leaf of 1,000 each node is bad
# with even odds, and then mostly permanently. Without this, eight bad nodes of a leaf would be too unlikely,
# and any leaf the better explanation. It is as rare as a leaf that spoils everything: if all nodes of a leaf
# fail, it is the leaf from seven nodes on; of fewer nodes it stays open.
LOT = 1 / 1000
LOT_NODE = 0.5
LOT_MODES = (0.8, 0.1, 0.1)      # of those bad nodes, by failure mode

# The share of sound tests that fail by slowness alone, and how likely each is: a median and its scatter give
# 1 in 200 (`stats`), but a shared network can do worse. It is weighed with the causes, as failures by noise
# accuse no one.
NOISE: Mapping[float, float] = MappingProxyType({0.003: 0.5, 0.01: 0.3, 0.03: 0.15, 0.06: 0.04, 0.12: 0.01})
# Noise causes neither wrong data nor dead processes.
NOISE_HARD = 0.0005

# In log odds: a cause is named from 400 to 1 against the best explanation without it.
ENOUGH = 6.0
# How many tests out of a group must pass, with others that are not suspect, before its failures with bad ones
# are put down to those alone. A group that spoils the least of SHARES passes as many in 1 of 20 cases.
ACQUIT = 15
# Causes that make the best explanation over 1,100 times less likely are not tested.
LEAVE = -7.0


def cost(prior: float) -> float:
    """What accusing one takes from the logarithm of the posterior."""
    return -math.log(prior)


def strength(rate: float) -> float:
    """What a failure rate adds to the log odds that a test fails: minus the log of the chance to pass."""
    return -math.log1p(-rate)
