"""Verifies passwords of HTTP's basic authentication (RFC 7617) against bcrypt hashes, beside the server.

A hash costs tens of milliseconds by design. So outcomes are remembered, few are computed at a time, and those
that wait are taken from each address in turn, newest first: whoever floods with wrong ones delays himself.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import bcrypt

from healthcheck.exporter.beside import Beside

_AT_A_TIME = 2
_MOST_WAITING = 16      # of one address; more would take longer than a scrape waits
_MOST_KNOWN = 256       # outcomes that are remembered, of right and of wrong logins each
_MOST_PASSWORD = 72     # bytes that bcrypt takes; the rest of a longer one does not count


@dataclass(frozen=True)
class _Login:
    key: bytes
    hashed: bytes
    password: bytes
    known: bool
    outcome: asyncio.Future[bool | None]


class UserLogins:
    """Verified and refused logins. For the event loop's thread."""

    def __init__(self) -> None:
        self._secret = os.urandom(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._wrong: OrderedDict[bytes, None] = OrderedDict()
        self._pending: dict[bytes, _Login] = {}
        self._waiting: dict[str, list[_Login]] = {}
        self._beside = Beside(_AT_A_TIME)
        self._running: set[asyncio.Task[None]] = set()
        self.computed = 0

    async def right(self, authorization: str, users: Mapping[str, str], peer: str) -> bool | None:
        """Whether the header names one of the users with the right password; None if too many wait.

        An unknown user takes as long as a known one: a hash is computed all the same, of the highest cost."""
        given = _given(authorization)
        if given is None:
            return False
        user, password = given
        known = user in users
        hashed = (users[user] if known else max(users.values(), key=lambda one: one[4:6])).encode()
        key = self._key(user.encode("utf-8", "surrogateescape"), hashed, password)
        if key in self._right:
            self._right.move_to_end(key)
            return True
        if key in self._wrong:
            self._wrong.move_to_end(key)
            return False
        login = self._pending.get(key)
        if login is None:
            login = _Login(key, hashed, password, known, asyncio.get_running_loop().create_future())
            self._pending[key] = login
            waiting = self._waiting.setdefault(peer, [])
            waiting.append(login)
            if len(waiting) > _MOST_WAITING:
                self._over(waiting.pop(0), None)
            self._start()
        return await asyncio.shield(login.outcome)

    def _key(self, *parts: bytes) -> bytes:
        """By what an outcome is remembered: no password can be found from it without this process' memory."""
        return hmac.digest(self._secret, b"".join(hashlib.sha256(part).digest() for part in parts), "sha256")

    def _start(self) -> None:
        while self._waiting and len(self._running) < _AT_A_TIME:
            peer = next(iter(self._waiting))
            waiting = self._waiting.pop(peer)
            login = waiting.pop()
            if waiting:
                self._waiting[peer] = waiting       # behind the other addresses
            self.computed += 1
            task = asyncio.get_running_loop().create_task(self._verify(login))
            self._running.add(task)
            task.add_done_callback(self._done)

    async def _verify(self, login: _Login) -> None:
        outcome = None
        try:
            matches = await self._beside.run(lambda: _matches(login.password, login.hashed))
            outcome = matches and login.known
        except RuntimeError:
            pass        # no free thread
        finally:
            self._over(login, outcome)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            self._start()

    def _over(self, login: _Login, outcome: bool | None) -> None:
        del self._pending[login.key]
        if outcome is not None:
            kept = self._right if outcome else self._wrong
            kept[login.key] = None
            if len(kept) > _MOST_KNOWN:
                kept.popitem(last=False)
        if not login.outcome.done():
            login.outcome.set_result(outcome)


def _given(authorization: str) -> tuple[str, bytes] | None:
    """User and password of the header; None if it holds none."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(rest.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (user.decode("utf-8", "surrogateescape"), password) if colon else None


def _matches(password: bytes, hashed: bytes) -> bool:
    try:
        return bcrypt.checkpw(password[:_MOST_PASSWORD], hashed)
    except ValueError:      # a NUL byte, in older versions
        return False
