"""Runs the collector on this machine and reads its answer; Python 3.8,
for nodes that can record but not judge.

The protocol is that of `inventory.transport.frame`, over pipes, without a shell
or banner. The collector ends by itself, whatever a probe does; if not, it is killed and abandoned.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from healthcheck.collector.loader import LOADER, payload

MOST = 32 << 20         # bytes of an answer, compressed
SLACK_S = 10.0          # beyond the collector's own limit and its five seconds for the answer
_HEAD = 4096
_NOISE = 4096
_LACKING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


class CollectorReply(NamedTuple):
    """The collector's raw answer, or the failed stage and reason. `received` is by this machine's clock."""

    received: float
    body: bytes
    stage: str = ""
    reason: str = ""


class NoAnswer(Exception):
    """The collector gave no answer; the stage,
    as in `inventory.transport.base.Stage`, and the reason in one line."""

    def __init__(self, stage: str, reason: str) -> None:
        Exception.__init__(self, reason)
        self.stage = stage


def look(
    source: bytes, probes: dict[str, Any], extras: dict[str, bytes], words: Sequence[str] = (),
    root: str = "",
) -> CollectorReply:
    """Records this machine once."""
    try:
        body = collect(source, probes, extras, words, root)
        return CollectorReply(time.time(), body)
    except NoAnswer as error:
        return CollectorReply(time.time(), b"", error.stage, str(error))


def collect(
    source: bytes, probes: dict[str, Any], extras: dict[str, bytes], words: Sequence[str] = (),
    root: str = "",
) -> bytes:
    """The collector's answer with a verified checksum; raises NoAnswer."""
    nonce = secrets.token_hex(8)
    argv = [sys.executable or "python3", "-I", "-S", "-c", LOADER, nonce, *words]
    noise = -1
    try:
        noise = (os.memfd_create("muster-stderr") if hasattr(os, "memfd_create")
                 else os.open(os.devnull, os.O_RDWR))
        child = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=noise, start_new_session=True,
            env=dict(os.environ, **({"MUSTER_ROOT": root} if root else {})))
    except OSError as error:
        if noise >= 0:
            os.close(noise)
        reason = f"the collector cannot be started: {error.strerror}"
        if error.errno in _LACKING:
            reason += f" ({errno.errorcode[error.errno]}); raise the limits of the agent's unit (Limit...=)"
        raise NoAnswer("python", reason) from None
    talk = _Talk(child, nonce, payload(source, json.dumps(probes).encode(), 1), extras)
    try:
        return talk.listen(time.monotonic() + probes["seconds"] + SLACK_S, noise)
    finally:
        _end(child)
        os.close(noise)


class _Talk:
    """The pipes to and from one collector."""

    def __init__(
        self, child: subprocess.Popen[bytes], nonce: str, first: bytes, extras: dict[str, bytes],
    ) -> None:
        assert child.stdin is not None and child.stdout is not None  # noqa: S101  (narrowing: both are pipes)
        self.child = child
        self.mark = (f"muster:{nonce}:").encode()
        self.extras = extras
        self.to, self.of = child.stdin.fileno(), child.stdout.fileno()
        self.outgoing = memoryview(first)
        self.incoming = bytearray()
        os.set_blocking(self.to, False)

    def listen(self, until: float, noise: int) -> bytes:
        while True:
            body = self.answer()
            if body is not None:
                return body
            poll = select.poll()
            poll.register(self.of, select.POLLIN)
            if self.outgoing:
                poll.register(self.to, select.POLLOUT)
            left = until - time.monotonic()
            ready = poll.poll(left * 1000) if left > 0 else []
            if not ready:
                raise NoAnswer("deadline", "the collector did not answer in time and was stopped")
            for fd, _ in ready:
                if fd == self.to:
                    self.send()
                else:
                    data = os.read(fd, 1 << 20)
                    if not data:
                        raise NoAnswer("reply", "the collector ended without an answer" + said(noise))
                    self.incoming += data

    def send(self) -> None:
        try:
            self.outgoing = self.outgoing[os.write(self.to, self.outgoing[:1 << 16]):]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self.outgoing = memoryview(b"")     # it has ended; its output shows that

    def answer(self) -> bytes | None:
        """The body once complete; removes the lines before it."""
        while self.incoming:
            head, newline, _ = bytes(self.incoming[:_HEAD]).partition(b"\n")
            if not newline:
                if len(head) >= _HEAD:
                    raise NoAnswer("reply", "unexpected output from the collector")
                return None
            words = head[len(self.mark):].split(b" ") if head.startswith(self.mark) else [b""]
            if words[0] == b"frame" and len(words) == 3 and words[1].isdigit():
                size, begin = int(words[1]), len(head) + 1
                if size > MOST:
                    raise NoAnswer("reply", f"the answer is over {MOST >> 20} MiB")
                if len(self.incoming) < begin + size:
                    return None
                body = bytes(self.incoming[begin:begin + size])
                if hashlib.sha256(body).hexdigest().encode() != words[2]:
                    raise NoAnswer("reply", "the answer is damaged: its checksum does not fit")
                return body
            if words[0] == b"want" and len(words) == 2:
                found = self.extras.get(words[1].decode("ascii", "replace"), b"")
                self.outgoing = memoryview(bytes(self.outgoing) + b"%d\n" % len(found) + found)
            del self.incoming[:len(head) + 1]
        return None


def said(noise: int) -> str:
    """The last line of the collector's standard error, if any."""
    try:
        os.lseek(noise, max(0, os.fstat(noise).st_size - _NOISE), os.SEEK_SET)
        lines = os.read(noise, _NOISE).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ": " + "".join(letter if letter.isprintable() else "?" for letter in last[:200]) if last else ""


def _end(child: subprocess.Popen[bytes]) -> None:
    """Closes its input, which ends it and its children; kills it after a second."""
    for pipe in (child.stdin, child.stdout):
        try:
            if pipe is not None:
                pipe.close()
        except OSError:
            pass
    try:
        child.wait(1.0)
    except subprocess.TimeoutExpired:
        try:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait(1.0)
        except (OSError, subprocess.TimeoutExpired):
            pass    # even that did not end it; the next run finds its traces in the run folder
