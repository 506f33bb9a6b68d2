"""What is sent to a node: small, valid where it has to be, and the same through every login shell."""

from __future__ import annotations

import ast
import json
import shlex
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from healthcheck.collector import helper, loader, program
from healthcheck.collector.joined import COLLECTOR, joined
from healthcheck.collector.onnode import nvml
from healthcheck.model.probes import Probe, ProbeKind, ProbeSet

SOURCES = {"collector": joined(COLLECTOR), "nvml": Path(nvml.__file__).read_text()}
PROBES = ProbeSet((Probe("a.b", ProbeKind.FILES, paths=("/etc/hostname",)),))


def parts(payload: bytes) -> tuple[str, dict[str, object]]:
    length, _, body = payload.partition(b"\n")
    assert int(length) == len(body)
    source, _, probes = zlib.decompress(body).partition(b"\0")
    return source.decode(), json.loads(probes)


def sent(name: str) -> str:
    """The text as it goes to the node."""
    if name == "collector":
        return parts(program.build(PROBES).payload)[0]
    return zlib.decompress(program.build(PROBES).extras["nvml"]).partition(b"\0")[0].decode()


@pytest.mark.parametrize("name", SOURCES)
def test_what_runs_on_a_node_is_valid_for_python_3_8(name: str) -> None:
    ast.parse(SOURCES[name], feature_version=(3, 8))
    ast.parse(sent(name), feature_version=(3, 8))


@pytest.mark.parametrize("name", SOURCES)
def test_what_runs_on_a_node_has_no_formatted_string_literal(name: str) -> None:
    """Python 3.12 and later write one back with quotes that no earlier version can read."""
    assert not [node for node in ast.walk(ast.parse(SOURCES[name])) if isinstance(node, ast.JoinedStr)]


@pytest.mark.parametrize("name", SOURCES)
def test_what_runs_on_a_node_loads_the_standard_library_alone_and_not_typing(name: str) -> None:
    tree = ast.parse(sent(name))
    # what is only there for the type checker
    tree.body = [node for node in tree.body if not isinstance(node, ast.If)]
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names | {"__future__"}
    assert not imported & {"typing", "subprocess", "threading", "logging", "socket", "asyncio", "argparse",
                           "pathlib"}


@pytest.mark.parametrize("name", SOURCES)
def test_what_only_people_read_stays_at_home(name: str) -> None:
    def is_docstring(node: ast.stmt) -> bool:
        return (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str))

    def plain(node: Any) -> Any:
        annotated = isinstance(node, ast.AnnAssign) and node.value is not None
        return ast.Assign([node.target], node.value) if annotated else node

    def without_words(text: str) -> str:
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                node.body[:] = [part for part in node.body if not is_docstring(part)] or [ast.Pass()]
            if isinstance(node, ast.FunctionDef):
                node.returns = None
            if isinstance(node, ast.arg):
                node.annotation = None
            for name, value in ast.iter_fields(node):
                if isinstance(value, list):
                    setattr(node, name, [plain(part) for part in value])
        return ast.dump(tree)

    text = SOURCES[name]
    assert without_words(sent(name)) == without_words(text)
    assert not any(ast.get_docstring(node) for node in ast.walk(ast.parse(sent(name)))
                   if isinstance(node, (ast.Module, ast.FunctionDef)))
    assert len(sent(name)) < len(text)
    assert not any(isinstance(node, ast.AnnAssign) for node in ast.walk(ast.parse(sent(name))))


def test_the_payload_holds_the_probe_set() -> None:
    assert parts(program.build(PROBES).payload)[1] == json.loads(
        json.dumps({**PROBES.to_json(), "helper": helper.PATH}))


def test_the_payload_is_small() -> None:
    assert len(program.build(PROBES).payload) < 21_000


def test_every_program_has_a_nonce_of_its_own() -> None:
    nonces = {program.build(PROBES).nonce for _ in range(50)}
    assert len(nonces) == 50
    assert all(len(nonce) == 16 and int(nonce, 16) >= 0 for nonce in nonces)


def test_the_nvml_reader_travels_only_when_asked_for() -> None:
    assert program.build(PROBES, nvml=False).extras == {}
    extra = program.build(PROBES).extras["nvml"]
    reader, _, binding = zlib.decompress(extra).partition(b"\0")
    compile(reader, "reader", "exec")
    assert b"def nvmlDeviceGetHandleByIndex" in binding
    assert len(extra) < 16 * 1024


def test_the_loader_is_one_line_that_no_shell_takes_for_its_own() -> None:
    assert loader.LOADER.isascii() and loader.LOADER.isprintable()
    assert not set("'!\\`$") & set(loader.LOADER)


def interpreters() -> list[str]:
    """Every Python that the system has, old ones included."""
    names = ("python2.7", *(f"python3.{minor}" for minor in range(5, 15)))
    return [path for name in names if (path := shutil.which(name, path="/usr/local/bin:/usr/bin"))]


@pytest.mark.parametrize("python", interpreters())
def test_every_python_says_its_version_first_and_an_old_one_ends_there(python: str) -> None:
    version = subprocess.run([python, "-c", "import sys;print('%d.%d' % sys.version_info[:2])"],
                             capture_output=True, check=True, text=True)
    major, minor = (int(word) for word in version.stdout.split("."))
    built = program.build(PROBES)
    run = subprocess.run([python, "-c", built.loader, built.nonce], input=built.payload, capture_output=True,
                         check=False, timeout=20)
    first, *_ = run.stdout.splitlines()
    assert first == f"muster:{built.nonce}:python {major}.{minor}".encode()
    if (major, minor) < (3, 8):
        assert run.stderr == b""
        assert len(run.stdout.splitlines()) == 1


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "fish"])
def test_the_command_line_is_the_same_in_every_login_shell(shell: str, tmp_path: Path) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell} here")
    show = tmp_path / "show"
    show.write_text('#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done\n')
    show.chmod(0o755)
    words = [str(show), "-I", "-S", "-c", loader.LOADER, "0123456789abcdef"]
    run = subprocess.run([path, "-c", f"exec {shlex.join(words)}"], capture_output=True, check=True,
                         text=True, env={"HOME": str(tmp_path)})
    assert run.stdout.splitlines() == words[1:]
