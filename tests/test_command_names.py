"""Commands are grouped by what they are for, and one that does not exist, or has no such option, names the
nearest."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from healthcheck.cli.main import COMMANDS, SECTIONS, root
from tests.command import muster
from tests.test_one_way import OPTIONS, TREE


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(root, list(words), prog_name="muster")
    return done.exit_code, done.stdout, done.stderr


def groups() -> list[tuple[str, ...]]:
    return sorted({tuple(words.split()[:end]) for words in TREE for end in range(len(words.split()))})


def test_each_command_is_in_one_group_of_the_help() -> None:
    assert Counter(name for names in SECTIONS.values() for name in names) == Counter(list(COMMANDS))


def test_the_help_shows_each_command_below_its_group() -> None:
    code, shown, _ = run("--help")
    heading, seen = "", {}
    for line in shown.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            heading = line.rstrip(":")
        elif heading in SECTIONS and line.startswith("  ") and line[2] != " ":
            seen[line.split()[0]] = heading
    assert code == 0 and seen == {name: heading for heading, names in SECTIONS.items() for name in names}


def misspelt(option: str) -> str:
    return f"{option[:-2]}{option[-1]}{option[-2]}" if option[-1] != option[-2] else option + "z"


@pytest.mark.parametrize("words", TREE)
def test_an_option_that_does_not_exist_names_the_nearest(words: str) -> None:
    options = sorted(name for name in OPTIONS[words] if name.startswith("--"))
    for option in {options[0], options[-1], max(options, key=len)} if options else ():
        if (wrong := misspelt(option)) in options:
            continue
        code, out, said = run(*words.split(), wrong)
        assert (code, out, said.count("\n")) == (2, "", 1), (wrong, said)
        start, _, named = said.rstrip("?\n").partition("; did you mean ")
        assert start == f"muster: no such option: '{wrong}'" and named in options, said
        assert (named == option or SequenceMatcher(None, wrong, named).ratio()
                >= SequenceMatcher(None, wrong, option).ratio())


@pytest.mark.parametrize("words", groups(), ids=" ".join)
def test_a_group_names_the_nearest_command_and_where_an_option_goes(words: tuple[str, ...]) -> None:
    group: click.Command = root
    for word in words:
        assert isinstance(group, click.Group)
        found = group.get_command(click.Context(group), word)
        assert found is not None
        group = found
    assert isinstance(group, click.Group)
    name = group.list_commands(click.Context(group))[0]
    code, out, said = run(*words, misspelt(name))
    assert (code, out, said.count("\n")) == (2, "", 1)
    assert said.startswith("muster: no such command: ") and "; did you mean " in said
    code, out, said = run(*words, "--hepl")
    assert (code, out, said.count("\n")) == (2, "", 1) and "; did you mean --help?" in said


@pytest.mark.parametrize(("words", "said"), [
    (("bmc", "--state", "x", "show"),
     "no such option: '--state'; --state goes after the command, as in: muster bmc show --state"),
    (("check", "--zzyx"), "no such option: '--zzyx'; see: muster check --help"),
    (("help", "--json"), "no such option: '--json'; see: muster help --help"),
    (("report", "--why"), "no such option: '--why'; see: muster report --help"),
    (("check", "-z"), "no such option: '-z'; see: muster check --help"),
    (("xyzzy",), "no such command: 'xyzzy'; there are check, nodes, report"),
    (("check", "--aply\x1b[2J\n"), "no such option: '--aply\\x1b[2J\\n'; "),
])
def test_what_resembles_nothing_gets_one_line_too(words: tuple[str, ...], said: str) -> None:
    code, out, line = run(*words)
    assert (code, out, line.count("\n")) == (2, "", 1) and line.startswith(f"muster: {said}")


def test_the_product_says_it_in_one_line(tmp_path: Path) -> None:
    done = muster("check", "--inventroy", "x", home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", (
        "muster: no such option: '--inventroy'; did you mean --inventory?\n"))
