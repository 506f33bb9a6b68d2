"""Signed questions and changes: GET is asked again while MAAS is busy, POST is sent once. What MAAS says of a
refusal is in the error, on one line and without the key (https://canonical.com/maas/docs/api: errors are
text, or a JSON object of messages by field)."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from inventory.model import Secret
from inventory.text import clean
from inventory.transport.httponce import HttpDeadline
from provisioning.bmc.base import BmcError
from provisioning.bmc.credentials import secret, without
from provisioning.osinstall.base import OsError
from provisioning.osinstall.maas.oauth import MaasKey, api_key, authorization
from provisioning.osinstall.maas.wire import MaasAnswer, MaasError, MaasPlace, ask

_PAUSES = (0.5, 1.0, 2.0, 4.0)
_PASSING = frozenset({429, 500, 502, 503, 504})
_SAID = 200     # letters of what MAAS says in an error
_SILENT_S = 10.0


class MaasClient:
    """One MAAS with one API key, read at the first request; for several threads. No answer costs a run over
    many nodes one question's time: others are refused here for a while."""

    def __init__(
        self, where: MaasPlace, key: Secret, *, tls: str = "verify", seconds: float = 60.0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.where = where
        self._key_at = key
        self._tls = tls
        self._seconds = seconds
        self._pause = pause
        self._lock = threading.Lock()
        self._key: MaasKey | None = None
        self._silent = ""
        self._silent_until = 0.0

    def get(self, path: str, query: Sequence[tuple[str, str]] = ()) -> Any:
        """The JSON at a path below the API's root; asked again where that may help. Raises OsError."""
        with self._lock:
            if time.monotonic() < self._silent_until:
                raise MaasError(f"{self._silent}; not asked again for {_SILENT_S:g} s", passing=True)
        deadline = HttpDeadline(self._seconds)
        tries = 0
        while True:
            try:
                return self._once("GET", path, query, None, deadline)
            except MaasError as error:
                if not self.waits(error, tries, deadline):
                    if error.passing and not error.status:
                        with self._lock:
                            self._silent, self._silent_until = str(error), time.monotonic() + _SILENT_S
                    raise
                tries += 1

    def post(self, path: str, op: str, fields: Mapping[str, str]) -> Any:
        """One attempt at an operation; the JSON that came back, None for none. Raises MaasError."""
        deadline = HttpDeadline(self._seconds)
        return self._once("POST", path, (("op", op),), fields, deadline)

    def waits(self, error: MaasError, tries: int, deadline: HttpDeadline) -> bool:
        """Whether another try may help; then the time that it takes to become possible has passed."""
        if not error.passing or tries >= len(_PAUSES):
            return False
        pause = max(error.wait, _PAUSES[tries])
        try:
            if pause >= deadline.left():
                return False
        except TimeoutError:
            return False
        self._pause(pause)
        return True

    def _once(
        self, method: str, path: str, query: Sequence[tuple[str, str]], fields: Mapping[str, str] | None,
        deadline: HttpDeadline,
    ) -> Any:
        key = self._signs()
        target = f"{self.where.path}{path}{'?' if query else ''}{urlencode(query)}"
        headers = {"Accept": "application/json", "User-Agent": "muster",
                   "Authorization": authorization(key, secrets.token_hex(16), int(time.time()))}
        body = None
        if fields is not None:
            boundary = secrets.token_hex(16)
            headers["Content-Type"] = f"multipart/form-data; boundary={boundary}"
            body = _multipart(fields, boundary)
        answer = ask(self.where, self._tls, method, target, headers, body, deadline)
        if not 200 <= answer.status < 300:
            raise self._refused(answer, key)
        return self._value(answer, path, sent=fields is not None)

    def _value(self, answer: MaasAnswer, path: str, *, sent: bool) -> Any:
        if not answer.body.strip():
            return None
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            raise MaasError(f"{self.where}: answered no JSON to {clean(path, 80)}; is this MAAS?",
                            unsure=sent) from None

    def _refused(self, answer: MaasAnswer, key: MaasKey) -> MaasError:
        said = without(answer.body[:8192], key.unreported).decode(errors="replace")
        words = clean(_words(said), _SAID)
        meaning = _MEANINGS.get(answer.status, f"refused it ({answer.status})")
        if 300 <= answer.status < 400:
            meaning, words = f"sends elsewhere ({answer.status}), which is not followed", "give its own URL"
        return MaasError(f"{self.where}: {meaning}{': ' if words else ''}{words}", answer.status,
                         passing=answer.status in _PASSING, wait=answer.wait,
                         # A proxy says these when MAAS itself may be at work.
                         unsure=answer.status in (500, 502, 504))

    def _signs(self) -> MaasKey:
        with self._lock:
            if self._key is None:
                try:
                    self._key = api_key(secret(self._key_at, ""))
                except BmcError as problem:
                    raise OsError(f"the API key of MAAS: {problem.message}") from None
            return self._key


_MEANINGS = {
    400: "does not accept it (400)", 401: "does not accept the API key (401)",
    403: "the account of the API key may not (403)", 404: "has no such thing (404)",
    409: "the machine's state does not allow it (409)", 410: "has no such API (410)",
    429: "is busy (429)", 500: "internal error (500)", 502: "is not available (502)",
    503: "is not available (503)", 504: "took too long (504)"}


def _words(said: str) -> str:
    """The text of an error: plain, or a JSON object of messages by field. A page of HTML says nothing."""
    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        return "" if said.lstrip().startswith("<") else said.strip()
    if isinstance(found, dict):
        return "; ".join(f"{name}: {_joined(value)}" for name, value in found.items())
    return _joined(found)


def _joined(value: object) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


def _multipart(fields: Mapping[str, str], boundary: str) -> bytes:
    """Parameters as the API wants them: multipart/form-data, a part for each."""
    parts = (f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
             for name, value in fields.items())
    return f"{''.join(parts)}--{boundary}--\r\n".encode()
