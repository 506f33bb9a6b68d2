"""The document muster.change/1: a change with all that stood before it, and its judgements."""

from __future__ import annotations

from typing import Any

from healthcheck.change.model import ChangeJudgement, FigureSeries, NodeStanding, SiteChange, Stood

SCHEMA = "muster.change/1"
JUDGEMENT = "muster.change-judgement/1"


def document(change: SiteChange) -> dict[str, Any]:
    """The whole change."""
    return {
        "schema": SCHEMA, "name": change.name, "who": change.who, "began": change.began,
        "canary": list(change.canary), "controls": list(change.controls), "chosen": change.chosen,
        "rings": [list(ring) for ring in change.rings], "without": list(change.without),
        "state": change.state, "before": _standing(change.before),
        "judgements": [judgement(one) for one in change.judgements],
    }


def judgement(one: ChangeJudgement) -> dict[str, Any]:
    """One judgement, as a part of the change."""
    return {
        "time": one.time, "who": one.who, "verdict": one.verdict.value, "after": one.after,
        "comparisons": [{"kind": each.kind, "key": each.key, "grade": each.grade.value, "words": each.words,
                         "nodes": list(each.nodes)} for each in one.comparisons],
        "remarks": list(one.remarks),
    }


def judged(change: SiteChange, one: ChangeJudgement) -> dict[str, Any]:
    """What `muster change judge --format json` prints."""
    return {"schema": JUDGEMENT, "name": change.name, "began": change.began, "canary": list(change.canary),
            "controls": list(change.controls), "without": list(change.without), **judgement(one)}


def row(change: SiteChange) -> dict[str, Any]:
    """One line of `muster change list`."""
    newest = change.newest
    return {"name": change.name, "who": change.who, "began": change.began, "state": change.state,
            "judged": newest.time if newest is not None else None, "canary": list(change.canary),
            "controls": list(change.controls), "rings": len(change.rings)}


def _standing(one: Stood) -> dict[str, Any]:
    return {
        "source": one.source, "rules": one.rules, "runs": list(one.runs),
        "nodes": {name: _node(node) for name, node in one.nodes.items()},
        "forms": {key: [form.template, form.priority, form.report] for key, form in one.forms.items()},
        "figures": [_series(series) for series in one.figures],
    }


def _node(one: NodeStanding) -> dict[str, Any]:
    log = None if one.log is None else {
        "ids": sorted(one.log.ids), "starting": sorted(one.log.starting), "whole": one.log.whole}
    return {"time": one.time, "missing": one.missing, "unlogged": one.unlogged,
            "failing": sorted(one.failing), "unmeasured": sorted(one.unmeasured),
            "skipped": sorted(one.skipped), "skips": one.skips,
            "versions": dict(one.versions), "boot": one.boot, "log": log}


def _series(one: FigureSeries) -> dict[str, Any]:
    return {"figure": one.figure, "subject": one.subject, "nodes": list(one.nodes),
            "values": list(one.values)}
