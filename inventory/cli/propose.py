"""Shows what a command would change in the inventory, asks, and then writes."""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
from collections.abc import Callable, Iterable

import click

from inventory.errors import UsageError
from inventory.text import clean

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}

yes_option = click.option("--yes", "-y", is_flag=True, help="Write without asking.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would change.")


def propose(name: str, before: str, after: str, write: Callable[[], None], *, yes: bool, dry_run: bool,
            remarks: Iterable[str] = ()) -> bool:
    """Prints difference and remarks, asks, and writes; returns whether it wrote. Raises UsageError without a
    terminal to ask on, unless `yes` is set."""
    # A closed output (`| head`) does not change what is to be written.
    with contextlib.suppress(BrokenPipeError):
        for line in difflib.unified_diff(_lines(before), _lines(after), name if before else "/dev/null", name,
                                         lineterm=""):
            click.echo(_coloured(clean(line, 2000)))
        for remark in remarks:
            click.echo(clean(remark, 2000))
    if before == after:
        click.echo(f"{name}: nothing to change")
        return False
    if dry_run:
        return False
    if not yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("no terminal to ask on: --yes writes this, --dry-run only shows it")
        if not click.confirm(f"Write {name}?", err=True):
            click.echo("Nothing changed.")
            return False
    write()
    return True


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def _coloured(line: str) -> str:
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    colour = None if plain or line.startswith(("+++", "---")) else _COLOURS.get(line[:1])
    return click.style(line, fg=colour) if colour else line
