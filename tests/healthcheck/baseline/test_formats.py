"""Saved kernel logs are read alike in every form in which they are published."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.baseline.formats import MOST_BYTES, read, to_kmsg
from healthcheck.baseline.formats.boots import MOST_BOOTS
from healthcheck.kernellog.model import LONGEST_LINE, BootLog, LogLine
from healthcheck.kernellog.provenance import USER_SPACE, marked
from inventory.errors import UsageError
from tests.healthcheck import machine

RECORDED = Path(__file__).resolve().parents[2] / "recordings" / "kernel" / "forms"
# The kernel's own records of one boot in the recordings: seconds, priority, text.
BOOT = [
    (0.0, 5, "Linux version 6.8.0-49-generic (buildd@lcy02-amd64-103) (x86_64-linux-gnu-gcc-13) #49-Ubuntu "
             "SMP PREEMPT_DYNAMIC"),
    (0.0, 6, "Command line: BOOT_IMAGE=/vmlinuz quiet"),
    (1.234567, 6, "usb 1-1: new high-speed USB device number 2 using xhci_hcd"),
    (2.345678, 3, "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:"),
    (2.345678, 3, "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:07:00.0)"),
    (3.345678, 6, "systemd[1]: Inserted module 'autofs4'"),
    (4.345678, 4, "odd \\xff byte"),
    (5.345678, 4, "sensor at 41 °C"),
    (75.345678, 4, "EXT4-fs (sda1): re-mounted, a minute later"),
]
KERNEL = [line for line in BOOT if not line[2].startswith("systemd")]
# journalctl's short forms hide it as blob data
SHOWN = [line for line in KERNEL if not line[2].startswith("odd")]


def one(data: bytes | str) -> BootLog:
    logs = read(data.encode() if isinstance(data, str) else data, "a file")
    assert len(logs) == 1, [log.lines[:2] for log in logs]
    return logs[0]


def texts(log: BootLog) -> list[str]:
    return [line.text for line in log.lines]


def seconds(log: BootLog) -> list[float | None]:
    return [line.seconds for line in log.lines]


def recorded(name: str) -> tuple[BootLog, ...]:
    return read((RECORDED / f"{name}.txt").read_bytes(), name)


# journalctl

@pytest.mark.parametrize("name", ["json", "json-pretty", "json-sse", "export"])
def test_whole_journal_entries_give_every_record_with_its_time_and_priority(name: str) -> None:
    first, second = recorded(f"journalctl-{name}")
    for log in (first, second):
        assert [(line.seconds, line.priority, line.text) for line in log.lines] == BOOT
        assert log.notes == ("2 lines of other programs were left out",)
        assert log.caveats == ()
    assert (first.boot, second.boot) == ("0123456789abcdef0123456789abcdef",
                                         "1123456789abcdef0123456789abcdef")
    assert [line.facility for line in first.lines] == [0, 0, 0, 0, 0, 3, 0, 0, 0]


def test_verbose_entries_are_read_and_a_hidden_message_is_reported() -> None:
    for log in recorded("journalctl-verbose"):
        assert [(line.seconds, line.priority, line.text) for line in log.lines] == [
            line for line in BOOT if not line[2].startswith("odd")]
        assert any("blob data" in caveat for caveat in log.caveats)


@pytest.mark.parametrize(("name", "digits"), [
    ("short", 0), ("short-precise", 6), ("short-iso", 0), ("short-iso-precise", 6), ("short-full", 0),
    ("with-unit", 0), ("short-unix", 6), ("short-monotonic", 6), ("short-delta", 6),
])
def test_the_short_forms_give_the_kernels_lines_with_seconds_since_the_boot_began(
    name: str, digits: int,
) -> None:
    first, second = recorded(f"journalctl-{name}")
    for log in (first, second):
        assert texts(log) == [text for _, _, text in SHOWN]
        assert seconds(log) == [at if digits else float(int(at)) for at, _, _ in SHOWN]
        assert ("2 messages are not in the file: journalctl shows them as blob data (-o export has them, and "
                "--all)" in log.caveats)
    assert second.boot == "1123456789abcdef0123456789abcdef"


def test_ubuntus_var_log_dmesg_is_read_with_its_program_and_without_a_host() -> None:
    for log in recorded("var-log-dmesg"):
        assert texts(log) == [text for _, _, text in SHOWN]
        assert seconds(log) == [at for at, _, _ in SHOWN]


def test_bare_text_has_no_times_and_each_boot_still_begins_where_the_kernel_names_itself() -> None:
    logs = recorded("journalctl-cat")
    assert len(logs) == 2
    assert all(set(seconds(log)) == {None} and "it gives no times" in log.caveats for log in logs)
    assert texts(logs[0])[:2] == [BOOT[0][2], BOOT[1][2]]


def test_a_file_of_no_form_is_read_as_text_and_says_that_it_may_be_no_kernel_log() -> None:
    log = one("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\nstatus installed man-db:amd64 "
              "2.6.7.1-1\n")
    assert len(log.lines) == 2
    assert "no line has the format of a kernel log; each was read as a kernel's message" in log.caveats


@pytest.mark.parametrize("tag", [
    "kernel: ", "2024-03-01 12:00:00 gpu01 kernel: ", "2024-03-01 12:00:00.123 gpu01 kernel: [  123.456789] ",
    "[01/Mar/12:00:00] kernel: [    1.5][  T123] ",
])
def test_a_kernels_line_behind_a_prefix_of_no_published_form_is_read_without_it(tag: str) -> None:
    (line,) = one(f"{tag}NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n").lines
    assert line.text == "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


def test_a_prefix_in_the_name_of_a_file_that_crashed_is_no_prefix() -> None:
    crash = ("a[1]: segfault at 0 ip 0000000000401126 sp 00007ffd5e4e5a30 error 6 in 12:00:00 kernel: NVRM: "
             "Xid (PCI:0000:18:00): 79, x[401000+1000]")
    (line,) = one(crash + "\n").lines
    assert line.text == crash


def test_each_line_tells_where_it_stands_in_the_file() -> None:
    log = recorded("journalctl-short")[0]
    rows = (RECORDED / "journalctl-short.txt").read_text().split("\n")
    assert all(rows[line.sequence - 1] == raw for line, raw in zip(log.lines, log.raw, strict=True))


# dmesg, the real program: it prints any file of <N> lines

RAW = "".join(f"<{priority}>[{at:12.6f}] {text}\n" for at, priority, text in [
    (0.0, 5, BOOT[0][2]), (0.0, 6, BOOT[1][2]), (1.234567, 6, BOOT[2][2]),
    (2.345678, 30, "systemd[1]: Inserted module 'autofs4'"),
    (75.345678, 4, "EXT4-fs (sda1): re-mounted, a minute later"), (76.5, 3, "tab\there and  two spaces"),
    (77.0, 3, "  indented: text"),
])
SAID = [line.split("] ", 1)[1] for line in RAW.splitlines()]
AT = [0.0, 0.0, 1.234567, 2.345678, 75.345678, 76.5, 77.0]


def dmesg(tmp_path: Path, *options: str) -> bytes:
    if shutil.which("dmesg") is None:
        pytest.skip("dmesg is not installed")
    file = tmp_path / "raw"
    file.write_text(RAW)
    return subprocess.run(["dmesg", "-F", str(file), *options], capture_output=True, check=True,
                          env={"TZ": "UTC", "PATH": "/usr/bin:/bin"}).stdout


@pytest.mark.parametrize(("options", "near"), [
    ((), 0.0), (("-x",), 0.0), (("-r",), 0.0), (("-d",), 0.0), (("--color=always",), 0.0),
    (("-x", "-d"), 0.0), (("-T",), 1.0), (("-x", "-T"), 1.0), (("-d", "-T"), 1.0),
    # dmesg counts from the first line whose time is not 0
    (("--time-format", "iso"), 0.00001), (("--time-format", "delta"), 1.3),
    (("--time-format", "reltime"), 60.0), (("-H", "-P"), 60.0),
])
def test_what_dmesg_prints_is_read_back(tmp_path: Path, options: tuple[str, ...], near: float) -> None:
    log = one(dmesg(tmp_path, *options))
    assert texts(log) == SAID
    for line, at in zip(log.lines, AT, strict=True):
        assert line.seconds is not None
        assert abs(line.seconds - at) <= near
    assert log.caveats == ()


def test_times_in_another_language_are_left_out_of_the_text_and_unknown() -> None:
    log = one("[So Okt  4 09:29:48 2026] Linux version 6.8.0\n[So Okt  4 09:29:49 2026] b\n")
    assert texts(log) == ["Linux version 6.8.0", "b"]
    assert seconds(log) == [None, None]


def test_dmesg_tells_priorities_and_facilities_where_it_is_asked_to(tmp_path: Path) -> None:
    for options in (("-x",), ("-r",), ("-x", "-t")):
        log = one(dmesg(tmp_path, *options))
        assert [line.priority for line in log.lines] == [5, 6, 6, 6, 4, 3, 3], options
        assert [line.facility for line in log.lines] == [0, 0, 0, 3, 0, 0, 0], options
    assert {line.priority for line in one(dmesg(tmp_path)).lines} == {None}


@pytest.mark.parametrize("level", ['"pri": {}', '"fac": "daemon",\n         "pri": "info"'])
def test_dmesgs_json_is_read(level: str) -> None:
    """As dmesg --json of util-linux 2.38 prints /dev/kmsg; of a file (-F) it prints the rest of the file into
    each message."""
    numbers, names = '"pri": {}' in level, "fac" in level
    text = (
        '{\n   "dmesg": [\n      {\n         ' + level.format(5)
        + ',\n         "time":     0.000000,\n         "msg": "Linux version 6.8.0"\n'
        '      },{\n         ' + level.format(30)
        + ',\n         "time":     3.345678,\n         "caller": "T1",\n         "msg": "said \\"so\\""\n'
        "      }\n   ]\n}\n"
    )
    log = one(text)
    first = "Linux version 6.8.0" if numbers else USER_SPACE + "Linux version 6.8.0"
    assert [(line.seconds, line.text) for line in log.lines] == [
        (0.0, first), (3.345678, USER_SPACE + 'said "so"')]
    assert log.lines[1].caller == "T1"
    if numbers:
        assert [(line.priority, line.facility) for line in log.lines] == [(5, 0), (6, 3)]
    if names:
        assert [(line.priority, line.facility) for line in log.lines] == [(6, 3), (6, 3)]


def test_callers_are_reported_apart_from_the_text() -> None:
    log = one("[    0.000000][    T0] Linux version 6.8.0\n[    1.500000][   C12] a\n[    2.000000] [ T4321] "
              "b\n[    2.000001] [Firmware Bug]: c\n")
    assert texts(log) == ["Linux version 6.8.0", "a", "b", "[Firmware Bug]: c"]
    assert [line.caller for line in log.lines] == ["T0", "C12", "T4321", ""]


# /dev/kmsg

KMSG = (
    "5,0,0,-;Linux version 6.8.0\n"
    "6,1,100,-,caller=T1;pci 0000:3b:00.0: [10de:2330] type 00\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n"
    "30,2,2000000,-;systemd[1]: said\\x09with a tab, a \\x5c and \\xc2\\xb5\n"
    "4,3,2500000,c;NVRM: first\\x0aNVRM: second\n"
    "2,4,2600000,-;\\x1b[31m4,5,0,-;no record\n"
    "4,5,2700000,-;first\\x0a[    0.000000] Linux version 1.0\\x0asecond\n"
    "12,6,2800000,-;NVRM: Xid (PCI:0000:3b:00): 79\\x0aNVRM: second\n"
)


def test_kmsg_records_are_read_and_their_properties_are_not_said() -> None:
    log = one(KMSG)
    assert texts(log) == [
        "Linux version 6.8.0", "pci 0000:3b:00.0: [10de:2330] type 00",
        "systemd[1]: said\twith a tab, a \\ and µ", "NVRM: first", "NVRM: second",
        "\\x1b[31m4,5,0,-;no record", "first\\x0a[    0.000000] Linux version 1.0\\x0asecond",
        "written by user space: NVRM: Xid (PCI:0000:3b:00): 79", "written by user space: NVRM: second",
    ]
    assert seconds(log) == [0.0, 0.0001, 2.0, 2.5, 2.5, 2.6, 2.7, 2.8, 2.8]
    assert [line.sequence for line in log.lines] == [0, 1, 2, 3, 3, 4, 5, 6, 6]
    assert [(line.priority, line.facility) for line in log.lines][:4] == [(5, 0), (6, 0), (6, 3), (4, 0)]
    assert [line.facility for line in log.lines][-2:] == [1, 1]
    assert log.lines[1].caller == "T1"
    assert [line.subsystem for line in log.lines] == ["", "pci", "", "", "", "", "", "", ""]
    assert log.caveats == ()


def test_a_subsystem_is_that_of_the_record_above_it_and_no_text_imitates_it() -> None:
    log = one("5,0,0,-;Linux version 6.8.0\n6,1,1,-;a SUBSYSTEM=pci\n6,2,2,-;b\\x0a "
              "SUBSYSTEM=pci\n6,3,3,-;c\n DEVICE=+usb:1-1\n SUBSYSTEM=usb\n6,4,4,-;d\n")
    assert [line.subsystem for line in log.lines] == ["", "", "", "usb", ""]


def test_records_that_are_gone_and_gaps_are_reported() -> None:
    log = one("6,120,5000000,-;a\n6,121,5000001,-;b\n6,130,5000002,-;c\n")
    assert log.caveats == ("the 120 oldest records of this boot are gone",
                           "8 records are missing, in 1 places")


LINES = st.builds(
    LogLine,
    text=st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=60),
    seconds=st.one_of(st.none(), st.integers(0, 10**12).map(lambda micros: micros / 1e6)),
    priority=st.one_of(st.none(), st.integers(0, 7)),
    sequence=st.integers(0, 10**6), facility=st.integers(0, 23), caller=st.sampled_from(["", "T1", "C12"]),
    subsystem=st.sampled_from(["", "pci", "usb"]),
)


@given(st.lists(LINES, min_size=1, max_size=20))
def test_any_line_written_as_kmsg_is_read_back_with_the_mark_of_who_wrote_it(lines: list[LogLine]) -> None:
    expected = [replace(line, text=marked(line.text, line.facility)) for line in lines]
    assert all(line.text.startswith(USER_SPACE) or "]: " in line.text or not line.facility
               for line in expected)
    written = to_kmsg(BootLog(tuple(lines), ("",) * len(lines), "any"))
    logs = read(written.encode(), "x")
    assert [line for log in logs for line in log.lines] == expected
    again = to_kmsg(BootLog(tuple(expected), ("",) * len(expected), "any"))
    assert [line for log in read(again.encode(), "x") for line in log.lines] == expected


def test_the_kernel_log_fact_reads_what_to_kmsg_writes() -> None:
    log = one("[    1.500000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n")
    fact = machine.kernel_log(to_kmsg(log))
    assert fact.newest == 1.5
    assert "NVRM: Xid" in fact.text


def test_the_kernel_log_fact_and_a_saved_log_of_the_same_records_give_the_same_lines() -> None:
    from healthcheck.kernellog.provenance import marked_records

    single = [line for line in KMSG.splitlines(keepends=True) if "\\x" not in line]
    fact = machine.kernel_log(
        marked_records("".join([*single, "12,7,2900000,-;NVRM: Xid (PCI:0000:3b:00): 79\n SUBSYSTEM=pci\n"])))
    assert list(fact.records()) == list(read(fact.text.encode(), "x")[0].lines)
    assert [(line.text, line.subsystem)
            for line in fact.records()] == [("Linux version 6.8.0", ""),
                                            ("pci 0000:3b:00.0: [10de:2330] type 00", "pci"),
                                            ("written by user space: NVRM: Xid (PCI:0000:3b:00): 79", "pci")]


# What a user wrote, or chose

XID = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
HEAD, MAPPED = "Nov 12 03:04:05 gpu001 ", "[401000+1000]"


def crash(name: str) -> str:
    """What the kernel says of a crash in a file whose name holds a line feed."""
    return f"{name}[4711]: segfault at 0 ip 0000000000401126 sp 00007ffd5e4e5a30 error 6 in x\n{XID}{MAPPED}"


def dmesg_lines(text: str) -> str:
    return f"[    0.000000] Linux version 6.8.0\n[    1.000000] {text}\n[    2.000000] b\n"


def indented(text: str, by: int) -> str:
    return text.replace("\n", "\n" + " " * by)


def export(text: str) -> bytes:
    return b"".join(b"__CURSOR=a\n_TRANSPORT=kernel\nMESSAGE\n" + len(one).to_bytes(8, "little") + one
                    + b"\n\n" for one in (b"Linux version 6.8.0", text.encode(), b"b"))


def journal_json(text: str) -> str:
    return "".join(json.dumps({"MESSAGE": one, "_TRANSPORT": "kernel"}) + "\n"
                   for one in ("Linux version 6.8.0", text, "b"))


def dmesg_json(text: str) -> str:
    each = [f'         "pri": 6,\n         "time":     {at}.000000,\n         "msg": {json.dumps(one)}\n'
            for at, one in enumerate(("Linux version 6.8.0", text, "b"))]
    return '{\n   "dmesg": [\n      {\n' + "      },{\n".join(each) + "      }\n   ]\n}\n"


def verbose(text: str) -> str:
    return "".join("Fri 2025-11-21 04:40:00.000000 UTC [s=a;i=1;b=1]\n    _TRANSPORT=kernel\n    "
                   f"MESSAGE={indented(one, 12)}\n" for one in ("Linux version 6.8.0", text, "b"))


FORGED: dict[str, Callable[[str], str | bytes]] = {
    "kmsg": lambda text: f"5,0,0,-;Linux version 6.8.0\n6,1,1000000,-;{text}\n6,2,2000000,-;b\n".replace(
        text, text.replace("\n", "\\x0a")), "dmesg": dmesg_lines,
    "dmesg, indented": lambda text: dmesg_lines(indented(text, 15)),
    "dmesg of syslog(2), and a console's file": lambda text: dmesg_lines(
        text.replace("\n", "\n[    1.000000] ")),
    "dmesg -x -t": lambda text: f"kern  :info  : Linux version 6.8.0\nkern  :info  : {text}\nkern  :info  : "
    "b\n", "dmesg -x -t, indented": lambda text: "kern  :info  : Linux version 6.8.0\nkern  :info  : "
    f"{indented(text, 15)}\nkern  :info  : b\n", "dmesg --json": dmesg_json,
    "console": lambda text: dmesg_lines(text).replace("\n", "\r\n"), "journal json": journal_json,
    "journal export": export, "journal verbose": verbose,
    "journal short": lambda text: f"{HEAD}kernel: Linux version 6.8.0\n{HEAD}kernel: "
    f"{indented(text, len(HEAD) + 8)}\n{HEAD}kernel: b\n",
    "syslog, not indented": lambda text: f"{HEAD}kernel: Linux version 6.8.0\n{HEAD}kernel: "
    f"{text}\n{HEAD}kernel: b\n",
    "rsyslog": lambda text: f"{HEAD}kernel: Linux version 6.8.0\n{HEAD}kernel: {text}\n{HEAD}kernel: b\n".
    replace(text, text.replace("\n", "#012")), "syslog with the kernel's time": lambda text: "".join(
        f"{HEAD}kernel: [    {at}.000000] {indented(one, len(HEAD) + 8)}\n" for at, one in enumerate(
            ("Linux version 6.8.0", text, "b"))), "text": lambda text: f"Linux version 6.8.0\n{text}\nb\n",}


@pytest.mark.parametrize("name", ["a", "NVRM: a"])
@pytest.mark.parametrize("form", FORGED)
def test_a_line_feed_in_the_name_of_a_file_that_crashed_begins_no_line_of_the_kernels(
    form: str, name: str,
) -> None:
    data = FORGED[form](crash(name))
    log = one(data)
    assert texts(log)[0] == "Linux version 6.8.0"
    assert texts(log)[-1] == "b"
    assert [text for text in texts(log) if "NVRM: Xid" in text
            and not text.startswith(f"{name}[4711]: segfault")] == []


STAMPS = ("[    1.000000] ", "[Mon Nov 23 02:00:01 2026] ", f"{HEAD}kernel: ",
          f"{HEAD}kernel: [    1.000000] ", "<3>", "")


@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize("quoting", ["tmpfs: Unknown parameter '%s'", "overlayfs: failed to resolve '%s': -2",
                                     "python3[7]: segfault at 0 ip 0 sp 0 error 4 in %s[0+1]"])
@pytest.mark.parametrize("feeds", [1, 12, 200])
def test_nor_does_one_where_each_line_of_a_record_bears_its_time(
    quoting: str, feeds: int, stamp: str,
) -> None:
    text = quoting % ("a" + "\nx" * (feeds - 1) + f"\n{XID}\n")
    log = one("".join(f"{stamp}{row}\n" for row in ("Linux version 6.8.0", *text.split("\n")))
              + stamp.replace("1.0", "2.0") + "b\n")
    assert [row for row in texts(log) if row.startswith("NVRM")] == [] and texts(log)[-1].endswith("b")


@pytest.mark.parametrize("stamp", ["[    1.000000] ", f"{HEAD}kernel: [    1.000000] "])
def test_a_users_text_that_looks_like_its_end_is_not_the_end_where_the_time_reports_it(stamp: str) -> None:
    rows = ("Linux version 6.8.0", "tmpfs: Unknown parameter 'a'", f"{XID}'")
    assert [row for row in texts(one("".join(f"{stamp}{row}\n" for row in rows)))
            if row.startswith("NVRM")] == []


@pytest.mark.parametrize(
    "form", [form for form in FORGED if form not in ("console", "rsyslog", "syslog, not indented", "text")])
def test_further_lines_of_a_drivers_own_record_are_lines_of_their_own(form: str) -> None:
    log = one(FORGED[form]("NVRM: first\nNVRM: second\nNVRM: third"))
    assert texts(log) == ["Linux version 6.8.0", "NVRM: first", "NVRM: second", "NVRM: third", "b"]


@pytest.mark.parametrize("stamp", ["[    1.000000] ", "<3>[    1.000000] ", "[Mon Nov 23 02:00:01 2026] ",
                                   "3,1,1000000,-;"])
def test_the_name_of_a_node_that_a_parallel_shell_writes_before_each_line_is_no_part_of_it(
    stamp: str,
) -> None:
    rows = [f"{stamp}Linux version 6.8.0", f"{stamp}{XID}", f"{stamp}b"]
    assert texts(one("".join(f"gpu001: {row}\n" for row in rows))) == ["Linux version 6.8.0", XID, "b"]
    shells = "pdsh@admin: gpu001: ssh exited with exit code 1\n"
    assert XID in texts(one(shells + "".join(f"gpu001: {row}\n" for row in rows)))
    with pytest.raises(UsageError, match="holds lines of 2 nodes"):
        one("".join(f"gpu00{n}: {row}\n" for n in (1, 2) for row in rows))


@pytest.mark.parametrize(("facility", "theirs"),
                         [("kern", False), ("user", True), ("local0", True), (20, True)])
def test_a_facility_of_dmesg_json_says_whose_a_record_is(facility: object, theirs: bool) -> None:
    log = one(json.dumps({"dmesg": [{"fac": "kern", "pri": "info", "time": 0.0, "msg": "Linux version 6.8.0"},
                                    {"fac": facility, "pri": "crit", "time": 1.0, "msg": XID}]}, indent=3))
    assert texts(log)[-1].startswith(USER_SPACE) is theirs


def test_who_calls_himself_kernel_and_has_a_process_is_not_the_kernel() -> None:
    log = one(f"{HEAD}kernel: Linux version 6.8.0\n{HEAD}kernel[123]: {XID}\n{HEAD}kernel: b\n")
    assert texts(log) == ["Linux version 6.8.0", "b"]
    assert log.notes == ("1 lines of other programs were left out",)


def test_where_the_kernels_lines_bear_its_time_one_without_is_not_the_kernels() -> None:
    log = one(f"{HEAD}kernel: [    0.000000] Linux version 6.8.0\n{HEAD}kernel: [    1.500000] "
              f"b\n{HEAD}kernel: {XID}\n{HEAD}kernel: [    3.000000] c\n")
    assert texts(log) == ["Linux version 6.8.0", "b", USER_SPACE + XID, "c"]
    assert seconds(log) == [0.0, 1.5, None, 3.0]
    without = one(f"{HEAD}kernel: Linux version 6.8.0\n{HEAD}kernel: {XID}\n")
    assert texts(without) == ["Linux version 6.8.0", XID]


@pytest.mark.parametrize("row", [
    "12,1,1000000,-;{}", "<12>[    1.000000] {}", "user  :warn  : [    1.000000] {}",
    "daemon:err   : [    1.000000] {}",
])
def test_a_record_that_a_process_wrote_reports_it_in_every_form_that_tells(row: str) -> None:
    first = row.format("Linux version 1").replace("12,1,1000000", "5,0,0").replace("<12>", "<5>").replace(
        "user  :warn", "kern  :info")
    first = first.replace("daemon:err ", "kern  :info")
    log = one(f"{first}\n{row.format(XID)}\n{row.format('systemd[1]: Started a.')}\n".replace(
        "12,1,1000000,-;systemd", "12,2,1000000,-;systemd"))
    assert texts(log) == ["Linux version 1", USER_SPACE + XID, "systemd[1]: Started a."]


def test_what_a_process_wrote_to_the_log_begins_no_boot() -> None:
    log = one("5,0,0,-;Linux version 6.8.0\n6,1,1,-;a\n13,2,9000000,-;Linux version 1.0\n6,3,9000001,-;b\n")
    assert texts(log) == ["Linux version 6.8.0", "a", USER_SPACE + "Linux version 1.0", "b"]


# syslog

SYSLOG = """\
Nov 12 03:04:05 gpu001 kernel: [    0.000000] Linux version 6.8.0
Nov 12 03:04:05 gpu001 kernel: [    1.250000] mlx5_core 0000:5e:00.0: firmware version: 28.39.1002
Nov 12 03:04:06 gpu001 systemd[1]: Started something.
Nov 12 03:04:07 gpu001 kernel: [    2.500000] rcu: #0110-...!: (1 GPs behind) idle=d634
Nov  2 03:04:07 gpu001 sshd[77]: kernel: [ 3.0] not the kernel's
"""


def test_syslog_takes_the_kernels_own_time_and_leaves_out_other_programs() -> None:
    log = one(SYSLOG)
    assert texts(log) == ["Linux version 6.8.0", "mlx5_core 0000:5e:00.0: firmware version: 28.39.1002",
                          "rcu: \t0-...!: (1 GPs behind) idle=d634"]
    assert seconds(log) == [0.0, 1.25, 2.5]
    assert log.caveats == ()
    assert log.notes == ("2 lines of other programs were left out",)
    assert log.raw[1] == SYSLOG.splitlines()[1]


def test_a_message_of_several_lines_is_its_programs_own() -> None:
    head = "Nov 12 03:04:05 gpu001 "
    log = one(f"{head}kernel: Linux version 6.8.0\n{head}kernel: NVRM: first\n{' ' * 31}NVRM: "
              f"second\n{head}app[7]: error\n{' ' * 31}NVRM: Xid (PCI:0000:3b:00): 79\n?\n")
    assert texts(log) == ["Linux version 6.8.0", "NVRM: first", "NVRM: second"]
    assert log.notes == ("2 lines of other programs were left out",)
    assert log.caveats == ("1 lines of no known format were left out",)


@pytest.mark.parametrize("row", [
    "<6>Nov 12 03:04:05 gpu001 kernel: {}",
    "2026-11-12T03:04:05.123456+00:00 gpu001 kernel: {}",
    "2026-11-12T03:04:05Z gpu001 kernel: {}",
    "<6>1 2026-11-12T03:04:05.123456Z gpu001 kernel - - - {}",
    '<6>1 2026-11-12T03:04:05.123456Z gpu001 kernel - - [meta sequenceId="1"] {}',
    "Nov 12 03:04:05 fd00::17 kernel: {}",
    "Thu 2026-11-12 03:04:05 CET gpu001 kernel: {}",
])
def test_every_syslog_form_gives_the_text_alone(row: str) -> None:
    assert texts(
        one(f"{row.format('Linux version 6.8.0')}\n{row.format('pci 0000:00:00.0: [8086:09a2]')}\n")) == [
            "Linux version 6.8.0", "pci 0000:00:00.0: [8086:09a2]",
        ]


def test_clock_times_without_the_boots_start_are_unknown() -> None:
    log = one("Nov 12 03:04:05 gpu001 kernel: eth0: link up\nNov 12 03:04:09 gpu001 kernel: eth0: link "
              "down\n")
    assert seconds(log) == [None, None]
    assert log.caveats == ("the start of this boot is missing",
                           "its times are of a wall clock, and the start of the boot is not known")


@pytest.mark.parametrize(("stamps", "times"), [
    (("Dec 31 23:59:59", "Jan  1 00:00:01"), [0.0, 2.0]),
    # a clock that is set back stands still
    (("Nov 12 03:00:00", "Nov 12 03:00:09", "Nov 12 02:00:00", "Nov 12 03:00:10"), [0.0, 9.0, 9.0, 10.0]),
    # what does not exist, and months in another language
    (("Foo 99 99:99:99", "Foo 99 99:99:99"), [None, None]),
    *(((f"{month} 27 21:47:33", f"{month} 27 21:47:34"), [None, None])
      for month in ("sept.", "touko", "Mär", "Dez", "févr.")),
])
def test_a_clocks_time_is_no_text_and_gives_seconds_where_it_is_known(stamps: tuple[str, ...],
                                                                     times: list[float | None]) -> None:
    said = ["Linux version 6.8.0", "b", "c", "d"][:len(stamps)]
    log = one("".join(f"{stamp} h kernel: {text}\n" for stamp, text in zip(stamps, said, strict=True)))
    assert (texts(log), seconds(log)) == (said, times)


# consoles, reports, boots

def test_a_console_keeps_the_kernels_lines_only() -> None:
    log = one("BIOS 1.2\r\n[    0.000000] Linux version 6.8.0\r\r\n[    1.000000] a\r\n\x1b[32m[  OK  "
              "]\x1b[0m Started x\r\n[    2.000000] b\r\ngpu001 login: \r\n")
    assert texts(log) == ["Linux version 6.8.0", "a", "b"]
    assert "3 lines of no known format were left out" in log.caveats


def test_a_line_without_a_time_goes_on_with_the_record_before() -> None:
    log = one("[    0.000000] Linux version 6.8.0\n[    1.000000] NVRM: region invalid:\n               "
              "NVRM: BAR1 is 0M\nNVRM: again\n")
    assert texts(log)[1:] == ["NVRM: region invalid:", "NVRM: BAR1 is 0M", "NVRM: again"]
    assert seconds(log) == [0.0, 1.0, 1.0, 1.0]


def test_what_a_text_imitates_is_text() -> None:
    log = one("[    0.000000] Linux version 6.8.0\n[    1.000000] x [    0.000000] Linux version 1\n[    "
              "2.000000] 5,0,0,-;fake\n")
    assert len(log.lines) == 3


def test_the_dmesg_of_an_nvidia_bug_report_is_read() -> None:
    report = (
        "____________________________________________\n\nStart of NVIDIA bug report log file.  Please "
        "include this file\n\n"
        "____________________________________________\n\nScanning kernel log files for NVIDIA kernel "
        "messages:\nNov 1 00:00:00 h kernel: NVRM: old\n"
        "____________________________________________\n\ndmesg:\n\n[    0.000000] Linux version 6.8.0\n[    "
        "9.000000] NVRM: loading\n"
        "____________________________________________\n\nxset -q:\n"
    )
    assert texts(one(gzip.compress(report.encode()))) == ["Linux version 6.8.0", "NVRM: loading"]
    assert read(b"Start of NVIDIA bug report log file\n\nno such section\n", "x") == ()


def test_a_file_of_two_boots_gives_two_logs() -> None:
    boot = ("[    0.000000] Booting Linux on physical CPU 0x0\n[    0.000000] Linux version 6.8.0\n[   "
            "50.000000] done\n")
    first, second = read((boot * 2).encode(), "x")
    assert texts(first) == texts(second) == ["Booting Linux on physical CPU 0x0", "Linux version 6.8.0",
                                             "done"]
    assert first.caveats == second.caveats == ()


def test_lines_of_two_processors_a_little_out_of_order_are_one_boot() -> None:
    one("[    0.000000] Linux version 6.8.0\n[  100.000010] a\n[  100.000001] b\n[   99.900000] c\n")


def test_a_file_of_endless_boots_is_bounded_and_reports_it() -> None:
    logs = read(b"[ 9.000000] a\n[ 0.000000] b\n" * 1000, "x")
    assert len(logs) == MOST_BOOTS
    assert sum(len(log.lines) for log in logs) == 2000
    assert any("the file holds 1001 boots" in caveat for caveat in logs[-1].caveats)


@pytest.mark.parametrize(("text", "caveats"), [
    ("[  500.000000] a\n", ["the start of this boot is missing"]),
    ("[    0.000000] Linux version 6.8.0\n[    1.000000] ** 57 printk messages dropped **\n",
     ["the kernel says that messages were dropped: 57, in 1 places"]),
    ("[    0.000000] Linux version 6.8.0\n[    1.0000", ["the last line has no end, and may be cut"]),
])
def test_what_is_missing_is_reported(text: str, caveats: list[str]) -> None:
    assert list(one(text).caveats) == caveats


# packed, cut, hostile

PACKED = (gzip.compress, lzma.compress, bz2.compress)


@pytest.mark.parametrize("pack", PACKED)
def test_packed_logs_are_read(pack: Callable[[bytes], bytes]) -> None:
    assert texts(one(pack(SYSLOG.encode()))) == texts(one(SYSLOG))


@pytest.mark.parametrize("pack", PACKED)
@pytest.mark.parametrize("padding", [b"", bytes(8)])
def test_a_packed_log_of_several_members_is_read_whole(pack: Callable[[bytes], bytes],
                                                       padding: bytes) -> None:
    half = SYSLOG.index("Nov 12 03:04:07")
    log = one(pack(SYSLOG[:half].encode()) + padding + pack(SYSLOG[half:].encode()) + padding)
    assert texts(log) == texts(one(SYSLOG)) and not log.caveats


@pytest.mark.parametrize("pack", PACKED)
@pytest.mark.parametrize("after",
                         [b"no member", PACKED[0](b"x")[:5], PACKED[1](b"x")[:20], PACKED[2](b"x")[:12]])
def test_what_is_not_read_behind_a_packed_log_is_a_caveat(pack: Callable[[bytes], bytes],
                                                          after: bytes) -> None:
    log = one(pack(SYSLOG.encode()) + after)
    assert texts(log) == texts(one(SYSLOG)) and len(log.caveats) == 1


@pytest.mark.parametrize("pack", PACKED)
def test_a_packed_log_that_is_damaged_from_the_start_is_one_error_line(pack: Callable[[bytes],
                                                                                      bytes]) -> None:
    packed = bytearray(pack(SYSLOG.encode()))
    packed[12:60] = bytes(48)
    with pytest.raises(UsageError, match=r"^'a\.gz': the packed file is damaged: [^\n]+$"):
        read(bytes(packed), "a.gz")


@pytest.mark.parametrize("pack", [
    PACKED[0], *(pytest.param(pack, marks=pytest.mark.slow) for pack in PACKED[1:])])
def test_a_bomb_is_one_error_line(pack: Callable[[bytes], bytes]) -> None:
    with pytest.raises(UsageError, match=r"'bomb\.gz': longer than 64 MiB") as caught:
        read(pack(bytes(MOST_BYTES + 10)), "bomb.gz")
    assert "\n" not in str(caught.value)


def test_a_packed_log_that_ends_early_is_read_and_reports_it() -> None:
    packed = gzip.compress("".join(f"[{n:5}.000000] line {n * 7919}\n" for n in range(5000)).encode())
    log = read(packed[:len(packed) // 2], "x")[0]
    assert len(log.lines) > 1000
    assert "the packed file ends early" in log.caveats


def test_zstd_names_the_next_command() -> None:
    with pytest.raises(UsageError, match="zstd -d"):
        read(b"\x28\xb5\x2f\xfd" + bytes(20), "x.zst")


def test_zeros_bad_bytes_and_escapes_are_shown_and_never_kept() -> None:
    log = one(
        b"\0\0\0[    0.000000] Linux version 6.8.0\n[    1.000000] a\xff\xfe\x1b]0;x\x07\x85 "
        b"b\xe2\x80\xa8c\n")
    assert texts(log)[1] == "a\\xff\\xfe\\x1b]0;x\\x07\\x85 b\\u2028c"
    assert any(caveat.startswith("3 zero bytes") for caveat in log.caveats)
    assert any("not UTF-8" in caveat for caveat in log.caveats)


def test_an_endless_line_is_cut_and_reported() -> None:
    log = one("[    0.000000] Linux version 6.8.0\n[    1.000000] " + "x" * 1_000_000 + "\n")
    assert len(log.lines[1].text) <= LONGEST_LINE
    assert len(log.raw[1]) <= LONGEST_LINE
    assert any("longer than 8192 characters" in caveat for caveat in log.caveats)


def test_nothing_gives_no_boot() -> None:
    assert read(b"", "x") == ()
    assert read(b"\n\n\0\n", "x") == ()
    assert read(b"Nov 12 03:04:06 gpu001 systemd[1]: Started something.\n" * 3, "x") == ()


@pytest.mark.parametrize("piece", [
    b"x", b"[", b"{", b"{\n", b'{"a":\n', b"},{\n", b"5,", b"\\x41", b"\x1b[", b"\r", b" ", b"\n",
    b"-- Reboot --\n", b"a\n", b"Linux version \n", b"[ 9.0] a\n[ 0.0] b\n",
    b"6,1,1,-;\\x0a\\x0a\\x0a\n", b"Nov 12 03:04:05 h kernel: a\n    b\n", b"__CURSOR=a\nMESSAGE=a\n",
    b"__CURSOR=a\nMESSAGE\n\xff\xff\xff\xff\xff\xff\xff\x7f\n",
    b"Fri 2025-11-21 04:40:00.000000 UTC [s=a;i=1;b=1]\n    MESSAGE=a\n    a\n",
    b"____________________\n\ndmesg\n", b"\xff", b"\0",
])
def test_a_hostile_file_takes_linear_time(piece: bytes) -> None:
    data = piece * (200_000 // len(piece))
    began = time.process_time()
    read(data, "x")
    assert time.process_time() - began < 2


PIECES = st.lists(st.one_of(
    st.binary(max_size=60),
    st.sampled_from([
        b"6,1,0,-;a", b"[    1.0] a", b"<6>[ 1.0] a", b"kern  :info  : [ 1.0] a",
        b"Nov 12 03:04:05 h kernel: a", b"-- Reboot --", b'{"MESSAGE":',
        b'{"MESSAGE":"a","_TRANSPORT":"kernel"}', b"{", b"}", b'"dmesg": [', b"},{", b'"msg": [1]',
        b"__CURSOR=x", b"MESSAGE\n\xff\xff\xff\xff\xff\xff\xff\xffx",
        b"[Nov21 09:29] a", b"[  +0.1] a", b"[<    0.1>] a", b"2026-11-21T09:29:48,000000+00:00 a",
        b"\x1f\x8b", b"    MESSAGE=a", b"\r", b"\0", b"Fri 2025-11-21 04:40:00.000000 UTC [s=a;i=1;b=1]",
        b"[Sat Nov 31 09:29:48 2026] a", b"Linux version 1",
    ]),
), max_size=30)


@given(PIECES)
def test_any_bytes_give_lines_without_line_ends_and_control_characters(pieces: list[bytes]) -> None:
    try:
        logs = read(b"\n".join(pieces), "x")
    except UsageError:
        return
    for log in logs:
        assert len(log.lines) == len(log.raw) > 0
        for text in (*texts(log), *log.raw, *log.caveats):
            assert len(text.splitlines()) <= 1
            assert not any(ord(character) < 32 and character != "\t" for character in text)
        assert all(line.seconds is None or line.seconds >= 0 for line in log.lines)


def test_a_processor_that_starts_with_a_clock_at_zero_begins_no_boot() -> None:
    stray = "calibrate_delay_direct() failed to get a good estimate for loops_per_jiffy."
    pairs = [(0.0, "Linux version 6.1.0 (b@h) (gcc) #1 SMP"), (1.2, "smpboot: Booting Node 0 Processor 1"),
             (0.0, stray), (1.3, "smp: Brought up 1 node")]
    dmesg = "".join(f"[{seconds:12.6f}] {text}\n" for seconds, text in pairs)
    kmsg = "".join(f"6,{number},{int(seconds * 1e6)},-;{text}\n"
                   for number, (seconds, text) in enumerate(pairs))
    for data in (dmesg, kmsg):
        (log,) = read(data.encode(), "one")
        assert [line.text for line in log.lines] == [text for _, text in pairs] and log.caveats == ()
