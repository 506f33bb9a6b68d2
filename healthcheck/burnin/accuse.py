"""Turns the evidence of pair tests into accusations, one for each cause, with the tests for and against."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace

from healthcheck.burnin import faults, limits
from healthcheck.burnin.model import Accusation, Object
from healthcheck.burnin.posterior import Rival, WeighedEvidence
from healthcheck.burnin.priors import ENOUGH
from healthcheck.burnin.suspects import Suspects
from healthcheck.burnin.weigh import CandidateCause, PairEvidence, PairOutcome, PairTest
from inventory.text import listed

_MOST_ODDS = 14.0       # larger odds (over a million to one) are beyond the model
_UNLIKELY = -4.0        # odds of 1 to 55, beside the learned noise
_NO_TEST = "no test of two nodes can decide"


def accusations(weighed: WeighedEvidence, with_proven: Set[tuple[str, int]]) -> tuple[Accusation, ...]:
    """All accusations. `with_proven` holds (node, test) where the node was tested with a proven one."""
    evidence = weighed.evidence
    failed = weighed.unexplained(())
    if failed and not any(test.outcome is PairOutcome.PASS for test in evidence.tests):
        why = ("no pair passed, so there is nothing to compare with: something that all share is at fault, "
               "or too many nodes are")
        return (_accusation(evidence, Object.UNEXPLAINED, "all pairs", why, failed, []),)
    found: dict[tuple[Object, str], Accusation] = {}
    for one in (*_named(weighed, with_proven), *_open(weighed), *_unexplained(weighed)):
        # A leaf may be guilty both inside and at its uplinks: that is one accusation.
        known = found.setdefault((one.object, one.name), one)
        if known is not one:
            found[one.object,
                  one.name] = replace(known,
                                      tests_for=tuple(dict.fromkeys((*known.tests_for, *one.tests_for))))
    return tuple(map(_shortened, found.values()))


def _named(weighed: WeighedEvidence, with_proven: Set[tuple[str, int]]) -> Iterator[Accusation]:
    for cause in weighed.accused:
        for one in _OF[cause.kind](weighed, cause, with_proven):
            yield replace(one, why=f"{one.why}; {_next_best(weighed, cause)}")


def _shortened(one: Accusation) -> Accusation:
    """Shortens the lists of tests; unexplained failures keep theirs, as they name nodes that cannot pass."""
    return replace(one, tests_for=one.tests_for if one.object is Object.UNEXPLAINED else _some(one.tests_for),
                   tests_against=_some(one.tests_against))


def _some(lines: tuple[str, ...]) -> tuple[str, ...]:
    return ((*lines[:limits.TESTS], f"and {len(lines) - limits.TESTS} more")
            if len(lines) > limits.TESTS else lines)


def _next_best(weighed: WeighedEvidence, cause: CandidateCause) -> str:
    """The best alternative, and how much less likely it is."""
    rival = weighed.rivals[cause]
    instead = _named_causes(other for other in rival.causes if other not in weighed.best)
    odds = f"{math.exp(min(rival.worse, _MOST_ODDS)):,.0f}"
    undecided = cause.kind == "inside" and instead and Suspects(weighed, {}).decides(rival) is None
    return (f"{instead or 'chance'} instead is {'over ' if rival.worse > _MOST_ODDS else ''}{odds} times "
            "less likely"
            f"{f', by how rare each is: {_NO_TEST}' if undecided else ''}")


def _open(weighed: WeighedEvidence) -> Iterator[Accusation]:
    """What good explanations differ on: no one is named, unless all that they share has one name."""
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
        yield replace(_accusation(evidence, Object.UNEXPLAINED, name, why, tests, sorted(set(passed))),
                      nodes=_touched(causes, evidence))


def _touched(causes: Iterable[CandidateCause], evidence: PairEvidence) -> tuple[str, ...]:
    """The nodes that are or lie behind one of these causes."""
    known, sites = list(causes), evidence.sites
    names = {name for cause in known for name in (cause.name, cause.other)} - {""}
    groups = {cause.group for cause in known}
    return tuple(node for node in sites.order
                 if node in names or not groups.isdisjoint((sites.leaf[node], sites.near[node]))
                 or not names.isdisjoint((str(sites.leaf[node]), str(sites.near[node]))))


def _times(rival: Rival) -> str:
    return f"{math.exp(rival.worse):.3g} to 1"


def _path_between(causes: Iterable[CandidateCause]) -> CandidateCause | None:
    """The path between two groups where all candidates lie on it: no third group tells the two ends apart."""
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
    """The path between two groups, and the uplinks of both."""
    return {cause for at in tests for cause in evidence.causes[at]
            if cause == path or (cause.kind == "uplinks" and cause.name in (path.name, path.other))}


def _named_causes(causes: Iterable[CandidateCause], word: str = ", ") -> str:
    names = list(dict.fromkeys(_called(cause) for cause in causes))
    return listed(names, limits.NAMES, word)


def _called(cause: CandidateCause) -> str:
    if cause.kind in ("pair", "between"):
        return f"the path {cause.name} - {cause.other}"
    where = {"node": "", "out": "what leads out of ", "uplinks": "what leads out of ",
             "inside": "all of "}[cause.kind]
    return f"{where}{cause.name or 'the nodes without a leaf'}"


def doubts(weighed: WeighedEvidence) -> tuple[str, ...]:
    """The failures that did not come again when their pair was measured again, a line each."""
    return tuple(f"{test.test}: {test.pair} {test.fault} once, but not again" for test in noise(weighed))


def noise(weighed: WeighedEvidence) -> tuple[PairTest, ...]:
    """The failures that did not come again when their pair was measured again."""
    return tuple(weighed.evidence.tests[at] for at in weighed.unexplained(weighed.best)
                 if _is_noise(weighed, at))


def _node(weighed: WeighedEvidence, cause: CandidateCause,
          with_proven: Set[tuple[str, int]]) -> list[Accusation]:
    evidence = weighed.evidence
    failed, passed = _own(weighed, cause), evidence.passed(CandidateCause("node", cause.name))
    partners = {evidence.tests[at].pair.other(cause.name) for at in failed}
    confirmed = any((cause.name, at) in with_proven for at in failed)
    why = f"failed in {len(failed)} of {len(failed) + len(passed)} tests, with {len(partners)} partners" + (
        ", one of them proven" if confirmed else ", none of them proven")
    if cause.kind == "out":
        why += "; only outside its leaf or NVLink domain"
    return [_accusation(evidence, Object.NODE, cause.name, why, failed, passed, confirmed)]


def _own(weighed: WeighedEvidence, cause: CandidateCause) -> list[int]:
    """The failures that speak for a cause: those that depend on it, and on no other accused cause."""
    failed = weighed.evidence.failed(cause)
    others = set(weighed.accused) - {cause}
    return [at for at in failed if others.isdisjoint(weighed.evidence.causes[at])] or failed


def _pair(weighed: WeighedEvidence, cause: CandidateCause, _: object) -> list[Accusation]:
    evidence = weighed.evidence
    failed, passed = evidence.failed(cause), evidence.passed(cause)
    elsewhere = [bool(evidence.passed(CandidateCause("node", node))) for node in (cause.name, cause.other)]
    name = f"{cause.name} - {cause.other}"
    if not all(elsewhere):
        who = " and ".join(node for node, known in zip((cause.name, cause.other), elsewhere, strict=True)
                           if not known)
        why = (f"failed in {len(failed)} of {len(failed) + len(passed)} tests, and {who} passed no test: "
               "either node, or the path")
        return [_accusation(evidence, Object.UNEXPLAINED, name, why, failed, passed)]
    why = f"failed in {len(failed)} of {len(failed) + len(passed)} tests of this pair; both pass with others"
    return [_accusation(evidence, Object.PAIR, name, why, failed, passed, len(failed) > 1)]


def _between(weighed: WeighedEvidence, cause: CandidateCause, failed: object) -> list[Accusation]:
    evidence = weighed.evidence
    own, passed = failed if isinstance(failed, list) else evidence.failed(cause), evidence.passed(cause)
    why = f"{len(own)} of {len(own) + len(passed)} pairs between them failed, and their nodes pass elsewhere"
    return [_accusation(evidence, Object.PAIR, f"{cause.name or 'no leaf'} - {cause.other or 'no leaf'}", why,
                        own, passed, True)]


def _group(weighed: WeighedEvidence, cause: CandidateCause, _: object) -> list[Accusation]:
    evidence = weighed.evidence
    failed, passed = _own(weighed, cause), evidence.passed(cause)
    others = {str(group) for at in failed for each in evidence.causes[at] if each.kind == "uplinks"
              and each != cause and (group := each.group) is not None}
    share = f"{len(failed)} of {len(failed) + len(passed)} tests"
    why = (f"{share} out of it failed, with {len(others)} others, while its nodes pass inside"
           if cause.kind == "uplinks" else (f"{share} of its nodes failed, with any partner"))
    if cause.group is None or not cause.group.name:
        why += "; the inventory does not say which leaf"
        return [_accusation(evidence, Object.UNEXPLAINED, "nodes without a leaf", why, failed, passed)]
    return [_accusation(evidence, Object.LEAF, str(cause.group), why, failed, passed, len(others) > 1)]


_OF = {"node": _node, "out": _node, "pair": _pair, "between": _between, "uplinks": _group, "inside": _group}


def _unexplained(weighed: WeighedEvidence) -> list[Accusation]:
    evidence = weighed.evidence
    left: dict[str, list[int]] = {}
    for at in weighed.unexplained(weighed.best):
        if not _is_noise(weighed, at):
            left.setdefault(str(evidence.tests[at].pair), []).append(at)
    return [_accusation(evidence, Object.UNEXPLAINED, name,
                        "failed, and no node, path or leaf explains more than one such failure", failed,
                        evidence.passed(CandidateCause("pair", *evidence.tests[failed[0]].pair)))
            for name, failed in left.items()]


def _is_noise(weighed: WeighedEvidence, at: int) -> bool:
    """Whether the pair passed when it was run again, or nothing that it depends on is likely to be bad; never
    for a failure that noise cannot cause."""
    evidence, test = weighed.evidence, weighed.evidence.tests[at]
    path = CandidateCause("pair", *test.pair)
    again = len(evidence.passed(path)) >= len(evidence.failed(path))
    return not test.hard and (again or all(weighed.gain(cause) < _UNLIKELY for cause in evidence.causes[at]))


def _accusation(
    evidence: PairEvidence, of: Object, name: str, why: str, failed: list[int], passed: list[int],
    confirmed: bool = False,
) -> Accusation:
    tests = [evidence.tests[at] for at in failed]
    faults_seen = Counter(test.fault for test in tests)
    fault = faults.WRONG_DATA if faults.WRONG_DATA in faults_seen else faults_seen.most_common(1)[0][0]
    return Accusation(of, name, fault, why, _lines(tests), _lines(evidence.tests[at] for at in passed),
                      confirmed)


def _lines(tests: Iterable[PairTest]) -> tuple[str, ...]:
    return tuple(f"{test.test}: {test.pair} {test.fault if test.outcome is PairOutcome.FAIL else 'passed'}"
                 for test in tests)
