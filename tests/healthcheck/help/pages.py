"""The README and the topics as tests read them: their blocks, the commands in these, and their links."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "README.md"
FOLDER = ROOT / "healthcheck" / "help"
TOPICS = tuple(sorted(path for path in FOLDER.glob("*.md") if path.stem != "index"))
PAGES = (README, FOLDER / "index.md", *TOPICS)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
_MUSTER = re.compile(r"(?:\.venv/bin/|~/muster/bin/|/apps/bin/)?muster")
_ENDS = {"&&", "||", ";", "|", "&", ">", ">>", "<", "(", ")"}


@dataclass(frozen=True)
class Shown:
    """One command that a page shows: its words after `muster`, and the line that it stands in."""

    page: str
    words: tuple[str, ...]
    line: str

    def __str__(self) -> str:
        return f"{self.page}: {self.line}"


def name(page: Path) -> str:
    """README, or the topic."""
    return page.stem


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """The language and the text of each fenced block."""
    for found in _FENCE.finditer(page.read_text()):
        yield found[1], found[2]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def code(page: Path) -> Iterator[str]:
    """The spans of code in the prose, on one line each."""
    for found in _CODE.finditer(prose(page)):
        yield " ".join(found[1].split())


@dataclass(frozen=True)
class TypedLine:
    """A line that a page asks to type, and what the page shows as its output, without lines that stand for
    others."""

    text: str
    output: tuple[str, ...] = ()


def lines(language: str, text: str) -> Iterator[TypedLine]:
    """What a block asks to type: all of sh, of console the lines after a prompt, and crontab's."""
    if language == "console":
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            typed, *shown = part.splitlines()
            yield TypedLine(typed, tuple(line for line in shown if line.strip()
                                         and not line.strip().startswith("...")))
        return
    for line in text.splitlines():
        if language == "sh" and line and not line.startswith("#"):
            yield TypedLine(line)
        elif line.startswith("*/"):
            yield TypedLine(line.split(maxsplit=6)[6])


def commands(page: Path) -> Iterator[Shown]:
    """Each muster command that the page asks to type."""
    for language, text in blocks(page):
        for line in lines(language, text):
            yield from of_line(name(page), line.text)


def of_line(page: str, line: str) -> Iterator[Shown]:
    parts = shlex.shlex(line, posix=True, punctuation_chars=True)
    parts.whitespace_split = True
    words: list[str] = []
    for word in [*parts, ";"]:
        if word in _ENDS:
            if words and _MUSTER.fullmatch(words[0]):
                yield Shown(page, tuple(word for word in words[1:] if word != "..."), line)
            words = []
        else:
            words.append(word)


def spans(page: Path) -> Iterator[Shown]:
    """Each muster command in the prose; capital words stand for what a reader fills in."""
    for span in code(page):
        if re.match(r"(?:\.venv/bin/)?muster (?!-)", span):
            yield from of_line(name(page), span)
