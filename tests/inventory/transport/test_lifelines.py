"""The head's side of lifelines: who may hold one, and for how long who says nothing is waited for."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from inventory.transport import lifelines
from inventory.transport.lifelines import Lifelines
from tests.testbed.sshd import wait_until


@pytest.fixture
def held() -> Iterator[Lifelines]:
    made = Lifelines()
    yield made
    made.close()


def connected(held: Lifelines, *said: bytes) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", held.port), 30)
    for words in said:
        line.sendall(words)
    return line


def test_who_says_nothing_is_let_go_and_a_line_stays(monkeypatch: pytest.MonkeyPatch,
                                                     held: Lifelines) -> None:
    monkeypatch.setattr(lifelines, "_GREETING_S", 0.3)
    with connected(held, f"{held.greeting('s')} 7\n".encode()) as line:
        wait_until(lambda: held._lines, what="the line")
        silent = [connected(held) for _ in range(5)]
        for peer in silent:
            with peer:
                assert peer.recv(1) == b"", "closed by the head"
        with connected(held, f"{held.greeting('s')} 8\n".encode()):
            wait_until(lambda: len(held._lines) == 2, what="one that came after them")
        line.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            line.recv(1)
        held.close_one("s", 7)
        line.settimeout(30)
        assert line.recv(1) == b""


@pytest.mark.parametrize("said", [b"hello\n", b"\xff\xfe", b"0-s 1\n", b""])
def test_who_says_anything_else_is_let_go_at_once(said: bytes, held: Lifelines) -> None:
    with connected(held, said) as line:
        if not said:
            line.shutdown(socket.SHUT_WR)
        assert line.recv(1) == b""


def test_the_end_of_all_lets_go_who_has_not_spoken_yet(held: Lifelines) -> None:
    with connected(held) as line:
        wait_until(lambda: held._silent, what="the peer")
        held.close()
        assert line.recv(1) == b""
