"""Shell completion of node sets: the inventory's names and groups, after the part already typed."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from itertools import islice

import click

_MOST = 200     # a shell shows no more anyhow
_LARGE = 2_000_000      # bytes of an inventory, about a second of reading: no one waits longer for a key
_BEFORE = re.compile(r".*[,!&^]")

Completions = Callable[[click.Context, click.Parameter, str], list[str]]


def never_fails(names: Callable[[click.Context], Iterable[str]]) -> Completions:
    """Completions among these names. An error must not reach a shell within a line: it offers none."""
    @functools.wraps(names)
    def completions(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        return starting(lambda: names(ctx), incomplete)

    return completions


def starting(names: Callable[[], Iterable[str]], begun: str, before: str = "") -> list[str]:
    """The first of the names that start so, each after `before`; none where they cannot be had."""
    try:
        return list(islice((before + name for name in names() if name.startswith(begun)), _MOST))
    except Exception:   # noqa: BLE001  (whatever it is, the command itself will say it)
        return []


def nodes(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completions of a node set; none where there is no inventory, or it cannot be read."""
    return node_set(lambda: known(ctx), incomplete)


def node_set(names: Callable[[], Iterable[str]], incomplete: str) -> list[str]:
    """Completions of the last name of a node set."""
    match = _BEFORE.match(incomplete)
    before = match[0] if match is not None else ""
    return starting(names, incomplete[len(before):], before)


def node(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completions of one node's name."""
    return starting(lambda: (name for name in known(ctx) if not name.startswith("@")), incomplete)


def known(ctx: click.Context) -> list[str]:
    """Groups, as @NAME, and nodes of the inventory that the line so far names, or that is found; none
    without one, or where it is very large. Raises InventoryError."""
    from inventory.load import load_inventory
    from inventory.locate import find_inventory

    named = ctx.params.get("inventory") or ctx.params.get("file")
    path = find_inventory(named if isinstance(named, str) else None)
    if path is None or not path.is_file() or path.stat().st_size > _LARGE:     # a pipe would be waited for
        return []
    found = load_inventory(path)
    return [*(f"@{group}" for group in found.groups), *found.nodes]
