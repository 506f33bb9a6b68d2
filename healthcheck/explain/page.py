"""The explanation of a file as a page and as the muster.explain/1 document."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from healthcheck.explain.model import Cause, Explained

SCHEMA = "muster.explain/1"
_MOST = 20              # causes on the page
_MOST_UNREAD = 8
_WIDTH = 118
_KEY = 12


def document(explained: Explained) -> dict[str, Any]:
    """Everything, for programs; causes worst first."""
    return {
        "schema": SCHEMA, "file": explained.name, "kind": explained.form.value, "about": explained.about,
        "wrong": any(cause.wrong for cause in explained.causes),
        "causes": [_cause(cause) for cause in explained.causes], "looked_for": list(explained.looked_for),
        "cannot_show": list(explained.cannot_show), "unread": list(explained.unread),
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "subject": cause.subject, "meaning": cause.meaning, "sure": cause.sure.value,
        "severity": cause.severity.value, "owner": cause.owner.value, "remedy": cause.remedy, "by": cause.by,
        "count": cause.count, "symptom": cause.symptom, "wrong": cause.wrong,
        "lines": [{"line": quote.line or None, "text": quote.text} for quote in cause.quotes],
    }


def page(explained: Explained) -> str:
    """The page; its first line is the first cause, or that none was found."""
    wrong = [cause for cause in explained.causes if cause.wrong]
    kind = f"{explained.form.value}: {explained.about}" if explained.about else explained.form.value
    rows: list[str] = []
    if not wrong:
        rows.append(f"Nothing found in {explained.name} ({kind}).")
    leads = [cause for cause in wrong if not cause.symptom] or wrong[:1]
    if leads and leads[0].symptom:
        rows.append(f"No cause found in {explained.name} ({kind}); it shows effects of a cause elsewhere:")
    for number, cause in enumerate(leads[:_MOST], 1):
        rows += ["", *_rows(cause, f"{number}. " if number > 1 else "")] if rows else _rows(cause, "")
    if len(leads) > _MOST:
        rows += ["", f"and {len(leads) - _MOST} more; --format json has all"]
    follows = [cause for cause in wrong if cause not in leads]
    if follows:
        rows += ["", "Probably effects of it:", *_listed(follows)]
    harmless = [cause for cause in explained.causes if not cause.wrong]
    if harmless:
        rows += ["", "Also found, not faults by themselves:", *_listed(harmless)]
    rows.append("")
    if wrong:
        rows += _row("file", f"{explained.name} ({kind})")
    else:
        rows += _row("looked for", "; ".join(explained.looked_for))
    rows += _row("cannot show", "; ".join(explained.cannot_show))
    if explained.unread:
        more = len(explained.unread) - _MOST_UNREAD
        rows += _row("not read",
                     "; ".join([*explained.unread[:_MOST_UNREAD],
                                *([f"and {more} more"] if more > 0 else [])]))
    return "\n".join(rows)


def _rows(cause: Cause, number: str) -> list[str]:
    said = f"{cause.subject}: {cause.meaning}" if cause.subject else cause.meaning
    rows = [f"{number}{said}{'' if said.endswith(('.', '?', '!')) else '.'} ({cause.sure.value}; owner: "
            f"{cause.owner.value})"]
    rows += _row("do", cause.remedy) if cause.remedy else []
    for quote in cause.quotes:
        rows += [f"  {f'line {quote.line}' if quote.line else 'says':<{_KEY - 1}} {quote.text}"]
    shown = f"{cause.by}, {cause.severity.value}" + (f", {cause.count} times" if cause.count > 1 else "")
    return [*rows, *_row("by", shown)]


def _listed(causes: Sequence[Cause]) -> Iterator[str]:
    for cause in causes[:_MOST]:
        where = f"line {cause.quotes[0].line}: " if cause.quotes and cause.quotes[0].line else ""
        times = f" ({cause.count} times)" if cause.count > 1 else ""
        yield f"  {where}{f'{cause.subject}: ' if cause.subject else ''}{cause.meaning}{times}"
    if len(causes) > _MOST:
        yield f"  and {len(causes) - _MOST} more"


def _row(key: str, value: str) -> list[str]:
    first, *more = (textwrap.wrap(value, _WIDTH - _KEY - 2, break_long_words=False, break_on_hyphens=False)
                    or [""])
    return [f"  {key:<{_KEY}}{first}", *(f"  {'':<{_KEY}}{line}" for line in more)]
