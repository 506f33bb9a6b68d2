"""What a change of a rule, a SKU, the policy or muster brought, and what it is in words. Pure.

A problem comes from a change where its rule newly fails from the first two sweeps with it on, or is as bad as
it is only since then; and from one of the policy where only that made a fault of it that keeps jobs away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from healthcheck.model.faultkind import Isolation, Of
from healthcheck.model.outcome import Severity
from healthcheck.model.problem import Problem
from healthcheck.store.versions import POLICY
from healthcheck.triage.decidedby import ORDER, SECTION
from healthcheck.triage.faults import of
from healthcheck.triage.past import CameWith, NodeHistory, VersionChange
from healthcheck.triage.policy import TriagePolicy
from healthcheck.xid.xidtableload import NAMES as TABLES
from inventory.times import minute

# How the ids of rules begin that a file for kernel logs decides on: the tables of Xids, and all others.
_BY_TABLE = ("kernel-xid", "kernel-sxid")
_BY_BASELINE = ("kernel-", "disk-log-", "hca-log")
_HEADS = {"muster": "muster", POLICY: "policy", "sku": "SKUs", "rule": "rules", "baseline": "baselines"}
_SEVERITIES = (Severity.INFO.value, Severity.WARNING.value, Severity.CRITICAL.value)
_SHOWN, _KEYS = 4, 3


def judges(change: VersionChange, rule: str) -> bool:
    """Whether what changed can make this rule fail."""
    if change.kind == "rule":
        return rule == change.name
    if change.kind == "sku":
        return change.rules is None or rule in change.rules
    if change.kind == "baseline":
        return rule.startswith(_BY_TABLE if change.name in TABLES else _BY_BASELINE)
    return change.kind != POLICY


def raises(change: VersionChange, problem: Problem, policy: TriagePolicy) -> bool:
    """Whether the change made what was there already count for more: the rule's severity, or what the policy
    does about such a fault."""
    if change.kind == "rule":
        was, now = change.said.get("severity"), change.says.get("severity")
        return (problem.rule == change.name and was in _SEVERITIES and problem.severity == now
                and _SEVERITIES.index(was) < _SEVERITIES.index(problem.severity))
    what = of(problem)
    if change.kind != POLICY or not change.faults or what is None:
        return False
    severity = Severity(problem.severity)
    kind = policy.kind(what, problem.rule, severity)
    if kind is None or kind.id != change.name or kind.isolation is Isolation.NONE:
        return False
    old = next((one for one in change.faults if one.covers(what, problem.rule, severity)), None)
    return (old is None or old.isolation is Isolation.NONE
            or (what is Of.FAIL and problem.sweeps < old.confirm))


def brings(change: VersionChange, problem: Problem, policy: TriagePolicy) -> bool:
    """Whether a problem shows what the change can have brought, at the time at which it would: what failed on
    the node before is another question (`failed_before`)."""
    if raises(change, problem, policy):
        return problem.began <= change.until and (problem.ended is None or problem.ended >= change.began)
    return (of(problem) is Of.FAIL and judges(change, problem.rule)
            and change.began <= problem.began <= change.until)


def failed_before(
    past: NodeHistory, rule: str, change: VersionChange, policy: TriagePolicy, changes: ChangeIndex,
) -> bool:
    """Whether the rule failed on the node in the hours before the change, or when it came; what an earlier
    change brought and took with it again was none of the node's."""
    lately = change.began - policy.fresh_hours * 3600
    return any(problem.rule == rule and of(problem) is Of.FAIL and problem.began < change.began
               and (problem.ended is None or problem.ended >= lately)
               and not changes.undid(problem, past.sku)
               for problem in (*past.problems, *past.over))


def back(first: VersionChange, last: VersionChange) -> bool:
    """Whether a later change of the same made it what it was before the first: what was not there is gone, or
    switched off."""
    if first.before is None:
        return not last.digest or last.says.get("enabled") is False
    return last.digest == first.was and all(last.says[key] == first.said[key]
                                            for key in last.says.keys() & first.said.keys())


class ChangeIndex:
    """Changes of what nodes are judged by, by the rule that each is of."""

    def __init__(self, changes: Iterable[VersionChange]) -> None:
        self._of_rule: dict[str, list[VersionChange]] = defaultdict(list)
        self._others: list[VersionChange] = []
        for change in changes:
            if change.kind == "rule":
                self._of_rule[change.name].append(change)
            elif change.kind in _HEADS:
                self._others.append(change)

    def about(self, rule: str, sku: str = "") -> Iterator[VersionChange]:
        """Those that may have changed what a rule says of a node of this SKU."""
        yield from self._of_rule.get(rule, ())
        yield from (one for one in self._others if one.kind != "sku" or sku in ("", one.name))

    def undid(self, problem: Problem, sku: str = "") -> bool:
        """Whether a problem that began by what a change brought was over with the change back."""
        if problem.ended is None or of(problem) is not Of.FAIL:
            return False
        about = [change for change in self.about(problem.rule, sku) if judges(change, problem.rule)]
        return any(
            first.began <= problem.began < last.began <= problem.ended <= last.until
            and (first.kind, first.name) == (last.kind, last.name) and back(first, last)
            for last in about if last.exact for first in about)

    def outlived(self, problem: Problem, change: VersionChange, sku: str = "") -> bool:
        """Whether a problem was there still when the change was back long enough: then it is none of it."""
        return any(change.began < last.began and problem.began < last.began
                   and (change.kind, change.name) == (last.kind, last.name) and back(change, last)
                   and (problem.seen >= last.until if problem.ended is None else problem.ended > last.until)
                   for last in self.about(problem.rule, sku))

    def __bool__(self) -> bool:
        return bool(self._of_rule or self._others)


def came_with(past: NodeHistory, changes: ChangeIndex, policy: TriagePolicy) -> Mapping[Problem, CameWith]:
    """What is wrong with a node, or was, only since one of these changes: the one that explains it best."""
    found: dict[Problem, CameWith] = {}
    for problem in (*past.problems, *past.over):
        causes = [change for change in changes.about(problem.rule, past.sku)
                  if brings(change, problem, policy) and not changes.outlived(problem, change, past.sku)
                  and (raises(change, problem, policy)
                       or not failed_before(past, problem.rule, change, policy, changes))]
        if causes:
            best = min(causes, key=_closest)
            found[problem] = CameWith(_since(best), best.exact, best.began)
    return found


def _since(change: VersionChange) -> str:
    """What a problem came with, in words that claim no more than is known."""
    when = minute(change.began)
    if change.first_judged:
        return f"first seen when {called(change)} was judged for the first time, at {when}"
    if change.before is None:
        return f"only since {called(change)} is there, from {when}"
    return f"{'only since' if change.exact else 'first seen when'} {words(change)} changed at {when}"


def went_with(past: NodeHistory, changes: ChangeIndex, since: float) -> str:
    """Which changes may be why what failed on the node since then does not any more; empty where none is."""
    found = [f"{problem.rule} was over when {words(change)} changed at {minute(change.began)}"
             for problem in past.over if problem.ended is not None and problem.ended >= since
             and of(problem) is Of.FAIL for change in changes.about(problem.rule, past.sku)
             if change.exact and judges(change, problem.rule)
             and change.began <= problem.ended <= change.until]
    return "; ".join(dict.fromkeys(found))


def _closest(change: VersionChange) -> tuple[int, float]:
    """Of several the one that says best what it concerns: a rule's own text before muster's version."""
    order = ("rule", POLICY, "sku", "baseline", "muster")
    return order.index(change.kind) if change.kind in order else len(order), -change.began


def words(change: VersionChange) -> str:
    """What changed, from what to what."""
    what = called(change)
    if not change.digest:
        return f"{what} (gone)"
    if change.before is None:
        return f"{what} ({'judged for the first time' if change.first_judged else 'new'})"
    how = difference(change)
    return f"{what} ({how})" if how else what


def called(change: VersionChange) -> str:
    """What changed."""
    if change.kind == "muster":
        return "muster"
    if change.kind == POLICY:
        name = change.name.removeprefix(SECTION)
        return name if name != change.name or name == ORDER else f"fault {name}"
    return f"{change.kind} {change.name}"


def difference(change: VersionChange) -> str:
    """From what to what it changed; empty where that is not known."""
    if not change.was or not change.digest:
        return ""
    found = [f"{key} {_short(was)} -> {_short(now)}"
             for key, was, now in _differences(change.said, change.says)]
    if not found:
        return f"{change.was[:16]} -> {change.digest[:16]}"
    more = f" and {len(found) - _KEYS} more" if len(found) > _KEYS else ""
    return f"{', '.join(found[:_KEYS])}{more}"


def _differences(said: Mapping[str, Any], says: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    """By key, in their order, what was said and what is said now, those of what they hold one by one."""
    for key in sorted(said.keys() & says.keys()):
        was, now = said[key], says[key]
        if isinstance(was, dict) and isinstance(now, dict):
            for inner in sorted(was.keys() | now.keys()):
                if was.get(inner) != now.get(inner):
                    yield inner, was.get(inner, "-"), now.get(inner, "-")
        elif was != now:
            yield key, was, now


def _short(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_short, value)) + "]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def batches(changes: Iterable[VersionChange]) -> list[tuple[float, list[VersionChange]]]:
    """What changed between the same two sweeps, oldest first; what nodes run is no part of it."""
    found: dict[float, list[VersionChange]] = defaultdict(list)
    for change in changes:
        if change.kind in _HEADS:
            found[change.began].append(change)
    order = list(_HEADS)
    return [(began, sorted(each, key=lambda one: (order.index(one.kind), one.name)))
            for began, each in sorted(found.items())]


def lines(changes: Iterable[VersionChange], most: int = 5) -> Iterator[str]:
    """What changed, a line for each time, oldest first; of many the newest, and how many there are before. A
    rule that was there and is only judged since then, such as one of growth from the second sweep on, was
    changed by no one: what it brings names it."""
    found = batches(change for change in changes if not change.first_judged)
    if len(found) > most:
        yield (f"what nodes are judged by changed {len(found) - most} times before that: muster history "
               "--changes")
    yield from (line(began, each) for began, each in found[-most:])


def line(began: float, changes: Sequence[VersionChange]) -> str:
    """What changed then, in one line: 'rules changed at T: rule gpu-count (expected 8 -> 9)'."""
    heads = list(dict.fromkeys(_HEADS[change.kind] for change in changes))
    what = " and ".join(heads) if len(heads) < 3 else f"{', '.join(heads[:-1])} and {heads[-1]}"
    more = f"; and {len(changes) - _SHOWN} more: muster history --changes" if len(changes) > _SHOWN else ""
    first = "; ".join(words(change) for change in changes[:_SHOWN])
    return f"{what} changed at {minute(began)}: {first}{more}"


def change_document(change: VersionChange) -> dict[str, Any]:
    """One change for programs. Times are epoch seconds; `before` is the last sweep without it, None where
    there was none of the name, and `until` None while it holds."""
    return {"kind": change.kind, "name": change.name, "began": change.began, "before": change.before,
            "until": change.after, "was": change.was, "is": change.digest, "words": words(change)}
