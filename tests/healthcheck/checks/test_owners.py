"""User processes outside of jobs, and huge pages that no process has mapped."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.owners import ProcessOwners
from healthcheck.facts.values import Unmeasured
from healthcheck.model.outcome import Status
from healthcheck.model.recording import Capture, Outcome, Recording
from tests import packagedrules
from tests.healthcheck import machine
from tests.healthcheck.checks.changed import files
from tests.healthcheck.checks.verdicts import RULES, findings_of, status_findings, verdict

NOW = 9_000_025                     # the snapshot's time in clock ticks since boot
OLD = NOW - 3600 * 100 * 5          # five hours ago
NAMES = ("slurmstepd", "python3", "sshd", "bash", "systemd", "containerd-shim", "pbs_mom")
STEP, PYTHON, SSHD, BASH, MANAGER, SHIM, MOM = range(len(NAMES))
GROUPS = (
    "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n",
    "0::/user.slice/user-1001.slice/session-4.scope\n",
    "11:freezer:/slurm/uid_1001/job_12/step_batch\n10:memory:/slurm/uid_1001/job_12/step_batch/task_0\n"
    "1:name=systemd:/system.slice/slurmd.service\n",
    "0::/kubepods.slice/kubepods-burstable.slice/"
    "kubepods-burstable-pod0b6f1c9e_77aa_4f0e_9d3b_5e1c2a3b4c5d.slice/cri-containerd-"
    + "ab" * 32 + ".scope\n",
    "0::/system.slice/docker-" + "cd" * 32 + ".scope\n",
    "0::/system.slice/gpu001_slurmstepd.scope/job_12/step_extern/user/task_special\n",
    "0::/pbs_jobs.service/jobid/88.head\n", "0::/system.slice/slurmd.service\n",
)
V2, LOGIN, V1, POD, DOCKER, NAMED, PBS, DAEMON = range(len(GROUPS))


def seen(*rows: list[int], **more: Any) -> Recording:
    """A node with these processes: pid, parent, user, start, kB of huge pages, name, group."""
    return machine.recording(process_owners=machine.owners(*rows, names=NAMES, cgroups=GROUPS, **more))


STEPD = [500, 1, 0, OLD, 0, STEP, V2]


def judged(rule: str, *rows: list[int], **having: Any) -> tuple[Status, str]:
    return status_findings(rule, seen(*rows), having={**RULES[rule].parameters, **having})


@pytest.mark.parametrize("group", [V2, V1, NAMED])
def test_a_process_of_a_slurm_job_is_left_alone_in_any_layout_of_its_groups(group: int) -> None:
    rows = STEPD, [600, 500, 1001, OLD, 0, PYTHON, group]
    assert {judged(rule, *rows)[0] for rule in ("process-without-job", "process-lineage")} == {Status.PASS}


@pytest.mark.parametrize("row", [
    [600, 1, 1001, OLD, 0, PYTHON, POD], [600, 1, 1001, OLD, 0, PYTHON, DOCKER],
    [600, 1, 1001, OLD, 0, PYTHON, PBS],
])
def test_a_process_of_a_pod_a_container_or_a_pbs_job_is_left_alone(row: list[int]) -> None:
    assert judged("process-without-job", row)[0] is Status.PASS


def test_without_groups_what_comes_from_a_jobs_daemon_is_left_alone() -> None:
    rows = [500, 1, 0, OLD, 0, MOM, DAEMON], [601, 500, 1001, OLD, 0, BASH,
                                              DAEMON], [602, 601, 1001, OLD, 0, PYTHON, DAEMON]
    assert judged("process-without-job", *rows)[0] is Status.PASS


def test_processes_of_a_user_without_a_job_are_one_finding_with_the_oldest() -> None:
    rows = [601, 1, 1001, OLD, 0, PYTHON, LOGIN], [602, 601, 1001, NOW - 100 * 3600, 0, PYTHON,
                                                   LOGIN], [603, 1, 1002, OLD, 0, BASH, LOGIN]
    assert judged("process-without-job", *rows) == (
        Status.FAIL,
        "user 1001: 2 left: python3 (601), python3 (602); the oldest runs for 5.0 h, expected none of a user "
        "without a job; "
        "user 1002: 1 left: bash (603); the oldest runs for 5.0 h, expected none of a user without a job")
    assert judged("process-lineage", *rows)[0] is Status.PASS


def test_what_a_user_with_a_job_runs_beside_it_is_the_other_rules() -> None:
    rows = STEPD, [600, 500, 1001, OLD, 0, PYTHON, V2], [700, 1, 1001, OLD, 0, BASH, LOGIN]
    assert judged("process-without-job", *rows)[0] is Status.PASS
    assert judged("process-lineage", *rows) == (
        Status.FAIL,
        "user 1001: 1 left: bash (700); the oldest runs for 5.0 h, expected only those of its job "
        "(Slurm job 12)")


def test_what_stayed_in_the_group_of_a_job_that_has_ended_is_left_behind() -> None:
    """No process of job 12 comes from slurmstepd any more: its step could not end them."""
    assert judged("process-without-job", [600, 1, 1001, OLD, 0, PYTHON, V2]) == (
        Status.FAIL,
        "user 1001: 1 left: python3 (600); the oldest runs for 5.0 h, of Slurm job 12, which has ended, "
        "expected none of a "
        "user without a job")


@pytest.mark.parametrize(("row", "having"), [
    ([600, 1, 1001, NOW - 100 * 60 * 9, 0, PYTHON, LOGIN], {}),                     # nine minutes old
    ([600, 1, 999, OLD, 0, PYTHON, LOGIN], {}), ([600, 1, 65534, OLD, 0, PYTHON, LOGIN], {}),
    ([600, 1, 61500, OLD, 0, PYTHON, LOGIN],
     {}),                                   # a dynamic user of systemd's
    ([600, 1, 1001, OLD, 0, MANAGER, LOGIN], {}),                                   # the login's own manager
    ([600, 1, 1001, OLD, 0, PYTHON, LOGIN], {"exempt_uids": [1001]}),
    ([600, 1, 1001, OLD, 0, PYTHON, LOGIN], {"exempt": ["python*"]}),
    ([600, 1, 1001, OLD, 0, PYTHON, LOGIN], {"from_uid": 5000}),
    ([600, 2210, 1001, OLD, 0, PYTHON, DAEMON], {"starters": ["slurmd"]}),
])
def test_who_is_no_person_young_or_exempt_is_left_alone(row: list[int], having: dict[str, Any]) -> None:
    assert judged("process-without-job", row, **having)[0] is Status.PASS


def test_the_policy_is_off_until_a_site_switches_it_on() -> None:
    assert all(RULES[rule].left_out for rule in ("process-without-job", "process-lineage"))
    beside_a_job = {rule.id for rule in packagedrules.RULES.under("timer") if not rule.left_out}
    assert not {"process-without-job", "process-lineage", "memory-hugepages-leaked"} & beside_a_job


@pytest.mark.parametrize("more", [{"hidden": True}, {"strange": True}, {"uptime": ""},
                                  {"processes": [[1, 0, 0, 1, 0, 99, 0]]}, {"processes": []},
                                  {"processes": [[1]]},
                                  {"processes": [[1, 0, 0, "x", 0, 0, 0]]}, {"more": 3}])
@pytest.mark.parametrize("rule", ["process-without-job", "process-lineage", "memory-hugepages-leaked"])
def test_processes_that_cannot_be_seen_are_unknown_and_no_pass(rule: str, more: dict[str, Any]) -> None:
    assert verdict(rule, seen(**more)).status is Status.UNKNOWN


def test_musters_own_processes_are_no_ones_left_over_but_their_huge_pages_count() -> None:
    row = [600, 1, 1001, OLD, 4096, PYTHON, LOGIN]
    owners = build_fact(FACTS["process_owners"], Captures(seen(row, own=[600])))
    assert (owners.users, owners.huge_page_bytes) == ((), 4 << 20)


def test_a_circle_of_parents_ends() -> None:
    owners = build_fact(FACTS["process_owners"],
                        Captures(seen([600, 601, 1001, OLD, 0, BASH, LOGIN],
                                      [601, 600, 1001, OLD, 0, PYTHON, LOGIN])))
    assert [user.lineage for user in owners.users] == [("python3",), ("bash",)]


ODD = st.none() | st.integers() | st.text(max_size=9) | st.floats(allow_nan=True)


@given(key=st.sampled_from(sorted(json.loads(machine.owners().text))),
       value=ODD | st.lists(ODD, max_size=3) | st.lists(st.lists(st.integers(-1, 2), min_size=7, max_size=7),
                                                        max_size=2))
def test_any_document_is_read_or_refused(key: str, value: Any) -> None:
    text = json.dumps({**json.loads(machine.owners().text), key: value})
    fact = build_fact(FACTS["process_owners"], Captures(machine.recording(
        process_owners=Capture(Outcome.DONE, seconds=0.1, bytes=len(text), text=text))))
    assert not isinstance(fact, Unmeasured) or "could not be read from" not in fact.reason


@given(st.text(max_size=200))
def test_any_control_group_is_one_job_or_none(group: str) -> None:
    fact = build_fact(FACTS["process_owners"], Captures(machine.recording(
        process_owners=machine.owners([600, 1, 1001, OLD, 0, 0, 0], names=("x",), cgroups=(group,)))))
    assert isinstance(fact, ProcessOwners) and len(fact.users) == 1


HUGE = "/sys/kernel/mm/hugepages/hugepages"


@pytest.mark.parametrize(("total", "free", "mapped_kib", "words"), [
    (0, 0, 0, ""), (512, 512, 0, ""), (512, 256, 256 * 2048, ""), (512, 480, 0, ""),
    # Two processes that share pages count them twice.
    (512, 256, 2 * 256 * 2048, ""),
    (512, 256, 0, "huge pages: 0.5 GiB in use and mapped by no process, expected at most 64 MiB"),
    (51200, 0, 25600 * 2048, "huge pages: 50.0 GiB in use and mapped by no process, expected at most 64 MiB"),
])
def test_huge_pages_in_use_that_no_process_has_mapped_are_named(total: int, free: int, mapped_kib: int,
                                                                words: str) -> None:
    pages = files("host.memory",
                  {f"{HUGE}-2048kB/nr_hugepages": f"{total}\n", f"{HUGE}-2048kB/free_hugepages": f"{free}\n"})
    recording = seen([600, 1, 0, OLD, mapped_kib, PYTHON, LOGIN])
    recording = machine.recording(host_memory=pages.captures["host.memory"],
                                  process_owners=recording.captures["process.owners"])
    assert status_findings("memory-hugepages-leaked",
                           recording) == (Status.FAIL if words else Status.PASS, words)


@pytest.mark.parametrize(("mapped_kib", "words"), [
    (0, "huge pages: 0.5 GiB reserved, and no process has used any, expected at most 64 MiB"), (2048, "")])
def test_huge_pages_that_are_reserved_by_no_process_are_named(mapped_kib: int, words: str) -> None:
    pages = files("host.memory", {f"{HUGE}-2048kB/{name}_hugepages": f"{count}\n"
                                  for name, count in (("nr", 512), ("free", 512), ("resv", 256))})
    owners = seen([600, 1, 0, OLD, mapped_kib, PYTHON, LOGIN]).captures["process.owners"]
    result = verdict("memory-hugepages-leaked",
                     machine.recording(host_memory=pages.captures["host.memory"], process_owners=owners))
    assert (result.status, findings_of(result)) == (Status.FAIL if words else Status.PASS, words)


def test_pages_of_one_size_that_cannot_be_read_are_unknown() -> None:
    odd = files("host.memory", {f"{HUGE}-1048576kB/free_hugepages": Outcome.DENIED})
    assert verdict("memory-hugepages-leaked", odd).status is Status.UNKNOWN
