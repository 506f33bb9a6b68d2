"""Shell completion of node sets: the inventory's names and groups, after the part already typed."""

from __future__ import annotations

import re
from itertools import islice

import click

_MOST = 200     # a shell shows no more anyhow
_BEFORE = re.compile(r".*[,!&^]")


def nodes(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completions of a node set; none where there is no inventory, or it cannot be read."""
    from inventory.errors import MusterError
    from inventory.load import load_inventory
    from inventory.locate import find_inventory

    match = _BEFORE.match(incomplete)
    before = match[0] if match is not None else ""
    try:
        path = find_inventory(ctx.params.get("inventory"))
        found = load_inventory(path) if path is not None else None
    except MusterError:
        return []
    known = (*(f"@{group}" for group in found.groups), *found.nodes) if found is not None else ()
    return list(islice((before + name for name in known if name.startswith(incomplete[len(before):])), _MOST))
