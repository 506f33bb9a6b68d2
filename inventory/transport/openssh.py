"""The system's ssh as a transport: one child per node, so that everything the user's ssh can do
(certificates, GSSAPI, FIDO keys, ProxyCommand, Match exec, CanonicalizeHostname) works as it does by hand.
Costs more CPU here than paramiko, and a process per node in work.

Whatever the user's configuration: host keys are checked strictly, and ssh asks, forwards and runs nothing but
our command (`openssh_config`). Another program's ControlMaster is not used for a node, as its host key was
checked by other rules; for a jump host it is, so that one with a second factor can be opened by hand.
"""

from __future__ import annotations

import hashlib
import math
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from inventory.errors import ConfigError
from inventory.model import Node
from inventory.sshconfig import SYSTEM_CONFIG, SshConfig
from inventory.sshjump import Hop, parse_jump
from inventory.sshtarget import DEFAULT_GLOBAL_KNOWN_HOSTS, own_known_hosts
from inventory.transport.base import Failure, Limits, Program, Reply, Stage
from inventory.transport.frame import shell_command
from inventory.transport.mux import MuxError, MuxSession
from inventory.transport.openssh_config import SILENT_S, Configs, global_files, quoted, version
from inventory.transport.openssh_hops import HopProbes
from inventory.transport.openssh_log import OpenSshLog, Reached
from inventory.transport.pipes import OutputHandler, close_process, converse, kill_group, spawn
from inventory.transport.retry import with_retries
from inventory.transport.session import Dialogue, no_session
from inventory.transport.watch import NodeJob, TaskFailed, Watchdog, fan_out
from inventory.transport.wire import ConnectionDropped, place

MOST_HOPS = 8
MOST_MASTERS = 512          # connections kept between sweeps: a process each
_LONGEST_MASTER = 15 * 60   # seconds that a kept connection may outlive us, should we be killed
_MASTER_SECONDS = 5.0       # for a kept connection to open a session, before a new one is made
_CLOSE_SECONDS = 10.0       # for ending all that is kept
_CLOSERS = 8


class _Stale(Exception):
    """A shared connection failed; a new one may work, or will show why not."""


class OpensshTransport:
    """Reaches nodes with the ssh of this machine. `config_files` None: ~/.ssh/config, then
    /etc/ssh/ssh_config. With `keep`, the seconds between two sweeps, connections serve the next one, until
    `close` or a little over two intervals. Needs Linux's /proc and OpenSSH 7.4."""

    def __init__(self, config_files: Iterable[Path] | None = None, *, keep: float | None = None) -> None:
        self._files = (tuple(config_files) if config_files is not None
                       else (Path("~/.ssh/config").expanduser(), SYSTEM_CONFIG))
        self._masters = None if keep is None else _Masters(keep)

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
        self, files: tuple[Path, ...], program: Program, limits: Limits, masters: _Masters | None,
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
        way = _Way(hops, limits)

        def attempt() -> bytes | Failure:
            nonlocal master
            # Hops that were looked at are slow, not gone.
            words = options if way.logins_s is None else patient
            try:
                return self._try(job, words, master, way)
            except _Stale:
                assert self._masters is not None and master is not None  # noqa: S101  (only they can be stale)
                self._masters.drop(master)
                master = None
            return self._try(job, words, None, way)

        return with_retries(job.task, lambda: self._through(job, patient[1], way, attempt), job)

    def _through(
        self, job: NodeJob, config: str, way: _Way, attempt: Callable[[], bytes | Failure],
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
        options = ["-F", config, *_inventory_options(node)]
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
        self, job: NodeJob, options: list[str], master: str | None, way: _Way,
    ) -> bytes | Failure:
        node = job.node
        dialogue = Dialogue(self._program.of(node.name), way.limits, python=node.python, become=node.become,
                            by_hand=shlex.join(["ssh", *_inventory_options(node), node.name]))
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
        self, job: NodeJob, dialogue: Dialogue, master: str, command: str, way: _Way,
    ) -> None:
        """Uses a kept connection; raises _Stale if that is dead."""
        limits = way.limits
        seconds = min(_MASTER_SECONDS, limits.connect_s)
        who = place(job.node.address or job.node.name, job.node.port or 22)
        job.task.step(3 * seconds + limits.login_s, lambda s: no_session(who, s))
        try:
            session = MuxSession(master, command, seconds)
        except MuxError:
            job.task.check()
            raise _Stale from None
        try:
            job.task.step(limits.login_s, dialogue.timed_out)
            converse(job, dialogue, session, limits, _SharedOutput(dialogue, who, session))
        finally:
            way.sent, way.doubtful = way.sent or dialogue.sent > 0, session.lost
            session.close()
            if dialogue.body is None and self._masters is not None:
                self._masters.drop(master)

    def _start(
        self, job: NodeJob, dialogue: Dialogue, options: list[str], master: str | None, command: str,
        way: _Way,
    ) -> None:
        """Starts an ssh, which may leave a connection behind that is kept."""
        node = job.node
        succeeded = False
        process = None
        handler = _LogFollower(dialogue, job, way, self._configs, master is not None)
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


@dataclass
class _Way:
    """The jump hosts before one node, and what its attempts showed: whether the last one failed as it does
    where a hop failed (`doubtful`), whether a living hop could not connect further (`refused`), whether the
    node was tried again, whether anything was sent to a program there, and how long the hops took to let us
    in, once that was looked at."""

    hops: tuple[Hop, ...]
    limits: Limits      # the node's
    doubtful: bool = False
    refused: bool = False
    again: bool = False
    sent: bool = False
    logins_s: float | None = None


class _SharedOutput(OutputHandler):
    """For a session on a kept connection: its loss is not the program's end."""

    def __init__(self, dialogue: Dialogue, who: str, session: MuxSession) -> None:
        super().__init__(dialogue)
        self._who = who
        self._session = session

    def ended(self, exit_status: int | None) -> None:
        if self._session.lost:
            self.dialogue.lost(self._who)
        else:
            self.dialogue.ended(exit_status)


class _LogFollower(OutputHandler):
    """Follows ssh's log to know its stage, and limits the time of each stage."""

    def __init__(
        self, dialogue: Dialogue, job: NodeJob, way: _Way, configs: Configs, shared: bool,
    ) -> None:
        super().__init__(dialogue)
        self._job = job
        self._limits = limits = way.limits
        self._configs = configs
        self._shared = shared
        self._first = not way.again
        self._logins_s = way.logins_s
        self._cut = False       # the connection ended, not the program
        self._hops = max(1, len(way.hops))      # a ProxyCommand is one
        self._route = (f"the jump host{'s' if len(way.hops) > 1 else ''} "
                         f"{', '.join(hop.host for hop in way.hops)}")
        self._log = OpenSshLog(place(job.node.address or job.node.name, job.node.port or 22))
        self._end = time.monotonic() + limits.connect_s
        job.task.step(limits.connect_s, self._overdue)
        try:
            self.log, self._writer = os.pipe()
        except OSError as error:
            raise TaskFailed(Stage.HEAD, f"this machine has no free pipe ({error.strerror}); try a "
                                         "smaller --fanout", stuck=Stage.CONNECT) from None
        os.set_blocking(self.log, False)
        # ssh closes inherited files, so it opens the pipe by name. The pipe ends with us.
        self.path = f"/proc/{os.getpid()}/fd/{self._writer}"

    def close(self) -> None:
        """Closes our ends. A connection that is kept goes on without a log."""
        self._close_writer()
        if self.log is not None:
            os.close(self.log)
            self.log = None

    def logged(self, data: bytes) -> None:
        self._close_writer()
        if self._log.feed(data):
            self._next_stage()
        self._bounded()

    def errors(self, data: bytes) -> None:
        # Before the session this is not the program's output but a login banner or the proxy's.
        if self._log.reached in (Reached.MASTER, Reached.LOGIN, Reached.RUNNING):
            self.dialogue.errors(data)
        else:
            self._log.stderr(data)
            self._bounded()

    def timed_out_waiting(self) -> None:
        if self._log.reached is Reached.BANNER:
            raise TaskFailed(Stage.CONNECT, f"{self._log.proxy} did not connect us to {self._log.who} within "
                                            f"{self._limits.connect_s:.3g} s{self._log.hint}")
        raise _Stale

    @property
    def refused(self) -> bool:
        """Whether a living jump host could not connect to what comes next."""
        return self._log.refused

    @property
    def through(self) -> bool:
        """Whether it ended as it does where a machine on the way failed."""
        return self._log.through or (self._cut and self._log.proxy is not None)

    def ended(self, exit_status: int | None) -> None:
        log, dialogue = self._log, self.dialogue
        if (log.reached is Reached.MASTER
            or (self._shared and log.proxy is not None and log.reached <= Reached.BANNER)):
            # When the connection is to be kept, ssh hides why it failed.
            raise _Stale
        cut = self._cut = exit_status == 255 and not log.exited and (log.own or log.troubled)
        if log.reached < Reached.RUNNING or (cut and dialogue.stage is Stage.LOGIN):
            verdict = log.verdict(self._job.node.name)
            reason = self._configs.named(verdict.reason)
            if verdict.again:
                raise ConnectionDropped(reason)
            raise TaskFailed(verdict.stage, reason, stuck=verdict.stuck)
        if cut:
            dialogue.lost(log.who)
        else:
            dialogue.ended(exit_status)

    def _close_writer(self) -> None:
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def _bounded(self) -> None:
        if self._log.flooded and self._log.reached < Reached.RUNNING:
            stage = Stage.AUTH if self._log.reached >= Reached.AUTH else Stage.CONNECT
            raise TaskFailed(stage, f"{self._log.who} floods the connection instead of letting us in")

    def _next_stage(self) -> None:
        reached = self._log.reached
        self.deadline = (time.monotonic() + min(_MASTER_SECONDS, self._limits.connect_s)
                         if reached is Reached.MASTER else None)
        seconds = max(0.0, self._end - time.monotonic())
        if reached is Reached.BANNER and self._log.proxy is not None:
            seconds = self._hops * self._limits.hop_s
            if self._log.jumps and self._first:
                # Look for the hop that hangs while there is time to name it.
                self.deadline = time.monotonic() + self._limits.connect_s
            elif self._logins_s is not None:
                # The hops were well a moment ago; they may take twice as long as then.
                seconds = min(seconds, 2 * self._logins_s + self._limits.connect_s)
        elif reached is Reached.EXCHANGE:
            seconds = self._limits.connect_s
        elif reached is Reached.AUTH:
            seconds = self._limits.auth_s
        elif reached >= Reached.LOGIN:
            if self.dialogue.python is None:
                self._job.task.step(self._limits.login_s, self.dialogue.timed_out)
            return
        self._job.task.step(seconds, self._overdue)

    def _overdue(self, seconds: float) -> Failure:
        who, reached, within = self._log.who, self._log.reached, f"within {seconds:.3g} s"
        if reached is Reached.START:
            return Failure(Stage.RESOLVE, f"ssh has not begun to connect to {who} {within} (a resolver that "
                                          "is down, or a Match exec?)")
        if reached is Reached.AUTH:
            return Failure(Stage.AUTH, f"{who} did not decide on our keys {within} (a hung home or directory "
                                       "there, or an agent here that waits for you?)")
        if reached is Reached.EXCHANGE:
            return Failure(Stage.CONNECT, f"{who} did not finish the key exchange {within}")
        if reached is Reached.BANNER and self._log.proxy is not None:
            # Where no one has looked at the hops yet, it may be one of them that hangs.
            if self._log.jumps and self._logins_s is None:
                return Failure(Stage.JUMP, f"{self._route} did not connect us to {who} "
                                           f"{within}{self._log.hint}")
            return Failure(Stage.CONNECT,
                           f"{self._log.proxy} did not connect us to {who} {within}{self._log.hint}")
        if reached is Reached.BANNER:
            return Failure(Stage.CONNECT, f"{who} accepted the connection, then sent nothing (waited "
                                          f"{self._limits.connect_s:.3g} s: a hung sshd, or no sshd at all)")
        return Failure(Stage.CONNECT, f"{who} did not answer {within} (host down, or a firewall that drops)")


class _Masters:
    """The connections that ssh keeps for us, by their sockets. They end after `seconds` without use."""

    def __init__(self, keep: float) -> None:
        self.seconds = min(math.ceil(keep * 2.2) + 5, _LONGEST_MASTER)
        self._folder: str | None = None
        self._paths: set[str] = set()
        self._dropped: dict[str, int] = {}
        self._lock = threading.Lock()

    def path(self, words: list[str]) -> str | None:
        """The socket of the connection with these options; None when there are too many."""
        # The name of our configuration differs from sweep to sweep.
        message = "\0".join(word for word in words if not word.startswith("/proc/")).encode(
            "utf-8", "surrogateescape")
        digest = hashlib.sha256(message).hexdigest()[:16]
        with self._lock:
            if self._folder is not None and not Path(self._folder).is_dir():
                # /run/user/UID is removed at the last logout, and old files in /tmp are cleaned up.
                self._folder, self._paths = None, set()
            if self._folder is None:
                # A socket's path has room for 107 bytes, of which ssh takes 17 for a temporary name.
                home = f"/run/user/{os.getuid()}"
                self._folder = tempfile.mkdtemp(prefix="muster-", dir=home if os.access(home, os.W_OK)
                                                else "/tmp")  # noqa: S108
            # ssh removes its socket when it ends, however late, so a dropped name is never reused.
            path = f"{self._folder}/{digest}.{self._dropped.get(digest, 0)}"
            if path not in self._paths and len(self._paths) >= MOST_MASTERS:
                # Connections to removed nodes have ended, and their sockets with them.
                self._paths = {known for known in self._paths if Path(known).exists()}
                if len(self._paths) >= MOST_MASTERS:
                    return None
            self._paths.add(path)
            return path

    def drop(self, path: str) -> None:
        """Stops using a connection. Returns at once."""
        with self._lock:
            self._paths.discard(path)
            digest, _, number = Path(path).name.partition(".")
            self._dropped[digest] = int(number) + 1
        with suppress(RuntimeError):    # no free thread: it ends by itself, unused
            threading.Thread(target=_end, args=(path,), name="muster-close", daemon=True).start()

    def close(self) -> None:
        """Ends them all, within 10 s."""
        with self._lock:
            folder, self._folder = self._folder, None
            paths, self._paths = list(self._paths), set()
        if folder is None:
            return
        paths = [path for path in paths if Path(path).exists()]
        threads = [threading.Thread(target=_end, args=tuple(paths[number::_CLOSERS]), name="muster-close",
                                    daemon=True) for number in range(min(_CLOSERS, len(paths)))]
        until = time.monotonic() + _CLOSE_SECONDS
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        shutil.rmtree(folder, ignore_errors=True)


def _end(*paths: str) -> None:
    for path in paths:
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(["ssh", "-F", "none", "-O", "exit", "-o", f"ControlPath={path}", "--", "muster"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           timeout=2, check=False)
        with suppress(OSError):
            Path(path).unlink()


def _inventory_options(node: Node) -> list[str]:
    """The inventory's settings for a node as options of ssh."""
    words = []
    if node.address is not None:
        words += ["-o", f"HostName={node.address.replace('%', '%%')}"]
    if node.port is not None:
        words += ["-p", str(node.port)]
    if node.user is not None:
        words += ["-l", node.user]
    if node.proxy_jump is not None:
        words += ["-o", f"ProxyJump={node.proxy_jump}"]
    return words


def _read(files: tuple[Path, ...]) -> SshConfig | None:
    """Our own reading of the files; None where they are broken, which ssh then reports itself."""
    try:
        return SshConfig(tuple(lines for path in files if path.exists()
                               for lines in SshConfig.load(path, None).files))
    except (ConfigError, OSError):
        return None
