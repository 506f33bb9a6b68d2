"""`muster help`: lists the topics of the documentation, and shows one, or the options of a command."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from inventory.errors import UsageError
from inventory.text import short

FOLDER = Path(__file__).resolve().parents[1] / "help"
_INDEX = "index"
_WIDEST = 110       # columns; longer lines are hard to read
_HEADING = re.compile(r"## (?P<heading>.+)")
_ENTRY = re.compile(r"- \[(?P<name>[a-z0-9-]+)\]\([a-z0-9-]+\.md\): (?P<summary>.+)")
# A link to another topic, one to another place of the same topic, and one to a file of the repository.
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?:(?P<topic>[a-z0-9-]+)\.md(?:#[\w-]+)?|#[\w-]+|\.\./[^)]+)\)")
_PICTURE = re.compile(r"^!\[.*\n+", re.MULTILINE)


@dataclass(frozen=True)
class Topic:
    """One entry of the index."""

    name: str
    heading: str
    summary: str


def topics() -> Iterator[Topic]:
    """The topics in the order of the index."""
    heading = ""
    for line in (FOLDER / f"{_INDEX}.md").read_text(encoding="utf-8").splitlines():
        if found := _HEADING.fullmatch(line):
            heading = found["heading"]
        elif found := _ENTRY.fullmatch(line):
            yield Topic(found["name"], heading, found["summary"])


def text(name: str) -> str:
    """The Markdown of a topic, its links turned into what one types here."""
    source = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    return _LINK.sub(_typed, _PICTURE.sub("", source))


def _typed(link: re.Match[str]) -> str:
    if link["topic"] in (None, _INDEX):
        return link["text"]
    return f"`muster help {link['topic']}`" if link["text"] == link["topic"] else f"{link['text']} (`muster help {link['topic']}`)"


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [topic.name for topic in topics() if topic.name.startswith(incomplete)] if not ctx.params.get("words") else []


@click.command(name="help")
@click.argument("words", metavar="[TOPIC | COMMAND...]", nargs=-1, shell_complete=_complete)
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show a TOPIC of the documentation, or the options of a COMMAND. Without either, list the topics.

    A name that is both is the topic; `muster COMMAND --help` always shows the options.

    \b
    muster help
    muster help triage
    muster help inventory import slurm
    """
    if not words:
        _list()
    elif words in {(topic.name,) for topic in topics()}:
        _show(text(words[0]))
    else:
        click.echo(_options(ctx, words))


def _list() -> None:
    found = list(topics())
    width = max(len(topic.name) for topic in found)
    heading = ""
    for topic in found:
        if topic.heading != heading:
            click.echo(f"{chr(10) if heading else ''}{topic.heading}")
            heading = topic.heading
        click.echo(f"  {topic.name:<{width}}  {topic.summary}")
    click.echo("\nmuster help TOPIC shows one; muster help COMMAND shows a command's options.")


def _show(source: str) -> None:
    if not sys.stdout.isatty():
        click.echo(source, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    console.print(Markdown(source, code_theme="ansi_dark", hyperlinks=False), width=min(console.width, _WIDEST))


def _options(ctx: click.Context, words: tuple[str, ...]) -> str:
    """What `--help` of the command shows; raises UsageError with the nearest names where there is none."""
    parent = ctx.find_root()
    command: click.Command = parent.command
    for word in words:
        inner = command.get_command(parent, word) if isinstance(command, click.Group) else None
        if inner is None:
            raise UsageError(_unknown(command, parent, word))
        command, parent = inner, click.Context(inner, info_name=word, parent=parent)
    return command.get_help(parent)


def _unknown(command: click.Command, at: click.Context, word: str) -> str:
    import difflib

    known = list(command.list_commands(at)) if isinstance(command, click.Group) else []
    what = "command" if at.parent is not None else "topic or command"
    if at.parent is None:
        known = list(dict.fromkeys([*(topic.name for topic in topics()), *known]))
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "`muster help` lists them" if at.parent is None else \
        f"there are {', '.join(known)}" if known else f"`{at.command_path}` has no commands below it"
    return f"no such {what}: {short(word)}; {hint}"
