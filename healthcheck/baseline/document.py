"""A baseline and the differences of two as JSON: muster.baseline/1, with each template's id."""

from __future__ import annotations

from typing import Any

from healthcheck.baseline.approval import short_id
from healthcheck.baseline.difference import TemplateDifference
from healthcheck.baseline.file import SCHEMA
from healthcheck.baseline.flags import rank
from healthcheck.kernellog.model import Baseline, KnownTemplate, Scope


def document(baseline: Baseline) -> dict[str, Any]:
    """The whole baseline; proposals in the order of review, the worst flags first."""
    return {
        "schema": SCHEMA, "name": baseline.name, "file": baseline.file, "scope": scope(baseline.scope),
        "learned": {"first": baseline.first, "last": baseline.last, "nodes": baseline.nodes,
                    "boots": baseline.boots, "expires_days": baseline.expires_days,
                    "expires_boots": baseline.expires_boots},
        "phases": {phase.value: list(seconds) for phase, seconds in baseline.phases.items()},
        "approved": [entry(one, baseline) for one in baseline.known.values()],
        "expired": [entry(one, baseline) for one in baseline.expired.values()],
        "proposed": [entry(one, baseline) for one in sorted(baseline.proposed.values(), key=rank)],
    }


def entry(one: KnownTemplate, baseline: Baseline) -> dict[str, Any]:
    """One template; `share` is of the baseline's nodes, `on` names them if they are not all."""
    return {
        "id": short_id(one.template), "template": one.template,
        "phases": [phase.value for phase in one.phases], "nodes": one.nodes,
        "share": round(one.nodes / max(1, baseline.nodes), 4), "on": one.on or None, "boots": one.boots,
        "least": one.least, "most": one.most, "busiest": one.busiest, "priority": one.priority,
        "kind": one.kind.value, "first_seen": one.first_seen, "last_seen": one.last_seen,
        "unseen": one.unseen, "by": one.by or None, "why": one.why or None, "flags": list(one.flags),
        "example": one.example,
    }


def differences(found: list[TemplateDifference], first: Baseline, second: Baseline) -> dict[str, Any]:
    """What changed, each with both shares."""
    return {
        "schema": SCHEMA, "first": first.file, "second": second.file,
        "differences": [{
            "change": one.change.value, "id": short_id(one.template), "template": one.template,
            "before": None if one.shares[0] is None else round(one.shares[0], 4),
            "after": None if one.shares[1] is None else round(one.shares[1], 4),
        } for one in found],
    }


def scope(of: Scope) -> dict[str, str]:
    """The fields that are set; a missing one means any."""
    given = {"sku": of.sku, "kernel": of.kernel, "driver": of.driver, "firmware": of.firmware}
    return {key: value for key, value in given.items() if value}
