"""A jump host that fails is named once for every node behind it, whichever hop it is and when."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from inventory.transport.base import NOT_ITS_FAULT, Program, Reply, Stage
from tests.inventory.transport.speaker import speaker
from tests.inventory.transport.sweeps import LIMITS, refusal
from tests.inventory.transport.ways import Way, ways
from tests.testbed.sshd import Sshd, listener, silent, sshd, wait_until

# One way of each library is enough every time; the slow tier takes both.
way = ways("paramiko", "openssh kept", slow=("paramiko kept", "openssh"))


@pytest.fixture
def hops(tmp_path: Path) -> Iterator[dict[str, Sshd]]:
    """Three machines to go through, each a process of its own."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(sshd(tmp_path / name)) for name in ("one", "two", "three")}


def entries(hops: dict[str, Sshd]) -> str:
    return "".join(server.entry(name) for name, server in hops.items())


def children(pid: int) -> list[int]:
    found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*found, *(deeper for child in found for deeper in children(child))]


def kill(server: Sshd, signal_: int = signal.SIGKILL, *, listener: bool = True) -> None:
    """The machine is gone, or with `listener` False only the connections to it."""
    for pid in (*([server.process.pid] if listener else []), *children(server.process.pid)):
        with suppress(ProcessLookupError):      # a connection's process may end with the listener
            os.kill(pid, signal_)


def reasons(replies: dict[str, Reply]) -> set[str]:
    return {refusal(reply, Stage.JUMP) for reply in replies.values()}


def waiting(folder: Path, *, repeatable: bool = True) -> Program:
    """Leaves a mark for each run, and answers only once `folder`/go exists; it ends by itself where no one
    makes it."""
    return replace(speaker(f"""
        open("{folder}/run.%d" % os.getpid(), "w").close()
        until = time.monotonic() + 120
        while not os.path.exists("{folder}/go"):
            if time.monotonic() > until:
                sys.exit("no one let it go on")
            time.sleep(0.05)
        answer(b"well")
    """), repeatable=repeatable)


def runs(folder: Path) -> int:
    return len(list(folder.glob("run.*")))


def test_a_look_at_a_jump_host_cut_short_by_the_end_keeps_the_reason_found_before(
    way: Way, plain_sshd: Sshd, monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each try takes 0.7 s to be dropped, and so does the look at the hop after it: the node's 6 s end in the
    # middle of a look, or beside it on a slow machine, where the same is said.
    def drops_late(connection: socket.socket) -> None:
        threading.Timer(0.7, connection.close).start()

    monkeypatch.setattr("inventory.transport.retry.random.uniform", lambda *_: 1.0)
    with listener(drops_late) as port:
        config = f"Host bastion\n HostName 127.0.0.1\n Port {port}\n"
        reply = way.one(plain_sshd.node(proxy_jump="bastion"), config=config, connect_s=1, auth_s=1,
                        node_s=3, twice=False)
    assert str(port) in refusal(reply, Stage.JUMP)


def test_what_a_jump_host_does_is_not_the_nodes_fault() -> None:
    assert Stage.JUMP in NOT_ITS_FAULT


def test_each_dead_jump_host_is_named_to_its_own_nodes(
    way: Way, plain_sshd: Sshd, hops: dict[str, Sshd],
) -> None:
    kill(hops["one"])
    kill(hops["two"])
    nodes = [plain_sshd.node(f"{hop}-{number}", proxy_jump=hop) for hop in hops for number in range(2)]
    replies = way.sweep(nodes, config=entries(hops))
    for hop in ("one", "two"):
        behind = {name: reply for name, reply in replies.items() if name.startswith(hop)}
        (reason,) = reasons(behind)
        assert reason.startswith(f"{hop}: ")
        assert f"127.0.0.1:{hops[hop].port} refused the connection" in reason
    assert [replies[f"three-{number}"].body for number in range(2)] == [b"well"] * 2


@pytest.mark.slow       # the fast tier has one whose hop dies, and one that ssh_config makes
@pytest.mark.parametrize("dead", ["one", "two", "three"])
def test_the_dead_hop_of_a_chain_is_named(
    way: Way, plain_sshd: Sshd, hops: dict[str, Sshd], dead: str,
) -> None:
    kill(hops[dead])
    (reason,) = reasons(way.sweep(
        [plain_sshd.node(f"n{number}", proxy_jump="one,two,three") for number in range(2)],
        config=entries(hops)))
    assert reason.startswith(f"{dead}: ")


def test_the_dead_hop_of_a_chain_that_ssh_config_makes_is_named(
    way: Way, plain_sshd: Sshd, hops: dict[str, Sshd],
) -> None:
    config = (hops["one"].entry("one") + hops["two"].entry("two", " ProxyJump one\n")
              + hops["three"].entry("three", " ProxyJump two\n"))
    kill(hops["two"])
    (reason,) = reasons(way.sweep([plain_sshd.node(f"n{number}", proxy_jump="three") for number in range(2)],
                                  config=config))
    assert reason.startswith("two: ")


def test_a_hop_that_forbids_forwarding_is_named(
    way: Way, plain_sshd: Sshd, hops: dict[str, Sshd], tmp_path: Path,
) -> None:
    with sshd(tmp_path / "closed", config="AllowTcpForwarding no") as closed:
        (reason,) = reasons(way.sweep([plain_sshd.node("n1", proxy_jump="one,closed,three")],
                                      config=entries(hops) + closed.entry("closed")))
    assert reason.startswith("closed: it forbids forwarding")


def test_the_dead_machine_that_a_proxy_command_goes_through_is_named(
    plain_sshd: Sshd, hops: dict[str, Sshd], tmp_path: Path,
) -> None:
    way = Way("openssh", tmp_path)
    config = f"Host n*\n ProxyCommand ssh -F {tmp_path}/ssh_config -W %h:%p one\n" + entries(hops)
    assert way.one(plain_sshd.node("n1"), config=config).body == b"well"
    kill(hops["one"])
    (reason,) = reasons(way.sweep([plain_sshd.node("n1"), plain_sshd.node("n2")], config=config))
    assert f"127.0.0.1:{hops['one'].port} refused the connection" in reason


def test_a_dead_node_behind_living_hops_is_blamed_itself(
    way: Way, plain_sshd: Sshd, hops: dict[str, Sshd],
) -> None:
    replies = way.sweep([plain_sshd.node("dead", port=1, proxy_jump="one,two"),
                         plain_sshd.node("well", proxy_jump="one,two")], config=entries(hops))
    assert "cannot connect to 127.0.0.1:1" in refusal(replies["dead"], Stage.CONNECT)
    assert replies["well"].body == b"well"


@pytest.mark.parametrize("dead", [pytest.param("one", marks=pytest.mark.slow), "two"])
def test_a_hop_that_dies_while_nodes_work_is_named(
    way: Way, plain_sshd: Sshd, hops: dict[str, Sshd], tmp_path: Path, dead: str,
) -> None:
    nodes = [plain_sshd.node(f"n{number}", proxy_jump="one,two") for number in range(3)]
    with way.opened(entries(hops)) as transport:
        killed = []

        def when_all_run() -> None:
            wait_until(lambda: runs(tmp_path) >= 3, what="the programs")
            kill(hops[dead])
            killed.append(dead)
        replies = alongside(transport.run(nodes, waiting(tmp_path), LIMITS), when_all_run)
    assert killed
    (reason,) = reasons(replies)
    assert reason.startswith(f"{dead}: ")


@pytest.mark.parametrize("name", ["paramiko", pytest.param("paramiko kept", marks=pytest.mark.slow)])
def test_a_sweep_that_ends_before_a_silent_hop_is_given_up_blames_no_node(
    plain_sshd: Sshd, hops: dict[str, Sshd], tmp_path: Path, name: str,
) -> None:
    with listener(silent) as port:
        config = f"Host mute\n HostName 127.0.0.1\n Port {port}\n" + entries(hops)
        replies = Way(name, tmp_path).sweep(
            [plain_sshd.node(f"n{number}", proxy_jump="one,mute,two") for number in range(3)], config=config,
            sweep_s=6, connect_s=20)
    assert all(reason.startswith("mute: not connected within ") for reason in reasons(replies))


def test_a_lost_connection_to_a_hop_that_lives_costs_no_node_its_answer(
    way: Way, plain_sshd: Sshd, hops: dict[str, Sshd], tmp_path: Path,
) -> None:
    nodes = [plain_sshd.node(f"n{number}", proxy_jump="one,two") for number in range(3)]

    def when_all_run() -> None:
        wait_until(lambda: runs(tmp_path) >= 3, what="the programs")
        kill(hops["one"], listener=False)
        (tmp_path / "go").touch()
    with way.opened(entries(hops)) as transport:
        replies = alongside(transport.run(nodes, waiting(tmp_path), LIMITS), when_all_run)
    assert {reply.body for reply in replies.values()} == {b"well"}, replies


def test_a_program_that_changes_a_node_is_not_run_there_twice(
    way: Way, plain_sshd: Sshd, hops: dict[str, Sshd], tmp_path: Path,
) -> None:
    def when_it_runs() -> None:
        wait_until(lambda: runs(tmp_path) == 1, what="the program")
        kill(hops["one"], listener=False)
    with way.opened(entries(hops)) as transport:
        replies = alongside(transport.run([plain_sshd.node("n1", proxy_jump="one")],
                                          waiting(tmp_path, repeatable=False), LIMITS), when_it_runs)
    assert replies["n1"].failure is not None
    assert runs(tmp_path) == 1


def test_a_program_that_changes_a_node_is_not_run_twice_where_the_hop_it_lost_is_full(
    way: Way, plain_sshd: Sshd, tmp_path: Path,
) -> None:
    with sshd(tmp_path / "full", config="MaxStartups 2:100:2") as full, way.opened(full.entry()) as transport:
        ended = threading.Event()

        def replies() -> Iterator[Reply]:
            yield from transport.run([plain_sshd.node("n1", proxy_jump="bastion")],
                                     waiting(tmp_path, repeatable=False), LIMITS)
            ended.set()

        def when_it_runs() -> None:
            wait_until(lambda: runs(tmp_path) == 1, what="the program")
            serving = children(full.process.pid)
            idle = [socket.create_connection(("127.0.0.1", full.port)) for _ in range(4)]
            wait_until(lambda: full.log.count("drop connection") == 2, what="an sshd that is full")
            for pid in serving:
                os.kill(pid, signal.SIGKILL)
            # Only the system's ssh looks at the hop; a second run would find room afterwards.
            wait_until(lambda: full.log.count("drop connection") > 2 or ended.is_set(),
                       what="a look at the hop")
            for connection in idle:
                connection.close()
        found = alongside(replies(), when_it_runs)
    refusal(found["n1"], Stage.JUMP)
    assert runs(tmp_path) == 1


def test_a_hop_that_hangs_while_nodes_work_is_named_in_time(
    way: Way, plain_sshd: Sshd, hops: dict[str, Sshd], tmp_path: Path,
) -> None:
    nodes = [plain_sshd.node(f"n{number}", proxy_jump="one,two") for number in range(2)]

    def when_all_run() -> None:
        wait_until(lambda: runs(tmp_path) >= 2, what="the programs")
        kill(hops["two"], signal.SIGSTOP)
    try:
        with way.opened(entries(hops)) as transport:
            replies = alongside(transport.run(nodes, waiting(tmp_path), replace(
                LIMITS, connect_s=3, auth_s=3, node_s=60, sweep_s=90)), when_all_run)
    finally:
        kill(hops["two"], signal.SIGCONT)
    (reason,) = reasons(replies)
    assert reason.startswith("two: ")
    assert all(reply.received - reply.started < 50 for reply in replies.values())


def alongside(replies: Iterator[Reply], act: Callable[[], None]) -> dict[str, Reply]:
    """All replies, while `act` runs in a thread whose error is the test's."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(act)
        found = {reply.node: reply for reply in replies}
        done.result()
    return found
