"""The store as a source: the inventory says who there is, the store what is known of them,
and what cannot be read is told."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from healthcheck.exporter.fleet import head
from healthcheck.exporter.source import FleetStatus
from healthcheck.exporter.stored import Nodes, StoreSource
from healthcheck.model.outcome import NodeReport, NodeState
from healthcheck.store import cordons, ledger, runs
from healthcheck.store.cordons import CordonState
from healthcheck.store.file import NAME, opened
from healthcheck.store.readings import NodeReadings
from healthcheck.store.sweeps import SweepRecord, record
from inventory.errors import MusterError
from tests.healthcheck.exporter import made

INVENTORY = "version: 1\nnodes:\n  gpu001: {rack: r1}\n  gpu002: {lifecycle: {state: rma}}\n"


def swept(state: Path, *names: str, began: float = 1000.0) -> None:
    """A sweep in which these nodes were healthy."""
    with opened(state, make=True) as store:
        record(store, SweepRecord(began, began + 7, False, "test", "digest"),
               [NodeReport(name, NodeState.HEALTHY, "", ()) for name in names],
               {name: NodeReadings((), (), frozenset(), shown=made.shown()) for name in names})


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "muster.yaml"
    path.write_text(INVENTORY)
    return path


def known(fleet: FleetStatus | None) -> dict[str, tuple[str | None, float | None]]:
    """By node: its rack by the inventory, and the time of its newest look."""
    assert fleet is not None
    return {at.name: (at.node.rack if at.node is not None else None,
                      at.newest.time if at.newest is not None else None) for at in fleet.nodes}


def test_all_nodes_of_the_inventory_are_there_and_no_other(tmp_path: Path, inventory: Path) -> None:
    swept(tmp_path, "gpu001", "gone")
    fleet = StoreSource(tmp_path, Nodes(inventory)).read(2000.0)
    assert fleet is not None and known(fleet) == {"gpu001": ("r1", 1000.0), "gpu002": (None, None)}
    assert (fleet.head is not None and (fleet.head.sweeps, fleet.head.sweep_started,
                                        fleet.head.sweep_finished) == (1, 1000.0, 1007.0))
    assert not fleet.trouble and fleet.inventory_well


def test_without_an_inventory_the_nodes_are_those_of_the_store(tmp_path: Path) -> None:
    swept(tmp_path, "gpu001")
    assert known(StoreSource(tmp_path, Nodes(None)).read(2000.0)) == {"gpu001": (None, 1000.0)}


def test_where_nothing_has_changed_nothing_is_read_and_what_has_not_changed_stays_the_object_it_was(
    tmp_path: Path, inventory: Path,
) -> None:
    source = StoreSource(tmp_path, Nodes(inventory))
    swept(tmp_path, "gpu001", "gpu002")
    first = source.read(2000.0)
    assert first is not None and source.read(2001.0) is None
    swept(tmp_path, "gpu001", began=1500.0)
    later = source.read(2002.0)
    assert later is not None and known(later) == {"gpu001": ("r1", 1500.0), "gpu002": (None, 1000.0)}
    assert (later.nodes[1].newest is first.nodes[1].newest
            and later.nodes[0].newest is not first.nodes[0].newest)
    # silences end by the clock alone
    assert source.read(2003.0) is None and source.read(2063.0) is not None


def test_a_store_that_was_put_back_from_a_copy_is_read_anew(tmp_path: Path, inventory: Path) -> None:
    source = StoreSource(tmp_path, Nodes(inventory))
    swept(tmp_path, "gpu001", began=500.0)
    with opened(tmp_path) as store:
        store.backup(tmp_path / "copy")
    swept(tmp_path, "gpu001")
    assert known(source.read(2000.0))["gpu001"] == ("r1", 1000.0)
    (tmp_path / "copy").replace(tmp_path / NAME)
    for path in tmp_path.glob(f"{NAME}-*"):
        path.unlink()
    assert known(source.read(2001.0))["gpu001"] == ("r1", 500.0)


def test_an_edited_inventory_counts_and_one_that_cannot_be_read_does_not(
    tmp_path: Path, inventory: Path,
) -> None:
    swept(tmp_path, "gpu001")
    source = StoreSource(tmp_path, Nodes(inventory))
    inventory.write_text(INVENTORY + "  gpu003: {}\n")
    assert set(known(source.read(2000.0))) == {"gpu001", "gpu002", "gpu003"}
    inventory.write_text("version: 1\nnodes: [")
    held = source.read(2000.0)
    assert (held is not None and set(known(held)) == {"gpu001", "gpu002", "gpu003"}
            and not held.inventory_well and not held.trouble)
    inventory.unlink()
    assert source.read(2000.0) is None
    inventory.write_text(INVENTORY)
    well = source.read(2000.0)
    assert well is not None and well.inventory_well


def test_an_inventory_that_is_wrong_from_the_beginning_is_an_error(inventory: Path) -> None:
    inventory.write_text("version: 1\nnodes: [")
    with pytest.raises(MusterError, match=r"muster\.yaml"):
        Nodes(inventory)


@pytest.mark.parametrize("what", ["none", "damaged", "another's"])
def test_a_store_that_cannot_be_read_leaves_every_node_with_nothing_known_of_it(
    tmp_path: Path, inventory: Path, what: str,
) -> None:
    source = StoreSource(tmp_path, Nodes(inventory))
    if what != "none":
        swept(tmp_path, "gpu001")
        assert known(source.read(2000.0))["gpu001"] == ("r1", 1000.0)
        for path in tmp_path.glob(f"{NAME}*"):
            path.unlink()
        (tmp_path / NAME).write_bytes(b"rubbish" * 4096 if what == "damaged" else b"")
    fleet = source.read(2000.0)
    assert (fleet is not None and known(fleet)["gpu001"] == ("r1", None)
            and (fleet.trouble or what == "another's"))
    assert fleet.head is None or what == "another's"


def test_cordons_are_there_by_whose_word_and_actions_without_an_end_are_counted(
    tmp_path: Path, inventory: Path,
) -> None:
    swept(tmp_path, "gpu001")
    with opened(tmp_path) as store:
        ours = cordons.mean(store, "gpu001", "slurm", "sick", "me", 1.0)
        assert ours is not None
        gone = cordons.mean(store, "gpu002", "slurm", "sick", "me", 1.0)
        assert gone is not None
        cordons.settle(store, gone, CordonState.RELEASED, "done", 2.0)
        with store.writing() as db:
            ledger.begin(db, 1.0, "me", "reboot", "gpu001", "why")
            db.execute("INSERT INTO breaker (opened, why) VALUES (5, 'many')")
            db.execute("INSERT INTO incident (kind, cause, nodes, why, owner, began, seen) "
                       "VALUES ('leaf', 'l1', '[]', 'w', 'network', 1, 1)")
            db.execute("INSERT INTO silence (nodes, rule, why, who, began, until) "
                       "VALUES ('[]', '*', 'w', 'me', 1, 3000), ('[]', '*', 'w', 'me', 1, 9)")
    fleet = StoreSource(tmp_path, Nodes(inventory)).read(2000.0)
    assert fleet is not None and [at.cordons for at in fleet.nodes] == [(("slurm", "person"),), ()]
    head = fleet.head
    assert (head is not None and (head.unfinished, head.breaker, head.silences, head.incidents)
            == (2, 5.0, 1, {("leaf", "network"): 1}))


def test_the_newest_triage_that_said_how_it_ended_is_reported(tmp_path: Path, inventory: Path) -> None:
    def told(run: tuple[float, str, float] | None) -> tuple[float | None, bool, list[float]]:
        if run is not None:
            with opened(tmp_path, make=True) as store:
                runs.finish(store, runs.begin(store, "a", "b", "{}", run[0]), run[1], run[2])
        fleet = source.read(9e9)
        assert fleet is not None and fleet.head is not None
        rows = [row for family, row in head(fleet.head)
                if family.name.startswith("muster_triage_last_run")]
        return (fleet.head.triage_ended, fleet.head.triage_success,
                [value for value, _ in rows])

    swept(tmp_path, "gpu001")
    source = StoreSource(tmp_path, Nodes(inventory))
    assert told(None) == (None, False, [0, 0])
    assert told((2000.0, "done: isolated 1", 2010.0)) == (2010.0, True, [2010, 1])
    assert told((3000.0, "ended without a word", 9000.0)) == (2010.0, True, [2010, 1])
    assert told((4000.0, "failed: slurm does not answer", 4010.0)) == (4010.0, False, [4010, 0])


def test_a_writer_keeps_no_reader(tmp_path: Path, inventory: Path) -> None:
    swept(tmp_path, "gpu001")
    source = StoreSource(tmp_path, Nodes(inventory))
    with opened(tmp_path) as store, store.writing() as db:
        db.execute("UPDATE newest SET time = 1")
        began = time.monotonic()
        assert known(source.read(2000.0))["gpu001"] == ("r1", 1000.0)
        assert time.monotonic() - began < 5     # a reader that waited would wait ten seconds
