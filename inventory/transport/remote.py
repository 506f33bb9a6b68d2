"""Reaches each node with the SSH client of its inventory entry, in one sweep with one set of limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Protocol

from inventory.model import Node, Via
from inventory.transport.base import Failure, Limits, Program, Reply
from inventory.transport.hung import HungLogins
from inventory.transport.watch import NodeJob, Watchdog, fan_out


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

    def begin(self, program: Program, limits: Limits, watch: Watchdog) -> TransportSweep: ...

    def close(self) -> None: ...


class RemoteTransport:
    """`Transport` over SSH. With `keep` (seconds from one sweep to the next) connections live on between
    sweeps, until `close`, and nodes whose last login hung are left alone for a while."""

    def __init__(self, keep: float | None = None) -> None:
        self._keep = keep
        self._hung = None if keep is None else HungLogins(keep)
        self._transports: dict[Via, SharedTransport] = {}

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        """See `Transport.run`. Closing the iterator closes all connections in use.
        Raises ConfigError for a broken ssh_config."""
        nodes = tuple(nodes)
        resting = {} if self._hung is None else self._hung.resting(nodes)
        once = frozenset() if self._hung is None else self._hung.names
        watch = Watchdog()
        sweeps: dict[Via, TransportSweep] = {}
        wanted = {node.transport for node in nodes}
        for via in self._transports.keys() - wanted:
            self._transports.pop(via).close()
        with ExitStack() as stack:
            for via in wanted:
                sweeps[via] = sweep = self._transport(via).begin(program, limits, watch)
                stack.callback(sweep.close)
            def again() -> None:
                for sweep in sweeps.values():
                    sweep.again()

            yield from resting.values()
            by_name = {node.name: node for node in nodes if node.name not in resting}
            for reply in fan_out(by_name.values(), limits,
                                 lambda job: sweeps[job.node.transport].query(job), watch, again, once):
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


def _create(via: Via, keep: float | None) -> SharedTransport:
    # Loaded on use: paramiko takes a tenth of a second.
    if via is Via.OPENSSH:
        from inventory.transport.openssh import OpensshTransport

        return OpensshTransport(keep=keep)
    from inventory.transport.ssh import SshTransport

    return SshTransport(keep=keep is not None)
