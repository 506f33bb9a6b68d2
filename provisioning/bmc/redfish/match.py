"""PATCH with the tag of the resource, where the service wants it named (If-Match; DMTF DSP0266, ETags)."""

from __future__ import annotations

from typing import Any

from inventory.transport.httponce import HttpAnswer
from provisioning.bmc.redfish.answers import document
from provisioning.bmc.redfish.read import inner
from provisioning.bmc.redfish.session import Session
from provisioning.bmc.redfish.vendors import Maker


def patched(
    session: Session, path: str, body: Any, maker: Maker, headers: dict[str, str] | None = None,
) -> HttpAnswer:
    """The answer to a change; sent a second time only where the first was refused for the want of a tag, or
    for an old one: then nothing was done. Raises BmcError."""
    more = dict(headers or {})
    if maker.match_any and not any(name.lower() == "if-match" for name in more):
        more["If-Match"] = etag(session, path) or "*"
    answer = session.change("PATCH", path, body, more)
    if answer.status in (412, 428) and (tag := etag(session, path) or "*") not in more.values():
        rest = {name: value for name, value in more.items() if name.lower() != "if-match"}
        answer = session.change("PATCH", path, body, {**rest, "If-Match": tag})
    return answer


def etag(session: Session, path: str) -> str:
    """The tag that a resource shows now, in header or document; empty for none. Raises BmcError."""
    answer = session.answer(path)
    if answer.status >= 400:
        return ""
    found = answer.headers.get("etag") or inner(document(answer, path), "@odata.etag")
    return found if isinstance(found, str) and found.isascii() and found.isprintable() else ""
