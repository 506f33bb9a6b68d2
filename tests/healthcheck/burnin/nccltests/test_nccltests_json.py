"""The files of -J and RCCL-tests' -x: their traps, cut-off files, and no environment that gets through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.burnin.nccltests import jsonread, rccl
from healthcheck.burnin.nccltests.formats import looks_like, read
from healthcheck.burnin.nccltests.model import NcclRun
from tests.healthcheck.burnin.nccltests.printer import RECORDINGS

WHOLE = (RECORDINGS / "2.19-json-8.json").read_text()
SECRETS = ("not-a-real-key", "AWS_SECRET", "WANDB", "/usr/bin")


def changed(**changes: Any) -> NcclRun:
    run = jsonread.read(json.dumps({**json.loads(WHOLE), **changes}))
    assert run is not None
    return run


def test_its_words_are_read_as_what_they_mean() -> None:
    run = changed()
    assert run.bounds is not None and run.bounds.okay
    assert run.minimum is None
    assert run.complete
    assert [row.root for row in run.rows] == [-1, -1]
    assert [half.wrong for row in run.rows for half in row.halves] == [0, 0, 0, 0]
    assert (run.test, run.library) == ("all_reduce_perf", 23203)


@pytest.mark.parametrize(("said", "minimum"), [("true", True), ("false", False), ("unchecked", None)])
def test_whether_a_minimum_was_reached_is_a_word(said: str, minimum: bool | None) -> None:
    assert changed(average_bus_bandwidth={"bandwidth": 1.0, "okay": said}).minimum is minimum


def test_false_is_not_taken_for_true() -> None:
    bounds = changed(out_of_bounds={"count": 3, "okay": "false"}).bounds
    assert bounds is not None and not bounds.okay and bounds.count == 3


def test_ranks_are_more_than_the_devices_that_it_lists() -> None:
    run = changed()
    assert (len(run.devices), run.ranks) == (1, 8)


def test_single_iterations_are_kept_without_those_that_were_skipped() -> None:
    document = json.loads(WHOLE)
    document["results"][0]["out_of_place_per_iter"]["skipped_iterations"] = 10
    out, into = changed(**document).rows[0].halves
    assert (len(out.times_us), len(into.times_us)) == (40, 50)
    assert into.spread is not None and into.spread.max_us == max(into.times_us)


def test_a_half_that_is_no_number_or_was_not_run_is_left_out() -> None:
    half = {"time": 1.0, "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": None}
    row = {"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "     0"}
    run = changed(results=[{**row, "out_of_place": None, "in_place": half},
                           {**row, "out_of_place": {**half, "bus_bw": "nan"}}, 3, {"size": "x"}])
    assert [(found.out, found.into is not None) for found in run.rows] == [(None, True), (None, False)]
    assert run.rows[0].root == 0
    into = run.rows[0].into
    assert into is not None and into.wrong is None


def test_a_run_that_failed_before_its_first_size_is_known_for_one() -> None:
    text = (RECORDINGS / "2.19-json-no-gpu.json").read_text()
    (run,) = read(text)
    assert looks_like(text)
    assert (run.rows, run.complete, run.test) == ((), False, "all_reduce_perf")


def test_a_value_that_was_cut_off_is_not_read_as_a_shorter_one() -> None:
    cut = WHOLE[:WHOLE.index('"alg_bw"')]
    for digits in range(1, 8):
        run = jsonread.read(cut[:-digits])
        assert run is not None and all(not row.halves for row in run.rows)


@settings(deadline=None)
@given(st.floats(0, 1))
def test_wherever_it_is_cut_its_secrets_stay_out(share: float) -> None:
    text = WHOLE[:int(share * len(WHOLE))]
    assert not [secret for secret in SECRETS for said in (repr(read(text)), repr(jsonread.load(text)))
                if secret in said]


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                          st.sampled_from(["size", "time", "alg_bw", "bus_bw", "nwrong", "out_of_place",
                                           "in_place", "devices", "bandwidth", "okay", "count"]), inner,
                          max_size=3), max_leaves=12)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["args", "config", "results", "out_of_bounds", "average_bus_bandwidth",
                                        "errors", "nccl_version", "devices"]), VALUES))
def test_any_document_is_read_without_an_error(document: dict[str, Any]) -> None:
    run = jsonread.of_document(document)
    assert not run.complete or "average_bus_bandwidth" in document


@pytest.mark.parametrize("name", ["rccl-16.json", "rccl-16.csv"])
def test_rccl_tests_say_the_same_as_lines_of_json_and_as_csv(name: str) -> None:
    text = (RECORDINGS / name).read_text()
    (run,) = read(text)
    assert run.endless and not run.complete
    assert [half.busbw for row in run.rows for half in row.halves] == [384.74, 384.71, 385.98, 385.95]
    assert [half.wrong for row in run.rows for half in row.halves] == [0] * 4
    # Its last line is none without its end.
    (cut,) = read(text[:-6])
    assert [len(row.halves) for row in cut.rows] == [2, 1]


def test_rccl_tests_as_a_list_and_in_cycles_are_read() -> None:
    lines = (RECORDINGS / "rccl-16.json").read_text().splitlines()
    run = rccl.read("[" + ",\n".join(lines * 2) + "]")
    assert run is not None
    assert [(row.size, len(row.halves)) for row in run.rows] == [(1 << 33, 2), (1 << 34, 2)] * 2


def test_a_csv_whose_rows_are_as_long_as_its_heading_is_read_too() -> None:
    text = (RECORDINGS / "rccl-16.csv").read_text().replace('"AllReduce", 2,', '"AllReduce",')
    (run,) = read(text)
    assert (run.ranks, len(run.rows)) == (16, 2)


def test_a_line_of_a_csv_with_a_carriage_return_in_its_middle_is_no_row_and_spoils_no_other() -> None:
    head, *rows = (RECORDINGS / "rccl-16.csv").read_text().splitlines(keepends=True)
    (run,) = read("".join((head, rows[0].replace("2,", "2\r,", 1), *rows)))
    assert (run.ranks, len(run.rows)) == (16, 2)
