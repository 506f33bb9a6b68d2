"""Blanks what a user chose in the lines of the kernel that quote it, so that no text of a user is taken for the kernel's own words.

A user can have the kernel print a text of his choice: as the name of a process or of a file, a mount option, a cgroup, a USB string.
`quotingforms` holds the lines that do so. Fixed words of the kernel's tell them apart; what stands between counts for nothing afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from healthcheck.kernellog.provenance import USER_SPACE
from healthcheck.kernellog.quotingforms import FORMS, MARKS

TYPE_CHECKING = False       # typing would cost a node some milliseconds
if TYPE_CHECKING:
    Form = tuple[str, str, str, str]        # as in FORMS
USER = "<user>"
COMM = 15           # bytes of a process's name: TASK_COMM_LEN of include/linux/sched.h, less the end


def _pattern(form: str) -> str:
    for mark, means in MARKS:
        form = form.replace(mark, means)
    return form


_COMPILED: dict[str, re.Pattern[str]] = {}      # by the form's pattern, when it is first needed: few ever are


def _match(form: str, text: str) -> re.Match[str] | None:
    pattern = _COMPILED.get(form)
    if pattern is None:
        pattern = _COMPILED[form] = re.compile(_pattern(form), re.ASCII | re.DOTALL)
    return pattern.match(text)


def blanked(text: str, forms: Sequence[Form] = FORMS) -> str:
    """The text of a record, USER standing for each part that a user chose; `forms` are those that it may be of."""
    if text.startswith(USER_SPACE):
        return text     # all of it is a process's, and it begins like nothing of the kernel's
    for _, needle, form, _ in forms:
        if needle in text and (found := _match(form, text)):
            return _without_groups(found)
    return text


def forms_of(texts: Sequence[str]) -> Sequence[Form]:
    """The forms that lines among these may be of: there are few, and it is found out once for all."""
    block = "\n".join(texts)
    return [form for form in FORMS if form[1] in block]


def all_blanked(texts: Sequence[str]) -> Sequence[str]:
    """What `blanked` makes of each."""
    forms = forms_of(texts)
    return [blanked(text, forms) for text in texts] if forms else texts


def messages(text: str) -> list[str]:
    """The messages of a record, what users chose in them blanked. There are several where a driver wrote line feeds between them and begins
    each with its own prefix; a line feed before anything else may be a user's, and what follows it is no message."""
    parts = blanked(text).split("\n")
    return [parts[0], *(part for part in parts[1:] if goes_on(parts[0], part))]


def goes_on(before: str, text: str) -> bool:
    """Whether a further line of a record is of the same emitter: it begins with the same prefix."""
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
