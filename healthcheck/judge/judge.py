"""The judge: runs checks over facts under rules, and turns what they find, and what could not be measured, into results.

Invariant 1 lives here. A check that reads an absent field, gets a fact that is unmeasured or only partly measured, or an empty
collection that the SKU does not declare empty, is UNKNOWN for that subject, whatever it makes of the refusal; FAIL outranks
UNKNOWN, and both are reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from healthcheck.checks.base import GROWTH, Check, NotJudged, NotMeasured, NotSupported, Peers
from healthcheck.checks.growth import Growth
from healthcheck.facts.base import MEMBERS
from healthcheck.facts.values import Fact, Refusal, Unmeasured, refusals
from healthcheck.judge.nodefacts import NodeFacts, members
from healthcheck.model.outcome import Finding, LogEvidence, Note, Origin, Owner, Repair, Result, Status
from healthcheck.ruleset.rule import Rule, UnsupportedPolicy
from healthcheck.ruleset.sku import Sku
from inventory.text import clean

MOST_FINDINGS = 200
_MOST_LINES, _LONGEST_LINE, _MOST_RECORDS = 600, 8192, 2000     # of a log, in one finding
NO_EARLIER = "no earlier look at this node in this boot"


class CheckRun:
    """What running one check brought, before the rule's word on it."""

    __slots__ = ("caveats", "findings", "judged", "skipped", "unmeasured", "unsupported")

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.unmeasured: dict[str, Unmeasured] = {}
        self.unsupported: list[str] = []
        self.caveats: list[str] = []
        self.skipped = ""
        self.judged = True

    def refuse(self, refused: Iterable[Refusal], check: str) -> None:
        """Takes in what was refused to a check."""
        for one in refused:
            subject = one.fact.name if isinstance(one.fact, Fact) else check
            if isinstance(one, NotSupported):
                _add(self.unsupported, f"{one.field} of {subject}")
            elif isinstance(one, NotMeasured):
                self.unmeasured.setdefault(subject, Unmeasured(one.reason, one.origin))


def _add(lines: list[str], line: str) -> None:
    if line not in lines:
        lines.append(line)


def judge(rule: Rule, node: NodeFacts, sku: Sku | None) -> Result:
    """What one rule says of one node."""
    if rule.left_out:
        return result(rule, Status.SKIPPED, reason=rule.left_out)
    if sku is not None and sku.empty:
        for name in rule.fact_names:
            if name in sku.empty and node.facts.get(name) == ():
                return result(rule, Status.SKIPPED, reason=f"there are no {name}, as the SKU says")
    missing = rule.without_number(sku)
    if missing is not None:
        if sku is not None and sku.declines(missing):
            return result(rule, Status.SKIPPED, reason=f"the SKU {sku.name} says that {missing} is not judged")
        return result(rule, Status.UNKNOWN, reason=_no_number(missing, sku), origin=Origin.MUSTER)
    verdict = CheckRun()
    if (node.plain(rule.checked) or _ready(rule.checked, node, sku, verdict)) and _run(rule.checked, node, rule.values(sku), verdict):
        return rule.passed
    return rule_on(rule, verdict)


def _no_number(name: str, sku: Sku | None) -> str:
    if sku is None:
        return f"no SKU is named for this node, so {name} is not known"
    return sku.why_unknown.get(name, f"the SKU {sku.name} gives no {name}")


def _ready(check: Check, node: NodeFacts, sku: Sku | None, verdict: CheckRun) -> bool:
    """Whether there is anything to judge. The verdict is told what of the facts was not measured."""
    for name in check.facts:
        held = node.input(name)
        if held.plain:
            continue
        if held.nothing is not None:
            verdict.unmeasured = {name: held.nothing}
            return False
        if held.partly is not None:
            verdict.unmeasured[name] = held.partly
        if check.counts and verdict.unmeasured:
            return False
        for caveat in held.caveats:
            _add(verdict.caveats, caveat)
        if held.value == ():
            verdict.unmeasured.setdefault(name, _nothing(name, sku))
            return False
    for name in check.earlier:
        before = node.earlier(name)
        if before is None:
            verdict.skipped = NO_EARLIER
            return False
        if before.nothing is not None:
            verdict.unmeasured = {f"earlier {name}": before.nothing}
            return False
        if before.partly is not None:
            verdict.unmeasured[f"earlier {name}"] = before.partly
        if before.value == ():
            verdict.unmeasured.setdefault(f"earlier {name}", Unmeasured(f"the earlier look found no {name}"))
            return False
    return True


def _nothing(name: str, sku: Sku | None) -> Unmeasured:
    """What an empty collection means: a fault of the node where its SKU is known, ours where it is not."""
    if sku is None or (sku.provisional and not sku.numbers):
        return Unmeasured(f"there are no {name}, and no SKU says whether there should be", Origin.MUSTER)
    return Unmeasured(f"no {name} were found, and the SKU {sku.name} does not say that there are none")


def _run(check: Check, node: NodeFacts, values: Mapping[str, Any], verdict: CheckRun) -> bool:
    """Runs a check, over each subject by itself where it judges one at a time. Whether there is nothing to report."""
    refused: list[Refusal] = []
    ended = judged = 0
    with refusals(refused):
        try:
            subjects = _subjects(check, node, refused)
            others = [_argument(check, name, node) for name in check.arguments[1:]]
        except Refusal:
            subjects, others = [], []
        except Exception as error:  # noqa: BLE001  (a defect of a selection must cost its rules, not the sweep)
            subjects, others = [], []
            _broken(verdict, check, error)
        function, findings = check.function, verdict.findings
        for subject in subjects:
            before = len(refused)
            try:
                for found in islice(function(subject, *[argument(subject) for argument in others], **values), MOST_FINDINGS):
                    if isinstance(found, Note):
                        _add(verdict.caveats, clean(found.text))
                    else:
                        findings.append(sound(found, getattr(subject, "name", "")))
            except Refusal:
                continue        # which is on record
            except NotJudged as error:
                if not findings and not refused:
                    verdict.skipped = clean(str(error))
                    return False
                _add(verdict.caveats, clean(str(error)))    # what others showed before stands
            except Exception as error:  # noqa: BLE001  (a defect of a check must cost its rule, not the sweep)
                if len(refused) == before:
                    _broken(verdict, check, error)
                continue
            ended += 1
            judged += len(refused) == before
    if refused:
        verdict.refuse(refused, check.name)
        for one in refused:
            one.__traceback__ = None    # whose frames hold this list: a cycle that keeps all of the node's facts
        if check.each and subjects:
            verdict.judged = judged > 0
        else:
            verdict.judged = ended == len(subjects) and not _spoilt(check, node, refused)
        if check.counts:
            verdict.findings = []
    return not (verdict.findings or verdict.unmeasured or verdict.unsupported or verdict.caveats)


def _broken(verdict: CheckRun, check: Check, error: Exception) -> None:
    verdict.unmeasured[check.name] = Unmeasured(f"the check failed: {type(error).__name__}: {error}", Origin.MUSTER)


def _subjects(check: Check, node: NodeFacts, refused: list[Refusal]) -> Sequence[Any]:
    """What the check is run over: each member, or all of them at once, as it takes them."""
    if check.over:
        chosen = node.chosen(check.over, check.subject)
        refused += chosen.refused
        if chosen.failed is not None:
            raise chosen.failed
        value: Any = chosen.members
    else:
        value = node.input(check.subject).value
    if check.each:
        return members(value)
    return (Peers(members(value)) if check.arguments[0] in check.peers_of else value,)


def _argument(check: Check, name: str, node: NodeFacts) -> Callable[[Any], Any]:
    """What gives an argument for a subject."""
    if name == GROWTH:
        growth = growth_of(node, check.subject)
        whole = not check.each and type(node.input(check.subject).value) is tuple
        return (lambda _: growth) if whole else growth
    if name in MEMBERS:
        return lambda subject: node.joined(name, subject)
    value = node.input(name).value
    given = Peers(members(value)) if name in check.peers_of else value
    return lambda _: given


def growth_of(node: NodeFacts, name: str) -> Callable[[Fact], Growth[Any]]:
    """A function that gives the growth of each subject of a fact; it refuses a subject whose identity was not measured."""
    growths = node.growths(name)

    def growth(subject: Fact) -> Growth[Any]:
        known = growths.get(id(subject))
        if known is None:
            _ = subject.identity        # which refuses what it lacks
            raise NotMeasured(subject, "it is there twice")
        return known

    return growth


def _spoilt(check: Check, node: NodeFacts, refused: Iterable[Refusal]) -> bool:
    """Whether nothing is left of one of the facts that the check takes whole, now or in the earlier snapshot."""
    ids = {id(one.fact) for one in refused}
    return any(value != () and all(id(member) in ids for member in members(value)) for value in node.taken(check))


def rule_on(rule: Rule, verdict: CheckRun) -> Result:
    """The rule's word on what its check brought."""
    if verdict.skipped:
        return result(rule, Status.SKIPPED, reason=verdict.skipped)
    findings = list(dict.fromkeys(verdict.findings))
    unmeasured = dict(verdict.unmeasured)
    notes = [f"{name}: {value.reason}" for name, value in unmeasured.items()] + verdict.caveats
    if verdict.unsupported:
        what = f"not supported: {_few(verdict.unsupported)}"
        if rule.unsupported is UnsupportedPolicy.FAIL:
            findings += [Finding("not supported", "supported", subject) for subject in verdict.unsupported]
        elif rule.unsupported is UnsupportedPolicy.UNKNOWN:
            unmeasured.update((subject, Unmeasured("not supported")) for subject in verdict.unsupported)
            notes.append(what)
        elif not verdict.judged and not findings and not unmeasured:
            return result(rule, Status.SKIPPED, reason=what)
        else:
            notes.append(what)
    reason = _few(notes)
    if findings:
        return result(rule, Status.FAIL, findings[:MOST_FINDINGS], reason=reason)
    if unmeasured:
        node = any(value.origin is Origin.NODE for value in unmeasured.values())
        return result(rule, Status.UNKNOWN, reason=reason, origin=Origin.NODE if node else Origin.MUSTER)
    return result(rule, Status.PASS, reason=reason)


def _few(notes: Iterable[str], most: int = 3) -> str:
    listed = list(notes)
    more = f"; and {len(listed) - most} more" if len(listed) > most else ""
    return "; ".join(listed[:most]) + more


def result(
    rule: Rule, status: Status, findings: Iterable[Finding] = (), *, reason: str = "", origin: Origin | None = None,
) -> Result:
    remedy = rule.remedy if status is Status.FAIL else ""
    owner = rule.owner if status is Status.FAIL else None
    return Result(rule.id, rule.checked.name, status, rule.severity, tuple(findings), clean(reason, 1000), origin, remedy, owner)


def sound(finding: Finding, subject: str = "") -> Finding:
    """The finding, made of numbers and clean lines only, of this subject where it names none itself.

    Raises what a value that is no finding raises, inside the check's run.
    """
    if finding.owner is not None and not isinstance(finding.owner, Owner):
        raise ValueError(f"{finding.owner!r} is no owner")
    if finding.repair is not None and not isinstance(finding.repair, Repair):
        raise ValueError(f"{finding.repair!r} is no repair")
    return Finding(
        _shown(finding.observed), _shown(finding.expected), clean(finding.subject or subject), clean(finding.remedy, 1000),
        finding.owner, finding.repair, tuple(clean(line, _LONGEST_LINE) for line in finding.lines[:_MOST_LINES]), _sound_log(finding.log),
    )


def _sound_log(log: LogEvidence | None) -> LogEvidence | None:
    """The same, with clean words."""
    if log is None:
        return None
    if not isinstance(log, LogEvidence):
        raise ValueError(f"{log!r} is no evidence of a log")
    records = tuple(number for number in log.records[:_MOST_RECORDS] if type(number) is int)
    return replace(log, emitter=clean(log.emitter, 80), ends=clean(log.ends, 20), records=records)


def _shown(value: object) -> object:
    """Numbers stay numbers; whatever else a check saw becomes one clean line, for it may be a node's own words."""
    return value if isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)) else clean(value)
