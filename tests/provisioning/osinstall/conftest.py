"""A site with a stand-in for MAAS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provisioning.osinstall.maassite import Site
from tests.testbed.maas import Maas, serving


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with serving(Maas(), tmp_path) as bed:
        yield Site(bed, tmp_path)
