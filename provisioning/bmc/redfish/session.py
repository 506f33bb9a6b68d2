"""Asks one Redfish service as one login, within one deadline and one budget for each call; the login is made
when it is first needed.

A password is sent once. What answers 401 is not asked again by this session: accounts lock after a few
refusals. Reading is tried once more when the connection was dropped, and again where it is busy; changes are
sent once. Source: DMTF DSP0266 (sessions, section 13; query parameters, 7.3; status codes, 7.6).
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from inventory.transport.httponce import HttpAnswer
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.credentials import Hidden, without
from provisioning.bmc.redfish.answers import (
    Document,
    change_required,
    check,
    document,
    error_text,
    is_slash,
    is_within,
    retry_after,
    within,
)
from provisioning.bmc.redfish.crawl import Frontier, KeptDocuments, ToRead
from provisioning.bmc.redfish.leftover import OpenSessions
from provisioning.bmc.redfish.wire import (
    Deadline,
    RedfishConnection,
    RedfishConnectionDropped,
    RedfishEndpoint,
)

ROOT = "/redfish/v1/"
MOST_REQUESTS = 2000        # of one call; a node with eight GPUs takes some 200 where nothing is expanded
MOST_BYTES = 64 * 1024 * 1024
# Connections at once: controllers are small, and one that is refused is left out. With twelve the inventory
# of a small GPU server, 37 requests, takes less than a quarter of their time after one another.
_AT_ONCE = 12
_TRIES = 4
_SESSIONS = {404, 405, 501}     # no such service
_FULL = (b"SessionLimitExceeded", b"RAC0218")       # DMTF's Base registry; iDRAC's own message
_HEADERS = {
    "Accept": "application/json", "Accept-Encoding": "identity", "OData-Version": "4.0",
    "User-Agent": "muster"}


class Session:
    """The way to one service. Not for several threads at once, but for those that `read_on` starts."""

    def __init__(
        self, place: RedfishEndpoint, login: Callable[[], tuple[str, Hidden]], seconds: float,
        sleep: Callable[[float], None] = time.sleep, kept: OpenSessions | None = None,
        answer_s: float | None = None,
    ) -> None:
        """`seconds` are for a whole call, and `answer_s` for each answer in it (None: as many). `kept`
        remembers the session that is open, beyond a kill."""
        self.node = place.node
        self.requests = 0
        self._place = place
        self._wire = RedfishConnection(place)
        self._more: list[RedfishConnection] = []        # beside it, for `read_on`
        self._counting = threading.Lock()
        self._login = login
        self._seconds = seconds
        self._answer_s = answer_s if answer_s is not None else seconds
        self._sleep = sleep
        self._kept = kept
        self._deadline = Deadline(seconds)
        self._bytes = 0
        self._asked = 0
        self._depth = 0
        self._calling = threading.RLock()
        self._proof: dict[str, str] | None = None      # the header that says who we are
        self._place_of_session: str | None = None
        self._refused: BmcError | None = None
        self._unsaid: tuple[Hidden, ...] = ()
        self._hides = False
        self.account_to_change: str | None = None      # whose password must be changed before all else
        self._root: Document | None = None
        self._documents: dict[str, Document | BmcError] = {}
        self._kept_parts: KeptDocuments | None = None

    def __repr__(self) -> str:
        return f"Session({self.node})"

    @contextmanager
    def call(self) -> Iterator[None]:
        """One call with its deadline and budget, unless it is part of another; its readings end with it."""
        with self._calling:
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
    def left(self) -> float:
        """Seconds of the call that are left; 0 for none."""
        try:
            return self._deadline.left()
        except BmcError:
            return 0.0

    def pause(self, seconds: float) -> None:
        """Waits, before something is looked at again."""
        self._sleep(seconds)

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
        found = None if fresh else self._held(path)
        if found is None:
            found = self._learned(path, self.got(path))
        self._documents[path] = found
        if isinstance(found, BmcError):
            raise BmcError(found.wrong, found.message, found.done)
        return found

    def known(self, path: str) -> Document | None:
        """What this call has read at a path, without asking."""
        found = self._documents.get(path)
        return found if isinstance(found, dict) else None

    def prefetch(self, paths: Iterable[str]) -> None:
        """Reads what stands at these paths at once, where they are several. Raises as `read_on`."""
        waiting = [ToRead(path) for path in dict.fromkeys(paths) if path not in self._documents]
        if len(waiting) > 1:
            self.read_on(waiting)

    def read_on(self, first: Sequence[ToRead]) -> None:
        """Reads these paths and what they lead to over several connections, so that `get` finds it. A
        connection that the service does not take, or drops, is left out for this time; what could not be read
        for such a reason `get` asks for itself. Raises BmcError where no one can log in."""
        frontier = Frontier(one for one in first if is_within(one.path))
        proof = self._proven()
        many = _AT_ONCE if any(one.onward is not None for one in first) else min(_AT_ONCE, len(first))
        while len(self._more) < many - 1:
            self._more.append(self._connection())
        threads = [threading.Thread(target=self._read_each, args=(wire, frontier, proof), daemon=True)
                   for wire in (self._wire, *self._more[:many - 1])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _connection(self) -> RedfishConnection:
        return RedfishConnection(self._place, self._wire)

    def _read_each(self, wire: RedfishConnection, frontier: Frontier, proof: Mapping[str, str]) -> None:
        try:
            wire.open(self._deadline.at_most(self._answer_s))
        except BmcError:
            return
        for one in frontier.taken():
            found = self._held(one.path)
            if found is None:
                try:
                    answer = self._ask("GET", one.path, proof, None, wire)
                except BmcError as problem:
                    if problem.wrong is not BmcErrorReason.TIMEOUT:
                        frontier.put_back(one)
                    wire.close()
                    return
                if answer.status in (401, 429, 503) or 300 <= answer.status < 400:
                    return
                try:
                    check(answer, one.path)
                    found = self._learned(one.path, answer)
                except BmcError as problem:
                    found = problem
            self._documents[one.path] = found
            if one.onward is not None and not isinstance(found, BmcError):
                frontier.add(each for each in one.onward(found) if is_within(each.path))

    def _held(self, path: str) -> Document | BmcError | None:
        """What this call, or a try before it, has read at a path."""
        found = self._documents.get(path)
        return self._kept_parts.get(path) if found is None and self._kept_parts is not None else found

    def _learned(self, path: str, answer: HttpAnswer) -> Document:
        found = document(answer, path)
        if self._kept_parts is not None:
            self._kept_parts.put(path, answer.body)
        return found

    def cut_short(self, cut: bool) -> None:
        """Says of what is kept whether the try that read it came to its end."""
        if self._kept_parts is not None:
            self._kept_parts.cut = cut

    @contextmanager
    def keeping(self, kept: KeptDocuments | None) -> Iterator[None]:
        """What is read meanwhile is kept for another try, and not asked for again."""
        self._kept_parts = kept
        try:
            yield
        finally:
            self._kept_parts = None

    def got(self, path: str) -> HttpAnswer:
        """The answer at a path. Raises BmcError for one that is not a success."""
        answer = self.answer(path)
        if answer.status == 403:
            self._asked_to_change(answer)
        check(answer, within(path))
        return answer

    def answer(self, path: str) -> HttpAnswer:
        """The answer at a path, whatever its status. Raises BmcError without one, or a login."""
        where = within(path)
        answer = self._as_somebody(lambda proof: self._reading(where, proof))
        if answer.status in (301, 302, 307, 308) and is_slash(answer, where):
            answer = self._reading(
                where.removesuffix("/") if where.endswith("/") else where + "/", self._proof or {})
        return answer

    def change(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None,
        content: tuple[str, bytes] | None = None,
    ) -> HttpAnswer:
        """Sends a change once, and gives its answer whatever its status, except 401, 403 and 5xx, which raise
        BmcError; `done` is None where it may have been made. `content`: media type and bytes."""
        where = within(path)
        more = dict(headers or {})
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            more["Content-Type"] = "application/json"
        elif content is not None:
            more["Content-Type"], data = content
        answer = self._as_somebody(lambda proof: self._ask(method, where, {**more, **proof}, data))
        if answer.status in (401, 403) or answer.status >= 500 or 300 <= answer.status < 400:
            self._asked_to_change(answer)
            check(answer, where, change=True)
        self._documents.clear()
        return answer

    def close(self) -> None:
        """Logs out and ends the connection; never raises."""
        with self._calling:
            if self._place_of_session is not None and self._proof is not None:
                self._deadline = Deadline(min(5.0, self._seconds))
                self._asked = self._bytes = 0
                with contextlib.suppress(BmcError):     # the service ends it by itself, later
                    self._ask("DELETE", self._place_of_session, self._proof, None)
            self._forget()
            for wire in (self._wire, *self._more):
                wire.close()
            self._more.clear()

    def _forget(self) -> None:
        self._proof = self._place_of_session = None
        if self._kept is not None:
            self._kept.ended()

    # one request

    def _ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None,
        wire: RedfishConnection | None = None,
    ) -> HttpAnswer:
        with self._counting:
            self._asked += 1
            self.requests += 1
        if self._asked > MOST_REQUESTS:
            raise BmcError(BmcErrorReason.BROKEN, f"it took over {MOST_REQUESTS} requests, without an end")
        answer = (wire or self._wire).ask(
            method, path, {**_HEADERS, **headers}, body, self._deadline.at_most(self._answer_s))
        # Some repeat in an error what they were sent.
        if answer.status >= 400 or self._hides:
            answer = replace(answer, body=without(answer.body, self._unsaid))
        with self._counting:
            self._bytes += len(answer.body)
        if self._bytes > MOST_BYTES:
            raise BmcError(
                BmcErrorReason.BROKEN, f"its answers are over the limit of {MOST_BYTES // 2**20} MiB in all")
        return answer

    def _reading(self, path: str, proof: Mapping[str, str]) -> HttpAnswer:
        try:
            answer = self._ask("GET", path, proof, None)
        except RedfishConnectionDropped:
            return self._ask("GET", path, proof, None)
        for tried in range(_TRIES):
            if answer.status not in (429, 503) or (wait := _wait(answer, tried)) >= self._deadline.left():
                break
            self._sleep(wait)
            answer = self._ask("GET", path, proof, None)
        return answer

    # who asks

    def _as_somebody(self, ask: Callable[[Mapping[str, str]], HttpAnswer]) -> HttpAnswer:
        fresh = self._proof is None
        answer = ask(self._proven())
        if answer.status == 401 and not fresh and self._place_of_session is not None:
            # A session that was good has ended; the password was not refused.
            self._forget()
            answer = ask(self._proven())
        if answer.status == 401:
            self._asked_to_change(answer)
            self._refuse()
        return answer

    def _asked_to_change(self, answer: HttpAnswer) -> None:
        """Raises BmcError(PASSWORD) where a new password has to be set first, and keeps where."""
        required = change_required(answer)
        if required is not None:
            self.account_to_change = required.account or self.account_to_change
            raise required

    def enter(self) -> None:
        """Logs in, where no one has. Raises BmcError."""
        self._proven()

    def hide(self, *texts: Hidden) -> None:
        """Leaves these out of whatever the service says from now on."""
        self._unsaid = (*self._unsaid, *texts)
        self._hides = True

    def _refuse(self) -> None:
        self._refused = BmcError(
            BmcErrorReason.CREDENTIALS,
            "it refuses the user or the password; not tried again by itself, as accounts lock")
        raise self._refused

    def _proven(self) -> Mapping[str, str]:
        """The header that proves who we are. Raises the same BmcError once the password was refused."""
        if self._refused is not None:
            raise BmcError(self._refused.wrong, self._refused.message)
        if self._proof is None:
            sessions = self._sessions()
            user, password = self._login()
            basic = self._basic(user, password)
            self._unsaid = (*self._unsaid, Hidden(basic["Authorization"].removeprefix("Basic ")), password)
            if sessions is None or not self._logged_in(sessions, user, password):
                self._proof = basic
        return self._proof or {}

    def _sessions(self) -> str | None:
        """Where a session is made, from the service root; None where it has none."""
        links = self.root.get("Links")
        place = links.get("Sessions") if isinstance(links, dict) else None
        path = place.get("@odata.id") if isinstance(place, dict) else None
        return path if isinstance(path, str) and is_within(path) else None

    def _logged_in(self, path: str, user: str, password: Hidden) -> bool:
        """Whether a session was made; without one each request must prove itself."""
        answer = self._login_sent(path, user, password)
        if _is_full(answer) and self._end_left(user, self._basic(user, password)):
            answer = self._login_sent(path, user, password)
        if _is_full(answer):
            raise BmcError(BmcErrorReason.BUSY, f"it has no room for one more session{error_text(answer)}")
        if answer.status in (401, 403) and change_required(answer) is not None:
            self._proof = self._basic(user, password)       # with which the account can still be changed
            self._asked_to_change(answer)
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
        if self._kept is not None and self._place_of_session is not None:
            self._kept.began(self._place_of_session)
        self._asked_to_change(answer)
        self._end_left(user, self._proof)
        return True

    def _login_sent(self, path: str, user: str, password: Hidden) -> HttpAnswer:
        body = json.dumps({"UserName": user, "Password": password.text}).encode()
        try:
            return self._ask("POST", path, {"Content-Type": "application/json"}, body)
        except BmcError as problem:
            problem.done = False        # a session is no change of the machine
            raise

    @staticmethod
    def _basic(user: str, password: Hidden) -> dict[str, str]:
        pair = base64.b64encode(f"{user}:{password.text}".encode()).decode()
        return {"Authorization": "Basic " + pair}

    def _end_left(self, user: str, proof: Mapping[str, str]) -> int:
        """Ends the sessions that killed commands left; how many. After a restart of the controller one of
        that name may be another user's, which is left alone."""
        ended = 0
        for place in self._kept.left() if self._kept is not None else ():
            with contextlib.suppress(BmcError):     # it may be over by itself
                found = self._ask("GET", place, proof, None)
                if found.status == 200 and document(found, place).get("UserName") == user:
                    ended += 200 <= self._ask("DELETE", place, proof, None).status < 300
        return ended


def _is_full(answer: HttpAnswer) -> bool:
    """Whether a login was refused for want of room. DSP0266 names 503 for it, iDRAC says 400."""
    return answer.status in (400, 503) and any(word in answer.body for word in _FULL)


def _wait(answer: HttpAnswer, tried: int) -> float:
    """Seconds until it wants to be asked again: as it says, else 1, 2, 4 and so on."""
    said = retry_after(answer)
    return float(2**tried) if said is None else said
