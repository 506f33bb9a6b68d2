"""One connection of the exporter's server: its request within a deadline, and one answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from healthcheck.exporter.admission import ConnectionPhase
from healthcheck.exporter.board import HttpResponse
from healthcheck.exporter.request import Request, head, parsed

_CHUNK = 1 << 18        # bytes of an answer that are given out at a time
_LINGER_S = 1.0         # after a refused request, so that its client reads why before the connection is reset


@dataclass(frozen=True)
class ClientLimits:
    """Seconds that a client has: for the handshake and its request, for each part of the answer, for all."""

    request_s: float = 5.0
    quiet_s: float = 10.0
    whole_s: float = 60.0


class Connection(asyncio.Protocol):
    """A connection. `answer` gives the response to a request, `accepts` whether a certificate is welcome."""

    def __init__(
        self, peer: str, limits: ClientLimits, answer: Callable[[Request, str], Awaitable[HttpResponse]],
        headers: Callable[[], Mapping[str, str]], accepts: Callable[[Mapping[str, Any]], bool],
    ) -> None:
        self.peer, self.phase, self.since = peer, ConnectionPhase.REQUEST, time.monotonic()
        self._limits, self._answer, self._headers, self._accepts = limits, answer, headers, accepts
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self._loop.create_future()
        self._received = bytearray()
        self._opening: asyncio.Task[Any] | None = None
        self._transport: asyncio.Transport | None = None
        self._room: asyncio.Future[None] | None = None      # awaited while the client takes nothing
        self._serving: asyncio.Task[None] | None = None
        self._late = self._loop.call_later(limits.request_s, self.abort)
        self._whole = self._loop.call_later(limits.whole_s, self.abort)

    def opens(self, opening: asyncio.Task[Any]) -> None:
        """The task that makes the handshake."""
        self._opening = opening

    def abort(self) -> None:
        """Closes at once, whatever is under way."""
        self._ended()
        if self._transport is not None:
            self._transport.abort()
        elif self._opening is not None:
            self._opening.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done."""
        self._transport = cast(asyncio.Transport, transport)
        certificate = transport.get_extra_info("peercert")
        if certificate is not None and not self._accepts(certificate):
            self.abort()

    def data_received(self, data: bytes) -> None:
        """A piece of the request; what follows it is not read."""
        if self.phase is not ConnectionPhase.REQUEST or self._transport is None:
            return
        self._received += data
        found = parsed(self._received)
        if found is None:
            return
        self._received.clear()
        self._late.cancel()
        self._at(ConnectionPhase.ANSWER)
        if isinstance(found, Request):
            self._transport.pause_reading()
        self._serving = self._loop.create_task(self._serve(found))

    def pause_writing(self) -> None:
        """The client takes nothing for now."""
        self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        """It has taken something."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends what was under way."""
        self._ended()

    async def _serve(self, found: Request | HttpResponse) -> None:
        try:
            await self._give(found)
        except Exception as error:  # noqa: BLE001  (one request's; the server goes on)
            self._loop.call_exception_handler({"message": "a request failed", "exception": error})
            self.abort()

    async def _give(self, found: Request | HttpResponse) -> None:
        assert self._transport is not None  # noqa: S101  (narrowing; a request came over it)
        if isinstance(found, Request):
            answer = await self._answer(found, self.peer)
            parts = () if found.head else answer.body
        else:
            answer, parts = found, found.body
        for part in (head(answer, self._headers()), *parts):
            for at in range(0, len(part), _CHUNK):
                self._at(ConnectionPhase.TAKEN)
                self._late.cancel()
                self._late = self._loop.call_later(self._limits.quiet_s, self.abort)
                self._transport.write(memoryview(part)[at:at + _CHUNK])
                if self._room is not None:
                    await self._room
        if not isinstance(found, Request):
            await asyncio.sleep(_LINGER_S)
        self._transport.close()     # `_late` goes on, for what the client has not taken yet

    def _at(self, phase: ConnectionPhase) -> None:
        self.phase, self.since = phase, time.monotonic()

    def _ended(self) -> None:
        self._late.cancel()
        self._whole.cancel()
        if self._serving is not None:
            self._serving.cancel()
        if not self.over.done():
            self.over.set_result(None)
