"""Recorded fleets, each unpacked once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus.archives import Unpacked, unpack


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Unpacked:
    """The folder of a recorded fleet."""
    base = tmp_path_factory.mktemp("fleets")

    def get(name: str) -> Path:
        if not (base / name).exists():
            unpack(name, base / name)
        return base / name
    return get
