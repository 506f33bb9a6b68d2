"""A question before a command does what was typed: where it restarts or powers off, or is for many nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from inventory.cli.renamed import RenamedOption
from inventory.errors import UsageError
from inventory.nodeset import fold

MANY = 32       # nodes that a slip of the fingers may change without a question

_HELP = f"Do not ask. It asks before it restarts or powers off, and for more than {MANY} nodes."
YES = click.option("--yes", "-y", is_flag=True, help=_HELP)
YES_MANY = click.option("--yes", "-y", is_flag=True, help=f"Do not ask. It asks for more than {MANY} nodes.")


def yes_or(old: str) -> Callable[..., Any]:
    """--yes, for a command that waited for another option before."""
    return click.option("--yes", "-y", is_flag=True, cls=RenamedOption, old=old, help=_HELP)


def confirm(what: str, nodes: Sequence[str], *, stops: bool, yes: bool) -> bool:
    """Asks before `what` is done to these nodes, where it `stops` what runs there or they are more than
    `MANY`; returns whether it asked: then time has passed. Raises UsageError where there is no one to ask,
    click's Exit with 1 for a no, and its Abort for Ctrl-C."""
    if yes or not nodes or not (stops or len(nodes) > MANY):
        return False
    about = f"{what}: {fold(nodes)}"
    if len(nodes) > 1:
        about += f" ({len(nodes)} nodes)"
    if not on_terminal():
        raise UsageError(f"{about}: nothing changed, since there is no terminal to ask on; --yes does it "
                         "without asking")
    if not click.confirm(f"{about}. Do it?", err=True):
        click.echo("Nothing changed.", err=True)
        raise click.exceptions.Exit(1)
    return True


def on_terminal() -> bool:
    """Whether a person sees the question and can answer it; a stream is None where the shell closed it."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
