"""The page is made when something has changed, is whole in every form,
and dies when no one can look after it."""

from __future__ import annotations

import gzip
import threading
import zlib

import pytest

from healthcheck.exporter import board as boards
from healthcheck.exporter.board import Board
from healthcheck.exporter.page import Page
from healthcheck.exporter.source import FleetStatus
from tests.healthcheck.exporter import made
from tests.testbed.sshd import wait_until


class Told:
    """A source that gives each fleet once, and then says that nothing has changed;
    `closed` when no one asks any more."""

    def __init__(self, *fleets: FleetStatus) -> None:
        self.fleets = list(fleets)
        self.asked = 0
        self.closed = False
        self.wait = threading.Event()
        self.wait.set()

    def read(self, now: float) -> FleetStatus | None:
        self.asked += 1
        self.wait.wait(60)
        return self.fleets.pop(0) if self.fleets else None

    def close(self) -> None:
        self.closed = True


class Clock:
    """The time that somebody sets."""

    now = made.NOW

    def __call__(self) -> float:
        return self.now


def state(board: Board) -> str:
    return next(line for line in board.text().splitlines() if line.startswith("muster_node_state")
                and line.endswith(" 1.0")).split('"')[3]


def test_a_page_is_made_once_for_what_is_known_and_again_when_a_look_has_aged() -> None:
    clock = Clock()
    board = Board(Told(made.fleet(made.at(age=60))), Page(3600), lambda: made.PROCESS, clock=clock)
    for _ in range(3):
        board.refresh()
    assert (board.pages, state(board)) == (1, "healthy")
    clock.now = made.NOW + 3600 - 59
    board.refresh()
    assert (board.pages, state(board)) == (2, "unknown")
    clock.now = made.NOW            # somebody has put the clock back
    board.refresh()
    assert (board.pages, state(board)) == (3, "healthy")


def test_a_newer_look_is_on_the_page() -> None:
    board = Board(Told(made.fleet(made.at()), made.fleet(made.at(state="unhealthy"))), Page(3600),
                  lambda: made.PROCESS, clock=Clock())
    board.refresh()
    assert state(board) == "healthy"
    board.refresh()
    assert state(board) == "unhealthy"


def test_the_small_form_is_one_stream_of_the_same_page_and_may_be_asked_for_again_and_again() -> None:
    board = Board(Told(made.fleet(made.at())), Page(3600), lambda: made.PROCESS, clock=Clock())
    board.refresh()
    for _ in range(3):
        small = b"".join(board.answer("/metrics", small=True).body)
        stream = zlib.decompressobj(31)
        assert stream.decompress(small).decode() == board.text() == gzip.decompress(small).decode()
        assert stream.eof and stream.unused_data == b""     # a second member would be lost on some clients


def test_until_there_is_a_page_it_says_that_it_starts() -> None:
    board = Board(Told(made.fleet(made.at())), Page(3600), lambda: made.PROCESS)
    assert [board.answer(path, small=False).status for path in ("/metrics", "/readyz", "/healthz")] == [
        503, 503, 200]
    board.refresh()
    assert [board.answer(path, small=False).status for path in ("/metrics", "/readyz", "/healthz")] == [
        200, 200, 200]


def test_a_scrape_waits_for_no_reading_and_a_page_that_no_one_can_renew_is_not_shown_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Told(made.fleet(made.at()))
    board = Board(source, Page(3600), lambda: made.PROCESS, clock=Clock())
    monkeypatch.setattr(boards, "_LOOK_S", 0.01)
    keeper = threading.Thread(target=board.keep, daemon=True)
    keeper.start()
    assert board.ready.wait(60)
    source.wait.clear()             # as a disk that hangs
    assert board.answer("/metrics", small=False).status == 200
    monkeypatch.setattr(boards, "_DEAD_S", 0.0)
    wait_until(lambda: board.answer("/metrics", small=False).status == 503,
               what="that the page is not shown any more")
    assert b"nothing could be read" in board.answer("/readyz", small=False).body[0]
    source.wait.set()
    board.end()
    keeper.join(60)
    assert source.closed
