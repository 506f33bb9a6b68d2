"""Rules of the kernel log's known faults, by the catalogue: whose message it is, how bad, how it ends, and
what no user can forge."""

from __future__ import annotations

from dataclasses import replace

import pytest

from healthcheck.baseline.catalogue import Catalogue
from healthcheck.kernellog.ending import ending
from healthcheck.kernellog.model import MOST_DISTINCT, CatalogueEntry
from healthcheck.model.outcome import LogEvidence, Owner, Repair, Severity, Status
from healthcheck.model.recording import Capture, FileCapture, Outcome
from tests.healthcheck import machine
from tests.healthcheck.checks.kernelboot import (
    BOOT,
    CATALOGUE,
    CRASHED,
    DOWN,
    LOST,
    NVME,
    SLOW,
    baseline,
    judged,
    result,
    snapshot,
)
from tests.healthcheck.checks.verdicts import RULESET

HOUR = 3600.0
KNOWN = ("kernel-fault", "kernel-hardware-error", "kernel-told", "kernel-trouble")


def failing(line: str, catalogue: Catalogue = CATALOGUE) -> list[str]:
    """The rules of known faults that a boot with this line fails."""
    (report,) = judged(snapshot([*BOOT, (500.0, line)]), catalogue=catalogue)
    return [one.rule for one in report.results if one.rule in KNOWN and one.status is Status.FAIL]


def ending_by(words: str, severity: Severity = Severity.CRITICAL) -> Catalogue:
    """A catalogue of one entry, that of DOWN, which ends so."""
    return Catalogue((replace(CATALOGUE.entries[0], severity=severity, ending=ending(words)),))


def test_what_the_catalogue_knows_is_found_by_name_with_its_words_owner_repair_lines_and_evidence() -> None:
    found = result("kernel-fault", [*BOOT, (500.0, DOWN)])
    (finding,) = found.findings
    assert (found.status, finding.subject, finding.owner, finding.repair) == (Status.FAIL, "nvme-down",
                                                                              Owner.VENDOR, Repair.REPLACE)
    assert finding.remedy == "The drive stopped answering. Replace it."
    assert (finding.observed == f"8 min after boot, 0 s ago: {DOWN}"
            and finding.lines == (f"[  500.000000] {DOWN}",))
    assert finding.log == LogEvidence("nvme", "repair", 1, 500.0, 500.0)


def test_the_evidence_counts_all_reports_and_names_the_first_and_the_last() -> None:
    (finding,) = result("kernel-fault", [*BOOT, (500.0, DOWN), (7000.0, DOWN.replace("3", "4")),
                                         (9000.0, DOWN)]).findings
    assert finding.log == LogEvidence("nvme", "repair", 3, 500.0, 9000.0)


@pytest.mark.parametrize(("uptime", "words"), [
    (machine.done(**{"/proc/uptime": f"{500 + 7 * HOUR:.2f} 99.0\n"}), "8 min after boot, 7 h ago"),
    (Capture(Outcome.MISSING), "8 min after boot"),
    (machine.done(**{"/proc/uptime": f"{500 + 40 * 24 * HOUR:.2f} 99.0\n"}), "8 min after boot, 40 d ago"),
])
def test_a_finding_says_how_long_ago_it_was_where_the_uptime_is_known(uptime: Capture, words: str) -> None:
    seen = snapshot([*BOOT, (500.0, DOWN)])
    (report,) = judged(replace(seen, captures={**seen.captures, "host.uptime": uptime}))
    (finding,) = next(one for one in report.results if one.rule == "kernel-fault").findings
    assert finding.observed == f"{words}: {DOWN}"


@pytest.mark.parametrize(("line", "rule"), [(DOWN, "kernel-fault"), (LOST, "kernel-hardware-error"),
                                            (SLOW, "kernel-trouble"), (CRASHED, "kernel-told")])
def test_each_entry_is_judged_by_one_rule_and_by_no_other(line: str, rule: str) -> None:
    (report,) = judged(snapshot([*BOOT, (500.0, line)]), by=[baseline()])
    failed = [one.rule for one in report.results if one.rule.startswith("kernel-")
              and one.status is Status.FAIL]
    assert failed == [rule]


def test_a_baseline_never_hides_a_known_fault_even_where_it_holds_it() -> None:
    pairs = [*BOOT, (500.0, DOWN)]
    assert result("kernel-fault", pairs, [baseline(pairs)]).status is Status.FAIL


def test_forty_thousand_lines_are_one_finding() -> None:
    pairs = [*BOOT,
             *[(500.0 + n / 100, f"nvme nvme{n % 64}: frozen state error detected, reset controller {n % 64}")
               for n in range(40_000)]]
    (finding,) = result("kernel-fault", pairs).findings
    assert str(finding.observed).startswith("40000 times, the first 8 min after boot and the last 15 min "
                                            "after boot, 0 s ago: nvme nvme0:")
    assert len(finding.lines) == len(set(finding.lines)) == MOST_DISTINCT
    assert finding.log is not None and finding.log.count == 40_000


@pytest.mark.parametrize("ends", ["boot", "reset", "repair"])
@pytest.mark.parametrize(("severity", "rule"),
                         [(Severity.CRITICAL, "kernel-fault"), (Severity.WARNING, "kernel-trouble"),
                          (Severity.INFO, "kernel-told")])
def test_time_does_not_end_what_a_boot_a_reset_or_a_repair_ends(
    ends: str, severity: Severity, rule: str,
) -> None:
    found = result(rule, [*BOOT, (500.0, DOWN), (500.0 + 40 * 24 * HOUR, "a quiet month ends")],
                   catalogue=ending_by(ends, severity))
    (finding,) = found.findings
    assert found.status is Status.FAIL and finding.log == LogEvidence("nvme", ends, 1, 500.0, 500.0)


@pytest.mark.parametrize(("severity", "rule"),
                         [(Severity.CRITICAL, "kernel-fault"), (Severity.WARNING, "kernel-trouble"),
                          (Severity.INFO, "kernel-told")])
@pytest.mark.parametrize("seconds", [0.5, 4.5, 500.0],
                         ids=["as the kernel started", "as services started", "as the node ran"])
def test_what_ends_by_quiet_is_over_after_its_hours_and_said_whenever_in_the_boot_it_was_reported(
    severity: Severity, rule: str, seconds: float,
) -> None:
    catalogue = ending_by("quiet 6h", severity)
    for age, status in ((6 * HOUR, Status.FAIL), (6 * HOUR + 1, Status.PASS)):
        found = result(rule, sorted([*BOOT, (seconds, DOWN), (seconds + age, "a quiet day ends")]),
                       catalogue=catalogue)
        assert found.status is status
        assert status is Status.FAIL or found.reason == "over, quiet for long enough: nvme-down"


def test_what_is_reported_again_within_its_hours_is_accused_with_all_its_reports() -> None:
    pairs = [*BOOT, *[(500.0 + n * 20 * HOUR, SLOW) for n in range(4)],
             (500.0 + 70 * HOUR, "a quiet day ends")]
    (finding,) = result("kernel-trouble", pairs).findings
    assert finding.log == LogEvidence("pci", "quiet 24h", 4, 500.0, 500.0 + 60 * HOUR)


FAULT = ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1a2b3c "
         "offset:0x0 grain:32 syndrome:0x0)")
SHORT = FAULT[:15]      # what fits into the name of a process
CRASH = "ip 0000000000401126 sp 00007ffd5e4e5a30 error 6 in"
# What the kernel prints for an unprivileged user who chose a text well.
FORGERIES = {
    "a mount option": f"tmpfs: Unknown parameter '{FAULT}'",
    "a mount option that begins a line of its own": f"tmpfs: Unknown parameter 'x\\x0a{FAULT}'",
    "a mount option of ext4": f"EXT4-fs (loop0): Unrecognized mount option \"{FAULT}\" or missing value",
    "the name of a process that crashed": f"{SHORT}[1234]: segfault at 0 {CRASH} a.out[401000+1000]",
    "the name of a process, in a line of no form": f"{SHORT} did what no kernel of ours tells of",
    "the name of a file that crashed": f"a.out[1234]: segfault at 0 {CRASH} {FAULT}[401000+1000]",
    "the name of a file, after a line feed": f"a.out[1234]: segfault at 0 {CRASH} x\\x0a{FAULT}[401000+1000]",
    "a process that writes to /dev/kmsg": f"python3[1234]: {FAULT}",
}


@pytest.mark.parametrize("text", FORGERIES.values(), ids=FORGERIES)
def test_what_a_user_chose_in_a_line_of_the_kernels_is_no_fault(text: str) -> None:
    assert RULESET.kernel is not None
    for catalogue in (CATALOGUE, RULESET.kernel.catalogue):
        # so it is, if the kernel itself says it
        assert failing(FAULT, catalogue) == ["kernel-hardware-error"]
        assert set(failing(text, catalogue)) <= {"kernel-told"}, failing(text, catalogue)


def test_what_a_process_wrote_to_the_log_is_no_fault_even_where_it_names_no_program() -> None:
    seen = snapshot(BOOT)
    kmsg = seen.captures["kernel.log"].files["/dev/kmsg"].text
    # facilities: kernel, user, daemon
    for priority, status in ((2, Status.FAIL), (8 + 2, Status.PASS), (24 + 2, Status.PASS)):
        log = machine.done(**{"/dev/kmsg": f"{kmsg}{priority},99,500000000,-;{DOWN}\n"})
        (report,) = judged(replace(seen, captures={**seen.captures, "kernel.log": log}))
        assert next(one.status for one in report.results if one.rule == "kernel-fault") is status


@pytest.mark.parametrize("line", [f"something: {DOWN}", f" {DOWN}", DOWN.replace("nvme nvme3", "scsi nvme3"),
                                  DOWN.removeprefix("nvme nvme3: "), DOWN.replace("nvme3", "nvmeX")])
def test_the_words_of_an_entry_behind_any_other_beginning_than_its_emitters_are_none_of_its(
    line: str,
) -> None:
    assert failing(DOWN) == ["kernel-fault"]
    assert failing(line) == []


@pytest.mark.parametrize(("match", "line", "known"), [
    ("abc", "nvme nvme3: abc d", False), ("abc d", "nvme nvme3: abc de", True),      # 15 and 17 characters
    ("abc", "nvme nvme3: abc", True), ("ab", "nvme nvme3: ab", True),                # the whole line
])
def test_what_fits_into_a_processs_name_is_enough_only_where_the_line_ends_with_it(
    match: str, line: str, known: bool,
) -> None:
    entry = CatalogueEntry("short", match, Severity.CRITICAL, "x", "y", Owner.VENDOR, "z", (), "nvme",
                           emitters=(NVME,))
    assert failing(line, Catalogue((entry,))) == ["kernel-fault"] * known


@pytest.mark.parametrize(("subsystem", "emitter"), [("nvme", "nvme"), ("", "nvme"), ("usb", ""), ("pci", "")])
def test_an_event_whose_record_is_of_another_subsystem_than_its_emitters_is_found_and_is_no_ones(
    subsystem: str, emitter: str,
) -> None:
    properties = f"\n SUBSYSTEM={subsystem}\n DEVICE=+{subsystem}:1" if subsystem else ""
    (finding,) = result("kernel-fault", [*BOOT, (500.0, DOWN + properties)]).findings
    assert finding.emitter == emitter


def test_a_subsystem_that_a_text_imitates_is_none() -> None:
    (finding,) = result("kernel-fault", [*BOOT, (500.0, f"{DOWN}\\x0a SUBSYSTEM=usb")]).findings
    assert finding.log is not None and finding.log.emitter == "nvme"


def test_an_emitter_to_which_the_kernel_attaches_no_subsystem_may_have_any() -> None:
    assert result("kernel-hardware-error", [*BOOT, (500.0, f"{LOST}\n SUBSYSTEM=edac")]).status is Status.FAIL


def test_a_log_that_was_cut_is_not_passed_and_says_so() -> None:
    whole = snapshot([*BOOT, (500.0, DOWN)])
    cut = replace(whole.captures["kernel.log"], outcome=Outcome.TRUNCATED, files={
        "/dev/kmsg": FileCapture(Outcome.TRUNCATED, whole.captures["kernel.log"].files["/dev/kmsg"].text)})
    (report,) = judged(replace(whole, captures={**whole.captures, "kernel.log": cut}), by=[baseline()])
    by_rule = {one.rule: one for one in report.results}
    assert by_rule["kernel-fault"].status is Status.FAIL and "dropped" in by_rule["kernel-fault"].reason
    assert by_rule["kernel-hardware-error"].status is by_rule["kernel-novel"].status is Status.UNKNOWN


@pytest.mark.parametrize(("group", "name", "lines", "over"), [
    ("nvidia", "nvidia-x", ["muster: all GPUs were reset"], True),
    ("nvswitch", "nvidia-x", ["muster: all GPUs were reset"], True),
    ("nvidia", "nvidia-x", ["muster: GPU 0000:3b:00.0 was reset"], True),
    ("nvidia", "nvidia-x", ["muster: GPU 0000:3c:00.0 was reset"], False),
    ("nvidia", "nvidia-x", ["muster: all GPUs were reset, said someone"], False),
    ("nvidia", "nvidia-x", ["usb 1-1: muster: all GPUs were reset"], False),
    ("nvme", "nvme-x", ["muster: all GPUs were reset"], False), ("nvidia", "nvidia-x", [], False)])
def test_what_a_reset_of_gpus_ends_is_over_once_root_wrote_that_it_was_made(
    group: str, name: str, lines: list[str], over: bool,
) -> None:
    entry = replace(ending_by("reset").entries[0], group=group, id=name)
    said = f"{DOWN} of 0000:3b:00.0"
    log = [*BOOT, (500.0, said), *((600.0 + at, text) for at, text in enumerate(lines))]
    (report,) = judged(snapshot(log), catalogue=Catalogue((entry,)))
    found = next(one for one in report.results if one.rule == "kernel-fault")
    assert found.status is (Status.PASS if over else Status.FAIL)
    assert ("over, since the GPU was reset: nvidia-x" in found.reason) is over
    again = [*log, (700.0, said)]
    (report,) = judged(snapshot(again), catalogue=Catalogue((entry,)))
    assert next(one for one in report.results if one.rule == "kernel-fault").status is Status.FAIL
