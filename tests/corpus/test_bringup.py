"""What a bring-up reports of machines whose answers do not change: states by step, owners, parts, what was
done to them, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from healthcheck.cli.main import root
from healthcheck.model.recording import Recording
from healthcheck.sweep import saved
from tests.corpus import bringup, view
from tests.corpus.archives import Unpacked
from tests.corpus.kept import same


@pytest.fixture(scope="module")
def nodes(unpacked: Unpacked) -> Mapping[str, Recording]:
    """The recorded nodes of the scenarios."""
    folder = unpacked("scenarios")
    return {look.node: look for look, _ in saved.recordings(folder, saved.load_manifest(folder))}


@contextmanager
def at(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[int, str]]]:
    """Types a command there."""
    with monkeypatch.context() as there:
        there.chdir(home)
        there.setenv("MUSTER_STATE", str(home / "state"))
        there.delenv("MUSTER_INVENTORY", raising=False)

        def typed(*words: str) -> tuple[int, str]:
            done = CliRunner().invoke(root, words, standalone_mode=False, catch_exceptions=False)
            return done.return_value or 0, done.stdout
        yield typed


@pytest.mark.parametrize("name", bringup.RACKS)
def test_a_rack_is_brought_up_as_ever(name: str, nodes: Mapping[str, Recording], tmp_path: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    rack = bringup.RACKS[name]()
    transport = bringup.Recorded(rack.machines, nodes)
    monkeypatch.setattr("healthcheck.collector.reply.decode", transport.decode)
    outcome = bringup.brought_up(rack, tmp_path, transport)
    with at(tmp_path, monkeypatch) as typed:
        status, shown = typed("bringup", "status", "--json")
        report, table = typed("bringup", "report", "--format", "csv")
    same(f"bringup-{name}", {
        "run": {"exit": outcome.exit_code, "halted": sorted(outcome.halted), "left": list(outcome.left)},
        "status": {"exit": status, **view.brought_up(json.loads(shown))},
        "report": {"exit": report, "lines": view.punch_list(table)},
        "done": {machine: ", ".join(planted.controller.operations)
                 for machine, planted in rack.machines.items() if planted.controller.operations},
    })
