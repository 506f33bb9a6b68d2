"""Who wrote a record: what a process wrote to the kernel's log is marked in its text, whatever it
imitates."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.kernellog.provenance import USER, USER_SPACE, marked, marked_records
from healthcheck.kernellog.quoting import blanked
from healthcheck.model.outcome import Severity
from tests.healthcheck.baseline.packaged import catalogue

XID = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
DAEMONS = ("systemd[1]: Started a.", "(udev-worker)[312]: a", "systemd-udevd[77]: a",
           "nv-fabricmanager[1234567890]: a", "a@b.service[1]: a")
NO_DAEMONS = (
    "systemd: a", "systemd[1] a", "systemd[1]:a", "systemd[x]: a", "systemd[12345678901]: a",
    "NVRM: Xid (PCI:0000:3b:00)[1]: a", "1a[1]: a", "[1]: a", "a b[1]: a", "x" * 64 + "[1]: a",
    " systemd[1]: a", "systemd [1]: a", "\nsystemd[1]: a", "système[1]: a", "systemd[١]: a", "",
)
# No line end, and nothing that would take a record's head apart: what the kernel gives as one line.
TEXTS = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), max_size=80)


@given(TEXTS)
def test_what_the_kernel_wrote_stays_as_it_is(text: str) -> None:
    assert marked(text, 0) == text


@given(TEXTS, st.integers(1, 1 << 20))
def test_what_a_process_wrote_is_marked_once(text: str, facility: int) -> None:
    expected = marked(text, facility)
    assert expected in (text, USER_SPACE + text)
    assert marked(expected, facility) == expected


@pytest.mark.parametrize("text", DAEMONS)
def test_a_daemon_that_names_itself_and_its_process_needs_no_mark(text: str) -> None:
    assert marked(text, 3) == text


@pytest.mark.parametrize("text", (*NO_DAEMONS, XID))
def test_what_only_resembles_a_daemon_is_marked(text: str) -> None:
    assert marked(text, USER) == USER_SPACE + text


@pytest.mark.parametrize(("head", "written"), [
    ("0,1,2,-", False), ("4,1,2,-", False), ("7,1,2,-", False), ("4,1,2,-,caller=T1", False),
    ("8,1,2,-", True), ("9,1,2,-", True), ("12,1,2,-", True), ("30,1,2,-", True), ("191,1,2,-", True),
    ("524287,1,2,-", True), ("12,1,2,-,caller=T7", True), ("12,1,2,c", True),
    ("12,1,2,-,muster-notime", True),
])
def test_records_of_a_log_are_marked_by_their_facility(head: str, written: bool) -> None:
    assert marked_records(f"{head};{XID}\n") == f"{head};{USER_SPACE if written else ''}{XID}\n"


def test_only_the_records_of_processes_are_marked_and_all_else_stays_as_it_is() -> None:
    kept = (f"5,0,0,-;Linux version 6.8.0\n6,1,1,-;12,9,9,-;{XID}\n SUBSYSTEM=pci\n "
            "DEVICE=+pci:0000:3b:00.0\n30,2,2,-;systemd[1]: a\n")
    assert marked_records(kept) == kept
    forged = f"{kept}12,3,3,-;{XID}\n SUBSYSTEM=pci\n12,4,4,-;a;b\n4,5,5,-;b"
    assert marked_records(
        forged) == f"{kept}12,3,3,-;{USER_SPACE}{XID}\n SUBSYSTEM=pci\n12,4,4,-;{USER_SPACE}a;b\n4,5,5,-;b"


@given(st.lists(st.tuples(st.integers(0, 4095), TEXTS | st.sampled_from([*DAEMONS, XID, USER_SPACE + XID])),
                max_size=8))
def test_a_log_is_marked_as_each_of_its_records_is_and_once(expected: list[tuple[int, str]]) -> None:
    def log(mark: bool) -> str:
        return "".join(f"{level},{number},0,-;{marked(text, level >> 3) if mark else text}\n"
                       for number, (level, text) in enumerate(expected))

    assert marked_records(log(mark=False)) == log(mark=True)
    assert marked_records(log(mark=True)) == log(mark=True)


def test_the_mark_is_no_name_of_a_process_that_a_line_may_begin_with() -> None:
    """Else a line in which a process imitates what the kernel says of processes would be blanked to one, mark
    and all."""
    begun = [text for _, text in _begin_with_a_process()
             if not blanked(USER_SPACE + text).startswith(USER_SPACE)]
    assert begun == []


def test_a_process_cannot_write_a_fault_of_the_kernels() -> None:
    """Each line that the catalogue knows, and what is left of it without the process or the device that it
    begins with: the mark could stand for that."""
    lines = [(entry, line) for entry in catalogue().entries for line in entry.examples]
    ends = [(entry.id, line, prefix.end()) for entry, line in lines for emitter in entry.emitters
            if (prefix := emitter.prefix(line)) is not None]
    texts = [*((entry.id, line) for entry, line in lines), *((name, line[end:]) for name, line, end in ends)]
    wrong = [(name, text, found.id) for name, text in [*texts, *_begin_with_a_process()]
             if marked(text, USER) != text and (found := catalogue().find(marked(text, USER))) is not None
             and found.severity is not Severity.INFO]
    assert wrong == []


@cache
def _begin_with_a_process() -> list[tuple[str, str]]:
    """What follows the name of a process, in examples of the catalogue that begin with one."""
    found = []
    for entry in catalogue().entries:
        for line in entry.examples:
            expected = blanked(line)
            if expected.startswith("<user>"):
                found.append((entry.id, expected.removeprefix("<user>").removeprefix(": ")))
    assert len(found) > 10
    return found
