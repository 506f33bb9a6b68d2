"""Sweeps over sizes: what ranks report, how it is shown, and which floors judge it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin import faults
from healthcheck.burnin.compare import FigureChange, compare
from healthcheck.burnin.comparepage import lines
from healthcheck.burnin.floors import Floors, approve, load_floors, write
from healthcheck.burnin.judge import judge
from healthcheck.burnin.judgement import BurnInOutcome, Judgement
from healthcheck.burnin.learn import learn
from healthcheck.burnin.model import BurnInStage, Object, Seat, TaskKind, TaskResult
from healthcheck.burnin.onnode.ncclog import NcclLog, choice, shown
from healthcheck.burnin.params import completed, ladder
from healthcheck.burnin.published import BY_SIZE, Setting
from healthcheck.burnin.setting import measures
from healthcheck.burnin.sizes import choices, latencies
from healthcheck.config.rulesfolder import packaged
from inventory.nodeset import fold
from tests.healthcheck.burnin import made
from tests.healthcheck.burnin.workers import FaultyGpus, under_way

EIGHT, ELEVEN = made.places(8), made.places(11)
SEATS = tuple(Seat(f"n{rank // 2}", rank % 2) for rank in range(4))
NEW = "h1:9:9 [0] NCCL INFO AllReduce: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}\n"
OLD = "h1:9:9 [0] NCCL INFO 64 Bytes -> Algo 4 proto 2 time 12.7\n"


class Bed(FaultyGpus):
    """Real ranks on this machine, and their plan of faults."""

    def run(self, *rows: dict[str, object], seats: tuple[Seat, ...] = SEATS,
            **params: int | float) -> TaskResult:
        result = self.result(rows, seats, {"bytes": 4096, "iterations": 22, "run_s": 100.0, **params},
                             TaskKind.SIZES)
        assert result.whole, [report.error for report in result.reports]
        return result


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with under_way(tmp_path_factory.mktemp("sizes")) as there:
        yield Bed(*there)


def test_every_rank_reports_the_time_of_each_size_and_how_much_of_it_was_checking(bed: Bed) -> None:
    result = bed.run(seats=SEATS[:3], bytes=100_000)    # of three, to whom no power of two can be dealt out
    assert not result.accusations and all(report.wrong_total == 0 for report in result.reports)
    assert list(latencies(result)) == [8, 64, 512, 4096, 32768, 98304]
    for report in result.reports:
        assert report.figures["verified"] == 6 * 22 and 0 < report.figures["check_share"] < 1
        assert report.figures["size_bytes"] == 98304 and choices(result) == {}


WARM, EACH = 2, 22      # iterations of each size, the largest first


def at(size: int) -> range:
    """The iterations of a size of 4096, 512, 64 and 8 bytes."""
    first = [4096, 512, 64, 8].index(size) * (WARM + EACH)
    return range(first, first + WARM + EACH)


def test_who_alters_what_it_sends_at_a_small_size_is_named(bed: Bed) -> None:
    found = bed.run(*({"fault": "flip", "node": "n1", "gpu": 0, "iteration": each} for each in at(64)))
    named = [one for one in found.accusations if one.fault == faults.WRONG_DATA]
    assert [(one.object, one.name) for one in named] == [(Object.GPU, "n1:0")]
    assert {each.check for each in found.reports[0].wrong} == {f"all-reduce float32 {form} in place, 64 bytes"
                                                               for form in ("owner-coded", "summed")}


@pytest.mark.slow
def test_an_element_of_eight_bytes_that_changes_once_it_has_arrived_is_that_rank_s(bed: Bed) -> None:
    found = bed.run({"fault": "alters", "when": "exit", "node": "n0", "gpu": 1, "iteration": at(8)[9],
                     "at": 0.0})
    named = [one for one in found.accusations if one.fault == faults.WRONG_DATA]
    assert [(one.object, one.name) for one in named] == [(Object.GPU, "n0:1")]
    [wrong] = found.reports[1].wrong
    assert (wrong.iteration, wrong.count, wrong.check.rpartition(", ")[2]) == (at(8)[9], 1, "8 bytes")


@given(st.integers(8, 1 << 45), st.integers(2, 100))
def test_sizes_rise_from_eight_bytes_to_the_largest_in_whole_elements_or_rows(most: int, factor: int) -> None:
    found = ladder(most, factor)
    assert found[0] == 8 and found == sorted(set(found))
    assert most - 16384 < found[-1] <= most and all(size % (4 if size <= 16384 else 16384) == 0
                                                    for size in found)


def test_a_sweep_that_would_not_end_or_has_no_size_is_refused() -> None:
    for told in ({"factor": 1}, {"factor": 0}, {"bytes": 7}):
        with pytest.raises(ValueError, match="expected at least 8 bytes and a factor of at least 2"):
            completed("sizes", told, gpu=True)


def test_the_log_shows_transports_by_their_channels_and_not_by_what_is_mentioned() -> None:
    # Forms of NCCL 2.20 to 2.28: src/transport/net.cc, p2p.cc, shm.cc, net_ib.cc, net_socket.cc.
    log = (b"gpu001:70:79 [0] NCCL INFO NET/IB : No device found.\n"
           b"gpu001:70:79 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>\n"
           b"gpu001:70:79 [0] NCCL INFO Using network Socket\n"
           b"gpu001:70:80 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n"
           b"gpu001:70:80 [0] NCCL INFO Channel 01/0 : 1[0] -> 0[0] [receive] via NET/Socket/0\n")
    assert shown(log) == {"nccl_via": "NET/Socket 2", "nccl_gdrdma": "0", "nccl_nvls": "0"}
    log = (b"NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
           b"Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
           b"Channel 01/0 : 3[3] -> 8[0] [send] via NET/IB/11(1)/GDRDMA/Shared\n"
           b"Channel 02/0 : 1[1] -> 8[1] [send] via NET/AWS Libfabric/0/GDRDMA\n"
           b"Channel 03/0 : 0[0] -> 2[2] via P2P/CUMEM/read\n"
           b"Channel 04 : 0[0] -> 4[4] via SHM/direct/direct\n")
    assert shown(log) == {"nccl_via": "NET/AWS Libfabric 1, NET/IB 2, P2P/CUMEM 1, SHM/direct 1",
                          "nccl_gdrdma": "3", "nccl_nvls": "0"}
    assert shown(b"") == {"nccl_log": "nothing was logged"}
    assert shown(b"one rank needs no channel\n")["nccl_via"] == "none"


@given(st.binary(max_size=300))
def test_no_log_makes_the_facts_long_or_unprintable(log: bytes) -> None:
    for text in shown(b" via NET/" + log + b"\n" + log).values():
        assert text.isprintable() and len(text) < 400


def test_both_forms_of_nccl_s_log_name_algorithm_and_protocol() -> None:
    assert choice(NEW.encode() * 3 + OLD.encode(), 64) == "RING/LL"
    assert choice(OLD.encode(), 64) == "NVLS/SIMPLE"
    assert choice(NEW.replace("AllReduce", "AllGather").encode() + NEW.encode().replace(b"64", b"640"),
                  64) == ""
    assert choice(OLD.replace("Algo 4", "Algo 99").encode(), 64) == "99/SIMPLE"


@given(st.binary(max_size=300), st.integers(1, 1 << 40))
def test_whatever_a_log_holds_it_is_read(log: bytes, size: int) -> None:
    assert isinstance(choice(NEW.encode()[:40] + log + f" {size} Bytes -> Algo 7 proto".encode() + log, size),
                      str)


def test_of_a_log_only_what_came_since_counts() -> None:
    environment = {"NCCL_DEBUG": "INFO"}
    log = NcclLog(environment)
    with open(environment["NCCL_DEBUG_FILE"], "w") as file:
        file.write(OLD)
        file.flush()
        since = log.length()
        file.write(NEW)
    assert (log.chosen(64, since), log.chosen(64, 0), log.chosen(8, 0)) == ("RING/LL", "NVLS/SIMPLE", "")
    os.close(log.file)
    assert NcclLog({}).chosen(64, NcclLog({}).length()) == ""


def swept(node: str = "gpu001", nvls: str = "", chose: str = "", tests: int = 1,
          **figures: float) -> TaskResult:
    environment = {"NCCL_NVLS_ENABLE": nvls} if nvls else {}
    task = made.task(f"node-sizes-{nvls}-{node}", BurnInStage.NODE, TaskKind.SIZES, [node],
                     environment=environment, factor=64, tests=tests)
    return made.result(task, {**made.swept(), **figures}, facts={**made.NCCL, "nccl_chose": chose})


def test_sizes_that_were_not_planned_are_not_taken() -> None:
    assert list(latencies(swept(latency_us_16=3.0, latency_us_512=0.0))) == [8, 32768, 1 << 20]
    assert latencies(swept(size_bytes=1e300)) == {} and latencies(swept(size_bytes=-1.0)) == {}
    assert choices(swept(chose="8:RING/LL 9:<b>/x 512:TREE/LL128 0:X/Y")) == {8: "RING/LL", 512: "TREE/LL128"}


def test_each_size_is_a_setting_of_its_own_and_so_is_nvls_on_and_off() -> None:
    of = {nvls: list(measures([swept(nvls=nvls)], {place.node: place for place in EIGHT}, made.HARDWARE))
          for nvls in ("", "2", "0")}
    first = of[""][0]
    assert first.setting == Setting(BY_SIZE, "node", made.H100, 8, 1, 0, 0, 8, "auto")
    assert first.value == pytest.approx(8 / (18.00008 * 1e3) * 2 * 7 / 8) and first.object is Object.NODE
    assert {nvls: {one.setting.algo for one in found} for nvls, found in of.items()} == {
        "": {"auto"}, "2": {"nvls-on"}, "0": {"nvls-off"}}
    assert [one.setting.size for one in of["0"]] == [8, 512, 32768, 1 << 20]


def judged(results: list[TaskResult], floors: Floors = made.FLOORS) -> Judgement:
    return judge(made.burnt(EIGHT, results), floors)


def slower(share: float, node: str = "gpu004", *sizes: int) -> list[TaskResult]:
    usual = made.swept(made.spread(3))
    figures = {f"latency_us_{size}": usual[f"latency_us_{size}"] / share for size in sizes or (8,)}
    return made.changed(made.sound(EIGHT), f"node-sizes-{node}", "*", figures=figures)


def test_without_a_learned_floor_no_size_accuses_and_with_one_it_does() -> None:
    assert judged(slower(0.3)).verdict is BurnInOutcome.PASS
    proposed = learn([made.burnin(EIGHT, made.sound(EIGHT))], made.RULES, 0).proposal.floors
    assert [one.setting.size for one in proposed if one.setting.figure == BY_SIZE] == [8, 512, 32768, 1 << 20]
    assert all(one.floor == pytest.approx(0.67 * one.median, rel=0.02) for one in proposed
               if one.setting.figure == BY_SIZE)
    floors = replace(made.FLOORS, learned=proposed)
    assert judged(slower(0.7), floors).verdict is BurnInOutcome.PASS      # what may be another day's noise
    [accused] = judged(slower(0.5), floors).accusations
    assert (accused.object, accused.name, accused.fault) == (Object.NODE, "gpu004", faults.SLOW)
    assert accused.why.startswith("an all-reduce of 8 B took 35.89 us (auto), busbw 0.0003901 GB/s, floor "
                                  "0.000") and "learned" in accused.why


def test_a_size_far_below_that_of_equals_is_no_pass_though_no_floor_judges_it() -> None:
    found = judged(slower(0.1, "gpu004", 8, 512))
    unknown = {one.node: one.why for one in found.outcomes if one.outcome is not BurnInOutcome.PASS}
    [why] = unknown.pop("gpu004")       # once a node, not once a size
    assert why.startswith("an all-reduce of 8 B took 179.5 us (auto), busbw 7.80")
    assert why.endswith(" is 10% of the median of 8 equals, and no floor says that it may be")
    assert not unknown and not found.accusations
    few = [one for one in slower(0.1) if not set(one.task.nodes) & {"gpu005", "gpu006", "gpu007", "gpu008"}]
    whys = [why for one in judged(few).outcomes for why in one.why]
    assert not any("no floor says that it may be" in why for why in whys)


def test_floors_of_sizes_are_approved_and_hold_for_the_same_test_of_nvls_alone(tmp_path: Path) -> None:
    (tmp_path / "burnin.yaml").write_text("age: {days: 30}\n")
    on = [swept(place.node, "2") for place in EIGHT]
    proposal = learn([made.burnin(EIGHT, on)], made.RULES, 0).proposal
    write(tmp_path / "proposed.yaml", proposal)
    approve(tmp_path / "proposed.yaml", tmp_path, "somebody", "2026-11-22", made.RULES)
    floors = load_floors([packaged(), tmp_path])
    held = {one.setting.algo: one.floor for one in judged([*on, swept("gpu001", "0")], floors).held
            if one.setting.size == 8}
    assert held["nvls-off"] is None and held["nvls-on"] is not None and held["nvls-on"].origin == "learned"


def test_sizes_that_nothing_judged_are_unknown_where_the_site_does_not_accept_them() -> None:
    strict = Floors(replace(made.RULES, accept={"nccl": ()}))
    found = judged(made.sound(EIGHT), strict)
    whys = [why for one in found.outcomes for why in one.why if BY_SIZE in why]
    # once a node, not once a size
    assert len(whys) == 8 and {one.outcome for one in found.outcomes} == {BurnInOutcome.UNKNOWN}


def test_a_sweep_that_reports_no_size_leaves_its_stage_undone() -> None:
    none = {name: 0.0 for name in made.swept() if name.startswith("latency")}
    [one] = [one for one in judged(made.changed(made.sound(EIGHT), "node-sizes-gpu002", "*",
                                                figures=none)).outcomes if one.node == "gpu002"]
    assert one.outcome is BurnInOutcome.UNKNOWN and one.why == ("node: sizes reported no figure",)


@pytest.mark.parametrize(("without", "done"),
                         [({}, True), (None, False), (dict.fromkeys(made.swept(), 0.0), False)],
                         ids=["both", "the other was left out", "the other told nothing"])
def test_with_and_without_nvls_are_two_tests_and_one_of_them_is_not_both(
    without: dict[str, float] | None, done: bool,
) -> None:
    others = [result for result in made.sound(EIGHT) if result.task.id != "node-sizes-gpu001"]
    other = [swept("gpu001", "0", tests=2, **without)] if without is not None else []
    [one] = [one for one in judged([*others, swept("gpu001", "2", tests=2), *other]).outcomes
             if one.node == "gpu001"]
    assert (one.outcome, one.why) == ((BurnInOutcome.PASS, ())
                                      if done else (BurnInOutcome.UNKNOWN,
                                                    ("node: sizes was measured in 1 of its 2 tests",)))


def test_a_test_with_nvls_in_which_nccl_did_not_use_it_says_so() -> None:
    results = [*made.sound(EIGHT), *(swept(f"gpu00{at}", "2", "8:RING/LL 512:TREE/LL") for at in range(1, 7)),
               swept("gpu007", "2"), swept("gpu008", "2", "8:RING/LL 1048576:NVLS/SIMPLE"),
               swept("gpu001", "0", "8:RING/LL")]
    said = [remark for remark in judged(results).remarks if "NVLS" in remark]
    assert said == ["NCCL used NVLS at no size, though the SKU has it and the settings allow it: it chose "
                    "RING, TREE (gpu001, "
                    "gpu002, gpu003, gpu004 and 2 more)",
                    "whether NCCL used NVLS is unknown: its log names no algorithm (gpu007)"]


def test_a_size_at_which_nccl_chooses_otherwise_after_a_change_is_reported() -> None:
    before, after = (made.burnin(EIGHT, [swept(chose=chose)], run=chose[-2:])
                     for chose in ("8:RING/LL 512:RING/LL", "8:RING/LL 512:TREE/LL"))
    assert "  NCCL's choice at 512 B in node, auto: RING/LL -> TREE/LL" in lines(compare(before, after), fold)
    assert sum("NCCL's choice" in line for line in lines(compare(before, after), fold)) == 1


def test_two_runs_are_compared_size_by_size_and_the_sizes_share_the_chance_of_being_wrong() -> None:
    def run(count: int, share: float) -> object:
        there = made.places(count)
        results = made.sound(there, pairs=False)
        for one in results:
            if one.task.kind is TaskKind.SIZES:
                usual = one.reports[0].figures["latency_us_8"]
                results = made.changed(results, one.task.id, "*", figures={"latency_us_8": usual / share})
        return made.burnin(there, results, run=f"r{share}", asked=made.ASKED)

    def changes(count: int) -> dict[int, FigureChange]:
        found = compare(run(count, 1.0), run(count, 0.9))     # type: ignore[arg-type]
        return {one.setting.size: one.change for one in found.figures if one.setting.figure == BY_SIZE}

    assert changes(11) == {8: FigureChange.SLOWER, 512: FigureChange.SAME, 32768: FigureChange.SAME,
                           1 << 20: FigureChange.SAME}
    # eight tell a change of one figure, not of any of four
    assert set(changes(8).values()) == {FigureChange.TOO_FEW}
    said = list(lines(compare(run(11, 1.0), run(11, 0.9)), fold))       # type: ignore[arg-type]
    assert any(line.startswith("  -10.0% (-10.0% to -10.0%)")
               and line.endswith(f"{BY_SIZE}, node, {made.H100}, 1 x 8, 8 B, auto") for line in said)
    assert (f"  +0.0% to +0.0%  3 sizes from 512 B to 1 MiB, 11 compared: {BY_SIZE}, node, {made.H100}, 1 x "
            "8, auto" in said)
