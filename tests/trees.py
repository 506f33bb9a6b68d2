"""The syntax trees of our modules: the tests of the architecture, the ladder and the words ask for the same ones."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """That of a file, which no one changes."""
    return ast.parse(path.read_text())
