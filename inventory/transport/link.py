"""One SSH connection: key exchange, the host's key, the user's keys, then a program or a tunnel. paramiko
does the protocol and the cryptography; its own timeouts, polls and timers are unused. A task's abort shuts
the stream, which ends whatever blocks here."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, cast

from inventory.hostkeys import KnownHosts, RevokedKeys
from inventory.sshneeds import CIPHERS, HOST_KEYS, KEX, MACS, allowed
from inventory.sshtarget import SshTarget
from inventory.transport import hostproof, trust
from inventory.transport.base import Failure, Limits, Stage
from inventory.transport.keys import Identities, SshIdentity
from inventory.transport.quiet import IncompatiblePeer, paramiko
from inventory.transport.session import MOST_STDERR, Dialogue, no_session, one_line
from inventory.transport.sshclient import ChannelBell, PublicKeyAuth, SshClient
from inventory.transport.watch import NodeJob, TaskFailed, WatchedTask
from inventory.transport.wire import (
    FORBIDDEN,
    MOST_BEFORE_LOGIN,
    ConnectionDropped,
    TcpStream,
    channel_wire,
    place,
)

_CHUNK = 256 * 1024
_MOST_BESIDE = 16 * 1024 * 1024     # noise before the answer, and what SSH adds
_REFILL_SECONDS = 0.02
_DYING_SECONDS = 1.0
_PROHIBITED, _NO_RESOURCES = 1, 4   # reasons for not opening a channel, RFC 4254 section 5.1
# for a connection whose far end the kernel watches: what is left to find out is a hung sshd
QUIET_SECONDS = 60.0
_GONE = (OSError, EOFError, paramiko.SSHException)


@dataclass(frozen=True)
class Trust:
    """The host keys to trust and our own. `identities` is called only once the host is trusted, as an agent
    may be slow; `unpinned` takes the shown key for this connection, unless it is revoked."""

    known_hosts: KnownHosts
    revoked: RevokedKeys | None
    identities: Callable[[], Identities]
    unpinned: bool = False


class SshConnection:
    """A connection over `wire`; after `open`, the host key of `target` is verified and we are logged in."""

    def __init__(self, wire: TcpStream, target: SshTarget) -> None:
        self.who = place(target.hostname, target.port)
        self._target = target
        self._wire = wire
        self._event = threading.Event()
        self._asked = 0.0
        self._client: Any = SshClient(wire)

    def open(self, task: WatchedTask, believed: Trust, limits: Limits) -> None:
        """Raises TaskFailed, ConnectionDropped or Expired; then only `shut` remains."""
        target = self._target
        host = (target.hostname, target.port, target.host_key_alias)
        known = believed.known_hosts.enough(*host)
        # An order that a person gave is kept, as OpenSSH does.
        algorithms = (trust.algorithms(known, HOST_KEYS) if target.algorithms.host_keys is None
                      else allowed(target.algorithms.host_keys, HOST_KEYS))
        offered = self.exchange(task, algorithms, limits)
        if (bits := trust.rsa_bits(offered)) is not None and bits < target.algorithms.rsa_bits:
            raise TaskFailed(Stage.HOST_KEY, f"{self.who} shows an RSA key of {bits} bits, and "
                                             f"RequiredRSASize in ssh_config is {target.algorithms.rsa_bits}")
        problem = trust.objection(target, known, believed.revoked, offered)
        if problem is not None and not known.whole:
            known = believed.known_hosts.about_key(offered, *host)
            problem = trust.objection(target, known, believed.revoked, offered)
        if problem is not None and believed.unpinned:
            problem = trust.revocation(target, known, believed.revoked, offered)
        if problem is not None:
            raise TaskFailed(Stage.HOST_KEY, problem)
        self._log_in(task, target, believed, limits)

    @property
    def alive(self) -> bool:
        """Whether new channels can be opened."""
        return bool(self._client.is_active())

    def rest(self) -> None:
        """Marks the connection idle: no more data is expected from the other side for now."""
        self._wire.allowance = MOST_BEFORE_LOGIN
        self._wire.guard(True)
        self._asked = 0.0

    def ends_within(self, seconds: float) -> bool:
        """Waits for the connection to end, at most so long."""
        self._client.join(seconds)
        return not self.alive

    @property
    def silent(self) -> bool:
        """Whether nothing has come since the last keepalive."""
        return self._asked > self._wire.last_received

    def keepalive(self) -> None:
        """Sends a keepalive, and shuts the connection if the previous one was not answered. As each costs
        both sides time, recently active connections are skipped."""
        now = time.monotonic()
        if self.silent:
            self.shut()
            return
        if self._wire.guarded and now - self._wire.last_received < QUIET_SECONDS:
            return
        self._asked = now
        message = paramiko.Message()
        message.add_byte(paramiko.common.cMSG_GLOBAL_REQUEST)
        message.add_string("keepalive@openssh.com")
        message.add_boolean(True)
        with contextlib.suppress(*_GONE):
            self._client._send_message(message)

    def shut(self) -> None:
        """Ends the connection; returns at once. The other end sees the end of its input."""
        self._wire.shut()
        if self._client.ident is None:
            # No thread of paramiko's has begun to read the wire, which would close it on seeing the end.
            self._wire.close()

    def _await(self, task: WatchedTask) -> None:
        self._event.wait()
        task.check()
        self._event.clear()

    def exchange(self, task: WatchedTask, algorithms: tuple[str, ...], limits: Limits) -> bytes:
        """The host key, in wire form, that the other end has proven to own, the first that it has of these
        algorithms. Raises TaskFailed, ConnectionDropped or Expired; then only `shut` remains."""
        task.on_abort(self._event.set)
        task.step(limits.connect_s,
                  lambda s: Failure(Stage.CONNECT,
                                    f"{self.who} did not finish the key exchange within {s:.3g} s"))
        options = self._client.get_security_options()
        asked = self._target.algorithms
        options.ciphers = _supported(allowed(asked.ciphers, CIPHERS), self._client._cipher_info)
        options.digests = _supported(allowed(asked.macs, MACS), self._client._mac_info)
        options.kex = _supported(allowed(asked.kex, KEX), self._client._kex_info)
        options.key_types = algorithms
        self._client.start_client(self._event)
        self._await(task)
        if not self._client.is_active():
            self._no_exchange()
        blob: bytes = self._client.get_remote_server_key().asbytes()
        return blob

    @property
    def algorithms(self) -> tuple[str, ...]:
        """What the other end offered to prove its host keys with, once keys have been exchanged."""
        offered: tuple[str, ...] = self._client.offered
        return offered

    def proven_keys(self, task: WatchedTask, limits: Limits) -> tuple[bytes, ...]:
        """All host keys, in wire form, that the other end has proven to own within this connection, once we
        are logged in: that of the key exchange first. Raises TaskFailed or Expired."""
        shown: bytes = self._client.get_remote_server_key().asbytes()
        task.step(limits.connect_s, lambda s: Failure(
            Stage.CONNECT, f"{self.who} did not prove its host keys within {s:.3g} s"))
        try:
            # Its answer comes after what it announced: requests are answered in their order.
            self._client.global_request("keepalive@openssh.com")
            others = tuple(blob for blob in self._client.announced if blob != shown)
            reply = self._client.global_request(hostproof.PROVE, others) if others else None
        except _GONE:
            task.check()
            return (shown,)
        task.check()
        if reply is None:
            return (shown,)
        return (shown, *hostproof.proven(others, reply.get_remainder(), self._client.session_id))

    def _no_exchange(self) -> None:
        error = self._client.get_exception()
        if self._wire.flooded:
            raise TaskFailed(Stage.CONNECT, f"{self.who} floods the connection instead of exchanging keys")
        if self._client.said:
            raise TaskFailed(Stage.CONNECT, f"{self.who} ended the key exchange: {self._client.said}")
        if error is None or isinstance(error, (EOFError, OSError)):
            raise ConnectionDropped(f"{self.who} dropped the connection during the key exchange")
        if "Signature verification" in str(error):
            raise TaskFailed(Stage.HOST_KEY,
                             f"{self.who} could not prove that the host key it shows is its own")
        raise TaskFailed(Stage.CONNECT, f"no key exchange with {self.who}: "
                                        f"{one_line(str(error), 120) or type(error).__name__}",
                         algorithms=isinstance(error, IncompatiblePeer))

    def _log_in(self, task: WatchedTask, target: SshTarget, believed: Trust, limits: Limits) -> None:
        task.step(limits.auth_s, lambda s: Failure(
            Stage.AUTH, f"{self.who} did not decide on {target.user}'s keys within {s:.3g} s "
            "(a hung home or directory service there, or an agent here that waits for you?)"))
        identities = believed.identities()
        if not identities.keys:
            raise TaskFailed(Stage.AUTH,
                             _sentence(f"there is no key to try for {target.user}@{self.who}",
                                       identities.notes) + "; name one with `identity_file`, or start an "
                                                           "agent")
        auth = PublicKeyAuth(self._client, self._event)
        self._client.auth_handler = auth
        try:
            cast("Any", auth)._request_auth()
            self._await(task)
            tried = []
            for identity in identities.in_order():
                if not self._client.is_active():
                    break
                bits = trust.rsa_bits(identity.blob)
                if bits is not None and bits < target.algorithms.rsa_bits:
                    continue
                tried.append(identity.name)
                if self._try(task, auth, target.user, identity):
                    identities.worked(identity)
                    return
                if auth.allowed and "publickey" not in auth.allowed:
                    break
        except _GONE:
            task.check()
        raise TaskFailed(Stage.AUTH, self._not_let_in(auth, target.user, tried, identities))

    def _try(self, task: WatchedTask, auth: PublicKeyAuth, user: str, identity: SshIdentity) -> bool:
        try:
            # A signature in an agent may ask for a touch or a password,
            # so it is made only for a key that the server wants.
            if identity.in_agent:
                auth.offer(user, identity.key, signed=False)
                self._await(task)
                if not auth.wanted:
                    return False
            auth.offer(user, identity.key, signed=True)
        except paramiko.SSHException:
            # The agent refused, or the server takes no signature this key can make: another key may do.
            return False
        self._await(task)
        return bool(auth.is_authenticated() or self._client.is_authenticated())

    def _not_let_in(self, auth: PublicKeyAuth, user: str, tried: list[str], identities: Identities) -> str:
        notes = [*identities.notes, *(key.broken for key in identities.keys if key.broken)]
        names = ", ".join(tried[:6]) + (f" and {len(tried) - 6} more" if len(tried) > 6 else "")
        if auth.partial:
            asks = f"{self.who} took a key of {user} and asks for more ({', '.join(auth.allowed)})"
            return (_sentence(f"{asks}; tried {names}", notes) if "publickey" in auth.allowed
                    else f"{asks}, which is not supported here")
        if auth.allowed and "publickey" not in auth.allowed:
            return (f"{self.who} lets {user} in by {', '.join(auth.allowed)} only, and only keys are "
                    "supported here")
        if self._wire.flooded:
            return f"{self.who} floods the connection instead of deciding on {user}'s keys"
        if not self._client.is_active():
            if "Too many" in self._client.said:
                notes.append("name the right key with `identity_file`")
            return _sentence(f"{self.who} closed the connection while {user} was logging in "
                             f"({self._client.said or 'no message'}); tried {names or 'nothing'}", notes)
        if auth.allowed:
            notes.insert(0, f"it allows {', '.join(auth.allowed)}")
        return _sentence(f"{self.who} took no key of {user}; tried {names}", notes)

    @property
    def lost_hop(self) -> str | None:
        """The jump host whose own connection has ended, and this one with it; waits a moment to be sure."""
        return self._wire.lost_hop()

    def tunnel(self, task: WatchedTask, host: str, port: int) -> TcpStream:
        """A wire to `host` from the machine at the other end. Raises TaskFailed (JUMP where that machine
        forwards nothing, else CONNECT), or ConnectionDropped (JUMP)."""
        self._wire.allowance = math.inf     # each tunnel has its own
        name = self._target.name
        try:
            channel = self._client.open_channel("direct-tcpip", (host, port), ("127.0.0.1", 0),
                                                timeout=max(0.1, task.left() + 1))
        except _GONE:
            task.check()
            if (refusal := self._client.refusal()) is None:
                raise ConnectionDropped(f"{self.lost_hop or name}: the connection was lost",
                                        Stage.JUMP) from None
            if refusal.code == _PROHIBITED:
                raise TaskFailed(Stage.JUMP, f"{name}: {FORBIDDEN}") from None
            if refusal.code == _NO_RESOURCES:
                raise TaskFailed(Stage.JUMP, f"{name}: it has no room for another connection "
                                             f"({refusal.text or 'no reason given'})",
                                 stuck=Stage.JUMP) from None
            why = refusal.text or "no reason given"
            raise TaskFailed(Stage.CONNECT, f"the jump host {self.who} cannot connect to "
                                            f"{place(host, port)}: {why}",
                             stuck=Stage.CONNECT if "timed out" in why else None) from None
        wire = channel_wire(channel)

        def lost_hop() -> str | None:
            # A far end that hangs up says so through a jump host that lives, which sends an EOF first.
            if not channel.closed or channel.eof_received:
                return None
            # paramiko closes the channels of a dead connection before it counts as dead.
            return self.lost_hop or name if self.ends_within(_DYING_SECONDS) else None

        wire.lost_hop = lost_hop
        return wire

    def converse(
        self, command: str, dialogue: Dialogue, job: NodeJob, limits: Limits, *, keep: bool = False,
        again: bool = False,
    ) -> bool:
        """Runs `command` and talks with it until `dialogue` is over, then ends the connection, unless it is
        to be kept and can be: returns whether it was. Raises Refused or Expired, and Dropped when one that
        served before (`again`) turns out to be dead."""
        task = job.task
        kept = False
        try:
            # Only the opening of a channel can tell that the machine at the other end is gone without a word.
            if again:
                task.step(limits.login_s + limits.connect_s, lambda s: no_session(self.who, s))
            else:
                task.step(limits.login_s, dialogue.timed_out)
            self._wire.allowance = limits.reply_bytes + MOST_STDERR + _MOST_BESIDE
            channel = self._session(task, limits.connect_s if again else None)
            if again:
                # from here on a deadline says what has failed, as on a new connection
                self._wire.guard(False)
                task.step(limits.login_s, dialogue.timed_out)
            self._begin(channel, command, task, again=again)
            self._talk(channel, dialogue, job, limits)
            if keep and dialogue.body is not None:
                with contextlib.suppress(*_GONE):
                    channel.close()
                    self.rest()
                    kept = self.alive
        finally:
            if not kept:
                self.shut()
        return kept

    def _session(self, task: WatchedTask, kept_s: float | None) -> paramiko.Channel:
        """A channel for a command, of a kept connection within `kept_s`."""
        try:
            channel: paramiko.Channel = self._client.open_session(
                timeout=task.left() + 1 if kept_s is None else kept_s)
        except _GONE:
            task.check()
            refusal = self._client.refusal()
            if kept_s is not None and refusal is None:
                raise ConnectionDropped(
                    f"the connection to {self.who} was lost since the sweep before") from None
            if refusal is not None:
                raise TaskFailed(Stage.LOGIN, f"{self.who} opens no session: "
                                              f"{refusal.text or 'no reason given'}") from None
            raise self._hung_up() from None
        return channel

    def _begin(self, channel: paramiko.Channel, command: str, task: WatchedTask, *, again: bool) -> None:
        try:
            channel.exec_command(command)
        except _GONE as error:
            task.check()
            # A refusal is paramiko's own exception; the others say that the connection ended,
            # even while it still counts as active.
            if self.alive and isinstance(error, paramiko.SSHException):
                raise TaskFailed(Stage.LOGIN,
                                 f"{self.who} refuses to run a command for this user") from None
            if again:
                raise ConnectionDropped(
                    f"the connection to {self.who} was lost since the sweep before") from None
            raise self._hung_up() from None

    def _hung_up(self) -> TaskFailed:
        return TaskFailed(Stage.LOGIN, f"{self.who} hung up after the login "
                                       f"({self._client.said or 'no message'})", stuck=Stage.LOGIN)

    def _talk(self, channel: paramiko.Channel, dialogue: Dialogue, job: NodeJob, limits: Limits) -> None:
        bell = ChannelBell()
        channel.settimeout(0.0)
        channel.in_buffer.set_event(bell)
        channel.in_stderr_buffer.set_event(bell)
        unsent = b""
        started = False
        try:
            while not dialogue.over:
                # Asked before reading, so that nothing that came before the end is missed.
                ended = channel.closed
                busy = False
                if channel.recv_stderr_ready():
                    dialogue.errors(channel.recv_stderr(_CHUNK))
                    busy = True
                if channel.recv_ready():
                    unsent += dialogue.output(channel.recv(_CHUNK))
                    busy = True
                job.received, job.sent, job.python = (dialogue.received, dialogue.sent - len(unsent),
                                                      dialogue.python)
                job.task.check()
                if dialogue.python is not None and not started:
                    started = True
                    job.begun()
                    job.task.step(limits.work_s, dialogue.timed_out)
                if dialogue.over or busy:
                    continue
                if ended:
                    self._end(channel, dialogue)
                else:
                    unsent = _send(channel, unsent)
                    # paramiko rings no bell when the node makes room for more input;
                    # few payloads are larger than the first window.
                    bell.wait(_REFILL_SECONDS if unsent else None)
                    bell.silence()
        except _GONE:
            job.task.check()
            self._end(channel, dialogue)

    def _end(self, channel: paramiko.Channel, dialogue: Dialogue) -> None:
        # The end of a connection that the other side announces is no exception.
        if channel.exit_status == -1 and (self._client.said or self._client.get_exception() is not None):
            dialogue.lost(self.who)
        else:
            dialogue.ended(channel.exit_status if channel.exit_status != -1 else None)


def _send(channel: paramiko.Channel, data: bytes) -> bytes:
    """Writes what fits now; returns the rest."""
    view = memoryview(data)
    while view and channel.send_ready():
        try:
            sent = channel.send(bytes(view[:32768]))
        except TimeoutError:
            break
        if not sent:
            break
        view = view[sent:]
    return bytes(view)


def _supported(wanted: tuple[str, ...], known: Container[str]) -> tuple[str, ...]:
    """Those that this version of paramiko has, in our order: it raises on others."""
    return tuple(name for name in wanted if name in known)


def _sentence(text: str, notes: Any) -> str:
    return "; ".join([text, *dict.fromkeys(notes)])
