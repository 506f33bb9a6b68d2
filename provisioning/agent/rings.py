"""Rings of an upgrade: how many go first, and whether agents got worse. Pure. A node is worse if its agent is
silent or in trouble that it was not in, if the node's state is worse, or if results of it became UNKNOWN. A
node that became better does not make up for one that became worse."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from healthcheck.model.outcome import NodeState
from inventory.errors import UsageError
from inventory.text import clean, short
from provisioning.agent.install import AgentResult
from provisioning.agent.status import status

DEFAULT = "1,10%,rest"
_SIZE = re.compile(r"([0-9]{1,6})(%)?")
_RANK = {state.value: rank for rank, state in enumerate(
    (NodeState.HEALTHY, NodeState.DEGRADED, NodeState.UNKNOWN, NodeState.UNHEALTHY))}
_MOST_RULES = 5     # rules that a reason lists
_MOST_UNKNOWN = 1000
_RULE = 80          # characters of a rule's id


@dataclass(frozen=True)
class RingSize:
    """A number of nodes, or of per cent of all that are upgraded."""

    number: int
    percent: bool = False

    def of(self, total: int) -> int:
        """How many of so many nodes; at least one."""
        return max(1, math.ceil(total * self.number / 100)) if self.percent else self.number


@dataclass(frozen=True)
class AgentSample:
    """What one node's agent showed at one time. `trouble` is what is wrong with the agent, empty if nothing;
    `state` is None and `unknown` empty without a result. `unknown` holds ids of rules."""

    trouble: str
    state: str | None
    unknown: frozenset[str]


def ring_sizes(text: str) -> tuple[RingSize, ...]:
    """The sizes of all rings but the last, which is `rest`; raises UsageError."""
    *sizes, last = (word.strip() for word in text.split(","))
    found = []
    for word in sizes:
        match = _SIZE.fullmatch(word)
        number = int(match[1]) if match is not None else 0
        percent = match is not None and match[2] is not None
        if number < 1 or (percent and number > 100):
            raise UsageError(f"--rings {short(text)}: {short(word)} is no ring, expected a number of nodes "
                             f"or of per cent, as in {DEFAULT}")
        found.append(RingSize(number, percent))
    if last != "rest":
        raise UsageError(f"--rings {short(text)}: the last ring must be `rest`, as in {DEFAULT}")
    return tuple(found)


def rings(nodes: Sequence[str], sizes: Sequence[RingSize]) -> list[list[str]]:
    """These nodes in their order as rings, none of them empty; what the sizes leave is the last."""
    found, at = [], 0
    for size in sizes:
        found.append(list(nodes[at:at + size.of(len(nodes))]))
        at += size.of(len(nodes))
    return [ring for ring in [*found, list(nodes[at:])] if ring]


def sample(done: AgentResult) -> AgentSample:
    """What a node reported of its agent, which may be anything, as a sample."""
    found = status(done)
    listed = done.report.get("unknown")
    names = listed[:_MOST_UNKNOWN] if isinstance(listed, list) else []
    return AgentSample(found.trouble, found.state,
                       frozenset(clean(name, _RULE) for name in names
                                 if isinstance(name, str) and name.isprintable()))


def reported(done: AgentResult) -> bool:
    """Whether the node has a result by the version that is in use there."""
    result, current = done.report.get("result"), done.report.get("current")
    return (done.ok and isinstance(current, str) and isinstance(result, dict)
            and result.get("bundle") == current)


def worse(before: AgentSample, after: AgentSample) -> str:
    """Why the node is worse than before, in a line; empty if it is not."""
    reasons = []
    if after.trouble and after.trouble != before.trouble and not before.trouble:
        reasons.append(after.trouble)
    # No state is as bad as unknown: nothing was measured. So unknown after any other state is worse, too.
    unknown = NodeState.UNKNOWN.value
    state_before, state_after = before.state or unknown, after.state or unknown
    then, now = (_RANK.get(state, _RANK[unknown]) for state in (state_before, state_after))
    if now > then or (state_after == unknown != state_before):
        reasons.append(f"{after.state or 'no state'}, before {before.state or 'no state'}")
    new = sorted(after.unknown - before.unknown)
    if new:
        more = f" and {len(new) - _MOST_RULES} more" if len(new) > _MOST_RULES else ""
        reasons.append(f"became UNKNOWN: {', '.join(new[:_MOST_RULES])}{more}")
    return "; ".join(reasons)
