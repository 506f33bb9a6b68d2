"""The rules of healthcheck/help/architecture.md, read off the source: who may import whom, and what facts and
checks must not touch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import LONGEST
from tests.trees import nodes, parsed, statements

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "inventory": {"inventory"},
    "healthcheck": {"inventory", "healthcheck"},
    "provisioning": {"inventory", "healthcheck", "provisioning"},
}
# Facts and checks are pure: no network, process, user interface or clock.
FORBIDDEN_IN_PURE = {
    "socket", "ssl", "paramiko", "subprocess", "os", "sys", "signal", "time", "datetime", "threading",
    "asyncio", "click",
    "rich", "logging", "pathlib", "shutil", "tempfile", "urllib", "http", "random", "pynvml",
    "ctypes", "yaml",
}
PURE = ("healthcheck/model", "healthcheck/facts", "healthcheck/checks", "healthcheck/judge",
        "healthcheck/scrub", "healthcheck/replay",
        "healthcheck/accounting", "healthcheck/ruleset/rule.py", "healthcheck/ruleset/sku.py",
        "healthcheck/sweep/assess.py",
        "healthcheck/sweep/judgednode.py", "healthcheck/sweep/together.py",
        "inventory/text.py")
# What decides over time knows calendars; what time it is, and what any machine says, it is given.
DECIDES = ("healthcheck/gate/decide.py",
           *(f"provisioning/bringup/engine/{name}.py"
             for name in ("advance", "choose", "queues", "scheduler", "stop", "transitions")),
           "provisioning/bringup/steps/identity.py", "provisioning/actions/ownership.py",
           "provisioning/triage/conditions.py")
CALENDARS = {"datetime", "random"}      # seeds are given
CLOCKS = {"now", "today", "utcnow"}
# Burn-in's ends at the machine: what runs on a node, and the connection that both sides share.
AT_THE_MACHINE = {"wire.py", "onnode"}
# Packages that decide, whole. In them files are read and written only where it is said here, and at burn-in's
# ends at the machine; each of these does so, and none says what a node is. Pages are drawn, with rich, by
# those of burn-in.
DECIDING = ("model", "facts", "xid", "baseline", "checks", "ruleset", "judge", "scrub", "kernellog",
            "joblog", "blame",
            "triage", "burnin", "certify")
AT_FILES = {
    "xid/xidtableload.py", "baseline/cataloguecache.py", "baseline/catalogueload.py", "baseline/file.py",
    "baseline/fileload.py", "ruleset/rulenames.py", "ruleset/rulesetcache.py", "ruleset/rulesetload.py",
    "kernellog/emitterload.py", "joblog/messageload.py",
    "triage/policyload.py", "burnin/document.py", "burnin/fields.py", "burnin/floors.py", "burnin/metrics.py",
    "burnin/publishedload.py", "certify/keys.py", "certify/manifest.py", "certify/pair.py",
    "certify/serial.py", "scrub/vocabulary.py",
}
# Modules that read what lies beside them in the package, and nothing of the machine.
LISTS = ("catalogue.py", "vocabulary.py")
FILE_CALLS = {
    "open", "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "rmdir", "rename",
    "touch", "chmod",
    "exists", "is_file", "is_dir", "glob", "rglob", "iterdir", "stat", "resolve", "expanduser", "cwd", "home",
}
PAGES = {"burnin/page.py", "burnin/matrix.py", "burnin/sharespage.py"}
# Modules of a machine, a clock or a screen. Those of files are for whoever keeps files; signals have names,
# too.
MACHINE = {
    "socket", "ssl", "paramiko", "subprocess", "signal", "time", "threading", "asyncio",
    "selectors", "sqlite3",
    "multiprocessing", "click", "rich", "logging", "tempfile", "urllib", "http", "pynvml", "ctypes",
    "yaml", "pwd",
    "getpass", "os", "shutil", "fcntl", "sys",
}
OF_FILES = {"os", "shutil", "fcntl"}
SIGNAL_NAMES = {"blame/jobevidence.py", "burnin/watch.py", "joblog/kinds.py", "joblog/slurm.py"}
# Lines of a baseline that no node has said for so many days are not known any more: the loader asks what day
# it is.
ASKS_THE_DAY = {"ruleset/rulesetload.py"}
# Loading a package's compiled or heavy dependencies costs a command its start; these may only be imported
# inside functions.
LATE = {"paramiko", "rich", "ClusterShell", "yaml", "pynvml"}


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@cache
def imports(path: Path) -> tuple[tuple[str, bool], ...]:
    """Every module imported, and whether at the top level of the file."""
    module = parsed(path)
    top = {id(node) for node in module.body}
    found = []
    for node in statements(module):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.append((node.module or "", id(node) in top))
    return tuple(found)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_downward_only(package: str) -> None:
    for path in sources(package):
        for name, _ in imports(path):
            top = name.partition(".")[0]
            if top in {*MAY_IMPORT, "tests"}:
                assert top in MAY_IMPORT[package], f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("part", PURE)
def test_what_decides_touches_no_machine(part: str) -> None:
    at = ROOT / part
    paths = sorted(at.rglob("*.py")) if at.is_dir() else [at]
    assert paths
    for path in paths:
        for name, _ in imports(path):
            assert name.partition(".")[0] not in FORBIDDEN_IN_PURE or path.name in LISTS, f"{path}: {name}"


@pytest.mark.parametrize("part", DECIDES)
def test_what_decides_over_time_is_told_what_time_it_is(part: str) -> None:
    at = ROOT / part
    paths = [path for path in (sorted(at.rglob("*.py")) if at.is_dir() else [at])
             if AT_THE_MACHINE.isdisjoint(path.parts)]
    assert paths
    for path in paths:
        for name, _ in imports(path):
            assert name.partition(".")[0] not in FORBIDDEN_IN_PURE - CALENDARS, f"{path}: {name}"
        asked = {node.func.attr for node in nodes(path)
                 if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
        assert not asked & CLOCKS, path


@cache
def calls(path: Path) -> set[str]:
    """The names of what is called."""
    called = (node.func for node in nodes(path) if isinstance(node, ast.Call))
    return {func.attr if isinstance(func, ast.Attribute) else func.id
            for func in called if isinstance(func, (ast.Attribute, ast.Name))}


def deciding() -> Iterator[tuple[str, Path]]:
    """Every module of what decides, by its place below healthcheck."""
    for package in DECIDING:
        for path in sources(f"healthcheck/{package}"):
            if AT_THE_MACHINE.isdisjoint(path.parts):
                yield str(path.relative_to(ROOT / "healthcheck")), path


def test_no_module_of_what_decides_is_at_a_machine() -> None:
    for name, path in deciding():
        found = {module.partition(".")[0] for module, _ in imports(path)} & MACHINE
        allowed = (OF_FILES if name in AT_FILES else set()) | ({"rich"} if name in PAGES else set())
        allowed |= {"signal"} if name in SIGNAL_NAMES else {"sys"} if name == "checks/catalogue.py" else set()
        assert found <= allowed, f"{name}: {found - allowed}"


def test_files_are_read_only_where_it_is_said() -> None:
    assert {name for name, path in deciding() if calls(path) & FILE_CALLS} == AT_FILES


def test_only_whoever_loads_baselines_asks_what_day_it_is() -> None:
    assert {name for name, path in deciding() if calls(path) & CLOCKS} == ASKS_THE_DAY


def test_the_root_command_and_the_packages_start_lean() -> None:
    lean = ["healthcheck/cli/main.py", *(f"{package}/__init__.py" for package in MAY_IMPORT)]
    for name in lean:
        loaded = {module for module, top in imports(ROOT / name) if top}
        assert not {m.partition(".")[0] for m in loaded} & LATE, name
        assert not {m for m in loaded if m.startswith("healthcheck.")}, name


def test_every_module_opens_with_a_docstring() -> None:
    for package in MAY_IMPORT:
        for path in sources(package):
            assert ast.get_docstring(parsed(path)), path


def test_a_fact_module_and_its_checks_share_a_stem() -> None:
    ours = {path.stem for path in (ROOT / "healthcheck/checks").glob("*.py")} - {"__init__", "base",
                                                                                 "catalogue", "growth"}
    checks = {stem for stem in ours if not stem.startswith("fleet")}
    facts = {path.stem for path in (ROOT / "healthcheck/facts").glob("*.py")}
    # Many checks of one fact are parted by subject: gpu_power and gpu_pcie judge what gpu holds.
    assert not [stem for stem in checks if stem not in facts and stem.partition("_")[0] not in facts]


def test_the_top_level_holds_what_the_design_says_and_nothing_else() -> None:
    allowed = {"inventory", "healthcheck", "provisioning", "rules", "scripts", "tests", "pyproject.toml",
               "README.md", "LICENSE",
               "CHANGELOG.md"}
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")
             and path.name not in ("build", "dist")}
    assert found == allowed


def test_the_collector_is_python_3_8() -> None:
    paths = sorted((ROOT / "healthcheck/collector/onnode").rglob("*.py"))
    assert len(paths) > 2
    for path in paths:
        ast.parse(path.read_text(), feature_version=(3, 8))


def test_files_of_tests_that_are_begun_early_are_there() -> None:
    assert not [name for name in LONGEST if not (ROOT / name).is_file()]


@pytest.mark.parametrize("part", ["healthcheck/facts", "healthcheck/subnet"])
def test_no_pattern_takes_the_digits_of_another_script_for_a_number(part: str) -> None:
    """What a node or a switch prints has ASCII digits: `\\d` would read others, and `int` would count
    them."""
    found = [f"{path.relative_to(ROOT)}:{node.lineno}" for path in sorted((ROOT / part).rglob("*.py"))
             for node in nodes(path)
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
             and ast.unparse(node.func.value) == "re"
             and r"\\d" in (text := ast.unparse(node)) and "re.ASCII" not in text]
    assert found == [], "write [0-9]"
