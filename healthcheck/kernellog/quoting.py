"""Blanks what a user chose in the lines of the kernel that quote it, so that no text of a user is taken for the kernel's own words."""

from __future__ import annotations

import re

USER = "<user>"
# Name, needle, pattern, source. A line that holds the needle is looked at; where the pattern knows it, from its start, by the kernel's own
# words, each group is blanked. A group whose end a user could imitate goes on to the last possible one.
FORMS: tuple[tuple[str, str, str, str], ...] = (
    ("option", "Unknown parameter '", r".{0,80}?: Unknown parameter '(.*)", "Linux fs/fs_context.c, vfs_parse_fs_param"),
    ("crash", "]: segfault at ", r"(.{0,15}?)\[\d{1,10}\]: segfault at [0-9a-f]{1,16} ip [0-9a-f]{1,16} sp [0-9a-f]{1,16} error [0-9a-f]{1,8}(?: in (.*))?$",
     "Linux arch/x86/mm/fault.c, show_signal_msg"),
)
_FORMS = tuple((needle, re.compile(pattern, re.ASCII | re.DOTALL)) for _, needle, pattern, _ in FORMS)


def blanked(text: str) -> str:
    """The text of a record, USER standing for each part that a user chose."""
    for needle, pattern in _FORMS:
        if needle in text and (found := pattern.match(text)):
            return _without_groups(found)
    return text


def messages(text: str) -> list[str]:
    """The messages of a record, what users chose in them blanked. There are several where a driver wrote line feeds between them and begins
    each with its own prefix; a line feed before anything else may be a user's, and what follows it is no message."""
    parts = blanked(text).split("\n")
    return [parts[0], *(part for part in parts[1:] if goes_on(parts[0], part))]


def goes_on(before: str, text: str) -> bool:
    """Whether a further line of a record is of the same emitter: it begins with the same prefix."""
    prefix, colon, _ = before.partition(": ")
    return bool(colon) and text.startswith(prefix + colon)


def may_quote(block: str) -> bool:
    """Whether one of the lines of a text may be of a form that quotes a user."""
    return any(needle in block for needle, _ in _FORMS)


def _without_groups(found: re.Match[str]) -> str:
    text, kept, at = found.string, [], 0
    for number in range(1, (found.re.groups or 0) + 1):
        start, end = found.span(number)
        if start >= at and end > start:
            kept += [text[at:start], USER]
            at = end
    return "".join([*kept, text[at:]])
