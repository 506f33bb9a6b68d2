"""Blanks what a user chose in kernel lines that quote it, so that it is never taken for the kernel's words.

A user can make the kernel print any text: as the name of a process or of a file, a mount option, a cgroup, a
USB string. `quotingpatterns` lists the lines that do so. The kernel's fixed words identify them; the quoted
parts are ignored afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from healthcheck.kernellog.provenance import USER_SPACE
from healthcheck.kernellog.quotingpatterns import PATTERNS, PLACEHOLDERS

TYPE_CHECKING = False       # typing would cost a node some milliseconds
if TYPE_CHECKING:
    QuotePattern = tuple[str, str, str, str]        # name, needle, pattern, source, as in PATTERNS
USER = "<user>"
COMM = 15           # bytes of a process's name: TASK_COMM_LEN of include/linux/sched.h, less the end


_COMPILED: dict[str, re.Pattern[str]] = {}      # compiled on first use: few ever are


def _match(pattern: str, text: str) -> re.Match[str] | None:
    compiled = _COMPILED.get(pattern)
    if compiled is None:
        full = pattern
        for placeholder, expression in PLACEHOLDERS:
            full = full.replace(placeholder, expression)
        compiled = _COMPILED[pattern] = re.compile(full, re.ASCII | re.DOTALL)
    return compiled.match(text)


def blanked(text: str, patterns: Sequence[QuotePattern] = PATTERNS) -> str:
    """The text of a record with USER in place of each part that a user chose; `patterns` may match it."""
    if text.startswith(USER_SPACE):
        return text     # all of it is a process's, and no kernel message begins so
    for _, needle, pattern, _ in patterns:
        if needle in text and (found := _match(pattern, text)):
            return _without_groups(found)
    return text


def possible_patterns(texts: Sequence[str]) -> Sequence[QuotePattern]:
    """The few patterns that may match one of these lines, found for all lines at once."""
    block = "\n".join(texts)
    return [pattern for pattern in PATTERNS if pattern[1] in block]


def blanked_all(texts: Sequence[str]) -> Sequence[str]:
    """What `blanked` makes of each."""
    patterns = possible_patterns(texts)
    return [blanked(text, patterns) for text in texts] if patterns else texts


def messages(text: str) -> list[str]:
    """The messages of a record, with what users chose in them blanked: several if a driver wrote line feeds
    between them and begins each with its own prefix. What follows any other line feed may be a user's, and is
    none."""
    parts = blanked(text).split("\n")
    return [parts[0], *(part for part in parts[1:] if same_emitter(parts[0], part))]


def same_emitter(before: str, text: str) -> bool:
    """Whether a further line of a record begins with the same prefix as the line before."""
    prefix, colon, _ = before.partition(": ")
    return bool(colon) and text.startswith(prefix + colon)


def _without_groups(found: re.Match[str]) -> str:
    text, kept, at = found.string, [], 0
    for number in range(1, found.re.groups + 1):
        start, end = found.span(number)
        if start >= at:
            kept += [text[at:start], USER]
            at = end
    return "".join([*kept, text[at:]])
