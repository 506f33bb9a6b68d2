"""Slurm's lines in a job's output."""

from __future__ import annotations

import pytest

from healthcheck.joblog.model import JobEvent, JobEventKind, LogClock
from healthcheck.joblog.slurm import SlurmMessages

CLOCK = LogClock(1_795_000_000.0)


def said(line: str) -> list[JobEvent]:
    return list(SlurmMessages().events([line], CLOCK))


def test_a_task_that_was_killed_has_its_node_and_rank() -> None:
    [event] = said("srun: error: gpu007: task 12: Killed")
    assert (event.kind, event.node, event.rank, event.code) == (JobEventKind.EXIT, "gpu007", 12, -9)


def test_several_tasks_of_several_nodes_are_an_event_of_each_node() -> None:
    events = said("srun: error: gpu[007-008]: tasks 48-63: Exited with exit code 1")
    assert [(event.node, event.rank, event.code) for event in events] == [
        ("gpu007", None, 1), ("gpu008", None, 1)]


@pytest.mark.parametrize(("line", "kind", "node"), [
    ("srun: error: nid001277: tasks 1-3: Out Of Memory", JobEventKind.OOM, "nid001277"),
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=440575.0. Some of the step tasks have been OOM "
     "Killed.", JobEventKind.OOM, ""),
    ("slurmstepd-gpu007: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been "
     "OOM Killed.", JobEventKind.OOM,
     "gpu007"),
    ("slurmstepd: error: Detected 1 oom-kill event(s) in step 3495064.0 cgroup. Some of your processes may "
     "...", JobEventKind.OOM, ""),
    ("slurmstepd: error: *** JOB 7 ON gpu001 CANCELLED AT 2026-11-21T09:09:37 DUE TO TIME LIMIT ***",
     JobEventKind.TIME_LIMIT, "gpu001"),
    ("slurmstepd: error: *** STEP 7.0 ON gpu001 CANCELLED AT 2026-11-21T09:09:37 DUE TO PREEMPTION ***",
     JobEventKind.PREEMPTED, "gpu001"),
    ("slurmstepd: error: *** STEP 7.0 ON gpu001 CANCELLED AT 2026-11-21T09:09:37 DUE TO NODE FAILURE, SEE "
     "SLURMCTLD LOG FOR DETAILS ***",
     JobEventKind.NODE_FAIL, ""),
    ("slurmstepd: error: *** JOB 7 ON gpu001 CANCELLED AT 2026-11-21T09:09:37 ***", JobEventKind.CANCELLED,
     "gpu001"),
    ("slurmstepd: error: *** STEP 7.0 ON gpu001 CANCELLED AT 2026-11-21T09:09:37 ***",
     JobEventKind.STEP_CANCELLED, "gpu001"),
    ("slurmstepd: error: *** STEP 7.0 ON gpu001 UNCORRECTABLE MEMORY ERROR AT 2026-11-21T09:09:37 ***",
     JobEventKind.MEMORY_ERROR, "gpu001"),
    ("salloc: error: Node failure on worker-1", JobEventKind.NODE_FAIL, "worker-1"),
    ("srun: error: Task launch for StepId=7.0 failed on node gpu003: Communication connection failure",
     JobEventKind.LAUNCH, "gpu003"),
])
def test_each_way_in_which_slurm_ends_a_job_is_known(line: str, kind: JobEventKind, node: str) -> None:
    assert [(event.kind, event.node) for event in said(line)] == [(kind, node)]


def test_a_task_that_ended_well_and_words_of_others_say_nothing() -> None:
    assert not said("srun: error: gpu007: task 12: Exited with exit code 0")
    assert not said("Job step 7.0 was killed")
