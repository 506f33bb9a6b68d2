"""The output of nccl-tests: every version's table, lines in between, and cuts that make no row or footer."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from healthcheck.burnin.nccltests.formats import looks_like, read
from healthcheck.burnin.nccltests.model import NcclRow, NcclRun
from healthcheck.burnin.nccltests.parse import parse
from tests.healthcheck.burnin.nccltests.printer import (
    NCCL,
    RECORDINGS,
    WARN,
    Shape,
    devices,
    heading,
    output,
    row,
)
from tests.tries import tries

SHAPES = (Shape(old=True), Shape(), Shape(checked=False), Shape(dated=True), Shape(each=True),
          Shape(each=True, dated=True))
NAMES = ("old", "counted", "unchecked", "dated", "each", "each-dated")

# file: ranks, sizes, best busbw at the largest, complete
RECORDED = {
    "2.0-v100-16.txt": (16, 3, 54.06, True), "2.0-all-gather.txt": (8, 3, 221.25, True),
    "2.13-h100-16.txt": (16, 4, 338.82, True),
    "2.13-info-in-row.txt": (16, 2, 338.82, True), "2.13-tagged-16.txt": (16, 4, 279.64, True),
    "2.17-srun-timestamps-72.txt": (72, 3, 846.82, True), "2.19-iterations-96.txt": (96, 3, 386.56, True),
    "2.19-wrong-8.txt": (8, 3, 478.0, True), "2.19-killed-16.txt": (16, 1, 360.2, False),
    "2.19-cuda-failed-16.txt": (16, 1, 360.2, False),
    "2.19-timeout-16.txt": (16, 1, 360.2, False), "2.19-one-half.txt": (8, 2, 190.0, True),
    "2.19-json-8.json": (8, 2, 478.25, True),
    "2.19-json-killed.json": (8, 2, 478.25, False), "rccl-16.json": (16, 2, 385.98, False),
    "rccl-16.csv": (16, 2, 385.98, False),
}


def only(text: str) -> NcclRun:
    (run,) = parse(text)
    return run


def recorded(name: str) -> str:
    return (RECORDINGS / name).read_text()


def rates(rows: tuple[NcclRow, ...]) -> list[tuple[int, float, float]]:
    return [(row.size, half.algbw, half.busbw) for row in rows for half in row.halves]


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_run_is_read(name: str) -> None:
    text = recorded(name)
    (run,) = read(text)
    ranks, sizes, best, complete = RECORDED[name]
    assert looks_like(text)
    assert (run.ranks, len(run.rows), run.complete) == (ranks, sizes, complete)
    assert max(half.busbw for half in run.rows[-1].halves) == best


def test_every_recording_is_asked_for() -> None:
    there = {path.name for path in RECORDINGS.iterdir()} - {"README.md"}
    assert there == {*RECORDED, "2.19-json-no-gpu.json", "2.19-without-mpi.txt"}


@pytest.mark.parametrize("shape", SHAPES, ids=NAMES)
def test_the_table_of_every_version_says_the_same(shape: Shape) -> None:
    run = only(output(shape, [row(shape, 1 << 30, 365.9, 16), row(shape, 1 << 33, 386.5, 16)], 16))
    assert run.complete
    assert [size.size for size in run.rows] == [1 << 30, 1 << 33]
    assert [half.busbw for size in run.rows for half in size.halves] == [365.9, 365.9, 386.5, 386.5]
    assert [half.wrong for half in run.rows[0].halves] == [0 if shape.checked and not shape.old else None] * 2
    assert (run.rows[0].halves[0].spread is not None) == shape.each
    assert (run.rows[0].redop, run.rows[0].root) == ("sum", None if shape.old else -1)
    assert run.config["iterations"] == 20


@pytest.mark.parametrize(
    "between", ["[1,0]<stdout>:", "[prterun-head-123@1,0]<stdout>: ", "[0]", " 0: ", NCCL, "  " + NCCL + WARN,
                WARN], ids=["open-mpi-4", "open-mpi-5", "short", "srun", "nccl", "nccl-lines", "nccl-dated"])
@pytest.mark.parametrize("shape", SHAPES, ids=NAMES)
def test_what_launchers_and_nccl_put_into_a_row_changes_nothing(shape: Shape, between: str) -> None:
    plain, mixed = (output(shape, [row(shape, 1 << 30, 365.9, 16, parts=parts)], 16)
                    for parts in ("", between))
    assert only(mixed).rows[0].halves == only(plain).rows[0].halves
    assert only(mixed).complete


def test_nccl_within_a_row_of_an_unlisted_host_costs_the_row_and_never_moves_a_column() -> None:
    strange = NCCL.replace("node-0", "somewhere")
    text = output(Shape(),
                  [row(Shape(), 1 << 30, 365.9, 16, parts=strange), row(Shape(), 1 << 33, 386.5, 16)], 16)
    assert [found.size for found in only(text).rows] == [1 << 33]
    assert len(only(text).broken) == 1


@pytest.mark.parametrize("tag", ["[1,0]<stdout>:", "0: ", " 12: ", "launcher-abc: ",
                                 "2026-11-20T10:00:00.123Z ", "    "])
@pytest.mark.parametrize("shape", SHAPES, ids=NAMES)
def test_a_tag_before_every_line_changes_nothing(shape: Shape, tag: str) -> None:
    text = output(shape, [row(shape, 1 << 30, 365.9, 16), row(shape, 1 << 33, 386.5, 16)], 16)
    tagged = only("".join(f"{tag}{line}\n" for line in text.splitlines()))
    assert rates(tagged.rows) == rates(only(text).rows)
    assert (tagged.ranks, tagged.complete, tagged.test) == (16, True, only(text).test)


def test_lines_that_end_as_windows_ends_them_and_columns_that_a_page_drew_together_are_read() -> None:
    text = output(Shape(), [row(Shape(), 1 << 30, 365.9, 16)], 16)
    assert only(text.replace("\n", "\r\n")) == only(text)
    together = "".join(" ".join(line.split()) + "\n" for line in text.splitlines())
    assert rates(only(together).rows) == rates(only(text).rows)


def test_a_count_too_long_for_its_column_is_still_a_count() -> None:
    run = only(output(Shape(), [row(Shape(), 1 << 30, 365.9, 16, wrong=16777216)], 16))
    assert run.rows[0].halves[0].wrong == 16777200


def test_the_largest_error_of_old_versions_is_no_count() -> None:
    run = only(output(Shape(old=True), [row(Shape(old=True), 1 << 30, 50.0, 16)], 16, wrong=3))
    assert [half.wrong for half in run.rows[0].halves] == [None, None]
    assert run.bounds is not None and not run.bounds.okay and run.bounds.count == 3


def test_a_number_that_is_none_leaves_its_half_out() -> None:
    text = heading(Shape()) + " 1073741824 268435456 float sum -1 nan nan nan 0 5882.2 182.54 361.28 0\n"
    (found,) = only(text).rows
    assert found.out is None
    assert found.into is not None and found.into.busbw == 361.28


def test_of_a_number_it_is_known_how_far_it_may_be_off() -> None:
    text = heading(Shape()) + " 1073741824 268435456 float sum -1 1.2e+07 1e+05 361.3 0 43980 182.54 361 0\n"
    out, into = only(text).rows[0].halves
    assert out.blur == pytest.approx((5e5, 5e4, 0.05))
    assert into.blur == pytest.approx((0.5, 0.005, 0.5))


def test_a_half_that_was_not_run_is_not_taken_for_the_other() -> None:
    (run,) = read(recorded("2.19-one-half.txt"))
    assert [(size.out, size.into is not None) for size in run.rows] == [(None, True), (None, True)]


def test_runs_in_one_file_are_distinguished() -> None:
    first, second = recorded("2.13-h100-16.txt"), recorded("2.19-killed-16.txt")
    runs = parse(first + second + first)
    assert [(run.complete, len(run.rows), run.ranks) for run in runs] == [(True, 4, 16), (False, 1, 16),
                                                                          (True, 4, 16)]


def test_tables_without_their_first_lines_are_distinguished_by_devices_and_headings() -> None:
    table = heading(Shape()) + row(Shape(), 1 << 30, 365.9, 16) + "# Avg bus bandwidth    : 365.9 \n"
    last = "#  Rank 71 Group  0 Pid  14840 on node-17 device  3 [0x01] NVIDIA GB200\n"
    runs = parse(last + table + table + last + table)
    assert [(run.ranks, len(run.rows)) for run in runs] == [(72, 1), (0, 1), (72, 1)]


def test_groups_of_a_split_run_are_no_ranks_of_one() -> None:
    split = devices(16).replace("Rank  1 Group  0", "Rank  1 Group  1")
    assert only(split + heading(Shape())).ranks == 15


def test_the_same_rank_listed_again_shows_runs_that_are_not_one() -> None:
    assert only(recorded("2.19-without-mpi.txt")).copies == 4


@pytest.mark.parametrize("said", [
    "gpu3: Test NCCL failure all_reduce.cu:44 'unhandled cuda error'",
    "gpu3: Test timeout (300s) common.cu:523", "gpu3: Test timeout",
    "gpu3: Test CUDA failure common.cu:892 'no CUDA-capable device is detected'",
    " .. gpu3 pid 1: Test failure common.cu:401",
    "Invalid number of GPUs: 8 requested but only 7 were found.",
])
def test_a_failure_is_found_with_its_line(said: str) -> None:
    run = only(heading(Shape()) + said + "\n")
    assert [(failure.line, failure.text) for failure in run.failures] == [(2, said.strip())]


def test_a_row_that_another_program_broke_is_reported_and_not_taken() -> None:
    run = only(recorded("2.19-cuda-failed-16.txt"))
    assert [said.line for said in run.broken] == [27]
    assert len(run.rows) == 1


@pytest.mark.parametrize("word", ["0x1", "12,5", "GB", "1073741824.5.1", "--"])
def test_a_word_of_another_kind_makes_no_row(word: str) -> None:
    good = row(Shape(), 1 << 30, 365.9, 16).split()
    for place in range(4, len(good)):
        run = only(heading(Shape()) + " ".join([*good[:place], word, *good[place + 1:]]) + "\n")
        assert run.rows == ()
        assert len(run.broken) == 1


def test_a_word_too_few_or_too_many_makes_no_row() -> None:
    good = row(Shape(), 1 << 30, 365.9, 16).split()
    for place in range(5, len(good)):
        assert only(heading(Shape()) + " ".join([*good[:place], *good[place + 1:]]) + "\n").rows == ()
        assert only(heading(Shape()) + " ".join([*good[:place], "7", *good[place:]]) + "\n").rows == ()


SIZES = st.lists(st.tuples(st.integers(3, 36).map(lambda power: 1 << power), st.floats(0.02, 2000.0),
                           st.integers(0, 10**7)), min_size=1, max_size=5)


@settings(deadline=None)
@given(st.sampled_from(SHAPES), SIZES, st.integers(2, 64))
def test_whatever_is_printed_is_read_back(shape: Shape, sizes: list[tuple[int, float, int]],
                                          ranks: int) -> None:
    run = only(output(shape, [row(shape, size, busbw, ranks, wrong) for size, busbw, wrong in sizes], ranks))
    assert [found.size for found in run.rows] == [size for size, _, _ in sizes]
    for found, (_, busbw, wrong) in zip(run.rows, sizes, strict=True):
        for half in found.halves:
            assert abs(half.busbw - busbw) <= half.blur[2] * 1.001
            if shape.checked and not shape.old:
                assert half.wrong is not None and math.isclose(half.wrong, wrong, rel_tol=1e-5, abs_tol=1)


@settings(deadline=None, max_examples=tries(60))
@given(st.sampled_from(sorted(RECORDED)), st.floats(0, 1))
def test_a_file_cut_anywhere_never_invents_a_row_and_has_an_end_only_with_its_footer(
    name: str, share: float,
) -> None:
    text = recorded(name)
    cut = text[:int(share * len(text))]
    (whole,) = read(text)
    for run in read(cut):
        assert set(rates(run.rows)) <= set(rates(whole.rows))
        assert {half.times_us for found in run.rows for half in found.halves} <= {(), *(
            half.times_us for found in whole.rows for half in found.halves)}
        assert not run.complete or run.bounds == whole.bounds
        if run.complete and not name.endswith(".json"):
            assert "Avg bus bandwidth" in cut and "Out of bounds values" in cut


@settings(deadline=None)
@given(st.text())
@example("[" * 100_000)
@example("{" * 100_000)
@example('{"a":' * 50_000)
def test_any_text_is_read_or_left(text: str) -> None:
    looks_like(text)
    assert isinstance(read(text), tuple)


WORDS = st.sampled_from([
    heading(Shape()), heading(Shape(old=True)), heading(Shape(each=True, dated=True)),
    row(Shape(), 8, 1.0, 2), "# Avg bus bandwidth :", "OK",
    "# Out of bounds values : ", " ", "\n", "[0]", "0:", NCCL, WARN, "1073741824", "float", "sum", "-1",
    "nan", "N/A", "Test timeout", ": ",
    "# nThread 1 nGpus", "#  Rank 1 Group 0 Pid 1 on a device 0 [0x07] x", "size count time algbw busbw",
    "\r", "collective, ", '{"busBw":', "é",
])


@settings(deadline=None)
@given(st.lists(WORDS, max_size=40).map("".join))
def test_any_order_of_its_own_words_is_read_or_left(text: str) -> None:
    for run in read(text):
        assert all(math.isfinite(half.busbw) for found in run.rows for half in found.halves)
        assert not run.complete or "Avg bus bandwidth" in text
