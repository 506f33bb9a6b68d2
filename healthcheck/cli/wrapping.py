"""Prints lines of text on a terminal wrapped to its width, with a hanging indent; elsewhere as they are,
for grep."""

from __future__ import annotations

import sys
from shutil import get_terminal_size

import click


def echo(text: str, *, err: bool = False) -> None:
    """Prints the lines of a text. What of a line goes on begins below its words: behind the first column of a
    table or the name of a value, else two columns further in."""
    stream = sys.stderr if err else sys.stdout
    if stream is None or not stream.isatty():
        click.echo(text, err=err)
        return
    from healthcheck.report.lines import wrapped

    width = get_terminal_size().columns
    for line in text.split("\n"):
        click.echo("\n".join(wrapped(line, width)), err=err)
