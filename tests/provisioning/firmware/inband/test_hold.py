"""A machine is disturbed only where it is held for us and proven idle, and is given back afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.store import leases
from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import opened
from inventory.load import load_inventory
from inventory.model import Inventory
from inventory.transport.local import LocalTransport
from provisioning.actions.choose import Options, backend
from provisioning.actions.cordon import cordon
from provisioning.firmware.inband import hold as module
from provisioning.firmware.inband.hold import MachineHold, NotHeldError
from provisioning.lease.idle import IdleReport


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """What a look at the GPUs says of nodes; nothing is idle nodes."""
    refused: dict[str, str] = {}
    monkeypatch.setattr(module, "idle", lambda *given: IdleReport(dict(refused), frozenset()))
    yield refused


def site(folder: Path, lifecycle: str) -> Inventory:
    (folder / "bad").touch()
    path = folder / "muster.yaml"
    path.write_text(
        f"version: 1\ncordon: {{hostfile: {folder}/bad}}\nnodes:\n  gx01: {{lifecycle: {lifecycle}}}\n  "
        f"gx02: {{lifecycle: service}}\n")
    return load_inventory(path, {}, {})


def hold(folder: Path) -> MachineHold:
    return MachineHold(folder / "state", "ops", LocalTransport, {}, None)


def leased(folder: Path) -> list[tuple[str, ...]]:
    with opened(folder / "state", make=True) as store:
        return [one.nodes for one in leases.open_leases(store)]


def test_a_machine_in_service_is_leased_for_the_step_and_given_back(tmp_path: Path) -> None:
    there = site(tmp_path, "service")
    with hold(tmp_path).held(there, there.nodes["gx01"], 60.0):
        assert leased(tmp_path) == [("gx01",)] and "gx01" in (tmp_path / "bad").read_text()
    assert leased(tmp_path) == [] and "gx01" not in (tmp_path / "bad").read_text()


def test_it_is_given_back_though_the_step_fails(tmp_path: Path) -> None:
    there = site(tmp_path, "service")
    with pytest.raises(ValueError, match="the step"), hold(tmp_path).held(there, there.nodes["gx01"], 60.0):
        raise ValueError("the step")
    assert leased(tmp_path) == []


def test_one_that_is_leased_already_is_refused(tmp_path: Path) -> None:
    there = site(tmp_path, "service")
    with hold(tmp_path).held(there, there.nodes["gx01"], 60.0):
        with pytest.raises(NotHeldError,
                           match="no lease: it is leased already"), hold(tmp_path).held(
                               there, there.nodes["gx01"], 60.0):
            raise AssertionError("it was held twice")
        with hold(tmp_path).held(there, there.nodes["gx02"], 60.0):
            assert len(leased(tmp_path)) == 2


@pytest.mark.parametrize("lifecycle", ["service", "bringup"])
def test_one_on_which_something_computes_is_refused_and_not_left_held(tmp_path: Path, idle: dict[str, str],
                                                                      lifecycle: str) -> None:
    there = site(tmp_path, lifecycle)
    idle["gx01"] = "process 4711 has a GPU"
    with pytest.raises(NotHeldError,
                       match="not proven idle: process 4711"), hold(tmp_path).held(there,
                                                                                   there.nodes["gx01"], 60.0):
        raise AssertionError("it was held")
    assert leased(tmp_path) == []


def test_one_in_bring_up_is_not_leased(tmp_path: Path) -> None:
    there = site(tmp_path, "bringup")
    with hold(tmp_path).held(there, there.nodes["gx01"], 60.0):
        assert leased(tmp_path) == []


def test_one_that_a_person_has_cordoned_through_us_is_leased_and_stays_cordoned(tmp_path: Path) -> None:
    there = site(tmp_path, "service")
    with opened(tmp_path / "state", make=True) as store:
        (done,) = cordon(store, backend(there, Options()), ["gx01"], "firmware", "ops", time.time)
        assert done.held
    with hold(tmp_path).held(there, there.nodes["gx01"], 60.0):
        assert leased(tmp_path) == [("gx01",)]
    with opened(tmp_path / "state") as store:
        assert [one.node for one in open_cordons(store)] == ["gx01"] and leased(tmp_path) == []
    assert "gx01" in (tmp_path / "bad").read_text()
