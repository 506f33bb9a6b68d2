"""Loads rules, SKUs and profiles from folders of YAML; every mistake is one line with file, line and column.

Later folders override earlier ones by id: an entry changes the keys that it gives and keeps the others. Rules
are data: nothing in them is ever executed.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
from collections.abc import Iterable, Mapping, Set
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

from healthcheck.baseline.cataloguecache import catalogue as cached_catalogue
from healthcheck.baseline.fileload import load_baselines
from healthcheck.baseline.kernelrules import KernelRules
from healthcheck.baseline.learn import current
from healthcheck.checks import catalogue  # noqa: F401  (registers the checks)
from healthcheck.checks.base import CHECKS, Check, Parameter
from healthcheck.config.entry import Entry, kind_of, nearest, overlay
from healthcheck.config.rulesfolder import NOT_RULES, display_name
from healthcheck.model.outcome import Owner, Repair, Severity
from healthcheck.model.probes import Effect
from healthcheck.ruleset import profileload
from healthcheck.ruleset.portplan import read_ports
from healthcheck.ruleset.rule import Number, Proven, Rule, UnsupportedPolicy
from healthcheck.ruleset.ruleentries import PROFILE_KEYS, RuleEntries, former_ids, member, mistake, whole_file
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.ruleset.sku import EMPTY_FACTS, LEARNERS, Sku
from healthcheck.ruleset.skuburnin import read_burnin
from healthcheck.ruleset.skulimits import read_limits
from healthcheck.xid.xidtableload import NAMES as TABLES
from healthcheck.xid.xidtableload import load_xid_table
from inventory.errors import Mark, RulesError
from inventory.located import LocatedMap

_SKU_KEYS = ("sku", "title", "inherit", "numbers", "empty", "ports", "burnin", "limits", "source")
_NUMBER_TYPES = (int, float, bool, str, type(None))


def load(folders: Iterable[Path]) -> Ruleset:
    """Reads `*.yaml` of each folder and its sku, profile, kernel, baseline, by the checks that are known;
    raises RulesError, UsageError."""
    folders = tuple(folders)
    digest = hashlib.sha256()
    rules = RuleEntries()
    skus: dict[str, Entry] = {}
    profiles: dict[str, Entry] = {}
    baselines: dict[str, str] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.yaml")):
            digest.update(read := path.read_bytes())
            if path.name in TABLES:
                baselines[path.name] = _digest(baselines, path.name, read)
            if path.name in NOT_RULES:
                continue
            rules.lay(path)
        for path in sorted((folder / "sku").glob("*.yaml")):
            digest.update(path.read_bytes())
            overlay(skus, whole_file(path, _SKU_KEYS, "sku"), "sku")
        for path in sorted((folder / "profile").glob("*.yaml")):
            digest.update(path.read_bytes())
            overlay(profiles, whole_file(path, PROFILE_KEYS, "profile"), "profile")
        for path in sorted(path for name in ("kernel", "emitter", "baseline")
                           for path in (folder / name).glob("*.yaml")):
            digest.update(read := path.read_bytes())
            name = f"{path.parent.name}/{path.name}"
            baselines[name] = _digest(baselines, name, read)
    entries = rules.all()
    known_skus = {name: _sku(name, skus, ()) for name in skus}
    loaded = tuple(_rule(entries[name], known_skus, skus) for name in sorted(entries))
    _refuse_unused(skus.values(), {number for rule in loaded for number in rule.numbers} | LEARNERS.keys())
    return Ruleset(loaded, known_skus, digest.hexdigest(),
                   {name: profileload.profile(entry, loaded) for name, entry in profiles.items()},
                   functools.cache(lambda: load_xid_table(folders)),
                   functools.cache(lambda: load_kernel(folders)),
                   MappingProxyType(baselines))


def _digest(baselines: Mapping[str, str], name: str, read: bytes) -> str:
    """The digest of a file, over that of the same name in earlier folders."""
    return hashlib.sha256(baselines.get(name, "").encode() + read).hexdigest()[:16]


def load_kernel(folders: Iterable[Path]) -> KernelRules:
    """The catalogue of kernel lines and the baselines; raises RulesError."""
    known = cached_catalogue(folders)
    today = dt.date.today().isoformat()
    return KernelRules(known, tuple(current(baseline, today) for baseline in load_baselines(folders, known)))


def _mark_of(values: dict[Any, Any], key: str, otherwise: Mark) -> Mark:
    return values.value_marks[key] if isinstance(values, LocatedMap) else otherwise


def _sku(name: str, entries: Mapping[str, Entry], above: tuple[str, ...]) -> Sku:
    entry = entries[name]
    if name in above:
        raise RulesError(f"SKU {name} inherits from itself: {' -> '.join((*above, name))}",
                         entry.marks["inherit"])
    base = Sku(name, "", {}, frozenset(), "")
    parent = entry.values.get("inherit")
    if parent is not None:
        if parent not in entries:
            raise RulesError(f"inherit: no such SKU: {parent!r}{nearest(str(parent), list(entries))}",
                             entry.marks["inherit"])
        base = _sku(parent, entries, (*above, name))
    numbers = entry.values.get("numbers", {})
    if not isinstance(numbers, dict):
        raise RulesError(f"numbers: expected a map, got {kind_of(numbers)}", entry.marks["numbers"])
    for key, value in numbers.items():
        mark = _mark_of(numbers, key, entry.mark)
        if not isinstance(value, _NUMBER_TYPES):
            raise RulesError(f"{key}: expected a number, true, false, text or null, got {kind_of(value)}",
                             mark)
        # No rule asks for it, which would say so
        if key == "gpu_device" and not isinstance(value, (str, type(None))):
            raise RulesError(
                f"{key}: expected the PCI vendor and device, such as '10de:2330', got {kind_of(value)}", mark)
        if isinstance(value, (int, float)) and not 0 <= value < inf:
            raise RulesError(f"{key}: expected 0 or more, got {value}", mark)
    empty = entry.values.get("empty", [])
    if not isinstance(empty, list) or any(item not in EMPTY_FACTS for item in empty):
        raise RulesError(f"empty: expected a list of {', '.join(EMPTY_FACTS)}", entry.marks["empty"])
    title = entry.values.get("title", base.title)
    ports = {**base.ports, **read_ports(entry.values.get("ports", {}), entry.marks.get("ports", entry.mark))}
    return Sku(name, str(title), {**base.numbers, **numbers}, base.empty | frozenset(empty),
               entry.mark.file, ports=MappingProxyType(ports),
               burnin=read_burnin(entry.values.get("burnin", {}), entry.marks.get("burnin", entry.mark),
                                  base.burnin), source=" ".join(str(entry.values.get("source", "")).split()),
               limits=read_limits(entry.values.get("limits", {}), entry.marks.get("limits", entry.mark),
                                  base.limits))


def _refuse_unused(entries: Iterable[Entry], wanted: Set[str]) -> None:
    """Raises RulesError for a number that no rule takes: it is probably misspelt."""
    for entry in entries:
        numbers = entry.values.get("numbers", {})
        for key in numbers:
            if key not in wanted:
                mark = _mark_of(numbers, key, entry.mark)
                raise RulesError(f"numbers: no rule asks for {key!r}{nearest(str(key), sorted(wanted))}",
                                 mark)


def _number_mark(number: str, name: str, entries: Mapping[str, Entry]) -> Mark:
    """Where this SKU's number is written: in its own file, or in that of the nearest SKU above it."""
    numbers = entries[name].values.get("numbers", {})
    if number not in numbers:
        return _number_mark(number, entries[name].values["inherit"], entries)
    return _mark_of(numbers, number, entries[name].mark)


def _refuse_unfit(number: str, parameter: Parameter, rule: str, mark: Mark, skus: Mapping[str, Sku],
             entries: Mapping[str, Entry]) -> None:
    """Raises RulesError where a SKU gives a number that the rule's parameter does not accept.

    The error is at the SKU's own line, unless several SKUs give the number and none fits: then the rule names
    the wrong number, at `mark`.
    """
    given = [sku for sku in skus.values() if sku.numbers.get(number) is not None]
    refused = [sku for sku in given if not parameter.accepts(sku.numbers[number])]
    if not refused:
        return
    value, place = refused[0].numbers[number], _number_mark(number, refused[0].name, entries)
    if len(refused) == len(given) and len({_number_mark(number, sku.name, entries) for sku in given}) > 1:
        number_there = f"${number}, which is {value!r} in SKU {refused[0].name}"
        raise RulesError(f"rule {rule}: {parameter.name}: expected {parameter.phrase}, got {number_there}",
                         mark)
    raise RulesError(f"{number}: expected {parameter.phrase}, got {kind_of(value)} (rule {rule} takes it for "
                     f"{parameter.name})", place)


def _rule(entry: Entry, skus: Mapping[str, Sku], sku_entries: Mapping[str, Entry]) -> Rule:
    values, marks = entry.values, entry.marks
    for key in ("check", "severity", "remedy", "source", "proven"):
        if key not in values:
            raise RulesError(f"rule {entry.name}: {key} is missing", entry.mark)
    for key in ("remedy", "source"):
        if not isinstance(values[key], str) or not values[key].strip():
            raise mistake(entry, key, f"expected a sentence, got {kind_of(values[key])}")
    name = values["check"]
    if name not in CHECKS:
        raise RulesError(f"rule {entry.name}: unknown check {name!r}{nearest(str(name), list(CHECKS))}",
                         marks["check"])
    severity = member(Severity, entry, "severity", None)
    proven = member(Proven, entry, "proven", None)
    if proven is Proven.SIMULATED and severity is Severity.CRITICAL:
        raise RulesError(f"rule {entry.name}: proven by simulation only, so severity can be warning at most",
                         marks["severity"])
    enabled = values.get("enabled", True)
    if not isinstance(enabled, bool):
        raise mistake(entry, "enabled", f"expected true or false, got {kind_of(enabled)}")
    disabled = "" if enabled else f"disabled in {display_name(marks['enabled'].file)}"
    rule = Rule(id=entry.name, check=name,
                parameters=_parameters(entry, CHECKS[name], skus, sku_entries), severity=severity,
                unsupported=member(UnsupportedPolicy, entry, "unsupported", UnsupportedPolicy.UNKNOWN),
                effect=member(Effect, entry, "effect", Effect.PASSIVE),
                remedy=" ".join(values["remedy"].split()), source=" ".join(values["source"].split()),
                proven=proven, origin_file=entry.mark.file, overridden=entry.overridden,
                owner=member(Owner, entry, "owner", Owner.OPERATOR), left_out=disabled, disabled=disabled,
                formerly=former_ids(entry),
                repair=member(Repair, entry, "repair", None) if "repair" in values else None)
    if (rule.effect is Effect.DISRUPTIVE) != bool(rule.disruptive):
        raise mistake(entry, "effect", f"expected disruptive: its probe {rule.disruptive[0].id} is"
                       if rule.disruptive else "expected passive: none of its probes is disruptive")
    return rule


def _parameters(entry: Entry, check: Check, skus: Mapping[str, Sku],
                sku_entries: Mapping[str, Entry]) -> dict[str, Any]:
    given = entry.values.get("with", {})
    if not isinstance(given, dict):
        raise mistake(entry, "with", f"expected a map, got {kind_of(given)}")
    result: dict[str, Any] = {}
    for key, value in given.items():
        mark = _mark_of(given, key, entry.mark)
        if key not in check.parameters:
            known = list(check.parameters)
            raise RulesError(f"rule {entry.name}: the check {check.name} has no parameter "
                             f"{key!r}{nearest(str(key), known)}", mark)
        parameter = check.parameters[key]
        if isinstance(value, str) and value.startswith("$"):
            number = value[1:]
            if check.fleet:
                raise mistake(entry, key, "a fleet check cannot take a number of a SKU", mark)
            if not any(number in sku.numbers for sku in skus.values()):
                known = sorted({name for sku in skus.values() for name in sku.numbers})
                raise mistake(entry, key, f"no SKU gives the number {value}{nearest(number, known)}", mark)
            _refuse_unfit(number, parameter, entry.name, mark, skus, sku_entries)
            result[key] = Number(number)
        elif parameter.accepts(value):
            result[key] = tuple(value) if isinstance(value, list) else value
        else:
            raise mistake(entry, key, f"expected {parameter.phrase}, got {kind_of(value)}", mark)
    for parameter in check.parameters.values():
        if parameter.required and parameter.name not in result:
            raise mistake(entry, "with", f"{parameter.name} is missing ({parameter.phrase})", entry.mark)
    return result
