"""Shell completion of nodes, rules, SKUs, profiles, incidents and changes: from the names in files and in
the store, since loading all rules takes longer than a person waits for a key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import click

from inventory.cli import completing
from inventory.cli.completing import never_fails

_WAIT_S = 0.2       # for a store that is being written


def node_set(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completions of a node set: the inventory's, or without one the nodes of the store."""
    return completing.node_set(lambda: _nodes(ctx), incomplete)


def node(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completions of one node's name."""
    return completing.starting(lambda: (name for name in _nodes(ctx) if not name.startswith("@")), incomplete)


@never_fails
def rule(ctx: click.Context) -> Iterator[str]:
    """Ids of rules."""
    yield from _written(ctx, "", r"- +id")


@never_fails
def sku(ctx: click.Context) -> Iterator[str]:
    """Names of SKUs."""
    yield from _written(ctx, "sku", "sku")


@never_fails
def profile(ctx: click.Context) -> Iterator[str]:
    """Names of profiles."""
    yield from _written(ctx, "profile", "profile")


@never_fails
def incident(ctx: click.Context) -> list[str]:
    """Ids of open incidents, the newest first."""
    return _stored(ctx, "SELECT id FROM incident WHERE ended IS NULL ORDER BY id DESC LIMIT 200")


@never_fails
def changes(ctx: click.Context) -> tuple[str, ...]:
    """Names of changes."""
    from healthcheck.change.keep import names
    from inventory.locate import state_dir

    return names(state_dir(ctx.params.get("state")))


def _nodes(ctx: click.Context) -> list[str]:
    return completing.known(ctx) or _stored(ctx, "SELECT name FROM node ORDER BY id LIMIT 20000")


def _written(ctx: click.Context, below: str, key: str) -> Iterator[str]:
    """The values of a key that begins a line, of the files in all folders of rules, each once."""
    from healthcheck.config.rulesfolder import NOT_RULES, folders

    line = re.compile(rf"^{key}: *[\"']?([\w.-]+)", re.MULTILINE)
    seen = set()
    for folder in folders(ctx.params.get("rules")):
        for path in sorted((folder / below).glob("*.yaml")):
            if (not below and path.name in NOT_RULES) or not path.is_file():
                continue
            for name in line.findall(path.read_text(errors="replace")):
                if name not in seen:
                    seen.add(name)
                    yield name


def _stored(ctx: click.Context, query: str) -> list[str]:
    """The first column. The store is opened as it lies there: neither made nor brought up to date."""
    import sqlite3

    from healthcheck.store.file import NAME
    from inventory.locate import state_dir

    path = state_dir(ctx.params.get("state")).absolute() / NAME
    if not path.is_file():
        return []
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_WAIT_S)) as store:
        return [str(row[0]) for row in store.execute(query)]
