"""NVML in stages: a GPU that hangs costs itself, says where, and nvidia-smi is asked for it.

The looks wait for hanging libraries side by side, in one module fixture.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.collector.onnode import nvml as collector_nvml
from healthcheck.collector.onnode.nvidia import not_needed
from healthcheck.config.rulesfolder import packaged
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.driver import FILES
from healthcheck.facts.gpu import NVML, PCI
from healthcheck.facts.service import SHOW
from healthcheck.facts.smi import SMI
from healthcheck.facts.unanswered import UNANSWERED_CAPTURE, unanswered
from healthcheck.facts.values import Unmeasured, reading
from healthcheck.model.outcome import Result
from healthcheck.model.recording import Capture, Host, Outcome, Recording
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.sweep.snapshots import KeptSnapshots
from provisioning.demo.build import build
from tests.healthcheck.assessing import by_rule
from tests.healthcheck.collector.test_collector_nvml import binding, fail
from tests.testbed import fuse
from tests.testbed.collector import await_none_with, collect, running

ATTACH, READ = "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetName"
LOG = (Path(__file__).parents[2] / "recordings/nvidia-smi/h100-q-x.xml").read_text()
# By look: seconds of NVML, and the scenario of its library. A stage may take half of what is left.
SCENARIOS: Mapping[str, tuple[float, str]] = {
    "attach": (7.0, f"gpu.5.delay.{ATTACH} = 1000"),
    "read": (7.0, f"gpu.2.delay.{READ} = 1000"),
    "init": (7.0, "delay.nvmlInitWithFlags = 1000"),
    "slow": (20.0, f"gpu.*.delay.{ATTACH} = 0.2\ngpu.*.persistence_mode = 0"),
    "two": (10.0, f"gpu.0.delay.{ATTACH} = 1000\ngpu.7.delay.{READ} = 1000"),
    "all": (5.0, f"gpu.*.delay.{ATTACH} = 1000"),
    "none": (5.0, "gpu.count = 8"),
}
# Snapshots of one node one after another, without a word of nvidia-smi: by name the scenarios of each.
ROWS: Mapping[str, tuple[str, ...]] = {
    "driver": ("delay.nvmlInitWithFlags = 1000",) * 3 + ("gpu.count = 8",),
    "gpu": (f"gpu.5.delay.{ATTACH} = 1000",) * 3 + ("gpu.count = 8",),
}
SHOWN = ("Id=nvidia-persistenced.service\nLoadState=loaded\nActiveState=inactive\nSubState=dead\n"
         "NRestarts=0\nActiveEnterTimestampMonotonic=0\n")


def tree(root: Path, smi: str) -> Path:
    (root / "run").mkdir(parents=True)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/nvidia-smi").write_text(f"#!/bin/sh\n{smi}\n")
    (root / "usr/bin/nvidia-smi").chmod(0o755)
    (root / "proc/driver/nvidia").mkdir(parents=True)
    (root / "proc/driver/nvidia/version").write_text("NVRM version: 535\n")
    (root / "proc/sys/kernel/random").mkdir(parents=True)
    (root / "proc/sys/kernel/random/boot_id").write_text("5f6a\n")
    (root / "usr/bin/systemctl").write_text(f"#!/bin/sh\nprintf '{SHOWN}'\n")
    (root / "usr/bin/systemctl").chmod(0o755)
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
def looks(all_looks: tuple[Mapping[str, Recording], Any]) -> Mapping[str, Recording]:
    return all_looks[0]


@pytest.fixture(scope="module")
def rows(all_looks: tuple[Any, Mapping[str, list[Recording]]]) -> Mapping[str, list[Recording]]:
    return all_looks[1]


@pytest.fixture(scope="module")
def all_looks(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Mapping[str, Recording], Mapping[str, list[Recording]]]:
    build()
    folder = tmp_path_factory.mktemp("stages")
    (folder / "log.xml").write_text(eight())

    def look(name: str) -> Recording:
        seconds, text = SCENARIOS[name]
        root = tree(folder / name, f"cat {folder}/log.xml")
        recording = collect([replace(NVML, seconds=seconds), SMI, FILES], root, env=simulated(root, text),
                            mark=str(root))
        await_none_with(str(root))
        return recording

    def row(name: str) -> list[Recording]:
        root = tree(folder / f"row-{name}", "exit 1")
        probes = [replace(NVML, seconds=5.0), SMI, FILES, PCI, SHOW]
        return [replace(collect(probes, root, env=simulated(root, text)), node="gpu001", received=100.0 * at)
                for at, text in enumerate(ROWS[name], 1)]

    with ThreadPoolExecutor(len(SCENARIOS) + len(ROWS)) as pool:
        made, followed = pool.map(look, SCENARIOS), pool.map(row, ROWS)
        return dict(zip(SCENARIOS, made, strict=True)), dict(zip(ROWS, followed, strict=True))


def lines(recording: Recording) -> list[dict[str, Any]]:
    return [json.loads(line) for line in recording.captures[NVML.id].text.splitlines()][1:]


def fact(name: str, recording: Recording) -> Any:
    return build_fact(FACTS[name], Captures(recording))


@pytest.mark.parametrize(("name", "hung", "why"), [
    ("attach", 5, r"no answer within [0-9.]+ s while attaching it"),
    ("read", 2, r"no answer within [0-9.]+ s while reading it"),
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
    assert re.fullmatch(r"no answer within [0-9.]+ s while starting NVML", capture.note)
    gpus = fact("gpus", looks["init"])
    assert [(gpu.serial, gpu.answers) for gpu in gpus] == [(f"smi-{index}", True) for index in range(8)]
    assert gpus[0].caveat == f"read by nvidia-smi (gpu.nvml: {capture.note})"
    driver = fact("driver", looks["init"])
    assert driver.loads and driver.caveat == f"reported by nvidia-smi (gpu.nvml: {capture.note})"


def test_where_each_gpu_hangs_the_time_is_bounded_and_what_was_not_asked_is_not_accused(
    looks: Mapping[str, Recording],
) -> None:
    capture = looks["all"].captures[NVML.id]
    assert capture.outcome is Outcome.TIMEOUT
    assert [line["index"] for line in lines(looks["all"])] == [0]
    assert capture.note.endswith("while attaching it; not asked in NVML's time: GPU 1, 2, 3, 4, 5, 6, 7")
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


def with_smi(recording: Recording, text: str, exit_status: int | None = 0,
             outcome: Outcome = Outcome.DONE) -> Recording:
    made = Capture(outcome, exit=exit_status, seconds=1.0, text=text)
    return replace(recording, captures={**recording.captures, SMI.id: made})


@pytest.mark.parametrize(("text", "exit_status", "outcome"), [
    ("", None, Outcome.TIMEOUT), ("", -11, Outcome.CRASHED), (eight(without=5), 0, Outcome.DONE),
    ("?", 255, Outcome.DONE),
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
    assert (gpus[5].trouble == "GPU is lost (NVML 15)"
            and gpus[5].caveat.startswith("read by nvidia-smi (NVML: "))


def with_line(recording: Recording, line: dict[str, Any]) -> Recording:
    """NVML's answer with this line for GPU 5."""
    rows = recording.captures[NVML.id].text.splitlines()
    text = "".join(f"{row}\n" for row in [*rows[:6], json.dumps({"index": 5, **line}), *rows[7:]])
    capture = replace(recording.captures[NVML.id], text=text, outcome=Outcome.DONE)
    return replace(recording, captures={**recording.captures, NVML.id: capture})


UNKNOWN = {"error": [999, "Unknown Error"]}
NOTHING = {"name": UNKNOWN, "uuid": UNKNOWN, "serial": UNKNOWN, "pci": UNKNOWN,
           "p2p": {"ok": [[-999] * 6] * 5}}
LOST = {"error": [15, "GPU is lost"]}


@pytest.mark.parametrize(("line", "text", "serial"), [
    (UNKNOWN, eight(), "smi-5"), (NOTHING, eight(), "smi-5"),       # nvidia-smi reads what NVML could not
    (UNKNOWN, eight(lost=5), None), (LOST, eight(), None),          # both say no; NVML has said what it is
])
def test_of_a_gpu_that_nvml_could_not_open_nvidia_smi_has_readings_or_nvml_has_the_last_word(
    looks: Mapping[str, Recording], line: dict[str, Any], text: str, serial: str | None,
) -> None:
    found = fact("gpus", with_smi(with_line(looks["none"], line), text, 0 if text == eight() else 15))
    assert isinstance(found, tuple) and [gpu.index for gpu in found] == list(range(8))
    assert [gpu.caveat != "" for gpu in found] == [serial is not None and index == 5 for index in range(8)]
    if serial is not None:
        assert found[5].serial == serial and found[5].caveat.startswith("read by nvidia-smi (NVML: ")
    else:
        assert isinstance(reading(found[5], "serial"), Unmeasured)


@pytest.mark.parametrize(("line", "asked"), [(UNKNOWN, True), (NOTHING, True), (LOST, False)])
def test_nvidia_smi_is_asked_for_a_gpu_without_readings_unless_nvml_says_what_it_is(
    looks: Mapping[str, Recording], line: dict[str, Any], asked: bool,
) -> None:
    made = with_line(looks["none"], line).captures[NVML.id]
    assert not_needed({"outcome": "done", "text": made.text}) == ("" if asked
                                                                  else "not needed: NVML answered")


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
    probes, source = [replace(NVML, seconds=12.0), SMI], GOES_ON.replace("HUNG", str(root / "mnt"))

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
    for found, why in (
        (first, r"no answer within [0-9.]+ s while attaching it; cannot be killed \(pid \d+, state D\)"),
        (again, r"wedged since 20\S+ \(pid \d+\)")):
        assert found[NVML.id].outcome is Outcome.DONE and re.fullmatch("GPU 1: " + why, found[NVML.id].note)
        read = [json.loads(line) for line in found[NVML.id].text.splitlines()][1:]
        assert [line["index"] for line in read] == [0, 1, 2] and re.fullmatch(why, read[1]["error"][1])
        assert found[SMI.id].note == "not run: a process that asked the driver cannot be killed"
    await_none_with(str(root))


# ---- over several snapshots ----

RULES = load_ruleset([packaged()]).select(
    only=["driver-answers", "driver-loads", "gpu-answers", "gpu-persistence", "gpu-ecc-uncorrected"])


def judged(folder: Path, row: Sequence[Recording]) -> list[dict[str, Result]]:
    """Each snapshot's results by rule, as sweeps over one state folder give them."""
    state, found = KeptSnapshots(folder), []
    state.prepare()
    for recording in row:
        previous = state.read(recording.node)
        found.append(by_rule(recording, previous, rules=RULES))
        state.write(recording, previous)
    return found


def statuses(found: Sequence[Mapping[str, Result]], rule: str) -> list[str]:
    return [results[rule].status.value for results in found]


def test_a_driver_that_hangs_in_three_snapshots_in_a_row_is_a_finding(
    rows: Mapping[str, list[Recording]], tmp_path: Path,
) -> None:
    found = judged(tmp_path, rows["driver"])
    assert statuses(found, "driver-answers") == ["unknown", "unknown", "fail", "pass"]
    assert found[1]["driver-answers"].reason.endswith("while starting NVML (2 of 3 snapshots in a row)")
    (finding,) = found[2]["driver-answers"].findings
    assert finding.subject == "driver" and re.fullmatch(
        r"gpu\.nvml: no answer within [0-9.]+ s while starting NVML; so in 3 snapshots in a row",
        str(finding.observed))
    # Not measured is no verdict of the others.
    for rule in ("driver-loads", "gpu-answers", "gpu-ecc-uncorrected"):
        assert statuses(found, rule) == ["unknown"] * 3 + ["pass"], rule


def test_persistence_is_judged_by_the_unit_where_no_gpu_answers(
    rows: Mapping[str, list[Recording]], tmp_path: Path,
) -> None:
    found = judged(tmp_path, rows["driver"])
    assert statuses(found, "gpu-persistence") == ["fail", "fail", "fail", "pass"]
    (finding,) = found[0]["gpu-persistence"].findings
    assert finding.subject == "GPUs" and re.fullmatch(
        r"nvidia-persistenced is inactive \(dead\), and no GPU says its mode \(gpu\.nvml: no answer .*",
        str(finding.observed))
    running = Capture(Outcome.DONE, exit=0, text=SHOWN.replace("inactive", "active"))
    up = replace(rows["driver"][0], captures={**rows["driver"][0].captures, SHOW.id: running})
    assert statuses(judged(tmp_path / "up", [up]), "gpu-persistence") == ["unknown"]


def test_a_gpu_that_hangs_in_three_snapshots_in_a_row_is_a_finding_and_the_others_are_judged(
    rows: Mapping[str, list[Recording]], tmp_path: Path,
) -> None:
    found = judged(tmp_path, rows["gpu"])
    assert statuses(found, "driver-answers") == ["unknown", "unknown", "fail", "pass"]
    (finding,) = found[2]["driver-answers"].findings
    assert finding.subject == "GPU 5" and "while attaching it; so in 3 snapshots" in str(finding.observed)
    assert statuses(found, "driver-loads") == ["pass"] * 4
    for rule in ("gpu-answers", "gpu-ecc-uncorrected", "gpu-persistence"):
        assert statuses(found, rule) == ["unknown"] * 3 + ["pass"], rule
        assert "GPU 5" in found[0][rule].reason and "GPU 4" not in found[0][rule].reason
    bad = [json.loads(line) for line in rows["gpu"][0].captures[NVML.id].text.splitlines()]
    bad[4]["ecc_uncorrected"] = {"ok": 7}
    capture = replace(rows["gpu"][0].captures[NVML.id], text="".join(json.dumps(line) + "\n" for line in bad))
    wrong = replace(rows["gpu"][0], captures={**rows["gpu"][0].captures, NVML.id: capture})
    assert [finding.subject
            for finding in judged(tmp_path / "bad", [wrong])[0]["gpu-ecc-uncorrected"].findings] == [
                "GPU 3"]


def numbers(folder: Path, row: Sequence[Recording]) -> list[Any]:
    """Of each snapshot what is kept."""
    state, kept = KeptSnapshots(folder), []
    state.prepare()
    for recording in row:
        state.write(recording, state.read(recording.node))
        capture = (state.read(recording.node) or recording).captures.get(UNANSWERED_CAPTURE)
        kept.append(json.loads(capture.text) if capture is not None else None)
    return kept


def test_the_numbers_begin_anew_after_an_answer_and_after_a_boot_and_stay_where_a_snapshot_cannot_tell(
    rows: Mapping[str, list[Recording]], tmp_path: Path,
) -> None:
    hung, well = rows["driver"][0], rows["driver"][3]
    other = replace(hung, host=replace(hung.host, boot_id="6b7c") if hung.host else None)
    partial = replace(hung, captures={})
    late = replace(hung, captures={NVML.id: Capture(Outcome.TIMEOUT, seconds=1.0)})
    assert numbers(tmp_path / "a", [hung, hung, partial, late, hung, well, hung, other, other]) == [
        {"driver": n} if n else None for n in (1, 2, 2, 2, 3, 0, 1, 1, 2)]
    assert numbers(tmp_path / "b", [rows["gpu"][0], rows["gpu"][0], rows["driver"][0], rows["gpu"][0]]) == [
        {"GPU 5": 1}, {"GPU 5": 2}, {"GPU 5": 2, "driver": 1}, {"GPU 5": 3}]


def test_a_driver_that_answers_nvidia_smi_or_refuses_is_not_silent(rows: Mapping[str,
                                                                                 list[Recording]]) -> None:
    hung = rows["driver"][0]
    assert [part.subject for part in unanswered(hung, None).hung] == ["driver"]
    assert unanswered(with_smi(hung, eight()), None).hung == ()
    assert unanswered(with_smi(hung, "NVIDIA-SMI has failed", 9), None).hung == ()
    assert [part.subject for part in unanswered(with_smi(hung, "", None, Outcome.TIMEOUT), None).hung] == [
        "driver"]


@given(text=st.one_of(st.text(max_size=60), st.dictionaries(st.text(max_size=9), st.one_of(
    st.integers(), st.text(max_size=3), st.booleans())).map(json.dumps)))
def test_a_damaged_number_counts_as_none(text: str) -> None:
    host = Host("h", "boot", 1.0, 0, "3.11", "x86_64", 0.0)
    hung = Recording("n", 1.0, host, None, {NVML.id: Capture(Outcome.WEDGED)})
    kept = replace(hung, captures={UNANSWERED_CAPTURE: Capture(Outcome.DONE, text=text)})
    (part,) = unanswered(hung, kept).hung
    assert 1 <= part.snapshots <= 1_000_000


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
    (head,) = collector_nvml.lines(binding(nvmlInitWithFlags=fail(9, "Driver Not Loaded"),
                                           nvmlInit=lambda: None))
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
        nvmlInit=lambda: started.append("plain"), nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetCount=count))
    assert started == ["flag", "end", "plain"] and head["count"] == {"ok": 2}
    assert [gpu["name"] for gpu in gpus] == [{"ok": "H100"}] * 2


@pytest.mark.parametrize("code", [15, 16])
def test_a_first_gpu_that_is_lost_has_no_other_gpu_attached_at_the_start(code: int) -> None:
    """Another may hang, and would then cost this one's answer."""
    started: list[str] = []

    def handle(index: int) -> int:
        if index == 0:
            raise fail(code, "GPU is lost")()
        return index

    head, *gpus = collector_nvml.lines(binding(
        nvmlInitWithFlags=lambda flags: started.append("flag"), nvmlShutdown=lambda: started.append("end"),
        nvmlInit=lambda: started.append("plain"), nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetCount=lambda: 2))
    assert started == ["flag"] and head["count"] == {"ok": 2}
    assert gpus[0] == {"index": 0, "error": [code, "GPU is lost"]} and gpus[1]["name"] == {"ok": "H100"}
