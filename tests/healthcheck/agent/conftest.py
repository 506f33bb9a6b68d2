import socket

import pytest

from inventory.model import Node
from provisioning.agent.bundle import Bundle
from tests.healthcheck.agent import world
from tests.testbed.require import require_fleet


@pytest.fixture(scope="module")
def made() -> Bundle:
    require_fleet()
    return world.bundle()


@pytest.fixture(scope="session")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> world.World:
    """A node where one run has been, which stays as that left it."""
    require_fleet()
    node = world.world(tmp_path_factory.mktemp("earlier"), world.bundle(),
                       Node(socket.gethostname().partition(".")[0], sku="hgx-h100"))
    assert node.run().returncode in (0, 1, 3)
    return node
