"""Answers of the NVML reader that differ in a few values: at sight they say what they say line by line, and what they have alike is one."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from healthcheck.facts import gpu_process, gpuanswer, gpuline, nvlink
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.gpuline import READINGS
from healthcheck.facts.values import Partial, Unmeasured
from healthcheck.facts.wholeforms import WholeForms
from healthcheck.model.recording import Capture, Outcome
from tests.healthcheck import machine

# Those that read none of what differs between healthy nodes, and all.
ALIKE = ("gpu_links", "nvlinks", "nvlink_errors", "nvlink5_errors", "gpu_pairs", "gpu_loads")
OF_NVML = ("gpus", "gpu_presence", *ALIKE)
assert {FACTS[name].build.__module__ for name in ALIKE} == {nvlink.__name__, gpu_process.__name__}
VALUES = st.integers(-5, 10**6) | st.floats(allow_nan=True) | st.none() | st.booleans() | st.sampled_from(
    ["", "a", "}", '"', "\\", "\n", "\u2028", "é", [], [[7, "R", "python"]], [[1, 7, 26562, 2, "0000:05:00.0", 3, 0, 0, 0, 0]], [[0] * 6] * 2])
# As no collector writes them, and JSON reads some of them.
RAW = st.sampled_from(["01", " 5", "5\n", "[1,\n2]", "[1,\r2]", '"\x0c"', "\u2028", "NaN", "", '5}, "x": {"ok": 6', "1" * 30])
KEYS = st.sampled_from(["uuid", "serial", "temperature_c", "temperature_margin_c", "power_mw", "processes", "memory_used_bytes", "nvlinks", "p2p", "mig",
                        "name", "error", "index", "index_of_none"])
SAID = st.tuples(VALUES, st.sampled_from(["ok"] * 5 + ["error", "na", ""]), st.sampled_from([None] * 6) | RAW)
ENDS = st.sampled_from([("\n", "\n")] * 6 + [("\n", ""), ("\r\n", "\r\n"), ("\n", "\n\n"), ("\x0c", "\n")])
Changes = dict[tuple[int, str], tuple[Any, str, str | None]]


@st.composite
def nodes(draw: st.DrawFn) -> list[tuple[Changes, tuple[str, str]]]:
    """Nodes that differ in the same few readings."""
    places = draw(st.lists(st.tuples(st.integers(0, 2), KEYS), min_size=1, max_size=3, unique=True))
    return draw(st.lists(st.tuples(st.fixed_dictionaries(dict.fromkeys(places, SAID)), ENDS), min_size=2, max_size=7))


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    forget()
    yield
    forget()


def forget() -> None:
    gpuline._FORMS.clear()
    gpuanswer._FORMS.clear()
    gpuanswer.read.cache_clear()
    gpuanswer._TUPLES.clear()


def usual(number: int, gpus: int = 3, **changes: dict[str, Any]) -> Capture:
    """What a healthy node says, with what is its own."""
    return machine.nvml(gpus, **{f"gpu{gpu}": {
        "uuid": {"ok": f"GPU-{number}-{gpu}"}, "serial": {"ok": f"{number}{gpu}"}, "power_mw": {"ok": 70000 + number},
        **changes.get(f"gpu{gpu}", {})} for gpu in range(gpus)})


def facts(capture: Capture) -> dict[str, str]:
    """What is made of an answer; NaN is equal to nothing, and 1 to True."""
    looked = Captures(machine.recording(gpu_nvml=capture))
    return {name: repr(build_fact(FACTS[name], looked)) for name in OF_NVML}


def line_by_line(capture: Capture) -> dict[str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpuanswer, "sent", json.loads)
        patch.setattr(gpuanswer, "_FORMS", WholeForms())
        gpuanswer.read.cache_clear()
        found = facts(capture)
    gpuanswer.read.cache_clear()
    return found


def answer(number: int, changes: Changes, ends: tuple[str, str] = ("\n", "\n")) -> Capture:
    own: dict[str, dict[str, Any]] = {}
    raws: list[str] = []
    for (gpu, key), (value, wrapped, raw) in changes.items():
        if raw is not None:
            raws.append(raw)
            value = f"HERE{len(raws) - 1}"
        own.setdefault(f"gpu{gpu}", {})[key] = {wrapped: value} if wrapped else value
    usually = usual(number, **own)
    text = usually.text
    for at, raw in enumerate(raws):
        text = text.replace(f'"HERE{at}"', raw)
    between, last = ends
    return dataclasses.replace(usually, text=text[:-1].replace("\n", between) + last)


@settings(deadline=None, max_examples=60)
@given(nodes(), st.integers(0, 2**32))
@example([({(1, "memory_used_bytes"): (number, "ok", None)}, ("\n", "\n")) for number in range(6)], 0)
@example([({(2, "p2p"): ([[number] * 6] * 2, "ok", None)}, ("\n", "\n")) for number in range(6)], 0)
@example([({(1, "name"): (name, "ok", None)}, ("\n", "\n")) for name in ("GH200", "H100", "GB200") * 2], 0)
@example([({(1, "processes"): ("", "ok", raw)}, ("\n", "\n")) for raw in ("[]", "[ ]", "[\n]", "[\r]", "[\n]", '[[7, " ", "x"]]')], 2)
@example([({}, ends) for ends in (("\n", "\n"), ("\r\n", "\r\n"), ("\x0c", "\n"), ("\n", ""))], 1)
def test_what_is_made_of_an_answer_is_the_same_whatever_answers_were_met_before(
    sick: list[tuple[Changes, tuple[str, str]]], seed: int,
) -> None:
    forget()
    said = [answer(number, changes, ends) for number, (changes, ends) in enumerate(sick * 2)]
    random.Random(seed).shuffle(said)
    for capture in [usual(90), usual(91), usual(92), *said, usual(93), *said]:
        assert facts(capture) == line_by_line(capture)


@pytest.mark.parametrize("key", sorted(key for key, _, _ in READINGS.values()))
def test_nodes_that_differ_in_one_reading_are_told_apart(key: str) -> None:
    for number in range(5):
        capture = machine.nvml(2, gpu1={key: {"ok": number}})
        assert facts(capture) == line_by_line(capture)


def test_values_that_differ_are_each_nodes_own_and_all_else_is_one() -> None:
    before = [Captures(machine.recording(gpu_nvml=usual(number))) for number in range(4)]
    first, second = (Captures(machine.recording(gpu_nvml=usual(number))) for number in (40, 50))
    for name in ALIKE:
        # Those of nodes that were met before it was known what they have alike, too.
        assert len({id(build_fact(FACTS[name], look)) for look in (*before, first, second)}) == 1, name
    assert [gpu.uuid for look in (first, second) for gpu in build_fact(FACTS["gpus"], look)] == [
        f"GPU-{number}-{gpu}" for number in (40, 50) for gpu in range(3)]
    assert [gpu.power_watts for gpu in build_fact(FACTS["gpus"], second)] == [70.05] * 3


def test_a_new_builder_is_given_each_answers_own_values_and_what_reads_none_is_made_once() -> None:
    told = [gpuanswer.read(usual(number).text) for number in range(6)]
    assert told[-1].form is not None and told[-1].form is told[-2].form

    def uuids(lines: Sequence[Any]) -> list[Any]:
        try:
            return [line["uuid"] for line in lines]
        except Exception:  # noqa: BLE001  (as careless builders do)
            return []

    assert [answer.once(uuids) for answer in told] == [uuids(answer.gpus) for answer in told]
    assert len({repr(answer.once(uuids)) for answer in told}) == 6
    names = [answer.once(_names) for answer in told]
    assert names[-1] == [line["name"] for line in told[-1].gpus] and names[-1] is names[-2]


def _names(lines: Sequence[Any]) -> list[Any]:
    return [line["name"] for line in lines]


def test_facts_are_kept_of_few_nodes() -> None:
    for number in range(300):
        facts = tuple((number, place) for place in range(3))
        assert gpuanswer.very_same(facts) is gpuanswer.very_same((*facts[:1], *facts[1:])) is facts
        assert len(gpuanswer._TUPLES) <= 64
    many = tuple(range(1000))
    assert gpuanswer.very_same(many) is many and all(len(facts) < 1000 for facts in gpuanswer._TUPLES.values())


def test_a_node_whose_links_count_errors_leaves_the_others_what_they_have_alike() -> None:
    def links(number: int, replays: int = 0) -> Any:
        changes = {"gpu1": {"nvlinks": machine.nvlinks(2, link1=[1, 7, 26562, 2, "0000:05:00.0", replays, 0, 0, 0, 0])}}
        return build_fact(FACTS["nvlink_errors"], Captures(machine.recording(gpu_nvml=usual(number, **changes))))

    for number in range(4):
        healthy = links(number)
    for number in range(4, 30):
        assert [error.replay for error in links(number, number) if error.name == "GPU 1 NVLink 1"] == [number]
        assert links(100 + number) is healthy


def test_what_gpus_are_set_to_is_told_of_their_links_though_all_links_are_alike() -> None:
    down = machine.nvlinks(1, link0=[0, 7, 26562, 2, "0000:05:00.0", 0, 0, 0, 0, 0])
    for number in range(12):
        divided = Captures(machine.recording(gpu_nvml=usual(number, gpu1={"nvlinks": down, "mig": {"ok": number % 2}})))
        active = build_fact(FACTS["nvlinks"], divided)[18].active
        assert isinstance(active, Unmeasured) if number % 2 else active is False


@pytest.mark.parametrize("outcome", [Outcome.TRUNCATED, Outcome.TIMEOUT])
def test_an_answer_that_is_cut_is_never_whole_though_what_is_left_is_known_at_sight(outcome: Outcome) -> None:
    for number in range(6):
        build_fact(FACTS["gpus"], Captures(machine.recording(gpu_nvml=usual(number))))
        whole = usual(number)
        cut = dataclasses.replace(whole, outcome=outcome, text=whole.text[:-40])
        found = {name: build_fact(FACTS[name], Captures(machine.recording(gpu_nvml=cut))) for name in OF_NVML}
        assert all(isinstance(value, Partial) for name, value in found.items() if name != "gpu_presence"), found
        assert [gpu.name for gpu in found["gpus"].value] == ["GPU 0", "GPU 1"]


def test_an_answer_of_fewer_gpus_than_it_counts_is_partial_each_time() -> None:
    for number in range(6):
        whole = usual(number)
        text = whole.text[:whole.text.rstrip().rfind("\n") + 1]
        for name in ("gpus", *ALIKE):
            found = build_fact(FACTS[name], Captures(machine.recording(gpu_nvml=dataclasses.replace(whole, text=text))))
            assert isinstance(found, Partial) and "3 GPUs, but 2 were read" in found.reason, name


def test_a_driver_that_refuses_is_no_form_of_one_that_answers() -> None:
    for number in range(8):
        usually = usual(number)
        _, rest = usually.text.split("\n", 1)
        refused = dataclasses.replace(usually, text='{"error": [9, "Driver Not Loaded"]}\n' + rest)
        for name in ("gpus", *ALIKE):
            found = build_fact(FACTS[name], Captures(machine.recording(gpu_nvml=refused)))
            assert isinstance(found, Unmeasured) and "Driver Not Loaded" in found.reason, name
    assert len(gpuanswer._FORMS) == 0


def test_answers_of_which_no_two_are_alike_are_not_learned_for_ever() -> None:
    for number in range(300):
        # Each of eight GPUs tells of its processes or does not: one of 256 forms.
        changes = {f"gpu{gpu}": {"processes": {"ok": []} if number >> gpu & 1 else {"na": True}} for gpu in range(8)}
        gpuanswer.read(usual(number, gpus=8, **changes).text)
        assert len(gpuanswer._FORMS) <= 6
    assert gpuanswer._FORMS._vain == 64


def test_an_answer_of_too_many_gpus_or_with_other_ends_of_lines_is_read_and_not_learned() -> None:
    for number in range(4):
        assert len(gpuanswer.read(usual(number, gpus=40).text).gpus) == 40
    for number in range(4):
        assert len(gpuanswer.read(usual(number).text.replace("\n", "\r\n")).gpus) == 3
    assert len(gpuanswer._FORMS) == 0
