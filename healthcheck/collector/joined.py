"""One text of several modules: a node is sent a program, not a package.

Each module's own part follows in the given order, in one scope. Imports of our own, those for annotations and what only the type
checker reads stay at home; modules of the standard library are imported once, at the beginning.
"""

from __future__ import annotations

import ast
import functools
import threading
from pathlib import Path

FUTURE = "from __future__ import annotations\n"
_ONNODE = Path(__file__).with_name("onnode")
# Each module after those that it needs.
COLLECTOR = tuple(
    _ONNODE / f"{name}.py"
    for name in ("__init__", "system", "folder", "child", "devices", "rooted", "nvidia", "config", "reader", "answer", "run")
)
# What the root-owned helper has in addition.
HELPER = (*COLLECTOR, _ONNODE / "helper.py")
_PARSING = threading.Lock()


@functools.cache
def joined(paths: tuple[Path, ...]) -> str:
    """The text of these modules, for people to read, too: comments and docstrings are in it."""
    imports: set[str] = set()
    parts = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        lines = text.split("\n")
        for node in reversed(parsed(text).body):
            if isinstance(node, ast.Import):
                imports.update(alias.name for alias in node.names)
            if isinstance(node, (ast.Import, ast.ImportFrom)) or for_types(node):
                start = node.lineno - 1
                while start and not lines[start - 1]:
                    start -= 1
                del lines[start:node.end_lineno]
        parts.append("\n".join(lines).strip("\n"))
    return FUTURE + "\n" + "".join(f"import {name}\n" for name in sorted(imports)) + "\n" + "\n\n\n".join(parts) + "\n"


def parsed(text: str | bytes) -> ast.Module:
    """One at a time: Python 3.11 counts the depth of a tree for all threads together, and raises SystemError (cpython issue 106905)."""
    with _PARSING:
        return ast.parse(text)


def for_types(node: ast.stmt) -> bool:
    """Whether only the type checker reads it."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
