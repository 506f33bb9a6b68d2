"""Click groups that load each command only when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import click


class LazyGroup(click.Group):
    """`places` maps a command's name to ("module:attribute", its line in the help); `sections` maps a heading
    of the help to the commands below it, each in one, where they are not all below "Commands"."""

    def __init__(self, *args: Any, places: Mapping[str, tuple[str, str]],
                 sections: Mapping[str, Sequence[str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._places = places
        self._sections = sections if sections is not None else {"Commands": tuple(places)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._places:
            return None
        return _loaded(self._places[cmd_name][0])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        wide = max(map(len, self._places))      # so that the texts of all sections begin in one column
        for heading, names in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<{wide}}", self._places[name][1]) for name in names])


class LazyCommand(click.Command):
    """A command whose first argument may be a subcommand instead; `places` as those of a `LazyGroup`."""

    def __init__(self, *args: Any, places: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.places = places

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any,
    ) -> click.Context:
        if args and args[0] in self.places:
            return _loaded(self.places[args[0]][0]).make_context(f"{info_name} {args[0]}", args[1:], parent)
        return super().make_context(info_name, args, parent, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.places.items()])


def _loaded(place: str) -> click.Command:
    module, _, name = place.partition(":")
    command: click.Command = getattr(importlib.import_module(module), name)
    return command
