"""The SSH transport: paramiko, strict host keys, keys only, one program a node, every wait with an end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from inventory.errors import ConfigError
from inventory.hostkeys import HostKeyFiles, RevokedKeys
from inventory.model import Node
from inventory.sshconfig import SshConfig, default_config
from inventory.sshroute import SshRoute, TooManyHops, route_for
from inventory.sshtarget import SshTarget
from inventory.transport.base import Failure, Limits, Program, Reply, Stage
from inventory.transport.frame import shell_command
from inventory.transport.jump import Jumps, Route, refuse_command
from inventory.transport.keys import Identities, Keyring, agent_socket
from inventory.transport.link import SshConnection, Trust
from inventory.transport.pool import ConnectionPool
from inventory.transport.retry import with_retries
from inventory.transport.session import Dialogue
from inventory.transport.trust import by_hand
from inventory.transport.watch import NodeJob, TaskFailed, Watchdog, WatchedTask, fan_out
from inventory.transport.wire import ConnectionDropped, TcpStream, dial, place

# How each node was reached in the previous sweep, by name; valid while its inventory entry is unchanged.
Routes: TypeAlias = "dict[str, tuple[Node, SshRoute]]"


class SshTransport:
    """Reaches nodes as the user's ssh would: ssh_config (`config` None: the usual files), agent, key files,
    known_hosts and ProxyJump; no passwords, no ProxyCommand. Host keys are always checked strictly. With
    `keep` connections serve the next sweep, too, until `close`."""

    def __init__(self, config: SshConfig | None = None, *, keep: bool = False) -> None:
        self._config = config
        self._pool = ConnectionPool() if keep else None
        self._jumps = Jumps()
        self._routes: Routes = {}
        self._latest: SshConfig | None = None

    def begin(
        self, program: Program, limits: Limits, watch: Watchdog, nodes: Iterable[Node] = (),
    ) -> SshSweep:
        """One sweep, for `fan_out` to look at nodes with. What would take long for each of `nodes` by itself
        is done here for all. Raises ConfigError for a broken ssh_config file."""
        # A transport that is kept reads the files again, to see edits between sweeps.
        config = (self._config if self._config is not None else SshConfig.load() if self._pool is not None
                  else default_config())
        if config != self._latest:
            self._latest, self._routes = config, {}
        sweep = SshSweep(config, program, limits, watch, self._jumps, self._pool, self._routes)
        sweep.prepare(nodes)
        return sweep

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        """See `Transport.run`. Closing it closes every connection at once. Raises ConfigError as `begin`."""
        nodes = tuple(nodes)
        watch = Watchdog()
        sweep = self.begin(program, limits, watch, nodes)
        try:
            yield from fan_out(nodes, limits, sweep.query, watch, sweep.again)
        finally:
            sweep.close()

    def close(self) -> None:
        """Closes kept connections."""
        if self._pool is not None:
            self._pool.close()
        self._jumps.close()


class SshSweep:
    """What the connections of one sweep share: files and keys, loaded once, and jump hosts."""

    def __init__(
        self, config: SshConfig, program: Program, limits: Limits, watch: Watchdog, jumps: Jumps,
        pool: ConnectionPool | None, routes: Routes,
    ) -> None:
        self._config = config
        self._program = program
        self._limits = limits
        self._keyring = Keyring()
        self._known_hosts = HostKeyFiles()
        self._revoked: dict[str, RevokedKeys] = {}
        self._lock = threading.Lock()
        self._pool = pool
        self._jumps = jumps
        self._routes = routes
        if pool is not None:
            pool.begin()
        jumps.begin(watch, self._connect)

    def close(self) -> None:
        """Ends the connections to jump hosts, unless those through them are kept."""
        if self._pool is None:
            self._jumps.close()

    def again(self) -> None:
        """Second tries follow, over new connections."""
        self._jumps.forget_failures()

    def prepare(self, nodes: Iterable[Node]) -> None:
        """Looks up the nodes in hashed known_hosts files, all at once."""
        hosts: dict[tuple[str, ...], list[tuple[str, int, str | None]]] = {}
        for node in nodes:
            with contextlib.suppress(TaskFailed, OSError):       # its own turn says so
                target = self.route(node).target
                hosts.setdefault(target.known_hosts_files, []).append(
                    (target.hostname, target.port, target.host_key_alias))
        for files, those in hosts.items():
            with contextlib.suppress(OSError):          # so does each turn
                self._known_hosts.of(files).prepare(those, all_lines=False, remember=True)

    def query(self, job: NodeJob) -> bytes | Failure:
        """The answer of one node; raises TaskFailed or Expired."""
        return self.query_by(self.route(job.node), job)

    def query_by(self, found: SshRoute, job: NodeJob) -> bytes | Failure:
        """As `query`, by a route that is known."""
        target, route = found.target, found.hops
        refuse_command(target, route)
        limits = self._limits.of(job.node)
        job.task.extend(len(route) * limits.hop_s)
        link = self._pool.take(target, route) if self._pool is not None else None
        if link is not None:
            job.task.on_abort(link.shut)
            try:
                return self._answer(job, target, route, link, limits, again=True)
            except ConnectionDropped as dropped:
                # That it died between two sweeps is no reason; that a jump host was lost in this one is.
                if dropped.stage is Stage.JUMP:
                    job.task.again(Failure(dropped.stage, dropped.reason, dropped.stage))
        try:
            link = self._connect(job.task, target, route, limits, job)
            return self._answer(job, target, route, link, limits)
        except ConnectionDropped as dropped:
            job.task.again(Failure(dropped.stage, dropped.reason, dropped.stage))
            job.attempts += 1
        try:
            return self._answer(job, target, route, self._connect(job.task, target, route, limits), limits)
        except ConnectionDropped as dropped:
            return Failure(dropped.stage, f"{dropped.reason}, and again after it was opened anew",
                           dropped.stage)

    def _answer(
        self, job: NodeJob, target: SshTarget, route: Route, link: SshConnection, limits: Limits, *,
        again: bool = False,
    ) -> bytes | Failure:
        """The answer over this connection. Raises ConnectionDropped where another may give it: this one was
        dead before it did anything (`again`), or a jump host was lost and a second run does no harm."""
        dialogue = self._dialogue(job.node, target)
        try:
            self._converse(link, dialogue, job, target, route, limits, again=again)
            failure = dialogue.failure
        except TaskFailed as failed:
            failure = failed.failure
        if dialogue.body is not None:
            return dialogue.body
        assert failure is not None  # noqa: S101  (the dialogue is over)
        hop = link.lost_hop if route else None
        if hop is None:
            return failure
        # A command that was sent may have begun, though nothing came back.
        if self._program.repeatable or (failure.stage is Stage.LOGIN and dialogue.sent == 0):
            raise ConnectionDropped(f"{hop}: the connection was lost while the node was at work", Stage.JUMP)
        return Failure(Stage.JUMP, f"{hop}: the connection was lost while the program ran on the node, which "
                                   "does not run it a second time")

    def route(self, node: Node) -> SshRoute:
        """How this node is to be reached; raises TaskFailed."""
        previous = self._routes.get(node.name)
        if previous is not None and previous[0] == node:
            return previous[1]
        try:
            found = route_for(node, self._config)
        except TooManyHops as error:
            raise TaskFailed(Stage.CONNECT, str(error)) from None
        except ConfigError as error:
            raise TaskFailed(Stage.RESOLVE, str(error)) from None
        self._routes[node.name] = node, found
        return found

    def _dialogue(self, node: Node, target: SshTarget) -> Dialogue:
        return Dialogue(self._program.of(node.name), self._limits, python=node.python, become=node.become,
                        by_hand=by_hand(target))

    def _converse(
        self, link: SshConnection, dialogue: Dialogue, job: NodeJob, target: SshTarget, route: Route,
        limits: Limits, *, again: bool = False,
    ) -> None:
        command = shell_command(self._program, job.node.python, become=job.node.become,
                                words=self._program.arguments(job.node))
        if (link.converse(command, dialogue, job, limits, keep=self._pool is not None, again=again)
            and self._pool is not None):
            self._pool.give(target, route, link)

    def _connect(
        self, task: WatchedTask, target: SshTarget, route: Route, limits: Limits, job: NodeJob | None = None,
    ) -> SshConnection:
        """A logged-in connection; raises TaskFailed or Expired."""
        return with_retries(task, lambda: self._try(task, target, route, limits), job)

    def reach(self, task: WatchedTask, target: SshTarget, route: Route, limits: Limits) -> TcpStream:
        """A stream to the server, direct or through jump hosts, before its banner; raises as `_try`."""
        who = place(target.hostname, target.port)
        seconds = min(limits.connect_s, target.connect_timeout or limits.connect_s)
        if route:
            wire = self._jumps.wire(task, route, target.hostname, target.port, limits)
            task.step(seconds, lambda s: _no_response(who, s))
        else:
            wire = dial(task, target.hostname, target.port, seconds, target.address_family)
        try:
            task.on_abort(wire.shut)
            task.step(task.left(), lambda s: _no_response(who, s))
            wire.await_banner(who)
        except BaseException:
            wire.close()
            raise
        return wire

    def _try(self, task: WatchedTask, target: SshTarget, route: Route, limits: Limits) -> SshConnection:
        """A logged-in connection, in one attempt; raises TaskFailed, ConnectionDropped or Expired."""
        wire = self.reach(task, target, route, limits)
        try:
            believed = self._believed(task, target)
        except BaseException:
            wire.close()
            raise
        link = SshConnection(wire, target)
        try:
            link.open(task, believed, limits)
        except TaskFailed as failed:
            link.shut()
            if (hop := wire.lost_hop()) is not None:
                raise ConnectionDropped(f"{hop}: the connection was lost", Stage.JUMP) from None
            raise failed
        except BaseException:
            link.shut()
            raise
        return link

    def _believed(self, task: WatchedTask, target: SshTarget) -> Trust:
        """What is believed of the machine that this task connects to."""
        return self._trust(target)

    def _trust(self, target: SshTarget) -> Trust:
        known_hosts, revoked = self._known_hosts.of(target.known_hosts_files), target.revoked_host_keys
        with self._lock:
            if revoked is not None and revoked not in self._revoked:
                self._revoked[revoked] = RevokedKeys(revoked)
            bad = None if revoked is None else self._revoked[revoked]
        return Trust(known_hosts, bad, lambda: self._identities(target))

    def _identities(self, target: SshTarget) -> Identities:
        agent = agent_socket(target.identity_agent)
        return self._keyring.identities(target.identity_files, agent, only_files=target.identities_only)


def _no_response(who: str, seconds: float) -> Failure:
    return Failure(Stage.CONNECT, f"{who} accepted the connection, then sent nothing for {seconds:.3g} s (a "
                                  "hung sshd, or no sshd at all)")
