"""The directives of ssh_config files, read as OpenSSH's readconf.c reads them."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from inventory.errors import ConfigError, Mark
from inventory.sshneeds import ALIASES, CRITERIA
from inventory.sshowner import check_owner
from inventory.text import short

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 16              # of Include, as in OpenSSH's readconf.c

_KEYWORD = re.compile(r"([A-Za-z0-9]+)[ \t]*(?:=[ \t]*|[ \t]+|$)(.*)", re.DOTALL)


@dataclass(frozen=True)
class SshLine:
    """One directive; an Include carries the lines of its files."""

    keyword: str
    words: tuple[str, ...]
    rest: str
    mark: Mark
    spelt: str
    included: tuple[tuple[SshLine, ...], ...] = ()


def read_lines(
    path: Path, folder: Path, depth: int, *, required: bool, checked: bool = True,
) -> tuple[SshLine, ...]:
    """The lines of a file; none where it is absent and not required. Raises ConfigError. `checked`: as
    readconf.c, only files of root or this user that no one else may write."""
    try:
        with open(path, "rb") as file:
            if checked:
                check_owner(path, os.fstat(file.fileno()))
            data = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise ConfigError(f"{path}: no such file") from None
        return ()
    except OSError as problem:
        raise ConfigError(f"{path}: cannot be read: {problem.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: is over {MAX_BYTES} bytes")
    return tuple(parse_lines(data.decode("utf-8", "surrogateescape"), str(path), folder, depth))


def parse_lines(text: str, filename: str, folder: Path, depth: int) -> Iterator[SshLine]:
    """The lines of a text; `folder` is where relative names of an Include begin. Raises ConfigError."""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        mark = Mark(filename, number, raw.index(line[0]) + 1)
        match = _KEYWORD.fullmatch(line)
        if match is None:
            raise ConfigError(f"expected a keyword and its value, found {short(line)}", mark)
        keyword, rest = match[1].lower(), match[2]
        keyword = ALIASES.get(keyword, keyword)
        words = _split(rest, mark)
        if not words:
            raise ConfigError(f"{match[1]} has no value", mark)
        if keyword == "match":
            _check_match(words, mark)
        included = tuple(_included(words, folder, depth, mark)) if keyword == "include" else ()
        yield SshLine(keyword, words, rest, mark, match[1], included)


def _split(text: str, mark: Mark) -> tuple[str, ...]:
    """Words as OpenSSH's argv_split takes them: quotes, backslashes, # at a word's start for a comment."""
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in " \t":
            at += 1
            continue
        if text[at] == "#":
            break
        word, quote = [], ""
        while at < len(text) and (quote or text[at] not in " \t"):
            char = text[at]
            if (char == "\\" and text[at + 1: at + 2] in ("'", '"', "\\", *((" ",) if not quote else ()))
                and at + 1 < len(text)):
                at += 1
                word.append(text[at])
            elif quote and char == quote:
                quote = ""
            elif not quote and char in "'\"":
                quote = char
            else:
                word.append(char)
            at += 1
        if quote:
            raise ConfigError("a quote is not closed", mark)
        words.append("".join(word))
    return tuple(words)


def _included(words: tuple[str, ...], folder: Path, depth: int, mark: Mark) -> Iterator[tuple[SshLine, ...]]:
    if depth >= MAX_DEPTH:
        raise ConfigError(f"Include goes over {MAX_DEPTH} levels deep", mark)
    for pattern in words:
        full = os.path.join(folder, os.path.expanduser(pattern))  # noqa: PTH111, PTH118  (a pattern, not a path)
        for path in sorted(glob.glob(full)):  # noqa: PTH207  (absolute patterns)
            yield read_lines(Path(path), folder, depth + 1, required=False)


_PLAIN_CRITERIA = ("all", "canonical", "final")
KNOWN_CRITERIA = tuple(name for name in CRITERIA if name not in _PLAIN_CRITERIA)


def criteria(words: tuple[str, ...]) -> Iterator[tuple[bool, str, str | None]]:
    """(negated, criterion, argument); the argument may follow an equals sign."""
    queue = list(words)
    while queue:
        word = queue.pop(0)
        negated = word.startswith("!")
        criterion, equals, argument = word.lstrip("!").partition("=")
        criterion = criterion.lower()
        if criterion in _PLAIN_CRITERIA:
            yield negated, criterion, None
        else:
            yield negated, criterion, argument if equals else queue.pop(0) if queue else None


def _check_match(words: tuple[str, ...], mark: Mark) -> None:
    found = list(criteria(words))
    for _, criterion, argument in found:
        if criterion not in _PLAIN_CRITERIA and argument is None:
            raise ConfigError(f"Match {short(criterion)} has no value", mark)
    names = [criterion for _, criterion, _ in found]
    if ("all" in names and (len(names) > 2 or names[-1] != "all"
                            or (len(names) == 2 and names[0] not in ("canonical", "final")))):
        raise ConfigError("Match all goes with nothing but canonical or final before it", mark)
