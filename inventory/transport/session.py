"""The protocol with the program on a node, without I/O. A transport feeds it the received data; it returns
what to write, and turns any end into a body or a `Failure`."""

from __future__ import annotations

import re

from inventory.transport.base import Failure, Limits, Program, Stage
from inventory.transport.frame import Body, Broken, ExtraRequested, Framer, LoaderStarted, LoggedIn

MOST_STDERR = 64 * 1024 * 1024
_HINT_BYTES = 4096
_LEFT_OUT = re.compile(r"[\s\x00-\x1f\x7f]+")
_NO_TERMINAL = re.compile(r"must have a tty", re.IGNORECASE)
_NO_PASSWORD = re.compile(r"password|terminal is required|askpass", re.IGNORECASE)
_NOT_ALLOWED = re.compile(r"not in the sudoers|not allowed to|may not run|account validation", re.IGNORECASE)
_NO_SUDO = re.compile(r"sudo['\"]?: (?:command )?not found|not found: sudo|unknown command:? '?sudo|no such "
                      r"file.*sudo", re.IGNORECASE)
_SUDO_NO_PROGRAM = re.compile(r"^sudo: .*: command not found$")

# What a shell or Python writes that cannot start for want of something, and what to do about it.
_LACKING = (
    (re.compile(rb"Too many open files|Error 24\b|Errno 24\]"),
     "EMFILE: let the login open more files on the node (ulimit -n)"),
    (re.compile(rb"MemoryError|[Cc]annot allocate memory|Out of memory|failed to map segment"),
     "ENOMEM: let the login use more memory on the node (ulimit -v, ulimit -d), or free some"),
    (re.compile(rb"[Cc]an(?:no|')t fork|fork: |unable to fork|Resource temporarily unavailable"),
     "EAGAIN: let the login start more processes on the node (ulimit -u), or end some"),
    (re.compile(rb"No space left on device"), "ENOSPC: free some room on the node"),
)


def lacking(text: bytes) -> str:
    """What kept a program from starting or working by what it wrote, and what to do; empty without a sign."""
    return next((what for pattern, what in _LACKING if pattern.search(text)), "")


def one_line(text: bytes | str, most: int = 200) -> str:
    """Foreign text as one line: no control characters, white space folded, at most `most` characters."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    line = _LEFT_OUT.sub(" ", text[: most * 8]).strip()
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return line if len(line) <= most else line[: most - 3] + "..."


def last_line(text: bytes) -> str:
    """The last line with anything on it, cleaned; empty when there is none."""
    for line in reversed(text.splitlines()):
        if cleaned := one_line(line):
            return cleaned
    return ""


def no_session(who: str, seconds: float) -> Failure:
    """A connection kept from an earlier sweep that opens no session: this sweep has not logged in."""
    return Failure(Stage.CONNECT, f"the connection kept to {who} has opened no session within "
                                  f"{seconds:.3g} s")


class Dialogue:
    """One program on one node. Feed it `output` and `errors`; it is `over` once `body` or `failure` is set.
    Without `shell` no login shell stands before it. `by_hand` takes a person to the same place."""

    def __init__(self, program: Program, limits: Limits, *, python: str, become: bool, shell: bool = True,
                 by_hand: str = "") -> None:
        self._program = program
        self._framer = Framer(program.nonce, limits.reply_bytes)
        self._keep = limits.stderr_bytes
        self._named = python
        self._become = become
        self._by_hand = by_hand
        self._logged_in = not shell
        self._hint = b""
        self._stderr = bytearray()
        self._stderr_total = 0
        self._given: set[str] = set()
        self.python: str | None = None
        self.received = 0
        self.sent = 0
        self.body: bytes | None = None
        self.failure: Failure | None = None

    @property
    def over(self) -> bool:
        """Whether the outcome is known, and the connection can be closed."""
        return self.body is not None or self.failure is not None

    @property
    def stage(self) -> Stage:
        """The stage being waited for."""
        if not self._logged_in:
            return Stage.LOGIN
        if self.python is None:
            return Stage.BECOME if self._become else Stage.PYTHON
        return Stage.DEADLINE

    def output(self, data: bytes) -> bytes:
        """Takes standard output; returns what to write in answer (often nothing)."""
        self.received += len(data)
        if not self._logged_in and len(self._hint) < _HINT_BYTES:
            self._hint += data[: _HINT_BYTES - len(self._hint)]
        answer = b""
        for event in self._framer.feed(data):
            if isinstance(event, LoggedIn):
                self._logged_in = True
            elif isinstance(event, LoaderStarted):
                self._logged_in = True
                if self.python is not None:
                    self._fail(Stage.REPLY, "Python started twice there")
                    break
                self.python = event.version
                if not event.supported:
                    self._fail(Stage.PYTHON,
                               f"{self._named} is Python {event.version}, and 3.8 or newer is needed; "
                                             "name another with `python:` in the inventory")
                    break
                # Not sooner: what hangs before, and goes on once we have given up, finds nothing to run.
                answer += self._send(self._program.payload)
            elif isinstance(event, ExtraRequested):
                if event.name in self._given:
                    # A request is 34 bytes, and the answer thousands of times that.
                    self._fail(Stage.REPLY, f"the program asked for {event.name} twice")
                    break
                self._given.add(event.name)
                extra = self._program.extras.get(event.name, b"")
                answer += self._send(b"%d\n" % len(extra) + extra)
            elif isinstance(event, Body):
                self.body = event.data
            elif isinstance(event, Broken):
                self._fail(Stage.REPLY if self._logged_in else Stage.LOGIN, event.reason)
        return answer

    def errors(self, data: bytes) -> None:
        """Takes standard error; only its end is kept."""
        self.received += len(data)
        self._stderr_total += len(data)
        self._stderr += data
        if len(self._stderr) > self._keep:
            del self._stderr[: len(self._stderr) - self._keep]
        if self._stderr_total > MOST_STDERR and not self.over:
            self._fail(Stage.REPLY, "over 64 MiB of error output and no answer")

    def ended(self, exit_status: int | None) -> None:
        """The output has ended: sets `failure` unless decided. A signal is negative, unknown is None."""
        if self.over:
            return
        message = last_line(bytes(self._stderr))
        status = ("" if exit_status is None else f"signal {-exit_status}" if exit_status < 0
                  else f"exit {exit_status}")
        if "ulimit" not in message and (lacked := lacking(bytes(self._stderr))):
            what = (self._framer.cut() if self.python is not None else f"{self._named} could not be started"
                    if self._logged_in else "the login shell could not start our command")
            self._fail(Stage.REPLY if self.python is not None else self.stage,
                       f"{_join(what, status, message)}; {lacked}")
        elif self.python is not None:
            self._fail(Stage.REPLY, _join(self._framer.cut(), status, message))
        elif not self._logged_in:
            message = message or last_line(self._hint)
            self._fail(Stage.LOGIN, _join("the login shell ended without running our command", status,
                                          message) + (f"; try: {self._by_hand} true" if self._by_hand
                                                      else ""))
        elif self._become and not _SUDO_NO_PROGRAM.match(message):
            self._fail(Stage.BECOME, self._why_no_sudo(status, message))
        elif exit_status == 127 or _SUDO_NO_PROGRAM.match(message):
            self._fail(Stage.PYTHON, _join(f"there is no {self._named} on the node", status, message)
                       + "; install it or name another with `python:` in the inventory")
        else:
            self._fail(Stage.PYTHON, _join(f"{self._named} ended before any output", status, message))

    def lost(self, who: str) -> None:
        """The connection was lost before the program was done."""
        if self.over:
            return
        message = last_line(bytes(self._stderr))
        if self.python is not None:
            self._fail(Stage.REPLY, _join(f"the connection to {who} was lost; {self._framer.cut()}", "",
                                          message))
        else:
            self._fail(self.stage, _join(f"the connection to {who} was lost before the program ran", "",
                                         message or last_line(self._hint)), stuck=self.stage)

    def timed_out(self, seconds: float) -> Failure:
        """The failure to report when the time for what is being waited for has run out."""
        message = last_line(bytes(self._stderr))
        waited = f"after {seconds:.3g} s"
        if self.stage is Stage.LOGIN:
            message = message or last_line(self._hint)
            text = _join(f"logged in, but the shell has not run our command {waited} (hung home or rc file?)",
                         "", message)
        elif self.stage is Stage.BECOME:
            text = _join(f"sudo has not started {self._named} {waited}", "", message)
        elif self.stage is Stage.PYTHON:
            text = _join(f"{self._named} has not started {waited}", "", message)
        else:
            text = _join(f"no answer {waited}; the program is at work on Python {self.python}", "", message)
        return Failure(self.stage, text)

    def _send(self, data: bytes) -> bytes:
        self.sent += len(data)
        return data

    def _why_no_sudo(self, status: str, message: str) -> str:
        everything = self._stderr.decode("utf-8", "replace")
        if _NO_SUDO.search(everything):
            return _join("there is no sudo on the node", status, message)
        if _NOT_ALLOWED.search(everything):
            return _join("sudo does not allow it to this user", status, message)
        if _NO_TERMINAL.search(everything):
            # A terminal would mix other output into the answer, so we never ask for one.
            return _join("sudo wants a terminal (requiretty); add `Defaults:USER !requiretty` to sudoers on "
                         "the node", status, message)
        if _NO_PASSWORD.search(everything):
            return _join("sudo asks for a password; grant this user NOPASSWD, or leave out `become`", status,
                         message)
        return _join(f"sudo did not start {self._named}", status, message)

    def _fail(self, stage: Stage, reason: str, *, stuck: Stage | None = None) -> None:
        self.failure = Failure(stage, reason, stuck)


def _join(what: str, status: str, message: str) -> str:
    text = f"{what} ({status})" if status else what
    return f"{text}: {message}" if message else text
