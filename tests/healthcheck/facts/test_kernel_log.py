"""The kernel's log and its events as facts: its times, its records one by one, and what is searched in it."""

from __future__ import annotations

from typing import Any

import pytest

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.kernel import KernelLine, MessagePattern, Records, _lines_with
from healthcheck.facts.values import parted
from healthcheck.kernellog.carried import CarriedRecords, to_text
from healthcheck.kernellog.model import LogLine, Scope
from healthcheck.model.recording import Capture, FileCapture, Outcome
from tests.healthcheck import machine


def built(name: str, text: str, *, uptime: str = "36000.00 1.0\n", carried: CarriedRecords | None = None,
          note: str = "", **more: Capture) -> Any:
    log = Capture(Outcome.DONE, text=to_text(carried) if carried is not None else "", note=note,
                  files={"/dev/kmsg": FileCapture(Outcome.DONE, text)})
    held = {"host_uptime": machine.done(**{"/proc/uptime": uptime}), **more}
    return parted(build_fact(FACTS[name], Captures(machine.recording(kernel_log=log, **held))))[0]


def test_the_oldest_record_has_a_time_only_where_older_ones_were_overwritten() -> None:
    assert built("kernel_log", "4,17,2000000,-;a\n4,18,3000000,-;b\n").oldest == 2.0
    assert built("kernel_log", "4,0,2000000,-;a\n").oldest == 0.0


@pytest.mark.parametrize(("uptime", "newest"), [("36000.00 1.0\n", 36000.0), ("30.25 1.0\n", 40.0),
                                                ("rubbish\n", 40.0)])
def test_the_newest_moment_is_the_snapshots_unless_a_record_is_later(uptime: str, newest: float) -> None:
    text = "6,1,50000000,-;a\n6,2,40000000,-;b\n SUBSYSTEM=pci\n DEVICE=+pci:0000\nno record\n"
    assert built("kernel_log", text, uptime=uptime).newest == newest


@pytest.mark.parametrize(("uptime", "newest"), [("36000.00 1.0\n", 36000.0), ("rubbish\n", 0.0)])
def test_a_record_of_a_clock_that_wrapped_is_not_the_newest_moment(uptime: str, newest: float) -> None:
    text = "6,1,50000000,-;a\n6,2,18446744073709551,-;b\n"
    assert built("kernel_log", text, uptime=uptime).newest == newest


def test_a_log_without_records_has_no_newest_moment() -> None:
    assert machine.kernel_log("").newest == 0.0


@pytest.mark.parametrize("name", ["kernel_log", "kernel_events"])
def test_quiet_hours_count_from_the_report_and_not_from_before_records_were_lost(name: str) -> None:
    log = built(name, "6,9,9000000,-;a\n", carried=CarriedRecords(newest=8, since=3, seconds=7200.0))
    assert (log.age_hours(0.0), log.age_hours(7200.0), log.age_hours(18000.0)) == (8.0, 8.0, 5.0)


def test_records_that_match_are_found_once_each_the_earlier_ones_first() -> None:
    carried = CarriedRecords(records="4,1,1000000,-;nvme nvme0: I/O error, no I/O error\n", newest=8)
    log = built("kernel_log", "12,9,9000000,-;kernel: I/O error\n no record: I/O error\n"
                "28,10,9500000,c;systemd[1]: I/O error \\x1b[m\n6,11,9600000,-;nothing\n"
                "4,12,9700000,-;I/O error", carried=carried)
    found = list(log.matching(MessagePattern(r"(nvme nvme0|systemd.*|): ?I/O|I/O", "I/O error", "errno=-")))
    assert [line for line, _ in found] == [
        KernelLine(1.0, 4, "nvme nvme0: I/O error, no I/O error", 1),
        KernelLine(9.5, 4, "systemd[1]: I/O error \x1b[m", 10), KernelLine(9.7, 4, "I/O error", 12)]
    assert not list(log.matching(MessagePattern("kernel: I/O", "Xid")))
    assert log.contains("Xid", "I/O error") and not log.contains("Xid", "errno=-")


def test_a_log_holds_the_words_of_earlier_records_alone_too() -> None:
    carried = CarriedRecords(records="4,1,1000000,-;EXT4-fs error: Corruption\n", newest=8)
    assert built("kernel_log", "6,9,9000000,-;a\n", carried=carried).contains("Corruption")


def test_a_long_record_is_searched_as_far_as_the_kernel_itself_writes() -> None:
    long = "NVRM: " + "x" * 9000
    log = built("kernel_log", f"4,9,9000000,-;{long} Xid\n")
    ((line, _),) = log.matching(MessagePattern("NVRM", "Xid"))
    assert line.text == long[:8192] == log.records().texts[0]
    assert log.records().raw == [f"{long} Xid"]


def test_a_record_has_its_level_facility_caller_and_subsystem() -> None:
    records = Records(
        "28,10,9500000,c,caller=T312;a \\x41\n SUBSYSTEM=pci\n DEVICE=+pci:0000\n"
        "6,11,9600000,-;b\n SUBSYSTEM=" + "s" * 65 + "\n"
        "7,12,0,muster-notime,caller=X9;c\n0,13,9700000,muster-nopriority;d\n SUBSYSTEM=net")
    assert list(records) == [
        LogLine("a A", 9.5, 4, sequence=10, facility=3, caller="T312", subsystem="pci"),
        LogLine("b", 9.6, 6, sequence=11, facility=0, caller="", subsystem="s" * 64),
        LogLine("c", None, 7, sequence=12, facility=0, caller="", subsystem=""),
        LogLine("d", 9.7, None, sequence=13, facility=0, caller="", subsystem="")]
    assert records[1:3] == [records[1], records[2]] and len(records) == 4
    assert records.texts[0] == "a A" and records.raw[0] == "a \\x41"


def test_the_subsystem_of_what_is_no_record_is_no_ones() -> None:
    assert [line.subsystem
            for line in Records("6,1,5,-;a\nno record\n SUBSYSTEM=pci\n6,2,5,-;b\n")] == ["", ""]


@pytest.mark.parametrize("words", [(), ("no such word",), ("Xid", "no such word")])
def test_a_pattern_needs_words_that_a_log_is_searched_for(words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="not among WORDS"):
        MessagePattern("NVRM", *words)


def test_of_a_log_that_begins_with_the_boot_nothing_is_lost() -> None:
    whole = built("kernel_events", "6,0,9000000,-;a\n")
    assert (whole.whole, whole.caveat, whole.now, whole.newest) == (True, "", 36000.0, 36000.0)
    assert (whole.earlier, whole.whole_since, whole.alone) == (None, 0.0, True)
    later = built("kernel_events", "6,7,9000000,-;a\n", uptime="rubbish\n",
                  carried=CarriedRecords(records="4,1,1000000,-;b\n", newest=6, since=1, seconds=1.0))
    assert (later.whole, later.now, later.newest, later.whole_since) == (False, 0.0, 9.0, 1.0)
    assert later.earlier.templates == {"b"}
    torn = built("kernel_events", "6,0,9000000,-;a\n", note="records were overwritten")
    assert (torn.whole, torn.caveat) == (False, "")


RUNNING = {"/proc/sys/kernel/osrelease": "6.5.0\n", "/sys/module/nvidia/version": "550.54.15\n"}
KERNEL = "6,0,0,-;Linux version 5.15.0 (gcc) #20\n"
DRIVER = "6,1,0,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.1.2  Tue Mar  5 22:23:56 UTC 2024\n"


@pytest.mark.parametrize(("text", "files", "kernel", "driver"), [
    (KERNEL + DRIVER, RUNNING, "5.15.0", "535.1.2"), (KERNEL, RUNNING, "5.15.0", "550.54.15"),
    (DRIVER, RUNNING, "6.5.0", "535.1.2"), ("6,0,0,-;a\n", RUNNING, "6.5.0", "550.54.15"),
    (KERNEL, {"/proc/sys/kernel/osrelease": "6.5.0\n"}, "5.15.0", ""), (DRIVER, {}, "", "535.1.2"),
])
def test_versions_that_the_log_does_not_say_are_those_that_run(text: str, files: dict[str, str], kernel: str,
                                                               driver: str) -> None:
    events = built("kernel_events", text, host_versions=machine.done(**files))
    assert events.digest.scope == Scope("", kernel, driver, "")


def test_where_nothing_says_what_runs_no_version_is_known() -> None:
    events = built("kernel_events", "6,0,0,-;a\n", host_versions=Capture(Outcome.CRASHED))
    assert events.digest.scope == Scope()


@pytest.mark.parametrize(("log", "starts"), [
    ("Xid", [0]), ("\nXid Xid", [1]), ("a Xid\n\nb\nc Xid, Xid\nXid\n", [0, 9, 20]), ("", []), ("xid", []),
])
def test_each_line_that_holds_a_word_is_found_once(log: str, starts: list[int]) -> None:
    assert list(_lines_with(log, "Xid")) == starts
