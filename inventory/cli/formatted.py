"""--format table|json, which asks for a document; --json, its old name, is taken for a while, hidden."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import click
from click.core import ParameterSource

_OLD = "--json"


class _FormatOption(click.Option):
    """--format, for which --json stands too. --json with --format table is a usage error."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        parser.add_option(obj=self, opts=[_OLD], dest=_OLD, action="store_const", const="json")

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        if _OLD not in opts:
            return super().consume_value(ctx, opts)
        if opts.get(str(self.name), "json") != "json":
            raise click.UsageError(f"{_OLD} is the old name of --format json: give one of them", ctx)
        if sys.stderr.isatty():
            click.echo(f"muster: {_OLD} is now --format json", err=True)
        return "json", ParameterSource.COMMANDLINE


def _is_json(_context: click.Context, _option: click.Parameter, value: str) -> bool:
    return value == "json"


def as_json(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--format table|json as the parameter `as_json`; `text` says what json prints."""
    return click.option("--format", "as_json", cls=_FormatOption, type=click.Choice(("table", "json")),
                        default="table", show_default=True, callback=_is_json, help=text)
