"""Rules of rules/process.yaml and rules/limits.yaml: what is stuck, what no one waited for, tables that fill
up, limits of daemons."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.values import Unmeasured
from healthcheck.model.outcome import Status
from healthcheck.model.recording import Capture, Outcome, Recording
from tests.healthcheck import machine
from tests.healthcheck.checks.changed import files
from tests.healthcheck.checks.verdicts import after, findings_of, ids, status_findings, verdict

PYTHON: list[Any] = [31337, "D", 5000, 77, "python3"]
DRIVER: list[Any] = [911, "D", 90, 12, "nvidia-smi"]


def tasks(*kept: list[Any], **more: Any) -> Recording:
    return machine.recording(process_tasks=machine.tasks(*kept, **more))


def raw(text: str) -> Recording:
    return machine.recording(process_tasks=Capture(Outcome.DONE, seconds=0.1, bytes=len(text), text=text))


@pytest.mark.parametrize(("rule", "task", "words"), [
    ("process-stuck", PYTHON,
     "python3, process 31337: asleep in rpc_wait_bit_killable for 10 min, and cannot be killed"),
    ("process-stuck-driver", DRIVER, "nvidia-smi, process 911: asleep for 10 min, and cannot be killed"),
    ("process-stuck-driver", [12, "D", 3, 4, "nv_queue"],
     "nv_queue, process 12: asleep for 10 min, and cannot be killed"),
])
def test_a_process_that_slept_through_both_looks_is_stuck(rule: str, task: list[Any], words: str) -> None:
    now = tasks(task, waits={"31337": "rpc_wait_bit_killable", "911": "0"})
    result = verdict(rule, after(now, 600), tasks(task))
    assert (result.status, findings_of(result)) == (Status.FAIL, f"{words}, expected runs, or can be killed")


@pytest.mark.parametrize(("rule", "task", "earlier"), [
    ("process-stuck", PYTHON, [31337, "D", 5000, 76, "python3"]),       # it has run in between
    ("process-stuck", PYTHON, [31337, "D", 4000, 77, "python3"]),       # another process of that number
    ("process-stuck", PYTHON, [31338, "D", 5000, 77, "python3"]),
    ("process-stuck", PYTHON, [31337, "Z", 5000, 77, "python3"]),
    ("process-stuck", DRIVER, DRIVER), ("process-stuck-driver", PYTHON, PYTHON),        # the other rule's
    ("process-stuck-driver", [911, "D", 90, 12, "invidia"], [911, "D", 90, 12, "invidia"]),
])
def test_a_process_that_has_run_or_is_another_is_not_stuck(rule: str, task: list[Any],
                                                           earlier: list[Any]) -> None:
    assert verdict(rule, after(tasks(task), 600), tasks(earlier)).status is Status.PASS


def test_without_an_earlier_look_no_one_is_stuck_visibly() -> None:
    assert verdict("process-stuck", tasks(PYTHON)).reason == "no earlier snapshot of this node in this boot"


def test_sleepers_that_were_not_looked_at_closely_are_unknown_and_hide_no_other() -> None:
    many = tasks(PYTHON, states={"S": 3, "D": 400})
    result = verdict("process-stuck", after(many, 600), many)
    assert result.status is Status.FAIL and "399 more processes" in result.reason
    assert verdict("process-stuck", after(tasks(states={"S": 3, "D": 400}),
                                          600), many).status is Status.UNKNOWN
    unread = tasks([5, "D", 6, -1, "sh"])
    assert verdict("process-stuck", after(unread, 600), unread).status is Status.UNKNOWN


ZOMBIE: list[Any] = [7, "Z", 8, -1, "sh"]


@pytest.mark.parametrize(("number", "words"),
                         [(1000, ""), (1001, "processes: 1001 zombies, mostly sh, expected at most 1000")])
def test_zombies_are_counted(number: int, words: str) -> None:
    result = verdict("process-zombies", tasks(ZOMBIE, states={"S": 3, "Z": number}))
    assert (result.status, findings_of(result)) == (Status.FAIL if words else Status.PASS, words)


@pytest.mark.parametrize(("rule", "texts", "words"), [
    ("process-table", {"/proc/loadavg": "1.00 1.00 1.00 3/800 9\n", "pid_max": "1000\n"}, ""),
    ("process-table", {"/proc/loadavg": "1.00 1.00 1.00 3/801 9\n", "pid_max": "1000\n"},
     "threads: 801, expected at most 80 % of 1000"),
    ("process-table", {"/proc/loadavg": "1.00 1.00 1.00 3/801 9\n", "threads-max": "1000\n"},
     "threads: 801, expected at most 80 % of 1000"),
    ("process-files", {"file-nr": "800\t0\t1000\n"}, ""),
    ("process-files", {"file-nr": "801\t0\t1000\n"}, "open files: 801, expected at most 80 % of 1000"),
])
def test_the_kernels_tables_have_room(rule: str, texts: dict[str, str], words: str) -> None:
    assert status_findings(rule,
                           files("process.tables", texts)) == (Status.FAIL if words else Status.PASS, words)


@pytest.mark.parametrize(("rule", "path"), [
    ("process-table", "pid_max"), ("process-table", "threads-max"), ("process-table", "/proc/loadavg"),
    ("process-files", "file-nr"),
])
@pytest.mark.parametrize("wrong", [Outcome.DENIED, "", "x\n", "-1\n"])
def test_a_table_that_could_not_be_read_is_unknown(rule: str, path: str, wrong: Outcome | str) -> None:
    assert verdict(rule, files("process.tables", {path: wrong})).status is Status.UNKNOWN


SMALL = machine.LIMITS.replace("unlimited            unlimited ", "8388608              unlimited ")
FEW = machine.LIMITS.replace("131072               131072 ", "65535                131072 ")


@pytest.mark.parametrize(("rule", "limits", "words"), [
    ("limits-memlock", {"slurmd": machine.LIMITS}, ""), ("limits-nofile", {"slurmd": machine.LIMITS}, ""),
    ("limits-memlock", {"slurmd": SMALL},
     "slurmd, process 2000: 8192 KiB of locked memory, expected unlimited"),
    # What a container may lock is said when it is started.
    ("limits-memlock", {"slurmd": machine.LIMITS, "containerd": SMALL}, ""),
    ("limits-nofile", {"slurmd": machine.LIMITS, "containerd": FEW},
     "containerd, process 2001: 65535 open files, expected at least 65536"),
    ("limits-nofile", {"slurmd": FEW.replace("65535", "65536")}, ""),
    ("limits-nofile", {"slurmd": machine.LIMITS.replace("131072    ", "unlimited ")}, ""),
])
def test_limits_of_what_starts_jobs(rule: str, limits: dict[str, str], words: str) -> None:
    assert status_findings(rule, tasks(**limits)) == (Status.FAIL if words else Status.PASS, words)


@pytest.mark.parametrize("rule", ["limits-memlock", "limits-nofile"])
def test_limits_that_are_not_of_the_kernels_form_are_unknown_and_without_such_a_daemon_the_rule_is_skipped(
    rule: str,
) -> None:
    assert verdict(rule, tasks(slurmd="")).status is Status.UNKNOWN
    document = json.loads(machine.tasks().text)
    assert verdict(rule, raw(json.dumps({**document, "limits": []}))).status is Status.SKIPPED


@pytest.mark.parametrize("rule", ["process-stuck", "process-stuck-driver", "process-zombies",
                                  "limits-memlock", "limits-nofile"])
@pytest.mark.parametrize("change", [
    {"hidden": True}, {"states": {}}, {"states": {"S": "3"}}, {"processes": [[1]]}, {"processes": None},
    {"limits": [[1, 2]]}, {"waits": []},
])
def test_processes_that_are_hidden_or_not_of_the_readers_form_are_unknown(
    rule: str, change: dict[str, Any],
) -> None:
    odd = raw(json.dumps({**json.loads(machine.tasks().text), **change}))
    assert verdict(rule, after(odd, 600), machine.recording()).status is Status.UNKNOWN


def test_every_rule_of_both_files_is_tested_here() -> None:
    assert ids("process.yaml") - {"process-without-job",
                                  "process-lineage"} == {"process-stuck", "process-stuck-driver",
                                                         "process-zombies",
            "process-table", "process-files"}
    assert ids("limits.yaml") == {"limits-memlock", "limits-nofile"}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=5)
    | st.dictionaries(st.sampled_from(["states", "processes", "waits", "limits", "hidden", "S", "D"]), inner,
                      max_size=5), max_leaves=12)


@pytest.mark.parametrize("fact", ["processes", "starters"])
@given(value=VALUES, end=st.integers(0, 400))
def test_no_answer_raises(fact: str, value: Any, end: int) -> None:
    whole = machine.tasks(PYTHON, ZOMBIE).text
    for text in (json.dumps(value), whole[:min(end, len(whole) - 1)]):
        built = build_fact(FACTS[fact], Captures(raw(text)))
        assert isinstance(built, Unmeasured) and "could not be read from" not in built.reason
    mixed = json.loads(whole)
    mixed["processes"] = value
    built = build_fact(FACTS[fact], Captures(raw(json.dumps(mixed))))
    assert not isinstance(built, Unmeasured) or "could not be read from" not in built.reason


@given(st.text(max_size=80))
def test_no_table_raises(text: str) -> None:
    held = machine.captures()["process.tables"]
    odd = replace(held, files={path: entry._replace(text=text) for path, entry in held.files.items()})
    built = build_fact(FACTS["tables"], Captures(machine.recording(process_tables=odd)))
    assert not isinstance(built, Unmeasured) or "could not be read from" not in built.reason
