"""Reads an nhc.conf as LBNL Node Health Check does, and runs nothing of it.

Facts from NHC's driver and its common.nhc (github.com/mej/nhc, nhc_load_conf and mcheck): lines are read by
bash's `read`, which takes away white space at both ends and backslashes, and joins a line that ends with one;
what is before the first || is the target, the rest a shell command. A target is a glob, /regular expression/
or {node range}, and ! before it turns it round. A last line without line end is never read.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from inventory.text import clean

_SETTING = re.compile(r"(?:export\s+)?[A-Za-z_]\w*=")
_RANGE = re.compile(r"[\w.-]*(?:\[[0-9]+-[0-9]+\][\w.-]*)?")
_OPERATORS = re.compile(r"[();<>|&]+")


@dataclass(frozen=True)
class NhcLine:
    """One line that NHC acts on: where it begins, its target and its command as NHC has them, and the words
    of the command; none where they cannot be separated without a shell, and `trouble` says why."""

    number: int
    target: str
    command: str
    words: tuple[str, ...] = ()
    trouble: str = ""
    note: str = ""

    @property
    def name(self) -> str:
        return self.words[0] if self.words else clean(re.split("[ \t]", self.command, maxsplit=1)[0], 60)

    @property
    def sets_a_variable(self) -> bool:
        return _SETTING.match(self.command) is not None


def read_nhc_conf(data: bytes) -> tuple[NhcLine, ...]:
    """Every line but comments and empty ones, whatever the bytes are."""
    return tuple(line for number, text, ended in _logical(data.decode("utf-8", "backslashreplace"))
                 if (line := _line(number, text.strip(" \t\r"), ended)) is not None)


def _logical(text: str) -> Iterator[tuple[int, str, bool]]:
    """Number of the first line, text without backslashes, and whether it has a line end."""
    parts, number, at, begun = [], 1, 0, 1
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            at += 1
            if text[at] == "\n":
                number += 1
            else:
                parts.append(text[at])
        elif char == "\n":
            yield begun, "".join(parts), True
            number += 1
            parts, begun = [], number
        else:
            parts.append(char)
        at += 1
    if parts:
        yield begun, "".join(parts), False


def _line(number: int, text: str, ended: bool) -> NhcLine | None:
    target, bars, command = text.partition("||")
    target, command = target.strip(" \t"), command.strip(" \t")
    if text.startswith("#") or not text or (bars and not (target and command)):
        return None
    if not bars:
        return NhcLine(number, text, text, trouble="it has no ||, so NHC takes all of it for a target")
    note = "" if ended else "NHC never reads it: the last line has no line end"
    words, trouble = _words(command)
    return NhcLine(number, target, command, words, trouble, note or _target_note(target))


def _words(command: str) -> tuple[tuple[str, ...], str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:
        return (), "a quote in it is not closed"
    comment = next((at for at, word in enumerate(words) if word.startswith("#")), len(words))
    words = words[:comment]
    if not words:
        return (), "it is a comment"
    if any(_OPERATORS.fullmatch(word) for word in words) or "`" in command or "$(" in command:
        return (), "it is a shell command of several parts"
    return tuple(words), ""


def _target_note(target: str) -> str:
    inner = target.removeprefix("!")
    if inner.startswith("{") and inner.endswith("}") and not all(
            _RANGE.fullmatch(part) for part in inner[1:-1].split(",")):
        return "NHC matches no node by this range: it takes one [first-last] in each name"
    return ""
