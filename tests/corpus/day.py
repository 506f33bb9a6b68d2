"""What a head makes of a saved sweep that it saw three times, at the times of that sweep: `python -m
tests.corpus.day SWEEP HOME`.

A process of its own, for its clock is moved before anything of muster is loaded. It prints one JSON object:
by command, its exit code and output.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from inventory.times import millisecond

BETWEEN_S = 900.0
_TIMES = 3


def moved(moment: float) -> None:
    """From here on it is this moment, and time goes on."""
    begun = time.monotonic()
    time.time = lambda: moment + time.monotonic() - begun
    time.time_ns = lambda: int(time.time() * 1e9)


def inventory(sweep: Path, home: Path) -> list[str]:
    """Writes the inventory that the sweep was made by; the nodes' names."""
    nodes = json.loads((sweep / "manifest.json").read_text())["inventory"]["nodes"]
    places = {
        node["name"]: {"sku": node["sku"],
                       "ports": {at: {key: value for key, value in port.items() if value is not None}
                                 for at, port in node["ports"].items()},
                       **{key: node[key] for key in ("rack", "leaf", "power") if node[key]}}
        for node in nodes}
    (home / "muster.yaml").write_text(json.dumps({"version": 1, "nodes": places,
                                                  "cordon": {"hostfile": str(home / "hosts.exclude")}}))
    return sorted(places)


def looked(sweep: Path, state: Path, times: Iterable[float]) -> None:
    """The store has seen the sweep at these times."""
    from dataclasses import replace

    from healthcheck.cli.check import stored as record_sweep
    from healthcheck.config import rulesfolder
    from healthcheck.ruleset.ruleset import load_ruleset
    from healthcheck.store.readings import readings
    from healthcheck.sweep import saved
    from healthcheck.sweep.sweep import replay

    plan, outcome = replay(sweep, load_ruleset(rulesfolder.folders(None)), (), (), None)
    found = {one.node: readings(one)
             for one, _ in saved.recordings(sweep, saved.load_manifest(sweep)) if one.host is not None}
    for at in times:
        stored = record_sweep(state, plan,
                              replace(outcome, started=millisecond(at), finished=millisecond(at + 30)), found)
        assert not stored.troubles, stored.troubles


def main() -> None:
    sweep, home = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    began = dt.datetime.fromisoformat(
        json.loads((sweep / "manifest.json").read_text())["started"].replace("Z", "+00:00")).timestamp()
    moved(began + _TIMES * BETWEEN_S)
    names = inventory(sweep, home)
    (home / "shared").mkdir()
    os.chdir(home)
    os.environ.update(HOME=str(home), MUSTER_STATE=str(home / "state"))
    looked(sweep, home / "state", [began + time_ * BETWEEN_S for time_ in range(_TIMES)])
    from click.testing import CliRunner

    from healthcheck.cli.main import root

    said = {}
    for name, words in {
        "triage": "triage --format json", "apply": "triage --apply --format json",
        "again": "triage --format json",
        "incidents": "incident list --format json", "nodes": "nodes --all --format json",
        "key": "certificate key new", "trust": "certificate key show --trusted",
        "publish": "gate publish --to shared",
        "gate": f"gate {','.join(names)} --folder shared --keys gate.pub --json",
        "blame": f"blame --nodes {','.join(names)} --since {began - 600:.0f} --until {began + 60:.0f} "
                 f"--format json",
    }.items():
        done = CliRunner().invoke(root, words.split(), standalone_mode=False, catch_exceptions=False)
        if name == "trust":
            Path("gate.pub").write_text(done.stdout)
        said[name] = {"exit": done.return_value or 0, "out": done.stdout}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
