"""A click group that loads each command only when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """`places` maps a command's name to ("module:attribute", its line in the help)."""

    def __init__(self, *args: Any, places: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._places:
            return None
        module, _, name = self._places[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._places.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str],
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._places and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], self._places, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(self._places)}"
            ctx.fail(f"no such command: {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)
