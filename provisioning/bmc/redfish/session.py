"""Asks one Redfish service as one login, within one deadline and one budget for each call; the login is made
when it is first needed.

A password is sent once. What answers 401 is not asked again by this session: accounts lock after a few
refusals. Reading is tried once more when the connection was dropped, or after `Retry-After`; changes are sent
once. Source: DMTF DSP0266 (sessions, section 13; query parameters, 7.3; status codes, 7.6).
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.credentials import Hidden, without
from provisioning.bmc.redfish.answers import (
    Document,
    check,
    document,
    error_text,
    is_slash,
    is_within,
    within,
)
from provisioning.bmc.redfish.wire import (
    Deadline,
    RedfishConnection,
    RedfishConnectionDropped,
    RedfishEndpoint,
    RedfishResponse,
)

ROOT = "/redfish/v1/"
MOST_REQUESTS = 2000        # of one call; a node with eight GPUs takes some 200 where nothing is expanded
MOST_BYTES = 64 * 1024 * 1024
_SESSIONS = {404, 405, 501}     # no such service
_FULL = (b"SessionLimitExceeded", b"RAC0218")       # DMTF's Base registry; iDRAC's own message
_HEADERS = {
    "Accept": "application/json", "Accept-Encoding": "identity", "OData-Version": "4.0",
    "User-Agent": "muster"}


class Session:
    """The way to one service. Not for several threads at once."""

    def __init__(self, place: RedfishEndpoint, login: Callable[[], tuple[str, Hidden]], seconds: float,
                 sleep: Callable[[float], None] = time.sleep) -> None:
        self.node = place.node
        self.requests = 0
        self._wire = RedfishConnection(place)
        self._login = login
        self._seconds = seconds
        self._sleep = sleep
        self._deadline = Deadline(seconds)
        self._bytes = 0
        self._asked = 0
        self._depth = 0
        self._held = threading.RLock()
        self._proof: dict[str, str] | None = None      # the header that says who we are
        self._place_of_session: str | None = None
        self._refused: BmcError | None = None
        self._unsaid: tuple[Hidden, ...] = ()
        self._root: Document | None = None
        self._documents: dict[str, Document] = {}

    def __repr__(self) -> str:
        return f"Session({self.node})"

    @contextmanager
    def call(self) -> Iterator[None]:
        """One call: its deadline and budget begin here, unless it is a part of another, and what it read is
        forgotten at its end."""
        with self._held:
            if self._depth == 0:
                self._deadline = Deadline(self._seconds)
                self._bytes = self._asked = 0
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._documents.clear()

    def share_left(self) -> float:
        """How much of the call's time is left, between 0 and 1. Raises BmcError(TIMEOUT) for none."""
        return self._deadline.left() / self._deadline.seconds

    @property
    def root(self) -> Document:
        """The service root, which is read without a login and kept."""
        if self._root is None:
            answer = self._reading(ROOT, {})
            if answer.status == 401:
                # It should not, and some do: they say nothing to strangers, not even where a session is made.
                self._root = {}
                try:
                    answer = self._as_somebody(lambda proof: self._reading(ROOT, proof))
                finally:
                    self._root = None
            check(answer, ROOT)
            self._root = document(answer, ROOT)
        return self._root

    def greeting(self) -> Document | None:
        """What the service root says to a stranger; None where it wants a login first. Raises BmcError."""
        answer = self._reading(ROOT, {})
        if answer.status in (401, 403):
            return None
        check(answer, ROOT)
        return document(answer, ROOT)

    def get(self, path: str, *, fresh: bool = False) -> Document:
        """The JSON object at a path of this service, read once for each call. Raises BmcError."""
        if fresh or path not in self._documents:
            self._documents[path] = document(self.got(path), path)
        return self._documents[path]

    def got(self, path: str) -> RedfishResponse:
        """The answer at a path. Raises BmcError for one that is not a success."""
        where = within(path)
        answer = self._as_somebody(lambda proof: self._reading(where, proof))
        if answer.status in (301, 302, 307, 308) and is_slash(answer, where):
            answer = self._reading(
                where.removesuffix("/") if where.endswith("/") else where + "/", self._proof or {})
        check(answer, where)
        return answer

    def change(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None,
    ) -> RedfishResponse:
        """Sends a change, once, and gives its answer whatever its status is, except 401, 403 and 5xx, which
        raise BmcError.

        `done` of the error is None where the service may have made the change.
        """
        where = within(path)
        more = dict(headers or {})
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            more["Content-Type"] = "application/json"
        answer = self._as_somebody(lambda proof: self._ask(method, where, {**more, **proof}, data))
        if answer.status in (401, 403) or answer.status >= 500 or 300 <= answer.status < 400:
            check(answer, where, change=True)
        self._documents.clear()
        return answer

    def close(self) -> None:
        """Logs out and ends the connection; never raises."""
        with self._held:
            if self._place_of_session is not None and self._proof is not None:
                self._deadline = Deadline(min(5.0, self._seconds))
                self._asked = self._bytes = 0
                with contextlib.suppress(BmcError):     # the service ends it by itself, later
                    self._ask("DELETE", self._place_of_session, self._proof, None)
            self._proof = self._place_of_session = None
            self._wire.close()

    # one request

    def _ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> RedfishResponse:
        self._asked += 1
        if self._asked > MOST_REQUESTS:
            raise BmcError(BmcErrorReason.BROKEN, f"it took over {MOST_REQUESTS} requests, without an end")
        self.requests += 1
        answer = self._wire.ask(method, path, {**_HEADERS, **headers}, body, self._deadline)
        # Some repeat in an error what they were sent.
        if answer.status >= 400:
            answer = replace(answer, body=without(answer.body, self._unsaid))
        self._bytes += len(answer.body)
        if self._bytes > MOST_BYTES:
            raise BmcError(
                BmcErrorReason.BROKEN, f"its answers are over the limit of {MOST_BYTES // 2**20} MiB in all")
        return answer

    def _reading(self, path: str, proof: Mapping[str, str]) -> RedfishResponse:
        try:
            answer = self._ask("GET", path, proof, None)
        except RedfishConnectionDropped:
            return self._ask("GET", path, proof, None)
        wait = answer.headers.get("retry-after", "")
        if answer.status in (
            429, 503) and wait.isascii() and wait.isdigit() and float(wait[:6]) < self._deadline.left():
            self._sleep(float(wait[:6]))
            return self._ask("GET", path, proof, None)
        return answer

    # who asks

    def _as_somebody(self, ask: Callable[[Mapping[str, str]], RedfishResponse]) -> RedfishResponse:
        fresh = self._proof is None
        answer = ask(self._proven())
        if answer.status == 401 and not fresh and self._place_of_session is not None:
            # A session that was good has ended; the password was not refused.
            self._proof = self._place_of_session = None
            answer = ask(self._proven())
        if answer.status == 401:
            self._refuse()
        return answer

    def _refuse(self) -> None:
        self._refused = BmcError(
            BmcErrorReason.CREDENTIALS,
            "it refuses the user or the password; not tried again by itself, as accounts lock")
        raise self._refused

    def _proven(self) -> Mapping[str, str]:
        """The header that proves who we are. Raises BmcError, always the same one after the password was
        refused."""
        if self._refused is not None:
            raise BmcError(self._refused.wrong, self._refused.message)
        if self._proof is None:
            sessions = self._sessions()
            user, password = self._login()
            pair = Hidden(base64.b64encode(f"{user}:{password.text}".encode()).decode())
            self._unsaid = pair, password
            if sessions is None or not self._logged_in(sessions, user, password):
                self._proof = {"Authorization": "Basic " + pair.text}
        return self._proof or {}

    def _sessions(self) -> str | None:
        """Where a session is made, from the service root; None where it has none."""
        links = self.root.get("Links")
        place = links.get("Sessions") if isinstance(links, dict) else None
        path = place.get("@odata.id") if isinstance(place, dict) else None
        return path if isinstance(path, str) and is_within(path) else None

    def _logged_in(self, path: str, user: str, password: Hidden) -> bool:
        """Whether a session was made; False where the service has none, so that each request must prove
        itself."""
        body = json.dumps({"UserName": user, "Password": password.text}).encode()
        try:
            answer = self._ask("POST", path, {"Content-Type": "application/json"}, body)
        except BmcError as problem:
            problem.done = False        # a session is no change of the machine
            raise
        if answer.status == 400 and any(word in answer.body for word in _FULL):
            raise BmcError(BmcErrorReason.BUSY, f"it has no room for one more session{error_text(answer)}")
        if answer.status in (400, 401):     # 400 is what some answer to a wrong password
            self._refuse()
        if answer.status in _SESSIONS:
            return False
        check(answer, path)
        token = answer.headers.get("x-auth-token", "")
        if not token or not token.isascii() or not token.isprintable():
            return False
        self._proof = {"X-Auth-Token": token}
        location = re.sub(r"^https?://[^/]*", "", answer.headers.get("location", ""))
        self._place_of_session = location if is_within(location) else None
        return True
