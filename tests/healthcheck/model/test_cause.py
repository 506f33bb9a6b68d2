"""One cause for many rules: what it explains is folded, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model.cause import causes, is_explained, rest, with_causes
from healthcheck.model.outcome import Finding, Origin, Result, Severity, Status, Unjudged

SUBJECTS = ("GPU 1", "GPU 2", "driver", "nvme0 (0000:3b:00.0)")
NAMES = (*SUBJECTS, "nvme0")
ANSWERING = frozenset({"rule 0", "rule 1"})

parts = st.builds(lambda asked, note: Unjudged(f"why {asked}", () if note else tuple(asked), note),
                  st.lists(st.sampled_from(NAMES), max_size=2), st.booleans())
findings = st.lists(st.builds(lambda subject: Finding("x", "y", subject), st.sampled_from(SUBJECTS)),
                    min_size=1, max_size=3)


@st.composite
def results(draw: st.DrawFn) -> tuple[Result, ...]:
    found = []
    for number in range(draw(st.integers(1, 7))):
        status = draw(st.sampled_from(Status))
        left = tuple(draw(st.lists(parts, max_size=3))) if status in (Status.FAIL, Status.UNKNOWN) else ()
        if not any(part.asked for part in left):
            left = ()
        found.append(Result(
            f"rule {number}", "c", status, draw(st.sampled_from(Severity)),
            tuple(draw(findings)) if status is Status.FAIL else (),
            "; ".join(part.text for part in left) or "reason",
            Origin.NODE if status is Status.UNKNOWN else None, unjudged=left))
    return tuple(found)


def found_by(of: tuple[Result, ...], part: Unjudged, but: str) -> bool:
    """Whether a critical failure of an answering rule is about one of those that were asked."""
    return any(result.status is Status.FAIL and result.severity is Severity.CRITICAL
               and result.rule in ANSWERING and result.rule != but and name in (
                   finding.subject, finding.subject.partition(" (")[0])
               for result in of for finding in result.findings for name in part.asked)


@given(results())
def test_folding_changes_no_result_and_hides_no_failure_nor_an_unknown_with_another_cause(
    before: tuple[Result, ...],
) -> None:
    after = with_causes(before, ANSWERING)
    assert [replace(result, unjudged=()) for result in after] == [
        replace(result, unjudged=()) for result in before]
    for old, new in zip(before, after, strict=True):
        unexplained = [part for part in old.unjudged if not part.note
                       and not found_by(before, part, old.rule)]
        if is_explained(new):
            assert new.status is Status.UNKNOWN and old.unjudged and not unexplained
        if not new.unjudged:
            assert rest(new) == old.reason
        elif unexplained:
            assert unexplained[0].text in rest(new)


@given(results())
def test_each_subject_is_named_once_with_the_rules_that_it_leaves_unjudged(before: tuple[Result,
                                                                                         ...]) -> None:
    after = with_causes(before, ANSWERING)
    found = causes(after)
    keys = [(cause.rule, cause.finding.subject) for cause in found]
    assert len(keys) == len(set(keys))
    for cause in found:
        mine = tuple(result.rule for result in after if any(
            (part.rule, part.cause) == (cause.rule, cause.finding.subject) for part in result.unjudged))
        assert cause.rules == mine and mine
        assert f"; {len(mine)} rule{'s' * (len(mine) != 1)} cannot be judged for it" in cause.sentence
    counted = {rule for cause in found for rule in cause.rules}
    assert {result.rule for result in after if is_explained(result)} <= counted


def failing(observed: str, subject: str) -> Result:
    return Result("answers", "c", Status.FAIL, Severity.CRITICAL, (Finding(observed, "an answer", subject),))


def unknown(*left: Unjudged) -> Result:
    return Result("other", "c", Status.UNKNOWN, Severity.WARNING, (), "why", Origin.NODE, unjudged=left)


def test_the_sentence_names_the_subject_once() -> None:
    words = {}
    for observed, subject in (("GPU is lost (NVML 15)", "GPU 5"), ("no answer: error EIO", "/data")):
        (cause,) = causes(with_causes((failing(observed, subject), unknown(Unjudged("x", (subject,)))),
                                      {"answers"}))
        words[subject] = cause.sentence
    assert words == {"GPU 5": "GPU 5 is lost (NVML 15); 1 rule cannot be judged for it",
                     "/data": "/data: no answer: error EIO; 1 rule cannot be judged for it"}


def test_a_finding_that_makes_no_node_unhealthy_explains_nothing() -> None:
    lesser = replace(failing("GPU is lost", "GPU 5"), severity=Severity.WARNING)
    assert causes(with_causes((lesser, unknown(Unjudged("x", ("GPU 5",)))), {"answers"})) == ()


def test_of_several_that_were_asked_the_first_that_does_not_answer_is_the_cause() -> None:
    driver = replace(failing("none answers", "driver"), rule="driver-loads")
    left = unknown(Unjudged("x", ("GPU 5", "driver")))
    answering = {"answers", "driver-loads"}
    assert [cause.rule for cause in causes(with_causes((driver, left), answering))] == ["driver-loads"]
    both = (driver, failing("GPU is lost", "GPU 5"), left)
    assert [cause.rule for cause in causes(with_causes(both, answering))] == ["answers"]


def test_what_else_was_not_judged_is_the_rest() -> None:
    left = unknown(Unjudged("a", ("GPU 5",)), Unjudged("b"), Unjudged("c", note=True))
    _, result = with_causes((failing("GPU is lost", "GPU 5"), left), {"answers"})
    assert (rest(result), is_explained(result)) == ("b; c", False)
