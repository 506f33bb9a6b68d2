"""Stores as an earlier muster made them."""

from __future__ import annotations

import pytest

from healthcheck.store import file
from healthcheck.store.migrations import MIGRATIONS


def use_version(patch: pytest.MonkeyPatch, version: int) -> None:
    """As long as the patch lasts, this is a muster whose newest schema is this version."""
    patch.setattr(file, "MIGRATIONS", MIGRATIONS[:version])
    patch.setattr(file, "SCHEMA", tuple(statement for step in MIGRATIONS[:version] for statement in step))
