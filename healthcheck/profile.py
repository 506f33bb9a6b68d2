"""Profiles: which rules are judged on what nodes or on what occasion, what that may cost, and what an UNKNOWN is worth then.

A node's own profile, in the inventory, says what cannot be asked of it (`unprivileged`). A profile of the command line is of the
occasion (`bringup`, `timer`, `gate`). Both count for which rules are judged: what either leaves out is left out. Budget and the word on
UNKNOWN are of the occasion alone, and the strictest of several holds.

    profile: timer
    only: [gpu-*, port-*]                 # judge these and no others
    leave_out: [docker-*]                 # and of them not these
    enable: [gpu-idle]                    # rules that are `enabled: false` otherwise
    budget: {seconds: 20, cpu_seconds: 2}
    unknown: {node: block, muster: allow, rules: {kernel-*: allow}}
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

from healthcheck.entry import Entry, kind_of, known_keys, nearest
from healthcheck.outcome import Origin, Result, Status
from healthcheck.probes import Effect
from healthcheck.rule import Rule
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, LocatedMap

KEYS = ("profile", "title", "only", "leave_out", "enable", "budget", "unknown")
_SAYS = ("only", "leave_out", "enable", "budget", "unknown")
_SHORTEST_S, _LONGEST_S = 1.0, 3600.0


class Word(Enum):
    """What an UNKNOWN is worth: it blocks as a failure would, or it does not count."""

    BLOCK = "block"
    ALLOW = "allow"


@dataclass(frozen=True)
class OnUnknown:
    """A profile's word on UNKNOWN by its origin; `rules` are globs that know better, the first that matches."""

    node: Word = Word.BLOCK
    muster: Word = Word.BLOCK
    rules: tuple[tuple[str, Word], ...] = ()

    def allows(self, result: Result) -> bool:
        """Whether this result is UNKNOWN and does not count."""
        if result.status is not Status.UNKNOWN:
            return False
        for glob, word in self.rules:
            if fnmatchcase(result.rule, glob):
                return word is Word.ALLOW
        return (self.muster if result.origin is Origin.MUSTER else self.node) is Word.ALLOW


@dataclass(frozen=True)
class Budget:
    """What one look may cost a node: seconds on the clock, and seconds of CPU for the collector and all that it starts."""

    seconds: float | None = None
    cpu_seconds: float | None = None


@dataclass(frozen=True)
class Profile:
    """Globs over the ids of rules, a budget, and the word on UNKNOWN (None: it has none). `file` is where it is from."""

    name: str
    title: str
    only: tuple[str, ...]
    leave_out: tuple[str, ...]
    enable: tuple[str, ...]
    budget: Budget
    unknown: OnUnknown | None
    file: str

    def leaves_out(self, rule: str) -> bool:
        """Whether it wants nothing of the rule of this id."""
        return (bool(self.only) and not _among(rule, self.only)) or _among(rule, self.leave_out)

    def enables(self, rule: Rule) -> bool:
        """Whether it judges a rule that is disabled otherwise. What is disruptive must be named in full."""
        return rule.id in self.enable or (rule.effect is Effect.PASSIVE and _among(rule.id, self.enable))


def chosen(rule: Rule, profiles: Iterable[Profile]) -> str:
    """Why the rule is not judged under all of these profiles together; empty if it is."""
    profiles = tuple(profiles)
    if rule.left_out and not (rule.left_out == rule.disabled and any(profile.enables(rule) for profile in profiles)):
        return rule.left_out
    return next((f"left out by profile {profile.name}" for profile in profiles if profile.leaves_out(rule.id)), "")


def budget(profiles: Iterable[Profile]) -> Budget:
    """The least that any of them grants."""
    budgets = [profile.budget for profile in profiles]
    return Budget(
        min((b.seconds for b in budgets if b.seconds is not None), default=None),
        min((b.cpu_seconds for b in budgets if b.cpu_seconds is not None), default=None),
    )


def allows(result: Result, profiles: Iterable[Profile]) -> bool:
    """Whether this UNKNOWN does not count on this occasion: some profile allows it, and none that has a word on it blocks it."""
    words = [profile.unknown for profile in profiles if profile.unknown is not None]
    return bool(words) and all(word.allows(result) for word in words)


def profile(entry: Entry, rules: Sequence[Rule]) -> Profile:
    """The profile that an entry is; raises RulesError, with its place, for what is none."""
    title = entry.values.get("title", "")
    if not isinstance(title, str):
        raise RulesError(f"profile {entry.name}: title: expected text, got {kind_of(title)}", entry.marks["title"])
    if not any(key in entry.values for key in _SAYS):
        raise RulesError(f"profile {entry.name}: says nothing: expected at least one of {', '.join(_SAYS)}", entry.mark)
    only, leave_out, enable = (_globs(entry, key, rules) for key in ("only", "leave_out", "enable"))
    made = Profile(
        entry.name, " ".join(title.split()), only, leave_out, enable, _budget(entry), _unknown(entry, rules), entry.mark.file,
    )
    if all(made.leaves_out(rule.id) for rule in rules):
        key = "leave_out" if made.leave_out else "only"
        raise RulesError(f"profile {entry.name}: {key} leaves no rule to judge", entry.marks[key])
    return made


def _among(rule: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(rule, glob) for glob in globs)


def _globs(entry: Entry, key: str, rules: Sequence[Rule]) -> tuple[str, ...]:
    if key not in entry.values:
        return ()
    globs = entry.values[key]
    if not isinstance(globs, LocatedList) or not globs:
        said = f"profile {entry.name}: {key}: expected a list of globs over the ids of rules, got {kind_of(globs)}"
        raise RulesError(said, entry.marks[key])
    return tuple(_glob(entry, key, glob, globs.value_marks[at], rules) for at, glob in enumerate(globs))


def _glob(entry: Entry, key: str, glob: Any, mark: Mark, rules: Sequence[Rule]) -> str:
    if isinstance(glob, str) and any(fnmatchcase(rule.id, glob) for rule in rules):
        return glob
    hint = nearest(str(glob), [rule.id for rule in rules])
    raise RulesError(f"profile {entry.name}: {key}: no rule matches {kind_of(glob)}{hint}; `muster rules list` names them", mark)


def _map(entry: Entry, key: str, keys: Sequence[str]) -> LocatedMap:
    value = entry.values[key]
    if not isinstance(value, LocatedMap) or not value:
        raise RulesError(f"profile {entry.name}: {key}: expected a map of {', '.join(keys)}; got {kind_of(value)}", entry.marks[key])
    known_keys(value, keys, f"profile {entry.name}: {key}: ")
    return value


def _budget(entry: Entry) -> Budget:
    if "budget" not in entry.values:
        return Budget()
    given = _map(entry, "budget", ("seconds", "cpu_seconds"))
    for key, value in given.items():
        if type(value) not in (int, float) or not (math.isfinite(value) and _SHORTEST_S <= value <= _LONGEST_S):
            said = f"expected seconds from {_SHORTEST_S:g} to {_LONGEST_S:g}, got {kind_of(value)}"
            raise RulesError(f"profile {entry.name}: budget: {key}: {said}", given.value_marks[key])
    return Budget(given.get("seconds"), given.get("cpu_seconds"))


def _unknown(entry: Entry, rules: Sequence[Rule]) -> OnUnknown | None:
    if "unknown" not in entry.values:
        return None
    given = _map(entry, "unknown", ("node", "muster", "rules"))
    words = {key: _word(entry, f"unknown: {key}", given[key], given.value_marks[key]) for key in ("node", "muster") if key in given}
    globs = given.get("rules", LocatedMap(entry.mark))
    if not isinstance(globs, LocatedMap):
        raise RulesError(f"profile {entry.name}: unknown: rules: expected a map from globs to block or allow", given.value_marks["rules"])
    return OnUnknown(**words, rules=tuple(
        (_glob(entry, "unknown: rules", glob, globs.key_marks[glob], rules),
         _word(entry, f"unknown: rules: {glob}", word, globs.value_marks[glob])) for glob, word in globs.items()
    ))


def _word(entry: Entry, where: str, value: Any, mark: Mark) -> Word:
    if value not in ("block", "allow"):
        raise RulesError(f"profile {entry.name}: {where}: expected block or allow, got {kind_of(value)}", mark)
    return Word(value)
