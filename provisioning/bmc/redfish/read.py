"""Single values out of foreign JSON: of the type asked for, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from healthcheck.facts.values import Unmeasured
from inventory.text import clean
from provisioning.bmc.base import Missing

NOT_REPORTED = Unmeasured("it does not say")
# What firmware puts where it knows nothing.
_NOTHING = {
    "", "na", "n/a", "none", "null", "not available", "not specified", "not present", "unknown",
    "to be filled by o.e.m.", "default string"}
_MOST_LINKS = 65_536


def inner(document: Any, *keys: str) -> Any:
    """What stands under these keys, None where one is not there; a key "0" takes a list's first."""
    for key in keys:
        if isinstance(document, dict):
            document = document.get(key)
        elif isinstance(document, list) and key == "0":
            document = document[0] if document else None
        else:
            return None
    return document


def text(document: Any, *keys: str, most: int = 120) -> str | Missing:
    """Text or a number as text, cleaned and bounded."""
    found = inner(document, *keys)
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        return clean(repr(found), most)
    if not isinstance(found, str) or found.strip().casefold() in _NOTHING:
        return NOT_REPORTED
    return clean(found.strip(), most)


def first(*candidates: str | Missing) -> str | Missing:
    """The first that is said."""
    return next((one for one in candidates if isinstance(one, str)), NOT_REPORTED)


def word(document: Any, *keys: str) -> str:
    """Text as `text`, empty where it is not said: for comparing, not for showing."""
    found = text(document, *keys)
    return found if isinstance(found, str) else ""


def number(document: Any, *keys: str, times: int = 1) -> int | Missing:
    """A whole number that is not negative, `times` what stands there."""
    found = inner(document, *keys)
    # NaN is not in it either
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found < 2**63:
        return NOT_REPORTED
    return int(found * times)


def flag(document: Any, *keys: str) -> bool | Missing:
    """True or false."""
    found = inner(document, *keys)
    return found if isinstance(found, bool) else NOT_REPORTED


def link(document: Any, *keys: str) -> str | None:
    """The path that a link leads to; the session looks whether it may be followed."""
    found = inner(document, *keys, "@odata.id")
    return found if isinstance(found, str) and found else None


def links(document: Any, *keys: str) -> list[str]:
    """The paths of a list of links, each once."""
    found = inner(document, *keys)
    paths = (link(one) for one in found[:_MOST_LINKS]) if isinstance(found, list) else ()
    return list(dict.fromkeys(path for path in paths if path is not None))


def objects(document: Any, *keys: str) -> Iterator[dict[str, Any]]:
    """The objects of a list."""
    found = inner(document, *keys)
    return (
        one for one in found[:_MOST_LINKS] if isinstance(one, dict)) if isinstance(found, list) else iter(())


def last(path: str) -> str:
    """The last word of a path: what a resource is called where it says nothing itself."""
    return clean(path.rstrip("/").rpartition("/")[2], 80)
