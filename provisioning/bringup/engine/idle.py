"""Whether a machine may be disturbed: it is still in bring-up, no living muster leases it, and no job is or
may come there: someone holds it, or it is not known there. Where the inventory names what keeps jobs away
(`cordon:`), that must answer; where it does not, Slurm is asked if it is there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from healthcheck.store.file import NAME, opened
from healthcheck.store.leases import leased_nodes
from inventory.errors import InventoryError
from inventory.load import load_inventory
from inventory.model import Inventory, Node
from provisioning.actions.base import ActionError, Backend, Holder, NodeHold
from provisioning.bringup.engine.hold import WHY, through
from provisioning.bringup.engine.model import Machine
from provisioning.bringup.engine.site import unfit
from provisioning.lease.holder import HolderState, life, me
from provisioning.lease.jobs import Jobs, jobs

# machines that ask together share an answer: Slurm tells of all nodes at once, and is slow to
_FRESH_S = 2.0


class IdleCheck:
    """Why a machine must not be disturbed now, "" where it may. Raises ActionError, StoreError: not known."""

    def __init__(self, folder: Path, nodes: Collection[str], through: Backend | None, *, must: bool,
                 clock: Callable[[], float] = time.time, path: Path | None = None) -> None:
        self._folder, self._nodes, self._through = folder, nodes, through
        self._must, self._clock = must, clock
        self._path = path
        self._read: tuple[tuple[int, int, int], Mapping[str, Node]] | None = None
        self._lock = threading.Lock()
        self._idle_answer: tuple[float, Jobs, Mapping[str, NodeHold]] | None = None

    def __call__(self, machine: Machine) -> str:
        """See the class."""
        return self._elsewhere(machine.name) or self._leased(machine.name) or self._busy(machine.name)

    def _elsewhere(self, node: str) -> str:
        """People give machines away during a run of days: the file is read again where it has changed."""
        if self._path is None:
            return ""
        with self._lock:
            try:
                status = self._path.stat()
            except OSError as error:
                raise InventoryError(f"{self._path}: cannot be read: {error.strerror}") from None
            mark = status.st_mtime_ns, status.st_size, status.st_ino
            if self._read is None or self._read[0] != mark:
                self._read = mark, load_inventory(self._path).nodes
            there = self._read[1].get(node)
        if there is None:
            return f"{self._path} does not name it any more"
        return unfit(there, None, "")

    def _leased(self, node: str) -> str:
        if not (self._folder / NAME).exists():
            return ""
        with opened(self._folder) as store:
            entry = leased_nodes(store).get(node)
        if entry is None or entry.until <= self._clock() or entry.holder == me() or life(
            entry.holder) is HolderState.DEAD:
            return ""
        return f"lease {entry.id} of {entry.who} is on it ({entry.why}): muster lease list"

    def _busy(self, node: str) -> str:
        if self._through is None:
            return ""
        try:
            with self._lock:
                if self._idle_answer is None or not 0 <= self._clock() - self._idle_answer[0] < _FRESH_S:
                    # Who is held, and then who has a job: one that came in between is seen, for to what is
                    # held none comes.
                    now, kept = self._clock(), self._through.held(sorted(self._nodes))
                    self._idle_answer = (now, jobs(self._through, self._nodes), kept)
                _, found, held = self._idle_answer
        except ActionError:
            if self._must:
                raise
            return ""
        if node in found.busy:
            return f"{found.busy[node]}, by {self._through.name}"
        if node in held and held[node].holder is Holder.NO_ONE:
            return (f"nothing keeps jobs away from it, by {self._through.name}: muster cordon {node} "
                    f"--reason '{WHY}'")
        return ""


def idle(folder: Path, there: Inventory, nodes: Collection[str], path: Path | None = None) -> IdleCheck:
    """For these machines; `path` is the inventory's file, asked whether they are still in bring-up."""
    return IdleCheck(folder, nodes, through(there), must=there.cordon is not None, path=path)
