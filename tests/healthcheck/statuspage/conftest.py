from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from healthcheck.statuspage.gather import document
from healthcheck.store.file import opened
from inventory.load import load_inventory
from tests.healthcheck.statuspage.made import NOW, World
from tests.testbed.chromium import Chromium, chromium


@pytest.fixture(scope="module")
def made(fleet: World) -> dict[str, Any]:
    with opened(fleet.state) as store:
        return document(store, load_inventory(fleet.inventory), fleet.state, NOW)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as found:
        yield found
