"""A lease by a cordon of ours, for back ends that have no reservations: `muster cordon` with the lease's name in the reason.

A node that is cordoned in our name already is joined: that cordon keeps jobs away as well, and stays when the lease is over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from healthcheck.store.cordons import Cordon, open_cordons
from healthcheck.store.file import Store
from healthcheck.store.leases import Entry
from provisioning.actions.base import ActionError, Backend
from provisioning.cordon import cordon, uncordon


class Cordoned:
    """Cordons through one back end, with the store as memory."""

    kind = "cordon"

    def __init__(self, store: Store, base: Backend, clock: Callable[[], float]) -> None:
        self.base = base
        self._store = store
        self._clock = clock

    def unfit(self, nodes: Collection[str], until: float) -> Mapping[str, str]:
        """None: that others cordoned a node is looked at for every way."""
        return {}

    def hold(self, entry: Entry) -> None:
        """Cordons those that are not cordoned yet."""
        cordon(self._store, self.base, entry.nodes, f"{entry.name}: {entry.why}", entry.who, self._clock)

    def gone(self, entry: Entry) -> Mapping[str, str]:
        """Nodes on which no cordon of ours is."""
        known = {one.node: one for one in open_cordons(self._store, entry.nodes, self.base.name)}
        seen = self.base.held(entry.nodes)
        return {node: f"no cordon of ours is on it ({seen[node].holder.value}{': ' if seen[node].reason else ''}{seen[node].reason})"
                for node in entry.nodes if node not in known or seen[node].number != known[node].id}

    def keep(self, entry: Entry, nodes: Sequence[str]) -> None:
        """Gives the others back."""
        self._release([one.node for one in self._of(entry) if one.node not in nodes], entry)

    def extend(self, entry: Entry, until: float) -> None:
        """A cordon has no end."""

    def free(self, entry: Entry) -> None:
        """Gives back those that were made for it."""
        self._release([one.node for one in self._of(entry)], entry)

    def left(self, entry: Entry) -> bool:
        """Whether a cordon that was made for it is open."""
        return bool(self._of(entry))

    def _of(self, entry: Entry) -> list[Cordon]:
        return [one for one in open_cordons(self._store, backend=self.base.name) if one.why.startswith(f"{entry.name}: ")]

    def _release(self, nodes: Sequence[str], entry: Entry) -> None:
        done = uncordon(self._store, self.base, nodes, f"{entry.name} is over", entry.who, self._clock) if nodes else []
        if failed := [f"{one.node}: {one.said}" for one in done if one.failed]:
            raise ActionError("; ".join(failed[:3]))
