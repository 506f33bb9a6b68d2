"""GPU facts from the NVML reader's lines: links, pairs, processes; what is cut, damaged or refused is never
taken for health."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts import gpu_process, nvlink
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.gpureadings import READINGS
from healthcheck.facts.values import UNSUPPORTED, Partial, Unmeasured, reading, readings
from healthcheck.model.recording import Capture, Outcome
from healthcheck.scrub import scrub
from inventory.model import Node
from tests.healthcheck import machine
from tests.tries import tries

OF_NVML = ("gpus", "gpu_links", "nvlinks", "nvlink_errors", "nvlink5_errors", "gpu_pairs", "gpu_loads")
assert {spec.build.__module__ for name, spec in FACTS.items() if name in OF_NVML[1:]} == {
    nvlink.__name__, gpu_process.__name__}


def built(name: str, capture: Capture | None = None, **changes: Any) -> Any:
    """The fact; `changes` by "gpuN" replace readings of one GPU."""
    return build_fact(FACTS[name], Captures(machine.recording(gpu_nvml=capture or machine.nvml(**changes))))


LOST = Unmeasured("NVML: GPU is lost (error 15)")


def fields_of(fact: Any, *without: str) -> set[Any]:
    return {value for field, value in readings(fact).items()
            if field not in ("name", "gpu", "index", *without)}


# Links

def test_each_link_is_reported_with_its_speed_and_remote_end() -> None:
    links = built("nvlinks")
    assert len(links) == 8 * 18
    link = links[3 * 18 + 7]
    assert (link.name, link.gpu, link.link, link.active, link.version) == ("GPU 3 NVLink 7", 3, 7, True, 7)
    assert (link.gigabytes_per_second, link.remote_type, link.remote_pci) == (26.562, "switch",
                                                                              "0000:08:00.0")


def test_the_links_of_a_gpu_are_counted() -> None:
    row = [0, -3, -3, -3, -3, 0, 0, 0, 0, 0]
    counted = built("gpu_links", gpu2={"nvlinks": machine.nvlinks(link4=row, link5=row)},
                    gpu3={"nvlinks": machine.nvlinks(6)})
    assert [(gpu.links, gpu.active) for gpu in counted[1:4]] == [(18, 18), (18, 16), (6, 6)]
    assert counted[2].name == "GPU 2"


def test_a_link_whose_state_is_not_told_is_not_counted_as_down() -> None:
    capture = machine.nvml(
        gpu2={"nvlinks": machine.nvlinks(link4=[-999, 7, 26562, 2, "0000:05:00.0", 0, 0, 0, 0, 0])})
    assert reading(built("nvlinks", capture)[2 * 18 + 4], "active") == Unmeasured("NVML: error 999")
    counted = built("gpu_links", capture)[2]
    assert (counted.links, reading(counted, "active")) == (18, Unmeasured("NVML: error 999"))


@pytest.mark.parametrize("name", ["gpu_links", "nvlinks", "nvlink_errors", "nvlink5_errors"])
@pytest.mark.parametrize(("output", "expected"), [
    ({"na": True}, UNSUPPORTED), ({"error": [4, "no"]}, Unmeasured("NVML: nvlinks: no (error 4)")),
    (None, Unmeasured("NVML: nvlinks was not read")),
    ({"ok": [[1]]}, Unmeasured("NVML: nvlinks is not in the reader's format")),
    ({"ok": [1]}, Unmeasured("NVML: nvlinks is not in the reader's format")),
])
def test_a_gpu_whose_links_were_not_read_is_one_subject(name: str, output: Any, expected: Any) -> None:
    found = [fact for fact in built(name, gpu2={"nvlinks": output}) if fact.name.startswith("GPU 2")]
    assert len(found) == 1 and fields_of(found[0]) == {expected}


@pytest.mark.parametrize("name", OF_NVML[1:])
def test_a_lost_gpu_is_one_unmeasured_subject_and_the_others_are_measured(name: str) -> None:
    facts = built(name, machine.lost_gpus(5))
    mine = [fact for fact in facts if fact.name.startswith("GPU 5") and "to" not in fact.name]
    assert len(mine) == 1 and fields_of(mine[0]) == {LOST}
    assert any(fact.name.startswith("GPU 6") and LOST not in fields_of(fact) for fact in facts)


def test_a_gpu_that_has_no_links_has_none_of_the_errors_either() -> None:
    empty = {"nvlinks": {"ok": []}}
    assert (built("gpu_links", gpu0=empty)[0].links, built("gpu_links", gpu0=empty)[0].active) == (0, 0)
    for name in ("nvlinks", "nvlink_errors", "nvlink5_errors"):
        assert fields_of(built(name, gpu0=empty)[0]) == {UNSUPPORTED}


def test_errors_of_a_link_are_told_by_kind() -> None:
    errors = built("nvlink_errors",
                   gpu1={"nvlinks": machine.nvlinks(link2=[1, 7, 26562, 2, "x", 1, 2, 1 << 40, -15, -3])})
    found = errors[18 + 2]
    assert (found.name, found.replay, found.recovery, found.crc_flit) == ("GPU 1 NVLink 2", 1, 2, 1 << 40)
    assert (reading(found, "crc_data"), reading(found, "ecc_data")) == (Unmeasured("NVML: error 15"),
                                                                        UNSUPPORTED)


def test_the_fifth_generation_has_its_own_errors_and_an_older_one_says_so_once_a_gpu() -> None:
    row = [1, 8, 53125, 2, "0000:05:00.0", -3, -3, -3, -3, -3, 1, 2, 3, 4, 5, 6, 7, 15 << 8 | 255, 9,
           3 << 8 | 12]
    rows = machine.nvlinks(2, link0=row, link1=row[:10])
    newer = built("nvlink5_errors", gpu0={"nvlinks": rows})
    assert [fact.name for fact in newer[:3]] == ["GPU 0 NVLink 0", "GPU 0 NVLink 1", "GPU 1 NVLinks"]
    assert (newer[0].malformed_packets, newer[0].rx_errors, newer[0].link_recovery_failed,
            newer[0].link_recovery_events) == (1, 3, 5, 6)
    assert (newer[0].effective_errors, newer[0].effective_ber, newer[0].symbol_errors,
            newer[0].symbol_ber) == (7, 1.5e-254, 9, 3e-12)
    assert isinstance(reading(newer[0], "fec_worst"), Unmeasured)     # of a reader before the bins
    assert fields_of(newer[1], "link") == fields_of(newer[2]) == {UNSUPPORTED}
    assert [fact.name for fact in built("nvlink_errors", gpu0={"nvlinks": rows})[:2]] == [
        "GPU 0 NVLinks", "GPU 1 NVLink 0"]


@pytest.mark.parametrize(("bins", "corrected", "worst"), [
    ([9, 4, 0, 2], 6, 3), ([9], 0, 0), ([0], 0, 0), ([-3], UNSUPPORTED, UNSUPPORTED),
    ([], Unmeasured("NVML: not in the reader's format"), Unmeasured("NVML: not in the reader's format")),
    ([9, -15], Unmeasured("NVML: error 15"), Unmeasured("NVML: error 15")),
    ("many", Unmeasured("NVML: not in the reader's format"), Unmeasured("NVML: not in the reader's format")),
])
def test_fec_bins_come_to_what_was_corrected_and_the_worst_of_it(bins: Any, corrected: Any,
                                                                 worst: Any) -> None:
    row = [1, 8, 53125, 2, "0000:05:00.0", *[-3] * 5, *[0] * 10, 7 << 8 | 9, bins]
    link, *_ = built("nvlink5_errors", gpu0={"nvlinks": machine.nvlinks(1, link0=row)})
    assert (reading(link, "fec_corrected"), reading(link, "fec_worst"),
            link.raw_ber) == (corrected, worst, 7e-9)


# Pairs

def test_a_gpu_of_which_nothing_was_read_does_not_answer_by_having_a_list_of_pairs() -> None:
    nothing = {key: {"error": [4, "Insufficient Permissions"]}
               for key in json.loads(machine.nvml().text.splitlines()[1]) if key not in ("index", "p2p")}
    gpus = built("gpus", gpu1=nothing)
    assert (reading(gpus[1], "answers") == Unmeasured("NVML: none of its readings could be read")
            and gpus[2].answers is True)


def test_every_pair_is_there_in_both_orders() -> None:
    pairs = built("gpu_pairs")
    assert len(pairs) == 56 and len({pair.name for pair in pairs}) == 56
    assert {(pair.read, pair.write, pair.nvlink) for pair in pairs} == {("ok", "ok", "ok")}
    assert all(pair.name == f"GPU {pair.gpu} to GPU {pair.peer}" for pair in pairs)


def test_a_pair_that_may_not_reach_each_other_says_why_in_nvmls_words() -> None:
    rows = [[0] * 6 for _ in range(5)]
    rows[3] = [0, 6, 2, -15, 99, 1]
    pairs = {pair.name: pair for pair in built("gpu_pairs", gpu5={"p2p": {"ok": rows}})}
    there, back = pairs["GPU 5 to GPU 3"], pairs["GPU 3 to GPU 5"]
    assert (there.read, there.write, there.nvlink) == ("ok", "unknown", "gpu_not_supported")
    assert (reading(back, "read"), back.write, back.nvlink) == (Unmeasured("NVML: error 15"), "unknown",
                                                                "chipset_not_supported")


def test_pairs_with_a_lost_gpu_are_unmeasured() -> None:
    pairs = {pair.name: pair for pair in built("gpu_pairs", machine.lost_gpus(5))}
    for name in ("GPU 5 to GPU 6", "GPU 7 to GPU 5"):
        assert fields_of(pairs[name], "peer") == {Unmeasured("NVML: the other GPU was not read")}
    assert pairs["GPU 6 to GPU 7"].read == "ok"


def test_a_gpu_that_is_alone_has_no_one_to_reach() -> None:
    (alone,) = built("gpu_pairs", machine.nvml(1))
    assert (alone.name, alone.read) == ("GPU 0 alone", "alone")


# Processes

def test_an_idle_gpu_has_no_process_and_that_is_measured() -> None:
    load = built("gpu_loads")[3]
    assert (load.name, load.index, load.processes, load.gone, load.zombies,
            load.memory_used_bytes) == ("GPU 3", 3, (), (), (), 0)


def test_processes_are_reported_with_those_that_are_gone_and_those_that_no_one_waited_for() -> None:
    rows = [[12, "S", "python3"], [40, "Z", "train"], [41, "", ""]]
    load = built("gpu_loads", gpu3={"processes": {"ok": rows}, "memory_used_bytes": {"ok": 5}})[3]
    assert (load.processes, load.gone, load.zombies, load.commands) == ((12, 40, 41), (41,), (40,),
                                                                        ("python3", "train", ""))


@pytest.mark.parametrize(("state", "gone", "zombies"),
                         [("-", False, False), ("?", True, False), ("S", True, True)])
def test_what_cannot_be_told_of_processes_is_unmeasured(state: str, gone: bool, zombies: bool) -> None:
    load = built("gpu_loads", gpu3={"processes": {"ok": [[12, state, ""]]}})[3]
    output = isinstance(reading(load, "gone"), tuple), isinstance(reading(load, "zombies"), tuple)
    assert (load.processes, *output) == ((12,), gone, zombies)


@pytest.mark.parametrize("output", [{"error": [4, "no"]}, None, {"ok": [[1, 2, "x"]]}, {"ok": ["x"]},
                                    {"ok": [[1, "S"]]}])
def test_processes_that_were_not_read_are_no_idle_gpu(output: Any) -> None:
    load = built("gpu_loads", gpu3={"processes": output})[3]
    assert isinstance(reading(load, "processes"), Unmeasured) and load.memory_used_bytes == 0


def test_what_a_sites_programs_are_called_is_not_in_a_recording_that_is_handed_on() -> None:
    rows = [[12, "S", "acme-train"], [13, "Z", "acme-train"], [14, "", ""]]
    recording = machine.recording(gpu_nvml=machine.nvml(gpu3={"processes": {"ok": rows}}))
    scrubbed = scrub(recording, Node(name="gpu001"), key=b"k" * 32).recording
    assert "acme" not in scrubbed.captures["gpu.nvml"].text
    load = build_fact(FACTS["gpu_loads"], Captures(scrubbed))[3]
    assert (load.commands, load.zombies, load.gone) == (("process1", "process1", ""), (13,), (14,))


# What is cut, and rubbish

def subjects(value: Any) -> dict[str, Any]:
    """The facts by name of a fact that may be wholly, partly or not measured."""
    value = value.value if isinstance(value, Partial) else value
    return {} if isinstance(value, Unmeasured) else {fact.name: fact for fact in value}


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_an_answer_that_is_cut_at_any_byte_is_never_more_than_its_whole_lines_and_never_whole(
    step: int,
) -> None:
    whole = machine.nvml(2, **{f"gpu{n}": {"nvlinks": machine.nvlinks(2)} for n in range(2)})
    facts = {name: subjects(built(name, whole)) for name in OF_NVML}
    ends = [at for at, letter in enumerate(whole.text) if letter == "\n"]
    for at in sorted({*range(0, len(whole.text), step), *ends, *(end + 1 for end in ends[:-1])}):
        capture = dataclasses.replace(whole, outcome=Outcome.TRUNCATED, text=whole.text[:at])
        gpus = max(sum(end < at for end in ends) - 1, 0)
        # Every name is looked at where a line ends, and one, by turns, in between.
        for name in OF_NVML if at in ends or at - 1 in ends else (OF_NVML[at // step % len(OF_NVML)],):
            value = built(name, capture)
            assert isinstance(value, (Partial, Unmeasured)), (name, at)
            found = subjects(value)
            assert {int(n.split()[1]) for n in found} <= set(range(gpus)), (name, at)
            assert all(fact == facts[name].get(n, fact) for n, fact in found.items()), (name, at)


def test_an_answer_that_ends_early_without_a_word_is_not_whole_either() -> None:
    whole = machine.nvml()
    lines = whole.text.splitlines(keepends=True)
    for count in range(len(lines)):
        for name in OF_NVML:
            value = built(name, dataclasses.replace(whole, text="".join(lines[:count])))
            assert isinstance(value, (Partial, Unmeasured)), (name, count)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-10**20, 10**20) | st.floats(allow_nan=True)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=12)
    | st.dictionaries(st.sampled_from(["ok", "na", "error", "x"]), inner, max_size=2),
    max_leaves=30,
)


@settings(deadline=None, max_examples=tries(400))
@given(name=st.sampled_from(OF_NVML),
       key=st.sampled_from(["nvlinks", "p2p", "processes", "memory_used_bytes", "index", "error", "name"]),
       value=VALUES, wrapped=st.booleans())
def test_a_damaged_reading_costs_its_own_gpu_and_never_makes_health(
    name: str, key: str, value: Any, wrapped: bool,
) -> None:
    capture = machine.nvml(2, gpu1={key: {"ok": value} if wrapped else value})
    found = built(name, capture)
    assert isinstance(found, (tuple, Partial, Unmeasured))
    if isinstance(found, tuple):
        assert [fact for fact in found if fact.name.startswith("GPU 0") and "GPU 1" not in fact.name] == [
            fact for fact in built(name, machine.nvml(2)) if fact.name.startswith("GPU 0")
            and "GPU 1" not in fact.name]


@pytest.mark.parametrize("field", [field for field, (_, _, convert) in READINGS.items() if convert is bool])
def test_a_flag_that_is_neither_set_nor_clear_is_not_measured(field: str) -> None:
    key = READINGS[field][0]
    for number in (-1, 2, 255, 2 ** 32 - 1):
        found = built("gpus", machine.nvml(2, gpu1={key: {"ok": number}}))[1]
        assert reading(found, field) == Unmeasured(f"NVML: {key} has the value {number}, expected 0 or 1")


def test_an_answer_that_holds_one_gpu_twice_is_not_relied_on() -> None:
    found = built("gpus", machine.nvml(2, gpu1={"index": 0}))
    assert found.reason.startswith("the NVML reader's answer holds GPU 0 twice")


def test_a_number_in_the_place_of_a_links_remote_end_is_no_address() -> None:
    first = built("nvlinks", machine.nvml(1, gpu0={"nvlinks": {"ok": [[0] * 10, [0, 0, 0, 0, -3] + [0] * 5,
                                                                      [0, 0, 0, 0, -999] + [0] * 5]}}))
    assert [reading(link, "remote_pci") for link in first] == [
        Unmeasured("NVML: not in the reader's format"), UNSUPPORTED, Unmeasured("NVML: error 999")]


@settings(deadline=None, max_examples=tries(300))
@given(name=st.sampled_from(OF_NVML),
       row=st.lists(st.integers(-40, 40) | st.text(max_size=4) | st.none() | st.booleans(), max_size=22))
def test_a_row_of_any_form_is_read_or_unmeasured(name: str, row: list[Any]) -> None:
    found = built(name, machine.nvml(2, gpu1={"nvlinks": {"ok": [row]}, "p2p": {"ok": [row]},
                                              "processes": {"ok": [row]}}))
    assert isinstance(found, tuple)
    for fact in found:
        for field, kind in fact.FIELDS.items():
            value = reading(fact, field)
            assert (value is UNSUPPORTED or isinstance(value, Unmeasured)
                    or type(value).__name__ == kind.partition("[")[0]), (fact, field)
