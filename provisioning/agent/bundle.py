"""Builds what is installed on a node: code as one zip file, rules and settings as JSON. Equal inputs give
equal bytes: members in order, of one date, not compressed (whoever sends it compresses; and a zlib differs
from the next). Nothing in it is compiled: good for any machine and Python from 3.8; from 3.10 it judges."""

from __future__ import annotations

import ast
import functools
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import healthcheck
from healthcheck.agent.compiled import compile_node, compile_rules
from healthcheck.agent.main import COLLECTOR, NVML
from healthcheck.checks import catalogue
from healthcheck.collector import program
from healthcheck.collector.joined import parsed
from healthcheck.ruleset.ruleset import Ruleset
from inventory.model import Node
from inventory.release import VERSION
from provisioning.agent.layout import CODE, DIGITS, NODE, PERIOD_S, RULES, digest

# What is loaded by need: the first and those of the gate by every Python, the others by one that judges.
_ROOTS = ("healthcheck.agent.main", "healthcheck.agent.judging", "healthcheck.agent.exporting",
          "healthcheck.gate.fetch", "healthcheck.gate.asked", "healthcheck.gate.onnode", *catalogue.MODULES)
_OURS = ("healthcheck", "inventory")
_DATE = (1980, 1, 1, 0, 0, 0)
_MAIN = """import sys

if sys.version_info < (3, 8):
    sys.exit("muster: needs Python 3.8 or newer; this is %d.%d" % sys.version_info[:2])
if __name__ == "__main__":
    from os.path import realpath
    from pathlib import Path
    from zipimport import zipimporter

    # Where `current` leads to may be switched while this runs.
    sys.path[0] = realpath(sys.path[0])

    from healthcheck.agent.main import beside, main

    sys.exit(main(sys.argv[1:], beside(Path(sys.path[0]), zipimporter(sys.path[0]).get_data)))
"""


@dataclass(frozen=True)
class NodeBundle:
    """A node's three files by name, and the digest in its folder's name (`layout.DIGITS` of it)."""

    files: Mapping[str, bytes]
    digest: str

    @property
    def folder(self) -> str:
        """The folder's name."""
        return self.digest[:DIGITS]


@dataclass(frozen=True)
class Bundle:
    """What is the same on all nodes. `version` is muster's own."""

    code: bytes
    rules: bytes
    version: str

    def of(
        self, node: Node, *, default_sku: str | None = None, period: float = PERIOD_S,
        occasion: str = "timer", textfile: str | None = None, exporter: str | None = None,
    ) -> NodeBundle:
        """What this node is given; `occasion` is a profile's name or empty. The last two help upgrades."""
        message = {
            **compile_node(node, default_sku, period, occasion, self.version), "textfile": textfile,
            "exporter": exporter}
        files = {CODE: self.code, RULES: self.rules, NODE: _json(message)}
        return NodeBundle(files, digest(files))


def build(ruleset: Ruleset) -> Bundle:
    """The bundle for these rules."""
    return Bundle(code(), _json(compile_rules(ruleset)), VERSION)


@functools.cache
def code() -> bytes:
    """The zip file that Python runs."""
    members = {
        f"{name.replace('.', '/')}{'/__init__' if path.name == '__init__.py' else ''}.py": path.read_bytes()
            for name, path in modules(_ROOTS).items()}
    members |= {
        "__main__.py": _MAIN.encode(), COLLECTOR: program.collector_source(),
        NVML: program.nvml_extra().get("nvml", b"")}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in sorted(members):
            archive.writestr(zipfile.ZipInfo(name, _DATE), members[name])
    return made.getvalue()


def modules(roots: Iterable[str]) -> dict[str, Path]:
    """These modules of ours and all that loading them loads, by name."""
    found: dict[str, Path] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found or (path := _place(name)) is None:
            continue
        found[name] = path
        waiting += [name.rpartition(".")[0], *_loads(path)]
    return found


def _place(name: str) -> Path | None:
    """The file of a module of ours; None for a name that is none."""
    if name.partition(".")[0] not in _OURS:
        return None
    base = Path(healthcheck.__file__).parent.parent / name.replace(".", "/")
    return next(
        (path for path in (base / "__init__.py", base.with_name(f"{base.name}.py")) if path.is_file()), None)


def _loads(path: Path) -> Iterator[str]:
    for node in parsed(path.read_bytes()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode() + b"\n"
