"""The muster.burnin/1 document: all that a burn-in did and found, for programs and later runs.

Reports of ranks are stored in columns: a list in the order of the task's seats, or one value where all are
equal. They hold figures, not raw samples. `odd` adds the rest for ranks that did not end well.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from healthcheck.burnin.fabricresult import FabricCoverage
from healthcheck.burnin.judge import BurnInResults
from healthcheck.burnin.judgement import JudgedFigure, Judgement, NodeOutcome
from healthcheck.burnin.model import (
    Accusation,
    Participant,
    RankEnd,
    RankProgress,
    RankReport,
    Task,
    TaskResult,
)
from healthcheck.burnin.stagecounters import StageCounters
from healthcheck.config.files import make_folder, write_whole
from inventory.errors import UsageError
from inventory.text import clean
from inventory.times import millisecond

SCHEMA = "muster.burnin/1"
FOLDER = "burnin"       # in the state folder
SUFFIX = ".burnin.json"
SCREENING = "-screen"   # suffix of screenings' ids: readers of burn-ins can skip them
NOT_KEPT = "(not kept)"
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
# Variables of communication are stored; any other variable may hold a secret.
_KEPT = re.compile(r"(NCCL|GLOO|CUDA|CUBLAS|TORCH|UCX|FI|OFI|OMP|RANK|WORLD_SIZE|LOCAL_RANK)(_[A-Z0-9_]+)?")
_SECRET = re.compile("secret|token|password|passwd|credential|private|apikey|api_key|auth", re.IGNORECASE)

Option = str | int | float | bool | None


@dataclass(frozen=True)
class Burnin:
    """One burn-in: its id, length, times (epoch seconds), the muster that ran it, and all results. `floors`
    is the digest of the files that judged it, `options` are the head's, `environment` was set for ranks."""

    run: str
    length: str
    began: float
    ended: float
    muster: str
    burnt: BurnInResults
    judgement: Judgement
    floors: str = ""
    options: Mapping[str, Option] = field(default_factory=lambda: MappingProxyType({}))
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def document(burnin: Burnin) -> dict[str, Any]:
    """The whole document."""
    burnt, judgement = burnin.burnt, burnin.judgement
    return {
        "schema": SCHEMA, "run": burnin.run, "length": burnin.length, "began": millisecond(burnin.began),
        "ended": millisecond(burnin.ended),
        "muster": burnin.muster, "verdict": judgement.verdict.value, "floors": burnin.floors,
        "options": {clean(name, 80): _option(name, value) for name, value in burnin.options.items()},
        "environment": environment(burnin.environment),
        "asked": [[stage.value, kind.value] for stage, kind in burnt.asked],
        "missing": {stage.value: clean(why) for stage, why in burnt.missing.items()},
        "hardware": {sku: {"gpu": hardware.gpu, "gbps": _number(hardware.gbps)}
                     for sku, hardware in burnt.hardware.items()},
        "places": [_place(place) for place in burnt.places],
        "nodes": [_outcome(one) for one in judgement.outcomes],
        "accusations": [accusation(one) for one in judgement.accusations],
        "found": [accusation(one) for one in burnt.found],
        "remarks": [clean(remark, 600) for remark in judgement.remarks],
        "held": [_held(one) for one in judgement.held],
        "counters": [[one.node, one.subject, one.name, one.before, one.after, _number(one.seconds)]
                     for one in burnt.counters],
        "stage_counters": [_stage_counters(one) for one in burnt.stage_counters],
        **({"fabric": _fabric(burnt.fabric)} if burnt.fabric is not None else {}),
        "tasks": [_result(result) for result in burnt.results],
    }


def as_bytes(burnin: Burnin) -> bytes:
    """The document as JSON, on one line."""
    return json.dumps(document(burnin), ensure_ascii=False, allow_nan=False,
                      separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def write(state: Path, burnin: Burnin) -> Path:
    """Puts the document whole into the state folder's `burnin/`, and gives its file; raises UsageError."""
    if not _RUN.fullmatch(burnin.run):
        raise ValueError(f"not a run's id: {burnin.run!r}")
    folder = state / FOLDER
    make_folder(folder, "--state")
    path = folder / f"{burnin.run}{SUFFIX}"
    try:
        write_whole(path, as_bytes(burnin))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def kept(state: Path, *, screenings: bool = True) -> list[Path]:
    """The documents in a state folder, the newest first, with or without screenings."""
    found = []
    try:
        for path in (state / FOLDER).iterdir():
            if path.name.endswith(SUFFIX) and not path.name.startswith(".") and (
                    screenings or not path.name.endswith(f"{SCREENING}{SUFFIX}")):
                found.append((path.stat().st_mtime_ns, path.name, path))
    except OSError:
        return []
    return [path for *_, path in sorted(found, reverse=True)]


def chosen(which: str | None, folder: Path) -> Path:
    """The document of this run in the state folder, that file, or the newest run; raises UsageError."""
    if which is not None and ("/" in which or Path(which).is_file()):
        return Path(which)
    if which is not None:
        path = folder / FOLDER / f"{which}{SUFFIX}"
        if not path.is_file():
            raise UsageError(f"{which}: no such burn-in is stored; see: muster burnin show --list")
        return path
    found = kept(folder)
    if not found:
        raise UsageError(f"no burn-in is stored in {folder}: run `muster burnin run NODES` first")
    return found[0]


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """What may be written of an environment; a value that may be a secret is not."""
    return {clean(name, 120): clean(value) if _KEPT.fullmatch(name) and not _SECRET.search(name) else NOT_KEPT
            for name, value in sorted(given.items())}


def accusation(one: Accusation) -> dict[str, Any]:
    """One accusation."""
    return {"object": one.object.value, "name": one.name, "fault": one.fault, "why": clean(one.why, 800),
            "for": list(one.tests_for), "against": list(one.tests_against), "confirmed": one.confirmed,
            **({"counted": [clean(line, 600) for line in one.counted]} if one.counted else {}),
            **({"nodes": list(one.nodes)} if one.nodes else {})}


def _option(name: str, value: Option) -> Option:
    if _SECRET.search(name):
        return NOT_KEPT
    return clean(value) if isinstance(value, str) else _number(value) if isinstance(value, float) else value


def _place(place: Participant) -> dict[str, Any]:
    rails = [[rail.number, rail.address, rail.leaf] for rail in place.rails]
    return {**{key: value for key, value in asdict(place).items() if key != "rails"}, "rails": rails}


def _stage_counters(one: StageCounters) -> dict[str, Any]:
    return {"stage": one.stage.value, "node": one.node, "read": dict(one.read),
            "grew": [list(row) for row in one.grew], "unknown": [list(row) for row in one.unknown],
            "why": clean(one.why, 400)}


def _fabric(one: FabricCoverage) -> dict[str, Any]:
    return {"share": _number(one.share), "routes": "model" if one.adaptive else "tables",
            "means": one.means.value, "rounds": one.rounds, "pairs": one.pairs, "links": one.links,
            "proven": one.proven, "counters": clean(one.counters), "slow": list(map(clean, one.slow)),
            "unproven": [[clean(link), clean(why)] for link, why in one.unproven],
            "noise": list(map(clean, one.noise)), "chance": list(map(clean, one.chance))}


def _outcome(one: NodeOutcome) -> dict[str, Any]:
    return {
        "node": one.node, "outcome": one.outcome.value, "why": [clean(why, 800) for why in one.why],
        "stages": [[stage.stage.value, stage.done, clean(stage.why)] for stage in one.stages],
        "figures": {name: _number(value) for name, value in one.figures.items()},
    }


def _held(one: JudgedFigure) -> dict[str, Any]:
    floor = None if one.floor is None else {"least": _number(one.floor.least), "origin": one.floor.origin,
                                            "why": clean(one.floor.why)}
    setting = {**vars(one.setting), "gbps": _number(one.setting.gbps)}
    if not one.setting.mount:
        del setting["mount"]
    return {"setting": setting, "n": one.n, "median": _number(one.median), "least": _number(one.least),
            "floor": floor, "equals": one.equals}


def _result(result: TaskResult) -> dict[str, Any]:
    return {
        **_task(result.task), "began": _number(result.began), "ended": _number(result.ended),
        "named_after": None if result.named_after is None else _number(result.named_after),
        "accusations": [accusation(one) for one in result.accusations],
        "reports": _reports(result.task, result.reports),
    }


def _task(task: Task) -> dict[str, Any]:
    return {"id": task.id, "stage": task.stage.value, "kind": task.kind.value,
            "seats": list(map(str, task.seats)), "seconds": _number(task.seconds),
            "params": dict(task.params), "environment": environment(task.environment),
            **({"local": {node: environment(own) for node, own in task.local.items()}} if task.local else {})}


def _reports(task: Task, reports: Sequence[RankReport]) -> dict[str, Any]:
    """The columns. `ranks` is there only where not every seat reported, or in another order."""
    rank_of = {seat: rank for rank, seat in enumerate(task.seats)}
    ranks = [rank_of[report.seat] for report in reports if report.seat in rank_of]
    own = [report for report in reports if report.seat in rank_of]
    columns: dict[str, Any] = {} if ranks == list(range(len(task.seats))) else {"ranks": ranks}
    columns["end"] = _column([report.end.value for report in own])
    columns["figures"] = _columns(own, lambda report: report.figures, _number)
    columns["checksums"] = _columns(own, lambda report: report.checksums, lambda value: clean(value, 200))
    columns["facts"] = _columns(own, lambda report: report.facts, clean)
    columns["odd"] = [_odd(at, report) for at, report in enumerate(own)
                   if report.end is not RankEnd.DONE or report.wrong_total or report.wrong or report.error]
    return columns


def _columns(reports: Sequence[RankReport], of: Callable[[RankReport], Mapping[str, Any]],
             written: Callable[[Any], Any]) -> dict[str, Any]:
    names = dict.fromkeys(name for report in reports for name in of(report))
    return {clean(name, 120): _column([written(held[name]) if name in (held := of(report)) else None
                                       for report in reports]) for name in names}


def _column(values: list[Any]) -> Any:
    """The values, or the one that all of them are."""
    return values[0] if values and all(value == values[0] for value in values) else values


def _odd(at: int, report: RankReport) -> dict[str, Any]:
    last = {} if report.last == RankProgress() else {"last": {
        entry.name: _number(value) if isinstance(value := getattr(report.last, entry.name), float) else value
        for entry in fields(RankProgress)}}
    return {"at": at, "code": report.code, "error": clean(report.error), "wrong_total": report.wrong_total,
            "wrong": [[one.iteration, one.count, list(one.owners), one.own_input] for one in report.wrong],
            **_where(report), **last}


def _where(report: RankReport) -> dict[str, Any]:
    """Check, elements and inputs of each entry of `wrong`: beside them, so that older readers still work."""
    if not any(one.check or one.places or one.inputs for one in report.wrong):
        return {}
    return {"where": [[clean(one.check, 120), [list(pair) for pair in one.places], list(one.inputs)]
                      for one in report.wrong]}


def _number(value: float) -> float | int | None:
    """Six significant digits, whole numbers whole; None for what JSON cannot hold."""
    if not math.isfinite(value):
        return None
    if float(value).is_integer() and abs(value) < 2**53:
        return int(value)
    return float(f"{value:.6g}") if abs(value) < 1e8 else round(value, 3)
