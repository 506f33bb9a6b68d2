"""Every muster command that the README or a topic shows is one that the real command tree takes: names,
options, values and all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from healthcheck.cli.main import root
from tests.healthcheck.help.pages import PAGES, Shown, commands, of_line, spans

# Files that a command of these pages reads: click asks whether some of them are there.
FILES = ("nodes.txt", "floors.yaml", "vm.yaml", "bus.kmsg.gz", "gpu007.dmesg", "slurm-4711.out",
         "train.log", "new.yaml")
TYPED = [shown for page in PAGES for shown in commands(page)]
MEANT = [shown for page in PAGES for shown in spans(page)]


@contextmanager
def at_home(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def parse(words: tuple[str, ...]) -> None:
    """Takes the words as `muster` would, and stops before the command does anything; raises
    ClickException."""
    top = click.Context(root, info_name="muster")
    with top:
        if words and not words[0].startswith("-"):
            assert root.callback is not None
            top.invoke(root.callback)
        rest, context = list(words), top
        command: click.Command = root
        if words == ("--version",):
            return
        while isinstance(command, click.Group) and rest:
            _, inner, rest = command.resolve_command(context, rest)
            assert inner is not None
            if isinstance(inner, click.Group):
                context, command = click.Context(inner, info_name=inner.name, parent=context), inner
            else:
                inner.make_context(inner.name, rest, context)
                return


def test_pages_show_commands_and_the_reader_of_them_knows_a_shell_line() -> None:
    assert len(TYPED) > 100 and len(MEANT) > 80
    assert ([shown.words
             for shown in of_line("p",
                                  "ssh a true && .venv/bin/muster check 'a b' >x; muster nodes | cat   # c")]
            == [
               ("check", "a b"), ("nodes",)])
    with pytest.raises(click.ClickException):
        parse(("check", "--no-such-option"))
    with pytest.raises(click.ClickException):
        parse(("inventory", "imprt"))
    with pytest.raises(click.ClickException):
        parse(("rules", "list", "--severity", "bad"))


@pytest.mark.parametrize("shown", TYPED, ids=str)
def test_a_command_that_is_to_be_typed_is_taken(shown: Shown, tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).write_text("")
    with at_home(tmp_path):
        parse(shown.words)


@pytest.mark.parametrize("shown", MEANT, ids=str)
def test_a_command_in_the_prose_exists_with_its_options(shown: Shown) -> None:
    """Its arguments may be left out, or stand for something."""
    context, words = click.Context(root, info_name="muster"), list(shown.words)
    command: click.Command = root
    while isinstance(command, click.Group) and words:
        inner = command.get_command(context, words[0])
        assert inner is not None, f"{shown}: no command {words[0]}"
        context, command, words = click.Context(inner, info_name=inner.name, parent=context), inner, words[1:]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= known, shown
