"""Reads `burnin.yaml` of the rules folders; a mistake is one line with file, line, column and key.

A later folder's file overrides earlier ones: published figures and counters by id and key (`enabled: false`
removes one), other sections by key. It is data: nothing in it is ever executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from healthcheck.burnin.figures import FIGURES
from healthcheck.burnin.model import BurnInStage
from healthcheck.burnin.published import (
    ALGOS,
    BUSBW,
    CHECKSUMS,
    FILE,
    GIB,
    GLOO,
    NCCL,
    BurninRules,
    CounterLimit,
    PublishedFigure,
    ScreenPolicy,
    learning_stage,
)
from healthcheck.config.entry import Entry, entry_of, kind_of, known_keys, nearest, overlay
from healthcheck.config.valuetypes import (
    FLAG,
    NAME,
    TEXT,
    ValueType,
    integer,
    list_of,
    needed,
    number,
    optional,
    parse_value,
)
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, LocatedMap, load_yaml
from inventory.ncclenv import checked

_MOST = 1e9
_STAGES = tuple(dict.fromkeys(learning_stage(stage).value for stage in BurnInStage))
_RANGE = re.compile(r"([1-9]\d{0,5})(?:-([1-9]\d{0,5}))?")


def chosen(known: Iterable[str]) -> ValueType:
    """One of these words."""
    words = tuple(known)

    def read(given: Any) -> str:
        if given not in words:
            raise ValueError
        return str(given)

    return ValueType(f"one of {', '.join(words)}", read, words)


def span(given: Any) -> tuple[int, int]:
    """Numbers of nodes: one, or a range such as 2-8; raises ValueError."""
    match = _RANGE.fullmatch(str(given)) if type(given) in (int, str) else None
    if match is None or int(match[1]) > int(match[2] or match[1]):
        raise ValueError
    return int(match[1]), int(match[2] or match[1])


NODES = ValueType("a number of nodes such as 2, or a range such as 2-8", span)
_WORD = ValueType("a word of letters, digits, _ and -", lambda given: _matched(given, r"[A-Za-z0-9_-]{1,60}"))
_POSITIVE, _RATIO = number(1e-6, _MOST), number(0.01, 100)

_PUBLISHED: Mapping[str, ValueType] = {
    "figure": chosen(FIGURES), "source": _WORD, "gpu": _WORD,
    "but": list_of("words of a product's name", _WORD), "gpus": integer(1, 1024),
    "nodes": NODES, "nics": integer(1, 64), "gbps": _POSITIVE, "nvlink": FLAG, "size_gib": _POSITIVE,
    "algo": list_of("algorithms", chosen(ALGOS)), "watts": integer(1, 100_000), "value": _POSITIVE,
    "per": chosen(("nic",)),
    "share": number(0.01, 1), "peak": _POSITIVE, "enabled": FLAG,
}
_OF_BUFFERS = ("size_gib", "algo", "nvlink")
_LIMIT: Mapping[str, ValueType] = {
    "counters": list_of("names of counters", _WORD), "allow": number(0, _MOST),
    "allow_per_hour": number(0, _MOST), "below_gbps": _POSITIVE,
    "why": TEXT, "source": TEXT, "enabled": FLAG,
}
_ACCEPTABLE = ValueType("a figure and a stage such as busbw_gb_s in all", lambda given: _accepted(given))
_ACCEPTED = ValueType("a list of what may pass unjudged, each a figure and a stage such as busbw_gb_s in all",
                      lambda given: _listed(given), item=_ACCEPTABLE)
_BACKENDS = {NCCL: optional(_RATIO), GLOO: optional(_RATIO)}
_SECTIONS: Mapping[str, Mapping[str, ValueType]] = {
    "floors": {"share": number(0.01, 1), "least_gib": number(0, _MOST), "believed": number(1, 100)},
    "learn": {"nodes": integer(2, 100_000), "runs": integer(1, 1000), "warn_share": number(0.01, 1),
              "least_share": number(0.1, 1)},
    "accept": dict.fromkeys((NCCL, GLOO), _ACCEPTED),
    "relative": _BACKENDS, "jitter": _BACKENDS, "coverage": {NCCL: optional(number(0, 1))},
    "age": {"days": number(0.01, 3660)},
    "screen": {"days": number(0.01, 3660), "nodes": integer(1, 100_000), "node_hours": number(0.01, _MOST)},
}
_PROFILE: Mapping[str, ValueType] = {
    "env": ValueType("a map of NCCL settings", lambda given: _settings(given)),
    "source": TEXT, "enabled": FLAG,
}
_TOP = ("sources", "published", "counters", "env_profiles", *_SECTIONS)


class _Draft:
    """The rules while files are laid over each other."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.entries: dict[str, dict[str, Entry]] = {"published": {}, "counters": {}, "env_profiles": {}}
        self.sections: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
        self.sources: dict[str, str] = {}


def load_burnin(folders: Iterable[Path]) -> BurninRules:
    """The merged rules of all folders; raises RulesError."""
    draft, searched = _Draft(), []
    for folder in folders:
        searched.append(str(folder))
        if (path := folder / FILE).is_file():
            _read(draft, path)
    if not draft.files:
        raise RulesError(f"no rules folder holds a {FILE}: looked in {', '.join(searched)}")
    end = Mark(draft.files[-1], 1, 1)
    held = {name: _section(draft, name, end) for name in _SECTIONS}
    published = tuple(_published(one, draft.sources) for one in _there(draft, "published"))
    floors, learn = held["floors"], held["learn"]
    return BurninRules(
        published, tuple(_limit(one) for one in _there(draft, "counters")), floors["share"],
        int(floors["least_gib"] * GIB),
        floors["believed"], learn["nodes"], learn["runs"], learn["warn_share"], learn["least_share"],
        MappingProxyType(held["relative"]), MappingProxyType(held["jitter"]),
        MappingProxyType(held["coverage"]),
        MappingProxyType(held["accept"]), held["age"]["days"], ScreenPolicy(**held["screen"]),
        MappingProxyType({one.name: _profile(one) for one in _there(draft, "env_profiles")}),
        MappingProxyType(draft.sources),
        tuple(draft.files))


def _read(draft: _Draft, path: Path) -> None:
    top = load_yaml(path, error=RulesError)
    if not isinstance(top, LocatedMap):
        raise RulesError(f"expected a map of {', '.join(_TOP)}; got {kind_of(top)}", Mark(str(path), 1, 1))
    known_keys(top, _TOP, "")
    draft.files.append(str(path))
    if "sources" in top:
        texts = _map(top, "sources")
        draft.sources.update({key: parse_value(f"sources: {key}", texts[key], texts.value_marks[key], TEXT)
                              for key in texts})
    for section, forms in (("published", _PUBLISHED), ("counters", _LIMIT), ("env_profiles", _PROFILE)):
        for item, mark in _items(top, section):
            entry = entry_of(item, ("id", *forms), "id", mark)
            parse_value("id", entry.name, entry.marks["id"], NAME)
            for key, form in forms.items():
                if key in entry.values:
                    entry.values[key] = parse_value(f"{section}: {entry.name}: {key}", entry.values[key],
                                              entry.marks[key], form)
            overlay(draft.entries[section], entry, "id")
    for name, forms in _SECTIONS.items():
        if name in top:
            given = _map(top, name)
            known_keys(given, list(forms), f"{name}: ")
            for key in given:
                draft.sections[name][key] = parse_value(f"{name}: {key}", given[key], given.value_marks[key],
                                                  forms[key])


def _map(top: LocatedMap, key: str) -> LocatedMap:
    found = top[key]
    if not isinstance(found, LocatedMap):
        raise RulesError(f"{key}: expected a map, got {kind_of(found)}", top.value_marks[key])
    return found


def _items(top: LocatedMap, key: str) -> list[tuple[Any, Mark]]:
    if key not in top:
        return []
    found = top[key]
    if not isinstance(found, LocatedList):
        raise RulesError(f"{key}: expected a list, got {kind_of(found)}", top.value_marks[key])
    return [(item, found.value_marks[at]) for at, item in enumerate(found)]


def _section(draft: _Draft, name: str, mark: Mark) -> dict[str, Any]:
    needed(draft.sections[name], _SECTIONS[name], _SECTIONS[name], name, mark)
    return draft.sections[name]


def _there(draft: _Draft, section: str) -> list[Entry]:
    return [entry for entry in draft.entries[section].values() if entry.values.get("enabled", True)]


def _published(entry: Entry, sources: Mapping[str, str]) -> PublishedFigure:
    held, where = entry.values, f"published: {entry.name}"
    needed(held, ("figure", "source"), _PUBLISHED, where, entry.mark)
    if "value" not in held and "peak" not in held:
        raise RulesError(f"{where}: value is missing: expected a value, a peak, or both", entry.mark)
    if held["source"] not in sources:
        raise RulesError(f"{where}: source: there is no {held['source']!r} in "
                         f"sources{nearest(held['source'], sources)}", entry.marks["source"])
    for key in _OF_BUFFERS:
        if (key in held) != (held["figure"] == BUSBW):
            problem = (f"{key} is missing: expected {_PUBLISHED[key].phrase}"
                    if key not in held else f"{key}: is for {BUSBW} only")
            raise RulesError(f"{where}: {problem}", entry.marks.get(key, entry.mark))
    if "gpu" not in held and "gbps" not in held:
        raise RulesError(f"{where}: gpu is missing: expected a gpu, or the gbps of NICs that bound any of "
                         "them", entry.mark)
    plain = {key: held[key] for key in ("figure", "gpu", "but", "gpus", "nodes", "nics", "gbps", "nvlink",
                                        "algo", "watts", "value", "share", "peak") if key in held}
    return PublishedFigure(id=entry.name, source=sources[held["source"]],
                           size=int(held.get("size_gib", 0) * GIB), per_nic="per" in held,
                           file=entry.mark.file, **plain)


def _limit(entry: Entry) -> CounterLimit:
    held, where = entry.values, f"counters: {entry.name}"
    needed(held, ("counters", "why", "source"), _LIMIT, where, entry.mark)
    if ("allow" in held) == ("allow_per_hour" in held):
        raise RulesError(f"{where}: allow is missing: expected either allow or allow_per_hour",
                         entry.marks.get("allow", entry.mark))
    return CounterLimit(entry.name, held["counters"], held["why"], held["source"], held.get("allow"),
                        held.get("allow_per_hour"), held.get("below_gbps"))


def _profile(entry: Entry) -> Mapping[str, str]:
    needed(entry.values, ("env", "source"), _PROFILE, f"env_profiles: {entry.name}", entry.mark)
    found: Mapping[str, str] = entry.values["env"]
    return found


def _settings(given: Any) -> Mapping[str, str]:
    if not isinstance(given, LocatedMap):
        raise ValueError
    return MappingProxyType(dict(checked(name, value, inventory=False) for name, value in given.items()))


def _listed(given: Any) -> Any:
    if not isinstance(given, LocatedList):
        raise ValueError
    return given


def _accepted(given: Any) -> str:
    figure, _, stage = given.partition(" in ") if isinstance(given, str) else ("", "", "")
    if figure not in (*FIGURES, CHECKSUMS) or stage not in _STAGES:
        raise ValueError
    return str(given)


def _matched(given: Any, pattern: str) -> str:
    if not isinstance(given, str) or not re.fullmatch(pattern, given):
        raise ValueError
    return given
