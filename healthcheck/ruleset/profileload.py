"""Reads profiles from entries of YAML; every mistake is one line with its place."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from healthcheck.config.entry import Entry, kind_of, known_keys, nearest
from healthcheck.config.formernames import with_current_names
from healthcheck.ruleset.profile import NodeBudget, OnUnknown, Profile, UnknownPolicy
from healthcheck.ruleset.rule import Rule
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, LocatedMap

_CONTENT = ("only", "leave_out", "enable", "budget", "unknown")
_SHORTEST_S, _LONGEST_S = 1.0, 3600.0


def profile(entry: Entry, rules: Sequence[Rule]) -> Profile:
    """The profile in an entry; raises RulesError, with its place, for a mistake."""
    title = entry.values.get("title", "")
    if not isinstance(title, str):
        raise _mistake(entry, "title", f"expected text, got {kind_of(title)}")
    if not any(key in entry.values for key in _CONTENT):
        raise RulesError(
            f"profile {entry.name}: is empty: expected at least one of {', '.join(_CONTENT)}", entry.mark)
    only, leave_out, enable = (_globs(entry, key, rules) for key in ("only", "leave_out", "enable"))
    loaded = Profile(entry.name, " ".join(title.split()), only, leave_out, enable, _budget(entry),
                   _unknown(entry, rules), entry.mark.file)
    if all(loaded.leaves_out(rule.id) for rule in rules):
        key = "leave_out" if loaded.leave_out else "only"
        raise RulesError(f"profile {entry.name}: {key} leaves no rule to judge", entry.marks[key])
    return loaded


def _mistake(entry: Entry, key: str, text: str, mark: Mark | None = None) -> RulesError:
    """A mistake in a profile under this key, which stands at `mark`."""
    return RulesError(f"profile {entry.name}: {key}: {text}", mark or entry.marks[key])


def _globs(entry: Entry, key: str, rules: Sequence[Rule]) -> tuple[str, ...]:
    if key not in entry.values:
        return ()
    globs = entry.values[key]
    if not isinstance(globs, LocatedList) or not globs:
        raise _mistake(entry, key, f"expected a list of globs over the ids of rules, got {kind_of(globs)}")
    return tuple(name for at, glob in enumerate(globs)
                 for name in _glob(entry, key, glob, globs.value_marks[at], rules))


def _glob(entry: Entry, key: str, glob: Any, mark: Mark, rules: Sequence[Rule]) -> tuple[str, ...]:
    if isinstance(glob, str):
        globs = with_current_names([glob], {old: rule.id for rule in rules for old in rule.formerly})
        if any(fnmatchcase(rule.id, each) for rule in rules for each in globs):
            return globs
    hint = nearest(str(glob), [rule.id for rule in rules])
    raise _mistake(entry, key, f"no rule matches {kind_of(glob)}{hint}; `muster rules list` names them", mark)


def _map(entry: Entry, key: str, keys: Sequence[str]) -> LocatedMap:
    value = entry.values[key]
    if not isinstance(value, LocatedMap) or not value:
        raise _mistake(entry, key, f"expected a map of {', '.join(keys)}; got {kind_of(value)}")
    known_keys(value, keys, f"profile {entry.name}: {key}: ")
    return value


def _budget(entry: Entry) -> NodeBudget:
    if "budget" not in entry.values:
        return NodeBudget()
    given = _map(entry, "budget", ("seconds", "cpu_seconds"))
    for key, value in given.items():
        if type(value) not in (int, float) or not _SHORTEST_S <= value <= _LONGEST_S:
            problem = f"expected seconds from {_SHORTEST_S:g} to {_LONGEST_S:g}, got {kind_of(value)}"
            raise _mistake(entry, f"budget: {key}", problem, given.value_marks[key])
    return NodeBudget(given.get("seconds"), given.get("cpu_seconds"))


def _unknown(entry: Entry, rules: Sequence[Rule]) -> OnUnknown | None:
    if "unknown" not in entry.values:
        return None
    given = _map(entry, "unknown", ("node", "muster", "rules"))
    policies = {key: _policy(entry, f"unknown: {key}", given[key], given.value_marks[key])
                for key in ("node", "muster") if key in given}
    globs = given.get("rules", LocatedMap(entry.mark))
    if not isinstance(globs, LocatedMap):
        raise _mistake(entry, "unknown: rules", "expected a map from globs to block or allow",
                       given.value_marks["rules"])
    return OnUnknown(**policies, rules=tuple(
        (name, _policy(entry, f"unknown: rules: {glob}", policy, globs.value_marks[glob]))
        for glob, policy in globs.items() for name in _glob(entry, "unknown: rules", glob,
                                                            globs.key_marks[glob], rules)))


def _policy(entry: Entry, where: str, value: Any, mark: Mark) -> UnknownPolicy:
    if value not in ("block", "allow"):
        raise _mistake(entry, where, f"expected block or allow, got {kind_of(value)}", mark)
    return UnknownPolicy(value)
