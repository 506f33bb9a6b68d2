"""The judge: runs checks over facts under rules, and turns what they find, and what could not be measured, into results.

Invariant 1 lives here. A check that reads an unmeasured field, gets a fact that is unmeasured or only partly measured, or an
empty collection that the SKU does not declare empty, is UNKNOWN for that subject; FAIL outranks UNKNOWN, and both are told.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from healthcheck.checks.base import PREVIOUS, Check, NotJudged, NotMeasured
from healthcheck.facts.values import Fact, Unmeasured
from healthcheck.judge.guard import MOST_SUBJECTS, Guards, NotSupported, Subject, Subjects, original, whole
from healthcheck.model.outcome import Finding, LogEvidence, Note, Origin, Owner, Repair, Result, Status
from healthcheck.ruleset.rule import Rule, Unsupported
from healthcheck.ruleset.sku import Sku
from inventory.text import clean

MOST_FINDINGS = 200
MOST_RUNS = 64
_MOST_LINES, _LONGEST_LINE, _MOST_RECORDS = 600, 8192, 2000     # of a log, in one finding

Facts = Mapping[str, Any]
_NO_FACT = Unmeasured("not captured")


@dataclass
class Verdict:
    """What running one check brought, before the rule's word on it."""

    findings: list[Finding] = field(default_factory=list)
    unmeasured: dict[str, Unmeasured] = field(default_factory=dict)
    unsupported: list[str] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)
    skipped: str = ""
    judged: bool = True


def judge(rule: Rule, facts: Facts, previous: Facts | None, sku: Sku | None, guards: Guards | None = None) -> Result:
    """What one rule says of one node. `previous` holds the facts of the earlier look of the same boot, if there is one.

    `guards` spares the making of new ones where several rules are judged over the same facts.
    """
    if rule.left_out:
        return result(rule, Status.SKIPPED, reason=rule.left_out)
    if sku is not None and sku.empty:
        for name in rule.fact_names:
            if name in sku.empty and facts.get(name) == ():
                return result(rule, Status.SKIPPED, reason=f"there are no {name}, as the SKU says")
    values = rule.parameters
    if rule.numbers:
        missing = rule.without_number(sku)
        if missing is not None:
            if sku is not None and sku.declines(missing):
                return result(rule, Status.SKIPPED, reason=f"the SKU {sku.name} says that {missing} is not judged")
            return result(rule, Status.UNKNOWN, reason=_no_number(missing, sku), origin=Origin.MUSTER)
        values = rule.values(sku)
    verdict = _run(rule.checked, facts, previous, values, sku, guards or Guards())
    return rule.passed if verdict is None else rule_on(rule, verdict)


class Ready(NamedTuple):
    """A rule made ready for many nodes of one SKU: `takes` are its check's facts, and whether each is the earlier look's."""

    rule: Rule
    sku: Sku | None
    takes: tuple[tuple[str, bool], ...]
    values: Mapping[str, Any]

    def judge(self, facts: Facts, previous: Facts | None, guards: Guards) -> Result:
        """What `judge` says, at the least cost where all facts are plain, as on nearly every node."""
        rule, subjects = self.rule, []
        for name, earlier in self.takes:
            looked = previous if earlier else facts
            if looked is None or name not in looked:
                return judge(rule, facts, previous, self.sku, guards)
            subject = guards.subject(looked[name])
            if not subject.plain:
                return judge(rule, facts, previous, self.sku, guards)
            subjects.append(subject)
        verdict = _runs(rule.checked, subjects, self.values, guards, None)
        return rule.passed if verdict is None else rule_on(rule, verdict)


def ready(rule: Rule, sku: Sku | None) -> Ready | None:
    """The rule made ready for nodes of this SKU; None where no check is run over every one of them."""
    if rule.left_out or rule.without_number(sku) is not None or (sku is not None and not sku.empty.isdisjoint(rule.fact_names)):
        return None
    takes = tuple((name.removeprefix(PREVIOUS), name.startswith(PREVIOUS)) for name in rule.checked.facts)
    return Ready(rule, sku, takes, rule.values(sku))


def _no_number(name: str, sku: Sku | None) -> str:
    if sku is None:
        return f"no SKU is named for this node, so {name} is not known"
    return sku.why_unknown.get(name, f"the SKU {sku.name} gives no {name}")


def _run(
    check: Check, facts: Facts, previous: Facts | None, values: Mapping[str, Any], sku: Sku | None, guards: Guards,
) -> Verdict | None:
    """Runs a check, again and again without the subjects that it could not read, until it gets through; in bounded many runs.

    None says what nearly every run says: all was measured, nothing was found, and there is nothing to say beside it.
    """
    verdict: Verdict | None = None
    subjects: list[Subject] = []
    for name in check.facts:
        if name.startswith(PREVIOUS):
            if previous is None or name.removeprefix(PREVIOUS) not in previous:
                return Verdict(skipped="no earlier look at this node in this boot")
            value = previous[name.removeprefix(PREVIOUS)]
        else:
            value = facts.get(name, _NO_FACT)
        subject = guards.subject(value)
        subjects.append(subject)
        if subject.plain:
            continue
        verdict = verdict or Verdict()
        if subject.nothing is not None:
            return Verdict(unmeasured={name: subject.nothing if value is not _NO_FACT else Unmeasured(f"{name} was not captured")})
        if subject.partly is not None:
            verdict.unmeasured[name] = subject.partly
        if check.counts and verdict.unmeasured:
            return verdict
        verdict.caveats += [caveat for caveat in subject.caveats if caveat not in verdict.caveats]
        if subject.value == ():
            if name not in verdict.unmeasured:
                earlier = Unmeasured(f"the earlier look found no {name.removeprefix(PREVIOUS)}")
                verdict.unmeasured[name] = earlier if name.startswith(PREVIOUS) else _nothing(name, sku)
            return verdict

    return _runs(check, subjects, values, guards, verdict)


def _runs(
    check: Check, subjects: Sequence[Subject], values: Mapping[str, Any], guards: Guards, verdict: Verdict | None,
) -> Verdict | None:
    """The runs of a check over what there is to judge; `verdict` holds what is known before, if that is anything."""
    aside: set[int] = set()
    single: set[int] = set()
    guarded = [subject.guarded for subject in subjects]
    for run in itertools.count():
        tracker = guards.fresh()
        findings: list[Finding] = []
        notes: list[str] = []
        unread: str | None = None
        broken: Exception | None = None
        try:
            for finding in itertools.islice(check.function(*guarded, **values), MOST_FINDINGS):
                if isinstance(finding, Note):
                    notes.append(clean(finding.text))
                else:
                    findings.append(sound(finding))
        except NotMeasured as error:
            fact = original(error.fact)
            if isinstance(fact, Fact):
                tracker.unmeasured.setdefault(id(fact), (fact, Unmeasured(error.reason)))
            else:
                unread = error.reason
        except NotSupported:
            pass
        except NotJudged as error:
            return Verdict(skipped=clean(str(error)))
        except Exception as error:  # noqa: BLE001  (a defect of a check must cost its rule, not the sweep)
            broken = error
        if verdict is None:
            if tracker.clean and not findings and not notes and unread is None and broken is None:
                return None
            verdict = Verdict()
        if unread is not None:
            verdict.unmeasured[check.name] = Unmeasured(unread)
        if not run:
            single = {id(subject.value) for subject in subjects if type(subject.value) is not tuple}
        newly = {*tracker.unmeasured, *tracker.unsupported} - aside
        for identity in newly:
            if identity in tracker.unmeasured:
                owner, value = tracker.unmeasured[identity]
                verdict.unmeasured[owner.name] = value
            else:
                owner, label = tracker.unsupported[identity]
                _once(verdict.unsupported, f"{label} of {owner.name}")
        verdict.findings += findings
        verdict.caveats += [note for note in notes if note not in verdict.caveats]
        if broken is not None and not newly:
            reason = f"the check failed: {type(broken).__name__}: {broken}"
            verdict.unmeasured[check.name] = Unmeasured(reason, Origin.MUSTER)
        aside |= newly
        if check.counts and newly:
            verdict.findings = []
            break
        if run == MOST_RUNS and newly:
            # Nobody's hardware is like that, and each subject costs a run over all the others: now each is asked alone.
            for lacking, told in _alone(check, guarded, values, guards, frozenset(aside)):
                newly.add(id(lacking))
                aside.add(id(lacking))
                if isinstance(told, Unmeasured):
                    verdict.unmeasured[lacking.name] = told
                else:
                    _once(verdict.unsupported, f"{told} of {lacking.name}")
        if not newly or newly & single or broken is not None or run > 2 * MOST_RUNS:
            break
        guarded = [Subjects.of(s.guarded, aside) if type(s.guarded) is tuple else s.guarded for s in subjects]
    if aside and verdict is not None:
        # What the present look holds, and none of what it is compared with, is what there is to judge. Where nothing is left of one of
        # its collections (counters, say), the others (their ports) were judged by nothing.
        present = [{id(fact) for fact in subject.value} for name, subject in zip(check.facts, subjects, strict=True)
                   if not name.startswith(PREVIOUS) and type(subject.value) is tuple]
        verdict.judged = not aside & single and not any(collection and aside >= collection for collection in present)
    return verdict


def _once(said: list[str], what: str) -> None:
    """Of both looks alike is said once, whether they are one object or two."""
    if what not in said:
        said.append(what)


def _alone(
    check: Check, guarded: Sequence[Any], values: Mapping[str, Any], guards: Guards, aside: Collection[int],
) -> Iterator[tuple[Fact, Unmeasured | str]]:
    """Of the subjects that are not whole those that cannot answer this check when it is run over each of them alone, and why.

    Where even that is too dear, because a second collection is gone through for each, all of them are taken for unmeasured.
    """
    collections = [argument for argument in guarded if isinstance(argument, tuple)]
    dear = math.prod(map(len, collections)) > MOST_SUBJECTS * MOST_RUNS
    for place, collection in enumerate(guarded):
        for one in collection if isinstance(collection, tuple) else ():
            fact = original(one)
            if not isinstance(fact, Fact) or id(fact) in aside or whole(fact):
                continue
            if dear:
                yield fact, Unmeasured("too much of this node could not be measured")
                continue
            tracker = guards.fresh()
            with suppress(Exception):       # why it ended is on record, or is found by the next run over all
                for _ in itertools.islice(check.function(*guarded[:place], (one,), *guarded[place + 1:], **values), MOST_FINDINGS):
                    pass
            if id(fact) in tracker.unmeasured:
                yield fact, tracker.unmeasured[id(fact)][1]
            elif id(fact) in tracker.unsupported:
                yield fact, tracker.unsupported[id(fact)][1]


def _nothing(name: str, sku: Sku | None) -> Unmeasured:
    """What an empty collection means: a fault of the node where its SKU is known, ours where it is not."""
    if sku is None or (sku.provisional and not sku.numbers):
        return Unmeasured(f"there are no {name}, and no SKU says whether there should be", Origin.MUSTER)
    return Unmeasured(f"no {name} were found, and the SKU {sku.name} does not say that there are none")


def rule_on(rule: Rule, verdict: Verdict) -> Result:
    """The rule's word on what its check brought."""
    if verdict.skipped:
        return result(rule, Status.SKIPPED, reason=verdict.skipped)
    findings = list(dict.fromkeys(verdict.findings))
    unmeasured = dict(verdict.unmeasured)
    notes = [f"{name}: {value.reason}" for name, value in unmeasured.items()] + verdict.caveats
    if verdict.unsupported:
        what = f"not supported: {_few(verdict.unsupported)}"
        if rule.unsupported is Unsupported.FAIL:
            findings += [Finding(subject, "not supported", "supported") for subject in verdict.unsupported]
        elif rule.unsupported is Unsupported.UNKNOWN:
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


def sound(finding: Finding) -> Finding:
    """The finding, made of numbers and clean lines only; raises what a value that is no finding raises, inside the check's run."""
    if finding.owner is not None and not isinstance(finding.owner, Owner):
        raise ValueError(f"{finding.owner!r} is no owner")
    if finding.repair is not None and not isinstance(finding.repair, Repair):
        raise ValueError(f"{finding.repair!r} is no repair")
    return Finding(
        clean(finding.subject), _shown(finding.observed), _shown(finding.expected), clean(finding.remedy, 1000), finding.owner,
        finding.repair, tuple(clean(line, _LONGEST_LINE) for line in finding.lines[:_MOST_LINES]), _sound_log(finding.log),
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
