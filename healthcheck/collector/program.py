"""The program for the nodes, packed: a one-line loader, the collector with its probe set, and the NVML reader on request."""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import secrets
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from healthcheck.collector import helper
from healthcheck.collector.binding import needed
from healthcheck.collector.joined import COLLECTOR, joined
from healthcheck.collector.loader import LOADER, payload
from healthcheck.config import usercache
from healthcheck.model.probes import ProbeSet
from inventory.transport.base import Program

_NVML = Path(__file__).with_name("onnode") / "nvml.py"


def build(probes: ProbeSet, *, nvml: bool = True) -> Program:
    """The program that captures these probes, under a nonce of its own; good for any number of nodes.

    On a node of privilege `helper` it runs the root-owned helper that is installed at MUSTER_HELPER (`healthcheck.collector.helper`).
    Without `nvml`, or where the head has no pynvml, the extra `nvml` is left out and a node that asks for it is told so.
    """
    document = json.dumps({**probes.to_json(), "helper": helper.path()}, separators=(",", ":")).encode()
    return Program(secrets.token_hex(8), LOADER, payload(collector_source(), document), nvml_extra() if nvml else {})


@functools.cache
def collector_source() -> bytes:
    """The collector's text without what only people read: comments, docstrings, annotations of functions."""
    return _kept("collector", COLLECTOR, lambda: _stripped(joined(COLLECTOR)))


@functools.cache
def nvml_extra() -> Mapping[str, bytes]:
    """The NVML reader with what it needs of pynvml, under the name by which a node asks for it; empty where the head has no pynvml."""
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        return {}
    library = Path(spec.origin)
    return {"nvml": _kept("nvml", (_NVML, library), lambda: _packed(library))}


def _packed(library: Path) -> bytes:
    reader = _stripped(_NVML.read_text(encoding="utf-8"))
    return zlib.compress(reader + b"\0" + needed(library.read_text(encoding="utf-8"), reader.decode()).encode(), 9)


def _kept(kind: str, made_of: Iterable[Path], make: Callable[[], bytes]) -> bytes:
    """What `make` gives, kept between commands: taking texts apart costs more than all else that a look at one node costs the head."""
    parts = (*made_of, *(Path(__file__).with_name(f"{name}.py") for name in ("program", "joined", "binding")))
    name = usercache.digest([sys.version.encode(), *(path.read_bytes() for path in parts)])
    data = usercache.kept(kind, name)
    if data is None:
        data = make()
        usercache.keep(kind, name, data)
    return data


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
