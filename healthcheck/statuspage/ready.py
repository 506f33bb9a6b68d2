"""The first answer of the page: how many nodes of each SKU may start a job now, and what keeps the others.
Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from healthcheck.gate.decide import Gate, Why, answer
from healthcheck.gate.reading import SCHEMA, GateSnapshot
from inventory.text import clean

_MOST_REASONS = 6
UNCERTIFIED = "no certificate"
NO_SKU = "(no SKU)"


class Standing(NamedTuple):
    """One node before the gate: `gate` is open, closed or unsure, `why` the first reason that it is not open.

    `held` says what else keeps jobs away: a lease of ours, or a cordon; empty where nothing does."""

    node: str
    sku: str
    in_service: bool
    certified: bool
    gate: str
    why: Why | None
    held: str

    @property
    def ready(self) -> bool:
        """Whether a job may start here now, as far as muster knows."""
        return self.gate == Gate.OPEN.name.lower() and not self.held

    @property
    def only_certificate(self) -> bool:
        """Whether a missing certificate is all that keeps it from being ready."""
        return self.why is not None and self.why.why.startswith(UNCERTIFIED) and not self.held


def at_gate(
    entries: Mapping[str, Mapping[str, Any]], policy: Mapping[str, Any], skus: Mapping[str, str], now: float,
) -> dict[str, Why]:
    """By node what closes the gate, a missing certificate last; a node without an entry here is let through.
    Nodes of one SKU are asked about together, as a job would: versions must be equal among them."""
    top = {"schema": SCHEMA, "serial": 0, "made": int(now), "cluster": "", "policy": policy, "keys": []}
    groups: dict[str, list[str]] = defaultdict(list)
    for name, entry in entries.items():
        # A machine that is not in service starts no job, and its version is not what the others must have.
        groups[skus[name] if entry["lifecycle"] == "service" else f"\0{name}"].append(name)
    found: dict[str, Why] = {}
    for names in groups.values():
        whole = GateSnapshot(top, None, {name: entries[name] for name in names}, b"")
        for why in answer(whole, names, now).whys:
            for name in (why.node,) if why.node else names:
                if name not in found or found[name].why.startswith(UNCERTIFIED):
                    found[name] = why
    return found


def rows(standings: Iterable[Standing]) -> list[dict[str, Any]]:
    """A row for each SKU, the largest first: nodes, how many are in service, certified and ready, and reasons
    why the others are not ready, with the number of nodes of each."""
    of: dict[str, list[Standing]] = defaultdict(list)
    for one in standings:
        of[one.sku].append(one)
    return [{
        "sku": clean(sku, 60), "nodes": len(group), "in_service": sum(one.in_service for one in group),
        "certified": sum(one.certified for one in group), "ready": sum(1 for one in group if one.ready),
        "only_certificate": sum(one.only_certificate for one in group),
        "not_ready": _reasons(group),
    } for sku, group in sorted(of.items(), key=lambda each: (-len(each[1]), each[0]))]


def _reasons(group: Sequence[Standing]) -> list[dict[str, Any]]:
    counts = Counter(reason(one) for one in group if not one.ready)
    listed: list[dict[str, Any]] = [{"why": why, "nodes": number}
                                    for why, number in counts.most_common(_MOST_REASONS)]
    if more := sum(counts.values()) - sum(each["nodes"] for each in listed):
        listed.append({"why": "other reasons", "nodes": more})
    return listed


def reason(one: Standing) -> str:
    """Why a node is not ready, in words that equal cases share."""
    if one.why is None:
        return one.held
    # What stands behind a colon is this node's own.
    return one.why.why.partition(":")[0].partition(" (")[0]
