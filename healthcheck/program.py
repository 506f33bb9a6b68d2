"""The program for the nodes, packed: a one-line loader, the collector with its probe set, and the NVML reader on request."""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import secrets
import zlib
from collections.abc import Mapping
from pathlib import Path

from healthcheck import helper
from healthcheck.binding import needed
from healthcheck.joined import COLLECTOR, joined
from healthcheck.probes import ProbeSet
from inventory.transport.base import Program

# Python 2.7 and every 3.x can read it, because the first thing it does is to say which one runs it. It holds no single quote,
# exclamation mark, backslash or newline, because those are what login shells disagree on inside single quotes.
LOADER = (
    "import sys;v=sys.version_info;o=sys.stdout;"
    'o.write("muster:%s:python %d.%d"%(sys.argv[1],v[0],v[1])+chr(10));o.flush();'
    "v<(3,8) and sys.exit();import zlib;i=sys.stdin.buffer;"
    "p=zlib.decompress(i.read(int(i.readline() or sys.exit(1)))).split(bytes(1));"
    'g={"__name__":"muster"};exec(compile(p[0],"muster","exec"),g);g["main"](sys.argv[1],p[1],i)'
)


def build(probes: ProbeSet, *, nvml: bool = True) -> Program:
    """The program that captures these probes, under a nonce of its own; good for any number of nodes.

    On a node of privilege `helper` it runs the root-owned helper that is installed at MUSTER_HELPER (`healthcheck.helper`).
    Without `nvml`, or where the head has no pynvml, the extra `nvml` is left out and a node that asks for it is told so.
    """
    document = json.dumps({**probes.to_json(), "helper": helper.path()}, separators=(",", ":")).encode()
    packed = zlib.compress(collector_source() + b"\0" + document, 9)
    payload = b"%d\n%b" % (len(packed), packed)
    return Program(secrets.token_hex(8), LOADER, payload, _nvml_extra() if nvml else {})


@functools.cache
def collector_source() -> bytes:
    """The collector's text without what only people read: comments, docstrings, annotations of functions."""
    return _stripped(joined(COLLECTOR))


@functools.cache
def _nvml_extra() -> Mapping[str, bytes]:
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        return {}
    reader = _stripped(Path(__file__).with_name("collector_nvml.py").read_text(encoding="utf-8"))
    library = needed(Path(spec.origin).read_text(encoding="utf-8"), reader.decode())
    return {"nvml": zlib.compress(reader + b"\0" + library.encode(), 9)}


def _stripped(text: str) -> bytes:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            # Joined modules have brought a docstring each.
            node.body[:] = [part for part in node.body if not _is_docstring(part)] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    return ast.unparse(tree).encode()


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
