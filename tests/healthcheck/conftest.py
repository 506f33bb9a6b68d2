"""An open store for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.store.file import Store, opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path, make=True) as made:
        yield made
