"""The system's ssh as a transport: one child per node, so that everything the user's ssh can do
(certificates, GSSAPI, FIDO keys, ProxyCommand, Match exec, CanonicalizeHostname) works as it does by hand.
Costs more CPU here than paramiko, and a process per node in work.

Whatever the user's configuration: host keys are checked strictly, and ssh asks, forwards and runs nothing but
our command (`openssh_config`). Another program's ControlMaster is not used for a node, as its host key was
checked by other rules; for a jump host it is, so that one with a second factor can be opened by hand.
"""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from inventory.errors import ConfigError
from inventory.model import Node
from inventory.sshconfig import SYSTEM_CONFIG, SshConfig
from inventory.sshjump import Hop, parse_jump
from inventory.sshtarget import DEFAULT_GLOBAL_KNOWN_HOSTS, own_known_hosts
from inventory.transport.base import Failure, Limits, Program, Reply, Stage
from inventory.transport.frame import shell_command
from inventory.transport.mux import MuxError, MuxSession
from inventory.transport.openssh_config import (
    SILENT_S,
    Configs,
    global_files,
    inventory_options,
    quoted,
    version,
)
from inventory.transport.openssh_follower import MASTER_SECONDS, LogFollower, SharedOutput, Stale, Way
from inventory.transport.openssh_hops import HopProbes
from inventory.transport.openssh_masters import Masters
from inventory.transport.pipes import close_process, converse, kill_group, spawn
from inventory.transport.retry import with_retries
from inventory.transport.session import Dialogue, no_session
from inventory.transport.watch import NodeJob, TaskFailed, Watchdog, fan_out
from inventory.transport.wire import ConnectionDropped, place

MOST_HOPS = 8


class OpensshTransport:
    """Reaches nodes with the ssh of this machine. `config_files` None: ~/.ssh/config, then
    /etc/ssh/ssh_config. With `keep`, the seconds between two sweeps, connections serve the next one, until
    `close` or a little over two intervals. Needs Linux's /proc and OpenSSH 7.4."""

    def __init__(self, config_files: Iterable[Path] | None = None, *, keep: float | None = None) -> None:
        self._files = (tuple(config_files) if config_files is not None
                       else (Path("~/.ssh/config").expanduser(), SYSTEM_CONFIG))
        self._masters = None if keep is None else Masters(keep)

    def begin(
        self, program: Program, limits: Limits, watch: Watchdog, nodes: Iterable[Node] = (),
    ) -> OpenSshSweep:
        """One sweep, for `fan_out` to look at nodes with."""
        return OpenSshSweep(self._files, program, limits, self._masters)

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        """See `Transport.run`. Closing the iterator ends every ssh at once."""
        watch = Watchdog()
        sweep = self.begin(program, limits, watch)
        try:
            yield from fan_out(nodes, limits, sweep.query, watch, sweep.again)
        finally:
            sweep.close()

    def close(self) -> None:
        """Closes kept connections."""
        if self._masters is not None:
            self._masters.close()


class OpenSshSweep:
    """State that the ssh processes of one sweep share."""

    def __init__(
        self, files: tuple[Path, ...], program: Program, limits: Limits, masters: Masters | None,
    ) -> None:
        self._program = program
        self._limits = limits
        self._masters = masters
        self._ssh = shutil.which("ssh") or ""
        self._version = version(self._ssh) if self._ssh else (0, 0)
        self._configs = Configs(files, self._version, limits)
        self._ours = _read(files)
        # No window may ask for a password.
        self._environment = {key: value for key, value in os.environ.items()
                             if key not in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_ASKPASS")}
        self._environment["SSH_ASKPASS_REQUIRE"] = "never"
        self._probes = HopProbes(self._ssh, self._environment)

    def close(self) -> None:
        """Closes what the sweep opened and does not keep."""
        self._probes.close()
        self._configs.close()

    def again(self) -> None:
        """Second tries follow; each ssh is new anyhow."""
        self._probes.forget_failures()

    def query(self, job: NodeJob) -> bytes | Failure:
        """The answer of one node; raises TaskFailed or Expired."""
        limits = self._limits.of(job.node)
        if not self._ssh:
            raise TaskFailed(Stage.HEAD,
                             "this machine has no ssh; install it (apt-get install openssh-client), or reach "
                                         "the node with `transport: paramiko`")
        hops = self._hops(job.node)
        job.task.extend(len(hops) * limits.hop_s)
        options = self._options(job.node, limits, hops, SILENT_S)
        patient = self._options(job.node, limits, hops, max(SILENT_S, limits.hop_s)) if hops else options
        master = self._masters.path([job.node.name, *options]) if self._masters is not None else None
        if job.first is not None and self._masters is not None and master is not None:
            # The first try's may still be there, and is stuck.
            self._masters.drop(master)
            master = self._masters.path([job.node.name, *options])
        way = Way(hops, limits)

        def attempt() -> bytes | Failure:
            nonlocal master
            # Hops that were looked at are slow, not gone.
            words = options if way.logins_s is None else patient
            try:
                return self._try(job, words, master, way)
            except Stale:
                assert self._masters is not None and master is not None  # noqa: S101  (only they can be stale)
                self._masters.drop(master)
                master = None
            return self._try(job, words, None, way)

        return with_retries(job.task, lambda: self._through(job, patient[1], way, attempt), job)

    def _through(
        self, job: NodeJob, config: str, way: Way, attempt: Callable[[], bytes | Failure],
    ) -> bytes | Failure:
        """What `attempt` gives, unless a jump host failed and not the node: then that is named. Where all of
        them let us in, the node is tried once more."""
        dropped = False
        try:
            outcome = attempt()
        except TaskFailed as failed:
            outcome = failed.failure
        except ConnectionDropped as lost:
            outcome, dropped = Failure(lost.stage, lost.reason, lost.stage), True
        if isinstance(outcome, bytes):
            return outcome
        # What a lone hop could not connect to is the node itself.
        node_s = way.refused and len(way.hops) == 1
        if way.hops and not node_s and (way.doubtful or outcome.stage is Stage.JUMP):
            examined = config, way.hops, way.limits.connect_s + way.limits.auth_s
            # Until it is known whether a hop failed or the node, nothing is known of the node.
            seen = replace(outcome, stage=Stage.JUMP)
            job.task.final = began = way.sent and not self._program.repeatable

            def overdue(_: float) -> Failure:
                hop, seconds = self._probes.under_way(*examined)
                # Less than a connection may take says nothing about the hop: the failure looked into stays.
                return seen if seconds < way.limits.connect_s else Failure(
                    Stage.JUMP, f"{hop}: not connected within {seconds:.3g} s")

            job.task.step(job.task.end - time.monotonic(), overdue)
            try:
                culprit = self._probes.culprit(*examined)
            except ConnectionDropped as full:
                if began:
                    return Failure(full.stage, full.reason)
                raise
            job.task.check()
            if culprit is not None:
                return replace(culprit, stuck=None) if began else culprit
            way.logins_s = self._probes.seconds_of(*examined)
        on_the_way = outcome.stage is Stage.JUMP or (way.doubtful and bool(way.hops) and not way.refused)
        if on_the_way and not way.again and (self._program.repeatable or not way.sent):
            way.again = dropped = True
        if dropped:
            raise ConnectionDropped(outcome.reason, outcome.stage)
        return outcome

    def _options(self, node: Node, limits: Limits, hops: tuple[Hop, ...], silent_s: float) -> list[str]:
        """The inventory's settings as options of ssh, and the configuration, by which hops count as gone
        after `silent_s` without a sign of life. Raises TaskFailed."""
        own, theirs = own_known_hosts(), self._machine_files(node)
        given = node.given_limits.connect is not None
        if hops:
            config = self._configs.path(node.identity_file, (own, *node.known_hosts_file),
                                        tuple(dict.fromkeys(hop.host for hop in hops)), self._hop_files(hops),
                                        connect_s=limits.connect_s, hop_s=limits.hop_s, given=given,
                                        silent_s=silent_s, auth_s=limits.auth_s)
        else:
            config = self._configs.path(known_hosts=() if node.known_hosts_file else (own,),
                                        connect_s=limits.connect_s, given=given, auth_s=limits.auth_s)
        options = ["-F", config, *inventory_options(node)]
        # What `config` adds holds where ssh_config says nothing, and for the machines on the way.
        if node.known_hosts_file and hops and theirs is None:
            options += ["-o", global_files(DEFAULT_GLOBAL_KNOWN_HOSTS)]
        if not node.known_hosts_file and theirs is not None:
            options += ["-o", global_files((*theirs, own))]
        if node.known_hosts_file:
            tokens = self._version >= (8, 4)
            options += ["-o",
                        "UserKnownHostsFile=" + " ".join(quoted(path, tokens=tokens)
                                                         for path in node.known_hosts_file)]
        for path in node.identity_file:
            options += ["-o", f"IdentityFile={quoted(path)}"]
        return options

    def _machine_files(self, node: Node) -> tuple[str, ...] | None:
        """The GlobalKnownHostsFile of ssh_config for a node, as far as we can read it."""
        with suppress(ConfigError):
            if self._ours is not None:
                return self._ours.lookup(node.name, address=node.address, user=node.user,
                                         port=node.port).global_known_hosts_files
        return None

    def _hop_files(self, hops: tuple[Hop, ...]) -> dict[str, tuple[str, ...]]:
        """The GlobalKnownHostsFile of ssh_config for machines on the way, where named and readable."""
        found: dict[str, tuple[str, ...]] = {}
        if self._ours is not None:
            for hop in hops:
                with suppress(ConfigError):
                    files = self._ours.lookup(hop.host, user=hop.user, port=hop.port).global_known_hosts_files
                    if files is not None:
                        found[hop.host] = files
        return found

    def _hops(self, node: Node) -> tuple[Hop, ...]:
        """The node's jump hosts, nearest to us first, as far as we can read the configuration. Raises
        TaskFailed for an invalid or endless route: ssh would start itself again and again."""
        jump = node.proxy_jump
        route: tuple[Hop, ...] = ()
        try:
            if jump is None and self._ours is not None:
                jump = self._ours.lookup(node.name, address=node.address, user=node.user,
                                         port=node.port).proxy_jump
            while jump is not None and jump.lower() != "none":
                route = (*parse_jump(jump), *route)
                if len(route) > MOST_HOPS:
                    raise TaskFailed(Stage.CONNECT, f"over {MOST_HOPS} jump hosts on the way; does "
                                                    f"ssh_config send {route[0].host} through itself?")
                jump = (None if self._ours is None
                        else self._ours.lookup(route[0].host, user=route[0].user,
                                               port=route[0].port).proxy_jump)
        except ConfigError as error:
            if node.proxy_jump is not None:
                raise TaskFailed(Stage.RESOLVE, str(error)) from None
        return route

    def _try(
        self, job: NodeJob, options: list[str], master: str | None, way: Way,
    ) -> bytes | Failure:
        node = job.node
        dialogue = Dialogue(self._program.of(node.name), way.limits, python=node.python, become=node.become,
                            by_hand=shlex.join(["ssh", *inventory_options(node), node.name]))
        command = shell_command(self._program, node.python, become=node.become,
                                words=self._program.arguments(node))
        if master is not None and Path(master).exists():
            self._share(job, dialogue, master, command, way)
        else:
            self._start(job, dialogue, options, master, command, way)
        if dialogue.body is not None:
            return dialogue.body
        assert dialogue.failure is not None  # noqa: S101  (the dialogue is over)
        return dialogue.failure

    def _share(
        self, job: NodeJob, dialogue: Dialogue, master: str, command: str, way: Way,
    ) -> None:
        """Uses a kept connection; raises Stale if that is dead."""
        limits = way.limits
        seconds = min(MASTER_SECONDS, limits.connect_s)
        who = place(job.node.address or job.node.name, job.node.port or 22)
        job.task.step(3 * seconds + limits.login_s, lambda s: no_session(who, s))
        try:
            session = MuxSession(master, command, seconds)
        except MuxError:
            job.task.check()
            raise Stale from None
        try:
            job.task.step(limits.login_s, dialogue.timed_out)
            converse(job, dialogue, session, limits, SharedOutput(dialogue, who, session))
        finally:
            way.sent, way.doubtful = way.sent or dialogue.sent > 0, session.lost
            session.close()
            if dialogue.body is None and self._masters is not None:
                self._masters.drop(master)

    def _start(
        self, job: NodeJob, dialogue: Dialogue, options: list[str], master: str | None, command: str,
        way: Way,
    ) -> None:
        """Starts an ssh, which may leave a connection behind that is kept."""
        node = job.node
        succeeded = False
        process = None
        handler = LogFollower(dialogue, job, way, self._configs, master is not None)
        try:
            argv = [self._ssh, *options, "-E", handler.path, "-o", "LogLevel=DEBUG1", "-T",
                    *self._sharing(master), "--", node.name, command]
            try:
                process = spawn(argv, self._environment)
            except OSError as error:
                raise TaskFailed(Stage.HEAD,
                                 f"cannot run ssh: {error.strerror}; try a smaller --fanout?",
                                 stuck=Stage.CONNECT) from None
            job.task.on_abort(lambda: kill_group(process))
            converse(job, dialogue, process, way.limits, handler)
            succeeded = dialogue.body is not None
        finally:
            way.doubtful, way.refused = handler.through, handler.refused
            way.sent = way.sent or dialogue.sent > 0
            handler.close()
            if process is not None:
                close_process(process, kill=not succeeded)
            if (master is not None and self._masters is not None and not succeeded
                and job.task.failure is not None):
                # It timed out: the next sweep must not start with this connection.
                self._masters.drop(master)

    def _sharing(self, master: str | None) -> list[str]:
        if master is None or self._masters is None:
            return ["-o", "ControlMaster=no", "-o", "ControlPath=none"]
        return ["-o", "ControlMaster=auto", "-o", f"ControlPath={master}", "-o",
                f"ControlPersist={self._masters.seconds}"]


def _read(files: tuple[Path, ...]) -> SshConfig | None:
    """Our own reading of the files; None where they are broken, which ssh then reports itself."""
    try:
        return SshConfig(tuple(lines for path in files if path.exists()
                               for lines in SshConfig.load(path, None).files))
    except (ConfigError, OSError):
        return None
