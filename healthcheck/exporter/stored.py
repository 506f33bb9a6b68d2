"""The store as a source: each node's newest snapshot, and the state of triage and sweeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from healthcheck.exporter import fabric, jobs
from healthcheck.exporter.source import FleetStatus, HeadStatus, NodeNow
from healthcheck.store import fabricfindings, newest, runs, watched
from healthcheck.store.clock import AHEAD_S
from healthcheck.store.file import NAME, Store, opened
from healthcheck.store.newest import Packed
from inventory.errors import MusterError
from inventory.load import load_inventory
from inventory.model import Node

if TYPE_CHECKING:
    from healthcheck.burnin.metrics import Burnins

_AGAIN_S = 60.0


class Nodes:
    """The inventory's nodes, reloaded when its file changes; if that fails, the old ones stay."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self.nodes: Mapping[str, Node] | None = None
        self.trouble = ""
        self.again()
        if self.trouble:
            raise MusterError(self.trouble)

    def again(self) -> None:
        """Reloads the file if it has changed."""
        if self._path is None:
            return
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp == self._stamp:
                return
            self.nodes = load_inventory(self._path).nodes
            self._stamp, self.trouble = stamp, ""
        except MusterError as error:
            self.trouble = str(error)
        except OSError as error:
            self.trouble = f"{self._path}: {error.strerror}"


class StoreSource:
    """Reads the store in this state folder when it has changed. The store stays open: the last to close it
    would have to act as writer and clean up. `burnins` are the state folder's burn-ins."""

    def __init__(self, folder: Path, nodes: Nodes, burnins: Burnins | None = None) -> None:
        self._folder = folder
        self._nodes = nodes
        self._burnins = burnins
        self._looks: dict[str, Packed] = {}
        self._open = ExitStack()
        self._store: Store | None = None
        self._seen: tuple[object, ...] = ()
        self._read_at = 0.0
        self._file = 0

    def read(self, now: float) -> FleetStatus | None:
        """The fleet; if the store cannot be read, its nodes without data."""
        self._nodes.again()
        well = not self._nodes.trouble
        news = self._burnins is not None and self._burnins.again()
        more = self._burnins.samples if self._burnins is not None else ()
        try:
            store = self._opened()
            seen = (store.rows("PRAGMA data_version")[0][0], self._nodes.nodes, well)
            # Silences end by time alone.
            if (self._seen and seen[0] == self._seen[0] and seen[1] is self._seen[1]
                and seen[2] is self._seen[2] and 0 <= now - self._read_at < _AGAIN_S and not news):
                return None
            self._newer(store)
            cordons = _cordons(store)
            head = _head(store, now)
            more = (*more, *jobs.samples(watched.lasting(store, now)),
                    *fabric.samples(fabricfindings.lasting(store), fabricfindings.checked(store, now)))
        except (MusterError, OSError) as error:
            self.close()
            names = self._nodes.nodes if self._nodes.nodes is not None else self._looks
            said = str(error) if isinstance(error, MusterError) else f"{self._folder}: {error.strerror}"
            return FleetStatus(tuple(NodeNow(name, (self._nodes.nodes or {}).get(name), None)
                                     for name in names), None, said, well, more=more)
        self._seen, self._read_at = seen, now
        there: Mapping[str, Node | None] = (self._nodes.nodes if self._nodes.nodes is not None
                                            else dict.fromkeys(sorted(self._looks)))
        nodes = tuple(NodeNow(name, node, self._looks.get(name), cordons.get(name, ()))
                      for name, node in there.items())
        return FleetStatus(nodes, head, "", well, more=more)

    def close(self) -> None:
        """Closes the store; the next read opens it again."""
        self._seen, self._store = (), None
        self._open.close()

    def _opened(self) -> Store:
        """The store; reopened if another file has replaced it."""
        found = (self._folder / NAME).stat() if (self._folder / NAME).exists() else None
        if self._store is None or found is None or found.st_ino != self._file:
            self.close()
            self._store = self._open.enter_context(opened(self._folder))
            self._file = (self._folder / NAME).stat().st_ino
        return self._store

    def _newer(self, store: Store) -> None:
        """Unchanged ones stay the same objects."""
        held = self._looks
        found = (Packed(*row) for row in newest.rows(store))
        self._looks = {one.node: before if (before := held.get(one.node)) == one else one for one in found}


def _cordons(store: Store) -> Mapping[str, tuple[tuple[str, str], ...]]:
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for node, backend, verdict in store.rows(
            "SELECT node, backend, verdict FROM cordon WHERE ended IS NULL ORDER BY node, backend"):
        found[node].append((backend, "person" if verdict is None else "triage"))
    return {node: tuple(each) for node, each in found.items()}


def _head(store: Store, now: float) -> HeadStatus:
    (counts,) = store.rows(
        "SELECT (SELECT opened FROM breaker WHERE closed IS NULL), (SELECT count(*) FROM silence "
        "WHERE ended IS NULL AND until > ?), (SELECT count(*) FROM lease WHERE ended IS NULL), "
        "(SELECT count(*) FROM rma WHERE returned IS NULL), (SELECT count(*) FROM ledger "
        "WHERE outcome IS NULL), (SELECT coalesce(max(id), 0) FROM sweep)", now)
    verdicts = {(row[0], row[1]): row[2] for row in store.rows(
        "SELECT isolation, repair, count(*) FROM verdict WHERE ended IS NULL GROUP BY isolation, repair")}
    incidents = {(row[0], row[1]): row[2] for row in store.rows(
        "SELECT kind, owner, count(*) FROM incident WHERE ended IS NULL GROUP BY kind, owner")}
    last = store.rows(
        "SELECT started, finished, nodes, unreached, left_out, partial FROM sweep WHERE started <= ? "
        "ORDER BY id DESC LIMIT 1", now + AHEAD_S)
    started, finished, nodes, unreached, left_out, partial = last[0] if last else (None, None, 0, 0, 0, 0)
    opened_at, silences, leases, rmas, unfinished, sweeps = counts
    run = runs.last(store)
    return HeadStatus(opened_at, verdicts, incidents, silences, leases, rmas, unfinished, sweeps, started,
                      finished, nodes, unreached, left_out, bool(partial), store.path.stat().st_size,
                      run.finished if run is not None else None, run is not None and run.success)
