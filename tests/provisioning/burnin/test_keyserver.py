"""The head's server: real connections, thousands of them, and whatever they say: keys are kept within bounds,
and strangers are no one."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.burnin.wire import (
    MOST_KEY,
    MOST_VALUE,
    Garbled,
    HeadConnection,
    RequestRefused,
    TaskKeys,
    coded,
    connected,
    greeted,
    packed,
    proof,
    token_of,
)
from inventory.errors import UsageError
from inventory.model import Node
from inventory.peeraddress import peer_of
from inventory.transport.local import LocalTransport
from provisioning.burnin import keys as keys_of_head
from provisioning.burnin import keyserver, strangers
from provisioning.burnin.conductor import Conductor
from provisioning.burnin.keys import KeyReply, KeyRequest, RendezvousStore
from provisioning.burnin.keyserver import AgentConnected, AgentGone, AgentMessage, KeyServer
from provisioning.burnin.peer import Peer
from tests.testbed.sshd import wait_until
from tests.tries import tries

TOKEN = "5a" * 32


@pytest.fixture
def server() -> Iterator[KeyServer]:
    with KeyServer(TOKEN, "run", {"n1", "n2"}, host="127.0.0.1") as started:
        started.open("t")
        yield started


@pytest.fixture(autouse=True)
def hung_up() -> Iterator[None]:
    """After a test no one holds a connection."""
    yield
    while _opened:
        _opened.pop().close()


_opened: list[socket.socket] = []


def link(
    server: KeyServer, role: str = "rank", node: str = "n1", token: str = "", run: str = "run",
) -> HeadConnection:
    _opened.append(connected(["127.0.0.1"], server.port))
    return greeted(_opened[-1], role, node, run, token or token_of(TOKEN, node))


def rank(server: KeyServer, task: str = "t") -> TaskKeys:
    return TaskKeys(link(server), task)


# Keys

def test_what_one_rank_sets_another_gets(server: KeyServer) -> None:
    one, two = rank(server), rank(server)
    one.set("a/b", b"\0\xff")
    assert two.get("a/b", 5) == b"\0\xff"
    assert two.check(["a/b"]) and not two.check(["a/b", "c"])
    assert (two.add("n", 2), one.add("n", 3), two.get("n", 1)) == (2, 5, b"5")
    assert one.count() == 2
    assert one.delete("n") and not one.delete("n")
    assert one.count() == 1


def test_a_key_is_waited_for_until_another_rank_sets_it(server: KeyServer) -> None:
    one, two = rank(server), rank(server)
    found: list[bytes] = []
    waiting = [threading.Thread(target=lambda: found.append(one.get("late", 20))),
               threading.Thread(target=lambda: two.wait(["late", "later"], 20))]
    for thread in waiting:
        thread.start()
    three = rank(server)
    three.set("late", b"x")
    three.set("later", b"y")
    for thread in waiting:
        thread.join(10)
    assert found == [b"x"] and not any(thread.is_alive() for thread in waiting)


def test_a_wait_ends_with_its_time(server: KeyServer) -> None:
    began = time.monotonic()
    with pytest.raises(RequestRefused, match="timeout"):
        rank(server).get("never", 0.2)
    assert 0.2 <= time.monotonic() - began < 5


def test_a_task_that_is_closed_has_no_keys_and_no_one_waits_for_one(server: KeyServer) -> None:
    one, two = rank(server), rank(server)
    one.set("a", b"x")
    refused: list[str] = []

    def wait() -> None:
        with pytest.raises(RequestRefused) as raised:
            two.get("b", 60)
        refused.append(str(raised.value))

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_until(lambda: server.store.nearest is not None)
    server.close("t")
    waiting.join(10)
    assert refused == ["the task is over"]
    with pytest.raises(RequestRefused, match="no such task"):
        one.set("a", b"x")
    assert server.store.used == 0


def test_tasks_do_not_see_one_anothers_keys(server: KeyServer) -> None:
    server.open("u")
    rank(server, "t").set("k", b"1")
    assert not rank(server, "u").check(["k"])


def test_keys_and_values_past_their_bounds_are_refused_and_the_connection_goes_on(
    server: KeyServer, monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = rank(server)
    with pytest.raises(RequestRefused, match="key of more than"):
        one.set("k" * (MOST_KEY + 1), b"")
    with pytest.raises(RequestRefused, match="value of more than"):
        one.set("k", bytes(MOST_VALUE + 1))
    monkeypatch.setattr(keys_of_head, "MOST_VALUES", 1000)
    one.set("a", bytes(600))
    with pytest.raises(RequestRefused, match="no room"):
        one.set("b", bytes(600))
    one.set("a", bytes(700))
    one.delete("a")
    one.set("b", bytes(600))
    with pytest.raises(RequestRefused, match="no number"):
        one.add("b", 1)


# Strangers

def test_who_does_not_know_the_token_is_no_one(server: KeyServer) -> None:
    # Not the head's own secret either, nor the token of another node.
    for words in ({"token": "0" * 64}, {"node": "n9"}, {"run": "another"}, {"role": "head"}, {"token": TOKEN},
                  {"node": "n2", "token": token_of(TOKEN, "n1")},
                  {"role": "agent", "node": "n1", "token": token_of(TOKEN, "n2")}):
        with pytest.raises((RequestRefused, EOFError, OSError)):
            link(server, **words)
    wait_until(lambda: server.refused == 7)
    assert server.events.empty()
    assert rank(server).count() == 0


def test_a_proof_is_of_no_use_a_second_time(server: KeyServer) -> None:
    with connected(["127.0.0.1"], server.port) as first, connected(["127.0.0.1"], server.port) as second:
        last_heard = HeadConnection(first).receive(5)["challenge"]
        other = HeadConnection(second)
        assert other.receive(5)["challenge"] != last_heard
        other.send({
            "as": "rank", "node": "n1", "run": "run",
            "proof": proof(token_of(TOKEN, "n1"), last_heard, "rank", "n1"), "challenge": "x"})
        assert other.receive(5) == {"error": "a wrong proof"}


def test_who_says_nothing_is_hung_up_on(server: KeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyserver, "GREET_S", 0.2)
    with connected(["127.0.0.1"], server.port) as silent:
        silent.settimeout(10)
        while silent.recv(4096):
            pass


@settings(max_examples=tries(60), deadline=None)
@given(st.lists(
    st.one_of(st.binary(max_size=60), st.just(struct.pack(">I", 0xFFFFFFFF)),
              st.just(struct.pack(">I", 5000) + b"{"),
              st.dictionaries(
                  st.sampled_from(["as", "node", "proof", "op", "key", "keys", "value", "seconds",
                                   "amount", "joined", "beat"]),
                  st.none() | st.integers() | st.text(max_size=9)
                      | st.sampled_from(["set", "get", "t/k", "agent", "rank", "n1"])
                      | st.lists(st.text(max_size=4), max_size=3), max_size=5).map(packed)),
    max_size=6), st.booleans())
def test_whatever_a_connection_says_the_server_goes_on(pieces: list[bytes], knows: bool) -> None:
    server = _long_lived()
    sock = connected(["127.0.0.1"], server.port)
    with sock, contextlib.suppress(OSError):
        if knows:
            greeted(sock, "rank", "n1", "run", token_of(TOKEN, "n1"))
        for piece in pieces:
            sock.sendall(piece)
    # Its own key, so that no other example's is in the way.
    other = rank(server, "t")
    other.set("sound", b"1")
    assert other.get("sound", 5) == b"1"


_kept: list[KeyServer] = []


def _long_lived() -> KeyServer:
    if not _kept:
        _kept.append(KeyServer(TOKEN, "run", {"n1"}, host="127.0.0.1").__enter__())
        _kept[0].open("t")
    return _kept[0]


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    yield
    for server in _kept:
        server.__exit__(None, None, None)


@pytest.mark.parametrize(
    "message",
    [{"op": "get", "key": "t/k", "seconds": float("nan")}, {"op": "get", "key": "t/k", "seconds": "5"},
     {"op": "get", "key": "t/k"}, {"op": "get", "key": 5, "seconds": 1},
     {"op": "get", "key": "nothing", "seconds": 1}, {"op": "fly", "key": "t/k"}, {"op": None, "key": "t/k"},
     {"op": "set", "key": "t/k", "value": "?"}, {"op": "add", "key": "t/k", "amount": True},
     {"op": "add", "key": "t/k", "amount": 1.5}, {"op": "check", "keys": []}, {"op": "check", "keys": "t/k"},
     {"op": "wait", "keys": ["t/k", "u/k"], "seconds": 1}, {"op": "wait", "keys": [5]}])
def test_what_is_no_question_is_garbled(message: dict[str, object]) -> None:
    store = RendezvousStore()
    store.open("t")
    with pytest.raises(Garbled):
        store.ask("one", message, 0.0)
    assert store.used == 0


def test_numbers_stay_within_64_bits_and_times_within_a_day() -> None:
    store = RendezvousStore()
    store.open("t")
    for amount in (10**30, -10**400):
        assert store.ask("one", {"op": "add", "key": "t/k", "amount": amount},
                         0.0) == [KeyReply("one", {"error": "a number of more than 64 bits"})]
    request = store.ask("one", {"op": "get", "key": "t/k", "seconds": 10**400}, 5.0)
    assert isinstance(request, KeyRequest) and request.until == 5.0 + keys_of_head.LONGEST_S
    assert store.overdue(4.0) == []
    assert store.overdue(request.until) == [KeyReply("one", {"error": "timeout"})]


@given(st.lists(st.tuples(st.sampled_from(["set", "get", "wait", "delete", "forget", "close"]),
                          st.integers(0, 3), st.integers(0, 2)), max_size=40))
def test_the_books_are_right_after_any_story(story: list[tuple[str, int, int]]) -> None:
    store = RendezvousStore()
    store.open("t")
    now, waiting = 0.0, set()
    for op, key, who in story:
        now += 1
        answers: list[KeyReply] | KeyRequest = []
        if op == "forget":
            store.forget(who)
            waiting.discard(who)
        elif op == "close":
            answers = store.close("t")
            store.open("t")
        elif who not in waiting:
            message = {
                "op": op, "key": f"t/{key}", "keys": [f"t/{key}", f"t/{(key + 1) % 4}"],
                "value": coded(b"x" * key), "seconds": 10}
            answers = store.ask(who, message, now)
        if isinstance(answers, KeyRequest):
            waiting.add(who)
        else:
            waiting -= {answer.who for answer in answers}
        waiting -= {answer.who for answer in store.overdue(now)}
        assert store.used == sum(len(name) + len(value) for name, value in store.values("t").items())
        assert (store.nearest is not None) == bool(waiting)


# Agents

def test_an_agent_comes_says_and_goes(server: KeyServer) -> None:
    agent = link(server, "agent")
    assert server.events.get(timeout=5) == AgentConnected("n1", "127.0.0.1")
    agent.send({"beat": 1})
    agent.send({"here": {"torch": None}})
    said = server.events.get(timeout=5)
    assert isinstance(said, AgentMessage) and (said.node, said.message) == ("n1", {"here": {"torch": None}})
    server.send("n1", {"go": "t"})
    server.send("n2", {"go": "t"})
    assert agent.receive(5) == {"go": "t"}
    agent.close()
    gone = server.events.get(timeout=5)
    assert isinstance(gone, AgentGone) and (gone.node, gone.why) == ("n1", "it has hung up")


def test_a_second_agent_of_one_name_is_refused_and_the_first_stays(server: KeyServer) -> None:
    first = link(server, "agent")
    with pytest.raises(RequestRefused, match="here already"):
        link(server, "agent")
    server.send("n1", {"go": "t"})
    assert first.receive(5) == {"go": "t"}


def test_an_agent_that_falls_silent_is_gone_and_one_that_beats_is_not() -> None:
    with KeyServer(TOKEN, "run", {"n1", "n2"}, host="127.0.0.1", silent_s=1.0) as server:
        beats, silent = link(server, "agent", "n1"), link(server, "agent", "n2")
        over = threading.Event()

        def beat() -> None:
            while not over.wait(0.1):
                beats.send({"beat": 1})

        thread = threading.Thread(target=beat)
        thread.start()
        try:
            came = [server.events.get(timeout=10) for _ in range(3)]
        finally:
            over.set()
            thread.join()
        gone = came[2]
        assert isinstance(gone, AgentGone) and gone.node == "n2" and "silent for 1" in gone.why
        assert server.events.empty()
        silent.close()


def test_an_agent_that_talks_and_is_not_read_is_cut_off(
    server: KeyServer, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keyserver, "MOST_UNREAD", 50)
    agent = link(server, "agent")
    for _ in range(60):
        try:
            agent.send({"ranks": []})
        except OSError:
            break
    events: list[object] = [server.events.get(timeout=5)]
    while not isinstance(events[-1], AgentGone):
        events.append(server.events.get(timeout=5))
    assert len(events) == 52 and "more than 50 things" in events[-1].why


def test_one_that_asks_and_does_not_read_is_waited_for_and_no_one_else_is(server: KeyServer) -> None:
    rank(server).set("big", bytes(MOST_VALUE))
    greedy = connected(["127.0.0.1"], server.port)
    _opened.append(greedy)
    greeted(greedy, "rank", "n1", "run", token_of(TOKEN, "n1"))
    question = packed({"op": "get", "key": "t/big", "seconds": 1})
    greedy.setblocking(False)
    sent = 0
    while sent < 4000:
        try:
            greedy.sendall(question * 50)
        except BlockingIOError:
            break
        sent += 50
    assert rank(server).count() == 1
    most = 0
    for _ in range(20):
        most = max(most, *(len(peer.unsent) for peer in list(server._peers)))
        assert rank(server).count() == 1
    assert MOST_VALUE < most < 8 * 1024 * 1024


def test_where_it_cannot_listen_is_said_in_one_line(server: KeyServer) -> None:
    with pytest.raises(
        UsageError, match=f"cannot listen on 127.0.0.1, port {server.port}: Address already in use"):
        KeyServer(TOKEN, "run", (), host="127.0.0.1", port=server.port)
    with pytest.raises(UsageError, match=r"cannot listen on no\.such\.host\.invalid"):
        KeyServer(TOKEN, "run", (), host="no.such.host.invalid")


# Many

@pytest.mark.parametrize("clients", [1024, pytest.param(4096, marks=pytest.mark.slow)])
def test_thousands_of_connections_have_their_keys_and_all_of_them_are_read_in_half_a_second(
        clients: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 2 * clients + 200:
        clients = (most - 200) // 2
    with KeyServer(TOKEN, "run", {"n1"}, host="127.0.0.1") as server:
        server.open("t")
        began = time.monotonic()
        links = []
        for number in range(clients):
            links.append(rank(server))
            links[-1].set(f"here/{number}", b"n1")
        connected_s = time.monotonic() - began
        reader = links[0]
        began = time.monotonic()
        values = [reader.get(f"here/{number}", 5) for number in range(clients)]
        one_by_one = time.monotonic() - began
        began = time.monotonic()
        assert reader.check([f"here/{number}" for number in range(clients)])
        in_parallel = time.monotonic() - began
        began = time.monotonic()
        assert len(server.store.values("t")) == clients
        by_head = time.monotonic() - began
        print(f"{clients} clients: connected and set in {connected_s:.2f} s; read by the head in "
              f"{by_head * 1e3:.1f} ms, checked in one question in {in_parallel * 1e3:.0f} ms, read one "
              f"by one by a client in {one_by_one:.2f} s")
        assert values == [b"n1"] * clients
        assert in_parallel < 0.5 and by_head < 0.5


def strangers_left(server: KeyServer, peers: list[socket.socket]) -> int:
    """How many of these the server has not hung up on."""
    left = 0
    for peer in peers:
        peer.setblocking(False)
        try:
            while data := peer.recv(4096):
                assert len(data) < 4096
        except BlockingIOError:
            left += 1
        except OSError:
            pass
    return left


def test_a_flood_of_strangers_leaves_room_for_those_who_belong(server: KeyServer) -> None:
    with ExitStack() as stack:
        peers = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                 for _ in range(strangers.MOST_OF_ADDRESS + 300)]
        assert rank(server).count() == 0
        # One machine has no more than its share, and its newest are those that stay.
        wait_until(lambda: len(server._strangers) <= strangers.MOST_OF_ADDRESS)
        wait_until(lambda: strangers_left(server, peers) <= strangers.MOST_OF_ADDRESS)
        assert strangers_left(server, peers[-100:]) == 100 and strangers_left(server, peers[:100]) == 0
        with contextlib.closing(link(server, "agent")):
            assert rank(server).count() == 0


def test_strangers_of_many_addresses_do_not_take_the_place_of_one_who_is_about_to_greet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strangers.Strangers.__init__, "__defaults__", (40, 20))
    with KeyServer(TOKEN, "run", {"n1"}) as server, ExitStack() as stack:
        server.open("t")
        slow = stack.enter_context(socket.create_connection(("127.0.0.9", server.port),
                                                            source_address=("127.0.0.9", 0)))
        wait_until(lambda: len(server._strangers) == 1)
        for number in range(120):
            at = f"127.0.0.{20 + number % 3}"
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), source_address=(at, 0)))
        wait_until(lambda: server.refused >= 81)
        assert len(server._strangers) == 40
        _opened.append(slow)
        assert TaskKeys(greeted(slow, "rank", "n1", "run", token_of(TOKEN, "n1")), "t").count() == 0


def test_one_that_drips_is_hung_up_on_when_its_time_is_over(
    server: KeyServer, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keyserver, "GREET_S", 0.6)
    with socket.create_connection(("127.0.0.1", server.port)) as dripping:
        began, sent = time.monotonic(), 0
        with contextlib.suppress(OSError):
            for byte in struct.pack(">I", 4000) + b" " * 4000:
                dripping.sendall(bytes([byte]))
                sent += 1
                time.sleep(0.02)
        # A byte now and then does not buy it more time.
        assert 5 < sent < 2000 and time.monotonic() - began < 30
    assert server.refused == 1 and rank(server).count() == 0


@pytest.mark.parametrize("first", [struct.pack(">I", 100 << 20), struct.pack(">I", 4096), b"\xff" * 4096,
                                   packed({"as": "agent"}), b"GET / HTTP/1.1\r\n\r\n"])
def test_one_that_sends_100_mb_before_it_greets_is_cut_off_after_a_few_kilobytes(
    server: KeyServer, first: bytes,
) -> None:
    held = 0
    with socket.create_connection(("127.0.0.1", server.port)) as peer:
        sent = 0
        with contextlib.suppress(OSError):
            peer.sendall(first)
            for _ in range(1600):
                peer.sendall(b" " * 65536)
                sent += 65536
                held = max([held, *(len(one.frames._have) for one in list(server._peers))])
        # The rest was in the system's buffers.
        assert sent < 50 << 20 and held <= 2 * 4096
    wait_until(lambda: server.refused == 1)
    assert rank(server).count() == 0


@pytest.mark.parametrize("role", ["agent", "rank"])
def test_a_node_with_the_token_of_another_is_refused_and_the_other_is_named(server: KeyServer,
                                                                            role: str) -> None:
    with pytest.raises(RequestRefused, match="the token of node n1, which is not good for n2"):
        link(server, role, "n2", token=token_of(TOKEN, "n1"))
    assert server.events.get(timeout=5) == keyserver.TokenOfAnother("n1", "n2", "127.0.0.1")
    # Not more often than once a second: it costs a proof of every node.
    with pytest.raises(RequestRefused, match="a wrong proof"):
        link(server, role, "n2", token=token_of(TOKEN, "n1"))
    assert server.events.empty()
    assert TaskKeys(link(server, "rank", "n2"), "t").count() == 0


def test_the_conductor_remarks_once_on_a_token_that_is_used_under_another_name() -> None:
    remarks: list[str] = []
    conductor = Conductor(LocalTransport(), [Node("n1"), Node("n2")], hosts=["127.0.0.1"],
                          remark=remarks.append)
    for _ in range(3):
        conductor._note(keyserver.TokenOfAnother("n1", "n2", "192.0.2.7"))
    assert len(remarks) == 1
    assert remarks[0].startswith(
        "a peer at 192.0.2.7 used the token of node n1 under the name n2 and was refused")
    for each in (conductor._server._listener, conductor._server._awake, conductor._server._alarm):
        each.close()
    conductor._server._selector.close()


@pytest.mark.parametrize(("address", "expected"), [
    ("192.0.2.7", "192.0.2.7"), ("::ffff:192.0.2.7", "192.0.2.7"), ("2001:db8::1", "2001:db8::/64"),
    ("2001:db8::ffff:1", "2001:db8::/64"), ("fe80::1%eth0", "fe80::/64"), ("no address", "no address"),
])
def test_addresses_of_one_machine_count_as_one(address: str, expected: str) -> None:
    assert peer_of(address) == expected


def test_the_ranks_of_connected_agents_behind_one_address_have_room() -> None:
    found = strangers.Strangers(most=1000, of_address=4)
    here = [Peer(socket.socket(), "10.0.0.1", 0.0, "10.0.0.1") for _ in range(40)]
    assert [found.add(peer) for peer in here[:4]] == [None] * 4
    assert found.add(here[4]) is here[0]
    found.remove(here[0])
    found.agent(here[1], 1)
    assert [found.add(peer) for peer in here[5:37]] == [None] * 32
    assert found.add(here[37]) is here[1]
    for peer in here:
        found.remove(peer)
        peer.sock.close()
    assert len(found) == 0 and found.oldest() is None


@pytest.mark.parametrize("ipv6", [True, False])
def test_it_listens_at_every_address_also_where_there_is_no_ipv6(
    ipv6: bool, monkeypatch: pytest.MonkeyPatch,
) -> None:
    create = socket.create_server

    def only_ipv4(*words: Any, **named: Any) -> socket.socket:
        if named.get("family") == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return create(*words, **named)

    if not ipv6:
        monkeypatch.setattr(socket, "create_server", only_ipv4)
    with KeyServer(TOKEN, "run", {"n1"}) as server:
        server.open("t")
        assert rank(server).count() == 0


def test_it_ends_also_when_its_thread_is_done_before_it_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    class SeenAtOnce(deque[Callable[[], None]]):
        def append(self, operation: Callable[[], None]) -> None:
            super().append(operation)
            server._thread.join(20)

    with KeyServer(TOKEN, "run", {"n1"}) as server:
        monkeypatch.setattr(server, "_operations", SeenAtOnce())
    assert not server._thread.is_alive()
