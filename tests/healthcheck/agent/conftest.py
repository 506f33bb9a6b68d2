import pytest

from provisioning.agent.bundle import Bundle
from tests.healthcheck.agent import world
from tests.testbed.require import require_fleet


@pytest.fixture(scope="module")
def made() -> Bundle:
    require_fleet()
    return world.bundle()
