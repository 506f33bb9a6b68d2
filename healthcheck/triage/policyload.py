"""Reads `policy.yaml` of the rules folders into one Policy; every mistake is one line with file, line,
column and key.

A later folder's file is laid over the earlier ones: faults by id and key by key, where a fault with a new id
goes before all earlier ones and `enabled: false` takes one out; the other sections key by key. It is data:
nothing in it is ever executed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

from healthcheck.config.entry import Entry, entry_of, kind_of, known_keys, nearest, overlay
from healthcheck.config.formernames import with_current_names
from healthcheck.config.rulesfolder import folders as folders_of
from healthcheck.config.rulesfolder import packaged
from healthcheck.config.valuetypes import (
    FLAG,
    GLOB,
    NAME,
    TEXT,
    ValueType,
    choice,
    integer,
    list_of,
    number,
    optional,
    parse_value,
)
from healthcheck.model.faultkind import FaultKind, Isolation, Of
from healthcheck.model.outcome import Owner, Repair, Severity
from healthcheck.ruleset.rulenames import KnownRules, read_rule_names
from healthcheck.store import fabricfindings, watched
from healthcheck.store.accused import REPAIRS, RULES
from healthcheck.triage.policy import (
    EXPLAINING,
    KINDS,
    BreakerPolicy,
    Climb,
    Flap,
    IncidentKind,
    IncidentPolicy,
    PortPolicy,
    RepeatPolicy,
    Requalify,
    SharedUnknown,
    TriagePolicy,
)
from healthcheck.triage.policylists import causes, items, lay_places, windows
from healthcheck.triage.remediation import WHOLE_NODE, Remediation, RemediationStep, Use
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, LocatedMap, load_yaml

FILE = "policy.yaml"
DOMAINS = ("rack", "leaf", "power", "nvlink_domain")


def _never(given: Any) -> bool:
    if given is not False:
        raise ValueError
    return False


NEVER = ValueType("false: a version, a delivery batch and a moment explain, and isolate no node", _never)

_FAULT: Mapping[str, ValueType] = {
    "why": TEXT, "rules": list_of("globs over the ids of rules", GLOB), "of": choice(Of),
    "severities": list_of("severities", choice(Severity)), "isolation": choice(Isolation),
    "repair": choice(Repair), "confirm": integer(1, 1000), "reserve": FLAG, "owner": choice(Owner),
    "lasting": FLAG, "decides": FLAG, "enabled": FLAG,
}
_COUNT, _PERCENT, _HOURS, _DAYS = integer(1, 1000), number(0, 100), number(0.01, 24 * 366), number(0.01, 3660)
_SECTIONS: Mapping[str, Mapping[str, ValueType]] = {
    "wedged": {"sweeps": _COUNT},
    "fresh": {"hours": _HOURS},
    # One node is not many: were it, whatever a node does not answer would be muster's own doing.
    "ours": {"percent": _PERCENT, "nodes": integer(2, 100_000)},
    "climb": {"failures": _COUNT, "days": _DAYS},
    "repeat": {"score": number(1, 1000), "half_life_days": _DAYS, "days": _DAYS, "apart_hours": _HOURS},
    "flap": {"times": _COUNT, "hours": _HOURS, "calm_hours": _HOURS},
    "requalify": {"profile": TEXT, "sweeps": _COUNT, "apart_minutes": number(0, 7 * 24 * 60)},
    "breaker": {
        "number": integer(1, 100_000), "percent": _PERCENT, "least": _COUNT, "hours": _HOURS,
        "reserve": integer(0, 100_000), "close_hours": optional(_HOURS),
    },
    "ports": {"number": integer(1, 100_000), "percent": _PERCENT, "hours": _HOURS, "uplinks": _COUNT,
              "uplinks_percent": _PERCENT},
    "incidents": {
        "at_least": integer(2, 100_000), "share": _PERCENT, "window_minutes": number(1, 24 * 60),
        "likelihood": number(1, 1e12), "calm_hours": _HOURS, "reopen_days": _DAYS,
        "as_one": integer(1, 100_000), "whole": number(1, 1e12),
    },
    **{f"incidents.{kind}": {"owner": choice(Owner), "isolates": NEVER if kind in EXPLAINING else FLAG}
       for kind in KINDS},
    "remediation": {"attempts": _COUNT, "days": _DAYS, "at_once": integer(1, 1024),
                    "settle_seconds": number(1, 3600), "back_minutes": number(0.1, 24 * 60)},
    **{f"remediation.{step.value}": {"faults": list_of("ids of faults", NAME),
                                     "rules": list_of("globs over the ids of rules", GLOB), "enabled": FLAG}
       for step in RemediationStep},
    "breaker.domains": {kind: optional(integer(1, 100_000)) for kind in DOMAINS},
}
_NAMES = tuple(name for name in _SECTIONS if "." not in name)
_TOP = ("faults", *_NAMES, "places", "windows")
# A policy that says nothing of delivery batches looks for none.
_MAY_LACK = ("batch",)
# What no policy may take away: each of these always is of some fault.
_ALWAYS = (
    (Of.FAIL, "critical", "critical failures"),
    (Of.UNREACHED, "unreachable", "nodes that cannot be reached"),
    (Of.UNKNOWN, "probe-wedged", "critical rules that a node does not answer"),
)


@dataclass(frozen=True)
class Loaded:
    """A policy with the place of every key (`faults.ID.KEY`, `SECTION.KEY`), and of what disabled a fault,
    by its id."""

    policy: TriagePolicy
    origins: Mapping[str, Mark]
    out: Mapping[str, Mark]


@dataclass
class _Draft:
    """The policy while files are laid over each other."""

    files: list[str] = field(default_factory=list)
    faults: dict[str, Entry] = field(default_factory=dict)
    sections: dict[str, dict[str, Any]] = field(default_factory=lambda: {name: {} for name in _SECTIONS})
    marks: dict[str, Mark] = field(default_factory=dict)
    places: dict[str, Entry] = field(default_factory=dict)
    windows: LocatedMap | None = None


def load_policy(folders: Sequence[Path], rules: KnownRules) -> TriagePolicy:
    """What the files of all folders say together, checked against the rules and profiles that there are;
    raises RulesError. Among the folders may be such a file itself, whatever its name.

    Whatever they say, a critical FAIL, a critical UNKNOWN and a node that is not
    reached are each of some fault.
    """
    return load_with_origins(folders, rules).policy


def policy_of(rules: str | None) -> TriagePolicy:
    """The packaged and a site's policy, for commands that judge no snapshot; raises RulesError."""
    found = folders_of(rules)
    return load_policy(found, read_rule_names(found))


def load_with_origins(folders: Sequence[Path], rules: KnownRules) -> Loaded:
    """As `load_policy`, with the place of every key."""
    draft = _Draft()
    for folder in folders:
        if (path := folder if folder.is_file() else folder / FILE).is_file():
            known = None if packaged() in path.parents else [*rules.repairs, *RULES, *watched.RULES,
                                                             *fabricfindings.RULES]
            _read(draft, path, known, rules.former)
    if not draft.files:
        raise RulesError(f"no rules folder holds a {FILE}: looked in {', '.join(map(str, folders))}")
    end = Mark(draft.files[-1], 1, 1)
    made = {name: _fault(entry, draft.faults) for name, entry in draft.faults.items()}
    out = {name: entry.marks["enabled"] for name, entry in draft.faults.items()
           if not entry.values.get("enabled", True)}
    kinds = tuple(kind for name, kind in made.items() if name not in out)
    for of, name, what in _ALWAYS:
        if not any(_covers_all(kind, of) for kind in kinds):
            raise _uncovered(of, what, draft.faults.get(name), end)
    sections = {name: _section(draft, name, end) for name in _NAMES
                if name not in ("remediation", "ports")}
    if (profile := sections["requalify"]["profile"]) not in rules.profiles:
        guess = (nearest(profile, rules.profiles)
                 or f"; there are {', '.join(sorted(rules.profiles)) or 'none'}")
        raise RulesError(f"requalify: profile: no such profile: {profile!r}{guess}",
                         draft.marks["requalify.profile"])
    domains = {kind: most for kind, most in draft.sections["breaker.domains"].items() if most is not None}
    policy = TriagePolicy(
        kinds, Climb(**sections["climb"]), RepeatPolicy(**sections["repeat"]), Flap(**sections["flap"]),
        Requalify(**sections["requalify"]), SharedUnknown(**sections["ours"]),
        BreakerPolicy(**sections["breaker"], domains=MappingProxyType(domains)),
        sections["wedged"]["sweeps"],
        sections["fresh"]["hours"], tuple(draft.files),
        IncidentPolicy(**sections["incidents"], kinds=MappingProxyType(
            {kind: IncidentKind(**_section(draft, f"incidents.{kind}", end)) for kind in KINDS
             if kind not in _MAY_LACK or draft.sections[f"incidents.{kind}"]}), causes=causes(draft.places)),
        _remediation(draft, tuple(made), end),
        windows(draft.windows, tuple(made), [kind.id for kind in kinds if kind.reserve])
        if draft.windows is not None else (),
        MappingProxyType({**REPAIRS, **{name: repair for name, repair in rules.repairs.items() if repair}}),
        PortPolicy(**draft.sections["ports"]),
    )
    lists = {f"{what}.{name}.{key}": mark
             for what, entries in (("faults", draft.faults), ("places", draft.places))
             for name, entry in entries.items() for key, mark in entry.marks.items()}
    return Loaded(policy, MappingProxyType({**lists, **draft.marks}), MappingProxyType(out))


def _read(draft: _Draft, path: Path, ids: Collection[str] | None, former: Mapping[str, str]) -> None:
    """Lays one file over the earlier ones; its globs must each match some of these ids, or a former one.
    None: some may be of rules to come."""
    top = load_yaml(path, error=RulesError)
    if not isinstance(top, LocatedMap):
        raise RulesError(f"expected a map of {', '.join(_TOP)}; got {kind_of(top)}", Mark(str(path), 1, 1))
    known_keys(top, _TOP, "")
    draft.files.append(str(path))
    new: dict[str, Entry] = {}
    for item, mark in items(top, "faults", "faults"):
        entry = entry_of(item, ("id", *_FAULT), "id", mark)
        parse_value("id", entry.name, entry.marks["id"], NAME)
        for key, form in _FAULT.items():
            if key in entry.values:
                entry.values[key] = parse_value(f"fault {entry.name}: {key}", entry.values[key],
                                          entry.marks[key], form)
        if ids is not None and "rules" in item:
            _all_match(entry.name, item["rules"], (*ids, *former))
        if "rules" in entry.values:
            entry.values["rules"] = with_current_names(entry.values["rules"], former)
        overlay(draft.faults if entry.name in draft.faults else new, entry, "id")
    draft.faults = {**new, **draft.faults}
    draft.places = lay_places(draft.places, top, ids, former)
    if "windows" in top:
        draft.windows = top
        draft.marks["windows"] = top.value_marks["windows"]
    for name in _NAMES:
        if name in top:
            _lay(draft, name, top[name], top.value_marks[name], former)


def _lay(draft: _Draft, name: str, given: Any, mark: Mark, former: Mapping[str, str]) -> None:
    """Lays one section over what earlier files say of it."""
    forms, said = _SECTIONS[name], name.replace(".", ": ")
    inner = [each for each in _SECTIONS if each.startswith(f"{name}.")]
    keys = [*forms, *(each.partition(".")[2] for each in inner)]
    if not isinstance(given, LocatedMap):
        raise RulesError(f"{said}: expected a map of {', '.join(keys)}; got {kind_of(given)}", mark)
    known_keys(given, keys, f"{said}: ")
    for key in given:
        if key in forms:
            found = parse_value(f"{said}: {key}", given[key], given.value_marks[key], forms[key])
            draft.sections[name][key] = with_current_names(found, former) if key == "rules" else found
            draft.marks[f"{name}.{key}"] = given.value_marks[key]
        else:
            _lay(draft, f"{name}.{key}", given[key], given.value_marks[key], former)


def _section(draft: _Draft, name: str, mark: Mark, may_lack: Sequence[str] = ()) -> dict[str, Any]:
    found = draft.sections[name]
    for key, form in _SECTIONS[name].items():
        if key not in found and key not in may_lack:
            raise RulesError(f"{name.replace('.', ': ')}: {key} is missing: expected {form.phrase}", mark)
    return found


def _remediation(draft: _Draft, faults: Sequence[str], mark: Mark) -> Remediation:
    """The steps that a file names, with what they are for;
    raises RulesError for a fault that there is not."""
    uses = {step: Use(**_section(draft, f"remediation.{step.value}", mark,
                                 may_lack=("faults", "rules") if step in WHOLE_NODE else ()))
            for step in RemediationStep if draft.sections[f"remediation.{step.value}"]}
    for step, use in uses.items():
        for name in use.faults or ():
            if name not in faults:
                raise RulesError(
                    f"remediation: {step.value}: faults: no such fault: {name!r}{nearest(name, faults)}",
                    draft.marks[f"remediation.{step.value}.faults"])
    return Remediation(**draft.sections["remediation"], uses=MappingProxyType(uses))


def _fault(entry: Entry, all_: Collection[str]) -> FaultKind:
    """Checks an entry as a whole; raises RulesError if its parts do not go together."""
    held, where = entry.values, f"fault {entry.name}"
    of = held.get("of", Of.FAIL)
    for key in ("why", *(("rules",) if of is not Of.UNREACHED else ())):
        if key not in held:
            hint = nearest(entry.name, [name for name in all_ if name != entry.name])
            raise RulesError(f"{where}: {key} is missing: expected {_FAULT[key].phrase}{hint}", entry.mark)
    no_rule, no_count = of is Of.UNREACHED, of is not Of.FAIL
    for key, wrong, why in (("rules", no_rule, "no rule is judged then"),
                            ("confirm", no_count, "wedged: sweeps counts then")):
        if wrong and key in held:
            raise RulesError(f"{where}: {key} does not go with of: {of.value}: {why}",
                             entry.marks[_latest(entry, key, "of")])
    severities = frozenset(held["severities"]) if "severities" in held else None
    critical = severities is None or Severity.CRITICAL in severities
    if critical and "isolation" not in held:
        said = "spell out none if the critical problems that it covers are to keep no job away"
        raise RulesError(f"{where}: isolation is missing: {said}", entry.mark)
    isolation, repair = held.get("isolation", Isolation.NONE), held.get("repair")
    if repair not in (None, Repair.WATCH) and isolation is Isolation.NONE:
        later = _latest(entry, "isolation", "repair")
        said = (f"{repair.value} is for nodes that are kept from jobs: expected isolation no-new-jobs or "
                "evict, or repair watch")
        raise RulesError(f"{where}: {later}: {said}", entry.marks[later])
    return FaultKind(
        entry.name, held["why"], held.get("rules", ()), of, severities, isolation, repair,
        held.get("confirm", 1), held.get("reserve", False), held.get("owner"), held.get("lasting", False),
        held.get("decides", False), entry.mark.file,
    )


def _latest(entry: Entry, *keys: str) -> str:
    """Of these keys, some of which are there, the first that the last file gave:
    what goes wrong only together went wrong there."""
    there = [key for key in keys if key in entry.marks]
    return next((key for key in there if entry.marks[key].file == entry.mark.file), there[-1])


def _all_match(name: str, globs: LocatedList, ids: Collection[str]) -> None:
    """Raises RulesError for a glob that matches no rule: if misspelt,
    its problems would go to another fault."""
    for at, glob in enumerate(globs):
        if not any(fnmatchcase(rule, glob) for rule in ids):
            said = f"no rule matches {glob!r}{nearest(glob, ids)}; `muster rules list` names them"
            raise RulesError(f"fault {name}: rules: {said}", globs.value_marks[at])


def _covers_all(kind: FaultKind, of: Of) -> bool:
    """Whether every critical problem of that sort is of this fault, if of none before it."""
    every = of is Of.UNREACHED or any(set(glob) == {"*"} for glob in kind.rules)
    return kind.of is of and every and (kind.severities is None or Severity.CRITICAL in kind.severities)


def _uncovered(of: Of, what: str, usual: Entry | None, mark: Mark) -> RulesError:
    """The error, at the key that a later file changed of the fault which covers them otherwise."""
    expected = f"expected a fault with of: {of.value}" + (
        "" if of is Of.UNREACHED else ", rules: ['*']") + " and severities with critical"
    if usual is None:
        return RulesError(f"faults: would leave {what} without a verdict: {expected}", mark)
    key = ("enabled" if not usual.values.get("enabled", True)
           else _latest(usual, "of", "rules", "severities", "id"))
    said = (f"would leave {what} without a verdict: {expected}; isolation: none, said there, keeps no job "
            "away for them")
    return RulesError(f"fault {usual.name}: {key}: {said}", usual.marks[key])

