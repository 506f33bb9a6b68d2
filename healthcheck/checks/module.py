"""Checks of which kernel modules are loaded."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.module import Modules
from healthcheck.model.outcome import Finding


@check("module.forbidden")
def module_forbidden(modules: Modules, *, names: tuple[str, ...]) -> Iterator[Finding]:
    """None of these kernel modules is loaded."""
    for name in names:
        if name in modules.loaded:
            yield Finding("loaded", "not loaded", name)


@check("module.expected", counts=True)
def module_expected(modules: Modules, *, names: tuple[str, ...]) -> Iterator[Finding]:
    """Each of these kernel modules is loaded. Do not name what is built into the kernel, which is no
    module."""
    for name in names:
        if name.replace("-", "_") not in modules.loaded:
            yield Finding("not loaded", "loaded", name)
