"""Fan-out and deadlines, with work that is only Python: every node is answered for once, on time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from inventory.model import Node
from inventory.transport.base import Failure, Halt, Limits, Reply, Stage
from inventory.transport.watch import Expired, NodeJob, TaskFailed, Watchdog, WatchedTask, fan_out
from tests.testbed.sshd import wait_until


def nodes(count: int) -> list[Node]:
    return [Node(f"n{number}") for number in range(count)]


def replies(
    count: int, work: Callable[[NodeJob], bytes | Failure], **limits: float | int,
) -> dict[str, Reply]:
    found = list(fan_out(nodes(count), Limits(**limits), work, Watchdog()))  # type: ignore[arg-type]
    assert len({reply.node for reply in found}) == len(found) == count
    return {reply.node: reply for reply in found}


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """An event that is set only when the test is over."""
    event = threading.Event()
    yield event
    event.set()


def test_threads_let_each_other_have_longer_turns_until_the_last_sweep_has_ended() -> None:
    usual = sys.getswitchinterval()
    first, second = (fan_out(nodes(2), Limits(), lambda job: b"", Watchdog()) for _ in range(2))
    next(first)
    assert sys.getswitchinterval() == pytest.approx(0.02)
    next(second)
    first.close()
    assert sys.getswitchinterval() == pytest.approx(0.02)
    assert len(list(second)) == 1
    assert sys.getswitchinterval() == usual


def test_no_more_than_the_fanout_are_at_work_at_once() -> None:
    lock, now, most = threading.Lock(), [0], [0]

    def work(job: NodeJob) -> bytes:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.002)
        with lock:
            now[0] -= 1
        return job.node.name.encode()

    found = replies(60, work, fanout=7)
    assert all(reply.body == name.encode() for name, reply in found.items())
    assert 1 < most[0] <= 7


def test_a_reply_comes_as_soon_as_it_is_known(never: threading.Event) -> None:
    running = fan_out(nodes(3), Limits(), lambda job: (never.wait(20) and b"") if job.node.name == "n0"
                      else b"quick", Watchdog())
    began = time.monotonic()
    assert {next(running).node, next(running).node} == {"n1", "n2"}
    assert time.monotonic() - began < 10
    running.close()  # type: ignore[attr-defined]


def test_work_that_never_returns_costs_neither_the_others_their_turn_nor_the_sweep_its_end(
    never: threading.Event,
) -> None:
    def work(job: NodeJob) -> bytes:
        job.task.step(0.2, lambda seconds: Failure(Stage.RESOLVE, f"its whole time: {seconds >= 0.2}"))
        if job.node.name < "n4":
            never.wait(60)
        return b"done"

    began = time.monotonic()
    found = replies(8, work, fanout=2, twice=False)
    assert time.monotonic() - began < 5
    assert [found[f"n{number}"].body for number in range(4, 8)] == [b"done"] * 4
    assert found["n0"].failure == Failure(Stage.RESOLVE, "its whole time: True")


def test_an_answer_that_comes_after_the_deadline_is_not_a_second_reply() -> None:
    def work(job: NodeJob) -> bytes:
        job.task.step(0.05, lambda _: Failure(Stage.LOGIN, "late"))
        wait_until(lambda: job.answered)
        return b"too late"

    assert {reply.failure for reply in replies(5, work, twice=False).values()} == {
        Failure(Stage.LOGIN, "late")}


def test_no_step_goes_past_the_nodes_own_end_and_each_has_its_own_words(never: threading.Event) -> None:
    def work(job: NodeJob) -> bytes:
        job.task.step(0.1, lambda _: Failure(Stage.CONNECT, "first"))
        job.task.step(60, lambda _: Failure(Stage.LOGIN, "second"))
        never.wait(60)
        return b""

    began = time.monotonic()
    assert replies(1, work, node_s=0.5, twice=False)["n0"].failure == Failure(Stage.LOGIN, "second")
    assert 0.4 < time.monotonic() - began < 30


@pytest.mark.parametrize(("limit", "stage", "told"),
                         [(60.0, Stage.RESOLVE, "closes every connection"),
                          (60.0, Stage.CONNECT, "closes every connection"), (60.0, Stage.LOGIN, "cut"),
                          (0.1, Stage.RESOLVE, "cut")])
def test_a_try_that_the_nodes_end_cuts_short_on_the_way_does_not_hide_why_it_was_tried_again(
        never: threading.Event, limit: float, stage: Stage, told: str) -> None:
    def work(job: NodeJob) -> bytes:
        job.task.again(Failure(Stage.CONNECT, "closes every connection"))
        job.task.step(limit, lambda _: Failure(stage, "cut"))
        never.wait(60)
        return b""

    failure = replies(1, work, node_s=0.5, twice=False)["n0"].failure
    assert failure is not None and failure.reason == told


@pytest.mark.parametrize(("before", "stage", "told", "stuck"), [
    (Stage.CONNECT, Stage.AUTH, (Stage.CONNECT, "failed before"), Stage.CONNECT),
    (Stage.JUMP, Stage.LOGIN, (Stage.JUMP, "failed before"), Stage.JUMP),
    (Stage.JUMP, Stage.JUMP, (Stage.JUMP, "failed before"), Stage.JUMP),
    # What runs our program is not tried again, and only what ran none may be said to have failed sooner.
    (Stage.JUMP, Stage.DEADLINE, (Stage.JUMP, "failed before"), None),
    (Stage.CONNECT, Stage.DEADLINE, (Stage.DEADLINE, "cut; before that: failed before"), None)])
@pytest.mark.parametrize("whose", ["node", "sweep"])
def test_a_try_that_had_less_time_than_those_before_took_says_less_than_they_do(
    never: threading.Event, before: Stage, stage: Stage, told: tuple[Stage, str], stuck: Stage | None,
    whose: str,
) -> None:
    halt = Halt()

    def work(job: NodeJob) -> bytes:
        job.task.again(Failure(before, "failed before", before), pause=30.0)
        if whose == "node":
            job.task.end = time.monotonic() + 0.05
        job.task.step(60, lambda _: Failure(stage, "cut"))
        if whose == "sweep":
            halt.call()
        never.wait(60)
        return b""

    (reply,) = fan_out(nodes(1), Limits(halt=halt, twice=False), work, Watchdog())
    assert reply.failure is not None
    if whose == "node":
        assert (reply.failure.stage, reply.failure.reason) == told
    else:
        assert told[1] in reply.failure.reason
        assert reply.failure.stage is (Stage.JUMP if told[0] is Stage.JUMP else Stage.DEADLINE)
    assert reply.failure.stuck is stuck


def test_what_may_not_run_again_is_never_said_to_be_stuck(never: threading.Event) -> None:
    def work(job: NodeJob) -> bytes:
        job.task.final = True
        job.task.step(0.05, lambda _: Failure(Stage.JUMP, "hangs"))
        never.wait(60)
        return b""

    reply = replies(1, work)["n0"]
    assert reply.failure is not None and (reply.failure.stuck, reply.attempts) == (None, 1)


def test_an_abort_calls_what_was_registered_and_what_is_registered_later() -> None:
    watch, called, answers = Watchdog(), [], []
    task = WatchedTask(watch, time.monotonic() + 60, answers.append)
    watch.add(task)
    task.on_abort(lambda: called.append("early"))
    task.abort(Failure(Stage.AUTH, "first"))
    task.abort(Failure(Stage.AUTH, "second"))
    with pytest.raises(Expired):
        task.on_abort(lambda: called.append("late"))
    with pytest.raises(Expired):
        task.step(1, lambda _: Failure(Stage.AUTH, "third"))
    assert (called, answers) == (["early", "late"], [Failure(Stage.AUTH, "first")])
    watch.stop(Failure(Stage.DEADLINE, "over"))


def test_a_defect_in_the_work_costs_one_node_its_answer_and_is_named() -> None:
    def work(job: NodeJob) -> bytes:
        if job.node.name == "n1":
            raise ZeroDivisionError("ours")
        if job.node.name == "n2":
            raise TaskFailed(Stage.BECOME, "no")
        return b"fine"

    found = replies(3, work)
    assert found["n0"].body == b"fine"
    assert found["n2"].failure == Failure(Stage.BECOME, "no")
    failure = found["n1"].failure
    assert failure is not None
    assert "ZeroDivisionError" in failure.reason


def test_no_nodes_are_no_replies_and_no_time_is_a_reply_for_each(never: threading.Event) -> None:
    assert replies(0, lambda _: b"") == {}
    found = replies(5, lambda _: b"late" * never.wait(60), sweep_s=0.0, fanout=2)
    assert {reply.failure.stage for reply in found.values() if reply.failure} == {Stage.DEADLINE, Stage.TURN}


def test_when_the_iterator_is_closed_the_work_in_hand_is_aborted_and_no_more_is_begun(
    never: threading.Event,
) -> None:
    begun, aborted = [], []

    def work(job: NodeJob) -> bytes:
        begun.append(job.node.name)
        if job.node.name == "n0":
            return b""
        job.task.on_abort(lambda: aborted.append(job.node.name))
        never.wait(60)
        return b""

    running = fan_out(nodes(50), Limits(fanout=3), work, Watchdog())
    next(running)
    wait_until(lambda: len(begun) == 4)
    running.close()  # type: ignore[attr-defined]
    assert sorted(aborted) == sorted(begun[1:])
    assert len(begun) == 4


def test_all_threads_end_with_the_sweep() -> None:
    before = set(threading.enumerate())     # other tests leave some behind that wait for what hangs
    replies(10, lambda _: b"")
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("muster-")
                            and thread not in before])


def test_a_halt_from_another_thread_answers_for_those_at_work_and_those_who_wait(
    never: threading.Event,
) -> None:
    halt = Halt()
    began = threading.Semaphore(0)

    def work(job: NodeJob) -> bytes:
        if job.node.name == "n0":
            return b"done"
        job.task.step(50, lambda seconds: Failure(Stage.REPLY, "it was at work"))
        began.release()
        never.wait(60)
        return b""

    def call() -> None:
        for _ in range(2):
            began.acquire(timeout=20)
        halt.call()

    threading.Thread(target=call, daemon=True).start()
    found = {reply.node: reply for reply in fan_out(nodes(6), Limits(fanout=2, halt=halt), work, Watchdog())}
    assert found["n0"].body == b"done"
    assert {name: reply.failure and (reply.failure.stage, reply.failure.reason[:27])
            for name, reply in found.items()
            if name != "n0"} == {"n1": (Stage.DEADLINE, "the run was stopped while: "),
                                 "n2": (Stage.DEADLINE, "the run was stopped while: "),
                                 **dict.fromkeys(("n3", "n4", "n5"),
                                                 (Stage.TURN, "the run was stopped before "))}


def test_a_halt_that_was_called_before_is_followed_at_once() -> None:
    halt = Halt()
    halt.call()
    found = list(fan_out(nodes(3), Limits(halt=halt), lambda _: b"", Watchdog()))
    assert [reply.failure and reply.failure.stage for reply in found] == [Stage.TURN] * 3


# how many log in at a time

def test_no_more_log_in_at_once_than_may_and_one_whose_program_runs_makes_room(
        never: threading.Event) -> None:
    lock, entering, at_work, most = threading.Lock(), [0], [0], [0, 0]

    def work(job: NodeJob) -> bytes:
        with lock:
            entering[0] += 1
            most[0] = max(most[0], entering[0])
        time.sleep(0.005)
        with lock:
            entering[0] -= 1
            at_work[0] += 1
            most[1] = max(most[1], at_work[0])
        job.begun()
        wait_until(lambda: most[1] >= 8, what="eight programs at work")
        with lock:
            at_work[0] -= 1
        return b""

    found = replies(40, work, fanout=12, logins=3)
    assert all(reply.body == b"" for reply in found.values())
    assert most[0] <= 3
    assert 8 <= most[1] <= 12


def test_logins_that_take_long_hold_back_no_one_below_the_fan_out(
    never: threading.Event, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inventory.transport.watch.PATIENT_S", 0.1)

    def work(job: NodeJob) -> bytes:
        job.task.step(30, lambda _: Failure(Stage.LOGIN, "hung"))
        if job.node.name in ("n0", "n1", "n2", "n3"):
            never.wait(60)
        return b"well"

    running = fan_out(nodes(12), Limits(fanout=6, logins=2), work, Watchdog())
    first = [next(running) for _ in range(8)]
    assert {reply.body for reply in first} == {b"well"}
    running.close()  # type: ignore[attr-defined]


# second tries

def test_who_got_stuck_is_tried_again_once_all_others_are_done_and_only_then() -> None:
    order: list[str] = []

    def work(job: NodeJob) -> bytes:
        order.append(job.node.name)
        if job.node.name in ("n0", "n1") and order.count(job.node.name) == 1:
            raise TaskFailed(Stage.CONNECT, "lost", stuck=Stage.CONNECT)
        job.attempts = 1
        return b"well"

    again: list[int] = []
    found = {reply.node: reply for reply in fan_out(
        nodes(20), Limits(fanout=3), work, Watchdog(), lambda: again.append(len(order)))}
    assert {reply.body for reply in found.values()} == {b"well"}
    assert sorted(order[20:]) == ["n0", "n1"]
    assert again == [20]
    assert found["n0"].first == Failure(Stage.CONNECT, "lost")
    assert (found["n0"].attempts, found["n5"].attempts, found["n5"].first) == (2, 1, None)


@pytest.mark.parametrize(("failure", "tries"), [
    (Failure(Stage.CONNECT, "refused"), 1), (Failure(Stage.DEADLINE, "at work"), 1),
    (Failure(Stage.REPLY, "cut"), 1), (Failure(Stage.PYTHON, "late", Stage.PYTHON), 2)])
def test_only_who_got_stuck_before_the_program_is_tried_again(failure: Failure, tries: int) -> None:
    tried = []

    def work(job: NodeJob) -> Failure:
        tried.append(job.node.name)
        return failure

    reply = replies(1, work)["n0"]
    assert len(tried) == tries
    assert reply.failure is not None
    assert reply.failure.reason == failure.reason + ("; tried twice" if tries == 2 else "")


def test_another_failure_of_the_second_try_names_that_of_the_first_too() -> None:
    outcomes = [Failure(Stage.CONNECT, "refused"), Failure(Stage.LOGIN, "hung", Stage.LOGIN)]
    failure = replies(1, lambda _: outcomes.pop())["n0"].failure
    assert failure == Failure(Stage.CONNECT, "refused; a first try failed at login: hung")


def test_who_is_named_has_no_second_try() -> None:
    tried: list[str] = []

    def work(job: NodeJob) -> Failure:
        tried.append(job.node.name)
        return Failure(Stage.LOGIN, "hung", Stage.LOGIN)

    list(fan_out(nodes(2), Limits(), work, Watchdog(), once={"n0"}))
    assert sorted(tried) == ["n0", "n1", "n1"]


def test_a_second_try_that_has_no_time_left_leaves_the_first_failure(never: threading.Event) -> None:
    def work(job: NodeJob) -> bytes:
        if job.node.name == "n0":
            raise TaskFailed(Stage.LOGIN, "hung", stuck=Stage.LOGIN)
        never.wait(60)
        return b""

    found = replies(2, work, sweep_s=0.5)
    assert found["n0"].failure == Failure(Stage.LOGIN,
                                          "hung; the sweep's 0.5 s were over before a second try")
    assert found["n1"].failure is not None
    assert found["n1"].failure.stage is Stage.DEADLINE
