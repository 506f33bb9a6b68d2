"""A running `muster exporter`, and looks put into the store that it serves."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.recording import Recording
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store.file import opened
from healthcheck.store.readings import readings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.sweep.assess import Assessment
from inventory.model import Node
from tests.command import running
from tests.testbed.processes import stop
from tests.testbed.sshd import wait_until


def swept(state: Path, *looks: Recording, ago: float = 0.0, nodes: tuple[str, ...] = ()) -> None:
    """Judges these looks by the packaged rules and stores them as a sweep; of `nodes` beside them nothing
    came."""
    rules = load_ruleset([packaged()])
    there = [Node(name, sku="hgx-h100") for name in (*(look.node for look in looks), *nodes)]
    assessment = Assessment(there, rules, None, set())
    for look in looks:
        assessment.add(look, None)
    began = time.time() - ago
    with opened(state, make=True) as store:
        record(store, SweepRecord(began, began + 1, False, "test", rules.digest), assessment.finish().reports,
               {look.node: readings(look) for look in looks})


@dataclass
class Exporting:
    """One that serves: where, and its process; its words so far are in `log`."""

    url: str
    process: subprocess.Popen[str]
    log: Path

    @property
    def address(self) -> str:
        return self.url.partition("//")[2]


@contextlib.contextmanager
def exporting(home: Path, *words: str) -> Iterator[Exporting]:
    """The command as a user starts it, on a port that is free, when it serves; it has ended afterwards."""
    log = home / "exporter.log"
    with log.open("wb") as out:
        process = running("exporter", "--listen", "127.0.0.1:0", *words, home=home, out=out, err=out)
    try:
        def serves() -> bool:
            assert process.poll() is None, log.read_text()
            return "/metrics" in log.read_text()

        wait_until(serves, 60, "that the exporter serves")
        line = next(line for line in log.read_text().splitlines() if "/metrics" in line)
        yield Exporting(line.split()[-1].removesuffix("/metrics"), process, log)
    finally:
        stop(process)
