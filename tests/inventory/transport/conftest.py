"""A real sshd to go through to others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.testbed.sshd import Sshd, sshd


@pytest.fixture(scope="module")
def bastion(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("bastion")) as server:
        yield server
