"""Loads rules, SKUs and profiles from folders of YAML into values; every mistake is one line with file, line and column.

Later folders override earlier ones by id: what has the same id changes the keys that it gives and keeps the others.
Rules are data: nothing in them is ever executed.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from healthcheck.checks import catalogue
from healthcheck.checks.base import CHECKS, Check
from healthcheck.lease import Lease
from healthcheck.outcome import Owner, Severity
from healthcheck.portplan import read_ports
from healthcheck.probes import Effect, Probe, ProbeSet
from healthcheck.rule import Number, Proven, Rule, Unsupported
from healthcheck.sku import EMPTY_FACTS, Sku
from inventory.errors import Mark, RulesError, UsageError
from inventory.located import LocatedList, LocatedMap, load_yaml
from inventory.text import short

_RULE_KEYS = ("id", "check", "with", "severity", "unsupported", "effect", "remedy", "owner", "source", "proven", "enabled")
_SKU_KEYS = ("sku", "title", "inherit", "numbers", "empty", "ports", "source")
_PROFILE_KEYS = ("profile", "title", "leave_out")
# Data of another form beside the rules: each has a reader of its own.
NOT_RULES = ("policy.yaml", "xid.yaml", "sxid.yaml")
_NUMBER_TYPES = (int, float, bool, str, type(None))


@dataclass(frozen=True)
class Profile:
    """Rules that a site leaves out for some nodes: globs over their ids."""

    name: str
    title: str
    leave_out: tuple[str, ...]
    file: str


@dataclass(frozen=True)
class Ruleset:
    """All rules in the order of their ids, all SKUs and profiles by name, and a digest over the bytes of every file read."""

    rules: tuple[Rule, ...]
    skus: Mapping[str, Sku]
    digest: str
    profiles: Mapping[str, Profile] = field(default_factory=lambda: MappingProxyType({}))

    def select(self, only: Sequence[str] = (), skip: Sequence[str] = ()) -> Ruleset:
        """The same rules, those left out by the globs marked so; raises UsageError for a glob that matches nothing."""
        for pattern in (*only, *skip):
            if not any(fnmatchcase(rule.id, pattern) for rule in self.rules):
                raise UsageError(f"no rule matches {pattern!r}{_nearest(pattern, [r.id for r in self.rules])}; `muster explain` lists them")
        chosen = []
        for rule in self.rules:
            reason = rule.left_out
            if only and not any(fnmatchcase(rule.id, pattern) for pattern in only):
                reason = "left out by --only"
            elif any(fnmatchcase(rule.id, pattern) for pattern in skip):
                reason = "left out by --skip"
            chosen.append(replace(rule, left_out=reason))
        if all(rule.left_out for rule in chosen):
            raise UsageError("--only and --skip leave no rule to judge")
        return replace(self, rules=tuple(chosen))

    def under(self, profile: str | None) -> tuple[Rule, ...]:
        """The rules for nodes of a profile, those that it leaves out marked so; raises UsageError for one that is not defined."""
        if profile is None:
            return self.rules
        if profile not in self.profiles:
            guess = _nearest(profile, self.profiles) or f"; there are {', '.join(sorted(self.profiles)) or 'none'}"
            raise UsageError(f"no such profile: {short(profile)}{guess}")
        globs = self.profiles[profile].leave_out
        reason = f"left out by profile {profile}"
        return tuple(
            replace(rule, left_out=rule.left_out or (reason if any(fnmatchcase(rule.id, glob) for glob in globs) else ""))
            for rule in self.rules
        )

    def probe_set(
        self, seconds: float, extra: Iterable[Probe] = (), profiles: Iterable[str | None] = (None,), lease: Lease | None = None,
    ) -> ProbeSet:
        """The probes that the rules need which are judged for nodes of any of these profiles; without a lease none that is disruptive."""
        judged = [rule for name in set(profiles) for rule in self.under(name) if not rule.left_out]
        probes = [probe for rule in judged if lease is not None or not rule.disruptive for probe in rule.probes]
        return ProbeSet.of([*probes, *extra], seconds, lease)

    def refuse_disruptive(self, only: Sequence[str]) -> None:
        """Raises UsageError where a glob of --only asks for nothing but what needs a lease: it would be skipped, and nobody would know."""
        for pattern in only:
            asked = [rule for rule in self.rules if fnmatchcase(rule.id, pattern)]
            if asked and all(rule.disruptive for rule in asked):
                verb = "is disruptive and needs a lease" if len(asked) == 1 else "are disruptive and need a lease"
                said = "it would run beside jobs, so this command never starts it; --replay judges a recording that holds it"
                raise UsageError(f"{', '.join(rule.id for rule in asked)} {verb}: {said}")


def load_ruleset(folders: Iterable[Path]) -> Ruleset:
    """Reads `*.yaml`, `sku/*.yaml` and `profile/*.yaml` of each folder; raises RulesError or UsageError."""
    catalogue.load()
    digest = hashlib.sha256()
    rules: dict[str, _Entry] = {}
    skus: dict[str, _Entry] = {}
    profiles: dict[str, _Entry] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.yaml")):
            if path.name in NOT_RULES:
                continue
            digest.update(path.read_bytes())
            for entry in _rule_entries(path):
                _overlay(rules, entry, "id")
        for path in sorted((folder / "sku").glob("*.yaml")):
            digest.update(path.read_bytes())
            _overlay(skus, _sku_entry(path), "sku")
        for path in sorted((folder / "profile").glob("*.yaml")):
            digest.update(path.read_bytes())
            _overlay(profiles, _entry(load_yaml(path, error=RulesError), _PROFILE_KEYS, "profile", Mark(str(path), 1, 1)), "profile")
    if not rules:
        raise UsageError("no rule was found in any rules folder")
    known_skus = {name: _sku(name, skus, ()) for name in skus}
    loaded = tuple(_rule(rules[name], known_skus) for name in sorted(rules))
    return Ruleset(loaded, known_skus, digest.hexdigest(), {name: _profile(entry, loaded) for name, entry in profiles.items()})


@dataclass
class _Entry:
    """One rule or SKU as merged from files: each key's value with the place it came from."""

    name: str
    values: dict[str, Any]
    marks: dict[str, Mark]
    mark: Mark
    overridden: tuple[str, ...] = ()


def _overlay(entries: dict[str, _Entry], new: _Entry, identity: str) -> None:
    old = entries.get(new.name)
    if old is None:
        entries[new.name] = new
        return
    if old.mark.file == new.mark.file:
        raise RulesError(f"{identity} {new.name} is defined twice; the first is at line {old.mark.line}", new.mark)
    nested = {key: {**old.values[key], **new.values[key]} for key in ("with", "numbers", "ports")
              if isinstance(old.values.get(key), dict) and isinstance(new.values.get(key), dict)}
    entries[new.name] = _Entry(
        new.name, {**old.values, **new.values, **nested}, {**old.marks, **new.marks}, new.mark, (*old.overridden, old.mark.file),
    )


def _entry(item: Any, keys: Sequence[str], identity: str, mark: Mark) -> _Entry:
    if not isinstance(item, LocatedMap):
        raise RulesError(f"expected a map with {identity}, got {_kind(item)}", mark)
    for key in item:
        if key not in keys:
            raise RulesError(f"unknown key {key!r}{_nearest(str(key), keys)}", item.key_marks[key])
    name = item.get(identity)
    if not isinstance(name, str) or not name:
        raise RulesError(f"{identity}: expected a name, got {_kind(name)}", item.value_marks.get(identity, item.mark))
    return _Entry(name, dict(item), dict(item.value_marks), item.mark)


def _rule_entries(path: Path) -> list[_Entry]:
    document = load_yaml(path, error=RulesError)
    if not isinstance(document, LocatedList):
        raise RulesError(f"expected a list of rules, got {_kind(document)}", Mark(str(path), 1, 1))
    return [_entry(item, _RULE_KEYS, "id", document.value_marks[index]) for index, item in enumerate(document)]


def _sku_entry(path: Path) -> _Entry:
    return _entry(load_yaml(path, error=RulesError), _SKU_KEYS, "sku", Mark(str(path), 1, 1))


def _sku(name: str, entries: Mapping[str, _Entry], above: tuple[str, ...]) -> Sku:
    entry = entries[name]
    if name in above:
        raise RulesError(f"SKU {name} inherits from itself: {' -> '.join((*above, name))}", entry.marks["inherit"])
    base = Sku(name, "", {}, frozenset(), "")
    parent = entry.values.get("inherit")
    if parent is not None:
        if parent not in entries:
            raise RulesError(f"inherit: no such SKU: {parent!r}{_nearest(str(parent), list(entries))}", entry.marks["inherit"])
        base = _sku(parent, entries, (*above, name))
    numbers = entry.values.get("numbers", {})
    if not isinstance(numbers, dict):
        raise RulesError(f"numbers: expected a map, got {_kind(numbers)}", entry.marks["numbers"])
    for key, value in numbers.items():
        if not isinstance(value, _NUMBER_TYPES):
            mark = numbers.value_marks[key] if isinstance(numbers, LocatedMap) else entry.mark
            raise RulesError(f"{key}: expected a number, true, false, text or null, got {_kind(value)}", mark)
    empty = entry.values.get("empty", [])
    if not isinstance(empty, list) or any(item not in EMPTY_FACTS for item in empty):
        raise RulesError(f"empty: expected a list of {', '.join(EMPTY_FACTS)}", entry.marks["empty"])
    title = entry.values.get("title", base.title)
    ports = {**base.ports, **read_ports(entry.values.get("ports", {}), entry.marks.get("ports", entry.mark))}
    return Sku(name, str(title), {**base.numbers, **numbers}, base.empty | frozenset(empty), entry.mark.file, ports=MappingProxyType(ports))


def _profile(entry: _Entry, rules: Sequence[Rule]) -> Profile:
    title, globs = entry.values.get("title", ""), entry.values.get("leave_out")
    if not isinstance(title, str):
        raise RulesError(f"profile {entry.name}: title: expected text, got {_kind(title)}", entry.marks["title"])
    if not isinstance(globs, LocatedList) or not globs:
        said = f"profile {entry.name}: leave_out: expected a list of globs over the ids of rules, got {_kind(globs)}"
        raise RulesError(said, entry.marks.get("leave_out", entry.mark))
    left = set()
    for at, glob in enumerate(globs):
        matched = {rule.id for rule in rules if fnmatchcase(rule.id, glob)} if isinstance(glob, str) else set()
        if not matched:
            hint = _nearest(str(glob), [rule.id for rule in rules])
            said = f"profile {entry.name}: leave_out: no rule matches {_kind(glob)}{hint}; `muster explain` lists them"
            raise RulesError(said, globs.value_marks[at])
        left |= matched
    if all(rule.id in left for rule in rules):
        raise RulesError(f"profile {entry.name}: leave_out leaves no rule to judge", entry.marks["leave_out"])
    return Profile(entry.name, " ".join(title.split()), tuple(globs), entry.mark.file)


def _rule(entry: _Entry, skus: Mapping[str, Sku]) -> Rule:
    values, marks = entry.values, entry.marks
    for key in ("check", "severity", "remedy", "source", "proven"):
        if key not in values:
            raise RulesError(f"rule {entry.name}: {key} is missing", entry.mark)
    for key in ("remedy", "source"):
        if not isinstance(values[key], str) or not values[key].strip():
            raise RulesError(f"rule {entry.name}: {key}: expected a sentence, got {_kind(values[key])}", marks[key])
    name = values["check"]
    if name not in CHECKS:
        raise RulesError(f"rule {entry.name}: unknown check {name!r}{_nearest(str(name), list(CHECKS))}", marks["check"])
    severity = _member(Severity, entry, "severity", None)
    proven = _member(Proven, entry, "proven", None)
    if proven is Proven.SIMULATED and severity is Severity.CRITICAL:
        raise RulesError(f"rule {entry.name}: proven by simulation only, so severity can be warning at most", marks["severity"])
    enabled = values.get("enabled", True)
    if not isinstance(enabled, bool):
        raise RulesError(f"rule {entry.name}: enabled: expected true or false, got {_kind(enabled)}", marks["enabled"])
    rule = Rule(
        id=entry.name, checked=CHECKS[name], parameters=_parameters(entry, CHECKS[name], skus), severity=severity,
        unsupported=_member(Unsupported, entry, "unsupported", Unsupported.UNKNOWN),
        effect=_member(Effect, entry, "effect", Effect.PASSIVE), remedy=" ".join(values["remedy"].split()),
        source=" ".join(values["source"].split()), proven=proven, origin_file=entry.mark.file, overridden=entry.overridden,
        owner=_member(Owner, entry, "owner", Owner.OPERATOR),
        left_out="" if enabled else f"disabled in {entry.mark.file}",
    )
    if (rule.effect is Effect.DISRUPTIVE) != bool(rule.disruptive):
        probes = f"its probe {rule.disruptive[0].id} is" if rule.disruptive else "none of its probes is disruptive"
        expected = Effect.DISRUPTIVE if rule.disruptive else Effect.PASSIVE
        raise RulesError(f"rule {entry.name}: effect: expected {expected.value}: {probes}", marks.get("effect", entry.mark))
    return rule


def _parameters(entry: _Entry, check: Check, skus: Mapping[str, Sku]) -> dict[str, Any]:
    given = entry.values.get("with", {})
    if not isinstance(given, dict):
        raise RulesError(f"rule {entry.name}: with: expected a map, got {_kind(given)}", entry.marks["with"])
    result: dict[str, Any] = {}
    for key, value in given.items():
        mark = given.value_marks[key] if isinstance(given, LocatedMap) else entry.mark
        if key not in check.parameters:
            known = list(check.parameters)
            raise RulesError(f"rule {entry.name}: the check {check.name} has no parameter {key!r}{_nearest(str(key), known)}", mark)
        parameter = check.parameters[key]
        if isinstance(value, str) and value.startswith("$"):
            number = value[1:]
            if check.fleet:
                raise RulesError(f"rule {entry.name}: {key}: a fleet check cannot take a number of a SKU", mark)
            if not any(number in sku.numbers for sku in skus.values()):
                known = sorted({name for sku in skus.values() for name in sku.numbers})
                raise RulesError(f"rule {entry.name}: {key}: no SKU gives the number {value}{_nearest(number, known)}", mark)
            for sku in skus.values():
                if sku.numbers.get(number) is not None and not parameter.accepts(sku.numbers[number]):
                    said = f"{sku.numbers[number]!r} of SKU {sku.name}"
                    raise RulesError(f"rule {entry.name}: {key}: expected {parameter.phrase}, got {said}", mark)
            result[key] = Number(number)
        elif parameter.accepts(value):
            result[key] = tuple(value) if isinstance(value, list) else value
        else:
            raise RulesError(f"rule {entry.name}: {key}: expected {parameter.phrase}, got {_kind(value)}", mark)
    for parameter in check.parameters.values():
        if parameter.required and parameter.name not in result:
            raise RulesError(f"rule {entry.name}: with: {parameter.name} is missing ({parameter.phrase})", entry.mark)
    return result


E = TypeVar("E", bound=Enum)


def _member(kind: type[E], entry: _Entry, key: str, default: E | None) -> E:
    value = entry.values.get(key)
    if value is None and default is not None:
        return default
    known = [member.value for member in kind]
    if value not in known:
        raise RulesError(f"rule {entry.name}: {key}: expected one of {', '.join(known)}; got {_kind(value)}", entry.marks[key])
    return kind(value)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a map"
    return "a list" if isinstance(value, list) else repr(value)[:60]


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
