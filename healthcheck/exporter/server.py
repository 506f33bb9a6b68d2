"""The exporter's HTTP server: one thread for all connections, each with deadlines, so that a slow client
harms itself alone.

What may wait for a disk or for arithmetic runs in threads beside it, of which there are few.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from healthcheck.exporter import admission
from healthcheck.exporter.beside import Beside
from healthcheck.exporter.board import SLOW, Board, HttpResponse
from healthcheck.exporter.connection import ClientLimits, Connection
from healthcheck.exporter.request import Request, takes_gzip
from healthcheck.exporter.security import Security
from inventory.peeraddress import peer_of

_BACKLOG = 128
_PAUSE_S = 0.05         # after a connection that could not be accepted, as for lack of descriptors
_MOST_SLOW = 4          # answers made beside at a time


class Server:
    """Serves a board; raises OSError if it cannot listen. `counted` holds the number of connections that
    were refused or closed to make room."""

    def __init__(
        self, host: str, port: int, security: Security | None = None, *, limits: ClientLimits | None = None,
        most: int = admission.MOST, most_of_peer: int = admission.MOST_OF_PEER,
    ) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.board: Board | None = None
        self.counted = [0]
        self.open: set[Connection] = set()
        self._security, self._limits = security or Security(), limits or ClientLimits()
        self._most, self._most_of_peer = most, most_of_peer
        self._slow = Beside(_MOST_SLOW)
        self._socket = socket.socket(found[0][0], socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(found[0][4][:2])
            self._socket.listen(_BACKLOG)
            self._socket.setblocking(False)
        except OSError:
            self._socket.close()
            raise
        self.host, self.port = self._socket.getsockname()[:2]

    async def run(self, ended: asyncio.Event) -> None:
        """Serves until `ended`."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_report)
        accepting = loop.create_task(self._accept(loop))
        await ended.wait()
        accepting.cancel()
        for one in list(self.open):
            one.abort()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(0)      # closed transports let go of their sockets
        self._socket.close()

    async def _accept(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            try:
                sock, address = await self._next_client(loop)
            except OSError:
                self._close(admission.slowest(self.open, time.monotonic()))
                await asyncio.sleep(_PAUSE_S)
                continue
            self._admit(loop, sock, peer_of(address[0]))
            # What clients have sent is read before the next one may close a connection for lack of room.
            await asyncio.sleep(0)

    async def _next_client(self, loop: asyncio.AbstractEventLoop) -> tuple[socket.socket, tuple[str, int]]:
        """Who has connected; unlike with loop.sock_accept, none is lost where this is cancelled."""
        while True:
            with contextlib.suppress(BlockingIOError):
                return self._socket.accept()
            ready = asyncio.Event()
            loop.add_reader(self._socket, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(self._socket)

    def _admit(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, peer: str) -> None:
        there = admission.full(self.open, peer, self._most, self._most_of_peer)
        if there:
            self.counted[0] += 1
            if not self._close(admission.slowest(there, time.monotonic())):
                sock.close()
                return
        one = Connection(peer, self._limits, self._answer, self._security.headers, self._security.accepts)
        self.open.add(one)
        opening = loop.create_task(self._opened(loop, sock, one))
        one.opens(opening)

        def over(task: asyncio.Task[None]) -> None:
            one.abort()
            sock.close()
            self.open.discard(one)

        opening.add_done_callback(over)

    async def _opened(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, one: Connection) -> None:
        with contextlib.suppress(OSError, EOFError):        # the client's
            context = self._security.context()
            await loop.connect_accepted_socket(
                lambda: one, sock, ssl=context,
                ssl_handshake_timeout=self._limits.request_s if context is not None else None)
            await one.over

    def _close(self, one: Connection | None) -> bool:
        if one is not None:
            one.abort()
            self.open.discard(one)
        return one is not None

    async def _answer(self, request: Request, peer: str) -> HttpResponse:
        refusal = await self._security.refusal(request.header("Authorization"), peer)
        if refusal is not None:
            return refusal
        board = self.board
        if board is None:
            return HttpResponse(503, (b"starting\n",))
        target, accept = request.target, request.header("Accept")
        small = takes_gzip(request.header("Accept-Encoding"))
        if target.partition("?")[0] not in SLOW:
            return board.answer(target, small=small, accept=accept)
        if self._slow.full:
            return HttpResponse(503, (b"busy\n",))
        return await self._slow.run(lambda: board.answer(target, small=small, accept=accept))


def serve(server: Server) -> Callable[[], None]:
    """Serves in its own thread; returns the function that stops it."""
    loop, ended = asyncio.new_event_loop(), asyncio.Event()

    def run() -> None:
        try:
            loop.run_until_complete(server.run(ended))
        finally:
            loop.close()

    thread = threading.Thread(target=run, name="exporter", daemon=True)
    thread.start()

    def stop() -> None:
        with contextlib.suppress(RuntimeError):     # it has ended
            loop.call_soon_threadsafe(ended.set)
        thread.join()

    return stop


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignores errors of clients; reports our own in one line."""
    error = context.get("exception")
    if not isinstance(error, (OSError, EOFError)):
        text = f"{type(error).__name__}: {error}" if error is not None else context.get("message", "")
        print(f"muster: exporter: {text}", file=sys.stderr)  # noqa: T201
