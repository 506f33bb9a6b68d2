"""Storage by real ranks: a hung mount is named, a missing one fails its node, a kill leaves nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.burnin import faults
from healthcheck.burnin.model import BurnInStage, Object, RankEnd, Seat, Task, TaskKind
from healthcheck.burnin.watch import Patience
from inventory.model import BurnInSettings, Node
from inventory.transport.local import LocalTransport
from provisioning.burnin.conductor import Conductor
from tests.testbed import fuse, torches
from tests.testbed.mounts import WHY_NOT, bound, can_mount
from tests.testbed.require import require

MIB = 1 << 20


@pytest.fixture(scope="module")
def bed() -> Iterator[Conductor]:
    require(can_mount(), WHY_NOT)
    nodes = [Node(name, address="127.0.0.1", burnin=BurnInSettings(torches.forked()))
             for name in ("n1", "n2")]
    with Conductor(LocalTransport(), nodes, hosts=["127.0.0.1"], patience=Patience(storage=2.0)) as conductor:
        ready_nodes = conductor.ready(100)
        assert ready_nodes.whole, ready_nodes.missing
        yield conductor


def task(node: str, path: Path, size: int = 8 * MIB) -> Task:
    params = {"path": str(path), "bytes": size, "leave_share": 0.0, "run_s": 0.0}
    return Task(f"{node}-{path.name}-{size}", BurnInStage.NODE, TaskKind.STORAGE, (Seat(node, 0),), 60.0,
                params)


def holders(mount: Path) -> list[int]:
    """The processes that have a file open there."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):      # it has gone
            if any(str(link.readlink()).startswith(f"{mount}/") for link in (process / "fd").iterdir()):
                found.append(int(process.name))
    return found


@pytest.mark.root
@pytest.mark.slow
def test_a_mount_that_hangs_is_named_with_its_node_and_another_node_s_is_measured_meanwhile(
    bed: Conductor, tmp_path: Path,
) -> None:
    why = fuse.available()
    require(why is None, why or "")
    point = tmp_path / "lustre"
    point.mkdir()
    with bound(tmp_path / "scratch") as scratch, fuse.hung(point):
        began = time.monotonic()
        found = {result.task.nodes[0]: result for result in bed.run([task("n1", point), task("n2", scratch)])}
        took = time.monotonic() - began
    [one] = found["n1"].accusations
    assert (one.object, one.name, one.fault) == (Object.NODE, "n1", faults.HUNG), one
    assert one.why.startswith(f"storage {point}: it has not answered for 2.") and took < 20, (one.why, took)
    assert found["n2"].whole, found["n2"].reports
    assert found["n2"].reports[0].figures["storage_read_gb_s"] > 0


@pytest.mark.root
def test_a_missing_mount_fails_its_node_in_one_clear_line(bed: Conductor, tmp_path: Path) -> None:
    (result,) = bed.run([task("n1", tmp_path)])
    [one] = result.accusations
    assert (one.object, one.name, one.fault) == (Object.NODE, "n1", faults.RAISED)
    assert (f"{tmp_path} is no mount point: nothing is mounted there" in one.why
            and one.why.startswith("storage "))


@pytest.mark.root
def test_a_rank_that_is_killed_leaves_no_data_and_the_next_one_nothing_at_all(
    bed: Conductor, tmp_path: Path,
) -> None:
    with bound(tmp_path / "scratch") as scratch:
        free = os.statvfs(scratch).f_bavail
        killed = threading.Event()

        def kill() -> None:
            end = time.monotonic() + 30
            while time.monotonic() < end and not killed.is_set():
                for pid in holders(scratch):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed.set()
                killed.wait(0.01)

        killer = threading.Thread(target=kill)
        killer.start()
        (result,) = bed.run([task("n1", scratch, 2048 * MIB)])
        killed.set()
        killer.join()
        assert (result.reports[0].end is RankEnd.SIGNAL
                and result.accusations[0].fault == faults.DEAD), result.reports
        assert not [path for path in scratch.rglob("*") if path.is_file()]
        (result,) = bed.run([task("n1", scratch)])
        assert result.whole, result.reports
        assert list(scratch.iterdir()) == []
        assert abs(os.statvfs(scratch).f_bavail - free) * 4096 < 1024 * MIB
