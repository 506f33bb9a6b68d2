"""Rules of rules/filesystem.yaml about mounts: those that hang, are stale or missing, and what Lustre says of
itself."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.checks.filesystem import _pattern
from healthcheck.model.outcome import Owner, Status
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import findings_of, verdict

HUNG, WEDGED = FileCapture(Outcome.TIMEOUT), FileCapture(Outcome.WEDGED)
SINCE = "/{}: wedged since 2026-11-21T06:00:00Z (pid 4711)"
STALE, GONE = FileCapture(Outcome.CRASHED, "ESTALE"), FileCapture(Outcome.CRASHED, "ENOTCONN")


def answers(**points: FileCapture) -> Recording:
    """The healthy machine, where statvfs of a mount point ("home") brought this."""
    held = machine.captures()["filesystem.mounts"]
    files = {**held.files, **{f"/{name}": entry for name, entry in points.items()}}
    note = "; ".join(SINCE.format(name) for name, entry in points.items() if entry is WEDGED)
    return machine.recording(filesystem_mounts=replace(held, files=files, note=note))


def plan(fstab: str | None, mountinfo: str = machine.MOUNTINFO) -> Recording:
    held = machine.captures()["filesystem.mounts"]
    entry = FileCapture(Outcome.MISSING) if fstab is None else FileCapture(Outcome.DONE, fstab)
    return machine.recording(
        filesystem_plan=Capture(Outcome.DONE, seconds=0.0, bytes=1, files={"/etc/fstab": entry}),
        filesystem_mounts=replace(held, files={**held.files,
                                               "/proc/self/mountinfo": FileCapture(Outcome.DONE, mountinfo)}),
    )


@pytest.mark.parametrize(("entry", "error"), [(STALE, "error ESTALE"), (GONE, "error ENOTCONN"),
                                              (WEDGED, "no answer: an earlier reader still waits for it")])
def test_a_mount_that_answers_with_an_error_fails_and_the_network_owns_what_it_serves(
    entry: FileCapture, error: str,
) -> None:
    result = verdict("filesystem-answers", answers(home=entry))
    assert findings_of(result) == f"/home: {error} (nfs4 of files:/home), expected an answer"
    assert result.findings[0].owner is Owner.NETWORK
    assert verdict("filesystem-answers", answers(raid=entry)).findings[0].owner is Owner.OPERATOR


def test_a_mount_that_is_silent_once_is_unknown_and_twice_is_a_fault() -> None:
    once = answers(home=HUNG)
    result = verdict("filesystem-answers", once)
    assert (result.status is Status.UNKNOWN
            and "statvfs of /home (nfs4 of files:/home) did not return in time" in result.reason)
    assert verdict("filesystem-hung", once).status is Status.SKIPPED
    assert verdict("filesystem-hung", once, answers()).status is Status.PASS
    assert verdict("filesystem-hung", answers(), once).status is Status.PASS
    result = verdict("filesystem-hung", once, once)
    assert (findings_of(result) == "/home: no answer, now and in the earlier snapshot (nfs4 of files:/home), "
            "expected an answer")
    assert result.findings[0].owner is Owner.NETWORK


def test_a_reader_that_could_not_be_killed_is_no_word_of_an_earlier_look() -> None:
    assert verdict("filesystem-answers", answers(home=FileCapture(Outcome.WEDGED))).status is Status.UNKNOWN


def test_the_silence_of_one_mount_hides_no_error_of_another() -> None:
    result = verdict("filesystem-answers", answers(home=HUNG, raid=FileCapture(Outcome.CRASHED, "EIO")))
    assert (result.status is Status.FAIL and findings_of(result).startswith("/raid: error EIO")
            and "/home" in result.reason)


@pytest.mark.parametrize("options",
                         ["ro,errors=remount-ro", "rw,errors=remount-ro,emergency_ro", "rw,shutdown"])
def test_what_the_kernel_made_read_only_is_found_in_the_words_of_old_and_new_kernels(options: str) -> None:
    mountinfo = machine.MOUNTINFO.replace("xfs /dev/md0 rw,attr2", f"ext4 /dev/md0 {options}")
    assert mountinfo != machine.MOUNTINFO
    assert (findings_of(verdict("filesystem-read-only", plan("", mountinfo))) == "/raid: read-only (ext4 on "
            "/dev/md0), expected writable")


def test_a_mount_that_we_may_not_ask_or_that_is_gone_meanwhile_is_no_fault() -> None:
    for outcome in (Outcome.DENIED, Outcome.MISSING):
        result = verdict("filesystem-answers", answers(home=FileCapture(outcome)))
        assert result.status is Status.PASS and "error of /home" in result.reason


def test_the_mounts_of_users_are_not_judged() -> None:
    mountinfo = (machine.MOUNTINFO + "40 22 0:50 / /mnt/x rw - fuse.sshfs me@there:/ rw\n41 22 0:51 / "
                 "/run/user/1000/doc rw - fuse.y y rw\n")
    held = machine.captures()["filesystem.mounts"]
    entries = {**held.files, "/proc/self/mountinfo": FileCapture(Outcome.DONE, mountinfo), "/mnt/x": GONE,
               "/run/user/1000/doc": HUNG}
    assert verdict("filesystem-answers",
                   machine.recording(filesystem_mounts=replace(held, files=entries))).status is Status.PASS


def test_what_fstab_has_mounted_at_boot_and_is_not_is_named() -> None:
    assert verdict("filesystem-expected", plan("/dev/md0 /raid/ xfs\n/dev/sda2 none swap sw\n/dev/sr0 /cd "
                                               "iso9660 ro,noauto 0 0\n")).status is Status.PASS
    result = verdict("filesystem-expected", plan("# scratch\nLABEL=a\\040b /my\\040scratch xfs nofail 0 2\n"))
    assert (findings_of(result) == "/my scratch: not mounted (xfs of LABEL=a b), expected mounted, as "
            "/etc/fstab says")


def test_an_automount_point_is_mounted_also_while_no_one_asks_for_it() -> None:
    mountinfo = machine.MOUNTINFO + "50 22 0:60 / /data rw - autofs systemd-1 rw,fd=50\n"
    assert verdict("filesystem-expected", plan("filer:/data /data nfs4 x-systemd.automount 0 0\n",
                                               mountinfo)).status is Status.PASS


def test_without_fstab_only_what_the_rule_names_is_expected() -> None:
    assert verdict("filesystem-expected", plan(None)).status is Status.SKIPPED
    assert (findings_of(verdict("filesystem-expected",
                                plan(None, "23 22 0:21 / /proc rw,nosuid - proc proc rw\n"))) == "/: not "
            "mounted, expected mounted, as the rule says")


def test_an_fstab_of_another_form_is_unknown() -> None:
    result = verdict("filesystem-expected", plan("only two\n"))
    assert result.status is Status.UNKNOWN and "/etc/fstab" in result.reason


@pytest.mark.parametrize(("text", "status"), [
    ("healthy\n", Status.PASS), ("NOT HEALTHY\n", Status.FAIL),
    ("device a reported unhealthy\nNOT HEALTHY\n", Status.FAIL), ("", Status.UNKNOWN),
])
def test_lustre_is_healthy_if_it_says_so_in_that_word(text: str, status: Status) -> None:
    assert verdict("filesystem-lustre",
                   machine.recording(filesystem_lustre=machine.done(
                                         **{"/sys/fs/lustre/health_check": text}))).status is status


def test_a_node_without_lustre_is_skipped() -> None:
    none = {path: FileCapture(Outcome.MISSING)
            for path in ("/sys/fs/lustre/health_check", "/proc/fs/lustre/health_check")}
    capture = Capture(Outcome.DONE, seconds=0.0, bytes=0, files=none)
    assert verdict("filesystem-lustre", machine.recording(filesystem_lustre=capture)).status is Status.SKIPPED


@given(st.lists(st.text("/ab*?[!]-.\n", max_size=8), max_size=4), st.text("/ab*[\n", max_size=8))
def test_a_name_is_ignored_that_any_one_pattern_matches(patterns: list[str], name: str) -> None:
    assert (_pattern(tuple(patterns)).match(name) is not None) == any(fnmatchcase(name, pattern)
                                                                      for pattern in patterns)
