"""Reads a muster.burnin/1 document from anywhere: of bounded size, a mistake is one line with its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from healthcheck.burnin import fields, limits
from healthcheck.burnin.counters import CounterGrowth
from healthcheck.burnin.document import SCHEMA, Burnin
from healthcheck.burnin.fabricresult import FabricCoverage
from healthcheck.burnin.fabricwork import FabricMeans
from healthcheck.burnin.fields import Fields
from healthcheck.burnin.floors import Floor
from healthcheck.burnin.judge import BurnInResults
from healthcheck.burnin.judgement import BurnInOutcome, JudgedFigure, Judgement, NodeOutcome, StageDone
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    Participant,
    Rail,
    RankEnd,
    RankProgress,
    RankReport,
    Seat,
    Task,
    TaskKind,
    TaskResult,
    WrongData,
)
from healthcheck.burnin.published import Setting
from healthcheck.burnin.setting import SkuHardware
from healthcheck.burnin.stagecounters import StageCounters
from inventory.text import clean


def load(path: Path) -> Burnin:
    """The burn-in of a file; raises ConfigError."""
    return read(fields.content(path, limits.DOCUMENT_BYTES), str(path))


def read(data: bytes, name: str) -> Burnin:
    """The burn-in of a document; raises ConfigError, one line with `name` and the place of the mistake."""
    return fields.read_document(data, name, limits.DOCUMENT_BYTES, _burnin)


def _burnin(top: Fields) -> Burnin:
    if top.held.get("schema") != SCHEMA:
        raise fields.fail("schema", SCHEMA, top.held.get("schema"))
    places = tuple(_place(Fields(item, at)) for item, at in top.items("places"))
    asked = []
    for item, at in top.items("asked"):
        stage, kind = fields.row(item, 2, at)
        asked.append((fields.word(stage, BurnInStage, at), fields.word(kind, TaskKind, at)))
    missing = {fields.word(stage, BurnInStage, "missing"): why
               for stage, why in top.plain("missing", fields.text).items()}
    burnt = BurnInResults(
        places, tuple(_result(Fields(item, at)) for item, at in top.items("tasks")), tuple(asked),
        tuple(_accusation(Fields(item, at)) for item, at in top.items("found")),
        tuple(_counter(item, at) for item, at in top.items("counters")), MappingProxyType(missing),
        top.plain("hardware", _hardware),
        # Older burn-ins read counters only before the first stage and after the last.
        tuple(_stage_counters(Fields(item, at)) for item, at in top.items("stage_counters"))
        if "stage_counters" in top.held else (),
        _fabric(Fields(top.held["fabric"], "fabric")) if "fabric" in top.held else None)
    judgement = Judgement(
        tuple(_outcome(Fields(item, at)) for item, at in top.items("nodes")),
        tuple(_accusation(Fields(item, at)) for item, at in top.items("accusations")),
        tuple(_held(Fields(item, at)) for item, at in top.items("held")), top.texts("remarks"),
        burnt.fabric is None or burnt.fabric.whole)
    if top.word("verdict", BurnInOutcome) is not judgement.verdict:
        message = f"{judgement.verdict.value}, as follows from its nodes and accusations"
        raise fields.fail("verdict", message, top.held["verdict"])
    began, ended = (fields.time_of(top.text(key), key) for key in ("began", "ended"))
    return Burnin(
        top.text("run"), top.text("length"), began, ended, top.text("muster"), burnt, judgement,
        top.text("floors"), top.plain("options", fields.option), top.plain("environment", fields.text))


def _hardware(value: object, at: str) -> SkuHardware:
    fields = Fields(value, at)
    return SkuHardware(fields.text("gpu"), fields.number("gbps"))


def _fabric(of: Fields) -> FabricCoverage:
    unproven = []
    for item, at in of.items("unproven"):
        link, why = fields.row(item, 2, at)
        unproven.append((fields.text(link, at), fields.text(why, at)))
    return FabricCoverage(of.number("share"), of.text("routes") == "model", of.word("means", FabricMeans),
                          of.whole("rounds"), of.whole("pairs"), of.whole("links"), of.whole("proven"),
                          of.text("counters"), of.texts("slow"), tuple(unproven), of.texts("noise"),
                          of.texts("chance"))


def _place(of: Fields) -> Participant:
    rails = []
    for item, at in of.items("rails"):
        number, address, leaf = fields.row(item, 3, at)
        rails.append(Rail(fields.whole(number, at), fields.text(address, at),
                          None if leaf is None else fields.text(leaf, at)))
    return Participant(of.text("node"), of.whole("gpus"), of.maybe("sku", fields.text),
                       of.maybe("leaf", fields.text), of.maybe("domain", fields.text),
                       of.maybe("power", fields.text), of.maybe("watts", fields.number), tuple(rails))


def _accusation(of: Fields) -> Accusation:
    return Accusation(of.word("object", Object), of.text("name"), of.text("fault"), of.text("why"),
                      of.texts("for"), of.texts("against"), of.get("confirmed", bool),
                      of.texts("counted") if "counted" in of.held else (),
                      of.texts("nodes") if "nodes" in of.held else ())


def _counter(item: Any, at: str) -> CounterGrowth:
    node, subject, name, before, after, seconds = fields.row(item, 6, at)
    known = [None if value is None else fields.whole(value, at) for value in (before, after)]
    return CounterGrowth(fields.text(node, at), fields.text(subject, at), fields.text(name, at), known[0],
                         known[1], fields.number(seconds, at))


def _stage_counters(of: Fields) -> StageCounters:
    grew = [(fields.text(subject, at), fields.text(name, at), fields.whole(by, at))
            for item, at in of.items("grew") for subject, name, by in [fields.row(item, 3, at)]]
    unknown = [(fields.text(subject, at), fields.text(name, at), fields.text(why, at))
               for item, at in of.items("unknown") for subject, name, why in [fields.row(item, 3, at)]]
    return StageCounters(of.word("stage", BurnInStage), of.text("node"), of.plain("read", fields.whole),
                         tuple(grew), tuple(unknown), of.text("why"))


def _outcome(of: Fields) -> NodeOutcome:
    stages = []
    for item, at in of.items("stages"):
        stage, done, why = fields.row(item, 3, at)
        stages.append(StageDone(fields.word(stage, BurnInStage, at), fields.typed(done, bool, at),
                                fields.text(why, at)))
    return NodeOutcome(of.text("node"), of.word("outcome", BurnInOutcome), of.texts("why"), tuple(stages),
                       of.plain("figures", fields.number))


def _held(of: Fields) -> JudgedFigure:
    at = of.map("setting")
    setting = Setting(
        at.text("figure"), at.word("stage", BurnInStage).value, at.text("gpu"), at.whole("gpus"),
        at.whole("nodes"), at.whole("nics"),
        at.number("gbps"), at.whole("size"), at.text("algo"), at.whole("watts"), at.get("nvlink", bool),
        at.text("backend"),
        at.text("mount") if "mount" in at.held else "")
    floor = None
    if of.held.get("floor") is not None:
        floor_fields = of.map("floor")
        floor = Floor(floor_fields.number("least"), floor_fields.text("origin"), floor_fields.text("why"))
    return JudgedFigure(setting, of.whole("n"), of.number("median"), of.number("least"), floor,
                        of.get("equals", bool))


def _seat(text: str, at: str) -> Seat:
    node, colon, gpu = text.rpartition(":")
    if not node or not colon or not (gpu.isascii() and gpu.isdigit()) or len(gpu) > 5:
        raise fields.fail(at, "a seat such as gpu001:0", text)
    return Seat(node, int(gpu))


def _result(of: Fields) -> TaskResult:
    task = Task(
        of.text("id"), of.word("stage", BurnInStage), of.word("kind", TaskKind),
        tuple(_seat(fields.text(item, at), at) for item, at in of.items("seats")),
        of.number("seconds"), of.plain("params", fields.param), of.plain("environment", fields.text),
        of.plain("local", fields.texts) if "local" in of.held else MappingProxyType({}))
    return TaskResult(
        task, _reports(of.map("reports"), task),
        tuple(_accusation(Fields(item, at)) for item, at in of.items("accusations")),
        of.number("began"), of.number("ended"), of.maybe("named_after", fields.number))


def _reports(of: Fields, task: Task) -> tuple[RankReport, ...]:
    ranks = list(range(len(task.seats)))
    if "ranks" in of.held:
        ranks = [fields.whole(item, at) for item, at in of.items("ranks")]
        if any(not 0 <= rank < len(task.seats) for rank in ranks):
            raise fields.fail(of.place("ranks"), f"ranks below {len(task.seats)}", ranks)
    count = len(ranks)
    ends = [fields.word(value, RankEnd, of.place("end"))
            for value in _spread(of.held.get("end"), count, of.place("end"))]
    figures, checksums, facts = (_rows(of.map(key), count, read) for key, read in (
        ("figures", fields.number), ("checksums", fields.text), ("facts", fields.text)))
    odd = {}
    for item, at in of.items("odd"):
        one = Fields(item, at)
        odd[one.whole("at")] = _odd(one)
    return tuple(RankReport(task.seats[rank], ends[number], MappingProxyType(figures[number]),
                            MappingProxyType(checksums[number]), facts=MappingProxyType(facts[number]),
                            **odd.get(number, {})) for number, rank in enumerate(ranks))


def _spread(value: Any, count: int, at: str) -> list[Any]:
    """A column as one value for each rank."""
    if not isinstance(value, list):
        return [value] * count
    if len(value) != count:
        raise fields.fail(at, f"{count} values", f"{len(value)} of them")
    return value


def _rows(of: Fields, count: int, read: Callable[[Any, str], Any]) -> list[dict[str, Any]]:
    """Columns as a map for each rank."""
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, column in of.held.items():
        key, at = fields.text(name, of.at), of.place(clean(name, 60))
        if column is None or not isinstance(column, list):
            one = None if column is None else read(column, at)
            for row in found if one is not None else ():
                row[key] = one
            continue
        for row, value in zip(found, _spread(column, count, at), strict=True):
            if value is not None:
                row[key] = read(value, at)
    return found


def _where(item: Any, at: str) -> dict[str, Any]:
    check, places, inputs = fields.row(item, 3, at)
    pairs = [fields.row(pair, 2, at) for pair in fields.typed(places, list, at)]
    return {"check": fields.text(check, at),
            "places": tuple((fields.whole(place, at), fields.whole(owner, at)) for place, owner in pairs),
            "inputs": tuple(fields.whole(place, at) for place in fields.typed(inputs, list, at))}


def _odd(of: Fields) -> dict[str, Any]:
    wrong = []
    for item, at in of.items("wrong"):
        iteration, count, owners, own = fields.row(item, 4, at)
        of_ranks = tuple(fields.whole(owner, at) for owner in fields.typed(owners, list, at))
        wrong.append(WrongData(fields.whole(iteration, at), fields.whole(count, at), of_ranks,
                               fields.typed(own, bool, at)))
    if "where" in of.held:
        rows = list(of.items("where"))
        if len(rows) != len(wrong):
            raise fields.fail(of.place("where"), f"{len(wrong)} of them, as in wrong", rows)
        wrong = [replace(one, **_where(item, at)) for one, (item, at) in zip(wrong, rows, strict=True)]
    found: dict[str, Any] = {"code": of.maybe("code", fields.whole), "error": of.text("error"),
                             "wrong": tuple(wrong), "wrong_total": of.whole("wrong_total")}
    if "last" in of.held:
        last = of.map("last")
        found["last"] = RankProgress(last.whole("iteration"), last.text("phase"),
                                     last.maybe("moved", fields.number), last.maybe("alive", fields.number),
                                     last.text("state"))
    return found
