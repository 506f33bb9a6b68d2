"""The room in which scenarios play: a folder for trees, and what healthy nodes look like."""

from __future__ import annotations

import fcntl
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
def room(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """Healthy nodes are looked at by the worker that comes first, and the others read what it saw."""
    require_fleet()
    base = tmp_path_factory.getbasetemp()
    # each worker has a folder in that of all
    kept = (base.parent if request.config.option.workers else base) / "looks"
    kept.mkdir(exist_ok=True)
    with in_memory(512) as name:
        folder = Path(name)
        with open(kept / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            healthy, *peers = (node.look(node.machine(one.name), folder, kept)
                               for one in (node.NODE, *node.PEERS))
        yield Room(folder, healthy, node.Peers(peers))
