"""Answers of the NVML reader: what each line says is its own GPU's, and an answer that is not whole is never
taken for one."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from healthcheck.facts import gpu, gpu_process, gpureadings, nvlink, nvml_output
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.gpu_answers import readings_of
from healthcheck.facts.gpureadings import READINGS
from healthcheck.facts.values import UNSUPPORTED, Partial, Unmeasured, Unread, reading
from healthcheck.model.recording import Capture, Outcome
from tests.healthcheck import machine

ALIKE = ("gpu_links", "nvlinks", "nvlink_errors", "nvlink5_errors", "gpu_pairs", "gpu_loads")
OF_NVML = ("gpus", "gpu_presence", *ALIKE)
assert {FACTS[name].build.__module__ for name in ALIKE} == {nvlink.__name__, gpu_process.__name__}


def usual(number: int, gpus: int = 3, **changes: dict[str, Any]) -> Capture:
    """What a healthy node says, with what is its own."""
    return machine.nvml(gpus, **{f"gpu{gpu}": {
        "uuid": {"ok": f"GPU-{number}-{gpu}"}, "serial": {"ok": f"{number}{gpu}"},
        "power_mw": {"ok": 70000 + number},
        **changes.get(f"gpu{gpu}", {})} for gpu in range(gpus)})


@pytest.mark.parametrize(("field", "key"), sorted((field, key) for field, (key, _, _) in READINGS.items()))
def test_each_reading_is_one_field_of_its_own_gpu(field: str, key: str) -> None:
    kind = READINGS[field][1]
    said = [machine.nvml(2, gpu1={key: {"ok": value}}) for value in (("a", "b") if kind is str else (0, 7))]
    first, second = (build_fact(FACTS["gpus"], Captures(machine.recording(gpu_nvml=capture)))
                     for capture in said)
    assert first[0] == second[0]
    assert reading(first[1], field) != reading(second[1], field)


def test_what_gpus_are_set_to_is_reported_of_their_links() -> None:
    down = machine.nvlinks(1, link0=[0, 7, 26562, 2, "0000:05:00.0", 0, 0, 0, 0, 0])
    for number in range(2):
        divided = Captures(
            machine.recording(gpu_nvml=usual(number, gpu1={"nvlinks": down, "mig": {"ok": number % 2}})))
        active = reading(build_fact(FACTS["nvlinks"], divided)[18], "active")
        assert isinstance(active, Unmeasured) if number % 2 else active is False


@pytest.mark.parametrize("outcome", [Outcome.TRUNCATED, Outcome.TIMEOUT])
def test_an_answer_that_is_cut_is_never_whole(outcome: Outcome) -> None:
    whole = usual(1)
    cut = dataclasses.replace(whole, outcome=outcome, text=whole.text[:-40])
    found = {name: build_fact(FACTS[name], Captures(machine.recording(gpu_nvml=cut))) for name in OF_NVML}
    assert all(isinstance(value, Partial) for name, value in found.items() if name != "gpu_presence"), found
    assert [gpu.name for gpu in found["gpus"].value] == ["GPU 0", "GPU 1"]


def test_an_answer_of_fewer_gpus_than_it_counts_is_partial() -> None:
    whole = usual(1)
    text = whole.text[:whole.text.rstrip().rfind("\n") + 1]
    for name in ("gpus", *ALIKE):
        found = build_fact(FACTS[name],
                           Captures(machine.recording(gpu_nvml=dataclasses.replace(whole, text=text))))
        assert isinstance(found, Partial) and "3 GPUs, but 2 were read" in found.reason, name


def test_of_a_driver_that_refuses_nothing_is_known_whatever_else_it_says() -> None:
    usually = usual(1)
    _, rest = usually.text.split("\n", 1)
    refused = dataclasses.replace(usually, text='{"error": [9, "Driver Not Loaded"]}\n' + rest)
    for name in ("gpus", *ALIKE):
        found = build_fact(FACTS[name], Captures(machine.recording(gpu_nvml=refused)))
        assert isinstance(found, Unmeasured) and "Driver Not Loaded" in found.reason, name


def test_an_answer_is_read_whatever_its_lines_end_with_and_parsed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usually = usual(1, gpus=40)
    looked = Captures(
        machine.recording(gpu_nvml=dataclasses.replace(usually, text=usually.text.replace("\n", "\r\n"))))
    parsed: list[str] = []
    monkeypatch.setattr(gpu, "read", lambda text: parsed.append(text) or nvml_output.read(text))
    assert [len(build_fact(FACTS[name], looked)) for name in ("gpus", "gpu_loads", "gpus")] == [40] * 3
    assert len(parsed) == 1


def test_a_recording_of_an_older_reader_is_judged_as_it_was_and_one_reading_that_is_missing_is_unmeasured(
) -> None:
    newer = gpureadings._NEWER
    (first, *_) = usual(1).text.splitlines()[1:]
    line = {key: value for key, value in json.loads(first).items() if key not in newer}
    fields = {field: key for field, (key, _, _) in READINGS.items()}
    old = gpureadings.gpu_fields(line, readings_of(line).held, "NVML")
    assert {fields[field] for field, value in old.items() if value is UNSUPPORTED} == newer | {
        key for key, value in line.items() if value == {"na": True}}
    assert not [field for field, value in old.items() if isinstance(value, Unmeasured)]
    line["fabric_summary"] = {"ok": "healthy"}
    mixed = gpureadings.gpu_fields(line, readings_of(line).held, "NVML")
    assert {fields[field] for field, value in mixed.items() if isinstance(value, Unmeasured)} == newer - {
        "fabric_summary"}


@pytest.mark.parametrize(("line", "asked"), [
    ({"index": 3, "x": {"error": [999, "Unknown Error"]}}, ("GPU 3", "driver")),
    ({"index": 3, "x": {"error": [4, "Insufficient Permissions"]}}, ()),
    ({"index": 3, "error": [999, "Unknown Error"]}, ("GPU 3", "driver")),
    ({"index": 3, "error": [-1, "no answer within 5 s"]}, ("GPU 3", "driver")),
    ({"index": 3, "error": [-1, "wedged since 12:00"]}, ("GPU 3", "driver")),
    ({"index": 3, "error": [-1, "the reader failed"]}, ()),
    ({"index": 3, "error": [4, "no answer within 5 s"]}, ()),
    ({"x": {"error": [999, "Unknown Error"]}}, ()),
])
def test_who_was_asked_and_did_not_answer_is_known_of_each_error(line: Any, asked: tuple[str, ...]) -> None:
    assert (nvml_output.handle_error(line) or nvml_output.reading(line, "x", int)).asked == asked


@pytest.mark.parametrize("text", ["", "\n", "[]\n", "{}\n7\n", '{}\n{"index": 1}\n{"index": 1}\n'])
def test_an_answer_that_is_not_in_the_readers_format_is_unread(text: str) -> None:
    with pytest.raises((Unread, ValueError)):
        nvml_output.read(text)


@pytest.mark.parametrize(("error", "asked"), [
    ([9, "Driver Not Loaded"], ("driver",)), ([4, "Insufficient Permissions"], ()), ("damaged", ())])
def test_a_driver_is_said_to_have_refused_only_where_it_did(error: Any, asked: tuple[str, ...]) -> None:
    refused = Capture(Outcome.DONE, text=json.dumps({"error": error}) + "\n")
    captures = Captures(machine.recording(gpu_nvml=refused))
    for found in (build_fact(FACTS["gpus"], captures),
                  reading(build_fact(FACTS["driver"], captures), "cuda")):
        assert isinstance(found, Unmeasured) and found.asked == asked
