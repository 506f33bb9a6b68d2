"""Says what the evidence of pairs comes to: an accusation for each cause, with the tests for and against, or
'unexplained'.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace

from healthcheck.burnin import faults
from healthcheck.burnin.model import Accusation, Object
from healthcheck.burnin.posterior import Rival, Weighed
from healthcheck.burnin.priors import ENOUGH
from healthcheck.burnin.suspects import Suspects
from healthcheck.burnin.weigh import CandidateCause, PairEvidence, PairOutcome, Tested

_MOST_NAMES = 8
_MOST_ODDS = 14.0       # beyond a million to one the model is not to be believed so exactly
_UNLIKELY = -4.0        # 1 to 55 against a cause, beside the noise that was learned
_NO_TEST = "no test of two nodes tells them apart"
_MOST_TESTS = 16        # named for and against one accusation; how many more there were is said


def accusations(weighed: Weighed, with_proven: Set[tuple[str, int]]) -> tuple[Accusation, ...]:
    """Who is accused.

    `with_proven` are (node, test) where the node was tried with one that had been proven.
    """
    evidence = weighed.evidence
    failed = weighed.unexplained(())
    if failed and not any(test.outcome is PairOutcome.PASS for test in evidence.tests):
        why = ("no pair passed, so there is nobody to compare with: what all of them share is at fault, or "
               "too many of them")
        return (_accusation(evidence, Object.UNEXPLAINED, "all pairs", why, failed, []),)
    found: dict[tuple[Object, str], Accusation] = {}
    for one in (*_named(weighed, with_proven), *_open(weighed), *_unexplained(weighed)):
        # A leaf may be guilty inside and in what leads out of it, which is one accusation.
        known = found.setdefault((one.object, one.name), one)
        if known is not one:
            found[one.object,
                  one.name] = replace(known,
                                      tests_for=tuple(dict.fromkeys((*known.tests_for, *one.tests_for))))
    return tuple(map(_shortened, found.values()))


def _named(weighed: Weighed, with_proven: Set[tuple[str, int]]) -> Iterator[Accusation]:
    for cause in weighed.accused:
        for one in _OF[cause.kind](weighed, cause, with_proven):
            yield replace(one, why=f"{one.why}; {_next_best(weighed, cause)}")


def _shortened(one: Accusation) -> Accusation:
    """Not all tests for and against are named, but of what is unexplained: there the tests say whom that
    keeps from passing.
    """
    return replace(one, tests_for=one.tests_for if one.object is Object.UNEXPLAINED else _some(one.tests_for),
                   tests_against=_some(one.tests_against))


def _some(lines: tuple[str, ...]) -> tuple[str, ...]:
    return ((*lines[:_MOST_TESTS], f"and {len(lines) - _MOST_TESTS} more")
            if len(lines) > _MOST_TESTS else lines)


def _next_best(weighed: Weighed, cause: CandidateCause) -> str:
    """What else could be, and how much less likely that is."""
    rival = weighed.rivals[cause]
    instead = _named_causes(other for other in rival.causes if other not in weighed.best)
    odds = f"{math.exp(min(rival.worse, _MOST_ODDS)):,.0f}"
    alike = cause.kind == "inside" and instead and Suspects(weighed, {}).decides(rival) is None
    return (f"{instead or 'chance'} instead is {'over ' if rival.worse > _MOST_ODDS else ''}{odds} times "
            f"less likely"
            f"{f', by how rare each is: {_NO_TEST}' if alike else ''}")


def _open(weighed: Weighed) -> Iterator[Accusation]:
    """What good explanations differ on, those on the same failures as one: no one is named for it, unless
    what they share has a name.
    """
    evidence = weighed.evidence
    left = dict(weighed.doubtful)
    while left:
        first, rival = left.popitem()
        causes = {first: None, **dict.fromkeys(other for other in rival.causes if other not in weighed.best)}
        failed = {at for cause in causes for at in evidence.failed(cause)} & set(weighed.unexplained())
        for other in [other for other in left if failed & set(evidence.failed(other))]:
            causes.update({other: None,
                           **dict.fromkeys(one for one in left.pop(other).causes if one not in weighed.best)})
            failed |= set(evidence.failed(other)) & set(weighed.unexplained())
        tests = sorted(failed) or evidence.failed(first)
        shared = _path_between(causes)
        if shared is not None and weighed.worse(_on(shared, evidence, tests)) >= ENOUGH:
            yield from _between(weighed, shared, tests)
            continue
        pairs = {str(evidence.tests[at].pair) for at in tests}
        name = pairs.pop() if len(pairs) == 1 else _named_causes(causes)
        test = Suspects(weighed, {}).decides(rival)
        how = f"a test of {test} would decide" if test is not None else _NO_TEST
        passed = [at for cause in causes for at in evidence.passed(cause)]
        why = f"{_named_causes(causes, ' or ')} ({_times(rival)} between the best two): {how}"
        yield _accusation(evidence, Object.UNEXPLAINED, name, why, tests, sorted(set(passed)))


def _times(rival: Rival) -> str:
    return f"{math.exp(rival.worse):.3g} to 1"


def _path_between(causes: Iterable[CandidateCause]) -> CandidateCause | None:
    """The path between two groups, where all that could be guilty lies on it: with only two, no third tells
    whose end it is.
    """
    known = list(causes)
    between = next((cause for cause in known if cause.kind == "between"), None)
    groups = sorted({cause.name for cause in known if cause.kind == "uplinks"})
    if any(cause.kind not in ("between", "uplinks") for cause in known):
        return None
    if between is None:
        return CandidateCause("between", groups[0], groups[1]) if len(groups) == 2 else None
    return (between if set(groups) <= {between.name, between.other}
            and sum(cause.kind == "between" for cause in known) == 1 else None)


def _on(path: CandidateCause, evidence: PairEvidence, tests: Iterable[int]) -> set[CandidateCause]:
    """The path between two groups, and what leads out of them."""
    return {cause for at in tests for cause in evidence.causes[at]
            if cause == path or (cause.kind == "uplinks" and cause.name in (path.name, path.other))}


def _named_causes(causes: Iterable[CandidateCause], word: str = ", ") -> str:
    names = list(dict.fromkeys(_called(cause) for cause in causes))
    return word.join(names[:_MOST_NAMES]) + (f" and {len(names) - _MOST_NAMES} more"
                                             if len(names) > _MOST_NAMES else "")


def _called(cause: CandidateCause) -> str:
    if cause.kind in ("pair", "between"):
        return f"the path {cause.name} - {cause.other}"
    where = {"node": "", "out": "what leads out of ", "uplinks": "what leads out of ",
             "inside": "all of "}[cause.kind]
    return f"{where}{cause.name or 'the nodes without a leaf'}"


def doubts(weighed: Weighed) -> tuple[str, ...]:
    """The failures that did not come again when their pair was measured once more, a line each: noise, and
    nobody's fault yet.
    """
    found = []
    for at in weighed.unexplained(weighed.best):
        test = weighed.evidence.tests[at]
        if _is_noise(weighed, at):
            found.append(f"{test.test}: {test.pair} {test.fault} once, and not again")
    return tuple(found)


def _node(weighed: Weighed, cause: CandidateCause, with_proven: Set[tuple[str, int]]) -> list[Accusation]:
    evidence = weighed.evidence
    failed, passed = _own(weighed, cause), evidence.passed(CandidateCause("node", cause.name))
    partners = {evidence.tests[at].pair.other(cause.name) for at in failed}
    confirmed = any((cause.name, at) in with_proven for at in failed)
    why = f"failed in {len(failed)} of {len(failed) + len(passed)} tests, with {len(partners)} partners" + (
        ", one of them proven" if confirmed else ", none of them proven")
    if cause.kind == "out":
        why += "; only outside its leaf or NVLink domain"
    return [_accusation(evidence, Object.NODE, cause.name, why, failed, passed, confirmed)]


def _own(weighed: Weighed, cause: CandidateCause) -> list[int]:
    """The failures that speak for a cause: all that depend on it, but those that only another accused one
    explains as well.
    """
    failed = weighed.evidence.failed(cause)
    others = set(weighed.accused) - {cause}
    return [at for at in failed if others.isdisjoint(weighed.evidence.causes[at])] or failed


def _pair(weighed: Weighed, cause: CandidateCause, _: object) -> list[Accusation]:
    evidence = weighed.evidence
    failed, passed = evidence.failed(cause), evidence.passed(cause)
    elsewhere = [bool(evidence.passed(CandidateCause("node", node))) for node in (cause.name, cause.other)]
    name = f"{cause.name} - {cause.other}"
    if not all(elsewhere):
        who = " and ".join(node for node, known in zip((cause.name, cause.other), elsewhere, strict=True)
                           if not known)
        why = (f"failed in {len(failed)} of {len(failed) + len(passed)} tests, and {who} passed with nobody: "
               f"either node, or the path")
        return [_accusation(evidence, Object.UNEXPLAINED, name, why, failed, passed)]
    why = f"failed in {len(failed)} of {len(failed) + len(passed)} tests of this pair; both pass with others"
    return [_accusation(evidence, Object.PAIR, name, why, failed, passed, len(failed) > 1)]


def _between(weighed: Weighed, cause: CandidateCause, failed: object) -> list[Accusation]:
    evidence = weighed.evidence
    own, passed = failed if isinstance(failed, list) else evidence.failed(cause), evidence.passed(cause)
    why = f"{len(own)} of {len(own) + len(passed)} pairs between them failed, and their nodes pass elsewhere"
    return [_accusation(evidence, Object.PAIR, f"{cause.name or 'no leaf'} - {cause.other or 'no leaf'}", why,
                        own, passed, True)]


def _group(weighed: Weighed, cause: CandidateCause, _: object) -> list[Accusation]:
    evidence = weighed.evidence
    failed, passed = _own(weighed, cause), evidence.passed(cause)
    others = {str(group) for at in failed for each in evidence.causes[at] if each.kind == "uplinks"
              and each != cause and (group := each.group) is not None}
    share = f"{len(failed)} of {len(failed) + len(passed)} tests"
    why = (f"{share} out of it failed, with {len(others)} others, while its nodes pass inside"
           if cause.kind == "uplinks" else (f"{share} of its nodes failed, with whomever they were paired"))
    if cause.group is None or not cause.group.name:
        why += "; the inventory does not say which leaf"
        return [_accusation(evidence, Object.UNEXPLAINED, "nodes without a leaf", why, failed, passed)]
    return [_accusation(evidence, Object.LEAF, str(cause.group), why, failed, passed, len(others) > 1)]


_OF = {"node": _node, "out": _node, "pair": _pair, "between": _between, "uplinks": _group, "inside": _group}


def _unexplained(weighed: Weighed) -> list[Accusation]:
    evidence = weighed.evidence
    left: dict[str, list[int]] = {}
    for at in weighed.unexplained(weighed.best):
        if not _is_noise(weighed, at):
            left.setdefault(str(evidence.tests[at].pair), []).append(at)
    return [_accusation(evidence, Object.UNEXPLAINED, name,
                        "failed, and no node, path or leaf explains it by more than one sample", failed,
                        evidence.passed(CandidateCause("pair", *evidence.tests[failed[0]].pair)))
            for name, failed in left.items()]


def _is_noise(weighed: Weighed, at: int) -> bool:
    """Whether the pair itself was run again and did not fail again, or nothing that it depends on is half
    likely to be bad. What noise does not do needs no second time.
    """
    evidence, test = weighed.evidence, weighed.evidence.tests[at]
    path = CandidateCause("pair", *test.pair)
    again = len(evidence.passed(path)) >= len(evidence.failed(path))
    return not test.hard and (again or all(weighed.gain(cause) < _UNLIKELY for cause in evidence.causes[at]))


def _accusation(
    evidence: PairEvidence, of: Object, name: str, why: str, failed: list[int], passed: list[int],
    confirmed: bool = False,
) -> Accusation:
    tests = [evidence.tests[at] for at in failed]
    said = Counter(test.fault for test in tests)
    fault = faults.WRONG_DATA if faults.WRONG_DATA in said else said.most_common(1)[0][0]
    return Accusation(of, name, fault, why, _lines(tests), _lines(evidence.tests[at] for at in passed),
                      confirmed)


def _lines(tests: Iterable[Tested]) -> tuple[str, ...]:
    return tuple(f"{test.test}: {test.pair} {test.fault if test.outcome is PairOutcome.FAIL else 'passed'}"
                 for test in tests)
