"""Runs a runtime's own client, bounded, and not beyond the line to the head. Python 3.8. prctl(2): with
PR_SET_PDEATHSIG a child is killed when we are."""

from __future__ import annotations

import ctypes
import os
import re
import select
import signal
import subprocess
import time
from typing import Any, Callable, Dict, List, Sequence

MOST_OUT, MOST_ERR = 4 << 20, 8192
TERM_S, KILL_S, TICK_S = 3.0, 5.0, 0.5
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
# What a message may hold of a site's secrets: a password in a URL, a signed URL's query, a header.
_SECRETS = (
    (re.compile(r"//[^/\s\"'@]*@"), "//"), (re.compile(r"\?[^\s\"']*"), "?..."),
    (re.compile(r"(?i)\b(basic|bearer)\s+[A-Za-z0-9+/=._~-]{4,}"), r"\1 ..."),
    (re.compile(r"(?i)\b(authorization|password|token|secret)(\"?\s*[:=]\s*)\S+"), r"\1\2..."))


class ToolError(Exception):
    """A program of this node did not do it; one line for a person."""


class Stopped(ToolError):
    """It was ended by us, and why."""


class Lost(Exception):
    """The line to the head is gone."""


def masked(text: str) -> str:
    """Foreign text without what may be a secret."""
    for pattern, put in _SECRETS:
        text = pattern.sub(put, text)
    return text


def last_line(text: str) -> str:
    """What a program says last, without colours and secrets."""
    lines = [line for line in re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", "\n").split("\n")
             if line.strip()]
    return masked(lines[-1].strip())[:400] if lines else ""


class Children:
    """Runs programs, one at a time. `lifeline` is the file number whose end of file means that the head is
    gone, `held` one that a child keeps open for as long as it lives, as a lock does."""

    def __init__(self, lifeline: int, environment: Dict[str, str]) -> None:
        self.lifeline = lifeline
        self.environment = environment
        self.held: List[int] = []

    def output(self, argv: Sequence[str], seconds: float) -> str:
        """What it prints where it ends well; raises ToolError or Lost."""
        code, out, err = self.ran(argv, seconds)
        if code:
            said = last_line(err) or "exit %d" % code
            raise ToolError(said if said.startswith(argv[0] + ":") else "%s: %s" % (argv[0], said))
        return str(out)

    def ran(
        self, argv: Sequence[str], seconds: float, watch: Callable[[], str] = str, keep: bool = True,
    ) -> Any:
        """Its exit status and two outputs, of the second the end; raises ToolError or Lost. It ends after so
        long, when `watch` gives a reason, or without the head. `keep`: its output is not thrown away."""
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if keep else subprocess.DEVNULL,
                stderr=subprocess.PIPE, env=self.environment, start_new_session=True, pass_fds=self.held,
                preexec_fn=_bound)
        except OSError as error:
            raise ToolError("%s: %s" % (argv[0], error.strerror)) from None
        try:
            return self._followed(child, argv[0], seconds, watch)
        finally:
            _ended(child)

    def _followed(self, child: Any, name: str, seconds: float, watch: Callable[[], str]) -> Any:
        end, out, err = time.monotonic() + seconds, bytearray(), bytearray()
        open_ = {stream.fileno(): stream for stream in (child.stdout, child.stderr) if stream is not None}
        while open_:
            left = end - time.monotonic()
            if left <= 0:
                raise Stopped("%s did not end within %g s" % (name, seconds))
            why = watch()
            if why:
                raise Stopped(why)
            line = [self.lifeline] if self.lifeline >= 0 else []
            ready = select.select([*open_, *line], [], [], min(TICK_S, left))[0]
            for number in ready:
                data = os.read(number, 65536)
                if number == self.lifeline:
                    if not data:
                        raise Lost
                elif not data:
                    del open_[number]
                elif child.stdout is not None and number == child.stdout.fileno():
                    if len(out) + len(data) > MOST_OUT:
                        raise ToolError("%s printed over %d bytes" % (name, MOST_OUT))
                    out += data
                else:
                    err = (err + data)[-MOST_ERR:]
        try:
            code = child.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Stopped("%s did not end within %g s" % (name, seconds)) from None
        return code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def _bound() -> None:
    """In the child: it dies with us, and lets others go first."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(10)


def _ended(child: Any) -> None:
    """Afterwards it has ended, and what it started; or it cannot be ended and is left."""
    for number, seconds in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
        if child.poll() is not None:
            break
        try:
            os.killpg(child.pid, number)
        except OSError:
            pass
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()
