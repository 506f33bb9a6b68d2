"""An option that had another name: the old one is taken for a while, hidden, with a line on stderr."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource


class RenamedOption(click.Option):
    """An option of one value, or a flag, that `old` (--why) named before. Both at once are a usage error."""

    def __init__(self, *args: Any, old: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._old = old

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        flag = {"action": "store_const", "const": True} if self.is_flag else {}
        parser.add_option(obj=self, opts=[self._old], dest=self._old, **flag)

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        if self._old not in opts:
            return super().consume_value(ctx, opts)
        if self.name in opts:
            raise click.UsageError(f"{self._old} is the old name of {self.opts[0]}: give one of them", ctx)
        click.echo(f"muster: {self._old} is now {self.opts[0]}", err=True)
        return opts[self._old], ParameterSource.COMMANDLINE
