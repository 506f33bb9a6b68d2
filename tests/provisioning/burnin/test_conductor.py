"""The conductor among agents that say what a test wants: who is here, the order of a task, what hostile words
do, and that all comes to an end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin import faults, messages
from healthcheck.burnin.model import (
    BurnInStage,
    Object,
    RankEnd,
    RankProgress,
    Seat,
    Task,
    TaskKind,
    TaskResult,
)
from healthcheck.burnin.taskrun import TaskRun, TaskState
from healthcheck.burnin.watch import Patience
from inventory.model import BurnInSettings, Node
from inventory.transport.base import Failure, Limits, Program, Reply
from inventory.transport.base import Stage as Reached
from provisioning.burnin import conductor as conductors
from provisioning.burnin.conductor import Conductor, addresses
from tests.provisioning.burnin.scripted import HERE, Agent, Script, Scripted

NODES = ("n0", "n1")


def conductor(transport: Any, names: Iterable[str] = NODES, **more: Any) -> Conductor:
    more.setdefault("patience", Patience(settle=0.1, join=2.0))
    return Conductor(transport, [Node(name) for name in names], listen="127.0.0.1", **more)


def task(id_: str = "t", nodes: Iterable[str] = NODES, gpus: int = 2, **more: Any) -> Task:
    seats = tuple(Seat(node, gpu) for node in nodes for gpu in range(gpus))
    return Task(id_, BurnInStage.ALL, TaskKind.ALLREDUCE, seats, 60.0, **more)


def ran(agents: dict[str, Any], **more: Any) -> TaskResult:
    """What comes of a task among such agents."""
    with conductor(Scripted(agents), **more) as head:
        assert head.ready(20).whole
        (result,) = head.run([task()])
    return result


# Who is here

def test_every_node_is_here_with_what_it_says_of_itself() -> None:
    with conductor(Scripted()) as head:
        ready_nodes = head.ready(20)
    assert ready_nodes.whole and list(ready_nodes.here) == ["n0", "n1"]
    assert (ready_nodes.here["n0"].torch, ready_nodes.here["n0"].gpus, ready_nodes.here["n0"].python) == (
        "2.13.0", 2, "3.11.7")


def test_who_is_missing_is_named_with_the_transports_reason_or_the_agents() -> None:
    def without_torch(agent: Agent) -> None:
        agent.say(here={"torch": None, "why": "No module named 'torch'\x1b[2J"})
        agent.hear()

    scripts: dict[str, Script] = {
        "n0": Failure(Reached.CONNECT, "no route to n0"), "n1": without_torch, "n2": lambda agent: None}
    with conductor(Scripted(scripts), ("n0", "n1", "n2", "n3")) as head:
        ready_nodes = head.ready(20)
    assert list(ready_nodes.here) == ["n3"]
    assert ready_nodes.missing["n0"] == "connect: no route to n0"
    assert ready_nodes.missing[
        "n1"].startswith("no PyTorch: No module named 'torch'\\x1b[2J; name a Python that has it")
    assert "hung up" in ready_nodes.missing["n2"] or "the script is over" in ready_nodes.missing["n2"]


def test_who_does_not_come_in_time_is_missing_and_the_reason_is_what_to_look_at() -> None:
    ended = threading.Event()

    class Nobody:
        def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
            assert limits.halt is not None
            limits.halt.follow(ended.set)
            ended.wait(30)
            return iter(())

    began = time.monotonic()
    with conductor(Nobody(), hosts=["192.0.2.1"]) as head:
        ready_nodes = head.ready(0.2)
        port = head.port
    assert set(ready_nodes.missing) == set(NODES)
    assert ("did not connect within 0.2 s" in ready_nodes.missing["n0"]
            and "192.0.2.1 or ssh-client or" in ready_nodes.missing["n0"])
    assert f"port {port}" in ready_nodes.missing["n0"]
    assert ended.is_set() and time.monotonic() - began < 5


def test_an_agent_that_still_imports_is_reported_from_one_that_is_not_there() -> None:
    def imports(agent: Agent) -> None:
        agent.hear()

    with conductor(Scripted({"n0": imports})) as head:
        assert "PyTorch is not imported yet" in head.ready(1).missing["n0"]


def test_a_transport_that_cannot_begin_is_every_nodes_reason() -> None:
    class Broken:
        def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
            raise RuntimeError("ssh_config:3: no such option")

    with conductor(Broken()) as head:
        assert head.ready(10).missing["n1"] == "connect: RuntimeError: ssh_config:3: no such option"


def test_nodes_are_reported_their_name_and_the_words_of_their_python() -> None:
    request: list[Mapping[str, tuple[str, ...]]] = []

    class Asked(Scripted):
        def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
            request.append(program.words)
            assert b"token" not in str(program.words).encode()
            return super().run(nodes, program, limits)

    nodes = [Node("n0", burnin=BurnInSettings(("docker", "exec", "x y", "python3"))),
             Node("n1", python="/opt/python")]
    with Conductor(Asked(), nodes, listen="127.0.0.1") as head:
        assert head.ready(20).whole
    assert request == [{"n0": ("node=n0", "python=docker", "python=exec", "python=x y", "python=python3"),
                      "n1": ("node=n1", "python=/opt/python")}]


def test_the_head_is_sought_where_sshd_says_it_was_reached_from_and_then_where_packets_leave() -> None:
    found = addresses([Node("a", address="127.0.0.5"), Node("b", address="a-name.invalid"), Node("c")])
    assert found[:2] == ["ssh-client", "127.0.0.1"]


# Tasks

def test_the_go_comes_when_all_have_joined_and_not_before() -> None:
    held = threading.Event()
    order: list[str] = []

    def late(agent: Agent) -> None:
        agent.arrive()
        held.wait(20)
        order.append("joined")
        agent.join("t")
        agent.hear()
        agent.leave("t")

    def early(agent: Agent) -> None:
        agent.arrive()
        agent.join("t")
        threading.Timer(0.3, held.set).start()
        assert agent.hear() == {"go": "t"}
        order.append("go")
        agent.finish("t", figures={"verified": 5, "invented": 1, "seconds_p50": "fast"},
                     facts={"torch": "2\x1b"}, wrong_total=0)
        agent.hear()

    with conductor(Scripted({"n0": early, "n1": late})) as head:
        assert head.ready(20).whole
        (result,) = head.run([task()])
        assert result.whole and not result.accusations and result.ended > result.began
        assert order == ["joined", "go"]
        assert dict(
            result.reports[0].figures) == {"verified": 5.0} and result.reports[0].facts == {"torch": "2\\x1b"}
        assert [str(report.seat) for report in result.reports] == ["n0:0", "n0:1", "n1:0", "n1:1"]


def test_nodes_are_reported_their_own_seats_and_environment() -> None:
    transport = Scripted()
    with conductor(transport) as head:
        assert head.ready(20).whole
        (result,) = head.run([task(params={"bytes": 5}, environment={"NCCL_ALGO": "RING"},
                                   local={"n1": {"NCCL_IB_HCA": "=mlx5_1"}})])
    assert result.whole
    (order,) = [message["task"] for message in transport.agents["n1"].told if "task" in message]
    assert order == {
        "id": "t", "kind": "allreduce", "stage": "all", "seconds": 60.0, "params": {"bytes": 5}, "world": 4,
        "overtime": 80.4, "environment": {"NCCL_ALGO": "RING", "NCCL_IB_HCA": "=mlx5_1"},
        "seats": [[2, 0], [3, 1]]}


def test_a_rank_that_dies_ends_the_task_on_every_node_and_what_ends_then_is_called_off() -> None:
    def dies(agent: Agent) -> None:
        agent.begin("t")
        agent.say(ended={"task": "t", "rank": 0, "code": 0, "signal": 9})
        assert agent.hear() == {"stop": "t"}
        agent.say(ended={"task": "t", "rank": 1, "code": 0, "signal": 15})
        agent.hear()

    def waits(agent: Agent) -> None:
        agent.begin("t")
        agent.hear()
        agent.end("t", signal=15)
        agent.hear()

    result = ran({"n0": dies, "n1": waits})
    assert [(each.name, each.fault) for each in result.accusations] == [("n0:0", faults.DEAD)]
    assert [report.end for report in result.reports] == [
        RankEnd.SIGNAL, RankEnd.CALLED_OFF, RankEnd.CALLED_OFF, RankEnd.CALLED_OFF]
    assert result.reports[0].code == 9 and result.named_after is not None and result.named_after < 5


def test_a_node_cannot_speak_for_anothers_ranks_and_nonsense_is_not_heard() -> None:
    def lies(agent: Agent) -> None:
        agent.arrive()
        for rank in (2, 3, -1, 99, "0", None, True):
            agent.say(ended={"task": "t", "rank": rank, "code": 0, "signal": 9})
            agent.say(report={"task": "t", "rank": rank, "report": {"end": "raised"}})
        nonsense: list[dict[str, Any]] = [{"ended": 5}, {"ranks": [5, None, {}]}, {"ranks": {}},
                                          {"joined": []}, {"report": {"task": "t", "rank": 0}}, {"x": 1}]
        for message in nonsense:
            agent.say(**message)
        agent.say(ended={"task": "another", "rank": 0, "code": 0, "signal": 9})
        agent.join("t")
        agent.hear()
        agent.leave("t")

    result = ran({"n0": lies})
    assert result.whole and not result.accusations


def test_a_task_on_a_node_that_is_not_here_names_that_node() -> None:
    with conductor(Scripted({"n1": Failure(Reached.CONNECT, "no route to n1")})) as head:
        assert set(head.ready(20).missing) == {"n1"}
        (result,) = head.run([task()])
        assert [(each.name, each.fault) for each in result.accusations] == [("n1", faults.LOST)]
        assert "no route to n1" in result.accusations[0].why
        assert [report.end for report in result.reports][2:] == [RankEnd.LOST, RankEnd.LOST]
        # The other goes on.
        (alone,) = head.run([task("u", ["n0"])])
        assert alone.whole


def test_who_cannot_be_killed_is_left_behind_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("healthcheck.burnin.taskrun.LEFT_S", 2.5)

    def stays(agent: Agent) -> None:
        agent.arrive()
        agent.say(joined={"task": "t", "rank": 2})
        agent.say(ranks=[{
            "task": "t", "rank": 2, "iteration": -1, "phase": "wait", "moved": 0, "tick": 0,
            "state": "D"}])
        agent.hear()
        agent.hear()

    began = time.monotonic()
    result = ran({"n1": stays})
    assert [(each.name, each.fault) for each in result.accusations] == [("n1:1", faults.ABSENT)]
    assert [report.end for report in result.reports] == [
        RankEnd.CALLED_OFF, RankEnd.CALLED_OFF, RankEnd.CALLED_OFF, RankEnd.NEVER]
    assert time.monotonic() - began < 10


def test_results_come_as_tasks_end_and_tasks_do_not_wait_for_one_another() -> None:
    free = threading.Event()

    def slow(agent: Agent) -> None:
        agent.arrive()
        free.wait(20)
        agent.join("slow")
        agent.hear()
        agent.leave("slow")

    with conductor(Scripted({"n1": slow})) as head:
        assert head.ready(20).whole
        results = head.run([task("slow", ["n1"]), task("fast", ["n0"])])
        assert next(results).task.id == "fast"
        free.set()
        assert next(results).task.id == "slow"
        assert list(results) == []


def test_an_iteration_that_is_ended_early_calls_its_tasks_off() -> None:
    def slow(agent: Agent) -> None:
        agent.arrive()
        agent.join("slow")
        assert (agent.hear(), agent.hear()) == ({"go": "slow"}, {"stop": "slow"})
        agent.end("slow")
        agent.serve()

    transport = Scripted({"n1": slow})
    with conductor(transport) as head:
        assert head.ready(20).whole
        results = head.run([task("slow", ["n1"]), task("fast", ["n0"])])
        assert next(results).task.id == "fast"
        results.close()  # type: ignore[attr-defined]
        assert {"stop": "slow"} in transport.agents["n1"].told
        (again,) = head.run([task("again")])
        assert again.whole


@pytest.mark.parametrize(
    ("tasks", "words"),
    [([task("a"), task("b", ["n0"])], "taken twice"), ([task("a", ["n9"])], "without agent"),
     ([task("a b")], "expected a name"), ([task("a/b")], "expected a name"), ([task("a", [])], "no seats"),
     ([task("a", ["n0"]), task("a", ["n1"])], "of its own")])
def test_tasks_that_cannot_run_together_are_refused_before_any_begins(tasks: list[Task], words: str) -> None:
    transport = Scripted()
    with conductor(transport) as head:
        assert head.ready(20).whole
        with pytest.raises(ValueError, match=words):
            list(head.run(tasks))
    assert not any("task" in message for agent in transport.agents.values() for message in agent.told)


# The end

def test_at_the_end_every_agent_is_told_to_leave_and_who_does_not_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conductors, "LEAVE_S", 0.5)
    over = threading.Event()

    def stays(agent: Agent) -> None:
        agent.say(**HERE)
        try:
            while True:
                agent.hear()
        finally:
            over.set()

    transport = Scripted({"n1": stays})
    began = time.monotonic()
    with conductor(transport) as head:
        assert head.ready(20).whole
    assert {"leave": True} in transport.agents["n0"].told and {"leave": True} in transport.agents["n1"].told
    assert over.wait(5) and transport.halted.is_set()
    assert time.monotonic() - began < 5
    with pytest.raises(OSError):
        head._server._listener.getsockname()


def test_an_exception_in_the_context_ends_everything_and_stays_what_it_was() -> None:
    transport = Scripted()
    with pytest.raises(KeyboardInterrupt), conductor(transport) as head:
        assert head.ready(20).whole
        raise KeyboardInterrupt
    assert {"leave": True} in transport.agents["n0"].told


# What agents say, and a task's state without any connection

JSON = st.recursive(st.none() | st.booleans() | st.integers(-2**70, 2**70) | st.floats() | st.text(max_size=8)
                        | st.sampled_from(["t", "done", "send", "raised", "S"]),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(["task", "rank", "report", "end", "figures", "verified", "wrong",
                                         "owners", "iteration", "phase", "moved", "tick", "state", "code",
                                         "signal", "facts", "error", "last", "count", "torch", "gpus"]),
                        inner, max_size=6), max_leaves=12)


@given(st.sampled_from(["here", "joined", "ranks", "report", "ended", "samples"]), JSON)
def test_whatever_an_agent_says_is_a_value_or_nothing(word: str, said: Any) -> None:
    message = {word: said}
    ready = messages.ready("n0", message)
    assert ready is None or ready.node == "n0"
    for position in messages.positions(message, 5.0):
        assert position.progress.moved is None or position.progress.moved <= 5.0
    report = messages.report(message)
    assert report is None or all(abs(value) < 1e300 for value in report[2].figures.values())
    running = TaskRun(task(), Patience(), 0.0)
    running.message("n0", message, 5.0)
    running.order(6.0)
    json.dumps(running.start_orders())
    result = running.result(7.0)
    assert len(result.reports) == 4 and not any("\x1b" in each.why for each in result.accusations)


def test_ages_become_times_of_the_head() -> None:
    (found,) = messages.positions(
        {
            "ranks": [{
                "task": "t", "rank": 1, "iteration": 3, "phase": "send", "moved": 2.5, "tick": 0.5,
                "state": "T"}]}, 100.0)
    assert found.progress == RankProgress(3, "send", 97.5, 99.5, "T")
    (odd,) = messages.positions(
        {
            "ranks": [{
                "task": "t", "rank": 1, "iteration": -5, "phase": "?", "moved": -3, "tick": 1e9,
                "state": "SS"}]}, 100.0)
    assert odd.progress == RankProgress(-1, "", 100.0, None, "")


def test_a_task_whose_time_is_over_is_stopped_whoever_is_to_blame() -> None:
    running = TaskRun(replace(task(nodes=["n0"]), seconds=10.0), Patience(), 0.0)
    for rank in (0, 1):
        running.message("n0", {"joined": {"task": "t", "rank": rank}}, 1.0)
    assert running.state is TaskState.JOINING and running.order(1.0) == "go"
    assert running.state is TaskState.RUNNING and running.order(2.0) is None
    rows = [{
        "task": "t", "rank": rank, "iteration": 7 + rank, "phase": "send", "moved": 0.0, "tick": 0.0,
        "state": "S"} for rank in (0, 1)]
    running.message("n0", {"ranks": rows}, 10.5)
    assert running.order(10.5) == "stop" and running.order(10.6) is None
    assert running.state is TaskState.STOPPING and not running.over(10.6)
    for rank in (0, 1):
        running.message("n0", {"ended": {"task": "t", "rank": rank, "code": 143, "signal": None}}, 11.0)
    assert running.over(11.0)
    (accused,) = running.result(11.0).accusations
    # One is behind at this instant, and both have just moved.
    assert (accused.object, accused.fault) == (
        Object.UNEXPLAINED, faults.SLOW) and "not done after the task's 10 s" in accused.why


def test_a_head_that_was_held_up_hears_what_came_meanwhile_before_it_judges() -> None:
    # Its clock leaps, as after SIGSTOP and SIGCONT; the ranks have gone on, and their agents' messages are
    # still to be read.
    leap = threading.Event()

    def goes_on(agent: Agent) -> None:
        agent.begin("t")
        rows = [{
            "task": "t", "rank": rank, "iteration": 5, "phase": "compute", "moved": 0.0, "tick": 0.0,
            "state": "S"} for rank in agent.ranks["t"]]
        agent.say(ranks=rows)
        time.sleep(0.3)
        leap.set()
        time.sleep(0.5)
        agent.say(ranks=[{**row, "iteration": 9} for row in rows])
        agent.leave("t")

    def clock() -> float:
        return time.monotonic() + (100.0 if leap.is_set() else 0.0)

    result = ran({"n0": goes_on, "n1": goes_on}, clock=clock, silent_s=1000.0)
    assert result.whole and not result.accusations, result


def test_ranks_that_are_done_and_do_not_end_are_stopped_and_still_done() -> None:
    running = TaskRun(task(nodes=["n0"]), Patience(), 0.0)
    for rank in (0, 1):
        running.message("n0", {"joined": {"task": "t", "rank": rank}}, 1.0)
    assert running.order(1.0) == "go"
    for rank in (0, 1):
        running.message("n0", {"report": {"task": "t", "rank": rank, "report": {"end": "done"}}}, 2.0)
    assert running.order(3.0) is None and not running.over(3.0)
    assert running.order(30.0) == "stop"
    assert running.over(40.0) and running.result(40.0).whole


def test_a_second_report_of_a_rank_changes_nothing() -> None:
    running = TaskRun(task(nodes=["n0"]), Patience(), 0.0)
    for end in ("done", "raised"):
        running.message(
            "n0", {"report": {"task": "t", "rank": 0, "report": {"end": end, "error": "later"}}}, 2.0)
    assert running.result(3.0).reports[0].end is RankEnd.DONE
