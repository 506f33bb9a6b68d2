"""Records the fleets of the corpus again: `python -m tests.corpus.record [NAME...]`. Needed only where probes
or the simulated hardware have changed.

Every archive is a sweep as `muster check --save` writes it, with `planted.json` beside it: the faults of each
node, none for a healthy one.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from healthcheck.config import rulesfolder
from healthcheck.config.files import write_whole
from healthcheck.report.document import document
from healthcheck.report.progress import progress
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.sweep import saved, sweep
from healthcheck.sweep.snapshots import KeptSnapshots
from inventory.load import load_inventory
from inventory.times import millisecond
from inventory.transport.ssh import SshTransport
from provisioning.demo.expected import compare
from provisioning.demo.fleet import DemoFleet
from tests.corpus.archives import FLEETS
from tests.scenarios import node as scenario
from tests.scenarios.test_scenarios import PLANTS
from tests.testbed.memory import base_in_memory, in_memory

SEEDS = range(1, 7)
_NODES = 32


def demo(seed: int, folder: Path) -> None:
    """A fleet of the demo, with every known fault on one node; of its two looks the second is saved."""
    with DemoFleet(_NODES, seed, base_in_memory(Path(tempfile.gettempdir()))) as fleet:
        ruleset = load_ruleset(rulesfolder.folders(None))
        inventory = load_inventory(fleet.inventory, ruleset.skus)
        plan = sweep.SweepPlan(tuple(inventory), ruleset.select((), ()), None, "muster.yaml", ())
        looks = KeptSnapshots(fleet.folder / "state")
        for saver in (None, saved.Saver(folder)):
            seen = sweep.live(plan, SshTransport(), sweep.limits(None, 16), progress(_NODES, f"seed {seed}"),
                              snapshots=looks, saver=saver)
            fleet.advance()
        whole = document(seen.assessed.reports, started=seen.started, finished=seen.finished,
                         partial=seen.partial)
        if wrong := compare(whole, fleet.planted, later=True):
            raise SystemExit("\n".join([f"seed {seed} is not what was planted; is this machine busy?",
                                        *wrong]))
        _planted(folder, fleet.planted)


def scenarios(folder: Path) -> None:
    """A node for each fault of the scenarios, which has the fault's name, and healthy peers; all of one
    moment, with the snapshot before."""
    planted: dict[str, Sequence[str]] = {node.name: []
                                         for node in (scenario.NODE, *scenario.PEERS)} | {
                                             fault: [fault] for fault in sorted(PLANTS)}
    saver = saved.Saver(folder)
    moment = time.time()
    with in_memory(512) as trees:
        for name, faults in planted.items():
            machine = scenario.machine(name)
            for fault in faults:
                PLANTS[fault].before(machine)
            before = scenario.kept(scenario.at(scenario.look(machine, Path(trees)),
                                               moment - scenario.BETWEEN_S), None)
            for fault in faults:
                PLANTS[fault].break_it(machine)
            saver.add(scenario.kept(scenario.at(scenario.look(machine, Path(trees)), moment), before), before)
    nodes = tuple(replace(scenario.NODE, name=name) for name in planted)
    saver.finish(saved.SweepManifest(
        millisecond(moment), millisecond(moment + 60), False, "muster.yaml", nodes, None, (), (),
        scenario.rules().digest,
        scenario.rules().probe_set(45.0).to_json()))
    _planted(folder, planted)


def _planted(folder: Path, planted: Mapping[str, Sequence[str]]) -> None:
    (folder / "planted.json").write_text(json.dumps(planted, indent=1) + "\n")


def pack(folder: Path, archive: Path) -> None:
    """The folder as an archive in which alike nodes take little room, and nothing tells who made it where."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:xz", preset=9) as whole:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size = path.stat().st_size
            with path.open("rb") as content:
                whole.addfile(entry, content)
    write_whole(archive, made.getvalue())


def main() -> None:
    """Writes every archive, or those that are named."""
    FLEETS.mkdir(exist_ok=True)
    made = {f"demo-{seed}": lambda folder, seed=seed: demo(seed, folder) for seed in SEEDS}
    for name, make in {**made, "scenarios": scenarios}.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder))
            pack(Path(folder), FLEETS / f"{name}.tar.xz")


if __name__ == "__main__":
    main()
