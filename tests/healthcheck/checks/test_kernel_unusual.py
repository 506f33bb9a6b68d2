"""Rules of what is unusual in a kernel's log: it informs at first, and warns when it is there again and there
is a reason to read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.kernellog.model import Baseline, KnownTemplate, Scope
from healthcheck.model.outcome import LogEvidence, NodeState, Origin, Result, Severity, Status, state_of
from healthcheck.model.recording import Recording
from tests.healthcheck.checks.kernelboot import BOOT, DOWN, Pairs, baseline, judged, result, snapshot, swept
from tests.healthcheck.checks.verdicts import RULES

GONE = "nfs: a share is gone"               # new, and says no trouble
FAILED = "nfs: a share failed to come back"
UNUSUAL = ("kernel-novel", "kernel-rate", "kernel-missing", "kernel-order")
PASS, FAIL = Status.PASS, Status.FAIL


def subjects(results: Mapping[str, Result]) -> dict[str, str]:
    """By the rule that fails what its one finding is on."""
    return {rule: one.findings[0].subject for rule, one in results.items()
            if rule in (*UNUSUAL, "kernel-suspect") and one.status is FAIL and len(one.findings) == 1}


def proposing(text: str, boots: int, of: int = 5, priority: int | None = 6) -> Baseline:
    """The baseline, learned of so many boots, some of which said this, too: it awaits approval."""
    held = baseline([*BOOT, (600.0, text)], of)
    (template,) = held.known.keys() - baseline(BOOT, of).known.keys()
    waits: KnownTemplate = replace(held.known[template], boots=boots, nodes=boots, priority=priority)
    return replace(held, known={key: one for key, one in held.known.items() if key != template},
                   proposed={template: waits})


def test_what_is_unusual_informs_and_what_is_suspect_warns() -> None:
    assert {RULES[rule].severity for rule in UNUSUAL} == {Severity.INFO}
    assert RULES["kernel-suspect"].severity is Severity.WARNING


def test_the_suspect_is_judged_by_the_numbers_by_which_the_unusual_is() -> None:
    assert RULES["kernel-suspect"].parameters == {**RULES["kernel-rate"].parameters,
                                                  **RULES["kernel-order"].parameters}


def test_a_line_that_no_healthy_node_says_informs_with_its_phase_the_nearest_known_and_its_evidence() -> None:
    (report,) = judged(snapshot([*BOOT, (500.0, GONE)]), by=[baseline()])
    found = next(one for one in report.results if one.rule == "kernel-novel")
    (finding,) = found.findings
    assert (found.status, found.severity, finding.subject) == (FAIL, Severity.INFO, GONE)
    assert (finding.observed == f"8 min after boot, 0 s ago: {GONE} (while the node was running); nearest "
            "known: nfs: a share is mounted")
    assert (finding.log is not None
            and replace(finding.log, emitter="") == LogEvidence("", "", 1, 500.0, 500.0))
    assert finding.lines == (f"[  500.000000] {GONE}",) and report.state is NodeState.HEALTHY


def test_what_was_approved_and_has_not_been_said_for_long_is_new_again_and_says_so() -> None:
    held = baseline([*BOOT, (600.0, GONE)])
    expired = replace(held, known={text: one for text, one in held.known.items() if text != GONE},
                      expired={GONE: held.known[GONE]})
    (finding,) = result("kernel-novel", [*BOOT, (500.0, GONE)], [expired]).findings
    assert str(finding.observed).endswith("; approved once, and last seen 2026-11-20")


def test_another_order_of_devices_is_nothing_new() -> None:
    turned = [(seconds, text.replace("0000:0", "0000:a")) for seconds, text in reversed(BOOT[3:11])]
    assert result("kernel-novel", [*BOOT[:3], *turned, *BOOT[11:]], [baseline()]).status is PASS


def test_what_the_catalogue_knows_is_never_unusual_however_often_it_comes_back(tmp_path: Path) -> None:
    pairs = [*BOOT, (500.0, DOWN)]
    for results in swept(tmp_path, snapshot(pairs), snapshot(pairs), by=[baseline()]):
        assert subjects(results) == {} and results["kernel-fault"].status is FAIL


def test_one_node_that_says_something_new_and_many_that_do_are_told_apart() -> None:
    odd = [*BOOT, (500.0, "foo: something else")]
    for count, words in ((1, "no other node says it"),
                         (4, "4 of 8 nodes say it at once; gpu000: 8 min after boot")):
        reports = judged(*[snapshot(odd if n < count else BOOT, f"gpu{n:03d}") for n in range(8)],
                         by=[baseline()])
        found = [one.findings[0].observed for report in reports for one in report.results
                 if one.rule == "kernel-novel" and one.findings]
        assert len(found) == count and all(words in str(one) for one in found) and len(set(found)) == 1


def test_without_a_baseline_the_catalogue_judges_and_that_novelty_is_not_judged_is_unknown_of_ours() -> None:
    (report,) = judged(snapshot([*BOOT, (500.0, FAILED)]), by=[baseline(scope=Scope("dgx-a100"))])
    by_rule = {one.rule: one for one in report.results}
    assert (by_rule["kernel-baseline"].status,
            by_rule["kernel-baseline"].origin) == (Status.UNKNOWN, Origin.MUSTER)
    assert ("dgx-a100" in by_rule["kernel-baseline"].reason
            and "muster baseline learn" in by_rule["kernel-baseline"].reason)
    assert {by_rule[rule].status for rule in (*UNUSUAL, "kernel-suspect")} == {Status.SKIPPED}
    assert by_rule["kernel-fault"].status is PASS and report.state is NodeState.HEALTHY


def test_a_baseline_of_which_nothing_is_approved_is_a_fault_that_names_it() -> None:
    found = result("kernel-baseline", BOOT, [replace(baseline(), known={})])
    (finding,) = found.findings
    assert (found.status, finding.subject, finding.observed) == (FAIL, "baseline ours",
                                                                 "no template is approved")


def test_a_more_general_baseline_judges_and_says_what_it_is_not_exact_about() -> None:
    found = result("kernel-novel", BOOT, [baseline(scope=Scope("hgx-h100", "6.5"))])
    assert found.status is PASS and "6.5.0-1007-nvidia" in found.reason


def test_what_is_said_far_more_often_than_healthy_nodes_say_it_is_found() -> None:
    often = [*BOOT, *[(500.0 + n, f"nfs: a share is mounted {n}") for n in range(300)]]
    usual = baseline([*BOOT, (600.0, "nfs: a share is mounted 7")])
    found = result("kernel-rate", often, [usual])
    (finding,) = found.findings
    assert found.severity is Severity.INFO
    assert "300 times in an hour" in str(finding.observed) and "at most 1 times" in str(finding.expected)
    assert result("kernel-rate", [*BOOT, *often[-50:]], [usual]).status is PASS


def test_seven_of_eight_cables_are_missed() -> None:
    one_less = [*BOOT[:3], *BOOT[4:]]
    found = result("kernel-missing", one_less, [baseline()])
    (finding,) = found.findings
    assert found.severity is Severity.INFO
    assert (finding.observed == "7 times"
            and str(finding.expected).startswith("8 times, as in each healthy boot"))
    assert result("kernel-missing", BOOT, [baseline()]).status is PASS


@pytest.mark.parametrize(("pairs", "boots", "words"),
                         [(BOOT[1:], 5, "does not hold the whole boot"),
                          (BOOT[:6], 5, "not finished booting"), (BOOT, 2, "takes 3")])
def test_nothing_is_missed_where_it_cannot_be(pairs: list[tuple[float, str]], boots: int, words: str,
                                              tmp_path: Path) -> None:
    found = result("kernel-missing", pairs, [baseline(boots=boots)])
    assert found.status is Status.SKIPPED and words in found.reason
    # Nor is it suspected, though an earlier snapshot missed it.
    earlier = snapshot([*BOOT[:3], *BOOT[4:]], boot="earlier")
    (_, later) = swept(tmp_path, earlier, snapshot([*pairs[:3], *pairs[4:]]), by=[baseline(boots=boots)])
    assert later["kernel-suspect"].status is PASS


def test_a_boot_that_hung_for_minutes_is_found() -> None:
    late = [BOOT[0], BOOT[1], *[(seconds + 200, text) for seconds, text in BOOT[2:]]]
    found = result("kernel-order", late, [baseline()])
    (finding,) = found.findings
    assert found.severity is Severity.INFO
    assert (finding.subject, finding.observed, finding.expected) == ("phase services", "3 min after boot",
                                                                     "at most 126 s after boot")
    assert result("kernel-order", BOOT, [baseline()]).status is PASS


# name, a log, the priorities of its lines, the baseline, the rule that informs at first, and why it is worth
# a person's time at last
_RARE = baseline([*BOOT, (600.0, "nfs: a share is mounted 7")])
_OFTEN = [*BOOT, *[(500.0 + n, f"nfs: a share is mounted {n}") for n in range(300)]]
_LATE = [BOOT[0], BOOT[1], *[(seconds + 200, text) for seconds, text in BOOT[2:]]]
_SEVEN = [*BOOT[:3], *BOOT[4:]]
_BY_LEVEL = {GONE: 3}
SUSPECTS: dict[str, tuple[Pairs, Mapping[str, int], Baseline, str, str]] = {
    "a new line whose words say "
    "trouble": ([*BOOT, (500.0, FAILED)], {}, baseline(), "kernel-novel", "it says 'failed'"),
    "a new line whose level says "
    "trouble": ([*BOOT, (500.0, GONE)], _BY_LEVEL, baseline(), "kernel-novel", "its level is error"),
    "a new line of the worst "
    "level": ([*BOOT, (500.0, GONE)], {GONE: 0}, baseline(), "kernel-novel", "its level is emergency"),
    "a line that one boot said when the baseline was learned, and that says trouble":
        ([*BOOT, (500.0, FAILED)], {}, proposing(FAILED, 1), "kernel-novel", "it says 'failed'"),
    "a line that comes far too "
    "often": (_OFTEN, {}, _RARE, "kernel-rate", "a device that logs so often is mostly failing"),
    "what each of ten boots said eight "
    "times": (_SEVEN, {}, baseline(boots=10), "kernel-missing", "each of 10 healthy boots says it 8 times"),
    "a boot that hung": (_LATE, {}, baseline(), "kernel-order",
                         "a boot that takes so long waits for something that is missing"),
}


@pytest.mark.parametrize(("pairs", "priorities", "held", "rule", "why"), SUSPECTS.values(), ids=SUSPECTS)
@pytest.mark.parametrize("boots", [("b00t",) * 3, ("b00t", "0ther", "th1rd")],
                         ids=["later in the boot", "in the next boot"])
def test_what_says_trouble_informs_at_first_and_warns_when_it_is_there_again_with_the_reason(
    pairs: Pairs, priorities: Mapping[str, int], held: Baseline, rule: str, why: str, boots: tuple[str, ...],
    tmp_path: Path,
) -> None:
    snapshots = [snapshot(pairs, priorities=priorities, boot=boot) for boot in boots]
    (first, *again) = swept(tmp_path, *snapshots, by=[held])
    (informed,) = first[rule].findings
    assert subjects(first) == {rule: informed.subject} and first["kernel-suspect"].status is PASS
    for results in again:
        assert subjects(results) == {"kernel-suspect": informed.subject}
        (finding,) = results["kernel-suspect"].findings
        assert str(finding.observed).startswith(f"seen before, and {why}: ")
        assert (finding.expected, finding.lines, finding.log) == (informed.expected, informed.lines,
                                                                  informed.log)


HARMLESS: dict[str, tuple[Pairs, Mapping[str, int], Baseline, str]] = {
    "a new line that says no trouble": ([*BOOT, (500.0, GONE)], {}, baseline(), "kernel-novel"),
    "a new line of a warning's level": ([*BOOT, (500.0, GONE)], {GONE: 4}, baseline(), "kernel-novel"),
    "a line that several boots said when the baseline was learned": ([*BOOT, (500.0, FAILED)], {},
                                                                     proposing(FAILED, 2), "kernel-novel"),
    "a phase that was not seen": ([BOOT[0], *BOOT[2:]], {}, baseline(), "kernel-order"),
    "what each of nine boots said eight times": (_SEVEN, {}, baseline(boots=9), "kernel-missing"),
    "what not every boot said as often": (_SEVEN, {}, replace(baseline(boots=10), known={
        template: replace(one, most=one.most + 1)
        for template, one in baseline(boots=10).known.items()}), "kernel-missing"),
}


@pytest.mark.parametrize(("pairs", "priorities", "held", "rule"), HARMLESS.values(), ids=HARMLESS)
@pytest.mark.parametrize("boots", [("b00t",) * 3, ("b00t", "0ther", "th1rd")],
                         ids=["later in the boot", "in the next boot"])
def test_what_says_no_trouble_goes_on_informing(
    pairs: Pairs, priorities: Mapping[str, int], held: Baseline, rule: str, boots: tuple[str, ...],
    tmp_path: Path,
) -> None:
    for results in swept(tmp_path, *[snapshot(pairs, priorities=priorities, boot=boot) for boot in boots],
                         by=[held]):
        assert rule in subjects(results) and results["kernel-suspect"].status is PASS


def test_what_another_snapshot_had_and_this_one_has_not_is_suspected_of_nothing(tmp_path: Path) -> None:
    (_, later) = swept(tmp_path, snapshot([*BOOT, (500.0, FAILED)]), snapshot(BOOT, boot="0ther"),
                       by=[baseline()])
    assert subjects(later) == {}


def test_another_trouble_than_the_one_before_informs_at_first(tmp_path: Path) -> None:
    other = "foo: something else failed"
    (_, later) = swept(tmp_path, snapshot([*BOOT, (500.0, FAILED)]),
                       snapshot([*BOOT, (500.0, FAILED), (600.0, other)]), by=[baseline()])
    assert subjects(later) == {"kernel-novel": other, "kernel-suspect": FAILED}


def test_what_was_away_for_a_whole_boot_is_new_again(tmp_path: Path) -> None:
    trouble = [*BOOT, (500.0, FAILED)]
    snapshots = [snapshot(trouble, boot="1"), snapshot(BOOT, boot="2"), snapshot(trouble, boot="2"),
                 snapshot(BOOT, boot="3"), snapshot(BOOT, boot="4"), snapshot(trouble, boot="5")]
    found = swept(tmp_path, *snapshots, by=[baseline()])
    assert subjects(found[2]) == {"kernel-suspect": FAILED}     # the boot before had it
    assert subjects(found[5]) == {"kernel-novel": FAILED}       # the two before had not


def test_a_snapshot_without_a_log_forgets_nothing(tmp_path: Path) -> None:
    trouble = snapshot([*BOOT, (500.0, FAILED)])
    silent = replace(trouble,
                     captures={name: one for name, one in trouble.captures.items() if name != "kernel.log"})
    (*_, last) = swept(tmp_path, trouble, silent, silent, trouble, by=[baseline()])
    assert subjects(last) == {"kernel-suspect": FAILED}


def test_a_suspicion_makes_a_node_degraded_and_no_worse(tmp_path: Path) -> None:
    trouble = snapshot([*BOOT, (500.0, FAILED)])
    first, later = ([one for rule, one in results.items() if rule.startswith("kernel-")]
                    for results in swept(tmp_path, trouble, trouble, by=[baseline()]))
    assert state_of(first) is NodeState.HEALTHY and state_of(later) is NodeState.DEGRADED


@pytest.mark.parametrize("boots", [1, 2, 5])
def test_what_was_proposed_and_says_no_trouble_is_not_new_and_how_many_wait_is_said(boots: int) -> None:
    found = result("kernel-novel", [*BOOT, (500.0, GONE)], [proposing(GONE, boots)])
    assert (found.status, found.reason) == (PASS, "1 lines were learned and wait for approval: muster "
                                            "baseline review")
    # nothing of it is in this log
    assert result("kernel-novel", BOOT, [proposing(GONE, boots)]).reason == ""


@pytest.mark.parametrize(("text", "priority"), [(FAILED, 6), (FAILED, None), (GONE, 3), (GONE, 0)])
def test_what_was_proposed_and_says_trouble_informs_with_how_many_boots_said_it(
    text: str, priority: int | None,
) -> None:
    (finding,
     ) = result("kernel-novel", [*BOOT, (500.0, text)], [proposing(text, 3, priority=priority)]).findings
    assert finding.subject == text
    assert str(finding.observed).endswith("; learned in 3 of 5 boots, and not approved (muster baseline "
                                          "review)")


def snapshots(*texts: str) -> Recording:
    """A snapshot whose log ends with these."""
    return snapshot([*BOOT, *[(500.0 + n, text) for n, text in enumerate(texts)]])


def test_the_reason_is_the_worst_that_the_line_itself_gives(tmp_path: Path) -> None:
    (_, later) = swept(tmp_path, *[snapshot([*BOOT, (500.0, FAILED)], priorities={FAILED: 2})] * 2,
                       by=[baseline()])
    (finding,) = later["kernel-suspect"].findings
    assert "its level is critical" in str(finding.observed)
    (_, both) = swept(tmp_path / "two", *[snapshots(FAILED, "foo: a link is stuck")] * 2, by=[baseline()])
    assert [str(one.observed).partition(": ")[0] for one in both["kernel-suspect"].findings] == [
        "seen before, and it says 'failed'", "seen before, and it says 'stuck'"]
