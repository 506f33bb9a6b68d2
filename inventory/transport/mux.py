"""A session on a connection that a background ssh keeps, requested at its control socket as ssh itself does
(PROTOCOL.mux in OpenSSH's sources, version 4, the same since 5.4), so that it costs no process here."""

from __future__ import annotations

import array
import io
import os
import socket
import struct
import subprocess
from contextlib import suppress
from typing import IO

_HELLO, _NEW_SESSION = 0x00000001, 0x10000002
_DENIED, _FAILED, _EXITED, _OPENED = 0x80000002, 0x80000003, 0x80000004, 0x80000006
_VERSION = 4
_REQUEST = 1
_NO_ESCAPE = 0xFFFFFFFF
_MOST_BYTES = 256 * 1024    # as in OpenSSH's mux.c


class MuxError(Exception):
    """The socket gives no session; the text says why."""


class MuxSession:
    """One remote command, like subprocess.Popen. `pid` is 0, for there is no process here; `returncode` is
    None until `wait` has learned it, and 255 when the connection was `lost`."""

    pid = 0

    def __init__(self, path: str, command: str, seconds: float) -> None:
        """Opens it; each step of the conversation with ssh may take so many seconds. Raises MuxError."""
        self.returncode: int | None = None
        self.lost = False
        self._buffer = b""
        self._control = socket.socket(socket.AF_UNIX)
        self._control.settimeout(seconds)
        theirs: list[int] = []
        ours: list[int] = []
        try:
            self._control.connect(path)
            self._send(struct.pack(">II", _HELLO, _VERSION))
            kind, rest = self._packet()
            if kind != _HELLO or rest[:4] != struct.pack(">I", _VERSION):
                raise MuxError("the socket is of another version")
            for near, far in ((1, 0), (0, 1), (0, 1)):
                ends = os.pipe()
                ours.append(ends[near])
                theirs.append(ends[far])
            self._send(struct.pack(">II", _NEW_SESSION, _REQUEST) + _string(b"") + struct.pack(
                ">IIIII", 0, 0, 0, 0, _NO_ESCAPE) + _string(b"") + _string(command.encode()))
            for fd in theirs:
                self._control.sendmsg([b"\0"],
                                      [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
            self._opened()
        except (OSError, struct.error) as error:
            _close(*ours)
            self._control.close()
            raise MuxError(str(error)) from None
        except MuxError:
            _close(*ours)
            self._control.close()
            raise
        finally:
            _close(*theirs)
        self.stdin: IO[bytes] = io.FileIO(ours[0], "wb")
        self.stdout: IO[bytes] = io.FileIO(ours[1], "rb")
        self.stderr: IO[bytes] = io.FileIO(ours[2], "rb")

    def wait(self, timeout: float | None = None) -> int:
        """The exit status; raises subprocess.TimeoutExpired."""
        self._control.settimeout(timeout)
        while self.returncode is None:
            try:
                kind, rest = self._packet()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("ssh", timeout or 0) from None
            except (OSError, MuxError):
                self.returncode, self.lost = 255, True
            else:
                if kind == _EXITED and len(rest) >= 8:
                    self.returncode = struct.unpack(">I", rest[4:8])[0] & 0xFF
        return self.returncode

    def close(self) -> None:
        """Ends the session; the far side sees the end of its input."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            with suppress(OSError):
                pipe.close()
        self._control.close()

    def _opened(self) -> None:
        kind, rest = self._packet()
        if kind in (_DENIED, _FAILED):
            raise MuxError(rest[8:].decode("utf-8", "replace") or "refused")
        if kind != _OPENED:
            raise MuxError(f"an answer of an unknown kind ({kind:#x})")

    def _send(self, body: bytes) -> None:
        self._control.sendall(struct.pack(">I", len(body)) + body)

    def _packet(self) -> tuple[int, bytes]:
        """The kind of the next message, and its rest. A partial message is kept on a timeout."""
        while len(self._buffer) < 4 or len(self._buffer) < 4 + self._length():
            data = self._control.recv(4096)
            if not data:
                raise MuxError("ssh closed its control socket")
            self._buffer += data
        size = self._length()
        body, self._buffer = self._buffer[4:4 + size], self._buffer[4 + size:]
        return struct.unpack(">I", body[:4])[0], body[4:]

    def _length(self) -> int:
        size: int = struct.unpack(">I", self._buffer[:4])[0]
        if not 4 <= size <= _MOST_BYTES:
            raise MuxError("not a control socket of ssh")
        return size


def _string(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def _close(*fds: int) -> None:
    for fd in fds:
        with suppress(OSError):
            os.close(fd)
