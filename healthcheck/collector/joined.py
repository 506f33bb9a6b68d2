"""Joins modules into one text: a node gets a program, not a package.

The modules follow in the given order, in one scope. Imports of muster's modules, those for annotations and
what only the type checker reads are removed; modules of the standard library are imported once, at the
beginning.
"""

from __future__ import annotations

import ast
import functools
import threading
from pathlib import Path

FUTURE = "from __future__ import annotations\n"
_ONNODE = Path(__file__).with_name("onnode")
# Each module stands after those that it needs.
COLLECTOR = tuple(
    _ONNODE / f"{name}.py"
    for name in ("__init__", "shortage", "system", "folder", "child", "devices", "helperchild", "nvidia",
                 "config", "containers", "reader", "answer", "run")
)
# What the root-owned helper has in addition.
HELPER = (*COLLECTOR, _ONNODE / "helper.py")
_PARSING = threading.Lock()


@functools.cache
def joined(paths: tuple[Path, ...]) -> str:
    """The text of these modules, with comments and docstrings for readers."""
    imports: set[str] = set()
    parts = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        lines = text.split("\n")
        for node in reversed(parsed(text).body):
            if isinstance(node, ast.Import):
                imports.update(alias.name for alias in node.names)
            if isinstance(node, (ast.Import, ast.ImportFrom)) or is_type_checking_block(node):
                start = node.lineno - 1
                while start and not lines[start - 1]:
                    start -= 1
                del lines[start:node.end_lineno]
        parts.append("\n".join(lines).strip("\n"))
    head = "".join(f"import {name}\n" for name in sorted(imports))
    return f"{FUTURE}\n{head}\n" + "\n\n\n".join(parts) + "\n"


def parsed(text: str | bytes) -> ast.Module:
    """The syntax tree. One thread at a time: Python 3.11 counts depth for all (cpython issue 106905)."""
    with _PARSING:
        return ast.parse(text)


def is_type_checking_block(node: ast.stmt) -> bool:
    """Whether only the type checker reads it."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
