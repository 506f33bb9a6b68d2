"""Which nodes the head visits, by what their agents report: every node is visited that nothing lets us leave
out. Pure.

A node is left out only where its agent judged it healthy lately, by what the head would judge it by, in the
boot that the head itself last saw, and where the head's own last snapshot of it, at most a day ago, was
healthy. Of the others of its cohort (nodes of one SKU) some are visited at random, so that fleet rules have
something to compare with.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from healthcheck.judge.samplejudge import FleetSample
from healthcheck.model.agentmetric import AgentBasis, AgentEvidence
from healthcheck.store.leftout import KnownNode
from healthcheck.sweep.agentseries import AgentClaim

# A tenth of the healthy nodes of a cohort, within these bounds: three are needed to compare, and one may fail
# to answer.
_LEAST_SAMPLE, _MOST_SAMPLE = 4, 20
VISIT_S = 86400.0       # the longest that no head looks at a node itself
_SOONEST_S = 43200.0    # from when on nodes become due, one after another
# A sweep may be late by that much and the visit is in time still.
_SPARE_S = 3600.0
FUTURE_S = 2.0          # clocks that are disciplined differ by less
SHORTEST_S, LONGEST_S = 10.0, 86400.0       # periods that an agent can have
PERIODS = 2.0
MOST_AGE_S = 3600.0     # however long a period a node claims


class Visit(Enum):
    """Why a node is visited; the text follows 'because'."""

    NO_ANSWER = "Prometheus gave no answer that counts"
    NO_SKU = "no SKU is named for them"
    NO_AGENT = "Prometheus has no metrics of their agents"
    INCOMPLETE = "some of their agents' metrics are missing"
    CLAIMED = "several series claim their names"
    MISPLACED = "their metrics come from targets of other names"
    NO_NUMBER = "their agents' metrics are no numbers"
    SICK = "their agents do not judge them healthy"
    FUTURE = "their agents' clocks are ahead"
    STALE = "their agents' results are too old"
    BOOT_UNKNOWN = "the head has not seen their boot itself"
    BOOTED = "they were booted since the head saw them"
    VERSION = "their agents' version differs (muster agent upgrade)"
    RULES = "their agents' rules differ (muster agent upgrade)"
    ENTRY = "their agents' inventory entry differs (muster agent upgrade)"
    SKU = "their agents' SKU differs (muster agent upgrade)"
    PROFILE = "their agents judge by another profile"
    NOT_HEALTHY = "the head's own last snapshot was not healthy"
    HELD = "muster holds them, and returns them by its own snapshots only"
    DUE = "their visit of every 24 h is due"
    SAMPLE = "they are in the random sample"


@dataclass(frozen=True)
class WantedNode:
    """One node of the plan, as the head would judge it; `sku` is empty where no one names one, and so is its
    own `profile`."""

    name: str
    sku: str
    entry: str
    profile: str = ""


@dataclass(frozen=True)
class HeadBasis:
    """What is the same for all nodes: version, rules digest and profile of the occasion; times in seconds.

    `now` is the head's clock after the answer; `swept` when its last sweep began, None if never; `most_age`
    is the user's greatest age of an agent's result, None for two periods.
    """

    version: str
    rules: str
    profile: str
    now: float
    swept: float | None = None
    most_age: float | None = None


@dataclass(frozen=True)
class SweepChoice:
    """Nodes to visit, each with its reason, and nodes left out with the evidence; no node is in both.

    `samples` are the cohorts, by SKU, of which nodes are left out. `trouble` is why Prometheus' answer does
    not count, if so.
    """

    visits: Mapping[str, Visit]
    left_out: Mapping[str, AgentEvidence]
    samples: Mapping[str, FleetSample] = field(default_factory=dict)
    trouble: str = ""


def visit_all(nodes: Iterable[WantedNode], trouble: str) -> SweepChoice:
    """The choice where Prometheus' answer does not count."""
    return SweepChoice({node.name: Visit.NO_ANSWER for node in nodes}, {}, trouble=trouble)


def choose(
    nodes: Sequence[WantedNode], claims: Mapping[str, AgentClaim], known: Mapping[str, KnownNode],
    head: HeadBasis, rng: random.Random,
) -> SweepChoice:
    """Which nodes to visit; `rng` draws the samples."""
    visits: dict[str, Visit] = {}
    left_out: dict[str, AgentEvidence] = {}
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    others: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        found = _judged(node, claims.get(node.name), known.get(node.name, KnownNode()), head)
        if isinstance(found, Visit):
            visits[node.name] = found
            others[node.sku].append(node.name)
        else:
            left_out[node.name] = found
            groups[node.sku, node.profile].append(node.name)
    drawn: dict[str, list[str]] = defaultdict(list)
    healthy: Counter[str] = Counter()
    # A node's profile may leave fleet rules out, so that each has a sample of its own.
    for (sku, _), names in sorted(groups.items()):
        wanted = min(_MOST_SAMPLE, max(_LEAST_SAMPLE, round(len(names) / 10)))
        drawn[sku] += rng.sample(names, min(wanted, len(names)))
        healthy[sku] += len(names)
    samples = {}
    for sku, names in drawn.items():
        for name in names:
            visits[name] = Visit.SAMPLE
            del left_out[name]
        if len(names) < healthy[sku]:
            # As many of those that are visited anyway as there would be in a sample of the whole cohort.
            share = min(len(others[sku]), round(len(names) * len(others[sku]) / healthy[sku]))
            samples[sku] = FleetSample(frozenset((*names, *rng.sample(others[sku], share))),
                                       healthy[sku] - len(names))
    return SweepChoice(visits, left_out, samples)


def _judged(
    node: WantedNode, claim: AgentClaim | None, known: KnownNode, head: HeadBasis,
) -> AgentEvidence | Visit:
    if not node.sku:
        return Visit.NO_SKU     # then most nodes show what is expected, and they must be seen
    if claim is None:
        return Visit.NO_AGENT
    if claim.twice:
        return Visit.CLAIMED
    if claim.lacks or claim.basis is None:
        return Visit.INCOMPLETE
    if len(claim.targets) > 1:
        return Visit.CLAIMED
    if claim.named - {node.name}:
        return Visit.MISPLACED
    if claim.healthy is None or claim.time is None or claim.period is None:
        return Visit.NO_NUMBER
    if claim.healthy != 1:
        return Visit.SICK
    if claim.time > head.now + FUTURE_S:
        return Visit.FUTURE
    if head.now - claim.time > _most_age(claim.period, head.most_age):
        return Visit.STALE
    return (_unlike(node, claim.basis, known, head) or _own(node.name, known, head)
            or AgentEvidence(claim.time, claim.basis, claim.target))


def _most_age(period: float, most_age: float | None) -> float:
    """The greatest age of a result in seconds; of an agent that claims no possible period, none is young
    enough."""
    if not SHORTEST_S <= period <= LONGEST_S:
        return -1.0
    return most_age if most_age is not None else min(PERIODS * period, MOST_AGE_S)


def _unlike(node: WantedNode, basis: AgentBasis, known: KnownNode, head: HeadBasis) -> Visit | None:
    if not known.boot_id or not basis.boot_id:
        return Visit.BOOT_UNKNOWN
    if basis.boot_id != known.boot_id:
        return Visit.BOOTED
    for own, expected, visit in ((basis.version, head.version, Visit.VERSION),
                                 (basis.rules, head.rules, Visit.RULES), (basis.sku, node.sku, Visit.SKU),
                                 (basis.profile, head.profile, Visit.PROFILE),
                                 (basis.entry, node.entry, Visit.ENTRY)):
        if not expected or own != expected:
            return visit
    return None


def _own(name: str, known: KnownNode, head: HeadBasis) -> Visit | None:
    if known.visited is None or not known.healthy:
        return Visit.NOT_HEALTHY
    if known.held:
        return Visit.HELD
    age = head.now - known.visited
    # A visit that seems to be later than now is of a clock that was wrong.
    if age < -FUTURE_S or age >= due_after(name, known.visited, head):
        return Visit.DUE
    return None


def due_after(name: str, visited: float, head: HeadBasis) -> float:
    """Seconds after a visit from which on a node is due: spread by node and visit over 12 to 23 h, so that
    nodes of one sweep are not all due in one; sooner where the next sweep would come too late."""
    number = int.from_bytes(hashlib.sha256(f"{name} {visited}".encode()).digest()[:8], "big") / 2.0**64
    spread = _SOONEST_S + number * (VISIT_S - _SPARE_S - _SOONEST_S)
    between = head.now - head.swept if head.swept is not None and head.swept <= head.now else 0.0
    return min(spread, VISIT_S - between)


def line(choice: SweepChoice) -> str:
    """The choice in one line: how many nodes were left out, and how many visited for which reason."""
    total = len(choice.visits) + len(choice.left_out)
    if choice.trouble:
        return f"--from-prometheus: {choice.trouble}; so all nodes are visited"
    counts = Counter(choice.visits.values())
    why = "; ".join(f"{counts[visit]} because {visit.value}" for visit in Visit if counts[visit])
    return (f"--from-prometheus: {len(choice.left_out)} of {total} nodes are healthy by their agents and "
            f"were not visited; {len(choice.visits)} were visited: {why}")
