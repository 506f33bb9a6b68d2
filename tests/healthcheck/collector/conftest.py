"""What tests of the collector share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A node's root, with a folder for what its children are remembered in."""
    (tmp_path / "run").mkdir()
    return tmp_path
