"""What an answer of a service means, and which of its paths are followed (DMTF DSP0266)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

from inventory.text import clean
from inventory.transport.httponce import HttpAnswer
from provisioning.bmc.base import BmcError, BmcErrorReason

_PATH = re.compile(r"/redfish(?:/[A-Za-z0-9_.:~@!$&'()*+,;=%|{}<>\[\]-]*)*(?:\?[!-~]*)?")

Document = dict[str, Any]


def is_within(path: object) -> bool:
    """Whether it is a path of a Redfish service: no other host, no `..`, nothing that ends a header."""
    return isinstance(
        path, str) and len(path) <= 2048 and _PATH.fullmatch(path) is not None and "/../" not in f"{path}/"


def within(path: str) -> str:
    """The path without its fragment. Raises BmcError(BROKEN) for what leads out of the service."""
    bare = path.partition("#")[0]
    if not is_within(bare):
        raise BmcError(
            BmcErrorReason.BROKEN, f"it sends us to {clean(path, 80)}, which is no path of its own")
    return bare


def document(answer: HttpAnswer, path: str) -> Document:
    """The JSON object that an answer holds. Raises BmcError(BROKEN)."""
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise BmcError(BmcErrorReason.BROKEN, f"its answer at {clean(path, 80)} is no JSON") from None
    if not isinstance(found, dict):
        raise BmcError(BmcErrorReason.BROKEN, f"its answer at {clean(path, 80)} is no JSON object")
    return found


_WRONG = {
    401: BmcErrorReason.CREDENTIALS, 403: BmcErrorReason.DENIED, 404: BmcErrorReason.UNSUPPORTED,
    405: BmcErrorReason.UNSUPPORTED, 410: BmcErrorReason.UNSUPPORTED, 429: BmcErrorReason.BUSY,
    501: BmcErrorReason.UNSUPPORTED, 503: BmcErrorReason.BUSY}


# DMTF's Base registry; the whole account can do nothing else until then (DSP0266, password change required).
_CHANGE = "PasswordChangeRequired"
CHANGE_FIRST = "the account has to set a new password first"


class PasswordChangeRequired(BmcError):
    """The account can do nothing before it has a new password; `account` is its place, where it is said."""

    def __init__(self, message: str, account: str | None) -> None:
        super().__init__(BmcErrorReason.PASSWORD, message, False)
        self.account = account


def change_required(answer: HttpAnswer) -> PasswordChangeRequired | None:
    """Whether an error or a login says so; an account that merely has such a property does not."""
    tells = answer.status in (401, 403) or 200 <= answer.status < 300
    if not tells or _CHANGE.encode() not in answer.body:
        return None
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return PasswordChangeRequired(CHANGE_FIRST, None) if answer.status >= 400 else None
    for one in _messages(found):
        if str(one.get("MessageId", "")).rpartition(".")[2] == _CHANGE:
            places = one.get("MessageArgs")
            place = places[0] if isinstance(places, list) and places else None
            return PasswordChangeRequired(error_text(answer).removeprefix(": ") or CHANGE_FIRST,
                                          place if is_within(place) else None)
    return PasswordChangeRequired(
        error_text(answer).removeprefix(": ") or CHANGE_FIRST, None) if answer.status >= 400 else None


def _messages(found: Document) -> Iterator[Document]:
    """What a document says in messages of its own, of its error, or of one of its properties."""
    error = found.get("error")
    for holder in (found, error if isinstance(error, dict) else {}):
        for key, value in holder.items():
            if key.endswith("@Message.ExtendedInfo") and isinstance(value, list):
                yield from (one for one in value if isinstance(one, dict))


def check(answer: HttpAnswer, path: str, *, change: bool = False) -> None:
    if 200 <= answer.status < 300:
        return
    if 300 <= answer.status < 400:
        raise BmcError(
            BmcErrorReason.BROKEN,
            f"it sends us elsewhere from {clean(path, 80)} ({answer.status}), which is not followed")
    if (required := change_required(answer)) is not None:
        raise required
    wrong = _WRONG.get(
        answer.status, BmcErrorReason.REFUSED if answer.status < 500 else BmcErrorReason.BROKEN)
    done = None if change and answer.status >= 500 and wrong is BmcErrorReason.BROKEN else False
    raise BmcError(wrong, f"{answer.status} at {clean(path, 80)}{error_text(answer)}", done)


def error_text(answer: HttpAnswer) -> str:
    """What the service says is wrong, as ": ..." for the end of a line. Source: DSP0266, error responses."""
    try:
        error = json.loads(answer.body)["error"]
        more = error.get("@Message.ExtendedInfo")
        message = more[0].get("Message") if isinstance(more, list) and more else error.get("message")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ""
    return f": {clean(message, 200)}" if isinstance(message, str) and message else ""


def retry_after(answer: HttpAnswer) -> float | None:
    """Seconds until the service wants to be asked again, its figure or its date by its clock; else None."""
    said = answer.headers.get("retry-after", "").strip()
    if said.isascii() and said.isdigit():
        return float(said[:6])
    try:
        return max(0.0, (parsedate_to_datetime(said) - parsedate_to_datetime(
            answer.headers.get("date", ""))).total_seconds())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def is_slash(answer: HttpAnswer, path: str) -> bool:
    """Whether it sends us to the same path with, or without, the slash at its end, as iLO does."""
    location = re.sub(r"^https?://[^/]*", "", answer.headers.get("location", ""))
    return location.rstrip("/") == path.rstrip("/") and location != path
