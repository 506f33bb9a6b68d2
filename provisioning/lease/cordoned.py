"""A lease by a cordon of ours, for back ends without reservations, with the lease's name in the reason. A
node that is cordoned in our name is joined: that cordon stays when the lease is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from healthcheck.store.cordons import Cordon, open_cordons
from healthcheck.store.file import Store
from healthcheck.store.leases import LeaseRecord
from inventory.text import clean
from provisioning.actions.base import ActionError, Backend, NodeHold
from provisioning.actions.cordon import cordon, uncordon


class Cordoned:
    """Cordons through one back end, with the store as memory."""

    kind = "cordon"

    def __init__(self, store: Store, base: Backend, clock: Callable[[], float]) -> None:
        self.base = base
        self._store = store
        self._clock = clock

    def hold(self, entry: LeaseRecord) -> None:
        """Cordons those that are not cordoned yet."""
        cordon(self._store, self.base, entry.nodes, f"{entry.name}: {entry.why}", entry.who, self._clock)

    def gone(self, entry: LeaseRecord) -> Mapping[str, str]:
        """Nodes without a cordon of ours; a lease's shows its name, which no other store can have given."""
        known = {one.node: one for one in open_cordons(self._store, entry.nodes, self.base.name)}
        seen = self.base.held(entry.nodes)
        return {
            node: clean(f"our cordon is not on it: {seen[node].reason or seen[node].holder.value}", 200)
                for node in entry.nodes if node not in known or not _shown(entry, known[node], seen[node])}

    def keep(self, entry: LeaseRecord, nodes: Sequence[str]) -> None:
        """Gives the others back."""
        self._release([one.node for one in self._of(entry) if one.node not in nodes], entry)

    def extend(self, entry: LeaseRecord, until: float) -> None:
        """A cordon has no end."""

    def free(self, entry: LeaseRecord) -> None:
        """Gives back those that were made for it."""
        self._release([one.node for one in self._of(entry)], entry)

    def left(self, entry: LeaseRecord) -> bool:
        """Whether a cordon that was made for it is open."""
        return bool(self._of(entry))

    def _of(self, entry: LeaseRecord) -> list[Cordon]:
        return [one for one in open_cordons(self._store, backend=self.base.name) if _made_for(entry, one)]

    def _release(self, nodes: Sequence[str], entry: LeaseRecord) -> None:
        why = f"{entry.name} is over"
        done = (uncordon(self._store, self.base, nodes, why, entry.who, self._clock, containing=entry.name)
                if nodes else [])
        if failed := [f"{one.node}: {one.message}" for one in done if one.failed]:
            raise ActionError("; ".join(failed[:3]))


def _made_for(entry: LeaseRecord, cordon: Cordon) -> bool:
    return cordon.why.startswith(f"{entry.name}: ")


def _shown(entry: LeaseRecord, cordon: Cordon, held: NodeHold) -> bool:
    return held.mark == cordon.mark and (entry.name in held.reason or not _made_for(entry, cordon))
