"""Fetches all host keys of servers, each proven by its own key exchange, without logging in."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from inventory.errors import ConfigError
from inventory.hostkeys import key_type
from inventory.model import Node, Via
from inventory.sshconfig import SshConfig
from inventory.sshneeds import HOST_KEYS
from inventory.sshtarget import SshTarget
from inventory.transport.base import Failure, Limits, Program, Stage
from inventory.transport.jump import Route, route_to
from inventory.transport.link import SshConnection
from inventory.transport.openssh_config import inventory_options
from inventory.transport.retry import with_retries
from inventory.transport.ssh import SshSweep, SshTransport
from inventory.transport.watch import NodeJob, TaskFailed, Watchdog, WatchedTask, fan_out
from inventory.transport.wire import place

_NOTHING = Program("", "", b"")     # no program is run on the nodes, nor on the jump hosts


@dataclass(frozen=True)
class Scan:
    """One server's host keys in wire form, one of each type, and whether it has certificates; or a failure.
    Each key comes from its own connection: one right key proves nothing of others."""

    node: str
    keys: tuple[bytes, ...] = ()
    certified: bool = False
    failure: Failure | None = None


def scan(
    nodes: Iterable[Node], targets: Mapping[str, SshTarget], config: SshConfig, limits: Limits,
) -> Iterator[Scan]:
    """One scan per node, as each is known, all by `limits.sweep_s`; `targets` are addresses by name. Logs in
    to jump hosts, which must be known as in a sweep."""
    watch = Watchdog()
    transport = SshTransport(config)
    sweep = transport.begin(_NOTHING, limits, watch)
    scanner = _Scanner(sweep, targets, config, limits)
    try:
        for reply in fan_out(nodes, limits, scanner.query, watch, sweep.again):
            if reply.failure is not None:
                yield Scan(reply.node, failure=reply.failure)
            else:
                yield scanner.found[reply.node]
    finally:
        transport.close()


class _Scanner:
    def __init__(
        self, sweep: SshSweep, targets: Mapping[str, SshTarget], config: SshConfig, limits: Limits,
    ) -> None:
        self._sweep = sweep
        self._targets = targets
        self._config = config
        self._limits = limits
        self.found: dict[str, Scan] = {}

    def query(self, job: NodeJob) -> bytes:
        """Leaves the keys of one node in `found`."""
        target = self._targets[job.node.name]
        if (job.node.transport is not Via.PARAMIKO and target.proxy_command is not None
            and target.proxy_jump is None):
            raise TaskFailed(Stage.CONNECT, f"ssh_config reaches {job.node.name} by a ProxyCommand, which "
                                         "muster does not run; compare with the node's console, then pin it "
                                         f"with: {_by_hand(job.node)}")
        try:
            route = route_to(target, job.node, self._config)
        except ConfigError as error:
            raise TaskFailed(Stage.RESOLVE, str(error)) from None
        limits = self._limits.of(job.node)
        job.task.extend(len(route) * limits.hop_s)
        keys: dict[str, bytes] = {}
        wanted: tuple[str, ...] = HOST_KEYS
        certified = False
        while wanted:
            blob, offered = with_retries(
                job.task, lambda: self._exchange(job.task, target, route, wanted, limits), job)  # noqa: B023
            job.task.before = None      # what kept this key back says nothing of the next
            chosen = next((_type(name) for name in wanted if name in offered), "")
            if key_type(blob) != chosen:
                raise TaskFailed(Stage.HOST_KEY, f"{place(target.hostname, target.port)} shows a key of "
                                                 "another type than announced")
            keys[chosen] = blob
            certified = certified or any("-cert-" in name for name in offered)
            wanted = tuple(name for name in wanted if name in offered and _type(name) not in keys)
        self.found[job.node.name] = Scan(job.node.name, tuple(keys.values()), certified)
        return b""

    def _exchange(
        self, task: WatchedTask, target: SshTarget, route: Route, wanted: tuple[str, ...], limits: Limits,
    ) -> tuple[bytes, tuple[str, ...]]:
        link = SshConnection(self._sweep.reach(task, target, route, limits), target)
        try:
            return link.exchange(task, wanted, limits), link.algorithms
        finally:
            link.shut()


def _by_hand(node: Node) -> str:
    return shlex.join(["ssh", "-o", "StrictHostKeyChecking=ask", *inventory_options(node), node.name,
                       "true"])


def _type(algorithm: str) -> str:
    return "ssh-rsa" if algorithm.startswith("rsa-sha2-") else algorithm
