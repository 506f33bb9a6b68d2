"""NVML in stages: a GPU that hangs costs itself, says where, and nvidia-smi is asked for it.

The looks wait for hanging libraries side by side, in one module fixture.
"""

from __future__ import annotations

import json
import re
import time
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from healthcheck.collector.onnode import nvml as collector_nvml
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.driver import FILES
from healthcheck.facts.gpu import NVML
from healthcheck.facts.smi import SMI
from healthcheck.facts.values import Unmeasured, reading
from healthcheck.model.recording import Capture, Outcome, Recording
from provisioning.demo.build import build
from tests.healthcheck.collector.test_collector_nvml import binding, fail
from tests.testbed import fuse
from tests.testbed.collector import await_none_with, collect, running

ATTACH, READ = "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetName"
LOG = (Path(__file__).parents[2] / "recordings/nvidia-smi/h100-q-x.xml").read_text()
# By look: seconds of NVML, and the scenario of its library. A stage may take half of what is left.
SCENARIOS: Mapping[str, tuple[float, str]] = {
    "attach": (5.0, f"gpu.5.delay.{ATTACH} = 1000"),
    "read": (5.0, f"gpu.2.delay.{READ} = 1000"),
    "init": (5.0, "delay.nvmlInitWithFlags = 1000"),
    "slow": (20.0, f"gpu.*.delay.{ATTACH} = 0.2\ngpu.*.persistence_mode = 0"),
    "two": (8.6, f"gpu.0.delay.{ATTACH} = 1000\ngpu.7.delay.{READ} = 1000"),
    "all": (5.0, f"gpu.*.delay.{ATTACH} = 1000"),
    "none": (5.0, "gpu.count = 8"),
}


def tree(root: Path, smi: str) -> Path:
    (root / "run").mkdir(parents=True)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/nvidia-smi").write_text(f"#!/bin/sh\n{smi}\n")
    (root / "usr/bin/nvidia-smi").chmod(0o755)
    (root / "proc/driver/nvidia").mkdir(parents=True)
    (root / "proc/driver/nvidia/version").write_text("NVRM version: 535\n")
    return root


def eight(*, without: int = -1, lost: int = -1) -> str:
    """nvidia-smi's log of the simulated GPUs: one may be left out, and at one it may end."""
    start, end = LOG.index("<gpu id="), LOG.index("</nvidia_smi_log>")
    gpus = []
    for index in range(8 if lost < 0 else lost):
        address = f"00000000:{0x18 + index:02X}:00.0"
        gpu = re.sub(r"<pci_bus_id>.*?</pci_bus_id>", f"<pci_bus_id>{address}</pci_bus_id>", LOG[start:end])
        gpu = re.sub(r"<serial>.*?</serial>", f"<serial>smi-{index}</serial>", gpu)
        gpus.append("" if index == without else gpu)
    head = re.sub(r"<attached_gpus>\d+<", "<attached_gpus>8<", LOG[:start])
    return head + "".join(gpus) + (LOG[end:] if lost < 0 else (
        f"Unable to determine the device handle for GPU0000:{0x18 + lost:02X}:00.0: Unknown Error\n"))


def simulated(root: Path, text: str) -> dict[str, str]:
    pci = "".join(f"gpu.{index}.pci = 0000:{0x18 + index:02x}:00.0\n" for index in range(8))
    (root / "scenario").write_text(pci + text + "\n")
    return {"LD_LIBRARY_PATH": str(build().folder), "MUSTER_NVML_SCENARIO": str(root / "scenario")}


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Recording]:
    build()
    folder = tmp_path_factory.mktemp("stages")
    (folder / "log.xml").write_text(eight())

    def look(name: str) -> Recording:
        seconds, text = SCENARIOS[name]
        root = tree(folder / name, f"cat {folder}/log.xml")
        began = time.monotonic()
        recording = collect([replace(NVML, seconds=seconds), SMI, FILES], root, env=simulated(root, text),
                            mark=str(root))
        assert time.monotonic() - began < seconds + 5.0     # nothing waits for what hangs
        await_none_with(str(root))
        return recording

    with ThreadPoolExecutor(len(SCENARIOS)) as pool:
        return dict(zip(SCENARIOS, pool.map(look, SCENARIOS), strict=True))


def lines(recording: Recording) -> list[dict[str, Any]]:
    return [json.loads(line) for line in recording.captures[NVML.id].text.splitlines()][1:]


def fact(name: str, recording: Recording) -> Any:
    return build_fact(FACTS[name], Captures(recording))


@pytest.mark.parametrize(("name", "hung", "why"), [
    ("attach", 5, r"no answer within 2\.[345] s while attaching it"),
    ("read", 2, r"no answer within 2\.[345] s while reading it"),
])
def test_a_gpu_that_hangs_costs_itself_and_says_where(looks: Mapping[str, Recording], name: str, hung: int,
                                                      why: str) -> None:
    capture = looks[name].captures[NVML.id]
    assert capture.outcome is Outcome.DONE and re.fullmatch(f"GPU {hung}: {why}", capture.note)
    read = lines(looks[name])
    assert [line["index"] for line in read] == list(range(8))
    assert read[hung].keys() == {"index", "error"} and read[hung]["error"][0] == -1
    assert re.fullmatch(why, read[hung]["error"][1])
    for index in set(range(8)) - {hung}:
        assert read[index]["serial"] == {"ok": f"165000000000{index}"}
        # Pairs across the two readers are there as well.
        assert [row is None for row in read[index]["p2p"]["ok"]] == [other == hung for other in range(index)]


def test_two_gpus_that_hang_cost_two(looks: Mapping[str, Recording]) -> None:
    assert looks["two"].captures[NVML.id].outcome is Outcome.DONE
    assert [line["index"] for line in lines(looks["two"]) if "error" in line] == [0, 7]


def test_gpus_that_are_slow_to_attach_are_all_read(looks: Mapping[str, Recording]) -> None:
    capture = looks["slow"].captures[NVML.id]
    assert (capture.outcome, capture.note) == (Outcome.DONE, "") and capture.seconds > 8 * 0.2
    assert [line["persistence"] for line in lines(looks["slow"])] == [{"ok": 0}] * 8


@pytest.mark.slow
def test_eight_gpus_of_three_seconds_each_are_within_the_limit(tmp_path: Path) -> None:
    root = tree(tmp_path / "node", "exit 9")
    env = simulated(root, f"gpu.*.delay.{ATTACH} = 3")
    capture = collect([NVML], root, seconds=45.0, timeout=60.0, env=env).captures[NVML.id]
    assert capture.outcome is Outcome.DONE and capture.text.count("\n") == 9 and capture.seconds > 24


def test_a_library_that_hangs_at_its_start_says_so_and_nvidia_smi_is_asked(
    looks: Mapping[str, Recording],
) -> None:
    capture = looks["init"].captures[NVML.id]
    assert (capture.outcome, capture.text) == (Outcome.TIMEOUT, "")
    assert re.fullmatch(r"no answer within 2\.[345] s while starting NVML", capture.note)
    gpus = fact("gpus", looks["init"])
    assert [(gpu.serial, gpu.answers) for gpu in gpus] == [(f"smi-{index}", True) for index in range(8)]
    assert gpus[0].caveat == f"read by nvidia-smi (gpu.nvml: {capture.note})"
    driver = fact("driver", looks["init"])
    assert driver.loads and driver.caveat == f"reported by nvidia-smi (gpu.nvml: {capture.note})"


def test_where_each_gpu_hangs_the_time_is_bounded_and_what_was_not_asked_is_not_accused(
    looks: Mapping[str, Recording],
) -> None:
    capture = looks["all"].captures[NVML.id]
    assert capture.outcome is Outcome.TIMEOUT and capture.seconds < 5.0
    assert [line["index"] for line in lines(looks["all"])] == [0]
    assert [gpu.serial for gpu in fact("gpus", looks["all"])] == [f"smi-{index}" for index in range(8)]


@pytest.mark.parametrize(("name", "hung"), [("attach", [5]), ("read", [2]), ("two", [0, 7])])
def test_nvidia_smi_fills_the_gpu_that_hangs_and_no_other(looks: Mapping[str, Recording], name: str,
                                                          hung: list[int]) -> None:
    gpus = fact("gpus", looks[name])
    assert [gpu.index for gpu in gpus] == list(range(8))
    for gpu in gpus:
        assert gpu.serial.startswith("smi-") is (gpu.index in hung) and gpu.answers
        assert gpu.caveat.startswith("read by nvidia-smi (NVML: no answer within") is (gpu.index in hung)
    assert gpus[hung[0]].persistence and gpus[hung[0]].pci == f"0000:{0x18 + hung[0]:02x}:00.0"
    assert fact("driver", looks[name]).loads and fact("gpu_presence", looks[name]).listed == 8


def test_nvidia_smi_is_not_asked_where_nvml_answers_for_each(looks: Mapping[str, Recording]) -> None:
    assert looks["none"].captures[SMI.id].note == "not needed: NVML answered"
    assert looks["slow"].captures[SMI.id].outcome is Outcome.MISSING


def with_smi(recording: Recording, text: str, exit_status: int = 0, outcome: Outcome = Outcome.DONE) -> Recording:
    made = Capture(outcome, exit=exit_status, seconds=1.0, text=text)
    return replace(recording, captures={**recording.captures, SMI.id: made})


@pytest.mark.parametrize(("text", "exit_status", "outcome"), [
    ("", None, Outcome.TIMEOUT), ("", -11, Outcome.CRASHED), (eight(without=5), 0, Outcome.DONE), ("?", 255, Outcome.DONE),
])
def test_without_a_word_of_nvidia_smi_the_gpu_is_not_measured_and_the_others_are(
    looks: Mapping[str, Recording], text: str, exit_status: Any, outcome: Outcome,
) -> None:
    gpus = fact("gpus", with_smi(looks["attach"], text, exit_status, outcome))
    assert isinstance(gpus, tuple) and [gpu.answers for gpu in gpus if gpu.index != 5] == [True] * 7
    answers = reading(gpus[5], "answers")
    assert isinstance(answers, Unmeasured) and answers.reason.endswith("while attaching it")


def test_a_gpu_that_nvidia_smi_cannot_open_is_evidence_against_it(looks: Mapping[str, Recording]) -> None:
    text = eight(lost=5).replace("Unknown Error", "GPU is lost")
    gpus = fact("gpus", with_smi(looks["attach"], text, 15))
    # It names the GPU at which it ended; those after it are in NVML's answer.
    assert isinstance(gpus, tuple) and len(gpus) == 8
    assert [gpu.answers for gpu in gpus] == [index != 5 for index in range(8)]
    assert gpus[5].trouble == "GPU is lost" and gpus[5].caveat.startswith("read by nvidia-smi (NVML: ")


GOES_ON = """
import os
def lines(nvml, begin, skip, done):
    begin("init", -1)
    yield {"driver": {"ok": "550"}, "count": {"ok": 3}}
    for index in range(3):
        if index not in skip and index not in done:
            begin("attach", index)
            if index == 1:
                open("HUNG/x")
            yield {"index": index, "name": {"ok": "H100"}, "uuid": {"ok": "G"}}
"""


def test_a_gpu_that_holds_its_reader_for_ever_is_named_and_not_touched_again(tmp_path: Path,
                                                                            needs_fuse: None) -> None:
    root = tree(tmp_path / "node", "echo asked")
    (root / "mnt").mkdir()
    probes, source = [replace(NVML, seconds=6.0), SMI], GOES_ON.replace("HUNG", str(root / "mnt"))

    def look() -> dict[str, Capture]:
        with running(probes, root, mark=str(root)) as started:
            extra = {"nvml": zlib.compress(source.encode() + b"\0")}
            started.program = replace(started.program, extras=extra)
            found = started.recording().captures
            started.hang_up()
        return dict(found)

    with fuse.hung(root / "mnt") as swallowed:
        first = look()
        swallowed.clear()
        again = look()
        assert not swallowed.is_set()
    for found, why in ((first, r"no answer within [23](\.\d)? s while attaching it; cannot be killed \(pid \d+, state D\)"),
                       (again, r"wedged since 20\S+ \(pid \d+\)")):
        assert found[NVML.id].outcome is Outcome.DONE and re.fullmatch("GPU 1: " + why, found[NVML.id].note)
        read = [json.loads(line) for line in found[NVML.id].text.splitlines()][1:]
        assert [line["index"] for line in read] == [0, 1, 2] and re.fullmatch(why, read[1]["error"][1])
        assert found[SMI.id].note == "not run: a process that asked the driver cannot be killed"
    await_none_with(str(root))


# ---- the flag ----

def test_nvml_is_started_without_attaching_gpus() -> None:
    flags: list[int] = []
    head, gpu = collector_nvml.lines(binding(nvmlInitWithFlags=flags.append, nvmlInit=fail(999, "no")))
    assert flags == [2] and head["count"] == {"ok": 1} and "error" not in gpu


@pytest.mark.parametrize("missing", [None, fail(13, "Function Not Found")])
def test_a_library_without_the_flag_is_started_as_ever(missing: Any) -> None:
    head, gpu = collector_nvml.lines(binding(nvmlInitWithFlags=missing))
    assert head["count"] == {"ok": 1} and "error" not in gpu


def test_a_library_that_refuses_is_not_asked_in_another_way() -> None:
    (head,) = collector_nvml.lines(binding(nvmlInitWithFlags=fail(9, "Driver Not Loaded"), nvmlInit=lambda: None))
    assert head == {"error": [9, "Driver Not Loaded"]}


@pytest.mark.parametrize("what", ["count", "handle"])
def test_where_the_flag_hides_the_gpus_nvml_is_started_once_more_without_it(what: str) -> None:
    started: list[str] = []

    def handle(index: int) -> int:
        if what == "handle" and "plain" not in started:
            raise fail(1, "Uninitialized")()
        return index

    def count() -> int:
        return 2 if what == "handle" or "plain" in started else 0

    head, *gpus = collector_nvml.lines(binding(
        nvmlInitWithFlags=lambda flags: started.append("flag"), nvmlShutdown=lambda: started.append("end"),
        nvmlInit=lambda: started.append("plain"), nvmlDeviceGetHandleByIndex=handle, nvmlDeviceGetCount=count))
    assert started == ["flag", "end", "plain"] and head["count"] == {"ok": 2}
    assert [gpu["name"] for gpu in gpus] == [{"ok": "H100"}] * 2
