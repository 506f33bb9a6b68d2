"""Puts together what runs on a node: the loader, the collector's text with the probe set, and the NVML reader as an extra."""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import secrets
import zlib
from pathlib import Path
from typing import Any

from healthcheck.probes import ProbeSet
from inventory.transport.base import Program

# One line, valid for Python 2.7 as well, so that an old Python can say that it is old. Neither newline nor quote ('), ! or \,
# which some login shell would take for its own.
LOADER = (
    'import sys;v=tuple(sys.version_info[:2]);print("muster:%s:python %d.%d"%((sys.argv[1],)+v));sys.stdout.flush();'
    'v>=(3,8)or sys.exit(3);i=sys.stdin.buffer;import zlib;'
    'c,_,p=zlib.decompress(i.read(int(i.readline()))).partition(bytes(1));'
    'exec(compile(c,"muster","exec"),{"__name__":"muster","NONCE":sys.argv[1],"PROBES":p,"STDIN":i})'
)
_HERE = Path(__file__).parent


def build(probes: ProbeSet, *, nvml: bool = True) -> Program:
    """The program for a sweep with these probes, under a nonce of its own; the same for every node.

    Without `nvml` the binding is not offered, and a node that has GPUs answers that no reader was sent.
    """
    text = json.dumps(probes.to_json(), separators=(",", ":")).encode()
    body = zlib.compress(_collector() + b"\0" + text, 9)
    extras = {"nvml": _nvml()} if nvml else {}
    return Program(secrets.token_hex(8), LOADER, b"%d\n" % len(body) + body, extras)


def stripped(source: str) -> str:
    """The same program without comments, docstrings, annotations and what is only there for the type checker."""
    tree = _Strip().visit(ast.parse(source))
    return ast.unparse(ast.fix_missing_locations(tree))


@functools.cache
def _collector() -> bytes:
    return stripped((_HERE / "collector.py").read_text(encoding="utf-8")).encode()


@functools.cache
def _nvml() -> bytes:
    """The reader and the binding it uses. The binding is found, not imported: importing it costs what its compilation costs."""
    found = importlib.util.find_spec("pynvml")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("nvidia-ml-py is not installed")
    reader = stripped((_HERE / "collector_nvml.py").read_text(encoding="utf-8")).encode()
    return zlib.compress(reader + b"\0" + Path(found.origin).read_bytes(), 9)


class _Strip(ast.NodeTransformer):
    """Takes out what costs bytes and compile time on the node and changes nothing there."""

    def _body(self, node: Any) -> Any:
        self.generic_visit(node)
        if node.body and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
            del node.body[0]
        if not node.body and not isinstance(node, ast.Module):
            node.body = [ast.Pass()]
        return node

    visit_Module = visit_ClassDef = _body

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.returns = None
        return self._body(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign | None:
        if node.value is None:
            return None
        self.generic_visit(node)
        return ast.Assign([node.target], node.value)

    def visit_If(self, node: ast.If) -> Any:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return None
        return self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Ours only tell the type checker what is so."""
