"""The room in which scenarios play: a folder for trees, and what healthy nodes look like."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from healthcheck.recording import Recording
from tests.scenarios import node
from tests.testbed.require import require_fleet


@dataclass(frozen=True)
class Room:
    """Where trees are written, and looks at the healthy node and its peers."""

    folder: Path
    healthy: Recording
    peers: node.Peers

    def __repr__(self) -> str:
        return "Room()"     # a failure's report need not print eight recordings


@pytest.fixture(scope="session")
def room(tmp_path_factory: pytest.TempPathFactory) -> Room:
    require_fleet()
    folder = tmp_path_factory.mktemp("room")
    peers = node.Peers([node.look(node.machine(peer.name), folder) for peer in node.PEERS])
    return Room(folder, node.look(node.machine(), folder), peers)
