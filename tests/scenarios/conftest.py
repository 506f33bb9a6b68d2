"""The room in which scenarios play: a folder for trees, and what healthy nodes look like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from healthcheck.model.recording import Recording
from tests.scenarios import node
from tests.testbed.memory import in_memory
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
def room() -> Iterator[Room]:
    require_fleet()
    with in_memory(512) as name:
        folder = Path(name)
        peers = node.Peers([node.look(node.machine(peer.name), folder) for peer in node.PEERS])
        yield Room(folder, node.look(node.machine(), folder), peers)
