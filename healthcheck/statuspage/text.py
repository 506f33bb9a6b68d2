"""The page's three answers as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from healthcheck.statuspage.changes import HOURS
from inventory.times import ago

_MOST = 5


def wrapped(found: Iterable[str], width: int) -> Iterator[str]:
    """The lines broken at this width, what follows indented further; a command stays whole, to be copied."""
    for line in found:
        text = line.lstrip()
        indent = " " * (len(line) - len(text))
        if text.startswith("muster "):
            yield line
        else:
            yield from textwrap.wrap(text, max(20, width), initial_indent=indent,
                                     subsequent_indent=f"{indent}  ", break_on_hyphens=False)


def lines(page: dict[str, Any]) -> Iterator[str]:
    """Whether a job can start, what changed, and whose turn it is."""
    for note in page["notes"]:
        yield f"note: {note}"
    yield "Can a job start?"
    for one in page["ready"]:
        why = "; ".join(f"{each['nodes']} {each['why']}" for each in one["not_ready"])
        yield (f"  {one['sku']}: {one['ready']} of {one['nodes']} nodes ready, {one['certified']} certified"
               + (f" ({why})" if why else ""))
    yield f"What changed in {HOURS} hours?"
    for one in page["changes"]:
        number = f"{one['number']} " if one["number"] else ""
        when = f", {ago(max(0.0, page['made'] - one['at']))} ago" if one["at"] else ""
        yield f"  {number}{one['text']}{when}" + (f": {one['nodes']}" if one["nodes"] else "")
    if not page["changes"]:
        yield "  nothing"
    yield "Whose turn is it?"
    for one in page["work"]:
        yield f"  {one['owner']}: {one['nodes']} node{'s' * (one['nodes'] != 1)}"
        for item in one["items"][:_MOST]:
            yield f"    {item['what']}: {item['nodes']}"
            yield f"      {item['next']}"
        if (more := len(one["items"]) - _MOST + one["more"]) > 0:
            yield f"    and {more} more: muster nodes --owner {one['owner']}"
    if not page["work"]:
        yield "  no one's"
