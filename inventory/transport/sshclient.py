"""What a connection needs of paramiko beyond what it has: the server's words, refusals by channel, logins
that sign in the caller's thread, and no timers of its own."""

from __future__ import annotations

import threading
from typing import Any, cast

from inventory.transport import hostproof
from inventory.transport.quiet import Packetizer, paramiko
from inventory.transport.session import one_line
from inventory.transport.wire import TcpStream

_MOST_PACKET = 256 * 1024           # OpenSSH's PACKET_MAX_SIZE


class _Packets(Packetizer):
    def start_handshake(self, timeout: float) -> None:
        """Does nothing: the watchdog keeps time, and paramiko's timer would delay the process's end."""

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        if n > _MOST_PACKET:
            raise paramiko.SSHException(f"a packet of {n} bytes")
        return super().read_all(n, check_rekey)


class SshClient(paramiko.Transport):
    """Keeps the server's messages on disconnect, and for each channel that it does not open: paramiko's one
    exception per connection would be another node's where channels share a jump host."""

    def __init__(self, wire: TcpStream) -> None:
        super().__init__(cast("Any", wire), packetizer_class=_Packets)
        self.said = ""
        self.offered: tuple[str, ...] = ()
        self.announced: tuple[bytes, ...] = ()
        self._refusals: dict[int, paramiko.ChannelException] = {}
        self._asked = threading.local()

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # noqa: BLE001  (paramiko trips over some errors of the socket; a thread must not print a traceback)
            base: Any = self
            base.saved_exception = error
            base.active = False
            base.packetizer.close()
            for channel in base._channels.values():
                channel._unlink()
            base.completion_event.set()

    def refusal(self) -> paramiko.ChannelException | None:
        """Why the channel that this thread last asked for was not opened."""
        return self._refusals.pop(getattr(self._asked, "number", -1), None)

    def _send_user_message(self, data: paramiko.Message) -> None:
        # Whoever has asked on a dead connection would wait for an answer for ever. paramiko closes its
        # channels first, and wakes those who wait on one; it stops being active later. So whoever asks clears
        # the channel's event and then looks here.
        base: Any = self
        message = data.asbytes()
        if message[:1] == paramiko.common.cMSG_CHANNEL_REQUEST:
            number = int.from_bytes(message[1:5], "big")
            if not any(channel.remote_chanid == number and not channel.closed
                       for channel in base._channels.values()):
                raise EOFError
        base = super()
        base._send_user_message(data)

    def _next_channel(self) -> int:
        base: Any = super()
        self._asked.number = number = base._next_channel()
        return int(number)

    def _parse_kex_init(self, m: paramiko.Message) -> None:
        m.get_bytes(16)
        m.get_list()
        self.offered = tuple(one_line(name, 60) for name in m.get_list()[:64])
        m.rewind()
        base: Any = super()
        base._parse_kex_init(m)

    def _parse_global_request(self, m: paramiko.Message) -> None:
        if m.get_binary() == hostproof.ANNOUNCED:
            m.get_boolean()
            self.announced = hostproof.announced(m.get_remainder())
        m.rewind()
        base: Any = super()
        base._parse_global_request(m)

    def _parse_disconnect(self, m: paramiko.Message) -> None:
        m.get_int()
        self.said = one_line(m.get_binary(), 120)

    def _parse_channel_open_failure(self, m: paramiko.Message) -> None:
        number, code = m.get_int(), m.get_int()
        self._refusals[number] = paramiko.ChannelException(code, one_line(m.get_binary(), 80))
        m.rewind()
        base: Any = super()
        base._parse_channel_open_failure(m)


class PublicKeyAuth(paramiko.auth_handler.AuthHandler):
    """Public keys only, of which a server may want several (`partial`: it took one). Signs in the caller's
    thread, as a signature by an agent may fail or take long, and keeps what is allowed."""

    def __init__(self, transport: paramiko.Transport, event: threading.Event) -> None:
        super().__init__(transport)
        self.auth_event = self._event = event
        self.auth_method = "publickey"
        self.allowed: tuple[str, ...] = ()
        self.partial = False
        self.wanted = False

    def offer(self, user: str, key: Any, *, signed: bool) -> None:
        """Asks whether the server would take the key, or logs in with it; raises what signing raises."""
        self.wanted = False
        base: Any = self    # what the stubs leave out
        name, blob = base._get_key_type_and_bits(key)
        algorithm = base._finalize_pubkey_algorithm(name)
        message = paramiko.Message()
        message.add_byte(paramiko.common.cMSG_USERAUTH_REQUEST)
        for text in (user, "ssh-connection", "publickey"):
            message.add_string(text)
        message.add_boolean(signed)
        message.add_string(algorithm)
        message.add_string(blob)
        if signed:
            message.add_string(
                key.sign_ssh_data(base._get_session_blob(key, "ssh-connection", user, algorithm), algorithm))
        base.transport._send_message(message)

    def _parse_service_accept(self, m: paramiko.Message) -> None:
        self._event.set()

    def _parse_userauth_failure(self, m: paramiko.Message) -> None:
        self.allowed = tuple(one_line(name, 40) for name in m.get_list()[:8])
        self.partial = m.get_boolean() or self.partial
        self._event.set()

    def _parse_userauth_info_request(self, m: paramiko.Message) -> None:
        # In publickey authentication message 60 is USERAUTH_PK_OK.
        self.wanted = True
        self._event.set()


class ChannelBell(threading.Event):
    """Rung by either of a channel's buffers. paramiko clears it when one is empty: so only we do."""

    def clear(self) -> None:
        pass

    def silence(self) -> None:
        super().clear()
