"""Reads a muster.burnin/1 document back. It may come from anywhere: bounded, and what is wrong with it is one line that names the place."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from healthcheck.burnin.counters import Counter
from healthcheck.burnin.document import SCHEMA, Burnin
from healthcheck.burnin.floors import Floor
from healthcheck.burnin.judge import Burnt
from healthcheck.burnin.judgement import Held, Judgement, NodeOutcome, Outcome, StageDone
from healthcheck.burnin.model import Accusation, End, Kind, Object, Place, Progress, Rail, Report, Seat, Stage, Task, TaskResult, Wrong
from healthcheck.burnin.published import Setting
from healthcheck.burnin.setting import Hardware
from inventory.errors import ConfigError
from inventory.text import clean, short

MOST_BYTES = 256 * 1024 * 1024
MOST_TEXT = 2000
MOST_ITEMS = 1_000_000
T = TypeVar("T")
E = TypeVar("E", bound=Enum)
_PLAIN = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "a map"}


def load(path: Path) -> Burnin:
    """The burn-in of a file; raises ConfigError."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    return read(data, str(path))


def read(data: bytes, name: str) -> Burnin:
    """The burn-in that a document holds; raises ConfigError, one line that begins with `name` and says where what is wrong."""
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{name}: is over the size limit of {MOST_BYTES} bytes")
    try:
        whole = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else clean(error, 120)
        raise ConfigError(f"{name}: not a JSON document: {said}") from None
    try:
        return _burnin(_Map(whole, ""))
    except _Wrong as error:
        raise ConfigError(f"{name}: {error}") from None


class _Wrong(Exception):
    """Where something is wrong, and what was expected."""


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


def _what(value: Any) -> str:
    return "nothing" if value is None else "a list" if isinstance(value, list) else "a map" if isinstance(value, dict) else short(value)


def _fail(at: str, expected: str, value: Any) -> _Wrong:
    return _Wrong(f"{at or 'the document'}: expected {expected}, got {_what(value)}")


class _Map:
    """A map of the document, whose keys are asked for by type."""

    def __init__(self, value: Any, at: str) -> None:
        if not isinstance(value, dict):
            raise _fail(at, "a map", value)
        self.held, self.at = value, at

    def place(self, key: str) -> str:
        return f"{self.at}.{key}" if self.at else key

    def get(self, key: str, kind: type[T]) -> T:
        return _typed(self.held.get(key), kind, self.place(key))

    def text(self, key: str) -> str:
        return self.get(key, str)

    def number(self, key: str) -> float:
        return _number(self.held.get(key), self.place(key))

    def whole(self, key: str) -> int:
        return _whole(self.held.get(key), self.place(key))

    def maybe(self, key: str, read: Callable[[Any, str], T]) -> T | None:
        value = self.held.get(key)
        return None if value is None else read(value, self.place(key))

    def items(self, key: str) -> Iterator[tuple[Any, str]]:
        for at, item in enumerate(self.get(key, list)):
            yield item, f"{self.place(key)}[{at}]"

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(_typed(item, str, at) for item, at in self.items(key))

    def map(self, key: str) -> _Map:
        return _Map(self.held.get(key), self.place(key))

    def word(self, key: str, kind: type[E]) -> E:
        return _word(self.held.get(key), kind, self.place(key))

    def plain(self, key: str, read: Callable[[Any, str], T]) -> Mapping[str, T]:
        inner = self.map(key)
        return MappingProxyType({_typed(name, str, inner.at): read(value, inner.place(clean(name, 60)))
                                 for name, value in inner.held.items()})


def _typed(value: Any, kind: type[T], at: str) -> T:
    if type(value) is not kind or (isinstance(value, str) and len(value) > MOST_TEXT) or (
            isinstance(value, (list, dict)) and len(value) > MOST_ITEMS):
        bound = f" of at most {MOST_TEXT} characters" if kind is str else ""
        raise _fail(at, _PLAIN[kind] + bound, value)
    # What was written is clean; what was edited, or comes from elsewhere, need not be.
    return clean(value, MOST_TEXT) if isinstance(value, str) else value  # type: ignore[return-value]


def _text(value: Any, at: str) -> str:
    return _typed(value, str, at)


def _texts(value: Any, at: str) -> Mapping[str, str]:
    return MappingProxyType({_text(name, at): _text(each, f"{at}.{clean(name, 60)}") for name, each in _typed(value, dict, at).items()})


def _whole(value: Any, at: str) -> int:
    if type(value) is not int or abs(value) >= 2**63:
        raise _fail(at, "a whole number", value)
    return value


def _number(value: Any, at: str) -> float:
    if type(value) not in (int, float) or abs(value) > 1e300 or not math.isfinite(value):
        raise _fail(at, "a number", value)
    return float(value)


def _word(value: Any, kind: type[E], at: str) -> E:
    for member in kind:
        if member.value == value:
            return member
    raise _fail(at, f"one of {', '.join(str(member.value) for member in kind)}", value)


def _row(value: Any, length: int, at: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != length:
        raise _fail(at, f"a list of {length}", value)
    return value


def _time(text: str, at: str) -> float:
    try:
        return dt.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        raise _fail(at, "a time such as 2026-01-31T12:00:00.000Z", text) from None


def _option(value: Any, at: str) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool):
        return value
    return _text(value, at) if isinstance(value, str) else _whole(value, at) if isinstance(value, int) else _number(value, at)


def _param(value: Any, at: str) -> str | int | float:
    found = _option(value, at)
    if found is None or isinstance(found, bool):
        raise _fail(at, "text or a number", value)
    return found


def _burnin(top: _Map) -> Burnin:
    if top.held.get("schema") != SCHEMA:
        raise _fail("schema", SCHEMA, top.held.get("schema"))
    places = tuple(_place(_Map(item, at)) for item, at in top.items("places"))
    asked = []
    for item, at in top.items("asked"):
        stage, kind = _row(item, 2, at)
        asked.append((_word(stage, Stage, at), _word(kind, Kind, at)))
    missing = {_word(stage, Stage, "missing"): why for stage, why in top.plain("missing", _text).items()}
    burnt = Burnt(
        places, tuple(_result(_Map(item, at)) for item, at in top.items("tasks")), tuple(asked),
        tuple(_accusation(_Map(item, at)) for item, at in top.items("found")),
        tuple(_counter(item, at) for item, at in top.items("counters")), MappingProxyType(missing),
        top.plain("hardware", lambda value, at: Hardware(_Map(value, at).text("gpu"), _Map(value, at).number("gbps"))))
    judgement = Judgement(
        tuple(_outcome(_Map(item, at)) for item, at in top.items("nodes")),
        tuple(_accusation(_Map(item, at)) for item, at in top.items("accusations")),
        tuple(_held(_Map(item, at)) for item, at in top.items("held")), top.texts("remarks"))
    if top.word("verdict", Outcome) is not judgement.verdict:
        raise _fail("verdict", f"{judgement.verdict.value}, which is what follows from its nodes and accusations", top.held["verdict"])
    return Burnin(
        top.text("run"), top.text("length"), _time(top.text("began"), "began"), _time(top.text("ended"), "ended"), top.text("muster"),
        burnt, judgement, top.text("floors"), top.plain("options", _option), top.plain("environment", _text))


def _place(of: _Map) -> Place:
    rails = []
    for item, at in of.items("rails"):
        number, address, leaf = _row(item, 3, at)
        rails.append(Rail(_whole(number, at), _text(address, at), None if leaf is None else _text(leaf, at)))
    return Place(
        of.text("node"), of.whole("gpus"), of.maybe("sku", _text), of.maybe("leaf", _text),
        of.maybe("domain", _text), of.maybe("power", _text), of.maybe("watts", _number), tuple(rails))


def _accusation(of: _Map) -> Accusation:
    return Accusation(of.word("object", Object), of.text("name"), of.text("fault"), of.text("why"), of.texts("for"), of.texts("against"),
                      of.get("confirmed", bool))


def _counter(item: Any, at: str) -> Counter:
    node, subject, name, before, after, seconds = _row(item, 6, at)
    known = [None if value is None else _whole(value, at) for value in (before, after)]
    return Counter(_text(node, at), _text(subject, at), _text(name, at), known[0], known[1], _number(seconds, at))


def _outcome(of: _Map) -> NodeOutcome:
    stages = []
    for item, at in of.items("stages"):
        stage, done, why = _row(item, 3, at)
        stages.append(StageDone(_word(stage, Stage, at), _typed(done, bool, at), _text(why, at)))
    return NodeOutcome(of.text("node"), of.word("outcome", Outcome), of.texts("why"), tuple(stages), of.plain("figures", _number))


def _held(of: _Map) -> Held:
    at = of.map("setting")
    setting = Setting(
        at.text("figure"), at.word("stage", Stage).value, at.text("gpu"), at.whole("gpus"), at.whole("nodes"), at.whole("nics"),
        at.number("gbps"), at.whole("size"), at.text("algo"), at.whole("watts"), at.get("nvlink", bool), at.text("backend"))
    floor = None
    if of.held.get("floor") is not None:
        told = of.map("floor")
        floor = Floor(told.number("least"), told.text("origin"), told.text("why"))
    return Held(setting, of.whole("n"), of.number("median"), of.number("least"), floor, of.get("equals", bool))


def _seat(text: str, at: str) -> Seat:
    node, colon, gpu = text.rpartition(":")
    if not node or not colon or not (gpu.isascii() and gpu.isdigit()) or len(gpu) > 5:
        raise _fail(at, "a seat such as gpu001:0", text)
    return Seat(node, int(gpu))


def _result(of: _Map) -> TaskResult:
    task = Task(
        of.text("id"), of.word("stage", Stage), of.word("kind", Kind), tuple(_seat(_text(item, at), at) for item, at in of.items("seats")),
        of.number("seconds"), of.plain("params", _param), of.plain("environment", _text),
        of.plain("local", _texts) if "local" in of.held else MappingProxyType({}))
    return TaskResult(
        task, _reports(of.map("reports"), task), tuple(_accusation(_Map(item, at)) for item, at in of.items("accusations")),
        of.number("began"), of.number("ended"), of.maybe("named_after", _number))


def _reports(of: _Map, task: Task) -> tuple[Report, ...]:
    ranks = list(range(len(task.seats)))
    if "ranks" in of.held:
        ranks = [_whole(item, at) for item, at in of.items("ranks")]
        if any(not 0 <= rank < len(task.seats) for rank in ranks):
            raise _fail(of.place("ranks"), f"ranks below {len(task.seats)}", ranks)
    count = len(ranks)
    ends = [_word(value, End, of.place("end")) for value in _spread(of.held.get("end"), count, of.place("end"))]
    figures, checksums, facts = (_rows(of.map(key), count, read) for key, read in (
        ("figures", _number), ("checksums", _text), ("facts", _text)))
    odd = {}
    for item, at in of.items("odd"):
        one = _Map(item, at)
        odd[one.whole("at")] = _odd(one)
    return tuple(
        Report(task.seats[rank], ends[number], MappingProxyType(figures[number]), MappingProxyType(checksums[number]),
               facts=MappingProxyType(facts[number]), **odd.get(number, {}))
        for number, rank in enumerate(ranks))


def _spread(value: Any, count: int, at: str) -> list[Any]:
    """A column as one value for each rank."""
    if not isinstance(value, list):
        return [value] * count
    if len(value) != count:
        raise _fail(at, f"{count} values", f"{len(value)} of them")
    return value


def _rows(of: _Map, count: int, read: Callable[[Any, str], Any]) -> list[dict[str, Any]]:
    """Columns as a map for each rank."""
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, column in of.held.items():
        key, at = _text(name, of.at), of.place(clean(name, 60))
        if column is None or not isinstance(column, list):
            one = None if column is None else read(column, at)
            for row in found if one is not None else ():
                row[key] = one
            continue
        for row, value in zip(found, _spread(column, count, at), strict=True):
            if value is not None:
                row[key] = read(value, at)
    return found


def _odd(of: _Map) -> dict[str, Any]:
    wrong = []
    for item, at in of.items("wrong"):
        iteration, count, owners, own = _row(item, 4, at)
        wrong.append(Wrong(_whole(iteration, at), _whole(count, at), tuple(_whole(owner, at) for owner in _typed(owners, list, at)),
                           _typed(own, bool, at)))
    found: dict[str, Any] = {"code": of.maybe("code", _whole), "error": of.text("error"), "wrong": tuple(wrong),
             "wrong_total": of.whole("wrong_total")}
    if "last" in of.held:
        last = of.map("last")
        found["last"] = Progress(last.whole("iteration"), last.text("phase"),
                                 last.maybe("moved", _number), last.maybe("alive", _number), last.text("state"))
    return found
