"""--format, which names the form of what is printed. Its old spellings are taken for a while: --json,
hidden, for --format json, and text for table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import click
from click.core import ParameterSource

_OLD = "--json"


class _FormatOption(click.Option):
    """--format, for which --json stands too with `json_flag`. --json with another format is a usage error."""

    def __init__(self, *args: Any, json_flag: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        assert isinstance(self.type, click.Choice)  # noqa: S101  (so the commands are written)
        self._flag = json_flag and "json" in self.type.choices

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        if self._flag:
            parser.add_option(obj=self, opts=[_OLD], dest=_OLD, action="store_const", const="json")

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        if _OLD not in opts or not self._flag:
            value, source = super().consume_value(ctx, opts)
            if value == "text":
                click.echo("muster: --format text is now --format table", err=True)
                value = "table"
            return value, source
        if opts.get(str(self.name), "json") != "json":
            raise click.UsageError(f"{_OLD} is the old name of --format json: give one of them", ctx)
        if sys.stderr is not None and sys.stderr.isatty():
            click.echo(f"muster: {_OLD} is now --format json", err=True)
        return "json", ParameterSource.COMMANDLINE


def formats(*more: str, text: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--format table|json, and `more`, as the parameter `fmt`; `text` is its help."""
    return click.option("--format", "fmt", cls=_FormatOption, type=click.Choice(("table", "json", *more)),
                        default="table", show_default=True, help=text)


def _is_json(_context: click.Context, _option: click.Parameter, value: str) -> bool:
    return value == "json"


def as_json(text: str, *, json_flag: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--format table|json as `as_json`; `text` says what json prints, `json_flag` whether --json is taken."""
    return click.option("--format", "as_json", cls=_FormatOption, type=click.Choice(("table", "json")),
                        json_flag=json_flag, default="table", show_default=True, callback=_is_json, help=text)
