"""Reads a muster.change/1 document, which people may have edited: bounded, and a mistake is one line."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

from healthcheck.burnin import fields
from healthcheck.burnin.fields import Fields
from healthcheck.change.document import SCHEMA
from healthcheck.change.model import (
    ChangeJudgement,
    ChangeVerdict,
    Compared,
    FigureSeries,
    Grade,
    LogForm,
    LoggedForms,
    NodeStanding,
    SiteChange,
    Stood,
)
from inventory.nodeset import NAME
from inventory.text import clean

LARGEST = 64 * 1024 * 1024
_MOST_TIME = 1e11       # epoch seconds, the year 5138


def load(path: Path) -> SiteChange:
    """The change of a file; raises ConfigError."""
    return read(fields.content(path, LARGEST), clean(path))


def read(data: bytes, name: str) -> SiteChange:
    """The change of a document; raises ConfigError, one line with `name` and the place of the mistake."""
    return fields.read_document(data, name, LARGEST, _change)


def _change(top: Fields) -> SiteChange:
    if top.held.get("schema") != SCHEMA:
        raise fields.fail("schema", SCHEMA, top.held.get("schema"))
    return SiteChange(
        name=top.text("name"), who=top.text("who"), began=_time(top, "began"), canary=_nodes(top, "canary"),
        controls=_nodes(top, "controls"), chosen=top.text("chosen"),
        rings=tuple(tuple(_node_name(name, f"{at}[{number}]")
                          for number, name in enumerate(fields.typed(item, list, at)))
                    for item, at in top.items("rings")),
        without=top.texts("without"), before=_standing(top.map("before")),
        judgements=tuple(_judgement(Fields(item, at)) for item, at in top.items("judgements")))


def _standing(of: Fields) -> Stood:
    nodes = of.map("nodes")
    return Stood(
        of.text("source"), of.text("rules"),
        MappingProxyType({_node_name(name, nodes.at): _node(Fields(value, nodes.place(clean(name, 60))))
                          for name, value in nodes.held.items()}),
        of.plain("forms", _form), tuple(_series(Fields(item, at)) for item, at in of.items("figures")),
        of.texts("runs"))


def _node(of: Fields) -> NodeStanding:
    return NodeStanding(
        _time(of, "time"), frozenset(of.texts("failing")), frozenset(of.texts("unmeasured")),
        of.plain("versions", fields.text), of.text("boot"), of.maybe("log", _log), of.text("missing"),
        of.text("unlogged"), frozenset(of.texts("skipped")), of.get("skips", int))


def _log(value: Any, at: str) -> LoggedForms:
    of = Fields(value, at)
    return LoggedForms(frozenset(of.texts("ids")), frozenset(of.texts("starting")), of.get("whole", bool))


def _form(value: Any, at: str) -> LogForm:
    template, priority, report = fields.row(value, 3, at)
    if priority is not None and not 0 <= fields.whole(priority, f"{at}[1]") <= 7:
        raise fields.fail(f"{at}[1]", "a priority from 0 to 7", priority)
    return LogForm(fields.text(template, f"{at}[0]"), priority, fields.typed(report, bool, f"{at}[2]"))


def _series(of: Fields) -> FigureSeries:
    return FigureSeries(of.text("figure"), of.text("subject"), _nodes(of, "nodes"),
                        tuple(fields.number(item, at) for item, at in of.items("values")))


def _judgement(of: Fields) -> ChangeJudgement:
    return ChangeJudgement(
        _time(of, "time"), of.text("who"), of.word("verdict", ChangeVerdict), of.text("after"),
        tuple(_comparison(Fields(item, at)) for item, at in of.items("comparisons")), of.texts("remarks"))


def _comparison(of: Fields) -> Compared:
    return Compared(of.text("kind"), of.text("key"), of.word("grade", Grade), of.text("words"),
                      _nodes(of, "nodes"))


def _nodes(of: Fields, key: str) -> tuple[str, ...]:
    return tuple(_node_name(item, at) for item, at in of.items(key))


def _node_name(value: Any, at: str) -> str:
    if not isinstance(value, str) or NAME.fullmatch(value) is None:
        raise fields.fail(at, "a node's name", value)
    return value


def _time(of: Fields, key: str) -> float:
    found = of.number(key)
    if not 0 <= found <= _MOST_TIME:
        raise fields.fail(of.place(key), "epoch seconds", found)
    return found
