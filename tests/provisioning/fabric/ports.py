"""What the tests of disabled ports share: a store with its ledger, and whoever is killed while the record is
written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from healthcheck.store import ledger, portdisables
from healthcheck.store.file import opened
from healthcheck.store.portdisables import DisabledPort, open_ports
from healthcheck.triage.policy import PortPolicy
from tests.testbed.death import Death

HALF = PortPolicy(number=2, percent=100, hours=24, uplinks=1, uplinks_percent=50)


class KeptPorts:
    """A store in a folder, and a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 1_800_000_000.0

    def rows(self) -> tuple[DisabledPort, ...]:
        with opened(self.folder, make=True) as store:
            return open_ports(store)

    def ledger(self) -> list[tuple[str, str | None]]:
        with opened(self.folder, make=True) as store:
            return [(one.action, one.outcome) for one in ledger.lines(store)]


@contextmanager
def killed_at(step: str) -> Iterator[None]:
    """Ends who writes this step of the record: at "begin" when it is written, else before."""
    real = getattr(portdisables, step)

    def killed(*given: object) -> object:
        if step == "begin":
            real(*given)
        raise Death

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Death):
        patch.setattr(portdisables, step, killed)
        yield
