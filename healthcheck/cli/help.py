"""`muster help`: lists the topics of the documentation, and shows one, or the options of a command."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import suppress
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
_LINK = re.compile(
    r"(?P<item>^- )?(?<!!)\[(?P<text>[^\]]+)\]"
    r"\((?:(?P<topic>[a-z0-9-]+)\.md(?:#[\w-]+)?|#[\w-]+|\.\./[^)]+)\)", re.MULTILINE)
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
    item = link["item"] or ""
    if link["topic"] in (None, _INDEX):
        return f"{item}{link['text']}"
    typed = f"`muster help {link['topic']}`"
    return f"{item}{typed}" if item and link["text"] == link["topic"] else f"{item}{link['text']} ({typed})"


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    if ctx.params.get("words"):
        return []
    return [topic.name for topic in topics() if topic.name.startswith(incomplete)]


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
        root = ctx.find_root()
        known = isinstance(root.command, click.Group) and words[0] in root.command.list_commands(root)
        hint = f"\n`muster {words[0]} --help` shows the options of the command.\n" if known else ""
        _show(text(words[0]) + hint)
    else:
        _show_options(ctx, words)


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
    console.print(Markdown(source, code_theme="ansi_dark", hyperlinks=False),
                  width=min(console.width, _WIDEST))


def _show_options(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Prints what `--help` of the command prints; raises UsageError with the nearest names
    where there is none."""
    parent = ctx.find_root()
    command: click.Command = parent.command
    for at, word in enumerate(words):
        if not isinstance(command, click.Group):
            with suppress(click.exceptions.Exit):
                command.make_context(parent.info_name, [*words[at:], "--help"], parent.parent)
            return
        inner = command.get_command(parent, word)
        if inner is None:
            raise UsageError(_unknown(command, parent, word))
        command, parent = inner, click.Context(inner, info_name=word, parent=parent)
    click.echo(command.get_help(parent))


def _unknown(group: click.Group, at: click.Context, word: str) -> str:
    import difflib

    top = at.parent is None
    known = dict.fromkeys([*(topic.name for topic in topics() if top), *group.list_commands(at)])
    close = difflib.get_close_matches(word, known, n=3)
    hint = (f"did you mean {' or '.join(close)}?" if close else "muster help lists them" if top
            else f"there are {', '.join(known)}")
    return f"no such {'topic or command' if top else 'command'}: {short(word)}; {hint}"
