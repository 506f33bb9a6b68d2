"""In how many snapshots in a row the driver or a GPU gave no answer: counted only where it was asked, and
forgotten only where it answered."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from healthcheck.facts.unanswered import UNANSWERED_CAPTURE, unanswered, unanswered_capture
from healthcheck.model.recording import Capture, Outcome, Recording
from tests.healthcheck import machine

HUNG = Capture(Outcome.TIMEOUT, note="no answer within 5 s")
OVER = Capture(Outcome.TIMEOUT, seconds=2.0)        # the snapshot's own time was over
NO_SMI = Capture(Outcome.MISSING)
SMI_LOG = "<nvidia_smi_log><gpu id='00000000:18:00.0'><uuid>GPU-1</uuid></gpu></nvidia_smi_log>"
SILENT = {"index": 1, "error": [-1, "no answer within 5 s"]}
FAILED = {"index": 2, "error": [-1, "the reader failed"]}
GPU = {"index": 0, "name": {"ok": "NVIDIA H100"}}


def lines(*gpus: dict[str, Any], outcome: Outcome = Outcome.DONE, note: str = "") -> Capture:
    """NVML's answer with these lines of four GPUs."""
    return Capture(outcome, note=note, text="".join(
        json.dumps(line) + "\n" for line in ({"driver": {"ok": "550"}, "count": {"ok": len(gpus)}}, *gpus)))


def snapshot(nvml: Capture | None, smi: Capture = NO_SMI, boot: str = "b00t",
             numbers: Any = None) -> Recording:
    """A node's snapshot, and what it counted."""
    recording = machine.recording(gpu_smi=smi)
    captures = {name: capture for name, capture in recording.captures.items() if name != "gpu.nvml"}
    if nvml is not None:
        captures["gpu.nvml"] = nvml
    if numbers is not None:
        text = numbers if isinstance(numbers, str) else json.dumps(numbers)
        captures[UNANSWERED_CAPTURE] = Capture(Outcome.DONE, text=text)
    assert recording.host is not None
    return replace(recording, host=replace(recording.host, boot_id=boot), captures=captures)


def counted(now: Recording, previous: Recording | None) -> Any:
    """The numbers that are stored with a snapshot."""
    capture = unanswered_capture(now, previous)
    if capture is None:
        return None
    assert capture.outcome is Outcome.DONE and capture.bytes == len(capture.text)
    return json.loads(capture.text)


EARLIER = {"driver": 3, "GPU 0": 1, "GPU 1": 2, "GPU 2": 5, "GPU 7": 6}


@pytest.mark.parametrize(("previous", "number"), [
    (None, 1), (snapshot(HUNG), 1), (snapshot(HUNG, numbers={"driver": 3}), 4),
    (snapshot(HUNG, numbers={"GPU 0": 3}), 1),
    (snapshot(HUNG, numbers={"driver": 3}, boot="other"), 1),
    (replace(snapshot(HUNG, numbers={"driver": 3}), host=None), 1),
    *[(snapshot(HUNG, numbers=damaged), 1) for damaged in (
        "", "x", "[]", {"driver": "3"}, {"driver": True}, {"driver": 0}, {"driver": -1},
        {"driver": 1_000_000})],
    (snapshot(HUNG, numbers={"driver": 1}), 2), (snapshot(HUNG, numbers={"driver": 999_999}), 1_000_000),
])
def test_a_driver_that_hangs_is_counted_on_from_the_snapshot_before_in_the_same_boot(
    previous: Recording | None, number: int,
) -> None:
    (part,) = unanswered(snapshot(HUNG), previous).hung
    assert part == ("driver", "gpu.nvml: no answer within 5 s", number)
    assert counted(snapshot(HUNG), previous)["driver"] == number


def test_boots_without_a_name_are_not_known_to_be_the_same() -> None:
    assert counted(snapshot(HUNG, boot=""), snapshot(HUNG, boot="", numbers={"driver": 3})) == {"driver": 1}


@pytest.mark.parametrize(("nvml", "smi", "numbers"), [
    (HUNG, NO_SMI, {**EARLIER, "driver": 4}),
    (HUNG, Capture(Outcome.TIMEOUT), {**EARLIER, "driver": 4}),
    (HUNG,
     Capture(Outcome.DONE, exit=0, text="<nvidia_smi_log><cuda_version>12</cuda_version></nvidia_smi_log>"),
     {**EARLIER, "driver": 4}),
    (HUNG, Capture(Outcome.DONE, exit=9, text="NVIDIA-SMI has failed"), None),
    (HUNG, Capture(Outcome.DONE, exit=0, text=SMI_LOG), None),
    (Capture(Outcome.WEDGED), NO_SMI, {**EARLIER, "driver": 4}),
    (OVER, NO_SMI, EARLIER), (None, NO_SMI, EARLIER), (Capture(Outcome.CRASHED, exit=-11), NO_SMI, EARLIER),
    (Capture(Outcome.MISSING), NO_SMI, EARLIER), (Capture(Outcome.DENIED), NO_SMI, EARLIER),
    (Capture(Outcome.CRASHED, exit=-11, text=lines(GPU).text), NO_SMI, EARLIER),
    (lines(GPU), NO_SMI, None),
    (lines(GPU, SILENT), NO_SMI, {"GPU 1": 3}),
    (lines(GPU, SILENT, FAILED), NO_SMI, {"GPU 1": 3, "GPU 2": 5, "GPU 7": 6}),
    (lines(GPU, outcome=Outcome.TIMEOUT), NO_SMI, {"GPU 1": 2, "GPU 2": 5, "GPU 7": 6}),
    (lines(GPU, SILENT, outcome=Outcome.TRUNCATED), NO_SMI, {"GPU 1": 3, "GPU 2": 5, "GPU 7": 6}),
    (Capture(Outcome.TRUNCATED, text='{"count": 1}\n7\n8'), NO_SMI, EARLIER),
    (Capture(Outcome.DONE, text='{"error": [-1, "x"]}\n'), NO_SMI, EARLIER),
])
def test_who_was_asked_and_answered_is_forgotten_and_all_others_keep_their_numbers(
    nvml: Capture | None, smi: Capture, numbers: Any,
) -> None:
    assert counted(snapshot(nvml, smi), snapshot(HUNG, numbers=EARLIER)) == numbers


def test_a_node_that_was_not_reached_has_nothing_to_count() -> None:
    assert counted(replace(snapshot(HUNG), host=None), snapshot(HUNG, numbers=EARLIER)) is None


def test_what_an_earlier_snapshot_kept_is_bounded() -> None:
    assert counted(snapshot(OVER), snapshot(HUNG, numbers={"x" * 25: 3, "driver": 0})) == {"x" * 20: 3}


def test_why_gpus_were_not_asked_is_the_first_reason() -> None:
    found = unanswered(snapshot(lines(GPU, SILENT, FAILED, {**FAILED, "index": 3})), None)
    assert ([part.subject for part in found.hung] == ["GPU 1"]
            and found.unasked == "GPU 2: NVML: the reader failed")
    found = unanswered(snapshot(lines(GPU, FAILED, outcome=Outcome.TIMEOUT, note="no answer within 9 s")),
                       None)
    assert found.hung == () and found.unasked == "gpu.nvml: no answer within 9 s"
    assert unanswered(snapshot(lines(GPU, SILENT)), None).unasked == ""
