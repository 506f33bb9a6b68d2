"""The modules that run on a node as one text: nothing is missing in it, and no name stands for two things."""

from __future__ import annotations

import ast
import builtins
import dis
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from healthcheck.collector import helper, program
from healthcheck.collector import onnode as collector
from healthcheck.collector.joined import COLLECTOR, HELPER, is_type_checking_block, joined
from healthcheck.sweep.rootprobes import root_probes

# What the loader, or the interpreter of a file, sets.
GIVEN = {"__name__", "__file__", "__annotations__", "__qualname__", "__module__"}


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def undefined(text: str) -> set[str]:
    """Names that the text uses when it runs, and that neither it nor Python defines."""
    def named(code: CodeType, *operations: str) -> set[str]:
        return {str(step.argval) for step in dis.get_instructions(code) if step.opname.startswith(operations)}

    whole = compile(text, "joined", "exec", dont_inherit=True)
    known = named(whole, "STORE_NAME") | set(dir(builtins)) | GIVEN
    return {name for code in codes(whole) for name in named(code, "LOAD_GLOBAL", "LOAD_NAME")
            - named(code, "STORE_NAME")} - known


def defined(path: Path) -> set[str]:
    """The names that a module gives to its top level, and those of the modules that it imports left out."""
    whole = ast.parse(path.read_text())
    found = set()
    for node in whole.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.add(node.name)
        elif not isinstance(node, (ast.Import, ast.ImportFrom)) and not is_type_checking_block(node):
            found |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)
                      and isinstance(part.ctx, ast.Store)}
    return found


def test_a_name_that_nothing_defines_is_found() -> None:
    assert undefined(
        "import os\nclass A:\n x = 1\n y = x\n def f(self):\n  return os, A, len, nowhere\n") == {"nowhere"}
    assert undefined("class A(Gone):\n pass\n") == {"Gone"}


def test_what_is_sent_defines_all_that_it_uses() -> None:
    assert not undefined(program.collector_source().decode())


def test_the_helper_defines_all_that_it_uses() -> None:
    assert not undefined(helper.program(root_probes()))


def test_every_module_of_the_collector_is_sent_once() -> None:
    # the root-owned helper is installed, and the NVML reader sent where a node asks for it
    apart = {"helper.py", "nvml.py"}
    assert sorted(COLLECTOR) == sorted(path for path in Path(collector.__file__).parent.glob("*.py")
                                       if path.name not in apart)


def test_no_name_belongs_to_two_modules_nor_to_one_of_the_standard_library() -> None:
    names = Counter(name for path in HELPER for name in defined(path))
    assert "CollectorRun" in names and "serve" in names
    assert [name for name, times in names.items() if times > 1] == []
    imported = {alias.name for node in ast.parse(joined(HELPER)).body if isinstance(node, ast.Import)
                for alias in node.names}
    assert "os" in imported and not imported & set(names)


def test_imports_are_such_as_can_be_left_out_or_made_once() -> None:
    for path in HELPER:
        whole = ast.parse(path.read_text())
        top = {id(node) for node in whole.body} | {id(part) for node in whole.body
                                                   if is_type_checking_block(node) for part in ast.walk(node)}
        for node in ast.walk(whole):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                assert not any(alias.asname or alias.name == "*"
                               for alias in node.names), f"{path}: a renamed import"
            if isinstance(node, ast.ImportFrom):
                ours = (node.module or "").startswith("healthcheck.collector.onnode.")
                assert ours or node.module in ("typing", "__future__"), f"{path}: from {node.module}"
                assert id(node) in top, f"{path}: {node.module} is imported within a function"


def test_each_module_needs_only_those_before_it() -> None:
    for at, path in enumerate(HELPER):
        before = {f"healthcheck.collector.onnode.{earlier.stem}" for earlier in HELPER[:at]}
        subset = {node.module for node in ast.parse(path.read_text()).body
                  if isinstance(node, ast.ImportFrom)} - {"typing", "__future__"}
        assert subset <= before, path


@pytest.mark.parametrize("paths", [COLLECTOR, HELPER], ids=["collector", "helper"])
def test_a_module_of_the_standard_library_is_imported_once_and_none_of_ours(paths: tuple[Path, ...]) -> None:
    nodes = [node for node in ast.parse(joined(paths)).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = [alias.name for node in nodes for alias in node.names]
    assert (names[0] == "annotations" and len(names) == len(set(names))
            and not any(name.startswith("healthcheck") for name in names))
    assert "TYPE_CHECKING" not in joined(paths)
