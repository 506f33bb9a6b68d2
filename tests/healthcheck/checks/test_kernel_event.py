"""Rules of the kernel's log: the catalogue first, then the baseline of healthy boots, and what neither can say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from healthcheck.assess import Assessment
from healthcheck.baseline.book import KernelRules
from healthcheck.baseline.catalogue import Catalogue
from healthcheck.baseline.fold import fold
from healthcheck.baseline.model import MOST_DISTINCT, Baseline, Entry, Known, Line, Scope
from healthcheck.outcome import NodeReport, NodeState, Origin, Owner, Repair, Result, Severity, Status
from healthcheck.recording import FileCapture, Outcome, Recording
from inventory.model import Node
from tests.healthcheck import machine
from tests.healthcheck.checks.judged import RULESET

DOWN = "nvme nvme3: frozen state error detected, reset controller 3"
CATALOGUE = Catalogue((
    Entry("nvme-down", "frozen state error", Severity.CRITICAL, "The drive stopped answering.", "Replace it.", Owner.VENDOR, "pci.c", (DOWN,),
          "nvme", repair=Repair.REPLACE, needs=("frozen state error",)),
    Entry("edac-ue", r"EDAC MC\d+: \d+ UE ", Severity.CRITICAL, "Memory was lost.", "Replace the DIMM.", Owner.VENDOR, "edac", (), "edac",
          needs=("edac",)),
    Entry("link-slow", "limited by", Severity.WARNING, "A slot is slow.", "Reseat it.", Owner.DATACENTRE, "pci.c", (), "pcie",
          needs=("limited by",)),
    Entry("job-crashed", "segfault", Severity.INFO, "A program crashed.", "Its user looks.", Owner.USER, "traps.c", (), "segfault",
          needs=("segfault",)),
))
CABLES = [f"mlx5_core 0000:{bus:02x}:00.0: Port module event: module 0, Cable plugged" for bus in range(8)]
BOOT = [
    (0.0, "Linux version 6.5.0-1007-nvidia (b@h) (gcc 12) #7 SMP Tue Nov 7 01:45:42 UTC 2023"), (1.0, "Run /init as init process"),
    (4.0, "systemd[1]: systemd 249.11-0ubuntu3.11 running in system mode (+PAM)"),
    *[(5.0 + number, text) for number, text in enumerate(CABLES)], (30.0, "nfs: a share is mounted"), (400.0, "a quiet hour begins"),
]
SCOPE = Scope("hgx-h100", "6.5.0-1007-nvidia")


def look(pairs: Sequence[tuple[float, str]], node: str = "gpu001") -> Recording:
    text = "".join(f"6,{number},{int(seconds * 1e6)},-;{said}\n" for number, (seconds, said) in enumerate(pairs))
    versions = machine.done(**{"/proc/sys/kernel/osrelease": "6.5.0-1007-nvidia\n"})
    return machine.recording(node, kernel_log=machine.done(**{"/dev/kmsg": text}), host_versions=versions)


def baseline(pairs: Sequence[tuple[float, str]] = BOOT, boots: int = 5, scope: Scope = SCOPE) -> Baseline:
    """What `pairs` hold is what each of so many healthy boots said."""
    digest = fold([Line(said, seconds, 6, number) for number, (seconds, said) in enumerate(pairs)])
    known = {told.template: Known(told.template, (told.phase,), boots, boots, told.count, told.count, told.head, "2026-11-01", "2026-11-20",
                                  "ops", "acceptance", told.busiest) for told in digest.told}
    return Baseline("ours", scope, boots, boots, known, {phase: (began, began + 2) for phase, began in digest.began.items()})


def judged(*looks: Recording, by: Sequence[Baseline] = ()) -> list[NodeReport]:
    rules = replace(RULESET, kernel_from=lambda: KernelRules(CATALOGUE, tuple(by)))
    nodes = [Node(name=one.node, sku="hgx-h100") for one in looks]
    assessment = Assessment(nodes, rules)
    for one in looks:
        assessment.add(one)
    return list(assessment.finish().reports)


def result(rule: str, pairs: Sequence[tuple[float, str]], by: Sequence[Baseline] = ()) -> Result:
    (report,) = judged(look(pairs), by=by)
    return next(one for one in report.results if one.rule == rule)


def test_what_the_catalogue_knows_is_found_by_name_with_its_words_owner_repair_and_lines() -> None:
    found = result("kernel-fault", [*BOOT, (500.0, DOWN)])
    (finding,) = found.findings
    assert (found.status, finding.subject, finding.owner, finding.repair) == (Status.FAIL, "nvme-down", Owner.VENDOR, Repair.REPLACE)
    assert finding.remedy == "The drive stopped answering. Replace it."
    assert finding.observed == f"500 s after boot: {DOWN}" and finding.lines == (f"[  500.000000] {DOWN}",)


@pytest.mark.parametrize(("line", "rule"), [
    (DOWN, "kernel-fault"), ("EDAC MC0: 1 UE memory read error", "kernel-hardware-error"), ("31.5 Gb/s, limited by 8.0 GT/s x4", "kernel-trouble"),
    ("python3[77]: segfault at 0", "kernel-told")])
def test_each_entry_is_judged_by_one_rule_and_by_no_other(line: str, rule: str) -> None:
    (report,) = judged(look([*BOOT, (500.0, line)]), by=[baseline()])
    failed = [one.rule for one in report.results if one.rule.startswith("kernel-") and one.status is Status.FAIL]
    assert failed == [rule]


def test_a_baseline_never_hides_a_known_fault_even_where_it_holds_it() -> None:
    pairs = [*BOOT, (500.0, DOWN)]
    assert result("kernel-fault", pairs, [baseline(pairs)]).status is Status.FAIL


def test_forty_thousand_lines_are_one_finding() -> None:
    pairs = [*BOOT, *[(500.0 + n / 100, f"nvme nvme{n % 64}: frozen state error detected, reset controller {n % 64}") for n in range(40_000)]]
    (finding,) = result("kernel-fault", pairs).findings
    assert str(finding.observed).startswith("40000 times, the first 500 s after boot and the last 900 s after boot: nvme nvme0:")
    assert len(finding.lines) == len(set(finding.lines)) == MOST_DISTINCT


def test_what_was_warned_of_long_ago_is_said_and_accused_only_where_it_is_of_the_boot() -> None:
    slow = "pci 0000:0c:00.0: 126.0 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 link"
    later = (500.0 + 30 * 3600, "a quiet day ends")
    aged = result("kernel-trouble", [*BOOT, (500.0, slow), later])
    assert (aged.status, aged.reason) == (Status.PASS, "more than 24 h ago: link-slow")
    assert result("kernel-trouble", [*BOOT[:4], (4.5, slow), *BOOT[4:], later]).status is Status.FAIL


def test_a_line_that_no_healthy_node_says_is_a_warning_that_names_it_its_phase_and_the_nearest_known() -> None:
    found = result("kernel-novel", [*BOOT, (500.0, "nfs: a share is gone")], [baseline()])
    (finding,) = found.findings
    assert (found.status, found.severity, finding.subject) == (Status.FAIL, Severity.WARNING, "nfs: a share is gone")
    assert finding.observed == ("500 s after boot: nfs: a share is gone (while the node was running); "
                                "nearest known: nfs: a share is mounted")


def test_what_was_approved_and_has_not_been_said_for_long_is_new_again_and_says_so() -> None:
    held = baseline([*BOOT, (600.0, "nfs: a share is gone")])
    old = {"nfs: a share is gone": held.known["nfs: a share is gone"]}
    expired = replace(held, known={text: one for text, one in held.known.items() if text not in old}, expired=old)
    (finding,) = result("kernel-novel", [*BOOT, (500.0, "nfs: a share is gone")], [expired]).findings
    assert str(finding.observed).endswith("; approved once, and last seen 2026-11-20")


def test_another_order_of_devices_is_nothing_new() -> None:
    turned = [(seconds, text.replace("0000:0", "0000:a")) for seconds, text in reversed(BOOT[3:11])]
    assert result("kernel-novel", [*BOOT[:3], *turned, *BOOT[11:]], [baseline()]).status is Status.PASS


def test_one_node_that_says_something_new_and_many_that_do_are_told_apart() -> None:
    odd = [*BOOT, (500.0, "foo: something else")]
    for saying, words in ((1, "no other node says it"), (4, "4 of 8 nodes say it at once; gpu000: 500 s after boot")):
        reports = judged(*[look(odd if n < saying else BOOT, f"gpu{n:03d}") for n in range(8)], by=[baseline()])
        found = [one.findings[0].observed for report in reports for one in report.results if one.rule == "kernel-novel" and one.findings]
        assert len(found) == saying and all(words in str(one) for one in found) and len(set(found)) == 1


def test_without_a_baseline_the_catalogue_judges_and_that_novelty_is_not_judged_is_unknown_of_ours() -> None:
    (report,) = judged(look([*BOOT, (500.0, "foo: something else")]), by=[baseline(scope=Scope("dgx-a100"))])
    by_rule = {one.rule: one for one in report.results}
    assert (by_rule["kernel-baseline"].status, by_rule["kernel-baseline"].origin) == (Status.UNKNOWN, Origin.MUSTER)
    assert "dgx-a100" in by_rule["kernel-baseline"].reason and "muster baseline learn" in by_rule["kernel-baseline"].reason
    assert by_rule["kernel-novel"].status is by_rule["kernel-missing"].status is Status.SKIPPED
    assert by_rule["kernel-fault"].status is Status.PASS and report.state is NodeState.HEALTHY


def test_a_baseline_of_which_nothing_is_approved_is_a_fault_that_names_it() -> None:
    found = result("kernel-baseline", BOOT, [replace(baseline(), known={})])
    (finding,) = found.findings
    assert (found.status, finding.subject, finding.observed) == (Status.FAIL, "baseline ours", "no template is approved")


def test_a_more_general_baseline_judges_and_says_what_it_is_not_exact_about() -> None:
    found = result("kernel-novel", BOOT, [baseline(scope=Scope("hgx-h100", "6.5"))])
    assert found.status is Status.PASS and "6.5.0-1007-nvidia" in found.reason


def test_what_is_said_far_more_often_than_healthy_nodes_say_it_is_found() -> None:
    often = [*BOOT, *[(500.0 + n, f"nfs: a share is mounted {n}") for n in range(300)]]
    usual = baseline([*BOOT, (600.0, "nfs: a share is mounted 7")])
    (finding,) = result("kernel-rate", often, [usual]).findings
    assert "300 times in an hour" in str(finding.observed) and "at most 1 times" in str(finding.expected)
    assert result("kernel-rate", [*BOOT, *often[-50:]], [usual]).status is Status.PASS


def test_seven_of_eight_cables_are_missed() -> None:
    one_less = [*BOOT[:3], *BOOT[4:]]
    (finding,) = result("kernel-missing", one_less, [baseline()]).findings
    assert finding.observed == "7 times" and str(finding.expected).startswith("8 times, as in each healthy boot")
    assert result("kernel-missing", BOOT, [baseline()]).status is Status.PASS


@pytest.mark.parametrize(("pairs", "boots", "words"), [
    (BOOT[1:], 5, "does not hold the whole boot"), (BOOT[:6], 5, "not yet done booting"), (BOOT, 2, "takes 3")])
def test_nothing_is_missed_where_it_cannot_be(pairs: list[tuple[float, str]], boots: int, words: str) -> None:
    found = result("kernel-missing", pairs, [baseline(boots=boots)])
    assert found.status is Status.SKIPPED and words in found.reason


def test_a_boot_that_hung_for_minutes_is_found() -> None:
    late = [BOOT[0], BOOT[1], *[(seconds + 200, text) for seconds, text in BOOT[2:]]]
    (finding,) = result("kernel-order", late, [baseline()]).findings
    assert (finding.subject, finding.observed, finding.expected) == ("phase services", "204 s after boot", "at most 126 s")
    assert result("kernel-order", BOOT, [baseline()]).status is Status.PASS


def test_a_log_that_was_cut_is_not_passed_and_says_so() -> None:
    whole = look([*BOOT, (500.0, DOWN)])
    cut = replace(whole.captures["kernel.log"], outcome=Outcome.TRUNCATED, files={
        "/dev/kmsg": FileCapture(Outcome.TRUNCATED, whole.captures["kernel.log"].files["/dev/kmsg"].text)})
    (report,) = judged(replace(whole, captures={**whole.captures, "kernel.log": cut}), by=[baseline()])
    by_rule = {one.rule: one for one in report.results}
    assert by_rule["kernel-fault"].status is Status.FAIL and "dropped" in by_rule["kernel-fault"].reason
    assert by_rule["kernel-hardware-error"].status is by_rule["kernel-novel"].status is Status.UNKNOWN
