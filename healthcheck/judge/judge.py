"""The judge: runs checks over facts under rules, and turns what they find, and what was not measured, into
results.

Invariant 1 lives here. A check that reads an absent field, a fact that is not or only partly measured, or an
empty collection that the SKU does not declare empty, is UNKNOWN for that subject, even if the check ignores
the refusal. FAIL outranks UNKNOWN, and both are reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import Any

from healthcheck.checks.base import Check, NotJudged, NotMeasured, NotSupported
from healthcheck.facts.plain import plain
from healthcheck.facts.values import Fact, Refusal, Unmeasured, refusals
from healthcheck.judge.limits import LONGEST_LINE, MOST_FINDINGS, MOST_LINES, MOST_RECORDS
from healthcheck.judge.nodefacts import Given, NodeFacts, members
from healthcheck.model.cause import few
from healthcheck.model.outcome import (
    Finding,
    LogEvidence,
    Note,
    Origin,
    Owner,
    Repair,
    Result,
    Status,
    Unjudged,
)
from healthcheck.ruleset.rule import Rule, UnsupportedPolicy
from healthcheck.ruleset.sku import OF_GPUS, OF_PORTS, Sku
from inventory.text import clean

NO_EARLIER = "no earlier snapshot of this node in this boot"


class CheckRun:
    """What running one check brought, before its rule is applied. `unmeasured` has a subject's first reason,
    and `also` one of ours beside a first one that the subject is answerable for."""

    __slots__ = ("also", "caveats", "findings", "judged", "skipped", "unmeasured", "unsupported")

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.unmeasured: dict[str, Unmeasured] = {}
        self.also: list[tuple[str, Unmeasured]] = []
        self.unsupported: list[str] = []
        self.caveats: list[str] = []
        self.skipped = ""
        self.judged = True

    def add_refused(self, refused: Iterable[Refusal], check: str) -> None:
        """Adds the readings that were refused to a check."""
        for one in refused:
            subject = one.fact.name if isinstance(one.fact, Fact) else check
            if isinstance(one, NotSupported):
                _add_once(self.unsupported, f"{plain(one.field)} of {subject}")
            elif isinstance(one, NotMeasured):
                why = Unmeasured(one.reason, one.origin, one.asked)
                first = self.unmeasured.setdefault(subject, why)
                if first.asked and not why.asked and (subject, why) not in self.also:
                    self.also.append((subject, why))


def _add_once(lines: list[str], line: str) -> None:
    if line not in lines:
        lines.append(line)


class BoundRule:
    """A rule with the values that a SKU gives its check: what is the same for every node of that SKU."""

    __slots__ = ("answer", "empty", "function", "rule", "sku")

    def __init__(self, rule: Rule, sku: Sku | None) -> None:
        self.rule = rule
        self.sku = sku
        self.empty = () if rule.left_out else declared_empty(rule.checked, sku)
        self.answer: Result | None = None       # where no node's facts matter
        self.function: Callable[..., Iterable[Any]] = rule.checked.function
        missing = rule.without_number(sku)
        if rule.left_out:
            self.answer = result(rule, Status.SKIPPED, reason=rule.left_out)
        elif missing is None:
            if values := rule.values(sku):
                self.function = _with_values(self.function, values)
        elif sku is not None and sku.declines(missing):
            self.answer = result(rule, Status.SKIPPED,
                                 reason=f"the SKU {sku.name} says that {missing} is not judged")
        else:
            self.answer = result(rule, Status.UNKNOWN, reason=_no_number(missing, sku), origin=Origin.MUSTER)

    def judge(self, node: NodeFacts, refused: list[Refusal]) -> Result:
        """The result on one node. `refused` is the list into which the readings go that are refused from here
        on (`refusals`); it is this rule's own until the next one."""
        check = self.rule.checked
        if self.empty and (reason := found_empty(self.empty, node)):
            return result(self.rule, Status.SKIPPED, reason=reason)
        if self.answer is not None:
            return self.answer
        run, given = None, node.whole(check)
        if given is None:
            run = CheckRun()
            if not ready(check, node, run, lambda name: _empty(name, self.sku)):
                return conclude(self.rule, run)
            given = node.given(check)
        run = _run(self.function, check, node, given, run, refused)
        return self.rule.passed if run is None else conclude(self.rule, run)


def _with_values(function: Any, values: Mapping[str, Any]) -> Callable[..., Any]:
    """The check's function with a rule's values; its author may have wrapped it in another."""
    if hasattr(function, "__wrapped__"):
        return partial(function, **values)
    # As defaults of its own parameters they cost a call nothing; there are a thousand calls a node.
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__,
                        function.__closure__)
    made.__kwdefaults__ = {**(function.__kwdefaults__ or {}), **values}
    return made


def judge(rule: Rule, node: NodeFacts, sku: Sku | None) -> Result:
    """The result of one rule on one node."""
    refused: list[Refusal] = []
    with refusals(refused):
        return BoundRule(rule, sku).judge(node, refused)


def declared_empty(check: Check, sku: Sku | None) -> tuple[str, ...]:
    """The facts of a check that may be empty collections, as the SKU declares: the check is skipped then."""
    return tuple(name for name in check.facts if name in sku.empty) if sku is not None and sku.empty else ()


def found_empty(names: Iterable[str], node: NodeFacts) -> str:
    """Why a check is skipped of whose collections, which may be empty, one is; "" otherwise."""
    for name in names:
        if node.facts.get(name) == ():
            return f"there are no {plain(name)}, as the SKU says"
    return ""


def _no_number(name: str, sku: Sku | None) -> str:
    if sku is None:
        return f"no SKU is named for this node, so {name} is not known"
    return sku.why_unknown.get(name, f"the SKU {sku.name} gives no {name}")


def ready(check: Check, node: NodeFacts, run: CheckRun, empty: Callable[[str], Unmeasured]) -> bool:
    """Whether there is anything to judge; `run` gets what was not measured.

    `empty` gives the reason why an empty collection of this name counts as unmeasured.
    """
    for name in check.facts:
        held = node.input(name)
        if held.plain:
            continue
        if held.nothing is not None:
            run.unmeasured = {plain(name): held.nothing}
            return False
        if held.partly is not None:
            run.unmeasured[plain(name)] = held.partly
        if check.counts and run.unmeasured:
            return False
        for caveat in () if check.fleet else held.caveats:
            _add_once(run.caveats, caveat)
        if held.value == ():
            run.unmeasured.setdefault(plain(name), empty(name))
            return False
    for name in check.earlier:
        before = node.earlier(name)
        if before is None:
            run.skipped = NO_EARLIER
            return False
        if before.nothing is not None:
            run.unmeasured = {f"earlier {plain(name)}": before.nothing}
            return False
        if before.partly is not None:
            run.unmeasured[f"earlier {plain(name)}"] = before.partly
        if before.value == ():
            run.unmeasured.setdefault(f"earlier {plain(name)}",
                                      Unmeasured(f"the earlier snapshot found no {plain(name)}"))
            return False
    return True


def _empty(name: str, sku: Sku | None) -> Unmeasured:
    """What an empty collection means: a fault of the node where its SKU is known, ours where it is not."""
    if sku is None or (sku.provisional and _unlearned(name, sku)):
        return Unmeasured(f"there are no {plain(name)}, and no SKU says whether there should be",
                          Origin.MUSTER)
    return Unmeasured(f"no {plain(name)} were found, and the SKU {sku.name} does not say that there are none")


def _unlearned(name: str, sku: Sku) -> bool:
    """Whether most nodes did not show how many of what this collection belongs to there should be."""
    number = ("gpu_count" if name in ("gpus", *OF_GPUS) else
              "port_count" if name in ("ports", *OF_PORTS) else None)
    return not sku.numbers or (number is not None and sku.numbers.get(number) is None)


def _run(function: Callable[..., Iterable[Any]], check: Check, node: NodeFacts, given: Given,
         run: CheckRun | None, refused: list[Refusal]) -> CheckRun | None:
    """Runs a check, for each subject alone if it judges one at a time. `run` holds what is known before; None
    is returned where there is nothing to report."""
    refused[:] = given.refused
    if given.failed is not None:
        if not isinstance(given.failed, Refusal):
            run = _check_failed(run or CheckRun(), check, given.failed)
        elif given.failed not in refused:   # made elsewhere; a check without subjects has judged nothing
            refused.append(given.failed)
    ended = judged = 0      # the latter with all that the check asked for
    declined: list[str] = []
    for arguments in given.calls:
        recorded = len(refused)
        left = MOST_FINDINGS
        try:
            for found in function(*arguments):
                run = run or CheckRun()
                if isinstance(found, Note):
                    _add_once(run.caveats, clean(found.text))
                else:
                    run.findings.append(clean_finding(found, getattr(arguments[0], "name", "")))
                left -= 1
                if not left:
                    break
            ended += 1
            judged += len(refused) == recorded
        except Refusal as error:
            if error not in refused:        # made elsewhere
                refused.append(error)
        except NotJudged as error:
            _add_once(declined, clean(str(error)))
        except Exception as error:  # noqa: BLE001  (a defect of a check costs its rule only)
            if len(refused) == recorded:
                run = _check_failed(run or CheckRun(), check, error)
    if declined:
        run = run or CheckRun()
        if not run.findings and not refused:
            run.skipped = declined[0]
            return run
        for why in declined:        # what other subjects showed stands
            _add_once(run.caveats, why)
    if refused:
        run = run or CheckRun()
        run.add_refused(refused, check.name)
        for one in refused:
            # Its frames hold this list: a cycle that would keep all of the node's facts
            one.__traceback__ = None
        subjects = len(given.calls) + given.lacking
        if check.each and subjects:
            run.judged = judged > 0
        else:
            run.judged = ended == subjects and not _unreadable(check, node, refused)
        if check.counts:
            run.findings = []
    return run


def _check_failed(run: CheckRun, check: Check, error: Exception) -> CheckRun:
    run.unmeasured[check.name] = Unmeasured(f"the check failed: {type(error).__name__}: {error}",
                                            Origin.MUSTER)
    return run


def _unreadable(check: Check, node: NodeFacts, refused: Iterable[Refusal]) -> bool:
    """Whether nothing is left of a fact that the check takes whole, now or in the earlier snapshot."""
    ids = {id(one.fact) for one in refused}
    return any(value != () and all(id(member) in ids for member in members(value))
               for value in node.taken(check))


def conclude(rule: Rule, run: CheckRun) -> Result:
    """The rule's result for what its check brought."""
    if run.skipped:
        return result(rule, Status.SKIPPED, reason=run.skipped)
    findings = list(dict.fromkeys(run.findings))
    unmeasured = dict(run.unmeasured)
    parts = [Unjudged(clean(f"{name}: {value.reason}", 1000), value.asked)
             for name, value in (*unmeasured.items(), *run.also)]
    notes = list(run.caveats)
    if run.unsupported:
        what = f"not supported: {few(run.unsupported)}"
        if rule.unsupported is UnsupportedPolicy.FAIL:
            findings += [Finding("not supported", "supported", subject) for subject in run.unsupported]
        elif rule.unsupported is UnsupportedPolicy.UNKNOWN:
            unmeasured.update((subject, Unmeasured("not supported")) for subject in run.unsupported)
            parts.append(Unjudged(what))
        elif not run.judged and not findings and not unmeasured:
            return result(rule, Status.SKIPPED, reason=few([what, *notes]))
        else:
            notes.append(what)
    reason = few([*(part.text for part in parts), *notes])
    unjudged = (*parts, *(Unjudged(clean(note, 1000), note=True) for note in notes)) \
        if any(part.asked for part in parts) else ()
    if findings:
        return result(rule, Status.FAIL, findings[:MOST_FINDINGS], reason=reason, unjudged=unjudged)
    if unmeasured:
        node = any(value.origin is Origin.NODE for value in unmeasured.values())
        return result(rule, Status.UNKNOWN, reason=reason, origin=Origin.NODE if node else Origin.MUSTER,
                      unjudged=unjudged)
    return result(rule, Status.PASS, reason=reason)


def result(rule: Rule, status: Status, findings: Iterable[Finding] = (), *, reason: str = "",
           origin: Origin | None = None, unjudged: tuple[Unjudged, ...] = ()) -> Result:
    """A result of the rule; remedy and owner are set for a FAIL only."""
    remedy, owner = (rule.remedy, rule.owner) if status is Status.FAIL else ("", None)
    return Result(rule.id, rule.check, status, rule.severity, tuple(findings), clean(reason, 1000),
                  origin, remedy, owner, unjudged)


def clean_finding(finding: Finding, subject: str = "") -> Finding:
    """The finding, made of numbers and clean lines only, about `subject` where it names none itself.

    Raises whatever a value that is no finding raises, inside the check's run.
    """
    if finding.owner is not None and not isinstance(finding.owner, Owner):
        raise ValueError(f"{finding.owner!r} is no owner")
    if finding.repair is not None and not isinstance(finding.repair, Repair):
        raise ValueError(f"{finding.repair!r} is no repair")
    return Finding(_clean_value(finding.observed), _clean_value(finding.expected),
                   clean(finding.subject or subject), clean(finding.remedy, 1000), finding.owner,
                   finding.repair, tuple(clean(line, LONGEST_LINE) for line in finding.lines[:MOST_LINES]),
                   _clean_log(finding.log))


def _clean_log(log: LogEvidence | None) -> LogEvidence | None:
    if log is None:
        return None
    if not isinstance(log, LogEvidence):
        raise ValueError(f"{log!r} is no evidence of a log")
    records = tuple(number for number in log.records[:MOST_RECORDS] if type(number) is int)
    return replace(log, emitter=clean(log.emitter, 80), ends=clean(log.ends, 20), records=records)


def _clean_value(value: object) -> object:
    """Numbers stay numbers; anything else becomes one clean line, for it may be a node's own text."""
    number = isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value))
    return value if number else clean(value)
