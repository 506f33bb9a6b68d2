"""What was unusual at earlier snapshots: kept with each in the state folder, for its boot and the one before,
and never believed blindly.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.seen_before import (
    CHECKS,
    NOTHING_SEEN,
    SEEN_BEFORE,
    UNUSUAL_CAPTURE,
    SeenBefore,
    fingerprint,
    seen_before,
    unusual,
    unusual_capture,
)
from healthcheck.model.outcome import Finding, Result, Severity, Status
from healthcheck.model.recording import Capture, Outcome, Recording
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import RULESET

MOST = 1000


def snapshot(boot: str = "b00t") -> Recording:
    return machine.on_host(machine.recording(), boot_id=boot)


def holding(text: str, boot: str = "b00t", outcome: Outcome = Outcome.DONE) -> Recording:
    """The earlier snapshot, kept with this text."""
    return replace(snapshot(boot), captures={UNUSUAL_CAPTURE: Capture(outcome, text=text)})


def after(previous: Recording | None, boot: str, *now: str) -> Recording:
    """A snapshot in this boot that reported this, as it is kept."""
    seen = snapshot(boot)
    return replace(seen, captures={UNUSUAL_CAPTURE: unusual_capture(seen, previous, now)})


def remembered(previous: Recording | None) -> set[str]:
    """What the next snapshot takes for seen before."""
    return set(seen_before(previous).fingerprints)


def result(check: str, status: Status, *subjects: str) -> Result:
    return Result(check.replace(".", "-"), check, status, Severity.INFO,
                  tuple(Finding(1, 0, subject) for subject in subjects))


def test_before_the_first_snapshot_nothing_was_seen() -> None:
    assert seen_before(None) is NOTHING_SEEN and seen_before(snapshot()) is NOTHING_SEEN
    assert NOTHING_SEEN.fingerprints == frozenset()


def test_equal_snapshots_are_kept_with_equal_bytes_whatever_the_order() -> None:
    one, other = unusual_capture(snapshot(), None,
                                 ("b", "a", "a")), unusual_capture(snapshot(), None, iter(("a", "b")))
    assert one == other and json.loads(one.text) == {"boot": ["a", "b"], "boot_before": []}
    assert (one.outcome, one.bytes) == (Outcome.DONE, len(one.text))


def test_what_is_remembered_is_bounded_however_many_snapshots_report_something_new() -> None:
    previous: Recording | None = None
    for number in range(5):
        previous = after(previous, "1", *(f"{number}-{n:04d}" for n in range(700)))
    assert len(remembered(previous)) == MOST
    for boot in "23":
        previous = after(previous, boot, *(f"{boot}-{n:05d}" for n in range(70_000)))
    assert len(remembered(previous)) == 2 * MOST
    assert previous is not None and len(previous.captures[UNUSUAL_CAPTURE].text) < 40_000


def test_of_a_kept_text_with_too_many_only_so_many_are_read() -> None:
    found = remembered(holding(json.dumps({"boot": [str(n) for n in range(50_000)],
                                           "boot_before": [f"b{n}" for n in range(50_000)]})))
    assert found == {str(n) for n in range(MOST)} | {f"b{n}" for n in range(MOST)}


@pytest.mark.parametrize(("text", "left"), [
    ("", set()), ("{", set()), ("null", set()), ("[]", set()), ('"boot"', set()), ("7", set()), ("{}", set()),
    ("[" * 100_000, set()), ('{"boot": "abc"}', set()), ('{"boot": {"a": 1}}', set()),
    ('{"boot": null, "boot_before": 3}', set()), ('{"boot": ["a", 1, null, ["b"], true]}', {"a"}),
    ('{"boot": 7, "boot_before": ["a"]}', {"a"}), ('{"boot": ["a"], "later": ["b"]}', {"a"}),
    ('{"boot": [NaN, 1e999, "a"]}', {"a"}), ('{"boot": ["\\ud800"]}', {"\ud800"})])
def test_a_damaged_text_is_read_as_far_as_it_makes_sense(text: str, left: set[str]) -> None:
    assert remembered(holding(text)) == left


def test_a_text_that_is_cut_anywhere_remembers_nothing_and_stops_nothing() -> None:
    whole = unusual_capture(snapshot(), after(None, "0ther", "a"), ("b", "c")).text
    assert remembered(holding(whole)) == {"a", "b", "c"}
    for end in range(len(whole)):
        assert remembered(holding(whole[:end])) == set()
        assert remembered(after(holding(whole[:end]), "b00t", "d")) == {"d"}


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(), lambda inner: st.lists(inner)
    | st.dictionaries(st.sampled_from(["boot", "boot_before", "x"]), inner), max_leaves=12)


@given(st.one_of(st.text(), JSON.map(json.dumps),
                 st.fixed_dictionaries({"boot": JSON, "boot_before": JSON}).map(json.dumps)),
       st.sampled_from(["b00t", "0ther"]))
def test_whatever_stands_in_a_kept_snapshot_a_fact_is_made_of_it_and_it_is_kept_on(
    text: str, boot: str,
) -> None:
    previous = holding(text)
    fact: Any = seen_before(previous)
    assert isinstance(fact, SeenBefore) and all(isinstance(one, str) for one in fact.fingerprints)
    again = after(previous, boot, "now")
    # Nothing is made up, and what this boot reported is remembered; of another one only what it reported
    # last.
    assert {"now"} <= remembered(again) <= {"now"} | fact.fingerprints
    assert boot != "b00t" or remembered(again) == {"now"} | fact.fingerprints


@given(st.lists(st.tuples(st.sampled_from("12"), st.sets(st.sampled_from("abcdef"))), max_size=12))
def test_it_is_what_this_boot_and_the_one_before_reported(snapshots: list[tuple[str, set[str]]]) -> None:
    previous: Recording | None = None
    boots: list[tuple[str, set[str]]] = []
    for boot, now in snapshots:
        if not boots or boots[-1][0] != boot:
            boots.append((boot, set()))
        boots[-1][1].update(now)
        previous = after(previous, boot, *now)
    assert remembered(previous) == {one for _, held in boots[-2:] for one in held}


def test_only_what_fails_and_is_unusual_is_remembered_by_its_subject() -> None:
    results = {f"{number}": one for number, one in enumerate(
        (*(result(check, Status.FAIL, f"of {check}") for check in CHECKS),
         result("kernel.fault", Status.FAIL, "a known fault"), result("gpu.count", Status.FAIL, "GPU 3"),
         result("kernel.novel", Status.UNKNOWN, "not measured"), result("kernel.novel", Status.PASS),
         result("kernel.novel", Status.FAIL, "twice", "twice")))}
    assert set(unusual(results)) == {fingerprint(subject)
                                     for subject in (*(f"of {check}" for check in CHECKS), "twice")}
    assert len(unusual(results)) == len(CHECKS) + 1 and list(unusual(results)) == sorted(unusual(results))


def test_all_checks_that_ask_what_was_seen_before_are_remembered_themselves() -> None:
    assert set(CHECKS) == {rule.checked.name for rule in RULESET.rules if SEEN_BEFORE in rule.checked.facts}


def test_a_sweep_of_many_findings_is_remembered_within_a_bound() -> None:
    assert len(unusual({"r": result("kernel.novel", Status.FAIL, *(str(n) for n in range(3000)))})) == MOST


@given(st.text(), st.text())
def test_a_subject_is_remembered_by_a_short_print_of_its_own(one: str, other: str) -> None:
    assert len(fingerprint(one)) == 16 and (fingerprint(one) == fingerprint(other)) is (one == other)


def test_a_subject_of_half_a_character_has_a_print_too() -> None:
    assert fingerprint("\udc80") != fingerprint("\udc81")
