"""Who is guilty by watching alone: each fault among healthy ranks, and what proves nothing."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin import faults
from healthcheck.burnin.late import late
from healthcheck.burnin.model import (
    BurnInStage,
    Object,
    RankEnd,
    RankProgress,
    RankReport,
    Seat,
    Task,
    TaskKind,
)
from healthcheck.burnin.watch import Patience, RankState, StopReason, overdue, trouble
from healthcheck.burnin.wire import PHASES

SEATS = tuple(Seat(f"n{rank // 4}", rank % 4) for rank in range(8))
TASK = Task("t", BurnInStage.ALL, TaskKind.ALLREDUCE, SEATS, 60)
PATIENCE = Patience()
NOW = 100.0


def ranks(**changes: dict[int, Any]) -> list[RankState]:
    """Eight ranks that are in the collective of iteration 20, heard of just now, with what is changed of
    some.
    """
    usual = [RankState(seat, joined=1.0, heard=NOW,
                       progress=RankProgress(20, "send", NOW - 0.02, NOW - 0.1, "S")) for seat in SEATS]
    for name, of in changes.items():
        for rank, value in of.items():
            usual[rank] = replace(usual[rank], **{name: value})
    return usual


def at(iteration: int, phase: str, *, moved: float = 0.02, tick: float = 0.1,
       state: str = "S") -> RankProgress:
    return RankProgress(iteration, phase, NOW - moved, NOW - tick, state)


def look(seen: list[RankState], now: float = NOW, *, went: float | None = NOW - 10, task: Task = TASK,
         patience: Patience = PATIENCE) -> StopReason | None:
    return trouble(task, seen, 0.0, went, now, patience)


def named(found: StopReason | None, *words: str) -> dict[str, str]:
    """Who is accused of what; the first with these words."""
    assert found is not None
    assert all(each.why and each.tests_for == ("t",) for each in found.accusations)
    assert all(word in found.accusations[0].why for word in words), found.accusations[0].why
    return {each.name if each.object is not Object.UNEXPLAINED else "?": each.fault
            for each in found.accusations}


def waiting(seconds: float, **changes: dict[int, Any]) -> list[RankState]:
    """The same where no one has moved for so long."""
    seen = ranks(**changes)
    return [each if rank in changes.get("progress", {})
            else replace(each, progress=at(20, "send", moved=seconds)) for rank, each in enumerate(seen)]


def test_while_all_go_on_there_is_no_trouble() -> None:
    assert look(ranks()) is None
    assert look(ranks(done=dict.fromkeys(range(8), True))) is None


# Ends

def test_a_signal_is_the_cause_and_the_errors_after_it_are_not() -> None:
    seen = ranks(ended={4: NOW - 0.6} | dict.fromkeys((3, 5), NOW - 0.65), signal={4: 9},
                 raised=dict.fromkeys((3, 5), "reset by peer"))
    assert named(look(seen), "signal 9 (SIGKILL), in send of iteration 20") == {"n1:0": faults.DEAD}


def test_ends_are_left_to_settle_because_words_from_other_nodes_come_later() -> None:
    seen = ranks(reported={3: NOW - 0.3}, raised={3: "reset by peer"})
    assert look(seen) is None
    assert look(seen, NOW + 0.3) is not None


@pytest.mark.parametrize("number", [6, 5])
def test_a_process_that_aborts_because_others_are_gone_is_not_the_cause(number: int) -> None:
    seen = ranks(ended={2: NOW - 0.9, 4: NOW - 0.8}, signal={2: number, 4: 11},
                 progress={4: at(20, "compute")})
    assert named(look(seen)) == {"n1:0": faults.DEAD}


def test_an_error_at_its_own_work_is_the_cause_and_those_in_the_collective_are_not() -> None:
    everyone = dict.fromkeys(range(8), NOW - 0.9)
    seen = ranks(reported=everyone | {4: NOW - 0.6}, raised=dict.fromkeys(range(8), "reset")
                 | {4: "illegal access"}, progress={4: at(20, "verify")})
    assert named(look(seen), "illegal access") == {"n1:0": faults.RAISED}


def test_of_errors_at_their_own_work_the_first_is_the_cause() -> None:
    seen = ranks(reported={1: NOW - 0.7, 6: NOW - 0.8}, raised={1: "a", 6: "b"},
                 progress=dict.fromkeys((1, 6), at(20, "compute")))
    assert named(look(seen)) == {"n1:2": faults.RAISED}


def test_errors_that_all_have_in_the_collective_accuse_no_one() -> None:
    found = look(ranks(reported=dict.fromkeys(range(8), NOW - 0.6),
                       raised=dict.fromkeys(range(8), "timed out")))
    assert named(found, "pair tests can tell; first, n0:0 said: timed out") == {"?": faults.RAISED}


def test_errors_that_several_have_while_connections_are_made_accuse_no_one_and_one_alone_is_its_own() -> None:
    lost = ranks(reported={1: NOW - 0.8, 6: NOW - 0.7}, raised={1: "closed by peer", 6: "closed by peer"},
                 progress=dict.fromkeys((1, 6), at(0, "setup")))
    assert named(look(lost), "2 of 8 ranks failed while setting up the group") == {"?": faults.RAISED}
    alone = ranks(reported={1: NOW - 0.8}, raised={1: "out of memory"}, progress={1: at(0, "setup")})
    assert named(look(alone)) == {"n0:1": faults.RAISED}


def test_an_end_without_a_report_is_reported_with_its_exit_code_and_last_words() -> None:
    found = look(ranks(ended={4: NOW - 0.6}, code={4: 3}, last_line={4: "out of memory"},
                       progress={4: at(0, "setup")}))
    words = "exit 3, without a report, in setup of iteration 0: out of memory"
    assert named(found, words) == {"n1:0": faults.DEAD}


def test_all_ranks_of_a_node_killed_are_the_node_and_two_on_different_nodes_are_both() -> None:
    assert named(look(ranks(ended=dict.fromkeys(range(4, 8), NOW - 0.6),
                            signal=dict.fromkeys(range(4, 8), 9)))) == {"n1": faults.DEAD}
    assert named(look(ranks(ended=dict.fromkeys((1, 6), NOW - 0.6), signal=dict.fromkeys((1, 6), 9)))) == {
        "n0:1": faults.DEAD, "n1:2": faults.DEAD}


def test_a_node_whose_agent_went_away_is_named_and_not_the_errors_after_it() -> None:
    seen = ranks(lost=dict.fromkeys(range(4, 8), NOW - 0.6),
                 lost_why=dict.fromkeys(range(4, 8), "it has hung up"),
                 reported=dict.fromkeys(range(4), NOW - 0.6), raised=dict.fromkeys(range(4), "reset by peer"))
    assert named(look(seen), "it has hung up") == {"n1": faults.LOST}


def test_every_node_gone_at_once_is_the_heads_own_trouble() -> None:
    assert named(look(ranks(lost=dict.fromkeys(range(8), NOW - 0.6)))) == {"?": faults.LOST}


# Before the go

def test_who_does_not_join_is_absent_and_the_others_only_wait() -> None:
    seen = ranks(joined={4: None})
    assert look(seen, 59.0, went=None) is None
    assert named(look(seen, 61.0, went=None)) == {"n1:0": faults.ABSENT}
    assert named(look(ranks(joined=dict.fromkeys(range(4), None)), 61.0, went=None)) == {"n0": faults.ABSENT}


def test_who_dies_before_it_joins_is_dead_and_not_absent() -> None:
    seen = ranks(joined={4: None}, ended={4: NOW - 1}, signal={4: 11},
                 progress={4: RankProgress(-1, "start", NOW, NOW, "S")})
    assert named(look(seen, went=None)) == {"n1:0": faults.DEAD}


# Stopped and hung

def test_a_stopped_process_is_named_by_its_state_within_two_seconds() -> None:
    seen = ranks(progress={4: at(20, "compute", moved=1.6, tick=1.6, state="T")})
    found = look(seen)
    assert named(found, "state T") == {"n1:0": faults.STOPPED}
    assert found is not None and found.since == NOW - 1.6


def test_a_process_that_does_not_answer_is_named_where_the_others_do() -> None:
    assert named(look(ranks(progress={4: at(20, "compute", moved=1.6, tick=1.6, state="D")}))) == {
        "n1:0": faults.STOPPED}


def test_where_all_are_late_with_their_signs_of_life_the_machine_is_busy() -> None:
    assert look(ranks(progress={rank: at(20, "compute", moved=2, tick=1.6 + rank / 10)
                                for rank in range(8)})) is None


def test_news_that_come_late_are_not_the_ranks_fault() -> None:
    seen = ranks(heard={4: NOW - 2.5}, progress={4: RankProgress(20, "compute", NOW - 2.6, NOW - 2.6, "S")})
    assert look(seen) is None


@pytest.mark.parametrize("kind", [kind for kind in TaskKind if kind.together])
def test_a_rank_that_lives_and_stands_still_is_the_one_furthest_behind(kind: TaskKind) -> None:
    seen = waiting(5.2, progress={4: at(20, "compute", moved=5.3)})
    found = look(seen, task=replace(TASK, kind=kind))
    assert named(found, "alive", "the others are ahead: in send of iteration 20") == {"n1:0": faults.HUNG}
    assert found is not None and found.since == NOW - 5.3
    assert look(waiting(4.5, progress={4: at(20, "compute", moved=4.6)})) is None


def test_long_iterations_are_waited_for_five_times() -> None:
    # 20 iterations in 190 s: 9 s each.
    seen = [replace(each, progress=replace(each.progress, moved=200.0, alive=239.9), heard=240.0)
            for each in ranks()]
    seen[4] = replace(seen[4], progress=RankProgress(20, "compute", 200.0, 239.9, "S"))
    assert look(seen, 240.0, went=2.0) is None
    seen = [replace(each, heard=260.0, progress=replace(each.progress, alive=259.9)) for each in seen]
    assert named(look(seen, 260.0, went=2.0)) == {"n1:0": faults.HUNG}


def test_a_start_is_waited_for_longer() -> None:
    seen = waiting(5.2, progress={rank: at(-1, "setup", moved=50) for rank in range(8)})
    assert look(seen, went=NOW - 51) is None
    seen[4] = replace(seen[4], progress=at(-1, "wait", moved=62))
    assert named(look(seen, NOW + 12, went=NOW - 51)) == {"n1:0": faults.HUNG}


def test_the_more_ranks_the_longer_a_start_is_waited_for() -> None:
    assert PATIENCE.start(8) < 70 and 250 < PATIENCE.start(2048) < 300
    assert replace(PATIENCE, setup=600).start(8) > 600
    many = replace(TASK, seats=tuple(Seat(f"n{rank // 8}", rank % 8) for rank in range(2048)))
    seen = [RankState(seat, joined=1.0, heard=NOW, progress=at(-1, "setup", moved=90)) for seat in many.seats]
    seen[4] = replace(seen[4], progress=at(-1, "wait", moved=91))
    assert look(seen, went=NOW - 91, task=many) is None
    assert named(look(seen, NOW + 250, went=NOW - 91, task=many)) == {"n0:4": faults.HUNG}


@pytest.mark.parametrize("phase", ["setup", "send"])
def test_who_is_behind_and_waits_for_others_itself_is_not_accused(phase: str) -> None:
    # A cut path: its two ends wait in the collective, and the others have gone on to the next one.
    found = look(waiting(70,
                         progress=dict.fromkeys((1, 6), at(19 if phase == "send" else -1, phase, moved=71))),
                 went=NOW - 200)
    assert named(found, "n0:1, n1:2", "pair tests can tell") == {"?": faults.HUNG}


def test_who_is_behind_in_the_collective_because_it_is_stopped_is_accused() -> None:
    seen = waiting(6, progress={4: at(19, "send", moved=6, tick=0.5, state="T")})
    assert named(look(seen)) == {"n1:0": faults.STOPPED}


@pytest.mark.parametrize("said", [
    "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.5]:30812",
    "DistNetworkError: connectFullMesh failed: Connection timed out",
    "DistBackendError: NCCL error: ncclRemoteError: remote process exited",
    "ConnectionResetError: [Errno 104] Connection reset by peer", "OSError: [Errno 113] No route to host",
    "RuntimeError: the key 0/4: timeout after 60 s",
    "DistBackendError: NCCL error ... ncclSystemError: System call (e.g. socket, malloc) or external library "
    "call failed",
    "NET/IB : Got completion from peer 10.0.0.7<4791> with error 12, opcode 0, len 0, vendor err 129",
])
@pytest.mark.parametrize("phase", ["setup", "warm", "compute", "send", "verify"])
def test_whoever_raises_first_over_a_cut_path_is_not_convicted(said: str, phase: str) -> None:
    # The other end has not even noticed.
    found = look(ranks(reported={6: NOW - 0.7}, raised={6: said}, progress={6: at(0, phase)}))
    assert named(found, "first, n1:2 said: ") == {"?": faults.RAISED}


@pytest.mark.parametrize("said", ["something new", ""])
def test_an_error_in_setup_that_does_not_show_whose_it_is_accuses_no_one(said: str) -> None:
    assert named(look(ranks(reported={6: NOW - 0.7}, raised={6: said}, progress={6: at(0, "setup")}))) == {
        "?": faults.RAISED}


@pytest.mark.parametrize("said", [
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB",
    "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    "RuntimeError: CUDA error: invalid device ordinal", "ImportError: cannot import name 'x'",
    "ValueError: dtype 'x', expected fp32, bf16 or fp16",
])
def test_an_error_in_setup_that_is_plainly_its_own_is_named_though_others_fail_after_it(said: str) -> None:
    seen = ranks(reported={6: NOW - 0.8, 1: NOW - 0.7}, raised={6: said, 1: "Connection closed by peer"},
                 progress=dict.fromkeys((1, 6), at(0, "setup")))
    assert named(look(seen)) == {"n1:2": faults.RAISED}


def test_a_collective_in_which_all_wait_accuses_no_one() -> None:
    assert named(look(waiting(6)), "pair tests can tell") == {"?": faults.HUNG}


def test_a_node_that_fell_silent_while_the_others_wait_is_lost() -> None:
    seen = waiting(6)
    seen[4:] = [
        replace(each, heard=NOW - 6, progress=replace(each.progress, moved=NOW - 6.2, alive=NOW - 6.1))
        for each in seen[4:]]
    assert named(look(seen)) == {"n1": faults.LOST}


def test_ranks_that_work_each_for_itself_may_take_their_time() -> None:
    assert look(waiting(50, progress={4: at(0, "compute", moved=55)}),
                task=replace(TASK, kind=TaskKind.MEMORY)) is None


def over(seen: list[RankState], now: float = NOW, *, ended: float = NOW - 1, went: float | None = 2.0,
         task: Task = TASK) -> StopReason | None:
    """What is judged once the task's time is over, since `ended`."""
    return overdue(task, seen, ended, went, now, PATIENCE)


@pytest.mark.parametrize("world", [2, 5, 8])
def test_in_no_snapshot_of_healthy_ranks_that_are_merely_slow_is_one_accused(world: int) -> None:
    # Iterations of 0.7 s, of which each rank spends another part at its own work; looked at whenever it may
    # be that time is over.
    chance = random.Random(world)
    task = replace(TASK, seats=SEATS[:world])
    least_far = 0
    for _ in range(1000):
        now = chance.uniform(100, 110)
        seen = []
        for seat in task.seats:
            iteration, within = divmod(now + chance.uniform(-0.15, 0.15), 0.7)
            phase, since = ("send", within - 0.3) if within > 0.3 else ("compute", within)
            seen.append(RankState(seat, joined=1.0, heard=now,
                                  progress=RankProgress(int(iteration), phase, now - since, now - 0.1, "S")))
        least_far += len({each.place for each in seen}) > 1
        for ended in (now - 0.01, now - 0.3, now - 2.0):
            found = trouble(task, seen, 0.0, 2.0, now, PATIENCE) or over(seen, now, ended=ended, task=task)
            assert found is None or named(found) == {"?": faults.SLOW}
    assert least_far > 250      # or the snapshots would be none of those that accused


def test_a_task_that_still_moves_after_its_time_is_slow_and_one_that_does_not_is_waited_for() -> None:
    behind = {4: at(19, "compute", moved=0.5)}
    assert named(over(ranks(progress=behind))) == {"?": faults.SLOW}
    still = waiting(3, progress={4: at(19, "compute", moved=3)})
    assert over(still) is None
    later = waiting(6, progress={4: at(19, "compute", moved=6)})
    assert named(look(later)) == {"n1:0": faults.HUNG}


def test_what_never_moves_again_is_given_up_in_the_end_and_accuses_no_one() -> None:
    assert named(over(waiting(100), ended=NOW - 90)) == {"?": faults.HUNG}


def test_of_ranks_that_work_alone_the_one_that_stands_still_hangs_and_the_one_that_moves_is_slow() -> None:
    alone = replace(TASK, kind=TaskKind.KNOWN)
    done = dict.fromkeys((0, 1, 2, 3, 5, 6, 7), True)
    assert named(over(ranks(done=done, progress={4: at(7, "compute", moved=6)}),
                      task=alone)) == {"n1:0": faults.HUNG}
    assert named(over(ranks(done=done), task=alone), "as 7 of 8 ranks were") == {"n1:0": faults.SLOW}
    assert named(over(ranks(), task=alone)) == {"?": faults.SLOW}
    assert named(over(ranks(progress={4: at(7, "compute", moved=6)}), task=alone)) == {"n1:0": faults.HUNG}
    one = replace(alone, seats=SEATS[:1])
    assert named(over(ranks()[:1], task=one)) == {"?": faults.SLOW}
    assert named(over(ranks(joined={4: None}), went=None)) == {"n1:0": faults.ABSENT}


times = st.none() | st.floats(0, 200)
seen = st.builds(RankState, st.sampled_from(SEATS), times, times,
                 st.builds(RankProgress, st.integers(-1, 30), st.sampled_from(["", *PHASES]), times, times,
                           st.sampled_from(["", "S", "T", "D", "Z"])), times, st.booleans(),
                 st.none() | st.just("error"), times, st.none() | st.integers(0, 3),
                 st.none() | st.integers(1, 70), st.just(""), times)


@given(st.lists(seen, min_size=8, max_size=8), times, st.floats(0, 300), st.sampled_from(TaskKind))
def test_whatever_is_seen_the_answer_is_of_the_task_and_of_now(
    found: list[RankState], went: float | None, now: float, kind: TaskKind,
) -> None:
    task = replace(TASK, kind=kind)
    seen = [replace(each, seat=seat) for each, seat in zip(found, SEATS, strict=True)]
    for answer in (trouble(task, seen, 0.0, went, now, PATIENCE),
                   overdue(task, seen, now - 1, went, now, PATIENCE)):
        for each in answer.accusations if answer is not None else ():
            assert each.name in {"t", "n0", "n1", *map(str, SEATS)} and each.fault in faults.MEANING


# Late

def figures(computes: list[float], collectives: list[float]) -> list[RankReport]:
    return [RankReport(seat, RankEnd.DONE, {"compute_p50": own, "seconds_p50": waited})
            for seat, own, waited in zip(SEATS, computes, collectives, strict=False)]


JITTER = [1.00, 1.01, 0.99, 1.02, 0.98, 1.00, 1.01, 0.99]


def ms(values: list[float]) -> list[float]:
    return [value / 1e3 for value in values]


def test_the_late_rank_computes_longest_and_waits_least() -> None:
    own, waited = [2 * each for each in JITTER], [120 * each for each in JITTER]
    own[4], waited[4] = 34, 83
    (found,) = late(TASK, figures(ms(own), ms(waited)))
    assert (found.name, found.fault) == ("n1:0", faults.SLOW_COMPUTE)
    assert "34 ms an iteration" in found.why


def test_two_late_ranks_are_both_named() -> None:
    own, waited = [2 * each for each in JITTER], [50 * each for each in JITTER]
    own[1], waited[1], own[6], waited[6] = 32, 20, 22, 30
    assert [each.name for each in late(TASK, figures(ms(own), ms(waited)))] == ["n0:1", "n1:2"]


@pytest.mark.parametrize(("own", "waited"), [
    ([2 * each for each in JITTER], [120 * each for each in JITTER]),                   # no one
    ([2.0] * 8, [300.0] * 8),                                                           # a slow link
    # slower, and no one notices
    ([2.0] * 4 + [2.6] + [2.0] * 3, [100.0] * 8),
    # slower, and the others do not wait for it
    ([2.0] * 4 + [40.0] + [2.0] * 3, [100.0] * 8),
    # what a busy scheduler does
    ([0.1] * 4 + [0.4] + [0.1] * 3, [0.4] * 4 + [0.1] + [0.4] * 3),
])
def test_no_one_is_late_where_no_one_waits(own: list[float], waited: list[float]) -> None:
    assert late(TASK, figures(ms(own), ms(waited))) == ()


def test_of_two_one_is_late_only_by_far() -> None:
    pair = replace(TASK, seats=SEATS[3:5])
    two = [replace(each, seat=seat)
           for each, seat in zip(figures(ms([40, 2]), ms([20, 58])), SEATS[3:5], strict=False)]
    assert [each.name for each in late(pair, two)] == ["n0:3"]
    assert late(pair, figures(ms([4, 2]), ms([20, 22]))) == ()


def test_who_is_late_with_half_of_the_iterations_shares_its_cores_and_is_not_accused() -> None:
    pair = replace(TASK, seats=SEATS[3:5])
    two = [replace(each, seat=seat)
           for each, seat in zip(figures(ms([40, 2]), ms([20, 58])), SEATS[3:5], strict=False)]
    for least, named in ((0.038, ["n0:3"]), (0.002, [])):
        first = replace(two[0], figures={**two[0].figures, "compute_p10": least})
        assert [each.name for each in late(pair, [first, two[1]])] == named


def test_times_that_are_missing_say_nothing() -> None:
    missing = figures(ms([2.0] * 7 + [90.0]), ms([100.0] * 7 + [12.0]))
    assert late(TASK, [*missing[:3], replace(missing[3], figures={}), *missing[4:]]) == ()
    assert late(replace(TASK, kind=TaskKind.RATE), missing) == ()


def test_times_of_4096_ranks_are_weighed_at_once() -> None:
    many = replace(TASK, seats=tuple(Seat(f"n{rank // 8}", rank % 8) for rank in range(4096)))
    reports = [RankReport(seat, RankEnd.DONE, {"compute_p50": 0.002 + rank % 9 / 1e5, "seconds_p50": 0.05})
               for rank, seat in enumerate(many.seats)]
    reports[77] = replace(reports[77], figures={"compute_p50": 0.03, "seconds_p50": 0.022})
    assert [each.name for each in late(many, reports)] == ["n9:5"]
