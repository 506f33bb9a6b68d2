"""Lines of a page for a terminal: wrapped to its width with a hanging indent, at spaces and at the commas of
node sets, never inside a word that fits. Where there is no terminal a line stays one line, for grep."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from rich.cells import cell_len, chop_cells
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

Piece: TypeAlias = "str | tuple[str, str]"
# What stays together: spaces, or a word, or the part of a list up to its comma.
_TOKEN = re.compile(r"\s+|[^\s,]*,|[^\s,]+")
_COLUMN = re.compile(r"\S+(?: \S+){0,3} {2,}")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LEAST = 24     # columns that are left to text, however deep it is indented


class TextPage:
    """Prints lines. Node output is never markup: each line is a Text of cleaned pieces."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.width = console.width if console.is_terminal else None

    def line(self, *pieces: Piece, indent: int = 0, hang: int = 2) -> None:
        """One line after so many columns; what of it goes on begins `hang` columns further."""
        styled = [(piece, "") if isinstance(piece, str) else piece for piece in pieces]
        if self.width is None:
            self._print(Text.assemble(" " * indent, *styled))
            return
        for number, row in enumerate(_rows(styled, self.width, indent, hang)):
            joined = [("".join([token for token, _ in run]), style)
                      for style, run in groupby(row, key=itemgetter(1))]
            self._print(Text.assemble(" " * (indent + hang if number else indent), *joined))

    def gap(self) -> None:
        """An empty line."""
        self._print(Text())

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True, highlight=False)


def wrapped(line: str, width: int) -> list[str]:
    """The rows of a line, which may have colours. What goes on begins behind its first column (a word or a
    few with two spaces behind them) where that leaves it two thirds of the width, else two columns further
    in."""
    text = line.lstrip(" ")
    indent = len(line) - len(text)
    column = _COLUMN.match(_COLOUR.sub("", text))
    hang = len(column[0]) if column is not None and indent + len(column[0]) <= min(
        width // 3, width - _LEAST) else 2
    return [" " * (indent + hang if number else indent) + "".join(token for token, _ in row)
            for number, row in enumerate(_rows([(text, "")], width, indent, hang))] or [""]


def _rows(
    pieces: Sequence[tuple[str, str]], width: int, indent: int, hang: int,
) -> Iterator[list[tuple[str, str]]]:
    row: list[tuple[str, str]] = []
    first = left = max(width - indent, _LEAST)
    rest = max(width - indent - hang, _LEAST)
    for text, style in pieces:
        for token in _TOKEN.findall(text):
            size = cell_len(_COLOUR.sub("", token))
            if size > left and row and not token.isspace():
                yield _trimmed(row)
                row, left = [], rest
            if token.isspace() and not row and left != first:
                continue
            while size > left and not token.isspace():      # a word that is longer than a line
                part = chop_cells(token, left)[0]
                yield [*row, (part, style)]
                row, left = [], rest
                token = token[len(part):]
                size = cell_len(token)
            row.append((token, style))
            left -= size
    if row:
        yield _trimmed(row)


def _trimmed(row: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without spaces at its end."""
    while row and row[-1][0].isspace():
        row = row[:-1]
    return row


def clipped(text: str, columns: int | None) -> str:
    """The text in so many columns, with an ellipsis where it is longer; None: whole."""
    if columns is None or cell_len(text) <= columns:
        return text
    return (chop_cells(text, max(columns - 1, 1)) or [""])[0].rstrip() + "…"
