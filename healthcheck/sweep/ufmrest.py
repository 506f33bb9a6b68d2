"""UFM's REST interface: who asks, what is asked for, and in one line why it was not given.

Basic authentication goes to /ufmRest, an access token as `Authorization: Basic TOKEN` to /ufmRestV3 (UFM
Enterprise REST API guide, "REST API Complementary Information" and "Access Tokens API"; /ufmRestV2 is for
browsers' sessions). With `page_number` and `rpp` a resource is answered as an object with `data` and
`num_of_pages`, otherwise as a list (Mellanox/ufm_sdk_3.0, utils/ufm_rest_client.py, asks for links that way);
either is taken, whatever was asked for. A login that was refused is not tried again: accounts lock.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any

from healthcheck.config.secretline import secret_line
from healthcheck.sweep.ufmwire import MOST_BYTES, UfmAnswer, UfmError, UfmPlace, ask
from inventory.errors import UsageError
from inventory.text import clean
from inventory.transport.httponce import HttpDeadline, HttpTrust

AUTH = "MUSTER_UFM_AUTH"
SECONDS = 180.0
PAGE_ROWS = 2000
_MOST_PAGES = 1000
_TRIES = 3
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{8,2048}")


class UfmLogin:
    """USER:PASSWORD or an access token, which shows itself nowhere."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __reduce__(self) -> str:
        raise TypeError("a login is not written anywhere")

    @property
    def prefix(self) -> str:
        """The path that this kind of login is for."""
        return "/ufmRest" if ":" in self._text else "/ufmRestV3"

    def header(self) -> str:
        """The value of the header Authorization."""
        return "Basic " + (base64.b64encode(self._text.encode()).decode() if ":" in self._text
                           else self._text)

    def hidden(self, text: str) -> str:
        """The text without the secret, for a server that repeats what it was sent."""
        for secret in (self._text, self._text.partition(":")[2], self.header().removeprefix("Basic ")):
            if secret:
                text = text.replace(secret, "(not shown)")
        return text


def login_of(file: str | None) -> UfmLogin:
    """The login from a file, else from the environment. Raises UsageError where there is none, or it can be
    neither."""
    text = secret_line(file, "--ufm-auth", AUTH)
    where = f"--ufm-auth {file}" if file is not None else AUTH
    if not text and file is None:
        raise UsageError(f"--ufm needs a login: --ufm-auth FILE or {AUTH}, with USER:PASSWORD or an access "
                         "token")
    if not text.isprintable() or not (_TOKEN.fullmatch(text) or text.partition(":")[2]):
        raise UsageError(f"{where}: expected one line, USER:PASSWORD or an access token")
    return UfmLogin(text)


@dataclass(frozen=True)
class UfmRest:
    """One UFM, asked as one login. Each public call here takes a deadline, which may span several."""

    place: UfmPlace
    trust: HttpTrust
    login: UfmLogin
    seconds: float = SECONDS
    page_rows: int = PAGE_ROWS

    def __str__(self) -> str:
        return str(self.place)

    def deadline(self) -> HttpDeadline:
        """The end of what begins now."""
        return HttpDeadline(self.seconds)

    def document(self, path: str, deadline: HttpDeadline) -> Any:
        """The JSON document at a path ("/app/ufm_version"). Raises UfmError."""
        return self.read(path, self._got(path, deadline))

    def rows(self, path: str, deadline: HttpDeadline, query: str = "") -> str:
        """The JSON text of a list of objects, all of its pages; as it came, where it came as a list. Raises
        UfmError where a part of it is not there."""
        for _ in range(_TRIES):
            text = self._pages(path, query, deadline)
            if text is not None:
                return text
        raise UfmError(f"{self}: {self.login.prefix}{path} changed {_TRIES} times while its pages were read")

    def put(self, path: str, body: object, deadline: HttpDeadline) -> UfmAnswer:
        """Sends a change, once, and gives its answer whatever its status is. Raises UfmError, `unsure` where
        the change may have been received."""
        return ask(self.place, self.trust, "PUT", self.login.prefix + path,
                   {**self._headers(), "Content-Type": "application/json"}, json.dumps(body).encode(),
                   deadline)

    def refusal(self, path: str, answer: UfmAnswer) -> UfmError:
        """What an answer that is no success means, in one line."""
        status, where = answer.status, f"{self.login.prefix}{path.partition('?')[0]}"
        if status == 401:
            words = f"it refuses the login (401); see --ufm-auth FILE, or {AUTH}"
        elif status == 403:
            words = f"this login may not use {where} (403)"
        elif status == 404:
            words = f"it has no {where} (404): an older UFM, or one in another mode"
        elif 300 <= status < 400:
            words = f"{where} is redirected ({status}), which is not followed: name the final address"
        else:
            words = f"{where}: status {status}{self._message(answer)}"
        return UfmError(f"{self}: {words}", status)

    def read(self, path: str, answer: UfmAnswer) -> Any:
        """The JSON document in an answer. Raises UfmError."""
        where = f"{self.login.prefix}{path.partition('?')[0]}"
        if answer.kind == "text/html" or answer.body.lstrip()[:1] == b"<":
            raise UfmError(f"{self}: {where} is a web page and no JSON: is this the address of a UFM?")
        try:
            return json.loads(answer.body.decode(errors="surrogateescape"))
        except (ValueError, RecursionError):
            raise UfmError(f"{self}: {where} is no JSON, or ends early") from None

    def _pages(self, path: str, query: str, deadline: HttpDeadline) -> str | None:
        """The rows; None where the pages do not fit together, as the fabric changed meanwhile."""
        rows: list[Any] = []
        size = total = begin = 0
        page = pages = 1
        while page <= pages:
            words = "&".join([*([query] if query else []), f"page_number={page}&rpp={self.page_rows}"])
            answer = self._got(f"{path}?{words}", deadline)
            found = self.read(path, answer)
            if isinstance(found, list) and page == 1:
                return answer.body.decode(errors="surrogateescape")
            if not isinstance(found, dict) or not isinstance(found.get("data"), list):
                raise UfmError(f"{self}: {self.login.prefix}{path} is no list of objects")
            pages = _count(found.get("num_of_pages"), 1)
            now = _count(found.get("filtered_resources"), len(found["data"]))
            size += len(answer.body)
            if pages > _MOST_PAGES or size > MOST_BYTES:
                raise UfmError(f"{self}: {self.login.prefix}{path} is over the limit of {_MOST_PAGES} pages "
                               f"and {MOST_BYTES // 2**20} MiB")
            first = _count(found.get("first_index"), begin + len(rows))
            if page == 1:
                total, begin = now, first       # which some may count from 0
            elif now != total or first != begin + len(rows):
                return None
            rows += found["data"]
            page += 1
        return json.dumps(rows) if len(rows) == total else None

    def _got(self, path: str, deadline: HttpDeadline) -> UfmAnswer:
        answer = ask(self.place, self.trust, "GET", self.login.prefix + path, self._headers(), None, deadline)
        if answer.status != 200:
            raise self.refusal(path, answer)
        return answer

    def _headers(self) -> dict[str, str]:
        return {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "muster",
                "Authorization": self.login.header()}

    def _message(self, answer: UfmAnswer) -> str:
        """What UFM says of its refusal, on one line; nothing of a web page."""
        text = answer.body[:4000].decode("utf-8", "replace").strip()
        if not text or answer.kind == "text/html" or text[:1] == "<":
            return ""
        return f": {clean(self.login.hidden(text), 200)}"


def _count(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise
