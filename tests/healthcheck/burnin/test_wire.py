"""Frames and proofs between head and nodes: any pieces make whole messages or an expected error."""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import socket
import struct
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin import wire
from healthcheck.burnin.wire import (
    Frames,
    Garbled,
    HeadConnection,
    RequestRefused,
    TaskKeys,
    coded,
    connected,
    decoded,
    greeted,
    packed,
    proof,
)

TOKEN = "ab" * 32
MESSAGES = st.lists(st.dictionaries(st.text(max_size=5),
                                    st.recursive(st.none() | st.booleans() | st.integers(-2**70, 2**70)
                                                 | st.text(max_size=20),
                                                 lambda inner: st.lists(inner, max_size=3)), max_size=4),
                    max_size=6)


@given(MESSAGES, st.lists(st.integers(1, 40), max_size=30))
def test_messages_come_whole_and_in_order_in_whatever_pieces(
    messages: list[dict[str, object]], sizes: list[int],
) -> None:
    data = b"".join(map(packed, messages))
    frames, found, at = Frames(), [], 0
    for size in [*sizes, len(data)]:
        found += frames.feed(data[at:at + size])
        at += size
    assert found == messages


@given(st.binary(max_size=200))
def test_bytes_that_are_no_messages_are_garbled_or_waited_for(data: bytes) -> None:
    with contextlib.suppress(Garbled):
        assert all(isinstance(message, dict) for message in Frames(4096).feed(data))


@given(MESSAGES.filter(bool), st.data())
def test_a_frame_that_is_cut_is_never_taken_for_a_message(messages: list[dict[str, object]],
                                                          data: st.DataObject) -> None:
    whole = b"".join(map(packed, messages))
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert Frames().feed(whole[:cut]) == messages[:len(Frames().feed(whole[:cut]))]
    assert len(Frames().feed(whole[:cut])) < len(messages)


@pytest.mark.parametrize("body",
                         [b"[1]", b"nonsense", b"\xff\xfe", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"])
def test_what_is_no_json_object_is_garbled(body: bytes) -> None:
    with pytest.raises(Garbled):
        Frames().feed(struct.pack(">I", len(body)) + body)


def test_a_length_over_the_limit_is_refused_before_its_bytes_are_waited_for() -> None:
    with pytest.raises(Garbled, match="over the limit of 100"):
        Frames(100).feed(struct.pack(">I", 101))
    with pytest.raises(Garbled):
        packed({"value": "x" * wire.MOST_FRAME})


def test_a_proof_holds_for_one_challenge_role_and_node_and_needs_the_token() -> None:
    right = proof(TOKEN, "c1", "agent", "n1")
    assert right == proof(TOKEN, "c1", "agent", "n1") and len(right) == 64
    others = [proof("0" * 64, "c1", "agent", "n1"), proof(TOKEN, "c2", "agent", "n1"),
              proof(TOKEN, "c1", "rank", "n1"), proof(TOKEN, "c1", "agent", "n2"),
              proof(TOKEN, "c1a", "gent", "n1")]
    assert right not in others and len(set(others)) == len(others)


@given(st.binary(max_size=100))
def test_values_survive(value: bytes) -> None:
    assert decoded(json.loads(json.dumps(coded(value)))) == value


@pytest.mark.parametrize("text", [None, 5, "a", "ab=c", "äöü=", ["YQ=="]])
def test_what_is_no_value_is_garbled(text: object) -> None:
    with pytest.raises(Garbled):
        decoded(text)


def test_a_head_that_does_not_know_the_token_is_no_head() -> None:
    ours, theirs = socket.socketpair()
    head = HeadConnection(theirs)
    with ours, theirs:
        head.send({"challenge": "c"})
        head.send({"welcome": proof("0" * 64, "whatever", "head", "n1")})
        with pytest.raises(Garbled, match="does not know the token"):
            greeted(ours, "agent", "n1", "run", TOKEN)


def test_silence_is_waited_for_as_long_as_was_promised_and_an_end_is_reported_from_it() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link = HeadConnection(ours)
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            link.receive(0.05)
        assert time.monotonic() - began < 5
        theirs.close()
        with pytest.raises(EOFError):
            link.receive(5)


def test_closing_a_link_wakes_whoever_reads_it() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        link, ended = HeadConnection(ours), threading.Event()

        def read() -> None:
            with pytest.raises((EOFError, OSError)):
                link.receive()
            ended.set()

        threading.Thread(target=read, daemon=True).start()
        link.close()
        assert ended.wait(5)


def test_an_answer_that_is_an_error_is_raised_with_its_words() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        HeadConnection(theirs).send({"error": "timeout"})
        with pytest.raises(RequestRefused, match="timeout"):
            TaskKeys(HeadConnection(ours), "t").get("k", 1)


def test_the_address_from_which_sshd_was_reached_stands_for_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("SSH_CONNECTION", "127.0.0.1 50000 192.0.2.9 22")
        connected([wire.SSH_CLIENT], port).close()
        monkeypatch.delenv("SSH_CONNECTION")
        with pytest.raises(OSError, match="no address"):
            connected([wire.SSH_CLIENT], port)
        # One that refuses is passed over.
        connected(["127.0.0.2", wire.SSH_CLIENT, "127.0.0.1"], port).close()


def test_why_the_head_cannot_be_reached_names_every_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(OSError, match=rf"port {port} \(127.0.0.1: .*; 127.0.0.2: "):
        connected(["127.0.0.1", "127.0.0.2"], port)


def test_what_runs_on_nodes_is_python_3_8() -> None:
    ast.parse(inspect.getsource(wire), feature_version=(3, 8))
