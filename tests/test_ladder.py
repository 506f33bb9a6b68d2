"""The ladder of packages of healthcheck/help/architecture.md, and what keeps a reader's map simple."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.trees import parsed, statements

ROOT = Path(__file__).resolve().parent.parent
# A module imports from lower rungs or from its own package, wherever in the file the import stands. By the
# package that has the ladder.
LADDERS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "healthcheck": (
        ("model",),
        ("config",),
        ("joblog",),                # reads entries of YAML, which is config's
        ("collector", "kernellog"),
        ("facts",),
        ("xid", "baseline", "subnet"),
        ("checks", "store"),
        ("ruleset",),
        ("judge", "scrub", "blame"),
        ("burnin", "triage", "sweep"),
        ("certify", "accounting", "replay", "watch", "change"),
        ("gate", "explain", "exporter", "report"),
        ("statuspage",),
        ("agent",),
        ("cli",),
    ),
    "provisioning": (
        ("actions",),
        ("lease",),
        ("agent", "bmc", "burnin", "triage"),
        ("base", "console", "discover", "remediate", "rename"),
        ("osinstall", "soak"),      # they ask a machine as base does
        ("bringup",),
        ("gate", "demo", "fabric", "firmware", "images"),
        ("cli",),
    ),
    "provisioning.bringup": (
        ("engine",),
        ("policy", "pages"),
        ("steps",),
    ),
}


@cache
def trees(package: str) -> Mapping[str, ast.Module]:
    """Every module below a package by its dotted name; a package by its own."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = parsed(path)
    return found


def within(package: str) -> list[tuple[str, ast.Module]]:
    """The modules of one package of healthcheck."""
    return [(module, tree)
            for module, tree in trees("healthcheck").items() if module.startswith(f"{package}.")]


def imported(tree: ast.Module, modules: Mapping[str, ast.Module]) -> Iterator[str]:
    """The modules that a module imports: inside functions and under TYPE_CHECKING, too."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in modules else node.module for name in inner)


def home(module: str, root: str) -> str:
    """The package below this root that a module is in; "" for the root itself and for what is not below
    it."""
    return module.removeprefix(f"{root}.").partition(".")[0] if module.startswith(f"{root}.") else ""


@pytest.mark.parametrize("root", LADDERS)
def test_every_package_has_its_rung_and_no_module_lies_at_the_root(root: str) -> None:
    top, folder = root.partition(".")[0], ROOT / root.replace(".", "/")
    assert {home(module, root) for module in trees(top)} - {""} <= {package for rung in LADDERS[root]
                                                                    for package in rung}
    assert [path.name for path in folder.glob("*.py")] == ["__init__.py"]


@pytest.mark.parametrize("root", LADDERS)
def test_a_module_imports_only_from_lower_rungs_or_its_own_package(root: str) -> None:
    modules = trees(root.partition(".")[0])
    rung = {package: number for number, packages in enumerate(LADDERS[root]) for package in packages}
    upward = {
        f"{module} -> {name}" for module, tree in modules.items() for name in imported(tree, modules)
        if (own := home(module, root)) and (other := home(name, root)) and own != other
        and rung[other] >= rung[own]
    }
    assert upward == set()


def test_nothing_but_a_command_imports_commands() -> None:
    found = {
        f"{module} -> {name}" for module, tree in trees("provisioning").items()
        for name in imported(tree, trees("provisioning"))
        if name.startswith("healthcheck.cli") and home(module, "provisioning") != "cli"
    }
    assert found == set()


def test_a_public_class_name_stands_for_one_thing() -> None:
    places = defaultdict(set)
    for package in ("inventory", "healthcheck", "provisioning"):
        for module, tree in trees(package).items():
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].add(module)
    assert {name: sorted(at) for name, at in places.items() if len(at) > 1} == {}


def test_who_looks_up_a_fact_or_a_check_by_its_name_has_all_of_them_registered() -> None:
    registries = {"healthcheck.facts.base": {"FACTS"}, "healthcheck.checks.base": {"CHECKS", "SELECTIONS"}}
    registering = {"healthcheck.checks.catalogue", "healthcheck.ruleset.plugins"}
    # Below the checks; it imports the one fact that it looks up.
    allowed = {"healthcheck.baseline.gather"}
    without = {
        module for package in ("healthcheck", "provisioning") for module, tree in trees(package).items()
        if home(module, "healthcheck") not in ("facts", "checks")
        and registering.isdisjoint(imported(tree, trees("healthcheck")))
        and any(registries.get(node.module or "", set()) & {alias.name for alias in node.names}
                for node in statements(tree) if isinstance(node, ast.ImportFrom))
    }
    assert without == allowed


def test_no_check_catches_what_a_fact_refuses() -> None:
    found = {module for module, tree in within("healthcheck.checks")
             if any(isinstance(node, ast.Try) for node in ast.walk(tree))}
    assert found == set()


def test_no_fact_field_has_a_default() -> None:
    found = {
        f"{module}.{cls.name}.{field.target.id}" for module, tree in within("healthcheck.facts")
        for cls in tree.body
        if isinstance(cls, ast.ClassDef) and _is_fact(cls) for field in cls.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value is not None
        and "ClassVar" not in ast.dump(field.annotation)
    }
    assert found == set()


def _is_fact(cls: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "Fact" for base in cls.bases)
