"""A job that failed, with a store of sweeps, Slurm's record of it and what it printed;
made up piece by piece by a test."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from healthcheck.model.outcome import (
    Finding,
    NodeReport,
    NodeState,
    Origin,
    Owner,
    Result,
    Severity,
    Status,
    state_of,
)
from healthcheck.store import ledger
from healthcheck.store.file import opened
from healthcheck.store.readings import CounterReading, NodeReadings
from healthcheck.store.sweeps import SweepRecord, record
from tests.command import muster

START = float(int(time.time()) - 6 * 3600)
END = START + 3600
NODES = tuple(f"gpu{number:03}" for number in range(1, 9))
FINE = Result("gpu-count", "gpu.count", Status.PASS, Severity.CRITICAL)


def wrong(
    rule: str, subject: str, observed: object = 1, severity: Severity = Severity.CRITICAL,
    owner: Owner = Owner.OPERATOR, remedy: str = "",
) -> Result:
    return Result(rule, rule, Status.FAIL, severity, (Finding(observed, "none", subject),), "", None,
                  remedy, owner)


def blind(rule: str, reason: str) -> Result:
    return Result(rule, rule, Status.UNKNOWN, Severity.CRITICAL, (), reason, Origin.NODE)


def stamp(moment: float, form: str = "%Y-%m-%dT%H:%M:%S") -> str:
    """A moment as local programs write it."""
    return time.strftime(form, time.localtime(moment))


@dataclass
class Bed:
    """`home` holds the state, the files and a `sacct` that prints `sacct.txt`."""

    home: Path
    logs: list[str] = field(default_factory=list)

    def sweep(
        self, moment: float, results: Mapping[str, tuple[Result, ...]] = {}, *,
        unreached: tuple[str, ...] = (), boots: Mapping[str, str] = {},
        counters: Mapping[str, tuple[CounterReading, ...]] = {}, nodes: tuple[str, ...] = NODES,
    ) -> None:
        """A sweep of the job's nodes, all of them fine but for these."""
        reports = [NodeReport(node, NodeState.UNKNOWN, "connect: timed out", (), True, "connect")
                   if node in unreached
                   else NodeReport(node, state_of(said := (FINE, *results.get(node, ()))), "", said)
                   for node in nodes]
        readings = {node: NodeReadings((), counters.get(node, ()), frozenset(), boots.get(node, "boot-1"))
                    for node in nodes if node not in unreached}
        with self.store() as store:
            record(store, SweepRecord(moment, moment + 5, False, "test", "digest"), reports, readings)

    def quiet(self) -> None:
        """Sweeps before and after the job, that found all well."""
        self.sweep(START - 600)
        self.sweep(END + 600)

    def ended(self, state: str, code: str = "1:0", failed: str = "") -> None:
        """The job ended so on nodes that were fine before and after."""
        self.quiet()
        self.slurm(state, code, failed)

    def did(self, moment: float, action: str, node: str, why: str) -> None:
        """An action of muster."""
        with self.store() as store, store.writing() as db:
            line = ledger.begin(db, moment, "triage", action, node, why)
            ledger.finish(db, line, "done", moment + 1)

    def store(self):  # type: ignore[no-untyped-def]
        return opened(self.home / "state", make=True)

    def slurm(
        self, state: str, code: str = "1:0", failed: str = "", nodes: str = "gpu[001-008]", end: float = END,
        steps: tuple[str, ...] = (),
    ) -> None:
        """What sacct prints of job 4711."""
        utc = [time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) for moment in (START - 60, START, end)]
        rows = ["JobID|State|ExitCode|Submit|Start|End|User|NodeList|FailedNode",
                f"4711|{state}|{code}|{'|'.join(utc)}|alice|{nodes}|{failed}", *steps]
        (self.home / "sacct.txt").write_text("\n".join(rows) + "\n")
        tool = self.home / "bin" / "sacct"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(f"#!/bin/sh\ncat {self.home}/sacct.txt\n")
        tool.chmod(0o755)

    def log(self, name: str, text: str | bytes) -> None:
        """A file that is given with --log."""
        (self.home / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        self.logs += ["--log", name]

    def blame(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The finished command, of job 4711."""
        return muster("blame", *(words or ("4711",)), *self.logs, home=self.home,
                      PATH=f"{self.home}/bin:/usr/bin:/bin")


def first(done: subprocess.CompletedProcess[str]) -> str:
    """The first line of its page."""
    assert done.stderr == "", done.stderr
    return done.stdout.split("\n", 1)[0]


