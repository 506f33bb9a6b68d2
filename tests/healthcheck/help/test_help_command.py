"""`muster help`: lists topics, shows one as text or on a terminal, shows a command's options, and knows what
was meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from healthcheck.cli.help import text, topics
from tests.command import muster
from tests.healthcheck.help.pages import TOPICS, name
from tests.healthcheck.terminals import on_terminal


def test_without_a_topic_all_are_listed_a_line_each(tmp_path: Path) -> None:
    done = muster("help", home=tmp_path)
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")}
    assert (done.returncode, done.stderr) == (0, "")
    assert listed == {name(topic) for topic in TOPICS}
    assert max(map(len, done.stdout.splitlines())) <= 110
    assert "For maintainers\n  architecture " in done.stdout


def test_every_topic_has_a_heading_and_a_summary() -> None:
    assert all(topic.heading and topic.summary for topic in topics())


def test_piped_a_topic_is_plain_text_whose_links_can_be_typed(tmp_path: Path) -> None:
    done = muster("help", "cordon", home=tmp_path, FORCE_COLOR="1")
    assert done.returncode == 0
    assert done.stdout.startswith("# Keeping jobs away from nodes\n")
    assert "\x1b" not in done.stdout
    assert "triage (`muster help triage`)" in done.stdout and "](" not in done.stdout
    assert done.stdout.endswith("`muster cordon --help` shows the options of the command.\n")


@pytest.mark.parametrize("topic", TOPICS, ids=name)
def test_no_topic_keeps_a_link_that_only_the_web_knows(topic: Path) -> None:
    assert not re.search(r"\]\((?!https://)[^)]*\)",
                         re.sub(r"```.*?```", "", text(topic.stem), flags=re.DOTALL))


def test_on_a_terminal_it_is_drawn_in_colour_and_within_its_width(tmp_path: Path) -> None:
    shown = on_terminal("help", "cordon", home=tmp_path)
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert "\x1b[" in shown and "# Keeping" not in plain and "\x1b]8" not in shown
    assert "Keeping jobs away from nodes" in plain
    assert max(map(len, plain.splitlines())) <= 100


def test_no_color_is_honoured(tmp_path: Path) -> None:
    shown = on_terminal("help", "cordon", home=tmp_path, NO_COLOR="1")
    assert not re.search(r"\x1b\[[\d;]*3\d", shown)


def test_a_name_that_is_nearly_one_gets_the_nearest_in_one_line(tmp_path: Path) -> None:
    done = muster("help", "triag", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "muster: no such topic or command: 'triag'; did you mean triage?\n"


@pytest.mark.parametrize(("words", "says"), [
    (("zzzz",), "muster: no such topic or command: 'zzzz'; muster help lists them\n"),
    (("inventory", "imprt"), "muster: no such command: 'imprt'; did you mean import?\n"),
    (("\x1b[31m",), "muster: no such topic or command: '\\x1b[31m'; muster help lists them\n"),
])
def test_what_is_nothing_is_one_line(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    done = muster("help", *words, home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", says)


@pytest.mark.parametrize("words", [("check",), ("uncordon",), ("inventory", "import", "slurm"),
                                   ("gate", "publish"), ("bringup", "run"), ("help",)])
def test_the_name_of_a_command_shows_its_options(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = muster("help", *words, home=tmp_path)
    assert (done.returncode, done.stdout) == (0, muster(*words, "--help", home=tmp_path).stdout)
    assert done.stdout.startswith(f"Usage: muster {' '.join(words)}")


def test_completion_knows_the_topics(tmp_path: Path) -> None:
    def completed(words: str, place: int) -> set[str]:
        done = muster(home=tmp_path, _MUSTER_COMPLETE="bash_complete", COMP_WORDS=words,
                      COMP_CWORD=str(place))
        return {line.partition(",")[2] for line in done.stdout.splitlines()}

    assert completed("muster help burn", 2) == {"burnin", "burnin-measures", "burnin-verdicts"}
    assert completed("muster help ", 2) == {topic.name for topic in topics()}
