"""Reaches each node with the SSH client of its inventory entry, in one sweep with one set of limits."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

from inventory.model import Node, Via
from inventory.transport.base import Failure, Limits, Program, Reply, Stage
from inventory.transport.hung import HungLogins
from inventory.transport.watch import NodeJob, TaskFailed, Watchdog, fan_out


class TransportSweep(Protocol):
    """One sweep of one transport."""

    def query(self, job: NodeJob) -> bytes | Failure:
        """The answer of one node; raises TaskFailed or Expired."""
        ...

    def again(self) -> None:
        """Second tries follow, over new connections."""
        ...

    def close(self) -> None:
        """Closes what the sweep opened and does not keep."""
        ...


class SharedTransport(Protocol):
    """A transport that can share a sweep with another."""

    def begin(
        self, program: Program, limits: Limits, watch: Watchdog, nodes: Iterable[Node] = (),
    ) -> TransportSweep: ...

    def close(self) -> None: ...


class RemoteTransport:
    """`Transport` over SSH. With `keep` (seconds between sweeps) connections live on until `close`, and nodes
    whose last login hung rest for a while; `hung` remembers them for several transports."""

    def __init__(self, keep: float | None = None, hung: HungLogins | None = None) -> None:
        self._keep = keep
        self._hung = HungLogins(keep) if hung is None and keep is not None else hung
        self._transports: dict[Via, SharedTransport] = {}

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        """See `Transport.run`. Closing it closes all connections in use. Raises ConfigError."""
        nodes = tuple(nodes)
        resting = {} if self._hung is None else self._hung.resting(nodes)
        once = frozenset() if self._hung is None else self._hung.names
        watch = Watchdog()
        wanted = {node.transport for node in nodes}
        used = {*wanted, *((Via.PARAMIKO, Via.OPENSSH) if Via.AUTO in wanted else ())}
        for via in self._transports.keys() - used:
            self._transports.pop(via).close()
        with ExitStack() as stack:
            sweeps = _Sweeps(self._transport, program, limits, watch, nodes, stack)
            for via in wanted:
                sweeps.of(Via.PARAMIKO if via is Via.AUTO else via)
            yield from resting.values()
            by_name = {node.name: node for node in nodes if node.name not in resting}
            for reply in fan_out(by_name.values(), limits, sweeps.query, watch, sweeps.again, once):
                if self._hung is not None:
                    self._hung.saw(by_name[reply.node], reply)
                yield reply

    def close(self) -> None:
        """Closes kept connections."""
        for transport in self._transports.values():
            transport.close()

    def _transport(self, via: Via) -> SharedTransport:
        if via not in self._transports:
            self._transports[via] = _create(via, self._keep)
        return self._transports[via]


class _Sweeps:
    """The sweeps of one run by client; the system's ssh is begun when the first node takes it."""

    def __init__(
        self, transport: Callable[[Via], SharedTransport], program: Program, limits: Limits, watch: Watchdog,
        nodes: Sequence[Node], stack: ExitStack,
    ) -> None:
        self._transport = transport
        self._values = program, limits, watch
        self._nodes = nodes
        self._stack = stack
        self._sweeps: dict[Via, TransportSweep] = {}
        self._lock = threading.Lock()

    def of(self, via: Via) -> TransportSweep:
        """The sweep of this client; raises ConfigError for a broken ssh_config."""
        with self._lock:
            if via not in self._sweeps:
                those = [node for node in self._nodes if node.transport in (via, Via.AUTO)]
                self._sweeps[via] = sweep = self._transport(via).begin(*self._values, those)
                self._stack.callback(sweep.close)
            return self._sweeps[via]

    def again(self) -> None:
        """Second tries follow, over new connections."""
        with self._lock:
            sweeps = list(self._sweeps.values())
        for sweep in sweeps:
            sweep.again()

    def query(self, job: NodeJob) -> bytes | Failure:
        """The answer of one node; raises TaskFailed or Expired."""
        if job.node.transport is not Via.AUTO:
            return self.of(job.node.transport).query(job)
        ours: Any = self.of(Via.PARAMIKO)
        route = ours.route(job.node)
        if route.via is Via.PARAMIKO:
            try:
                answer: bytes | Failure = ours.query_by(route, job)
            except TaskFailed as failed:
                # Nothing was sent to the node but which algorithms this process knows.
                if not failed.failure.algorithms or shutil.which("ssh") is None:
                    raise
                return self.of(Via.OPENSSH).query(job)
            return answer
        if shutil.which("ssh") is None:
            raise TaskFailed(Stage.HEAD, no_ssh(route.why))
        return self.of(Via.OPENSSH).query(job)


def no_ssh(why: Sequence[str]) -> str:
    """That this machine has no ssh, though a node needs it."""
    return ("this machine has no ssh, which the way there takes; install it (apt-get install "
            f"openssh-client): {'; '.join(why[:3])}")


def _create(via: Via, keep: float | None) -> SharedTransport:
    # Loaded on use: paramiko takes a tenth of a second.
    if via is Via.OPENSSH:
        from inventory.transport.openssh import OpensshTransport

        return OpensshTransport(keep=keep)
    from inventory.transport.ssh import SshTransport

    return SshTransport(keep=keep is not None)
