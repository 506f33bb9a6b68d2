"""Says what the evidence of pairs comes to: an accusation for each cause, with the tests for and against, or 'unexplained'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import replace

from healthcheck.burnin import faults
from healthcheck.burnin.model import Accusation, Object
from healthcheck.burnin.weigh import Cause, Evidence, Outcome, Tested, Weighed

_MOST_TESTS = 16        # named for and against one accusation; how many more there were is said


def accusations(weighed: Weighed, with_proven: Set[tuple[str, int]]) -> tuple[Accusation, ...]:
    """Who is accused. `with_proven` are (node, test) where the node was tried with one that had been proven."""
    evidence = weighed.evidence
    failed = weighed.unexplained(())
    if failed and not any(test.outcome is Outcome.PASS for test in evidence.tests):
        why = "no pair passed, so there is nobody to compare with: what all of them share is at fault, or too many of them"
        return (_accusation(evidence, Object.UNEXPLAINED, "all pairs", why, failed, []),)
    found: dict[tuple[Object, str], Accusation] = {}
    for cause in weighed.accused:
        for one in _OF[cause.kind](weighed, cause, with_proven):
            # A leaf may be guilty inside and in what leads out of it, which is one accusation.
            known = found.setdefault((one.object, one.name), one)
            if known is not one:
                found[one.object, one.name] = replace(known, tests_for=tuple(dict.fromkeys((*known.tests_for, *one.tests_for))))
    return (*found.values(), *_unexplained(weighed))


def doubts(weighed: Weighed) -> tuple[str, ...]:
    """The failures that did not come again when their pair was measured once more, a line each: noise, and nobody's fault yet."""
    found = []
    for at in weighed.unexplained():
        test = weighed.evidence.tests[at]
        if _did_not_come_again(weighed.evidence, at):
            found.append(f"{test.test}: {test.pair} {test.fault} once, and not again")
    return tuple(found)


def _node(weighed: Weighed, cause: Cause, with_proven: Set[tuple[str, int]]) -> list[Accusation]:
    evidence = weighed.evidence
    failed, passed = _own(weighed, cause), evidence.passed(cause)
    partners = {evidence.tests[at].pair.other(cause.name) for at in failed}
    confirmed = any((cause.name, at) in with_proven for at in failed)
    why = f"failed in {len(failed)} of {len(failed) + len(passed)} tests, with {len(partners)} partners" + (
        ", one of them proven" if confirmed else ", none of them proven")
    rails = _rails(evidence, failed)
    if rails:
        return [_accusation(evidence, Object.RAIL, f"{cause.name}/rail{rail}", f"{why}; only rail {rail} did", failed, passed, confirmed)
                for rail in rails]
    near = [at for at in passed if any(each.kind == "inside" and _is_near(evidence, at) for each in evidence.causes[at])]
    if near and not any(_is_near(evidence, at) for at in failed):
        why += "; only outside its leaf or NVLink domain"
    return [_accusation(evidence, Object.NODE, cause.name, why, failed, passed, confirmed)]


def _is_near(evidence: Evidence, at: int) -> bool:
    one, two = evidence.tests[at].pair
    return evidence.sites.near[one] == evidence.sites.near[two]


def _own(weighed: Weighed, cause: Cause) -> list[int]:
    """The failures that speak for a cause: all that depend on it, but those that only another accused one explains as well."""
    failed = weighed.evidence.failed(cause)
    others = set(weighed.accused) - {cause}
    return [at for at in failed if others.isdisjoint(weighed.evidence.causes[at])] or failed


def _rails(evidence: Evidence, failed: list[int]) -> list[int]:
    """The rails that alone are at fault: those that failed in most of these tests, while others passed there. [] where none stands out."""
    counts: Counter[tuple[int, Outcome]] = Counter()
    told = 0
    for at in failed:
        rails = evidence.tests[at].rails
        told += bool(rails)
        counts.update(rails.items())
    bad = sorted({rail for (rail, outcome), count in counts.items() if outcome is Outcome.FAIL and 2 * count > told})
    good = {rail for (rail, outcome), count in counts.items() if outcome is Outcome.PASS and 2 * count > told}
    return bad if told > 1 and good else []


def _pair(weighed: Weighed, cause: Cause, _: object) -> list[Accusation]:
    evidence = weighed.evidence
    failed, passed = evidence.failed(cause), evidence.passed(cause)
    elsewhere = [bool(evidence.passed(Cause("node", node))) for node in (cause.name, cause.other)]
    name = f"{cause.name} - {cause.other}"
    if not all(elsewhere):
        who = " and ".join(node for node, known in zip((cause.name, cause.other), elsewhere, strict=True) if not known)
        why = f"failed in {len(failed)} of {len(failed) + len(passed)} tests, and {who} passed with nobody: either node, or the path"
        return [_accusation(evidence, Object.UNEXPLAINED, name, why, failed, passed)]
    why = f"failed in {len(failed)} of {len(failed) + len(passed)} tests of this pair; both pass with others"
    return [_accusation(evidence, Object.PAIR, name, why, failed, passed, len(failed) > 1)]


def _between(weighed: Weighed, cause: Cause, _: object) -> list[Accusation]:
    evidence = weighed.evidence
    failed, passed = evidence.failed(cause), evidence.passed(cause)
    why = f"{len(failed)} of {len(failed) + len(passed)} pairs between them failed, and their nodes pass elsewhere"
    return [_accusation(evidence, Object.PAIR, f"{cause.name or 'no leaf'} - {cause.other or 'no leaf'}", why, failed, passed, True)]


def _group(weighed: Weighed, cause: Cause, _: object) -> list[Accusation]:
    evidence = weighed.evidence
    failed, passed = _own(weighed, cause), evidence.passed(cause)
    others = {str(group) for at in failed for each in evidence.causes[at] if each.kind == "uplinks" and each != cause
              and (group := each.group) is not None}
    share = f"{len(failed)} of {len(failed) + len(passed)} tests"
    why = f"{share} out of it failed, with {len(others)} others, while its nodes pass inside" if cause.kind == "uplinks" else (
        f"{share} of its nodes failed, with whomever they were paired")
    if cause.group is None or not cause.group.name:
        why += "; the inventory does not say which leaf"
        return [_accusation(evidence, Object.UNEXPLAINED, "nodes without a leaf", why, failed, passed)]
    rails = _rails(evidence, failed)
    names = [_switch(weighed, cause, rail) for rail in rails] or [str(cause.group)]
    return [_accusation(evidence, Object.LEAF, name, why, failed, passed, len(others) > 1) for name in names]


def _switch(weighed: Weighed, cause: Cause, rail: int) -> str:
    """The one switch that this rail of the group's nodes hangs on, where the inventory says so; else the group and the rail."""
    sites = weighed.evidence.sites
    leaves = {each.leaf for node, place in sites.places.items() if cause.group in (sites.leaf[node], sites.near[node])
              for each in place.rails if each.number == rail}
    only = leaves.pop() if len(leaves) == 1 else None
    return only or f"{cause.group}, rail {rail}"


_OF = {"node": _node, "pair": _pair, "between": _between, "uplinks": _group, "inside": _group}


def _unexplained(weighed: Weighed) -> list[Accusation]:
    evidence = weighed.evidence
    left: dict[str, list[int]] = {}
    for at in weighed.unexplained():
        if not _did_not_come_again(evidence, at):
            left.setdefault(str(evidence.tests[at].pair), []).append(at)
    return [_accusation(evidence, Object.UNEXPLAINED, name, "failed, and no node, path or leaf explains it by more than one sample", failed,
                        evidence.passed(Cause("pair", *evidence.tests[failed[0]].pair))) for name, failed in left.items()]


def _did_not_come_again(evidence: Evidence, at: int) -> bool:
    """Whether the pair itself was run again and did not fail again. What noise does not do needs no second time."""
    test = evidence.tests[at]
    cause = Cause("pair", *test.pair)
    return not test.hard and len(evidence.passed(cause)) >= len(evidence.failed(cause))


def _accusation(
    evidence: Evidence, of: Object, name: str, why: str, failed: list[int], passed: list[int], confirmed: bool = False,
) -> Accusation:
    tests = [evidence.tests[at] for at in failed]
    said = Counter(test.fault for test in tests)
    fault = faults.WRONG_DATA if faults.WRONG_DATA in said else said.most_common(1)[0][0]
    return Accusation(of, name, fault, why, _named(tests), _named(evidence.tests[at] for at in passed), confirmed)


def _named(tests: Iterable[Tested]) -> tuple[str, ...]:
    lines = [f"{test.test}: {test.pair} {test.fault if test.outcome is Outcome.FAIL else 'passed'}" for test in tests]
    return (*lines[:_MOST_TESTS], f"and {len(lines) - _MOST_TESTS} more") if len(lines) > _MOST_TESTS else tuple(lines)
