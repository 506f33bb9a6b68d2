"""A site's home with an inventory, saved sweeps and stored burn-ins before and after a change, with faults
planted in them."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from healthcheck.burnin.document import write
from healthcheck.burnin.model import TaskResult
from healthcheck.model.recording import Recording
from healthcheck.store.file import opened
from healthcheck.store.readings import readings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.sweep import sweep
from healthcheck.sweep.saved import Saver, SweepManifest
from inventory.model import Node
from inventory.times import millisecond
from inventory.transport.base import Failure, Stage
from tests.healthcheck import machine
from tests.healthcheck.burnin import made
from tests.packagedrules import RULES

NODES = tuple(f"gpu{number:03}" for number in range(1, 25))
CANARY, CONTROLS = NODES[:8], NODES[8:16]
SWEPT = NODES[:16]
INVENTORY = """version: 1
groups: {canary: 'gpu[001-008]'}
defaults: {lifecycle: service, sku: hgx-h100}
nodes:
  gpu[001-012]: {rack: r01}
  gpu[013-024]: {rack: r02}
"""
SLOW_STAGE = "node"
NEW_RECORD = "4,90,9000000,-;NVRM: the new driver complains about register 0x88\n"


def with_an_inventory(home: Path) -> Path:
    home.mkdir(exist_ok=True)
    (home / "muster.yaml").write_text(INVENTORY)
    return home


def saved(folder: Path, at: float, *, boots: Collection[str] = (), lines: Collection[str] = (),
          away: Collection[str] = (),
          nodes: Sequence[str] = SWEPT, only: tuple[str, ...] = ()) -> Path:
    """A saved sweep of that time: `boots` were restarted, `lines` log the new record, `away` were not
    reached."""
    saver = Saver(folder)
    for name in nodes:
        saver.add(look(name, at, restarted=name in boots, line=name in lines, away=name in away), None)
    saver.finish(SweepManifest(millisecond(at), millisecond(at + 5), False, "a test",
                               tuple(Node(name=name, sku="hgx-h100") for name in nodes),
                               None, only, (), RULES.digest, {}))
    return folder


def look(name: str, at: float, *, restarted: bool = False, line: bool = False,
         away: bool = False) -> Recording:
    if away:
        return Recording(name, at, None, Failure(Stage.CONNECT, "refused"))
    log = machine.done(**{"/dev/kmsg": machine.KMSG + (NEW_RECORD if line else "")})
    found = machine.recording(name, kernel_log=log)
    assert found.host is not None
    boot = f"{'2' if restarted else '1'}{found.host.boot_id[1:]}"
    return replace(found, received=at, host=replace(found.host, time=at, boot_id=boot))


def stored(home: Path, folder: Path, at: float | None = None) -> None:
    """The store has the saved sweep, as muster check --store would, begun at that time (a minute ago)."""
    began = time.time() - 60 if at is None else at
    _, outcome = sweep.replay(folder, RULES, (), (), None)
    looks = {report.node: look(report.node, began)
             for report in outcome.assessed.reports if report.stage is None}
    with opened(home / "state", make=True) as store:
        record(store, SweepRecord(began, began + 0.1, False, "a test", RULES.digest),
               outcome.assessed.reports,
               {name: readings(each) for name, each in looks.items()})


def burnt(home: Path, when: float, word: str, *, slow: float = 1.0, everyone: float = 1.0, repeats: int = 3,
          driver: str = "570.86") -> None:
    """Burn-ins of canary and controls, `repeats` each, that began then; one all-reduce of the canary runs at
    the share `slow`."""
    places = made.places(24)
    for turn in range(repeats):
        for group, share in ((places[:8], slow), (places[8:16], 1.0)):
            results = [_scaled(one, everyone * (share if one.task.stage.value == SLOW_STAGE
                                                else 1.0) * (1 + 0.0005 * turn))
                       for one in made.sound(group, facts={**made.NCCL, "driver": driver})]
            run = f"{word}-{group[0].node}-{turn}"
            write(home / "state", replace(made.burnin(group, results, run=run, began=when + turn / 1e4),
                                          ended=when + turn / 1e4))


def _scaled(one: TaskResult, share: float) -> TaskResult:
    """Every rank's bandwidth of an all-reduce times this share, and its time by it."""
    reports = tuple(replace(each, figures={
        name: value * share if name in ("busbw_gb_s", "algbw_gb_s") else value / share
        if name.startswith("seconds") else value
        for name, value in each.figures.items()}) if "busbw_gb_s" in each.figures else each
                    for each in one.reports)
    return replace(one, reports=reports)


