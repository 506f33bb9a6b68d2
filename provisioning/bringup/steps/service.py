"""Step service: the inventory says that the machine is in service, and what kept jobs away for its bring-up does no more.

The file is edited as `muster inventory lifecycle` does.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from inventory.cli.lifecycle import edited
from inventory.edit import InventoryFile
from inventory.errors import InventoryError, MusterError
from inventory.load import parse_with_origins
from inventory.model import Lifecycle, LifecycleState
from inventory.text import clean, short
from provisioning.bringup.hold import give, held
from provisioning.bringup.means import Means
from provisioning.bringup.model import Deed, Effect, Machine, Made, Seen, Stand, Step

_TRIES = 3      # a person may edit the file meanwhile


class Service:
    """Reads the inventory file anew at each look: a person may have edited it meanwhile."""

    def __init__(self, step: Step, means: Means) -> None:
        self.step = step
        self._means = means

    def look(self, machines: Sequence[Machine]) -> Iterator[tuple[str, Seen]]:
        """See `Doer.look`."""
        try:
            given = InventoryFile.read(self._means.path)
            nodes = parse_with_origins(given.text, str(given.path), self._means.ruleset.skus).inventory.nodes
            kept = held(self._means.folder, self._means.inventory, [machine.name for machine in machines])
        except MusterError as error:
            for machine in machines:
                yield machine.name, Seen(Stand.UNKNOWN, clean(str(error), 300))
            return
        for machine in machines:
            node = nodes.get(machine.name)
            if node is None:
                yield machine.name, Seen(Stand.UNKNOWN, f"{given.path} does not name it any more")
            elif node.in_service and machine.name not in kept:
                yield machine.name, Seen(Stand.SO, "in service")
            else:
                now = node.lifecycle.state.value
                change = (*(() if node.in_service else (f"lifecycle: {now} -> service",)), *(("uncordon",) if machine.name in kept else ()))
                yield machine.name, Seen(Stand.NOT_SO, f"lifecycle {now}{', cordoned' if machine.name in kept else ''}", deed=Deed(
                    "lifecycle service", "service", change, Effect.PASSIVE, settle_s=10.0))

    def make(self, machine: Machine, deed: Deed) -> Made:
        """One machine alone."""
        return self.make_together([machine])[machine.name]

    def make_together(self, machines: Sequence[Machine]) -> Mapping[str, Made]:
        """Edits the file once for all of them, and then gives them to jobs."""
        names, means = [machine.name for machine in machines], self._means
        try:
            set_lifecycle(means.path, names, LifecycleState.SERVICE, means.ruleset.skus)
            given = {one.node: one for one in give(means.folder, means.inventory, names, means.who, time.time)}
        except MusterError as error:
            return dict.fromkeys(names, Made(False, clean(str(error), 300)))
        written = f"written to {means.path}"
        return {name: Made(name not in given or not given[name].failed,
                           f"{written}; {clean(given[name].said, 200)}" if name in given else written) for name in names}


def set_lifecycle(path: Path, names: Sequence[str], state: LifecycleState, skus: Collection[str] | None) -> None:
    """Afterwards the inventory file says so of these nodes, and the rest of it is as it was. Raises InventoryError."""
    for left in reversed(range(_TRIES)):
        given = InventoryFile.read(path)
        loaded = parse_with_origins(given.text, str(path), skus)
        if gone := [name for name in names if name not in loaded.inventory.nodes]:
            raise InventoryError(f"{path}: does not name {short(gone[0])} any more")
        wanted = {name: Lifecycle(state) for name in names if loaded.inventory.nodes[name].lifecycle.state is not state}
        if not wanted:
            return
        try:
            given.write(edited(given, loaded, wanted, skus))
            return
        except MusterError:
            if not left:
                raise
