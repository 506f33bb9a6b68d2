"""Whether a GPU answers, by NVML and by nvidia-smi: whatever the error, but never for an error of ours."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.gpu_answers import answers, none_answers, readings_of
from healthcheck.facts.nvml_output import OUR_OWN
from healthcheck.facts.smi import parse, unreachable
from healthcheck.facts.values import Unmeasured, reading
from healthcheck.model.recording import Capture, Outcome
from tests.healthcheck import machine
from tests.healthcheck.facts.test_smi import LOG, printed
from tests.tries import tries

# nvmlReturn_t of nvml.h that a GPU's handle or reading may bring, without those that are our own.
OF_A_GPU = (3, 6, 8, 9, 10, 11, 14, 15, 16, 18, 19, 21, 23, 27, 28, 29, 999)
LINES = [json.loads(line) for line in machine.nvml().text.splitlines()]
CRASH = Capture(Outcome.CRASHED, exit=-11)
BEGIN, END = LOG.index("<gpu "), LOG.index("</gpu>") + len("</gpu>")
# What operators saw: the sources are in healthcheck/facts/gpu_answers.py and smi.py.
SAID = {
    "2015": ("GPU 0000:1B:00.0: Unknown Error", None),
    "no space": ("GPU0000:1B:00.0: Unknown Error", None),
    "number and address": ("GPU1: 0000:1B:00.0: Unknown Error", 1),
    "number alone": ("GPU1: Unknown Error", 1),
    "lower case": ("gpu 0000:1B:00.0: Not Found", None),
    "advice": ("GPU 0000:1B:00.0: GPU is lost.  Reboot the system to recover this GPU", None),
}


def gpus(capture: Capture, gpu_smi: Capture | None = None) -> Any:
    second = gpu_smi or Capture(Outcome.MISSING)
    found = build_fact(FACTS["gpus"], Captures(machine.recording(gpu_nvml=capture, gpu_smi=second)))
    return getattr(found, "value", found)


def with_lines(changed: dict[int, dict[str, Any]]) -> Capture:
    lines = [LINES[0], *({"index": index, **changed[index]} if index in changed else line
                         for index, line in enumerate(LINES[1:]))]
    return dataclasses.replace(machine.nvml(), text="\n".join(map(json.dumps, lines)) + "\n")


def silent(gpu: Any) -> bool:
    return reading(gpu, "answers") is False


# Without a handle

@pytest.mark.parametrize("code", OF_A_GPU)
def test_a_gpu_without_a_handle_does_not_answer_whatever_the_error(code: int) -> None:
    found = gpus(with_lines({5: {"error": [code, "Words"]}}))
    assert [gpu.index for gpu in found if silent(gpu)] == [5]
    assert found[5].trouble.endswith(f"Words (NVML {code})")


@pytest.mark.parametrize("code", sorted(OUR_OWN))
def test_an_error_of_our_own_accuses_no_gpu(code: int) -> None:
    found = gpus(with_lines({5: {"error": [code, "Words"]}}))
    assert isinstance(reading(found[5], "answers"), Unmeasured)
    assert [gpu.index for gpu in found if silent(gpu)] == []


# With a handle

def refusing(keys: Any, code: int = 999, words: str = "Unknown Error") -> dict[str, Any]:
    return {**LINES[6], **{key: {"error": [code, words]} for key in keys}}


LIVE = ("temperature_c", "power_mw", "utilization_percent", "clock_sm_mhz", "clock_memory_mhz",
        "clock_reasons", "ecc_uncorrected", "ecc_corrected")
READINGS = [key for key, value in LINES[6].items() if isinstance(value, dict) and "ok" in value
            and key != "p2p"]


def test_a_gpu_of_which_the_driver_remembers_only_name_and_size_does_not_answer() -> None:
    (answer,) = answers([LINES[1], refusing(LIVE), LINES[3]])[1:2]
    assert answer.answers is False and answer.trouble == "GPU does not answer: Unknown Error (NVML 999)"


@pytest.mark.parametrize("code", sorted(OUR_OWN))
def test_readings_that_we_may_not_have_accuse_no_gpu(code: int) -> None:
    (answer,) = answers([LINES[1], refusing(READINGS, code)])[1:2]
    assert isinstance(answer.answers, Unmeasured)


@pytest.mark.parametrize("key", [*LIVE, "name"])
def test_one_reading_that_fails_is_unknown_by_itself_and_the_gpu_answers(key: str) -> None:
    assert answers([LINES[1], refusing([key])])[1].answers is True


def test_readings_that_a_gpu_does_not_have_are_no_fault() -> None:
    lacking = {**LINES[6], **{key: {"na": True} for key in READINGS if key not in ("name", "uuid", "pci")}}
    assert answers([LINES[1], lacking])[1].answers is True


def test_a_gpu_that_supports_nothing_that_others_have_does_not_answer() -> None:
    assert answers([LINES[1], {"index": 1, **{key: {"na": True} for key in READINGS}}])[1].answers is False


def test_what_fails_on_every_gpu_accuses_none() -> None:
    found = answers([dict(refusing(LIVE), index=index) for index in range(8)])
    assert all(isinstance(answer.answers, Unmeasured) for answer in found)
    assert all("no other GPU of this node answers" in answer.answers.reason for answer in found
               if isinstance(answer.answers, Unmeasured))


@pytest.mark.parametrize(("lines", "words"), [
    ([{"index": 0, "error": [999, "Unknown Error"]}, {"index": 1, "error": [999, "Unknown Error"]}],
     "Unknown Error (NVML 999)"),
    ([{"index": 0, "error": [999, "x"]}, {"index": 1, "error": [4, "y"]}], ""),
    ([{"index": 0, "error": [15, "GPU is lost"]}, {"index": 1, "error": [15, "GPU is lost"]}],
     "GPU is lost (NVML 15)"),
    ([{"index": 0, "error": [999, "Unknown Error"]}], "Unknown Error (NVML 999)"),
    ([{"index": 0, "error": [15, "GPU is lost"]}], ""),
    ([{"index": 0, "error": [999, "x"]}, LINES[2]], ""), ([], ""),
])
def test_that_none_answers_is_known_only_of_gpus_that_all_refuse(lines: list[Any], words: str) -> None:
    assert none_answers(lines) == words


@settings(deadline=None, max_examples=tries(200))
@given(st.lists(st.dictionaries(
    st.sampled_from([*LIVE, "name", "error", "x"]),
    st.one_of(st.integers(), st.none(), st.text(max_size=4), st.fixed_dictionaries({"ok": st.integers()}),
              st.fixed_dictionaries({"error": st.lists(st.one_of(st.integers(), st.text(max_size=3)))}),
              st.lists(st.one_of(st.integers(0, 30), st.text(max_size=3)), max_size=3))), max_size=5))
def test_whatever_the_lines_hold_a_gpu_with_no_reading_never_answers(lines: list[Any]) -> None:
    numbered = [{**line, "index": index} for index, line in enumerate(lines)]
    for line, answer in zip(lines, answers(numbered), strict=True):
        good = any(isinstance(value, dict) and "ok" in value for key, value in line.items()
                   if key != "error")
        assert answer.answers is not True or good


# By nvidia-smi

def listing(*numbers: int) -> str:
    """A log of eight GPUs of which these are listed, at PCI 1a, 1b, 1c and so on."""
    blocks = "".join(LOG[BEGIN:END].replace(LOG[BEGIN + 9:LOG.index('">', BEGIN)],
                                            f"00000000:{0x1a + n:02X}:00.0")
                     for n in numbers)
    return LOG[:BEGIN].replace("<attached_gpus>1<", "<attached_gpus>4<") + blocks + LOG[END:]


@pytest.mark.parametrize("form", SAID)
@pytest.mark.parametrize("before", [True, False])
def test_a_gpu_that_nvidia_smi_cannot_open_is_named_by_its_place_and_the_others_answer(
    form: str, before: bool,
) -> None:
    said = f"Unable to determine the device handle for {SAID[form][0]}\n"
    text = said + listing(0, 2, 3) if before else listing(0, 2, 3) + said
    found = gpus(CRASH, gpu_smi=printed(text))
    assert [(gpu.index, silent(gpu)) for gpu in found] == [(0, False), (1, True), (2, False), (3, False)]


def test_where_it_breaks_off_at_a_gpu_that_is_the_last() -> None:
    text = listing(0, 1)[:-len("</nvidia_smi_log>\n")] + (
        "Unable to determine the device handle for GPU 0000:1C:00.0: Unknown Error\n")
    found = gpus(CRASH, gpu_smi=printed(text, 255))
    assert [(gpu.index, silent(gpu)) for gpu in found] == [(0, False), (1, False), (2, True)]


def test_that_we_may_not_ask_a_gpu_accuses_it_of_nothing() -> None:
    text = listing(0, 2, 3) + "Unable to determine the device handle for GPU1: Insufficient Permissions\n"
    assert isinstance(reading(gpus(CRASH, gpu_smi=printed(text))[1], "answers"), Unmeasured)


@pytest.mark.parametrize("word", ["ERR!", "[Unknown Error]", "Unknown Error", "[GPU requires reset]"])
def test_a_gpu_that_prints_errors_for_what_is_read_from_the_board_does_not_answer(word: str) -> None:
    text = listing(0, 1)
    second = text.rindex("<gpu ")
    for element in ("gpu_temp", "gpu_util", "sm_clock", "mem_clock"):
        start = text.index(f"<{element}>", second) + len(element) + 2
        text = text[:start] + word + text[text.index("<", start):]
    start = text.index("<gpu_power_readings>", second)
    end = text.index("</gpu_power_readings>", start)
    text = text[:start] + f"<gpu_power_readings><power_draw>{word}</power_draw>" + text[end:]
    assert [silent(gpu) for gpu in gpus(CRASH, gpu_smi=printed(text))] == [False, True]


@settings(deadline=None, max_examples=tries(200))
@given(st.text(alphabet="GPU 01:.abXunkower\n<\x1b", max_size=120))
def test_any_message_of_nvidia_smi_is_bounded_and_harmless(text: str) -> None:
    for one in unreachable("Unable to determine the device handle for GPU" + text):
        assert "\x1b" not in one.words and len(one.words) <= 400
    assert len(parse(LOG + "Unable to determine the device handle for GPU" + text).gpus) <= 2


@pytest.mark.parametrize("answer", [{"error": [15, "GPU is lost"]}, {"ok": []}, {"na": True}])
def test_an_answer_for_all_pairs_of_a_gpu_is_no_reading_of_it(answer: dict[str, Any]) -> None:
    of = readings_of({"index": 0, "p2p": answer, "temperature_c": {"ok": 40}})
    assert (of.held, of.failed, of.handle) == ({"temperature_c": 40}, {}, None)
