from __future__ import annotations

from pathlib import Path

import pytest

from tests.healthcheck.certify.world import Head, Place, head, place


@pytest.fixture
def made(tmp_path: Path) -> Head:
    return head(tmp_path / "head")


@pytest.fixture
def node(tmp_path: Path, made: Head) -> Place:
    return place(tmp_path / "node", made)
