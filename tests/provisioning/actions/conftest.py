"""A store for each test, whose marks name none, as those of older versions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.store.file import Store, opened
from tests.testbed.marks import nameless


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "state", make=True) as made:
        yield nameless(made)
