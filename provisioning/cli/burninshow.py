"""Prints a burn-in as a page or a document, draws it, and maps its verdict to an exit code."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inventory.errors import UsageError

if TYPE_CHECKING:
    from healthcheck.burnin.document import Burnin


def show(burnt: Burnin, data: bytes, as_json: bool, output: str | None, svg: str | None) -> None:
    """Prints a burn-in's page, or `data`, its document (for the output -, too); writes asked files."""
    from inventory.nodeset import fold

    if svg is not None:
        from healthcheck.burnin.svg import svg as drawn

        _write(svg, drawn(burnt).encode(), "--svg")
    if output is not None and output != "-":
        _write(output, data, "--output")
    # A reader that went away (`| head`) does not change what was found.
    with contextlib.suppress(BrokenPipeError, SystemExit):
        if as_json or output == "-":
            click.echo(data.decode("utf-8", "replace"), nl=False)
            return
        from rich.console import Console

        from healthcheck.burnin.page import render

        console = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)
        render(console, burnt, fold)
        if burnt.judgement.outcomes and sys.stdout.isatty():
            from healthcheck.burnin import sharespage
            from healthcheck.burnin.matrix import matrix
            from healthcheck.burnin.shares import shares

            console.print()
            sharespage.draw(console, shares(burnt), matrix(burnt.burnt.places, burnt.burnt.results))


def _write(file: str, data: bytes, option: str) -> None:
    from healthcheck.config.files import write_whole

    try:
        write_whole(Path(file), data, 0o644)
    except OSError as error:
        raise UsageError(f"{option} {file}: cannot be written: {error.strerror}") from error


def code(burnt: Burnin) -> int:
    """The exit code of its verdict (healthcheck/help/results.md, Exit codes)."""
    from healthcheck.burnin.judgement import BurnInOutcome

    return {BurnInOutcome.PASS: 0, BurnInOutcome.FAIL: 1, BurnInOutcome.UNKNOWN: 3}[burnt.judgement.verdict]
