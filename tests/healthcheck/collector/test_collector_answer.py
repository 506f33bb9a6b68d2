"""How the answer leaves the node: whole, whatever takes it, and in as few pieces as there is room for."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from healthcheck.collector import program
from healthcheck.collector.reply import decode
from healthcheck.model.probes import MIB, Probe, ProbeKind, ProbeSet
from inventory.transport.base import Program, Reply
from inventory.transport.frame import Body, Framer
from tests.testbed.collector import PYTHON, collect


@pytest.fixture
def large(tmp_path: Path) -> Probe:
    """A probe whose capture fits into a pipe, though compressed it is several times what a pipe takes without
    making one wait."""
    (tmp_path / "large").write_text(os.urandom(10_000).hex())
    return Probe("large", ProbeKind.FILES, paths=("/large",))


def started(probe: Probe, tree: Path, output: int) -> tuple[Program, subprocess.Popen[bytes]]:
    built = program.build(ProbeSet((probe,)))
    process = subprocess.Popen([PYTHON, "-I", "-S", "-c", built.loader, built.nonce], stdin=subprocess.PIPE,
                               stdout=output, env={**os.environ, "MUSTER_ROOT": str(tree)})
    assert process.stdin is not None
    process.stdin.write(built.payload)
    process.stdin.flush()
    return built, process


def ended(process: subprocess.Popen[bytes]) -> None:
    assert process.wait(20) == 0
    assert process.stdin is not None
    process.stdin.close()


def said(built: Program, pieces: list[bytes]) -> str:
    """The text of the probe's file, by what the program wrote."""
    framer = Framer(built.nonce, MIB)
    (body,) = [event.data for piece in pieces for event in framer.feed(piece) if isinstance(event, Body)]
    return decode(Reply("node", body, None, 1.0, 2.0)).captures["large"].files["/large"].text


def test_an_answer_that_a_pipe_has_room_for_is_one_piece(large: Probe, tmp_path: Path) -> None:
    # What is written here is read as it was written, in pieces of at most 4 KiB, unless the program has
    # opened the pipe anew.
    end, output = os.pipe2(os.O_DIRECT)
    built, process = started(large, tmp_path, output)
    os.close(output)
    ended(process)
    pieces = list(iter(lambda: os.read(end, MIB), b""))
    os.close(end)
    assert said(built, pieces) == (tmp_path / "large").read_text()
    assert [len(piece) > 8192 for piece in pieces] == [False, True]


def test_an_answer_larger_than_the_pipe_is_whole(tmp_path: Path) -> None:
    (tmp_path / "large").write_text(os.urandom(400_000).hex())
    probe = Probe("large", ProbeKind.FILES, paths=("/large",), limit=MIB)
    assert collect([probe], tmp_path).captures["large"].files["/large"].text == (
        tmp_path / "large").read_text()


def test_an_answer_into_a_file_comes_after_what_was_said_before(large: Probe, tmp_path: Path) -> None:
    with (tmp_path / "output").open("w+b") as output:
        built, process = started(large, tmp_path, output.fileno())
        ended(process)
    assert said(built, [(tmp_path / "output").read_bytes()]) == (tmp_path / "large").read_text()


def test_an_answer_into_a_socket_is_whole(large: Probe, tmp_path: Path) -> None:
    near, far = socket.socketpair()
    with near, far:
        built, process = started(large, tmp_path, far.fileno())
        far.close()
        pieces = list(iter(lambda: near.recv(MIB), b""))
        ended(process)
    assert said(built, pieces) == (tmp_path / "large").read_text()
