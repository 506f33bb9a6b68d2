"""How wide a sweep is, by the cores of this machine, and when it ends, by its nodes and their limits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from inventory.model import Node
from inventory.nodeset import fold
from inventory.transport.base import Failure, Limits
from inventory.transport.watch import logins_at_once

NODES_PER_CORE, LEAST_NODES, MOST_NODES = 32, 64, 256


def width(cores: int | None = None) -> int:
    """How many nodes to have in work: 32 per core of this machine, at least 64, at most 256. One process
    judges some 50 nodes a second whatever the cores, so more would not be faster."""
    found = len(os.sched_getaffinity(0)) if cores is None else cores
    return min(max(NODES_PER_CORE * found, LEAST_NODES), MOST_NODES)


def second_tries(reached: Mapping[str, Failure]) -> tuple[str, ...]:
    """A line for each stage at which first tries failed of nodes that a second one has reached."""
    by_stage: dict[str, list[str]] = {}
    for name, first in reached.items():
        by_stage.setdefault(first.stage.value, []).append(name)
    return tuple(f"reached by a second try, after the first was stuck at {stage}: {fold(names)} "
                 f"({reached[names[0]].reason})" for stage, names in by_stage.items())


def deadline(nodes: Sequence[Node], limits: Limits) -> float:
    """Seconds in which every node has its turn and a second try, even if each uses all of its limits. Nodes
    come in rounds of the fan-out, each as long as its slowest may take, and one more for second tries. Each
    jump host that the inventory names adds a login."""
    each = sorted((_node_s(node, limits) for node in nodes), reverse=True)
    return sum(each[::max(1, limits.fanout)]) + max(each, default=0.0)


def bounded(nodes: Sequence[Node], limits: Limits, timeout: float | None) -> Limits:
    """The limits with the deadline of a run over these nodes: `timeout`, or else what they need."""
    return replace(limits, sweep_s=deadline(nodes, limits) if timeout is None else timeout)


def announced(nodes: int, limits: Limits, timeout: float | None) -> str:
    """One line for the start of a run: how wide it is, and when it ends at the latest."""
    wide = min(nodes, limits.fanout)
    logins = min(wide, logins_at_once(limits))
    why = "--timeout" if timeout is not None else "by nodes, fan-out and limits; --timeout sets another"
    return (f"{nodes} node{'' if nodes == 1 else 's'}, {wide} at a time, {logins} of them logging in; "
            f"deadline {_spelt(limits.sweep_s)} ({why})")


def _node_s(node: Node, limits: Limits) -> float:
    own = limits.of(node)
    jump = node.proxy_jump
    hops = 0 if jump is None or jump.lower() == "none" else jump.count(",") + 1
    return own.node_s + hops * own.hop_s


def _spelt(seconds: float) -> str:
    whole = max(1, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    parts = ((hours, "h"), (minutes, "min"), (0 if hours else rest, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)
