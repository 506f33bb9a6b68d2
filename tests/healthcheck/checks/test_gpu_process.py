"""Rules of rules/gpu-process.yaml: memory that no one holds, processes that are no more, and a machine that
should be idle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from healthcheck.model.outcome import Status
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import ERROR, NOT_SUPPORTED, RULES, gpus, ids, status_words, verdict

MIB = 2**20


def loaded(rule: str, rows: Any, mib: float = 0, **readings: Any) -> tuple[Status, str]:
    """What is said where GPU 3 has these processes (number, state, command) and this much memory in use."""
    processes = {"ok": rows} if isinstance(rows, list) else rows
    others = gpus({"processes": {"ok": []}}, range(8)).captures["gpu.nvml"].text.splitlines()
    line = gpus({"processes": processes, "memory_used_bytes": int(mib * MIB),
                 **readings}).captures["gpu.nvml"].text.splitlines()[4]
    capture = replace(machine.nvml(), text="\n".join([*others[:4], line, *others[5:]]) + "\n")
    return status_words(rule, machine.recording(gpu_nvml=capture))


RUNNING = [[4711, "S", "python3"]]


@pytest.mark.parametrize(("rule", "rows", "mib", "words"), [
    # memory that no process holds
    ("gpu-memory-leaked", [], 0, ""), ("gpu-memory-leaked", [], 512, ""),
    ("gpu-memory-leaked", [], 512.001, "512 MiB in use without a process, expected at most 512 MiB"),
    ("gpu-memory-leaked", [], 40_000, "40000 MiB in use without a process, expected at most 512 MiB"),
    ("gpu-memory-leaked", RUNNING, 40_000, ""),
    # processes that are no more
    ("gpu-processes-gone", [], 0, ""), ("gpu-processes-gone", RUNNING, 0, ""),
    ("gpu-processes-gone", [[4711, "R", "python3"], [4712, "D", "python3"]], 0, ""),
    ("gpu-processes-gone", [[4711, "", ""]], 0,
     "process 4711 is listed and does not exist, expected processes that exist"),
    ("gpu-processes-gone", [[4711, "Z", "python3"]], 0,
     "process 4711 has ended and was not waited for, expected processes that run"),
    ("gpu-processes-gone", [[4711, "S", "python3"], [4712, "", ""], [4713, "Z", "sh"]], 0,
     "process 4712 is listed and does not exist, expected processes that exist; "
     "GPU 3: process 4713 has ended and was not waited for, expected processes that run"),
    # a machine that was promised idle
    ("gpu-idle", [], 0, ""), ("gpu-idle", RUNNING, 0, "1 running: 4711 (python3), expected no process"),
    ("gpu-idle", [[4711, "?", ""]], 0, "1 running: 4711, expected no process"),
    ("gpu-idle", [[n, "S", "python3"] for n in range(1, 8)], 0,
     "7 running: 1 (python3), 2 (python3), 3 (python3), 4 (python3), 5 (python3), expected no process"),
])
def test_what_processes_hold_or_leave_behind_is_named(rule: str, rows: Any, mib: float, words: str) -> None:
    assert loaded(rule, rows, mib) == ((Status.FAIL, f"GPU 3: {words}") if words else (Status.PASS, ""))


@pytest.mark.parametrize("model", ["NVIDIA GB200", "NVIDIA GH200 480GB", "NVIDIA GB300"])
def test_memory_that_the_operating_system_keeps_on_a_superchip_is_no_leak(model: str) -> None:
    """nvidia-smi's manual page, FB Memory Usage: where GPUs are NUMA nodes, pages stay with the system when
    their process ends."""
    assert loaded("gpu-memory-leaked", [], 40_000, name={"ok": model}) == (
        Status.PASS, "not supported: memory used of GPU 3")
    assert loaded("gpu-memory-leaked", [], 40_000, name={"ok": "NVIDIA B200"})[0] is Status.FAIL


def test_what_is_gone_wants_a_reset_and_a_zombie_the_end_of_its_parent() -> None:
    result = verdict("gpu-processes-gone", gpus({"processes": {"ok": [[1, "", ""], [2, "Z", "sh"]]}}))
    assert ["reset the GPU" in finding.remedy for finding in result.findings] == [True, False]
    assert ["parent" in finding.remedy for finding in result.findings] == [False, True]


def test_idleness_is_for_profiles_that_ask_for_it() -> None:
    assert RULES["gpu-idle"].left_out.startswith("disabled in ")


@pytest.mark.parametrize("rule", ["gpu-memory-leaked", "gpu-processes-gone", "gpu-idle"])
def test_processes_that_were_not_read_are_unknown(rule: str) -> None:
    assert loaded(rule, ERROR)[0] is Status.UNKNOWN
    assert (loaded(rule, NOT_SUPPORTED)[1].startswith("not supported: ")
            and loaded(rule, NOT_SUPPORTED)[0] is Status.PASS)


@pytest.mark.parametrize("rule", ["gpu-memory-leaked", "gpu-processes-gone", "gpu-idle"])
def test_where_no_gpu_lists_its_processes_the_rule_is_skipped(rule: str) -> None:
    assert verdict(rule, gpus({"processes": NOT_SUPPORTED}, range(8))).status is Status.SKIPPED


def test_memory_that_was_not_read_is_unknown_where_no_process_holds_it() -> None:
    assert loaded("gpu-memory-leaked", [], memory_used_bytes=ERROR)[0] is Status.UNKNOWN
    assert loaded("gpu-memory-leaked", RUNNING, memory_used_bytes=ERROR)[0] is Status.PASS


@pytest.mark.parametrize("state", ["-", "?"])
def test_processes_that_proc_does_not_show_are_not_called_gone_and_not_called_alive(state: str) -> None:
    assert loaded("gpu-processes-gone", [[4711, state, ""]])[0] is Status.UNKNOWN


def test_every_rule_of_the_file_is_judged_here() -> None:
    assert ids("gpu-process.yaml") == {"gpu-memory-leaked", "gpu-processes-gone", "gpu-idle"}
