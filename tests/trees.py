"""The syntax trees of our modules: the tests of the architecture, the ladder and the words ask for the same
ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path


def statements(module: ast.Module) -> Iterator[ast.AST]:
    """Every statement of it, at whatever depth; of the tree that is a small part."""
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, name, ())
            yield from inner
            waiting += inner


@cache
def parsed(path: Path) -> ast.Module:
    """That of a file, which no one changes."""
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Everything in the tree of a file."""
    return list(ast.walk(parsed(path)))
