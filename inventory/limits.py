"""Limits of the stages of reaching a node, as an inventory, a SKU or the command line gives them.

    limits: {connect: 10s, auth: 20s, login: 60s, node: 45s}

The nearest wins, stage by stage: the command line (--limit login=60s), the node's own entry, entries of sets,
the node's SKU, the inventory's `defaults`, and what muster has by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from inventory.model import Node, StageLimits

STAGES = ("connect", "auth", "login", "node")
EXPECTED = "seconds from 1s to 1h, such as 60s or 2m"
_SPAN = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(s|m|h)?")
_SECONDS = {None: 1, "s": 1, "m": 60, "h": 3600}
_LEAST, _MOST = 1.0, 3600.0


def seconds(value: Any) -> float:
    """The seconds of one limit: a number, or text such as 60s or 2m. Raises ValueError."""
    text = str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
    match = _SPAN.fullmatch(text) if isinstance(text, str) else None
    if match is None or not _LEAST <= (found := float(match[1]) * _SECONDS[match[2]]) <= _MOST:
        raise ValueError(EXPECTED)
    return found


def limited(nodes: Iterable[Node], given: StageLimits) -> tuple[Node, ...]:
    """The nodes, for each of which `given` holds whatever the inventory says."""
    return tuple(replace(node, limits=given.over(node.limits)) if given else node for node in nodes)
