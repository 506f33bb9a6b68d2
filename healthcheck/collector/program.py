"""Builds the program for the nodes: a one-line loader, the collector and its probe set, the NVML reader."""

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
from healthcheck.collector.joined import COLLECTOR, joined
from healthcheck.collector.librarysubset import subset
from healthcheck.collector.loader import LOADER, payload
from healthcheck.config import usercache
from healthcheck.model.probes import Effect, ProbeSet
from inventory.transport.base import Program

_NVML = Path(__file__).with_name("onnode") / "nvml.py"


def build(probes: ProbeSet, *, nvml: bool = True) -> Program:
    """The program that captures these probes, under a nonce of its own, for any number of nodes.

    On a node of privilege `helper` it runs the root-owned helper at MUSTER_HELPER
    (`healthcheck.collector.helper`). Without `nvml`, or if the head has no pynvml, nodes get no NVML reader,
    and their capture says so.
    """
    document = json.dumps({**probes.to_json(), "helper": helper.path()}, separators=(",", ":")).encode()
    return Program(secrets.token_hex(8), LOADER, payload(collector_source(), document),
                   nvml_extra() if nvml else {},
                   repeatable=all(probe.effect is Effect.PASSIVE for probe in probes.probes))


@functools.cache
def collector_source() -> bytes:
    """The collector's text without comments, docstrings and annotations of functions."""
    return _cached("collector", COLLECTOR, lambda: _stripped(joined(COLLECTOR)))


@functools.cache
def nvml_extra() -> Mapping[str, bytes]:
    """The NVML reader with its subset of pynvml, by request name; empty if the head has no pynvml."""
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        return {}
    library = Path(spec.origin)
    return {"nvml": _cached("nvml", (_NVML, library), lambda: _packed(library))}


def _packed(library: Path) -> bytes:
    reader = _stripped(_NVML.read_text(encoding="utf-8"))
    return zlib.compress(reader + b"\0" + subset(library.read_text(encoding="utf-8"),
                                                 reader.decode()).encode(), 9)


def _cached(kind: str, made_of: Iterable[Path], make: Callable[[], bytes]) -> bytes:
    """What `make` gives, cached between commands: it costs the head more than all other work for one node."""
    parts = (*made_of,
             *(Path(__file__).with_name(f"{name}.py") for name in ("program", "joined", "librarysubset")))
    name = usercache.digest([sys.version.encode(), *(path.read_bytes() for path in parts)])
    data = usercache.load(kind, name)
    if data is None:
        data = make()
        usercache.save(kind, name, data)
    return data


def _stripped(text: str) -> bytes:
    return ast.unparse(_Stripper().visit(ast.parse(text))).encode()


class _Stripper(ast.NodeTransformer):
    """Removes docstrings (each joined module has one) and annotations."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            node.body[:] = [part for part in node.body if not _is_docstring(part)] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        return super().generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], self.visit(node.value)), node)


def _is_docstring(node: ast.stmt) -> bool:
    return (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str))
