"""Connections kept between sweeps: a bounded number, probed while idle, dropped when silent."""

from __future__ import annotations

import resource
import threading

from inventory.sshtarget import SshTarget
from inventory.transport.jump import Route
from inventory.transport.link import SshConnection

KEEPALIVE_SECONDS = 15.0
_SPARE_FILES = 256      # for new connections, jump hosts, files and pipes


class ConnectionPool:
    """Idle connections by where they lead and how, safe to use from many threads; a taken one is the taker's
    until given back. `most` bounds them; by default, the limit on open files."""

    def __init__(self, most: int | None = None) -> None:
        self.most = (most if most is not None
                     else max(0, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_FILES))
        self._idle: dict[tuple[SshTarget, Route], SshConnection] = {}
        self._unused: set[tuple[SshTarget, Route]] = set()     # since `begin`
        self._lock = threading.Lock()
        self._over = threading.Event()
        threading.Thread(target=self._keep_alive, name="muster-keepalive", daemon=True).start()

    def __len__(self) -> int:
        return len(self._idle)

    def begin(self) -> None:
        """Starts a sweep: ends connections that the previous one did not use."""
        with self._lock:
            links = [self._idle.pop(key) for key in self._unused if key in self._idle]
            self._unused = set(self._idle)
        for link in links:
            link.shut()

    def take(self, target: SshTarget, route: Route) -> SshConnection | None:
        """An idle connection to there that seems alive."""
        with self._lock:
            link = self._idle.pop((target, route), None)
            self._unused.discard((target, route))
        return link if link is not None and link.alive else None

    def give(self, target: SshTarget, route: Route, link: SshConnection) -> None:
        """Keeps an idle connection, or ends it when there is no room or already one."""
        with self._lock:
            held = self._idle.get((target, route))
            if not self._over.is_set() and len(self._idle) < self.most and (held is None or not held.alive):
                self._idle[target, route] = link
                return
        link.shut()

    def close(self) -> None:
        """Ends all idle connections, and every one given later."""
        self._over.set()
        with self._lock:
            links, self._idle = list(self._idle.values()), {}
        for link in links:
            link.shut()

    def _keep_alive(self) -> None:
        while not self._over.wait(KEEPALIVE_SECONDS):
            with self._lock:
                self._idle = {key: link for key, link in self._idle.items() if link.alive}
                links = list(self._idle.values())
            for link in links:
                link.keepalive()
