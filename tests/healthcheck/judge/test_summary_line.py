"""One line on a node: failures first, within a limit in bytes, whatever nodes put into their messages."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from healthcheck.agent.output import LINE, NAGIOS, nagios, unknown
from healthcheck.judge.nodereport import reason_of, summary_line, worst_first
from healthcheck.model.outcome import Finding, NodeReport, NodeState, Result, Severity, Status, state_of
from inventory.text import fit

WORDS = {"failed": Status.FAIL, "unknown": Status.UNKNOWN, "passed": Status.PASS, "skipped": Status.SKIPPED}
RANK = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
# Whatever a node may print, surrogates of bytes that are no UTF-8 included.
FOREIGN = st.text(st.characters(), max_size=500)


@st.composite
def results(draw: st.DrawFn) -> tuple[Result, ...]:
    """In the order of their ids, as the judge gives them."""
    ids = sorted(draw(st.sets(st.from_regex(r"[a-z][a-z0-9-]{2,60}", fullmatch=True), max_size=20)))
    return tuple(one_of(draw, rule) for rule in ids)


def one_of(draw: st.DrawFn, rule: str) -> Result:
    status = draw(st.sampled_from(Status))
    finding = Finding(draw(FOREIGN), draw(FOREIGN), draw(FOREIGN))
    return Result(rule, "c", status, draw(st.sampled_from(Severity)),
                  (finding,) if status is Status.FAIL else (), draw(FOREIGN))


def report_of(found: tuple[Result, ...]) -> NodeReport:
    state = state_of(found)
    return NodeReport("gpu001", state, reason_of(state, found), found)


def first_failing(found: tuple[Result, ...]) -> str | None:
    failing = sorted((one for one in found if one.status is Status.FAIL),
                     key=lambda one: (RANK.index(one.severity), one.rule))
    return failing[0].rule if failing else None


def sound(line: str, most: int) -> None:
    assert len(line.encode("utf-8")) <= most       # a lone surrogate has no such bytes
    assert not [character for character in line if unicodedata.category(character) in ("Cc", "Zl", "Zp")]


def many(status: Status, severity: Severity, number: int) -> tuple[Result, ...]:
    return tuple(Result(f"a-{at:03}", "c", status, severity, (), "nvml: not loaded | " * 9)
                 for at in range(number))


BLIND = (*many(Status.UNKNOWN, Severity.CRITICAL, 200),
         Result("zz-disk", "c", Status.FAIL, Severity.WARNING, (Finding("97%", "under 90%", "/var"),)))


@given(results(), st.sampled_from([160, NAGIOS, LINE, 4000]))
@example(BLIND, LINE)
@example(BLIND, 160)
def test_the_worst_failing_rule_is_in_the_line_and_the_line_in_its_limit(
    found: tuple[Result, ...], most: int,
) -> None:
    line = summary_line(report_of(found), most, "gpu001: ", "0.5 s")
    sound(line, most)
    if (rule := first_failing(found)) is not None:
        assert line.startswith(f"gpu001: {state_of(found).value}: {rule}: ")


@given(results())
@example(BLIND)
def test_counts_add_up_and_every_failure_is_shown_or_counted(found: tuple[Result, ...]) -> None:
    line = summary_line(report_of(found), LINE)
    counts = re.search(r" \(([^()]*)\)\Z", line)
    numbers = dict(part.split(" ")[::-1] for part in counts[1].split(", ")) if counts is not None else {}
    assert {word: int(number) for word, number in numbers.items()} == {
        word: number for word, status in WORDS.items()
        if (number := sum(one.status is status for one in found))}


def test_a_failure_keeps_its_subject_and_value_among_two_hundred_that_are_unknown() -> None:
    line = summary_line(report_of(BLIND), LINE, "gpu001: ", "0.5 s")
    assert line.startswith("gpu001: unknown: zz-disk: /var: 97%, expected under 90%; a-000: ")
    shown = len(re.findall(r"a-\d\d\d: ", line))
    assert f"; and {200 - shown} more (1 failed, 200 unknown, 0.5 s)" in line and 0 < shown < 200
    assert line.count("nvml: not loaded | " * 9) == shown        # whole items


def test_a_reason_names_what_failed_before_what_is_unknown_and_a_critical_failure_first() -> None:
    critical = Result("zzz", "c", Status.FAIL, Severity.CRITICAL, (Finding(1, 2, "GPU 3"),))
    assert reason_of(NodeState.UNKNOWN, BLIND).startswith("zz-disk: /var: 97%, expected under 90%; a-000: ")
    assert reason_of(NodeState.UNHEALTHY, (*BLIND, critical)) == (
        "zzz: GPU 3: 1, expected 2; zz-disk: /var: 97%, expected under 90%")


@given(results(), st.floats(0, 99))
@example(BLIND, 0.5)
def test_a_plugins_answer_has_one_bar_and_its_numbers_whole(found: tuple[Result, ...],
                                                            seconds: float) -> None:
    report = report_of(found)
    counts = {status.value: sum(one.status is status for one in found) for status in Status}
    line = nagios(1, lambda most, head: summary_line(report, most, head), counts, seconds)
    sound(line, NAGIOS)
    text, _, numbers = line.partition("|")
    assert text.startswith("MUSTER WARNING - ") and "|" not in numbers
    read = dict(part.split("=") for part in numbers.split(" "))
    assert {name: int(read[name]) for name in counts} == counts and read["seconds"] == f"{seconds:.3f}s"
    if (rule := first_failing(found)) is not None:
        assert rule in text


@given(st.text(st.characters(), max_size=3000))
def test_what_could_not_be_checked_is_one_line_for_a_plugin_too(text: str) -> None:
    line = unknown(text)
    sound(line, NAGIOS)
    assert line.startswith("MUSTER UNKNOWN - ") and "|" not in line


@given(results())
def test_nothing_but_failures_and_unknown_is_ranked_and_no_failure_after_an_unknown(
    found: tuple[Result, ...],
) -> None:
    ranked = worst_first(found)
    assert {one.rule for one in ranked} == {
        one.rule for one in found if one.status in (Status.FAIL, Status.UNKNOWN)}
    keys = [(one.status is Status.UNKNOWN, RANK.index(one.severity), one.rule) for one in ranked]
    assert keys == sorted(keys)


@given(st.lists(st.text(st.characters(), max_size=200), min_size=1, max_size=30), st.integers(64, 500),
       st.text(max_size=300), st.text(max_size=300))
def test_a_line_of_any_items_stays_in_its_limit(items: list[str], most: int, head: str, end: str) -> None:
    sound(fit(items, most, head, end), most)


@pytest.mark.parametrize(("most", "line"), [
    (64, "gpu-a: 11; gpu-b: 22; gpu-c: 33; gpu-d: 44; and 4 more (8 failed)"),
    (200,
     "gpu-a: 11; gpu-b: 22; gpu-c: 33; gpu-d: 44; gpu-e: 55; gpu-f: 66; gpu-g: 77; gpu-h: 88 (8 failed)"),
])
def test_a_line_is_cut_at_a_whole_item_and_says_how_many_more(most: int, line: str) -> None:
    items = [f"gpu-{letter}: {number}{number}" for number, letter in enumerate("abcdefgh", 1)]
    assert fit(items, most + 1, end=" (8 failed)") == line
