"""Connections to jump hosts, shared by the nodes behind them: opened once, reopened when lost,
each failure reported once a sweep."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from inventory.model import Node
from inventory.sshconfig import SshConfig, SshTarget, parse_jump, target_for
from inventory.transport.base import Failure, Limits, Stage
from inventory.transport.link import SshConnection
from inventory.transport.watch import Expired, TaskFailed, Watchdog, WatchedTask
from inventory.transport.wire import TcpStream, place

Route: TypeAlias = "tuple[SshTarget, ...]"
Connect: TypeAlias = "Callable[[WatchedTask, SshTarget, Route, Limits], SshConnection]"

MOST_HOPS = 8
NODES_PER_CONNECTION = 64


def route_to(target: SshTarget, node: Node, config: SshConfig) -> Route:
    """The jump hosts, nearest to us first. Each has its own entry in ssh_config;
    the node's own files count for it too.

    Raises ConfigError for an unreadable jump, TaskFailed for more than 8 hops
    (probably a cycle) and for a ProxyCommand.
    """
    route: list[SshTarget] = []
    jump = target.proxy_jump
    while jump is not None:
        hops = [_hop_target(hop.host, hop.user, hop.port, node, config) for hop in parse_jump(jump)]
        route[:0] = hops
        # As with ssh, only the nearest hop may name others before it.
        jump = hops[0].proxy_jump
        if len(route) > MOST_HOPS:
            raise TaskFailed(Stage.CONNECT, f"over {MOST_HOPS} jump hosts on the way; does ssh_config send "
                                            f"{hops[0].name} through itself?")
    for each in (*route, target):
        if (each.proxy_command is not None and each.proxy_jump is None
            and (each is target or each is route[0])):
            raise TaskFailed(Stage.CONNECT, f"ssh_config reaches {each.name} by a ProxyCommand, and commands "
                                         "from there are not run; use ProxyJump, or `proxy_jump` in the "
                                         "inventory")
    return tuple(route)


def _hop_target(host: str, user: str | None, port: int | None, node: Node, config: SshConfig) -> SshTarget:
    own = target_for(Node(name=host, user=user, port=port), config)
    return replace(own, identity_files=tuple(dict.fromkeys((*own.identity_files, *node.identity_file))),
                   known_hosts_files=tuple(dict.fromkeys((*own.known_hosts_files, *node.known_hosts_file))))


class _Gate:
    """One connection to the last machine of a route, being opened, open, or failed for good."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits    # of the node that asked first
        self.done = threading.Event()
        self.link: SshConnection | None = None
        self.failure: Failure | None = None
        self.nodes = 0
        self.asked = True       # for a way to a node, since `begin`

    def usable(self, limits: Limits) -> bool:
        """Whether a node with these limits may wait for it; once it is open, it serves any."""
        if self.link is None:
            same = (self.limits.connect_s, self.limits.auth_s) == (limits.connect_s, limits.auth_s)
            return same and (self.failure is not None or self.nodes < NODES_PER_CONNECTION)
        return self.link.alive and self.nodes < NODES_PER_CONNECTION

    @property
    def serves(self) -> bool:
        """Whether the next sweep may want it."""
        return self.link is not None and self.link.alive and (self.asked or self.nodes > 0)

    def fail(self, failure: Failure) -> None:
        self.failure = failure
        self.done.set()


class Jumps:
    """The connections to jump hosts of one sweep or of many: each sweep calls `begin` first."""

    def __init__(self) -> None:
        self._gates: dict[Route, list[_Gate]] = {}
        self._lock = threading.Lock()

    def begin(self, watch: Watchdog, connect: Connect) -> None:
        """Drops failed and lost connections, and ends those that the previous sweep did not use.

        `connect` opens a connection from now on.
        """
        self._watch = watch
        self._connect = connect
        with self._lock:
            gates = [gate for gates in self._gates.values() for gate in gates]
            self._gates = {route: left for route, gates in self._gates.items()
                           if (left := [gate for gate in gates if gate.serves])}
            unused = [gate.link for gate in gates if gate.link is not None and not gate.serves]
            for gate in gates:
                gate.asked = False
        for link in unused:
            link.shut()

    def forget_failures(self) -> None:
        """Whoever asks from now on has the jump hosts that failed tried again."""
        with self._lock:
            for gates in self._gates.values():
                gates[:] = [gate for gate in gates if gate.failure is None]

    def wire(self, task: WatchedTask, route: Route, host: str, port: int, limits: Limits) -> TcpStream:
        """A stream to `host` through the non-empty route, whose machines have the node's limits each. Raises
        TaskFailed, ConnectionDropped or Expired."""
        name = route[-1].name
        task.step(len(route) * limits.hop_s,
                  lambda s: Failure(Stage.CONNECT,
                                    f"the jump host {name} was not connected within {s:.3g} s"))
        gate = self._gate(route, limits)
        try:
            # This wait ends: opening has its own deadline, and an aborted task already has its answer.
            gate.done.wait()
            task.check()
            if gate.failure is not None:
                # Wherever the jump host got stuck, the node itself was not connected.
                raise TaskFailed(gate.failure.stage, gate.failure.reason,
                                 stuck=None if gate.failure.stuck is None else Stage.CONNECT)
            assert gate.link is not None  # noqa: S101  (once done, it is one or the other)
            wire = gate.link.tunnel(task, host, port)
        except BaseException:
            self._leave(gate)
            raise
        wire.on_close = lambda: self._leave(gate)
        return wire

    def _leave(self, gate: _Gate) -> None:
        with self._lock:
            gate.nodes -= 1

    def close(self) -> None:
        """Ends all connections."""
        with self._lock:
            gates, self._gates = [gate for gates in self._gates.values() for gate in gates], {}
        for gate in gates:
            if gate.link is not None:
                gate.link.shut()

    def _gate(self, route: Route, limits: Limits) -> _Gate:
        with self._lock:
            gates = self._gates.setdefault(route, [])
            gate = next((gate for gate in gates if gate.usable(limits)), None)
            if gate is None:
                gate = _Gate(limits)
                gates.append(gate)
                threading.Thread(target=self._open, args=(gate, route), name=f"muster-jump-{route[-1].name}",
                                 daemon=True).start()
            gate.nodes += 1
            gate.asked = True
            return gate

    def _open(self, gate: _Gate, route: Route) -> None:
        target = route[-1]
        who = f"jump host {place(target.hostname, target.port)}"

        def overdue(failure: Failure) -> None:
            gate.fail(replace(failure, reason=f"{who}: {failure.reason}"))

        task = WatchedTask(self._watch, time.monotonic() + len(route) * gate.limits.hop_s, overdue)
        self._watch.add(task)
        try:
            link = self._connect(task, target, route[:-1], gate.limits)
        except TaskFailed as refused:
            overdue(refused.failure)
        except Expired:
            pass
        except Exception as error:  # noqa: BLE001  (a defect of ours must not leave the nodes behind it waiting)
            overdue(Failure(Stage.CONNECT, f"unexpected {type(error).__name__}: {ascii(str(error))[:150]}"))
        else:
            gate.link = link
            gate.done.set()
        finally:
            task.finish()
