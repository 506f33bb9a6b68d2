"""Passwords of management controllers: read late from where the inventory says, shown nowhere. What a
password's command prints, and what a file holds, is in no error, log or repr. Whoever needs the text asks for
it by name, `Hidden.text`, at the one place that hands it to the controller."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import threading
from collections.abc import Callable, Iterable

from inventory.model import Node, Secret, SecretFrom
from inventory.text import clean, short
from provisioning.bmc.base import BmcError, BmcErrorReason

COMMAND_S = 20.0
_MOST = 4096        # bytes; no controller takes as many


class Hidden:
    """Text that does not show itself: not by str, repr or format, nor in tracebacks; `text` is it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return "Hidden"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "Hidden"

    def __reduce__(self) -> str:
        raise TypeError("a password is not written anywhere")


class NoSuchPassword(BmcError):
    """Whoever was asked for a password ended by itself, and gave none."""


def without(message: bytes, unreported: Iterable[Hidden]) -> bytes:
    """What someone said, with these texts left out, as they are and as JSON spells them."""
    for one in unreported:
        for text in (one.text, json.dumps(one.text)[1:-1], json.dumps(one.text, ensure_ascii=False)[1:-1]):
            message = message.replace(text.encode(), b"(not shown)")
    return message


_TAKEN: dict[str, Hidden] = {}
_TAKING = threading.Lock()


def login(node: Node) -> tuple[str, Hidden]:
    """The user and password for a node's controller. Raises BmcError(NO_SECRET), which says what to do."""
    bmc = node.bmc
    if bmc is None or bmc.user is None:
        raise BmcError(
            BmcErrorReason.NO_SECRET,
            f"the inventory names no user for the controller of {node.name}; add bmc: {{user: NAME}}")
    if bmc.secret is None:
        raise BmcError(
            BmcErrorReason.NO_SECRET,
            f"the inventory does not say where the password for the controller of {node.name} is; say bmc: "
            f"{{password: {{file: PATH}}}}, {{env: NAME}} or {{command: [PROGRAM, ...]}}")
    return bmc.user, secret(bmc.secret, node.name)


def supplier(node: Node) -> Callable[[], tuple[str, str]]:
    """What gives the user and the password's text when it is called, for whoever hands both on at once."""
    def give() -> tuple[str, str]:
        user, hidden = login(node)
        return user, hidden.text
    return give


def secret(where: Secret, node: str) -> Hidden:
    """The password: the variable, or the first line of file or program. Raises BmcError(NO_SECRET)."""
    words = tuple(word.replace("{node}", node) for word in where.words)
    if where.source is SecretFrom.ENV:
        name = where.words[0].replace("{node}", re.sub(r"[-.]", "_", node))
        return _password(_variable(name), f"the variable {name}")
    return _password(_file(words[0]) if where.source is SecretFrom.FILE else _command(words), short(words[0]))


def _password(data: bytes, what: str) -> Hidden:
    line = data.splitlines()[0] if data.strip() else b""
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BmcError(BmcErrorReason.NO_SECRET, f"{what} gives a password that is not UTF-8 text") from None
    if not text:
        raise NoSuchPassword(BmcErrorReason.NO_SECRET, f"{what} gives no password")
    if not text.isprintable() or len(line) > _MOST:
        raise BmcError(BmcErrorReason.NO_SECRET, f"{what} gives a text that cannot be a password")
    return Hidden(text)


def _variable(name: str) -> bytes:
    """What a variable holds. It leaves our environment, so that no program that we start gets it."""
    with _TAKING:
        if name in os.environ:
            _TAKEN[name] = Hidden(os.environ.pop(name))
        return _TAKEN[name].text.encode("utf-8", "surrogateescape") if name in _TAKEN else b""


def _file(path: str) -> bytes:
    """What a file holds that no one but its owner may read."""
    try:
        # Not to hang on a FIFO that no one writes to.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise BmcError(BmcErrorReason.NO_SECRET, f"{clean(path)} is not a regular file")
            if status.st_mode & 0o077:
                raise BmcError(BmcErrorReason.NO_SECRET,
                               f"{clean(path)} may be read by others (mode "
                               f"{stat.S_IMODE(status.st_mode):04o}); change that: chmod 600 {clean(path)}")
            if status.st_uid not in (os.geteuid(), 0):
                raise BmcError(
                    BmcErrorReason.NO_SECRET, f"{clean(path)} belongs to another user, who could change it")
            return os.read(descriptor, _MOST + 1)
        finally:
            os.close(descriptor)
    except OSError as problem:
        raise BmcError(
            BmcErrorReason.NO_SECRET, f"{clean(path)} cannot be read: {problem.strerror}") from None


def _command(words: tuple[str, ...], seconds: float = COMMAND_S) -> bytes:
    """What a program prints; what it says on standard error goes nowhere, since it may say too much."""
    data, status = run_hidden(words, None, f"gave no password within {seconds:g} s", seconds)
    if status < 0:
        raise BmcError(BmcErrorReason.NO_SECRET,
                       f"{short(words[0])} gave no password: it was ended by signal {-status}")
    if status != 0:
        raise NoSuchPassword(BmcErrorReason.NO_SECRET,
                             f"{short(words[0])} gave no password: it ended with exit code {status}; run it "
                             "by hand to see why")
    return data


def run_hidden(
    words: tuple[str, ...], given: bytes | None, late: str, seconds: float = COMMAND_S,
) -> tuple[bytes, int]:
    """What a program prints and its exit code. With `given`, which it reads, what it prints goes nowhere: it
    may be the same. Raises BmcError, with `late` where it does not end in time."""
    what = short(words[0])
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
            stdout=subprocess.PIPE if given is None else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
    except OSError as problem:
        raise BmcError(BmcErrorReason.NO_SECRET, f"{what} cannot be started: {problem.strerror}") from None
    try:
        data, _ = process.communicate(given, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise BmcError(BmcErrorReason.NO_SECRET, f"{what} {late}") from None
    finally:
        if process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return data or b"", process.returncode
