"""Agents' messages, read: their JSON as bounded, clean values; what is not understood is None. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from healthcheck.burnin import limits
from healthcheck.burnin.figures import known
from healthcheck.burnin.model import RankEnd, RankProgress, RankReport, Seat, WrongData
from healthcheck.burnin.wire import PHASES
from inventory.text import clean

_ENDS = {"done": RankEnd.DONE, "raised": RankEnd.RAISED, "called off": RankEnd.CALLED_OFF}
_DAY = 86400.0


@dataclass(frozen=True)
class AgentReady:
    """An agent's report before ranks start: versions, GPUs, and why PyTorch is missing (torch None)."""

    node: str
    python: str
    host: str
    gpus: int
    torch: str | None
    why: str = ""
    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class Position:
    """Where a rank is: of which task, and its ages in seconds turned into the head's clock."""

    task: str
    rank: int
    progress: RankProgress


@dataclass(frozen=True)
class RankEnded:
    """A rank's process ended: waitpid's word, and the last line that it printed."""

    task: str
    rank: int
    code: int | None
    signal: int | None
    last_line: str = ""


def ready(node: str, message: Mapping[str, Any]) -> AgentReady | None:
    """The agent's {"here": ...}."""
    value = message.get("here")
    if not isinstance(value, dict):
        return None
    torch = value.get("torch")
    return AgentReady(node, _text(value.get("python")), _text(value.get("host")),
                      _whole(value.get("gpus"), 1024) or 0, None if torch is None else _text(torch),
                      _text(value.get("why")), _texts(value.get("facts"), limits.REPORT_FACT))


def tasks(message: Mapping[str, Any]) -> set[str]:
    """The names of the tasks that a message speaks of."""
    parts = [message.get("joined"), message.get("report"), message.get("ended"),
             *_first(message.get("ranks"), limits.REPORT_RANKS)]
    return {each["task"] for each in parts if isinstance(each, dict) and isinstance(each.get("task"), str)}


def joined(message: Mapping[str, Any]) -> tuple[str, int] | None:
    """The task and rank of {"joined": ...}."""
    return _place(message.get("joined"))


def positions(message: Mapping[str, Any], at: float) -> list[Position]:
    """Where ranks are, of {"ranks": [...]} that came at `at`."""
    found = []
    for each in _first(message.get("ranks"), limits.REPORT_RANKS):
        place = _place(each)
        if place is None:
            continue
        moved, tick, phase, state = (each.get(word) for word in ("moved", "tick", "phase", "state"))
        found.append(Position(*place, RankProgress(
            _iteration(each), phase if phase in PHASES else "", _before(at, moved), _before(at, tick),
            state if isinstance(state, str) and len(state) == 1 and state.isalpha() else "")))
    return found


def ended(message: Mapping[str, Any]) -> RankEnded | None:
    """{"ended": ...}."""
    value = message.get("ended")
    place = _place(value)
    if place is None or not isinstance(value, dict):
        return None
    return RankEnded(*place, _whole(value.get("code"), 1 << 31, least=-(1 << 31)),
                     _whole(value.get("signal"), 256), _text(value.get("output")))


def report(message: Mapping[str, Any], seat: Seat | None = None) -> tuple[str, int, RankReport] | None:
    """Task, rank and report of {"report": ...}; `seat` is the rank's seat if it is known."""
    whole = message.get("report")
    place = _place(whole)
    if place is None or not isinstance(whole, dict) or not isinstance(whole.get("report"), dict):
        return None
    body = whole["report"]
    figures = {name: float(value) for name, value in _items(body.get("figures")) if known(name)
               and isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
               and math.isfinite(value)}
    last = body.get("last")
    progress = RankProgress()
    if isinstance(last, dict):
        phase = last.get("phase")
        progress = RankProgress(_iteration(last), phase if phase in PHASES else "")
    end = body.get("end")
    return (*place, RankReport(
        seat or Seat("", 0), _ENDS.get(end, RankEnd.RAISED) if isinstance(end, str) else RankEnd.RAISED,
        MappingProxyType(figures), _texts(body.get("checksums"), 128), _wrongs(body.get("wrong")),
        _whole(body.get("wrong_total"), 1 << 62) or 0, _texts(body.get("facts"), limits.REPORT_FACT),
        _whole(body.get("code"), 1 << 31, least=-(1 << 31)), _text(body.get("error")), progress))


def _wrongs(value: Any) -> tuple[WrongData, ...]:
    found = []
    for each in _first(value, limits.REPORT_ITERATIONS):
        if not isinstance(each, dict):
            continue
        owners = {_whole(owner, 1 << 24) for owner in _first(each.get("owners"), limits.REPORT_OWNERS)}
        found.append(WrongData(_iteration(each), _whole(each.get("count"), 1 << 62) or 0,
                               tuple(sorted(owner for owner in owners if owner is not None)),
                               each.get("own_input") is True, _text(each.get("check")),
                               _places(each.get("places")), _inputs(each.get("inputs"))))
    return tuple(found)


def _places(value: Any) -> tuple[tuple[int, int], ...]:
    pairs = [each for each in _first(value, limits.REPORT_PLACES)
             if isinstance(each, list) and len(each) == 2]
    found = [(_whole(place, 1 << 62), _whole(owner, 1 << 24, least=-1)) for place, owner in pairs]
    return tuple((place, owner) for place, owner in found if place is not None and owner is not None)


def _inputs(value: Any) -> tuple[int, ...]:
    found = [_whole(place, 1 << 62) for place in _first(value, limits.REPORT_PLACES)]
    return tuple(place for place in found if place is not None)


def _place(value: Any) -> tuple[str, int] | None:
    if not isinstance(value, dict):
        return None
    task, rank = value.get("task"), _whole(value.get("rank"), 1 << 24)
    return (task, rank) if isinstance(task, str) and rank is not None else None


def _before(at: float, age: Any) -> float | None:
    """When it was, by the head's clock; an age that is none, or of the future, is now or never."""
    if not isinstance(age, (int, float)) or isinstance(age, bool) or not age < _DAY:
        return None
    return at - max(0.0, float(age))


def _whole(value: Any, most: int, least: int = 0) -> int | None:
    return (value if isinstance(value, int) and not isinstance(value, bool)
            and least <= value <= most else None)


def _iteration(held: Mapping[str, Any]) -> int:
    number = _whole(held.get("iteration"), 1 << 40, least=-1)
    return -1 if number is None else number


def _first(value: Any, most: int) -> list[Any]:
    return value[:most] if isinstance(value, list) else []


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items())[:limits.REPORT_ENTRIES] if isinstance(value, dict) else []


def _texts(values: Any, most: int) -> Mapping[str, str]:
    return MappingProxyType({clean(name, 64): clean(value, most) for name, value in _items(values)
                             if isinstance(value, (str, int, float))})


def _text(value: Any) -> str:
    return clean(value, limits.REPORT_TEXT) if isinstance(value, (str, int, float)) else ""
