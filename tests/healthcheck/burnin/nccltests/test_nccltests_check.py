"""Whether a run counts: the ranks its figures fit, its arithmetic, wrong values, and a floor at one size."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.burnin.nccltests import check
from healthcheck.burnin.nccltests.formats import read
from healthcheck.burnin.nccltests.model import Half, NcclRow, NcclRun
from healthcheck.burnin.nccltests.parse import parse
from tests.healthcheck.burnin.nccltests.printer import RECORDINGS, Shape, heading, output, row

LARGE = 1 << 33


def recorded(name: str) -> NcclRun:
    (run,) = read((RECORDINGS / name).read_text())
    return run


def of(ranks: int, *rates: float, listed: int | None = None) -> NcclRun:
    (run,) = parse(output(Shape(), [row(Shape(), LARGE, rate, ranks) for rate in rates], listed or ranks))
    return run


@pytest.mark.parametrize(("name", "ranks"), [
    ("2.0-v100-16.txt", 16), ("2.13-h100-16.txt", 16), ("2.17-srun-timestamps-72.txt", 72),
    ("2.19-iterations-96.txt", 96),
    ("2.0-all-gather.txt", 8), ("2.19-json-8.json", 8),
])
def test_published_figures_tell_how_many_ranks_they_are_of(name: str, ranks: int) -> None:
    run = recorded(name)
    assert check.ranks(run) == (ranks, ranks)
    assert check.slips(run) == ()
    assert check.problems(run, ranks) == ()
    assert check.problems(run, ranks * 2) != ()


def test_a_page_that_speaks_of_64_gpus_shows_figures_of_96() -> None:
    assert check.problems(recorded("2.19-iterations-96.txt"),
                          64)[-1] == "its figures are of 96 ranks, and 64 were started"


@settings(deadline=None)
@given(st.integers(2, 4096), st.lists(st.floats(40, 900), min_size=1, max_size=4))
def test_the_ranks_that_ran_are_always_among_those_that_its_figures_allow(
    ranks: int, rates: list[float],
) -> None:
    run = of(ranks, *rates, listed=8)
    said = check.ranks(run)
    assert said is not None and said[0] <= ranks <= said[1]
    assert check.slips(run) == ()


@settings(deadline=None)
@given(st.integers(2, 64), st.integers(2, 64), st.floats(100, 900))
def test_up_to_64_ranks_no_other_number_is_allowed(ran: int, launched: int, rate: float) -> None:
    run = of(ran, rate, listed=launched)
    assert (check.problems(run, launched) == ()) == (ran == launched)


def test_where_the_name_is_lost_rates_above_algbw_show_an_all_reduce() -> None:
    run = recorded("2.13-h100-16.txt")
    assert run.test == ""
    assert check.collective(run) == "all_reduce"
    assert check.ranks(replace(run, test="sendrecv_perf")) is None


@pytest.mark.parametrize(("test", "said"), [
    ("all_reduce_perf_mpi", "all_reduce"), ("alltoallv_perf", "alltoallv"), ("alltoall_perf", "alltoall"),
    ("AllReduce", "all_reduce"),
    ("reduce_scatter_perf", "reduce_scatter"), ("reduce_perf", "reduce"), ("scatter_perf", "scatter"),
    ("other", ""),
])
def test_programs_are_known_by_their_names(test: str, said: str) -> None:
    assert check.collective(NcclRun(test)) == said


def test_columns_that_moved_show() -> None:
    run = of(16, 380.0)
    (found,) = run.rows
    half = found.halves[0]
    moved = replace(found, out=replace(half, algbw=half.busbw, busbw=half.algbw))
    assert check.slips(replace(run, rows=(moved,))) == (moved,)
    assert any("algbw is not size over time" in said for said in check.problems(replace(run, rows=(moved,))))


@pytest.mark.parametrize("off", [0.9949, 1.0051])
def test_half_a_percent_is_no_slip_and_more_is(off: float) -> None:
    exact = Half(1e5, 85.899346, 161.061274)

    def slips(by: float) -> bool:
        return check.slips(NcclRun("all_reduce_perf",
                                   rows=(NcclRow(0, LARGE, 1, "float", "sum", -1,
                                                 replace(exact, algbw=exact.algbw * by), None),))) != ()

    assert slips(off)
    assert not slips(1 + (off - 1) * 0.95)


def test_times_of_the_processor_are_not_compared_with_rates_of_the_device() -> None:
    text = output(Shape(), [row(Shape(), LARGE, 380.0, 16)], 16)
    (run,) = parse(text.replace("      time", "   cputime").replace(" 42", " 11"))
    assert run.cpu_time and len(run.rows) == 1
    assert check.slips(run) == ()
    assert check.slips(replace(run, cpu_time=False)) == run.rows


@pytest.mark.parametrize(("name", "said"), [
    ("2.19-wrong-8.txt", "data came out wrong: 16777216 elements"),
    ("2.19-killed-16.txt", "it has no footer: its table stops after size 536870912"),
    ("2.19-cuda-failed-16.txt",
     "it failed: 5438.3worker-1: Test CUDA failure common.cu:501 'an illegal memory access was encountered'"),
    ("2.19-timeout-16.txt", "it failed: 5438.3worker-0: Test timeout (300s) common.cu:523"),
    ("2.19-without-mpi.txt",
     "rank 0 is listed 4 times: several runs, not one (nccl-tests without MPI under a launcher)"),
    ("2.19-json-no-gpu.json", "it has no footer: its table stops before its first size"),
    ("rccl-16.json", "this format has no footer, so whether the run completed is unknown"),
])
def test_why_a_run_does_not_count(name: str, said: str) -> None:
    assert check.problems(recorded(name))[0] == said


def test_wrong_values_of_versions_that_do_not_count_them_show_in_the_footer() -> None:
    (run,) = parse(output(Shape(old=True), [row(Shape(old=True), LARGE, 50.0, 16)], 16, wrong=2))
    assert check.problems(run, 16) == ("data came out wrong: 2 elements",)


def test_an_ok_of_a_run_that_verified_nothing_is_none() -> None:
    unchecked = Shape(checked=False)
    (run,) = parse(output(unchecked, [row(unchecked, LARGE, 380.0, 16)], 16))
    assert check.problems(run) == ("no value was verified (-c 0)",)


def test_a_run_that_does_not_count_is_named_however_fast() -> None:
    run = of(16, 380.0)
    for broken in (replace(run, average=None), replace(run, copies=2), replace(run, ranks=8)):
        assert check.problems(broken, 16)


def test_figures_that_disagree_with_each_other_are_of_no_number_of_ranks() -> None:
    text = heading(Shape()) + row(Shape(), LARGE, 380.0, 16) + row(Shape(), LARGE, 380.0, 8)
    (run,) = parse(text)
    said = check.ranks(run)
    assert said is not None and check.ranks_text(said) == "no number of ranks"


def test_rates_of_the_bus_that_no_number_of_ranks_can_have_are_of_none() -> None:
    run = of(16, 380.0)
    faster = replace(run, rows=tuple(
        replace(one, out=replace(half, busbw=3 * half.algbw), into=None) for one in run.rows
        for half in one.halves[:1]))
    said = check.ranks(faster)
    assert said is not None and check.ranks_text(said) == "no number of ranks"
