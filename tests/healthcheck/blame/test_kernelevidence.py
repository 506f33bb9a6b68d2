"""Kernel logs with times of day, as evidence."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.blame.evidence import Evidence, Weight
from healthcheck.blame.kernelevidence import Judges, evidence, looks_like, timeless
from healthcheck.config.rulesfolder import folders
from healthcheck.joblog.model import LogClock
from healthcheck.ruleset.ruleset import load_ruleset

CLOCK = LogClock(1_795_000_000.0)
XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus."


@functools.cache
def judges() -> Judges:
    ruleset = load_ruleset(folders(None))
    assert ruleset.kernel is not None and ruleset.xids is not None
    return Judges(ruleset.kernel.catalogue, ruleset.xids)


def found(text: str, node: str = "") -> list[Evidence]:
    return list(evidence(text, node, "log", CLOCK, judges()))


@pytest.mark.parametrize(("line", "node", "moment"), [
    (f"2026-11-18T10:00:00+01:00 gpu007 kernel: {XID}", "gpu007", 1_794_992_400.0),
    (f"2026-11-18T09:00:00,000000+00:00 {XID}", "", 1_794_992_400.0),
    (f"2026-11-18T09:00:00.5Z gpu007.example.com kernel: [  123.456789] {XID}", "gpu007", 1_794_992_400.0),
    (f"[Wed Nov 18 09:00:00 2026] {XID}", "", CLOCK.at(2026, 11, 18, "09:00:00")),
    (f"Nov 18 09:00:00 gpu007 kernel: {XID}", "gpu007", CLOCK.at(2026, 11, 18, "09:00:00")),
])
def test_each_form_with_a_time_of_day_gives_its_moment(line: str, node: str, moment: float) -> None:
    assert looks_like(line)
    [one] = found(line)
    assert (one.node, one.by, one.weight) == (node, moment, Weight.DEVICE)


@pytest.mark.parametrize("stamp",
                         ["Nov 18 09:00:00 gpu007 kernel: ",
                          "2026-11-18T09:00:00+01:00 gpu007 kernel: [   1.23][T12] ",
                          "[Wed Nov 18 09:00:00 2026] ", "[Wed Nov 18 09:00:00 2026][   T12] "])
@pytest.mark.parametrize(
    "said", ["NVRM: Xid (PCI:0000:31:00 GPU-I:05 GPU-CI:00): 94, pid=7194, name=python3, Ch 00000008",
             "NVRM: Xid (0000:31:00): 79, pid=1, GPU has fallen off the bus."])
def test_an_xid_is_read_in_every_form_that_the_driver_gives_it(stamp: str, said: str) -> None:
    [one] = found(stamp + said)
    assert "GPU at PCI 0000:31:00" in one.what


@pytest.mark.parametrize("stamp", ["Nov 18 09:00:00 gpu007 ", "2026-11-18T09:00:00+01:00 gpu007 ",
                                   "2026-11-18T09:00:00.5Z gpu007 "])
@pytest.mark.parametrize("said",
                         ["0000:00:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction "
                          "Layer, (Receiver ID)", "python3: Corrupted page table at address 7f21c8000000",
                          "0000:00:01.0: AER: device recovery failed"])
def test_what_a_program_writes_to_syslog_under_a_name_of_its_choice_is_no_evidence(
    stamp: str, said: str,
) -> None:
    assert not found(stamp + said)


def test_a_log_whose_times_count_from_the_boot_says_no_moment() -> None:
    text = f"[  123.456789] {XID}\n[  124.000000] usb 1-1: new device\n"
    assert timeless(text) and not looks_like(text)
    assert not found(text)


def test_what_is_torn_down_with_a_job_and_what_a_job_does_are_told_apart() -> None:
    text = "".join(f"Nov 18 09:00:0{at} n1 kernel: NVRM: Xid (PCI:0000:9b:00): {number}, pid=1\n"
                   for at, number in enumerate((45, 31, 48)))
    assert [one.weight for one in found(text)] == [Weight.SYMPTOM, Weight.USER, Weight.DEVICE]


def test_the_same_fault_is_reported_once_with_its_first_time() -> None:
    assert len(found(f"Nov 18 09:00:00 n1 kernel: {XID}\n" * 50)) == 1


def test_a_process_that_the_kernel_killed_for_memory_is_the_users() -> None:
    text = ("Nov 18 09:00:00 n1 kernel: python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, "
            "oom_score_adj=0\n"
            "Nov 18 09:00:00 n1 kernel: Out of memory: Killed process 1234 (python) total-vm:1kB, "
            "anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:1kB oom_score_adj:0\n")
    assert {one.weight for one in found(text)} == {Weight.USER}


@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    for line in (text, f"Nov 18 09:00:00 n1 kernel: {text}", f"2026-13-45T99:99:99 kernel: {text}",
                 f"[Wed Feb 31 09:00:00 2026] {text}"):
        looks_like(line)
        found(line)
