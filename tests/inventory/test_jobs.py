"""A job as Slurm tells of it: records of a real Slurm 22.05 with slurmdbd, and whatever else may come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.discover import CommandOutput
from inventory.errors import UsageError
from inventory.jobs import Job, job, parse_sacct, parse_scontrol

RECORDED = Path(__file__).parents[1] / "recordings" / "blame" / "slurm-recorded"
NUMBERS = {"segv": "1", "exit": "2", "killed": "3", "cancel": "4", "good": "5", "nodefail": "6"}


def sacct(name: str) -> Job:
    return parse_sacct((RECORDED / f"{name}.sacct").read_text(), NUMBERS[name])


def scontrol(name: str) -> Job:
    return parse_scontrol((RECORDED / f"{name}.scontrol").read_text(), NUMBERS[name])


@pytest.mark.parametrize("name", NUMBERS)
def test_both_commands_tell_the_same_of_a_job(name: str) -> None:
    one, other = sacct(name), scontrol(name)
    assert (one.state, one.nodes, one.started, one.ended,
            one.user) == (other.state, other.nodes, other.started, other.ended, "root")
    assert one.started is not None and one.ended is not None and one.started <= one.ended


def test_who_cancelled_a_job_and_how_its_steps_ended_are_read() -> None:
    found = sacct("cancel")
    assert (found.state, found.by) == ("CANCELLED", "0")
    assert [(step.name, step.state, step.signal, step.nodes) for step in found.steps] == [
        ("batch", "CANCELLED", 15, ("gpu001",)), ("0", "CANCELLED", 15, ("gpu001", "gpu002"))]


def test_sacct_takes_128_off_a_shells_exit_code_and_scontrol_does_not() -> None:
    assert (sacct("segv").code, scontrol("segv").code) == (11, 139)


def test_of_a_job_that_was_requeued_the_last_run_counts() -> None:
    text = ("JobID|State|ExitCode|Submit|Start|End|User|NodeList|FailedNode\n"
            "7|NODE_FAIL|0:0|2026-11-21T08:00:00|2026-11-21T08:01:00|2026-11-21T09:00:00|alice|"
            "gpu[1-2]|gpu2\n"
            "7|FAILED|1:0|2026-11-21T09:00:00|2026-11-21T09:01:00|2026-11-21T10:00:00|alice|gpu[3-4]|\n"
            "7.0|FAILED|1:0|2026-11-21T09:01:00|2026-11-21T09:01:00|2026-11-21T10:00:00||gpu[3-4]|\n")
    found = parse_sacct(text, "7")
    assert (found.nodes, found.failed, found.requeues, len(found.steps)) == (("gpu3", "gpu4"), (), 1, 1)


def test_a_job_that_has_not_begun_has_no_times_and_no_nodes() -> None:
    text = ("JobID|State|ExitCode|Submit|Start|End|User|NodeList\n"
            "7|PENDING|0:0|2026-11-21T08:00:00|Unknown|Unknown|alice|None assigned\n")
    found = parse_sacct(text, "7")
    assert (found.nodes, found.started, found.ended) == ((), None, None)


def test_a_jobs_name_forges_nothing() -> None:
    text = (RECORDED / "exit.scontrol").read_text().replace("JobName=exit.sh",
                                                            "JobName=x JobState=NODE_FAIL NodeList=gpu099")
    found = parse_scontrol(text, "2")
    assert (found.state, found.nodes) == ("FAILED", ("gpu001", "gpu002"))


def test_an_sacct_that_knows_no_failed_node_is_asked_without() -> None:
    asked: list[str] = []

    def run(argv: Sequence[str]) -> CommandOutput:
        asked.append(argv[-1])
        if "FailedNode" in argv[-1]:
            return CommandOutput(1, b"", b'sacct: error: Invalid field requested: "FailedNode"\n')
        return CommandOutput(0, (RECORDED / "exit.sacct").read_bytes(), b"")

    assert job("2", run).state == "FAILED"
    assert len(asked) == 2


def test_where_nothing_keeps_accounts_scontrol_is_asked() -> None:
    def run(argv: Sequence[str]) -> CommandOutput:
        if argv[0] == "sacct":
            return CommandOutput(1, b"", b"Slurm accounting storage is disabled\n")
        return CommandOutput(0, (RECORDED / "nodefail.scontrol").read_bytes(), b"")

    found = job("6", run)
    assert (found.state, found.source) == ("NODE_FAIL", "scontrol show job")


def test_a_job_that_no_one_knows_is_one_line_with_what_to_type() -> None:
    def run(argv: Sequence[str]) -> CommandOutput:
        if argv[0] == "sacct":
            return CommandOutput(0, b"JobID|State|ExitCode|Submit|Start|End|User|NodeList\n", b"")
        return CommandOutput(1, b"", b"slurm_load_jobs error: Invalid job id specified\n")

    with pytest.raises(UsageError, match=r"job 99 is unknown: sacct has no job 99 .*; scontrol failed "
                                         r".*muster blame --nodes N --since T --until T"):
        job("99", run)


@pytest.mark.parametrize("number", ["", "-1", "4711; id", "4711.0", "x" * 50])
def test_what_is_no_job_id_is_never_handed_on(number: str) -> None:
    with pytest.raises(UsageError, match="is not a job id"):
        job(number, lambda _: CommandOutput(0, b"", b""))


@given(st.text(alphabet="JobIDState|=:\n 0123456789[]-,gpuNodeListExitCode", max_size=300))
def test_whatever_slurm_prints_is_a_job_or_one_line(text: str) -> None:
    for parse in (parse_sacct, parse_scontrol):
        try:
            parse("JobID|State|ExitCode|Submit|Start|End|User|NodeList\n" + text, "1")
        except UsageError as error:
            assert "\n" not in str(error)
