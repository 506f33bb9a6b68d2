"""Prints what is said of nodes, equal lines once."""

from __future__ import annotations

from collections.abc import Iterable

import click

from inventory.reasons import fold_reasons


def echo_folded(reasons: Iterable[tuple[str, str]]) -> None:
    """Prints a line for each reason: the nodes as a node set, and what is said of all of them."""
    for each in fold_reasons(reasons):
        click.echo(f"{each.names}: {each.text}")
