"""Triage's policy as a document and as text: its values, their files, and how it treats a rule."""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from healthcheck.config.rulesfolder import display_name
from healthcheck.model.faultkind import FaultKind, Isolation, Of
from healthcheck.model.outcome import Severity
from healthcheck.ruleset.rule import Rule
from healthcheck.store import fabricfindings, watched
from healthcheck.store.accused import RULES, SHARED
from healthcheck.triage.policy import EXPLAINING, KINDS, Causes, TriagePolicy
from healthcheck.triage.policyload import Loaded
from healthcheck.triage.windows import ChangeWindow, Weekly
from inventory.errors import Mark
from inventory.times import minute

_SHARED = {"nvlink_domain": "an NVLink domain", "rack": "a rack", "leaf": "a leaf switch", "rail": "a rail",
           "power": "a power domain", "driver": "a driver's version", "kernel": "a kernel's version",
           "firmware": "a firmware's version", "batch": "a delivery batch", "moment": "a moment"}
# The meaning of each number, in display order.
NUMBERS: Mapping[str, str] = {
    "wedged.sweeps": "sweeps after which an unanswered probe is a fault of the node",
    "fresh.hours": "hours after which a result that no sweep has confirmed is ignored",
    "ours.percent": "per cent of the nodes in service: if more have the same UNKNOWN, or newly fail a "
    "changed rule, it is muster's own fault and isolates no node",
    "ours.nodes": "least number of nodes for that",
    "incidents.at_least": "least number of nodes with one symptom in one place for an incident there",
    "incidents.share": "per cent of the place that must have it; for a version, a batch, a rail or a moment: "
    "of the nodes with the symptom",
    "incidents.window_minutes": "minutes between starts that count as one moment",
    "incidents.likelihood": "greatest likelihood of chance, as one in this many",
    "incidents.whole": "the same where all or nearly all of a rack, leaf, power or NVLink domain has it; "
    "above the greatest likelihood it isolates no node",
    "incidents.calm_hours": "hours with all its nodes healthy after which it closes",
    "incidents.reopen_days": "days within which a return reopens it",
    "incidents.as_one": "isolations for one rack, leaf, power or NVLink domain that do not count for the "
    "breaker",
    **{f"incidents.{kind}.{key}": said.format(f"{_SHARED[kind]}") for kind in KINDS for key, said in (
        ("owner", "who repairs {}"), ("isolates", "whether incidents of {} isolate nodes")) if key == "owner"
       or kind not in EXPLAINING},
    "climb.failures": "failures after that many reboots make it a hardware fault",
    "climb.days": "days within which they count",
    "repeat.score": "score of a repeat offender; a failure counts 1",
    "repeat.half_life_days": "days after which a failure counts half",
    "repeat.days": "days after which it no longer counts",
    "repeat.apart_hours": "hours within which a return is the same failure",
    "flap.times": "number of starts, the present one included, with which a fault is flapping: it isolates "
    "at once and stays",
    "flap.hours": "hours within which they count",
    "flap.calm_hours": "hours without it after which it is over",
    "remediation.attempts": "tries of a step on a node before a person inspects it",
    "remediation.days": "days within which they count",
    "remediation.at_once": "nodes repaired at a time, all in one failure domain",
    "remediation.settle_seconds": "seconds after a step within which the failed check must pass",
    "remediation.back_minutes": "minutes within which a node must answer after a reboot",
    "requalify.profile": "profile that a node must pass to return",
    "requalify.sweeps": "clean snapshots under it after the repair that measured what had failed",
    "requalify.apart_minutes": "least minutes between them",
    "breaker.number": "most new isolations in the window",
    "breaker.percent": "most new isolations, in per cent of the nodes in service",
    "breaker.least": "always allowed, even with few nodes, if the number is not lower",
    "breaker.hours": "hours of that window",
    "breaker.domains.rack": "of them in one rack; null: no limit",
    "breaker.domains.leaf": "of them behind one leaf switch",
    "breaker.domains.power": "of them on one power domain",
    "breaker.domains.nvlink_domain": "of them in one NVLink domain",
    "breaker.reserve": "of them kept for faults with reserve; one is always free for any fault",
    "breaker.close_hours": "hours below the limits after which the open breaker closes; null: a person "
    "closes it",
}
_JOBS = {Isolation.NONE: "jobs run and start",
         Isolation.NO_NEW_JOBS: "running jobs continue, no new ones start",
         Isolation.EVICT: "no new jobs start; running ones should end: muster ends none, triage shows the "
         "command for it"}
_WRAPPED: Any = {"subsequent_indent": " " * 13, "break_long_words": False, "break_on_hyphens": False}
_MADE_OF = {Of.FAIL: "rules that failed", Of.UNKNOWN: "rules that the node could not measure",
            Of.UNREACHED: "a node that no sweep has reached"}


def digest(policy: TriagePolicy) -> str:
    """A digest of the policy, independent of its files: equal policies have equal digests."""
    said = {"faults": [{**_fault(kind, policy), "file": None} for kind in policy.kinds],
            "repairs": {rule: repair.value for rule, repair in policy.repairs.items()},
            "numbers": numbers(policy), "places": [_cause(one) for one in policy.incidents.causes],
            "windows": [_window(one) for one in policy.windows]}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]


def numbers(policy: TriagePolicy) -> dict[str, Any]:
    """Every number by the name of its section and key."""
    found: dict[str, Any] = {"wedged.sweeps": policy.wedged, "fresh.hours": policy.fresh_hours}
    for section in ("ours", "incidents", "climb", "repeat", "flap", "requalify", "breaker"):
        found |= {f"{section}.{key}": value for key, value in vars(getattr(policy, section)).items()}
    found |= {f"breaker.domains.{kind}": most for kind, most in policy.breaker.domains.items()}
    for place, each in policy.incidents.kinds.items():
        found |= {f"incidents.{place}.owner": each.owner.value, f"incidents.{place}.isolates": each.isolates}
    found |= {f"remediation.{key}": value for key, value in vars(policy.remediation).items() if key != "uses"}
    return {name: found.get(name) for name in NUMBERS if not name.startswith("incidents.batch")
            or name in found}


def resolved(policy: TriagePolicy, rules: Iterable[Rule]) -> dict[str, list[str]]:
    """The rules of each fault; a rule belongs to the first fault that covers it."""
    found: dict[str, list[str]] = {kind.id: [] for kind in policy.kinds}
    for rule in rules:
        for of in (Of.FAIL, Of.UNKNOWN):
            if (kind := policy.kind(of, rule.id, rule.severity)) is not None:
                found[kind.id].append(rule.id)
    # No sweep judges these.
    for name in (*RULES, *watched.RULES, *fabricfindings.RULES):
        warns = name == SHARED or name not in RULES
        kind = policy.kind(Of.FAIL, name, Severity.WARNING if warns else Severity.CRITICAL)
        if kind is not None:
            found[kind.id].append(name)
    return found


def document(loaded: Loaded, rules: Iterable[Rule]) -> dict[str, Any]:
    """All of it, for programs."""
    policy, has = loaded.policy, resolved(loaded.policy, rules)
    faults = [{**_fault(kind, policy), "covers": has[kind.id], "from": _places(loaded, f"faults.{kind.id}.")}
              for kind in policy.kinds]
    return {
        "schema": "muster.policy/1", "digest": digest(policy), "files": list(policy.files), "faults": faults,
        "numbers": {name: {"value": value, "from": _places(loaded, name).get("")}
                    for name, value in numbers(policy).items()},
        "places": [{**_cause(one), "from": _places(loaded, f"places.{one.id}.")}
                   for one in policy.incidents.causes],
        "windows": [_window(one) for one in policy.windows],
        "out": {name: str(mark) for name, mark in loaded.out.items()},
    }


def fault_document(loaded: Loaded, kind: FaultKind, rules: Iterable[Rule]) -> dict[str, Any]:
    """One fault with its rules, and those that earlier faults take from it."""
    rules = tuple(rules)
    has = resolved(loaded.policy, rules)[kind.id]
    taken: dict[str, list[str]] = {}
    for rule in rules:
        earlier = loaded.policy.kind(kind.of, rule.id, rule.severity)
        if (kind.of is not Of.UNREACHED and kind.covers(kind.of, rule.id, rule.severity)
            and earlier is not None and earlier != kind):
            taken.setdefault(earlier.id, []).append(rule.id)
    return {**_fault(kind, loaded.policy), "covers": has, "taken": taken,
            "from": _places(loaded, f"faults.{kind.id}.")}


def rule_document(loaded: Loaded, rule: Rule) -> dict[str, Any]:
    """The faults of a rule's problems; null if the policy does not cover them."""
    found = {of.value: loaded.policy.kind(of, rule.id, rule.severity) for of in (Of.FAIL, Of.UNKNOWN)}
    return {"rule": rule.id, "severity": rule.severity.value,
            **{of: kind.id if kind is not None else None for of, kind in found.items()}}


def text(loaded: Loaded, rules: Iterable[Rule]) -> str:
    """The faults in their order, the numbers with a sentence each, what places can cause, change windows,
    and the files."""
    rules = tuple(rules)
    policy, has = loaded.policy, resolved(loaded.policy, rules)
    rows = [("fault", "isolation", "repair", "confirm", "reserve", "rules", "why")]
    for kind in policy.kinds:
        count = "-" if kind.of is Of.UNREACHED else str(len(has[kind.id]))
        rows.append((kind.id, kind.isolation.value, _repair(kind, "the rule's"), str(_sweeps(kind, policy)),
                     "yes" if kind.reserve else "no", count, kind.why + _site(loaded, f"faults.{kind.id}.")))
    lines = ["Faults. A problem belongs to the first that covers it; they are in order of urgency.", "",
             *_columns(rows), ""]
    lines += [f"{name} is disabled by {_near(mark)}" for name, mark in loaded.out.items()] + [""] * bool(
        loaded.out)
    lines += ["Numbers.", ""]
    lines += _columns([(name, _shown(value), NUMBERS[name] + _site(loaded, name))
                       for name, value in numbers(policy).items()])
    if policy.incidents.causes:
        lines += ["", "Places. Which kinds of place can cause what; the first entry that covers a problem "
                      "counts.", ""]
        lines += _columns([("what", "of", "rules", "kinds", "why"), *(
            (one.id, one.of.value,
             "-" if one.of is Of.UNREACHED
             else str(sum(policy.incidents.cause(one.of, rule.id) is one for rule in rules)),
             ", ".join(kind for kind in KINDS if kind in one.kinds),
             one.why + _site(loaded, f"places.{one.id}."))
            for one in policy.incidents.causes)])
    if policy.windows:
        lines += ["", f"Change windows{_site(loaded, 'windows')}. During one, only the faults that it names "
                      "isolate nodes.", ""]
        lines += _columns([("from", "until", "but", "why"),
                           *((said["from"], said["until"], ", ".join(said["but"]), said["why"])
                             for said in map(_window, policy.windows))])
    files = ", then ".join(_short(file) for file in policy.files)
    return "\n".join([*lines, "", f"From {files}. Digest {digest(policy)}."])


def fault_text(loaded: Loaded, kind: FaultKind, rules: Iterable[Rule]) -> str:
    """One fault and its rules."""
    said = fault_document(loaded, kind, rules)
    sweeps = _sweeps(kind, loaded.policy)
    rows = [
        ("made of", _MADE_OF[kind.of]),
        ("severity", ", ".join(said["severities"]) if said["severities"] else "any"),
        ("isolation", f"{kind.isolation.value}: {_JOBS[kind.isolation]}"),
        ("repair", f"{_repair(kind, 'what the rule asks for')}, unless the driver asks for another"),
        ("confirm", f"{sweeps} sweep{'s' * (sweeps != 1)} must have seen it"),
        ("reserve", "it may use the breaker's reserve" if kind.reserve else "no"),
        ("owner", kind.owner.value if kind.owner is not None else "the rule's own"),
        ("lasting", "only a new component, or a person, ends it" if kind.lasting else "no"),
        ("decides", "its repair precedes that of other faults in the same place" if kind.decides else "no"),
    ]
    if kind.of is not Of.UNREACHED:
        has = said["covers"]
        rows += [("rules", ", ".join(kind.rules)),
                 ("covers", f"{len(has)}: {_list(has)}" if has else "no rule")]
    rows += [("before it", f"{name} has {_list(taken, 4)}") for name, taken in said["taken"].items()]
    rows += [("file", place) for place in _files(loaded, f"faults.{kind.id}.")]
    return "\n".join([kind.id, "", f"  {kind.why}", "",
                      *(f"  {key:<11}{textwrap.fill(value, 105, **_WRAPPED)}" for key, value in rows)])


def rule_text(loaded: Loaded, rule: Rule) -> str:
    """Which faults a rule's problems are of, and what is then done."""
    rows = []
    for of, label in ((Of.FAIL, "fails"), (Of.UNKNOWN, "unknown")):
        kind = loaded.policy.kind(of, rule.id, rule.severity)
        sweeps = _sweeps(kind, loaded.policy) if kind is not None else 0
        rows.append((label,
                     "no fault: triage ignores it" if kind is None
                     else f"{kind.id}: isolation {kind.isolation.value}, repair "
                          f"{loaded.policy.asked(kind, rule.id).value}, after "
                          f"{sweeps} sweep{'s' * (sweeps != 1)}"))
    for of, label in ((Of.FAIL, "caused by"), (Of.UNKNOWN, "unread by")):
        if loaded.policy.incidents.causes:
            kinds = loaded.policy.incidents.may_cause(of, rule.id)
            found = loaded.policy.incidents.cause(of, rule.id)
            why = f" ({found.why})" if found is not None else " (no entry of places covers it)"
            rows.append((label, f"perhaps {', '.join(each for each in KINDS if each in kinds)}{why}"))
    return "\n".join(
        [f"{rule.id}  ({rule.severity.value})", "", *(f"  {key:<11}{value}" for key, value in rows)])


def _fault(kind: FaultKind, policy: TriagePolicy) -> dict[str, Any]:
    severities = sorted(each.value for each in kind.severities) if kind.severities is not None else None
    return {
        "fault": kind.id, "why": kind.why, "of": kind.of.value, "rules": list(kind.rules),
        "severities": severities, "isolation": kind.isolation.value,
        "repair": kind.repair.value if kind.repair is not None else None,
        "confirm": _sweeps(kind, policy), "reserve": kind.reserve,
        "owner": kind.owner.value if kind.owner is not None else None, "lasting": kind.lasting,
        "decides": kind.decides, "file": kind.file,
    }


def _repair(kind: FaultKind, otherwise: str) -> str:
    return kind.repair.value if kind.repair is not None else otherwise


def _cause(one: Causes) -> dict[str, Any]:
    return {"id": one.id, "why": one.why, "of": one.of.value, "rules": list(one.rules),
            "kinds": [kind for kind in KINDS if kind in one.kinds]}


def _window(one: ChangeWindow) -> dict[str, Any]:
    return {"from": _time(one.begins), "until": _time(one.ends), "why": one.why, "but": sorted(one.but)}


def _time(time: float | Weekly) -> str:
    return str(time) if isinstance(time, Weekly) else minute(time)


def _sweeps(kind: FaultKind, policy: TriagePolicy) -> int:
    return kind.confirm if kind.of is Of.FAIL else policy.wedged


def _marks(loaded: Loaded, prefix: str) -> dict[str, Mark]:
    return {name.removeprefix(prefix): mark for name, mark in loaded.origins.items()
            if name.startswith(prefix)}


def _places(loaded: Loaded, prefix: str) -> dict[str, str]:
    return {key: f"{mark.file}:{mark.line}" for key, mark in _marks(loaded, prefix).items()}


def _site(loaded: Loaded, name: str) -> str:
    """The last file that sets it, unless that is the first file."""
    marks = list(_marks(loaded, name).values())
    files = [file for file in loaded.policy.files[1:] if any(mark.file == file for mark in marks)]
    return f" ({_near(next(mark for mark in marks if mark.file == files[-1]))})" if files else ""


def _files(loaded: Loaded, prefix: str) -> list[str]:
    """Each file that sets part of it, with its keys."""
    marks = _marks(loaded, prefix)
    files = []
    for file in loaded.policy.files:
        keys = [key for key, mark in marks.items() if mark.file == file and key != "id"]
        if keys:
            line = min(marks[key].line for key in keys)
            files.append(f"{_short(file)}:{line}" + (
                f" sets {', '.join(keys)}" if len({mark.file for mark in marks.values()}) > 1 else ""))
    return files


def _near(mark: Mark) -> str:
    return f"{_short(mark.file)}:{mark.line}"


def _short(file: str) -> str:
    return display_name(file).removeprefix(f"{Path.cwd()}/")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _list(names: list[str], most: int = 100) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]) - 1)]
    return ["  " + "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)),
                              row[-1]]) for row in rows]
