"""Runs ipmitool(1): no shell, all bounded, the password through a pipe, in no process list or environment.
`-f` opens what it is given with fopen(3) and reads one line of at most 20 bytes (ipmitool 1.8.19,
lib/ipmi_main.c: ipmi_password_file_read): /dev/fd/N of a pipe will do."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from inventory.errors import UsageError
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.credentials import Hidden

MOST_OUT = 1 << 20
MOST_ERR = 64 * 1024
MOST_USER, MOST_PASSWORD = 16, 20       # bytes: IPMI 2.0, 22.28 and 22.30
NEEDED = ("ipmitool was not found, and this controller speaks IPMI: apt-get install -y ipmitool (or dnf "
          "install ipmitool)")


class PrivilegeLevel(Enum):
    """What a session may do. A reading asks for USER: else ipmitool may rebuild the sensors' repository."""

    USER = "USER"
    OPERATOR = "OPERATOR"
    ADMINISTRATOR = "ADMINISTRATOR"     # for accounts alone


class IpmitoolOutput(NamedTuple):
    """How ipmitool ended, and what it printed."""

    exit: int
    out: str
    err: str


class Door(NamedTuple):
    """Where the controller is, and the cipher suite that it offers."""

    address: str
    port: int
    suite: int


def found() -> str:
    """The program's path; raises UsageError that says how to get it."""
    path = shutil.which("ipmitool")
    if path is None:
        raise UsageError(NEEDED)
    return path


def usable(user: str, password: str) -> None:
    """Raises BmcError (NO_SECRET) for a name or password that IPMI 2.0 or ipmitool cannot take."""
    if not 0 < len(user.encode("utf-8", "surrogateescape")) <= MOST_USER or "\0" in user:
        raise BmcError(
            BmcErrorReason.NO_SECRET, f"the user name has to have 1 to {MOST_USER} bytes, as IPMI 2.0 has it")
    if not 0 < len(password.encode("utf-8", "surrogateescape")) <= MOST_PASSWORD:
        raise BmcError(BmcErrorReason.NO_SECRET,
                       f"the password has to have 1 to {MOST_PASSWORD} bytes: IPMI 2.0 has no room for more")
    if any(character in password for character in "\r\n\t\0"):
        raise BmcError(BmcErrorReason.NO_SECRET,
                       "the password has a tab or a line end in it, at which ipmitool would cut it off")


def run(
    program: str, door: Door, user: str, password: str, words: Sequence[str], *, level: PrivilegeLevel,
    end: float, verbose: bool = False, script: Hidden | None = None,
) -> IpmitoolOutput:
    """What `ipmitool words`, or the lines of `script`, say. Raises BmcError: TIMEOUT where it was killed at
    `end` (monotonic), and no one knows what the controller did; BROKEN for a flood."""
    with contextlib.ExitStack() as pipes:
        return _ended(_begun(program, door, user, password, words, level, verbose, script, pipes), end)


def attached(
    program: str, door: Door, user: str, password: str, words: Sequence[str], level: PrivilegeLevel,
) -> subprocess.Popen[bytes]:
    """`ipmitool words` that goes on; its standard input stays open as long as this process keeps it."""
    with contextlib.ExitStack() as pipes:
        return _begun(program, door, user, password, words, level, False, None, pipes, subprocess.PIPE)


def _begun(
    program: str, door: Door, user: str, password: str, words: Sequence[str], level: PrivilegeLevel,
    verbose: bool, script: Hidden | None, pipes: contextlib.ExitStack, stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    def written(text: str) -> int:
        """The reading end of a pipe that has this in it: far less than a pipe holds."""
        ours, theirs = os.pipe()
        pipes.callback(os.close, ours)
        with os.fdopen(theirs, "wb") as pipe:
            pipe.write(text.encode("utf-8", "surrogateescape"))
        return ours

    ours = [written(f"{password}\n")]
    if script is not None:
        ours.append(written(script.text))
        words = ("exec", f"/dev/fd/{ours[1]}")
    argv = (program, *(("-v",) if verbose else ()), "-I", "lanplus", "-H", door.address, "-p", str(door.port),
            "-U", user, "-f", f"/dev/fd/{ours[0]}", "-C", str(door.suite), "-L", level.value, "-N", "2", "-R",
            "3", *words)
    # Times as the controller keeps them; a session of its own has no terminal on which to ask for anything.
    return subprocess.Popen(
        argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=tuple(ours),
        start_new_session=True, env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC0"})


def _ended(child: subprocess.Popen[bytes], end: float) -> IpmitoolOutput:
    with child:
        try:
            return _read(child, end)
        finally:
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)


def _read(child: subprocess.Popen[bytes], end: float) -> IpmitoolOutput:
    pipes = [pipe.fileno() for pipe in (child.stdout, child.stderr) if pipe is not None]
    kept = {pipe: bytearray() for pipe in pipes}
    most = dict(zip(pipes, (MOST_OUT, MOST_ERR), strict=True))
    with selectors.DefaultSelector() as selector:
        for each in kept:
            selector.register(each, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise BmcError(BmcErrorReason.TIMEOUT, "ipmitool had no answer in time", done=None)
            for key, _ in ready:
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fd)
                kept[key.fd] += data
                if len(kept[key.fd]) > most[key.fd]:
                    raise BmcError(
                        BmcErrorReason.BROKEN, f"ipmitool printed over {most[key.fd]} bytes", done=None)
    try:
        code = child.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise BmcError(BmcErrorReason.TIMEOUT, "ipmitool had no answer in time", done=None) from None
    out, err = (bytes(one).decode("utf-8", "replace") for one in kept.values())
    return IpmitoolOutput(code, out, err)
