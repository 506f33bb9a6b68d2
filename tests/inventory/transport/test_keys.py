"""The agent client reads foreign bytes: it says what is wrong, within bounds, and never hangs."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.transport.keys import AgentError, Keyring, SshAgent, agent_socket


@contextlib.contextmanager
def agent_that_says(answer: bytes) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        path = f"{folder}/agent"
        server.bind(path)
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield path
        thread.join(5)


def packed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


@settings(deadline=None)
@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda body: packed(b"\x0c" + body)))
def test_any_answer_is_read_as_keys_or_refused(answer: bytes) -> None:
    with agent_that_says(answer) as path:
        try:
            held = SshAgent(path).keys()
            assert all(isinstance(blob, bytes) for blob, _ in held)
        except AgentError as error:
            assert str(error).isprintable()


def test_a_list_of_keys_is_read_with_its_comments() -> None:
    body = b"\x0c" + (2).to_bytes(4, "big") + packed(b"one") + packed(b"me@here") + packed(
        b"two") + packed(b"")
    with agent_that_says(packed(body)) as path:
        assert SshAgent(path).keys() == [(b"one", "me@here"), (b"two", "")]


def test_an_answer_of_a_gigabyte_is_refused_before_it_is_read() -> None:
    with agent_that_says((1 << 30).to_bytes(4, "big")) as path, pytest.raises(AgentError):
        SshAgent(path).keys()


def test_key_files_are_loaded_once(tmp_path: Path) -> None:
    ring = Keyring()
    path = str(tmp_path / "key")
    (tmp_path / "key").write_text("nonsense")
    first = ring.identities([path], None, only_files=False)
    (tmp_path / "key").unlink()
    assert ring.identities([path], None, only_files=False) is first
    assert "not a private key" in first.notes[0]


@pytest.mark.parametrize(("configured", "environment", "found"),
                         [(None, "/run/a", "/run/a"), (None, "", None), ("none", "/run/a", None),
                          ("NONE", "/run/a", None), ("SSH_AUTH_SOCK", "/run/a", "/run/a"),
                          ("/run/b", "/run/a", "/run/b"), ("$OTHER_AGENT", "/run/a", "/run/c")])
def test_the_agent_is_the_configured_one_or_that_of_the_environment(
        configured: str | None, environment: str, found: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", environment)
    monkeypatch.setenv("OTHER_AGENT", "/run/c")
    assert agent_socket(configured) == found
