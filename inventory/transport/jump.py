"""Connections to jump hosts, shared by the nodes behind them: opened once, reopened when lost, asked for a
sign of life while in use; one that cannot be opened is tried once more, and then named to all behind it."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from inventory.model import Node
from inventory.sshconfig import SshConfig
from inventory.sshroute import TooManyHops, hops_to
from inventory.sshtarget import SshTarget
from inventory.transport.base import Failure, Limits, Stage
from inventory.transport.link import SshConnection
from inventory.transport.watch import NO_THREAD, Expired, TaskFailed, Watchdog, WatchedTask, shortage
from inventory.transport.wire import TcpStream, place

Route: TypeAlias = "tuple[SshTarget, ...]"
Connect: TypeAlias = "Callable[[WatchedTask, SshTarget, Route, Limits], SshConnection]"

NODES_PER_CONNECTION = 64
RETRY_PAUSE = 0.5       # seconds; a restarted sshd listens again within
# A jump host that answers nothing for one or two of these is lost. Shorter than any step of a node behind it,
# which would be blamed on the node.
ALIVE_SECONDS = 4.0
# Another connection may succeed; another login would not.
_AGAIN = (Stage.HEAD, Stage.RESOLVE, Stage.CONNECT)


def route_to(target: SshTarget, node: Node, config: SshConfig) -> Route:
    """The jump hosts, nearest first. Raises ConfigError, and TaskFailed for over 8 and for a ProxyCommand."""
    try:
        route = hops_to(target, node, config)
    except TooManyHops as error:
        raise TaskFailed(Stage.CONNECT, str(error)) from None
    refuse_command(target, route)
    return route


def refuse_command(target: SshTarget, route: Route) -> None:
    """Raises TaskFailed where a ProxyCommand would make the connection."""
    first = route[0] if route else target
    for each in (first, target):
        if each.proxy_command is not None and each.proxy_jump is None:
            raise TaskFailed(Stage.CONNECT, f"ssh_config reaches {each.name} by a ProxyCommand, and commands "
                                         "from there are not run; use ProxyJump, or `proxy_jump` or "
                                         "`transport: auto` in the inventory")


class _Gate:
    """One connection to the last machine of a route, being opened, open, or failed for good."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits    # of the node that asked first
        self.began = time.monotonic()
        self.done = threading.Event()
        self.link: SshConnection | None = None
        self.failure: Failure | None = None
        self.tried: Failure | None = None       # the first of its two tries
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
        """Drops failed and lost connections, and those that the last sweep did not use; `connect` opens."""
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
        TaskFailed, of stage JUMP where a hop is to blame, ConnectionDropped or Expired."""
        gate = self._gate(route, limits)

        def overdue(_: float) -> Failure:
            seconds = time.monotonic() - gate.began
            if gate.tried is not None:
                return gate.tried
            # Less than a connection may take says nothing about the jump host.
            if task.before is not None and seconds < limits.connect_s:
                return task.before
            return Failure(Stage.JUMP, f"{self._stuck(route)}: not connected within {seconds:.3g} s")

        try:
            task.step(task.end - time.monotonic(), overdue)
            # This wait ends: opening has its own deadline, and an aborted task already has its answer.
            gate.done.wait()
            task.check()
            if gate.failure is not None:
                raise TaskFailed(gate.failure.stage, gate.failure.reason, stuck=gate.failure.stuck,
                                 algorithms=gate.failure.algorithms)
            assert gate.link is not None  # noqa: S101  (once done, it is one or the other)
            task.step(limits.hop_s, lambda s: Failure(
                Stage.CONNECT, f"the jump host {route[-1].name} did not connect us to {place(host, port)} "
                               f"within {s:.3g} s"))
            wire = gate.link.tunnel(task, host, port)
        except BaseException:
            self._leave(gate)
            raise
        wire.on_close = lambda: self._leave(gate)
        return wire

    def _stuck(self, route: Route) -> str:
        """The name of the first hop that is not connected yet."""
        with self._lock:
            for number, hop in enumerate(route, 1):
                if not any(gate.done.is_set() for gate in self._gates.get(route[:number], ())):
                    return hop.name
        return route[-1].name

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
                try:
                    threading.Thread(target=self._open, args=(gate, route),
                                     name=f"muster-gate-{route[-1].name}", daemon=True).start()
                except RuntimeError:
                    gate.fail(_no_thread())
            gate.nodes += 1
            gate.asked = True
            return gate

    def _open(self, gate: _Gate, route: Route) -> None:
        found = self._attempt(route, gate.limits)
        if isinstance(found, Failure) and found.stage in _AGAIN and not found.algorithms:
            gate.tried = _on_the_way(found, route)
            time.sleep(RETRY_PAUSE)
            found = self._attempt(route, gate.limits)
        if isinstance(found, Failure):
            gate.fail(_on_the_way(found, route))
            return
        gate.link = found
        gate.done.set()
        _keep_asking(found)

    def _attempt(self, route: Route, limits: Limits) -> SshConnection | Failure:
        """A connection, or why there is none, in time even when a thread hangs in the resolver."""
        answers: queue.SimpleQueue[SshConnection | Failure] = queue.SimpleQueue()
        task = WatchedTask(self._watch, time.monotonic() + len(route) * limits.hop_s, answers.put)
        self._watch.add(task)

        def connect() -> None:
            try:
                link = self._connect(task, route[-1], route[:-1], limits)
            except TaskFailed as refused:
                answers.put(refused.failure)
            except Expired:
                pass        # the watchdog has given the answer
            except Exception as error:  # noqa: BLE001  (a defect of ours must not leave the nodes behind it waiting)
                answers.put(shortage(error) or Failure(
                    Stage.JUMP, f"{route[-1].name}: unexpected {type(error).__name__}: "
                                f"{ascii(str(error))[:150]}"))
            else:
                if task.failure is None:
                    answers.put(link)
                else:
                    link.shut()
            finally:
                task.finish()
        try:
            threading.Thread(target=connect, name=f"muster-jump-{route[-1].name}", daemon=True).start()
        except RuntimeError:
            task.finish()
            return _no_thread()
        return answers.get()


def _on_the_way(found: Failure, route: Route) -> Failure:
    """Wherever the last machine of a route got stuck, for the nodes behind it that was on the way."""
    if found.stage in (Stage.JUMP, Stage.HEAD):
        return found
    return Failure(Stage.JUMP, f"{route[-1].name}: {found.reason}",
                   Stage.JUMP if found.stuck is not None else None, found.algorithms)


def _keep_asking(link: SshConnection) -> None:
    """Ends a connection whose other end has gone, so that no one waits for the nodes behind it."""
    while not link.ends_within(ALIVE_SECONDS):
        if link.silent:
            link.shut()
            return
        # Sending waits where the other end reads nothing, and this thread must not.
        with contextlib.suppress(RuntimeError):     # no free thread: it is asked the next time
            threading.Thread(target=link.keepalive, name="muster-keepalive", daemon=True).start()


def _no_thread() -> Failure:
    return Failure(Stage.HEAD, NO_THREAD, Stage.CONNECT)
