"""A root command that names the nearest, in one line, where an option or a command does not exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from inventory.cli.lazy import LazyGroup
from inventory.text import short

# What other programs, and muster once, call what these options of ours are for.
_ELSEWHERE = {"--json": "--format", "--output": "--format", "--why": "--reason", "--folder": "--state"}
_NO_COMMAND = "No such command"     # click 8.1 has no class for it


class _OneLine(click.UsageError):
    """A usage error without the usage."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"muster: {self.format_message()}", file=file, err=file is None)


class NearestGroup(LazyGroup):
    """Replaces those errors of its own and of every command below it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _naming_the_nearest():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _naming_the_nearest():
            return super().invoke(ctx)


@contextmanager
def _naming_the_nearest() -> Iterator[None]:
    try:
        yield
    except click.NoSuchOption as error:
        raise _OneLine(_no_option(error.option_name, error.ctx), error.ctx) from None
    except click.UsageError as error:
        if error.ctx is None or not isinstance(error.ctx.command, click.Group) or (
                not error.message.startswith(_NO_COMMAND)):
            raise
        raise _OneLine(_no_command(error.message, error.ctx, error.ctx.command), error.ctx) from None


def _no_option(typed: str, ctx: click.Context | None) -> str:
    """The message: the nearest option of the command; of a group, also of its commands, where it belongs."""
    if ctx is None:
        return f"no such option: {short(typed)}"
    start = f"no such option: {short(typed)}"
    own = _close(typed, _options(ctx.command, ctx))
    if own is not None:
        return f"{start}; did you mean {own}?"
    if isinstance(ctx.command, click.Group):
        for name, inner in _commands(ctx.command, ctx):
            below = click.Context(inner, info_name=name, parent=ctx)
            found = _close(typed, _options(inner, below))
            if found is not None:
                return f"{start}; {found} goes after the command, as in: {below.command_path} {found}"
    return f"{start}; see: {ctx.command_path} --help"


def _no_command(said: str, ctx: click.Context, group: click.Group) -> str:
    typed = said.removeprefix(_NO_COMMAND).strip(" .'\"")
    from difflib import get_close_matches

    known = group.list_commands(ctx)
    close = get_close_matches(typed, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
    return f"no such command: {short(typed)}; {hint}"


def _close(typed: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    pool = {name.lstrip("-"): name for name in known if name.startswith("--")}
    bare = typed.lstrip("-")
    if (ours := _ELSEWHERE.get(typed)) in pool.values():
        return ours
    begun = [name for name in pool if bare and typed.startswith("--") and name.startswith(bare)]
    least = 0.6 if len(bare) > 2 else 0.5       # two letters of --by the wrong way round are half equal
    return next((pool[name] for name in begun or get_close_matches(bare, pool, n=1, cutoff=least)), None)


def _options(command: click.Command, ctx: click.Context) -> Iterator[str]:
    """The options that --help shows."""
    return (name for option in command.get_params(ctx)
            if isinstance(option, click.Option) and not option.hidden
            for name in (*option.opts, *option.secondary_opts))


def _commands(group: click.Group, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is not None and not command.hidden:
            yield name, command
