"""Reads collections within bounds: by one request where they expand, else one a member. Source: DMTF DSP0266,
7.3 (`$expand`, its `.` and `($levels=1)`; `ProtocolFeaturesSupported.ExpandQuery`), 7.7
(`Members@odata.nextLink`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.redfish.answers import Document
from provisioning.bmc.redfish.read import inner, link, links
from provisioning.bmc.redfish.session import Session

MOST_MEMBERS = 4096
_MOST_PAGES = 64
# What ends the whole call: one member more would fare no better.
ENDS = frozenset({
    BmcErrorReason.UNREACHABLE, BmcErrorReason.TLS, BmcErrorReason.CREDENTIALS,
    BmcErrorReason.TIMEOUT, BmcErrorReason.NO_SECRET})


class CollectionMember:
    """One member of a collection: what it says, or why it could not be read."""

    __slots__ = ("document", "path", "wrong")

    def __init__(self, path: str, document: Document | None, wrong: BmcError | None = None) -> None:
        self.path = path
        self.document = document
        self.wrong = wrong


def expands(session: Session) -> str:
    """The query that has this service put members in place of links to them; empty where it cannot."""
    query = inner(session.root, "ProtocolFeaturesSupported", "ExpandQuery")
    if not isinstance(query, dict) or not (query.get("NoLinks") is True or query.get("ExpandAll") is True):
        return ""
    which = "." if query.get("NoLinks") is True else "*"
    return f"?$expand={which}" + ("($levels=1)" if query.get("Levels") is True else "")


def members(session: Session, path: str) -> Iterator[CollectionMember]:
    """The members of a collection, page after page. Raises BmcError where it cannot be read."""
    query = expands(session)
    try:
        page = session.get(path + query)
    except BmcError as problem:
        if not query or problem.wrong in ENDS:
            raise
        page = session.get(path)        # it says that it can, and cannot
    seen: set[str] = set()
    given = 0
    for _ in range(_MOST_PAGES):
        found = page.get("Members")
        session.prefetch(_links_alone(found[:MOST_MEMBERS - given] if isinstance(found, list) else ()))
        for one in found if isinstance(found, list) else ():
            given += 1
            if given > MOST_MEMBERS:
                raise BmcError(BmcErrorReason.BROKEN, f"a collection of it has over {MOST_MEMBERS} members")
            yield _member(session, one)
        after = page.get("Members@odata.nextLink")
        if not isinstance(after, str) or not after or after in seen:
            return
        seen.add(after)
        page = session.get(after)
    raise BmcError(BmcErrorReason.BROKEN, f"a collection of it has over {_MOST_PAGES} pages")


def _links_alone(found: Iterable[Any]) -> Iterator[str]:
    """Where those members stand that a page has as links alone."""
    for one in found:
        if isinstance(one, dict) and all(key.startswith("@") for key in one) and (
                path := link(one)) is not None:
            yield path


def at(session: Session, paths: Iterable[str]) -> Iterator[CollectionMember]:
    """What stands at these paths."""
    paths = list(paths)
    session.prefetch(paths)
    for path in paths:
        yield _member(session, {"@odata.id": path})


def linked(session: Session, document: Any, *keys: str) -> Iterator[CollectionMember]:
    """What a list of links, or a link to a collection, leads to; nothing where there is neither."""
    collection = link(document, *keys)
    if collection is not None:
        yield from members(session, collection)
    else:
        yield from at(session, links(document, *keys))


def _member(session: Session, found: Any) -> CollectionMember:
    path = link(found)
    if path is None:
        return CollectionMember("", found if isinstance(found, dict) and found else None,
                                None if isinstance(found, dict) and found else _NO_LINK)
    if any(not key.startswith("@") for key in found):
        return CollectionMember(path, found)
    try:
        return CollectionMember(path, session.get(path))
    except BmcError as problem:
        if problem.wrong in ENDS:
            raise
        return CollectionMember(path, None, problem)


_NO_LINK = BmcError(BmcErrorReason.BROKEN, "a member of a collection is no link")
