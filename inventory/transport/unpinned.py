"""Runs a program on one node whose host key no file holds: the shown key is taken for this connection, not
pinned. The login is by public key, which signs this connection's identifier and is worth nothing elsewhere.
Machines on the way must be known as in a sweep, and a revoked key is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

from inventory.model import Node
from inventory.sshconfig import SshConfig, default_config
from inventory.sshtarget import SshTarget
from inventory.transport.base import Failure, Limits, Program, Reply
from inventory.transport.jump import Jumps, Route
from inventory.transport.link import SshConnection, Trust
from inventory.transport.ssh import SshSweep
from inventory.transport.watch import NodeJob, Watchdog, WatchedTask, fan_out


@dataclass(frozen=True)
class UnpinnedReply:
    """What came back, and the host keys, in wire form, that the node has proven within that connection."""

    reply: Reply
    host_keys: tuple[bytes, ...] = ()


def run_unpinned(
    node: Node, program: Program, limits: Limits, config: SshConfig | None = None,
) -> UnpinnedReply:
    """One program on one node. Raises ConfigError for a broken ssh_config."""
    watch = Watchdog()
    sweep = _UnpinnedSweep(
        config if config is not None else default_config(), program, limits, watch, Jumps(), None, {})
    try:
        sweep.prepare([node])
        (reply,) = fan_out([node], limits, sweep.query, watch, sweep.again)
    finally:
        sweep.close()
    return UnpinnedReply(reply, sweep.host_keys if reply.failure is None else ())


class _UnpinnedSweep(SshSweep):
    """Of one node. A jump host has a task of its own, and no key of one is taken."""

    host_keys: tuple[bytes, ...] = ()
    _task: WatchedTask | None = None

    def query(self, job: NodeJob) -> bytes | Failure:
        self._task = job.task
        return super().query(job)

    def _believed(self, task: WatchedTask, target: SshTarget) -> Trust:
        return replace(super()._believed(task, target), unpinned=task is self._task)

    def _try(self, task: WatchedTask, target: SshTarget, route: Route, limits: Limits) -> SshConnection:
        link = super()._try(task, target, route, limits)
        if task is self._task:
            try:
                self.host_keys = link.proven_keys(task, limits)
            except BaseException:
                link.shut()
                raise
        return link
