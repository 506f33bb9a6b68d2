"""Registers all checks and their facts: importing it loads every module of this package."""

from __future__ import annotations

import importlib
import pkgutil

import healthcheck.checks

MODULES = tuple(f"{healthcheck.checks.__name__}.{module.name}"
                for module in pkgutil.iter_modules(healthcheck.checks.__path__))
for _module in MODULES:
    importlib.import_module(_module)
