"""Sessions at the control socket of a real ssh in the background, and of things that are none."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory.transport.mux import MuxError, MuxSession
from tests.testbed.sshd import Sshd, wait_until
from tests.tries import tries


@pytest.fixture
def control(plain_sshd: Sshd, tmp_path: Path) -> Iterator[Path]:
    """The control socket of an ssh that holds a connection."""
    path = tmp_path / "c"
    argv = ["ssh", "-F", "none", "-M", "-N", "-S", str(path), "-p", str(plain_sshd.port), "-l",
            plain_sshd.user, "-i", str(plain_sshd.user_key), "-o",
            f"UserKnownHostsFile={plain_sshd.known_hosts}", "127.0.0.1"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(path.exists, what="the control socket")
        yield path
        # Told to end between its look for that and its next wait, ssh waits on.
        process.kill()


def opened() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_command_has_its_input_output_errors_and_status(control: Path) -> None:
    before = opened()
    session = MuxSession(str(control), "read line; echo \"got $line\"; echo careful >&2; exit 7", 5)
    session.stdin.write(b"hello\n")
    session.stdin.close()
    assert session.stdout.read() == b"got hello\n"
    assert session.stderr.read() == b"careful\n"
    assert session.wait(5) == 7
    session.close()
    assert opened() == before


def test_many_sessions_share_the_connection(control: Path) -> None:
    sessions = [MuxSession(str(control), f"cat; echo {number}", 5) for number in range(8)]
    for session in sessions:
        session.stdin.close()
    assert [session.stdout.read() for session in sessions] == [b"%d\n" % number for number in range(8)]
    for session in sessions:
        session.close()


def test_closing_it_ends_the_input_of_the_command(control: Path, tmp_path: Path) -> None:
    note = tmp_path / "note"
    session = MuxSession(str(control), f"cat; echo over > {note}", 5)
    session.close()
    wait_until(note.exists, what="the end of the command's input")


def test_a_status_that_does_not_come_is_a_timeout_and_can_be_waited_for_again(control: Path) -> None:
    session = MuxSession(str(control), "cat", 5)
    with pytest.raises(subprocess.TimeoutExpired):
        session.wait(0.05)
    with pytest.raises(subprocess.TimeoutExpired):
        session.wait(0)
    session.stdin.close()
    assert session.wait(5) == 0
    session.close()


def test_the_end_of_the_connection_is_status_255(control: Path) -> None:
    session = MuxSession(str(control), "cat", 5)
    subprocess.run(["ssh", "-S", str(control), "-O", "exit", "x"], stderr=subprocess.DEVNULL, check=True)
    assert session.stdout.read() == b""
    assert session.wait(5) == 255
    session.close()


def test_no_socket_and_a_dead_one_are_reported(tmp_path: Path) -> None:
    with pytest.raises(MuxError, match="No such file"):
        MuxSession(str(tmp_path / "none"), "true", 1)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead"))
    with pytest.raises(MuxError, match="refused"):
        MuxSession(str(tmp_path / "dead"), "true", 1)


def test_a_socket_that_stays_silent_costs_its_time_and_no_more(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        with pytest.raises(MuxError, match="timed out"):
            MuxSession(str(tmp_path / "s"), "true", 0.1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=tries(60))
@given(st.binary(max_size=60) | st.builds(lambda body: len(body).to_bytes(4, "big") + body,
                                          st.binary(max_size=40)))
def test_whatever_answers_at_the_socket_it_is_a_mux_error_and_nothing_stays_open(
    tmp_path: Path, said: bytes,
) -> None:
    before = opened()
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(said)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(MuxError):
            MuxSession(str(path), "true", 1)
        thread.join()
    path.unlink()
    assert opened() == before
