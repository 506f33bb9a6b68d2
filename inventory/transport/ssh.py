"""The SSH transport: paramiko below, strict host keys, keys only,
one connection and one program per node, every wait with an end."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from inventory.errors import ConfigError
from inventory.hostkeys import KnownHosts, RevokedKeys
from inventory.model import Node
from inventory.sshconfig import SshConfig, SshTarget, default_config, target_for
from inventory.transport.base import Failure, Limits, Program, Reply, Stage
from inventory.transport.frame import shell_command
from inventory.transport.jump import Jumps, Route, route_to
from inventory.transport.keys import Identities, Keyring, agent_socket
from inventory.transport.link import SshConnection, Trust
from inventory.transport.pool import ConnectionPool
from inventory.transport.retry import with_retries
from inventory.transport.session import Dialogue
from inventory.transport.trust import by_hand
from inventory.transport.watch import NodeJob, TaskFailed, Watchdog, WatchedTask, fan_out
from inventory.transport.wire import ConnectionDropped, TcpStream, dial, place

# How each node was reached in the previous sweep, by name; valid while its inventory entry is unchanged.
Routes: TypeAlias = "dict[str, tuple[Node, SshTarget, Route]]"


class SshTransport:
    """Reaches nodes as the user's ssh would: ssh_config, agent, key files, known_hosts and ProxyJump;
    no passwords, no ProxyCommand.

    `config` None: ~/.ssh/config and /etc/ssh/ssh_config. Host keys are always checked strictly, whatever the
    configuration says. With `keep` connections live on after a sweep and serve the next one, until `close`.
    """

    def __init__(self, config: SshConfig | None = None, *, keep: bool = False) -> None:
        self._config = config
        self._pool = ConnectionPool() if keep else None
        self._jumps = Jumps()
        self._routes: Routes = {}
        self._latest: SshConfig | None = None

    def begin(self, program: Program, limits: Limits, watch: Watchdog) -> SshSweep:
        """One sweep, for `fan_out` to look at nodes with. Raises ConfigError for a broken ssh_config file."""
        # A transport that is kept reads the files again, to see edits between sweeps.
        config = (self._config if self._config is not None else SshConfig.load() if self._pool is not None
                  else default_config())
        if config != self._latest:
            self._latest, self._routes = config, {}
        return SshSweep(config, program, limits, watch, self._jumps, self._pool, self._routes)

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        """See `Transport.run`. Closing the iterator closes every connection in use at once.
        Raises ConfigError as `begin`."""
        watch = Watchdog()
        sweep = self.begin(program, limits, watch)
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
        self._known_hosts: dict[tuple[str, ...], KnownHosts] = {}
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

    def query(self, job: NodeJob) -> bytes | Failure:
        """The answer of one node; raises TaskFailed or Expired."""
        node = job.node
        limits = self._limits.of(node)
        target, route = self._route_of(node)
        job.task.extend(len(route) * limits.hop_s)
        dialogue = self._dialogue(node, target)
        link = self._pool.take(target, route) if self._pool is not None else None
        try:
            if link is None:
                link = self._connect(job.task, target, route, limits, job)
                self._converse(link, dialogue, job, target, route, limits)
            else:
                job.task.on_abort(link.shut)
                self._converse(link, dialogue, job, target, route, limits, again=True)
        except ConnectionDropped:
            dialogue = self._dialogue(node, target)
            link = self._connect(job.task, target, route, limits, job)
            self._converse(link, dialogue, job, target, route, limits)
        if dialogue.body is not None:
            return dialogue.body
        assert dialogue.failure is not None  # noqa: S101  (the dialogue is over)
        return dialogue.failure

    def _route_of(self, node: Node) -> tuple[SshTarget, Route]:
        previous = self._routes.get(node.name)
        if previous is not None and previous[0] == node:
            return previous[1], previous[2]
        try:
            target = target_for(node, self._config)
            route = route_to(target, node, self._config)
        except ConfigError as error:
            raise TaskFailed(Stage.RESOLVE, str(error)) from None
        if self._pool is not None:
            self._routes[node.name] = node, target, route
        return target, route

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
        """A stream to the server, directly or through jump hosts, with its banner to be read next;
        raises as `_try`."""
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
            believed = self._trust(target)
        except BaseException:
            wire.close()
            raise
        link = SshConnection(wire, target)
        try:
            link.open(task, believed, limits)
        except BaseException:
            link.shut()
            raise
        return link

    def _trust(self, target: SshTarget) -> Trust:
        files, revoked = target.known_hosts_files, target.revoked_host_keys
        with self._lock:
            if files not in self._known_hosts:
                self._known_hosts[files] = KnownHosts(files)
            if revoked is not None and revoked not in self._revoked:
                self._revoked[revoked] = RevokedKeys(revoked)
            known_hosts, bad = self._known_hosts[files], None if revoked is None else self._revoked[revoked]
        return Trust(known_hosts, bad, lambda: self._identities(target))

    def _identities(self, target: SshTarget) -> Identities:
        agent = agent_socket(target.identity_agent)
        return self._keyring.identities(target.identity_files, agent, only_files=target.identities_only)


def _no_response(who: str, seconds: float) -> Failure:
    return Failure(Stage.CONNECT, f"{who} accepted the connection, then sent nothing for {seconds:.3g} s (a "
                                  "hung sshd, or no sshd at all)")
